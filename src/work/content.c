/* SPDX-License-Identifier: Apache-2.0 */
#include "work/content.h"

#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium/crypto_generichash.h>
#include <sodium/utils.h>

#define PIECE (64u * 1024)
#define DIGEST_BYTES 32

int content_open(int dir, const char *name, struct stat *st)
{
	/* O_NONBLOCK: what was a file a moment ago may be a fifo now */
	cleanup_fd int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat own;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &own) < 0)
		return -errno;
	if (!S_ISREG(own.st_mode))
		return -EINVAL;
	if (st)
		*st = own;
	return take_fd(&fd);
}

/* As much as there is, up to n. */
static ssize_t read_piece(int fd, char *to, size_t n, uint64_t at)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = pread(fd, to + have, n - have, (off_t)(at + have));

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

int content_same(int a, int b)
{
	cleanup_free char *room = malloc(PIECE * 2);

	if (!room)
		return -ENOMEM;
	for (uint64_t at = 0;;) {
		ssize_t na = read_piece(a, room, PIECE, at);
		ssize_t nb = read_piece(b, room + PIECE, PIECE, at);

		if (na < 0 || nb < 0)
			return (int)(na < 0 ? na : nb);
		if (na != nb || memcmp(room, room + PIECE, (size_t)na) != 0)
			return 0;
		if (na < (ssize_t)PIECE)
			return 1;
		at += PIECE;
	}
}

static void to_hex(const unsigned char digest[DIGEST_BYTES], char ret[DIGEST_HEX])
{
	sodium_bin2hex(ret, DIGEST_HEX, digest, DIGEST_BYTES);
}

int content_digest(int fd, uint64_t max, char ret[DIGEST_HEX])
{
	cleanup_free char *room = malloc(PIECE);
	crypto_generichash_state state;
	unsigned char digest[DIGEST_BYTES];
	uint64_t at = 0;
	ssize_t n;

	if (!room)
		return -ENOMEM;
	crypto_generichash_init(&state, NULL, 0, sizeof(digest));
	do {
		n = read_piece(fd, room, PIECE, at);
		if (n < 0)
			return (int)n;
		at += (uint64_t)n;
		if (at > max)
			return -EFBIG;
		crypto_generichash_update(&state, (const unsigned char *)room,
					  (unsigned long long)n);
	} while (n == (ssize_t)PIECE);
	crypto_generichash_final(&state, digest, sizeof(digest));
	to_hex(digest, ret);
	return 0;
}

int content_read(int fd, struct buf *out)
{
	struct stat st;
	uint64_t at = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	for (;;) {
		size_t left = out->max - out->len;
		size_t want = (uint64_t)st.st_size > at
				      ? min_size((size_t)st.st_size - at + 1, 1u << 20)
				      : 4096;
		char over;
		ssize_t n;
		int r;

		if (left == 0) { /* full: is there more? */
			n = read_piece(fd, &over, 1, at);
			return n > 0 ? -ENOBUFS : (int)n;
		}
		want = min_size(want, left);
		r = buf_reserve(out, want);
		if (r < 0)
			return r;
		n = read_piece(fd, out->data + out->len, want, at);
		if (n < 0)
			return (int)n;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		at += (uint64_t)n;
		if ((size_t)n < want)
			return 0;
	}
}

int digest_of(const void *data, size_t n, char ret[DIGEST_HEX])
{
	unsigned char digest[DIGEST_BYTES];

	if (crypto_generichash(digest, sizeof(digest), data, n, NULL, 0) != 0)
		return -EINVAL;
	to_hex(digest, ret);
	return 0;
}

int link_read(int dir, const char *name, char **ret)
{
	char target[PATH_MAX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));
	char *copy;

	if (n < 0)
		return -errno;
	if (n > PATH_MAX)
		return -ENAMETOOLONG;
	copy = strndup(target, (size_t)n);
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}
