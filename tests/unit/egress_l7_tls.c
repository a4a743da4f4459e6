/* SPDX-License-Identifier: Apache-2.0 */
/* Opened TLS and secrets: values out, placeholders back, and never anywhere else. */
#include "l7rig.h"
#include "tap.h"

static const char network[] =
	"{\"mode\":\"allowlist\",\"allowedHosts\":[\"other.test\"],\"allowedPorts\":[80,"
	"443],"
	"\"rules\":[{\"id\":\"all\",\"host\":[\"api.test\",\"web.test\"],"
	"\"methods\":[\"GET\",\"POST\"]}]}";
static const char secrets[] = "[{\"name\":\"KEY\",\"hosts\":[\"api.test\"]},"
			      "{\"name\":\"JSON\",\"hosts\":[\"api.test\"]}]";

#define MARK "cove_KEYKEYKEYKEYKEYKEY"
#define VALUE "sk-live-0123456789abcde" /* as long */
#define ODD_MARK "cove_ODDODDODDODDODDODD"
#define ODD_VALUE "a \"quoted\" & longer value\xc3\xa9 of some length"
#define OKAY "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define HEAD "Host: api.test\r\n"

static struct rig rig;

static struct talk api(const char *send, const char *answer)
{
	return (struct talk){
		.host = "api.test", .tls = true, .send = send, .answer = {answer}};
}

static void tls_is_opened(void)
{
	struct talk t = api("GET /a HTTP/1.1\r\n" HEAD "\r\n", OKAY);

	rig_talk(&rig, &t);
	OK(!t.client_why, "the program trusts our certificate: %s",
	   t.client_why ? t.client_why : "yes");
	OK(strncmp(t.to_server.data, "GET /a HTTP/1.1\r\n", 17) == 0,
	   "the server is asked");
	OK(strstr(t.to_server.data, "Accept-Encoding: identity\r\n"), "in no encoding");
	OK(strstr(t.to_client.data, "hello") != NULL, "and answers");
	talk_clear(&t);
}

static void servers_are_verified(void)
{
	struct talk t = api("GET /a HTTP/1.1\r\n" HEAD "X: " MARK "\r\n\r\n", OKAY);

	t.wrong_cert = true;
	rig_talk(&rig, &t);
	OK(!*t.to_server.data, "a server with a wrong certificate gets nothing");
	OK(strncmp(t.to_client.data, "HTTP/1.1 502 ", 13) == 0 &&
		   strstr(t.to_client.data, "upstream"),
	   "and the client is told: %s", t.to_client.data);
	talk_clear(&t);
}

static const struct {
	const char *what, *request, *want, *never;
} swapped[] = {
	{"a header",              "GET / HTTP/1.1\r\n" HEAD "X-Key: " MARK "\r\n\r\n",
	 "X-Key: " VALUE "\r\n",																	   MARK    },
	{"a bearer",              "GET / HTTP/1.1\r\n" HEAD "Authorization: Bearer " MARK "\r\n\r\n",
	 "Authorization: Bearer " VALUE "\r\n",															    MARK    },
	{"Basic",
	 "GET / HTTP/1.1\r\n" HEAD
	 "Authorization: Basic dXNlcjpjb3ZlX0tFWUtFWUtFWUtFWUtFWUtFWQ==\r\n\r\n",		     "Authorization: Basic dXNlcjpzay1saXZlLTAxMjM0NTY3ODlhYmNkZQ==\r\n", "S0VZS0"},
	{"the query",             "GET /p?k=" MARK "&x HTTP/1.1\r\n" HEAD "\r\n",
	 "GET /p?k=" VALUE "&x HTTP",																      MARK    },
	{"the path",              "GET /bot" MARK "/x HTTP/1.1\r\n" HEAD "\r\n",
	 "GET /bot" VALUE "/x HTTP",																       MARK    },
	{"a path, escaped",       "GET /x/" ODD_MARK " HTTP/1.1\r\n" HEAD "\r\n",
	 "GET /x/a%20%22quoted%22%20%26%20longer%20value%C3%A9%20of",												      ODD_MARK},
	{"a body of a length",
	 "POST / HTTP/1.1\r\n" HEAD
	 "Content-Type: text/plain\r\nContent-Length: 30\r\n\r\n"
	 "key=" MARK ".\r\n",
	 "key=" VALUE ".\r\n",																	     MARK    },
	{"a chunked body",
	 "POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n"
	 "7\r\nk=cove_\r\n12\r\nKEYKEYKEYKEYKEYKEY\r\n0\r\n\r\n",				     VALUE,							       "KEYKEY"},
	{"JSON, escaped",
	 "POST / HTTP/1.1\r\n" HEAD "Content-Type: application/json\r\n"
	 "Content-Length: 33\r\n\r\n{\"key\":\"" ODD_MARK "\"}",
	 "{\"key\":\"a \\\"quoted\\\" & longer value\xc3\xa9 of some length\"}",											   ODD_MARK},
	{"an encoded body stays",
	 "POST / HTTP/1.1\r\n" HEAD
	 "Content-Encoding: gzip\r\nContent-Length: 23\r\n\r\n" MARK,
	 "\r\n\r\n" MARK,																		  VALUE   },
};

