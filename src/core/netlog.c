/* SPDX-License-Identifier: Apache-2.0 */
#include "core/netlog.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/netrules.h"
#include "policy/host.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOLD_MS 60000  /* one audit record in this time for the same thing */
#define CHECK_MS 1000  /* how often the size of the log is looked at */
#define TEXT_MAX 200   /* of a text of an event */
#define DENIED_TOLD 64 /* hosts in one answer */

enum what { DENIED, ALLOWED, SECRET };

/* A host and port that something happened to. */
struct seen {
	enum what what;
	char host[HOST_MAX + 1];
	uint16_t port;
	char rule[NETRULES_ID + 16]; /* or the secret's name */
	char reason[120], program[32];
	uint64_t count;
	unsigned held; /* not in the audit log yet */
	int64_t last_ms, audited_ms;
	uint64_t order; /* of its last event */
};

struct netlog {
	int dir, fd;
	int64_t checked_ms;
	netlog_audit_fn *audit;
	void *audit_arg;
	struct seen *seen;
	size_t n, room;
	uint64_t order;
};

/* ---- the file -------------------------------------------------------------------- */

static int open_file(int dir)
{
	return openat(dir, NETLOG_FILE,
		      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int netlog_open(struct netlog **ret, int dir, struct cove_error *err)
{
	struct netlog *l = calloc(1, sizeof(*l));

	if (!l)
		return fail_nomem(err);
	l->dir = dir;
	l->fd = dir < 0 ? -1 : open_file(dir);
	if (dir >= 0 && l->fd < 0) {
		free(l);
		return fail(err, COVE_EIO, errno, NETLOG_FILE);
	}
	*ret = l;
	return 0;
}

int netlog_fd(const struct netlog *l)
{
	return l->fd;
}

static bool rotate(struct netlog *l)
{
	struct stat st;
	int fd;

	if (l->fd < 0 || fstat(l->fd, &st) < 0 || st.st_size < (off_t)NETLOG_MAX ||
	    renameat(l->dir, NETLOG_FILE, l->dir, NETLOG_OLD) < 0)
		return false;
	fd = open_file(l->dir);
	if (fd < 0) /* the old one goes on growing: better than none */
		return false;
	close(l->fd);
	l->fd = fd;
	return true;
}

/* ---- audit ----------------------------------------------------------------------- */

static void write_audit(struct netlog *l, struct seen *s, int64_t now_ms)
{
	static const char *const verdicts[] = {"deny", "allow", "secret"};
	json_t *j;

	s->audited_ms = now_ms;
	if (!l->audit)
		return;
	j = json_pack("{s:s, s:o, s:i, s:o}", "verdict", verdicts[s->what], "host",
		      audit_text(s->host, strlen(s->host), TEXT_MAX), "port", s->port,
		      s->what == SECRET ? "secret" : "rule",
		      audit_text(s->rule, strlen(s->rule), TEXT_MAX));
	if (j && s->what == DENIED)
		json_object_set_new(j, "reason",
				    audit_text(s->reason, strlen(s->reason), TEXT_MAX));
	if (j && *s->program)
		json_object_set_new(j, "program",
				    audit_text(s->program, strlen(s->program), TEXT_MAX));
	if (j && s->held > 1)
		json_object_set_new(j, "count", json_integer(s->held));
	s->held = 0;
	if (j)
		l->audit(l->audit_arg, "net", j);
}

/* The first at once, more of the same after a while and together. */
static void tell(struct netlog *l, struct seen *s, int64_t now_ms)
{
	bool first = s->audited_ms == 0;

	s->held++;
	if (first || (s->what != ALLOWED && now_ms - s->audited_ms >= HOLD_MS))
		write_audit(l, s, now_ms);
}

static bool waits(const struct seen *s)
{
	return s->held && s->what != ALLOWED;
}

static void flush(struct netlog *l, int64_t now_ms, bool all)
{
	for (size_t i = 0; i < l->n; i++)
		if (waits(&l->seen[i]) &&
		    (all || now_ms - l->seen[i].audited_ms >= HOLD_MS))
			write_audit(l, &l->seen[i], now_ms);
}

void netlog_set_audit(struct netlog *l, netlog_audit_fn *fn, void *arg)
{
	if (!fn)
		flush(l, wall_ms(), true); /* the last chance */
	l->audit = fn;
	l->audit_arg = arg;
}

int64_t netlog_due(const struct netlog *l)
{
	int64_t next = 0;

	for (size_t i = 0; i < l->n; i++) {
		int64_t at = l->seen[i].audited_ms + HOLD_MS;

		if (waits(&l->seen[i]) && (!next || at < next))
			next = at;
	}
	return next;
}

bool netlog_turn(struct netlog *l, int64_t now_ms)
{
	flush(l, now_ms, false);
	if (now_ms - l->checked_ms < CHECK_MS && now_ms >= l->checked_ms)
		return false;
	l->checked_ms = now_ms;
	return rotate(l);
}

void netlog_close(struct netlog *l)
{
	if (!l)
		return;
	flush(l, wall_ms(), true);
	closep(&l->fd);
	free(l->seen);
	free(l);
}

/* ---- events ---------------------------------------------------------------------- */

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* Room for one more: a new place, or that of whoever was quiet for longest. */
static struct seen *make_room(struct netlog *l, int64_t now_ms)
{
	struct seen *oldest;

	if (l->n == l->room && l->room < NETLOG_HOSTS) {
		size_t room = l->room ? 2 * l->room : 16;
		struct seen *v = realloc(l->seen, room * sizeof(*v));

		if (v) {
			l->seen = v;
			l->room = room;
		}
	}
	if (l->n < l->room)
		return &l->seen[l->n++];
	oldest = l->seen;
	for (size_t i = 1; i < l->n; i++)
		if (l->seen[i].order < oldest->order)
			oldest = &l->seen[i];
	if (oldest && waits(oldest))
		write_audit(l, oldest, now_ms);
	return oldest;
}

static struct seen *find(struct netlog *l, enum what what, const char *host,
			 uint16_t port, const char *rule, int64_t now_ms)
{
	struct seen *s;

	for (size_t i = 0; i < l->n; i++) {
		s = &l->seen[i];
		if (s->what == what && s->port == port && strcmp(s->host, host) == 0 &&
		    (what == DENIED || strcmp(s->rule, rule) == 0))
			return s;
	}
	s = make_room(l, now_ms);
	if (!s)
		return NULL;
	*s = (struct seen){.what = what, .port = port};
	snprintf(s->host, sizeof(s->host), "%s", host);
	snprintf(s->rule, sizeof(s->rule), "%s", rule);
	return s;
}

static void lost(struct netlog *l, const json_t *event)
{
	if (l->audit)
		l->audit(l->audit_arg, "net",
			 json_pack("{s:s, s:I}", "verdict", "lost", "count",
				   json_integer_value(json_object_get(event, "n"))));
}

void netlog_take(struct netlog *l, const json_t *event)
{
	const char *verdict = text(event, "verdict"), *secret = text(event, "secret");
	const char *host = *text(event, "host") ? text(event, "host") : text(event, "ip");
	json_int_t port = json_integer_value(json_object_get(event, "port"));
	int64_t now = wall_ms();
	struct seen *s;
	enum what what;

	if (strcmp(text(event, "t"), "lost") == 0) {
		lost(l, event);
		return;
	}
	if (strcmp(verdict, "deny") == 0)
		what = DENIED;
	else if (strcmp(text(event, "kind"), "secret") == 0)
		what = SECRET;
	else if (strcmp(verdict, "allow") == 0)
		what = ALLOWED;
	else
		return;
	if (!*host || port < 0 || port > 65535)
		return;
	s = find(l, what, host, (uint16_t)port,
		 what == SECRET ? secret : text(event, "rule"), now);
	if (!s)
		return;
	s->count++;
	s->last_ms = now;
	s->order = ++l->order;
	snprintf(s->reason, sizeof(s->reason), "%s", text(event, "reason"));
	snprintf(s->program, sizeof(s->program), "%s", text(event, "program"));
	if (what == DENIED)
		snprintf(s->rule, sizeof(s->rule), "%s", text(event, "rule"));
	tell(l, s, now);
}

void netlog_note(struct netlog *l, const char *kind, json_t *fields)
{
	json_t *j =
		json_pack("{s:I, s:s}", "time_ms", (json_int_t)wall_ms(), "kind", kind);
	cleanup_free char *line = NULL;
	cleanup_buf struct buf out = BUF_INIT(1 << 16);

	json_object_update(j, fields);
	json_decref(fields);
	line = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(j);
	/* In one write, so that it stays one line beside those of the role. */
	if (l->fd >= 0 && line && buf_printf(&out, "%s\n", line) == 0)
		write_all(l->fd, out.data, out.len);
}

/* Newest first. */
static int by_time(const void *a, const void *b)
{
	const struct seen *x = *(const struct seen *const *)a;
	const struct seen *y = *(const struct seen *const *)b;

	return x->order < y->order ? 1 : -1;
}

json_t *netlog_denied(const struct netlog *l, int64_t since_ms)
{
	cleanup_free const struct seen **v =
		calloc(l->n + 1, sizeof(const struct seen *));
	json_t *list = json_array();
	size_t n = 0;

	for (size_t i = 0; v && i < l->n; i++)
		if (l->seen[i].what == DENIED && l->seen[i].last_ms >= since_ms)
			v[n++] = &l->seen[i];
	if (n)
		qsort(v, n, sizeof(*v), by_time);
	for (size_t i = 0; list && i < n && i < DENIED_TOLD; i++)
		json_array_append_new(
			list,
			json_pack(
				"{s:o, s:i, s:I, s:o, s:o, s:o, s:I}", "host",
				audit_text(v[i]->host, strlen(v[i]->host), TEXT_MAX),
				"port", v[i]->port, "count", (json_int_t)v[i]->count,
				"rule",
				audit_text(v[i]->rule, strlen(v[i]->rule), TEXT_MAX),
				"reason",
				audit_text(v[i]->reason, strlen(v[i]->reason), TEXT_MAX),
				"program",
				audit_text(v[i]->program, strlen(v[i]->program),
					   TEXT_MAX),
				"last", (json_int_t)v[i]->last_ms));
	return list;
}
