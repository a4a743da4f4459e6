/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * control - what the host and the egress role say to each other. One SEQPACKET socket
 * (descriptor EGRESS_FD in the role); a packet is one JSON object with "t", at most
 * CONTROL_PACKET bytes, and up to CONTROL_FDS descriptors.
 *
 * host to role
 *   start     {name, named}                 first; -> "ready" {}: it is confined
 *   log       {} + append-only descriptor   replaces the one before
 *   resolver  {servers: "a,b", self: [ip]}  + memfd with the text of /etc/hosts; again
 *                                           when something of it has changed
 *   trust     {} + descriptor of a PEM bundle; a second one adds to the first
 *   authority {java: bool}                  -> "authority" {pem} (+ memfd with a JKS)
 *   secret    {name, placeholder, value (base64), hosts: "a,b"}; one each, then
 *   secrets   {}                            they are in force from here on
 *   policy    {gen} + sealed memfd, image   -> "policy" {gen, closed} or {gen, error}
 *   listen    {} + tcp4 tcp6 udp4 udp6      the sandbox's sockets
 *   stream    {nonce?: hex} + a machine's   instead: ipc/netmux.h, where the nonce is
 *                                           zero unless both sides were told another
 *   scope     {}                            -> "scope" {}: who is asked for everybody now
 *   answer    {id, ...}                     of who: {exec, agent, tool, offline, pid,
 *                                           program} or {unknown}; of ask: {allow: bool}
 *   (its end)                               the role ends too
 * role to host
 *   ready, policy, authority, scope         answers, see above
 *   who       {id, proto: "tcp"|"udp", from: ip, from_port, to: ip, to_port}
 *             {id, guest: {pid, root, started, program?}}   a machine's: what its guest
 *                                           says; pid 0: it does not know
 *   ask       {id, host, port, method?, path?, exec, program}
 *   event     {time_ms, kind, verdict, host, port, rule, reason, exec, program, ...}
 *   violation {secret, host, port}          a placeholder was sent where it may not go
 *   lost      {n}                           so many events were not sent
 *   stale     {}                            a lookup failed: has the resolver changed?
 */
/* clang-format on */
#ifndef COVE_IPC_CONTROL_H
#define COVE_IPC_CONTROL_H

#define EGRESS_FD 3
#define CONTROL_PACKET 65536
#define CONTROL_FDS 4
#define CONTROL_SELF_MAX 1024 /* of the host's own addresses; public ones come first */

#endif
