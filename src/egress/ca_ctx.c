/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_ctx - how we speak TLS, on either side.
 *
 * TLS 1.2 with forward secrecy and AEAD, or 1.3; no renegotiation, no compression, no
 * tickets of ours; ALPN http/1.1 and nothing else, so that what is spoken is what we
 * read. Buffers exist only while there is something in them.
 */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <openssl/x509v3.h>

#define CIPHERS_13 \
	"TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"
/* Towards the sandbox we are the one who chooses; upstreams may be older than that. */
#define SERVER_12 \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:" \
	"ECDHE-ECDSA-AES256-GCM-SHA384"
#define CLIENT_12 "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL:!aPSK:!SHA1"
#define VERIFY_DEPTH 16

static const unsigned char http1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

static bool set_common(SSL_CTX *ctx, const char *tls12, const char *groups)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY); /* chan.c counts such records */
	SSL_CTX_set_read_ahead(ctx, 1);               /* a record in one read, not two */
	SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
	       SSL_CTX_set_cipher_list(ctx, tls12) &&
	       SSL_CTX_set_ciphersuites(ctx, CIPHERS_13) &&
	       SSL_CTX_set1_groups_list(ctx, groups);
}

/* A program that offers protocols without http/1.1 hears so, instead of being misread. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *in, unsigned in_len, void *arg)
{
	unsigned char *chosen;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, http1, sizeof(http1), in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *ctx_server(EVP_PKEY *leaf_key)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	if (!set_common(ctx, SERVER_12, "X25519:P-256") ||
	    SSL_CTX_use_PrivateKey(ctx, leaf_key) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

SSL_CTX *ctx_client(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	X509_VERIFY_PARAM *p = ctx ? SSL_CTX_get0_param(ctx) : NULL;

	if (!ctx)
		return NULL;
	/* A server's answer may show a value: not in a buffer that was read from. */
	SSL_CTX_set_options(ctx, SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_verify_depth(ctx, VERIFY_DEPTH);
	/* Every certificate in the trust store is an anchor, also one that is not
	 * self-signed; and the name must be in subjectAltName. */
	X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN |
					       X509_V_FLAG_TRUSTED_FIRST);
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						   X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (!set_common(ctx, CLIENT_12, "X25519:P-256:P-384") ||
	    SSL_CTX_set_alpn_protos(ctx, http1, sizeof(http1)) != 0) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}
