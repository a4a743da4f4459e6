/* SPDX-License-Identifier: Apache-2.0 */
/* ca_impl - what the files of the authority share, see ca.h. */
#ifndef COVE_EGRESS_CA_IMPL_H
#define COVE_EGRESS_CA_IMPL_H

#include "egress/ca.h"
#include "egress/lru.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#define AUTHORITY_NAME 64       /* of a sandbox, in our subject */
#define TRUST_MAX (8u << 20)    /* bytes of PEM */
#define CHAIN_MAX (64u << 10)   /* bytes of certificates that a peer may send */
#define SESSIONS_MAX 256        /* names whose last session is kept */
#define SESSION_BYTES_MAX 16384 /* of one, as ASN.1; a larger one is not kept */
#define SESSION_SECONDS 3600
#define CA_SECONDS (3650L * 86400) /* a sandbox may run for years */
#define LEAF_SECONDS (7L * 86400)
#define LEAF_FRESH 86400 /* one with less than this left is made anew */
#define BACKDATE 3600

struct anchors;

/* Everything is made when it is needed first: a sandbox whose connections are all passed
 * through never pays for OpenSSL. */
struct authority {
	char name[AUTHORITY_NAME];
	EVP_PKEY *key; /* ours; signs, and never leaves */
	X509 *cert;
	EVP_PKEY *leaf_key; /* one for all leafs */
	struct lru leafs;   /* name to struct leaf */
	SSL_CTX *server;
	struct buf trust; /* PEM of those who are trusted */
	struct anchors *anchors;
	SSL_CTX *client;
	struct lru sessions; /* name to struct kept_session */
};

/* ---- ca.c ----------------------------------------------------------------------- */
int authority_init(void);                 /* OpenSSL is there; 0 or -errno */
int authority_ready(struct authority *a); /* key and certificate exist; 0 or -errno */

/* ---- ca_cert.c: certificates ---------------------------------------------------- */
EVP_PKEY *cert_key(void);                            /* NULL on failure */
X509 *cert_root(const char *sandbox, EVP_PKEY *key); /* same */
X509 *cert_leaf(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key);

/* ---- ca_ctx.c: what both sides have in common ----------------------------------- */
SSL_CTX *ctx_server(EVP_PKEY *leaf_key);
SSL_CTX *ctx_client(void);

/* ---- ca_session.c: sessions with upstreams, to be resumed ----------------------- */
int sessions_init(struct authority *a);
void sessions_attach(struct authority *a, SSL_CTX *ctx);
/* Offers the one that is kept for this name, if any; it is used once. */
void sessions_offer(struct authority *a, SSL *ssl, const char *name);

/* ---- ca_anchors.c: certificates as PEM, parsed when asked for ------------------- */
/* Calls fn for each certificate (DER) of a PEM text; <0 from fn ends it. Text that is no
 * certificate is passed over. */
int pem_each(const struct buf *pem,
	     int (*fn)(void *arg, const unsigned char *der, long n), void *arg);
X509_NAME *der_subject(const unsigned char *der, long n);     /* NULL: no certificate */
int anchors_new(struct anchors **ret, const struct buf *pem); /* 0 or -errno */
struct anchors *anchors_free(struct anchors *t);              /* NULL */
int anchors_attach(struct anchors *t, X509_STORE *store);     /* must outlive the store */

#endif
