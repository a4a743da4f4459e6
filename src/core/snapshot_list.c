/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_list - finding, listing and removing snapshots. */
#include "core/snapshot_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/snapshot_memory.h"
#include "core/store_impl.h"
#include "core/workspace.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- small files ---------------------------------------------------------------- */

int write_json(int dir, const char *name, json_t *j, struct cove_error *err)
{
	char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
	int r;

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	r = write_file_atomic(dir, name, text, strlen(text), 0600, 0);
	free(text);
	return r < 0 ? fail(err, COVE_EIO, -r, "write %s", name) : 0;
}

int sync_all(int dir, struct cove_error *err)
{
	return syncfs(dir) < 0 ? fail(err, COVE_EIO, errno, "sync") : 0;
}

void snapshot_parent(int record, char out[SPEC_NAME_MAX + 1])
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_NAME_MAX + 1);

	out[0] = '\0';
	if (read_file_at(record, "parent", &text) < 0 || !text.data)
		return;
	text.data[strcspn(text.data, "\n")] = '\0';
	if (spec_name_ok(text.data))
		snprintf(out, SPEC_NAME_MAX + 1, "%s", text.data);
}

int snapshot_set_parent(int record, const char *tag)
{
	return write_file_atomic(record, "parent", tag, strlen(tag), 0600, 1);
}

void sweep_dots(int dir)
{
	int fd = openat(dir, ".", OPEN_DIR);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		closep(&fd);
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, ".new-", 5) == 0 ||
		    strncmp(e->d_name, ".old-", 5) == 0)
			remove_tree_at(dir, e->d_name);
	if (d)
		closedir(d);
}

/* ---- finding -------------------------------------------------------------------- */

int snapshot_check_tag(const char *tag, struct cove_error *err)
{
	if (spec_name_ok(tag))
		return 0;
	fail(err, COVE_EINVAL, 0, "'%.80s' is not a tag", tag);
	return hint(err,
		    "a to z, 0 to 9, '-', '_', '.', first a letter or digit, at most %d",
		    SPEC_NAME_MAX);
}

int snapshots_dir(int record, bool make, struct cove_error *err)
{
	int fd;

	if (make && mkdirat(record, SNAPSHOTS, 0700) < 0 && errno != EEXIST)
		return fail(err, COVE_EIO, errno, "make %s", SNAPSHOTS);
	fd = openat(record, SNAPSHOTS, OPEN_DIR);
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "open %s", SNAPSHOTS);
	if (make)
		sweep_dots(fd);
	return fd;
}

int snapshot_open(int record, const char *name, const char *tag, struct cove_error *err)
{
	cleanup_fd int dir = openat(record, SNAPSHOTS, OPEN_DIR);
	int fd;

	if (snapshot_check_tag(tag, err) < 0)
		return err->code;
	fd = dir < 0 ? -1 : openat(dir, tag, OPEN_DIR);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return fail(err, COVE_EIO, errno, "snapshot %s", tag);
	fail(err, COVE_ENOENT, 0, "%s has no snapshot %s", name, tag);
	return hint(err, "'cove snapshots %s' shows what there is", name);
}

static bool has_text(const json_t *j, const char *key)
{
	return json_is_string(json_object_get(j, key));
}

json_t *snapshot_load_meta(int dir, const char *tag, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	json_error_t je;
	int r = read_file_at(dir, SNAPSHOT_META, &text);
	json_t *j = r == 0 && text.data ? json_loads(text.data, 0, &je) : NULL;

	if (j && json_integer_value(json_object_get(j, "format")) == 1 &&
	    has_text(j, "description") && has_text(j, "parent") && has_text(j, "time") &&
	    json_is_object(json_object_get(j, "spec")))
		return j;
	json_decref(j);
	fail(err, COVE_EDAMAGED, r < 0 ? -r : 0, "snapshot %s: %s is damaged", tag,
	     SNAPSHOT_META);
	hint(err, "'cove snapshot rm NAME %s' removes it", tag);
	return NULL;
}

int snapshot_load_spec(int dir, const char *tag, struct spec *ret, struct cove_error *err)
{
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	json_t *meta = snapshot_load_meta(dir, tag, err);
	char *text;
	int r;

	if (!meta)
		return err->code;
	text = json_dumps(json_object_get(meta, "spec"), JSON_REAL_PRECISION(6));
	json_decref(meta);
	if (!text)
		return fail_nomem(err);
	spec_init(ret);
	r = spec_parse(ret, text, strlen(text), SNAPSHOT_META, &problems, err);
	free(text);
	if (r == 0)
		return 0;
	spec_clear(ret);
	err->code = COVE_EDAMAGED;
	return wrap(err, "snapshot %s", tag);
}

/* ---- listing -------------------------------------------------------------------- */

