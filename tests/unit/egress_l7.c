/* SPDX-License-Identifier: Apache-2.0 */
/* Opened connections in the clear: what is judged is what is sent, and nothing hangs. */
#include "l7rig.h"
#include "tap.h"

static const char network[] =
	"{\"mode\":\"allowlist\",\"allowedHosts\":[\"free.test\"],\"allowedPorts\":[80,"
	"443],"
	"\"rules\":["
	"{\"id\":\"no-admin\",\"host\":\"a.test\",\"paths\":[\"/admin/**\",\"/admin\"],"
	"\"action\":\"deny\"},"
	"{\"id\":\"read\",\"host\":\"a.test\",\"methods\":[\"GET\",\"POST\",\"HEAD\"],"
	"\"paths\":[\"/**\"]}]}";

#define OKAY "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a.test\r\n\r\n"

static struct rig rig;

static void a_request_passes(void)
{
	struct talk t = {.host = "a.test", .send = GET("/x"), .answer = {OKAY}};

	rig_talk(&rig, &t);
	OK(strcmp(t.to_server.data, GET("/x")) == 0, "the server got: %s",
	   t.to_server.data);
	OK(strstr(t.to_client.data, "200 OK") &&
		   strstr(t.to_client.data, "\r\n\r\nhello"),
	   "the client got the answer");
	OK(strstr(rig_log(&rig), "\"kind\":\"request\""), "it is in the log");
	talk_clear(&t);
}

static void requests_follow_each_other(void)
{
	struct talk t = {
		.host = "a.test",
		.send = GET("/1") "POST /2 HTTP/1.1\r\nHost: a.test:80\r\n"
				  "Transfer-Encoding: chunked\r\n\r\n"
				  "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n" GET(
					  "/admin/3") GET("/4"),
		.answer = {OKAY,
			   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
			   "Transfer-Encoding: chunked\r\n\r\n"
			   "4\r\nfour\r\n0\r\n\r\n", OKAY}
        };

	for (t.step = 0; t.step < 12; t.step += 5) {
		const char *s, *c;

		rig_talk(&rig, &t);
		s = t.to_server.data;
		c = t.to_client.data;
		OK(count_of(c, "HTTP/1.1 200") == 3 && count_of(c, "HTTP/1.1 403") == 1,
		   "three answers and a refusal, step %zu", t.step);
		OK(strstr(c, "HTTP/1.1 100 Continue\r\n\r\n"),
		   "the interim one is passed");
		OK(strstr(c, "no-admin") && strstr(c, "denied by cove"), "it says why");
		OK(!strstr(s, "/admin"), "the refused one never left");
		OK(strstr(s, "GET /4 HTTP/1.1\r\nHost: a.test\r\n\r\n"),
		   "the next one did");
		OK(!strstr(s, "x=y") && !strstr(s, "T: u"), "framing is ours");
		talk_clear(&t);
	}
}

