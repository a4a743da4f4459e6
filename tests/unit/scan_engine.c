/* SPDX-License-Identifier: Apache-2.0 */
/* The secret scanner's engine: rules, decoding, UTF-16, exact values, weighing. */
#include "tap.h"

#include "base/util.h"
#include "scan/engine.h"
#include "scan/exact.h"
#include "scan/literals.h"

#include <sodium.h>

#define GHP "ghp_a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ"

struct seen {
	size_t n;
	char rule[64], what[128], secret[256];
	uint64_t line;
};

static void on_found(void *arg, const struct found *f)
{
	struct seen *s = arg;

	s->n++;
	s->line = f->line;
	snprintf(s->rule, sizeof(s->rule), "%s", f->rule);
	snprintf(s->what, sizeof(s->what), "%s", f->what);
	snprintf(s->secret, sizeof(s->secret), "%.*s", (int)min_size(f->len, 250),
		 f->secret);
}

static struct seen scan(struct engine *e, const char *path, const char *text, size_t len)
{
	struct view v = {.text = text, .len = len, .line = 1};
	struct seen s = {0};

	engine_file(e, path, on_found, &s);
	engine_text(e, &v, on_found, &s);
	return s;
}

static struct seen scan_text(struct engine *e, const char *text)
{
	return scan(e, "file.txt", text, strlen(text));
}

static struct engine *engine(const char *rules, const char *const *values, size_t n)
{
	struct cove_error err = {0};
	struct engine *e = NULL;
	size_t lens[8] = {0};
	struct engine_options o = {.rules = rules,
				   .rules_len = rules ? strlen(rules) : 0,
				   .values = values,
				   .value_lens = lens,
				   .n_values = n};

	for (size_t i = 0; i < n; i++)
		lens[i] = strlen(values[i]);
	OK(engine_new(&e, &o, &err) == 0, "rules load %s", err.msg);
	return e;
}

/* ---- built-in rules --------------------------------------------------------------- */

