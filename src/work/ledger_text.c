/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_text - the ledger as text: a line an entry, fields separated by one space.
 *
 *	cove-ledger 1 GENERATION
 *	seen|applied sure|unsure HOST UPPER DIGEST AT:LEN PATH
 *	end COUNT
 *
 * HOST and UPPER are MODE:UID:GID:DEV:INO:SIZE:MTIME:CTIME, "-" where there was nothing;
 * DIGEST and AT:LEN (the place of the content in the pack) are "-" where there is none.
 * Numbers are hexadecimal. In PATH, bytes up to the space, '\\' and DEL are written \HH.
 */
#include "base/util.h"
#include "work/ledger_impl.h"

static const char digits[] = "0123456789abcdef";

/* ---- writing -------------------------------------------------------------------- */

#define IDENT_CHARS (8 * 17)
#define LINE_CHARS (32 + 2 * IDENT_CHARS + 65 + 2 * 17)

static char *put_text(char *to, const char *text)
{
	size_t n = strlen(text);

	memcpy(to, text, n);
	return to + n;
}

static char *put_hex(char *to, uint64_t value, char after)
{
	int shift = 60;

	while (shift && !(value >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*to++ = digits[(value >> shift) & 15];
	*to++ = after;
	return to;
}

static char *put_ident(char *to, const struct ident *id)
{
	if (!id->mode)
		return put_text(to, "- ");
	to = put_hex(to, id->mode, ':');
	to = put_hex(to, id->uid, ':');
	to = put_hex(to, id->gid, ':');
	to = put_hex(to, id->dev, ':');
	to = put_hex(to, id->ino, ':');
	to = put_hex(to, id->size, ':');
	to = put_hex(to, (uint64_t)id->mtime_ns, ':');
	return put_hex(to, (uint64_t)id->ctime_ns, ' ');
}

static bool is_plain(char c)
{
	return (unsigned char)c > ' ' && c != '\\' && c != 0x7f;
}

static char *put_path(char *to, const char *path)
{
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (is_plain(*path)) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '\\';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	return to;
}

static int put_entry(struct buf *out, const struct node *n)
{
	const struct ledger_entry *e = &n->e;
	int r = buf_reserve(out, LINE_CHARS + 3 * strlen(n->path));
	char *to;

	if (r < 0)
		return r;
	to = out->data + out->len;
	to = put_text(to, e->kind == LEDGER_SEEN ? "seen " : "applied ");
	to = put_text(to, e->sure ? "sure " : "unsure ");
	to = put_ident(to, &e->host);
	to = put_ident(to, &e->upper);
	to = put_text(put_text(to, *e->blob ? e->blob : "-"), " ");
	if (e->has_blob)
		to = put_hex(put_hex(to, n->at, ':'), n->len, ' ');
	else
		to = put_text(to, "- ");
	to = put_path(to, n->path);
	*to++ = '\n';
	*to = '\0';
	out->len = (size_t)(to - out->data);
	return 0;
}

int ledger_print(const struct ledger *g, struct buf *out)
{
	int r = table_sort(g->table);

	if (r == 0)
		r = buf_printf(out, "cove-ledger 1 %llx\n",
			       (unsigned long long)g->pack.generation);
	for (size_t i = 0; r == 0 && i < g->table->n; i++)
		r = put_entry(out, g->table->sorted[i]);
	return r < 0 ? r : buf_printf(out, "end %zx\n", g->table->n);
}

/* ---- reading -------------------------------------------------------------------- */

struct reader {
	const char *at, *end;
	bool bad;
};

static bool take_text(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
		return false;
	r->at += n;
	return true;
}

static void must(struct reader *r, const char *text)
{
	if (!r->bad && !take_text(r, text))
		r->bad = true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In the one way in which it is written: no leading zeros, no more than max. */
static uint64_t take_hex(struct reader *r, uint64_t max, const char *after)
{
	const char *begin = r->at;
	uint64_t value = 0;

	while (!r->bad && r->at < r->end && hex_value(*r->at) >= 0) {
		if (r->at - begin >= 16)
			r->bad = true;
		value = value << 4 | (uint64_t)hex_value(*r->at++);
	}
	if (r->at == begin || (*begin == '0' && r->at - begin > 1) || value > max)
		r->bad = true;
	must(r, after);
	return value;
}

static void take_ident(struct reader *r, struct ident *id)
{
	*id = (struct ident){0};
	if (r->bad || take_text(r, "- "))
		return;
	id->mode = (uint32_t)take_hex(r, UINT32_MAX, ":");
	id->uid = (uint32_t)take_hex(r, UINT32_MAX, ":");
	id->gid = (uint32_t)take_hex(r, UINT32_MAX, ":");
	id->dev = take_hex(r, UINT64_MAX, ":");
	id->ino = take_hex(r, UINT64_MAX, ":");
	id->size = take_hex(r, UINT64_MAX, ":");
	id->mtime_ns = (int64_t)take_hex(r, UINT64_MAX, ":");
	id->ctime_ns = (int64_t)take_hex(r, UINT64_MAX, " ");
	if (!id->mode)
		r->bad = true;
}

static void take_digest(struct reader *r, struct ledger_entry *e)
{
	if (r->bad || take_text(r, "- "))
		return;
	for (size_t i = 0; i < sizeof(e->blob) - 1; i++) {
		if (r->at >= r->end || hex_value(*r->at) < 0) {
			r->bad = true;
			return;
		}
		e->blob[i] = *r->at++;
	}
	must(r, " ");
}

static void take_place(struct reader *r, struct node *n)
{
	if (r->bad || take_text(r, "- "))
		return;
	n->at = take_hex(r, INT64_MAX, ":");
	n->len = (uint32_t)take_hex(r, LEDGER_BLOB_MAX, " ");
	n->e.has_blob = true;
	if (!*n->e.blob)
		r->bad = true;
}

/* No component may be empty, "." or "..", but for the path ".". */
static bool is_clean_path(const char *path)
{
	if (strcmp(path, ".") == 0)
		return true;
	for (;;) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n <= 2 && strncmp(path, "..", n) == 0))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}

static void take_path(struct reader *r, struct buf *path)
{
	path->len = 0;
	while (!r->bad && r->at < r->end && *r->at != '\n') {
		char c = *r->at++;

		if (c == '\\') {
			int hi = r->end - r->at < 2 ? -1 : hex_value(r->at[0]);
			int lo = hi < 0 ? -1 : hex_value(r->at[1]);

			c = (char)(hi * 16 + lo);
			if (lo < 0 || !c || is_plain(c))
				r->bad = true;
			r->at += r->bad ? 0 : 2;
		} else if (!is_plain(c)) {
			r->bad = true;
		}
		if (!r->bad && buf_append(path, &c, 1) < 0)
			r->bad = true;
	}
	must(r, "\n");
	if (!r->bad && (path->len == 0 || !is_clean_path(path->data)))
		r->bad = true;
}

static int take_entry(struct reader *r, struct ledger *g, struct buf *path)
{
	struct node read = {.e.kind = LEDGER_SEEN}, *n;

	if (take_text(r, "applied "))
		read.e.kind = LEDGER_APPLIED;
	else
		must(r, "seen ");
	read.e.sure = take_text(r, "sure ");
	if (!read.e.sure)
		must(r, "unsure ");
	take_ident(r, &read.e.host);
	take_ident(r, &read.e.upper);
	take_digest(r, &read.e);
	take_place(r, &read);
	take_path(r, path);
	if (r->bad || table_find(g->table, path->data))
		return -EINVAL;
	n = table_get(g->table, path->data);
	if (!n)
		return -ENOMEM;
	read.path = n->path;
	read.e.path = n->path;
	*n = read;
	return 0;
}

static int parse(struct ledger *g, struct reader *r)
{
	cleanup_buf struct buf path = BUF_INIT(LEDGER_PATH_MAX);
	int e = 0;

	must(r, "cove-ledger 1 ");
	g->pack.generation = take_hex(r, INT64_MAX, "\n");
	while (!r->bad && e == 0 && !take_text(r, "end "))
		e = take_entry(r, g, &path);
	if (e < 0)
		return e;
	if (take_hex(r, UINT64_MAX, "\n") != g->table->n || r->bad || r->at != r->end)
		return -EINVAL;
	return 0;
}

/* Into an empty ledger, which stays empty on failure. */
int ledger_parse(struct ledger *g, const char *text, size_t n)
{
	struct reader r = {.at = text, .end = text + n};
	int e = parse(g, &r);

	if (e < 0) {
		table_clear(g->table);
		g->pack.generation = 0;
	}
	return e;
}
