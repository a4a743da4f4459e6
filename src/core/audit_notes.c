/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audit_notes.h"

#include "base/log.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/writes.h"

#include <time.h>

#define NOTES_MAX 256
#define NOTES_BYTES (1u << 20)

struct noted {
	void *payload; /* of the EXEC request */
	size_t n;
	int64_t begin, end; /* CLOCK_REALTIME, ns; end 0: not known */
	int64_t clock;      /* see writes_clock() */
	int code, signal, sys;
};

struct audit_notes {
	struct noted v[NOTES_MAX];
	uint32_t n, missed;
	size_t bytes;
	json_t *net; /* [{"event","time","fields"}], or NULL */
};

static int64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void notes_free(struct audit_notes *n)
{
	for (uint32_t i = 0; n && i < n->n; i++)
		free(n->v[i].payload);
	if (n)
		json_decref(n->net);
	free(n);
}

uint32_t notes_exec(struct box *b, const void *payload, size_t n)
{
	struct audit_notes *a = b->notes;
	struct noted *e;

	if (!a && !(a = b->notes = calloc(1, sizeof(*a))))
		return 0;
	if (a->n == NOTES_MAX || a->bytes + n > NOTES_BYTES) {
		a->missed++;
		return 0;
	}
	e = &a->v[a->n];
	e->payload = malloc(n ? n : 1);
	if (!e->payload) {
		a->missed++;
		return 0;
	}
	memcpy(e->payload, payload, n);
	e->n = n;
	a->bytes += n;
	e->begin = real_ns();
	e->clock = writes_clock();
	return ++a->n;
}

void notes_net(void *box, const char *event, json_t *fields)
{
	struct box *b = box;
	struct audit_notes *a = b->notes;

	if (!a)
		a = b->notes = calloc(1, sizeof(*a));
	if (a && !a->net)
		a->net = json_array();
	if (!a || json_array_size(a->net) >= NOTES_MAX)
		json_decref(fields);
	else
		json_array_append_new(a->net,
				      json_pack("{s:s, s:I, s:o}", "event", event, "time",
						(json_int_t)real_ns(), "fields", fields));
}

void notes_end(struct box *b, uint32_t id, int code, int signal, int sys)
{
	struct noted *e = id ? &b->notes->v[id - 1] : NULL;

	if (!e || e->end)
		return;
	e->end = real_ns();
	e->code = code;
	e->signal = signal;
	e->sys = sys;
}

static int write_exec(struct audit *log, struct box *b, const struct noted *e,
		      uint64_t *ret_id, struct cove_error *err)
{
	json_t *j = audit_exec(e->payload, e->n, &b->spec);

	json_object_set_new(j, "uid", json_integer(getuid()));
	return audit_append(log, "exec", j, 0, e->begin, ret_id, err);
}

static int write_end(struct audit *log, struct box *b, const struct noted *e, uint64_t id,
		     bool last, struct cove_error *err)
{
	static const struct writes_budget budget = {WRITES_ENTRIES_MAX, WRITES_MS_MAX};
	json_t *j = json_pack("{s:I}", "id", (json_int_t)id);

	if (e->end)
		json_object_set_new(j, "ms", json_integer((e->end - e->begin) / 1000000));
	if (!e->end)
		json_object_set_new(j, "end", json_string("with the sandbox"));
	else if (e->sys)
		json_object_set_new(j, "failed", json_string(strerror(e->sys)));
	else if (e->signal)
		json_object_set_new(j, "signal", json_integer(e->signal));
	else
		json_object_set_new(j, "status", json_integer(e->code));
	/* Nobody looked at the end of each; all of it is told with the last. */
	if (last)
		json_object_set_new(j, "writes",
				    writes_scan(b->mounts, b->n_mounts,
						b->notes->v[0].clock, &budget, NULL));
	return audit_append(log, "exec-end", j, 0, e->end, NULL, err);
}

static int write_net(struct audit *log, const struct audit_notes *a,
		     struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; a && r == 0 && i < json_array_size(a->net); i++) {
		const json_t *o = json_array_get(a->net, i);

		r = audit_append(log, json_string_value(json_object_get(o, "event")),
				 json_incref(json_object_get(o, "fields")), 0,
				 json_integer_value(json_object_get(o, "time")), NULL,
				 err);
	}
	return r;
}

static int write_log(struct box *b, struct cove_error *err)
{
	int64_t started = (int64_t)b->started_at * 1000000000;
	struct audit_notes *a = b->notes;
	struct audit *log = NULL;
	json_t *stop;
	int r = audit_open(&log, b->store, b->name, err);

	if (r == 0)
		r = audit_append(log, "create",
				 json_pack("{s:b, s:i, s:o}", "oneshot", 1, "uid",
					   (int)getuid(), "spec", audit_spec(&b->spec)),
				 0, started, NULL, err);
	for (uint32_t i = 0; a && r == 0 && i < a->n; i++) {
		uint64_t id = 0;

		r = write_exec(log, b, &a->v[i], &id, err);
		if (r == 0)
			r = write_end(log, b, &a->v[i], id, i + 1 == a->n, err);
	}
	if (r == 0)
		r = write_net(log, a, err);
	stop = json_pack("{s:s}", "reason", "its command ended");
	if (a && a->missed)
		json_object_set_new(stop, "missed", json_integer(a->missed));
	if (r == 0)
		r = audit_append(log, "stop", stop, 0, 0, NULL, err);
	else
		json_decref(stop);
	audit_close(log);
	return r;
}

void notes_write(struct box *b)
{
	struct cove_error err = {0};

	if (write_log(b, &err) < 0)
		log_line(LOG_WARNING, "%s", err.msg);
}
