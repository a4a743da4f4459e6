#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `cove run` as seen from the outside: notices, left-over changes, signals, names.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
mkdir "$T/p" && cd "$T/p" || exit 1

ok 'nothing is said when nothing is to be said' '
	same out "$(cove run -- echo out 2>"$T/e")"
	test ! -s "$T/e"
	wait_for 2 nothing cove ls -q'
ok 'left-over changes are kept, counted and named' '
	cove run -- sh -c "echo 1 >new" >"$T/o" 2>"$T/e"
	test ! -s "$T/o" && test ! -e new
	has "$(sed -n 1p "$T/e")" "cove: 1 changed path is kept in sandbox "
	name=$(sed -n "1s/.* //p" "$T/e")
	for v in diff apply rm; do has "$(sed -n 2p "$T/e")" "cove $v $name"; done
	same "$name" "$(cove ls -q)"
	same stopped "$(cove inspect "$name" | jq -r .state)"
	same 1 "$(cove run -q "$name" -- cat new)"
	cove rm -f "$name"'
ok '-q keeps them as well, and says nothing' '
	cove run -q -- sh -c "echo 1 >new; echo 2 >new2" 2>"$T/e"
	test ! -s "$T/e"
	name=$(cove ls -q)
	test -n "$name"
	cove rm "$name"'
ok '--json: one line at the end' '
	cove run --json -- sh -c "echo 1 >new; exit 5" 2>"$T/e" || same 5 $?
	same "1 5" "$(jq -r "\"\\(.changes) \\(.exit)\"" "$T/e")"
	cove rm "$(jq -r .name "$T/e")"'
ok '--rm discards them' '
	cove run --rm -- sh -c "echo 1 >new" 2>"$T/e"
	test ! -s "$T/e"
	same "" "$(cove ls -q)"'
ok '--rm removes a named one' '
	same x "$(cove run box --rm --no-mounts -- echo x)"
	same "" "$(cove ls -q)"'
ok 'changes survive a failing command and a kill' '
	cove run -q -- sh -c "echo 1 >new; exit 3" || same 3 $?
	cove rm "$(cove ls -q)"
	cove run -q -- sh -c "echo 1 >new; kill -9 \$\$" || same 137 $?
	cove rm "$(cove ls -q)"'
ok '--apply: the changes land when the command succeeded' '
	cove run --apply -- sh -c "echo 1 >landed" >"$T/o" 2>"$T/e"
	has "$(cat "$T/o")" "A landed"
	has "$(cat "$T/e")" "applied 1 change"
	same 1 "$(cat landed)"
	name=$(cove ls -q)
	has "$(cat "$T/e")" "cove undo $name"
	cove undo -q "$name"
	test ! -e landed
	cove rm "$name"'
ok '--apply: nothing lands, and all is kept, when it failed or the gate refuses' '
	cove run --apply -- sh -c "echo 1 >new; exit 4" 2>"$T/e" || same 4 $?
	test ! -e new
	cove rm "$(cove ls -q)"
	cove run --apply -- sh -c "echo 1 >new; echo use x >.envrc" 2>"$T/e" || same 1 $?
	test ! -e new && test ! -e .envrc
	has "$(cat "$T/e")" ".envrc: direnv"
	name=$(cove ls -q)
	has "$(cat "$T/e")" "$name"
	same ".envrc new" "$(cove diff --name-only "$name" | paste -sd" ")"
	cove rm "$name"'
ok '--apply with nothing to apply says nothing' '
	cove run --apply -- true >"$T/o" 2>"$T/e"
	test ! -s "$T/o" && test ! -s "$T/e"
	wait_for 2 nothing cove ls -q'
ok 'without a command and without a terminal: usage' 'rc_is 2 cove run </dev/null 2>"$T/e"'
ok 'a command that is not there is named' '
	rc_is 127 cove run -q --no-mounts -- no-such-program 2>"$T/e"
	has "$(cat "$T/e")" "cove run: no-such-program"
	rc_is 126 cove run -q --no-mounts -- /etc 2>"$T/e"
	has "$(cat "$T/e")" "cove run: /etc"'
ok 'the caller is not told twice: 127 of the command itself is just passed on' '
	rc_is 127 cove run -q --no-mounts -- sh -c "exit 127" 2>"$T/e"
	test ! -s "$T/e"'
