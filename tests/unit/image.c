/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec says of an image, and digests that are remembered. */
#include "tap.h"

#include "base/io.h"
#include "base/util.h"
#include "core/image_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct image_ref parsed(const char *value)
{
	struct cove_error err = {0};
	struct image_ref ref;
	struct spec s;

	spec_init(&s);
	if (spec_set(&s, "image.source", value, &err) < 0 ||
	    image_ref_parse(&ref, &s, &err) < 0)
		ref = (struct image_ref){.path = "failed"};
	spec_clear(&s);
	return ref;
}

static void test_refs(void)
{
	struct image_ref r = parsed("tar:/a/b.tar");

	OK(strcmp(r.path, "/a/b.tar") == 0 && !r.digest[0] && !r.key[0], "a path alone");
	r = parsed("tar:/a/b.tar@sha256:" HEX64);
	OK(strcmp(r.path, "/a/b.tar") == 0 && strcmp(r.digest, HEX64) == 0 &&
		   strcmp(r.key, "0123456789abcdef0123456789abcdef") == 0,
	   "a path and its digest");
	r = parsed("tar:/a@sha256:x@sha256:" HEX64);
	OK(strcmp(r.path, "/a@sha256:x") == 0 && r.digest[0], "the last mark counts");
	r = parsed("tar:/a@sha256:" HEX64 "0");
	OK(!r.digest[0] && strstr(r.path, "@sha256:"), "too long: a name");
	r = parsed("tar:/a@sha256:../../etc");
	OK(!r.digest[0] && !r.key[0], "no digest: a name");
	r = parsed(
		"tar:/a@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef01234567"
		"89abcdef");
	OK(!r.digest[0], "capital letters: a name");
}

static void put(int dir, const char *text)
{
	int fd = openat(dir, "f", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write_all(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static void digest(int dir, char out[SHA256_HEX])
{
	struct cove_error err = {0};
	int fd = openat(dir, "f", O_RDONLY);

	if (image_digest(dir, "/the/file", fd, out, &err) < 0)
		snprintf(out, SHA256_HEX, "failed");
	close(fd);
}

static void test_digests(void)
{
	static const char abc[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	char path[] = "/tmp/cove-unit-image.XXXXXX", got[SHA256_HEX];
	struct stat st;
	int dir = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY) : -1;

	put(dir, "abc");
	digest(dir, got);
	OK(strcmp(got, abc) == 0, "SHA-256, as others compute it");
	OK(fstatat(dir, ".files", &st, 0) < 0, "not remembered of a fresh file");
	usleep(3100000);
	digest(dir, got);
	OK(fstatat(dir, ".files", &st, 0) == 0, "remembered once it is settled");
	digest(dir, got);
	OK(strcmp(got, abc) == 0, "and the same from memory");
	put(dir, "abd");
	digest(dir, got);
	OK(strcmp(got, abc) != 0 && strlen(got) == 64, "not of a file that has changed");
	close(dir);
	remove_tree_at(AT_FDCWD, path);
}

int main(void)
{
	test_refs();
	test_digests();
	return tap_done();
}
