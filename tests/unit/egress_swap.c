/* SPDX-License-Identifier: Apache-2.0 */
/* A table of attacks on the swap of placeholders, and of values that come back. */
#include "base/util.h"
#include "egress/swap.h"
#include "tap.h"

#include <sodium.h>
#include <time.h>

#define PH_A "sk-ant-api03-PPPPqqqqRRRRssss1234"
#define VAL_A "sk-ant-api03-c0ffee/==+Xyz987wvu6"
#define PH_B "ghp_0000111122223333"
#define VAL_B "ghp_AbCdEfGhIjKlMnOp"
#define PH_C "shortPlaceholder"
#define VAL_C "s3cret!x" /* shorter than its placeholder */
#define PH_N "multiline_placeholder_x"
#define VAL_N "line1\r\nX-Evil: 1\r\n\"q\\"
#define PH_B2 "zz_0000111122223333_zz"
#define VAL_B2 "zz" VAL_B "zz" /* holds VAL_B */

static struct swap_table *table(void)
{
	struct swap_table *t = NULL;

	OK(swap_new(&t) == 0, "a table");
	OK(swap_add(t, "A", PH_A, VAL_A, strlen(VAL_A),
		    "api.example.com,*.a.test,all.test") == 0,
	   "add A");
	OK(swap_add(t, "B", PH_B, VAL_B, strlen(VAL_B), "github.test,all.test") == 0,
	   "add B");
	OK(swap_add(t, "C", PH_C, VAL_C, strlen(VAL_C), "api.example.com,all.test") == 0,
	   "add C");
	OK(swap_add(t, "N", PH_N, VAL_N, strlen(VAL_N), "api.example.com,all.test") == 0,
	   "add N");
	OK(swap_ready(t) == 0, "ready");
	return t;
}

/* ---- texts ---------------------------------------------------------------------------
 */
#define HOST "api.example.com"

