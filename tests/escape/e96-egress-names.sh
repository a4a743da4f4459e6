#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ways around the policy by names, addresses and DNS. Each attack has its honest form beside it,
# ends within a second, and leaves a network that works.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/net_attack.sh"
need ROOT USERNS JQ
zone='good.test 45.45.0.1
other.test 45.45.0.2
loop.bad.test 127.0.0.1
loop2.bad.test 127.8.8.8
loop6.bad.test ::1
any.bad.test 0.0.0.0
any6.bad.test ::
this.bad.test 0.1.2.3
private.bad.test 10.1.2.3
private2.bad.test 172.16.0.9
private3.bad.test 192.168.0.9
meta.bad.test 169.254.169.254
meta2.bad.test 100.100.100.200
meta3.bad.test 168.63.129.16
meta6.bad.test fd00:ec2::254
link.bad.test 169.254.7.7
link6.bad.test fe80::1
tail.bad.test 100.64.0.9
ula.bad.test fd00::1
site.bad.test fec0::1
self.bad.test 45.45.0.254
self6.bad.test 2a00:45::fe
mapped.bad.test ::ffff:10.1.2.3
mapped2.bad.test ::ffff:127.0.0.1
compat.bad.test ::127.0.0.1
nat64.bad.test 64:ff9b::7f00:1
nat64b.bad.test 64:ff9b:1::a01:203
nat64self.bad.test 64:ff9b::2d2d:fe
sixtofour.bad.test 2002:a01:203::1
teredo.bad.test 2001:0:a01:203::1
group.bad.test 224.0.0.251
group6.bad.test ff02::1
last.bad.test 255.255.255.255
reserved.bad.test 240.0.0.1
document.bad.test 192.0.2.1
synthetic.bad.test 198.18.0.1
synthetic6.bad.test fd63:6f76:65::1
one.mix.test 10.1.2.3 45.45.0.1 127.0.0.1
two.mix.test 169.254.169.254 fd00::1 45.45.0.1 ::1
loop.flip.test 45.45.0.1 | 127.0.0.1
private.flip.test 45.45.0.1 | 10.1.2.3
meta.flip.test 45.45.0.1 | 169.254.169.254
self.flip.test 45.45.0.1 | 45.45.0.254
six.flip.test 45.45.0.1 | ::1 fd00::1
back.flip.test 10.1.2.3 | 45.45.0.1
odd.test 45.45.0.1
leak.test 45.45.0.1
case.test 45.45.0.1'
bad=$(printf '%s\n' "$zone" | sed -n 's/^\([^ ]*\.bad\.test\) .*/\1/p')
attack_world "$zone"
for a in 172.16.0.9 192.168.0.9 100.100.100.200 168.63.129.16 192.0.2.1 240.0.0.1; do
	there ip addr add $a/32 dev cove1
done
for a in fd00:ec2::254 fd00::1 fec0::1 64:ff9b::7f00:1 64:ff9b:1::a01:203 64:ff9b::2d2d:fe \
	2002:a01:203::1 2001:0:a01:203::1; do
	there ip -6 addr add $a/128 dev cove1 nodad
done
box a --allow good.test --allow '*.bad.test' --allow '*.mix.test' --allow '*.flip.test' \
	--allow odd.test --allow leak.test --allow case.test || exit 1
asked() { cut -d' ' -f2 "$T/dns.log" | sort -u | paste -sd' '; }

ok 'control: a refusal that is late every time counts as none, one that is late once does not' '
	cat >"$T/late.py" <<"END"
import sys, time
sys.path.insert(0, sys.argv[1])
import egress_try as e
def late(times):
    def attempt():
        times.pop() and time.sleep(0.3)
        raise ConnectionResetError
    return attempt
e.refused("once", late([False, True]), limit=0.2)
assert e.failures == 0
e.refused("every time", late([True] * 3), limit=0.2)
assert e.failures == 1
e.refused("late, then through", iter([None, b"UPSTREAM"]).__next__, limit=-1)
assert e.failures == 2
print(e.LIMIT)
END
	out=$(PYTHONDONTWRITEBYTECODE=1 python3 "$T/late.py" "$P")
	echo "$out"
	! have PROCESS || same 1.0 "$(echo "$out" | tail -n 1)"'
ok 'control: from the host these addresses answer' '
	for a in 127.0.0.1 127.8.8.8 10.1.2.3 172.16.0.9 169.254.169.254 100.64.0.9 100.100.100.200 168.63.129.16 \
		45.45.0.254 "[::1]" "[fd00::1]" "[fd00:ec2::254]" "[64:ff9b::7f00:1]" "[64:ff9b:1::a01:203]" \
		"[2002:a01:203::1]" "[2001:0:a01:203::1]" "[2a00:45::fe]"; do
		has "$(curl -sS --max-time $(patient 3) "http://$a/ok")" UPSTREAM
	done'
