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
#include "os/landlock.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h> /* before the generated filter, which needs it */
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
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

static void set_limit(int what, rlim_t value)
{
	struct rlimit l = {value, value};

	setrlimit(what, &l); /* a lower hard limit that is there already serves as well */
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	return syscall(SYS_capset, &h, none) < 0 ? -errno : 0;
}

static int go_alone(void)
{
	if (syscall(SYS_close_range, DIR_FD + 1u, ~0u, 0) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	umask(0);
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_NOFILE, 64);
#ifndef __SANITIZE_ADDRESS__
	set_limit(RLIMIT_NPROC, 0);
	set_limit(RLIMIT_AS, MEMORY_MAX);
#endif
	return drop_capabilities();
}

static int confine_files(void)
{
	struct landlock_path_rule rule = {.parent_fd = DIR_FD};
	int abi = landlock_abi();
	struct landlock_attr a;

	if (!abi)
		return -EOPNOTSUPP; /* fails closed, like the sandboxes themselves */
	landlock_handled(abi, false, &a);
	cleanup_fd int fd = landlock_create(abi, &a);
	if (fd < 0)
		return fd;
	rule.allowed = landlock_mask(&a, RIGHTS, true);
	if (syscall(SYS_landlock_add_rule, fd, 1 /* PATH_BENEATH */, &rule, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return 0;
}

static int confine_calls(void)
{
#ifndef __SANITIZE_ADDRESS__ /* its run time needs more than the program does */
	struct sock_fprog p = {.len = SECCOMP_UNPACK_LEN};
	const struct sock_filter *filter = seccomp_unpack;

	memcpy(&p.filter, &filter, sizeof(filter)); /* the kernel does not write to it */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
		return -errno;
#else
	(void)seccomp_unpack;
#endif
	return 0;
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
		const void *data;
		int64_t got = input_some(in, n, &data);

		if (got < 0)
			return (int)got;
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
		r = confine_files();
	if (r == 0)
		r = confine_calls();
	if (r == 0)
		r = run(&u);
	_exit(r < 0 ? report(&u, -r) : 0);
}
