/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/migrate.h"

#include "base/util.h"

#include <string.h>
#include <time.h>

#define UNLIMITED (1ll << 50) /* bytes a second */
#define NAP_NS 2000000

int migrate_begin(struct migrate *m, struct qmp *q, enum migrate_way way, int fd,
		  bool bare, struct cove_error *err)
{
	static const char *const commands[] = {
		[MIGRATE_OUT] = "migrate", [MIGRATE_IN] = "migrate-incoming"};

	*m = (struct migrate){.from = q->sent + 1};
	if (qmp_send(q, "migrate-set-capabilities",
		     json_pack("{s:[{s:s, s:b}]}", "capabilities", "capability",
			       "x-ignore-shared", "state", bare),
		     -1, err) < 0 ||
	    qmp_send(q, "migrate-set-parameters",
		     json_pack("{s:I}", "max-bandwidth", (json_int_t)UNLIMITED), -1,
		     err) < 0 ||
	    qmp_send(q, "getfd", json_pack("{s:s}", "fdname", "moved"), fd, err) < 0 ||
	    qmp_send(q, commands[way], json_pack("{s:s}", "uri", "fd:moved"), -1, err) <
		    0)
		return err->code;
	m->to = q->sent;
	return 0;
}

static int verdict(const json_t *answer, struct cove_error *err)
{
	const char *status = json_string_value(json_object_get(answer, "status"));

	if (status && strcmp(status, "completed") == 0)
		return 1;
	if (status && (strcmp(status, "failed") == 0 || strcmp(status, "cancelled") == 0))
		return fail(err, COVE_EIO, 0, "QEMU: it cannot move the machine");
	return 0;
}

int migrate_poll(struct migrate *m, struct qmp *q, struct cove_error *err)
{
	json_t *answer = NULL;
	int r;

	if (m->to) {
		r = qmp_poll(q, m->from, m->to, &answer, err);
		if (r <= 0)
			return r;
		r = m->begun ? verdict(answer, err) : 0;
		json_decref(answer);
		m->begun = true;
		m->to = 0;
		if (r)
			return r;
	}
	if (qmp_send(q, "query-migrate", NULL, -1, err) < 0)
		return err->code;
	m->from = m->to = q->sent;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int migrate_wait(struct migrate *m, struct qmp *q, int timeout_ms, struct cove_error *err)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t until = now_ms() + timeout_ms;
	int r;

	while ((r = migrate_poll(m, q, err)) == 0) {
		if (now_ms() > until)
			return fail(err, COVE_ETIMEDOUT, 0,
				    "QEMU: the machine is not moved after %d s",
				    timeout_ms / 1000);
		nanosleep(&nap, NULL);
	}
	return r < 0 ? r : 0;
}
