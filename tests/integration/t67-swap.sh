#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Secrets on the wire: the value reaches the hosts that it is for, in every place where programs
# put it; it reaches nobody else, and never comes back.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ
lib=$(cd "$(dirname "$0")/../lib" && pwd)
chmod 755 "$T" && net_world
there python3 "$lib/http_server.py" "$T/raw.log" "$T/tls/cert.pem" "$T/tls/key.pem" >"$T/py.log" 2>&1 &
py=$!
when_done "kill $py; wait $py"
: >"$T/raw.log"
wait_for 5 curl -s -o /dev/null http://45.45.0.1:8080/echo
mkdir -p "$T/p" && cd "$T/p" || exit 1
cat >"$T/swap.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [good.test, other.test]
  trust: ["$CA"]
  rules:
    - {id: opened, host: a.wild.test, methods: [GET, POST]}
secrets:
  - {name: KEY, from: env, hosts: [good.test]}
  - {name: ODD, from: env, hosts: [good.test]}
END
V=sk-live-4f9aa8c1b2d3e4f50617
KEY=$V ODD='quote " and \ and & é' cove run -q box --no-mounts --spec "$T/swap.yaml" -- true
when_done 'cove rm -f box'
# "! CMD" does not end a script under set -e; a function that fails does.
no() { ! "$@"; }
inside() { cove exec -q box -- "$@"; }
# arrives BYTES CURL-ARGUMENT...: they are in what the server got, the placeholder is not, and the
# value is not in what came back.
arrives() {
	want=$1
	shift
	: >"$T/raw.log"
	inside sh -c "curl -sS --max-time $(patient 5) $*" >"$T/answer"
	grep -qF -- "$want" "$T/raw.log"
	no grep -qF -- "$mark" "$T/raw.log"
	no grep -qF -- "$V" "$T/answer"
}
mark=$(inside printenv KEY)
U=https://good.test:8443

ok 'the sandbox has a placeholder of the same length' '
	[ "$mark" != "$V" ] && same "${#V}" "${#mark}"'
ok 'a header' 'arrives "X-Key: $V" "-H \"X-Key: \$KEY\" $U/echo"'
ok 'a bearer, back as the placeholder' '
	arrives "Authorization: Bearer $V" "-H \"Authorization: Bearer \$KEY\" $U/echo"
	grep -qF -- "Bearer $mark" "$T/answer"'
ok 'Basic' 'arrives "Basic $(printf "me:%s" "$V" | base64 -w0)" "-u me:\$KEY $U/echo"'
ok 'query and path' '
	arrives "GET /echo?k=$V&x=1 " "\"$U/echo?k=\$KEY&x=1\""
	arrives "GET /bot$V/x " "$U/bot\$KEY/x"'
ok 'a query, percent-encoded' '
	arrives "GET /echo?k=$V" "-G --data-urlencode k=\$KEY $U/echo"
	first=$(printf "%s" "$mark" | od -An -tx1 -N1 | tr -d " ")
	arrives "GET /echo?k=$V " "\"$U/echo?k=%$first${mark#?}\""'
ok 'a form, JSON, chunks, a file' '
	arrives "k=$V" "-d k=\$KEY $U/echo"
	arrives "{\"k\":\"$V\"}" "--json \"{\\\"k\\\":\\\"\$KEY\\\"}\" $U/echo"
	arrives "$V" "-H Transfer-Encoding:chunked -d k=\$KEY $U/echo"
	arrives "$V" "-F k=\$KEY $U/echo"'
ok 'a value that must be escaped' '
	arrives "{\"k\":\"quote \\\" and \\\\ and & é\"}" "--json \"{\\\"k\\\":\\\"\$ODD\\\"}\" $U/echo"
	arrives "GET /echo?k=quote%20%22%20and%20%5C%20and%20%26%20%C3%A9" "\"$U/echo?k=\$ODD\""'
ok 'a placeholder that is split over writes' '
	: >"$T/raw.log"
	inside python3 -c "
