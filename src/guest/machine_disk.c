/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_disk - disks: swap, and a root file system.
 *
 * An image is anybody's disk: a file system as a whole, or a table of partitions. The
 * largest that we can mount and that looks like a root is the root. It is mounted
 * read-only, as its device is, and the sandbox's own disk is laid over it.
 */
#include "guest/machine_disk.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <time.h>

#define DISKS "/sys/block"
#define DRIVER "/sys/bus/virtio/drivers/virtio_blk"
#define IMAGE "/image"
#define LAYER "/layer"
#define PARTITIONS_MAX 128
#define NAME 32
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

static int layer = -1; /* kept open for machine_disk_sync() */
static int swap = -1;  /* opened while there is a /dev that has it */

/* ---- by name -------------------------------------------------------------------- */

static ssize_t read_text(const char *path, char *out, size_t size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	if (n >= 0)
		out[n] = '\0';
	return n;
}

static bool has_serial(const char *disk, const char *serial)
{
	char path[300], text[64];

	snprintf(path, sizeof(path), DISKS "/%.200s/serial", disk);
	if (read_text(path, text, sizeof(text)) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, serial) == 0;
}

int machine_disk_find(const char *serial, char *out, size_t size)
{
	DIR *d = opendir(DISKS);
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		found = e->d_name[0] != '.' && strlen(e->d_name) < size &&
			has_serial(e->d_name, serial);
		if (found)
			snprintf(out, size, "%s", e->d_name);
	}
	if (d)
		closedir(d);
	errno = ENODEV;
	return found ? 0 : -1;
}

static int open_disk(const char *serial, int flags)
{
	char name[NAME], path[NAME + 8];

	if (machine_disk_find(serial, name, sizeof(name)) < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/%s", name);
	return open(path, O_CLOEXEC | flags);
}

int machine_window(void)
{
	return open_disk("cove.window", O_RDONLY | O_DIRECT);
}

void machine_swap_find(void)
{
	swap = open_disk("cove.swap", O_RDWR);
}

int machine_swap_on(void)
{
	char path[32];

	if (swap < 0) {
		errno = ENODEV;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", swap);
	if (swapon(path, 0) < 0)
		return -1;
	close_fd(&swap);
	return 0;
}

/* ---- what is behind it now ------------------------------------------------------ */

static int write_text(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* A template was made with nothing behind the device: the driver looks once more, at its
 * size and its partitions. */
static int look_again(const char *serial, char *out, size_t size)
{
	char name[NAME], path[100], to[256];
	const char *device;
	ssize_t n;

	if (machine_disk_find(serial, name, sizeof(name)) < 0)
		return -1;
	snprintf(path, sizeof(path), DISKS "/%s/device", name);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return -1;
	to[n] = '\0';
	device = strrchr(to, '/') ? strrchr(to, '/') + 1 : to;
	if (write_text(DRIVER "/unbind", device) < 0 ||
	    write_text(DRIVER "/bind", device) < 0)
		return -1;
	return machine_disk_find(serial, out, size);
}

/* ---- the image ------------------------------------------------------------------ */

struct part {
	char name[NAME];
	uint64_t sectors;
};

static uint64_t sectors_of(const char *dir, const char *name)
{
	char path[200], text[32];

	snprintf(path, sizeof(path), "%s/%s/size", dir, name);
	return read_text(path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

static int by_size(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->sectors < y->sectors ? 1 : x->sectors > y->sectors ? -1 : 0;
}

/* Its partitions, the largest first. */
static size_t list_parts(const char *disk, struct part *v)
{
	char dir[100];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), DISKS "/%s", disk);
	d = opendir(dir);
	while (d && n < PARTITIONS_MAX && (e = readdir(d))) {
		if (strncmp(e->d_name, disk, strlen(disk)) != 0 ||
		    strlen(e->d_name) >= NAME)
			continue;
		memcpy(v[n].name, e->d_name, strlen(e->d_name) + 1);
		v[n].sectors = sectors_of(dir, v[n].name);
		n++;
	}
	if (d)
		closedir(d);
	qsort(v, n, sizeof(*v), by_size);
	return n;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode));
}

static bool looks_like_a_root(void)
{
	return is_dir(IMAGE "/bin") || is_dir(IMAGE "/usr") || is_dir(IMAGE "/sbin");
}

/* noload: a journal that was not replayed cannot be, on a disk that nobody may write. */
static int mount_part(const char *name)
{
	static const char *const ways[][2] = {
		{"ext4",  ""      },
                {"ext4",  "noload"},
                {"erofs", ""      }
        };
	char path[NAME + 8];

	snprintf(path, sizeof(path), "/dev/%s", name);
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		if (mount(path, IMAGE, ways[i][0], MS_RDONLY | MS_NOSUID | MS_NODEV,
			  ways[i][1]) == 0)
			return 0;
	return -1;
}

static int mount_image(const char *disk)
{
	static struct part v[PARTITIONS_MAX];
	size_t n;

	if (mount_part(disk) == 0)
		return 0; /* whatever it holds: there is nothing else */
	n = list_parts(disk, v);
	for (size_t i = 0; i < n; i++) {
		if (mount_part(v[i].name) < 0)
			continue;
		if (looks_like_a_root())
			return 0;
		umount2(IMAGE, 0);
	}
	errno = ENODEV;
	return -1;
}

/* ---- the layer ------------------------------------------------------------------ */

/* The host may have made the disk larger. Not vital: it says what there is. */
static void grow(const char *disk)
{
	uint64_t blocks = sectors_of(DISKS, disk) / 8; /* of 4 KiB */

	ioctl(layer, EXT4_IOC_RESIZE_FS, &blocks);
}

static int mount_layer(const char *disk)
{
	char path[NAME + 8];

	snprintf(path, sizeof(path), "/dev/%s", disk);
	if (mount(path, LAYER, "ext4", MS_NOSUID | MS_NODEV, "discard,noinit_itable") < 0)
		return -1;
	layer = open(LAYER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (layer < 0)
		return -1;
	grow(disk);
	return 0;
}

/* The top of an overlay looks like its upper directory. */
static int make_upper(void)
{
	struct stat st;

	if (mkdirat(layer, "work", 0700) < 0 && errno != EEXIST)
		return -1;
	if (mkdirat(layer, "upper", 0755) < 0)
		return errno == EEXIST ? 0 : -1;
	if (stat(IMAGE, &st) < 0 || fchownat(layer, "upper", st.st_uid, st.st_gid, 0) < 0)
		return -1;
	return fchmodat(layer, "upper", st.st_mode & 07777, 0);
}

const char *machine_disk_root(const char *root)
{
	char name[NAME];

	if (mkdir(IMAGE, 0755) < 0 || mkdir(LAYER, 0755) < 0)
		return "disks";
	if (look_again("cove.image", name, sizeof(name)) < 0)
		return "the disk of the image";
	if (mount_image(name) < 0)
		return "the image has no root file system that this kernel can mount "
		       "(ext4, erofs)";
	if (look_again("cove.layer", name, sizeof(name)) < 0 || mount_layer(name) < 0 ||
	    make_upper() < 0)
		return "the sandbox's disk";
	if (mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV,
		  "lowerdir=" IMAGE ",upperdir=" LAYER "/upper,workdir=" LAYER
		  "/work") < 0)
		return "the sandbox's disk over the image";
	return NULL;
}

void machine_disk_sync(void)
{
	if (layer >= 0)
		syncfs(layer);
}
