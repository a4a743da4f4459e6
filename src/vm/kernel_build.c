/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_build - the tuned kernel: everything that a machine of Cove has built in, and
 * nothing else. It boots in half the time and takes half the memory of a distribution's.
 *
 * It is compiled from the distribution's source package with its own compiler, so it gets
 * the fixes that the distribution makes: building again replaces it.
 */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/kernel_tool.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define META_SOURCE "linux-source"
#define SOURCE_PACKAGE "linux-source-"
#define NAME_PREFIX "tuned-"
#define DISK_NEEDED (4ull << 30)
#define FILES_EXPECTED 1750 /* that are compiled; for the progress */
#define CONFIG_MAX (4u << 20)
#define OPTIONAL_MARK "# ---- what may be missing"

/* src/vm/kernel.config, as it is */
extern const char kernel_config[];
__asm__(".pushsection .rodata.kernel_config, \"a\"\n"
	"kernel_config:\n"
	".incbin \"src/vm/kernel.config\"\n"
	".byte 0\n"
	".popsection\n");

struct build {
	struct kernels *k;
	struct kernel_report report;
	char dir[PATH_MAX];    /* the scratch directory */
	char source[PATH_MAX]; /* the tree, in it */
	uint64_t compiled;
	char package[PACKAGE_FILE_MAX + 1];
	char name[KERNEL_NAME_MAX + 1];
};

static void say(const struct build *b, const char *what)
{
	report(&b->report, what, 0, 0);
}

/* ---- what it takes ------------------------------------------------------------- */

static const struct {
	const char *program; /* or NULL */
	const char *header;  /* or NULL */
	const char *package;
} needs[] = {
	{"make",  NULL,     "make"      },
        {"gcc",   NULL,     "gcc"       },
        {"strip", NULL,     "binutils"  },
	{"flex",  NULL,     "flex"      },
        {"bison", NULL,     "bison"     },
        {"bc",    NULL,     "bc"        },
	{"perl",  NULL,     "perl"      },
        {"xz",    NULL,     "xz-utils"  },
        {NULL,    "gelf.h", "libelf-dev"},
};

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");

	for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
		size_t n = strcspn(p, ":");
		char file[PATH_MAX];

		if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, p, program) <
			    (int)sizeof(file) &&
		    access(file, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static bool has_header(const char *header)
{
	const char *const argv[] = {"gcc", "-E", "-include",  header,
				    "-x",  "c",  "/dev/null", NULL};
	struct cove_error ignored = {0};

	return tool_run(&(struct tool){.argv = argv, .in = -1, .out = -1}, &ignored) == 0;
}

static int check_needs(struct cove_error *err)
{
	char missing[200] = "";

	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		size_t n = strlen(missing);

		if (needs[i].program ? in_path(needs[i].program)
				     : has_header(needs[i].header))
			continue;
		snprintf(missing + n, sizeof(missing) - n, " %s", needs[i].package);
	}
	if (!missing[0])
		return 0;
	fail(err, COVE_EUNSUPPORTED, 0,
	     "building a kernel needs packages that are not "
	     "installed:%s",
	     missing);
	return hint(err, "sudo apt-get install%s", missing);
}

static int check_disk(const struct build *b, struct cove_error *err)
{
	struct statvfs st;

	if (statvfs(b->k->path, &st) < 0)
		return fail(err, COVE_EIO, errno, "%s", b->k->path);
	if ((uint64_t)st.f_bavail * st.f_frsize >= DISK_NEEDED)
		return 0;
	return fail(err, COVE_EIO, ENOSPC,
		    "building a kernel takes 4 GiB for a while, "
		    "and %s has less",
		    b->k->path);
}

/* ---- the source ---------------------------------------------------------------- */

