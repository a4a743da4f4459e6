#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Egress: what policy names is reached, by every kind of program; nothing else is.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ
net_world
mkdir -p "$T/p" && cd "$T/p" || exit 1
cp "$CA" ca.pem
run() { cove run -q --rm "$@"; }

ok 'no network unless asked: not even DNS' '
	rc_is 6 run -- curl -sS --max-time $(patient 3) http://good.test/page
	rc_is 7 run -- curl -sS --max-time $(patient 3) http://45.45.0.1/page'
ok 'an allowed host is reached by name: plain and TLS' '
	same "the page" "$(run --allow good.test -- curl -sS http://good.test/page)"
	same "the page" "$(run --allow good.test -- curl -sS --cacert ca.pem https://good.test/page)"'
ok 'what is not allowed: NXDOMAIN, no query leaves, within a second' '
	: >"$T/dns.log"
	begin=$(date +%s%N)
	rc_is 6 run --allow good.test -- curl -sS --max-time $(patient 5) http://secret-data.evil.test/
	[ $(($(date +%s%N) - begin)) -lt $(patient 1500)000000 ]
	! queries | grep -q evil'
ok 'an address is not a name: a direct connect is refused' '
	rc_is 56 run --allow good.test -- curl -sS --max-time $(patient 3) http://45.45.0.2/page || rc_is 22 run --allow good.test -- curl -sSf --max-time $(patient 3) http://45.45.0.2/page'
ok 'a port that is not allowed is refused' '
	! run --allow good.test:443 -- curl -sSf --max-time $(patient 3) http://good.test/page'
ok 'a wildcard takes one label, two stars any number' '
	same "the page" "$(run --allow "*.wild.test" -- curl -sS http://a.wild.test/page)"
	! run --allow "*.wild.test" -- curl -sSf --max-time $(patient 3) http://a.b.wild.test/page || exit 1
	same "the page" "$(run --allow "**.wild.test" -- curl -sS http://a.b.wild.test/page)"
	! run --allow "**.wild.test" -- curl -sSf --max-time $(patient 3) http://wild.test/page'
