/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_restore - back to a snapshot, in one step.
 *
 *	record/.new-restore-PID/	being made: plan.json, new/UNIT, old/ (empty)
 *	record/restoring/		the same, complete and on disk: it is decided
 *	volumes/.new-...		the new content of a volume, named in the plan; it
 *					changes places with the old one
 *
 * From there on directories are only moved: record/UNIT to old/UNIT, then new/UNIT to
 * record/UNIT. A unit that is still in new/ has not been moved in; so every step can be
 * told from what lies where, and the whole be repeated.
 */
#include "core/snapshot_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/store_impl.h"
#include "core/workspace.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PLAN "plan.json"

/* ---- may it be restored? -------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Has s a mount with the same data in the same place of the record? */
static bool has_mount(const struct spec *s, const struct spec *of, size_t i)
{
	const struct spec_mount *m = &of->mounts[i];

	for (size_t k = 0; k < s->n_mounts; k++)
		if (s->mounts[k].mode == m->mode &&
		    same_text(s->mounts[k].source, m->source) &&
		    same_text(s->mounts[k].target, m->target) &&
		    (m->mode == MOUNT_VOLUME ||
		     spec_layer_number(s, k) == spec_layer_number(of, i)))
			return true;
	return false;
}

static bool keeps_data(const struct spec_mount *m)
{
	return m->mode == MOUNT_OVERLAY || m->mode == MOUNT_COPY ||
	       m->mode == MOUNT_VOLUME;
}

static const char *missing_mount(const struct spec *in, const struct spec *of)
{
	for (size_t i = 0; i < of->n_mounts; i++)
		if (keeps_data(&of->mounts[i]) && !has_mount(in, of, i))
			return of->mounts[i].target ? of->mounts[i].target
						    : of->mounts[i].source;
	return NULL;
}

static int check_spec(const struct cut *c, const struct spec *then, const char *tag,
		      struct cove_error *err)
{
	const char *gone = missing_mount(&c->spec, then);
	const char *added = missing_mount(then, &c->spec);

	if (gone || added)
		fail(err, COVE_ESTATE, 0, "the mount %s %s snapshot %s",
		     gone ? gone : added,
		     gone ? "was taken away or changed since" : "is not in", tag);
	else if (then->storage != c->spec.storage ||
		 then->image.kind != c->spec.image.kind ||
		 !same_text(then->image.value, c->spec.image.value))
		fail(err, COVE_ESTATE, 0, "storage or image changed since snapshot %s",
		     tag);
	else
		return 0;
	return hint(err,
		    "'cove clone %s@%s NEW' makes a sandbox as it was then, or change it "
		    "back with 'cove set'",
		    c->name, tag);
}

/* Nobody else may use them while they are replaced. */
static int lock_volumes(struct cut *c, const struct spec *s, struct cove_error *err)
{
	const char *names[SPEC_LIST_MAX] = {0};
	size_t n = spec_volumes(s, names);
	char path[4200];

	volume_release(&c->volumes);
	for (size_t i = 0; i < n; i++)
		if (volume_use(c->store, names[i], false, &c->volumes, path, sizeof(path),
			       err) < 0)
			return err->code;
	return 0;
}

/* ---- making the new state ------------------------------------------------------- */

struct restoring {
	struct cut *c;
	const char *tag;
	int from;      /* the snapshot */
	int dir;       /* .new-restore-PID */
	int new, vols; /* its new/; HOME/volumes */
	struct copytree tree;
	json_t *units, *drop, *volumes;
};

static int copy_unit(void *arg, const char *unit, struct cove_error *err)
{
	struct restoring *r = arg;

	if (json_array_append_new(r->units, json_string(unit)) < 0)
		return fail_nomem(err);
	return cut_copy_unit(&r->tree, r->from, unit, r->new, unit, err);
}

