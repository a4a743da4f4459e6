/* SPDX-License-Identifier: Apache-2.0 */
#include "core/snapshot_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/snapshot_memory.h"
#include "core/store_impl.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

/* A file that changed this shortly before the cut could change again without its time
 * showing it: clocks of files are coarse. It is not shared with the next snapshot. */
#define RACY_NS (100 * 1000 * 1000)

struct making {
	struct cut *c;
	const char *tag, *description;
	char parent[SPEC_NAME_MAX + 1];
	int dir;        /* the snapshot that is being made */
	int parent_dir; /* -1: nothing to share with */
	struct manifest known, note;
	struct copytree tree;
	uint64_t memory; /* bytes, if it is saved too */
	uint8_t key[SEAL_KEY];
};

static int64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- sharing with the parent ---------------------------------------------------- */

/* A write to a mapped page of a file in memory leaves no trace in its times: there,
 * nothing is known to be unchanged. */
static bool times_tell(int dir)
{
	struct statfs fs;

	return fstatfs(dir, &fs) == 0 && fs.f_type != TMPFS_MAGIC &&
	       (unsigned long)fs.f_type != RAMFS_MAGIC;
}

static void load_known(struct making *m)
{
	struct cove_error ignored = {0};
	cleanup_buf struct buf text = BUF_INIT(MANIFEST_MAX);

	snapshot_parent(m->c->record, m->parent);
	if (!m->parent[0] || !times_tell(m->c->record))
		return;
	m->parent_dir = snapshot_open(m->c->record, m->c->name, m->parent, &ignored);
	if (m->parent_dir < 0)
		return;
	if (read_file_at(m->parent_dir, SNAPSHOT_MANIFEST, &text) == 0 && text.len &&
	    manifest_parse(&m->known, text.data, text.len) == 0)
		m->tree.known = &m->known;
	m->tree.known_dir = m->parent_dir;
}

static int save_note(struct making *m, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(MANIFEST_MAX);
	int r = manifest_print(&m->note, &text);

	if (r == 0)
		r = write_file_atomic(m->dir, SNAPSHOT_MANIFEST, text.data, text.len,
				      0600, 0);
	return r < 0 ? fail(err, COVE_EIO, -r, "write the manifest") : 0;
}

/* ---- taking one ----------------------------------------------------------------- */

static int copy_volumes(struct making *m, struct cove_error *err)
{
	const char *names[SPEC_LIST_MAX] = {0};
	size_t n = spec_volumes(&m->c->spec, names);

	if (n == 0)
		return 0;
	/* A running sandbox has them itself. */
	if (!m->c->keeper &&
	    volumes_use(m->c->store, &m->c->spec, &m->c->volumes, err) < 0)
		return err->code;
	if (mkdirat(m->dir, "volumes", 0700) < 0)
		return fail(err, COVE_EIO, errno, "volumes");
	cleanup_fd int to = openat(m->dir, "volumes", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; to >= 0 && i < n; i++) {
		char label[SPEC_NAME_MAX + 16];
		cleanup_fd int from = cut_open_volume(m->c, names[i]);

		if (from == -ENOENT)
			continue;
		if (from < 0)
			return fail(err, COVE_EIO, -from, "volume %s", names[i]);
		snprintf(label, sizeof(label), "volumes/%s", names[i]);
		m->tree.label = label;
		m->tree.hollow = NULL;
		if (copytree(&m->tree, from, to, names[i], err) < 0)
			return err->code;
	}
	return to < 0 ? fail(err, COVE_EIO, errno, "volumes") : 0;
}

static json_t *make_meta(const struct making *m)
{
	char when[40];
	time_t now = time(NULL);
	struct tm tm;
	int64_t ms = realtime_ns() / 1000000 % 1000;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when) - 8, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(when + strlen(when), 8, ".%03dZ", (int)ms);
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o*}", "format",
			 1, "tag", m->tag, "description", m->description, "parent",
			 m->parent, "time", when, "files", (json_int_t)m->tree.files,
			 "bytes", (json_int_t)m->tree.bytes, "shared",
			 (json_int_t)m->tree.linked, "spec", spec_json(&m->c->spec, true),
			 "memory",
			 m->c->memory ? json_integer((json_int_t)m->memory) : NULL);
}

