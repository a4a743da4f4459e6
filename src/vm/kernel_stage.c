/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_stage - the directory of kernels, and how one comes into it. */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK_NAME ".lock"
#define LOCK_WAIT_MS (30 * 60 * 1000) /* building a kernel takes long */
#define LOCK_POLL_MS 100

/* ---- names --------------------------------------------------------------------- */

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-"

bool kernel_name_ok(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= KERNEL_NAME_MAX && name[0] != '.' && name[0] != '-' &&
	       strspn(name, NAME_CHARS) == n && strcmp(name, DEFAULT_NAME) != 0;
}

void kernel_name_from(const char *version, char ret[KERNEL_NAME_MAX + 1])
{
	snprintf(ret, KERNEL_NAME_MAX + 1, "%s", version);
	for (char *p = ret; *p; p++)
		if (!strchr(NAME_CHARS, *p))
			*p = '-';
	if (!kernel_name_ok(ret))
		snprintf(ret, KERNEL_NAME_MAX + 1, "kernel");
}

void report(const struct kernel_report *r, const char *what, uint64_t done,
	    uint64_t total)
{
	if (r && r->progress)
		r->progress(r->arg, what, done, total);
}

/* ---- the directory ------------------------------------------------------------- */

static int take_lock(int fd, const struct kernel_report *r)
{
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_POLL_MS) {
		struct timespec pause = {.tv_nsec = LOCK_POLL_MS * 1000000L};

		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited > LOCK_WAIT_MS)
			return -EWOULDBLOCK;
		report(r, "waiting for another cove kernel", 0, 0);
		nanosleep(&pause, NULL);
	}
	return 0;
}

void kernels_sweep(struct kernels *k)
{
	int fd = openat(k->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d)))
		if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, LOCK_NAME) != 0)
			remove_tree_at(k->dir, e->d_name);
	if (d)
		closedir(d);
}

int kernels_none(struct cove_error *err)
{
	fail(err, COVE_ENOENT, 0, "no kernel for virtual machines is installed");
	return hint(err, "run 'cove kernel install'");
}

int kernels_lock(struct kernels *ret, const char *path, bool make,
		 const struct kernel_report *r, struct cove_error *err)
{
	cleanup_fd int dir = -1, lock = -1;
	int e = make ? mkdir_p(path, 0700) : 0;

	if (e < 0)
		return fail(err, COVE_EIO, -e, "create %s", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 && errno == ENOENT)
		return kernels_none(err);
	if (dir >= 0)
		lock = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			      0600);
	if (lock < 0)
		return fail(err, COVE_EIO, errno, "open %s", path);
	e = take_lock(lock, r);
	if (e == -EWOULDBLOCK)
		return fail(err, COVE_ESTATE, 0,
			    "%s is in use by another command for half an hour", path);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "lock %s", path);
	*ret = (struct kernels){
		.path = path, .dir = take_fd(&dir), .lock = take_fd(&lock)};
	kernels_sweep(ret);
	return 0;
}

void kernels_unlock(struct kernels *k)
{
	close_fd(&k->dir);
	close_fd(&k->lock);
}

/* A program that outlived its cove may still be writing to one that was swept: the next
 * number then. */
