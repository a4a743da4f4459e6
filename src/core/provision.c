/* SPDX-License-Identifier: Apache-2.0 */
#include "core/provision.h"

#include "base/io.h"
#include "base/util.h"
#include "os/copytree.h"

#include <fcntl.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define DIGEST_LEN 32
#define DIGEST_HEX (2 * DIGEST_LEN + 1)

bool provision_wanted(const struct spec *s)
{
	return json_array_size(s->provision) > 0;
}

/* ---- what it depends on --------------------------------------------------------- */

static json_t *image_json(const struct spec *s)
{
	struct stat st = {0};

	if (s->image.kind == IMAGE_HOST)
		return json_string("host");
	if (stat(s->image.value, &st) < 0)
		st.st_ino = 0;
	return json_pack("{s:i, s:s%, s:I, s:I, s:I, s:I}", "kind", (int)s->image.kind,
			 "path", s->image.value, strlen(s->image.value), "dev",
			 (json_int_t)st.st_dev, "ino", (json_int_t)st.st_ino, "mtime",
			 (json_int_t)st.st_mtim.tv_sec, "ns",
			 (json_int_t)st.st_mtim.tv_nsec);
}

static json_t *inputs_json(const struct spec *s)
{
	json_t *env = json_array();
	int r = env ? 0 : -1;

	for (size_t i = 0; r == 0 && i < s->exec.env.n; i++)
		r = json_array_append_new(env, json_string(s->exec.env.v[i]));
	if (r < 0) {
		json_decref(env);
		return NULL;
	}
	return json_pack(
		"{s:s, s:O, s:o, s:s, s:o, s:I}", "version", COVE_VERSION, "commands",
		s->provision, "image", image_json(s), "user",
		s->exec.user ? s->exec.user : "", "env", env, "disk",
		(json_int_t)(spec_image_is_disk(s) ? s->resources.disk_bytes : 0));
}

static int digest(const struct spec *s, char out[DIGEST_HEX], struct cove_error *err)
{
	json_t *j = inputs_json(s);
	cleanup_free char *text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	unsigned char sum[DIGEST_LEN];

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	crypto_generichash(sum, sizeof(sum), (const unsigned char *)text, strlen(text),
			   NULL, 0);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	return 0;
}

/* ---- the cache ------------------------------------------------------------------ */

static int open_cache(struct store *st, struct cove_error *err)
{
	cleanup_fd int cache = open(st->cache, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (cache < 0 || (mkdirat(cache, "provision", 0700) < 0 && errno != EEXIST))
		return fail(err, COVE_EIO, errno, "%s/provision", st->cache);
	fd = openat(cache, "provision", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? fail(err, COVE_EIO, errno, "%s/provision", st->cache) : fd;
}

static bool has_entry(int cache, const char *name)
{
	struct stat st;

	return fstatat(cache, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int wait_lock(int cache, const char *name, const struct provision_hooks *h,
		     int *ret, struct cove_error *err)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	char file[DIGEST_HEX + 8];

	snprintf(file, sizeof(file), "%s.lock", name);
	cleanup_fd int fd =
		openat(cache, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "lock of provision");
	for (bool told = false; flock(fd, LOCK_EX | LOCK_NB) < 0;) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return fail(err, COVE_EIO, errno, "lock of provision");
		if (!told && h->progress)
			h->progress(h->arg, "provision: waiting for another one's", -1);
		told = true;
		nanosleep(&pause, NULL);
	}
	*ret = take_fd(&fd);
	return 0;
}

/* Under the lock. The entry appears by one rename, complete and on disk. */
static int make_entry(struct store *st, const struct spec *s, int cache, const char *name,
		      const struct provision_hooks *h, struct cove_error *err)
{
	char tmp[DIGEST_HEX + 8];
	int r;

	snprintf(tmp, sizeof(tmp), ".new-%s", name);
	r = remove_tree_at(cache, tmp);
	if (r == 0 && mkdirat(cache, tmp, 0700) < 0)
		r = -errno;
	if (r < 0)
		return fail(err, COVE_EIO, -r, "provision cache");
	cleanup_fd int to =
		openat(cache, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return fail(err, COVE_EIO, errno, "provision cache");
	r = provision_run(st, s, to, h, err);
	if (r == 0 && (syncfs(to) < 0 || renameat(cache, tmp, cache, name) < 0))
		r = fail(err, COVE_EIO, errno, "provision cache");
	if (r < 0)
		remove_tree_at(cache, tmp);
	return r;
}

/* Nothing is copied to a sandbox that keeps its home and has one. */
static bool has_home(struct store *st, const struct spec *s, const char *name)
{
	char path[SPEC_NAME_MAX + 16];
	struct stat sb;

	if (!name || s->storage == STORAGE_EPHEMERAL)
		return false;
	snprintf(path, sizeof(path), "%s/home", name);
	return fstatat(st->boxes, path, &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

int provision_ensure(struct store *st, const struct spec *s, const char *name,
		     const struct provision_hooks *h, struct cove_error *err)
{
	char entry[DIGEST_HEX];
	int r = 0;

	if (!provision_wanted(s) || has_home(st, s, name))
		return 0;
	if (digest(s, entry, err) < 0)
		return err->code;
	cleanup_fd int cache = open_cache(st, err);
	if (cache < 0)
		return cache;
	if (has_entry(cache, entry))
		return 0;
	cleanup_fd int lock = -1;
	if (wait_lock(cache, entry, h, &lock, err) < 0)
		return err->code;
	if (!has_entry(cache, entry))
		r = make_entry(st, s, cache, entry, h, err);
	return r;
}

/* ---- into a sandbox ------------------------------------------------------------- */

static int copy_part(int entry, const char *from, int to, const char *name,
		     struct cove_error *err)
{
	struct copytree c = {.label = from, .known_dir = -1};
	char half[32];
	cleanup_fd int src =
		openat(entry, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (src < 0)
		return fail(err, COVE_EIO, errno, "provision cache: %s", from);
	snprintf(half, sizeof(half), "%s.new", name);
	r = remove_tree_at(to, half);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "provision: %s", name);
	if (copytree(&c, src, to, half, err) < 0)
		return err->code;
	if (renameat(to, half, to, name) < 0)
		return fail(err, COVE_EIO, errno, "provision: %s", name);
	return 0;
}

int provision_install(struct store *st, const struct spec *s, int record,
		      struct cove_error *err)
{
	char entry[DIGEST_HEX];
	struct stat sb;
	int r;

	/* home comes last: what is here without it was cut off */
	if (fstatat(record, "home", &sb, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (digest(s, entry, err) < 0)
		return err->code;
	cleanup_fd int cache = open_cache(st, err);
	if (cache < 0)
		return cache;
	cleanup_fd int from =
		openat(cache, entry, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0) {
		fail(err, COVE_EIO, 0, "what provision made is not in the cache");
		return hint(err, "start it again: then it is made anew");
	}
	if (spec_image_is_disk(s)) {
		r = remove_tree_at(record, "root");
		if (r < 0)
			return fail(err, COVE_EIO, -r, "provision: root");
		if (copy_part(from, "root", record, "root", err) < 0)
			return err->code;
	}
	if (spec_image_is_tree(s)) {
		r = remove_tree_at(record, "root");
		if (r == 0 && mkdirat(record, "root", 0700) < 0)
			r = -errno;
		if (r < 0)
			return fail(err, COVE_EIO, -r, "provision: root");
		cleanup_fd int root = openat(
			record, "root", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (copy_part(from, "root", root, "upper", err) < 0)
			return err->code;
	}
	return copy_part(from, "home", record, "home", err);
}
