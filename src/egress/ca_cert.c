/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_cert - the two kinds of certificate that we sign: our own, and leafs.
 *
 * They hold everything that strict verifiers ask for (Go, Java, GnuTLS, OpenSSL with
 * -x509_strict): version 3, a random serial of 126 bits, critical basicConstraints and
 * keyUsage, both key identifiers, the name in subjectAltName.
 */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <time.h>

#define CN_MAX 64 /* X.520's bound of a common name */

static void x509p(X509 **x)
{
	X509_free(*x);
}

static void general_namesp(GENERAL_NAMES **g)
{
	GENERAL_NAMES_free(*g);
}

EVP_PKEY *cert_key(void)
{
	return EVP_EC_gen("P-256");
}

static bool set_serial(X509 *x)
{
	unsigned char b[16];
	bool ok;
	BIGNUM *n;

	if (RAND_bytes(b, sizeof(b)) != 1)
		return false;
	b[0] = (b[0] & 0x3f) | 0x40; /* positive, and always of the same length */
	n = BN_bin2bn(b, sizeof(b), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static bool add_text(X509_NAME *n, const char *field, const char *text)
{
	size_t len = strlen(text);

	if (len > CN_MAX)
		len = CN_MAX;
	return X509_NAME_add_entry_by_txt(n, field, MBSTRING_ASC, (const void *)text,
					  (int)len, -1, 0) == 1;
}

/* Version, serial, validity, subject and key: what every certificate has. */
static bool begin(X509 *x, const char *cn, long seconds, EVP_PKEY *key)
{
	time_t now = time(NULL);
	X509_NAME *subject = X509_get_subject_name(x);

	return X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	       ASN1_TIME_set(X509_getm_notBefore(x), now - BACKDATE) &&
	       ASN1_TIME_set(X509_getm_notAfter(x), now + seconds) &&
	       add_text(subject, "O", "Cove") && add_text(subject, "CN", cn) &&
	       X509_set_pubkey(x, key);
}

struct extension {
	int nid;
	const char *value; /* as in openssl x509v3_config(5); constant texts only */
};

static bool extend(X509 *x, X509 *issuer, const struct extension *e, size_t n)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509V3_set_ctx_nodb(&ctx);
	for (; n > 0; n--, e++) {
		X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, e->nid, e->value);
		bool ok = ext && X509_add_ext(x, ext, -1);

		X509_EXTENSION_free(ext);
		if (!ok)
			return false;
	}
	return true;
}

X509 *cert_root(const char *sandbox, EVP_PKEY *key)
{
	static const struct extension extensions[] = {
		{NID_basic_constraints,        "critical,CA:TRUE,pathlen:0"  },
		{NID_key_usage,                "critical,keyCertSign,cRLSign"},
		{NID_subject_key_identifier,   "hash"                        },
		{NID_authority_key_identifier, "keyid:always"                },
	};
	__attribute__((cleanup(x509p))) X509 *x = X509_new();
	char cn[CN_MAX + 1];

	snprintf(cn, sizeof(cn), "cove sandbox %s", sandbox);
	if (!x || !begin(x, cn, CA_SECONDS, key) ||
	    !X509_set_issuer_name(x, X509_get_subject_name(x)) ||
	    !extend(x, x, extensions, ARRAY_LEN(extensions)) ||
	    !X509_sign(x, key, EVP_sha256()))
		return NULL;
	return take_ptr(x);
}

static ASN1_STRING *new_string(int type, const void *p, size_t n)
{
	ASN1_STRING *s = ASN1_STRING_type_new(type);

	if (s && ASN1_STRING_set(s, p, (int)n) != 1) {
		ASN1_STRING_free(s);
		return NULL;
	}
	return s;
}

/* Built from the parts, never from a text: a name cannot add a name. */
static bool add_alt_name(X509 *x, const char *name)
{
	__attribute__((cleanup(general_namesp))) GENERAL_NAMES *names =
		sk_GENERAL_NAME_new_null();
	GENERAL_NAME *g = GENERAL_NAME_new();
	struct addr ip;
	bool is_ip = addr_parse(name, &ip) == 0;
	size_t skip = is_ip && addr_is_v4(&ip) ? 12 : 0;
	ASN1_STRING *s = is_ip ? new_string(V_ASN1_OCTET_STRING, ip.b + skip, 16 - skip)
			       : new_string(V_ASN1_IA5STRING, name, strlen(name));

	if (!g || !s || !names || sk_GENERAL_NAME_push(names, g) <= 0) {
		GENERAL_NAME_free(g);
		ASN1_STRING_free(s);
		return false;
	}
	GENERAL_NAME_set0_value(g, is_ip ? GEN_IPADD : GEN_DNS, s);
	return X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1;
}

X509 *cert_leaf(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key)
{
	static const struct extension extensions[] = {
		{NID_basic_constraints,        "critical,CA:FALSE"        },
		{NID_key_usage,                "critical,digitalSignature"},
		{NID_ext_key_usage,            "serverAuth"               },
		{NID_subject_key_identifier,   "hash"                     },
		{NID_authority_key_identifier, "keyid:always"             },
	};
	__attribute__((cleanup(x509p))) X509 *x = X509_new();

	if (!x || !begin(x, name, LEAF_SECONDS, key) ||
	    !X509_set_issuer_name(x, X509_get_subject_name(issuer)) ||
	    !extend(x, issuer, extensions, ARRAY_LEN(extensions)) ||
	    !add_alt_name(x, name) || !X509_sign(x, issuer_key, EVP_sha256()))
		return NULL;
	return take_ptr(x);
}
