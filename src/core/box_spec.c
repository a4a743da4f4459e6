/* SPDX-License-Identifier: Apache-2.0 */
/* box_spec - a spec made concrete: absolute paths, clean targets, the user inside. */
#include "core/box.h"

#include "base/util.h"
#include "core/netfile.h"

#include <limits.h>
#include <stdio.h>

/* What later parts of cove will bring is refused here, never ignored. */
static int refuse_unsupported(const struct spec *s, struct cove_error *err)
{
	if (s->backend == BACKEND_REMOTE) {
		fail(err, COVE_EUNSUPPORTED, 0, "backend remote: not in this build");
		return hint(err, "'cove version' lists what is; use --backend process");
	}
	if (s->services && json_array_size(s->services))
		return fail(err, COVE_EUNSUPPORTED, 0, "services: not in this build");
	if (s->image.kind != IMAGE_HOST && !spec_image_is_tree(s) &&
	    !spec_image_is_disk(s)) {
		fail(err, COVE_EUNSUPPORTED, 0, "image: '%s' is not in this build",
		     spec_image_prefix(s->image.kind));
		return hint(err, "host, rootfs:DIR, tar:FILE, raw:FILE and "
				 "qcow2:FILE work");
	}
	return 0;
}

static int make_absolute(char **path, struct cove_error *err, const char *what)
{
	char *full = realpath(*path, NULL);

	if (!full)
		return fail(err, COVE_EINVAL, errno, "%s: %s", what, *path);
	free(*path);
	*path = full;
	return 0;
}

/* "." is where cove was called, if that is visible inside; otherwise the home directory.
 */
static int resolve_workdir(struct spec *s, struct cove_error *err)
{
	char cwd[PATH_MAX];
	const char *dir = s->exec.workdir, *home, *user, *pick;
	uid_t uid;
	gid_t gid;

	if (box_user(s, &uid, &gid, &home, &user, err) < 0)
		return err->code;
	if (dir && dir[0] == '/')
		return 0;
	pick = home;
	if (getcwd(cwd, sizeof(cwd)))
		for (size_t i = 0; i < s->n_mounts; i++)
			if (spec_path_below(cwd, s->mounts[i].target))
				pick = cwd;
	if (dir && strcmp(dir, ".") != 0)
		return fail(err, COVE_EINVAL, 0, "exec.workDir: %s is not absolute", dir);
	return spec_set(s, "exec.workDir", pick, err);
}

/* Replaces *path by its clean form, if something may be mounted there. */
static int clean_target(char **path, const char *key, struct cove_error *err)
{
	const char *problem = spec_target_problem(*path);
	char clean[SPEC_STR_MAX + 2];
	char *copy;

	if (problem) {
		fail(err, COVE_EINVAL, 0, "%s: target %s: %s", key, *path, problem);
		return hint(err, "give another target: SRC:/data/x:ro");
	}
	if (!spec_path_clean(*path, clean, sizeof(clean)))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s: %s", key, *path);
	copy = strdup(clean);
	if (!copy)
		return fail_nomem(err);
	free(*path);
	*path = copy;
	return 0;
}

static int resolve_mounts(struct spec *s, struct cove_error *err)
{
	for (size_t i = 0; i < s->n_mounts; i++) {
		struct spec_mount *m = &s->mounts[i];

		if (m->mode != MOUNT_VOLUME &&
		    make_absolute(&m->source, err, "mounts") < 0)
			return err->code;
		if (!m->target && !(m->target = strdup(m->source)))
			return fail_nomem(err);
		if (clean_target(&m->target, "mounts", err) < 0)
			return err->code;
		for (size_t k = 0; k < i; k++) {
			if (strcmp(s->mounts[k].target, m->target) == 0)
				return fail(err, COVE_EINVAL, 0,
					    "mounts: %s is there twice", m->target);
			if (spec_layer_number(s, k) == spec_layer_number(s, i))
				return fail(err, COVE_EINVAL, 0,
					    "mounts: layer %d is there twice",
					    spec_layer_number(s, i));
		}
	}
	return 0;
}

