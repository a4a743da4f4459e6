/* SPDX-License-Identifier: Apache-2.0 */
/* ca - the authority of one sandbox: its key, its certificate, its leafs. See ca.h. */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <time.h>

struct leaf {
	X509 *cert;
	time_t until; /* made anew from then on */
};

static void leaf_drop(void *value)
{
	struct leaf *l = value;

	X509_free(l->cert);
	free(l);
}

/* OpenSSL's first use. gmtime_r() of glibc would read /etc/localtime; ":" names no zone.
 */
int authority_init(void)
{
	if (setenv("TZ", ":", 1) < 0)
		return -errno;
	return OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT,
				NULL)
		       ? 0
		       : -ENOMEM;
}

int authority_new(struct authority **ret, const char *name, struct cove_error *err)
{
	struct authority *a = calloc(1, sizeof(*a));

	if (!a)
		return fail_nomem(err);
	buf_init(&a->trust, TRUST_MAX);
	snprintf(a->name, sizeof(a->name), "%s", name && *name ? name : "unnamed");
	if (lru_init(&a->leafs, LEAFS_MAX, leaf_drop) < 0 || sessions_init(a) < 0) {
		authority_free(a);
		return fail_nomem(err);
	}
	*ret = a;
	return 0;
}

/* The keys are wiped by OpenSSL as they are freed (EC_KEY_free clears the scalar). */
void authority_free(struct authority *a)
{
	if (!a)
		return;
	SSL_CTX_free(a->server);
	SSL_CTX_free(a->client);
	anchors_free(a->anchors);
	lru_clear(&a->leafs);
	lru_clear(&a->sessions);
	X509_free(a->cert);
	EVP_PKEY_free(a->leaf_key);
	EVP_PKEY_free(a->key);
	buf_clear(&a->trust);
	free(a);
}

int authority_ready(struct authority *a)
{
	int r = authority_init();

	if (r < 0 || a->cert)
		return r;
	if (!a->key)
		a->key = cert_key();
	if (!a->leaf_key)
		a->leaf_key = cert_key();
	if (a->key && a->leaf_key)
		a->cert = cert_root(a->name, a->key);
	ERR_clear_error();
	return a->cert ? 0 : -ENOMEM;
}

int authority_pem(struct authority *a, struct buf *out)
{
	int r = authority_ready(a);
	BIO *b = r < 0 ? NULL : BIO_new(BIO_s_mem());
	char *text;
	long n;

	if (r < 0)
		return r;
	r = -ENOMEM;
	if (b && PEM_write_bio_X509(b, a->cert) == 1) {
		n = BIO_get_mem_data(b, &text);
		r = buf_append(out, text, (size_t)n);
	}
	BIO_free(b);
	return r;
}

static struct leaf *leaf_make(struct authority *a, const char *name)
{
	struct leaf *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->until = time(NULL) + LEAF_SECONDS - LEAF_FRESH;
	l->cert = cert_leaf(name, a->leaf_key, a->cert, a->key);
	if (!l->cert || lru_put(&a->leafs, name, l) < 0) {
		leaf_drop(l);
		return NULL;
	}
	return l;
}

static X509 *leaf_get(struct authority *a, const char *name)
{
	const struct leaf *l = lru_get(&a->leafs, name);

	if (!l || l->until <= time(NULL))
		l = leaf_make(a, name);
	return l ? l->cert : NULL;
}

void *authority_server_ssl(struct authority *a, const char *name, const char **why)
{
	X509 *cert = authority_ready(a) == 0 ? leaf_get(a, name) : NULL;
	SSL *ssl = NULL;

	if (cert && !a->server)
		a->server = ctx_server(a->leaf_key);
	if (cert && a->server)
		ssl = SSL_new(a->server);
	if (!ssl || SSL_use_certificate(ssl, cert) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		*why = "a certificate for the sandbox could not be made";
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return ssl;
}
