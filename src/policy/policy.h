/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - who may be reached: rules compiled into one flat image. Pure.
 *
 * Rules have an order, and the first that matches decides: live rules ('cove net allow',
 * newest first), then `rules` as written, then one for each secret's hosts, then one for
 * each of `allowedHosts` on `allowedPorts`, then the mode: none and allowlist refuse,
 * open and learn allow. Asking changes a refusal of the mode (never of a rule) into a
 * question.
 *
 * A rule with methods or paths, or one for a host that a secret names, cannot be decided
 * by name and port alone: the connection is opened and each request is judged.
 *
 * The image is position-independent (offsets, no pointers), so that the host compiles it
 * once and the egress role maps it read-only: a reload is one mmap() there.
 */
#ifndef COVE_POLICY_POLICY_H
#define COVE_POLICY_POLICY_H

#include "base/buf.h"
#include "base/error.h"
#include "policy/addr.h"
#include "policy/host.h"

#include <jansson.h>

#define POLICY_RULES_MAX 65536
#define POLICY_IMAGE_MAX (64u << 20)

enum policy_mode { POLICY_NONE, POLICY_ALLOWLIST, POLICY_OPEN, POLICY_LEARN };
enum policy_protocol { PROTO_ANY, PROTO_TCP, PROTO_TLS, PROTO_HTTP };

/* What compiles: the "network" object of a spec (mode, allowedHosts, allowedPorts, rules,
 * ask, addresses), the "secrets" array (name, hosts), and live rules (array of rule
 * objects, first wins). All JSON is borrowed and was validated by the spec; any may be
 * NULL.
 *
 * A rule object:
 *   id         text; default "rules[N]", "allowedHosts[N]", "secret:NAME", "live[N]"
 *   host       pattern (see host.h), or list of patterns
 *   port       number, "a-b", or list of these; default: any
 *   protocol   tcp | tls | http; default any. tcp: bytes are passed without a look, and
 *              no secret is put in. What `tls` and `http` ask for is the carrier's to
 *              check (decision.protocol). With action deny it says nothing.
 *   methods, paths   lists; paths are globs: * within a segment, ** across
 *   action     allow (default) | deny
 *   scope      {agent: [..], tool: [..], exec: [..]} each a name or list; all given keys
 *              must match; a bare text is {tool: TEXT}
 *   addresses  prefixes, or class names ("private", "loopback", ...) that the name may
 *              resolve to although they are not public. A host that is an address or
 *              prefix names itself. A prefix names what is not public only if all of it
 *              is of that class: 0.0.0.0/0 is not the metadata service; and an address of
 *              this host only as itself or by the class "self".
 *
 * Lists of conditions are never empty. Without allowedPorts, allowedHosts means any port.
 * `addresses` of the network is for allowedHosts and secrets. HOST_INTERNAL needs a port.
 */
struct policy_source {
	const json_t *network, *secrets, *live;
	uint64_t generation;
	/* A policy file, or NULL: JSON text, at most 16 MiB, of a network object, of one
	 * in {"network": ...}, or of a list of rules; checked here in full, and read
	 * without the library, because that would take longer than all the rest. Its
	 * mode and ask replace those of `network`; its rules come after the others', its
	 * allowedHosts too; ports and addresses add up. Ids: "file.rules[N]". */
	const char *file, *file_name; /* file_name: for errors */
	size_t file_len;
};
/* Appends the image. */
int policy_compile(const struct policy_source *src, struct buf *image,
		   struct cove_error *err);

struct policy; /* a view of an image */
/* Checks the header and every offset; the bytes are borrowed, 8-byte aligned. */
int policy_open(struct policy **ret, const void *image, size_t n, struct cove_error *err);
void policy_close(struct policy *p);

uint64_t policy_generation(const struct policy *p);
size_t policy_rules(const struct policy *p);
enum policy_mode policy_get_mode(const struct policy *p);
bool policy_asks(const struct policy *p);
/* Does any rule name an agent, tool or exec? Then every connection's must be known. */
bool policy_scoped(const struct policy *p);
/* Could any connection be opened (a rule has methods or paths or protocol http, or a
 * secret names a host)? Then programs inside must trust our authority. */
bool policy_opens(const struct policy *p);

/* Who connects. NULL strings: not said; no scoped rule matches then. */
struct policy_subject {
	const char *agent, *tool, *exec;
	bool unknown; /* could not be found: with scopes, everything is refused */
	bool offline; /* started without network: everything is refused */
};

enum policy_verdict { VERDICT_DENY, VERDICT_ALLOW, VERDICT_INSPECT, VERDICT_ASK };

struct policy_decision {
	enum policy_verdict verdict;
	uint32_t rule;      /* index, or POLICY_NO_RULE: the mode decided */
	const char *id;     /* of the rule, or "mode:allowlist" ...; borrowed */
	const char *reason; /* static text of a refusal: "no rule allows it", ... */
	enum policy_protocol protocol; /* what the deciding rule expects */
	bool secrets;                  /* INSPECT because a secret names this host */
	bool learn;                    /* allowed by mode learn only */
};
#define POLICY_NO_RULE UINT32_MAX

/* name: normalised, or NULL for a connection to an address. ip: the address for that, or
 * NULL. */
void policy_connect(const struct policy *p, const struct policy_subject *who,
		    const char *name, const struct addr *ip, uint16_t port,
		    struct policy_decision *ret);
/* One request on an inspected connection; never INSPECT. target: path without
 * query, as sent on, percent-decoded once where that is safe; see the source. */
void policy_request(const struct policy *p, const struct policy_subject *who,
		    const char *name, const struct addr *ip, uint16_t port,
		    const char *method, const char *path, struct policy_decision *ret);
/* Could anything allow this name on some port for somebody? Others get NXDOMAIN. */
bool policy_may_resolve(const struct policy *p, const char *name);
/* The same, but by a rule: neither by the mode, nor because somebody would be asked. */
bool policy_rule_resolves(const struct policy *p, const char *name);
/* May `rule` (of a decision) dial this address? 0, or the class that refuses it.
 * self: the host's own addresses. name: HOST_INTERNAL may only be loopback. */
enum addr_class policy_address(const struct policy *p, uint32_t rule, const char *name,
			       const struct addr *a, const struct addr *self,
			       size_t n_self);

/* What matched and why, rule by rule in order, for `cove net explain`:
 * {verdict, rule, reason, generation, steps: [{rule, matches, why}]}; new reference. */
json_t *policy_explain(const struct policy *p, const struct policy_subject *who,
		       const char *name, const struct addr *ip, uint16_t port,
		       const char *method, const char *path);

#endif