static void values_are_put_in(void)
{
	for (size_t i = 0; i < ARRAY_LEN(swapped); i++)
		for (size_t step = 0; step < 8; step += 7) {
			struct talk t = api(swapped[i].request, OKAY);

			t.step = step;
			rig_talk(&rig, &t);
			OK(strstr(t.to_server.data, swapped[i].want) &&
				   !strstr(t.to_server.data, swapped[i].never) &&
				   strstr(t.to_client.data, "hello"),
			   "value in %s, step %zu", swapped[i].what, step);
			if (!strstr(t.to_server.data, swapped[i].want))
				printf("# %s\n# %s\n", t.to_server.data,
				       t.to_client.data);
			talk_clear(&t);
		}
	OK(strstr(rig_log(&rig), "\"secret\":\"KEY\""), "the use is in the log");
}

static void lengths_are_right(void)
{
	struct talk t =
		api("POST / HTTP/1.1\r\n" HEAD "Content-Type: application/json\r\n"
		    "Expect: 100-continue\r\nContent-Length: 33\r\n\r\n"
		    "{\"key\":\"" ODD_MARK "\"}GET /next HTTP/1.1\r\n" HEAD "\r\n",
		    OKAY);

	t.answer[1] = OKAY;
	rig_talk(&rig, &t);
	OK(strstr(t.to_server.data, "Content-Length: 54\r\n"),
	   "the length is the new one: %s", t.to_server.data);
	OK(strstr(t.to_client.data, "100 Continue"), "we say 100 ourselves");
	OK(count_of(t.to_client.data, "hello") == 2 &&
		   strstr(t.to_server.data, "GET /next"),
	   "and the next request is found");
	talk_clear(&t);
}

static const struct {
	const char *what, *host, *request;
	bool tls;
} wrong[] = {
	{"another host, header",                                "web.test",
	 "GET / HTTP/1.1\r\nHost: web.test\r\nX: " MARK "\r\n\r\n",                                                            true },
	{"another host, query",				 "web.test",
	 "GET /?" MARK " HTTP/1.1\r\nHost: web.test\r\n\r\n",								  true },
	{"another host, percent-encoded",                       "web.test",
	 "GET /?%63ove_KEYKEYKEYKEYKEYKEY HTTP/1.1\r\nHost: web.test\r\n\r\n",                                                 true },
	{"another host, body",				  "web.test",
	 "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 27\r\n\r\nkey=" MARK,
	 true														       },
	{"another host, chunks",                                "web.test",
	 "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n"
	 "7\r\nk=cove_\r\n12\r\nKEYKEYKEYKEYKEYKEY\r\n0\r\n\r\n",							      true },
	{"in the clear",					"api.test",   "GET / HTTP/1.1\r\n" HEAD "X: " MARK "\r\n\r\n",
	 false														      },
	{"in the clear, a host that is allowed without a look", "other.test",
	 "GET /" MARK " HTTP/1.1\r\nHost: other.test\r\n\r\n",								 false},
};