int kernels_scratch(struct kernels *k, const char *prefix, char *ret, size_t size,
		    struct cove_error *err)
{
	for (unsigned i = 0; i < 100; i++) {
		if (snprintf(ret, size, ".%s-%u", prefix, i) >= (int)size)
			return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", prefix);
		if (mkdirat(k->dir, ret, 0700) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return fail(err, COVE_EIO, errno, "create %s/%s", k->path, ret);
}

int kernels_open_one(int dir, const char *name, struct cove_error *err)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return fail(err, COVE_EIO, errno, "kernel %s", name);
	fail(err, COVE_ENOENT, 0, "there is no kernel %s", name);
	return hint(err, "see 'cove kernel ls'");
}

bool kernels_default(int dir, char ret[KERNEL_NAME_MAX + 1])
{
	ssize_t n = readlinkat(dir, DEFAULT_NAME, ret, KERNEL_NAME_MAX + 1);

	if (n <= 0 || n > KERNEL_NAME_MAX)
		return false;
	ret[n] = '\0';
	return kernel_name_ok(ret);
}

int kernels_point(struct kernels *k, const char *name, struct cove_error *err)
{
	static const char new_link[] = ".default";

	unlinkat(k->dir, new_link, 0);
	if (symlinkat(name, k->dir, new_link) < 0 ||
	    renameat(k->dir, new_link, k->dir, DEFAULT_NAME) < 0 || fsync(k->dir) < 0)
		return fail(err, COVE_EIO, errno, "%s/%s", k->path, DEFAULT_NAME);
	return 0;
}

/* ---- a kernel in the making ---------------------------------------------------- */

int stage_begin(struct stage *s, struct kernels *k, struct cove_error *err)
{
	*s = (struct stage){.k = k, .dir = -1};
	if (kernels_scratch(k, "new", s->name, sizeof(s->name), err) < 0) {
		s->name[0] = '\0';
		return err->code;
	}
	s->dir = openat(k->dir, s->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0 || mkdirat(s->dir, MODULES_DIR, 0700) < 0)
		return fail(err, COVE_EIO, errno, "%s/%s", k->path, s->name);
	return 0;
}

void stage_clear(struct stage *s)
{
	close_fd(&s->dir);
	if (s->name[0])
		remove_tree_at(s->k->dir, s->name);
	s->name[0] = '\0';
	record_clear(&s->record);
}

static int write_synced(int dir, const char *path, const void *data, size_t n)
{
	cleanup_fd int fd =
		openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int e = fd < 0 ? -errno : write_all(fd, data, n);

	return e < 0 ? e : fsync(fd) < 0 ? -errno : 0;
}

int stage_put(struct stage *s, const char *path, const void *data, size_t n,
	      struct cove_error *err)
{
	struct kernel_record *r = &s->record;
	struct kernel_file *v = reallocarray(r->files, r->n_files + 1, sizeof(*v));
	int e;

	if (!v)
		return fail_nomem(err);
	r->files = v;
	v += r->n_files;
	*v = (struct kernel_file){.bytes = n};
	if (n == 0 ||
	    snprintf(v->path, sizeof(v->path), "%s", path) >= (int)sizeof(v->path))
		return fail(err, COVE_EINVAL, 0, "%.100s: empty, or its name is too long",
			    path);
	e = write_synced(s->dir, path, data, n);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "write %s", path);
	kernel_digest(data, n, v->sum);
	r->n_files++;
	return 0;
}

int stage_put_modules(struct stage *s, const struct module_set *m, struct cove_error *err)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct buf *content = &m->v[i].content;
		char path[sizeof(MODULES_DIR) + MODULE_NAME_MAX + 4];

		snprintf(path, sizeof(path), MODULES_DIR "/%s.ko", m->v[i].name);
		if (stage_put(s, path, content->data, content->len, err) < 0)
			return err->code;
	}
	return 0;
}

static int sync_dir(int dir, const char *name)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int seal(struct stage *s)
{
	cleanup_buf struct buf text = BUF_INIT(1u << 20);
	struct timespec now;
	int e;

	clock_gettime(CLOCK_REALTIME, &now);
	s->record.installed_at = now.tv_sec;
	e = record_print(&s->record, &text);
	if (e == 0)
		e = write_synced(s->dir, RECORD_NAME, text.data, text.len);
	if (e == 0)
		e = sync_dir(s->dir, MODULES_DIR);
	return e < 0 ? e : sync_dir(s->dir, ".");
}

/* After an exchange the stage's name is that of the old one, which goes with it. */
static int place(struct stage *s, const char *name)
{
	int dir = s->k->dir;
	int e = rename_at(dir, s->name, dir, name, RENAME_NOREPLACE);

	if (e == 0)
		s->name[0] = '\0';
	else if (e == -EEXIST)
		e = rename_at(dir, s->name, dir, name, RENAME_EXCHANGE);
	return e < 0 ? e : fsync(dir) < 0 ? -errno : 0;
}

/* Who has chosen another sort of kernel keeps it. */
static bool becomes_default(struct kernels *k, enum kernel_origin origin)
{
	char name[KERNEL_NAME_MAX + 1];
	struct kernel_record r;
	struct cove_error ignored = {0};
	cleanup_fd int old = -1;
	bool same;

	if (!kernels_default(k->dir, name))
		return true;
	old = kernels_open_one(k->dir, name, &ignored);
	if (old < 0 || record_read(&r, old, &ignored) < 0)
		return true;
	same = r.origin == origin && origin != ORIGIN_OWN;
	record_clear(&r);
	return same;
}

int stage_commit(struct stage *s, const char *name, struct cove_error *err)
{
	bool point = becomes_default(s->k, s->record.origin);
	int e = seal(s);

	if (e == 0)
		e = place(s, name);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "%s/%s", s->k->path, name);
	return point ? kernels_point(s->k, name, err) : 0;
}
