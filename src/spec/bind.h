/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind - from a node tree to struct spec (or to validated JSON), by tables.
 *
 * A table row (struct field) names a key, its kind and where its value lives. A kind is
 * everything one can do with such a value: read it from a node, release, copy, compare
 * and write it. So parse, set, copy, merge and print all walk the same tables, and a new
 * key is one new row.
 *
 * Theory of operation: binding goes on after a problem, so that all are found; the caller
 * binds into a copy and throws that away if there was any. In append mode (one key by its
 * dotted name) lists and maps grow by one element instead of being replaced, and NULL
 * puts a key back to its default.
 */
#ifndef COVE_SPEC_BIND_H
#define COVE_SPEC_BIND_H

#include "spec/node.h"
#include "spec/spec.h"

#define BIND_DEPTH_MAX (2 * NODE_DEPTH_MAX)

struct bind {
	struct problems *p;
	bool append;      /* one key, by spec_set() */
	bool project;     /* from a project's own file, which may ask for less */
	const char *file; /* that file, when it is applied; NULL: no project's */
	size_t depth;
	struct step { /* a key, or without one the number of an element */
		const char *key;
		size_t i;
	} path[BIND_DEPTH_MAX]; /* "network.rules[2]"; made text when it is needed */
};

struct field {
	const char *key;
	const struct kind *kind;
	size_t offset;   /* in struct spec; unused when the value goes to JSON */
	const void *arg; /* of the kind: names of an enum, range, check, table */
	uint32_t limit;  /* LIMIT_*: asking for it is remembered */
	bool required;   /* in an element of a list */
	uint64_t given;  /* bit in spec.given */
	size_t max;      /* elements, if it is a list; 0: SPEC_LIST_MAX */
};

static inline size_t field_max(const struct field *f)
{
	return f->max ? f->max : SPEC_LIST_MAX;
}

struct kind {
	/* base is a struct spec, or the json_t object under construction. */
	void (*bind)(struct bind *b, const struct field *f, void *base,
		     const struct node *n);
	/* The others are for struct spec only. */
	void (*clear)(const struct field *f, struct spec *s);
	int (*copy)(const struct field *f, struct spec *dst, const struct spec *src);
	bool (*same)(const struct field *f, const struct spec *a, const struct spec *b);
	json_t *(*dump)(const struct field *f, const struct spec *s, bool explicit_only);
	/* merge: NULL means copy */
	int (*merge)(const struct field *f, struct spec *dst, const struct spec *src);
};

struct object {
	const struct field *fields;
	size_t n;
	const char *example;   /* for "expected a map, such as ..." */
	const char *short_key; /* a bare scalar is the value of this key */
	const char *unique;    /* in a list: no two elements agree in this key */
	/* A bare scalar as element of a list. */
	void (*shorthand)(struct bind *b, json_t *object, const struct node *n);
	/* Checks between the keys of one element. */
	void (*finish)(struct bind *b, json_t *object, const struct node *n);
};

/* Rows of tables: a key whose place is in its arg or in the element; one that must be
 * there. */
#define ITEM(key_, kind_, arg_) \
	{ \
		.key = key_, .kind = &kind_, .arg = arg_ \
	}
#define REQUIRED(key_, kind_, arg_) \
	{ \
		.key = key_, .kind = &kind_, .arg = arg_, .required = true \
	}

extern const struct object spec_object; /* the whole schema */
extern const struct object config_object;
extern const struct object mount_object, backend_object, agent_object, route_object,
	provider_object;

/* Binds root over *s, unless there is any problem (those of the reader included). */
int bind_spec(struct bind *b, struct spec *s, const struct node *root,
	      struct buf *problems, struct cove_error *err);

/* ---- for kinds ------------------------------------------------------------------ */

void complain(struct bind *b, const struct node *n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* before = troubles(b); ...; went_well(b, before): no problem since then, and memory. */
static inline size_t troubles(const struct bind *b)
{
	return b->p->n + b->p->more;
}
static inline bool went_well(const struct bind *b, size_t before)
{
	return !b->p->nomem && troubles(b) == before;
}
size_t path_push(struct bind *b, const char *key);
size_t path_push_index(struct bind *b, size_t i);
void path_pop(struct bind *b, size_t saved);

/* Binds every key of map n by the table; unknown keys are complained about. */
void bind_object(struct bind *b, const struct object *o, void *base,
		 const struct node *n);

/* A scalar's text, or NULL after a complaint that ends in what is allowed. */
const char *bind_text(struct bind *b, const struct node *n, const char *allowed);
/* The index of n's text in names, or -1 after a complaint. */
int bind_enum(struct bind *b, const struct node *n, const char *const *names);

typedef const char *check_fn(const char *text);
struct text_rule {
	check_fn *check;
	const char *allowed; /* "a path", for other types of node */
	bool fold;           /* to lower case */
};
/* A new string, checked and folded; NULL after a complaint or without memory. */
char *bind_string(struct bind *b, const struct node *n, const struct text_rule *rule);

struct number_rule {
	uint64_t unit;       /* bytes or ms of a bare number */
	uint64_t min, max;   /* inclusive */
	bool zero;           /* 0 is allowed too: no limit */
	const char *allowed; /* "MiB as a number or a size such as 2GiB" */
};

/* One element of a list as a JSON object, or NULL (complaint, no memory). */
json_t *bind_element(struct bind *b, const struct object *o, const struct node *n);
void json_put(struct bind *b, json_t *object, const char *key, json_t *value);

/* ---- kinds ---------------------------------------------------------------------- */

extern const struct kind kind_object;  /* arg: struct object */
extern const struct kind kind_body;    /* defaults of a config file; arg: spec_object */
extern const struct kind kind_enum;    /* arg: names, NULL-terminated */
extern const struct kind kind_string;  /* arg: struct text_rule */
extern const struct kind kind_size;    /* arg: struct number_rule */
extern const struct kind kind_time;    /* arg: struct number_rule */
extern const struct kind kind_cpus;    /* arg: struct number_rule, in thousandths */
extern const struct kind kind_count;   /* arg: struct number_rule */
extern const struct kind kind_flag;    /* true or false */
extern const struct kind kind_strings; /* arg: struct text_rule */
extern const struct kind kind_env;
extern const struct kind kind_mounts;
extern const struct kind kind_backend;
extern const struct kind kind_image;
extern const struct kind kind_list;     /* arg: struct object of an element */
extern const struct kind kind_commands; /* list of commands */
extern const struct kind kind_gate;     /* arg: struct object */

extern const struct kind item_enum;  /* arg: names */
extern const struct kind item_text;  /* arg: struct text_rule */
extern const struct kind item_texts; /* arg: struct text_rule */
extern const struct kind item_some;  /* one text or a list; arg: struct text_rule */
extern const struct kind item_ports; /* a port or a range, or a list of them */
extern const struct kind item_scope; /* text, or a map; arg: struct object */
extern const struct kind
	item_end; /* of a published port; arg: struct text_rule of a path */
extern const struct kind item_flag;    /* true or false */
extern const struct kind item_number;  /* arg: struct number_rule */
extern const struct kind item_seconds; /* arg: struct number_rule */
extern const struct kind item_mib;     /* arg: struct number_rule */
extern const struct kind item_command; /* string or list of strings */
extern const struct kind item_map;     /* arg: struct object */

extern const char *const mount_modes[];
extern const char *const backend_names[];
extern char spec_default_user[], spec_default_workdir[];

#endif
