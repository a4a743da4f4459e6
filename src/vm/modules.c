/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/modules.h"

#include "base/util.h"

#include <stdio.h>

#define DEPTH_MAX 16 /* of dependencies: four, in real kernels */

/* What a guest is made of. Without a MUST nothing works, or not safely; the rest is left
 * out where the kernel does not have it. The first one is asked for by what it does, not
 * by its name, so no dependency tells of it. */
enum { MUST = true, MAY = false };
static const struct need {
	const char *name;
	bool must;
	const char *why;
} needs[] = {
	{"crc32c_generic", MAY,  "checksums of libcrc32c, ext4 and erofs"             },
	{"virtio_mmio",    MUST, "devices of a microvm"                               },
	{"virtio_pci",     MAY,  "devices of a machine with PCI"                      },
	{"virtio_console", MUST, "the ports: link, files, network"                    },
	{"virtio_rng",     MAY,  "seeds the random numbers of the kernel"             },
	{"virtio_balloon", MAY,  "gives unused memory back to the host"               },
	{"virtio_blk",     MUST, "disks"					      },
	{"fuse",           MUST, "the root file system, served by the host"           },
	{"overlay",        MUST, "a writable layer over a read-only image"            },
	{"erofs",          MAY,  "images on a disk"                                   },
	{"ext4",           MUST, "a disk of the sandbox's own"                        },
	{"nf_tables",      MUST, "the rule that catches connections (os/netcapture.h)"},
	{"nft_tproxy",     MUST, "its verdict, for IPv4 and IPv6"                     },
	{"inet_diag",      MAY,  "which command a connection is of"                   },
	{"tcp_diag",       MAY,  "the same"					   },
	{"udp_diag",       MAY,  "the same, of name lookups"                          },
};

void module_set_clear(struct module_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		buf_clear(&s->v[i].content);
	free(s->v);
	*s = (struct module_set){0};
}

/* ---- collecting ---------------------------------------------------------------- */

struct collector {
	const struct module_source *source;
	struct module_set set;
	char open[DEPTH_MAX][MODULE_NAME_MAX + 1]; /* whose dependencies are looked at */
	unsigned depth;
};

/* The verdict of the source about one module: it is added, it is not there, or a code. */
enum { ABSENT = 0, ADDED = 1 };
static int add(struct collector *c, const char *name, struct cove_error *err);

static bool has(const struct collector *c, const char *name)
{
	for (size_t i = 0; i < c->set.n; i++)
		if (strcmp(c->set.v[i].name, name) == 0)
			return true;
	return c->source->built_in(c->source->arg, name);
}

/* Calls add() for each name of a list; a soft one need not be there. */
static int add_list(struct collector *c, const char *list, const char *separators,
		    bool soft, struct cove_error *err)
{
	for (const char *p = list + strspn(list, separators); *p;) {
		size_t n = strcspn(p, separators);
		char name[MODULE_NAME_MAX + 1];
		int r;

		if (n > MODULE_NAME_MAX)
			return fail(err, COVE_EDAMAGED, 0, "the name of a dependency");
		memcpy(name, p, n);
		name[n] = '\0';
		for (char *q = name; *q; q++)
			*q = *q == '-' ? '_' : *q;
		r = add(c, name, err);
		if (r < 0 || (r == ABSENT && !soft))
			return r;
		p += n;
		p += strspn(p, separators);
	}
	return ADDED;
}

/* "pre: a b post: c": those before. They are often named by what they do, which no source
 * can find; the table has those that matter. */
static int add_soft(struct collector *c, const char *text, struct cove_error *err)
{
	const char *pre = strstr(text, "pre:"), *post = strstr(text, "post:");
	cleanup_free char *list = NULL;

	if (!pre || (post && post < pre))
		return ADDED;
	pre += 4;
	list = post ? strndup(pre, (size_t)(post - pre)) : strdup(pre);
	return list ? add_list(c, list, " ", true, err) : fail_nomem(err);
}

static int add_dependencies(struct collector *c, const struct buf *content,
			    struct cove_error *err)
{
	const char *info, *value;
	size_t len, pos = 0;
	int r = ADDED;

	if (modinfo_find(content->data, content->len, &info, &len) < 0)
		return fail(err, COVE_EDAMAGED, 0, "not a kernel module");
	while (r == ADDED && (value = modinfo_next(info, len, &pos, "softdep")))
		r = add_soft(c, value, err);
	pos = 0;
	while (r == ADDED && (value = modinfo_next(info, len, &pos, "depends")))
		r = add_list(c, value, ",", false, err);
	return r;
}

static int append(struct collector *c, const char *name, struct buf *content,
		  struct cove_error *err)
{
	struct module *v;

	if (c->set.n == MODULES_MAX)
		return fail(err, COVE_EDAMAGED, 0, "more than %d modules", MODULES_MAX);
	v = reallocarray(c->set.v, c->set.n + 1, sizeof(*v));
	if (!v)
		return fail_nomem(err);
	c->set.v = v;
	v += c->set.n++;
	*v = (struct module){.content = *content};
	snprintf(v->name, sizeof(v->name), "%s", name);
	*content = (struct buf)BUF_INIT(MODULE_MAX);
	return ADDED;
}

static int open_module(struct collector *c, const char *name, struct cove_error *err)
{
	for (unsigned i = 0; i < c->depth; i++)
		if (strcmp(c->open[i], name) == 0)
			return fail(err, COVE_EDAMAGED, 0, "it depends on itself");
	if (c->depth == DEPTH_MAX)
		return fail(err, COVE_EDAMAGED, 0, "too many dependencies in a row");
	snprintf(c->open[c->depth++], sizeof(c->open[0]), "%s", name);
	return 0;
}

/* What it depends on, then it. */
static int add(struct collector *c, const char *name, struct cove_error *err)
{
	cleanup_buf struct buf content = BUF_INIT(MODULE_MAX);
	int r;

	if (has(c, name))
		return ADDED;
	r = c->source->read(c->source->arg, name, &content, err);
	if (r == ABSENT)
		return ABSENT;
	if (r > 0) {
		content.len =
			content.len ? module_unsigned_size(content.data, content.len) : 0;
		r = open_module(c, name, err);
	}
	if (r == 0)
		r = add_dependencies(c, &content, err);
	if (r == ADDED) {
		c->depth--;
		r = append(c, name, &content, err);
	} else if (r == ABSENT) {
		c->depth--;
	}
	return r < 0 ? wrap(err, "module %s", name) : r;
}

static int add_need(struct collector *c, const struct need *n, struct cove_error *err)
{
	size_t before = c->set.n;
	int r = add(c, n->name, err);

	if (r != ABSENT)
		return r < 0 ? r : 0;
	while (c->set.n > before) /* what it alone would have needed */
		buf_clear(&c->set.v[--c->set.n].content);
	if (!n->must)
		return 0;
	return fail(err, COVE_EUNSUPPORTED, 0, "the kernel has no %s (%s)", n->name,
		    n->why);
}

int modules_collect(struct module_set *ret, const struct module_source *source,
		    struct cove_error *err)
{
	struct collector c = {.source = source};

	for (size_t i = 0; i < ARRAY_LEN(needs); i++)
		if (add_need(&c, &needs[i], err) < 0) {
			module_set_clear(&c.set);
			return err->code;
		}
	*ret = c.set;
	return 0;
}
