#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On the host: tools/nested/run.sh hands on output and status, and leaves nothing behind.
. "$(dirname "$0")/../lib/harness.sh"
need ROOT
run=$COVE_SRC/tools/nested/run.sh
in_machine() { pgrep -cf -- "-initrd $NESTED/initramfs"; }
before=$(in_machine)
some_left() { [ "$(in_machine)" -gt "$before" ]; }
nothing_left() { [ "$(in_machine)" = "$before" ]; }

ok 'output, arguments, working directory and status' '
	rc=0
	"$run" -- sh -c "printf \"<%s>\" \"\$@\"; echo err >/dev/stderr; pwd; exit 7" x "a b" "\$HOME" "" >out 2>err || rc=$?
	same 7 "$rc"
	same "<a b><\$HOME><>$COVE_SRC" "$(cat out)"
	same err "$(cat err)"'
ok 'too long is 124; what was said is said' '
	rc_is 124 "$run" --timeout 10 -- sh -c "echo before; sleep 600" >out 2>err
	same before "$(cat out)"
	has "$(cat err)" "not done after 10"'
ok 'output is live, and kill -9 in the middle leaves no process' '
	"$run" -- sh -c "echo begun; sleep 600" >out 2>&1 &
	wait_for 120 grep -q begun out || { cat out; false; }
	some_left
	kill -KILL $!
	wait_for 5 nothing_left'
ok 'nor does SIGTERM while it boots' '
	"$run" -- true &
	wait_for 30 some_left
	kill $!
	rc_is 143 wait $!
	wait_for 5 nothing_left'
ok 'a machine that ends by itself is not a result' '
	rc_is 125 "$run" -- sh -c "echo b >/proc/sysrq-trigger; sleep 600" 2>err
	has "$(cat err)" "ended by itself"'
ok 'a machine that hangs is started once more, and that is said' '
	"$run" --silence 3 -- sh -c "echo begun; sleep 3; exit 5" >out 2>err &
	wait_for 120 grep -q begun out || { cat err; false; }
	kill -STOP $(pgrep -nf -- "-initrd $NESTED/initramfs")
	rc_is 5 wait $! || { cat err; false; }
	has "$(cat err)" "no longer answers: known of nested SVM in emulation; once more"
	same "begun begun" "$(echo $(cat out))"'
ok 'an ordinary user is told what is missing' '
	rc_is 125 setpriv --reuid 65534 --regid 65534 --clear-groups "$run" -- true 2>err
	has "$(cat err)" "needs root"'
ok 'no file is left' '[ -z "$(ls "$NESTED/run")" ]'
done_testing
