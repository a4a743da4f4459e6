/* SPDX-License-Identifier: Apache-2.0 */
/* session_call - requests that wait for their answer. */
#include "core/session_impl.h"

#include "base/util.h"

#include <stdio.h>

static int call_failure(const struct stream *st, struct cove_error *err)
{
	uint64_t code = 0;
	char *hint_text = stream_result_str(st, WIRE_A_HINT);

	fail(err, COVE_EIO, 0, "%s", st->text[0] ? st->text : "refused inside");
	err->sys = st->sys;
	/* A keeper tells its own code (negated); the guest only has errno. */
	if (stream_result_u64(st, WIRE_A_CODE, &code) && code >= 1 && code <= 12)
		err->code = -(int)code;
	else if (st->sys)
		fail(err, COVE_EIO, st->sys, "%s", st->text);
	if (hint_text)
		hint(err, "%s", hint_text);
	free(hint_text);
	return err->code;
}

int session_wait_result(struct stream *st, bool all, int timeout_ms,
			struct cove_error *err)
{
	int64_t until = now_ms() + timeout_ms;

	while (!st->failed && !(st->has_result && (!all || st->closed))) {
		int64_t left = timeout_ms < 0 ? -1 : until - now_ms();

		if (st->closed || session_gone(st->session))
			return fail(err, COVE_EGONE, 0, "the sandbox has ended");
		if (timeout_ms >= 0 && left <= 0)
			return fail(err, COVE_ETIMEDOUT, 0, "no answer");
		if (session_turn(st->session, (int)left, err) < 0)
			return err->code;
	}
	return st->failed ? call_failure(st, err) : 0;
}

int session_keeper(struct session *s, const char *verb, json_t *args, json_t **ret,
		   struct cove_error *err)
{
	char *text = args ? json_dumps(args, JSON_COMPACT) : NULL;
	uint8_t *payload = malloc(WIRE_PAYLOAD_MAX);
	struct wire_out o;
	struct stream *st = NULL;
	json_error_t je;
	int r = 0;

	json_decref(args);
	if (!payload || (args && !text)) {
		r = fail_nomem(err);
		goto out;
	}
	wire_out_init(&o, payload, WIRE_PAYLOAD_MAX);
	wire_put_str(&o, WIRE_A_NAME, verb);
	if (text)
		wire_put_str(&o, WIRE_A_TEXT, text);
	if (o.overflow) {
		r = fail(err, COVE_EINVAL, 0, "%s: request too large", verb);
		goto out;
	}
	st = session_open(s, STREAM_CALL, WIRE_KEEPER, 0, payload, o.len, err);
	r = st ? session_wait_result(st, false, 60000, err) : err->code;
	if (r == 0 && ret) {
		char *answer = stream_result_str(st, WIRE_A_TEXT);

		*ret = answer ? json_loads(answer, 0, &je) : NULL;
		free(answer);
	}
	session_release(st);
out:
	free(payload);
	free(text);
	return r;
}
