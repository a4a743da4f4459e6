/* SPDX-License-Identifier: Apache-2.0 */
/* hosts - the text of /etc/hosts as a table: sorted by name, then by place in the file.
 */
#include "egress/hosts.h"

#include "base/buf.h"
#include "base/util.h"
#include "policy/host.h"

struct entry {
	uint32_t name;  /* offset in text; offsets grow with the place in the file */
	uint32_t order; /* of the entry */
	struct addr addr;
};

struct hosts {
	struct buf text; /* the names, each with its NUL */
	struct entry *entry;
	size_t n, room;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The next word of a line; its length, 0 at the end. */
static size_t next_word(const char **p, const char *end)
{
	size_t n = 0;

	while (*p < end && is_space(**p))
		(*p)++;
	while (*p + n < end && !is_space((*p)[n]))
		n++;
	return n;
}

static int add(struct hosts *h, const char *name, const struct addr *a)
{
	uint32_t at = (uint32_t)h->text.len;

	if (h->n == h->room) {
		size_t room = h->room ? h->room * 2 : 64;
		struct entry *p = reallocarray(h->entry, room, sizeof(*p));

		if (!p)
			return -ENOMEM;
		h->entry = p;
		h->room = room;
	}
	int r = buf_append(&h->text, name, strlen(name) + 1);

	if (r < 0)
		return r;
	h->entry[h->n] = (struct entry){at, (uint32_t)h->n, *a};
	h->n++;
	return 0;
}

static int parse_line(struct hosts *h, const char *p, const char *end)
{
	char text[ADDR_TEXT], name[HOST_MAX + 1];
	struct addr a;
	size_t n = next_word(&p, end);
	int r = 0;

	if (!n || n >= sizeof(text))
		return 0;
	memcpy(text, p, n);
	text[n] = '\0';
	if (addr_parse(text, &a) < 0)
		return 0;
	for (p += n; r == 0 && h->n < HOSTS_MAX && (n = next_word(&p, end)); p += n)
		if (host_normalise(p, n, name) == 0)
			r = add(h, name, &a);
	return r;
}

static int by_name(const void *pa, const void *pb, void *text)
{
	const struct entry *a = pa, *b = pb;
	int c = strcmp((const char *)text + a->name, (const char *)text + b->name);

	return c ? c : (a->order > b->order) - (a->order < b->order);
}

int hosts_parse(const char *text, size_t n, struct hosts **ret)
{
	const char *end = text + n;
	struct hosts *h = calloc(1, sizeof(*h));
	int r = h ? 0 : -ENOMEM;

	if (!h)
		return r;
	buf_init(&h->text, (size_t)HOSTS_MAX * (HOST_MAX + 1));
	while (r == 0 && text < end) {
		const char *line = text;
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		const char *stop = nl ? nl : end;
		const char *comment = memchr(line, '#', (size_t)(stop - line));

		r = parse_line(h, line, comment ? comment : stop);
		text = nl ? nl + 1 : end;
	}
	if (r < 0) {
		hosts_free(h);
		return -ENOMEM;
	}
	if (h->n)
		qsort_r(h->entry, h->n, sizeof(*h->entry), by_name, h->text.data);
	*ret = h;
	return 0;
}

void hosts_free(struct hosts *h)
{
	if (!h)
		return;
	buf_clear(&h->text);
	free(h->entry);
	free(h);
}

size_t hosts_find(const struct hosts *h, const char *name, struct addr *ret, size_t max)
{
	size_t low = 0, high = h ? h->n : 0, n = 0;

	while (low < high) { /* the first that is not less */
		size_t mid = low + (high - low) / 2;

		if (strcmp(h->text.data + h->entry[mid].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; h && low < h->n && n < max; low++) {
		if (strcmp(h->text.data + h->entry[low].name, name) != 0)
			break;
		ret[n++] = h->entry[low].addr;
	}
	return n;
}