static void placeholders_stay_at_home(void)
{
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct talk t = {.host = wrong[i].host,
				 .tls = wrong[i].tls,
				 .send = wrong[i].request,
				 .answer = {OKAY}};
		const char *log;

		rig_talk(&rig, &t);
		log = rig_log(&rig);
		OK(!strstr(t.to_server.data, "KEYKEY") &&
			   !strstr(t.to_server.data, VALUE),
		   "%s: nothing leaves", wrong[i].what);
		OK(strstr(t.to_client.data, " 403 ") &&
			   strstr(t.to_client.data, "placeholder"),
		   "%s: refused: %s", wrong[i].what, t.to_client.data);
		OK(strstr(log, "\"kind\":\"secret\"") &&
			   strstr(log, "\"verdict\":\"deny\""),
		   "%s: logged", wrong[i].what);
		talk_clear(&t);
	}
}

static void values_never_come_back(void)
{
	static const char request[] = "GET / HTTP/1.1\r\n" HEAD "X: " MARK "\r\n\r\n";
	struct talk t = api(request, "HTTP/1.1 200 " VALUE "\r\nX-Echo: k=" VALUE ";\r\n"
				     "Content-Length: 27\r\n\r\nhey " VALUE);
	struct talk u =
		api(request, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			     "7\r\nsk-live\r\n14\r\n-0123456789abcde, ok\r\n0\r\n\r\n");
	struct talk z = api(request, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
				     "Content-Length: 5\r\n\r\nhello");
	struct talk *all[] = {&t, &u, &z};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		rig_talk(&rig, all[i]);
		OK(strstr(all[i]->to_server.data, VALUE) &&
			   !strstr(all[i]->to_client.data, "0123456789abcde"),
		   "answer %zu is without the value", i);
	}
	OK(strstr(t.to_client.data, "X-Echo: k=" MARK ";\r\n") &&
		   strstr(t.to_client.data, "hey " MARK),
	   "header and body: %s", t.to_client.data);
	OK(strstr(u.to_client.data, MARK) != NULL, "over chunks");
	OK(strncmp(z.to_client.data, "HTTP/1.1 502 ", 13) == 0, "encoded: refused");
	OK(!strstr(rig_log(&rig), VALUE), "the log is without it too");
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		talk_clear(all[i]);
}

static void large_bodies_are_whole(void)
{
	size_t n = 3 << 20;
	cleanup_free char *data = malloc(n), *want = malloc(n);
	char head[128], answer[128];
	struct talk t = {.host = "api.test",
			 .tls = true,
			 .send = head,
			 .big = data,
			 .big_n = n,
			 .pause_ms = 100,
			 .answer = {answer},
			 .tail = want,
			 .tail_n = n};
	const char *up, *down;

	for (size_t i = 0; i < n; i++)
		want[i] = data[i] = (char)('a' + i % 23);
	for (size_t i = 1000; i + 100 < n; i += 16381) {
		memcpy(data + i, MARK, strlen(MARK));
		memcpy(want + i, VALUE, strlen(VALUE));
	}
	snprintf(head, sizeof(head),
		 "POST /x HTTP/1.1\r\n" HEAD "Content-Length: %zu\r\n\r\n", n);
	snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
		 n);
	rig_talk(&rig, &t);
	up = strstr(t.to_server.data, "\r\n\r\n");
	down = strstr(t.to_client.data, "\r\n\r\n");
	OK(up && strstr(t.to_server.data, VALUE) && !strstr(up, "KEYKEY"), "values up");
	OK(down && t.to_client.len - (size_t)(down + 4 - t.to_client.data) == n &&
		   memcmp(down + 4, data, n) == 0,
	   "placeholders back in all 3 MiB");
	talk_clear(&t);
}

int main(void)
{
	rig_init(&rig, network, secrets);
	rig_secret(&rig, "KEY", MARK, VALUE, "api.test");
	rig_secret(&rig, "ODD", ODD_MARK, ODD_VALUE, "api.test");
	if (swap_ready(rig.secrets) < 0)
		return 1;
	tls_is_opened();
	servers_are_verified();
	values_are_put_in();
	lengths_are_right();
	placeholders_stay_at_home();
	values_never_come_back();
	large_bodies_are_whole();
	rig_clear(&rig);
	return tap_done();
}
