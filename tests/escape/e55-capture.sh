#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With a network, every connection inside ends at the policy, and nothing inside can change
# that: not the rules, not the sockets, not the routes. Nothing hangs.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ PYTHON3
cove doctor --json | jq -e '.checks[] | select(.name == "network") | .ok' >/dev/null || {
	tap_done=1
	echo "1..0 # SKIP needs nf_tables tproxy"
	exit 0
}
when_done 'cove kill --all; cove rm -f --all'
for who in agent root; do
	cove create $who --user $who --net allowlist --allow allowed.test && cove start $who || exit 1
done
BOX=agent

# What the system says to one attempt: "ok", or the name of its error.
cat >"$T/try.py" <<'EOF'
import errno, socket, struct, sys, time
AF = {"4": socket.AF_INET, "6": socket.AF_INET6}
def tcp(f, host, port):
    s = socket.socket(AF[f]); s.settimeout(5); s.connect((host, int(port)))
    return "closed" if s.recv(10) == b"" else "data"
def udp(f, host, port):
    s = socket.socket(AF[f], socket.SOCK_DGRAM); s.settimeout(5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.connect((host, int(port)))
    s.send(b"\x12\x34\1\0\0\1\0\0\0\0\0\0\4evil\4test\0\0\1\0\1"); s.recv(512)
def sock(f, t, p): socket.socket(int(f), int(t), int(p))
def bind(f, t, host, port):
    s = socket.socket(AF[f], int(t))
    for o in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, o, 1)
    s.bind((host, int(port)))
def option(f, level, opt): socket.socket(AF[f]).setsockopt(int(level), int(opt), 1)
def change(what): # RTM_DELROUTE, RTM_NEWLINK, RTM_NEWADDR
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.settimeout(5)
    kind, body = {
        "route": (25, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 255, 0, 254, 2, 0)),
        "link": (16, struct.pack("BxHiII", 0, 0, 1, 0, 1)),
        "address": (20, struct.pack("BBBBIHH4s", 2, 32, 0, 0, 1, 8, 2, b"\5\5\5\5"))}[what]
    s.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
    e = struct.unpack("i", s.recv(4096)[16:20])[0]
    if e: raise OSError(-e, "")
start = time.time()
try: r = globals()[sys.argv[1]](*sys.argv[2:]) or "ok"
except socket.timeout: r = "HANGS"
except OSError as e: r = errno.errorcode.get(e.errno, str(e.errno))
print(r if time.time() - start < 1 else "SLOW " + r)
EOF
# gets WANTED TITLE WORD...: the answer is one of the wanted, with | between them
gets() {
	gets_want=$1 gets_title=$2
	shift 2
	ok "$gets_title" '
		got=$(cove exec "$BOX" -- python3 - "$@" <"$T/try.py")
		case "|$gets_want|" in *"|$got|"*) ;; *) echo "got: $got"; false ;; esac' "$@"
}
ENDED='ECONNRESET|closed|ECONNREFUSED'

gets ok 'control: a datagram to any name server is answered' udp 4 9.9.9.9 53
gets ok 'control: over IPv6, too' udp 6 2620:fe::fe 53
gets ok 'control: a port of its own can be bound' bind 4 1 127.0.0.1 8080

gets "$ENDED" 'an address of the internet' tcp 4 9.9.9.9 443
gets "$ENDED" 'an IPv6 address' tcp 6 2620:fe::fe 443
gets "$ENDED" 'the metadata service' tcp 4 169.254.169.254 80
gets "$ENDED" 'a private address' tcp 4 10.0.0.1 22
gets "$ENDED" 'an IPv4 address in IPv6' tcp 6 ::ffff:10.0.0.1 22
gets "$ENDED" 'the address of NAT64' tcp 6 64:ff9b::a9fe:a9fe 80
gets "$ENDED" 'the listener itself' tcp 4 127.255.255.254 1
gets "$ENDED" 'the listener itself, over IPv6' tcp 6 ::1 1
gets ECONNREFUSED 'a loopback port that nobody has' tcp 4 127.0.0.1 9
gets "EHOSTUNREACH|ENETUNREACH" 'multicast' tcp 4 224.0.0.1 80
gets ECONNREFUSED 'udp: refused at once, so that QUIC falls back' udp 4 9.9.9.9 443
gets ECONNREFUSED 'udp over IPv6: the same' udp 6 2620:fe::fe 443
gets EHOSTUNREACH 'udp: multicast' udp 4 224.0.0.251 5353
gets EHOSTUNREACH 'udp: broadcast' udp 4 255.255.255.255 67
gets EHOSTUNREACH 'udp over IPv6: multicast' udp 6 ff0e::fb 5353
ok 'the loopback of the host is another one' '
	python3 -c "
import socket, time
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(30)" >"$T/port" &
	job=$!
	wait_for 5 test -s "$T/port"
	got=$(cove exec agent -- python3 - tcp 4 127.0.0.1 "$(cat "$T/port")" <"$T/try.py")
	kill "$job"; wait "$job" || :
	same ECONNREFUSED "$got"'

for BOX in agent root; do
	gets 'EPERM|EACCES' "$BOX: a raw socket" sock 2 3 1
	gets 'EPERM|EACCES' "$BOX: a raw IPv6 socket" sock 10 3 58
	gets 'EPERM|EACCES' "$BOX: ping" sock 2 2 1
	gets 'EPERM|EACCES' "$BOX: ping over IPv6" sock 10 2 58
	gets 'EPERM|EACCES|EADDRINUSE' "$BOX: the listener's address" bind 4 1 127.255.255.254 1
	gets 'EPERM|EACCES|EADDRINUSE' "$BOX: the listener's port on all addresses" bind 4 1 0.0.0.0 1
	gets 'EPERM|EACCES|EADDRINUSE' "$BOX: the listener's IPv6 address" bind 6 1 ::1 1
	gets 'EPERM|EACCES|EADDRINUSE' "$BOX: the name server's port" bind 4 2 127.0.0.53 53
	gets 'EPERM|EACCES|EADDRINUSE' "$BOX: the name server's port on all addresses" bind 6 2 :: 53
	gets EPERM "$BOX: IP_TRANSPARENT" option 4 0 19
	gets EPERM "$BOX: IPV6_TRANSPARENT" option 6 41 75
	gets EPERM "$BOX: SO_MARK" option 4 1 36
	gets 'EPERM|EACCES' "$BOX: taking a route away" change route
	gets 'EPERM|EACCES' "$BOX: taking the interface down" change link
	gets 'EPERM|EACCES' "$BOX: another address" change address
	gets 'EPERM|EACCES|EAFNOSUPPORT|EPROTONOSUPPORT' "$BOX: the rules" sock 16 3 12
done

ok 'all of it is still in force afterwards' '
	for who in agent root; do
		cove attest $who --json | jq -e ".items[] | select(.item == \"network\") | .ok and .actual == \"every connection caught\""
	done'
done_testing
