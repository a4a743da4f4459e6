/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed file gives back exactly what went in, or an error; never anything else. */
#include "vm/seal.h"
#include "tap.h"
#include "vm/state.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const uint8_t key[SEAL_KEY] = {1, 2, 3}, other_key[SEAL_KEY] = {1, 2, 4};

static uint8_t *pattern(size_t n)
{
	uint8_t *p = malloc(n ? n : 1);

	for (size_t i = 0; p && i < n; i++)
		p[i] = (uint8_t)(i * 7 + i / 251);
	return p;
}

static int sealed(const uint8_t *text, size_t n)
{
	int fd = memfd_create("sealed", MFD_CLOEXEC);
	struct seal s = {.fd = -1};
	int r = seal_begin(&s, fd, key);

	for (size_t at = 0; r == 0 && at < n; at += 100000) /* in pieces of odd size */
		r = seal_write(&s, text + at, min_size(100000, n - at));
	if (r == 0)
		r = seal_end(&s);
	seal_clear(&s);
	lseek(fd, 0, SEEK_SET);
	return r < 0 ? -1 : fd;
}

/* The text that can be read, and how that ended. */
static int64_t unseal(int fd, const uint8_t *k, uint8_t *out, size_t room, int *ret)
{
	struct seal s = {.fd = -1};
	size_t n = 0;
	ssize_t got = 1;

	lseek(fd, 0, SEEK_SET);
	*ret = seal_open(&s, fd, k);
	while (*ret == 0 && got > 0 && n < room) {
		got = seal_read(&s, out + n, room - n);
		n += got > 0 ? (size_t)got : 0;
	}
	if (*ret == 0 && got < 0)
		*ret = (int)got;
	seal_clear(&s);
	return (int64_t)n;
}

static void what_went_in_comes_out(void)
{
	static const size_t sizes[] = {
		0, 1, SEAL_CHUNK - 1, SEAL_CHUNK, SEAL_CHUNK + 1, 3 * SEAL_CHUNK + 12345};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint8_t *text = pattern(sizes[i]), *out = malloc(sizes[i] + 10);
		cleanup_fd int fd = sealed(text, sizes[i]);
		int r = -1;
		int64_t n = unseal(fd, key, out, sizes[i] + 10, &r);

		OK(r == 0 && (size_t)n == sizes[i] && memcmp(text, out, sizes[i]) == 0,
		   "%zu bytes", sizes[i]);
		free(text);
		free(out);
	}
}

static void another_key_opens_nothing(void)
{
	uint8_t *text = pattern(1000), out[2000];
	cleanup_fd int fd = sealed(text, 1000);
	int r = 0;

	OK(unseal(fd, other_key, out, sizeof(out), &r) == 0 && r == -EBADMSG,
	   "not one byte with another key");
	free(text);
}

/* A reader may get whole chunks from before the damage, and then must fail. */
static bool is_refused(int fd, const uint8_t *text, size_t n, uint8_t *out)
{
	int r = 0;
	int64_t got = unseal(fd, key, out, n + 10, &r);

	return r == -EBADMSG && (size_t)got <= n &&
	       (got == 0 || memcmp(text, out, (size_t)got) == 0);
}

static void one_flipped_bit_is_found(void)
{
	size_t n = 2 * SEAL_CHUNK + 5000, tried = 0, refused = 0;
	uint8_t *text = pattern(n), *out = malloc(n + 10);
	cleanup_fd int fd = sealed(text, n);
	struct stat st;

	fstat(fd, &st);
	for (off_t at = 0; at < st.st_size; at += at < 100 ? 1 : 40009) {
		uint8_t was, bad;

		if (pread(fd, &was, 1, at) != 1)
			break;
		bad = was ^ (uint8_t)(1 << at % 8);
		(void)!pwrite(fd, &bad, 1, at);
		tried++;
		refused += is_refused(fd, text, n, out);
		(void)!pwrite(fd, &was, 1, at);
	}
	OK(tried > 150 && refused == tried, "%zu of %zu flipped bits are found", refused,
	   tried);
	free(text);
	free(out);
}

