/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/template.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FORMAT 6 /* of the machine: devices, ports, kernel command line */
#define FOLDER "templates"
#define INFO "info.json"
#define MAKING ".making"
#define FORGONE ".forgone"
#define NAP_MS 20
#define HELD_MS 20000 /* how long a start may hold one that is to be removed */
/* One that nothing here would look for is kept for so long after its last use: two
 * versions of cove, used in turns, do not throw away each other's. */
#define STALE_S 3600
#define FORGONE_S 3600
#define STATE_MAX (64u << 20) /* it is about 160 KiB */

static void hex(char *out, const unsigned char *bytes, size_t n)
{
	hex_text(out, bytes, n);
	out[2 * n] = '\0';
}

static bool is_key(const char *name)
{
	return strlen(name) == TEMPLATE_KEY_HEX - 1 &&
	       strspn(name, "0123456789abcdef") == TEMPLATE_KEY_HEX - 1;
}

static DIR *open_folder(const char *cache_dir)
{
	char folder[4200];

	snprintf(folder, sizeof(folder), "%s/" FOLDER, cache_dir);
	return opendir(folder);
}

static void make_key(char key[TEMPLATE_KEY_HEX], const struct template_id *id)
{
	unsigned char hash[(TEMPLATE_KEY_HEX - 1) / 2];
	char text[2048];
	int n = snprintf(text, sizeof(text),
			 "%d\n%s\n%s\n%s\n%llu\n%u\n%llu\n%llu\n%d\n%s\n%s\n%s\n", FORMAT,
			 id->digest, id->qemu, id->kvm ? "kvm" : "tcg",
			 (unsigned long long)id->tsc_mhz, id->cpus,
			 (unsigned long long)id->memory, (unsigned long long)id->swap,
			 id->disks, id->append, id->processor, id->begun);

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)text, (size_t)n,
			   NULL, 0);
	hex(key, hash, sizeof(hash));
}

int template_find(struct template *t, const char *cache_dir, const struct template_id *id,
		  struct cove_error *err)
{
	char folder[4100];
	int r;

	*t = (struct template){.lock = -1, .held = -1};
	make_key(t->key, id);
	snprintf(folder, sizeof(folder), "%s/" FOLDER, cache_dir);
	r = mkdir_p(folder, 0700);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "template: %s", folder);
	snprintf(t->dir, sizeof(t->dir), "%s/%s", folder, t->key);
	snprintf(t->making, sizeof(t->making), "%s" MAKING, t->dir);
	return 0;
}

/* ---- whole or not --------------------------------------------------------------- */

static json_t *read_info(int dir)
{
	cleanup_buf struct buf text = BUF_INIT(65536);

	return read_file_at(dir, INFO, &text) < 0 || !text.len
		       ? NULL
		       : json_loadb(text.data, text.len, 0, NULL);
}

/* All but the memory is small, and all of it is looked at. */
static int digest_files(int dir, bool begun, char out[TEMPLATE_KEY_HEX])
{
	static const char *const files[] = {"state", "tables"};
	unsigned char hash[(TEMPLATE_KEY_HEX - 1) / 2];
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, sizeof(hash));
	for (size_t i = 0; i < (begun ? 2 : 1); i++) {
		cleanup_buf struct buf text = BUF_INIT(STATE_MAX);
		int r = read_file_at(dir, files[i], &text);

		if (r < 0)
			return r;
		crypto_generichash_update(&h, (const unsigned char *)text.data, text.len);
	}
	crypto_generichash_final(&h, hash, sizeof(hash));
	hex(out, hash, sizeof(hash));
	return 0;
}

static const char *find_fault(int dir, const json_t *info, const struct template_id *id)
{
	const char *want = json_string_value(json_object_get(info, "stateDigest"));
	char have[TEMPLATE_KEY_HEX];
	struct stat st;

	if (!want)
		return "its description";
	if (fstatat(dir, "ram", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != id->memory)
		return "its memory";
	if (digest_files(dir, *id->begun, have) < 0 || strcmp(have, want) != 0)
		return "its state";
	return NULL;
}

bool template_ready(const struct template *t, const struct template_id *id,
		    const char **ret_fault)
{
	cleanup_fd int dir = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *info;

	*ret_fault = NULL;
	if (dir < 0)
		return false;
	info = read_info(dir);
	*ret_fault = find_fault(dir, info, id);
	json_decref(info);
	return !*ret_fault;
}

/* ---- holding one ---------------------------------------------------------------- */

/* Is this descriptor still what the name stands for? */
static bool same_file(int fd, int dir, const char *name)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

bool template_hold(struct template *t)
{
	template_let_go(t);
	t->held = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->held >= 0 && flock(t->held, LOCK_SH | LOCK_NB) == 0 &&
	    same_file(t->held, AT_FDCWD, t->dir) &&
	    fstatat(t->held, "ram", &t->ram, AT_SYMLINK_NOFOLLOW) == 0) {
		futimens(t->held, NULL); /* see STALE_S */
		return true;
	}
	template_let_go(t);
	return false;
}