static const struct text_case {
	const char *title, *host;
	bool unverified;
	enum swap_where where;
	const char *field, *in, *out, *violation;
} texts[] = {
	{"a header",							 HOST,              false, SWAP_HEADER,    "x-api-key",     PH_A,                                    VAL_A,                                                           NULL},
	{"in the middle of a header",					"x.a.test",        false, SWAP_HEADER,    "Authorization",
	 "Bearer " PH_A " ",																		     "Bearer " VAL_A " ",                                             NULL},
	{"twice",							    HOST,              false, SWAP_BODY_RAW,  NULL,            PH_A PH_A,                               VAL_A VAL_A,                                                     NULL},
	{"one that begins inside another's beginning",                       HOST,              false, SWAP_BODY_RAW,  NULL,
	 "sk-ant-sk-ant-api03-" PH_A,																	    "sk-ant-sk-ant-api03-" VAL_A,                                    NULL},
	{"two kinds",							HOST,              false, SWAP_BODY_RAW,  NULL,            PH_A "," PH_C,                           VAL_A "," VAL_C,
	 NULL																													 },
	{"nothing there",						    HOST,              false, SWAP_HEADER,    "Cookie",        "a=b",                                   "a=b",                                                           NULL},
	{"all but its last byte",					    HOST,              false, SWAP_HEADER,    "Cookie",
	 "sk-ant-api03-PPPPqqqqRRRRssss123",																     "sk-ant-api03-PPPPqqqqRRRRssss123",                              NULL},
	{"another host",						     "evil.test",       false, SWAP_HEADER,    "x-api-key",     PH_A,                                    PH_A,                                                            "A" },
	{"a host below the named one",				       "x." HOST,         false, SWAP_HEADER,    "k",             PH_A,                                    PH_A,
	 "A"																													  },
	{"the named one and more",					   HOST ".evil.test", false, SWAP_HEADER,    "k",             PH_A,                                    PH_A,
	 "A"																													  },
	{"one may go, another may not",                                      HOST,              false, SWAP_BODY_RAW,  NULL,            PH_A " " PH_B,
	 PH_A " " PH_B,																											   "B" },
	{"not over verified TLS",					    HOST,              true,  SWAP_HEADER,    "x-api-key",     PH_A,                                    PH_A,                                                            "A" },
	{"a query: the value is encoded",                                    HOST,              false, SWAP_TARGET,    NULL,            "/v1?key=" PH_A,
	 "/v1?key=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6",																						     NULL},
	{"a path",							   "github.test",     false, SWAP_TARGET,    NULL,            "/" PH_B "/x",                           "/" VAL_B "/x",
	 NULL																													 },
	{"percent, one character",					   "github.test",     false, SWAP_TARGET,    NULL,
	 "/gh%70_0000111122223333",																	      "/ghp_AbCdEfGhIjKlMnOp",                                         NULL},
	{"percent, lower hexadecimal",				       "github.test",     false, SWAP_TARGET,    NULL,
	 "/ghp%5f0000111122223333",																	      "/ghp_AbCdEfGhIjKlMnOp",                                         NULL},
	{"percent, in a header",					     "github.test",     false, SWAP_HEADER,    "Cookie",
	 "t=ghp%5F0000111122223333;",																	    "t=ghp_AbCdEfGhIjKlMnOp;",                                       NULL},
	{"percent, all of it, to a wrong host",                              "evil.test",       false, SWAP_TARGET,    NULL,
	 "/%67%68%70%5F%30%30%30%30%31%31%31%31%32%32%32%32%33%33%33%33",													"/%67%68%70%5F%30%30%30%30%31%31%31%31%32%32%32%32%33%33%33%33", "B" },
	{"percent, lengths differ",					  HOST,              false, SWAP_TARGET,    NULL,            "/%73hortPlaceholder",
	 "/s3cret%21x",																											   NULL},
	{"broken escapes are left",					  HOST,              false, SWAP_TARGET,    NULL,            "/%7%zz%",                               "/%7%zz%",
	 NULL																													 },
	{"JSON: escaped",						    HOST,              false, SWAP_BODY_JSON, NULL,            "{\"k\":\"" PH_N "\"}",
	 "{\"k\":\"line1\\r\\nX-Evil: 1\\r\\n\\\"q\\\\\"}",																						       NULL},
	{"JSON: written with escapes",				       "github.test",     false, SWAP_BODY_JSON, NULL,
	 "\"\\u0067hp\\u005f0000111122223333\"",																 "\"ghp_AbCdEfGhIjKlMnOp\"",                                      NULL},
	{"JSON with escapes, to a wrong host",                               "evil.test",       false, SWAP_BODY_JSON, NULL,
	 "\"\\u0067hp\\u005F0000111122223333\"",																 "\"\\u0067hp\\u005F0000111122223333\"",
	 "B"																													  },
	{"JSON with escapes: the value escaped as JSON needs it, all of it", HOST,              false,
	 SWAP_BODY_JSON,											       NULL,            "\"\\u006dultiline_placeholder_x\"",
	 "\"line1\\r\\nX-Evil: 1\\r\\n\\\"q\\\\\"",																							       NULL},
	{"percent in a raw body: percent-encoded, all of it",                HOST,              false, SWAP_BODY_RAW,
	 NULL,															  "k=sk%2Dant-api03-PPPPqqqqRRRRssss1234",
	 "k=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6",																							   NULL},
	{"JSON escapes in a form: percent",                                  HOST,              false, SWAP_BODY_FORM, NULL,
	 "k=\\u0073k-ant-api03-PPPPqqqqRRRRssss1234",															    "k=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6",                   NULL},
	{"after an open escape of JSON",                                     HOST,              false, SWAP_BODY_JSON, NULL,
	 "\"\\" PH_A "\"",																		       "\"\\" PH_A "\"",						"A" },
	{"after \\u00",						      HOST,              false, SWAP_BODY_RAW,  NULL,            "\"\\u00" PH_A,                          "\"\\u00" PH_A,
	 "A"																													  },
	{"after an escaped backslash",				       "github.test",     false, SWAP_BODY_JSON, NULL,
	 "\"\\\\" PH_B "\"",																		     "\"\\\\" VAL_B "\"",                                             NULL},
	{"after three of them",					      "github.test",     false, SWAP_BODY_JSON, NULL,
	 "\"\\\\\\" PH_B "\"",																		   "\"\\\\\\" PH_B "\"",                                            "B" },
	{"after a line break of JSON",				       "github.test",     false, SWAP_BODY_JSON, NULL,
	 "\"a\\n" PH_B "\"",																		     "\"a\\n" VAL_B "\"",                                             NULL},
	{"an escape of JSON that is quoted",                                 "github.test",     false, SWAP_BODY_JSON, NULL,
	 "\"\\\\u0067hp_0000111122223333\"",																     "\"\\\\u0067hp_0000111122223333\"",                              NULL},
	{"after an open percent",					    "github.test",     false, SWAP_TARGET,    NULL,            "/?k=%" PH_B,
	 "/?k=%" PH_B,																											    "B" },
	{"after a percent and a digit",                                      "github.test",     false, SWAP_HEADER,    "Cookie",
	 "k=%4" PH_B,																			    "k=%4" PH_B,						     "B" },
	{"after a whole percent",					    "github.test",     false, SWAP_TARGET,    NULL,            "/?k=%20" PH_B,
	 "/?k=%20" VAL_B,																											 NULL},
	{"form",							     HOST,              false, SWAP_BODY_FORM, NULL,            "k=" PH_A "&x=y",
	 "k=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6&x=y",																						       NULL},
	{"line breaks never get into a header",                              HOST,              false, SWAP_HEADER,    "x",             PH_N,                                    PH_N,
	 "N"																													  },
	{"nor into a target",						HOST,              false, SWAP_TARGET,    NULL,            "/" PH_N,                                "/" PH_N,                                                        "N" },
	{"but into a body",						  HOST,              false, SWAP_BODY_RAW,  NULL,            PH_N,                                    VAL_N,                                                           NULL},
	{"never into Proxy-Authorization",                                   HOST,              false, SWAP_HEADER,
	 "proxy-authorization",													 "Bearer " PH_A,                          "Bearer " PH_A,                                                  "A" },
};

