/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_finish - the second half of a restore: moving directories, as often as it
 * takes. See snapshot_restore.c for what lies where. */
#include "core/snapshot_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct finish {
	int record, new, old, vols;
	const json_t *plan;
};

static bool there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int move(int from, const char *name, int to, const char *as)
{
	return renameat(from, name, to, as) < 0 ? -errno : 0;
}

static int move_unit(const struct finish *f, const char *unit, bool drop)
{
	int r = 0;

	if (!cut_is_unit(unit))
		return -EBADMSG;
	if (!drop && !there(f->new, unit)) /* it is in already */
		return 0;
	if (there(f->record, unit))
		r = move(f->record, unit, f->old, unit);
	return r < 0 || drop ? r : move(f->new, unit, f->record, unit);
}

static int move_units(const struct finish *f, const char *list, bool drop)
{
	const json_t *a = json_object_get(f->plan, list);
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(a); i++) {
		const char *unit = json_string_value(json_array_get(a, i));

		r = unit ? move_unit(f, unit, drop) : -EBADMSG;
	}
	return r;
}

/* A file system that cannot swap two names: one after the other. Whoever looked at the
 * volume in between made an empty one. */
static int move_in_two(int vols, const char *name, const char *new)
{
	char old[2 * SPEC_NAME_MAX + 48];

	snprintf(old, sizeof(old), ".old-%s", new + 5);
	if (there(vols, old) && there(vols, name) &&
	    unlinkat(vols, name, AT_REMOVEDIR) < 0)
		return -errno;
	if (there(vols, name) && renameat(vols, name, vols, old) < 0)
		return -errno;
	return renameat(vols, new, vols, name) < 0 ? -errno : 0;
}

/* In one step: nobody ever finds the volume missing. Afterwards the old content lies
 * where the new one was, which its number tells. */
static int move_volume(const struct finish *f, const char *name, const char *new,
		       uint64_t inode)
{
	struct stat st;

	if (fstatat(f->vols, new, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (st.st_ino != inode)
		return 0;
	if (!there(f->vols, name))
		return renameat(f->vols, new, f->vols, name) < 0 ? -errno : 0;
	if (syscall(SYS_renameat2, f->vols, new, f->vols, name, RENAME_EXCHANGE) == 0)
		return 0;
	return errno == EINVAL || errno == ENOSYS ? move_in_two(f->vols, name, new)
						  : -errno;
}

static void drop_old_volume(const struct finish *f, const char *new)
{
	char old[2 * SPEC_NAME_MAX + 48];

	snprintf(old, sizeof(old), ".old-%s", new + 5);
	remove_tree_at(f->vols, old);
	remove_tree_at(f->vols, new);
}

static int each_volume(const struct finish *f, bool clean)
{
	const json_t *a = json_object_get(f->plan, "volumes");
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(a); i++) {
		const json_t *v = json_array_get(a, i);
		const char *name = json_string_value(json_object_get(v, "name"));
		const char *new = json_string_value(json_object_get(v, "new"));
		json_int_t inode = json_integer_value(json_object_get(v, "inode"));

		if (!name || !spec_name_ok(name) || !new ||
		    strncmp(new, ".new-", 5) != 0 || strchr(new, '/') ||
		    strlen(new) >= 2 * SPEC_NAME_MAX + 48)
			r = -EBADMSG;
		else if (clean)
			drop_old_volume(f, new);
		else
			r = move_volume(f, name, new, (uint64_t)inode);
	}
	return r;
}

static int move_all(const struct finish *f, const char *tag)
{
	int r = move_units(f, "units", false);

	if (r == 0)
		r = move_units(f, "drop", true);
	if (r == 0)
		r = each_volume(f, false);
	if (r == 0 && (fsync(f->record) < 0 || (f->vols >= 0 && fsync(f->vols) < 0)))
		r = -errno;
	return r < 0 ? r : snapshot_set_parent(f->record, tag);
}

static json_t *load_plan(int dir, const char **ret_tag)
{
	cleanup_buf struct buf text = BUF_INIT(META_MAX);
	json_error_t je;
	int r = read_file_at(dir, "plan.json", &text);
	json_t *j = r == 0 && text.data ? json_loads(text.data, 0, &je) : NULL;

	*ret_tag = json_string_value(json_object_get(j, "tag"));
	if (*ret_tag && spec_name_ok(*ret_tag))
		return j;
	json_decref(j);
	return NULL;
}

static int damaged(const struct cut *c, int sys, struct cove_error *err)
{
	fail(err, sys == EBADMSG ? COVE_EDAMAGED : COVE_EIO, sys == EBADMSG ? 0 : sys,
	     "complete the restore of %s", c->name);
	return hint(err, "its files are in %s/sandboxes/%s/%s", c->store->home, c->name,
		    RESTORING);
}

/* A volume that somebody uses by now cannot be swapped under his feet. */
static int hold_volumes(struct cut *c, const json_t *plan, struct cove_error *err)
{
	const json_t *a = json_object_get(plan, "volumes");
	char path[4200];

	for (size_t i = 0; i < json_array_size(a); i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(a, i), "name"));

		if (name && volume_use(c->store, name, false, &c->volumes, path,
				       sizeof(path), err) < 0)
			return wrap(err, "complete the restore of %s", c->name);
	}
	return 0;
}