ok 'an allowed name that leads to an address that is not public' '
	: >"$T/canary.log"
	begin=$(wc -l <"$T/up.log")
	inside a names classes $bad
	same "" "$(cat "$T/canary.log")"
	! tail -n +$((begin + 1)) "$T/up.log" | grep -F "\"local\"" | grep -vF "::ffff:45.45.0.1"'
ok 'of several addresses only the public one is dialled' '
	: >"$T/canary.log"
	begin=$(wc -l <"$T/up.log")
	inside a names several one.mix.test two.mix.test
	same "" "$(cat "$T/canary.log")"
	! tail -n +$((begin + 1)) "$T/up.log" | grep -F "\"local\"" | grep -vF "::ffff:45.45.0.1"'
ok 'answers that change between lookup and connect' '
	: >"$T/canary.log"
	begin=$(wc -l <"$T/up.log")
	names=$(printf "%s.flip.test," loop private meta self six)
	inside a names rebind loop.flip.test "${names%,}" back.flip.test
	same "" "$(cat "$T/canary.log")"
	! tail -n +$((begin + 1)) "$T/up.log" | grep -F "\"local\"" | grep -vF "::ffff:45.45.0.1"'
ok 'names that are none, and names that look like another' '
	: >"$T/dns.log"
	inside a names odd
	same "'"'odd.test'"'" "$(asked)"'
ok 'data in questions does not leave' '
	: >"$T/dns.log"
	up=$(wc -l <"$T/up.log")
	inside a names exfiltrate
	same "'"'leak.test'"'" "$(asked)"
	! grep -F "$(printf exfil | od -An -tx1 | tr -d " \n")" "$T/dns.log" || exit 1
	! tail -n +$((up + 1)) "$T/up.log" | grep exfil'
ok 'an allowed name goes out in one form only' '
	: >"$T/dns.log"
	cove exec a -- python3 -c "
import socket
for n in (\"CASE.test\", \"cASe.tEST.\", \"case.test.\"): socket.getaddrinfo(n, 80)"
	same "'"'case.test'"'" "$(asked)"
	! grep -iF "$(printf CASE | od -An -tx1 | tr -d " \n")" "$T/dns.log"'
ok 'DNS over TLS and HTTPS to hosts that are not listed' '
	inside a names encrypted_dns
	! grep -F "dns=exfil" "$T/up.log"'
ok 'connects to addresses: public, private, of the host, synthetic ones that nobody was given' '
	: >"$T/canary.log"
	inside a names addresses 45.45.0.254 2a00:45::fe
	same "" "$(cat "$T/canary.log")"'
for user in agent root; do
	ok "what $user can do to the sandbox's own network" '
		: >"$T/canary.log"
		up=$(wc -l <"$T/up.log")
		cove run -q --rm --no-mounts --mount "$P:ro" --user $1 --allow good.test -- \
			env PYTHONDONTWRITEBYTECODE=1 python3 "$P/egress_names.py" privileges
		same "$up" "$(wc -l <"$T/up.log")"
		same "" "$(cat "$T/canary.log")"
		inside a names several good.test' $user
done
ok 'IPv6 scopes and zones' '
	inside a names scopes
	same "" "$(cat "$T/canary.log")"'
ok 'the listeners themselves' '
	inside a names listeners'
ok 'the loopback of the host' '
	inside a names loopback
	same "" "$(cat "$T/canary.log")"'
ok 'the loopback of another sandbox' '
	box b --allow other.test
	inside b names serve 7777 >"$T/serve" 2>&1 &
	server=$!
	wait_for 5 grep -q ready "$T/serve"
	inside b names neighbour 7777 own
	inside a names neighbour 7777 other
	cove exec b -- sh -c "kill \$(pidof python3)" || cove exec b -- pkill python3
	wait $server || true'
ok 'synthetic addresses of another sandbox mean nothing here' '
	set -- $(inside a names given)
	inside b names borrow "$1" "$2"
	cove rm -f b'
ok 'without a network there is none of this' '
	box none --net none
	! inside none names given || exit 1
	cove exec none -- python3 -c "
import socket, time
for a in (\"198.18.0.1\", \"45.45.0.1\", \"127.255.255.254\"):
    for port in (1, 53, 80):
        b = time.monotonic()
        try:
            socket.create_connection((a, port), 3)
            raise SystemExit(a)
        except OSError:
            assert time.monotonic() - b < 1
"
	cove rm -f none'
ok 'after all this an honest request works, and the role is the same' '
	inside a names several good.test
	cove net log a --json | jq -s -e "map(select(.verdict == \"deny\")) | length > 20"'
done_testing
