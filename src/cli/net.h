/* SPDX-License-Identifier: Apache-2.0 */
/* net - what the parts of `cove net` share. */
#ifndef COVE_CLI_NET_H
#define COVE_CLI_NET_H

#include "cli/json.h"

/* HOST[:PORT][/PATH], also as a URL. */
struct net_target {
	char host[300];
	char port[16]; /* "": not said; a port or a range */
	char path[1024];
};
/* NULL, or why it is none. */
const char *net_target_parse(struct net_target *t, const char *text);

/* A rule as JSON from a target and the flags; a new reference. NULL after a message, with
 * the exit code in *code. */
json_t *net_rule(const struct args *a, const char *target, const char *action, int *code);

/* "host:port" for people; "[::1]:80". */
void net_host_port(const json_t *o, char *out, size_t size);

int net_check(const struct args *a, bool explain);
int net_log(const struct args *a);
int net_learned(const struct args *a);

#endif
