/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_dirs - what a sandbox needs on disk before it starts.
 *
 *	record/mN/{upper,work}	an overlay mount, N being its layer number
 *	record/mN/copy		a copy mount; mN/copied is written once it is complete
 *	record/mask/HEX		a mask of persistent storage, by the digest of its path
 *	record/home, root	persistent storage, or what provision made
 *	record/root/{disk,base}	of an image that is a disk: see backend/vm_disk.c
 */
#include "core/box_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/copymount.h"
#include "core/provision.h"
#include "work/layer.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

struct strings {
	char *data;
	size_t len, size;
};

static const char *keepf(struct strings *s, const char *dir, const char *name)
{
	char *at = s->data + s->len;
	int n = snprintf(at, s->size - s->len, "%s%s%s", dir, *dir ? "/" : "", name);

	if (n < 0 || (size_t)n >= s->size - s->len)
		return NULL;
	s->len += (size_t)n + 1;
	return at;
}

/* upper holds the changes; work is the kernel's scratch and must be clean for a mount (a
 * volatile overlay marks it, and refuses a marked one). mode: of the directory below. */
static int make_layer(int record, const char *name, mode_t mode)
{
	char upper[64], work[64], used[64];
	int r;

	snprintf(upper, sizeof(upper), "%s/upper", name);
	snprintf(work, sizeof(work), "%s/work", name);
	snprintf(used, sizeof(used), "%s/work/work", name);
	if (mkdirat(record, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (mkdirat(record, work, 0700) < 0) {
		r = errno == EEXIST ? remove_tree_at(record, used) : -errno;
		if (r < 0)
			return r;
	}
	if (mkdirat(record, upper, mode) < 0)
		return errno == EEXIST ? 0 : -errno;
	/* inside, the layer's own directory is what the mount's root looks like, whatever
	 * the umask of the keeper */
	return fchmodat(record, upper, mode, 0) == 0 ? 0 : -errno;
}

/* When root starts it, the layer belongs to the owner of the project: the mount maps that
 * owner to the sandbox's user, so what is written is his, and lands as his. */
static int own_layer(int record, const char *name, const struct stat *like)
{
	static const char *const parts[] = {"", "/upper", "/work"};
	struct stat st;

	if (geteuid() != 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s%s", name, parts[i]);
		if (fstatat(record, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    ((st.st_uid != like->st_uid || st.st_gid != like->st_gid) &&
		     fchownat(record, path, like->st_uid, like->st_gid,
			      AT_SYMLINK_NOFOLLOW) < 0))
			return -errno;
	}
	return 0;
}

static int make_overlay(int record, const char *name, const struct spec_mount *m,
			struct cove_error *err)
{
	struct stat st;
	int r;

	if (stat(m->source, &st) < 0)
		return fail(err, COVE_EIO, errno, "mounts: %s", m->source);
	if (!S_ISDIR(st.st_mode)) {
		fail(err, COVE_EINVAL, 0, "mounts: %s is not a directory", m->source);
		return hint(err, "a file can be mounted ro, rw or copy");
	}
	r = make_layer(record, name, st.st_mode & 0777);
	if (r == 0)
		r = own_layer(record, name, &st);
	return r < 0 ? fail(err, COVE_EIO, -r, "layer of %s", m->target) : 0;
}

static int make_mount(struct box *b, size_t i, int record, const char *dir,
		      struct strings *str, struct cove_error *err)
{
	const struct spec_mount *m = &b->spec.mounts[i];
	struct place_mount *pm = &b->mounts[b->n_mounts++];
	char name[24], file[32], path[PATH_MAX];

	*pm = (struct place_mount){
		.source = m->source, .target = m->target, .mode = m->mode};
	snprintf(name, sizeof(name), "m%d", spec_layer_number(&b->spec, i));
	snprintf(file, sizeof(file), "%s/copy", name);
	switch (m->mode) {
	case MOUNT_OVERLAY:
		pm->layer = keepf(str, dir, name);
		return pm->layer ? make_overlay(record, name, m, err) : fail_nomem(err);
	case MOUNT_COPY:
		pm->source = keepf(str, dir, file);
		return pm->source ? copymount_make(record, name, m->source, err)
				  : fail_nomem(err);
	case MOUNT_VOLUME:
		if (volume_use(b->store, m->source, m->shared, &b->volumes, path,
			       sizeof(path), err) < 0)
			return err->code;
		pm->source = keepf(str, "", path);
		return pm->source ? 0 : fail_nomem(err);
	case MOUNT_RW:
		pm->guards = guards_of(b->guards, i, &pm->n_guards);
		return 0;
	default:
		return 0;
	}
}

/* By its path: the same mask finds its content again, wherever it stands in the list. */
static int make_mask(struct box *b, size_t i, int record, const char *dir,
		     struct strings *str, struct cove_error *err)
{
	struct place_mount *pm = &b->mounts[b->n_mounts++];
	const char *path = b->spec.mask.v[i];
	unsigned char sum[16];
	char name[48];

	*pm = (struct place_mount){.target = path, .mode = MOUNT_VOLUME};
	if (b->spec.storage == STORAGE_EPHEMERAL)
		return 0;
	crypto_generichash(sum, sizeof(sum), (const unsigned char *)path, strlen(path),
			   NULL, 0);
	memcpy(name, "mask/", 6);
	for (size_t k = 0; k < sizeof(sum); k++)
		snprintf(name + 5 + 2 * k, 3, "%02x", sum[k]);
	if ((mkdirat(record, "mask", 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(record, name, 0755) < 0 && errno != EEXIST))
		return fail(err, COVE_EIO, errno, "mask %s", path);
	pm->source = keepf(str, dir, name);
	return pm->source ? 0 : fail_nomem(err);
}

static int make_mounts(struct box *b, int record, const char *dir, struct strings *str,
		       struct cove_error *err)
{
	/* before the mounts, which take single ones as they come */
	int r = volumes_use(b->store, &b->spec, &b->volumes, err);

	if (r == 0)
		r = guards_make(&b->guards, &b->spec, err);
	for (size_t i = 0; r == 0 && i < b->spec.n_mounts; i++)
		r = make_mount(b, i, record, dir, str, err);
	for (size_t i = 0; r == 0 && i < b->spec.mask.n; i++)
		r = make_mask(b, i, record, dir, str, err);
	return r;
}

/* Home and image root, where the spec or the image wants them on disk. */
static int make_roots(struct box *b, int record, const char *dir, struct strings *str,
		      struct cove_error *err)
{
	bool ephemeral = b->spec.storage == STORAGE_EPHEMERAL;
	int r = 0;

	/* A machine that goes on finds what it left. */
	if (ephemeral && !b->state && (r = remove_tree_at(record, "root")) == 0)
		r = remove_tree_at(record, "home");
	if (r < 0)
		return fail(err, COVE_EIO, -r, "storage of the last run");
	if (provision_wanted(&b->spec) && !b->state &&
	    provision_install(b->store, &b->spec, record, err) < 0)
		return err->code;
	if (!ephemeral || provision_wanted(&b->spec)) {
		if (mkdirat(record, "home", 0700) < 0 && errno != EEXIST)
			return fail(err, COVE_EIO, errno, "home directory");
		b->config.home_dir = keepf(str, dir, "home");
	}
	if (spec_image_is_tree(&b->spec)) {
		r = make_layer(record, "root", 0755);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "layer of the image");
		b->config.root_layer = keepf(str, dir, "root");
	}
	if (spec_image_is_disk(&b->spec)) {
		if (mkdirat(record, "root", 0700) < 0 && errno != EEXIST)
			return fail(err, COVE_EIO, errno, "layer of the image");
		b->config.root_layer = keepf(str, dir, "root");
	}
	return 0;
}

bool box_needs_record(const struct box *b)
{
	const struct spec *s = &b->spec;
	bool disk = s->storage == STORAGE_PERSISTENT || spec_image_is_tree(s) ||
		    spec_image_is_disk(s) || provision_wanted(s);

	/* rw: what is guarded and appears all the same goes to quarantine */
	for (size_t i = 0; i < s->n_mounts; i++)
		disk |= s->mounts[i].mode == MOUNT_OVERLAY ||
			s->mounts[i].mode == MOUNT_COPY || s->mounts[i].mode == MOUNT_RW;
	return disk;
}

int box_make_dirs(struct box *b, struct cove_error *err)
{
	char dir[PATH_MAX];
	struct strings str;

	str.size = 4096 + (b->spec.n_mounts + b->spec.mask.n + 4) *
				  (strlen(b->store->home) + 192);
	str.len = 0;
	str.data = b->paths = malloc(str.size);
	if (!b->paths)
		return fail_nomem(err);
	if (store_path(b->store, b->name, "", dir, sizeof(dir)) < 0)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", b->store->home);
	if (b->oneshot && !box_needs_record(b))
		return make_mounts(b, -1, dir, &str, err);
	if (b->oneshot && store_claim(b->store, b->name) < 0)
		return fail(err, COVE_EIO, errno, "directory of %s", b->name);
	cleanup_fd int record = openat(b->store->boxes, b->name,
				       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (record < 0)
		return fail(err, COVE_EIO, errno, "directory of %s", b->name);
	if (make_mounts(b, record, dir, &str, err) < 0)
		return err->code;
	return make_roots(b, record, dir, &str, err);
}

void box_clear_dirs(struct box *b)
{
	volume_release(&b->volumes);
	guards_free(take_ptr(b->guards));
	free(b->paths);
	b->paths = NULL;
}

/* ---- mount points in upper layers ----------------------------------------------- */

/* A directory that is in the layer only because something below it was made there: empty
 * again, and otherwise as the host's. */
static bool tidy_parent(int upper, int lower, const char *path)
{
	const char *name;
	cleanup_fd int up = open_beneath(upper, path, O_RDONLY | O_DIRECTORY);
	cleanup_fd int low = open_beneath(lower, path, O_PATH | O_DIRECTORY);
	struct stat a, b;
	char mark;

	if (up < 0 || low < 0 || fstat(up, &a) < 0 || fstat(low, &b) < 0 ||
	    a.st_mode != b.st_mode || a.st_uid != b.st_uid || a.st_gid != b.st_gid ||
	    fgetxattr(up, "user.overlay.opaque", &mark, 1) >= 0)
		return false;
	cleanup_fd int dir = open_parent(upper, path, &name);
	return dir >= 0 && unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/* Only what cannot be work: the host has nothing there, and what is in the layer is
 * empty. */
static void tidy_point(int upper, int lower, const char *path)
{
	char parent[SPEC_STR_MAX + 2];
	const char *name;
	struct stat st;
	char *slash;

	/* The layer is the sandbox's work: no symlink of it is followed. */
	cleanup_fd int dir = open_parent(upper, path, &name);
	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	cleanup_fd int below = open_beneath(lower, path, O_PATH);
	if (below != -ENOENT)
		return;
	if (S_ISDIR(st.st_mode) ? unlinkat(dir, name, AT_REMOVEDIR) < 0
				: !S_ISREG(st.st_mode) || st.st_size || st.st_nlink > 1 ||
					  unlinkat(dir, name, 0) < 0)
		return;
	snprintf(parent, sizeof(parent), "%s", path);
	while ((slash = strrchr(parent, '/'))) {
		*slash = '\0';
		if (!tidy_parent(upper, lower, parent))
			break;
	}
}

void box_tidy_layers(const struct box *b)
{
	const char *points[PLACE_MOUNTS_MAX];

	for (size_t i = 0; i < b->spec.n_mounts; i++) {
		char path[SPEC_NAME_MAX + 32];
		size_t n;

		if (b->spec.mounts[i].mode != MOUNT_OVERLAY)
			continue;
		n = spec_skips(&b->spec, i, points, ARRAY_LEN(points));
		if (n == 0)
			continue;
		snprintf(path, sizeof(path), "%s/m%d/upper", b->name,
			 spec_layer_number(&b->spec, i));
		cleanup_fd int upper =
			openat(b->store->boxes, path,
			       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		cleanup_fd int lower =
			open(b->spec.mounts[i].source, O_PATH | O_DIRECTORY | O_CLOEXEC);
		for (size_t k = n; upper >= 0 && lower >= 0 && k-- > 0;)
			tidy_point(upper, lower, points[k]);
	}
}
