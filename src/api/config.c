/* SPDX-License-Identifier: Apache-2.0 */
/* config - the user's configuration and the project's, the latter only when trusted. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "core/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

/* 1: loaded, 0: there is none, negative: broken. */
static int load(const char *path, bool project, struct config **ret,
		struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	int r = read_file_at(AT_FDCWD, path, &text);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", path);
	if (project && !trust_has(path, text.data ? text.data : "", text.len))
		return 2;
	r = config_parse(ret, text.data ? text.data : "", text.len, path, project,
			 &problems, err);
	return r < 0 ? r : 1;
}

static int load_user(struct config **ret, struct cove_error *err)
{
	char path[4200], dir[4096];

	if (config_dir(dir, sizeof(dir)) < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/config.yaml", dir);
	return load(path, false, ret, err);
}

static int load_project(const char *dir, struct config **ret, char **notice,
			struct cove_error *err)
{
	char path[PATH_MAX], full[PATH_MAX];
	int r;

	/* The usual case costs one look-up. */
	snprintf(path, sizeof(path), "%s/cove.yaml", dir ? dir : ".");
	if (access(path, F_OK) < 0 || !realpath(path, full))
		return 0;
	r = load(full, true, ret, err);
	if (r == 2 && notice &&
	    asprintf(notice,
		     "%s is not trusted and was left out; read it, then 'cove config "
		     "trust %s'",
		     full, full) < 0)
		*notice = NULL;
	return r == 2 ? 0 : r;
}

int cove_config_apply(struct cove_spec *s, const char *dir, const char *profile,
		      char **ret_notice, struct cove_error *err)
{
	struct config *user = NULL, *project = NULL;
	const struct config *list[2];
	char *notice = NULL;
	size_t n = 0;
	int r;

	err = ERR(err);
	r = load_user(&user, err);
	if (r >= 0)
		r = load_project(dir, &project, &notice, err);
	if (r >= 0) {
		if (user)
			list[n++] = user;
		if (project)
			list[n++] = project;
		r = n || profile ? config_apply(list, n, profile, &s->spec, err) : 0;
	}
	config_free(user);
	config_free(project);
	if (r < 0 || !ret_notice) {
		free(notice);
		return r < 0 ? r : 0;
	}
	*ret_notice = notice;
	return 0;
}

static bool is_scan_rules(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && strcmp(name, "/.gitleaks.toml") == 0;
}

int cove_config_trust(const char *path, int trust, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	char full[PATH_MAX];
	int r;

	err = ERR(err);
	if (!realpath(path, full)) {
		/* A file that is gone can still be forgotten. */
		if (trust || path[0] != '/')
			return fail(err, COVE_EINVAL, errno, "%s", path);
		snprintf(full, sizeof(full), "%s", path);
	}
	r = trust ? read_file_at(AT_FDCWD, full, &text) : 0;
	if (r < 0)
		return fail(err, COVE_EINVAL, -r, "%s", full);
	/* A project's rules for the secret scan can be vouched for, too; they are checked
	 * when they are used. */
	if (trust && !is_scan_rules(full)) {
		cleanup_buf struct buf problems = BUF_INIT(1 << 16);
		struct config *c = NULL;

		if (config_parse(&c, text.data ? text.data : "", text.len, full, true,
				 &problems, err) < 0)
			return err->code;
		config_free(c);
	}
	return trust_set(full, text.data ? text.data : "", text.len, trust, err);
}

int cove_config_check(const char *path, char **ret_problems, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	struct buf problems = BUF_INIT(1 << 18);
	const char *base = strrchr(path, '/');
	int r;

	err = ERR(err);
	r = read_file_at(AT_FDCWD, path, &text);
	if (r < 0)
		return fail(err, COVE_EINVAL, -r, "%s", path);
	base = base ? base + 1 : path;
	r = config_check(text.data ? text.data : "", text.len, path,
			 strcmp(base, "cove.yaml") == 0, &problems, err);
	if (r < 0 && r != COVE_EINVAL) {
		buf_clear(&problems);
		return r;
	}
	*ret_problems = problems.len ? buf_steal(&problems) : strdup("");
	return *ret_problems ? 0 : fail_nomem(err);
}
