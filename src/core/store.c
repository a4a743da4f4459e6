/* SPDX-License-Identifier: Apache-2.0 */
#include "core/store_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/netlog.h"
#include "core/netrules.h"
#include "core/quarantine.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* Never replaces what is there; musl has no renameat2(). */
int store_rename_new(int dir, const char *from, const char *to)
{
	return (int)syscall(SYS_renameat2, dir, from, dir, to, RENAME_NOREPLACE);
}

/* ---- where things are ----------------------------------------------------------- */

static int data_home(char *out, size_t size, bool *ret_override)
{
	const char *own = getenv("COVE_HOME"), *xdg = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	int n;

	*ret_override = own && *own;
	if (*ret_override)
		n = snprintf(out, size, "%s", own);
	else if (xdg && xdg[0] == '/')
		n = snprintf(out, size, "%s/cove", xdg);
	else if (home && home[0] == '/')
		n = snprintf(out, size, "%s/.local/share/cove", home);
	else
		return -ENOENT;
	return out[0] != '/' ? -EINVAL : n >= (int)size ? -ENAMETOOLONG : 0;
}

static int run_home(char *out, size_t size, const char *home, bool override)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (override || !xdg || xdg[0] != '/' || access(xdg, W_OK) < 0)
		n = snprintf(out, size, "%s/run", home);
	else
		n = snprintf(out, size, "%s/cove", xdg);
	return n >= (int)size ? -ENAMETOOLONG : 0;
}

/* Opens a directory of ours, making it if needed; nobody else may be able to write to it.
 */
static int own_dir(const char *path, struct cove_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		int r = mkdir_p(path, 0700);

		if (r < 0)
			return fail(err, COVE_EIO, -r, "create %s", path);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "open %s", path);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		fail(err, COVE_EDENIED, 0,
		     "%s: not owned by this user, or writable by others", path);
		return hint(err, "set COVE_HOME to a directory of your own");
	}
	return fd;
}

static int open_dirs(struct store *s, const char *home, struct cove_error *err)
{
	char path[4200];
	int cache;

	snprintf(path, sizeof(path), "%s/sandboxes", home);
	s->boxes = own_dir(path, err);
	if (s->boxes < 0)
		return s->boxes;
	snprintf(path, sizeof(path), "%s/cache", home);
	cache = own_dir(path, err);
	if (cache < 0)
		return cache;
	close(cache);
	s->cache = strdup(path);
	snprintf(path, sizeof(path), "%s/kernels", home);
	s->kernels = strdup(path);
	s->run_fd = own_dir(s->run, err);
	if (s->run_fd < 0)
		return s->run_fd;
	return s->cache && s->kernels ? 0 : fail_nomem(err);
}

int store_open(struct store *s, struct cove_error *err)
{
	char home[4096], run[4096];
	bool override;
	int r;

	*s = (struct store){.boxes = -1, .run_fd = -1};
	r = data_home(home, sizeof(home), &override);
	if (r == 0)
		r = run_home(run, sizeof(run), home, override);
	if (r < 0) {
		fail(err, COVE_EINVAL, -r, "where to keep sandboxes");
		return hint(err, "set HOME or COVE_HOME to an absolute path");
	}
	s->home = strdup(home);
	s->run = strdup(run);
	if (!s->home || !s->run)
		r = fail_nomem(err);
	else
		r = open_dirs(s, home, err);
	if (r < 0)
		store_close(s);
	return r;
}

void store_close(struct store *s)
{
	close_fd(&s->boxes);
	close_fd(&s->run_fd);
	free(s->home);
	free(s->run);
	free(s->cache);
	free(s->kernels);
	*s = (struct store){.boxes = -1, .run_fd = -1};
}

static int join(const char *dir, const char *sub, const char *name, const char *which,
		char *out, size_t size)
{
	int n = snprintf(out, size, "%s%s/%s%s%s", dir, sub, name, *which ? "/" : "",
			 which);

	return n >= (int)size ? -ENAMETOOLONG : 0;
}

int store_path(const struct store *s, const char *name, const char *which, char *out,
	       size_t size)
{
	return join(s->home, "/sandboxes", name, which, out, size);
}

int store_run_path(const struct store *s, const char *name, const char *which, char *out,
		   size_t size)
{
	return join(s->run, "", name, which, out, size);
}

/* ---- locks ---------------------------------------------------------------------- */

