/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the tar file of an image: whatever comes of it lies in its directory, has
 * no set-id bit, and is no device. */
#include "fuzz.h"

#include "base/io.h"
#include "base/util.h"
#include "roles/untar.h"

#include <archive.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BYTES_MAX (1u << 20)

static char place[] = "/dev/shm/cove-fuzz-untar.XXXXXX";
static unsigned beside;

static void leave(void)
{
	remove_tree_at(AT_FDCWD, place);
}

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)type;
	beside += at->level == 1;
	if (st->st_mode & 06000 || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ||
	    st->st_size > BYTES_MAX)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct untar u;
	static int top = -1;
	int root, file = memfd_create("tar", MFD_CLOEXEC);

	if (top < 0) {
		umask(0);
		if (!mkdtemp(place) || (top = open(place, O_RDONLY | O_DIRECTORY)) < 0)
			abort();
		atexit(leave);
	}
	if (mkdirat(top, "tree", 0755) < 0 ||
	    (root = openat(top, "tree", O_RDONLY | O_DIRECTORY)) < 0 || file < 0 ||
	    write_all(file, data, size) < 0 || lseek(file, 0, SEEK_SET) != 0)
		abort();
	memset(&u, 0, sizeof(u));
	u.fd = file;
	u.bytes_max = BYTES_MAX;
	tree_init(&u.tree, root, u.bytes_max);
	untar_run(&u);
	archive_read_free(u.a);
	close_fd(&u.tree.parent);
	buf_clear(&u.tree.dirs);
	close(root);
	close(file);
	beside = 0;
	/* nothing but the tree, from where a path with ".." would have made more */
	if (nftw(place, look, 16, FTW_PHYS) != 0 || beside != 1)
		abort();
	if (remove_tree_at(top, "tree") < 0)
		abort();
	return 0;
}
