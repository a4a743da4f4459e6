/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check - what single strings of a spec may be. Each returns NULL if text is fine, else a
 * static phrase that goes after the quoted text: "is not a port; write 1 to 65535".
 */
#ifndef COVE_SPEC_CHECK_H
#define COVE_SPEC_CHECK_H

#include <stdbool.h>
#include <stdint.h>

const char *check_name(const char *text);      /* of a sandbox, profile, agent, service */
const char *check_env_name(const char *text);  /* [A-Za-z_][A-Za-z0-9_]* */
const char *check_user(const char *text);      /* a user name or number */
const char *check_host(const char *text);      /* pattern, address or range; UTF-8 too */
const char *check_rule_host(const char *text); /* the same, or "*" */
const char *check_reach(const char *text);     /* a prefix, or a class of addresses */
const char *check_subject(const char *text);   /* an agent, a tool, an exec */
const char *check_host_port(const char *text); /* the same, with or without :PORT */
const char *check_ports(const char *text);     /* 443 or 8000-8100 */
const char *check_path(const char *text);      /* any path, relative or not */
const char *check_target(const char *text);    /* where something may be mounted inside */
const char *check_mask(const char *text);      /* a target, or a path below a mount */
const char *check_inner(const char *text);     /* below a mount: relative, no '..' */
const char *check_socket(const char *text);    /* absolute path, no '..' */
const char *check_glob(const char *text);
const char *check_url_path(const char *text); /* "/v1/" and so on */
const char *check_method(const char *text);
const char *check_words(const char *text); /* not empty */
const char *check_reference(const char *text);

/* The host's end of a published port that is no bare port: ADDRESS:PORT or a path. */
const char *check_host_end(const char *text);
bool port_parse(const char *text, uint64_t *ret); /* 1 to 65535 */

#endif
