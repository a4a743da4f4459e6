/* SPDX-License-Identifier: Apache-2.0 */
/* provision_run - the commands of `provision:`, one after the other in a sandbox. */
#include "core/provision.h"

#include "base/util.h"
#include "core/box.h"
#include "core/request.h"
#include "core/session.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>

#define GRACE_MS 2000 /* for what commands left running */
#define TURN_MS 100
#define TAIL_MAX 300 /* bytes of output that a failure is told with */

struct run {
	struct box box;
	struct session *session;
	const struct provision_hooks *hooks;
	char tail[2 * TAIL_MAX];
	size_t tail_len;
};

static void take_output(void *arg, int fd, const void *data, size_t n)
{
	struct run *r = arg;
	const char *p = data;

	if (r->hooks->output)
		r->hooks->output(r->hooks->arg, fd, data, n);
	for (size_t i = 0; i < n; i++) {
		if (r->tail_len == sizeof(r->tail)) {
			r->tail_len -= TAIL_MAX;
			memmove(r->tail, r->tail + TAIL_MAX, r->tail_len);
		}
		r->tail[r->tail_len++] = p[i];
	}
}

static int64_t check_disk(void *arg)
{
	struct run *r = arg;
	int64_t next = 0;

	if (box_check_disk(&r->box, now_ms(), &next))
		session_set_bye(r->session, DISK_REASON, NULL);
	return next;
}

/* The last lines, as one that no terminal minds. */
static void tail_text(const struct run *r, char out[TAIL_MAX + 1])
{
	size_t from = r->tail_len > TAIL_MAX ? r->tail_len - TAIL_MAX : 0, n = 0;

	for (size_t i = from; i < r->tail_len; i++) {
		unsigned char c = (unsigned char)r->tail[i];

		if (c == '\n' && i + 1 == r->tail_len)
			break;
		out[n++] = (char)(c == '\n' ? '|' : isprint(c) ? c : '?');
	}
	out[n] = '\0';
}

/* ---- one command ---------------------------------------------------------------- */

static const char *shown(const json_t *command)
{
	return json_is_string(command) ? json_string_value(command)
				       : json_string_value(json_array_get(command, 0));
}

static int wait_end(struct stream *st, struct cove_error *err)
{
	while (!stream_done(st))
		if (session_turn(st->session, -1, err) < 0 && !stream_done(st))
			return err->code;
	return 0;
}

static int judge(const struct run *r, const struct stream *st, size_t i, size_t n,
		 const char *what, struct cove_error *err)
{
	char tail[TAIL_MAX + 1];

	if (st->exited && st->code == 0 && st->signal == 0 && !st->gone)
		return 0;
	tail_text(r, tail);
	if (st->gone)
		fail(err, COVE_EGONE, 0,
		     "provision %zu/%zu: %.120s: the sandbox ended: %s", i, n, what,
		     session_bye(st->session));
	else if (st->failed)
		fail(err, COVE_EINVAL, st->sys, "provision %zu/%zu: %.120s", i, n, what);
	else if (st->signal)
		fail(err, COVE_EINVAL, 0, "provision %zu/%zu: %.120s: signal %d: %s", i,
		     n, what, st->signal, tail);
	else
		fail(err, COVE_EINVAL, 0, "provision %zu/%zu: %.120s: exit code %d: %s",
		     i, n, what, st->code, tail);
	return hint(err, "nothing was created; mend the command and try again");
}

/* A string is for the shell, a list is a program with its arguments. */
static int run_command(struct run *r, const json_t *command, size_t i, size_t n,
		       struct cove_error *err)
{
	const char *argv[SPEC_LIST_MAX + 1] = {"/bin/sh", "-c",
					       json_string_value(command), NULL};
	struct cove_exec_options o = {.size = sizeof(o), .argv = argv};
	cleanup_free uint8_t *payload = malloc(WIRE_PAYLOAD_MAX);
	struct wire_out out;
	struct stream *st;
	size_t words = json_array_size(command);
	int ret;

	if (!payload)
		return fail_nomem(err);
	for (size_t k = 0; k < words && k < SPEC_LIST_MAX; k++) {
		argv[k] = json_string_value(json_array_get(command, k));
		argv[k + 1] = NULL;
	}
	r->tail_len = 0;
	wire_out_init(&out, payload, WIRE_PAYLOAD_MAX);
	if (request_exec(&out, &r->box.spec, "provision", &o, WIRE_EXEC_NO_STDIN, err) <
	    0)
		return err->code;
	st = session_open(r->session, STREAM_PROC, WIRE_EXEC, 0, payload, out.len, err);
	if (!st)
		return err->code;
	st->output = take_output;
	st->arg = r;
	st->out[0].kind = st->out[1].kind = SINK_CALLBACK;
	ret = wait_end(st, err);
	if (ret == 0 || st->gone)
		ret = judge(r, st, i, n, shown(command), err);
	session_release(st);
	return ret;
}

