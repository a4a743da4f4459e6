/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of QEMU, with a QEMU that answers late, wrongly, or never. */
#include "base/util.h"
#include "tap.h"
#include "vm/migrate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig {
	struct qmp q;
	int qemu; /* the other end */
	struct cove_error err;
};

static void rig_open(struct rig *r)
{
	int pair[2] = {-1, -1};

	*r = (struct rig){.qemu = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	qmp_init(&r->q, pair[0]);
	r->qemu = pair[1];
}

static void rig_close(struct rig *r)
{
	qmp_clear(&r->q);
	close_fd(&r->qemu);
}

static void say(struct rig *r, const char *text)
{
	if (write(r->qemu, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
}

/* All that was said to QEMU. */
static const char *heard(struct rig *r)
{
	static char text[65536];
	ssize_t n = recv(r->qemu, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void commands_are_numbered(void)
{
	struct rig r;
	const char *text;

	rig_open(&r);
	OK(qmp_send(&r.q, "stop", NULL, -1, &r.err) == 0, "a command is sent");
	text = heard(&r);
	OK(strstr(text, "qmp_capabilities") && strstr(text, "\"id\":1"),
	   "what must be said first is said first: %s", text);
	OK(strstr(text, "\"execute\":\"stop\"") && strstr(text, "\"id\":2") &&
		   r.q.sent == 2,
	   "with numbers");
	OK(qmp_send(&r.q, "cont", NULL, -1, &r.err) == 0 &&
		   !strstr(heard(&r), "qmp_capabilities"),
	   "and only once");
	rig_close(&r);
}

static void late_answers_are_passed_over(void)
{
	struct rig r;

	rig_open(&r);
	say(&r, "{\"QMP\":{\"version\":{}}}\n");
	qmp_send(&r.q, "stop", NULL, -1, &r.err); /* 2 */
	OK(qmp_wait(&r.q, 1, NULL, 20, &r.err) == COVE_ETIMEDOUT,
	   "no answer: time is up");
	r.err = (struct cove_error){0};
	qmp_send(&r.q, "cont", NULL, -1, &r.err); /* 3 */
	say(&r, "{\"return\":{},\"id\":1}\n{\"return\":{},\"id\":2}\n");
	r.err.code = COVE_ESTATE; /* of something else, earlier */
	OK(qmp_poll(&r.q, 3, 3, NULL, &r.err) == 0,
	   "the late answer to `stop` is none to `cont`");
	r.err.code = 0;
	say(&r, "{\"event\":\"RESUME\"}\n{\"return\":{},\"id\":3}\n");
	OK(qmp_poll(&r.q, 3, 3, NULL, &r.err) == 1, "its own is");
	qmp_send(&r.q, "query-status", NULL, -1, &r.err); /* 4 */
	say(&r, "{\"error\":{\"desc\":\"late\"},\"id\":3}\n"
		"{\"return\":{\"status\":\"x\"},\"id\":4}\n");
	OK(qmp_wait(&r.q, 1, NULL, 5000, &r.err) == 0,
	   "a late error of another is passed over, too");
	rig_close(&r);
}

static void errors_count_for_their_command(void)
{
	json_t *answer = NULL;
	struct rig r;

	rig_open(&r);
	qmp_send(&r.q, "getfd", NULL, -1, &r.err);   /* 2 */
	qmp_send(&r.q, "migrate", NULL, -1, &r.err); /* 3 */
	say(&r,
	    "{\"error\":{\"desc\":\"no such\"},\"id\":2}\n{\"return\":{},\"id\":3}\n");
	OK(qmp_wait(&r.q, 2, NULL, 5000, &r.err) == COVE_EIO &&
		   strstr(r.err.msg, "no such"),
	   "one of several that fails: all do: %s", r.err.msg);
	r.err = (struct cove_error){0};
	qmp_send(&r.q, "query-migrate", NULL, -1, &r.err); /* 4 */
	say(&r, "{\"return\":{\"status\":\"active\"},\"id\":4}\n");
	OK(qmp_wait(&r.q, 1, &answer, 5000, &r.err) == 0 &&
		   strcmp(json_string_value(json_object_get(answer, "status")),
			  "active") == 0,
	   "and the next is answered by its own");
	json_decref(answer);
	rig_close(&r);
}

static void lies_are_refused(void)
{
	static const char *const lies[] = {
		"no json\n", "[1,2\n",
		"{\"error\":{\"desc\":\"what?\"}}\n", /* without a number: about ours */
	};
	static char flood[3u << 20];
	struct rig r;

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		rig_open(&r);
		qmp_send(&r.q, "stop", NULL, -1, &r.err);
		say(&r, lies[i]);
		OK(qmp_wait(&r.q, 1, NULL, 5000, &r.err) == COVE_EIO, "refused: %s",
		   r.err.msg);
		rig_close(&r);
	}
	rig_open(&r);
	qmp_send(&r.q, "stop", NULL, -1, &r.err);
	say(&r, "{\"return\":{},\"id\":-2}\n{\"return\":{},\"id\":\"2\"}\n"
		"{\"return\":{},\"id\":99}\n{\"return\":{}}\n{\"id\":2}\n");
	OK(qmp_poll(&r.q, 2, 2, NULL, &r.err) == 0 && r.err.code == 0,
	   "answers to what was never asked are none");
	rig_close(&r);
	rig_open(&r);
	qmp_send(&r.q, "stop", NULL, -1, &r.err);
	memset(flood, 'x', sizeof(flood));
	if (fork() == 0) {
		close_fd(&r.q.fd);
		for (size_t at = 0; at < sizeof(flood);) {
			ssize_t n = send(r.qemu, flood + at, sizeof(flood) - at,
					 MSG_NOSIGNAL);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
		_exit(0);
	}
	close_fd(&r.qemu);
	OK(qmp_wait(&r.q, 1, NULL, 20000, &r.err) == COVE_EIO, "a line without end: %s",
	   r.err.msg);
	rig_close(&r);
}

static void the_end_is_told(void)
{
	char reason[QMP_REASON_MAX];
	struct rig r;

	rig_open(&r);
	qmp_send(&r.q, "stop", NULL, -1, &r.err);
	say(&r, "{\"event\":\"SHUTDOWN\",\"data\":{\"reason\":\"guest-reset\"}}\n");
	close_fd(&r.qemu);
	OK(qmp_wait(&r.q, 1, NULL, 5000, &r.err) == COVE_EGONE, "it has ended");
	qmp_shutdown_reason(&r.q, reason, sizeof(reason));
	OK(strcmp(reason, "guest-reset") == 0,
	   "why is known though it came while something else was awaited");
	rig_close(&r);
}

static void moving(void)
{
	struct migrate m;
	struct rig r;

	rig_open(&r);
	OK(migrate_begin(&m, &r.q, MIGRATE_OUT, r.qemu, false, &r.err) == 0, "begun");
	OK(migrate_poll(&m, &r.q, &r.err) == 0, "nothing was answered yet");
	say(&r, "{\"return\":{},\"id\":1}\n{\"return\":{},\"id\":2}\n"
		"{\"return\":{},\"id\":3}\n{\"return\":{},\"id\":4}\n"
		"{\"return\":{},\"id\":5}\n");
	OK(migrate_poll(&m, &r.q, &r.err) == 0 && r.q.sent == 6, "now it is asked");
	OK(migrate_poll(&m, &r.q, &r.err) == 0 && r.q.sent == 6, "but not twice");
	say(&r, "{\"return\":{\"status\":\"active\"},\"id\":6}\n");
	OK(migrate_poll(&m, &r.q, &r.err) == 0, "it goes on");
	say(&r, "{\"return\":{\"status\":\"completed\"},\"id\":7}\n");
	OK(migrate_poll(&m, &r.q, &r.err) == 1, "done");
	OK(migrate_begin(&m, &r.q, MIGRATE_IN, r.qemu, true, &r.err) == 0, "again");
	say(&r, "{\"return\":{},\"id\":8}\n{\"return\":{},\"id\":9}\n"
		"{\"error\":{\"desc\":\"no fd\"},\"id\":10}\n");
	OK(migrate_wait(&m, &r.q, 5000, &r.err) == COVE_EIO, "refused: %s", r.err.msg);
	r.err = (struct cove_error){0};
	migrate_begin(&m, &r.q, MIGRATE_IN, r.qemu, true, &r.err);
	OK(migrate_wait(&m, &r.q, 30, &r.err) == COVE_ETIMEDOUT,
	   "one that never answers: %s", r.err.msg);
	rig_close(&r);
}

int main(void)
{
	commands_are_numbered();
	late_answers_are_passed_over();
	errors_count_for_their_command();
	lies_are_refused();
	the_end_is_told();
	moving();
	return tap_done();
}
