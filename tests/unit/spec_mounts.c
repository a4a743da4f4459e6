/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts and masks of a spec: their keys, layers that stay, what lies in what. */
#include "tap.h"

#include "base/util.h"
#include "spec/spec.h"

static int parse(struct spec *s, const char *text, struct cove_error *err)
{
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);

	spec_init(s);
	return spec_parse(s, text, strlen(text), "t.yaml", &problems, err);
}

static void keys_survive_the_round_trip(void)
{
	static const char text[] =
		"mounts:\n"
		"  - {source: cache, target: /c, mode: volume, shared: true, layer: 7}\n"
		"  - {source: /p, mode: rw, unprotect: [.envrc, .git/hooks]}\n"
		"  - 'v:/v:volume,shared'\n"
		"mask: [node_modules, /p/build]\n";
	struct cove_error err = {0};
	struct spec a, b, c;
	json_t *x, *y;
	char *out;

	OK(parse(&a, text, &err) == 0, "parsed: %s", err.msg);
	OK(a.n_mounts == 3 && a.mounts[0].shared && a.mounts[0].layer == 7,
	   "shared and layer");
	OK(a.mounts[1].unprotect.n == 2 && a.mounts[1].layer == -1 &&
		   strcmp(a.mounts[1].unprotect.v[1], ".git/hooks") == 0,
	   "unprotect; no layer is -1");
	OK(a.mounts[2].shared && a.mounts[2].mode == MOUNT_VOLUME,
	   "the word with shared");
	OK(a.mask.n == 2 && strcmp(a.mask.v[1], "/p/build") == 0, "masks");
	x = spec_json(&a, true);
	out = json_dumps(x, 0);
	OK(parse(&b, out, &err) == 0 && spec_copy(&c, &b, &err) == 0, "again: %s",
	   err.msg);
	y = spec_json(&c, true);
	OK(json_equal(x, y), "the same after print, parse and copy");
	free(out);
	json_decref(x);
	json_decref(y);
	spec_clear(&a);
	spec_clear(&b);
	spec_clear(&c);
}

static void bad_keys_are_named(void)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
		{"mounts: [{source: /p, mode: ro, shared: true}]",
		 "shared is for mode: volume"						       },
		{"mounts: [{source: /p, unprotect: [x]}]",              "unprotect is for mode: rw" },
		{"mounts: [{source: /p, mode: rw, unprotect: [../x]}]", "contains '..'"             },
		{"mounts: [{source: /p, mode: rw, unprotect: [/x]}]",   "not a path below"          },
		{"mounts: [{source: /p, layer: -1}]",                   "not allowed"               },
		{"mounts: [{source: /p, layer: 100000}]",               "not allowed"               },
		{"mounts: [{source: /p, mode: rw, shared: maybe}]",
		 "'maybe' is not known"							     },
		{"mounts: ['/p:rw,shared']",                            "shared is for mode: volume"},
		{"mask: [../x]",					"contains '..'"             },
		{"mask: [.]",					   "not a path below"          },
		{"mask: [/proc/x]",				     "cannot be mounted over"    },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cove_error err = {0};
		struct spec s;

		OK(parse(&s, bad[i].text, &err) == COVE_EINVAL &&
			   strstr(err.msg, bad[i].message),
		   "%s: %s", bad[i].text, err.msg);
		spec_clear(&s);
	}
}

static void layers_stay_with_their_mounts(void)
{
	struct cove_error err = {0};
	struct spec old, new;

	parse(&old, "mounts: ['/a:/a:overlay', '/b:/b:overlay', '/c:/c:ro']", &err);
	parse(&new,
	      "mounts: ['/b:/b:overlay', '/n:/n:overlay', '/c:/c:rw', '/m:/m:copy']",
	      &err);
	spec_keep_layers(&new, &old, 5);
	OK(spec_layer_number(&new, 0) == 1, "moved up: keeps its own");
	OK(spec_layer_number(&new, 1) == 5, "new: fresh");
	OK(spec_layer_number(&new, 2) == 2 && new.mounts[2].layer == -1,
	   "stayed: as it was, whatever its mode");
	OK(spec_layer_number(&new, 3) == 6, "new at a place beyond the old list");
	spec_clear(&old);
	spec_copy(&old, &new, &err);
	spec_clear(&new);
	parse(&new, "mounts: ['/m:/m:copy', '/b:/b:overlay']", &err);
	spec_keep_layers(&new, &old, 9);
	OK(spec_layer_number(&new, 0) == 6 && spec_layer_number(&new, 1) == 1 &&
		   new.mounts[1].layer == -1,
	   "and again");
	spec_clear(&new);
	spec_clear(&old);
}

static void what_lies_in_what(void)
{
	struct cove_error err = {0};
	const char *v[4] = {NULL};
	struct spec s;

	parse(&s,
	      "mounts: ['/p:/p:overlay', '/x:/p/sub/x:ro', '/q:/pp:ro', '/r:/p/sub:rw']\n"
	      "mask: [/p/node_modules, /q/y]",
	      &err);
	OK(spec_skips(&s, 0, v, 4) == 3 && strcmp(v[0], "sub/x") == 0 &&
		   strcmp(v[1], "sub") == 0 && strcmp(v[2], "node_modules") == 0,
	   "of the outer mount");
	OK(spec_skips(&s, 3, v, 4) == 1 && strcmp(v[0], "x") == 0,
	   "of one in the middle");
	OK(spec_skips(&s, 1, v, 4) == 0 && spec_skips(&s, 2, v, 4) == 0, "of the others");
	v[1] = NULL;
	OK(spec_skips(&s, 0, v, 1) == 3 && !v[1], "no more than fit");
	OK(spec_path_below("/p", "/p") && spec_path_below("/p/x", "/p") &&
		   !spec_path_below("/pp", "/p") && spec_path_below("/p", "/"),
	   "below");
	spec_clear(&s);
}

static void paths_are_cleaned(void)
{
	char out[16];

	OK(spec_path_clean("/a//b/./c/", out, sizeof(out)) && strcmp(out, "/a/b/c") == 0,
	   "slashes and dots");
	OK(spec_path_clean("//", out, sizeof(out)) && strcmp(out, "/") == 0, "the root");
	OK(!spec_path_clean("a", out, sizeof(out)), "not absolute");
	OK(!spec_path_clean("/0123456789abcdef", out, sizeof(out)), "too long");
}

int main(void)
{
	keys_survive_the_round_trip();
	bad_keys_are_named();
	layers_stay_with_their_mounts();
	what_lies_in_what();
	paths_are_cleaned();
	return tap_done();
}
