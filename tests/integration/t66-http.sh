#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Opened HTTP: what is judged is what is sent; requests that two readers could read in two ways
# never leave, servers that answer badly are named, and nothing hangs.
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
cat >"$T/http.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [other.test]
  trust: ["$CA"]
  rules:
    - {id: no-admin, host: good.test, paths: [/admin, "/admin/**"], action: deny}
    - {id: http, host: good.test, methods: [GET, POST, PUT, HEAD], paths: ["/**"]}
END
cove run -q box --no-mounts --spec "$T/http.yaml" -- true
when_done 'cove rm -f box'
inside() { cove exec -q box -- "$@"; }

# raw HOST PORT: what standard input holds goes as it is; the answer, and how long it took.
cat >raw.py <<'END'
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
data = sys.argv[3].encode().decode("unicode_escape").encode("latin-1")
b = time.time()
try:
    s.sendall(data)
    while True:
        d = s.recv(65536)
        if not d:
            break
        sys.stdout.buffer.write(d)
        if len(sys.argv) > 4:
            break
except ConnectionError:
    print("reset")
sys.stderr.write("%.3f\n" % (time.time() - b))
END
script=$(cat raw.py)
raw() { inside python3 -c "$script" "$@" 2>"$T/took"; }
quick() { awk '{ exit !($1 < 1) }' "$T/took"; }

is_logged() { cove net log box --json | jq -es "any(.[]; $1)" >/dev/null; }

H='Host: good.test:8080\r\n'
# refused WHAT STATUS BYTES: refused with that status within a second, and none of it arrives.
refused() {
	ok "$1" '
		: >"$T/raw.log"
		raw good.test 8080 "$2" >"$T/answer"
		has "$(head -1 "$T/answer")" " $1 "
		quick
		! test -s "$T/raw.log" || exit 1
		tail -1 "$T/answer" | jq -e ".reason and .rule"' "$2" "$3"
}
ok 'a request passes, and arrives in the one form' '
	: >"$T/raw.log"
	raw good.test 8080 "GET http://GOOD.test:8080/echo HTTP/1.1\r\nhOST: Good.Test:8080\r\nX:  y \r\nConnection: close, Z\r\nZ: 1\r\n\r\n" >"$T/answer"
	has "$(head -1 "$T/answer")" " 200 "
	printf "GET /echo HTTP/1.1\r\nHost: good.test:8080\r\nX: y\r\nConnection: close\r\n\r\n" | cmp - "$T/raw.log"'
refused 'CL.TE' 400 "POST /echo HTTP/1.1\r\n${H}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"
refused 'TE.CL' 400 "POST /echo HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n"
refused 'TE.TE' 400 "POST /echo HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"
refused 'TE with a tab before the colon' 400 "POST /echo HTTP/1.1\r\n${H}Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"
refused 'two lengths' 400 "POST /echo HTTP/1.1\r\n${H}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"
refused 'a length with a sign' 400 "POST /echo HTTP/1.1\r\n${H}Content-Length: +1\r\n\r\na"
refused 'obs-fold' 400 "GET /echo HTTP/1.1\r\n${H}X: a\r\n b\r\n\r\n"
refused 'bare LF' 400 "GET /echo HTTP/1.1\nHost: good.test:8080\n\n"
refused 'bare CR' 400 "GET /echo HTTP/1.1\r\n${H}X: a\rHost: other.test\r\n\r\n"
refused 'NUL' 400 "GET /echo HTTP/1.1\r\n${H}X: a\\0b\r\n\r\n"
refused 'two Hosts' 400 "GET /echo HTTP/1.1\r\n${H}Host: other.test\r\n\r\n"
refused 'Host of another' 403 "GET /echo HTTP/1.1\r\nHost: other.test\r\n\r\n"
refused 'Host with another port' 403 "GET /echo HTTP/1.1\r\nHost: good.test:80\r\n\r\n"
refused 'absolute-form for another' 400 "GET http://other.test/ HTTP/1.1\r\n${H}\r\n"
refused 'absolute-form and Host for another' 403 "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
refused 'CONNECT' 400 "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n"
refused 'HTTP/2 unasked' 403 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
refused 'HTTP/0.9' 400 "GET /echo\r\n\r\n"
refused 'a refused path' 403 "GET /admin/x HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused path, %2F' 403 "GET /admin%2fx HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused path, encoded' 403 "GET /%61%64min/x HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused path, dots' 403 "GET /echo/../admin/x HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused path, parameters' 403 "GET /echo/..;/admin/x HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused path, slashes' 403 "GET //admin//x HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
refused 'a refused method' 403 "DELETE /echo HTTP/1.1\r\n${H}Connection: close\r\n\r\n"
ok 'a smuggled request is none: the second of two is judged too' '
	: >"$T/raw.log"
	raw good.test 8080 "POST /echo HTTP/1.1\r\n${H}Content-Length: 3\r\n\r\nabcGET /admin/x HTTP/1.1\r\n${H}Connection: close\r\n\r\n" >"$T/answer"
	same 1 "$(grep -c "^HTTP/1.1 200" "$T/answer")"
	same 1 "$(grep -c "HTTP/1.1 403" "$T/answer")"
	! grep -q admin "$T/raw.log"'