static void text_table(const struct swap_table *t)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const struct text_case *c = &texts[i];
		cleanup_buf struct buf b = BUF_INIT(4096);
		struct swap_outcome o = {0};
		int r;

		buf_puts(&b, c->in);
		r = swap_text(t, c->host, !c->unverified, c->where, c->field, &b, &o);
		OK(r == 0 && strcmp(b.data, c->out) == 0, "%s", c->title);
		OK(c->violation ? o.violation && strcmp(o.violation, c->violation) == 0 &&
					  o.replaced == 0
				: !o.violation,
		   "%s: violation %s", c->title, o.violation ? o.violation : "none");
	}
}

static void encode(char *out, size_t size, const char *plain, int variant)
{
	sodium_bin2base64(out, size, (const unsigned char *)plain, strlen(plain),
			  variant);
}

static void basic_auth(const struct swap_table *t)
{
	char in[256], want[320], text[320];
	struct swap_outcome o = {0};
	struct buf b = BUF_INIT(4096);

	encode(in, sizeof(in), "user:" PH_A, sodium_base64_VARIANT_ORIGINAL);
	encode(want, sizeof(want), "user:" VAL_A, sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, sizeof(text), "bAsIc  %s", in);
	buf_puts(&b, text);
	OK(swap_text(t, HOST, true, SWAP_HEADER, "authorization", &b, &o) == 0 &&
		   strncmp(b.data, "Basic ", 6) == 0 && strcmp(b.data + 6, want) == 0,
	   "Basic: swapped inside");
	OK(o.n_used == 1 && strcmp(o.used[0], "A") == 0, "and told");
	buf_clear(&b);
	o = (struct swap_outcome){0};
	buf_puts(&b, text);
	OK(swap_text(t, "evil.test", true, SWAP_HEADER, "Authorization", &b, &o) == 0 &&
		   o.violation && strcmp(b.data, text) == 0,
	   "Basic to a wrong host: a violation, and unchanged");
	buf_clear(&b);
	o = (struct swap_outcome){0};
	buf_puts(&b, text);
	OK(swap_text(t, HOST, true, SWAP_HEADER, "Proxy-Authorization", &b, &o) == 0 &&
		   o.violation,
	   "Basic for a proxy: a violation");
	buf_clear(&b);
	o = (struct swap_outcome){0};
	encode(in, sizeof(in), "u:" PH_A, sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
	buf_puts(&b, "Basic ");
	buf_puts(&b, in);
	OK(swap_text(t, HOST, true, SWAP_HEADER, "Authorization", &b, &o) == 0 &&
		   o.replaced == 1,
	   "Basic without padding");
	buf_clear(&b);
	o = (struct swap_outcome){0};
	encode(in, sizeof(in), "u:" PH_N, sodium_base64_VARIANT_ORIGINAL);
	buf_puts(&b, "Basic ");
	buf_puts(&b, in);
	OK(swap_text(t, HOST, true, SWAP_HEADER, "Authorization", &b, &o) == 0 &&
		   o.violation && strcmp(o.violation, "N") == 0,
	   "Basic with line breaks: a violation");
	buf_clear(&b);
	o = (struct swap_outcome){0};
	encode(in, sizeof(in), "u:" PH_B "::", sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, sizeof(text), "Basic %s" PH_B, in);
	snprintf(want, sizeof(want), "Basic %s" VAL_B, in);
	buf_puts(&b, text);
	OK(swap_text(t, "github.test", true, SWAP_HEADER, "Authorization", &b, &o) == 0 &&
		   strcmp(b.data, want) == 0,
	   "Basic, and another as it is: the value is not written anew: %s", b.data);
	buf_clear(&b);
	encode(in, sizeof(in), "u:" PH_N, sodium_base64_VARIANT_ORIGINAL);
	OK(swap_find(t, in, strlen(in)) != NULL, "base64 is found anywhere");
	OK(!swap_find(t, VAL_A, strlen(VAL_A)), "a value is no placeholder");
}

/* ---- streams -------------------------------------------------------------------------
 */
static struct swap_stream *open_stream(const struct swap_table *t, const char *host,
				       enum swap_where where)
{
	struct swap_stream *s = NULL;
	enum swap_size size;

	if (host)
		swap_request_stream(t, host, true, where, &s, &size);
	else
		swap_response_stream(t, "all.test", &s);
	return s;
}

/* Every cut in two, and byte by byte: always the same result. */
static bool cuts(const struct swap_table *t, const char *host, enum swap_where where,
		 const char *in, size_t n, const char *want, size_t n_want)
{
	bool same = true;

	for (size_t cut = 0; cut <= n + 1; cut++) {
		struct swap_stream *s = open_stream(t, host, where);
		cleanup_buf struct buf out = BUF_INIT(1 << 20);
		struct swap_outcome o = {0};

		if (cut <= n) {
			char *a = malloc(cut + 1), *b = malloc(n - cut + 1);

			memcpy(a, in, cut); /* exact copies: an overread is seen */
			memcpy(b, in + cut, n - cut);
			swap_feed(s, a, cut, &out, &o);
			swap_feed(s, b, n - cut, &out, &o);
			free(a);
			free(b);
		} else {
			for (size_t i = 0; i < n; i++)
				swap_feed(s, in + i, 1, &out, &o);
		}
		swap_finish(s, &out, &o);
		swap_stream_free(s);
		if (out.len != n_want ||
		    (n_want && memcmp(out.data, want, n_want) != 0)) {
			printf("# cut at %zu: %.*s\n", cut, (int)out.len,
			       out.data ? out.data : "");
			same = false;
		}
	}
	return same;
}

static void request_streams(const struct swap_table *t)
{
	static const char in[] = "xx" PH_A "sk-ant" PH_A "%41" PH_C "sk-ant-api03-PPPP";
	static const char want[] =
		"xx" VAL_A "sk-ant" VAL_A "%41" VAL_C "sk-ant-api03-PPPP";
	static const char esc[] = "a=\\u0067hp%5F0000111122223333%";
	static const char esc_want[] = "a=ghp_AbCdEfGhIjKlMnOp%";
	struct swap_outcome o = {0};
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct swap_stream *s;
	enum swap_size size;

	OK(cuts(t, HOST, SWAP_BODY_RAW, in, strlen(in), want, strlen(want)),
	   "split at every byte");
	OK(cuts(t, "github.test", SWAP_BODY_RAW, esc, strlen(esc), esc_want,
		strlen(esc_want)),
	   "escapes split at every byte");
	swap_request_stream(t, "github.test", true, SWAP_BODY_JSON, &s, &size);
	OK(size == SWAP_SIZE_MAY_STAY, "B keeps its length in JSON");
	swap_stream_keep_size(s);
	swap_feed(s, PH_B, strlen(PH_B), &out, &o);
	OK(!o.violation && o.replaced == 1, "and so it is put in");
	swap_feed(s, "%67hp_0000111122223333", 22, &out, &o);
	OK(o.violation != NULL, "with an escape it would not: a violation");
	swap_stream_free(s);
	buf_clear(&out);
	o = (struct swap_outcome){0};
	swap_request_stream(t, HOST, true, SWAP_BODY_JSON, &s, &size);
	OK(size == SWAP_SIZE_CHANGES, "C does not");
	swap_stream_free(s);
	swap_request_stream(t, "evil.test", true, SWAP_BODY_RAW, &s, &size);
	OK(size == SWAP_SIZE_STAYS, "nothing is replaced for a host without secrets");
	swap_feed(s, "12345" PH_A, 5 + 10, &out, &o);
	OK(!o.violation && out.len == 5, "a beginning is held");
	swap_feed(s, PH_A + 10, strlen(PH_A) - 10, &out, &o);
	OK(o.violation && strcmp(o.violation, "A") == 0 && out.len == 5,
	   "a violation; nothing of it goes out");
	o = (struct swap_outcome){0};
	swap_feed(s, "more", 4, &out, &o);
	swap_finish(s, &out, &o);
	OK(o.violation && out.len == 5, "nor anything after it");
	swap_stream_free(s);
}

/* An escape that is open at the end of a piece, at every cut. */
static void open_escapes(const struct swap_table *t)
{
	static const char *const cases[] = {"x\\" PH_B, "x\\u" PH_B, "x\\u006" PH_B,
					    "x%" PH_B,  "%4" PH_B,   "\\\\\\" PH_B,
					    "\\x" PH_B, "\\x4" PH_B, "%%" PH_B};
	static const char *const fine[] = {"x\\\\" PH_B, "\\n" PH_B, "\\u0041" PH_B,
					   "%41" PH_B,   "4" PH_B,   "\\\\u" PH_B,
					   "u00" PH_B,   "%4g" PH_B};
	bool all = true;

	for (size_t i = 0; i < ARRAY_LEN(cases) + ARRAY_LEN(fine); i++) {
		bool bad = i < ARRAY_LEN(cases);
		const char *in = bad ? cases[i] : fine[i - ARRAY_LEN(cases)];
		size_t n = strlen(in);

		for (size_t cut = 0; cut <= n; cut++) {
			struct swap_stream *s =
				open_stream(t, "github.test", SWAP_BODY_JSON);
			cleanup_buf struct buf out = BUF_INIT(4096);
			struct swap_outcome o = {0};

			swap_feed(s, in, cut, &out, &o);
			swap_feed(s, in + cut, n - cut, &out, &o);
			swap_finish(s, &out, &o);
			swap_stream_free(s);
			if ((o.violation != NULL) == bad && (o.replaced == 1) == !bad)
				continue;
			printf("# %s cut at %zu: %s\n", in, cut, out.data);
			all = false;
		}
	}
	OK(all, "after an open escape a value would lose its beginning: a violation");
}

static void holds(const struct swap_table *t)
{
	struct swap_stream *s = open_stream(t, NULL, SWAP_BODY_RAW);
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct swap_outcome o = {0};

	swap_feed(s, "data: {hello}\n\n", 15, &out, &o); /* VAL_N has a line break */
	OK(out.len == 13 && swap_held(s) == 2, "what a value has waits");
	swap_feed(s, "data: {abc}", 11, &out, &o);
	OK(out.len == 26 && swap_held(s) == 0, "an event goes out at once");
	swap_feed(s, "{abc", 4, &out, &o);
	OK(out.len == 27 && swap_held(s) == 3, "a word waits");
	swap_feed(s, "}", 1, &out, &o);
	OK(out.len == 31 && swap_held(s) == 0, "for what follows");
	swap_stream_free(s);
}

/* Could who sees when bytes come tell a right guess from a wrong one? */
static void no_oracle(const struct swap_table *t)
{
	static const char *const guesses[][2] = {
		{VAL_A,			  "sk-ant-api03-d1ggff/==+Yyz087wvu6"},
		{"Z2hwX0FiQ2RFZkdoSWpLbE1uT3A=", "Z2hwX1FiQ2RFZkdoSWpLbE1uT3A="     },
		{"6768705f4162436445664768",     "6768705f4262436445664768"         },
		{"sk-ant-api03-c0ffee%2F%3D%3D", "sk-ant-api03-c0ggee%2F%3D%3D"     },
	};
	bool same = true;

	for (size_t i = 0; i < ARRAY_LEN(guesses); i++)
		for (size_t n = 1; n < strlen(guesses[i][0]); n++) {
			size_t shown[2];

			for (int k = 0; k < 2; k++) {
				struct swap_stream *s = open_stream(t, NULL, 0);
				cleanup_buf struct buf out = BUF_INIT(4096);
				struct swap_outcome o = {0};

				swap_feed(s, "<", 1, &out, &o);
				swap_feed(s, guesses[i][k], n, &out, &o);
				shown[k] = out.len;
				swap_stream_free(s);
			}
			same = same && shown[0] == shown[1];
		}
	OK(same, "what is held does not tell the beginning of a value");
}

static void released(const struct swap_table *t)
{
	struct swap_stream *s = open_stream(t, NULL, 0);
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct swap_outcome o = {0};

	swap_feed(s, "<" VAL_A, 20, &out, &o);
	OK(out.len == 1 && swap_held(s) == 19, "a beginning waits");
	swap_release(s, &out, &o);
	OK(out.len == 20 && swap_held(s) == 0, "until it is let go");
	swap_release(s, &out, &o);
	swap_feed(s, &VAL_A[19], strlen(VAL_A) - 19, &out, &o);
	swap_release(s, &out, &o);
	OK(out.len == strlen(VAL_A) + 1 && strcmp(out.data + 20, PH_A + 19) == 0,
	   "what comes after that is covered all the same: %s", out.data);
	swap_feed(s, ">" VAL_B, 1 + strlen(VAL_B), &out, &o);
	swap_finish(s, &out, &o);
	OK(strcmp(out.data + strlen(VAL_A) + 1, ">" PH_B) == 0, "and the next one");
	swap_stream_free(s);
	out.len = 0;
	swap_response_stream(t, "github.test", &s);
	swap_feed(s, VAL_A " " VAL_B " " VAL_C, strlen(VAL_A " " VAL_B " " VAL_C), &out,
		  &o);
	swap_finish(s, &out, &o);
	OK(strcmp(out.data, PH_A " " PH_B " " VAL_C) == 0,
	   "a short one is only looked for where it may be used");
	swap_stream_free(s);
}

/* ---- responses -----------------------------------------------------------------------
 */
static void hex_of(const char *p, char *out, bool upper)
{
	for (; *p; p++)
		out += snprintf(out, 3, upper ? "%02X" : "%02x", (unsigned char)*p);
}

static void response_forms(const struct swap_table *t)
{
	char in[512], want[512];

	OK(cuts(t, NULL, 0, "a" VAL_A "b" VAL_B, strlen("a" VAL_A "b" VAL_B),
		"a" PH_A "b" PH_B, strlen("a" PH_A "b" PH_B)),
	   "plain");
	hex_of(VAL_B, in, false);
	hex_of(PH_B, want, false);
	OK(cuts(t, NULL, 0, in, strlen(in), want, strlen(want)), "hexadecimal");
	hex_of(VAL_B, in, true);
	hex_of(PH_B, want, true);
	OK(cuts(t, NULL, 0, in, strlen(in), want, strlen(want)), "HEXADECIMAL");
	OK(cuts(t, NULL, 0, "k=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6&",
		strlen("k=sk-ant-api03-c0ffee%2F%3D%3D%2BXyz987wvu6&"),
		"k=sk-ant-api03-PPPPqq%71%71%52%52RRssss1234&",
		strlen("k=sk-ant-api03-PPPPqq%71%71%52%52RRssss1234&")),
	   "percent-encoded, as long");
	OK(cuts(t, NULL, 0, "sk-ant-api03-c0ffee\\/==+Xyz987wvu6",
		strlen("sk-ant-api03-c0ffee\\/==+Xyz987wvu6"),
		"sk-ant-api03-PPPPqqq_qRRRRssss1234",
		strlen("sk-ant-api03-PPPPqqq_qRRRRssss1234")),
	   "JSON with escaped slashes: hidden");
	OK(cuts(t, NULL, 0, VAL_C, strlen(VAL_C), "shortPla", 8),
	   "a short one becomes its placeholder's beginning");
	OK(cuts(t, NULL, 0, "line1\\r\\nX-Evil: 1\\r\\n\\\"q\\\\",
		strlen("line1\\r\\nX-Evil: 1\\r\\n\\\"q\\\\"),
		"multil_i_ne_placeho_l_d_er_",
		strlen("line1\\r\\nX-Evil: 1\\r\\n\\\"q\\\\")),
	   "JSON escapes of two bytes: hidden, as long");
}

static void response_base64(const struct swap_table *t)
{
	static const int variants[] = {
		sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
		sodium_base64_VARIANT_URLSAFE, sodium_base64_VARIANT_URLSAFE_NO_PADDING};
	bool good = true;

	for (size_t v = 0; v < ARRAY_LEN(variants); v++)
		for (size_t before = 0; before < 6; before++)
			for (size_t after = 0; after < 3; after++) {
				char plain[128], in[256], want[256];

				snprintf(plain, sizeof(plain), "%.*s%s%.*s", (int)before,
					 "::::::", VAL_A, (int)after, "???");
				encode(in, sizeof(in), plain, variants[v]);
				snprintf(plain, sizeof(plain), "%.*s%s%.*s", (int)before,
					 "::::::", PH_A, (int)after, "???");
				encode(want, sizeof(want), plain, variants[v]);
				good = good && cuts(t, NULL, 0, in, strlen(in), want,
						    strlen(want));
			}
	OK(good, "base64: every alignment, every cut, what it decodes to is the "
		 "placeholder");
}

/* Whatever a server escapes of it, it is found, and as long afterwards. */
static void response_escapes(void)
{
	static const struct {
		const char *title, *in;
	} cases[] = {
		{"percent, but for the slash", "a%2Bb/c%22d%5Ce%20f%26g%3Ch%3Di"                                   },
		{"percent, lower hexadecimal", "a%2bb%2fc%22d%5ce%20f%26g%3ch%3di"                                 },
		{"percent, all of it",
		 "%61%2B%62%2F%63%22%64%5C%65%20%66%26%67%3C%68%3D%69"                                             },
		{"a form",                     "a%2Bb%2Fc%22d%5Ce+f%26g%3Ch%3Di"                                   },
		{"JSON",                       "a+b/c\\\"d\\\\e f&g<h=i"                                           },
		{"JSON with escaped slashes",  "a+b\\/c\\\"d\\\\e f&g<h=i"                                         },
		{"JSON for HTML",              "a\\u002bb/c\\u0022d\\\\e f\\u0026g\\u003ch\\u003di"                },
		{"JSON, all of it",            "\\u0061\\u002B\\u0062\\u002F\\u0063\\u0022\\u0064\\u"
				    "005C\\u0065\\u0020\\u0066"
				    "\\u0026\\u0067\\u003C\\u0068\\u003D\\u0069"},
		{"JSON inside JSON",           "a+b/c\\\\\\\"d\\\\\\\\e f&g<h=i"                                   },
		{"a string of JavaScript",     "a+b/c\\x22d\\x5ce f&g<h=i"                                         },
		{"HTML",                       "a+b/c&quot;d\\e f&amp;g&lt;h=i"                                    },
		{"HTML by number",
		 "a&#43;b&#x2F;c&#34;d&#92;e&#032;f&#38;g&#60;h&#x3D;i"                                            },
		{"percent, twice",             "a%252Bb%252Fc%2522d%255Ce%2520f%2526g%253Ch%253Di"                 },
	};
	static const char value[] = "a+b/c\"d\\e f&g<h=i";
	struct swap_table *t = NULL;

	swap_new(&t);
	swap_add(t, "V", "PLACEHOLDERofV_12", value, strlen(value), "h.test,all.test");
	swap_add(t, "U", "PLACEHOLDERofUmlaut", "\xc3\xa4\xf0\x9f\x98\x80 geheim", 13,
		 "h.test,all.test");
	OK(swap_ready(t) == 0, "a value with everything in it");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct swap_stream *s = open_stream(t, NULL, 0);
		cleanup_buf struct buf out = BUF_INIT(4096);
		struct swap_outcome o = {0};
		size_t n = strlen(cases[i].in);

		swap_feed(s, cases[i].in, n, &out, &o);
		swap_finish(s, &out, &o);
		swap_stream_free(s);
		OK(o.replaced == 1 && out.len == n &&
			   cuts(t, NULL, 0, cases[i].in, n, out.data, n),
		   "%s: %s", cases[i].title, out.data);
	}
	OK(cuts(t, NULL, 0, "<\\u00e4\\ud83d\\ude00 geheim>", 27,
		"<\\u004cH___________OLDERof>", 27),
	   "pairs of JSON are characters");
	/* The first character belongs to an escape before it, wherever the text is cut.
	 */
	OK(cuts(t, NULL, 0, "%2Ba+b/c%22d%5Ce f&g<h=i", 24, "%2BPLACE%48O%4CDERofV_12",
		24) &&
		   cuts(t, NULL, 0, "\\\\\\u0061+b/c\\\"d\\\\e f&g<h=i", 27,
			"\\\\\\u0050LACEH_OL_DERofV_12", 27),
	   "escapes are not cut");
	swap_free(t);
}

