#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How a machine ends: its own power-off, a panic, out of memory, a hang, or QEMU killed from
# outside. Noticed at once, told as what it was (by the command that ran, by `cove inspect` later),
# and nothing is left.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ PYTHON3
have VM || skip_all 'a machine of its own is what ends here'
mkdir "$T/p" && cd "$T/p" || exit 1

state() { cove ls --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'; }
is_stopped() { [ "$(state "$1")" = stopped ]; }
why() { cove inspect "$1" | jq -r '.lastRun | "\(.reason) / \(.hint)"'; }
box() { # NAME OPTION...: a machine in which the caller is root
	box_name=$1
	shift
	cove create -q "$box_name" --no-mounts --user root "$@" && cove start -q "$box_name"
}
now_ms() { date +%s%3N; }
# Something that runs inside while its machine ends; when it was told is in $T/told.
sleeper() { # NAME
	rm -f "$T/told"
	sleeper_rc=0
	cove exec "$1" -- sleep 1000 >"$T/sleep.out" 2>"$T/sleep.err" || sleeper_rc=$?
	now_ms >"$T/told"
	return $sleeper_rc
}
# It is told within half the time after which a guest that says nothing counts as hung, and told
# TEXT. How long it took, less what is due to the load of this host (a command that does nothing
# takes as long), is kept in $T/took: see the test of all of them.
is_told() { # NAME TEXT PID SINCE
	rc=0; timeout 60 tail --pid="$3" -f /dev/null || rc=$?
	[ $rc = 0 ] || { echo "nobody is told"; kill "$3"; return 1; }
	wait "$3" || rc=$?
	cat "$T/sleep.err"
	same 125 "$rc"
	has "$(cat "$T/sleep.err")" "$2"
	[ -z "$4" ] || in_time $(($(cat "$T/told") - $4))
	wait_for 6 is_stopped "$1"
	has "$(why "$1")" "$2"
}
in_time() { # MS
	echo "told after $1 ms, where an exec takes $exec_ms"
	echo $(($1 - 3 * exec_ms)) >>"$T/took"
	[ "$1" -ge 0 ] && [ "$1" -lt 15000 ]
}
exec_takes() { # NAME
	exec_ms=$(now_ms)
	cove exec "$1" -- true || return 1
	exec_ms=$(($(now_ms) - exec_ms))
}
# SCRIPT, by root inside, ends the machine, at once or (with LATE) when it has come to that.
ends() { # NAME TEXT SCRIPT [LATE]
	sleeper "$1" & asleep=$!
	wait_for 4 sh -c "cove exec $1 -- pgrep sleep"
	exec_takes "$1"
	at=$(now_ms)
	[ -z "${4:-}" ] || at=
	timeout 100 cove exec "$1" -- sh -c "$3" >"$T/end.out" 2>"$T/end.err" || :
	cat "$T/end.err"
	is_told "$1" "$2" $asleep "$at"
}
# The same, by a command outside.
ends_by() { # NAME TEXT COMMAND
	sleeper "$1" & asleep=$!
	wait_for 4 sh -c "cove exec $1 -- pgrep sleep"
	exec_takes "$1"
	at=$(now_ms)
	$3
	is_told "$1" "$2" $asleep "$at"
}
nothing_left() {
	wait_for 10 nothing left_processes || { left_processes; return 1; }
	wait_for 4 nothing left_mounts && wait_for 4 nothing left_cgroups
}
child_of() { ps -eo ppid=,pid=,comm= | awk -v p="$1" -v c="$2" '$1 == p && index($3, c) == 1 { print $2 }'; }
qemu_of() { child_of "$(child_of "$(keeper_of "$1")" cove-vmm)" qemu; }
keeper_of() { cove inspect "$1" | jq .keeperPid; }

ok 'a kernel panic: its words, those of the console beside' '
	box panic
	ends panic "the guest'\''s kernel panicked: sysrq triggered crash" "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger"
	has "$(why panic)" "its console: "
	nothing_left'
ok 'it starts again, and has its files' '
	cove start -q panic
	same root "$(cove exec panic -- id -un)"
	cove rm -f panic'
ok 'out of memory inside ends a command, not the machine' '
	box oom --memory 192MiB --mount "$COVE_DIR/escape:ro"
	has "$(cove exec oom -- "$COVE_DIR/escape/attack" memory 400 2>&1)" "killed by signal 9"
	cove exec oom -- true
	cove exec oom -- dmesg | grep -q "Out of memory: Killed process"'
ok 'out of memory that the kernel does not survive is a panic, and says so' '
	ends oom "the guest'\''s kernel panicked: Out of memory" \
		"echo 2 >/proc/sys/vm/panic_on_oom; exec $COVE_DIR/escape/attack memory 400" late
	nothing_left; cove rm oom'
ok 'a machine that is switched off from inside' '
	box off
	ends off "the guest switched its machine off" "echo 1 >/proc/sys/kernel/sysrq; echo o >/proc/sysrq-trigger; sleep 30"
	nothing_left; cove rm off'
ok 'a machine that is reset from inside ends, and does not come back by itself' '
	box again
	ends again "the guest reset its machine" "echo 1 >/proc/sys/kernel/sysrq; echo b >/proc/sysrq-trigger; sleep 30"
	nothing_left; cove rm again'
ok 'QEMU killed from outside, and it is said who' '
	box k1
	ends_by k1 "QEMU was killed by signal 9" "kill -9 $(qemu_of k1)"
	nothing_left; cove rm k1'
ok 'cove-vmm or cove-fs killed from outside ends the machine' '
	for part in cove-vmm cove-fs; do
		box k2
		pid=$(child_of "$(keeper_of k2)" $part)
		[ -n "$pid" ]
		ends_by k2 "$part, which" "kill -9 $pid"
		has "$(why k2)" "killed by signal 9"
		nothing_left; cove rm k2
	done'
ok 'the keeper killed from outside takes the machine along' '
	box k3
	q=$(qemu_of k3)
	kill -9 "$(keeper_of k3)"
	wait_for 6 sh -c "! kill -0 $q 2>/dev/null"
	is_stopped k3
	nothing_left; cove rm k3'
ok 'that a machine has ended is noticed within a second: most of these were' '
	sort -n "$T/took" >"$T/sorted"
	cat "$T/sorted"
	[ $(wc -l <"$T/took") -ge 6 ]
	[ $(sed -n "$(($(wc -l <"$T/took") / 2 + 1))p" "$T/sorted") -lt 1000 ]'
# Two ways to hang, so that the wait for both is one: the first process is stopped by a debugger
# of root's inside; and the whole machine is, from outside.
cat >"$T/p/hold.py" <<'END'
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, None, None) != 0:  # PTRACE_ATTACH
    raise SystemExit("ptrace: %d" % ctypes.get_errno())
