/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of the gate: names, folding, the table of paths, git's drivers. */
#include "base/util.h"
#include "tap.h"
#include "work/gate_impl.h"

static const struct {
	const char *name;
	int rule;
} names[] = {
	{"plain.c",                   -1                 },
	{"with blank",                -1                 },
	{"gr\xc3\xbc\xc3\x9f",        -1                 },
	{"\xe6\x97\xa5\xe6\x9c\xac",  -1                 },
	{"\xe2\x9d\xa4\xef\xb8\x8f",  -1                 }, /* a heart with U+FE0F */
	{"new\nline",                 RULE_NAME_CONTROL  },
	{"tab\t",		     RULE_NAME_CONTROL  },
	{"\x1b[31mred",               RULE_NAME_CONTROL  },
	{"del\x7f",                   RULE_NAME_CONTROL  },
	{"\xc2\x9b"
	 "31m",	      RULE_NAME_CONTROL  }, /* CSI in one character */
	{"\xff\x1b",                  RULE_NAME_CONTROL  }, /* the worse of two */
	{"latin\xe9",                 RULE_NAME_ENCODING },
	{"\xc0\xaf",                  RULE_NAME_ENCODING }, /* an overlong slash */
	{"\xe0\x80\xaf",              RULE_NAME_ENCODING },
	{"\xed\xa0\x80",              RULE_NAME_ENCODING }, /* a surrogate */
	{"\xf4\x90\x80\x80",          RULE_NAME_ENCODING }, /* above the last */
	{"cut\xe2\x82",               RULE_NAME_ENCODING },
	{"\xe2\x80\xaetxt.exe",       RULE_NAME_INVISIBLE}, /* right-to-left override */
	{"a\xe2\x80\x8fz",            RULE_NAME_INVISIBLE}, /* right-to-left mark */
	{"a\xd8\x9cz",                RULE_NAME_INVISIBLE}, /* Arabic letter mark */
	{"a\xe2\x81\xa6z",            RULE_NAME_INVISIBLE}, /* isolate */
	{"zero\xe2\x80\x8bwidth",     RULE_NAME_INVISIBLE},
	{"soft\xc2\xadhyphen",        RULE_NAME_INVISIBLE},
	{"\xef\xbb\xbf"
	 "bom",	      RULE_NAME_INVISIBLE},
	{"line\xe2\x80\xa8separator", RULE_NAME_INVISIBLE},
	{"\xe3\x85\xa4",              RULE_NAME_INVISIBLE}, /* Hangul filler */
	{"tag\xf3\xa0\x81\xa1",       RULE_NAME_INVISIBLE},
	{"\xf3\xa0\x84\x80",          RULE_NAME_INVISIBLE}, /* smuggled selectors */
	{"\xef\xbf\xbe",              RULE_NAME_INVISIBLE}, /* no character */
};

static void names_are_judged(void)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		OK(gate_name_problem(names[i].name, strlen(names[i].name)) ==
			   names[i].rule,
		   "name %zu", i);
}

static void paths_are_judged(void)
{
	char name[300], deep[2 * 600], *p = deep;

	memset(name, 'x', sizeof(name));
	name[255] = '\0';
	OK(gate_path_problem("a/b/c", 10) < 0, "a plain path");
	OK(gate_path_problem("a..b/..c/d..", 10) < 0, "dots in names");
	OK(gate_path_problem(name, 10) < 0, "255 bytes");
	name[255] = 'x';
	name[256] = '\0';
	OK(gate_path_problem(name, 10) == RULE_NAME_TOO_LONG, "256 bytes");
	OK(gate_path_problem("", 1) == RULE_MOUNT_ROOT, "nothing");
	OK(gate_path_problem(".", 1) == RULE_MOUNT_ROOT, "the mount itself");
	OK(gate_path_problem("/etc/passwd", 1) == RULE_PATH_OUTSIDE, "absolute");
	OK(gate_path_problem("a/../b", 1) == RULE_PATH_OUTSIDE, "up in the middle");
	OK(gate_path_problem("..", 1) == RULE_PATH_OUTSIDE, "up");
	OK(gate_path_problem("a/./b", 1) == RULE_PATH_OUTSIDE, "a dot");
	OK(gate_path_problem("a//b", 1) == RULE_PATH_OUTSIDE, "nothing between slashes");
	OK(gate_path_problem("a/", 1) == RULE_PATH_OUTSIDE, "a slash at the end");
	OK(gate_path_problem("a/b", 4000) == RULE_PATH_TOO_LONG, "a long source");
	for (int i = 0; i < 513; i++, p += 2)
		memcpy(p, "d/", 3);
	p[-1] = '\0';
	OK(gate_path_problem(deep, 1) == RULE_PATH_TOO_DEEP, "513 deep");
	p[-3] = '\0';
	OK(gate_path_problem(deep, 1) < 0, "512 deep");
}

/* ---- folding -------------------------------------------------------------------- */