static void white_space(void)
{
	struct swap_table *t = NULL;

	swap_new(&t);
	swap_add(t, "W", "0123456789abcdef", "  pass word 12\t\n", 16, "h.test,all.test");
	OK(swap_ready(t) == 0, "white space around a value");
	OK(cuts(t, NULL, 0, "[pass word 12]", 14, "[23456789abcd]", 14),
	   "it is known without it");
	swap_free(t);
}

static void names(const struct swap_table *t)
{
	OK(swap_in_name(t, "X-" VAL_B) && swap_in_name(t, "GHP_abcdefghijklmnop") &&
		   !swap_in_name(t, "X-ghp_AbCdEfGhIjKlMn") && !swap_in_name(t, ""),
	   "a value in the name of a field, in any case");
}

static void overlaps(void)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"AAAABBBBCCCCDDDD",         "aaaabbbbccccdddd"        }, /* U alone */
		{"CCCCDDDDEEEEFFFF",         "ccccddddeeeeffff"        }, /* V alone */
  /* both: U whole, then what V has beyond it */
		{"AAAABBBBCCCCDDDDEEEEFFFF", "aaaabbbbccccddddeeeeffff"},
		{"xxCCCCDDDDEEEEFFFFGGGG",   "xxccccddddeeeeffffGGGG"  },
 /* W holds U: the longest that begins first */
		{"ZZAAAABBBBCCCCDDDDZZ",     "zz-wwwwwwwwwwwwwwww-"    },
		{"ZZAAAABBBBCCCCDDDDZ",      "ZZaaaabbbbccccddddZ"     },
	};
	struct swap_table *t = NULL;

	swap_new(&t);
	swap_add(t, "U", "aaaabbbbccccdddd", "AAAABBBBCCCCDDDD", 16, "h.test,all.test");
	swap_add(t, "V", "ccccddddeeeeffff", "CCCCDDDDEEEEFFFF", 16, "h.test,all.test");
	swap_add(t, "W", "zz-wwwwwwwwwwwwwwww-", "ZZAAAABBBBCCCCDDDDZZ", 20,
		 "h.test,all.test");
	/* X's value holds U's placeholder */
	swap_add(t, "X", "xxxxxxxxxxxxxxxxxxxx", "--aaaabbbbccccdddd--", 20,
		 "h.test,all.test");
	OK(swap_ready(t) == 0, "values that overlap");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(cuts(t, NULL, 0, cases[i].in, strlen(cases[i].in), cases[i].want,
			strlen(cases[i].want)),
		   "%s", cases[i].in);
	OK(cuts(t, "h.test", SWAP_BODY_RAW, "xxxxxxxxxxxxxxxxxxxx", 20,
		"--aaaabbbbccccdddd--", 20),
	   "a placeholder inside a value is not swapped again");
	swap_free(t);
}

