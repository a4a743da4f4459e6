/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/seal.h"

#include "base/io.h"
#include "base/util.h"

#include <sodium/core.h>
#include <sodium/randombytes.h>
#include <sodium/utils.h>

#define MAGIC "COVESEAL"
#define VERSION 1
#define AT_VERSION 8
#define AT_CHUNK 12
#define AT_ID 16
#define AT_NONCE (AT_ID + SEAL_ID)

#define TAG_MORE crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
#define TAG_LAST crypto_secretstream_xchacha20poly1305_TAG_FINAL

/* What goes with every chunk without being in it. */
struct ad {
	uint8_t head[AT_NONCE], index[8];
};

static void put_le(uint8_t *p, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void make_ad(struct ad *a, const struct seal *s)
{
	memcpy(a->head, s->head, sizeof(a->head));
	put_le(a->index, s->index, sizeof(a->index));
}

static int prepare(struct seal *s, int fd)
{
	*s = (struct seal){.fd = fd};
	if (sodium_init() < 0)
		return -ENOSYS;
	s->plain = malloc(SEAL_CHUNK);
	s->bytes = malloc(SEAL_CHUNK + SEAL_CHUNK_MORE);
	return s->plain && s->bytes ? 0 : -ENOMEM;
}

void seal_clear(struct seal *s)
{
	if (s->plain)
		sodium_memzero(s->plain, SEAL_CHUNK);
	free(take_ptr(s->plain));
	free(take_ptr(s->bytes));
	sodium_memzero(&s->state, sizeof(s->state));
}

/* ---- writing -------------------------------------------------------------------- */

int seal_begin(struct seal *s, int fd, const uint8_t key[SEAL_KEY])
{
	int r = prepare(s, fd);

	if (r < 0)
		return r;
	memcpy(s->head, MAGIC, 8);
	put_le(s->head + AT_VERSION, VERSION, 4);
	put_le(s->head + AT_CHUNK, SEAL_CHUNK, 4);
	randombytes_buf(s->head + AT_ID, SEAL_ID);
	crypto_secretstream_xchacha20poly1305_init_push(&s->state, s->head + AT_NONCE,
							key);
	return write_all(fd, s->head, SEAL_HEAD);
}

static int push(struct seal *s, bool last)
{
	struct ad a;
	int r;

	make_ad(&a, s);
	crypto_secretstream_xchacha20poly1305_push(&s->state, s->bytes, NULL, s->plain,
						   s->len, (const uint8_t *)&a, sizeof(a),
						   last ? TAG_LAST : TAG_MORE);
	r = write_all(s->fd, s->bytes, s->len + SEAL_CHUNK_MORE);
	s->index++;
	s->len = 0;
	s->last = last;
	return r;
}

int seal_write(struct seal *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	int r = 0;

	while (n && r == 0) {
		size_t some = min_size(n, SEAL_CHUNK - s->len);

		memcpy(s->plain + s->len, p, some);
		s->len += some;
		s->total += some;
		p += some;
		n -= some;
		if (s->len == SEAL_CHUNK)
			r = push(s, false);
	}
	return r;
}

int seal_end(struct seal *s)
{
	return push(s, true);
}

/* ---- reading -------------------------------------------------------------------- */

/* As much as there is, up to n. */
static ssize_t read_up_to(int fd, uint8_t *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = read(fd, p + have, n - have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		have += (size_t)r;
	}
	return (ssize_t)have;
}

int seal_open(struct seal *s, int fd, const uint8_t key[SEAL_KEY])
{
	uint8_t fixed[AT_ID];
	ssize_t n;
	int r = prepare(s, fd);

	if (r < 0)
		return r;
	n = read_up_to(fd, s->head, SEAL_HEAD);
	if (n < 0)
		return (int)n;
	memcpy(fixed, MAGIC, 8);
	put_le(fixed + AT_VERSION, VERSION, 4);
	put_le(fixed + AT_CHUNK, SEAL_CHUNK, 4);
	if (n != SEAL_HEAD || memcmp(s->head, fixed, sizeof(fixed)) != 0)
		return -EBADMSG;
	return crypto_secretstream_xchacha20poly1305_init_pull(&s->state,
							       s->head + AT_NONCE, key)
		       ? -EBADMSG
		       : 0;
}

static bool at_end(int fd)
{
	uint8_t byte;

	return read_up_to(fd, &byte, 1) == 0;
}

/* The next chunk. A short one can only be the last, and nothing follows the last. */
static int pull(struct seal *s)
{
	ssize_t n = read_up_to(s->fd, s->bytes, SEAL_CHUNK + SEAL_CHUNK_MORE);
	unsigned long long len = 0;
	unsigned char tag = 0;
	struct ad a;

	s->used = s->len = 0;
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)SEAL_CHUNK_MORE)
		return -EBADMSG;
	make_ad(&a, s);
	if (crypto_secretstream_xchacha20poly1305_pull(&s->state, s->plain, &len, &tag,
						       s->bytes, (size_t)n,
						       (const uint8_t *)&a, sizeof(a)))
		return -EBADMSG;
	if (tag != TAG_LAST ? len != SEAL_CHUNK : !at_end(s->fd))
		return -EBADMSG;
	s->index++;
	s->len = (size_t)len;
	s->last = tag == TAG_LAST;
	return 0;
}

ssize_t seal_read(struct seal *s, void *data, size_t n)
{
	while (s->used == s->len) {
		int r = s->last ? 0 : pull(s);

		if (r < 0) {
			s->used = s->len = 0;
			return r;
		}
		if (s->used == s->len && s->last)
			return 0;
	}
	n = min_size(n, s->len - s->used);
	memcpy(data, s->plain + s->used, n);
	s->used += n;
	s->total += n;
	return (ssize_t)n;
}

int seal_read_all(struct seal *s, void *data, size_t n)
{
	uint8_t *p = data;

	while (n) {
		ssize_t r = seal_read(s, p, n);

		if (r <= 0)
			return r < 0 ? (int)r : -EBADMSG;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}
