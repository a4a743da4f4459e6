/* SPDX-License-Identifier: Apache-2.0 */
#include "os/manifest.h"

#include "base/io.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

#define HEAD "cove-manifest 1\n"
#define ENTRIES_MAX (16u << 20)

static int64_t ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

void manifest_init(struct manifest *m)
{
	*m = (struct manifest){0};
	buf_init(&m->paths, MANIFEST_MAX);
}

void manifest_clear(struct manifest *m)
{
	free(m->v);
	buf_clear(&m->paths);
	manifest_init(m);
}

static int append(struct manifest *m, const struct manifest_entry *e)
{
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 256;
		struct manifest_entry *v =
			m->n < ENTRIES_MAX ? realloc(m->v, cap * sizeof(*v)) : NULL;

		if (!v)
			return -ENOMEM;
		m->v = v;
		m->cap = cap;
	}
	m->v[m->n++] = *e;
	m->sorted = false;
	return 0;
}

int manifest_add(struct manifest *m, const struct stat *st, const char *prefix,
		 const char *path)
{
	struct manifest_entry e = {.dev = st->st_dev,
				   .ino = st->st_ino,
				   .size = (uint64_t)st->st_size,
				   .mtime_ns = ns(&st->st_mtim),
				   .ctime_ns = ns(&st->st_ctim),
				   .path = m->paths.len};
	int r = buf_puts(&m->paths, prefix);

	if (r == 0)
		r = buf_append(&m->paths, "/", 1);
	if (r == 0)
		r = buf_append(&m->paths, path, strlen(path) + 1);
	return r < 0 ? r : append(m, &e);
}

static int by_inode(const void *a, const void *b)
{
	const struct manifest_entry *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->dev < y->dev ? -1 : x->dev > y->dev;
}

const char *manifest_find(struct manifest *m, const struct stat *st)
{
	struct manifest_entry key = {.dev = st->st_dev, .ino = st->st_ino};
	const struct manifest_entry *e;

	if (!m->sorted && m->n)
		qsort(m->v, m->n, sizeof(*m->v), by_inode);
	m->sorted = true;
	e = m->n ? bsearch(&key, m->v, m->n, sizeof(*m->v), by_inode) : NULL;
	if (!e || e->size != (uint64_t)st->st_size || e->mtime_ns != ns(&st->st_mtim) ||
	    e->ctime_ns != ns(&st->st_ctim))
		return NULL;
	return m->paths.data + e->path;
}

/* "DEV INO SIZE MTIME CTIME PATH" and a NUL, since a path may hold anything else. */
int manifest_print(const struct manifest *m, struct buf *out)
{
	int r = buf_puts(out, HEAD);

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		const struct manifest_entry *e = &m->v[i];

		r = buf_printf(out,
			       "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64
			       " %s",
			       e->dev, e->ino, e->size, e->mtime_ns, e->ctime_ns,
			       m->paths.data + e->path);
		if (r == 0)
			r = buf_append(out, "", 1);
	}
	return r;
}

static int parse_one(struct manifest *m, const char *line)
{
	struct manifest_entry e = {.path = m->paths.len};
	int at = 0, r;

	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 "%n",
		   &e.dev, &e.ino, &e.size, &e.mtime_ns, &e.ctime_ns, &at) != 5 ||
	    at == 0 || line[at] != ' ' || !path_stays_below(line + at + 1))
		return -EBADMSG;
	line += at + 1;
	r = buf_append(&m->paths, line, strlen(line) + 1);
	return r < 0 ? r : append(m, &e);
}

int manifest_parse(struct manifest *m, const char *text, size_t n)
{
	size_t at = strlen(HEAD);
	int r = n < at || memcmp(text, HEAD, at) != 0 ? -EBADMSG : 0;

	while (r == 0 && at < n) {
		const char *end = memchr(text + at, '\0', n - at);

		r = end ? parse_one(m, text + at) : -EBADMSG;
		at = end ? (size_t)(end - text) + 1 : n;
	}
	if (r < 0)
		manifest_clear(m);
	return r;
}