static void redacts(const struct swap_table *t)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	buf_puts(&b, "key " VAL_A ", and " VAL_B VAL_B "!");
	OK(swap_redact(t, &b) == 0 && strcmp(b.data, "key [A], and [B][B]!") == 0, "%s",
	   b.data);
}

static void refuses(void)
{
	struct swap_table *t = NULL;
	char big[SWAP_VALUE_MAX + 2];

	memset(big, 'x', sizeof(big));
	swap_new(&t);
	OK(swap_add(t, "S", "short", "value-value", 11, "h") == -EINVAL,
	   "a placeholder that is too short");
	OK(swap_add(t, "S", "0123456789abcde\"", "v", 1, "h") == -EINVAL,
	   "a placeholder with other characters");
	OK(swap_add(t, "S", PH_A, "", 0, "h") == -EINVAL, "an empty value");
	OK(swap_add(t, "S", PH_A, big, sizeof(big), "h") == -EINVAL, "a huge value");
	OK(swap_add(t, "S", PH_A, "v", 1, "") == -EINVAL, "no hosts");
	OK(swap_add(t, "S", PH_A, "v", 1, "a b") == -EINVAL, "a bad host");
	OK(swap_add(t, "S", PH_A, "v", 1, "h") == 0, "a value of one byte");
	OK(swap_add(t, "T", PH_A, "v", 1, "h") == -EINVAL, "the same placeholder again");
	OK(swap_ready(t) == 0, "ready");
	OK(swap_add(t, "U", PH_B, "v", 1, "h") == -EINVAL, "nothing is added later");
	swap_free(t);
	OK(swap_new(&t) == 0 && swap_ready(t) == 0 && !swap_find(t, "x", 1),
	   "an empty table");
	swap_free(t);
}

