/* SPDX-License-Identifier: Apache-2.0 */
#include "core/image_impl.h"

#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "core/diskwatch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LOCKS ".locks"
#define MARK "@sha256:"
#define BYTES_MAX (64ull << 30) /* of a spec without a limit of its own */

/* ---- what a spec says ----------------------------------------------------------- */

static bool is_hex(const char *s, size_t n)
{
	return strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

static void set_digest(struct image_ref *ref, const char *digest)
{
	snprintf(ref->digest, sizeof(ref->digest), "%s", digest);
	snprintf(ref->key, sizeof(ref->key), "%.*s", IMAGE_KEY_HEX - 1, digest);
}

int image_ref_parse(struct image_ref *ret, const struct spec *s, struct cove_error *err)
{
	const char *value = s->image.value, *mark = NULL;

	for (const char *at = strstr(value, MARK); at; at = strstr(at + 1, MARK))
		mark = at;
	if (mark && !is_hex(mark + strlen(MARK), SHA256_HEX - 1))
		mark = NULL; /* a strange name, but a name */
	*ret = (struct image_ref){.digest = ""};
	if (snprintf(ret->path, sizeof(ret->path), "%.*s",
		     mark ? (int)(mark - value) : (int)strlen(value),
		     value) >= (int)sizeof(ret->path))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "its path");
	if (mark)
		set_digest(ret, mark + strlen(MARK));
	return 0;
}

static int make_absolute(struct image_ref *ref, struct cove_error *err)
{
	cleanup_free char *full = realpath(ref->path, NULL);

	if (!full)
		return fail(err, COVE_EINVAL, errno, "%s", ref->path);
	snprintf(ref->path, sizeof(ref->path), "%s", full);
	return 0;
}

static int find_digest(const struct store *st, struct image_ref *ref,
		       struct cove_error *err)
{
	cleanup_fd int folder = image_folder(st, err);
	cleanup_fd int fd = open(ref->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char digest[SHA256_HEX];

	if (folder < 0)
		return err->code;
	if (fd < 0)
		return fail(err, COVE_EINVAL, errno, "%s", ref->path);
	if (image_digest(folder, ref->path, fd, digest, err) < 0)
		return err->code;
	set_digest(ref, digest);
	return 0;
}

static int resolve_tar(const struct store *st, struct spec *s, struct cove_error *err)
{
	struct image_ref ref;
	char value[PATH_MAX + 100];

	if (image_ref_parse(&ref, s, err) < 0)
		return err->code;
	/* One that is known by its digest need not be there any more. */
	if ((!ref.digest[0] || ref.path[0] != '/') && make_absolute(&ref, err) < 0)
		return err->code;
	if (!ref.digest[0] && find_digest(st, &ref, err) < 0)
		return err->code;
	snprintf(value, sizeof(value), "tar:%s" MARK "%s", ref.path, ref.digest);
	return spec_set(s, "image.source", value, err);
}

int image_resolve(const struct store *st, struct spec *s, struct cove_error *err)
{
	int r = s->image.kind == IMAGE_TAR ? resolve_tar(st, s, err) : 0;

	return r < 0 ? wrap(err, "image") : 0;
}

/* ---- the directory -------------------------------------------------------------- */

int image_folder(const struct store *st, struct cove_error *err)
{
	char path[PATH_MAX];
	int fd, r;

	if (snprintf(path, sizeof(path), "%s/images", st->home) >= (int)sizeof(path))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", st->home);
	r = mkdir_p(path, 0700);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "create %s", path);
	fd = open(path, OPEN_DIR);
	return fd < 0 ? fail(err, COVE_EIO, errno, "open %s", path) : fd;
}

