/* SPDX-License-Identifier: Apache-2.0 */
/* info - what there is, what runs, what is enforced, as JSON. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "core/quarantine.h"
#include "core/secret.h"
#include "spec/state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* Asks the keeper of a running sandbox. */
static int ask(const char *name, const char *verb, json_t **ret, struct cove_error *err)
{
	struct cove *s = NULL;
	int r = cove_connect(&s, name, err);

	if (r == 0)
		r = session_keeper(s->session, verb, NULL, ret, err);
	if (r == 0 && !*ret)
		r = fail(err, COVE_EPROTO, 0, "the keeper's answer is not JSON");
	cove_free(s);
	return r;
}

/* ---- list and inspect ----------------------------------------------------------- */

/* Without the digest that a resolved one ends in: 'inspect' shows that. */
static const char *image_text(const struct spec *s, char *out, size_t size)
{
	char *mark;

	snprintf(out, size, "%s%s", spec_image_prefix(s->image.kind),
		 s->image.value ? s->image.value : "");
	mark = s->image.kind == IMAGE_TAR ? strstr(out, "@sha256:") : NULL;
	if (mark)
		*mark = '\0';
	return out;
}

static json_t *mounts_json(const struct spec *s)
{
	static const char *const modes[] = {"overlay", "ro", "rw", "copy", "volume"};
	json_t *a = json_array();

	for (size_t i = 0; a && i < s->n_mounts; i++)
		json_array_append_new(a,
				      json_pack("{s:s, s:s, s:s}", "source",
						s->mounts[i].source, "target",
						s->mounts[i].target ? s->mounts[i].target
								    : s->mounts[i].source,
						"mode", modes[s->mounts[i].mode]));
	return a;
}

static void add_running(json_t *o, const char *name)
{
	struct cove_error ignored = {0};
	json_t *state = NULL;
	json_int_t started;

	if (ask(name, "state", &state, &ignored) < 0)
		return;
	started = json_integer_value(json_object_get(state, "startedAt"));
	json_object_set_new(o, "uptimeSeconds",
			    json_integer((json_int_t)time(NULL) - started));
	json_object_update(o, state);
	json_decref(state);
}

static int load_any(struct store *st, const char *name, bool running, struct spec *ret,
		    struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	char path[SPEC_NAME_MAX + 16];

	snprintf(path, sizeof(path), "%s/spec.json", name);
	/* A running one-shot keeps its spec in the run directory. */
	if (running && read_file_at(st->run_fd, path, &text) == 0 && text.len) {
		spec_init(ret);
		return spec_parse(ret, text.data, text.len, path, &problems, err);
	}
	return store_load(st, name, ret, err);
}

static const char *state_of(struct store *st, const char *name, bool running)
{
	char path[SPEC_NAME_MAX + 16];

	snprintf(path, sizeof(path), "%s/paused", name);
	if (!running)
		return "stopped";
	return faccessat(st->run_fd, path, F_OK, 0) == 0 ? "paused" : "running";
}

static json_t *describe(struct store *st, const char *name, bool full)
{
	struct cove_error err = {0};
	bool running = store_is_running(st, name);
	struct spec spec;
	char image[4200];
	json_t *o;

	if (load_any(st, name, running, &spec, &err) < 0 && !full &&
	    (running || err.code == COVE_ENOENT))
		return NULL; /* a one-shot that is just being made or cleaned away */
	if (err.code)
		return json_pack("{s:s, s:s, s:s, s:s}", "name", name, "state", "damaged",
				 "problem", err.msg, "hint", err.hint);
	o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:I}", "name", name, "state",
		      state_of(st, name, running), "backend",
		      spec_backend_name(spec.backend), "image",
		      image_text(&spec, image, sizeof(image)), "mounts",
		      mounts_json(&spec), "changes",
		      (json_int_t)store_count_changes(st, name, 100000));
	if (o && running)
		add_running(o, name);
	if (o && full) {
		secrets_free(secrets_known(st, &spec)); /* known ones are redacted */
		json_object_set_new(o, "spec", spec_json(&spec, false));
	}
	spec_clear(&spec);
	return o;
}

struct listing {
	struct store *st;
	json_t *array;
};

static int list_one(void *arg, const char *name)
{
	struct listing *l = arg;

	json_t *o = describe(l->st, name, false);

	if (o)
		json_array_append_new(l->array, o);
	return 0;
}

int cove_list_json(char **ret, struct cove_error *err)
{
	struct store st;
	struct listing l = {.st = &st};
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	l.array = json_array();
	r = l.array ? store_each(&st, list_one, &l, err) : fail_nomem(err);
	store_close(&st);
	if (r < 0) {
		json_decref(l.array);
		return r;
	}
	return json_out(l.array, ret, err);
}

static void add_last_run(struct store *st, const char *name, json_t *o)
{
	cleanup_buf struct buf text = BUF_INIT(STATE_TEXT_MAX);
	char path[SPEC_NAME_MAX + 16];
	struct cove_error err = {0};
	struct state last;

	snprintf(path, sizeof(path), "%s/state.json", name);
	if (read_file_at(st->boxes, path, &text) < 0 || !text.len)
		return; /* never ran */
	if (state_parse(&last, text.data, text.len, &err) < 0)
		json_object_set_new(o, "lastRun", json_pack("{s:s}", "problem", err.msg));
	else
		json_object_set_new(o, "lastRun",
				    json_pack("{s:s, s:s*, s:I, s:I}", "reason",
					      last.reason, "hint",
					      last.hint[0] ? last.hint : NULL,
					      "startedAt", (json_int_t)last.started_at,
					      "endedAt", (json_int_t)last.ended_at));
}