/* Not a bar (machines differ): a stream without matches must not be slow. */
static void speed(const struct swap_table *t)
{
	struct swap_stream *s = open_stream(t, NULL, SWAP_BODY_RAW);
	struct buf out = BUF_INIT(1 << 20);
	struct swap_outcome o = {0};
	static char piece[65536];
	struct timespec a, b;
	double sec;

	for (size_t i = 0; i < sizeof(piece); i++)
		piece[i] = (char)(" etaoinshrdlu\nETAOIN0123456789{}\":,"[i * 7919 % 35]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < 4096; i++) {
		out.len = 0;
		swap_feed(s, piece, sizeof(piece), &out, &o);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	sec = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	printf("# responses: %.2f GB/s\n", 4096.0 * sizeof(piece) / sec / 1e9);
	OK(o.replaced == 0, "nothing found in it");
	buf_clear(&out);
	swap_stream_free(s);
}

/* A long placeholder, escaped all over, byte by byte, and never its end. */
static void slow_beginning(void)
{
	static char placeholder[SWAP_VALUE_MAX + 1], value[SWAP_VALUE_MAX + 1];
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct swap_outcome o = {0};
	struct swap_table *t = NULL;
	struct swap_stream *s;
	clock_t begin;

	for (size_t i = 0; i < SWAP_VALUE_MAX; i++) {
		placeholder[i] = "0123456789abcdefg"[i * i % 17];
		value[i] = "hijklmnopqrstuvwx"[i * i % 17];
	}
	swap_new(&t);
	swap_add(t, "L", placeholder, value, SWAP_VALUE_MAX, "h.test,all.test");
	OK(swap_ready(t) == 0, "the longest value");
	s = open_stream(t, "h.test", SWAP_BODY_RAW);
	begin = clock();
	for (size_t i = 0; i < SWAP_VALUE_MAX - 1; i++) {
		char text[4];

		snprintf(text, sizeof(text), "%%%02x", (unsigned char)placeholder[i]);
		for (int k = 0; k < 3; k++)
			swap_feed(s, text + k, 1, &out, &o);
	}
	OK(out.len == 0, "all of it is held");
	swap_feed(s, "!", 1, &out, &o);
	swap_finish(s, &out, &o);
	OK(out.len == (SWAP_VALUE_MAX - 1) * 3 + 1 && !o.replaced, "and then not");
	OK(clock() - begin < 2 * CLOCKS_PER_SEC, "in time: %.2f s",
	   (double)(clock() - begin) / CLOCKS_PER_SEC);
	swap_stream_free(s);
	swap_free(t);
}

static void ambiguous(void)
{
	struct swap_table *t = NULL;

	swap_new(&t);
	OK(swap_add(t, "A", "0123456789abcdef", "value-of-A-12345", 16,
		    "a.test,all.test") == 0 &&
		   swap_add(t, "B", "x0123456789abcdef", "value-of-B-123456", 17,
			    "b.test,all.test") == -EINVAL &&
		   swap_add(t, "C", "0123456789abcdefx", "value-of-C-123456", 17,
			    "c.test,all.test") == -EINVAL,
	   "no placeholder is part of another");
	/* A value that is another's placeholder; the same value twice. */
	OK(swap_add(t, "D", "DDDDDDDDDDDDDDDD", "0123456789abcdef", 16,
		    "d.test,all.test") == 0 &&
		   swap_add(t, "E", "EEEEEEEEEEEEEEEE", "value-of-A-12345", 16,
			    "e.test,all.test") == 0 &&
		   swap_ready(t) == 0,
	   "values may be anything");
	OK(cuts(t, "d.test", SWAP_BODY_RAW, "DDDDDDDDDDDDDDDD", 16, "0123456789abcdef",
		16),
	   "one pass");
	OK(cuts(t, NULL, 0, "<value-of-A-12345>", 18, "<0123456789abcdef>", 18),
	   "one of them");
	swap_free(t);
}

int main(void)
{
	struct swap_table *t = table();

	text_table(t);
	basic_auth(t);
	request_streams(t);
	open_escapes(t);
	holds(t);
	no_oracle(t);
	released(t);
	response_forms(t);
	response_base64(t);
	response_escapes();
	white_space();
	names(t);
	overlaps();
	redacts(t);
	refuses();
	ambiguous();
	slow_beginning();
	speed(t);
	swap_free(t);
	return tap_done();
}