static bool equal(const char *a, const char *b)
{
	cleanup_buf struct buf x = BUF_INIT(4096), y = BUF_INIT(4096);

	return gate_fold(&x, a, strlen(a)) == 0 && gate_fold(&y, b, strlen(b)) == 0 &&
	       x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
}

static const struct {
	const char *a, *b;
	bool equal;
	const char *what;
} twins[] = {
	{"README",            "readme",			       true,  "case"                     },
	{"a",		 "b",				    false, "letters"                  },
	{"\xc3\xa9",          "e\xcc\x81",                            true,  "composed and decomposed"  },
	{"\xc3\x89",          "e\xcc\x81",                            true,  "both"                     },
	{"stra\xc3\x9f"
	 "e",        "STRASSE",			      true,  "full folding"             },
	{"\xef\xac\x81",      "FI",				   true,  "a ligature"               },
	{"\xe2\x84\xaa",      "k",				    true,  "the Kelvin sign"          },
	{"\xc5\xbf",          "S",				    true,  "the long s"               },
	{"\xce\xa3",          "\xcf\x82",                             true,  "sigma at the end"         },
	{"\xea\xb0\x81",      "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", true,  "Hangul"                   },
	{"\xea\xb0\x80",      "\xea\xb0\x81",                         false, "other Hangul"             },
	{"a\xcc\xa3\xcc\x82", "a\xcc\x82\xcc\xa3",                    true,  "order of marks"           },
	{"\xe1\xba\xad",      "A\xcc\x82\xcc\xa3",                    true,  "two marks in one"         },
	{"a\xcc\x81\xcc\x80", "a\xcc\x80\xcc\x81",                    false, "marks of one class"       },
	{".g\xe2\x80\x8cit",  ".GIT",                                 true,  "ignorable"                },
	{"\xef\xa8\x92",      "\xe6\x99\xb4",                         true,  "compatibility ideograph"  },
	{"\xd0\x90",          "\xd0\xb0",                             true,  "Cyrillic case"            },
	{"\xd0\xb0",          "a",				    false, "look-alikes are not twins"},
	{"\xf0\x90\x90\x80",  "\xf0\x90\x90\xa8",                     true,  "Deseret, beyond 16 bits"  },
	{"a\xff",             "A\xff",				true,  "raw bytes stay"           },
	{"a\xff",             "a\xfe",				false, "and differ"               },
	{"a\xff",             "a\xc3\xbf",                            false, "from characters too"      },
	{"\xc4\xb0",          "i",				    false, "dotted I keeps its dot"   },
};

static void twins_are_told(void)
{
	for (size_t i = 0; i < ARRAY_LEN(twins); i++)
		OK(equal(twins[i].a, twins[i].b) == twins[i].equal, "twins: %s",
		   twins[i].what);
}

/* ---- paths that run code -------------------------------------------------------- */

static const struct {
	const char *path, *rule;
} paths[] = {
	{"src/main.c",			NULL               },
	{"README.md",			 NULL               },
	{".gitignore",			NULL               },
	{"Makefile",			  NULL               },
	{"package.json",                      NULL               },
	{".env",			      NULL               },
	{".github/CODEOWNERS",                NULL               },
	{".github/workflows",                 "ci"               },
	{".github/workflows/ci.yml",          "ci"               },
	{".git",			      "git-dir"          },
	{".git/hooks/pre-commit",             "git-hook"         },
	{".git/config",                       "git-config"       },
	{".git/config.lock",                  "git-dir"          },
	{".git/objects/ab/cdef",              "git-dir"          },
	{".git/modules/sub/hooks/x",          "git-config"       },
	{".git/rebase-merge/git-rebase-todo", "git-dir"          },
	{"vendor/lib/.git/hooks/x",           "git-hook"         },
	{".GIT/Hooks/Pre-Commit",             "git-hook"         },
	{".g\xe2\x80\x8cit/config",           "git-config"       },
	{".git./hooks/x",                     "git-hook"         },
	{".git /hooks/x",                     "git-hook"         },
	{".git::$INDEX_ALLOCATION/config",    "git-config"       },
	{"git~1/config",                      "git-dir"          },
	{"x.git/config",                      NULL               },
	{".gitx/config",                      NULL               },
	{".gitmodules",                       "git-submodules"   },
	{".husky/pre-push",                   "git-hook"         },
	{"lefthook-local.yml",                "git-hook"         },
	{".envrc",			    "direnv"           },
	{"sub/dir/.envrc",                    "direnv"           },
	{".envrc/x",			  NULL               },
	{".vscode/tasks.json",                "editor-task"      },
	{"my.code-workspace",                 "editor-task"      },
	{".idea/workspace.xml",               "editor-task"      },
	{".nvim.lua",			 "editor-task"      },
	{".gdbinit",			  "debugger-script"  },
	{".Rprofile",			 "interpreter-start"},
	{".claude/settings.json",             "agent-config"     },
	{"CLAUDE.md",			 NULL               },
	{".mcp.json",			 "agent-config"     },
	{"cove.yaml",			 "cove-config"      },
	{"COVE.YAML",			 "cove-config"      },
	{".devcontainer/devcontainer.json",   "dev-container"    },
	{".gitlab-ci.yml",                    "ci"               },
	{"ci/build.gitlab-ci.yml",            "ci"               },
	{"Jenkinsfile",                       "ci"               },
	{"Jenkinsfile.release",               "ci"               },
	{".circleci/config.yml",              "ci"               },
	{".woodpecker.yml",                   "ci"               },
	{".npmrc",			    "build-config"     },
	{".cargo/config.toml",                "build-config"     },
	{".cargo/registry",                   NULL               },
	{"tools/bazel",                       "build-config"     },
	{".ssh/authorized_keys",              "login-file"       },
	{".bashrc",			   "login-file"       },
	{"mise.local.toml",                   "direnv"           },
};

