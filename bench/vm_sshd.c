/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_sshd - /init of a machine as one would make it from Debian's own parts: loads the
 * modules, sets up the network card that QEMU's user network serves, and becomes
 * dropbear, to which somebody logs in and starts a program (bench/vm_ssh.py).
 */
#include "vm_init.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void up(int s, const char *name)
{
	struct ifreq r = {0};

	strncpy(r.ifr_name, name, sizeof(r.ifr_name) - 1);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(s, SIOCSIFFLAGS, &r);
}

static int set_address(int s, unsigned long what, const char *address)
{
	struct ifreq r = {.ifr_name = "eth0"};
	struct sockaddr_in a = {.sin_family = AF_INET};

	inet_pton(AF_INET, address, &a.sin_addr);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	return ioctl(s, what, &r);
}

/* The card is there when its driver has found it. */
static void network(void)
{
	const struct timespec nap = {0, 1000000};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	up(s, "lo");
	for (int i = 0; i < 5000 && set_address(s, SIOCSIFADDR, "10.0.2.15") < 0; i++)
		nanosleep(&nap, NULL);
	set_address(s, SIOCSIFNETMASK, "255.255.255.0");
	up(s, "eth0");
	close(s);
}

int main(void)
{
	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	load_modules();
	network();
	execl("/usr/sbin/dropbear", "dropbear", "-F", "-E", "-s", "-r", "/hostkey",
	      (char *)NULL);
	perror("dropbear");
	for (;;)
		pause();
}
