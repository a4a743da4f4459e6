/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first - what the client says first, judged before a byte of it is sent on.
 *
 * While we wait, what the server says is passed: protocols in which the server speaks
 * first (SSH, SMTP) work. The bytes are looked at in the socket (MSG_PEEK), so whoever
 * carries the connection reads them from the beginning. The rules:
 *
 * - A rule with protocol tcp: nothing is looked at.
 * - TLS to a name: the SNI must be there and equal the name. Else the front end of many
 *   sites could be asked for another one than the policy allowed.
 * - TLS to an address: the SNI must be absent, or a name that the policy allows on this
 *   port without looking inside. With requests to be judged it must be absent: nobody
 *   could say which name a rule should be held against.
 * - Encrypted ClientHello: the inner name cannot be seen, and most hellos carry the
 *   extension as GREASE. The outer SNI decides: only a server for that name has the key.
 * - HTTP: every request's authority is checked, so requests are read (l7.c).
 * - Something else passes if the rule is for any protocol. A client that begins like HTTP
 *   after the server spoke speaks another protocol.
 */
#include "egress/conn_impl.h"
#include "egress/hello.h"
#include "egress/pass.h"

#include "base/util.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

static void refuse(struct conn *c, const char *reason)
{
	pass_leave(c);
	refuse_start(c, c->decision.id, reason);
}

/* NULL: the name in the hello is one that was allowed. */
static const char *wrong_sni(const struct conn *c, const struct hello *h)
{
	if (h->bad_sni)
		return "the server name in the TLS handshake is no host name";
	if (c->name) {
		if (!h->has_sni)
			return "the TLS handshake does not say a server name";
		return strcmp(h->sni, c->name->text) == 0
			       ? NULL
			       : "the TLS handshake names another server";
	}
	if (!h->has_sni)
		return NULL;
	if (c->decision.verdict == VERDICT_INSPECT)
		return "the TLS handshake names a server, but an address was dialled";
	return conn_name_allowed(c, h->sni)
		       ? NULL
		       : "the TLS handshake names a server that no rule allows";
}

/* NULL: the protocol is one that the decision can be kept with. */
static const char *wrong_kind(const struct conn *c, enum first_kind kind)
{
	bool web = kind == FIRST_TLS || kind == FIRST_HTTP;

	if (kind == FIRST_BAD)
		return "the TLS handshake is malformed";
	if (c->decision.protocol == PROTO_TLS && kind != FIRST_TLS)
		return "the rule is for TLS, and this is not";
	if (c->decision.protocol == PROTO_HTTP && !web)
		return "the rule is for HTTP, and this is not";
	if (c->decision.verdict == VERDICT_INSPECT && !web)
		return "requests must be judged, and this is neither TLS nor HTTP";
	return NULL;
}

/* events: of the upstream, seen when it was dialled. */
static void let_pass(struct conn *c, uint32_t events)
{
	if (c->data)
		pass_open(c);
	else if (pass_begin(c, NULL) < 0)
		conn_reset(c, "error", "out of memory");
	else
		pass_kick(c, EPOLLIN, events);
}

static void carry(struct conn *c, enum first_kind kind, uint32_t events)
{
	bool inspect = c->decision.verdict == VERDICT_INSPECT;

	if (kind != FIRST_HTTP && !(kind == FIRST_TLS && inspect)) {
		let_pass(c, events);
		return;
	}
	pass_leave(c);
	l7_start(c, kind == FIRST_TLS);
}

static void judge(struct conn *c, enum first_kind kind, const struct hello *h,
		  uint32_t events)
{
	const char *why;

	if (c->received && kind == FIRST_HTTP)
		kind = FIRST_OTHER;
	why = wrong_kind(c, kind);
	if (!why && kind == FIRST_TLS)
		why = wrong_sni(c, h);
	if (!why && c->received && c->decision.verdict == VERDICT_INSPECT)
		why = "requests must be judged, and the server spoke first";
	if (!why && !c->name && h->has_sni && !(c->sni = strdup(h->sni)))
		why = "out of memory";
	if (why)
		refuse(c, why);
	else
		carry(c, kind, events);
}

static void too_slow(struct timer *t)
{
	refuse(container_of(t, struct conn, timer), "the first bytes took too long");
}

/* Only something that has begun has to go on, unless the rule says what must come. */
static void set_deadline(struct conn *c, bool begun)
{
	struct egress *e = c->egress;

	if (!begun && c->decision.verdict != VERDICT_INSPECT &&
	    c->decision.protocol == PROTO_ANY)
		return;
	if (!c->timer.slot || c->timer.fn != too_slow) /* not anew with each byte */
		timer_start(e->loop, &c->timer, e->limits.first_bytes_ms, too_slow);
}

/* Did a look that gave n bytes see all there is? It ends at an urgent byte. */
static bool saw_all(const struct conn *c, size_t n)
{
	int there;

	return ioctl(c->client, FIONREAD, &there) == 0 && there >= 0 &&
	       (size_t)there == n;
}

/* Nothing, or half a beginning, and then the end: it cannot become anything else. */
static void ended_early(struct conn *c, size_t n, uint32_t events)
{
	static const struct hello none;

	if (n && !saw_all(c, n)) {
		refuse(c, "the first bytes cannot be looked at as a whole");
		return;
	}
	if (n || !wrong_kind(c, FIRST_OTHER)) {
		judge(c, FIRST_OTHER, &none, events);
		return;
	}
	pass_leave(c);
	conn_end(c, "allow", NULL); /* asked for nothing */
}

/* True: it is judged, and may be gone. */
static bool look(struct conn *c, bool ended, uint32_t events)
{
	char *buf = pump_buf(c->egress);
	struct hello h = {0};
	enum first_kind kind = FIRST_MORE;
	ssize_t n = -1;

	errno = ENOMEM;
	if (buf)
		n = recv(c->client, buf, PUMP_BUF, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		pass_leave(c);
		conn_reset(c, "allow", "the program reset the connection");
		return true;
	}
	if (n > 0)
		kind = first_look((const uint8_t *)buf, (size_t)n, &h);
	if (kind != FIRST_MORE)
		judge(c, kind, &h, events);
	else if (n == 0 || ended)
		ended_early(c, n > 0 ? (size_t)n : 0, events);
	else
		return false;
	return true;
}

static void more(struct conn *c, bool ended)
{
	if (!look(c, ended, 0))
		set_deadline(c, true);
}

void first_start(struct conn *c, uint32_t events)
{
	bool open = c->decision.protocol == PROTO_TCP;

	conn_decided(c);
	/* Most clients have spoken by now: what they said decides without a wait. */
	events &= ~(uint32_t)EPOLLOUT; /* that it is connected is known */
	if (!open && look(c, false, events))
		return;
	if (pass_begin(c, open ? NULL : more) < 0) {
		conn_reset(c, "error", "out of memory");
		return;
	}
	if (!open)
		set_deadline(c, false);
	pass_kick(c, 0, events);
}