static void executing_paths_are_known(void)
{
	size_t prefix;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const char *why = NULL, *rule = gate_executing_path(paths[i].path, &why);

		OK((!rule && !paths[i].rule) ||
			   (rule && paths[i].rule && strcmp(rule, paths[i].rule) == 0),
		   "%s: %s", paths[i].path, rule ? rule : "nothing");
	}
	OK(gate_path_match(".vscode", true, &prefix), "a symlink .vscode");
	OK(gate_path_match("x/.cargo", true, &prefix), "a symlink .cargo");
	OK(!gate_path_match(".cargo", false, &prefix), "a directory .cargo");
	OK(gate_path_match("a/b/.Git/objects/x", false, &prefix) && prefix == 8,
	   "where the repository is: %zu", prefix);
}

static void tables_are_sound(void)
{
	const char *const *fixed = gate_fixed_paths();
	size_t n = 0, mounts = 0;

	for (; fixed[n]; n++) {
		OK(!strchr(fixed[n], '*') && gate_path_problem(fixed[n], 1) < 0,
		   "fixed path %s", fixed[n]);
		OK(gate_executing_path(fixed[n], NULL), "it is in the table");
	}
	for (const struct gate_path *e = gate_paths; e->id; e++)
		mounts += !!(e->flags & RULE_MOUNT);
	OK(n == mounts && n > 20, "%zu fixed paths", n);
	for (size_t i = 0; i < N_GATE_RULES; i++)
		OK(gate_rules[i].id && *gate_rules[i].why, "rule %zu has a text", i);
}

/* ---- git's drivers -------------------------------------------------------------- */

static const struct {
	const char *text;
	bool found;
} attributes[] = {
	{"*.py diff=python\n*.bin filter=lfs diff=lfs merge=lfs -text\n", false},
	{"* text=auto\n",						 false},
	{"*.c filter=evil\n",					     true },
	{"*.c\tdiff=mine",						true },
	{"[attr]x merge=run\n",					   true },
	{"",							      false},
	{"*.c -filter !diff\n",					   false},
};

static void drivers_are_seen(void)
{
	for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
		const char *text = attributes[i].text;
		size_t n = 0;

		OK(!!gate_git_driver(text, strlen(text), &n) == attributes[i].found,
		   "attributes %zu", i);
	}
}

/* ---- docs/gate.md --------------------------------------------------------------- */

/* The tables of the documentation, from the tables of the program. */
static void print_tables(FILE *f)
{
	fprintf(f, "| rule | accepted by id | why |\n|---|---|---|\n");
	for (size_t i = 0; i < N_GATE_RULES; i++)
		fprintf(f, "| `%s` | %s | %s |\n", gate_rules[i].id,
			gate_rules[i].flags & RULE_HARD ? "no" : "yes",
			gate_rules[i].why);
	fprintf(f, "\n| rule | path | why |\n|---|---|---|\n");
	for (const struct gate_path *e = gate_paths; e->id; e++)
		fprintf(f, "| `%s` | `%s%s`%s | %s |\n", e->id, e->pattern,
			e->flags & RULE_TREE ? "/**" : "",
			e->flags & RULE_MOUNT ? " †" : "", e->why);
}

static void docs_hold_the_tables(void)
{
	cleanup_free char *want = NULL, *have = calloc(1, 1 << 20);
	size_t n = 0;
	FILE *f = open_memstream(&want, &n), *docs = fopen("docs/gate.md", "re");

	if (f) {
		print_tables(f);
		fclose(f);
	}
	if (docs && have) {
		n = fread(have, 1, (1 << 20) - 1, docs);
		have[n] = '\0';
	}
	if (docs)
		fclose(docs);
	if (!docs)
		SKIP("not started in the source directory");
	else
		OK(want && have && strstr(have, want),
		   "docs/gate.md holds the output of `gate_names --tables`");
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--tables") == 0) {
		print_tables(stdout);
		return 0;
	}
	names_are_judged();
	paths_are_judged();
	twins_are_told();
	executing_paths_are_known();
	tables_are_sound();
	drivers_are_seen();
	docs_hold_the_tables();
	return tap_done();
}
