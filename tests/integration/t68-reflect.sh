#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A host that secrets are for shows what it was sent. However a program writes the placeholder, and
# however the server writes the value, no piece of the value comes back into the sandbox.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ
lib=$(cd "$(dirname "$0")/../lib" && pwd)
chmod 755 "$T" && net_world
there python3 "$lib/reflect_server.py" "$T/raw.log" "$T/tls/cert.pem" "$T/tls/key.pem" >"$T/py.log" 2>&1 &
py=$!
when_done "kill $py; wait $py"
: >"$T/raw.log"
wait_for 5 curl -sk -o /dev/null https://45.45.0.1:8444/raw
mkdir -p "$T/p" && cd "$T/p" || exit 1
cat >"$T/swap.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [good.test, other.test]
  trust: ["$CA"]
  rules:
    - {id: opened, host: a.wild.test, methods: [GET, POST]}
secrets:
  - {name: HEX, from: env, hosts: [good.test]}
  - {name: NPM, from: env, hosts: [good.test]}
  - {name: ODD, from: env, hosts: [good.test]}
  - {name: LEN, from: env, hosts: [other.test]}
END
HEX=4f9aa8c1b2d3e4f50617deadbeef0042
NPM=npm_Zk3v9QwErTyUiOpAsDfGhJkLzXcVbNm1
# shellcheck disable=SC2089 # they are meant literally
ODD='wJalr/XUtn+FEMI==K7"MD EN\G&bPx<R'
LEN=AKIA7Q2W9ZXCVBNMLKJH
# shellcheck disable=SC2090
export HEX NPM ODD LEN
cove run -q box --no-mounts --spec "$T/swap.yaml" -- true
when_done 'cove rm -f box'
# "! CMD" does not end a script under set -e; a function that fails does.
no() { ! "$@"; }
inside() { cove exec -q box -- "$@"; }
U=https://good.test:8444 O=https://other.test:8444
hex=$(inside printenv HEX) npm=$(inside printenv NPM) odd=$(inside printenv ODD) len=$(inside printenv LEN)

cat >"$T/pieces.py" <<'END'
# pieces.py FILE VALUE...: 6 bytes of a value in a row, in the file or in it unescaped?
import base64, html, re, sys, urllib.parse
raw = open(sys.argv[1], "rb").read().decode("latin-1")
def unjson(s):
    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda m: chr(int(m[1], 16)) if m[1] else m[2], s)
texts = [raw, urllib.parse.unquote(raw, "latin-1"), urllib.parse.unquote_plus(raw, "latin-1"), unjson(raw),
         unjson(unjson(raw)), html.unescape(raw), raw.lower()]
