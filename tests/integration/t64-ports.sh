#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Published ports: what listens inside is reached from the host, and nothing stays behind.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ CURL PYTHON3
mkdir -p "$T/p" && echo "hello from inside" >"$T/p/x"
when_done 'cove kill --all; cove rm -f --all'
cd "$T/p" || exit 1

# serve NAME PORT: an HTTP server inside, when it answers there
serve() {
	cove exec "$1" -- sh -c "cd $T/p && exec python3 -m http.server $2 >/tmp/http.$2 2>&1" &
	wait_for 10 cove exec "$1" -- python3 -c "import socket; socket.create_connection(('127.0.0.1', $2))" 2>/dev/null
}
port_of() { sed -n 's/^127\.0\.0\.1:\([0-9]*\) -> .*/\1/p' "$1"; }
get() { curl -s --max-time 5 "http://127.0.0.1:$1/x"; }
listening() { grep -q ": 0100007F:$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp; }
closed() { ! listening "$1"; }
# A unix socket from the host's side: echoes one line of the other end.
ask_unix() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(sys.argv[1])
s.sendall(b"ping\n"); s.shutdown(socket.SHUT_WR)
sys.stdout.write(b"".join(iter(lambda: s.recv(4096), b"")).decode())' "$1"
}
ECHO='
import socket, os, sys
s = socket.socket(socket.AF_UNIX if sys.argv[1][0] == "/" else socket.AF_INET)
s.bind(sys.argv[1] if sys.argv[1][0] == "/" else ("127.0.0.1", int(sys.argv[1])))
s.listen(200)
while True:
    c, a = s.accept()
    if os.fork() == 0:
        while True:
            d = c.recv(65536)
            if not d: break
            c.sendall(d)
        c.close(); os._exit(0)
    c.close()'
echo_server() { # NAME PORT-OR-PATH
	printf '%s' "$ECHO" >"$T/p/echo.py"
	cove exec "$1" -- sh -c "exec python3 $T/p/echo.py $2 </dev/null >/dev/null 2>&1" &
	wait_for 10 cove exec "$1" -- sh -c "ss -ltn 2>/dev/null | grep -q ':$2 ' || test -S $2 || python3 -c \"import socket; socket.create_connection(('127.0.0.1', int('$2')))\"" 2>/dev/null
}

ok 'a one-shot publishes a free port, and says which' '
	cove run --publish 0:3000 -- sh -c "exec python3 -m http.server 3000 >/dev/null 2>&1" 2>"$T/err" &
	job=$!
	wait_for 10 grep -q "127.0.0.1" "$T/err"
	port=$(port_of "$T/err")
	wait_for 10 get "$port"
	same "hello from inside" "$(get "$port")"
	kill "$job"; wait "$job" || :
	wait_for 5 closed "$port"'
ok 'a one-shot with a port that is given, twice in a row' '
	port=$(python3 -c "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])")
	for i in 1 2 3; do
		cove run -q --publish "$port:3000" -- true
	done
	wait_for 5 closed "$port"'
ok 'a named sandbox publishes from its spec' '
	cove create web --publish 0:3000 .
	same stopped "$(cove ports web --json | jq -r ".[0].listening | if . then \"listening\" else \"stopped\" end")"
	cove start web
	serve web 3000
	port=$(cove ports web --json | jq -r ".[0].host" | sed "s/.*://")
	same "hello from inside" "$(get "$port")"
	has "$(cove ports web)" listening
	same 3000 "$(cove ports web --json | jq ".[0].guest")"'
ok 'publish and unpublish while it runs; both stay in the spec' '
	cove publish web 0:3000 >"$T/out"
	has "$(cat "$T/out")" "web:3000"
	port=$(port_of "$T/out")
	same "hello from inside" "$(get "$port")"
	same 2 "$(cove inspect web | jq ".spec.ports | length")"
	cove unpublish web "$port"
	closed "$port"
	same 1 "$(cove inspect web | jq ".spec.ports | length")"
	same 1 "$(cove ports web --json | jq length)"'
ok 'an open connection ends with unpublish' '
	cove publish web 0:3000 >"$T/out"
	port=$(port_of "$T/out")
	python3 -c "
