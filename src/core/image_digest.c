/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_digest - the SHA-256 of an image file, the number that sha256sum(1) shows.
 *
 * Reading a gigabyte takes seconds, so the result is kept with what the file system says
 * of the file (device, inode, size, times). A file that was changed within the last two
 * seconds may be changed again without a new time: then it is not kept.
 */
#include "core/image_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <sodium/crypto_generichash.h>
#include <sodium/crypto_hash_sha256.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define FILES ".files"
#define BLOCK (1u << 20)
#define SETTLED_S 2
#define NOTE_MAX 400

static void to_hex(char *out, const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static int compute(int fd, char out[SHA256_HEX])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	cleanup_free unsigned char *block = malloc(BLOCK);
	crypto_hash_sha256_state state;
	off_t at = 0;
	ssize_t n;

	if (!block)
		return -ENOMEM;
	crypto_hash_sha256_init(&state);
	while ((n = pread(fd, block, BLOCK, at)) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			crypto_hash_sha256_update(&state, block, (size_t)n);
			at += n;
		}
	}
	crypto_hash_sha256_final(&state, sum);
	to_hex(out, sum, sizeof(sum));
	return 0;
}

/* ---- what is known already ------------------------------------------------------ */

static void note_name(const char *path, char out[64])
{
	unsigned char sum[16];

	crypto_generichash(sum, sizeof(sum), (const unsigned char *)path, strlen(path),
			   NULL, 0);
	to_hex(out + snprintf(out, 64, FILES "/"), sum, sizeof(sum));
}

static int identity(const struct stat *st, char *out, size_t size)
{
	return snprintf(out, size, "%llu %llu %lld %lld.%09ld %lld.%09ld ",
			(unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
			(long long)st->st_size, (long long)st->st_mtim.tv_sec,
			st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
			st->st_ctim.tv_nsec);
}

static bool recall(int folder, const char *note, const struct stat *st,
		   char out[SHA256_HEX])
{
	cleanup_buf struct buf text = BUF_INIT(NOTE_MAX);
	char is[NOTE_MAX];
	size_t n = (size_t)identity(st, is, sizeof(is));

	if (read_file_at(folder, note, &text) < 0 || text.len != n + SHA256_HEX - 1 ||
	    memcmp(text.data, is, n) != 0)
		return false;
	memcpy(out, text.data + n, SHA256_HEX - 1);
	out[SHA256_HEX - 1] = '\0';
	return strspn(out, "0123456789abcdef") == SHA256_HEX - 1;
}

/* Nothing is lost if it cannot be written. */
static void remember(int folder, const char *note, const struct stat *st,
		     const char *digest)
{
	char text[NOTE_MAX];
	int n = identity(st, text, sizeof(text));
	time_t now = time(NULL);

	if (now < st->st_ctim.tv_sec + SETTLED_S || now < st->st_mtim.tv_sec + SETTLED_S)
		return;
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%s", digest);
	mkdirat(folder, FILES, 0700);
	write_file_atomic(folder, note, text, (size_t)n, 0600, 0);
}

int image_digest(int folder, const char *path, int fd, char out[SHA256_HEX],
		 struct cove_error *err)
{
	struct stat st, after;
	char note[64];
	int r;

	if (fstat(fd, &st) < 0)
		return fail(err, COVE_EIO, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return fail(err, COVE_EINVAL, 0, "%s is not a file", path);
	note_name(path, note);
	if (recall(folder, note, &st, out))
		return 0;
	r = compute(fd, out);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", path);
	if (fstat(fd, &after) == 0 && after.st_size == st.st_size &&
	    after.st_ctim.tv_sec == st.st_ctim.tv_sec &&
	    after.st_ctim.tv_nsec == st.st_ctim.tv_nsec)
		remember(folder, note, &st, out);
	return 0;
}