static int run_all(struct run *r, const json_t *commands, struct cove_error *err)
{
	size_t n = json_array_size(commands);

	for (size_t i = 0; i < n; i++) {
		const json_t *c = json_array_get(commands, i);
		char what[160];

		snprintf(what, sizeof(what), "provision %zu/%zu: %.100s", i + 1, n,
			 shown(c));
		if (r->hooks->progress)
			r->hooks->progress(r->hooks->arg, what, (int)(100 * i / n));
		if (run_command(r, c, i + 1, n, err) < 0)
			return err->code;
	}
	return 0;
}

/* ---- the sandbox ---------------------------------------------------------------- */

/* The same, but with a home and a root that last, and without the user's work. */
static int make_spec(struct spec *ret, const struct spec *s, struct cove_error *err)
{
	static const char *const unset[] = {"mounts",
					    "mask",
					    "provision",
					    "secrets",
					    "resources.ttlSeconds",
					    "resources.idleSeconds"};
	const char *home, *user;
	uid_t uid;
	gid_t gid;
	int r = spec_copy(ret, s, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(unset); i++)
		r = spec_set(ret, unset[i], NULL, err);
	if (r == 0)
		r = spec_set(ret, "storage.type", "persistent", err);
	if (r == 0)
		r = box_user(s, &uid, &gid, &home, &user, err);
	if (r == 0)
		r = spec_set(ret, "exec.workDir", home, err);
	if (r < 0)
		spec_clear(ret);
	return r;
}

/* A machine with a disk holds what is not written to it yet, until it ends by itself. */
static int end_machine(struct run *r, struct cove_error *err)
{
	const struct place *p = &r->box.place;
	struct pollfd end = {.fd = p->pidfd, .events = POLLIN};
	int64_t until = now_ms() + GRACE_MS + p->sync_ms;
	struct cove_error ignored = {0};
	uint8_t payload[16];
	struct wire_out o;

	if (!p->sync_ms)
		return 0;
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_TIMEOUT_MS, GRACE_MS);
	if (link_send(session_link(r->session), WIRE_SHUTDOWN, 0, 0, payload, o.len) < 0)
		return fail(err, COVE_EIO, 0, "provision: the machine's link");
	while (!session_gone(r->session) && now_ms() < until)
		if (session_turn(r->session, TURN_MS, &ignored) < 0)
			break;
	while (now_ms() < until)
		if (poll(&end, 1, TURN_MS) > 0)
			return 0;
	return fail(err, COVE_ETIMEDOUT, 0,
		    "provision: the machine does not write out its disk");
}

/* After the guest is gone: nobody writes there any more. */
static int keep_results(struct run *r, int to, struct cove_error *err)
{
	bool disk = spec_image_is_disk(&r->box.spec);
	char path[SPEC_NAME_MAX + 32];
	int boxes = r->box.store->boxes;

	box_halt(&r->box);
	snprintf(path, sizeof(path), "%s/home", r->box.name);
	if (renameat(boxes, path, to, "home") < 0)
		return fail(err, COVE_EIO, errno, "keep what provision made");
	snprintf(path, sizeof(path), disk ? "%s/root" : "%s/root/upper", r->box.name);
	if ((disk || spec_image_is_tree(&r->box.spec)) &&
	    renameat(boxes, path, to, "root") < 0)
		return fail(err, COVE_EIO, errno, "keep what provision made");
	return 0;
}

int provision_run(struct store *st, const struct spec *s, int to,
		  const struct provision_hooks *h, struct cove_error *err)
{
	cleanup_free struct run *r = calloc(1, sizeof(*r));
	struct cove_error ignored = {0};
	uint64_t changes;
	struct spec spec;
	int ret;

	if (!r)
		return fail_nomem(err);
	r->hooks = h;
	if (make_spec(&spec, s, err) < 0)
		return err->code;
	if (box_start(&r->box, st, NULL, &spec, true, h->degraded, err) < 0)
		return wrap(err, "provision");
	r->session = session_new(&r->box.place.link, err);
	ret = r->session ? 0 : err->code;
	if (ret == 0) {
		session_set_tick(r->session, r->box.disk.next_ms, check_disk, r);
		ret = box_setup(&r->box, r->session, err);
	}
	if (ret == 0)
		ret = run_all(r, s->provision, err);
	if (ret == 0)
		ret = end_machine(r, err);
	session_free(r->session);
	if (ret == 0)
		ret = keep_results(r, to, err);
	box_end(&r->box, &changes, &ignored);
	return ret;
}
