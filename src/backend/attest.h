/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attest - evidence about a process, read from the host's side: /proc as we see it, never
 * asked of the process itself.
 */
#ifndef COVE_BACKEND_ATTEST_H
#define COVE_BACKEND_ATTEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct report {
	json_t *items;
	int short_of;
	bool nomem;
};

void attest_item(struct report *r, const char *name, const char *required,
		 const char *actual, bool ok);
/* A limit of the spec and what is in force. have 0: no limit. A default that the host
 * cannot give was never asked for: shown, not counted. */
void attest_limit(struct report *r, const char *name, uint64_t want, uint64_t have,
		  bool asked, bool missing);

#define ATTEST_NAMESPACES 8
extern const char *const attest_namespaces[ATTEST_NAMESPACES];

/* proc: a descriptor of /proc/PID. ret: the namespace as the kernel names it. */
bool attest_own_namespace(int proc, const char *name, char *ret, size_t size);
/* "Key:\tvalue" of /proc/PID/status. key with the newline before it; "": not there. */
void attest_status(const char *status, const char *key, char *out, size_t size);
bool attest_only_loopback(int proc);
/* One id inside that is another, unprivileged one outside; ret: the map in words. */
bool attest_one_user(int proc, uint32_t outside, char *ret, size_t size);

struct place_config;
/* What guards protect, in the mount namespace of that process: an item each. */
void attest_guards(struct report *r, const struct place_config *c, int proc);

#endif
