/* SPDX-License-Identifier: Apache-2.0 */
/* hello - the first bytes of a connection: TLS, HTTP, or something else? Pure. */
#ifndef COVE_EGRESS_HELLO_H
#define COVE_EGRESS_HELLO_H

#include "policy/host.h"

#include <stdint.h>

#define HELLO_MAX 16384 /* a ClientHello that is larger is refused */

enum first_kind { FIRST_MORE, FIRST_TLS, FIRST_HTTP, FIRST_OTHER, FIRST_BAD };

struct hello {
	char sni[HOST_MAX + 1]; /* normalised; "" none */
	bool has_sni, bad_sni;  /* bad: present, but no host name */
};
/* FIRST_MORE: n bytes do not tell yet. FIRST_TLS: *ret is complete. FIRST_BAD: it begins
 * like TLS and is not, or has something before the ClientHello. FIRST_HTTP: a server
 * could take it for a request; what is no good request is refused where requests are
 * read. */
enum first_kind first_look(const uint8_t *p, size_t n, struct hello *ret);

#endif