static const struct {
	const char *what, *request, *status, *reason;
} refused[] = {
	{"another Host",              "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n",                 "403", "Host is not"        },
	{"another port",              "GET / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n",            "403",
	 "another port"												     },
	{"absolute-form for another",
	 "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n",                                 "403", "Host is not"        },
	{"https in the clear",        "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	 "403",											"scheme"             },
	{"an address as Host",        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",              "403",
	 "Host is not"												      },
	{"a denied method",           "PUT /x HTTP/1.1\r\nHost: a.test\r\n\r\n",                "403", "rule"               },
	{"a denied path",             GET("/admin/x"),                                          "403", "no-admin"           },
	{"with %2F",                  GET("/admin%2Fx"),					"403", "no-admin"           },
	{"with %61",                  GET("/%61dmin/x"),					"403", "no-admin"           },
	{"with //",                   GET("//admin/x"),					 "403", "no-admin"           },
	{"with ;",		    GET("/admin;a=b/x"),                                      "403", "no-admin"           },
	{"with a backslash",          GET("/admin\\\\x"),                                       "403", "no-admin"           },
	{"with dots",                 GET("/a/../admin/x"),                                     "403", "two ways"           },
	{"with encoded dots",         GET("/a/%2e%2e/admin/x"),                                 "403", "two ways"           },
	{"CL.TE",
	 "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 6\r\n"
	 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",					"400", "both Content-Length"},
	{"bare LF",                   "GET / HTTP/1.1\nHost: a.test\n\n",                       "400", "bare LF"            },
	{"obs-fold",                  "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n",   "400",
	 "folded"													   },
	{"two Hosts",                 "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "400",
	 "more than one Host"											       },
	{"CONNECT",                   "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n",    "400",
	 "CONNECT"													  },
	{"HTTP/2",		    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                       "403", "HTTP/2"             },
	{"bad chunks",
	 "POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
	 "zz\r\n",									      "400", "framed"             },
};

static void bad_requests_are_answered(void)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct talk t = {
			.host = "a.test", .send = refused[i].request, .answer = {OKAY}};
		int64_t start = now_ms();

		rig_talk(&rig, &t);
		OK(strncmp(t.to_client.data + 9, refused[i].status, 3) == 0 &&
			   strstr(t.to_client.data, refused[i].reason) &&
			   !strstr(t.to_server.data, "GET") &&
			   !strstr(t.to_client.data, "hello"),
		   "%s: %s", refused[i].what, refused[i].status);
		OK(now_ms() - start < PROMPT_MS, "%s: at once", refused[i].what);
		talk_clear(&t);
	}
}

