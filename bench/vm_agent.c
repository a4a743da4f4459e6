/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_agent - /init of the plainest machine to compare with: loads the modules, opens one
 * port and does what a byte on it asks for. As "true" it is a program that only ends.
 *
 *	e  sends an e back              x  starts itself as "true", waits, sends an x
 *	d  starts /bin/true, which is the host's own, with its loader and its C library
 *	w  sends 128 MiB from memory    p  the same through a pipe, as output of a process
 */
#include "vm_init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB 128
#define BLOCK 65536

static char block[BLOCK];

static int open_port(void)
{
	const struct timespec nap = {0, 1000000};
	int fd;

	while ((fd = open("/dev/vport0p1", O_RDWR | O_CLOEXEC)) < 0)
		nanosleep(&nap, NULL);
	return fd;
}

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno != EINTR && errno != EAGAIN)
			return;
		p += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
}

static int start_true(const char *program)
{
	pid_t pid = vfork();
	int status = -1;

	if (pid == 0) {
		char name[] = "true";
		char *argv[] = {name, NULL};

		execv(program, argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void send_memory(int port)
{
	for (int i = 0; i < MIB * (1 << 20) / BLOCK; i++)
		send_all(port, block, BLOCK);
}

static void send_pipe(int port)
{
	int p[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		send_memory(p[1]);
		_exit(0);
	}
	close(p[1]);
	while ((n = read(p[0], block, BLOCK)) > 0)
		send_all(port, block, (size_t)n);
	close(p[0]);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	int port;
	char c;

	if (argc && strcmp(argv[0], "true") == 0)
		return 0;
	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	load_modules();
	port = open_port();
	send_all(port, "R", 1);
	for (;;) {
		if (read(port, &c, 1) != 1)
			continue;
		if ((c == 'x' && start_true("/init") != 0) ||
		    (c == 'd' && start_true("/bin/true") != 0))
			c = '!';
		if (c == 'w')
			send_memory(port);
		else if (c == 'p')
			send_pipe(port);
		else
			send_all(port, &c, 1);
	}
}