int store_open_lock(struct store *s, const char *name, bool create)
{
	char path[SPEC_NAME_MAX + 16];

	if (create && mkdirat(s->run_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/lock", name);
	int fd = openat(s->run_fd, path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0),
			0600);
	return fd < 0 ? -errno : fd;
}

/* A lock file that was unlinked while we waited for it locks nothing: look again. */
bool store_lock_counts(struct store *s, const char *name, int fd)
{
	char path[SPEC_NAME_MAX + 16];
	struct stat a, b;

	snprintf(path, sizeof(path), "%s/lock", name);
	return fstat(fd, &a) == 0 && fstatat(s->run_fd, path, &b, 0) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Taken, but by whom? Somebody who sweeps holds it for a moment only, and his number is
 * not in the file. */
static bool has_owner(int fd)
{
	char text[16] = "";
	long pid = pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;

	return pid > 1 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

#define LOCK_TRIES 100

int store_lock(struct store *s, const char *name, int *ret_lock, struct cove_error *err)
{
	static const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		cleanup_fd int fd = store_open_lock(s, name, true);

		if (fd == -ENOENT) /* the directory went away in between */
			continue;
		if (fd < 0)
			return fail(err, COVE_EIO, -fd, "lock of %s", name);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK)
				return fail(err, COVE_EIO, errno, "lock of %s", name);
			if (tries == LOCK_TRIES - 1 || has_owner(fd))
				return fail(err, COVE_ESTATE, 0, "%s is running", name);
			nanosleep(&pause, NULL);
			continue;
		}
		if (store_lock_counts(s, name, fd)) {
			dprintf(fd, "%d\n", (int)getpid()); /* for store_holder() */
			*ret_lock = take_fd(&fd);
			return 0;
		}
	}
	return fail(err, COVE_EIO, 0, "lock of %s: it keeps changing", name);
}

bool store_is_running(struct store *s, const char *name)
{
	cleanup_fd int fd = store_open_lock(s, name, false);

	if (fd < 0)
		return false;
	/* Shared, so that two who only ask do not disturb each other. */
	return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int store_holder(struct store *s, const char *name)
{
	cleanup_fd int fd = store_open_lock(s, name, false);
	char text[16] = "";
	long pid;
	int pidfd;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -ESRCH;
	pid = strtol(text, NULL, 10);
	pidfd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd < 0)
		return -ESRCH;
	/* Still held, so the number still means the process that wrote it. */
	if (!store_is_running(s, name)) {
		close(pidfd);
		return -ESRCH;
	}
	return pidfd;
}

/* In one step out of the way: with the lock file gone but the rest still there, somebody
 * else would take the place, and lose files to the rest of the removal. */
void store_clear_run(struct store *s, const char *name)
{
	char old[SPEC_NAME_MAX + 32];

	snprintf(old, sizeof(old), ".old-%s-%d", name, (int)getpid());
	if (renameat(s->run_fd, name, s->run_fd, old) == 0)
		remove_tree_at(s->run_fd, old);
}

/* ---- records -------------------------------------------------------------------- */

