/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner's client against roles that die, hang and lie. This program is the role,
 * too: it is told how to behave by max_file, the one number that HELLO carries.
 */
#include "tap.h"

#include "base/util.h"
#include "work/scan.h"
#include "work/scan_wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

enum act {
	GOOD = 1,
	DIE,
	DIE_LATER,
	HANG,
	GARBAGE,
	TOO_LONG,
	BAD_INDEX,
	BAD_PRINT,
	EARLY_DONE,
	EARLY_FINDING,
	REFUSE,
	FLOOD,
	STAY
};

/* ---- the role --------------------------------------------------------------------- */

static void note(uint32_t type, uint64_t files)
{
	struct scan_note n = {.type = type, .files = files};

	send(SCAN_FD, &n, sizeof(n), MSG_NOSIGNAL);
}

static void finding(uint64_t index, const char *print)
{
	struct {
		struct scan_found h;
		char text[64];
	} m = {
		{.type = SCAN_FINDING, .index = index, .line = 7},
                ""
        };
	const char *text[] = {"rule", "wh\033at", "", "ex", print};
	size_t at = 0;

	for (size_t i = 0; i < SCAN_TEXTS; i++) {
		m.h.len[i] = (uint16_t)strlen(text[i]);
		memcpy(m.text + at, text[i], m.h.len[i]);
		at += m.h.len[i];
	}
	send(SCAN_FD, &m, sizeof(m.h) + at, MSG_NOSIGNAL);
}

static void answer(enum act act, const struct scan_files *f)
{
	static char big[SCAN_PACKET + 100];

	if (act == DIE_LATER)
		_exit(0);
	if (act == HANG)
		pause();
	if (act == GARBAGE)
		send(SCAN_FD, "what?", 5, MSG_NOSIGNAL);
	if (act == TOO_LONG)
		send(SCAN_FD, big, sizeof(big), MSG_NOSIGNAL);
	if (act == BAD_INDEX)
		finding(f->first + f->count, "0123456789abcdef");
	if (act == BAD_PRINT)
		finding(f->first, "0123456789abcdeX");
	for (int i = 0; act == FLOOD && i < 300000; i++)
		finding(f->first, "0123456789abcdef");
	if (act == GOOD || act == STAY)
		finding(f->first + f->count - 1, "0123456789abcdef");
	note(act == EARLY_DONE ? SCAN_DONE : SCAN_PROGRESS,
	     act == EARLY_DONE ? 0 : f->first + f->count);
}

static int role(void)
{
	static char packet[SCAN_PACKET];
	struct scan_hello h;
	struct scan_files f = {0};

	if (recv(SCAN_FD, &h, sizeof(h), 0) != sizeof(h))
		return 1;
	if (h.max_file == DIE)
		return 1;
	if (h.max_file == EARLY_FINDING)
		finding(0, "0123456789abcdef");
	note(h.max_file == REFUSE ? SCAN_REFUSED : SCAN_READY, 0);
	while (recv(SCAN_FD, packet, sizeof(packet), 0) > 0) {
		uint32_t type;

		memcpy(&type, packet, sizeof(type));
		if (type == SCAN_END) {
			note(SCAN_DONE, f.first + f.count);
			if (h.max_file == STAY)
				pause();
			return 0;
		}
		memcpy(&f, packet, sizeof(f));
		answer((enum act)h.max_file, &f);
	}
	return 1;
}

/* ---- the client ------------------------------------------------------------------- */

struct seen {
	size_t n, index;
	char rule[32], what[200];
};

static void on_finding(void *arg, const struct scan_finding *f)
{
	struct seen *s = arg;

	s->n++;
	s->index = f->index;
	snprintf(s->rule, sizeof(s->rule), "%s", f->rule);
	snprintf(s->what, sizeof(s->what), "%s", f->what);
}

static struct seen run(enum act act, size_t files)
{
	cleanup_fd int fd = memfd_create("content", MFD_CLOEXEC);
	struct scan_options o = {.max_file = act, .budget_ms = act == HANG ? 300 : 20000};
	struct cove_error err = {0};
	struct seen s = {0};
	struct scan *scan = NULL;

	if (scan_start(&scan, &o, &err) < 0) {
		snprintf(s.what, sizeof(s.what), "%.190s", err.msg);
		return s;
	}
	for (size_t i = 0; i < files; i++)
		if (scan_add(scan, "some/path", fd, &err) < 0)
			OK(0, "scan_add: %s", err.msg);
	if (scan_finish(scan, on_finding, &s, &err) < 0)
		OK(0, "scan_finish: %s", err.msg);
	scan_free(scan);
	return s;
}

static void good_roles_are_heard(void)
{
	struct seen s = run(GOOD, 1000);

	OK(s.n == (1000 + SCAN_BATCH - 1) / SCAN_BATCH && strcmp(s.rule, "rule") == 0,
	   "one finding a batch: %zu", s.n);
	OK(strcmp(s.what, "wh?at") == 0, "without control characters: %s", s.what);
	OK(s.index == 999, "the last is of the last file: %zu", s.index);
	OK(run(GOOD, 0).n == 0, "no file, no finding");
	s = run(STAY, 3);
	OK(s.n == 1, "a role that stays behind holds nobody up");
}

static void bad_roles_are_findings(void)
{
	static const struct {
		enum act act;
		const char *rule;
	} cases[] = {
		{DIE,           "scan-failed" },
                {DIE_LATER,     "scan-failed" },
		{HANG,          "scan-timeout"},
                {GARBAGE,       "scan-failed" },
		{TOO_LONG,      "scan-failed" },
                {BAD_INDEX,     "scan-failed" },
		{BAD_PRINT,     "scan-failed" },
                {EARLY_DONE,    "scan-failed" },
		{EARLY_FINDING, "scan-failed" },
                {REFUSE,        "scan-failed" },
		{FLOOD,         "scan-failed" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seen s = run(cases[i].act, 700);

		OK(s.n >= 1 && strcmp(s.rule, cases[i].rule) == 0 && s.index < 700,
		   "case %zu: %s: %s", i, s.rule, s.what);
	}
}

int main(int argc, char **argv)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 1 && strcmp(argv[0], "cove-scan") == 0)
		return role();
	self[n > 0 ? n : 0] = '\0';
	setenv("COVE_SCAN", self, 1);
	good_roles_are_heard();
	bad_roles_are_findings();
	return tap_done();
}
