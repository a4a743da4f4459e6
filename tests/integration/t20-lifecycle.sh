#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Named sandboxes: create, start, exec, stop, restart, kill, reset, rm, and what ls says.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
mkdir "$T/p" && cd "$T/p" || exit 1
state() { cove ls --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'; }

ok 'nothing is there at first' '
	same "[]" "$(cove ls --json | jq -c .)"
	same "" "$(cove ls -q)"'
ok 'create: stopped' 'cove create a; same stopped "$(state a)"'
ok 'create twice is an error' 'rc_is 125 cove create a 2>"$T/err"; has "$(cat "$T/err")" a; same stopped "$(state a)"'
ok 'start: running' 'cove start a; same running "$(state a)"'
ok 'start again is no harm, or a clear error' 'cove start a || same 125 $?; same running "$(state a)"'
ok 'exec, with exit codes' '
	same hi "$(cove exec a -- echo hi)"
	rc_is 42 cove exec a -- sh -c "exit 42"
	rc_is 127 cove exec a -- no-such-program
	rc_is 143 cove exec a -- sh -c "kill \$\$"
	rc_is 124 cove exec --timeout 1s a -- sleep 20'
ok 'exec: environment, directory, user' '
	same "v /usr" "$(cove exec --env K=v --workdir /usr a -- sh -c "echo \$K \$(pwd)")"
	same "$T/p" "$(cove exec a -- pwd)"'
ok 'what one exec leaves, the next one finds' '
	cove exec a -- sh -c "echo data >/tmp/file; echo data >~/file"
	same "data data" "$(cove exec a -- sh -c "echo \$(cat /tmp/file) \$(cat ~/file)")"'
ok 'processes live on between execs' '
	cove exec a -- sh -c "sleep 100 >/dev/null 2>&1 & echo \$!" >"$T/pid"
	cove exec a -- kill -0 "$(cat "$T/pid")"
	has "$(cove ps a)" "sleep"'
ok 'inspect and stats are JSON with the name' '
	same a "$(cove inspect a --json | jq -r ".. | .name? // empty" | head -n 1)"
	cove stats a --json | jq -e . >/dev/null'
ok 'attest: everything holds' 'cove attest a >"$T/attest"; [ -s "$T/attest" ]; cove attest a --json | jq -e . >/dev/null'
ok 'stop: stopped, no process left' '
	cove stop a
	same stopped "$(state a)"
	rc_is 125 cove exec a -- true'
ok 'stop again is no harm, or a clear error' 'cove stop a || same 125 $?'
ok 'start after stop' 'cove start a; cove exec a -- true'
ok 'restart gives new processes' '
	cove exec a -- sh -c "echo x >/tmp/before"
	cove restart a
	same running "$(state a)"
	must_refuse cove exec a -- test -e /tmp/before'
ok 'kill ends it at once' '
	cove exec a -- sh -c "trap \"\" TERM; sleep 60" >/dev/null 2>&1 & p=$!
	sleep 0.3
	timeout 5 cove kill a
	wait $p || :
	same stopped "$(state a)"'
ok 'stop is orderly: SIGTERM first' '
	cove start a
	cove exec a -- sh -c "trap \"echo bye >$T/p/bye; exit 0\" TERM; echo ready; while :; do sleep 0.1; done" >"$T/out" 2>&1 & p=$!
	wait_for 3 grep -q ready "$T/out"
	cove stop a
	wait $p || :
	same bye "$(cove run -q a -- cat "$T/p/bye")"
	cove stop a'
ok 'stop does not wait for ever' '
	cove start a
	cove exec a -- sh -c "trap \"\" TERM; while :; do sleep 0.2; done" >/dev/null 2>&1 & p=$!
	sleep 0.3
	timeout 15 cove stop --grace 1s a
	wait $p || :
	same stopped "$(state a)"'
ok 'reset: as it was created' '
	cove run -q a -- sh -c "echo x >$T/p/made; echo x >~/made"
	cove stop a
	cove reset --yes a
	must_refuse cove run -q a -- sh -c "test -e $T/p/made || test -e ~/made"
	cove stop a'
ok 'set: limits and other keys of a stopped sandbox' '
	cove set a --env NEW=1
	same 1 "$(cove run -q a -- sh -c "echo \$NEW")"
	cove stop a'
ok 'rm of a running one needs force' '
	cove start a
	rc_is 125 cove rm a 2>"$T/err"
	same running "$(state a)"
	cove rm --force a
	same "" "$(state a)"'
ok 'after rm nothing of it is on disk' 'same "" "$(find "$COVE_HOME" -path "*sandboxes/a*" -o -path "*run/a*")"'
ok 'run NAME creates, starts, and keeps running' '
	same one "$(cove run -q b -- echo one)"
	same running "$(state b)"
	same two "$(cove run -q b -- echo two)"
	rc_is 9 cove run -q b -- sh -c "exit 9"
	cove rm -f b'
ok 'run NAME DIR' '
	mkdir -p "$T/q" && echo q >"$T/q/file"
	same "$T/q q" "$(cove run -q c "$T/q" -- sh -c "echo \$(pwd) \$(cat file)")"
	cove rm -f c'
ok 'persistent home, ephemeral /tmp' '
	cove create d --no-mounts
	cove run -q d -- sh -c "echo x >~/kept; echo x >/tmp/gone"
	cove restart d
	cove exec d -- test -e /tmp/gone && exit 1
	cove rm -f d'
ok 'stop --all, ls --filter' '
	for n in x y z; do cove run -q $n --no-mounts -- true; done
	cove stop y
	same "x z" "$(cove ls -q --filter state=running | paste -sd" ")"
	cove stop --all
	same "" "$(cove ls -q --filter state=running)"
	cove rm x y z
	same "" "$(cove ls -q)"'
ok 'cp in and out' '
	cove run -q f --no-mounts -- true
	echo payload >"$T/in" && chmod 640 "$T/in"
	cove cp "$T/in" f:/tmp/in
	same payload "$(cove exec f -- cat /tmp/in)"
	cove cp f:/tmp/in "$T/back"
	cmp "$T/in" "$T/back"
	same 640 "$(stat -c %a "$T/back")"
	mkdir -p "$T/tree/deep" && echo 1 >"$T/tree/deep/1" && ln -s deep/1 "$T/tree/l"
	cove cp -r "$T/tree" f:/tmp/tree
	cove cp -r f:/tmp/tree "$T/tree2"
	diff -r "$T/tree" "$T/tree2"
	same deep/1 "$(readlink "$T/tree2/l")"
	rc_is 125 cove cp f:/no/such "$T/x"
	! test -e "$T/x" || exit 1
	head -c 20000000 /dev/urandom >"$T/large"
	cove cp "$T/large" f:/tmp/large
	cove cp f:/tmp/large "$T/large2"
	cmp "$T/large" "$T/large2"
	cove rm -f f'
ok 'logs hold the output of the main session' '
	cove run -q g --no-mounts --detach -- sh -c "echo logged; sleep 30"
	wait_for 5 sh -c "cove logs g | grep -q logged"
	cove rm -f g'

ok 'the very first start, by a keeper, has an /etc that can be read' '
	new_home "$T/fresh"
	COVE_HOME=$T/fresh
	cove run -q first -- sh -ec "cat /etc/passwd /etc/nsswitch.conf >/dev/null; ls /etc/ssl/certs >/dev/null"
	cove rm -f first'
done_testing
