#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Clones: of a stopped, a running and a kept sandbox; each on its own from then on.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub" && echo one >"$P/one" && echo two >"$P/sub/two"
REC=$COVE_HOME/sandboxes

ok 'a clone of a stopped sandbox has its files and its spec' '
	cd "$P"
	cove create golden --storage persistent --ttl 2h
	cove run -q golden -- sh -ec "echo ready >one; rm sub/two; echo h >~/h"
	cove stop golden
	cove clone golden job
	same "ready h" "$(cove run -q job -- sh -c "cat one ~/h; ls sub" | paste -sd" ")"
	cove inspect job | jq -e ".spec.resources.ttlSeconds == 7200"'
ok 'each goes its own way' '
	cove exec job -- sh -c "echo job >one; echo g >~/h"
	cove stop job
	same "ready h" "$(cove run -q golden -- sh -c "cat one ~/h" | paste -sd" ")"
	same one "$(cat "$P/one")"
	cove rm -f job'
ok 'a clone of a running sandbox, and --start' '
	cove exec golden -- sh -c "echo running >one"
	cove clone golden job --idle 3h --start
	same running "$(cove exec job -- cat "$P/one")"
	cove ls --json | jq -e "map(select(.state == \"running\")) | length == 2"
	cove inspect job | jq -e ".spec.resources.idleSeconds == 10800"
	cove rm -f job'
ok 'a clone of a snapshot, in one step' '
	cove snapshot golden s
	cove exec golden -- sh -c "echo later >one"
	cove clone golden@s a
	cove clone golden b
	same running "$(cove run -q a -- cat "$P/one")"
	same later "$(cove run -q b -- cat "$P/one")"
	same "" "$(cove snapshots -q a)"
	rc_is 125 cove clone golden@nothing c
	rc_is 125 cove clone golden@ c
	rc_is 125 cove clone nobody c
	rc_is 125 cove clone golden a
	rc_is 125 cove clone golden "../x"
	cove rm -f a b'
ok 'a mount that holds changes is not left behind' '
	mkdir -p "$T/q" && echo q >"$T/q/one"
	cove stop golden
	rc_is 125 cove clone golden c --mount "$T/q:overlay" 2>"$T/err"
	has "$(cat "$T/err")" "holds changes"
	! test -e "$REC/c" || exit 1
	same "" "$(find "$REC" -maxdepth 1 -name ".new-*")"'
ok 'with the same target the changes lie over another directory' '
	cove clone golden c --mount "$T/q:$P:overlay"
	same later "$(cove run -q c -- cat "$P/one")"
	cove rm -f c
	cove clone golden c --add-mount "$T/q:/data:ro"
	same "later q" "$(cove run -q c -- sh -c "cat one /data/one" | paste -sd" ")"
	cove rm -f c'
ok 'many from one at once' '
	for i in 1 2 3 4 5; do cove clone golden n$i & done
	wait
	for i in 1 2 3 4 5; do same later "$(cat "$REC/n$i/m0/upper/one")"; done
	cove rm -f n1 n2 n3 n4 n5'
ok 'the same name twice at once: one of them' '
	for i in 1 2 3 4; do (cove clone golden same 2>/dev/null && echo made >"$T/made$i") & done
	wait
	same 1 "$(ls "$T" | grep -c ^made)"
	same later "$(cove run -q same -- cat "$P/one")"
	cove rm -f same'
ok 'killed half-way: the clone is there or not, the original is whole' '
	cove run -q golden -- sh -c "mkdir many; i=0; while [ \$i -lt 1000 ]; do echo \$i >many/\$i; i=\$((i + 1)); done"
	cove stop golden
	for ms in 005 010 020 030 050 080; do
		timeout -s KILL 0.$ms cove clone golden half || true
		wait_for 5 sh -c "cove ls >/dev/null; [ -z \"\$(find \"$REC\" -maxdepth 1 -name \".new-*\")\" ]"
		if cove inspect half >/dev/null 2>&1; then
			same 1000 "$(ls "$REC/half/m0/upper/many" | wc -l)"
			cove rm -f half
		fi
	done
	same 1000 "$(ls "$REC/golden/m0/upper/many" | wc -l)"'
ok 'the log of a clone begins with it' '
	cove clone golden c
	cove audit --json c | head -n 1 | jq -e ".event == \"clone\" and .from == \"golden\""
	cove audit --verify c
	cove rm -f c golden'
done_testing
