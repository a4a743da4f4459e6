/* SPDX-License-Identifier: Apache-2.0 */
/* ports_impl - what the files of published ports share. */
#ifndef COVE_CORE_PORTS_IMPL_H
#define COVE_CORE_PORTS_IMPL_H

#include "core/ports.h"

#include <netinet/in.h>
#include <sys/types.h>
#include <sys/un.h>

#define PORT_TEXT 4200
/* In the run directory: what listens, a line each, for the message of who wants the same.
 */
#define PORTS_FILE "ports"

/* The host's end of an entry. */
struct host_end {
	bool is_path;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t len;
	char text[PORT_TEXT]; /* "127.0.0.1:8080", or the path */
};

/* ports_listen.c */
int host_end_parse(struct host_end *e, const json_t *host, const struct store *st,
		   const char *name, struct cove_error *err);
/* A listener; the text then has the port that the kernel chose. */
int host_end_listen(struct host_end *e, struct store *st, int *ret_fd,
		    struct cove_error *err);
/* Removes the socket that fd is bound to, if it is still the one with that name. */
void host_end_remove(const struct host_end *e, dev_t dev, ino_t ino);
void host_end_identity(const struct host_end *e, dev_t *dev, ino_t *ino);

/* ports_holder.c: "nginx (pid 12)", "sandbox web"; "" if it cannot be seen. */
void port_holder(struct store *st, const struct host_end *e, char *out, size_t size);
void pid_text(struct store *st, pid_t pid, char *out, size_t size);

#endif