void template_let_go(struct template *t)
{
	close_fd(&t->held);
}

/* False: somebody goes on from it. */
static bool remove_idle(int dir, const char *name, int wait_ms)
{
	const struct timespec nap = {0, NAP_MS * 1000000};
	cleanup_fd int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (wait_ms <= 0)
			return false;
		nanosleep(&nap, NULL);
		wait_ms -= NAP_MS;
	}
	if (same_file(fd, dir, name))
		remove_tree_at(dir, name);
	return true;
}

/* ---- making one ----------------------------------------------------------------- */

int template_lock(struct template *t, struct cove_error *err)
{
	char path[4300];

	snprintf(path, sizeof(path), "%s.lock", t->dir);
	t->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (t->lock < 0)
		return fail(err, COVE_EIO, errno, "template: %s", path);
	while (flock(t->lock, LOCK_EX) < 0)
		if (errno != EINTR)
			return fail(err, COVE_EIO, errno, "template: %s", path);
	return 0;
}

void template_unlock(struct template *t)
{
	close_fd(&t->lock);
}

int template_begin(struct template *t, struct cove_error *err)
{
	remove_tree_at(AT_FDCWD, t->making);
	if (mkdir(t->making, 0700) < 0)
		return fail(err, COVE_EIO, errno, "template: %s", t->making);
	return 0;
}

void template_drop(struct template *t)
{
	remove_tree_at(AT_FDCWD, t->making);
	remove_tree_at(AT_FDCWD, t->dir);
}

static bool is_young(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_mtime > time(NULL) - FORGONE_S;
}

void template_forgo(struct template *t)
{
	char path[4300];
	int fd;

	snprintf(path, sizeof(path), "%s" FORGONE, t->dir);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	close_fd(&fd);
}

bool template_forgone(const struct template *t)
{
	char path[4300];

	snprintf(path, sizeof(path), "%s" FORGONE, t->dir);
	return is_young(AT_FDCWD, path);
}

static int sync_one(int dir, const char *name)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* A name that is there after a crash of the host stands for what was written. */
static int sync_all(int dir, bool begun)
{
	static const char *const files[] = {"ram", "state", INFO, "tables"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(files) - !begun; i++)
		r = sync_one(dir, files[i]);
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	return r;
}

static void sync_parent(const char *path)
{
	char parent[4200];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (!slash)
		return;
	*slash = '\0';
	cleanup_fd int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		fsync(fd);
}

int template_commit(struct template *t, const struct template_id *id,
		    struct cove_error *err)
{
	cleanup_fd int dir = open(t->making, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char digest[TEMPLATE_KEY_HEX];
	int r = dir < 0 ? -errno : digest_files(dir, *id->begun, digest);
	cleanup_free char *text = NULL;
	json_t *o;

	if (r < 0)
		return fail(err, COVE_EIO, -r, "template: %s", t->making);
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:I, s:s}", "key", t->key,
		      "kernel", id->kernel, "digest", id->digest, "processor",
		      id->processor, "qemu", id->qemu, "cpus", (int)id->cpus, "memoryMiB",
		      (json_int_t)(id->memory >> 20), "accelerator",
		      id->kvm ? "kvm" : "tcg", "madeAt", (json_int_t)time(NULL),
		      "stateDigest", digest);
	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	json_decref(o);
	if (!text)
		return fail_nomem(err);
	r = write_file_in(t->making, INFO, text, strlen(text), 0600, 0);
	if (r == 0)
		r = sync_all(dir, *id->begun);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "template: %s/" INFO, t->making);
	remove_tree_at(AT_FDCWD, t->dir);
	if (rename(t->making, t->dir) < 0)
		return fail(err, COVE_EIO, errno, "template: %s", t->dir);
	sync_parent(t->dir);
	return 0;
}