ok 'python, node and wget need no proxy variables' '
	same "the page" "$(run --allow good.test -- python3 -c "import urllib.request as u; print(u.urlopen(\"http://good.test/page\").read().decode(), end=\"\")")"
	same "the page" "$(run --allow good.test -- wget -qO- http://good.test/page)"
	command -v node >/dev/null || lacks node
	same "the page" "$(run --allow good.test -- node -e "require(\"http\").get(\"http://good.test/page\",r=>r.pipe(process.stdout))")"'
ok 'IPv6: a name with only an IPv6 address' '
	same "the page" "$(run --allow six.test -- curl -sS http://six.test/page)"'
for name in loop meta private tail mapped linklocal nat64; do
	ok "a name that resolves to $name is refused" '
		begin=$(date +%s%N)
		! run --allow $1.test -- curl -sSf --max-time $(patient 3) http://$1.test/page || exit 1
		[ $(($(date +%s%N) - begin)) -lt $(patient 2000)000000 ]' "$name"
done
ok 'the same address by a rule that names it' '
	cat >"$T/tail.yaml" <<END
network:
  mode: allowlist
  rules:
    - {id: tailnet, host: tail.test, addresses: ["100.64.0.0/10"]}
END
	same "the page" "$(run --spec "$T/tail.yaml" -- curl -sS http://tail.test/page)"'
ok 'a refusal explains itself' '
	run --allow good.test:443 -- curl -sS --max-time $(patient 3) http://good.test/page >"$T/answer"
	same 80 "$(jq .port "$T/answer")"
	same "\"good.test\"" "$(jq .host "$T/answer")"
	jq -e ".rule and .reason and .how" "$T/answer"'
ok 'bytes arrive whole' '
	same "$(sha256sum <"$T/www/big")" "$(run --allow good.test -- curl -sS http://good.test/big | sha256sum)"
	same "$(sha256sum <"$T/www/big")" "$(run --allow good.test -- curl -sS --cacert ca.pem https://good.test/big | sha256sum)"'
ok 'UDP and ping are refused at once' '
	run --allow good.test -- python3 -c "
import socket, time
b = time.time()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(3)
s.connect((\"45.45.0.1\", 443))
s.send(b\"x\")
try:
    s.recv(1)
    raise SystemExit(1)
except ConnectionRefusedError:
    pass
assert time.time() - b < 1
"'
ok 'SNI and Host must be the name' '
	! run --allow good.test -- curl -sSf --max-time $(patient 3) -H "Host: other.test" http://good.test/page || exit 1
	! run --allow good.test -- curl -sSf --max-time $(patient 3) --cacert ca.pem --connect-to other.test:443:good.test:443 https://other.test/page'
ok 'two at once, each with its own policy' '
	run --allow good.test -- curl -sS http://good.test/page >"$T/a" &
	run --allow other.test -- curl -sS http://other.test/page >"$T/b"
	wait $!
	same "the page" "$(cat "$T/a")"
	same "the page" "$(cat "$T/b")"
	! run --allow other.test -- curl -sSf --max-time $(patient 3) http://good.test/page'
ok 'a named sandbox: allow and deny while it runs' '
	cove run -q box --net allowlist -- true
	! cove exec box -- curl -sSf --max-time $(patient 3) http://good.test/page || exit 1
	cove net allow box good.test
	same "the page" "$(cove exec box -- curl -sS http://good.test/page)"
	cove net deny box good.test
	! cove exec box -- curl -sSf --max-time $(patient 3) http://good.test/page || exit 1
	! have STATIC_GUEST || cove attest box | grep -q "egress seccomp mode *2 *2"
	cove attest box | grep -q "generation 3"
	cove net log box --json | jq -s -e "map(select(.verdict == \"deny\")) | length >= 1"
	cove rm -f box'
ok 'one command without network, another with' '
	cove run -q air --allow good.test -- true
	same "the page" "$(cove exec air -- curl -sS http://good.test/page)"
	! cove exec --offline air -- curl -sSf --max-time $(patient 3) http://good.test/page || exit 1
	! cove exec --offline air -- sh -c "setsid sh -c \"setsid curl -sSf --max-time $(patient 3) http://good.test/page >out; echo \\\$? >rc\" & sleep 1; exit \$(cat rc)" || exit 1
	same "the page" "$(cove exec air -- curl -sS http://good.test/page)"
	cove rm -f air'
ok 'a rule for one tool only' '
	cat >"$T/tool.yaml" <<END
name: tools
network:
  mode: allowlist
  rules:
    - {id: gh, host: good.test, scope: {tool: gh}}
END
	cove run -q tools --spec "$T/tool.yaml" -- true
	! cove exec tools -- curl -sSf --max-time $(patient 3) http://good.test/page || exit 1
	same "the page" "$(cove exec --tool gh tools -- curl -sS http://good.test/page)"
	! cove exec --tool other tools -- curl -sSf --max-time $(patient 3) http://good.test/page || exit 1
	cove rm -f tools'
ok 'the host itself, by name and only by rule' '
	python3 -m http.server 8123 --bind 127.0.0.1 --directory "$T/www" >/dev/null 2>&1 &
	server=$!
	wait_for 5 curl -s -o /dev/null http://127.0.0.1:8123/page
	got=$(run --allow host.cove.internal:8123 -- curl -sS http://host.cove.internal:8123/page) || true
	bad=0
	run --net open -- curl -sSf --max-time $(patient 3) http://host.cove.internal:8123/page && bad=1
	run --allow host.cove.internal:8124 -- curl -sSf --max-time $(patient 3) http://host.cove.internal:8123/page && bad=1
	kill $server
	wait $server || true
	same "the page" "$got"
	same 0 $bad'
done_testing
