/* SPDX-License-Identifier: Apache-2.0 */
/* The text helpers of the command line: escaping, nearest words, durations, hash, YAML.
 */
#include "cli/sha256.c"
#include "cli/text.c"
#include "cli/yaml.c"

#include "tap.h"

static void escapes(void)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"plain",				     "plain"                  },
		{"",					  ""		       },
		{"a\033[31mb",				"a\\x1b[31mb"            },
		{"line\nline\r\t",                            "line\\x0aline\\x0d\\x09"},
		{"\x7f",				      "\\x7f"                  },
		{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"                           },
		{"\xc2\x9b"
		 "31m",		      "\\xc2\\x9b31m"          }, /* C1 control sequence introducer */
		{"\xe2\x80\xae"
		 "abc",		      "\\xe2\\x80\\xae"
		 "abc"			 }, /* right-to-left override */
		{"\xff\xfe",				  "\\xff\\xfe"             },
		{"\xc0\x80",				  "\\xc0\\x80"             }, /* overlong */
		{"\xed\xa0\x80",                              "\\xed\\xa0\\x80"        }, /* surrogate */
		{"\xf4\x90\x80\x80",                          "\\xf4\\x90\\x80\\x80"   }, /* beyond Unicode */
		{"cut \xe2\x82",                              "cut \\xe2\\x82"         },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *got = cli_escape(cases[i].in);

		OK(got && strcmp(got, cases[i].want) == 0, "escape %zu: %s", i, got);
		free(got);
	}
	OK(cli_width("caf\xc3\xa9") == 4, "width counts characters");
}

static void nearest(void)
{
	static const char *const words[] = {"run", "restart", "memory", "mount", "ls"};
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"rnu",							  "run"    },
		{"memroy",						       "memory" },
		{"mounts",						       "mount"  },
		{"zzzzzz",						       NULL     },
		{"restrat",						      "restart"},
		{"",							     NULL     },
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL     },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got = cli_nearest(cases[i].in, words, ARRAY_LEN(words));

		OK(got == cases[i].want ||
			   (got && cases[i].want && !strcmp(got, cases[i].want)),
		   "nearest to '%s': %s", cases[i].in, got ? got : "none");
	}
}

static void durations(void)
{
	static const struct {
		const char *in;
		int64_t want; /* -1: refused */
	} cases[] = {
		{"90",                   90000   },
                {"90s",                  90000   },
                {"500ms",                500     },
		{"5m",                   300000  },
                {"2h",                   7200000 },
                {"1d",                   86400000},
		{"0",                    0       },
                {"",                     -1      },
                {"-1",                   -1      },
		{"s",                    -1      },
                {"5x",                   -1      },
                {"1.5h",                 -1      },
		{" 5",                   -1      },
                {"+5",                   -1      },
                {"99999999999999999999", -1      },
		{"1000000d",             -1      },
                {"5 s",                  -1      },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t got = -7;
		int r = cli_duration(cases[i].in, &got);

		OK(cases[i].want < 0 ? r < 0 && got == -7
				     : r == 0 && got == cases[i].want,
		   "duration '%s'", cases[i].in);
	}
}

static void hash(void)
{
	char hex[65], many[200];

	cli_sha256_hex("", 0, hex);
	OK(!strcmp(hex,
		   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
	   "sha256 of nothing");
	cli_sha256_hex("abc", 3, hex);
	OK(!strcmp(hex,
		   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
	   "sha256 of abc");
	memset(many, 'a', sizeof(many));
	cli_sha256_hex(many, 119, hex);
	OK(!strcmp(hex,
		   "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"),
	   "sha256 of 119 bytes: padding in a block of its own");
}

static void yaml(void)
{
	json_t *in = json_pack("{s:s, s:{s:i, s:b}, s:[s, {s:s, s:s}], s:[], s:{}, s:s}",
			       "name", "api-fix", "resources", "pids", 5, "on", 1, "list",
			       "yes", "source", "/a b", "mode", "ro", "none", "empty",
			       "text", "1: #x\n");
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	cli_yaml_write(f, in);
	fclose(f);
	OK(!strcmp(text, "name: api-fix\n"
			 "resources:\n"
			 "  pids: 5\n"
			 "  \"on\": true\n"
			 "list:\n"
			 "  - \"yes\"\n"
			 "  - source: \"/a b\"\n"
			 "    mode: ro\n"
			 "none: []\n"
			 "empty: {}\n"
			 "text: \"1: #x\\n\"\n"),
	   "the spec as YAML");
	free(text);
	json_decref(in);
}

int main(void)
{
	escapes();
	nearest();
	durations();
	hash();
	yaml();
	return tap_done();
}