ok 'a head that never ends' '
	begin=$(date +%s%N)
	inside python3 -c "
import socket
s = socket.create_connection((\"good.test\", 8080), 5)
s.sendall(b\"GET /echo HTTP/1.1\r\nHost: good.test:8080\r\n\")
try:
    while True:
        s.sendall(b\"X: \" + b\"y\" * 1000 + b\"\r\n\")
except OSError:
    pass
"
	[ $(($(date +%s%N) - begin)) -lt $(patient 3000)000000 ]'

# ---- the server is hostile ---------------------------------------------------------------
for p in endless close not-http two-lengths both bare-lf switch; do
	ok "server: $p: 502 with the reason" '
		begin=$(date +%s%N)
		same 502 "$(inside curl -s --max-time $(patient 5) -o /dev/null -w "%{http_code}" http://good.test:8080/$1)"
		[ $(($(date +%s%N) - begin)) -lt $(patient 3000)000000 ]
		inside curl -s --max-time $(patient 5) http://good.test:8080/$1 | jq -e ".reason"' "$p"
done
ok 'server: a body that is broken or cut is not taken for a whole one' '
	! inside curl -s --max-time $(patient 5) -o /dev/null http://good.test:8080/bad-chunk || exit 1
	! inside curl -s --max-time $(patient 5) -o /dev/null http://good.test:8080/cut'
ok 'server: a second answer is for nobody' '
	inside curl -s --max-time $(patient 5) http://good.test:8080/second http://good.test:8080/echo >"$T/answer" || :
	! grep -q poisoned "$T/answer"'
ok 'one that is silent keeps only its own client waiting' '
	inside curl -s --max-time $(patient 1) http://good.test:8080/silent &
	same 200 "$(inside curl -s --max-time $(patient 1) -o /dev/null -w "%{http_code}" http://good.test:8080/echo)"
	wait $! || :'

# ---- what must work --------------------------------------------------------------------------
ok 'bodies up: by length, chunked, with 100-continue, over plain and TLS' '
	for url in http://good.test:8080 https://good.test:8443 https://good.test:8443; do
		same "$(sha256sum <"$T/www/big")" "$(inside sh -c "curl -sS --max-time 20 -H Expect:100-continue \
			--data-binary @- $url/echo | tail -c 3000000" <"$T/www/big" | sha256sum)"
		same "$(sha256sum <"$T/www/big")" "$(inside sh -c "curl -sS --max-time 20 -H Transfer-Encoding:chunked \
			-T - $url/echo | tail -c 3000000" <"$T/www/big" | sha256sum)"
	done'
ok 'bodies down, HEAD, ranges, a hundred requests on one connection' '
	same "$(sha256sum <"$T/www/big")" "$(inside curl -sS --max-time 20 https://good.test/big | sha256sum)"
	has "$(inside curl -sSI --max-time $(patient 5) https://good.test/big)" "Content-Length: 3000000"
	same "$(head -c 1000 "$T/www/big" | sha256sum)" "$(inside curl -sS -r 0-999 --max-time $(patient 5) https://good.test/big | sha256sum)"
	same 100 "$(inside curl -sS --max-time 20 "https://good.test/page?[1-100]" | grep -c "the page")"'
ok 'WebSocket passes after its request was allowed' '
	raw good.test 8080 "GET /websocket HTTP/1.1\r\n${H}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" one >"$T/answer"
	has "$(cat "$T/answer")" "101 Switching"
	has "$(raw good.test 8080 "GET /admin/ws HTTP/1.1\r\n${H}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" one)" " 403 "'
ok 'a new rule ends an answer that is under way' '
	inside curl -s --max-time $(patient 10) http://good.test:8080/silent & waiting=$!
	sleep 0.5
	cove net deny box good.test --method GET --path /silent
	begin=$(date +%s%N)
	! wait $waiting || exit 1
	[ $(($(date +%s%N) - begin)) -lt $(patient 3000)000000 ]'
ok 'each request is in the log, with method, path and status' '
	wait_for 2 is_logged ".kind == \"request\" and .method == \"GET\" and .path == \"/echo\" and .status == 200"
	wait_for 2 is_logged ".kind == \"request\" and .verdict == \"deny\" and .rule == \"no-admin\""'
done_testing
