/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_install - the distribution's kernel for virtual machines, unpacked. */
#include "vm/kernel_impl.h"

#include "base/util.h"
#include "vm/kernel_unpack.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Small, made for virtual machines, and present in every Debian. */
#if defined(__x86_64__)
#define META_PACKAGE "linux-image-cloud-amd64"
#else
#define META_PACKAGE "linux-image-cloud-arm64"
#endif
#define IMAGE_PACKAGE "linux-image-"

struct install {
	struct kernels *k;
	struct kernel_report report;
	char name[KERNEL_NAME_MAX + 1];
};

static void say(const struct install *in, const char *what)
{
	report(&in->report, what, 0, 0);
}

static void unpacked(void *arg, uint64_t bytes)
{
	const struct install *in = arg;

	report(&in->report, "unpacking", bytes, 0);
}

/* ---- one that is there already ------------------------------------------------- */

static bool is_whole(struct kernels *k, const char *name, const char *source)
{
	struct cove_error ignored = {0};
	cleanup_fd int fd = kernels_open_one(k->dir, name, &ignored);
	struct kernel_record r;
	size_t n = strlen(source);
	bool whole;

	if (fd < 0 || record_read(&r, fd, &ignored) < 0)
		return false;
	whole = strncmp(r.source, source, n) == 0 &&
		(r.source[n] == '_' || !r.source[n]) &&
		record_check(&r, fd, true, &ignored) == 0;
	record_clear(&r);
	return whole;
}

/* package: NAME_VERSION; its kernel has the rest of the package's name. */
static bool is_there(struct install *in, const char *package)
{
	char version[PACKAGE_FILE_MAX + 1];

	snprintf(version, sizeof(version), "%s", package + strlen(IMAGE_PACKAGE));
	version[strcspn(version, "_")] = '\0';
	kernel_name_from(version, in->name);
	say(in, "checking what is installed");
	return is_whole(in->k, in->name, package);
}

/* ---- a package at hand --------------------------------------------------------- */

static int store_package(struct install *in, struct package *p, const char *source,
			 struct cove_error *err)
{
	cleanup_stage struct stage s = {.dir = -1};
	struct module_source modules = package_source(p);
	struct module_set set = {0};
	int r;

	say(in, "choosing modules");
	if (stage_begin(&s, in->k, err) < 0 || modules_collect(&set, &modules, err) < 0)
		return err->code;
	say(in, "writing");
	r = stage_put(&s, IMAGE_NAME, p->image, p->image_size, err);
	if (r == 0)
		r = stage_put_modules(&s, &set, err);
	module_set_clear(&set);
	if (r < 0)
		return r;
	s.record.origin = ORIGIN_PACKAGE;
	snprintf(s.record.version, sizeof(s.record.version), "%s", p->version);
	snprintf(s.record.source, sizeof(s.record.source), "%.*s", KERNEL_SOURCE_MAX,
		 source);
	kernel_name_from(p->version, in->name);
	return stage_commit(&s, in->name, err);
}

/* Its tree is an unnamed file of ours, which nobody can change under the mapping. */
static int install_tree(struct install *in, int tree, const char *source,
			struct cove_error *err)
{
	struct package p;
	struct stat st;
	void *map;
	int r;

	if (fstat(tree, &st) < 0)
		return fail(err, COVE_EIO, errno, "package");
	if (st.st_size == 0)
		return fail(err, COVE_EINVAL, 0, "the package is empty");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, tree, 0);
	if (map == MAP_FAILED)
		return fail(err, COVE_EIO, errno, "package");
	r = package_look(&p, map, (size_t)st.st_size, err);
	if (r == 0) {
		r = store_package(in, &p, source, err);
		package_clear(&p);
	}
	munmap(map, (size_t)st.st_size);
	return r;
}

static int install_deb(struct install *in, const char *deb, struct cove_error *err)
{
	cleanup_free char *path = realpath(deb, NULL);
	cleanup_fd int tree = -1;
	const char *base;
	char source[KERNEL_SOURCE_MAX + 1];
	size_t n;

	if (!path)
		return fail(err, COVE_EIO, errno, "%s", deb);
	base = strrchr(path, '/') + 1;
	n = strlen(base);
	if (n > 4 && strcmp(base + n - 4, ".deb") == 0)
		n -= 4;
	snprintf(source, sizeof(source), "%.*s", (int)min_size(n, KERNEL_SOURCE_MAX),
		 base);
	say(in, "unpacking");
	if (unpack_deb(path, in->k->path, &tree, unpacked, in, err) < 0 ||
	    install_tree(in, tree, source, err) < 0)
		return wrap(err, "%s", base);
	return 0;
}

/* ---- a package that is fetched ------------------------------------------------- */

static int no_archive(struct cove_error *err)
{
	if (err->code == COVE_EUNSUPPORTED)
		fail(err, COVE_EUNSUPPORTED, 0,
		     "this host has no apt-get to fetch a kernel package with");
	return hint(err, "get a " IMAGE_PACKAGE
			 "*-cloud-* package of Debian and run 'cove kernel install --deb "
			 "FILE', or 'cove kernel add' for a kernel of your own");
}

static int install_fetched(struct install *in, struct cove_error *err)
{
	char scratch[64], dir[PATH_MAX], package[PACKAGE_FILE_MAX + 1];
	char file[PACKAGE_FILE_MAX + 1], path[PATH_MAX];
	struct archive a = {.dir = dir, .report = &in->report};

	if (kernels_scratch(in->k, "get", scratch, sizeof(scratch), err) < 0)
		return err->code;
	if (snprintf(dir, sizeof(dir), "%s/%s", in->k->path, scratch) >= (int)sizeof(dir))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", in->k->path);
	if (archive_resolve(&a, META_PACKAGE, IMAGE_PACKAGE, package, err) < 0)
		return no_archive(err);
	if (is_there(in, package))
		return 0;
	if (archive_fetch(&a, package, file, err) < 0)
		return no_archive(err);
	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", dir);
	return install_deb(in, path, err);
}

int kernel_install(const char *dir, const char *deb, char *ret_name,
		   kernel_progress progress, void *arg, struct cove_error *err)
{
	struct install in = {
		.report = {.progress = progress, .arg = arg}
        };
	cleanup_kernels struct kernels k = {.dir = -1, .lock = -1};
	int r;

	if (kernels_lock(&k, dir, true, &in.report, err) < 0)
		return err->code;
	in.k = &k;
	r = deb ? install_deb(&in, deb, err) : install_fetched(&in, err);
	kernels_sweep(&k);
	if (r == 0)
		snprintf(ret_name, KERNEL_NAME_MAX + 1, "%s", in.name);
	return r;
}
