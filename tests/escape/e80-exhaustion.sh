#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A sandbox that takes all it can get hits its own limits; the host stays usable.
# alone: it takes all it can get.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS

limited() { cove run -q --rm --no-mounts --mount "$COVE_DIR/escape:ro" "$@"; }
# Refused, or ended by the kernel for want of memory.
stopped() {
	stopped_rc=0
	"$@" || stopped_rc=$?
	case $stopped_rc in
	0) echo 'no limit'; return 1 ;;
	137) ;;
	125) ! have STATIC_GUEST ;; # the guest with ASan is the largest process of a small box
	*) [ $stopped_rc -lt 125 ] ;;
	esac
}
# The host still starts programs at once, watched while the attack runs.
host_is_well() {
	for i in 1 2 3 4 5; do
		timeout "$(patient 2)" sh -c 'ls /proc/self >/dev/null' || return 1
		sleep 0.2
	done
}

# A box that is small, and what does not fit into it (MiB): a machine has its kernel in there too.
small=64MiB big=256
! have VM || { small=192MiB && big=400; }

no_bomb() { ! pgrep -f "^$A bomb" >/dev/null; }

ok 'control: the same number of processes is fine outside' '"$A" forks 600'
ok 'processes: the default limit holds' 'stopped limited -- "$A" forks 5000'
ok 'a fork bomb stays in its box, and ends with it' '
	limited --timeout 4s -- "$A" bomb 3 >/dev/null 2>&1 & p=$!
	sleep 0.5
	host_is_well
	wait $p || :
	wait_for 5 no_bomb'
ok 'a fork bomb in a named sandbox is ended by kill' '
	cove create -q bomb --no-mounts --mount "$COVE_DIR/escape:ro"
	cove start -q bomb
	cove exec bomb -- "$A" bomb 30 >/dev/null 2>&1 & p=$!
	sleep 0.7
	host_is_well
	timeout 10 cove kill bomb
	wait $p || :
	wait_for 5 no_bomb
	cove rm bomb'

if have CGROUP_PIDS; then
	ok 'processes: a limit that was asked for' '
		stopped limited --pids 20 -- "$A" forks 30
		limited --pids 60 -- "$A" forks 30'
else
	skip 'processes: a limit that was asked for' 'needs root and the pids controller'
fi
if have CGROUP_MEMORY; then
	ok 'memory: the limit holds' 'stopped limited --memory $small -- "$A" memory $big'
	ok 'memory: below the limit all is well' 'limited --memory 256MiB -- "$A" memory 64'
	ok 'memory in files of memory counts too' 'stopped limited --memory $small -- "$A" memfd $big'
	ok 'memory in /tmp counts too' 'stopped limited --memory $small -- "$A" fill /tmp/x $big'
	ok 'memory in /dev/shm counts too' 'stopped limited --memory $small -- "$A" fill /dev/shm/x $big'
	ok 'a named sandbox outlives the end of one greedy command' '
		cove create -q mem --memory $small --no-mounts --mount "$COVE_DIR/escape:ro"
		cove start -q mem
		stopped cove exec mem -- "$A" memory $big
		cove exec mem -- true'
else
	skip 'memory limits' 'needs root and the memory controller'
fi

ok 'files in memory are bounded' 'stopped limited --timeout 60s -- "$A" fill /dev/shm/x 100000'
ok 'open files are bounded' 'stopped limited -- "$A" files 3000000'
ok 'inotify: bounded inside, and the host keeps its own' '
	limited -- "$A" inotify 100000 3 >"$T/inotify" & p=$!
	wait_for 5 grep -q instances "$T/inotify"
	"$A" inotify 1 0
	rc=0; wait $p || rc=$?
	[ $rc -ge 1 ] && [ $rc -lt 125 ]'

done_testing
