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
def change(what): # RTM_DELROUTE, RTM_NEWLINK, RTM_NEWADDR, NFT_MSG_DELTABLE
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12 if what == "rules" else 0); s.settimeout(5)
    kind, body = {
        "rules": (0xa02, struct.pack("BBH", 2, 0, 0)),
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
print(r if time.time() - start < PATIENCE else "SLOW " + r)
EOF
sed -i "s/PATIENCE/$(patient 1)/" "$T/try.py"
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
# A server of the host, which greets whoever reaches it.
python3 -c '
import socket
s = socket.socket(); s.bind(("", 0)); s.listen(); print(s.getsockname()[1], flush=True)
while True: s.accept()[0].send(b"hello")' >"$T/port" &
when_done "kill $!"
wait_for 5 test -s "$T/port"
PORT=$(cat "$T/port")
IP=$(hostname -I 2>/dev/null | cut -d' ' -f1)
ok 'the loopback of the host is another one' '
	same data "$(python3 "$T/try.py" tcp 4 127.0.0.1 "$PORT")"
	same ECONNREFUSED "$(cove exec agent -- python3 - tcp 4 127.0.0.1 "$PORT" <"$T/try.py")"'

# Root of a machine rules its own kernel: what that may change there is looked at below.
boxes='agent root'
have PROCESS || boxes=agent
for BOX in $boxes; do
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
	gets 'EPERM|EACCES|EAFNOSUPPORT|EPROTONOSUPPORT' "$BOX: the rules" change rules
done
if have VM; then
	BOX=root
	gets 'ok|ENOENT|EINVAL' 'root of a machine: its rules' change rules
	gets ok 'root of a machine: a raw socket' sock 2 3 1
	gets ok 'root of a machine: IP_TRANSPARENT' option 4 0 19
	gets ok 'root of a machine: another address' change address
	gets ok 'root of a machine: taking a route away' change route
	ok 'that leads nowhere' '
		cove exec root -- sh -c "nft flush ruleset 2>/dev/null || true"
		for to in "127.0.0.1 $PORT" "${IP:-127.0.0.1} $PORT" "5.5.5.5 $PORT" "9.9.9.9 443" "169.254.169.254 80"; do
			got=$(cove exec root -- python3 - tcp 4 $to <"$T/try.py")
			echo "$to: $got"
			case $got in E[A-Z]* | closed) ;; *) exit 1 ;; esac
		done'
	gets ok 'root of a machine: taking the interface down' change link
fi

ok 'all of it is still in force afterwards' '
	item=network actual="every connection caught"
	have PROCESS || { item="QEMU: network interfaces" actual="lo only"; }
	for who in agent root; do
		cove attest $who --json | jq -e --arg i "$item" --arg a "$actual" \
			".items[] | select(.item == \$i) | .ok and .actual == \$a"
	done
	same ECONNREFUSED "$(cove exec agent -- python3 - udp 4 9.9.9.9 443 <"$T/try.py")"'
done_testing
