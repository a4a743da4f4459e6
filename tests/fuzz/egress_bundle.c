/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a bundle of certificates (PEM), and as one certificate (DER). Properties:
 * what is taken for a certificate has a subject that can be written again; a key store
 * of what was found has the entries that were counted, and ours.
 */
#include "fuzz.h"

#include "base/util.h"
#include "egress/ca_impl.h"

#define BUNDLE_MAX 65536

static void check(int good)
{
	if (!good)
		abort();
}

static int count(void *arg, const unsigned char *der, long n)
{
	X509_NAME *subject = der_subject(der, n);

	*(unsigned *)arg += subject != NULL;
	if (subject)
		check(i2d_X509_NAME(subject, NULL) > 0);
	X509_NAME_free(subject);
	return 0;
}

static struct authority *fresh(void)
{
	struct authority *a = NULL;
	struct cove_error err = {0};

	check(authority_new(&a, "fuzz", &err) == 0 && authority_ready(a) == 0);
	return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct authority *a; /* its keys are made once */
	cleanup_buf struct buf jks = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	struct anchors *anchors = NULL;
	unsigned found = 0;

	if (size > BUNDLE_MAX)
		return 0;
	if (!a)
		a = fresh();
	buf_clear(&a->trust);
	check(authority_trust(a, (const char *)data, size) == 0);
	count(&(unsigned){0}, data, (long)size);
	check(pem_each(&a->trust, count, &found) == 0);
	check(authority_jks(a, &jks, &err) == 0);
	check((unsigned char)jks.data[11] == ((found + 1) & 0xff));
	check(anchors_new(&anchors, &a->trust) == 0);
	anchors_free(anchors);
	return 0;
}
