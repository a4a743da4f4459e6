/* SPDX-License-Identifier: Apache-2.0 */
/* attack_tty - the caller's terminal, and descriptors and variables that came along. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIOCLINUX_ 0x541C

extern char **environ;

/* tiocsti: types a key into the terminal on stdin. */
static int tiocsti(char **arg)
{
	(void)arg;
	return judge(ioctl(0, TIOCSTI, "x"), "TIOCSTI on stdin");
}

/* tiocsti-own: the same on a terminal of one's own, which needs no caller's. The filter
 * refuses the request itself, wherever the descriptor leads. */
static int tiocsti_own(char **arg)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	(void)arg;
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return refused("a terminal");
	setsid();
	slave = open(ptsname(master), O_RDWR);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return refused("a terminal");
	if (ioctl(slave, TIOCSTI, "x") == 0)
		return worked("TIOCSTI");
	/* The kernel looks at 32 bits of the request, a careless filter at 64. */
	errno = 0;
	return judge(ioctl(slave, (1ul << 32) | TIOCSTI, "x"), "TIOCSTI");
}

/* tioclinux PATH: paste of the console's selection. */
static int tioclinux(char **arg)
{
	char paste[2] = {3, 0};
	int fd = strcmp(arg[0], "-") == 0 ? 0
					  : open(arg[0], O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return refused("%s", arg[0]);
	/* Any answer of the terminal's own (a wrong ioctl for it) shows that it was
	 * asked. */
	return judge_reach(ioctl(fd, TIOCLINUX_, paste), "TIOCLINUX");
}

static int console_ioctl(char **arg)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC);

	(void)arg;
	if (fd < 0)
		fd = open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	return judge(fd, "the host's console");
}

/* descriptors: anything open beyond the three. */
static int descriptors(char **arg)
{
	char path[64], target[256];
	ssize_t n;

	(void)arg;
	for (int fd = 3; fd < 20000; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		return worked("descriptor %d is open: %s", fd, target);
	}
	errno = EBADF;
	return refused("an inherited descriptor");
}

/* host-fd FILE-INO: one of the three is the very file the caller has open. */
static int host_inode(char **arg)
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (fstat(fd, &st) == 0 &&
		    (unsigned long)st.st_ino == strtoul(arg[0], NULL, 10))
			return worked("descriptor %d is the caller's own file", fd);
	errno = EBADF;
	return refused("the caller's descriptors");
}

/* env TEXT: a variable whose name or value holds the text. */
static int env(char **arg)
{
	for (char **e = environ; *e; e++)
		if (strstr(*e, arg[0]))
			return worked("%s", *e);
	errno = ENOENT;
	return refused("the caller's environment");
}

const struct attack tty_attacks[] = {
	{"tiocsti",     0, tiocsti      },
	{"tiocsti-own", 0, tiocsti_own  },
	{"tioclinux",   1, tioclinux    },
	{"console",     0, console_ioctl},
	{"descriptors", 0, descriptors  },
	{"host-inode",  1, host_inode   },
	{"env",         1, env          },
	{NULL,          0, NULL         },
};