static int run(struct cut *c, int dir, const json_t *plan, const char *tag,
	       struct cove_error *err)
{
	cleanup_fd int new = openat(dir, "new", OPEN_DIR);
	cleanup_fd int old = openat(dir, "old", OPEN_DIR);
	bool volumes = json_array_size(json_object_get(plan, "volumes")) > 0;
	cleanup_fd int vols = volumes ? volume_parent(c->store, err) : -1;
	struct finish f = {c->record, new, old, vols, plan};
	char gone[48];
	int r;

	if (volumes && (vols < 0 || hold_volumes(c, plan, err) < 0))
		return err->code;
	if (new < 0 || old < 0)
		return damaged(c, errno, err);
	r = move_all(&f, tag);
	if (r < 0)
		return damaged(c, -r, err);
	if (audit_log(c->store, c->name, "restore", json_pack("{s:s}", "tag", tag), err) <
	    0)
		return err->code;
	snprintf(gone, sizeof(gone), ".old-restore-%d", (int)getpid());
	each_volume(&f, true);
	r = move(c->record, RESTORING, c->record, gone);
	if (r == 0 && fsync(c->record) < 0)
		r = -errno;
	if (r < 0)
		return damaged(c, -r, err);
	remove_tree_at(c->record, gone);
	return 0;
}

int restore_finish(struct cut *c, struct cove_error *err)
{
	cleanup_fd int dir = openat(c->record, RESTORING, OPEN_DIR);
	const char *tag;
	json_t *plan;
	int r;

	if (dir < 0)
		return errno == ENOENT ? 0 : damaged(c, errno, err);
	plan = load_plan(dir, &tag);
	if (!plan)
		return damaged(c, EBADMSG, err);
	r = run(c, dir, plan, tag, err);
	json_decref(plan);
	return r;
}

int snapshot_recover(struct store *st, const char *name, struct cove_error *err)
{
	struct cut c = {.store = st, .files = -1, .work_lock = -1, .run_lock = -1};
	char path[SPEC_NAME_MAX + 32];
	int r;

	snprintf(path, sizeof(path), "%s/%s", name, RESTORING);
	if (!there(st->boxes, path))
		return 0;
	snprintf(c.name, sizeof(c.name), "%s", name);
	c.record = record_open(st, name, err);
	if (c.record < 0)
		return c.record;
	r = restore_finish(&c, err);
	volume_release(&c.volumes);
	close_fd(&c.record);
	return r;
}
