#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Egress at its edges: bytes that hide from a look, hosts that change their network, owners and
# roles that die or turn against each other.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ
net_world
mkdir -p "$T/p" && cd "$T/p" || exit 1
run() { cove run -q --rm "$@"; }
gone() { ! kill -0 "$1" 2>/dev/null; }
role_of() { pgrep -P "$1" -x cove-egress; }

# ---- bytes ------------------------------------------------------------------------------
cat >"$T/urgent.py" <<'END'
import socket
s = socket.create_connection(("good.test", 80))
s.settimeout(5)
s.send(b"G")
s.send(b"E", socket.MSG_OOB)
s.send(b"T /echo HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
s.shutdown(socket.SHUT_WR)
try:
    print(s.recv(4096).decode())
except OSError as e:
    print(e)
END
ok 'a request that begins with an urgent byte does not get past the check of Host' '
	run --allow good.test --mount "$T/urgent.py:/urgent.py:ro" -- python3 /urgent.py >out
	! grep -q "other.test" out || exit 1
	! grep -q "200 OK" out'

# ---- the host's network changes ---------------------------------------------------------
ok 'a resolver that the host changes is asked from then on' '
	printf "nameserver 127.0.0.9\noptions timeout:1\n" >"$T/resolv.conf"
	dnsmasq -k --conf-file=/dev/null --no-resolv --no-hosts --listen-address=127.0.0.1 \
		--bind-interfaces --user=root --pid-file= --address=/good.test/45.45.0.1 \
		>/dev/null 2>&1 &
	dns=$!
	trap "kill $dns" EXIT
	unset COVE_RESOLVERS
	unshare -m --propagation private sh -ec "
		mount --bind $T/resolv.conf $(readlink -f /etc/resolv.conf)
		cove create moved --allow good.test -q && cove start moved -q
		! cove exec moved -- curl -sS --max-time $(patient 8) http://good.test/page || exit 1
		echo nameserver 127.0.0.1 >$T/resolv.conf
		for i in 1 2 3 4 5 6; do
			sleep 1
			cove exec moved -- curl -sS --max-time $(patient 8) http://good.test/page && break
		done >$T/moved.out 2>&1
		cove rm -f moved -q"
	grep "the page" "$T/moved.out"'
ok 'an address that the host gets later is its own too' '
	python3 -m http.server 8099 --bind 0.0.0.0 --directory "$T/www" >/dev/null 2>&1 &
	http=$!
	trap "kill $http" EXIT
	cove create later --net open -q && cove start later -q
	ip addr add 45.45.0.77/24 dev cove0
	wait_for 5 curl -sf -o /dev/null http://45.45.0.77:8099/page
	cove exec later -- curl -sS --max-time $(patient 5) http://45.45.0.77:8099/page >out
	cove rm -f later -q
	ip addr del 45.45.0.77/24 dev cove0
	has "$(cat out)" "is a self address"'

# ---- owners and roles -------------------------------------------------------------------
ok 'the role ends with its owner' '
	cove run -q --rm --allow good.test -- sleep 60 &
	owner=$!
	wait_for 5 role_of $owner
	role=$(role_of $owner)
	kill -9 $owner
	wait_for 3 gone "$role"'
ok 'a dead role: no network, nothing hangs, and the owner says so' '
	cove create orphan --allow good.test -q && cove start orphan -q
	same "the page" "$(cove exec orphan -- curl -sS --max-time $(patient 5) http://good.test/page)"
	keeper=$(cove inspect orphan --json | jq .keeper.pid 2>/dev/null)
	[ "${keeper:-null}" != null ] || keeper=$(pgrep -f "cove-keeper.*orphan" | head -1)
	kill -9 "$(role_of "$keeper")"
	begin=$(date +%s%N)
	! cove exec orphan -- curl -sS --max-time $(patient 5) http://good.test/page || exit 1
	! cove exec orphan -- curl -sS --max-time $(patient 5) http://45.45.0.1/page || exit 1
	[ $(($(date +%s%N) - begin)) -lt 12000000000 ]
	cove net status orphan >out 2>&1 || true
	cat out
	grep "cove-egress was killed" out
	rc_is 125 cove net allow orphan other.test
	same hello "$(cove exec orphan -- echo hello)"
	cove rm -f orphan -q'

evil_role() {
	printf '#!%s\n' "$(command -v python3)" >"$T/role"
	cat >>"$T/role"
	chmod +x "$T/role"
}
evil_role <<'END'
import socket, json, time
s = socket.socket(fileno=3)
def say(**o): s.send(json.dumps(o).encode())
null = open("/dev/null")
say(t="ready")
say(t="policy", gen=1, closed=0)
while True:
    socket.send_fds(s, [b'{"t":"event","kind":"x"}'], [null.fileno(), null.fileno()])
    time.sleep(0.001)
END
ok 'a role that sends descriptors fills nobody with them' '
	COVE_EGRESS=$T/role cove run -q --rm --allow good.test -- sleep 3 &
	owner=$!
	sleep 2
	n=$(ls "/proc/$owner/fd" | wc -l)
	echo "$n descriptors"
	[ "$n" -lt 60 ]
	wait $owner'
evil_role <<'END'
import time
time.sleep(60)
END
ok 'a role that does not read holds nobody up' '
	head -c 12000 /dev/zero | tr "\\0" x >"$T/value"
	{
		echo "network: {mode: allowlist, allowedHosts: [good.test]}"
		echo "secrets:"
		for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do
			echo "  - {name: KEY_$i, from: file, path: $T/value, hosts: [good.test]}"
		done
	} >"$T/many.yaml"
	begin=$(date +%s)
	rc_is 125 env COVE_EGRESS="$T/role" cove run -q --rm --spec "$T/many.yaml" -- true >out 2>&1
	grep "network: " out
	[ $(($(date +%s) - begin)) -lt 15 ]'
done_testing