static void a_cut_or_longer_file_is_found(void)
{
	size_t n = 2 * SEAL_CHUNK, refused = 0;
	uint8_t *text = pattern(n), *out = malloc(n + 10);
	cleanup_fd int fd = sealed(text, n);
	struct stat st;
	const off_t whole = SEAL_CHUNK + SEAL_CHUNK_MORE;

	fstat(fd, &st);
	(void)!ftruncate(fd, st.st_size + 1);
	OK(is_refused(fd, text, n, out), "a byte behind the end");
	const off_t cuts[] = {st.st_size - 1,
			      st.st_size - SEAL_CHUNK_MORE,
			      SEAL_HEAD + whole + 1,
			      SEAL_HEAD + whole,
			      SEAL_HEAD + whole - 1,
			      SEAL_HEAD + 1,
			      SEAL_HEAD,
			      SEAL_HEAD - 1,
			      8,
			      0};
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		(void)!ftruncate(fd, cuts[i]);
		refused += is_refused(fd, text, n, out);
	}
	OK(refused == ARRAY_LEN(cuts), "%zu cuts are found", refused);
	free(text);
	free(out);
}

static void chunks_keep_their_place(void)
{
	size_t n = 3 * SEAL_CHUNK;
	const size_t whole = SEAL_CHUNK + SEAL_CHUNK_MORE;
	uint8_t *text = pattern(n), *out = malloc(n + 10);
	uint8_t *a = malloc(whole), *b = malloc(whole);
	cleanup_fd int fd = sealed(text, n);
	cleanup_fd int twin = sealed(text, n);

	(void)!pread(fd, a, whole, SEAL_HEAD);
	(void)!pread(fd, b, whole, (off_t)(SEAL_HEAD + whole));
	(void)!pwrite(fd, b, whole, SEAL_HEAD);
	(void)!pwrite(fd, a, whole, (off_t)(SEAL_HEAD + whole));
	OK(is_refused(fd, text, n, out), "two chunks that changed places");
	(void)!pwrite(fd, a, whole, SEAL_HEAD);
	OK(is_refused(fd, text, n, out), "one chunk twice");
	(void)!pread(twin, b, whole, (off_t)(SEAL_HEAD + whole));
	(void)!pwrite(fd, b, whole, (off_t)(SEAL_HEAD + whole));
	OK(is_refused(fd, text, n, out), "a chunk of another file with the same text");
	free(text);
	free(out);
	free(a);
	free(b);
}

static void a_state_is_three_parts(void)
{
	cleanup_fd int fd = memfd_create("state", MFD_CLOEXEC);
	cleanup_fd int tables = memfd_create("tables", MFD_CLOEXEC);
	cleanup_fd int copy = memfd_create("copy", MFD_CLOEXEC);
	struct state_machine m = {.qemu = "7.2",
				  .tsc_khz = 2300000,
				  .cpus = 2,
				  .memory = 1 << 28,
				  .kernel = "6.1.0-x",
				  .digest = "abc"},
			     back;
	json_t *head = json_pack("{s:o}", "machine", state_machine_json(&m)), *got = NULL;
	struct cove_error err = {0};
	struct seal s = {.fd = -1};
	uint8_t rest[16], small[8];

	(void)!write(tables, "tables!", 7);
	OK(state_begin(&s, fd, key, head, tables, &err) == 0 &&
		   seal_write(&s, "stream", 6) == 0 && seal_end(&s) == 0,
	   "written");
	seal_clear(&s);
	json_decref(head);
	lseek(fd, 0, SEEK_SET);
	OK(state_verify(fd, key, &got, &err) == 0, "whole: %s", err.msg);
	json_decref(got);
	OK(state_open(&s, fd, key, &got, copy, &err) == 0 &&
		   state_machine_parse(&back, json_object_get(got, "machine")) == 0 &&
		   strcmp(back.kernel, "6.1.0-x") == 0 &&
		   strcmp(back.digest, "abc") == 0 && back.cpus == 2 &&
		   back.tsc_khz == 2300000 && back.memory == 1 << 28 &&
		   strcmp(back.qemu, "7.2") == 0,
	   "the machine comes back");
	OK(pread(copy, small, 8, 0) == 7 && memcmp(small, "tables!", 7) == 0, "tables");
	OK(seal_read(&s, rest, sizeof(rest)) == 6 && memcmp(rest, "stream", 6) == 0,
	   "the stream is what is left");
	seal_clear(&s);
	json_decref(got);
	got = NULL;
	lseek(fd, 0, SEEK_SET);
	OK(state_verify(fd, other_key, &got, &err) == COVE_EDAMAGED && !got,
	   "another key: %s", err.msg);
}

int main(void)
{
	if (sodium_init() < 0)
		return 1;
	what_went_in_comes_out();
	another_key_opens_nothing();
	one_flipped_bit_is_found();
	a_cut_or_longer_file_is_found();
	chunks_keep_their_place();
	a_state_is_three_parts();
	return tap_done();
}
