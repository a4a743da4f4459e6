/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_probe - does an installed kernel do what a guest needs? Two programs in one.
 *
 *	machine-probe KERNELS [NAME]	prints the paths of image and initramfs, with
 *					itself in cove-guest's place
 *	as process 1 of a machine	loads the modules in their order, says on the
 *					console what came of it, and ends the machine
 */
#include "os/capture.h"
#include "vm/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void say(const char *what, long r)
{
	printf("probe: %s: %s\n", what, r < 0 ? strerror((int)-r) : "ok");
}

static void mount_at(const char *type, const char *path)
{
	if (mount(type, path, type, 0, NULL) < 0)
		say(path, -errno);
}

static void load_modules(void)
{
	FILE *order = fopen("/modules/order", "re");
	double began = now_ms();
	char line[200];
	int n = 0;

	while (order && fgets(line, sizeof(line), order)) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) < 0)
			say(line, -errno);
		else
			n++;
		close(fd);
	}
	printf("probe: loaded %d modules in %.0f ms\n", n, now_ms() - began);
}

static void show_ports(void)
{
	DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[400], name[64] = "";
		int fd;

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 e->d_name);
		fd = e->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0)
			printf("probe: port %s", name);
		close(fd);
	}
}

static void show_file_systems(void)
{
	FILE *f = fopen("/proc/filesystems", "re");
	char line[100], name[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "nodev %63s", name) == 1 ||
		    sscanf(line, " %63s", name) == 1)
			printf("probe: fs %s\n", name);
}

/* What os/netcapture.h needs of the kernel: the rule, IPv6, transparent sockets. */
static void try_capture(void)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fds[CAPTURE_COUNT];
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	struct netcapture n;

	if (ioctl(s, SIOCSIFFLAGS, &lo) < 0)
		say("lo", -errno);
	netcapture_build(&n, netcapture_has_ipv6());
	say(n.six ? "capture with IPv6" : "capture without IPv6", capture_open(&n, fds));
}

static int as_init(void)
{
	mount_at("devtmpfs", "/dev");
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	setvbuf(stdout, NULL, _IOLBF, 0);
	load_modules();
	usleep(100000); /* ports are announced by messages of their own */
	show_ports();
	show_file_systems();
	try_capture();
	printf("probe: done after %.0f ms\n", now_ms());
	usleep(50000);
	reboot(RB_AUTOBOOT);
	return 1;
}

int main(int argc, char **argv)
{
	struct cove_error err = {0};
	struct vm_kernel k;

	if (getpid() == 1)
		return as_init();
	if (argc < 2 || kernel_find(&k, argv[1], argv[2], "/proc/self/exe", &err) < 0 ||
	    kernel_verify(&k, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("%s\n%s\n", k.image, k.initramfs);
	return 0;
}
