/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/etc.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define ETC "/etc"
#define DEPTH_MAX 8
#define FILE_MAX_BYTES (8u << 20)
#define MANIFEST_MAX (1u << 20)

/* What programs need of the host's /etc; a trailing '*' matches any ending. Files that
 * commonly hold credentials (npmrc, pip.conf, gitconfig, environment, ssh) are left out
 * on purpose. */
static const char *const wanted[] = {
	"ImageMagick*",
	"OpenCL",
	"alternatives",
	"bash.bashrc",
	"bash_completion*",
	"ca-certificates*",
	"crypto-policies",
	"debian_version",
	"fonts",
	"gai.conf",
	"ghostscript",
	"glvnd",
	"groff",
	"host.conf",
	"inputrc",
	"java-*",
	"ld-musl-*",
	"ld.so.cache",
	"ld.so.conf*",
	"locale.alias",
	"localtime",
	"lsb-release",
	"magic*",
	"mailcap*",
	"manpath.config",
	"mime.types",
	"nanorc",
	"netconfig",
	"networks",
	"openal",
	"os-release",
	"perl",
	"php",
	"pki",
	"profile*",
	"protocols",
	"pulse",
	"python*",
	"redhat-release",
	"rpc",
	"services",
	"shells",
	"ssl",
	"system-release",
	"terminfo",
	"timezone",
	"vim",
	"xattr.conf",
	"zsh",
};

static const struct {
	const char *name, *text;
} made[] = {
	{"passwd",        "root:x:0:0:root:/root:/bin/bash\n"
		   "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
		   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"      },
	{"group",         "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"                       },
	{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			  "services: files\nprotocols: files\nnetworks: files\n"},
	{"hosts",         "127.0.0.1 localhost cove\n::1 localhost ip6-localhost cove\n"                 },
	{"hostname",      "cove\n"								       },
 /* A machine puts its own on it; elsewhere there is none. */
	{"machine-id",    ""									     },
	{"resolv.conf",   "# this sandbox has no network\n"                                              },
};

static bool is_wanted(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		size_t n = strlen(wanted[i]);

		if (wanted[i][n - 1] == '*' ? strncmp(name, wanted[i], n - 1) == 0
					    : strcmp(name, wanted[i]) == 0)
			return true;
	}
	return false;
}

/* ---- manifest: one record a directory or file ----------------------------------- */

/* Binary, because a start checks every one of them: identity and times, then the path. */
struct record {
	uint64_t ino, size, mtime_ns, ctime_ns;
	uint64_t path_len; /* without the NUL that follows the path */
};

static void fill_record(struct record *r, const struct stat *st, size_t path_len)
{
	*r = (struct record){
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
			    (uint64_t)st->st_mtim.tv_nsec,
		.ctime_ns = (uint64_t)st->st_ctim.tv_sec * 1000000000u +
			    (uint64_t)st->st_ctim.tv_nsec,
		.path_len = path_len,
	};
}

static int note(struct buf *manifest, const char *path, const struct stat *st)
{
	struct record r;
	int e;

	fill_record(&r, st, strlen(path));
	e = buf_append(manifest, &r, sizeof(r));
	return e < 0 ? e : buf_append(manifest, path, r.path_len + 1);
}

static bool manifest_holds(const char *p, size_t left)
{
	if (left == 0)
		return false;
	while (left) {
		struct record was, is;
		struct stat st;

		if (left < sizeof(was))
			return false;
		memcpy(&was, p, sizeof(was));
		p += sizeof(was);
		left -= sizeof(was);
		if (was.path_len >= left || p[was.path_len] != '\0' || lstat(p, &st) < 0)
			return false;
		fill_record(&is, &st, was.path_len);
		if (memcmp(&was, &is, sizeof(was)) != 0)
			return false;
		p += was.path_len + 1;
		left -= was.path_len + 1;
	}
	return true;
}

/* ---- copying -------------------------------------------------------------------- */

static int copy_file(int from, const char *name, int to)
{
	cleanup_buf struct buf b = BUF_INIT(FILE_MAX_BYTES);
	cleanup_fd int in =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r = in < 0 ? -errno : read_fd(in, &b);

	if (r == -ENOBUFS || r == -EACCES)
		return 0; /* nothing that a program needs */
	if (r < 0)
		return r;
	cleanup_fd int out = openat(
		to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (out < 0 || fchmod(out, 0644) < 0) /* whatever the umask of who starts it */
		return -errno;
	return write_all(out, b.data, b.len);
}

static int copy_link(int from, const char *name, int to)
{
	char target[4096];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n <= 0)
		return 0;
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_dir(int from, int to, const char *path, int depth, struct buf *manifest);

static int copy_entry(int from, const char *name, int to, const char *parent, int depth,
		      struct buf *manifest)
{
	char path[4096];
	struct stat st;
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", parent, name) >= (int)sizeof(path) ||
	    fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) /* cannot change without its directory changing */
		return copy_link(from, name, to);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	if (!(st.st_mode & S_IROTH)) /* private on the host stays out */
		return 0;
	r = note(manifest, path, &st);
	if (r < 0)
		return r;
	if (S_ISREG(st.st_mode))
		return copy_file(from, name, to);
	if (depth == DEPTH_MAX)
		return 0;
	cleanup_fd int sub =
		openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return errno == EACCES ? 0 : -errno;
	if (mkdirat(to, name, 0755) < 0)
		return -errno;
	cleanup_fd int dst = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dst < 0 || fchmod(dst, 0755) < 0)
		return -errno;
	return copy_dir(sub, dst, path, depth + 1, manifest);
}