/* Whoever makes one holds its lock. */
static void sweep_one(int dir, const char *making)
{
	char lock[TEMPLATE_KEY_HEX + 8];
	cleanup_fd int fd = -1;

	snprintf(lock, sizeof(lock), "%.*s.lock", TEMPLATE_KEY_HEX - 1, making);
	fd = openat(dir, lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		remove_tree_at(dir, making);
}

static bool differs(const json_t *info, const char *key, const char *want)
{
	const char *have = json_string_value(json_object_get(info, key));

	return !have || strcmp(have, want) != 0;
}

static bool is_stale(int dir, const char *name, const struct template_id *id)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *info = fd < 0 ? NULL : read_info(fd);
	struct stat st;
	bool stale;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_mtime > time(NULL) - STALE_S) {
		json_decref(info);
		return false;
	}
	stale = !info || differs(info, "qemu", id->qemu) ||
		differs(info, "processor", id->processor) ||
		(!differs(info, "kernel", id->kernel) &&
		 differs(info, "digest", id->digest));
	json_decref(info);
	return stale;
}

static bool is_key_with(const char *name, const char *end)
{
	return strlen(name) == TEMPLATE_KEY_HEX - 1 + strlen(end) &&
	       strcmp(name + TEMPLATE_KEY_HEX - 1, end) == 0;
}

void template_sweep(const char *cache_dir, const struct template_id *id)
{
	DIR *d = open_folder(cache_dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (is_key_with(e->d_name, MAKING))
			sweep_one(dirfd(d), e->d_name);
		else if (is_key_with(e->d_name, FORGONE) &&
			 !is_young(dirfd(d), e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
		else if (is_key(e->d_name) && is_stale(dirfd(d), e->d_name, id))
			remove_idle(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

/* ---- all of them ---------------------------------------------------------------- */

static uint64_t size_of(int dir, const char *name)
{
	static const char *const files[] = {"ram", "state"};
	uint64_t bytes = 0;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char path[400];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			bytes += (uint64_t)st.st_blocks * 512;
	}
	return bytes;
}

static json_t *describe(int dir, const char *name)
{
	cleanup_buf struct buf text = BUF_INIT(65536);
	char path[400];
	json_t *o;

	snprintf(path, sizeof(path), "%s/" INFO, name);
	if (read_file_at(dir, path, &text) < 0)
		return NULL;
	o = json_loadb(text.data, text.len, 0, NULL);
	if (!json_is_object(o) ||
	    json_object_set_new(o, "bytes",
				json_integer((json_int_t)size_of(dir, name)))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

json_t *template_list(const char *cache_dir, struct cove_error *err)
{
	DIR *d = open_folder(cache_dir);
	json_t *list = json_array();
	struct dirent *e;

	while (list && d && (e = readdir(d))) {
		json_t *o = is_key(e->d_name) ? describe(dirfd(d), e->d_name) : NULL;

		if (o)
			json_array_append_new(list, o);
	}
	if (d)
		closedir(d);
	if (!list)
		fail_nomem(err);
	return list;
}

static int count_matches(DIR *d, const char *key)
{
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)))
		n += is_key(e->d_name) && strncmp(e->d_name, key, strlen(key)) == 0;
	rewinddir(d);
	return n;
}

int template_remove(const char *cache_dir, const char *key, struct cove_error *err)
{
	DIR *d = open_folder(cache_dir);
	const char *want = key ? key : "";
	struct dirent *e;
	int n = d ? count_matches(d, want) : 0;

	if (key && n != 1) {
		if (d)
			closedir(d);
		return fail(err, n ? COVE_EINVAL : COVE_ENOENT, 0, "template %s: %s", key,
			    n ? "more than one begins so" : "no such");
	}
	while (d && (e = readdir(d))) {
		if (is_key_with(e->d_name, FORGONE))
			unlinkat(dirfd(d), e->d_name, 0);
		if (is_key(e->d_name) && strncmp(e->d_name, want, strlen(want)) == 0 &&
		    !remove_idle(dirfd(d), e->d_name, HELD_MS))
			n = fail(err, COVE_ESTATE, 0, "template %.12s: a start uses it",
				 e->d_name);
	}
	if (d)
		closedir(d);
	return n;
}