ok 'TERM, LANG, LC_* and TZ go in, nothing else' '
	env -i PATH="$PATH" HOME="$HOME" COVE_HOME="$COVE_HOME" TERM=xterm LANG=C.UTF-8 LC_TIME=C TZ=UTC \
		OTHER=1 SSH_AUTH_SOCK=/x cove run -q --no-mounts -- env >"$T/o"
	for v in TERM=xterm LANG=C.UTF-8 LC_TIME=C TZ=UTC; do grep -qx "$v" "$T/o"; done
	! grep -q "OTHER\|SSH_AUTH_SOCK\|COVE_HOME" "$T/o"'
ok 'values: --flag value and --flag=value' '
	same "a b=c" "$(cove run -q --no-mounts --env=A=a --env B=b=c -- sh -c "echo \$A \$B")"'
ok '"--" ends the flags; the command keeps its own' 'same "--help -q" "$(cove run -q --no-mounts -- echo --help -q)"'
ok 'exec takes a command without "--"' '
	cove create -q e --no-mounts && cove start e
	same "-n x" "$(cove exec e printf %s "-n x")"
	cove rm -f e'
ok 'flags cannot change a sandbox that exists' '
	cove create m --no-mounts
	rc_is 125 cove run m --memory 1GiB -- true 2>"$T/e"
	has "$(cat "$T/e")" "cove set"
	same stopped "$(cove inspect m | jq -r .state)"
	same x "$(cove run -q m --env X=x --workdir /tmp --timeout 9s -- sh -c "echo \$X")"
	cove rm -f m'
ok 'every network mode starts; none goes with nothing that needs one' '
	for m in none allowlist open learn; do
		cove run -q --no-mounts --net $m -- true
	done
	! cove run -q --no-mounts --net none --allow example.com -- true 2>"$T/e" || exit 1
	has "$(cat "$T/e")" "none"'

# signalled SIG: cove gets SIG, the process inside has a handler for it
signalled() {
	rm -f "$T/o"
	cove run -q --no-mounts -- sh -c "trap 'echo got $1; exit 7' $1; echo ready; while :; do sleep 0.05; done" >"$T/o" &
	signalled_pid=$!
	wait_for 5 grep -q ready "$T/o"
	kill -"$1" $signalled_pid
	rc_is 7 wait $signalled_pid
	has "$(cat "$T/o")" "got $1"
}
ok 'signals reach the command' 'for s in TERM HUP USR1 USR2; do signalled $s; done'
ok 'a signal that nobody handles ends both, and says which' '
	rm -f "$T/o"
	cove run -q --no-mounts -- sh -c "echo ready; exec sleep 30" >"$T/o" & p=$!
	wait_for 5 grep -q ready "$T/o"
	kill -TERM $p
	rc_is 143 wait $p'
ok 'a command that ignores SIGTERM holds cove only until the third' '
	rm -f "$T/o"
	cove run -q --no-mounts -- sh -c "trap \"\" TERM; echo ready; sleep 30; sleep 30" >"$T/o" & p=$!
	wait_for 5 grep -q ready "$T/o"
	kill -TERM $p; sleep 0.2; kill -TERM $p; sleep 0.2
	kill -0 $p
	kill -TERM $p
	rc_is 143 wait $p'
ok 'nohup: an ignored SIGHUP stays ignored' '
	rm -f "$T/o"
	(trap "" HUP; exec cove run -q --no-mounts -- sh -c "echo ready; sleep 1; echo through") >"$T/o" & p=$!
	wait_for 5 grep -q ready "$T/o"
	kill -HUP $p
	wait $p
	has "$(cat "$T/o")" through'
ok 'stop and continue' '
	rm -f "$T/o"
	cove run -q --no-mounts -- sh -c "while :; do echo tick; sleep 0.05; done" >"$T/o" & p=$!
	wait_for 5 grep -q tick "$T/o"
	kill -TSTP $p
	wait_for 3 grep -q "^State:.T" /proc/$p/status
	sleep 0.3; a=$(wc -l <"$T/o"); sleep 0.4; b=$(wc -l <"$T/o")
	same "$a" "$b"
	kill -CONT $p
	wait_for 3 sh -c "[ \$(wc -l <\"$T/o\") -gt $b ]"
	kill -TERM $p
	wait $p || same 143 $?'
done_testing
