/* SPDX-License-Identifier: Apache-2.0 */
/*
 * who - which process inside has this socket, and which exec does it belong to?
 *
 * sock_diag names the socket's inode, /proc its holders, their parents the exec: the
 * child of the sandbox's first process that they descend from. A process whose parents
 * are gone (it was adopted by the first process) belongs to no exec and is unknown; so is
 * a socket that several execs hold.
 *
 * The host asks so about a sandbox of processes. Inside a machine its first process does,
 * about its own children (guest/netwho.c).
 */
#ifndef COVE_OS_WHO_H
#define COVE_OS_WHO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct who {
	pid_t pid;        /* of a holder, as the asker sees it */
	uint32_t root;    /* the exec's first process, as the sandbox numbers it */
	uint64_t started; /* when that began, see who_now() */
	char program[32]; /* its command name, hostile text */
};
/* Now, on the clock of who.started: a number of a process may be given out again, but not
 * before its first bearer has ended. */
uint64_t who_now(void);

/* diag: a NETLINK_SOCK_DIAG socket of the sandbox's network namespace; init: the
 * sandbox's first process. Both ends of one family, AF_INET or AF_INET6. 0, -ESRCH: no
 * holder or not one exec's, other -errno. */
int who_has(int diag, pid_t init, bool udp, const struct sockaddr *from,
	    const struct sockaddr *to, struct who *ret);

#endif
