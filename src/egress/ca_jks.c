/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_jks - a trust store as Java reads it: the key store format "JKS", version 2.
 *
 *   u32 0xFEEDFEED, u32 2, u32 entries,
 *   each: u32 2 (a trusted certificate), alias, u64 ms since 1970, "X.509", u32 n, DER;
 *   SHA-1 of (password as UTF-16, "Mighty Aphrodite", all of the above)
 *
 * A text is u16 length and its bytes. Every Java reads it, also where the file that it
 * stands for was PKCS #12. The digest is no secret: it protects against accidents.
 */
#include "egress/ca_impl.h"

#include "base/util.h"

#include <openssl/evp.h>
#include <time.h>

#define JKS_MAGIC 0xfeedfeedu
#define JKS_VERSION 2
#define JKS_TRUSTED 2
#define JKS_MAX (2 * TRUST_MAX)

static const unsigned char seasoning[] = /* "changeit" in UTF-16, then the constant */
	"\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";

struct jks {
	struct buf out;
	uint32_t entries;
	uint64_t ms; /* the date of every entry */
	int failed;
};

static void put(struct jks *j, const void *p, size_t n)
{
	int r = j->failed ? 0 : buf_append(&j->out, p, n);

	if (r < 0)
		j->failed = r;
}

static void put_number(struct jks *j, uint64_t v, size_t bytes)
{
	unsigned char b[8];

	for (size_t i = 0; i < bytes; i++)
		b[i] = (unsigned char)(v >> (8 * (bytes - 1 - i)));
	put(j, b, bytes);
}

static void put_text(struct jks *j, const char *s)
{
	put_number(j, strlen(s), 2);
	put(j, s, strlen(s));
}

static void put_entry(struct jks *j, const char *alias, const unsigned char *der, long n)
{
	put_number(j, JKS_TRUSTED, 4);
	put_text(j, alias);
	put_number(j, j->ms, 8);
	put_text(j, "X.509");
	put_number(j, (uint64_t)n, 4);
	put(j, der, (size_t)n);
	j->entries++;
}

/* Java refuses a whole store for one entry that is no certificate. */
static int put_trusted(void *arg, const unsigned char *der, long n)
{
	struct jks *j = arg;
	X509_NAME *subject = der_subject(der, n);
	char alias[24];

	if (subject) {
		snprintf(alias, sizeof(alias), "trusted-%u", j->entries);
		put_entry(j, alias, der, n);
	}
	X509_NAME_free(subject);
	return j->failed;
}

static void put_ours(struct jks *j, X509 *cert)
{
	unsigned char *der = NULL;
	int n = i2d_X509(cert, &der);

	if (n > 0)
		put_entry(j, "cove", der, n);
	else
		j->failed = -ENOMEM;
	OPENSSL_free(der);
}

static void put_digest(struct jks *j)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) != 1 ||
	    EVP_DigestUpdate(ctx, seasoning, sizeof(seasoning) - 1) != 1 ||
	    EVP_DigestUpdate(ctx, j->out.data, j->out.len) != 1 ||
	    EVP_DigestFinal_ex(ctx, md, &n) != 1)
		j->failed = -ENOMEM;
	EVP_MD_CTX_free(ctx);
	put(j, md, n);
}

int authority_jks(struct authority *a, struct buf *out, struct cove_error *err)
{
	struct jks j = {.out = BUF_INIT(JKS_MAX), .ms = (uint64_t)time(NULL) * 1000};
	int r = authority_ready(a);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "make the sandbox's authority");
	put_number(&j, JKS_MAGIC, 4);
	put_number(&j, JKS_VERSION, 4);
	put_number(&j, 0, 4); /* entries, once they are known */
	put_ours(&j, a->cert);
	if (!j.failed)
		j.failed = pem_each(&a->trust, put_trusted, &j);
	if (!j.failed) {
		for (int i = 0; i < 4; i++)
			j.out.data[8 + i] = (char)(j.entries >> (24 - 8 * i));
		put_digest(&j);
	}
	r = j.failed ? j.failed : buf_append(out, j.out.data, j.out.len);
	buf_clear(&j.out);
	return r < 0 ? fail(err, COVE_EIO, -r, "write the Java key store") : 0;
}