static const struct {
	const char *what, *answer, *reason; /* reason NULL: the connection breaks */
} hostile[] = {
	{"no answer",        "",						       "without an answer"  },
	{"not HTTP",         "SSH-2.0-x\r\n\r\n",                                      "status"             },
	{"CL and TE",
	 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both Content-Length"},
	{"bare LF",          "HTTP/1.1 200 OK\nX: y\n\n",                              "bare LF"            },
	{"unasked 101",
	 "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",        "unasked"            },
	{"header injection", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",                     "control"            },
	{"broken chunking",
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX",          NULL                 },
	{"cut off",          "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhi",        NULL                 },
	{"too much",         OKAY "HTTP/1.1 200 OK\r\n\r\nsmuggled",                   NULL                 },
};

static void hostile_servers_are_named(void)
{
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		struct talk t = {.host = "a.test",
				 .send = GET("/x"),
				 .answer = {hostile[i].answer}};
		int64_t start = now_ms();

		rig_talk(&rig, &t);
		if (hostile[i].reason)
			OK(strncmp(t.to_client.data, "HTTP/1.1 502 ", 13) == 0 &&
				   strstr(t.to_client.data, hostile[i].reason),
			   "server: %s: %s", hostile[i].what, t.to_client.data);
		else
			OK(!strstr(t.to_client.data, "smuggled") &&
				   !strstr(t.to_client.data, "XX"),
			   "server: %s", hostile[i].what);
		OK(now_ms() - start < PROMPT_MS, "server: %s: at once", hostile[i].what);
		talk_clear(&t);
	}
}

static void endless_heads_end(void)
{
	static char fields[200 << 10];
	struct talk t = {.host = "a.test",
			 .send = GET("/x"),
			 .answer = {"HTTP/1.1 200 OK\r\n"},
			 .tail = fields,
			 .tail_n = sizeof(fields)};
	struct talk u = {.host = "a.test",
			 .send = "GET / HTTP/1.1\r\nHost: a.test\r\n",
			 .big = fields,
			 .big_n = sizeof(fields)};

	for (size_t i = 0; i + 8 <= sizeof(fields); i += 8)
		memcpy(fields + i, "X: abc\r\n", 8);
	rig_talk(&rig, &t);
	OK(strncmp(t.to_client.data, "HTTP/1.1 502 ", 13) == 0 &&
		   strstr(t.to_client.data, "too large"),
	   "an endless head of a server");
	rig_talk(&rig, &u);
	OK(strncmp(u.to_client.data, "HTTP/1.1 431 ", 13) == 0 && !*u.to_server.data,
	   "an endless head of a client");
	talk_clear(&t);
	talk_clear(&u);
}

static void slow_heads_end(void)
{
	struct talk t = {
		.host = "a.test", .send = "GET / HTT", .stay = true, .sent_first = true};

	rig.e.limits.headers_ms = 300;
	rig_talk(&rig, &t);
	OK(strncmp(t.to_client.data, "HTTP/1.1 408 ", 13) == 0,
	   "slow-loris: 408 after headers_ms");
	rig.e.limits.headers_ms = PATIENT_MS;
	talk_clear(&t);
}

static char *noise(size_t n)
{
	char *p = malloc(n);
	uint32_t x = 1;

	for (size_t i = 0; p && i < n; i++)
		p[i] = (char)(x = x * 1664525 + 1013904223) >> 3;
	return p;
}

/* Large bodies both ways, by length and until the end, through the kernel and not. */
static void large_bodies_are_whole(void)
{
	size_t n = 3 << 20;
	cleanup_free char *data = noise(n);
	char head[128], answer[128];
	static const char *const hosts[] = {"a.test", "free.test"};

	for (size_t i = 0; i < 4; i++) {
		struct talk t = {.host = hosts[i & 1],
				 .send = head,
				 .big = data,
				 .big_n = n,
				 .pause_ms = 50,
				 .answer = {answer},
				 .tail = data,
				 .tail_n = n};
		const char *up, *down;

		snprintf(head, sizeof(head),
			 "POST /x HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n",
			 t.host, n);
		snprintf(answer, sizeof(answer),
			 i < 2 ? "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n"
			       : "HTTP/1.1 200 OK\r\n\r\n",
			 n);
		rig_talk(&rig, &t);
		up = strstr(t.to_server.data, "\r\n\r\n");
		down = strstr(t.to_client.data, "\r\n\r\n");
		OK(up && t.to_server.len - (size_t)(up + 4 - t.to_server.data) == n &&
			   memcmp(up + 4, data, n) == 0,
		   "3 MiB up (%s)", t.host);
		OK(down && t.to_client.len - (size_t)(down + 4 - t.to_client.data) == n &&
			   memcmp(down + 4, data, n) == 0,
		   "3 MiB down %s", i < 2 ? "by length" : "until the end");
		talk_clear(&t);
	}
}

static void special_answers(void)
{
	struct talk head = {
		.host = "a.test",
		.send = "HEAD /x HTTP/1.1\r\nHost: a.test\r\n\r\n" GET("/y"),
		.answer = {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
			   "HTTP/1.1 304 Not Modified\r\n\r\n"}
        };
	struct talk old = {.host = "a.test",
			   .send = "GET /x HTTP/1.0\r\n\r\n",
			   .answer = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
				      "\r\n5\r\nhello\r\n0\r\n\r\n"}};
	struct talk early = {
		.host = "a.test",
		.send = "POST /x HTTP/1.1\r\nHost: a.test\r\n"
			"Content-Length: 99999999\r\n\r\nabc",
		.stay = true,
		.early = true,
		.answer = {"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno"}};

	rig_talk(&rig, &head);
	OK(strstr(head.to_client.data, "Content-Length: 500\r\n\r\nHTTP/1.1 304"),
	   "HEAD and 304 have no body");
	rig_talk(&rig, &old);
	OK(strstr(old.to_server.data, "Host: a.test\r\n"), "HTTP/1.0 gets a Host");
	OK(strstr(old.to_client.data, "Connection: close\r\n\r\nhello") &&
		   !strstr(old.to_client.data, "chunked"),
	   "and no chunks: %s", old.to_client.data);
	talk_clear(&head);
	talk_clear(&old);
	rig_talk(&rig, &early);
	OK(strstr(early.to_client.data, "413 No") &&
		   strstr(early.to_client.data, "Connection: close\r\n\r\nno"),
	   "an answer before the request's end: %s", early.to_client.data);
	talk_clear(&early);
}

static void websockets_pass(void)
{
	struct talk t = {
		.host = "a.test",
		.send = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\n"
			"Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
		.big = "ping pong",
		.big_n = 9,
		.echo = true,
		.answer = {"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n"
			   "Upgrade: websocket\r\n\r\nfirst"}};

	rig_talk(&rig, &t);
	OK(strstr(t.to_client.data, "101 Switching") && strstr(t.to_client.data, "first"),
	   "the server speaks: %s", t.to_client.data);
	OK(strstr(t.to_server.data, "Upgrade: websocket"), "the upgrade is asked for");
	talk_clear(&t);
}

static void asking(void)
{
	struct talk t = {.host = "q.test",
			 .send = "GET /x HTTP/1.1\r\nHost: q.test\r\n\r\n",
			 .answer = {OKAY}};

	rig_policy(&rig,
		   "{\"mode\":\"allowlist\",\"ask\":true,\"rules\":[{\"id\":\"r\","
		   "\"host\":\"q.test\",\"methods\":[\"POST\"]}]}",
		   "[]");
	rig_talk(&rig, &t);
	OK(strstr(t.to_client.data, " 403 ") && !*t.to_server.data,
	   "what nobody can be asked about is refused");
	talk_clear(&t);
	rig_policy(&rig, network, "[]");
}

/* The answer is under way when the rule that allowed it goes. */
static void a_new_policy_ends_what_it_refuses(void)
{
	struct talk t = {.host = "a.test",
			 .send = GET("/x"),
			 .stay = true,
			 .answer = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"},
			 .review_at = "hello",
			 .tail = "more",
			 .tail_n = 4};
	struct talk u = t;

	t.tail_n = 0;
	t.echo = true; /* the server waits for more */
	t.next_policy = "{\"mode\":\"allowlist\",\"rules\":[{\"id\":\"other\","
			"\"host\":\"a.test\",\"paths\":[\"/y\"]}]}";
	rig_talk(&rig, &t);
	OK(strstr(t.to_client.data, "\r\n\r\nhello"), "it began");
	OK(strstr(rig_log(&rig), "the policy changed"),
	   "and was ended by the new policy");
	talk_clear(&t);
	rig_policy(&rig, network, "[]");
	u.next_policy = network;
	rig_talk(&rig, &u);
	OK(strstr(u.to_client.data, "\r\n\r\nhellomore") &&
		   !strstr(rig_log(&rig), "the policy changed"),
	   "one that still allows it does not");
	talk_clear(&u);
}

/* A server that falls silent, in the middle of its answer or (on a slow machine) before.
 */
static void silence_ends(void)
{
	struct talk t = {.host = "a.test",
			 .send = GET("/x"),
			 .stay = true,
			 .echo = true,
			 .answer = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"}};
	const char *log;

	rig.e.limits.idle_ms = 300;
	rig_talk(&rig, &t);
	log = rig_log(&rig);
	OK(strstr(log, "nothing came in time") || strstr(log, "did not answer in time"),
	   "a server that falls silent");
	rig.e.limits.idle_ms = 0;
	talk_clear(&t);
}

static void limits_hold(void)
{
	struct talk t = {.host = "a.test", .send = GET("/x"), .answer = {OKAY}};

	rig.e.limits.inspected = 0;
	rig_talk(&rig, &t);
	OK(strstr(t.to_client.data, "too many"), "one too many: %s", t.to_client.data);
	rig.e.limits.inspected = 100;
	OK(rig.e.n_inspected == 0 && rig.e.n_conns == 0, "none is left");
	talk_clear(&t);
}

int main(void)
{
	rig_init(&rig, network, "[]");
	a_request_passes();
	requests_follow_each_other();
	bad_requests_are_answered();
	hostile_servers_are_named();
	endless_heads_end();
	slow_heads_end();
	large_bodies_are_whole();
	special_answers();
	websockets_pass();
	asking();
	a_new_policy_ends_what_it_refuses();
	silence_ends();
	limits_hold();
	rig_clear(&rig);
	return tap_done();
}