static void built_in_rules_find_and_spare(void)
{
	struct engine *e = engine(NULL, NULL, 0);
	struct seen s = scan_text(e, "a\nb\ntoken = \"" GHP "\"\n");

	OK(engine_rules(e) >= 60, "%zu built-in rules", engine_rules(e));
	OK(s.n == 1 && strcmp(s.rule, "github-pat") == 0, "a token is found: %s", s.rule);
	OK(s.line == 3, "in its line: %llu", (unsigned long long)s.line);
	OK(strcmp(s.secret, GHP) == 0, "as it is: %s", s.secret);
	s = scan_text(e, "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	OK(s.n == 0, "a place holder is none");
	s = scan_text(e, "ghp_short and AKIA and password = get_password()\n");
	OK(s.n == 0, "nor is a program that deals with them: %s", s.rule);
	s = scan(e, "dir/" GHP, "", 0);
	OK(s.n == 1 && s.line == 0, "a file's name is content");
	s = scan_text(e, GHP " # gitleaks:allow\n");
	OK(s.n == 1, "a comment in the content hides nothing");
	engine_free(e);
}

static void encoded_secrets_are_found(void)
{
	static const char text[] = "key = " GHP;
	struct engine *e = engine(NULL, NULL, 0);
	char once[256], twice[512], line[1024];
	struct seen s;

	sodium_bin2base64(once, sizeof(once), (const unsigned char *)text, strlen(text),
			  sodium_base64_VARIANT_ORIGINAL);
	snprintf(line, sizeof(line), "\n\nx: %s\n", once);
	s = scan_text(e, line);
	OK(s.n == 1 && s.line == 3, "base64, in line %llu", (unsigned long long)s.line);
	sodium_bin2base64(twice, sizeof(twice), (const unsigned char *)once, strlen(once),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	OK(scan_text(e, twice).n == 1, "base64 of base64");
	sodium_bin2hex(once, sizeof(once), (const unsigned char *)text, strlen(text));
	OK(scan_text(e, once).n == 1, "hex");
	OK(scan_text(e, "ghp%5Fa1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ").n == 1, "percent");
	OK(scan_text(e, "\\u0067\\u0068p_a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ").n == 1,
	   "\\u");
	OK(scan_text(e, "U+0067 U+0068 p_a1B2").n == 0, "code points of something else");
	engine_free(e);
}

/* ---- rule files ------------------------------------------------------------------- */

static void a_rule_file_is_honoured(void)
{
	struct engine *e =
		engine("[[rules]]\n"
		       "id = 'mine'\n"
		       "regex = '''(?i)acme[-_]?key\\s*=\\s*([a-z0-9]{8,})'''\n"
		       "entropy = 2.5\n"
		       "keywords = ['ACME']\n"
		       "[[rules.allowlists]]\n"
		       "stopwords = ['Dummy']\n"
		       "[[rules.allowlists]]\n"
		       "regexTarget = 'line'\n"
		       "regexes = ['nolint']\n"
		       "[[rules]]\n"
		       "id = 'by-path'\n"
		       "path = '''\\.p12$'''\n"
		       "[allowlist]\n"
		       "paths = ['^vendor/']\n",
		       NULL, 0);
	struct seen s = scan_text(e, "ACME_KEY = a1b2c3d4e5");

	OK(s.n == 1 && strcmp(s.secret, "a1b2c3d4e5") == 0, "the group is the secret");
	OK(scan_text(e, "acmekey=aaaaaaaaaa").n == 0, "entropy too low");
	OK(scan_text(e, "acmekey=dummy12345").n == 0, "stopword");
	OK(scan_text(e, "acmekey=a1b2c3d4e5 # nolint").n == 0, "allowed by its line");
	OK(scan_text(e, GHP).n == 0, "the built-in rules are not in force");
	OK(scan(e, "x/cert.p12", "", 0).n == 1, "a rule of the path alone");
	OK(scan(e, "vendor/a.c", "acmekey=a1b2c3d4e5", 18).n == 0, "allowed by its path");
	engine_free(e);
}

static void a_rule_file_can_extend_the_built_in_one(void)
{
	struct engine *e = engine("[extend]\nuseDefault = true\ndisabledRules = ['jwt']\n"
				  "[[rules]]\nid = 'mine'\nregex = 'needle[0-9]{4}'\n"
				  "[[rules]]\nid = 'github-pat'\n"
				  "[rules.allowlist]\nregexes = ['^ghp_a1B2']\n",
				  NULL, 0);

	OK(scan_text(e, "needle1234").n == 1, "its own rule");
	OK(scan_text(e, "AKIAQ3EGRIT7WX2HZPLM").n == 1, "the built-in ones");
	OK(scan_text(e, GHP).n == 0, "changed by id");
	engine_free(e);
}

static void wrong_rule_files_are_named(void)
{
	static const struct {
		const char *text, *part;
	} bad[] = {
		{"[[rules]]\nid = 'x'\nregex = '('\n",                "rule x"     },
		{"[[rules]]\nregex = 'a'\n",                          "without id" },
		{"[[rules]]\nid = 'x'\n",                             "neither"    },
		{"[[rules]]\nid = 'x'\nregex = '(?=a)'\n",            "rule x"     },
		{"[[rules]]\nid = 'x'\nregex='a'\nsecretGroup = 2\n", "secretGroup"},
		{"[extend]\npath = 'other.toml'\n",                   "useDefault" },
		{"a = \n",					    "line 1"     },
		{"",						  "no rule"    },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct engine_options o = {.rules = bad[i].text,
					   .rules_len = strlen(bad[i].text)};
		struct cove_error err = {0};
		struct engine *e = NULL;

		OK(engine_new(&e, &o, &err) == COVE_EINVAL && !e &&
			   strstr(err.msg, bad[i].part),
		   "refused: %s", err.msg);
	}
}

/* ---- expressions ------------------------------------------------------------------ */

static void expressions_mean_what_they_mean_in_go(void)
{
	static const struct {
		const char *regex, *text;
		bool match;
	} cases[] = {
		{"a\\sb",                    "a\vb",              false}, /* PCRE would say yes */
		{"a\\sb",                    "a\fb",              true },
		{"^x$",                      "x\n",               false}, /* the text's own end */
		{"(?m)^x$",                  "y\nx\nz",           true },
		{"^.{3}$",                   "a\xc3\xa9z",        true }, /* characters, not bytes */
		{"^.{4}$",                   "a\xc3\xa9z",        false},
		{"^[^a]{2}$",                "\xff\xfe",          true }, /* each bad byte is one */
		{"(?i)stra\xc3\x9f"
		 "e",       "STRA\xc3\x9f"
		 "E",       true },
		{"(?i)\xd0\xbf\xd0\xb0",     "\xd0\x9f\xd0\x90",  true },
		{"[\xd0\xb0-\xd1\x8f]+x",    "\xd0\xb6\xd1\x84x", true },
		{"\\x{e9}+!",                "\xc3\xa9\xc3\xa9!", true },
		{"\\Qa.b\\E",                "a.b",               true },
		{"\\Qa.b\\E",                "axb",               false},
		{"[[:upper:]]{2}\\d",        "AB1",               true },
		{"(?i:ab)c",                 "ABc",               true },
		{"(?i:ab)c",                 "ABC",               false},
		{"(?s)a.b",                  "a\nb",              true },
		{"a.b",                      "a\nb",              false},
		{"x{2,3}?y",                 "xxxy",              true },
		{"a{,3}",                    "a{,3}",             true }, /* no repeat in RE2 */
		{"(?s)^a.{0,1000}b.{1000}$", "ab",                false},
		{"(?P<n>a)(?<m>b)",          "ab",                true },
		{"\\bfoo\\b",                "a foo.",            true },
		{"\\bfoo\\b",                "foo_",              false},
		{"[]a]+b",                   "]ab",               true },
		{"[^]a]b",                   "xb",                true },
		{"\\pL\\p{Greek}",           "a\xce\xb1",         true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pattern p = {.source = cases[i].regex,
				    .len = strlen(cases[i].regex)};
		struct cove_error err = {0};
		bool is = pattern_compile(&p, &err) == 0 &&
			  pattern_is_in(&p, cases[i].text, strlen(cases[i].text));

		OK(is == cases[i].match, "%s %s", cases[i].regex, err.msg);
		pattern_clear(&p);
	}
}

/* ---- exact values ----------------------------------------------------------------- */

static const char value[] = "pA5s/w\"rd+\xc3\xa9 1?x=Zq9";

static struct engine *exact_engine(void)
{
	const char *values[] = {"other-secret-value", value};

	return engine(NULL, values, 2);
}

static void check_form(struct engine *e, const char *text, const char *what)
{
	struct seen s = scan_text(e, text);

	OK(s.n >= 1 && strcmp(s.rule, "sandbox-secret") == 0, "%s: %s", what, s.what);
}

static void values_are_found_in_every_form(void)
{
	struct engine *e = exact_engine();
	char plain[128], out[512];
	size_t n = strlen(value);

	check_form(e, value, "as it is");
	for (size_t skip = 0; skip < 3; skip++) {
		memset(plain, '\1', sizeof(plain)); /* not printable: no decoding helps */
		memcpy(plain + skip, value, n);
		sodium_bin2base64(out, sizeof(out), (unsigned char *)plain, skip + n + 2,
				  sodium_base64_VARIANT_ORIGINAL);
		check_form(e, out, "base64");
		sodium_bin2base64(out, sizeof(out), (unsigned char *)plain, skip + n + 2,
				  sodium_base64_VARIANT_URLSAFE);
		check_form(e, out, "base64 for URLs");
	}
	sodium_bin2hex(out, sizeof(out), (const unsigned char *)value, n);
	check_form(e, out, "hex");
	for (char *c = out; *c; c++)
		*c = *c >= 'a' ? (char)(*c - 32) : *c;
	check_form(e, out, "HEX");
	check_form(e, "pA5s%2Fw%22rd%2B%C3%A9%201%3Fx%3DZq9", "URL");
	check_form(e, "pA5s%2fw%22rd%2b%c3%a9+1%3fx%3dZq9", "form");
	check_form(e, "\"pA5s/w\\\"rd+\xc3\xa9 1?x=Zq9\"", "JSON");
	check_form(e, "\"pA5s\\/w\\\"rd+\\u00e9 1?x=Zq9\"", "JSON in ASCII");
	OK(scan_text(e, "pA5s/w\"rX+ 1?x=Zq9").n == 0, "something else is not found");
	engine_free(e);
}

static void values_spread_over_lines_are_found(void)
{
	static const char *const texts[] = {
		"other-se\ncret-value", "a = \"other\" +\n    \"-secret-\" + \"value\"",
		"// other-sec\n// ret-value\n",
		"b3RoZXItc2Vj\r\ncmV0LXZhbHVl", /* base64 */
	};
	struct engine *e = exact_engine();

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct seen s = scan_text(e, texts[i]);

		OK(s.n >= 1 && s.line == 1, "text %zu: %s", i, s.what);
	}
	engine_free(e);
}

/* ---- parts ------------------------------------------------------------------------ */

static bool count(void *arg, size_t index, size_t end)
{
	size_t *sum = arg;

	*sum += (index + 1) * 1000 + end;
	return true;
}

static void literals_finds_them_all(void)
{
	const char *words[] = {"abc", "bc", "zzzz", ""};
	const size_t lens[] = {3, 2, 4, 0};
	struct literals *l = literals_new(words, lens, 4, true);
	size_t sum = 0;

	literals_find(l, "xABcxzzzzz", 10, count, &sum);
	OK(sum == 1000 + 4 + 2000 + 4 + 3000 + 9 + 3000 + 10, "every place: %zu", sum);
	sum = 0;
	literals_find(l, "b", 1, count, &sum);
	OK(sum == 0, "a text shorter than all of them");
	literals_free(l);
}

static void utf16_becomes_text(void)
{
	static const char le[] = "\xff\xfe"
				 "a\0b\0\xe9\0",
			  be[] = "\xfe\xff\0a\0b";
	static const char runs[] = "\1\2\3s\0e\0c\0r\0e\0t\0s\0!\0\4\5\6";
	char *text = NULL;
	size_t n = 0;
	int kind = UTF16_UNKNOWN;

	OK(utf16_view(&text, &n, le, sizeof(le) - 1, true, &kind) == 1 &&
		   kind == UTF16_LE && n == 7 && memcmp(text + 3, "ab\xc3\xa9", 4) == 0,
	   "little-endian with a mark");
	free(text);
	kind = UTF16_UNKNOWN;
	OK(utf16_view(&text, &n, be, sizeof(be) - 1, true, &kind) == 1 &&
		   kind == UTF16_BE && memcmp(text + 3, "ab", 2) == 0,
	   "big-endian with a mark");
	free(text);
	kind = UTF16_NOT;
	OK(utf16_view(&text, &n, runs, sizeof(runs) - 1, true, &kind) == 1 &&
		   memmem(text, n, "secrets!", 8),
	   "a run inside something else");
	free(text);
	kind = UTF16_UNKNOWN;
	OK(utf16_view(&text, &n, "plain text", 10, false, &kind) == 0,
	   "plain text has none");
}

int main(void)
{
	built_in_rules_find_and_spare();
	encoded_secrets_are_found();
	a_rule_file_is_honoured();
	a_rule_file_can_extend_the_built_in_one();
	wrong_rule_files_are_named();
	expressions_mean_what_they_mean_in_go();
	values_are_found_in_every_form();
	values_spread_over_lines_are_found();
	literals_finds_them_all();
	utf16_becomes_text();
	return tap_done();
}
