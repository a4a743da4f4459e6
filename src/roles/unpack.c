/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-unpack - unpacks an archive of cove into an empty directory; started by libcove,
 * never by hand.
 *
 * Descriptor 0 is the archive, 1 takes a line of text if it fails, 3 is the directory.
 * Exit status: 0 all is there and the checksum is right, 1 the archive is no good, 2 the
 * system failed.
 *
 * Stages
 *  1. alone:   drops what it inherited, capabilities too, and bounds itself.
 *  2. confine: may make files below the directory, and no more (Landlock, seccomp).
 *  3. run:     reads hostile bytes until the end of the archive.
 */
#include "roles/unpack.h"

#include "base/io.h"
#include "base/util.h"
#include "core/archive.h"
#include "os/confine.h"
#include "os/landlock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "seccomp_unpack.h"

#define DIR_FD 3
#define MEMORY_MAX (3ull << 30)
#define ENTRIES_MAX (64u << 20)
#define SMALL_MAX (2u << 20) /* of cove.json and spec.json */
#define RIGHTS \
	(LL_WRITE_FILE | LL_READ_FILE | LL_READ_DIR | LL_MAKE_CHAR | LL_MAKE_DIR | \
	 LL_MAKE_REG | LL_MAKE_FIFO | LL_MAKE_SYM | LL_REFER | LL_TRUNCATE)

/* ---- stages 1 and 2 --------------------------------------------------------------- */

static int go_alone(void)
{
	int r = confine_alone(DIR_FD, MEMORY_MAX);

	umask(0);
	confine_limit(RLIMIT_NOFILE, 64);
	/* Without Landlock it fails closed, like the sandboxes themselves. */
	if (r == 0)
		r = confine_files(DIR_FD, RIGHTS, false);
	return r < 0 ? r : confine_calls(seccomp_unpack, SECCOMP_UNPACK_LEN);
}

/* ---- the stream ------------------------------------------------------------------- */

static int fill(struct input *in)
{
	ssize_t n;

	if (in->at < in->end)
		return 1;
	do
		n = read(0, in->data, sizeof(in->data));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	in->at = 0;
	in->end = (size_t)n;
	return n > 0;
}

int64_t input_some(struct input *in, uint64_t n, const void **ret)
{
	int r = fill(in);
	size_t some;

	if (r <= 0)
		return r < 0 ? r : -EBADMSG;
	some = in->end - in->at;
	if (some > n)
		some = (size_t)n;
	*ret = in->data + in->at;
	crypto_generichash_update(&in->sum, in->data + in->at, some);
	in->at += some;
	in->offset += some;
	return (int64_t)some;
}

int input_read(struct input *in, void *out, size_t n)
{
	char *to = out;

	while (n) {
		const void *data = NULL;
		int64_t got = input_some(in, n, &data);

		if (got < 0 || !data)
			return got < 0 ? (int)got : -EBADMSG;
		memcpy(to, data, (size_t)got);
		to += got;
		n -= (size_t)got;
	}
	return 0;
}

int input_skip_padding(struct input *in, uint64_t size)
{
	char zeros[TAR_BLOCK];
	size_t n = (size_t)(tar_padded(size) - size);
	int r = input_read(in, zeros, n);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (zeros[i])
			r = -EBADMSG;
	return r;
}

bool input_at_end(struct input *in)
{
	return fill(in) == 0;
}

/* ---- stage 3 ---------------------------------------------------------------------- */

struct unpack {
	struct input in;
	struct output out;
	struct tar_entry entry;
	crypto_generichash_state before; /* the sum as it was before this entry */
	bool checked;                    /* the checksum was right */
};

static bool is_unit(const char *name, size_t n)
{
	static const char *const units[] = {"home", "root", "mask"};

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strlen(units[i]) == n && memcmp(units[i], name, n) == 0)
			return true;
	return n > 1 && n < 8 && name[0] == 'm' &&
	       strspn(name + 1, "0123456789") == n - 1;
}

/* The first part of a path says what it belongs to. */
static bool place_ok(const struct tar_entry *e)
{
	const char *path = e->path.data;
	size_t n = strcspn(path, "/");
	bool top = path[n] == '\0';

	if (top && (strcmp(path, ARCHIVE_META) == 0 || strcmp(path, ARCHIVE_SPEC) == 0 ||
		    strcmp(path, ARCHIVE_SUM) == 0))
		return e->type == TAR_FILE && e->size <= SMALL_MAX && !e->sparse;
	if (!is_unit(path, n) && !(n == 9 && memcmp(path, "snapshots", 9) == 0))
		return false;
	return !top || e->type == TAR_DIR;
}

