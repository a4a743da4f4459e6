/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_record - manifest.json: what a kernel consists of. It is our own file, but may
 * be damaged: it is read like foreign input. */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <jansson.h>
#include <sodium/crypto_generichash.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <sys/stat.h>

#define RECORD_MAX (1u << 20)
#define RECORD_FILES_MAX (MODULES_MAX + 1)
#define DIGEST_BYTES 32

static const char *const origins[] = {
	[ORIGIN_PACKAGE] = "package",
	[ORIGIN_OWN] = "own",
	[ORIGIN_BUILT] = "built",
};

void record_clear(struct kernel_record *r)
{
	free(r->files);
	*r = (struct kernel_record){0};
}

uint64_t record_bytes(const struct kernel_record *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n_files; i++)
		n += r->files[i].bytes;
	return n;
}

/* ---- reading ------------------------------------------------------------------- */

static bool take_text(const json_t *o, const char *key, char *ret, size_t size)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (!s || strlen(s) >= size)
		return false;
	memcpy(ret, s, strlen(s) + 1);
	return true;
}

static bool take_file(const json_t *o, struct kernel_file *f)
{
	json_int_t bytes = json_integer_value(json_object_get(o, "bytes"));

	f->bytes = (uint64_t)bytes;
	return bytes > 0 && take_text(o, "path", f->path, sizeof(f->path)) &&
	       path_stays_below(f->path) &&
	       take_text(o, "blake2b", f->sum, sizeof(f->sum)) &&
	       strspn(f->sum, "0123456789abcdef") == KERNEL_DIGEST_HEX - 1;
}

static bool take_files(const json_t *list, struct kernel_record *r)
{
	size_t n = json_array_size(list);

	if (n == 0 || n > RECORD_FILES_MAX)
		return false;
	r->files = calloc(n, sizeof(*r->files));
	if (!r->files)
		return false;
	for (r->n_files = 0; r->n_files < n; r->n_files++)
		if (!take_file(json_array_get(list, r->n_files), &r->files[r->n_files]))
			return false;
	return strcmp(r->files[0].path, IMAGE_NAME) == 0;
}

static bool take_origin(const json_t *o, struct kernel_record *r)
{
	const char *s = json_string_value(json_object_get(o, "origin"));

	for (size_t i = 0; s && i < ARRAY_LEN(origins); i++)
		if (strcmp(s, origins[i]) == 0) {
			r->origin = (enum kernel_origin)i;
			return true;
		}
	return false;
}

static bool take_record(const json_t *o, struct kernel_record *r)
{
	r->installed_at = json_integer_value(json_object_get(o, "installedAt"));
	r->built_in = json_is_true(json_object_get(o, "builtIn"));
	return take_text(o, "version", r->version, sizeof(r->version)) &&
	       take_text(o, "source", r->source, sizeof(r->source)) &&
	       take_origin(o, r) && take_files(json_object_get(o, "files"), r);
}

int record_read(struct kernel_record *ret, int kernel, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RECORD_MAX);
	struct kernel_record r = {0};
	json_t *o;
	bool ok;
	int e = read_file_at(kernel, RECORD_NAME, &text);

	if (e < 0)
		return fail(err, COVE_EDAMAGED, -e, RECORD_NAME);
	o = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES,
		       NULL);
	ok = o && take_record(o, &r);
	json_decref(o);
	if (!ok) {
		record_clear(&r);
		return fail(err, COVE_EDAMAGED, 0, RECORD_NAME ": damaged");
	}
	*ret = r;
	return 0;
}

/* ---- writing ------------------------------------------------------------------- */

static json_t *print_files(const struct kernel_record *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_files; i++) {
		const struct kernel_file *f = &r->files[i];

		json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "path", f->path,
						      "bytes", (json_int_t)f->bytes,
						      "blake2b", f->sum));
	}
	return list;
}

int record_print(const struct kernel_record *r, struct buf *out)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:b, s:o}", "version", r->version,
			      "source", r->source, "origin", origins[r->origin],
			      "installedAt", (json_int_t)r->installed_at, "builtIn",
			      r->built_in, "files", print_files(r));
	char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	int e = text ? buf_printf(out, "%s\n", text) : -ENOMEM;

	free(text);
	json_decref(o);
	return e;
}

/* ---- checksums ----------------------------------------------------------------- */

static void to_hex(const unsigned char digest[DIGEST_BYTES], char ret[KERNEL_DIGEST_HEX])
{
	sodium_bin2hex(ret, KERNEL_DIGEST_HEX, digest, DIGEST_BYTES);
}

void kernel_digest(const void *data, size_t n, char ret[KERNEL_DIGEST_HEX])
{
	unsigned char digest[DIGEST_BYTES];

	crypto_generichash(digest, sizeof(digest), data, n, NULL, 0);
	to_hex(digest, ret);
}

int kernel_digest_fd(int fd, char ret[KERNEL_DIGEST_HEX])
{
	enum { PIECE = 256 * 1024 };
	cleanup_free unsigned char *piece = malloc(PIECE);
	unsigned char digest[DIGEST_BYTES];
	crypto_generichash_state state;
	off_t at = 0;
	ssize_t n;

	if (!piece)
		return -ENOMEM;
	crypto_generichash_init(&state, NULL, 0, sizeof(digest));
	do {
		n = pread(fd, piece, PIECE, at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			crypto_generichash_update(&state, piece, (size_t)n);
			at += n;
		}
	} while (n != 0);
	crypto_generichash_final(&state, digest, sizeof(digest));
	to_hex(digest, ret);
	return 0;
}

int record_check_file(const struct kernel_file *f, int kernel, bool whole,
		      struct cove_error *err)
{
	cleanup_fd int fd = openat(kernel, f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char sum[KERNEL_DIGEST_HEX];
	struct stat st;
	int e;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(err, COVE_EDAMAGED, errno, "%s", f->path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != f->bytes)
		return fail(err, COVE_EDAMAGED, 0, "%s: not the file that was installed",
			    f->path);
	if (!whole)
		return 0;
	e = kernel_digest_fd(fd, sum);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "%s", f->path);
	if (strcmp(sum, f->sum) != 0)
		return fail(err, COVE_EDAMAGED, 0, "%s: its checksum is wrong", f->path);
	return 0;
}

int record_check(const struct kernel_record *r, int kernel, bool whole,
		 struct cove_error *err)
{
	for (size_t i = 0; i < r->n_files; i++)
		if (record_check_file(&r->files[i], kernel, whole, err) < 0)
			return err->code;
	return 0;
}
