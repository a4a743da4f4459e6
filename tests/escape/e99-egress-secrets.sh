#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Secrets under attack: a value is never seen inside, never at another host, never in the clear.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/net_attack.sh"
need ROOT USERNS JQ
attack_certificates() {
	attack_certificate seen.test DNS:seen.test -days 2
}
attack_world 'good.test 45.45.0.1
seen.test 45.45.0.1
plain.test 45.45.0.1
raw.test 45.45.0.1
other.test 45.45.0.1'
KEY=$(printf 'tok-%s+/="x' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')")
NASTY=$(printf 'nasty-%s\r\nX-Injected: yes\r\n\r\nGET /smuggled HTTP/1.1' "$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')")
export KEY NASTY
# Beyond this line nobody but these two variables and the role knows them.
cat >"$T/spec.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [plain.test, other.test]
  trust: ["$CA"]
  rules:
    - {id: see, host: seen.test, port: 443, protocol: http}
    - {id: raw, host: raw.test, protocol: tcp}
secrets:
  - {name: KEY, hosts: [good.test]}
  - {name: NASTY, hosts: [good.test]}
END
box a --spec "$T/spec.yaml" || exit 1
mark() { up=$(wc -l <"$T/up.log"); }
# The connections since mark() in which the value arrived, by the name in their handshake.
got_value() {
	tail -n +$((up + 1)) "$T/up.log" | python3 "$P/egress_secret.py" arrived "$KEY" | sort | uniq -c
}
only_good() { got_value | grep -v ' good.test$'; }
try() { # ATTACK: runs it, and looks at what came back
	mark
	try_rc=0
	inside a secret "$@" >"$T/got" || try_rc=$?
	grep -v ^GOT "$T/got" || true
	python3 "$P/egress_secret.py" look "$KEY" <"$T/got" || try_rc=1
	nothing only_good || { echo "the value arrived:"; got_value; try_rc=1; }
	return $try_rc
}

ok 'control: what the server shows, and how it is found' '
	for path in echo echo-header echo-chunks echo-gzip; do
		printf "GOT %s\n" "$(curl -sSi -H "X-Key: $KEY" http://45.45.0.1/$path | base64 -w0)" >"$T/got"
		! python3 "$P/egress_secret.py" look "$KEY" <"$T/got" || exit 1
	done'
ok 'towards its host it is replaced, in every writing, also split over writes' '
	try swapped
	same "34 good.test" "$(got_value | sed "s/^ *//")"'
ok 'towards another host that is opened: refused' '
	try elsewhere
	nothing got_value
	cove net log a --json | jq -s -e "any(.kind == \"secret\" and .verdict == \"deny\")"'
ok 'in the clear: refused' 'try in_the_clear; nothing got_value'
ok 'where nothing is opened nothing is replaced' 'try unopened; nothing got_value'
ok 'Host is another one' 'try other_host; nothing got_value'
ok 'in places where no value belongs' 'try odd_places'
ok 'a value with line breaks adds no header and no request' '
	mark
	inside a secret injection >"$T/got"
	grep -v ^GOT "$T/got"
	tail -n +$((up + 1)) "$T/up.log" >"$T/since.log"
	! python3 "$COVE_SRC/tests/lib/net_upstream.py" --readings "$T/since.log" | grep smuggled || exit 1
	jq -rs "group_by(.conn)[] | map(.data // \"\") | join(\"\")" "$T/since.log" >"$T/text"
	grep -q nasty- "$T/text"
	! awk "BEGIN { head = 1 } /^(GET|POST) .* HTTP.1.1/ { head = 1 } /^\r?$/ { head = 0 } head && /X-Injected/ { bad = 1 } END { exit !bad }" "$T/text"'
ok 'what the server shows comes back as the placeholder' 'try reflected'
ok 'over WebSocket' 'try websocket'
ok 'in what the sandbox can read of itself' 'try memory'
ok 'in no log, record or state of cove' '
	cove net log a --json >"$T/out.1"
	cove inspect a >"$T/out.2"; cove audit a >"$T/out.3" 2>&1 || true
	cove logs a >"$T/out.4" 2>&1 || true
	! grep -rlF "$KEY" "$COVE_HOME" "$T"/out.* || exit 1
	! grep -lzF "$KEY" /proc/[0-9]*/cmdline || exit 1
	grep -q secret "$T/out.1"'
ok 'a violation can end the sandbox' '
	sed "s/{name: KEY, hosts: \[good.test\]}/{name: KEY, hosts: [good.test], onViolation: stop}/" "$T/spec.yaml" >"$T/stop.yaml"
	grep -q onViolation "$T/stop.yaml"
	box stop --spec "$T/stop.yaml"
	! inside stop secret stop >"$T/got" || exit 1
	wait_for 5 sh -c "cove ls --json | jq -e \".[] | select(.name == \\\"stop\\\").state == \\\"stopped\\\"\""
	cove rm -f stop'
ok 'after all this an honest request works' '
	mark
	has "$(cove exec a -- sh -c "curl -sS --max-time $(patient 5) -H \"X-Key: \$KEY\" https://good.test/ok")" UPSTREAM
	same "1 good.test" "$(got_value | sed "s/^ *//")"'
done_testing