static json_t *describe(int snapshots, const char *tag)
{
	struct cove_error err = {0};
	cleanup_fd int dir = openat(snapshots, tag, OPEN_DIR);
	json_t *j = dir < 0 ? NULL : snapshot_load_meta(dir, tag, &err);

	if (!j)
		return json_pack("{s:s, s:s, s:s, s:s, s:s}", "tag", tag, "description",
				 "", "parent", "", "time", "", "problem", err.msg);
	json_object_del(j, "spec");
	json_object_del(j, "format");
	json_object_set_new(j, "tag", json_string(tag)); /* whatever it says itself */
	if (memory_size(dir) >= 0)
		json_object_set_new(j, "memory", json_integer(memory_size(dir)));
	return j;
}

static int by_time(const void *a, const void *b)
{
	json_t *const *x = a, *const *y = b;
	int n = strcmp(json_string_value(json_object_get(*x, "time")),
		       json_string_value(json_object_get(*y, "time")));

	return n ? n
		 : strcmp(json_string_value(json_object_get(*x, "tag")),
			  json_string_value(json_object_get(*y, "tag")));
}

static int collect(DIR *d, json_t ***ret, size_t *ret_n, struct cove_error *err)
{
	struct dirent *e;

	while ((e = readdir(d))) {
		json_t **more;

		if (!spec_name_ok(e->d_name))
			continue;
		more = realloc(*ret, (*ret_n + 1) * sizeof(**ret));
		if (!more)
			return fail_nomem(err);
		*ret = more;
		more[*ret_n] = describe(dirfd(d), e->d_name);
		if (!more[*ret_n])
			return fail_nomem(err);
		(*ret_n)++;
	}
	return 0;
}

int snapshot_list(struct store *st, const char *name, json_t **ret,
		  struct cove_error *err)
{
	json_t *list = json_array(), **v = NULL;
	struct spec spec;
	size_t n = 0;
	int r = store_load(st, name, &spec, err), fd;
	DIR *d;

	if (r < 0 || !list) {
		json_decref(list);
		return r < 0 ? r : fail_nomem(err);
	}
	spec_clear(&spec);
	cleanup_fd int record = openat(st->boxes, name, OPEN_DIR);
	fd = openat(record, SNAPSHOTS, OPEN_DIR);
	d = fd < 0 ? NULL : fdopendir(fd);
	r = d ? collect(d, &v, &n, err) : 0;
	if (n)
		qsort(v, n, sizeof(*v), by_time);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, v[i]);
	free(v);
	if (d)
		closedir(d);
	if (r < 0)
		json_decref(list);
	else
		*ret = list;
	return r;
}

/* ---- removing ------------------------------------------------------------------- */

/* The present state now comes from what the removed one came from. */
static void step_back(int record, int dir, const char *tag)
{
	struct cove_error ignored = {0};
	char parent[SPEC_NAME_MAX + 1];
	json_t *meta;

	snapshot_parent(record, parent);
	if (strcmp(parent, tag) != 0)
		return;
	meta = snapshot_load_meta(dir, tag, &ignored);
	if (!meta || snapshot_set_parent(record, json_string_value(json_object_get(
							 meta, "parent"))) < 0)
		unlinkat(record, "parent", 0);
	json_decref(meta);
}

int snapshot_remove(struct store *st, const char *name, const char *tag, bool shred,
		    struct cove_error *err)
{
	char tmp[SPEC_NAME_MAX + 32];
	struct spec spec;
	int e;

	if (store_load(st, name, &spec, err) < 0)
		return err->code;
	spec_clear(&spec);
	cleanup_fd int record = record_open(st, name, err);
	if (record < 0)
		return record;
	cleanup_fd int lock = workspace_lock(record, err);
	if (lock < 0)
		return lock;
	cleanup_fd int dir = snapshot_open(record, name, tag, err);
	if (dir < 0)
		return dir;
	cleanup_fd int snapshots = snapshots_dir(record, true, err);
	if (snapshots < 0)
		return snapshots;
	if (shred && memory_size(dir) < 0 && !memory_has_key(dir)) {
		fail(err, COVE_ESTATE, 0, "snapshot %s holds no memory to shred", tag);
		return hint(err, "'cove snapshot rm %s %s' removes it", name, tag);
	}
	e = shred ? memory_shred(dir) : 0;
	if (e < 0)
		return fail(err, COVE_EIO, -e, "destroy the key of snapshot %s", tag);
	step_back(record, dir, tag);
	snprintf(tmp, sizeof(tmp), ".old-%s-%d", tag, (int)getpid());
	if (renameat(snapshots, tag, snapshots, tmp) < 0)
		return fail(err, COVE_EIO, errno, "remove snapshot %s", tag);
	if (audit_log(st, name, shred ? "snapshot-shred" : "snapshot-rm",
		      json_pack("{s:s}", "tag", tag), err) < 0)
		return err->code;
	int r = remove_tree_at(snapshots, tmp);
	return r < 0 ? fail(err, COVE_EIO, -r, "remove snapshot %s", tag) : 0;
}