static void add_paths(struct store *st, const char *name, json_t *o)
{
	json_t *taken = quarantine_list(st, name);
	char path[4400];

	if (taken)
		json_object_set_new(o, "quarantine", taken);
	if (store_path(st, name, "", path, sizeof(path)) == 0)
		json_object_set_new(o, "directory", json_string(path));
	add_last_run(st, name, o);
}

int cove_inspect_json(const char *name, char **ret, struct cove_error *err)
{
	struct store st;
	json_t *o;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	if (!store_exists(&st, name)) {
		struct spec none;

		store_load(&st, name, &none, err); /* says it with its hint */
		store_close(&st);
		return err->code;
	}
	o = describe(&st, name, true);
	if (o)
		add_paths(&st, name, o);
	store_close(&st);
	return json_out(o, ret, err);
}

/* ---- asking the keeper ---------------------------------------------------------- */

int cove_stats_json(const char *name, char **ret, struct cove_error *err)
{
	json_t *j = NULL;
	int r = ask(name, "stats", &j, ERR(err));

	return r < 0 ? r : json_out(j, ret, ERR(err));
}

static int attest_out(json_t *j, char **ret, struct cove_error *err)
{
	json_int_t n = json_integer_value(json_object_get(j, "short"));
	int r = json_out(j, ret, err);

	if (r == 0 && n > 0)
		r = fail(err, COVE_EDENIED, 0, "%d items fall short of the spec", (int)n);
	return r;
}

int cove_attest_json(const char *name, char **ret, struct cove_error *err)
{
	json_t *j = NULL;
	int r = ask(name, "attest", &j, ERR(err));

	return r < 0 ? r : attest_out(j, ret, ERR(err));
}

int cove_attest_handle_json(struct cove *s, char **ret, struct cove_error *err)
{
	json_t *j = NULL;
	int n;

	err = ERR(err);
	if (!s->inproc)
		return cove_attest_json(s->name, ret, err);
	if (s->finished)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	j = box_attest(&s->box, &n, err);
	return j ? attest_out(j, ret, err) : err->code;
}

/* A process must not hide from the list by giving itself a name that is not UTF-8. */
static void make_ascii(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s >= 0x80)
			*s = '?';
}

/* pid ppid state rss_kib start utime stime uid comm<TAB>cmdline */
static json_t *ps_entry(char *line)
{
	char *tab = strchr(line, '\t'), state, comm[64];
	unsigned pid, ppid, uid;
	unsigned long long rss, start, ut, st;

	if (!tab)
		return NULL;
	*tab = '\0';
	if (sscanf(line, "%u %u %c %llu %llu %llu %llu %u %63[^\n]", &pid, &ppid, &state,
		   &rss, &start, &ut, &st, &uid, comm) != 9)
		return NULL;
	return json_pack("{s:i, s:i, s:s#, s:I, s:I, s:i, s:s%, s:s}", "pid", (int)pid,
			 "ppid", (int)ppid, "state", &state, 1, "rssKiB", (json_int_t)rss,
			 "cpuTicks", (json_int_t)(ut + st), "uid", (int)uid, "comm", comm,
			 strlen(comm), "command", tab + 1);
}

static json_t *ps_parse(char *text)
{
	json_t *a = json_array();
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); a && line;
	     line = strtok_r(NULL, "\n", &save)) {
		json_t *e;

		make_ascii(line);
		e = ps_entry(line); /* NULL for what is malformed */

		if (e)
			json_array_append_new(a, e);
	}
	return a;
}

int cove_ps_json(const char *name, char **ret, struct cove_error *err)
{
	struct cove *s = NULL;
	struct stream *st;
	uint8_t payload[32];
	struct wire_out o;
	json_t *a = NULL;
	int r;

	err = ERR(err);
	r = cove_connect(&s, name, err);
	if (r < 0)
		return r;
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_str(&o, WIRE_A_NAME, "ps");
	st = session_open(s->session, STREAM_CALL, WIRE_INFO, 0, payload, o.len, err);
	r = st ? session_wait_result(st, true, 10000, err) : err->code;
	if (r == 0)
		a = st->data.data ? ps_parse(st->data.data) : json_array();
	session_release(st);
	/* An injected value may be on a command line inside. */
	secrets_free(secrets_known(&s->store, &s->spec));
	cove_free(s);
	return r < 0 ? r : json_out(a, ret, err);
}

int cove_logs_open(const char *name, int *ret_fd, struct cove_error *err)
{
	struct store st;
	struct spec spec;
	char path[SPEC_NAME_MAX + 16];
	int fd;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	if (store_load(&st, name, &spec, err) < 0) {
		store_close(&st);
		return err->code;
	}
	spec_clear(&spec);
	snprintf(path, sizeof(path), "%s/log", name);
	fd = openat(st.boxes, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		fd = open("/dev/null",
			  O_RDONLY | O_CLOEXEC); /* it had no main session yet */
	store_close(&st);
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "log of %s", name);
	*ret_fd = fd;
	return 0;
}
