/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca - a certificate authority for one sandbox, made in memory, and the trust in others.
 *
 * EC P-256. The key never leaves this process. Leafs: SAN of the name (or address),
 * serverAuth, SKI, AKI, 7 days, backdated an hour; one key for all of them; LRU of
 * LEAFS_MAX certificates. Nothing here opens a file: OpenSSL is told to read no
 * configuration, and randomness comes from getrandom(2).
 */
#ifndef COVE_EGRESS_CA_H
#define COVE_EGRESS_CA_H

#include "base/buf.h"
#include "base/error.h"
#include "policy/addr.h"

#define LEAFS_MAX 1024

struct authority;
/* name: the sandbox's, for the subject. */
int authority_new(struct authority **ret, const char *name, struct cove_error *err);
void authority_free(struct authority *a);
int authority_pem(struct authority *a, struct buf *out); /* 0 or -errno */
/* Upstreams are verified against these certificates (PEM, many) only; parsed on first
 * use. A CA that the spec names is appended by a second call. 0, -E2BIG, -ENOMEM. */
int authority_trust(struct authority *a, const char *pem, size_t n);
/* A Java key store (JKS, password "changeit") with our certificate and those trusted. */
int authority_jks(struct authority *a, struct buf *out, struct cove_error *err);

/* For chan.c: a new SSL * without a descriptor, the caller's; NULL with *why (static).
 * Server: with a leaf for name. Client: verifies name, or ip if there is no name. */
void *authority_server_ssl(struct authority *a, const char *name, const char **why);
void *authority_client_ssl(struct authority *a, const char *name, const struct addr *ip,
			   const char **why);

#endif