int image_lock_file(int folder, const char *key, struct cove_error *err)
{
	char path[IMAGE_KEY_HEX + 16];
	int fd;

	if (mkdirat(folder, LOCKS, 0700) < 0 && errno != EEXIST)
		return fail(err, COVE_EIO, errno, "locks of images");
	snprintf(path, sizeof(path), LOCKS "/%s", key);
	fd = openat(folder, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? fail(err, COVE_EIO, errno, "lock of image %s", key) : fd;
}

bool image_there(int folder, const char *key)
{
	char path[IMAGE_KEY_HEX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" IMAGE_ROOT, key);
	return fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

static int wait_lock(int fd, int how, struct cove_error *err)
{
	while (flock(fd, how) < 0)
		if (errno != EINTR)
			return fail(err, COVE_EIO, errno, "lock of an image");
	return 0;
}

static void sweep_one(int folder, const char *name)
{
	struct cove_error ignored = {0};
	const char *key = name + strlen(IMAGE_NEW);

	if (!is_hex(key, IMAGE_KEY_HEX - 1))
		return;
	cleanup_fd int lock = image_lock_file(folder, key, &ignored);
	if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
		remove_tree_at(folder, name);
}

void image_sweep(int folder)
{
	int fd = openat(folder, ".", OPEN_DIR);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	_Static_assert(sizeof(IMAGE_NEW) == sizeof(IMAGE_OLD), "see sweep_one()");
	if (!d) {
		closep(&fd);
		return;
	}
	while ((e = readdir(d)))
		if (strncmp(e->d_name, IMAGE_NEW, strlen(IMAGE_NEW)) == 0 ||
		    strncmp(e->d_name, IMAGE_OLD, strlen(IMAGE_OLD)) == 0)
			sweep_one(folder, e->d_name);
	closedir(d);
}

/* ---- unpacking ------------------------------------------------------------------ */

static int write_manifest(int dir, const struct image_ref *ref,
			  const struct image_facts *f, struct cove_error *err)
{
	json_t *o = json_pack(
		"{s:i, s:s, s:s+, s:s%, s:I, s:I, s:I, s:I}", "format", IMAGE_FORMAT,
		"kind", "tar", "digest", "sha256:", ref->digest, "source", ref->path,
		strlen(ref->path), "entries", (json_int_t)f->entries, "devices",
		(json_int_t)f->devices, "bytes", (json_int_t)disk_usage(dir, IMAGE_ROOT),
		"madeAt", (json_int_t)time(NULL));
	cleanup_free char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	int r;

	json_decref(o);
	if (!text)
		return fail_nomem(err);
	r = write_file_atomic(dir, IMAGE_MANIFEST, text, strlen(text), 0600, 0);
	return r < 0 ? fail(err, COVE_EIO, -r, "manifest") : 0;
}

/* It was read twice, once for its digest: is it still the same? */
static int check_unchanged(int file, const struct stat *then, struct cove_error *err)
{
	struct stat now;

	if (fstat(file, &now) < 0 || now.st_size != then->st_size ||
	    now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != then->st_mtim.tv_nsec)
		return fail(err, COVE_ESTATE, 0, "the file changed while it was read");
	return 0;
}

static int unpack_into(int dir, const struct image_ref *ref, int file,
		       const struct stat *then, uint64_t bytes_max,
		       struct cove_error *err)
{
	struct image_facts facts;

	if (mkdirat(dir, IMAGE_ROOT, 0755) < 0)
		return fail(err, COVE_EIO, errno, "make a directory to unpack in");
	cleanup_fd int root = openat(dir, IMAGE_ROOT, OPEN_DIR);
	/* its mode is the image's, whatever our umask */
	if (root < 0 || fchmod(root, 0755) < 0)
		return fail(err, COVE_EIO, errno, "make a directory to unpack in");
	if (image_unpack(file, root, bytes_max, &facts, err) < 0 ||
	    check_unchanged(file, then, err) < 0 ||
	    write_manifest(dir, ref, &facts, err) < 0)
		return err->code;
	if (syncfs(dir) < 0)
		return fail(err, COVE_EIO, errno, "sync");
	if (facts.devices)
		log_line(LOG_WARNING,
			 "image %s: %llu device nodes were left out; the sandbox has a "
			 "/dev of its own",
			 ref->path, (unsigned long long)facts.devices);
	return 0;
}

/* The file that the spec means, open; *then: as it was before its digest was taken. */
static int open_file(int folder, const struct image_ref *ref, struct stat *then,
		     struct cove_error *err)
{
	cleanup_fd int fd = open(ref->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char digest[SHA256_HEX];

	if (fd < 0 || fstat(fd, then) < 0) {
		fail(err, COVE_ENOENT, errno, "%s", ref->path);
		return hint(err, "what was unpacked of it (%s) is not here either",
			    ref->key);
	}
	if (image_digest(folder, ref->path, fd, digest, err) < 0)
		return err->code;
	if (strcmp(digest, ref->digest) == 0)
		return take_fd(&fd);
	fail(err, COVE_ESTATE, 0, "%s has changed: it is not sha256:%s any more",
	     ref->path, ref->digest);
	return hint(err, "put the old one back, or 'cove set NAME --image tar:%s'",
		    ref->path);
}

/* Under the exclusive lock. */
static int make(int folder, const struct image_ref *ref, uint64_t bytes_max,
		struct cove_error *err)
{
	struct stat then;
	cleanup_fd int file = open_file(folder, ref, &then, err);
	char tmp[IMAGE_KEY_HEX + 16];
	int r;

	if (file < 0)
		return file;
	log_line(LOG_WARNING, "image %s: unpacking it, once", ref->path);
	image_sweep(folder);
	snprintf(tmp, sizeof(tmp), IMAGE_NEW "%s", ref->key);
	r = remove_tree_at(folder, tmp);
	if (r == 0 && mkdirat(folder, tmp, 0700) < 0)
		r = -errno;
	if (r < 0)
		return fail(err, COVE_EIO, -r, "make a directory to unpack in");
	cleanup_fd int dir = openat(folder, tmp, OPEN_DIR);
	r = dir < 0 ? fail(err, COVE_EIO, errno, "make a directory to unpack in")
		    : unpack_into(dir, ref, file, &then, bytes_max, err);
	if (r == 0 && (renameat(folder, tmp, folder, ref->key) < 0 || fsync(folder) < 0))
		r = fail(err, COVE_EIO, errno, "keep what was unpacked");
	if (r < 0)
		remove_tree_at(folder, tmp);
	return r;
}

/* Shared at the end, as whoever else runs with it. */
static int hold(int folder, const struct image_ref *ref, uint64_t bytes_max, int lock,
		struct cove_error *err)
{
	for (;;) {
		if (wait_lock(lock, LOCK_SH, err) < 0)
			return err->code;
		if (image_there(folder, ref->key))
			return 0;
		/* Others may be first: then it is there. Between the two locks it may
		 * also be removed again. */
		if (wait_lock(lock, LOCK_EX, err) < 0)
			return err->code;
		if (!image_there(folder, ref->key) &&
		    make(folder, ref, bytes_max, err) < 0)
			return err->code;
	}
}

static int use_tar(const struct store *st, const struct spec *s, struct image *ret,
		   struct cove_error *err)
{
	uint64_t limit = s->resources.disk_bytes;
	struct image_ref ref;

	if (image_ref_parse(&ref, s, err) < 0)
		return err->code;
	if (!ref.digest[0] && find_digest(st, &ref, err) < 0)
		return err->code;
	cleanup_fd int folder = image_folder(st, err);
	cleanup_fd int lock = folder < 0 ? -1 : image_lock_file(folder, ref.key, err);
	if (lock < 0 || hold(folder, &ref, limit ? limit : BYTES_MAX, lock, err) < 0)
		return err->code;
	if (snprintf(ret->root, sizeof(ret->root), "%s/images/%s/" IMAGE_ROOT, st->home,
		     ref.key) >= (int)sizeof(ret->root))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", st->home);
	ret->lock = take_fd(&lock);
	return 0;
}

int image_use(const struct store *st, const struct spec *s, struct image *ret,
	      struct cove_error *err)
{
	*ret = (struct image)IMAGE_NONE;
	switch (s->image.kind) {
	case IMAGE_ROOTFS:
		snprintf(ret->root, sizeof(ret->root), "%s", s->image.value);
		return 0;
	case IMAGE_TAR:
		return use_tar(st, s, ret, err) < 0 ? wrap(err, "image") : 0;
	default:
		return 0;
	}
}

void image_release(struct image *im)
{
	close_fd(&im->lock);
	im->root[0] = '\0';
}
