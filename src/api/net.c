/* SPDX-License-Identifier: Apache-2.0 */
/* net - changes of a sandbox's network policy, and questions that it asks. */
#include "api/handle.h"

#include "base/util.h"
#include "core/audit.h"
#include "core/net.h"

#include <fcntl.h>
#include <stdio.h>

/* ---- changes --------------------------------------------------------------------- */

static void tell(struct cove_net_change *ret, const json_t *j, const char *id)
{
	struct cove_net_change c = {.size = sizeof(c), .running = j != NULL};
	uint32_t size;

	if (!ret)
		return;
	size = ret->size && ret->size < sizeof(c) ? ret->size : (uint32_t)sizeof(c);
	c.generation = (uint64_t)json_integer_value(json_object_get(j, "generation"));
	c.rules = (uint64_t)json_integer_value(json_object_get(j, "rules"));
	c.us = (uint64_t)json_integer_value(json_object_get(j, "us"));
	c.closed = (uint64_t)json_integer_value(json_object_get(j, "closed"));
	snprintf(c.id, sizeof(c.id), "%s", id ? id : "");
	c.size = size;
	memcpy(ret, &c, size);
}

/* Asks the keeper; args are stolen. */
static int change_running(const char *name, const char *verb, json_t *args,
			  struct cove_net_change *ret, struct cove_error *err)
{
	struct cove *s = NULL;
	json_t *j = NULL;
	int r;

	if (!args)
		return fail_nomem(err);
	r = cove_connect(&s, name, err);
	if (r == 0)
		r = session_keeper(s->session, verb, args, &j, err);
	else
		json_decref(args);
	if (r == 0 && !j)
		r = fail(err, COVE_EPROTO, 0, "the keeper's answer is not JSON");
	if (r == 0)
		tell(ret, j, json_string_value(json_object_get(j, "id")));
	json_decref(j);
	cove_free(s);
	return r;
}

/* A stopped sandbox: its lock, its spec and its rules. */
struct stopped {
	struct store *st;
	const char *name;
	int lock, dir;
	struct spec spec;
	struct netrules rules;
};

static void stopped_close(struct stopped *s)
{
	netrules_clear(&s->rules);
	spec_clear(&s->spec);
	closep(&s->dir);
	if (s->lock >= 0)
		store_clear_run(s->st, s->name);
	closep(&s->lock);
}

/* Recorded first: a change that cannot be is not made. record: stolen. */
static int stopped_save(const struct stopped *s, struct store *st, const char *name,
			json_t *record, struct cove_error *err)
{
	int r = audit_log(st, name, "policy", record, err);

	return r < 0 ? r : netrules_save(&s->rules, s->dir, err);
}

static int stopped_open(struct stopped *s, struct store *st, const char *name,
			struct cove_error *err)
{
	int r;

	*s = (struct stopped){.st = st, .name = name, .lock = -1, .dir = -1};
	if (store_load(st, name, &s->spec, err) < 0) {
		spec_init(&s->spec);
		return err->code;
	}
	r = store_lock(st, name, &s->lock, err);
	if (r < 0)
		return r;
	s->dir = openat(st->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return fail(err, COVE_EIO, errno, "record of %s", name);
	return netrules_load(&s->rules, s->dir, err);
}

/* Rules for a sandbox that has no network would be of no use, and that is easily missed.
 */
static int refuse_none(const struct spec *s, const char *name, struct cove_error *err)
{
	if (s->network.mode != NET_NONE || s->network.file)
		return 0;
	fail(err, COVE_ESTATE, 0, "%s has no network (mode none)", name);
	return hint(err, "'cove set %s --net allowlist' gives it one", name);
}

static int add_stopped(struct store *st, const char *name, json_t *rule, int64_t until,
		       struct cove_net_change *ret, struct cove_error *err)
{
	struct stopped s;
	char id[NETRULES_ID] = "";
	int r = stopped_open(&s, st, name, err);

	if (r == 0)
		r = refuse_none(&s.spec, name, err);
	if (r == 0)
		r = netrules_add(&s.rules, json_incref(rule), until, id, err);
	if (r == 0)
		r = stopped_save(&s, st, name,
				 json_pack("{s:s, s:O, s:i}", "change", "add", "rule",
					   rule, "uid", (int)getuid()),
				 err);
	if (r == 0)
		tell(ret, NULL, id);
	stopped_close(&s);
	return r;
}

int cove_net_add(const char *name, const char *rule_text, int64_t for_ms,
		 struct cove_net_change *ret, struct cove_error *err)
{
	json_t *rule =
		rule_text ? json_loads(rule_text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	int64_t until = for_ms > 0 ? wall_ms() + for_ms : 0;
	struct store st;
	int r;

	err = ERR(err);
	if (!name || !rule) {
		json_decref(rule);
		return fail(err, COVE_EINVAL, 0, "net: a name and a rule (JSON)");
	}
	r = netrule_check(rule, "rule", err);
	if (r == 0)
		r = handle_store(&st, err);
	if (r < 0) {
		json_decref(rule);
		return r;
	}
	if (store_is_running(&st, name))
		r = change_running(name, "net_add",
				   json_pack("{s:O, s:I}", "rule", rule, "untilMs",
					     (json_int_t)until),
				   ret, err);
	else
		r = add_stopped(&st, name, rule, until, ret, err);
	json_decref(rule);
	store_close(&st);
	return r;
}

static int remove_stopped(struct store *st, const char *name, const char *id,
			  struct cove_net_change *ret, struct cove_error *err)
{
	struct stopped s;
	int r = stopped_open(&s, st, name, err);