static int copy_dir(int from, int to, const char *path, int depth, struct buf *manifest)
{
	int dup_fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (depth == 0 && !is_wanted(e->d_name))
			continue;
		r = copy_entry(from, e->d_name, to, path, depth, manifest);
	}
	closedir(d);
	return r;
}

static int write_made(int dir)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(made); i++)
		r = write_file_atomic(dir, made[i].name, made[i].text,
				      strlen(made[i].text), 0644, 0);
	if (r == 0 && symlinkat("/proc/self/mounts", dir, "mtab") < 0)
		r = -errno;
	return r;
}

static int fill_copy(int dst, struct buf *manifest)
{
	struct stat st;
	cleanup_fd int src = open(ETC, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (src < 0 || fstat(src, &st) < 0)
		return -errno;
	r = note(manifest, ETC, &st);
	if (r == 0)
		r = copy_dir(src, dst, ETC, 0, manifest);
	return r < 0 ? r : write_made(dst);
}

/* ---- the cache: etc-<random>/, manifest names the current one ------------------- */

/* Copies that no sandbox holds any more. */
static void collect_old(int cache, const char *current)
{
	int dup_fd = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "etc-", 4) != 0 || strcmp(e->d_name, current) == 0)
			continue;
		cleanup_fd int fd =
			openat(cache, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			remove_tree_at(cache, e->d_name);
	}
	closedir(d);
}

/* Checked a moment ago by another start: then it is not checked again, so an edit of /etc
 * shows in sandboxes that start FRESH_MS after it. The manifest's own time says when. */
#define FRESH_MS 2000

static bool is_fresh(int cache)
{
	struct timespec now;
	struct stat st;
	int64_t age;

	if (fstatat(cache, "etc.manifest", &st, 0) < 0 ||
	    clock_gettime(CLOCK_REALTIME, &now) < 0)
		return false;
	age = (now.tv_sec - st.st_mtim.tv_sec) * 1000 +
	      (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000;
	return age >= 0 && age < FRESH_MS;
}

/* The manifest starts with a line: the directory's name. Records follow. */
static int use_current(int cache, char *name, size_t size, int *ret_ref)
{
	cleanup_buf struct buf m = BUF_INIT(MANIFEST_MAX);
	char *nl;

	if (read_file_at(cache, "etc.manifest", &m) < 0 || m.len == 0)
		return 0;
	nl = memchr(m.data, '\n', m.len);
	if (!nl || (size_t)(nl - m.data) >= size || strncmp(m.data, "etc-", 4) != 0)
		return 0;
	memcpy(name, m.data, (size_t)(nl - m.data));
	name[nl - m.data] = '\0';
	if (strchr(name, '/'))
		return 0;
	if (!is_fresh(cache)) {
		if (!manifest_holds(nl + 1, m.len - (size_t)(nl + 1 - m.data)))
			return 0;
		utimensat(cache, "etc.manifest", NULL, 0);
	}
	cleanup_fd int fd = openat(cache, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Locked for removal by somebody who saw a newer copy: make our own. */
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return 0;
	*ret_ref = take_fd(&fd);
	return 1;
}

static int build(int cache, char *name, size_t size, int *ret_ref)
{
	cleanup_buf struct buf m = BUF_INIT(MANIFEST_MAX);
	uint64_t id;
	int r;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	snprintf(name, size, "etc-%016llx", (unsigned long long)id);
	if (mkdirat(cache, name, 0755) < 0)
		return -errno;
	cleanup_fd int fd = openat(cache, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	r = buf_printf(&m, "%s\n", name);
	if (r == 0)
		r = fill_copy(fd, &m);
	if (r == 0 && fchmod(fd, 0755) < 0)
		r = -errno;
	if (r == 0)
		r = write_file_atomic(cache, "etc.manifest", m.data, m.len, 0600, 0);
	if (r < 0) {
		remove_tree_at(cache, name);
		return r;
	}
	*ret_ref = take_fd(&fd);
	return 0;
}

int etc_ensure(const char *cache_dir, char *path, size_t size, int *ret_ref,
	       struct cove_error *err)
{
	char name[64];
	int r;
	cleanup_fd int cache = open(cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (cache < 0)
		return fail(err, COVE_EIO, errno, "open %s", cache_dir);
	if (!use_current(cache, name, sizeof(name), ret_ref)) {
		r = build(cache, name, sizeof(name), ret_ref);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "%s", cache_dir);
		collect_old(cache, name);
	}
	if (snprintf(path, size, "%s/%s", cache_dir, name) >= (int)size) {
		close_fd(ret_ref);
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", cache_dir);
	}
	return 0;
}
