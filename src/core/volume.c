/* SPDX-License-Identifier: Apache-2.0 */
#include "core/volume.h"

#include "base/io.h"
#include "base/util.h"
#include "core/diskwatch.h"
#include "core/store_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCKS ".locks"

static int make_dir(int parent, const char *name)
{
	int fd;

	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int volume_parent(struct store *st, struct cove_error *err)
{
	cleanup_fd int home = open(st->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = home < 0 ? -errno : make_dir(home, "volumes");

	return fd < 0 ? fail(err, COVE_EIO, -fd, "%s/volumes", st->home) : fd;
}

/* ---- who uses it ---------------------------------------------------------------- */

static bool names_volume(const struct spec *s, const char *volume)
{
	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].mode == MOUNT_VOLUME &&
		    strcmp(s->mounts[i].source, volume) == 0)
			return true;
	return false;
}

struct users {
	struct store *st;
	const char *volume;
	json_t *names;
	const char *damaged; /* cannot be told */
	char damaged_name[SPEC_NAME_MAX + 1];
};

static int look_at(void *arg, const char *name)
{
	struct users *u = arg;
	struct cove_error err = {0};
	struct spec s;
	int r = store_load(u->st, name, &s, &err);

	if (r == COVE_EDAMAGED) {
		snprintf(u->damaged_name, sizeof(u->damaged_name), "%s", name);
		u->damaged = u->damaged_name;
	}
	if (r < 0)
		return 0; /* a running one-shot has no spec here; its lock tells */
	if (names_volume(&s, u->volume) &&
	    json_array_append_new(u->names, json_string(name)) < 0)
		r = COVE_ENOMEM;
	spec_clear(&s);
	return r;
}

/* u->names is the caller's to release. */
static int find_users(struct store *st, const char *volume, struct users *u,
		      struct cove_error *err)
{
	*u = (struct users){.st = st, .volume = volume, .names = json_array()};
	return u->names ? store_each(st, look_at, u, err) : fail_nomem(err);
}

static int in_use(struct store *st, const char *name, bool shared, struct cove_error *err)
{
	struct cove_error ignored = {0};
	const char *who = NULL;
	struct users u;

	if (find_users(st, name, &u, &ignored) == 0)
		for (size_t i = 0; i < json_array_size(u.names) && !who; i++) {
			who = json_string_value(json_array_get(u.names, i));
			if (!store_is_running(st, who))
				who = NULL;
		}
	fail(err, COVE_EDENIED, 0, "volume %s is in use by %s", name,
	     who ? who : "another sandbox");
	json_decref(u.names);
	return hint(err, shared ? "it does not share it: both must say 'volume,shared'"
				: "stop that one, or let both say 'volume,shared'");
}

/* ---- using it ------------------------------------------------------------------- */

static bool has_lock(const struct volume_locks *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

static int lock_volume(struct store *st, int parent, const char *name, bool shared,
		       struct volume_locks *l, struct cove_error *err)
{
	struct volume_lock *v = reallocarray(l->v, l->n + 1, sizeof(*v));
	cleanup_fd int dir = make_dir(parent, LOCKS);

	if (!v)
		return fail_nomem(err);
	l->v = v;
	if (dir < 0)
		return fail(err, COVE_EIO, -dir, "locks of volumes");
	cleanup_fd int fd =
		openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "lock of volume %s", name);
	if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? in_use(st, name, shared, err)
			       : fail(err, COVE_EIO, errno, "lock of volume %s", name);
	snprintf(v[l->n].name, sizeof(v[l->n].name), "%s", name);
	v[l->n++].fd = take_fd(&fd);
	return 0;
}

int volume_use(struct store *st, const char *name, bool shared, struct volume_locks *l,
	       char *path, size_t size, struct cove_error *err)
{
	cleanup_fd int parent = volume_parent(st, err);
	int fd;

	if (parent < 0)
		return parent;
	if (!spec_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.80s' is not a name", name);
	if (snprintf(path, size, "%s/volumes/%s", st->home, name) >= (int)size)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "volume %s", name);
	if (!has_lock(l, name) && lock_volume(st, parent, name, shared, l, err) < 0)
		return err->code;
	fd = make_dir(parent, name);
	if (fd < 0)
		return fail(err, COVE_EIO, -fd, "volume %s", name);
	close(fd);
	return 0;
}

