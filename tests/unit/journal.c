/* SPDX-License-Identifier: Apache-2.0 */
#include "work/journal.h"

#include "base/util.h"
#include "tap.h"

static const struct ident some = {.mode = 0100644,
				  .uid = 1000,
				  .gid = 1000,
				  .dev = 66305,
				  .ino = 18446744073709551615u,
				  .size = 12,
				  .mtime_ns = -5};

static void make(struct journal *j)
{
	static const char *const paths[] = {"a", "dir/b c%\n\x7f\xff", "."};
	static const char kinds[] = "XNA";

	*j = (struct journal){.stage = ".cove-stage-1f"};
	j->layers = calloc(1, sizeof(*j->layers));
	j->layers[0] = (struct journal_layer){strdup("/p/q r"), "m0"};
	j->n_layers = 1;
	j->v = calloc(3, sizeof(*j->v));
	for (size_t i = 0; i < 3; i++)
		j->v[i] = (struct step){.kind = (enum step_kind)kinds[i],
					.stage = (uint32_t)i,
					.whole = i != 1,
					.old = some,
					.new = some,
					.path = strdup(paths[i])};
	j->n = 3;
}

static void survives_print_and_parse(void)
{
	struct buf text = BUF_INIT(1 << 16);
	struct journal j, k = {0};

	make(&j);
	OK(journal_print(&j, &text) == 0, "printed");
	OK(journal_parse(&k, text.data, text.len) == 0 && k.n == 3, "parsed");
	for (size_t i = 0; i < 3; i++)
		OK(k.v[i].kind == j.v[i].kind && strcmp(k.v[i].path, j.v[i].path) == 0 &&
			   k.v[i].whole == j.v[i].whole &&
			   k.v[i].new.ino == some.ino &&k.v[i].new.mtime_ns == -5 &&
			   k.v[i].old.mode == some.mode,
		   "step %zu is the same", i);
	OK(strcmp(k.layers[0].source, "/p/q r") == 0 && strcmp(k.stage, j.stage) == 0,
	   "layer and stage are the same");
	journal_clear(&j);
	journal_clear(&k);
	buf_clear(&text);
}

/* Cut anywhere, it is refused: a half journal must never be followed. */
static void every_cut_is_refused(void)
{
	struct buf text = BUF_INIT(1 << 16);
	struct journal j, k = {0};
	size_t accepted = 0;

	make(&j);
	journal_print(&j, &text);
	for (size_t n = 0; n < text.len; n++)
		accepted += journal_parse(&k, text.data, n) == 0;
	OK(accepted == 0 && k.n == 0, "no cut is accepted (%zu)", accepted);
	OK(journal_parse(&k, "", 0) < 0, "nor an empty one");
	journal_clear(&j);
	buf_clear(&text);
}

static void paths_stay_below(void)
{
	static const char *const bad[] = {"/etc/passwd", "../x", "a/../b", "a//b",
					  "a/",          "",     "a/./b",  ".."};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct buf text = BUF_INIT(1 << 16);
		struct journal j, k = {0};

		make(&j);
		free(j.v[0].path);
		j.v[0].path = strdup(bad[i]);
		journal_print(&j, &text);
		OK(journal_parse(&k, text.data, text.len) == -EBADMSG, "'%s' is refused",
		   bad[i]);
		journal_clear(&j);
		buf_clear(&text);
	}
}

int main(void)
{
	survives_print_and_parse();
	every_cut_is_refused();
	paths_stay_below();
	return tap_done();
}
