/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First bytes. Whatever arrives in pieces is judged as if it had come at once: a prefix
 * says "more" or what the whole says; and a ClientHello cut into many records is the same
 * ClientHello.
 */
#include "egress/hello.h"

#include "fuzz.h"

static void check_prefixes(const uint8_t *p, size_t n, enum first_kind whole)
{
	for (size_t cut = 0; cut < n; cut += cut < 64 ? 1 : n / 16 + 1) {
		struct hello h;
		enum first_kind k = first_look(p, cut, &h);

		/* Nonsense may come behind what was complete, never before it. */
		if (k != FIRST_MORE && k != whole && whole != FIRST_BAD)
			abort();
	}
}

/* One record of handshake bytes, as records of 7 bytes each. */
static void check_records(const uint8_t *p, size_t n, const struct hello *want)
{
	size_t body = (size_t)p[3] << 8 | p[4], out = 0;
	uint8_t *cut;
	struct hello h;

	if (n < 5 + body)
		return;
	cut = malloc(body * 2 + 16);
	if (!cut)
		abort();
	for (size_t at = 0; at < body; at += 7) {
		size_t part = body - at < 7 ? body - at : 7;

		memcpy(cut + out, p, 3);
		cut[out + 3] = 0;
		cut[out + 4] = (uint8_t)part;
		memcpy(cut + out + 5, p + 5 + at, part);
		out += 5 + part;
	}
	if (first_look(cut, out, &h) != FIRST_TLS || memcmp(&h, want, sizeof(h)) != 0)
		abort();
	free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello h;
	enum first_kind k;

	memset(&h, 0, sizeof(h));
	k = first_look(data, size, &h);
	if (size > 65536)
		return 0;
	check_prefixes(data, size, k);
	if (k != FIRST_TLS)
		return 0;
	if (memchr(h.sni, 0, sizeof(h.sni)) == NULL || (h.bad_sni && h.sni[0]) ||
	    (!h.has_sni && (h.sni[0] || h.bad_sni)))
		abort();
	if (5 + ((size_t)data[3] << 8 | data[4]) <= size &&
	    ((size_t)data[6] << 16 | (size_t)data[7] << 8 | data[8]) + 4 ==
		    ((size_t)data[3] << 8 | data[4]))
		check_records(data, size, &h);
	return 0;
}
