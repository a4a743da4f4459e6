#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On the host: tools/nested/run.sh hands on output and status, and leaves nothing behind.
. "$(dirname "$0")/../lib/harness.sh"
need ROOT
nested=$COVE_SRC/tools/nested/run.sh
in_machine() { pgrep -cf -- "-initrd $NESTED/initramfs"; }
before=$(in_machine)
some_left() { [ "$(in_machine)" -gt "$before" ]; }
nothing_left() { [ "$(in_machine)" = "$before" ]; }

ok 'output, arguments, working directory and status' '
	rc=0
	"$nested" -- sh -c "printf \"<%s>\" \"\$@\"; echo err >/dev/stderr; pwd; exit 7" x "a b" "\$HOME" "" >out 2>err || rc=$?
	same 7 "$rc"
	same "<a b><\$HOME><>$COVE_SRC" "$(cat out)"
	same err "$(cat err)"'
ok 'too long is 124; what was said is said' '
	rc_is 124 "$nested" --timeout 1 -- sh -c "echo before; sleep 600" >out 2>err
	same before "$(cat out)"
	has "$(cat err)" "not done after 1"'
ok 'output is live, and kill -9 in the middle leaves no process' '
	"$nested" -- sh -c "echo begun; sleep 600" >out 2>&1 &
	wait_for 120 grep -q begun out || { cat out; false; }
	some_left
	kill -KILL $!
	wait_for 5 nothing_left'
ok 'nor does SIGTERM while it boots' '
	"$nested" -- true &
	wait_for 30 some_left
	kill $!
	rc_is 143 wait $!
	wait_for 5 nothing_left'
ok 'a machine that ends by itself is not a result' '
	rc_is 125 "$nested" -- sh -c "echo b >/proc/sysrq-trigger; sleep 600" 2>err
	has "$(cat err)" "ended by itself"'
ok 'an ordinary user is told what is missing' '
	rc_is 125 setpriv --reuid 65534 --regid 65534 --clear-groups "$nested" -- true 2>err
	has "$(cat err)" "needs root"'
ok 'no file is left' '[ -z "$(ls "$NESTED/run")" ]'
done_testing
