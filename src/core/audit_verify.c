/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_verify - is the log what was written?
 *
 * One pass checks each record's hash, then that it follows the one before; the first
 * thing wrong is named with its place. A record out of order is looked for in the rest of
 * the log, to tell one that was moved from one that was removed.
 */
#include "core/audit_impl.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

struct drop { /* of a "rotated" record: where the chain may begin */
	uint64_t seq;
	char hash[AUDIT_HEX + 1];
};

struct check {
	const struct audit_key *key;
	const struct audit_files *files;
	const char *name;
	uint64_t records;
	struct audit_record first, last;
	bool matched_any; /* some record fits the key */
	bool head_seen;
	struct drop drops[64]; /* the newest ones */
	size_t n_drops;
	/* what is wrong */
	struct audit_line at; /* text is not valid any more */
	struct audit_record found;
	char what[200];
	bool out_of_order;
};

static int wrong(struct check *c, const struct audit_line *l,
		 const struct audit_record *r, const char *what)
{
	c->at = *l;
	c->found = r ? *r : (struct audit_record){.seq = 0};
	snprintf(c->what, sizeof(c->what), "%s", what);
	return 1;
}

static json_t *parse_json(const char *text, size_t n)
{
	return json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
}

static void note_drop(struct check *c, const struct audit_line *l)
{
	json_t *j = parse_json(l->text, l->n);
	const char *hash = json_string_value(json_object_get(j, "lastHash"));
	json_int_t seq = json_integer_value(json_object_get(j, "lastSeq"));

	if (hash && strlen(hash) == AUDIT_HEX && seq > 0) {
		struct drop *d = &c->drops[c->n_drops++ % ARRAY_LEN(c->drops)];

		d->seq = (uint64_t)seq;
		memcpy(d->hash, hash, sizeof(d->hash));
	}
	json_decref(j);
}

/* The first record says whose log it is. */
static bool other_name(const struct check *c, const struct audit_line *l)
{
	json_t *j = parse_json(l->text, l->n);
	const char *name = json_string_value(json_object_get(j, "sandbox"));
	bool other = !name || strcmp(name, c->name) != 0;

	json_decref(j);
	return other;
}

static int check_order(struct check *c, const struct audit_line *l,
		       const struct audit_record *r)
{
	char text[160];

	if (r->seq != c->last.seq + 1) {
		c->out_of_order = true;
		snprintf(text, sizeof(text), "stands where record %" PRIu64 " should be",
			 c->last.seq + 1);
		return wrong(c, l, r, text);
	}
	if (strcmp(r->prev, c->last.hash) != 0)
		return wrong(c, l, r,
			     "does not follow the record before it, which was replaced");
	return 0;
}

static int check_line(void *arg, const struct audit_line *l)
{
	struct check *c = arg;
	struct audit_record r;
	char hash[AUDIT_HEX + 1];

	/* A writer that was killed leaves half a line, which the next one cuts off. */
	if (!l->whole && l->file == c->files->n - 1)
		return 0;
	if (!l->whole || audit_parse(l->text, l->n, &r) < 0)
		return wrong(c, l, NULL, "is not a record: edited");
	audit_hash(c->key, l->text, l->n, hash);
	if (strcmp(hash, r.hash) != 0)
		return wrong(c, l, &r, "was edited: its hash does not fit");
	c->matched_any = true;
	if (c->records && check_order(c, l, &r))
		return 1;
	if (r.seq == 1 && other_name(c, l))
		return wrong(c, l, &r, "is of another sandbox's log");
	if (r.seq == c->files->head.seq) {
		c->head_seen = true;
		if (strcmp(r.hash, c->files->head.hash) != 0)
			return wrong(c, l, &r, "was replaced: the head knows another");
	}
	if (strcmp(r.event, "rotated") == 0)
		note_drop(c, l);
	if (c->records++ == 0)
		c->first = r;
	c->last = r;
	return 0;
}

/* ---- moved or removed? ----------------------------------------------------------- */

struct hunt {
	uint64_t want;
	bool found;
};

static int look_for(void *arg, const struct audit_line *l)
{
	struct hunt *h = arg;
	struct audit_record r;

	h->found = audit_parse(l->text, l->n, &r) == 0 && r.seq == h->want;
	return h->found;
}