bool store_exists(struct store *s, const char *name)
{
	struct stat st;

	return spec_name_ok(name) &&
	       fstatat(s->boxes, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int check_name(const char *name, struct cove_error *err)
{
	if (spec_name_ok(name))
		return 0;
	fail(err, COVE_EINVAL, 0, "'%.80s' is not a name", name);
	return hint(err,
		    "a to z, 0 to 9, '-', '_', '.', first a letter or digit, at most %d",
		    SPEC_NAME_MAX);
}

int store_write_spec(int dir, const struct spec *spec, int sync, struct cove_error *err)
{
	json_t *j = spec_json(spec, true);
	char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
	int r;

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	r = write_file_atomic(dir, SPEC_FILE, text, strlen(text), 0600, sync);
	free(text);
	return r < 0 ? fail(err, COVE_EIO, -r, "write %s", SPEC_FILE) : 0;
}

int store_create(struct store *s, const char *name, const struct spec *spec,
		 struct cove_error *err)
{
	char tmp[SPEC_NAME_MAX + 32];
	int r;

	if (check_name(name, err) < 0)
		return err->code;
	snprintf(tmp, sizeof(tmp), ".new-%s-%d", name, (int)getpid());
	if (mkdirat(s->boxes, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "create %s", name);
	cleanup_fd int dir = openat(s->boxes, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return fail(err, COVE_EIO, errno, "create %s", name);
	r = store_write_spec(dir, spec, 1, err);
	if (r == 0 && store_rename_new(s->boxes, tmp, name) < 0) {
		r = errno == EEXIST ? fail(err, COVE_EEXIST, 0, "%s exists already", name)
				    : fail(err, COVE_EIO, errno, "create %s", name);
		if (err->code == COVE_EEXIST)
			hint(err, "'cove rm %s' removes it, 'cove set %s' changes it",
			     name, name);
	}
	if (r < 0)
		remove_tree_at(s->boxes, tmp);
	else
		fsync(s->boxes);
	return r;
}

static int missing(struct store *s, const char *name, struct cove_error *err)
{
	(void)s;
	fail(err, COVE_ENOENT, 0, "no sandbox named %s", name);
	return hint(err, "'cove ls' shows what there is");
}

int store_load(struct store *s, const char *name, struct spec *ret,
	       struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	char path[SPEC_NAME_MAX + 32];
	struct spec spec;
	int r;

	if (check_name(name, err) < 0)
		return err->code;
	if (!store_exists(s, name))
		return missing(s, name, err);
	snprintf(path, sizeof(path), "%s/%s", name, SPEC_FILE);
	r = read_file_at(s->boxes, path, &text);
	if (r < 0) {
		fail(err, COVE_EDAMAGED, -r, "sandbox %s: %s", name, SPEC_FILE);
		return hint(err, "'cove rm -f %s' removes it", name);
	}
	spec_init(&spec);
	if (spec_parse(&spec, text.data ? text.data : "", text.len, path, &problems,
		       err) < 0) {
		spec_clear(&spec);
		err->code = COVE_EDAMAGED;
		wrap(err, "sandbox %s is damaged", name);
		return hint(err,
			    "mend %s/sandboxes/%s, or remove it with 'cove rm -f %s'",
			    s->home, path, name);
	}
	*ret = spec;
	return 0;
}

int store_save(struct store *s, const char *name, const struct spec *spec,
	       struct cove_error *err)
{
	cleanup_fd int dir = openat(s->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return missing(s, name, err);
	return store_write_spec(dir, spec, 1, err);
}

int store_remove(struct store *s, const char *name, struct cove_error *err)
{
	char tmp[SPEC_NAME_MAX + 32];
	int r;

	if (quarantine_keep(s, name, err) < 0)
		return err->code;
	/* Gone for everybody at the rename; what is cut off after it is swept later. */
	snprintf(tmp, sizeof(tmp), ".old-%s-%d", name, (int)getpid());
	if (renameat(s->boxes, name, s->boxes, tmp) < 0)
		return errno == ENOENT ? missing(s, name, err)
				       : fail(err, COVE_EIO, errno, "remove %s", name);
	r = remove_tree_at(s->boxes, tmp);
	return r < 0 ? fail(err, COVE_EIO, -r, "remove %s", name) : 0;
}

/* m0, m1 ...: the layers of overlay mounts */
bool store_is_layer(const char *name)
{
	return name[0] == 'm' && name[1] >= '0' && name[1] <= '9';
}

static bool is_data(const char *name)
{
	return store_is_layer(name) || strcmp(name, "home") == 0 ||
	       strcmp(name, "root") == 0 || strcmp(name, "mask") == 0 ||
	       strcmp(name, "log") == 0 || strcmp(name, NETRULES_FILE) == 0 ||
	       strcmp(name, NETLOG_FILE) == 0 || strcmp(name, NETLOG_OLD) == 0;
}

DIR *store_open_record(struct store *s, const char *name)
{
	int fd = openat(s->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

int store_reset(struct store *s, const char *name, struct cove_error *err)
{
	DIR *d = store_open_record(s, name);
	struct dirent *e;
	int r = 0;

	if (!d)
		return missing(s, name, err);
	while (r == 0 && (e = readdir(d)))
		if (is_data(e->d_name))
			r = remove_tree_at(dirfd(d), e->d_name);
	closedir(d);
	return r < 0 ? fail(err, COVE_EIO, -r, "reset %s", name) : 0;
}

static int by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int store_each(struct store *s, int (*fn)(void *arg, const char *name), void *arg,
	       struct cove_error *err)
{
	DIR *d = store_open_record(s, ".");
	struct dirent *e;
	char **names = NULL;
	size_t n = 0;
	int r = 0;

	if (!d)
		return fail(err, COVE_EIO, errno, "read %s", s->home);
	while (r == 0 && (e = readdir(d))) {
		char **more;

		if (!spec_name_ok(e->d_name))
			continue;
		more = realloc(names, (n + 1) * sizeof(*names));
		if (more) {
			names = more;
			names[n] = strdup(e->d_name);
		}
		if (!more || !names[n])
			r = fail_nomem(err);
		else
			n++;
	}
	closedir(d);
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = fn(arg, names[i]);
		free(names[i]);
	}
	free(names);
	return r;
}
