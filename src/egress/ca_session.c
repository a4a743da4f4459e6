/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_session - the last session with each upstream, so that the next handshake is short.
 *
 * A session is kept only after its certificate was verified for the name that it is kept
 * under, is offered to that name only, once, and for an hour at most. It is kept as
 * bytes: an SSL_SESSION would hold the whole chain.
 */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <time.h>

struct kept_session {
	time_t until;
	size_t n;
	unsigned char der[];
};

static void kept_drop(void *value)
{
	struct kept_session *k = value;

	OPENSSL_cleanse(k->der, k->n); /* holds the master secret */
	free(k);
}

int sessions_init(struct authority *a)
{
	return lru_init(&a->sessions, SESSIONS_MAX, kept_drop);
}

/* OpenSSL's callback; 0: the session stays its own. */
static int keep(SSL *ssl, SSL_SESSION *session)
{
	struct authority *a = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	int n = i2d_SSL_SESSION(session, NULL);
	struct kept_session *k;
	unsigned char *p;

	if (!a || !name || n <= 0 || n > SESSION_BYTES_MAX ||
	    SSL_get_verify_result(ssl) != X509_V_OK || !SSL_SESSION_is_resumable(session))
		return 0;
	k = calloc(1, sizeof(*k) + (size_t)n);
	if (!k)
		return 0;
	k->until = time(NULL) + SESSION_SECONDS;
	k->n = (size_t)n;
	p = k->der;
	if (i2d_SSL_SESSION(session, &p) != n || lru_put(&a->sessions, name, k) < 0)
		kept_drop(k);
	return 0;
}

void sessions_attach(struct authority *a, SSL_CTX *ctx)
{
	SSL_CTX_set_app_data(ctx, a);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
						    SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep);
}

void sessions_offer(struct authority *a, SSL *ssl, const char *name)
{
	struct kept_session *k = lru_get(&a->sessions, name);
	const unsigned char *p = k ? k->der : NULL;
	SSL_SESSION *s;

	if (!k)
		return;
	s = k->until > time(NULL) ? d2i_SSL_SESSION(NULL, &p, (long)k->n) : NULL;
	if (s && SSL_SESSION_is_resumable(s))
		SSL_set_session(ssl, s);
	SSL_SESSION_free(s);
	lru_remove(&a->sessions, name);
}
