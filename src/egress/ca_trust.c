/* SPDX-License-Identifier: Apache-2.0 */
/* ca_trust - whom we believe upstream, and whom we expect there. */
#include "egress/ca_impl.h"

#include "base/util.h"

int authority_trust(struct authority *a, const char *pem, size_t n)
{
	int r;

	if (n > TRUST_MAX || a->trust.len + n + 1 > TRUST_MAX)
		return -E2BIG;
	r = buf_append(&a->trust, pem, n);
	if (r == 0)
		r = buf_puts(&a->trust, "\n");
	if (r < 0)
		return r == -ENOBUFS ? -E2BIG : r;
	SSL_CTX_free(a->client); /* the next upstream is judged by the new set */
	a->client = NULL;
	a->anchors = anchors_free(a->anchors);
	lru_flush(&a->sessions);
	return 0;
}

static SSL_CTX *client_ctx(struct authority *a)
{
	if (a->client)
		return a->client;
	if (!a->anchors && anchors_new(&a->anchors, &a->trust) < 0)
		return NULL;
	a->client = ctx_client();
	if (!a->client)
		return NULL;
	if (anchors_attach(a->anchors, SSL_CTX_get_cert_store(a->client)) < 0) {
		SSL_CTX_free(a->client);
		a->client = NULL;
		return NULL;
	}
	sessions_attach(a, a->client);
	return a->client;
}

static bool expect(SSL *ssl, const char *name, const struct addr *ip)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
	size_t skip;

	if (!ip)
		return SSL_set_tlsext_host_name(ssl, name) == 1 &&
		       X509_VERIFY_PARAM_set1_host(p, name, 0) == 1;
	skip = addr_is_v4(ip) ? 12 : 0;
	return X509_VERIFY_PARAM_set1_ip(p, ip->b + skip, 16 - skip) == 1;
}

void *authority_client_ssl(struct authority *a, const char *name, const struct addr *ip,
			   const char **why)
{
	struct addr parsed;
	SSL_CTX *ctx;
	SSL *ssl;

	if (name && addr_parse(name, &parsed) == 0) { /* an address in text is no name */
		ip = &parsed;
		name = NULL;
	}
	if (name && *name)
		ip = NULL;
	else if (!ip) {
		*why = "there is no name to verify";
		return NULL;
	}
	ctx = authority_init() == 0 ? client_ctx(a) : NULL;
	ssl = ctx ? SSL_new(ctx) : NULL;
	if (!ssl || !expect(ssl, name, ip)) {
		SSL_free(ssl);
		*why = "no memory for a connection to the upstream";
		return NULL;
	}
	if (!ip)
		sessions_offer(a, ssl, name);
	SSL_set_connect_state(ssl);
	return ssl;
}
