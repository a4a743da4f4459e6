/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finish - after the host is done: the upper layers and ledgers follow, and the old files
 * go from the stages into record/undo, for undo. Every part may be run again after a
 * crash.
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/copytree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int journal_load(int record, const char *dir, struct journal *ret, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JOURNAL_MAX);
	char path[64];
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, JOURNAL_FILE);
	r = read_file_at(record, path, &text);
	if (r == 0)
		r = journal_parse(ret, text.data ? text.data : "", text.len);
	return r < 0 ? fail(err, COVE_EDAMAGED, r == -EBADMSG ? 0 : -r, "journal %s",
			    path)
		     : 0;
}

/* ---- stages --------------------------------------------------------------------- */

/* A directory from one place to another: by rename, or over file systems by a copy that
 * is complete before it has the name. A missing one is no failure. */
static int move_dir(int from, const char *name, int to, const char *new,
		    struct cove_error *err)
{
	struct copytree c = {0};
	struct stat st;
	char tmp[64];
	int r;

	if (fstatat(to, new, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		/* A copy has the name only once it is complete: what is left is the rest
		 * of a removal that was cut off. */
		r = remove_tree_at(from, name);
		return r < 0 ? fail(err, COVE_EIO, -r, "remove %s", name) : 0;
	}
	if (renameat(from, name, to, new) == 0 || errno == ENOENT)
		return 0;
	if (errno != EXDEV)
		return fail(err, COVE_EIO, errno, "move %s", name);
	snprintf(tmp, sizeof(tmp), "%.40s.part", new);
	cleanup_fd int src =
		openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (src < 0)
		return fail(err, COVE_EIO, errno, "move %s", name);
	remove_tree_at(to, tmp);
	if (copytree(&c, src, to, tmp, err) < 0)
		return err->code;
	if (syncfs(to) < 0 || renameat(to, tmp, to, new) < 0 || fsync(to) < 0)
		return fail(err, COVE_EIO, errno, "move %s", name);
	r = remove_tree_at(from, name);
	return r < 0 ? fail(err, COVE_EIO, -r, "remove %s", name) : 0;
}

static int each_stage(int record, const char *dir, const struct journal *j, bool fetch,
		      struct cove_error *err)
{
	cleanup_fd int store =
		openat(record, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = store < 0 ? fail(err, COVE_EIO, errno, "%s", dir) : 0;

	for (size_t i = 0; r == 0 && i < j->n_layers; i++) {
		cleanup_fd int lower =
			open(j->layers[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct stat st;
		char name[24];

		snprintf(name, sizeof(name), "L%zu", i);
		if (lower < 0)
			r = fail(err, COVE_EIO, errno, "%s", j->layers[i].source);
		else if (!fetch)
			r = move_dir(lower, j->stage, store, name, err);
		else if (fstatat(lower, j->stage, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = move_dir(store, name, lower, j->stage, err);
	}
	return r;
}

int stage_store(int record, const char *dir, const struct journal *j,
		struct cove_error *err)
{
	return each_stage(record, dir, j, false, err);
}

int stage_fetch(int record, const char *dir, const struct journal *j,
		struct cove_error *err)
{
	return each_stage(record, dir, j, true, err);
}

/* ---- upper layers and ledgers --------------------------------------------------- */

/* What a file holds, for a later merge; not more than the ledger keeps. known: what it
 * must still be, or NULL. */
static bool content_of(int side, const char *path, const struct ident *known,
		       struct buf *out)
{
	struct stat st;
	struct ident now;
	cleanup_fd int fd = open_beneath(side, path, O_RDONLY | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > LEDGER_BLOB_MAX)
		return false;
	ident_from(&now, &st);
	if ((known && !ident_same(&now, known)) || read_fd(fd, out) < 0) {
		buf_clear(out);
		return false;
	}
	return true;
}

static int remember(const struct layer *l, struct ledger *g, const struct step *s,
		    struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(LEDGER_BLOB_MAX);
	struct ident host;
	int r = ident_at(l->lower, s->path, &host);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", s->path);
	/* After a merge the host's file holds more than the sandbox's: the base of the
	 * next edit inside is what is inside. */
	if (!s->whole || !content_of(l->upper, s->path, &s->upper, &text))
		content_of(l->lower, s->path, NULL, &text);
	/* Only some hunks: the upper file is still a change, and this its new base. */
	return ledger_set_applied(g, s->path, &host,
				  s->whole ? &s->upper : &ledger_only_base, text.data,
				  text.len, err);
}

/* A path may have several steps (a file that became a directory): one is enough. */
static bool counts(const struct step *s)
{
	return !(s->kind == STEP_RMDIR && s->upper.mode) &&
	       !(s->kind == STEP_REMOVE && s->upper.mode) && s->kind != STEP_MKDIR;
}

static int follow(const struct work *w, const struct journal *j, size_t layer,
		  struct cove_error *err)
{
	const struct layer *l = &w->layers->v[layer];
	struct ledger *g = w->ledgers[layer];
	cleanup_free const struct step **list = calloc(j->n + 1, sizeof(*list));
	size_t n = 0;
	int r = 0;

	if (!list)
		return fail_nomem(err);
	for (size_t i = 0; r == 0 && i < j->n; i++) {
		const struct step *s = &j->v[i];

		if (s->layer != layer || !counts(s))
			continue;
		if (w->layers->running || !s->whole)
			r = remember(l, g, s, err);
		else
			list[n++] = s;
	}
	if (r == 0 && n)
		r = rebase_paths(l, g, list, n, err);
	return r < 0 ? r : ledger_save(g, err);
}

/* ---- the levels of undo --------------------------------------------------------- */

static void undo_range(int undo, unsigned *ret_first, unsigned *ret_last)
{
	int fd = openat(undo, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	*ret_first = UINT32_MAX;
	*ret_last = 0;
	while (d && (e = readdir(d))) {
		char *end;
		unsigned long n = strtoul(e->d_name, &end, 10);

		if (*end || n == 0 || n >= UINT32_MAX)
			continue;
		*ret_first = n < *ret_first ? (unsigned)n : *ret_first;
		*ret_last = n > *ret_last ? (unsigned)n : *ret_last;
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

unsigned undo_last(int record)
{
	cleanup_fd int undo =
		openat(record, DIR_UNDO, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned first, last = 0;

	if (undo >= 0)
		undo_range(undo, &first, &last);
	return last;
}

void undo_path(char out[32], unsigned level)
{
	snprintf(out, 32, "%s/%04u", DIR_UNDO, level);
}

static int keep_for_undo(int record, struct cove_error *err)
{
	unsigned first, last;
	char path[32], name[16];

	if (mkdirat(record, DIR_UNDO, 0700) < 0 && errno != EEXIST)
		return fail(err, COVE_EIO, errno, "%s", DIR_UNDO);
	cleanup_fd int undo =
		openat(record, DIR_UNDO, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (undo < 0)
		return fail(err, COVE_EIO, errno, "%s", DIR_UNDO);
	undo_range(undo, &first, &last);
	undo_path(path, last + 1);
	if (phase(record, DIR_DONE, path, err) < 0)
		return err->code;
	for (; first <= last && last + 1 - first >= UNDO_LEVELS; first++) {
		snprintf(name, sizeof(name), "%04u", first);
		remove_tree_at(undo, name);
	}
	return 0;
}

int finish_apply(const struct work *w, const struct journal *j, struct cove_error *err)
{
	int record = w->layers->record;

	for (size_t k = 0; k < w->layers->n && k < j->n_layers; k++)
		if (w->layers->v[k].upper >= 0 && follow(w, j, k, err) < 0)
			return err->code;
	if (stage_store(record, DIR_DONE, j, err) < 0)
		return err->code;
	return keep_for_undo(record, err);
}
