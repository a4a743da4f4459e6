#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ways around the policy by TLS handshakes and HTTP requests, and servers that misbehave. What
# arrived is read as the most careless server would read it.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/net_attack.sh"
need ROOT USERNS JQ
wild='ok wrong self expired chain client huge'

# Certificates that are not good.
attack_certificates() {
	attack_certificate wrong.wild.test DNS:elsewhere.test -days 2
	attack_certificate expired.wild.test DNS:expired.wild.test -days -1
	attack_certificate client.wild.test 'DNS:client.wild.test
extendedKeyUsage=clientAuth' -days 2
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj /CN=self.wild.test -addext subjectAltName=DNS:self.wild.test \
		-keyout "$T/certs/self.wild.test.key" -out "$T/certs/self.wild.test.pem" 2>/dev/null
	# A good one, and with it 400 that nobody needs.
	attack_certificate chain.wild.test DNS:chain.wild.test -days 2
	yes "$T/tls/cert.pem" | head -400 | xargs cat >>"$T/certs/chain.wild.test.pem"
	# One with a list of names beyond any measure.
	attack_certificate huge.wild.test "DNS:huge.wild.test$(seq -f ',DNS:n%.0f.a-long-name-for-a-host.wild.test' 4000 | tr -d '\n')" -days 2
}
attack_world "good.test 45.45.0.1
plain.test 45.45.0.1
other.test 45.45.0.1
$(for name in $wild; do echo "$name.wild.test 45.45.0.1"; done)"

cat >"$T/spec.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [plain.test]
  trust: ["$CA"]
  rules:
    - {id: no, host: good.test, paths: ["/ok/no", "/ok/no/**"], action: deny}
    - {id: read, host: good.test, methods: [GET, HEAD, POST], paths: [/ok, "/ok/**"]}
    - {id: hostile, host: "*.wild.test", protocol: http}
END
box a --spec "$T/spec.yaml" || exit 1
mark() { up=$(wc -l <"$T/up.log"); }
since() { tail -n +$((up + 1)) "$T/up.log" >"$T/since.log"; }
# Requests since mark() that are not for this host, or not for /ok.
strangers() { # HOST
	since
	python3 "$COVE_SRC/tests/lib/net_upstream.py" --readings "$T/since.log" | grep -viE "^[A-Z]+ /ok $1(:(80|443))?\$"
}

ok 'control: another host is reached when nobody looks' '
	has "$(curl -sS -H "Host: other.test" http://45.45.0.1/ok)" UPSTREAM
	arrived | grep -qx "GET /ok other.test"'
for to in 'plain plain.test' 'plain good.test' 'tls good.test'; do
	ok "Host must be the name, in every request: ${to% *}, ${to#* }" '
		mark
		inside a http fronting ${1% *} ${1#* }
		nothing strangers ${1#* } || { strangers ${1#* }; false; }' "$to"
	ok "one request is one request: ${to% *}, ${to#* }" '
		mark
		inside a http smuggle ${1% *} ${1#* }
		nothing strangers ${1#* } || { strangers ${1#* }; false; }' "$to"
done
for host in plain.test good.test; do
	ok "the TLS handshake must say the name: $host" '
		mark
		inside a http handshakes $1
		since
		same "$1" "$(jq -r "select(.event == \"sni\").sni" "$T/since.log" | sort -u)"
		same 160301 "$(jq -r "select(.event == \"tls\").first[0:6] | select(. != \"\")" "$T/since.log" | sort -u)"' "$host"
done
ok 'paths and methods' '
	mark
	inside a http paths
	since
	same "GET /ok/x good.test:80" "$(python3 "$COVE_SRC/tests/lib/net_upstream.py" --readings "$T/since.log")"'
ok 'a protocol is changed only if the request was allowed and asked for it' '
	inside a http upgrade'
ok 'a server that misbehaves' 'inside a http hostile plain'
ok 'a server that misbehaves, behind TLS' 'inside a http hostile tls'
ok 'certificates that are not good, and more of them than anyone should read' '
	inside a http certificates wrong self expired client chain huge'
ok 'SNI good, Host other: only where TLS is opened can this be seen, and there it is' '
	! cove exec a -- curl -sSf --max-time $(patient 3) -H "Host: other.test" https://good.test/ok || exit 1
	has "$(cove exec a -- curl -sSf --max-time $(patient 3) https://good.test/ok)" UPSTREAM'
ok 'the role is the same after all this, and small' '
	cove net log a --json | jq -s -e "map(select(.verdict == \"deny\")) | length > 100"'
done_testing