static int note_drop(void *arg, const char *unit, struct cove_error *err)
{
	struct restoring *r = arg;
	struct stat st;

	if (fstatat(r->new, unit, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return json_array_append_new(r->drop, json_string(unit)) < 0 ? fail_nomem(err)
								     : 0;
}

/* Its number tells it apart from what it takes the place of. */
static int note_volume(struct restoring *r, const char *name, const char *tmp,
		       struct cove_error *err)
{
	struct stat st;

	if (fstatat(r->vols, tmp, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(err, COVE_EIO, errno, "volume %s", name);
	if (json_array_append_new(r->volumes,
				  json_pack("{s:s, s:s, s:I}", "name", name, "new", tmp,
					    "inode", (json_int_t)st.st_ino)) < 0)
		return fail_nomem(err);
	return 0;
}

static int copy_volumes(struct restoring *r, struct cove_error *err)
{
	cleanup_fd int from = openat(r->from, "volumes", OPEN_DIR);
	const char *names[SPEC_LIST_MAX] = {0};
	size_t n = from < 0 ? 0 : spec_volumes(&r->c->spec, names);

	if (from < 0 && errno != ENOENT)
		return fail(err, COVE_EIO, errno, "volumes of the snapshot");
	for (size_t i = 0; i < n; i++) {
		char tmp[2 * SPEC_NAME_MAX + 48];
		cleanup_fd int dir = openat(from, names[i], OPEN_DIR);

		if (dir < 0 && errno == ENOENT)
			continue;
		if (dir < 0)
			return fail(err, COVE_EIO, errno, "volume %s", names[i]);
		snprintf(tmp, sizeof(tmp), ".new-%s+%s-%d", r->c->name, names[i],
			 (int)getpid());
		r->tree.label = names[i];
		r->tree.hollow = NULL;
		remove_tree_at(r->vols, tmp);
		if (copytree(&r->tree, dir, r->vols, tmp, err) < 0) {
			remove_tree_at(r->vols, tmp);
			return err->code;
		}
		if (note_volume(r, names[i], tmp, err) < 0)
			return err->code;
	}
	return 0;
}

static int prepare(struct restoring *r, struct cove_error *err)
{
	json_t *plan;

	if (mkdirat(r->dir, "new", 0700) < 0 || mkdirat(r->dir, "old", 0700) < 0)
		return fail(err, COVE_EIO, errno, "prepare the restore");
	r->new = openat(r->dir, "new", OPEN_DIR);
	if (r->new < 0)
		return fail(err, COVE_EIO, errno, "prepare the restore");
	if (cut_each_unit(r->from, copy_unit, r, err) < 0 ||
	    cut_each_unit(r->c->record, note_drop, r, err) < 0 ||
	    copy_volumes(r, err) < 0)
		return err->code;
	plan = json_pack("{s:i, s:s, s:O, s:O, s:O}", "format", 1, "tag", r->tag, "units",
			 r->units, "drop", r->drop, "volumes", r->volumes);
	if (write_json(r->dir, PLAN, plan, err) < 0)
		return err->code;
	if (json_array_size(r->volumes) && sync_all(r->vols, err) < 0)
		return err->code;
	return sync_all(r->dir, err);
}

static void forget_volumes(const struct restoring *r)
{
	const char *tmp;
	size_t i;
	json_t *v;

	json_array_foreach(r->volumes, i, v)
	{
		tmp = json_string_value(json_object_get(v, "new"));
		if (tmp)
			remove_tree_at(r->vols, tmp);
	}
}

static int decide(struct restoring *r, struct cove_error *err)
{
	char tmp[48];
	int record = r->c->record, e;

	snprintf(tmp, sizeof(tmp), ".new-restore-%d", (int)getpid());
	if (mkdirat(record, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "prepare the restore");
	r->dir = openat(record, tmp, OPEN_DIR);
	e = r->dir < 0 ? fail(err, COVE_EIO, errno, "prepare the restore")
		       : prepare(r, err);
	if (e == 0 && store_rename_new(record, tmp, RESTORING) < 0)
		e = fail(err, COVE_EIO, errno, "restore");
	if (e < 0) {
		forget_volumes(r);
		remove_tree_at(record, tmp);
		return e;
	}
	return fsync(record) < 0 ? fail(err, COVE_EIO, errno, "sync the restore") : 0;
}

/* What restores of this sandbox left that never were decided. No name has a '+'. */
static void sweep_volumes(int vols, const char *name)
{
	int fd = openat(vols, ".", OPEN_DIR);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t n = strlen(name);
	struct dirent *e;

	if (!d)
		closep(&fd);
	while (d && (e = readdir(d)))
		if ((strncmp(e->d_name, ".new-", 5) == 0 ||
		     strncmp(e->d_name, ".old-", 5) == 0) &&
		    strncmp(e->d_name + 5, name, n) == 0 && e->d_name[5 + n] == '+')
			remove_tree_at(vols, e->d_name);
	if (d)
		closedir(d);
}

int snapshot_restore(struct cut *c, const char *tag, struct cove_error *err)
{
	struct restoring r = {.c = c, .tag = tag, .dir = -1, .new = -1, .vols = -1};
	struct spec then;
	int e;

	r.from = snapshot_open(c->record, c->name, tag, err);
	if (r.from < 0)
		return r.from;
	cleanup_fd int from = r.from;
	if (snapshot_load_spec(from, tag, &then, err) < 0)
		return err->code;
	e = check_spec(c, &then, tag, err);
	if (e == 0)
		e = lock_volumes(c, &then, err);
	spec_clear(&then);
	r.vols = e < 0 ? -1 : volume_parent(c->store, err);
	if (r.vols < 0)
		return err->code;
	sweep_dots(c->record);
	sweep_volumes(r.vols, c->name);
	e = workspace_mark(c->store, c->name, true); /* if we are cut off: look here */
	if (e < 0) {
		close_fd(&r.vols);
		return fail(err, COVE_EIO, -e, "mark of %s", c->name);
	}
	r.units = json_array();
	r.drop = json_array();
	r.volumes = json_array();
	e = r.units && r.drop && r.volumes ? decide(&r, err) : fail_nomem(err);
	if (e == 0)
		e = restore_finish(c, err);
	if (e == 0)
		workspace_mark(c->store, c->name, false);
	json_decref(r.units);
	json_decref(r.drop);
	json_decref(r.volumes);
	close_fd(&r.dir);
	close_fd(&r.new);
	close_fd(&r.vols);
	return e;
}
