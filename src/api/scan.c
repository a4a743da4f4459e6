/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan - cove_scan(): walks files and directories of the host and hands every regular
 * file to the scanner. Symlinks are not followed; what cannot be opened is a finding.
 */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "work/scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEPTH_MAX 256
#define RULES_MAX (8u << 20)
#define BUDGET_MS (24ll * 3600 * 1000) /* a user who waits can interrupt */

struct walk {
	struct scan *scan;
	struct cove_scan_options o;
	struct cove_error *err;
	char path[PATH_MAX];
	char **added; /* paths, by the scanner's index */
	size_t n, cap, findings;
};

static void tell(struct walk *w, const struct scan_finding *f, const char *path)
{
	struct cove_finding out = {
		.size = sizeof(out),
		.id = f->fingerprint,
		.rule = f->rule,
		.path = path,
		.inner = f->inner,
		.line = f->line,
		.why = f->what,
		.excerpt = f->excerpt,
	};

	w->findings++;
	if (w->o.finding)
		w->o.finding(w->o.arg, &out);
}

static void unreadable(struct walk *w, int error)
{
	struct scan_finding f = {.rule = "unreadable",
				 .what = strerror(error),
				 .inner = "",
				 .excerpt = "",
				 .fingerprint = "0000000000000000"};

	tell(w, &f, w->path);
}

static void on_finding(void *arg, const struct scan_finding *f)
{
	struct walk *w = arg;

	tell(w, f, f->index < w->n ? w->added[f->index] : "");
}

/* ---- the walk --------------------------------------------------------------------- */

/* Consumes *fd. */
static int add_file(struct walk *w, int *fd)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 256;
		char **v = reallocarray(w->added, cap, sizeof(*v));

		if (!v)
			return fail_nomem(w->err);
		w->added = v;
		w->cap = cap;
	}
	w->added[w->n] = strdup(w->path);
	if (!w->added[w->n])
		return fail_nomem(w->err);
	w->n++;
	return scan_give(w->scan, w->path, fd, w->err);
}

static int visit(struct walk *w, int dir, const char *name, unsigned char type,
		 bool follow, int depth);

/* Takes fd. */
static int visit_dir(struct walk *w, int fd, int depth)
{
	size_t len = strlen(w->path);
	const char *sep = len && w->path[len - 1] == '/' ? "" : "/";
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d || depth > DEPTH_MAX) {
		unreadable(w, d ? ELOOP : errno);
		if (d)
			closedir(d);
		else
			close(fd);
		return 0;
	}
	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(w->path + len, sizeof(w->path) - len, "%s%s", sep,
			     e->d_name) >= (int)(sizeof(w->path) - len))
			unreadable(w, ENAMETOOLONG);
		else
			r = visit(w, dirfd(d), e->d_name, e->d_type, false, depth + 1);
		w->path[len] = '\0';
	}
	if (r == 0 && errno)
		unreadable(w, errno);
	closedir(d);
	return r;
}

/* A fifo or a device must not be waited for: O_NONBLOCK, and only files are read. */
static int visit(struct walk *w, int dir, const char *name, unsigned char type,
		 bool follow, int depth)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (type != DT_UNKNOWN && type != DT_REG && type != DT_DIR)
		return 0;
	fd = openat(dir, name,
		    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
			    (follow ? 0 : O_NOFOLLOW));
	if (fd < 0) {
		if (errno != ELOOP && errno != ENXIO) /* a symlink, a socket */
			unreadable(w, errno);
		return 0;
	}
	if (type == DT_REG) /* the scanner looks again */
		return add_file(w, &fd);
	if (fstat(fd, &st) < 0) {
		unreadable(w, errno);
		return 0;
	}
	if (S_ISREG(st.st_mode))
		return add_file(w, &fd);
	return S_ISDIR(st.st_mode) ? visit_dir(w, take_fd(&fd), depth) : 0;
}

static int walk_all(struct walk *w, const char *const *paths)
{
	for (; *paths; paths++) {
		struct stat st;

		if (snprintf(w->path, sizeof(w->path), "%s", *paths) >=
		    (int)sizeof(w->path))
			return fail(w->err, COVE_EINVAL, ENAMETOOLONG, "%s", *paths);
		if (stat(*paths, &st) < 0)
			return fail(w->err, COVE_EIO, errno, "%s", *paths);
		if (visit(w, AT_FDCWD, *paths, DT_UNKNOWN, true, 0) < 0)
			return w->err->code;
	}
	return 0;
}

/* ---- interface -------------------------------------------------------------------- */

static int start(struct walk *w)
{
	cleanup_buf struct buf rules = BUF_INIT(RULES_MAX);
	struct scan_options so = {.budget_ms = BUDGET_MS};
	int r;

	if (w->o.rules_file) {
		r = read_file_at(AT_FDCWD, w->o.rules_file, &rules);
		if (r < 0)
			return fail(w->err, COVE_EIO, -r, "rules %s", w->o.rules_file);
		so.rules_toml = rules.data ? rules.data : "";
		so.rules_len = rules.len;
	}
	return scan_start(&w->scan, &so, w->err);
}

static int run(struct walk *w, const char *const *paths)
{
	int r = start(w);

	if (r == 0)
		r = walk_all(w, paths);
	if (r == 0)
		r = scan_finish(w->scan, on_finding, w, w->err);
	if (r == 0)
		scan_totals(w->scan, w->o.ret_files, w->o.ret_bytes);
	return r;
}

int cove_scan(const char *const *paths, const struct cove_scan_options *o,
	      struct cove_error *err)
{
	struct cove_error none;
	struct walk *w = calloc(1, sizeof(*w));
	int r;

	if (!err)
		err = &none;
	if (!w)
		return fail_nomem(err);
	w->err = err;
	r = o ? options_import(&w->o, sizeof(w->o), 8, o, "scan options", err) : 0;
	if (r == 0 && (!paths || !*paths))
		r = fail(err, COVE_EINVAL, 0, "nothing to scan");
	if (r == 0)
		r = run(w, paths);
	if (r == 0 && w->findings)
		r = fail(err, COVE_EFINDINGS, 0, "%zu finding%s", w->findings,
			 w->findings == 1 ? "" : "s");
	scan_free(w->scan);
	for (size_t i = 0; i < w->n; i++)
		free(w->added[i]);
	free(w->added);
	free(w);
	return r;
}