/* Mounted twice by one sandbox, once not shared: then it is not shared. */
static bool all_share(const struct spec *s, const char *volume)
{
	bool shared = true;

	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].mode == MOUNT_VOLUME &&
		    strcmp(s->mounts[i].source, volume) == 0)
			shared &= s->mounts[i].shared;
	return shared;
}

int volumes_use(struct store *st, const struct spec *s, struct volume_locks *l,
		struct cove_error *err)
{
	char path[4200];

	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].mode == MOUNT_VOLUME &&
		    volume_use(st, s->mounts[i].source, all_share(s, s->mounts[i].source),
			       l, path, sizeof(path), err) < 0)
			return err->code;
	return 0;
}

void volume_release(struct volume_locks *l)
{
	for (size_t i = 0; i < l->n; i++)
		close_fd(&l->v[i].fd);
	free(l->v);
	*l = (struct volume_locks){0};
}

/* ---- listing and removing ------------------------------------------------------- */

static int describe(struct store *st, int parent, const char *name, json_t *list,
		    struct cove_error *err)
{
	struct users u;
	json_t *o;

	if (find_users(st, name, &u, err) < 0) {
		json_decref(u.names);
		return err->code;
	}
	o = json_pack("{s:s, s:I, s:o}", "name", name, "bytes",
		      (json_int_t)disk_usage(parent, name), "usedBy", u.names);
	if (!o || json_array_append_new(list, o) < 0)
		return fail_nomem(err);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int volumes_list(struct store *st, json_t **ret, struct cove_error *err)
{
	cleanup_free char(*names)[SPEC_NAME_MAX + 1] = NULL;
	int parent = volume_parent(st, err), r = 0;
	DIR *d = parent < 0 ? NULL : fdopendir(parent);
	json_t *list = json_array();
	struct dirent *e;
	size_t n = 0;

	if (!d || !list) {
		json_decref(list);
		if (d)
			closedir(d);
		return parent < 0 ? parent : fail_nomem(err);
	}
	while (r == 0 && (e = readdir(d))) {
		void *more;

		if (!spec_name_ok(e->d_name))
			continue;
		more = reallocarray(names, n + 1, sizeof(*names));
		if (more) {
			names = more;
			snprintf(names[n++], sizeof(*names), "%.*s", SPEC_NAME_MAX,
				 e->d_name);
		} else {
			r = fail_nomem(err);
		}
	}
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = describe(st, dirfd(d), names[i], list, err);
	closedir(d);
	if (r < 0)
		json_decref(list);
	else
		*ret = list;
	return r;
}

static int refuse_used(struct store *st, const char *name, struct cove_error *err)
{
	struct users u;
	const char *who;
	int r = find_users(st, name, &u, err);

	who = r == 0 ? json_string_value(json_array_get(u.names, 0)) : NULL;
	if (who) {
		fail(err, COVE_ESTATE, 0, "volume %s belongs to sandbox %s", name, who);
		r = hint(err,
			 "'cove set %s --mount ...' takes it away, or 'cove rm %s' first",
			 who, who);
	} else if (r == 0 && u.damaged) {
		fail(err, COVE_ESTATE, 0,
		     "volume %s: sandbox %s is damaged and may use it", name, u.damaged);
		r = hint(err, "mend it, or remove it with 'cove rm -f %s'", u.damaged);
	}
	json_decref(u.names);
	return r;
}

int volume_remove(struct store *st, const char *name, struct cove_error *err)
{
	cleanup_fd int parent = volume_parent(st, err);
	struct volume_locks l = {0};
	char tmp[SPEC_NAME_MAX + 32];
	struct stat s;
	int r = 0;

	if (parent < 0)
		return parent;
	if (!spec_name_ok(name) || fstatat(parent, name, &s, AT_SYMLINK_NOFOLLOW) < 0) {
		fail(err, COVE_ENOENT, 0, "no volume named %.80s", name);
		return hint(err, "'cove volume ls' shows what there is");
	}
	if (refuse_used(st, name, err) < 0 ||
	    lock_volume(st, parent, name, false, &l, err) < 0) {
		volume_release(&l);
		return err->code;
	}
	/* Gone for everybody at the rename, like a sandbox. */
	snprintf(tmp, sizeof(tmp), ".old-%s-%d", name, (int)getpid());
	if (renameat(parent, name, parent, tmp) < 0)
		r = -errno;
	if (r == 0)
		r = remove_tree_at(parent, tmp);
	volume_release(&l);
	return r < 0 ? fail(err, COVE_EIO, -r, "remove volume %s", name) : 0;
}