import socket, sys
s = socket.create_connection((\"127.0.0.1\", $port)); s.settimeout(10)
print(\"open\", flush=True)
try: d = s.recv(10)
except ConnectionResetError: d = b\"\"
print(len(d))" >"$T/conn" &
	job=$!
	wait_for 5 grep -q open "$T/conn"
	wait_for 5 sh -c "test 1 = \$(cove ports web --json | jq \"map(.open) | add\")"
	cove unpublish web "$port"
	wait "$job"
	has "$(cat "$T/conn")" 0'
ok 'nobody listens inside: the connection is closed at once' '
	cove publish web 0:4444 >"$T/out"
	port=$(port_of "$T/out")
	start=$(date +%s%N)
	rc=0; curl -s --max-time 5 "http://127.0.0.1:$port/" || rc=$?
	[ $rc = 7 ] || [ $rc = 52 ] || [ $rc = 56 ] # refused, or ended without a word
	[ $(($(date +%s%N) - start)) -lt 3000000000 ]
	cove unpublish web 4444'
ok 'a conflict names the holder: a sandbox' '
	port=$(cove ports web --json | jq -r ".[0].host" | sed "s/.*://")
	rc_is 125 cove run --publish "$port:1" -- true 2>"$T/err"
	has "$(cat "$T/err")" "127.0.0.1:$port is taken by sandbox web"
	has "$(cat "$T/err")" "hint:"
	rc_is 125 cove publish web "$port:1" 2>"$T/err"
	has "$(cat "$T/err")" "taken by sandbox web"'
ok 'a conflict names the holder: a program' '
	python3 -m http.server --bind 127.0.0.1 0 >"$T/srv" 2>&1 &
	job=$!
	sleep 0.5
	port=$(python3 - "$job" <<-"P"
		import sys, os
		inodes = set()
		for f in os.listdir("/proc/%s/fd" % sys.argv[1]):
		    try: l = os.readlink("/proc/%s/fd/%s" % (sys.argv[1], f))
		    except OSError: continue
		    if l.startswith("socket:"): inodes.add(l[8:-1])
		for line in open("/proc/net/tcp"):
		    w = line.split()
		    if len(w) > 9 and w[3] == "0A" and w[9] in inodes: print(int(w[1].split(":")[1], 16))
	P
	)
	rc=0; cove publish web "$port:1" 2>"$T/err" || rc=$?
	kill "$job"; wait "$job" || :
	same 125 "$rc"
	has "$(cat "$T/err")" "127.0.0.1:$port is taken by python3 (pid $job)"'
ok 'the same port twice is refused, the first stays' '
	cove publish web 0:3000 >"$T/out"
	port=$(port_of "$T/out")
	rc_is 125 cove publish web "$port:3000" 2>"$T/err"
	same "hello from inside" "$(get "$port")"
	cove unpublish web "$port"
	rc_is 125 cove unpublish web "$port" 2>"$T/err"
	has "$(cat "$T/err")" "is not published"'
ok 'a unix socket of the host for a port inside' '
	echo_server web 7001
	cove publish web "$T/host.sock:7001"
	same 600 "$(stat -c %a "$T/host.sock")"
	same ping "$(ask_unix "$T/host.sock")"
	cove unpublish web "$T/host.sock"
	! test -e "$T/host.sock"'
ok 'a port of the host for a unix socket inside, and a socket for a socket' '
	echo_server web /tmp/in.sock
	cove publish web 0:/tmp/in.sock >"$T/out"
	port=$(port_of "$T/out")
	same ping "$(python3 -c "
import socket
s = socket.create_connection((\"127.0.0.1\", $port), 5); s.sendall(b\"ping\"); s.shutdown(1); print(s.recv(10).decode())")"
	cove publish web echo:/tmp/in.sock >"$T/out"
	path=$(sed -n "s/^\(.*\) -> .*/\1/p" "$T/out")
	test -S "$path"
	same ping "$(ask_unix "$path")"
	cove unpublish web echo
	! test -e "$path" || exit 1
	cove unpublish web "$port"'
ok 'a stale socket of ours is replaced, a file and a live socket are not' '
	python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"$T/stale.sock\")"
	cove publish web "$T/stale.sock:7001"
	same ping "$(ask_unix "$T/stale.sock")"
	rc_is 125 cove run --publish "$T/stale.sock:1" -- true 2>"$T/err"
	has "$(cat "$T/err")" "taken by sandbox web"
	cove unpublish web 7001
	echo precious >"$T/file"
	rc_is 125 cove publish web "$T/file:7001" 2>"$T/err"
	same precious "$(cat "$T/file")"'
ok 'bytes arrive whole both ways, and a slow reader holds back only itself' '
	cove publish web 0:7001 >"$T/out"
	port=$(port_of "$T/out")
	python3 - "$port" <<-"P"
		import hashlib, os, socket, sys, threading, time
		port = int(sys.argv[1]); data = os.urandom(8 << 20)
		slow = socket.create_connection(("127.0.0.1", port)) # never reads
		slow.setblocking(False)
		try:
		    while True: slow.send(b"x" * 65536)
		except BlockingIOError: pass
		s = socket.create_connection(("127.0.0.1", port)); s.settimeout(30)
		def send(): s.sendall(data); s.shutdown(socket.SHUT_WR)
		t = threading.Thread(target=send); t.start()
		got = hashlib.sha256(); n = 0
		while True:
		    d = s.recv(65536)
		    if not d: break
		    n += len(d); got.update(d)
		t.join()
		assert n == len(data) and got.digest() == hashlib.sha256(data).digest(), n
	P
	cove unpublish web 7001'
ok 'a hundred connections at once' '
	cove publish web 0:7001 >"$T/out"
	port=$(port_of "$T/out")
	python3 - "$port" <<-"P"
		import socket, sys
		c = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) for i in range(100)]
		for i, s in enumerate(c): s.sendall(b"%d" % i)
		for i, s in enumerate(c): assert s.recv(10) == b"%d" % i
		for s in c: s.close()
	P
	wait_for 5 sh -c "test 0 = \$(cove ports web --json | jq \"map(.open) | add\")"
	same 100 "$(cove ports web --json | jq "map(select(.guest == 7001).total) | add")"
	cove unpublish web 7001'
ok 'more than the bound wait instead of failing' '
	cove publish web 0:7001 >"$T/out"
	port=$(port_of "$T/out")
	python3 - "$port" <<-"P"
		import socket, sys
		c = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) for i in range(300)]
		for s in c[:200]:
		    s.sendall(b"a"); assert s.recv(1) == b"a"; s.close()
		for s in c[200:]:
		    s.settimeout(10); s.sendall(b"b"); assert s.recv(1) == b"b"; s.close()
	P
	cove unpublish web 7001'