static int path_join(char *ret, const char *dir, const char *name, struct cove_error *err)
{
	if (snprintf(ret, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", dir);
	return 0;
}

/* "linux-source-6.1_6.1.190-1" has usr/src/linux-source-6.1.tar.xz. */
static int unpack_source(struct build *b, const char *deb, struct cove_error *err)
{
	char file[PATH_MAX], tree[PATH_MAX], tar[PATH_MAX], name[PACKAGE_FILE_MAX + 32];
	const char *const open_deb[] = {"dpkg-deb", "-x", file, tree, NULL};
	const char *const open_tar[] = {"tar", "-xJf",    tar, "--strip-components=1",
					"-C",  b->source, NULL};

	snprintf(name, sizeof(name), "usr/src/%.*s.tar.xz", (int)strcspn(b->package, "_"),
		 b->package);
	if (path_join(file, b->dir, deb, err) < 0 ||
	    path_join(tree, b->dir, "package", err) < 0 ||
	    path_join(tar, tree, name, err) < 0 ||
	    path_join(b->source, b->dir, "source", err) < 0)
		return err->code;
	if (mkdir(b->source, 0700) < 0)
		return fail(err, COVE_EIO, errno, "%s", b->source);
	say(b, "unpacking the source");
	if (tool_run(&(struct tool){.argv = open_deb, .in = -1, .out = -1}, err) < 0 ||
	    tool_run(&(struct tool){.argv = open_tar, .in = -1, .out = -1}, err) < 0)
		return err->code;
	return 0;
}

/* ---- the configuration --------------------------------------------------------- */

/* Every option of the first part of our file is in the one that came of it. */
static int check_config(const char *made, struct cove_error *err)
{
	const char *end = strstr(kernel_config, OPTIONAL_MARK);

	for (const char *p = kernel_config; p < end; p += strcspn(p, "\n") + 1) {
		char line[100];
		size_t n = strcspn(p, "\n");

		if (*p != 'C' || n + 3 > sizeof(line))
			continue;
		snprintf(line, sizeof(line), "\n%.*s\n", (int)n, p);
		if (!strstr(made, line))
			return fail(err, COVE_EUNSUPPORTED, 0,
				    "this source cannot be configured with %.*s", (int)n,
				    p);
	}
	return 0;
}

#define MAKE \
	"env", "-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "-u", "ARCH", "-u", \
		"CROSS_COMPILE", "-u", "KBUILD_OUTPUT", "make"

static int run_in_source(const struct build *b, const char *const *argv,
			 struct cove_error *err)
{
	return tool_run(
		&(struct tool){.argv = argv, .dir = b->source, .in = -1, .out = -1}, err);
}

static int configure(const struct build *b, struct cove_error *err)
{
	static const char *const tiny[] = {MAKE, "tinyconfig", NULL};
	static const char *const merge[] = {
		"sh", "scripts/kconfig/merge_config.sh", "-m", ".config", "cove.config",
		NULL};
	static const char *const settle[] = {MAKE, "olddefconfig", NULL};
	cleanup_fd int dir = open(b->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf made = BUF_INIT(CONFIG_MAX);
	int r;

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "%s", b->source);
	say(b, "configuring");
	r = write_file_atomic(dir, "cove.config", kernel_config, strlen(kernel_config),
			      0600, 0);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s/cove.config", b->source);
	if (run_in_source(b, tiny, err) < 0 || run_in_source(b, merge, err) < 0 ||
	    run_in_source(b, settle, err) < 0)
		return err->code;
	r = read_file_at(dir, ".config", &made);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s/.config", b->source);
	return check_config(made.data ? made.data : "", err);
}

/* ---- compiling ----------------------------------------------------------------- */

/* "  CC      kernel/fork.o" */
static void count_line(void *arg, const char *line)
{
	struct build *b = arg;

	if (strncmp(line, "  CC ", 5) != 0 && strncmp(line, "  AS ", 5) != 0)
		return;
	b->compiled++;
	report(&b->report, "compiling", b->compiled,
	       b->compiled < FILES_EXPECTED ? FILES_EXPECTED : b->compiled);
}

static int compile(struct build *b, struct cove_error *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char jobs[32];
	/* The same source and compiler give the same bytes. */
	const char *const build[] = {MAKE,
				     jobs,
				     "KBUILD_BUILD_USER=cove",
				     "KBUILD_BUILD_HOST=cove",
				     "KBUILD_BUILD_TIMESTAMP=1970-01-01",
				     "vmlinux",
				     NULL};
	static const char *const strip[] = {"strip", "vmlinux", NULL};

	snprintf(jobs, sizeof(jobs), "-j%ld", cpus > 0 ? cpus : 1);
	if (tool_run(&(struct tool){.argv = build,
				    .dir = b->source,
				    .in = -1,
				    .out = -1,
				    .line = count_line,
				    .arg = b},
		     err) < 0)
		return err->code;
	return run_in_source(b, strip, err);
}

static int store_image(struct build *b, struct cove_error *err)
{
	cleanup_fd int dir = open(b->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf image = BUF_INIT(KERNEL_IMAGE_MAX);
	cleanup_stage struct stage s = {.dir = -1};
	char name[sizeof(NAME_PREFIX) + KERNEL_VERSION_MAX];
	int r = dir < 0 ? -errno : read_file_at(dir, "vmlinux", &image);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s/vmlinux", b->source);
	say(b, "writing");
	if (stage_begin(&s, b->k, err) < 0 ||
	    stage_put(&s, IMAGE_NAME, image.data, image.len, err) < 0)
		return err->code;
	if (!image_version((const uint8_t *)image.data, image.len, s.record.version))
		return fail(err, COVE_EIO, 0, "the build has left no kernel");
	s.record.origin = ORIGIN_BUILT;
	s.record.built_in = true;
	snprintf(s.record.source, sizeof(s.record.source), "%.*s", KERNEL_SOURCE_MAX,
		 b->package);
	snprintf(name, sizeof(name), NAME_PREFIX "%s", s.record.version);
	kernel_name_from(name, b->name);
	return stage_commit(&s, b->name, err);
}

static int build_in(struct build *b, struct cove_error *err)
{
	struct archive a = {.dir = b->dir, .report = &b->report};
	char deb[PACKAGE_FILE_MAX + 1];

	if (archive_resolve(&a, META_SOURCE, SOURCE_PACKAGE, b->package, err) < 0 ||
	    archive_fetch(&a, b->package, deb, err) < 0 ||
	    unpack_source(b, deb, err) < 0 || configure(b, err) < 0 ||
	    compile(b, err) < 0)
		return err->code;
	return store_image(b, err);
}

int kernel_build(const char *dir, char *ret_name, kernel_progress progress, void *arg,
		 struct cove_error *err)
{
	struct build b = {
		.report = {.progress = progress, .arg = arg}
        };
	cleanup_kernels struct kernels k = {.dir = -1, .lock = -1};
	char scratch[64];
	int r;

	if (check_needs(err) < 0 || kernels_lock(&k, dir, true, &b.report, err) < 0)
		return err->code;
	b.k = &k;
	r = check_disk(&b, err);
	if (r == 0)
		r = kernels_scratch(&k, "build", scratch, sizeof(scratch), err);
	if (r == 0)
		r = path_join(b.dir, dir, scratch, err);
	if (r == 0)
		r = build_in(&b, err);
	say(&b, "cleaning up");
	kernels_sweep(&k);
	if (r == 0)
		snprintf(ret_name, KERNEL_NAME_MAX + 1, "%s", b.name);
	return r;
}
