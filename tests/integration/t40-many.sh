#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fifty sandboxes at once (machines: five): started, used and removed without a failure or a leftover.
# alone: it starts as many sandboxes as it can.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
N=${COVE_MANY:-$(often 50)}
names() { seq -f "m%g" "$N"; }

ok "$N are created and started" '
	for n in $(names); do cove create -q $n --no-mounts; cove start -q $n; done
	same "$N" "$(cove ls -q --filter state=running | wc -l)"'
ok 'each runs a command, and none sees another' '
	for n in $(names); do cove exec $n -- sh -c "echo $n >/tmp/me"; done
	for n in $(names); do same $n "$(cove exec $n -- cat /tmp/me)"; done'
ok 'eight at a time' 'names | xargs -P 8 -I{} cove exec {} -- true'
ok 'one-shots in parallel beside them' '
	seq "$(often 60)" | xargs -P 6 -I{} cove run -q --no-mounts -- sh -c "exit 0"'
ok 'all are stopped and removed' '
	cove stop --all
	same 0 "$(cove ls -q --filter state=running | wc -l)"
	names | xargs cove rm
	same "" "$(cove ls -q)"'
ok 'started at the same moment, the same name: one sandbox' '
	for i in 1 2 3 4 5 6; do cove run -q same -- sh -c "echo $i" >"$T/o$i" 2>&1 & done
	wait
	for i in 1 2 3 4 5 6; do same $i "$(cat "$T/o$i")"; done
	same same "$(cove ls -q)"
	cove rm -f same'

done_testing
