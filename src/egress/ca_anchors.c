/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_anchors - a trust store that parses a certificate when a chain asks for its subject.
 *
 * OpenSSL 3.0 takes 0.3 ms for the public key of each certificate, 45 ms for a usual
 * bundle; a connection needs one or two of them. So the bundle is only unarmoured, each
 * certificate's subject is found, and an X509_LOOKUP hands out those that are asked for.
 * The PEM armour is read here, as OpenSSL's reader would also take keys.
 */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <openssl/err.h>

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"
#define ANCHORS_MAX 4096

struct anchor {
	X509_NAME *subject;
	unsigned char *der;
	long n;
	bool used; /* it is in the store */
};

struct anchors {
	struct anchor *list;
	size_t n;
};

/* The bytes of one armoured block; their number, or -1 if it is not base64. */
static long unarmour(const char *text, size_t n, unsigned char *out)
{
	EVP_ENCODE_CTX *ctx = EVP_ENCODE_CTX_new();
	int len = 0, tail = 0;
	bool ok = false;

	if (ctx) {
		EVP_DecodeInit(ctx);
		ok = EVP_DecodeUpdate(ctx, out, &len, (const void *)text, (int)n) >= 0 &&
		     EVP_DecodeFinal(ctx, out + len, &tail) >= 0;
	}
	EVP_ENCODE_CTX_free(ctx);
	return ok ? (long)len + tail : -1;
}

int pem_each(const struct buf *pem,
	     int (*fn)(void *arg, const unsigned char *der, long n), void *arg)
{
	const char *at = pem->data;

	while (at && (at = strstr(at, BEGIN))) {
		const char *text = at + strlen(BEGIN), *end = strstr(text, END);
		cleanup_free unsigned char *der = NULL;
		long n;
		int r;

		if (!end)
			break;
		der = malloc((size_t)(end - text) + 1);
		if (!der)
			return -ENOMEM;
		n = unarmour(text, (size_t)(end - text), der);
		r = n > 0 ? fn(arg, der, n) : 0;
		if (r < 0)
			return r;
		at = end + strlen(END);
	}
	return 0;
}

/* Steps over one element (tag: or any if 0); false if it is not there whole. */
static bool step(const unsigned char **p, const unsigned char *end, int tag, bool into)
{
	const unsigned char *at = *p;
	long len;
	int found, class, r = ASN1_get_object(&at, &len, &found, &class, end - at);

	if ((r & 0x80) || len < 0 || len > end - at || (tag && found != tag))
		return false;
	*p = into ? at : at + len;
	return true;
}

/* Certificate { tbs { [0] version, serial, algorithm, issuer, validity, subject ... */
X509_NAME *der_subject(const unsigned char *der, long n)
{
	const unsigned char *p = der, *end = der + n, *whole = der;
	X509_NAME *name;

	if (!step(&whole, end, V_ASN1_SEQUENCE, false) || whole != end ||
	    !step(&p, end, V_ASN1_SEQUENCE, true) ||
	    !step(&p, end, V_ASN1_SEQUENCE, true))
		return NULL;
	if (p < end && *p == 0xa0 && !step(&p, end, 0, false))
		return NULL;
	if (!step(&p, end, V_ASN1_INTEGER, false) ||
	    !step(&p, end, V_ASN1_SEQUENCE, false) ||
	    !step(&p, end, V_ASN1_SEQUENCE, false) ||
	    !step(&p, end, V_ASN1_SEQUENCE, false))
		return NULL;
	name = d2i_X509_NAME(NULL, &p, end - p);
	ERR_clear_error();
	return name;
}

struct anchors *anchors_free(struct anchors *t)
{
	for (size_t i = 0; t && i < t->n; i++) {
		X509_NAME_free(t->list[i].subject);
		free(t->list[i].der);
	}
	if (t)
		free(t->list);
	free(t);
	return NULL;
}

static int add_anchor(void *arg, const unsigned char *der, long n)
{
	struct anchors *t = arg;
	X509_NAME *subject = t->n < ANCHORS_MAX ? der_subject(der, n) : NULL;
	unsigned char *copy = malloc((size_t)n);

	if (!copy || !subject) {
		free(copy);
		X509_NAME_free(subject);
		return copy ? 0 : -ENOMEM; /* what is no certificate is passed over */
	}
	memcpy(copy, der, (size_t)n);
	t->list[t->n++] = (struct anchor){.subject = subject, .der = copy, .n = n};
	return 0;
}

int anchors_new(struct anchors **ret, const struct buf *pem)
{
	struct anchors *t = calloc(1, sizeof(*t));
	int r = -ENOMEM;

	if (t)
		t->list =
			calloc(ANCHORS_MAX, sizeof(*t->list)); /* pages, used as needed */
	if (t && t->list)
		r = pem_each(pem, add_anchor, t);
	if (r < 0) {
		anchors_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

/* OpenSSL's callback: 1 if there is one of that name, in *ret. The reference in *ret is
 * the store's: X509_STORE takes its own. */
static int by_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
		      X509_OBJECT *ret)
{
	struct anchors *t = X509_LOOKUP_get_method_data(lookup);
	X509 *found = NULL;

	for (size_t i = 0; type == X509_LU_X509 && i < t->n; i++) {
		struct anchor *c = &t->list[i];
		const unsigned char *p = c->der;
		X509 *x;

		if (c->used || X509_NAME_cmp(c->subject, name) != 0)
			continue;
		c->used = true;
		x = d2i_X509(NULL, &p, c->n);
		if (x && X509_STORE_add_cert(X509_LOOKUP_get_store(lookup), x) == 1)
			found = x; /* the store keeps it alive */
		X509_free(x);
	}
	ERR_clear_error();
	if (!found || X509_OBJECT_set1_X509(ret, found) != 1)
		return 0;
	X509_free(found);
	return 1;
}

int anchors_attach(struct anchors *t, X509_STORE *store)
{
	static X509_LOOKUP_METHOD *method; /* one for the process */
	X509_LOOKUP *lookup;

	if (!method) {
		method = X509_LOOKUP_meth_new("cove anchors");
		if (method)
			X509_LOOKUP_meth_set_get_by_subject(method, by_subject);
	}
	lookup = method ? X509_STORE_add_lookup(store, method) : NULL;
	if (!lookup || X509_LOOKUP_set_method_data(lookup, t) != 1)
		return -ENOMEM;
	return 0;
}