import os, socket, ssl, time
s = ssl.create_default_context().wrap_socket(socket.create_connection((\"good.test\", 8443)), server_hostname=\"good.test\")
b = os.environ[\"KEY\"].encode()
for part in (b\"POST /echo HTTP/1.1\r\nHost: good.test:8443\r\nConnection: close\r\nX: \" + b[:7], b[7:] + b\"\r\n\",
             b\"Content-Length: %d\r\n\r\n\" % (len(b) + 2) + b\"<\" + b[:9], b[9:] + b\">\"):
    s.sendall(part)
    time.sleep(0.05)
print(s.recv(65536))" >"$T/answer"
	same 2 "$(grep -cF -- "$V" "$T/raw.log")"
	no grep -qF -- "$V" "$T/answer"'
ok 'a compressed request keeps its placeholder; a compressed answer is refused' '
	: >"$T/raw.log"
	inside sh -c "printf %s \"\$KEY\" | gzip | curl -sS --max-time $(patient 5) -H Content-Encoding:gzip --data-binary @- $U/echo" >/dev/null
	no grep -qF -- "$V" "$T/raw.log"
	same 502 "$(inside sh -c "curl -s --max-time $(patient 5) -o /dev/null -w %{http_code} -H \"X: \$KEY\" $U/gzip")"
	same 200 "$(inside sh -c "curl -s --max-time $(patient 5) -o /dev/null -w %{http_code} $U/gzip")"'
ok 'programs: python, node, git' '
	: >"$T/raw.log"
	inside python3 -c "
import os, urllib.request as u
u.urlopen(u.Request(\"$U/echo\", headers={\"Authorization\": \"token \" + os.environ[\"KEY\"]}), timeout=5)"
	grep -qF "token $V" "$T/raw.log"
	if command -v node >/dev/null; then
		inside node -e "fetch(\"$U/echo\", {method: \"POST\", body: JSON.stringify({k: process.env.KEY})})"
		grep -qF "{\"k\":\"$V\"}" "$T/raw.log"
	fi
	no grep -qF -- "$mark" "$T/raw.log"'

# ---- elsewhere ---------------------------------------------------------------------------
is_logged() { cove net log box --json | jq -es "any(.[]; $1)" >/dev/null; }
# blocked CURL-ARGUMENT...: 403, nothing of it arrives, and it is in the log.
blocked() {
	: >"$T/raw.log"
	: >"$T/ngx/access.log"
	same 403 "$(inside sh -c "curl -s --max-time $(patient 5) -o /dev/null -w %{http_code} $*")"
	no grep -qF -e "$V" -e "$mark" "$T/raw.log" "$T/ngx/access.log"
	wait_for 2 is_logged ".kind == \"secret\" and .verdict == \"deny\" and .secret == \"KEY\""
}
ok 'another host is not told, in TLS that is opened' '
	blocked "-H \"X: \$KEY\" https://a.wild.test/echo"
	blocked "\"https://a.wild.test/echo?k=\$KEY\""
	blocked "-d k=\$KEY https://a.wild.test/echo"
	blocked "-u me:\$KEY https://a.wild.test/echo"'
ok 'nor is anybody in the clear, the right host included' '
	blocked "-H \"X: \$KEY\" http://good.test:8080/echo"
	blocked "-H \"X: \$KEY\" http://other.test/echo"
	blocked "-d k=\$KEY http://other.test/echo"'
ok 'TLS that is not opened carries only the placeholder' '
	inside sh -c "curl -sS --max-time $(patient 5) -k -H \"X-Api-Key: \$KEY\" https://other.test/echo" >"$T/answer"
	has "$(cat "$T/answer")" "key=$mark"'
ok 'uses are in the log by name, values nowhere' '
	cove net log box --json >"$T/log"
	is_logged ".kind == \"secret\" and .verdict == \"allow\" and .secret == \"KEY\""
	no grep -qF -- "$V" "$T/log"
	no grep -rqF -- "$V" "$COVE_HOME"'
done_testing
