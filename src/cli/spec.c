/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec - what the sandbox shall be, from weakest to strongest word: configuration,
 * profile,
 * --spec, COVE_BACKEND, flags. Each flag sets the spec key of its row in cli_flags[].
 */
#include "cli/spec.h"
#include "cli/json.h"
#include "cli/path.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>

/* The absolute path of dir (NULL: the current directory). */
static int directory(const struct args *a, const char *dir, char **ret)
{
	cleanup_free char *path = realpath(dir ? dir : ".", NULL);
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return cli_failf(a->cmd->name, NULL, "%s: %s",
				 dir ? dir : "current directory", strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return cli_failf(a->cmd->name, NULL, "%s: not a directory", path);
	*ret = path;
	path = NULL;
	return 0;
}

int cli_workplace(const struct args *a, struct workplace *ret)
{
	const char *name = NULL, *dir = NULL;

	for (size_t i = 0; i < a->n_words; i++) {
		const char *word = a->words[i];
		bool is_dir = strchr(word, '/') || strcmp(word, ".") == 0 ||
			      strcmp(word, "..") == 0;
		const char **slot = is_dir ? &dir : &name;

		if (*slot)
			return cli_usage(a->cmd, "%s: a second %s (%s came first)", word,
					 is_dir ? "directory" : "name", *slot);
		*slot = word;
	}
	ret->name = name;
	ret->given = dir != NULL;
	return directory(a, dir, &ret->dir);
}

/* "--env K" takes the caller's value; all other values go as they are. */
static int set_flag(struct cove_spec *spec, const struct given *g, struct cove_error *err)
{
	const char *key = cli_flags[g->id].key;
	cleanup_free char *entry = NULL;

	if (!key)
		return 0;
	if (g->id == F_ENV && !strchr(g->value, '=')) {
		const char *value = getenv(g->value);

		if (!value || asprintf(&entry, "%s=%s", g->value, value) < 0) {
			snprintf(err->msg, sizeof(err->msg),
				 "not set in your environment");
			return COVE_EINVAL;
		}
	}
	return cove_spec_set(spec, key, entry ? entry : g->value, err);
}

/* The mounts that the sandbox of the first word has, to add to. */
static int load_mounts(const struct args *a, struct cove_spec *spec)
{
	struct cove_error err = {0};
	char name[300];
	char *text = NULL;
	json_t *all, *only;
	int r;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(a->words[0], "@"), a->words[0]);
	if (cove_inspect_json(name, &text, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	all = cli_json_take(text, &err);
	only = json_pack("{s:O}", "mounts",
			 json_object_get(json_object_get(all, "spec"), "mounts"));
	text = only ? json_dumps(only, JSON_COMPACT) : NULL;
	if (text)
		r = cove_spec_parse(spec, text, strlen(text), name, &err);
	else
		r = cli_failf(a->cmd->name, NULL, "%s: its spec cannot be read", name);
	if (text && r < 0)
		r = cli_fail(a->cmd->name, &err);
	free(text);
	json_decref(only);
	json_decref(all);
	return r;
}

int cli_spec_flags(const struct args *a, struct cove_spec *spec)
{
	struct cove_error err = {0};
	bool adds = cli_has(a, F_ADD_MOUNT) &&
		    !(a->set & (FLAG(F_MOUNT) | FLAG(F_NO_MOUNTS)));
	int r = adds ? load_mounts(a, spec) : 0;

	if (r)
		return r;
	/* First, wherever it stands: it must not drop a --mount that was asked for. */
	if (cli_has(a, F_NO_MOUNTS) && cove_spec_set(spec, "mounts", NULL, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	for (size_t i = 0; i < a->n_given; i++) {
		const struct given *g = &a->given[i];

		if (set_flag(spec, g, &err) < 0)
			return cli_failf(a->cmd->name, err.hint[0] ? err.hint : NULL,
					 "--%s %s: %s", cli_flags[g->id].name,
					 g->value ? g->value : "", err.msg);
	}
	return cli_spec_network(a, spec);
}

static int load_file(const struct args *a, struct cove_spec *spec, const char *file)
{
	struct cove_error err = {0};
	const char *problems;

	if (cove_spec_load(spec, file, &err) >= 0)
		return 0;
	problems = cove_spec_problems(spec);
	if (!*problems)
		return cli_fail(a->cmd->name, &err);
	cli_lines(a->cmd->name, problems);
	return EXIT_COVE;
}

static int apply_config(const struct args *a, struct cove_spec *spec, const char *dir)
{
	cleanup_string char *notice = NULL;
	struct cove_error err = {0};

	if (cove_config_apply(spec, dir, cli_value(a, F_PROFILE), &notice, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	if (notice && *notice && !cli_has(a, F_QUIET))
		cli_note("cove: %s", notice);
	return 0;
}

/* What a spec file or the configuration said about mounts, workDir and name. Only asked
 * when there is such a file: the everyday start stays free of JSON. */
struct said {
	bool mounts, workdir;
	char *name;
};

static int look_at(const struct cove_spec *spec, struct said *ret, struct cove_error *err)
{
	cleanup_string char *text = NULL;
	const char *workdir, *name;
	json_t *json;

	if (cove_spec_json(spec, &text, err) < 0)
		return err->code;
	json = json_loads(text, 0, NULL);
	workdir = json_string_value(
		json_object_get(json_object_get(json, "exec"), "workDir"));
	name = json_string_value(json_object_get(json, "name"));
	ret->mounts = json_array_size(json_object_get(json, "mounts")) > 0;
	ret->workdir = workdir && *workdir && strcmp(workdir, ".") != 0;
	ret->name = name && *name ? strdup(name) : NULL;
	json_decref(json);
	return 0;
}

static int refuse_wide_mount(const struct args *a, const char *dir)
{
	const char *home = getenv("HOME");
	struct stat here, there;

	if (strcmp(dir, "/") == 0)
		return cli_failf(
			a->cmd->name,
			"go to a project directory, name one, or use --no-mounts",
			"/: the whole file system is not mounted by default");
	if (home && *home == '/' && stat(home, &there) == 0 && stat(dir, &here) == 0 &&
	    here.st_dev == there.st_dev && here.st_ino == there.st_ino)
		return cli_failf(
			a->cmd->name,
			"go to a project directory, say --mount \"$HOME\":overlay if you "
			"mean it, or use --no-mounts",
			"%s: your home directory is not mounted by default", dir);
	return 0;
}

/* A path with a ':' cannot be said as SRC:MODE, but it can as JSON. */
static int mount_overlay(struct cove_spec *spec, const char *dir, struct cove_error *err)
{
	cleanup_free char *text = NULL;
	json_t *json;

	if (!strchr(dir, ':')) {
		if (asprintf(&text, "%s:overlay", dir) < 0) {
			text = NULL;
			return COVE_ENOMEM;
		}
		return cove_spec_set(spec, "mounts", text, err);
	}
	json = json_pack("{s:[{s:s,s:s}]}", "mounts", "source", dir, "mode", "overlay");
	text = json ? json_dumps(json, 0) : NULL;
	json_decref(json);
	if (!text) {
		snprintf(err->msg, sizeof(err->msg), "%s: not a name that can be mounted",
			 dir);
		return err->code = COVE_EINVAL;
	}
	return cove_spec_parse(spec, text, strlen(text), "default mount", err);
}

/* The current directory (or DIR) as overlay, unless something else was asked for. */
/* Is dir what one of the --mount flags mounts? */
static bool mounted(const struct args *a, const char *dir)
{
	for (size_t i = 0; i < a->n_given; i++) {
		const char *text = a->given[i].value;
		cleanup_free char *source = NULL, *full = NULL;

		if (a->given[i].id != F_MOUNT)
			continue;
		source = strndup(text, strcspn(text, ":"));
		full = source ? realpath(source, NULL) : NULL;
		if (full && strcmp(full, dir) == 0)
			return true;
	}
	return false;
}

static int default_mount(const struct args *a, struct cove_spec *spec,
			 const struct workplace *w, const struct said *said)
{
	struct cove_error err = {0};
	/* A directory that was named is mounted whatever else is, unless it is already.
	 */
	bool wants_mounts = !said->mounts && !cli_has(a, F_NO_MOUNTS) &&
			    (w->given ? !mounted(a, w->dir) : !cli_has(a, F_MOUNT));

	if (wants_mounts) {
		int r = refuse_wide_mount(a, w->dir);

		if (r)
			return r;
		if (mount_overlay(spec, w->dir, &err) < 0)
			return cli_fail(a->cmd->name, &err);
	}
	if ((w->given || (wants_mounts && !said->workdir)) && !cli_has(a, F_WORKDIR) &&
	    cove_spec_set(spec, "exec.workDir", w->dir, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	return 0;
}

static int build(const struct args *a, const struct workplace *w, struct cove_spec *spec,
		 char **ret_name)
{
	const char *backend = getenv("COVE_BACKEND"), *file = cli_value(a, F_SPEC);
	struct cove_error err = {0};
	struct said said = {0};
	int r = apply_config(a, spec, w->dir);

	if (r == 0 && file)
		r = load_file(a, spec, file);
	if (r)
		return r;
	if ((file || cli_has(a, F_PROFILE) || cli_config_exists(w->dir)) &&
	    look_at(spec, &said, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	if (backend && *backend && !cli_has(a, F_BACKEND) &&
	    cove_spec_set(spec, "backend", backend, &err) < 0)
		r = cli_failf(a->cmd->name, "unset COVE_BACKEND, or see 'cove doctor'",
			      "COVE_BACKEND=%s: %s", backend, err.msg);
	if (r == 0)
		r = cli_spec_flags(a, spec);
	if (r == 0)
		r = default_mount(a, spec, w, &said);
	if (r == 0 && ret_name && file) {
		*ret_name = said.name;
		said.name = NULL;
	}
	free(said.name);
	return r;
}

int cli_spec_build(const struct args *a, const struct workplace *w,
		   struct cove_spec **ret, char **ret_name)
{
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_error err = {0};
	int r;

	if (cove_spec_new(&spec, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	r = build(a, w, spec, ret_name);
	if (r)
		return r;
	*ret = spec;
	spec = NULL;
	return 0;
}
