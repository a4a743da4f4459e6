#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stdin, stdout and stderr: apart, whole, large, and each at its own speed.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
box() { cove run -q --no-mounts "$@"; }

ok 'stdout and stderr are apart' '
	box -- sh -c "echo out; echo err >&2" >"$T/o" 2>"$T/e"
	same out "$(cat "$T/o")"
	same err "$(cat "$T/e")"'
ok 'stdin comes in, and its end too' '
	same 3 "$(printf "a\nb\nc\n" | box -- wc -l)"
	same 0 "$(box -- wc -c </dev/null)"'
ok 'a closed stdin is an empty one' 'same 0 "$(box -- wc -c <&-)"'
ok 'stdin that nobody reads does no harm' '
	yes | head -c 3000000 | box -- true
	yes | timeout "$(patient 10)" cove run -q --no-mounts -- true || [ $? -ne 124 ]'
ok 'a command that ends before its input' '
	same "y" "$(yes | timeout "$(patient 20)" cove run -q --no-mounts -- head -n 1)"'
ok 'every byte value passes' '
	perl -e "print map chr, 0..255 for 1..64" >"$T/bytes"
	box -- cat <"$T/bytes" | cmp - "$T/bytes"'

head -c 104857600 /dev/urandom >"$T/big"
ok '100 MB in and out, whole' '
	want=$(sha256sum <"$T/big")
	same "$want" "$(box -- cat <"$T/big" | sha256sum)"
	same "$want" "$(box -- sha256sum <"$T/big")"'
ok '100 MB on stdout and stderr at once' '
	box -- sh -c "head -c 50000000 /dev/zero & head -c 50000000 /dev/zero >&2; wait" 2>"$T/e" >"$T/o"
	same "50000000 50000000" "$(wc -c <"$T/o") $(wc -c <"$T/e")"'
ok 'through a named sandbox as well' '
	cove create -q str --no-mounts && cove start -q str
	same "$(sha256sum <"$T/big")" "$(cove exec str -- cat <"$T/big" | sha256sum)"
	cove rm -f str'
rm -f "$T/big"

ok 'a slow reader of stdout does not hold up stderr' '
	mkfifo "$T/f"
	(wait_for 20 test -e "$T/go"; cat >/dev/null) <"$T/f" & slow=$!
	box -- sh -c "head -c 20000000 /dev/zero & for i in 1 2 3; do echo tick >&2; sleep 0.1; done; echo done >&2; wait" >"$T/f" 2>"$T/e" & run=$!
	wait_for 10 grep -q done "$T/e"
	touch "$T/go"
	wait $run
	wait $slow'
ok 'a reader that goes away ends the writer' '
	box --timeout 20s -- yes | head -n 1 >"$T/o"
	same y "$(cat "$T/o")"'
ok 'output is complete at exit, also the last unfinished line' '
	for i in 1 2 3 4 5 6 7 8 9 10; do
		same "end$i" "$(box -- sh -c "printf \"x\ny\nend$i\"" | tail -n 1)"
	done'
ok 'output of a child that outlives the command is not waited for without end' '
	start=$(date +%s)
	box -- sh -c "sleep 20 & echo now" >"$T/o"
	same now "$(cat "$T/o")"
	[ $(($(date +%s) - start)) -lt "$(patient 6)" ]'
ok 'a full disk on the host side is an error and no hang' '
	[ -w /dev/full ] || lacks "needs /dev/full"
	rc=0; timeout "$(patient 20)" cove run -q --no-mounts -- sh -c "echo x" >/dev/full || rc=$?
	[ $rc -ne 124 ]'
ok 'SIGINT and SIGTERM are passed on' '
	for sig in INT TERM; do
		timeout --foreground -s $sig "$(patient 1)" cove run -q --no-mounts -- sh -c "trap \"echo got; exit 5\" $sig; while :; do sleep 0.1; done" >"$T/o" || :
		same got "$(cat "$T/o")"
	done'

done_testing
