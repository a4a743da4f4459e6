/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Property: whatever the bytes are, a sealed file that was not written with this key
 * gives not one byte; and one that was, changed anywhere, gives a beginning of what was
 * written and then an error.
 */
#include "fuzz.h"
#include "vm/state.h"

#include "base/io.h"
#include "base/util.h"

#include <sodium.h>
#include <string.h>
#include <sys/mman.h>

static const uint8_t key[SEAL_KEY] = {7};

static ssize_t read_all(int fd, uint8_t *out, size_t room, int *ret)
{
	struct seal s = {.fd = -1};
	ssize_t n = 1;
	size_t at = 0;

	lseek(fd, 0, SEEK_SET);
	*ret = seal_open(&s, fd, key);
	while (*ret == 0 && n > 0 && at < room) {
		n = seal_read(&s, out + at, room - at);
		at += n > 0 ? (size_t)n : 0;
	}
	if (*ret == 0 && n < 0)
		*ret = (int)n;
	seal_clear(&s);
	return (ssize_t)at;
}

/* The bytes themselves, as a state file. */
static void as_they_are(const uint8_t *data, size_t size)
{
	cleanup_fd int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct cove_error err = {0};
	json_t *head = NULL;

	if (fd < 0 || write_all(fd, data, size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	if (state_verify(fd, key, &head, &err) == 0)
		abort(); /* nobody who has not the key makes one */
}

/* The bytes as a change to a file that is good: where, and what instead. */
static void as_a_change(const uint8_t *data, size_t size)
{
	static uint8_t text[5000], out[6000];
	cleanup_fd int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct seal s = {.fd = -1};
	uint8_t was[64], is[64];
	off_t at = data[0] | data[1] << 8;
	size_t n = min_size(size - 2, sizeof(was));
	ssize_t old;
	int r;

	if (seal_begin(&s, fd, key) < 0 || seal_write(&s, text, sizeof(text)) < 0 ||
	    seal_end(&s) < 0)
		abort();
	seal_clear(&s);
	old = pread(fd, was, n, at);
	if (pwrite(fd, data + 2, n, at) != (ssize_t)n ||
	    pread(fd, is, n, at) != (ssize_t)n)
		abort();
	if (read_all(fd, out, sizeof(out), &r) > (ssize_t)sizeof(text))
		abort();
	if ((r == 0) != (old == (ssize_t)n && memcmp(was, is, n) == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_they_are(data, size);
	if (size > 2)
		as_a_change(data, size);
	return 0;
}