/* Both headers of the next entry. 0: it is there; 1: the end of the archive. */
static int next_entry(struct unpack *u)
{
	struct tar_entry *e = &u->entry;
	unsigned char block[TAR_BLOCK];
	cleanup_free char *pax = NULL;
	int r;

	u->before = u->in.sum;
	tar_entry_reset(e);
	r = input_read(&u->in, block, sizeof(block));
	if (r == 0)
		r = tar_parse_header(e, block);
	if (r < 0 || e->type == TAR_END)
		return r < 0 ? r : 1;
	if (e->type != TAR_PAX)
		return -EBADMSG;
	pax = malloc((size_t)e->size + 1);
	if (!pax)
		return -ENOMEM;
	size_t n = (size_t)e->size;
	r = input_read(&u->in, pax, n);
	if (r == 0)
		r = input_skip_padding(&u->in, n);
	e->size = 0;
	if (r == 0)
		r = tar_parse_pax(e, pax, n);
	if (r == 0)
		r = input_read(&u->in, block, sizeof(block));
	if (r == 0)
		r = tar_parse_header(e, block);
	return r < 0 ? r : tar_check(e);
}

static int check_sum(struct unpack *u)
{
	unsigned char sum[ARCHIVE_SUM_LEN];
	char want[2 * ARCHIVE_SUM_LEN + 2], got[sizeof(want)];
	int r = u->entry.size == sizeof(got) - 1
			? input_read(&u->in, got, sizeof(got) - 1)
			: -EBADMSG;

	crypto_generichash_final(&u->before, sum, sizeof(sum));
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(want + 2 * i, 3, "%02x", sum[i]);
	want[2 * ARCHIVE_SUM_LEN] = '\n';
	if (r == 0 && memcmp(want, got, sizeof(got) - 1) != 0)
		r = -EBADMSG;
	u->checked = r == 0;
	return r < 0 ? r : input_skip_padding(&u->in, u->entry.size);
}

static int one_entry(struct unpack *u)
{
	int r = next_entry(u);

	if (r != 0)
		return r;
	if (u->checked || !place_ok(&u->entry)) /* nothing comes behind the checksum */
		return -EBADMSG;
	if (strcmp(u->entry.path.data, ARCHIVE_SUM) == 0)
		return check_sum(u);
	return output_make(&u->out, &u->in, &u->entry);
}

static int run(struct unpack *u)
{
	unsigned char block[TAR_BLOCK];
	int r = 0;

	for (unsigned n = 0; r == 0; n++)
		r = n < ENTRIES_MAX ? one_entry(u) : -EBADMSG;
	if (r < 0)
		return r;
	/* a second block of zeros, then nothing */
	tar_entry_reset(&u->entry);
	r = input_read(&u->in, block, sizeof(block));
	if (r == 0)
		r = tar_parse_header(&u->entry, block);
	if (r == 0 && (u->entry.type != TAR_END || !input_at_end(&u->in) || !u->checked))
		r = -EBADMSG;
	return r < 0 ? r : output_finish(&u->out);
}

/* The archive's fault, rather than the system's? */
static bool archive_is_bad(int error)
{
	static const int errors[] = {EBADMSG, EEXIST, ELOOP,        ENOTDIR,
				     ENOENT,  EXDEV,  ENAMETOOLONG, EINVAL};

	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i] == error)
			return true;
	return false;
}

static int report(const struct unpack *u, int error)
{
	char text[512];
	const char *path = u->entry.path.len ? u->entry.path.data : "";
	int n;

	if (error == EBADMSG)
		n = snprintf(text, sizeof(text),
			     "damaged or not one of cove's, at byte "
			     "%llu%s%.200s",
			     (unsigned long long)u->in.offset, *path ? ": " : "", path);
	else
		n = snprintf(text, sizeof(text), "unpack %.200s: %s", path,
			     strerror(error));
	write_all(1, text, min_size((size_t)n, sizeof(text) - 1));
	return archive_is_bad(error) ? 1 : 2;
}

int main(int argc, char **argv)
{
	static struct unpack u;
	struct stat st;
	int r;

	(void)argv;
	if (argc != 1 || fstat(DIR_FD, &st) < 0 || !S_ISDIR(st.st_mode)) {
		fprintf(stderr,
			"cove-unpack: this is a part of cove; use 'cove import FILE'\n");
		return 2;
	}
	tar_entry_init(&u.entry);
	output_init(&u.out, DIR_FD);
	crypto_generichash_init(&u.in.sum, NULL, 0, ARCHIVE_SUM_LEN);
	r = go_alone();
	if (r == 0)
		r = run(&u);
	_exit(r < 0 ? report(&u, -r) : 0);
}
