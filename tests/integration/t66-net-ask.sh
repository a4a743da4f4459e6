#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hosts that no rule allows: asked for on the terminal, or learned.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ PYTHON3 CURL
net_world
when_done 'cove rm -f --yes asked learn again'
mkdir -p "$T/p" && cd "$T/p" || exit 1

# Runs "$@" on a terminal of its own and presses a key at each question.
cat >"$T/answer.py" <<'P'
import os, pty, sys
keys, argv = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
seen = b""
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    while keys and seen.count(b"[d]eny? ") > sys.argv[1].__len__() - len(keys):
        os.write(fd, keys[0].encode())
        keys = keys[1:]
sys.stdout.write(seen.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
ask() { timeout 30 python3 "$T/answer.py" "$@"; }
ok 'a question on the terminal: once' '
	ask oo cove run --ask -- sh -c "curl -sS -m 9 -o /dev/null -w %{http_code} http://good.test/page; echo; curl -sS -m 9 -o /dev/null -w %{http_code} http://good.test/page" >out
	grep -q "wants good.test:80 - allow \[o\]nce, \[a\]lways, \[d\]eny? once" out
	same 2 "$(grep -c "wants good.test" out)"
	same 2 "$(grep -c "^200" out)"'
ok 'always, in a one-shot and in a named sandbox, where it stays' '
	ask a cove run --ask -- sh -c "curl -sS -m 9 http://good.test/page; curl -sS -m 9 http://good.test/page" >out
	same 1 "$(grep -c "wants good.test" out)"
	same 2 "$(grep -c "^the page" out)"
	ask a cove run asked --ask -- curl -sS -m 9 http://good.test/page >out
	grep -q "^the page" out
	same 200 "$(cove exec asked -- curl -sS -m 5 -o /dev/null -w "%{http_code}" http://good.test/page)"
	cove net ls asked --json | jq -e ".rules[0] | .source == \"live\" and .host == \"good.test\" and .port == 80"
	cove rm -f --yes asked'
ok 'deny, and not asked again; a key that is none of these is no answer' '
	ask xd cove run --ask -- sh -c "curl -sS -m 9 -o /dev/null -w %{http_code} http://good.test/page; curl -sS -m 9 http://good.test/page" >out || true
	same 2 "$(grep -c "wants good.test" out)"
	! grep -q "^the page" out'
ok 'without a terminal nobody is asked, and the answer is no' '
	cove run --ask -- curl -sSf -m 5 http://good.test/page 2>err </dev/null && exit 1
	grep -q "^cove: denied good.test" err || cat err'
ok 'what was used in mode learn is a policy that lets it pass' '
	cove create learn --no-mounts --net learn
	cove start learn
	cove exec learn -- curl -sS -m 5 http://good.test/page
	cove exec learn -- curl -sS -m 5 http://a.wild.test/page
	! cove exec learn -- curl -sSf -m 5 http://loop.test/page || exit 1
	wait_for 5 sh -c "cove net learned learn | grep -q a.wild.test"
	cove stop learn
	cove net learned learn -o policy.yaml
	! grep -q loop.test policy.yaml || exit 1
	cove create again --no-mounts --policy policy.yaml
	cove start again
	cove exec again -- curl -sS -m 5 http://good.test/page
	cove exec again -- curl -sS -m 5 http://a.wild.test/page
	! cove exec again -- curl -sSf -m 5 http://b.wild.test/page || exit 1
	! cove exec again -- curl -sSf -m 5 http://good.test:81/page'
ok 'and a policy for the sandbox itself' '
	cove net learned learn --apply -q
	cove start learn
	cove exec learn -- curl -sS -m 5 http://good.test/page
	! cove exec learn -- curl -sSf -m 5 http://b.wild.test/page'
done_testing