ok 'a client that is killed leaves no connection behind' '
	cove publish web 0:7001 >"$T/out"
	port=$(port_of "$T/out")
	python3 -c "
import socket, time
c = [socket.create_connection((\"127.0.0.1\", $port)) for i in range(10)]
time.sleep(60)" &
	job=$!
	wait_for 5 sh -c "test 10 = \$(cove ports web --json | jq \"map(.open) | add\")"
	kill -9 "$job"; wait "$job" || :
	wait_for 5 sh -c "test 0 = \$(cove ports web --json | jq \"map(.open) | add\")"
	cove unpublish web 7001'
ok 'an address other than loopback only when it is named' '
	cove publish web 0:7001 >"$T/out"
	has "$(cat "$T/out")" "127.0.0.1:"
	cove unpublish web 7001
	cove publish web 0.0.0.0:0:7001 >"$T/out"
	has "$(cat "$T/out")" "0.0.0.0:"
	cove unpublish web 7001'
ok 'what is no port is refused with a reason' '
	for bad in 70000:1 1:70000 x:y:z example.com:80:80 80: a/b:1; do
		rc_is 125 cove publish web "$bad" 2>"$T/err" || { echo "$bad"; exit 1; }
		[ -s "$T/err" ]
	done
	rc_is 2 cove publish web
	rc_is 125 cove publish nosuch 1:1 2>"$T/err"'
ok 'stop closes the ports, start opens them again' '
	cove publish web "$T/again.sock:7001"
	cove stop web
	! test -e "$T/again.sock" || exit 1
	same 2 "$(cove ports web --json | jq length)"
	cove start web
	echo_server web 7001
	same ping "$(ask_unix "$T/again.sock")"'
ok 'a keeper that is killed leaves no listener, and its socket is replaced' '
	port=$(cove ports web --json | jq -r ".[0].host" | sed "s/.*://")
	listening "$port"
	kill -9 "$(cove inspect web | jq .keeperPid)"
	wait_for 5 closed "$port"
	cove start web
	echo_server web 7001
	same ping "$(ask_unix "$T/again.sock")"'
ok 'publish and unpublish of a stopped sandbox change its spec' '
	cove stop web
	cove publish web 0:5000
	same 3 "$(cove ports web --json | jq length)"
	cove unpublish web 5000
	same 2 "$(cove ports web --json | jq length)"
	has "$(cove audit web)" ports'
ok 'a start with a port that is taken fails, and says so' '
	python3 -c "
import socket, time
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)" >"$T/taken" &
	job=$!
	wait_for 5 test -s "$T/taken"
	cove create late --publish "$(cat "$T/taken"):1"
	rc=0; cove start late 2>"$T/err" || rc=$?
	kill "$job"; wait "$job" || :
	same 125 "$rc"
	has "$(cat "$T/err")" "is taken by python3"
	cove start late
	cove rm -f late'
done_testing
