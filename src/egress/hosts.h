/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts - the text of /etc/hosts as a table. Pure.
 *
 * Lines are "ADDRESS NAME..."; what is no address (or has a scope) and what is no host
 * name is passed over, as the host's own resolver does. Bounded: names beyond HOSTS_MAX
 * are not known.
 */
#ifndef COVE_EGRESS_HOSTS_H
#define COVE_EGRESS_HOSTS_H

#include "policy/addr.h"

#define HOSTS_MAX 262144

struct hosts;
int hosts_parse(const char *text, size_t n, struct hosts **ret); /* 0 or -ENOMEM */
void hosts_free(struct hosts *h);
/* Addresses of a normalised name in the order of the file, at most max; 0: not there. */
size_t hosts_find(const struct hosts *h, const char *name, struct addr *ret, size_t max);

#endif
