/* SPDX-License-Identifier: Apache-2.0 */
/* swap_impl - the table behind swap.h, shared by its files only. */
#ifndef COVE_EGRESS_SWAP_IMPL_H
#define COVE_EGRESS_SWAP_IMPL_H

#include "base/needles.h"
#include "base/util.h"
#include "egress/swap.h"

#define SWAP_HOSTS_MAX 64 /* patterns of one secret */

struct swap_secret {
	char *name;
	unsigned char *placeholder;
	size_t n_placeholder;
	unsigned char *value; /* locked */
	size_t n;
	char **host; /* patterns */
	size_t n_hosts;
	size_t lead, core; /* of the value, without white space around it */
	bool line_safe;    /* no control characters: may be in a header */
	bool no_breaks;    /* no CR, LF, NUL: may be in a target */
};

/* One way a value can be written in a response, and what it becomes there: as long, and
 * the placeholder in the same writing. */
struct swap_form {
	unsigned secret;
	const unsigned char *from, *to; /* locked */
	size_t n;
	/* base64: of the next character, `tail_mask` belongs to the value too. */
	uint8_t tail_mask, tail_from, tail_to;
	bool url;
};

struct swap_table {
	struct swap_secret secret[SWAP_MAX];
	size_t n;
	struct needles
		*out; /* placeholders; locked like the others for one way of freeing */
	struct needles
		*find; /* placeholders, and in base64; ids beyond n map by find_of */
	unsigned *find_of;
	struct needles *back;  /* values in their forms; NULL: none is long enough */
	struct needles *plain; /* values as they are, to be found in views; as many */
	unsigned *plain_of;
	bool spaces; /* some value has one */
	struct swap_form *form;
	size_t n_forms;
	unsigned char *bytes; /* behind the forms */
	unsigned char *marks; /* placeholders in base64 */
};

/* swap_form.c */
enum { SWAP_BASE64_SETS = 6 }; /* three alignments, two alphabets */
struct swap_arena {
	unsigned char *mem; /* NULL: only measures */
	size_t used;
};
size_t swap_base64(const unsigned char *p, size_t n, unsigned align, bool url,
		   struct swap_arena *a, unsigned *ret_tail_bits, uint8_t *ret_tail);
int swap_base64_value(unsigned char c, bool url); /* -1: none */
char swap_base64_char(unsigned v, bool url);
unsigned char swap_stand_in(const struct swap_secret *s, size_t i); /* for core byte i */
/* Appends every form of one secret; with f NULL only counts. */
size_t swap_forms(const struct swap_secret *s, unsigned id, struct swap_arena *a,
		  struct swap_form *f);

/* swap_escape.c: one byte as `where` writes it; up to 6 bytes. */
size_t swap_percent(unsigned char c, bool always, char out[6]);
size_t swap_json(unsigned char c, bool always, char out[6]);
size_t swap_escape(enum swap_where where, unsigned char c, char out[6]);

bool swap_is_mark(unsigned char c); /* a placeholder consists of these */

/* Has the text before a place begun an escape that the next bytes would end? Then a value
 * put there would lose its beginning to it: \ and "npm_..." are a line break and
 * "pm_...".
 */
struct swap_open {
	uint8_t percent; /* 1: after %, 2: and a digit */
	uint8_t slash;   /* 1: after \, 2 to 5: \u or \x and digits */
};
#define SWAP_OPEN_BYTES 8 /* no escape is longer */
void swap_open_step(struct swap_open *s, const unsigned char *p, size_t n);

/* swap_view.c: a text, or another view, with its escapes taken back. */
enum swap_code {
	SWAP_CODE_MARKS, /* %41 and \u0041, where a placeholder's characters need none */
	SWAP_CODE_PERCENT,
	SWAP_CODE_JSON,
	SWAP_CODE_HTML,
	SWAP_CODE_FORM, /* percent, and + for a space */
};
struct swap_run {
	uint32_t at, place; /* from here on, a byte of the view for a byte of the text */
};
struct swap_view {
	const struct swap_view *of; /* NULL: of the text itself */
	const unsigned char *p;
	size_t n;           /* bytes of the view */
	size_t cut;         /* bytes of the text that it stands for */
	unsigned char *own; /* storage; NULL: p is the text */
	struct swap_run *run;
	size_t size, n_runs, room;
};
/* p, n: the text, or what the view `of` shows. 1: it differs from that, or ends before it
 * because that ends inside an escape; 0: it would be the same. */
int swap_view(struct swap_view *v, enum swap_code code, const struct swap_view *of,
	      const unsigned char *p, size_t n, bool last);
void swap_view_clear(struct swap_view *v);
/* Where a byte of the view is in the text. */
size_t swap_place(const struct swap_view *v, size_t at);
/* Where the escape begins that a place in the text is inside of; else the place. */
size_t swap_floor(const struct swap_view *v, size_t place);

/* swap_scan.c: the values in a text, in order of where they begin. */
struct swap_span {
	size_t at, end; /* of the text */
	unsigned secret;
	const struct swap_form *form; /* NULL: it is escaped, and found in a view */
	const struct swap_view *view;
	size_t view_at;
};
#define SWAP_VIEWS 6
struct swap_scan {
	const struct swap_table *t;
	uint64_t wanted; /* secrets that are looked for */
	struct swap_view view[SWAP_VIEWS];
	struct swap_finder {
		const struct needles *set;
		const struct swap_view *view; /* NULL: the text */
		const unsigned char *p;
		size_t n, from;
		bool found;
		struct swap_span span;
	} finder[SWAP_VIEWS + 1];
	size_t n_finders;
};
int swap_scan_begin(struct swap_scan *s, const struct swap_table *t, uint64_t wanted,
		    const unsigned char *p, size_t n);
bool swap_scan_next(struct swap_scan *s, struct swap_span *ret); /* false: no more */
/* What is left for the next piece must not begin inside an escape, which nobody could see
 * then: a place at or before this one where it may. */
size_t swap_scan_floor(const struct swap_scan *s, size_t place);
void swap_scan_end(struct swap_scan *s);

/* swap_out.c: a piece of a request. Decides the first *ret_used bytes and appends what
 * they become; out NULL: only judges. A violation ends it. */
struct swap_request {
	const struct swap_table *t;
	uint64_t allowed; /* secrets that may go there */
	enum swap_where where;
	bool basic;            /* the credentials of Basic */
	bool keep;             /* lengths must stay */
	struct swap_open open; /* before the piece */
};
void swap_note_use(struct swap_outcome *o, const char *name);
uint64_t swap_allowed(const struct swap_table *t, const char *host, bool verified);
int swap_out(struct swap_request *q, const unsigned char *p, size_t n, bool last,
	     struct buf *out, struct swap_outcome *o, size_t *ret_used);

#endif
