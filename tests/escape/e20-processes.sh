#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes of the host are not seen, signalled, traced or entered; PID 1 inside is safe too.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS
start_box || exit 1

MARK=decoy-$$-mark
COVE_DECOY=$MARK sleep 321 &
DECOY=$!
when_done 'kill $DECOY'
alive() { kill -0 "$DECOY"; }

ok 'the sandbox has processes of its own' 'same 1 "$(in_box agent sh -c "ls -d /proc/1 | wc -l")"'
attempt 'see a host process' host see "$MARK"
attempt_any 'see many processes' maybe count-pids 12
# The number may be in use inside as well; then it is another process, and the decoy lives.
ok 'signal a host process by number' '
	for user in agent root; do in_box $user "$A" kill $DECOY || :; done
	cove exec "$BOX" -- "$A" kill $DECOY || :
	alive'
ok 'control: the decoy can be killed' 'sleep 100 & p=$!; "$A" kill $p'
ok 'signal everything' '
	for user in agent root; do in_box $user "$A" kill-all || :; done
	cove exec "$BOX" -- "$A" kill-all || :
	alive'
ok 'the sandbox itself outlives a kill of everything' 'cove exec "$BOX" -- true'

ok 'signal the keeper' '
	keeper=$(cove inspect "$BOX" --json | jq .keeperPid)
	cove exec "$BOX" -- "$A" kill "$keeper" || :
	in_box root "$A" kill "$keeper" || :
	kill -0 "$keeper"
	cove exec "$BOX" -- true'
ok 'kill PID 1 inside' '
	cove exec "$BOX" -- "$A" kill 1 || :
	cove exec "$BOX" -- true'

ok 'control: a child can be traced outside' '"$A" trace-child'
attempt_own 'trace PID 1' none trace 1
attempt_own 'take descriptors of PID 1' none pidfd-steal 1
attempt 'trace a host process' host trace "$DECOY"
attempt_own 'enter the namespaces of PID 1' none enter 1
attempt 'enter the namespaces of a host process' root enter "$DECOY"
attempt_own "read PID 1's environment" none read-match /proc/1/environ HOME=
attempt "read the memory of PID 1" none read /proc/1/mem

attempt_own 'hold capabilities' root has-caps
attempt_any 'gain capabilities by exec' host has-bounding
attempt_own 'become another user' root become-root
attempt_own 'run at real-time priority' root real-time
attempt_any 'lift a hard limit' maybe raise-limit

done_testing