static void explain_order(struct check *c, char *out, size_t size)
{
	struct hunt h = {.want = c->last.seq + 1};
	uint64_t got = c->found.seq;

	if (got < h.want) {
		snprintf(out, size, "it was copied there, or moved");
		return;
	}
	audit_files_each(c->files, 0, 0, look_for, &h);
	if (h.found)
		snprintf(out, size, "the order was changed");
	else if (got == h.want + 1)
		snprintf(out, size, "record %" PRIu64 " was removed", h.want);
	else
		snprintf(out, size, "records %" PRIu64 " to %" PRIu64 " were removed",
			 h.want, got - 1);
	if (!h.found && strcmp(c->found.event, "recovered") == 0)
		snprintf(out, size,
			 "records %" PRIu64 " to %" PRIu64
			 " were cut off, or lost with the host's power, before it",
			 h.want, got - 1);
}

/* ---- verdict --------------------------------------------------------------------- */

static int say_line(struct check *c, struct cove_error *err)
{
	char file[32], more[160] = "", record[48] = "";

	audit_file_name(c->files->index[c->at.file], file, sizeof(file));
	if (c->out_of_order)
		explain_order(c, more, sizeof(more));
	if (c->found.seq)
		snprintf(record, sizeof(record), "record %" PRIu64 " ", c->found.seq);
	if (!c->matched_any && c->files->head.foreign)
		return fail(err, COVE_EDAMAGED, 0,
			    "%s: the log was written with another key than the one in "
			    "audit.key",
			    c->name);
	return fail(err, COVE_EDAMAGED, 0, "%s: %s line %" PRIu64 ": %s%s%s%s", c->name,
		    file, c->at.number, record, c->what, *more ? ": " : "", more);
}

/* The chain begins with the first record, or where a rotation said. */
static bool begins_well(const struct check *c)
{
	size_t n = c->n_drops < ARRAY_LEN(c->drops) ? c->n_drops : ARRAY_LEN(c->drops);

	if (c->first.seq == 1)
		return c->first.prev[0] == '\0';
	for (size_t i = 0; i < n; i++)
		if (c->drops[i].seq + 1 == c->first.seq &&
		    strcmp(c->drops[i].hash, c->first.prev) == 0)
			return true;
	return false;
}

static int check_ends(struct check *c, struct cove_error *err)
{
	const struct audit_head *h = &c->files->head;

	if (c->records && !begins_well(c))
		return fail(err, COVE_EDAMAGED, 0,
			    "%s: the beginning is missing: the first record is %" PRIu64,
			    c->name, c->first.seq);
	if (h->seq > c->last.seq)
		return fail(err, COVE_EDAMAGED, 0,
			    "%s: the end is cut off: the last record is %" PRIu64
			    ", the head knows %" PRIu64,
			    c->name, c->last.seq, h->seq);
	if (h->damaged)
		return fail(err, COVE_EDAMAGED, 0, "%s: %s was edited", c->name,
			    AUDIT_HEAD);
	/* The head is written after its record: only the very first may be without. */
	if (!h->seq && c->records > 1)
		return fail(err, COVE_EDAMAGED, 0, "%s: %s is missing", c->name,
			    AUDIT_HEAD);
	if (h->seq && !c->head_seen && h->seq >= c->first.seq)
		return fail(err, COVE_EDAMAGED, 0, "%s: %s does not fit", c->name,
			    AUDIT_HEAD);
	return 0;
}

/* A log without records needs no key, and none is made for it. */
static int load_key(struct store *st, struct audit_key *key, bool *ret_missing,
		    struct cove_error *err)
{
	int r = audit_key_load(st, false, key, err);

	*ret_missing = r == COVE_EIO && err->sys == ENOENT;
	return *ret_missing ? 0 : r;
}

int audit_verify(struct store *st, const char *name, uint64_t *ret_records,
		 struct cove_error *err)
{
	struct audit_key key = {{0}, ""};
	struct check c = {.key = &key, .name = name};
	struct audit_files f;
	cleanup_fd int dir = -1;
	bool keyless;
	int r;

	if (audit_find(st, name, &dir, err) < 0 || load_key(st, &key, &keyless, err) < 0)
		return err->code;
	r = audit_files_open(&f, dir, &key);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "audit log of %s", name);
	c.files = &f;
	if (keyless && f.n)
		r = fail(err, COVE_EDAMAGED, 0,
			 "%s/%s is missing: nothing can be checked", st->home, AUDIT_KEY);
	else
		r = audit_files_each(&f, 0, 0, check_line, &c);
	if (r == 1)
		r = say_line(&c, err);
	else if (r == 0)
		r = check_ends(&c, err);
	else if (!keyless)
		fail(err, COVE_EIO, -r, "audit log of %s", name);
	audit_files_close(&f);
	if (r < 0)
		return err->code;
	if (ret_records)
		*ret_records = c.records;
	return 0;
}