/* The file of a secret is found from wherever it is started later. */
static int resolve_secrets(struct spec *s, struct cove_error *err)
{
	char cwd[PATH_MAX];

	for (size_t i = 0; i < json_array_size(s->secrets); i++) {
		json_t *o = json_array_get(s->secrets, i);
		const char *path = json_string_value(json_object_get(o, "path"));
		cleanup_free char *full = NULL;

		if (!path || path[0] == '/' || path[0] == '~')
			continue;
		if (!getcwd(cwd, sizeof(cwd)))
			return fail(err, COVE_EIO, errno, "working directory");
		if (asprintf(&full, "%s/%s", cwd, path) < 0 ||
		    json_object_set_new(o, "path", json_string(full)) < 0)
			return fail_nomem(err);
	}
	return 0;
}

/* A relative mask lies in the first mount. */
static int resolve_masks(struct spec *s, struct cove_error *err)
{
	for (size_t i = 0; i < s->mask.n; i++) {
		char **path = &s->mask.v[i], *full = NULL;

		if ((*path)[0] != '/') {
			if (!s->n_mounts) {
				fail(err, COVE_EINVAL, 0, "mask: %s is not absolute",
				     *path);
				return hint(err, "there is no mount that it could be in");
			}
			if (asprintf(&full, "%s/%s", s->mounts[0].target, *path) < 0)
				return fail_nomem(err);
			free(*path);
			*path = full;
		}
		if (clean_target(path, "mask", err) < 0)
			return err->code;
		for (size_t k = 0; k < s->n_mounts + i; k++)
			if (strcmp(k < s->n_mounts ? s->mounts[k].target
						   : s->mask.v[k - s->n_mounts],
				   *path) == 0)
				return fail(err, COVE_EINVAL, 0,
					    "mask: %s is mounted on already", *path);
	}
	return 0;
}

/* Where it is and that it can be read is checked now; what it says counts from the start
 * on. */
static int resolve_policy_file(struct spec *s, struct cove_error *err)
{
	struct netfile f = {0};
	int r;

	if (!s->network.file)
		return 0;
	r = make_absolute(&s->network.file, err, "network.file");
	if (r == 0)
		r = netfile_place_ok(s, err);
	if (r == 0)
		r = netfile_read(&f, s->network.file, err);
	if (r == 0)
		r = netfile_check(&f, err);
	netfile_clear(&f);
	return r;
}

int box_resolve_spec(struct spec *s, const struct store *st, struct cove_error *err)
{
	if (refuse_unsupported(s, err) < 0 || image_resolve(st, s, err) < 0)
		return err->code;
	if ((s->image.kind == IMAGE_ROOTFS || spec_image_is_disk(s)) &&
	    make_absolute(&s->image.value, err, "image") < 0)
		return err->code;
	for (size_t i = 0; i < s->network.trust.n; i++)
		if (make_absolute(&s->network.trust.v[i], err, "network.trust") < 0)
			return err->code;
	if (resolve_mounts(s, err) < 0 || resolve_masks(s, err) < 0 ||
	    resolve_policy_file(s, err) < 0 || resolve_secrets(s, err) < 0)
		return err->code;
	return resolve_workdir(s, err);
}

int box_user(const struct spec *s, uid_t *uid, gid_t *gid, const char **home,
	     const char **name, struct cove_error *err)
{
	const char *u = s->exec.user && *s->exec.user ? s->exec.user : "agent";
	unsigned long n;
	char *end;

	*name = u;
	*home = "/home/agent";
	*uid = *gid = 1000;
	if (strcmp(u, "agent") == 0)
		return 0;
	if (strcmp(u, "root") == 0) {
		*uid = *gid = 0;
		*home = "/root";
		return 0;
	}
	errno = 0;
	n = strtoul(u, &end, 10);
	if (errno || *end || end == u || n >= 65534) {
		fail(err, COVE_EINVAL, 0,
		     "exec.user: '%s' is not agent, root or a number", u);
		return hint(err, "the sandbox maps exactly one user");
	}
	*uid = *gid = (uid_t)n;
	return 0;
}
