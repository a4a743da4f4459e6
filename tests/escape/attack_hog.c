/* SPDX-License-Identifier: Apache-2.0 */
/* attack_hog - taking all there is: processes, memory, disk, descriptors, watches. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* forks N: N children at once. They end with this process. */
static int forks(char **arg)
{
	long want = strtol(arg[0], NULL, 10), n = 0;
	pid_t parent = getpid();

	for (; n < want; n++) {
		pid_t pid = fork();

		if (pid < 0) {
			int saved = errno;

			printf("%ld processes\n", n);
			errno = saved;
			return refused("fork number %ld", n);
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == parent) /* else it ended before that */
				pause();
			_exit(0);
		}
	}
	return worked("%ld processes", n);
}

/* bomb SECONDS: the real thing, every child forks again, until the time is over. Where
 * nothing stops it, it stops itself at BOMB_MAX, so that a failed test spares the host.
 */
#define BOMB_MAX 3000
static int bomb(char **arg)
{
	time_t end = time(NULL) + (time_t)strtol(arg[0], NULL, 10);
	unsigned *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (count == MAP_FAILED)
		return refused("memory");
	while (time(NULL) < end) {
		if (__atomic_load_n(count, __ATOMIC_RELAXED) >= BOMB_MAX)
			return worked("%d processes", BOMB_MAX);
		if (fork() < 0)
			usleep(20 * 1000);
		else
			__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	}
	errno = EAGAIN;
	return refused("fork without end");
}

/* memory MIB: allocate and touch. */
static int memory(char **arg)
{
	size_t mib = strtoul(arg[0], NULL, 10);

	for (size_t i = 0; i < mib; i++) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return refused("mebibyte %zu", i);
		memset(p, (int)i + 1, 1 << 20);
	}
	return worked("%zu MiB are held", mib);
}

/* shm MIB: the same in a memory file, which no limit of address space counts. */
static int memfd(char **arg)
{
	static char block[1 << 20];
	size_t mib = strtoul(arg[0], NULL, 10);
	int fd = memfd_create("hog", MFD_CLOEXEC);

	if (fd < 0)
		return refused("memfd_create");
	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < mib; i++)
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return refused("mebibyte %zu", i);
	return worked("%zu MiB are held", mib);
}

/* fill PATH MIB: one file until the disk, or a limit, says stop. */
static int fill(char **arg)
{
	static char block[1 << 20];
	size_t mib = strtoul(arg[1], NULL, 10), i = 0;
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int saved;

	if (fd < 0)
		return refused("%s", arg[0]);
	signal(SIGXFSZ, SIG_IGN);
	memset(block, 1, sizeof(block));
	for (; i < mib; i++)
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			break;
	saved = errno ? errno : ENOSPC;
	unlink(arg[0]);
	errno = saved;
	return i < mib ? refused("mebibyte %zu of %s", i, arg[0])
		       : worked("%zu MiB", mib);
}

static int open_files(char **arg)
{
	long want = strtol(arg[0], NULL, 10);

	for (long n = 0; n < want; n++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			return refused("file number %ld", n);
	return worked("%ld files are open", want);
}

/* inotify N SECONDS: instances, held for a while. */
static int watches(char **arg)
{
	long want = strtol(arg[0], NULL, 10), n = 0;
	int saved;

	while (n < want && inotify_init1(IN_CLOEXEC) >= 0)
		n++;
	saved = errno;
	printf("%ld instances\n", n);
	sleep((unsigned)strtoul(arg[1], NULL, 10));
	errno = saved;
	return n < want ? refused("inotify number %ld", n)
			: worked("%ld inotify instances", n);
}

const struct attack hog_attacks[] = {
	{"forks",   1, forks     },
        {"bomb",    1, bomb      },
        {"memory",  1, memory    },
	{"memfd",   1, memfd     },
        {"fill",    2, fill      },
        {"files",   1, open_files},
	{"inotify", 2, watches   },
        {NULL,      0, NULL      },
};