for m in re.findall(r"[A-Za-z0-9+/_-]{8,}", raw):
    for i in range(4):
        s = m[i:].replace("-", "+").replace("_", "/")
        t = base64.b64decode(s[:len(s) // 4 * 4]).decode("latin-1")
        texts += [t, urllib.parse.unquote(t, "latin-1")]
for v in sys.argv[2:]:
    start = 4 if v.startswith("npm_") else 0  # the placeholder has that too
    for n in range(start, len(v) - 5):
        for t in texts:
            if v[n:n + 6] in t or v[n:n + 6].lower() in t:
                sys.exit("shown: %r" % v[n:n + 6])
END
hidden() { python3 "$T/pieces.py" "$T/answer" "$HEX" "$NPM" "$ODD"; }
# ask WANTED CURL-ARGUMENT...: the server got WANTED, and shows nothing.
ask() {
	want=$1
	shift
	: >"$T/raw.log"
	inside curl -sS -i --max-time "$(patient 5)" "$@" >"$T/answer"
	grep -qF -- "$want" "$T/raw.log"
	hidden
}
# withhold CURL-ARGUMENT...: no value is sent; refuse: and it is a violation.
withhold() {
	: >"$T/raw.log"
	code=$(inside curl -s --max-time "$(patient 5)" -o "/dev/null" -w "%{http_code}" "$@")
	no grep -qF -e "$HEX" -e "$NPM" -e "$ODD" -e "${HEX#??}" -e "${NPM#?}" "$T/raw.log"
}
refuse() {
	withhold "$@"
	same 403 "$code"
}
# The first character as an escape.
percent() { printf "%%%s%s" "$(printf %s "$1" | od -An -tx1 -N1 | tr -d ' ')" "${1#?}"; }
unicode() { printf '\\u00%s%s' "$(printf %s "$1" | od -An -tx1 -N1 | tr -d ' ')" "${1#?}"; }
all() { printf %s "$1" | od -An -v -tx1 | tr -d '\n' | sed "s/ /$2/g"; }

ok 'a part of a file can be asked for as long as no value was stored' '
	inside sh -c "head -c 5000 /dev/zero | tr \"\\0\" . | curl -sS --data-binary @- $U/store"
	same 1024 "$(inside curl -sS --max-time $(patient 5) -H "X: $hex" -H "Range: bytes=0-1023" $U/store | wc -c)"'
ok 'as it is: header, Basic, query, form, JSON' '
	ask "$ODD" -H "X: $odd" $U/raw
	ask "$(printf "me:%s" "$ODD" | base64 -w0)" -u "me:$odd" $U/raw
	ask "wJalr%2FXUtn%2BFEMI%3D%3DK7%22MD%20EN%5CG%26bPx%3CR" "$U/raw?k=$odd"
	ask "wJalr%2FXUtn%2BFEMI%3D%3DK7%22MD%20EN%5CG%26bPx%3CR" -d "k=$odd" $U/raw
	ask "wJalr/XUtn+FEMI==K7\\\"MD EN\\\\G&bPx<R" --json "{\"k\":\"$odd\"}" $U/raw'
ok 'escaped without need, in a body: the value is written in full, never in part' '
	ask "k=$HEX" -d "k=$(percent "$hex")" $U/raw
	ask "k=$HEX" -d "k=$(all "$hex" %)" $U/raw
	ask "\"$HEX\"" --json "{\"k\":\"$(unicode "$hex")\"}" $U/raw
	ask "\"$HEX\"" --json "{\"k\":\"$(all "$hex" "\\\\u00")\"}" $U/raw
	ask "k=wJalr%2FXUtn" -d "k=$(percent "$odd")" $U/raw
	ask "\"wJalr/XUtn+FEMI==K7\\\"" --json "{\"k\":\"$(unicode "$odd")\"}" $U/raw
	ask "$HEX" -H "Content-Type: text/plain" -d "$(unicode "$hex") $(percent "$npm")" $U/raw
	ask "$HEX" -H "Transfer-Encoding: chunked" -d "$(percent "$hex")" $U/raw'
ok 'a word that may become a value waits a second, not for ever' '
	inside python3 -c "
import socket, ssl, time
s = ssl.create_default_context().wrap_socket(socket.create_connection((\"good.test\", 8444)), server_hostname=\"good.test\")
s.sendall(b\"GET /slow HTTP/1.1\r\nHost: good.test:8444\r\n\r\n\")
s.settimeout(4)
data, began, seen = b\"\", time.time(), {}
while b\"the-end\" not in data:
    data += s.recv(65536)
    for w in (b\"{event}\", b\"waiting\"):
        if w in data: seen.setdefault(w, time.time() - began)
print(seen)
assert seen[b\"{event}\"] < 0.9 and 0.9 < seen[b\"waiting\"] < 2.4, seen"'
ok 'in a header and in Basic too' '
	ask "X: wJalr%2FXUtn" -H "X: $(percent "$odd")" $U/raw
	ask "$(printf "me:%s" "$ODD" | base64 -w0)" -u "me:$(percent "$odd")" $U/raw'
ok 'in a body that is too large to be kept: in chunks, or refused where lengths stay' '
	head -c 100000 /dev/zero | tr "\0" . >"$T/big"
	{ cat "$T/big"; percent "$npm"; } | inside sh -c "cat >/tmp/npm"
	{ cat "$T/big"; printf %s "$len"; } | inside sh -c "cat >/tmp/len"
	{ cat "$T/big"; percent "$len"; } | inside sh -c "cat >/tmp/escaped"
	ask "$NPM" --data-binary @/tmp/npm $U/raw
	ask "$LEN" --data-binary @/tmp/len $O/raw
	grep -qi "^content-length: 100020" "$T/raw.log"
	: >"$T/raw.log"
	no inside curl -sS -f -o /dev/null --max-time $(patient 5) --data-binary @/tmp/escaped $O/raw
	no grep -qF "${LEN#????}" "$T/raw.log"'
ok 'after an escape that was begun it would lose its first characters: refused' '
	refuse --json "{\"k\":\"\\$npm\"}" $U/json
	# Where its own first characters may end the escape, it is no placeholder, and passes.
	withhold --json "{\"k\":\"\\u00$hex\"}" $U/json
	refuse -H "Content-Type: text/plain" -d "{\"k\":\"\\$npm\"}" $U/json
	withhold -d "k=%$hex" $U/form
	withhold -d "k=%4$hex" $U/form
	withhold "$U/quote?k=%$hex"
	ask "\\\\$NPM" --json "{\"k\":\"\\\\\\\\$npm\"}" $U/json
	ask "\\n$NPM" --json "{\"k\":\"\\\\n$npm\"}" $U/json'
ok 'a server that decodes and writes it anew' '
	ask "$ODD" -H "X: $odd" $U/raw
	for how in json jsonjson; do
		ask "FEMI==" --json "{\"k\":\"$odd\"}" $U/$how
	done
	ask "FEMI%3D" -d "k=$odd" $U/form
	for how in quote html; do
		ask "FEMI%3D" "$U/$how?k=$odd"
	done
	has "$(cat "$T/answer")" "200 OK"'
ok 'a server that makes it the name of a field' '
	ask "$HEX" "$U/name?k=$hex"
	ask "$NPM" "$U/name?k=$npm"
	has "$(cat "$T/answer")" "200 OK"'
ok 'TRACE' '
	ask "X: $ODD" -X TRACE -H "X: $odd" -u "me:$npm" $U/raw'
ok 'a placeholder in a method or in the name of a field is refused' '
	refuse -X "$hex" $U/raw
	refuse -H "X-$npm: 1" $U/raw'
ok 'a body in a character set that is not bytes keeps its placeholder' '
	: >"$T/raw.log"
	for set in utf-16 "\"UTF-7\"" Shift_JIS; do
		inside curl -sS --max-time $(patient 5) -H "Content-Type: text/plain; charset=$set" -d "$hex" $U/raw >"$T/answer"
		hidden
	done
	no grep -qF "$HEX" "$T/raw.log"
	ask "$HEX" -H "Content-Type: application/json; charset=UTF-8" -d "$hex" $U/raw'
ok 'a part of what was stored is not asked for any more' '
	{ head -c 2000 "$T/big"; printf %s "$hex"; head -c 3000 "$T/big"; } >"$T/obj"
	inside sh -c "cat >/tmp/obj" <"$T/obj"
	ask "$HEX" --data-binary @/tmp/obj $U/store
	for range in 0-2009 2005- 2010-3999 2010-2015 -3020 2000-2003,2004-2007; do
		inside curl -sS --max-time $(patient 5) -H "Range: bytes=$range" $U/store >"$T/answer"
		same "$(wc -c <"$T/obj")" "$(wc -c <"$T/answer")"
		hidden
	done'
ok 'a WebSocket' '
	inside python3 -c "
import os, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection((\"good.test\", 8444)), server_hostname=\"good.test\")
s.sendall((\"GET /ws?k=\" + os.environ[\"HEX\"] + \" HTTP/1.1\r\nHost: good.test:8444\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\"
	\"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n\").encode())
s.settimeout(3)
all = b\"\"
while not all.endswith(b\"\x88\x00\"):
    more = s.recv(65536)
    assert more, len(all)
    all += more
assert len(all) > 70400, len(all)
assert b\"deflate\" not in all
os.write(1, all)" >"$T/answer"
	grep -qaF "$hex" "$T/answer"
	hidden'
ok 'a redirect to another host carries nothing there' '
	: >"$T/ngx/access.log"
	same 403 "$(inside curl -s -L --max-time $(patient 5) -o /dev/null -w "%{http_code}" -H "X-Api-Key: $hex" $U/redirect)"
	no grep -qF -e "$hex" -e "$HEX" "$T/ngx/access.log"'
ok 'expect, tiny chunks, several parts, cookies, trailers' '
	ask "$NPM" -H "Expect: 100-continue" -d "k=$npm" $U/raw
	ask "$NPM" -F "a=1" -F "k=$npm;type=text/plain" -F "f=@/tmp/obj" $U/raw
	ask "k=$NPM; b" -H "Cookie: k=$npm; b=2" $U/raw
	: >"$T/raw.log"
	inside python3 -c "
import os, socket, ssl
s = ssl.create_default_context().wrap_socket(socket.create_connection((\"good.test\", 8444)), server_hostname=\"good.test\")
b = os.environ[\"NPM\"].encode()
s.sendall(b\"POST /raw HTTP/1.1\r\nHost: good.test:8444\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\" +
	b\"\".join(b\"1;x=\" + b[:9] + b\"\r\n\" + bytes([c]) + b\"\r\n\" for c in b) + b\"0\r\nX-T: \" + b + b\"\r\n\r\n\")
s.settimeout(3)
while True:
    d = s.recv(65536)
    if not d: break
    os.write(1, d)" >"$T/answer"
	same 1 "$(grep -cF "$NPM" "$T/raw.log")"
	no grep -qF "$npm" "$T/raw.log"
	grep -qF "$npm" "$T/answer"
	hidden'
cat >"$T/memory.py" <<'END'
# memory.py HOME VALUE...: is one in memory of keeper or role that is not locked?
import glob, sys
values, seen = [v.encode() for v in sys.argv[2:]], 0
def of_box(pid):
    try:
        name = open(pid + "/comm").read().strip()
        parent = open(pid + "/stat").read().rsplit(") ", 1)[1].split()[1]
        env = open((pid if name == "cove-keeper" else "/proc/" + parent) + "/environ", "rb").read()
    except OSError:
        return False
    return name in ("cove-keeper", "cove-egress") and sys.argv[1].encode() in env
for pid in filter(of_box, glob.glob("/proc/[0-9]*")):
    mem, place = open(pid + "/mem", "rb", 0), None
    for line in open(pid + "/smaps"):
        word = line.split()
        if "-" in word[0] and word[0][-1] != ":":
            place = word
        if word[0] != "VmFlags:" or place[1][0] != "r" or "[v" in place[-1]:
            continue
        begin, end = (int(x, 16) for x in place[0].split("-"))
        mem.seek(begin)
        text = mem.read(end - begin)
        for n, v in enumerate(values):
            at = text.find(v)
            seen += at >= 0
            if at >= 0 and "lo" not in word:
                around = text[max(0, at - 40):at] + b"VALUE %d" % n + text[at + len(v):at + len(v) + 40]
                sys.exit("%s: %s: %r" % (open(pid + "/comm").read().strip(), " ".join(place), around))
assert seen >= 2 * len(values), seen
END
# What was sent on is wiped a moment later, and nothing but that changes while nobody asks for more.
locked() {
	have STATIC_GUEST || lacks "a build without sanitizers, which keep what was freed"
	wait_for 2 python3 "$T/memory.py" "$COVE_HOME" "$HEX" "${NPM#npm_}" "$ODD" "$LEN"
}
ok 'in the memory of keeper and role a value is only where it is locked' locked
cat >"$T/slow.py" <<'END'
# slow.py CERT KEY: shows what it was sent in small pieces, many times, and then says no more.
import socket, ssl, sys, threading, time
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(*sys.argv[1:])
def serve(c):
    c = tls.wrap_socket(c, server_side=True)
    got = b""
    while b"\r\n\r\n" not in got or b"POST" in got and b"the-end" not in got:
        got += c.recv(65536)
    if b"/never" in got:
        time.sleep(60)
    fields = b"".join(b"X-%d: %s\r\n" % (n, line) for n, line in enumerate(got.split(b"\r\n") * 5))
    if b"/ws" in got:
        out = b"HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + fields + b"\r\n"
        out += (b"\x81\x7e" + (len(got) + 1).to_bytes(2, "big") + got + b"\n") * 10 + b"\x81\x06shown\n"
    else:
        out = b"HTTP/1.1 200 Ok\r\n" + fields + b"Content-Length: 1000000\r\n\r\n" + got * 20 + b"shown\n"
    for at in range(0, len(out), 700):
        c.sendall(out[at:at + 700])
        time.sleep(0.002)
    time.sleep(60)
s = socket.create_server(("0.0.0.0", 8445))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
END
there python3 "$T/slow.py" "$T/tls/cert.pem" "$T/tls/key.pem" >"$T/slow.log" 2>&1 &
slow=$!
when_done "kill $slow; wait $slow"
wait_for 5 there python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8445))' 2>/dev/null
cat >"$T/waits.py" <<'END'
# waits.py: asks in several ways, and goes on waiting.
import os, socket, ssl, sys, time
def ask(host, path, names, body=b"", more=b""):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 8445)), server_hostname=host)
    fields = b"".join(b"X-%s: %s\r\nY-%s: %s\r\n" % (n, env[n], n, b"y" * 300) for n in names)
    if body:
        more += b"Content-Length: %d\r\n" % len(body)
    s.sendall(b"%s %s HTTP/1.1\r\nHost: %s:8445\r\n%s%s\r\n" % (b"POST" if body else b"GET", path, host.encode(), fields, more))
    if body:
        time.sleep(0.3)  # values are in the head that waits for it
        s.sendall(body)
    got = b""
    while path != b"/never" and b"shown" not in got:
        got += s.recv(65536)
    return s
good, env = (b"HEX", b"NPM", b"ODD"), os.environb
held = [ask("good.test", b"/never", good), ask("other.test", b"/never", [b"LEN"]),
        ask("good.test", b"/never", (), b" ".join(env[n] for n in good) + b" the-end"),
        ask("good.test", b"/some", good, b"x" * 100 + b" the-end"), ask("other.test", b"/some", [b"LEN"]),
        ask("good.test", b"/ws?k=" + env[b"NPM"], good, more=b"Connection: Upgrade\r\nUpgrade: websocket\r\n")]
print("waiting", flush=True)
sys.stdin.read(1)
END
inside sh -c 'cat >/tmp/waits.py' <"$T/waits.py"
mkfifo "$T/more"
ok 'nor is it elsewhere while answers are waited for, come in pieces, or are a WebSocket' '
	inside python3 /tmp/waits.py <"$T/more" >"$T/waits" 2>&1 &
	exec 9>"$T/more"
	wait_for 20 grep -q . "$T/waits"
	same waiting "$(cat "$T/waits")"
	locked
	exec 9>&-
	wait $!
	locked'
done_testing