time.sleep(1000)
END
silent() { [ "$(cove inspect "$1" | jq ".silentSeconds // 0")" -gt 0 ]; }
ok 'a guest that hangs: shown within seconds, and ended when it stays so' '
	cove create -q h1 --user root --mount "$T/p:ro" --workdir "$T/p" && cove start -q h1
	box h2
	cove exec h1 -- python3 hold.py 2>"$T/h1.err" & p1=$!
	cove exec h2 -- sleep 1000 2>"$T/h2.err" & p2=$!
	wait_for 4 sh -c "cove exec h2 -- pgrep sleep"
	q=$(qemu_of h2)
	kill -STOP "$q"
	wait_for 4 silent h1
	wait_for 4 silent h2
	rc=0; timeout 200 tail --pid=$p1 -f /dev/null || rc=$?
	[ $rc != 0 ] || timeout 200 tail --pid=$p2 -f /dev/null || rc=$?
	kill -CONT "$q" 2>/dev/null || :
	[ $rc = 0 ] || { kill $p1 $p2; echo "nobody is told"; exit 1; }
	wait $p1 || rc=$?; same 125 $rc
	rc=0; wait $p2 || rc=$?; same 125 $rc
	cat "$T/h1.err" "$T/h2.err"
	has "$(cat "$T/h1.err")" "the guest hangs: no answer for "
	has "$(cat "$T/h2.err")" "the guest hangs: no answer for "
	wait_for 6 is_stopped h1; wait_for 6 is_stopped h2
	has "$(why h1)" "the guest hangs"
	nothing_left; cove rm h1; cove rm h2'
ok 'a guest that does not come up: the error quotes its console' '
	cp "$COVE_DIR/escape/attack" "$T/p/bad"; chmod 755 "$T" "$T/p" "$T/p/bad"
	COVE_GUEST=$T/p/bad rc_is 125 timeout 100 cove run --no-mounts -- true 2>"$T/err"
	cat "$T/err"
	has "$(cat "$T/err")" "the guest'\''s kernel panicked: "
	has "$(cat "$T/err")" "its console: "
	nothing_left'
ok 'a template that cannot be made: a notice, and a boot' '
	mkdir -m 700 "$T/c2" "$T/c2/cache" && ln -s "$vm_dir/kernels" "$T/c2/kernels"
	: >"$T/c2/cache/templates"
	same alive "$(COVE_HOME=$T/c2 cove run --rm --no-mounts -- echo alive 2>"$T/err")"
	cat "$T/err"
	has "$(cat "$T/err")" "booting without a template"'
done_testing
