/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "work/change.h"

#include <string.h>
#include <time.h>

static const struct {
	const char *pattern, *path;
	bool match;
} cases[] = {
  /* a name matches at any depth, and what is in it */
	{"Makefile",      "Makefile",           true },
	{"Makefile",      "src/Makefile",       true },
	{"Makefile",      "Makefile.in",        false},
	{"Makefile",      "xMakefile",          false},
	{"node_modules",  "a/node_modules/b/c", true },
	{"node_modules/", "a/node_modules/b",   true },
	{"node_modules/", "node_modules",       true },
 /* with a slash it is anchored */
	{"src/a.c",       "src/a.c",            true },
	{"src/a.c",       "x/src/a.c",          false},
	{"/a.c",          "a.c",                true },
	{"/a.c",          "x/a.c",              false},
	{"src",           "src/deep/er",        true },
	{"/src",          "src/deep/er",        true },
	{"src/deep",      "src/deep/er/x",      true },
	{"src/deep",      "src/deeper",         false},
 /* stars and question marks stay in a component */
	{"*.c",           "a.c",                true },
	{"*.c",           "x/y/a.c",            true },
	{"*.c",           "a.cc",               false},
	{"*.c",           ".c",                 true },
	{"src/*.c",       "src/a.c",            true },
	{"src/*.c",       "src/x/a.c",          false},
	{"src/*",         "src/x/a.c",          true }, /* x matches, and this is in it */
	{"?.c",           "a.c",                true },
	{"?.c",           "ab.c",               false},
	{"a?c",           "a/c",                false},
	{"a*c",           "a/c",                false},
	{"*a*b*c",        "xxaxxbxxc",          true },
	{"*a*b*c",        "xxaxxcxxb",          false},
	{"a*",            "a",                  true },
	{"*",             "anything/at/all",    true },
 /* two stars go over slashes */
	{"**",            "a/b",                true },
	{"**/x",          "x",                  true },
	{"**/x",          "a/b/x",              true },
	{"**/x",          "a/b/xx",             false},
	{"**/x",          "a/bx",               false},
	{"a/**",          "a/b/c",              true },
	{"a/**",          "a",                  false},
	{"a/**/",         "a/b",                true },
	{"a/**/z",        "a/z",                true },
	{"a/**/z",        "a/b/c/z",            true },
	{"a/**/z",        "a/bz",               false},
	{"a/**/z",        "b/a/z",              false},
	{"a/**/m/**/z",   "a/m/x/m/y/z",        true },
	{"a**z",          "a/b/z",              true },
	{"**/*.min.*",    "web/js/a.min.js",    true },
	{"**/a*/b",       "x/aa/c/ab/b",        true },
 /* classes and escapes */
	{"[ab].c",        "b.c",                true },
	{"[!ab].c",       "b.c",                false},
	{"[!ab].c",       "c.c",                true },
	{"[a-f]x",        "dx",                 true },
	{"[a-f]x",        "gx",                 false},
	{"[]]",           "]",                  true },
	{"a[b",           "a[b",                true },
	{"a[!/]b",        "a/b",                false},
	{"\\*.c",         "*.c",                true },
	{"\\*.c",         "a.c",                false},
	{"\\!x",          "!x",                 true },
	{"a\\",           "a\\",                true },
 /* nothing matches nothing */
	{"",	      "a",		  false},
	{"/",             "a",                  false},
	{"a",             "",		   false},
 /* any bytes */
	{"*.c",           "new\nline.c",        true },
	{"\xff*",         "\xff\xfe",           true },
};

static void nothing_takes_long(void)
{
	static char path[100000];
	struct timespec a, b;
	double ms;

	memset(path, 'a', sizeof(path) - 1);
	for (size_t i = 200; i < sizeof(path) - 1; i += 200)
		path[i] = '/';
	clock_gettime(CLOCK_MONOTONIC, &a);
	OK(!path_match("**/*a*a*a*a*a*a*b", path), "no match");
	OK(!path_match("**a**a**a**a**a**b", path), "no match");
	clock_gettime(CLOCK_MONOTONIC, &b);
	ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
	OK(ms < 2000, "patterns made of stars on a hostile path: %.0f ms", ms);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		OK(path_match(cases[i].pattern, cases[i].path) == cases[i].match,
		   "case %zu: %s %s", i, cases[i].pattern,
		   cases[i].match ? "matches" : "does not match");
	nothing_takes_long();
	return tap_done();
}
