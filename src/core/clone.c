/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clone.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/box.h"
#include "core/netrules.h"
#include "core/secret.h"
#include "core/snapshot_impl.h"
#include "core/store_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- the spec ------------------------------------------------------------------- */

static const char *place_of(const struct spec_mount *m)
{
	return m->target ? m->target : m->source;
}

static bool has_layer(const struct spec_mount *m)
{
	return m->mode == MOUNT_OVERLAY || m->mode == MOUNT_COPY;
}

static int find_target(const struct spec *s, const struct spec_mount *like)
{
	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].mode == like->mode &&
		    strcmp(place_of(&s->mounts[i]), place_of(like)) == 0)
			return (int)i;
	return -1;
}

/* The one overlay mount of s that the other spec has no counterpart for; -1: none, or
 * several. */
static int only_single(const struct spec *s, const struct spec *other)
{
	int found = -1;

	for (size_t i = 0; i < s->n_mounts; i++) {
		if (s->mounts[i].mode != MOUNT_OVERLAY ||
		    find_target(other, &s->mounts[i]) >= 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

static int free_number(const struct spec *s, size_t n, const int *taken)
{
	for (int number = 0;; number++) {
		bool used = false;

		for (size_t i = 0; i < s->n_mounts; i++)
			used |= taken[i] == number ||
				(i < n && s->mounts[i].layer == number);
		if (!used)
			return number;
	}
}

void layers_match(const struct spec *from, struct spec *to, int *ret_layer, bool pair)
{
	int a = pair ? only_single(from, to) : -1, b = pair ? only_single(to, from) : -1;

	for (size_t i = 0; i < to->n_mounts; i++) {
		int k = has_layer(&to->mounts[i]) ? find_target(from, &to->mounts[i])
						  : -1;

		if (a >= 0 && b == (int)i)
			k = a;
		ret_layer[i] = k < 0 ? -1 : spec_layer_number(from, (size_t)k);
	}
	for (size_t i = 0; i < to->n_mounts; i++)
		to->mounts[i].layer =
			ret_layer[i] >= 0 ? ret_layer[i] : free_number(to, i, ret_layer);
	for (size_t i = 0; i < to->n_mounts; i++)
		if (to->mounts[i].layer == (int)i)
			to->mounts[i].layer = -1; /* which means the same */
}

/* Anything but an empty upper directory. */
static bool layer_holds(int files, int number)
{
	char path[32];
	int fd;
	DIR *d;
	struct dirent *e;
	bool any = false;

	snprintf(path, sizeof(path), "m%d/upper", number);
	fd = openat(files, path, OPEN_DIR);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return fd >= 0 || errno != ENOENT; /* unreadable counts as changed */
	}
	while (!any && (e = readdir(d)))
		any = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return any;
}

int layers_check_dropped(const struct spec *from, const struct spec *to, const int *layer,
			 int files, struct cove_error *err)
{
	for (size_t i = 0; i < from->n_mounts; i++) {
		int number = spec_layer_number(from, i);
		bool kept = from->mounts[i].mode != MOUNT_OVERLAY;

		for (size_t k = 0; k < to->n_mounts; k++)
			kept |= layer[k] == number;
		if (kept || !layer_holds(files, number))
			continue;
		fail(err, COVE_ESTATE, 0, "%s holds changes and would be left out",
		     place_of(&from->mounts[i]));
		return hint(err,
			    "apply or discard them first, or keep a mount with that "
			    "target: SRC:%s:overlay",
			    place_of(&from->mounts[i]));
	}
	return 0;
}

int clone_spec(struct store *st, const struct spec *from, const char *new_name,
	       const struct spec *changes, struct spec *ret, struct cove_error *err)
{
	int r;

	if (!spec_name_ok(new_name)) {
		fail(err, COVE_EINVAL, 0, "'%.80s' is not a name", new_name);
		return hint(err,
			    "a to z, 0 to 9, '-', '_', '.', first a letter or digit, "
			    "at most %d",
			    SPEC_NAME_MAX);
	}
	if (store_exists(st, new_name)) {
		fail(err, COVE_EEXIST, 0, "%s exists already", new_name);
		return hint(err, "choose another name, or 'cove rm %s' first", new_name);
	}
	r = spec_copy(ret, from, err);
	if (r < 0)
		return r;
	if (changes)
		r = spec_merge(ret, changes, err);
	if (r == 0 && ret->name)
		r = spec_set(ret, "name", new_name, err);
	if (r == 0)
		r = box_resolve_spec(ret, st, err);
	if (r < 0)
		spec_clear(ret);
	return r;
}

/* ---- the files ------------------------------------------------------------------ */

struct cloning {
	struct cut *c;
	const struct spec *spec;
	const int *layer; /* of the original, for each mount */
	int dir;          /* the record that is being made */
	struct copytree tree;
};

static bool there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int copy_layers(struct cloning *k, struct cove_error *err)
{
	for (size_t i = 0; i < k->spec->n_mounts; i++) {
		char unit[16];

		snprintf(unit, sizeof(unit), "m%d", k->layer[i]);
		if (k->layer[i] >= 0 && there(k->c->files, unit) &&
		    cut_copy_unit(&k->tree, k->c->files, unit, k->dir, unit, err) < 0)
			return err->code;
	}
	return 0;
}

/* Home, image root and masks; with ephemeral storage they begin anew anyway, unless its
 * memory goes on, too. */
static int copy_rest(struct cloning *k, struct cove_error *err)
{
	static const char *const units[] = {"home", "root", "mask"};

	if (k->spec->storage == STORAGE_EPHEMERAL && !k->c->memory)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (there(k->c->files, units[i]) &&
		    cut_copy_unit(&k->tree, k->c->files, units[i], k->dir, units[i],
				  err) < 0)
			return err->code;
	return 0;
}

/* What 'cove net' allowed and denied is part of what it is. */
static int copy_rules(struct cloning *k, struct cove_error *err)
{
	struct netrules rules = {0};
	int r = netrules_load(&rules, k->c->record, err);

	if (r == 0 && json_array_size(rules.rules))
		r = netrules_save(&rules, k->dir, err);
	netrules_clear(&rules);
	return r;
}

/* What stands for its secrets is in its memory: if that goes on, so do they. */
static int copy_placeholders(struct cloning *k, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	int r = k->c->memory ? read_file_at(k->c->record, SECRET_PLACEHOLDERS, &text)
			     : -ENOENT;

	if (r == 0)
		r = write_file_atomic(k->dir, SECRET_PLACEHOLDERS, text.data, text.len,
				      0600, 0);
	return r < 0 && r != -ENOENT ? fail(err, COVE_EIO, -r, "placeholders of secrets")
				     : 0;
}

static int fill(struct cloning *k, struct cove_error *err)
{
	k->tree.tick = cut_tick;
	k->tree.arg = k->c;
	if (copy_layers(k, err) < 0 || copy_rest(k, err) < 0)
		return err->code;
	if (copy_rules(k, err) < 0 || copy_placeholders(k, err) < 0)
		return err->code;
	/* From here on the original may go on; what is new only has to last. */
	if (cut_release(k->c, err) < 0 || store_write_spec(k->dir, k->spec, 0, err) < 0)
		return err->code;
	return sync_all(k->dir, err);
}

static int make(struct cloning *k, const char *name, struct cove_error *err)
{
	struct store *st = k->c->store;
	char tmp[SPEC_NAME_MAX + 32];
	int r;

	snprintf(tmp, sizeof(tmp), ".new-%s-%d", name, (int)getpid());
	if (mkdirat(st->boxes, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "create %s", name);
	k->dir = openat(st->boxes, tmp, OPEN_DIR);
	r = k->dir < 0 ? fail(err, COVE_EIO, errno, "create %s", name) : fill(k, err);
	if (r == 0 && store_rename_new(st->boxes, tmp, name) < 0)
		r = errno == EEXIST ? fail(err, COVE_EEXIST, 0, "%s exists already", name)
				    : fail(err, COVE_EIO, errno, "create %s", name);
	if (r < 0)
		remove_tree_at(st->boxes, tmp);
	else if (fsync(st->boxes) < 0)
		r = fail(err, COVE_EIO, errno, "sync %s", name);
	close_fd(&k->dir);
	return r;
}

int clone_make(struct cut *c, const char *new_name, const struct spec *changes,
	       struct cove_error *err)
{
	struct cloning k = {.c = c, .dir = -1};
	int layer[SPEC_LIST_MAX];
	struct spec spec;
	int r = clone_spec(c->store, &c->spec, new_name, changes, &spec, err);

	if (r < 0)
		return r;
	layers_match(&c->spec, &spec, layer, false);
	k.spec = &spec;
	k.layer = layer;
	r = layers_check_dropped(&c->spec, &spec, layer, c->files, err);
	if (r == 0)
		r = make(&k, new_name, err);
	spec_clear(&spec);
	if (r == 0)
		r = audit_log(c->store, new_name, "clone",
			      json_pack("{s:s, s:I, s:I}", "from", c->name, "files",
					(json_int_t)k.tree.files, "bytes",
					(json_int_t)k.tree.bytes),
			      err);
	return r;
}
