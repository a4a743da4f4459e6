#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9 of the caller, the keeper or the guest leaves no process, mount, control group or
# lock, at the latest when the next `cove` command has run.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
mkdir "$T/p" && cd "$T/p" || exit 1
ID=$$ # part of a duration, to know our own sleepers by
says() { grep -qs "$1" "$T/said"; } # what a command inside has written
state() { cove ls --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'; }
is_stopped() { [ "$(state "$1")" = stopped ]; }
# Processes of this file by their name; other sandboxes on the machine are not ours.
mine() { # COMM
	for d in /proc/[0-9]*; do
		[ "$(cat "$d/comm" 2>/dev/null)" = "$1" ] || continue
		pid=${d#/proc/}
		up=$pid
		while [ "${up:-0}" -gt 1 ] && [ "$up" != "$COVE_TEST_REAPER" ]; do
			up=$(sed 's/.*) . //' "/proc/$up/stat" 2>/dev/null | cut -d' ' -f1)
		done
		[ "$up" = "$COVE_TEST_REAPER" ] && echo "$pid"
	done
	return 0
}
# What dies with all that runs inside: the first process there, or its machine. The one is seen on
# the host, the other hides it.
guest=cove-guest
moment=0.00 # tens of moments make a start
! have VM || { guest=qemu-system-x86 && moment=0.; }
gone() { if have VM; then nothing mine $guest; else ! pgrep -f "^sleep $1" >/dev/null; fi; } # DURATION

ok 'one-shot: kill -9 of the caller' '
	cove run -q -- sh -c "echo x >file; echo 201; exec sleep 201.$ID" >"$T/said" & p=$!
	wait_for 5 says 201
	kill -9 $p
	wait $p || :
	wait_for 5 gone 201.$ID
	cove ls >/dev/null
	wait_for 2 nothing left_processes
	wait_for 2 nothing left_cgroups
	nothing left_mounts'
ok 'one-shot: changes of the killed run are not lost' '
	name=$(cove ls -q | head -n 1)
	[ -z "$name" ] || { same x "$(cove run -q "$name" -- cat "$T/p/file")"; cove rm -f "$name"; }'
ok 'one-shot: kill -9 of the guest' '
	cove run -q --no-mounts -- sh -c "echo 202; exec sleep 202.$ID" >"$T/said" & p=$!
	wait_for 5 says 202
	kill -9 $(mine $guest)
	rc=0; wait $p || rc=$?
	same 125 $rc
	wait_for 5 gone 202.$ID
	cove ls >/dev/null
	nothing left_mounts'
ok 'named: kill -9 of the guest' '
	cove create -q g --no-mounts && cove start -q g
	cove exec g -- sh -c "echo 203; exec sleep 203.$ID" >"$T/said" & p=$!
	wait_for 5 says 203
	kill -9 $(mine $guest)
	rc=0; wait $p || rc=$?
	same 125 $rc
	wait_for 5 gone 203.$ID
	wait_for 5 sh -c "[ \"\$(cove ls --json | jq -r \".[0].state\")\" = stopped ]"
	cove start -q g && cove exec g -- true
	cove rm -f g'
ok 'named: kill -9 of the keeper' '
	cove create -q k && cove start -q k
	cove exec k -- sh -c "echo kept >$T/p/kept; echo home >~/f; echo 204; exec sleep 204.$ID" >"$T/said" & p=$!
	wait_for 5 says 204
	kill -9 $(mine cove-keeper)
	rc=0; wait $p || rc=$?
	same 125 $rc
	wait_for 5 is_stopped k
	wait_for 5 gone 204.$ID
	wait_for 2 nothing left_processes
	wait_for 2 nothing left_cgroups
	nothing left_mounts
	nothing left_locks
	cove start -q k
	same kept "$(cove exec k -- cat "$T/p/kept")"
	cove rm -f k'
ok 'named: keeper and guest at once' '
	cove create -q b --no-mounts && cove start -q b
	kill -9 $(mine cove-keeper) $(mine $guest) || : # the one may end with the other
	wait_for 5 is_stopped b # a signal takes its time
	cove start -q b && cove exec b -- true
	cove rm -f b
	wait_for 2 nothing left_cgroups'
ok 'kill -9 in the middle of create, start, stop and rm: the next command is right' '
	i=0
	while [ $i -lt 24 ]; do
		case $((i % 4)) in
		0) set -- create z --no-mounts ;; 1) set -- start z ;; 2) set -- stop z ;; 3) set -- rm -f z ;;
		esac
		cove "$@" >/dev/null 2>&1 & p=$!
		sleep $moment$((i % 7))
		kill -9 $p 2>/dev/null || :
		wait $p 2>/dev/null || :
		s=$(state z)
		case $s in "" | running | stopped | created) ;; *) echo "state: $s after $*"; exit 1 ;; esac
		i=$((i + 1))
	done
	cove rm -f z 2>/dev/null || same "" "$(state z)"
	cove create -q z --no-mounts && cove start -q z && cove exec z -- true
	cove rm -f z'
ok 'a stale socket and runtime directory do not matter' '
	cove create -q s --no-mounts && cove start -q s
	kill -9 $(mine cove-keeper)
	wait_for 5 nothing mine $guest
	cove start -q s
	cove exec s -- true
	cove rm -f s'
ok 'the caller is stopped and goes on' '
	cove run -q --no-mounts -- sh -c "sleep 0.5; echo through" >"$T/o" & p=$!
	sleep 0.1
	kill -STOP $p; sleep 1; kill -CONT $p
	wait $p
	same through "$(cat "$T/o")"'

done_testing
