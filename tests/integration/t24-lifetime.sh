#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TTL and idle time end a named sandbox by themselves.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
state() { cove ls --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'; }
is_stopped() { [ "$(state "$1")" = stopped ]; }

ok 'ttl: stopped after its time, busy or not' '
	cove create -q t --no-mounts --ttl "$(slow 4)s"
	cove start -q t
	cove exec t -- sleep 600 >/dev/null 2>&1 & p=$!
	sleep 0.5
	same running "$(state t)"
	wait_for 10 is_stopped t
	wait $p || :
	cove start -q t
	same running "$(state t)"
	cove rm -f t'
ok 'idle: stopped when nothing runs' '
	cove create -q i --no-mounts --idle "$(slow 2)s"
	cove start -q i
	cove exec i -- true
	wait_for 12 is_stopped i
	cove rm -f i'
ok 'idle: not while something runs' '
	cove create -q j --no-mounts --idle "$(slow 2)s"
	cove start -q j
	cove exec j -- sleep "$(slow 5)"
	cove rm -f j'
ok 'a wrong duration is refused' '
	for bad in 5x -1 abc 99999999999999999999s; do
		rc=0; cove create -q bad --no-mounts --ttl "$bad" 2>"$T/err" || rc=$?
		[ $rc -eq 125 ] || [ $rc -eq 2 ]
	done
	same "" "$(cove ls -q)"'

done_testing
