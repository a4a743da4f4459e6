#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Network none is none: no address, no socket of the host, no odd socket family.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS
start_box || exit 1

"$A" abstract-listen "cove-$$" >"$T/abstract" &
when_done "kill $!"
"$A" unix-listen "$T/sock" >"$T/unix" &
when_done "kill $!"
"$A" tcp-listen >"$T/tcp" &
when_done "kill $!"
wait_for 5 grep -q listening "$T/tcp" "$T/abstract" "$T/unix"
PORT=$(head -n 1 "$T/tcp")
IP=$(hostname -I 2>/dev/null | cut -d' ' -f1)

attempt 'tcp to the loopback of the host' host tcp 127.0.0.1 "$PORT"
attempt 'tcp to an address of the host' host tcp "${IP:-127.0.0.1}" "$PORT"
attempt 'abstract socket of the host' host abstract-connect "cove-$$"
attempt 'socket file of the host' host unix-connect "$T/sock"
attempt 'udp to a name server' none udp 9.9.9.9 53
attempt 'udp over IPv6' none udp6 2620:fe::fe
attempt 'tcp to the metadata service' none tcp 169.254.169.254 80
attempt 'an interface but loopback' maybe more-interfaces
ok 'loopback works inside' '
	in_box agent sh -c "\"$A\" tcp-listen >/tmp/l & sleep 0.3; \"$A\" tcp 127.0.0.1 \$(head -n 1 /tmp/l)"'

attempt_own 'raw socket' root socket 2 3 1
attempt_own 'raw IPv6 socket' root socket 10 3 58
attempt_own 'packet socket' root socket 17 3 768
attempt_any 'AF_ALG' maybe socket 38 5 0
attempt_any 'AF_VSOCK' maybe socket 40 1 0
attempt_any 'AF_XDP' maybe socket 44 3 0
attempt_any 'AF_KEY' maybe socket 15 3 2
attempt_any 'AF_TIPC' maybe socket 30 2 0
attempt_any 'AF_BLUETOOTH' maybe socket 31 3 1
attempt_any 'AF_CAN' maybe socket 29 3 1
attempt_any 'AF_RDS' maybe socket 21 5 0
attempt_any 'AF_KCM' maybe socket 41 2 0
attempt_any 'AF_SMC' maybe socket 43 1 0
attempt_any 'sctp' maybe socket 2 1 132
attempt_any 'dccp' maybe socket 2 6 33
for proto in 4 6 7 9 10 11 12 15 16 20 21; do # all but route: sock_diag, xfrm, audit, netfilter ...
	attempt_any "netlink family $proto" maybe socket 16 3 $proto
done
attempt_own "change an interface by netlink" root route-change

done_testing