/* Everything, and on disk, while the sandbox holds still: pages that are mapped inside
 * are clean afterwards, so that a later write shows in the times of its file. */
static int fill(struct making *m, struct cove_error *err)
{
	m->tree.tick = cut_tick;
	m->tree.arg = m->c;
	m->tree.note = times_tell(m->dir) ? &m->note : NULL;
	m->tree.note_before_ns = realtime_ns() - RACY_NS;
	load_known(m);
	if (m->c->memory && memory_save(m->c, m->dir, m->key, &m->memory, err) < 0)
		return err->code;
	if (cut_copy_units(&m->tree, m->c->files, m->dir, err) < 0 ||
	    copy_volumes(m, err) < 0 || (m->tree.note && save_note(m, err) < 0) ||
	    write_json(m->dir, SNAPSHOT_META, make_meta(m), err) < 0 ||
	    (m->c->memory && memory_write_key(m->c->store, m->dir, m->key, err) < 0) ||
	    sync_all(m->dir, err) < 0)
		return err->code;
	return cut_release(m->c, err);
}

static int make(struct making *m, int snapshots, struct cove_error *err)
{
	char tmp[SPEC_NAME_MAX + 32];
	int r;

	snprintf(tmp, sizeof(tmp), ".new-%s-%d", m->tag, (int)getpid());
	if (mkdirat(snapshots, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "make snapshot %s", m->tag);
	m->dir = openat(snapshots, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = m->dir < 0 ? fail(err, COVE_EIO, errno, "make snapshot %s", m->tag)
		       : fill(m, err);
	if (r == 0 && store_rename_new(snapshots, tmp, m->tag) < 0)
		r = fail(err, COVE_EIO, errno, "make snapshot %s", m->tag);
	if (r < 0) {
		remove_tree_at(snapshots, tmp);
		return r;
	}
	if (fsync(snapshots) < 0)
		return fail(err, COVE_EIO, errno, "sync snapshot %s", m->tag);
	r = snapshot_set_parent(m->c->record, m->tag);
	return r < 0 ? fail(err, COVE_EIO, -r, "note snapshot %s", m->tag) : 0;
}

static int check_new(int snapshots, const char *tag, struct cove_error *err)
{
	struct stat st;

	if (fstatat(snapshots, tag, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	fail(err, COVE_EEXIST, 0, "snapshot %s exists already", tag);
	return hint(err, "choose another tag, or 'cove snapshot rm NAME %s' first", tag);
}

int snapshot_check_new(struct store *st, const char *name, const char *tag,
		       struct cove_error *err)
{
	char path[SPEC_NAME_MAX + 32];
	int r = snapshot_check_tag(tag, err);

	if (r < 0 || !spec_name_ok(name))
		return r;
	snprintf(path, sizeof(path), "%s/" SNAPSHOTS, name);
	cleanup_fd int dir = openat(st->boxes, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? 0 : check_new(dir, tag, err);
}

int snapshot_take(struct cut *c, const char *tag, const char *description,
		  struct cove_error *err)
{
	struct making m = {.c = c, .tag = tag, .dir = -1, .parent_dir = -1};
	int r = snapshot_check_tag(tag, err);

	m.description = description ? description : "";
	if (r == 0 && strlen(m.description) > SNAPSHOT_NOTE_MAX)
		r = fail(err, COVE_EINVAL, 0, "the description is longer than %d bytes",
			 SNAPSHOT_NOTE_MAX);
	cleanup_fd int snapshots = r < 0 ? -1 : snapshots_dir(c->record, true, err);
	if (snapshots < 0)
		return err->code;
	r = check_new(snapshots, tag, err);
	if (r < 0)
		return r;
	manifest_init(&m.known);
	manifest_init(&m.note);
	r = make(&m, snapshots, err);
	if (r == 0)
		r = audit_log(c->store, c->name, "snapshot",
			      json_pack("{s:s, s:s, s:I, s:I, s:I}", "tag", tag, "parent",
					m.parent, "files", (json_int_t)m.tree.files,
					"bytes", (json_int_t)m.tree.bytes, "memory",
					(json_int_t)m.memory),
			      err);
	sodium_memzero(m.key, sizeof(m.key));
	manifest_clear(&m.known);
	manifest_clear(&m.note);
	close_fd(&m.dir);
	close_fd(&m.parent_dir);
	return r;
}