	if (r == 0)
		r = netrules_remove(&s.rules, id, err);
	if (r == 0)
		r = stopped_save(&s, st, name,
				 json_pack("{s:s, s:s, s:i}", "change", "rm", "detail",
					   id, "uid", (int)getuid()),
				 err);
	if (r == 0)
		tell(ret, NULL, id);
	stopped_close(&s);
	return r;
}

int cove_net_remove(const char *name, const char *id, struct cove_net_change *ret,
		    struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!name || !id)
		return fail(err, COVE_EINVAL, 0, "net: a name and an id");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = store_is_running(&st, name)
		    ? change_running(name, "net_remove", json_pack("{s:s}", "id", id),
				     ret, err)
		    : remove_stopped(&st, name, id, ret, err);
	store_close(&st);
	return r;
}

static int reload_stopped(struct store *st, const char *name, const char *file,
			  struct cove_net_change *ret, struct cove_error *err)
{
	struct cove_spec *changes = NULL;
	struct netfile content = {0};
	struct spec spec;
	int r = store_load(st, name, &spec, err);

	if (r < 0)
		return r;
	if (!file && !spec.network.file) {
		r = fail(err, COVE_ESTATE, 0, "there is no policy file");
		hint(err, "name one: cove net reload %s --file FILE", name);
	}
	if (r == 0) /* it is read at the next start; whether it can be is said now */
		r = netfile_read(&content, file ? file : spec.network.file, err);
	if (r == 0)
		r = netfile_check(&content, err);
	netfile_clear(&content);
	spec_clear(&spec);
	if (r == 0 && file)
		r = cove_spec_new(&changes, err);
	if (r == 0 && file)
		r = cove_spec_set(changes, "network.file", file, err);
	if (r == 0 && file)
		r = cove_update(name, changes, 0, err);
	cove_spec_free(changes);
	if (r == 0)
		tell(ret, NULL, NULL);
	return r;
}

int cove_net_reload(const char *name, const char *file, struct cove_net_change *ret,
		    struct cove_error *err)
{
	cleanup_free char *path = file ? realpath(file, NULL) : NULL;
	struct store st;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (file && !path)
		return fail(err, COVE_EINVAL, errno, "policy file %s", file);
	if (handle_store(&st, err) < 0)
		return err->code;
	if (store_is_running(&st, name))
		r = change_running(name, "net_reload",
				   path ? json_pack("{s:s}", "file", path)
					: json_object(),
				   ret, err);
	else
		r = reload_stopped(&st, name, path, ret, err);
	store_close(&st);
	return r;
}

/* ---- questions ------------------------------------------------------------------- */

static void queue(void *arg, uint64_t id, const json_t *question)
{
	struct cove *s = arg;
	json_t *j = json_deep_copy(question);
	char *text;

	json_object_set_new(j, "id", json_integer((json_int_t)id));
	json_object_del(j, "t");
	text = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(j);
	if (text)
		json_array_append_new(s->questions, json_string(text));
	free(text);
}

static int watch_keeper(struct cove *s, struct cove_error *err)
{
	uint8_t payload[64];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	wire_put_str(&o, WIRE_A_NAME, "net_watch");
	s->ask_stream = session_open(s->session, STREAM_CALL, WIRE_KEEPER, 0, payload,
				     o.len, err);
	if (!s->ask_stream)
		return err->code;
	if (session_wait_result(s->ask_stream, false, 60000, err) == 0)
		return 0;
	session_release(take_ptr(s->ask_stream));
	return err->code;
}

void handle_ask_clear(struct cove *s)
{
	json_decref(s->questions);
	s->questions = NULL;
	s->ask = NULL;
}

int cove_net_on_ask(struct cove *s,
		    void (*fn)(void *arg, uint64_t id, const char *question), void *arg,
		    struct cove_error *err)
{
	int r = 0;

	err = ERR(err);
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	if (!s->questions && !(s->questions = json_array()))
		return fail_nomem(err);
	if (s->inproc && fn && !s->box.net)
		return fail(err, COVE_ESTATE, 0, "the sandbox has no network");
	if (s->inproc)
		net_set_ask(&s->box, fn ? queue : NULL, s);
	else if (fn && !s->ask_stream)
		r = watch_keeper(s, err);
	else if (!fn)
		session_release(take_ptr(s->ask_stream));
	if (r < 0)
		return r;
	s->ask = fn;
	s->ask_arg = arg;
	return 0;
}

int cove_net_answer(struct cove *s, uint64_t id, int allow, int remember,
		    struct cove_error *err)
{
	err = ERR(err);
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	if (s->inproc) {
		int r = net_answer(&s->box, id, allow, remember, err);

		box_net_turn(&s->box);
		return r;
	}
	return session_keeper(s->session, "net_answer",
			      json_pack("{s:I, s:b, s:b}", "id", (json_int_t)id, "allow",
					allow, "remember", remember),
			      NULL, err);
}

/* Whole lines that the keeper sent. */
static void take_lines(struct cove *s)
{
	struct buf *b = &s->ask_stream->data;
	char *nl;

	while (b->len && (nl = memchr(b->data, '\n', b->len))) {
		size_t n = (size_t)(nl - b->data);

		json_array_append_new(s->questions, json_stringn(b->data, n));
		buf_consume(b, n + 1);
	}
}

void handle_deliver(struct cove *s)
{
	if (s->ask_stream)
		take_lines(s);
	/* The callback may ask for more turns, and with them for more of these. */
	while (s->ask && json_array_size(s->questions)) {
		json_t *text = json_incref(json_array_get(s->questions, 0));
		json_t *j = json_loads(json_string_value(text), 0, NULL);

		json_array_remove(s->questions, 0);
		if (j)
			s->ask(s->ask_arg,
			       (uint64_t)json_integer_value(json_object_get(j, "id")),
			       json_string_value(text));
		json_decref(j);
		json_decref(text);
	}
}
