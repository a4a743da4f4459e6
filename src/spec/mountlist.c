/* SPDX-License-Identifier: Apache-2.0 */
/* mountlist - questions about the mounts of a spec: whose layer, what lies in what. */
#include "spec/spec.h"

#include "base/util.h"

int spec_layer_number(const struct spec *s, size_t i)
{
	return s->mounts[i].layer >= 0 ? s->mounts[i].layer : (int)i;
}

static const char *place(const struct spec_mount *m)
{
	return m->target ? m->target : m->source;
}

size_t spec_find_mount(const struct spec *s, const struct spec_mount *like)
{
	size_t i = 0;

	while (i < s->n_mounts && (strcmp(s->mounts[i].source, like->source) != 0 ||
				   strcmp(place(&s->mounts[i]), place(like)) != 0))
		i++;
	return i;
}

void spec_keep_layers(struct spec *new, const struct spec *old, int fresh)
{
	for (size_t i = 0; i < new->n_mounts; i++) {
		size_t was = spec_find_mount(old, &new->mounts[i]);
		int n;

		if (was == i && i < old->n_mounts) {
			new->mounts[i].layer = old->mounts[i].layer;
			continue;
		}
		n = was == old->n_mounts ? fresh++ : spec_layer_number(old, was);
		new->mounts[i].layer = n == (int)i ? -1 : n;
	}
}

bool spec_path_below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

size_t spec_skips(const struct spec *s, size_t i, const char **ret, size_t max)
{
	const char *dir = place(&s->mounts[i]);
	size_t len = strlen(dir), n = 0;

	for (size_t k = 0; k < s->n_mounts + s->mask.n; k++) {
		const char *path = k < s->n_mounts ? place(&s->mounts[k])
						   : s->mask.v[k - s->n_mounts];

		if (k == i || !spec_path_below(path, dir) || !path[len])
			continue;
		if (n < max)
			ret[n] = path + len + 1;
		n++;
	}
	return n;
}
