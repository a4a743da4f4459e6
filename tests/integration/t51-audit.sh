#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The audit log: what is done is in it, what is secret is not, and nobody changes it unnoticed.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub" && echo one >"$P/one" && echo two >"$P/sub/two" && cd "$P" || exit 1
LOG=$COVE_HOME/sandboxes/box/audit.jsonl
records() { cove audit --json "$1" | jq -c "select(.event == \"$2\")"; }
when_done 'cove rm -f box'

ok 'a command, who asked, where, and what it wrote' '
	cove run -q box --env TOKEN=hunter2 -- sh -c "echo x >one; echo n >new; rm sub/two"
	set -- "$(records box exec | jq -c "[.argv[0], .cwd, .user, .tty, .uid]")"
	same "[\"sh\",\"$P\",\"agent\",false,$(id -u)]" "$1"
	w=$(records box exec-end | jq -c "[.status, .writes.created, .writes.changed, .writes.deleted]")
	same "[0,1,1,1]" "$w"
	p=$(records box exec-end | jq -c "[.writes.paths.created[0], .writes.paths.changed[0], .writes.paths.deleted[0]]")
	same "[\"$P/new\",\"$P/one\",\"$P/sub/two\"]" "$p"
	same "$(records box exec | jq .seq)" "$(records box exec-end | jq .id)"'
ok 'the log begins with the creation and the start' '
	same "create start exec exec-end" "$(cove audit --json box | jq -r .event | head -4 | xargs)"
	same box "$(records box create | jq -r .sandbox)"
	same "$BACKEND" "$(records box start | jq -r .backend)"'
ok 'names of the environment, never values' '
	records box exec | grep -q TOKEN
	! grep -q hunter2 "$LOG"'
ok 'failures, signals and standard input' '
	rc_is 3 cove exec box -- sh -c "exit 3"
	rc_is 127 cove exec box -- /none
	rc_is 143 cove exec box -- sh -c "kill -TERM \$\$"
	echo seekrit | cove exec -i box -- cat >/dev/null
	same "3 No such file or directory 15 0" \
		"$(records box exec-end | tail -4 | jq -r ".status // .signal // .failed" | xargs)"
	! grep -q seekrit "$LOG"'
ok 'a file of an earlier command is changed, not created' '
	sleep 0.02
	cove exec box -- sh -c "echo more >>new"
	same "[0,1,0]" "$(records box exec-end | tail -1 | jq -c "[.writes.created, .writes.changed, .writes.deleted]")"'
ok 'nothing from inside drives a terminal' '
	cove exec box -- sh -c ": \"$(printf "\033]0;x\007\342\200\256\177")\"; touch \"$(printf "a\033[31mb\377")\""
	cove audit box >"$T/out"
	cove audit --json box >>"$T/out"
	! LC_ALL=C grep -q "[^[:print:]]" "$T/out" || exit 1
	has "$(cat "$T/out")" "\\x1b[31mb"'
ok 'long arguments are cut' '
	cove exec box -- true "$(head -c 20000 /dev/zero | tr "\0" x)"
	same true "$(records box exec | tail -1 | jq .argvCut)"
	[ "$(tail -2 "$LOG" | head -1 | wc -c)" -lt 6000 ]'
ok 'many files: counted, some named' '
	cove exec box -- sh -c "mkdir many; cd many; i=0; while [ \$i -lt 3000 ]; do : >f\$i; i=\$((i + 1)); done"
	last() { records box exec-end | tail -1 | jq -c "[.writes.created, (.writes.paths.created | length)]"; }
	settled() { [ "$(last)" = "[3001,50]" ]; }
	wait_for 5 settled || { last; false; }'
ok 'attach, changes of the spec, stop, kill, reset' '
	cove set -q box --ttl 2h
	same "[\"resources.ttlSeconds\"] 7200" "$(records box spec | jq -r "\"\\(.keys) \\(.new[\"resources.ttlSeconds\"])\"")"
	timeout 5 cove attach box </dev/null
	[ -n "$(records box attach)" ]
	cove stop -q box
	same stopped "$(records box stop | jq -r .reason)"
	cove set -q box --env K=hunter2
	same "[\"exec.env\"]" "$(records box spec | tail -1 | jq -c .keys)"
	cove start -q box
	cove kill -q box
	same "$(id -u)" "$(records box kill | jq .uid)"
	cove reset -q --yes box
	same "$(id -u)" "$(records box reset | jq .uid)"
	! grep -q hunter2 "$LOG"'
ok 'whole' '
	n=$(wc -l <"$LOG")
	same "$n records, whole" "$(cove audit --verify box)"
	same "{\"whole\":true,\"records\":$n}" "$(cove audit --verify --json box)"'
ok '--tail' '
	same 3 "$(cove audit --tail 3 box | wc -l)"
	same "$(tail -3 "$LOG")" "$(cove audit --tail 3 --json box)"
	same "" "$(cove audit --tail 0 box)"
	rc_is 2 cove audit --tail x box'

# Each edit is made on the same log, which is put back afterwards.
cp "$LOG" "$T/good"
edited() { # TITLE PART CMD: CMD writes the new log from $T/good
	ok "found: $1" '
		eval "$2" >"$LOG"
		rc_is 1 cove audit --verify box 2>"$T/err"
		cat "$T/err"
		has "$(cat "$T/err")" "$1"
		cp "$T/good" "$LOG"
		cove audit --verify box' "$2" "$3"
}
edited 'a changed argument' 'line 3: record 3 was edited' 'sed "3s/echo x/echo y/" "$T/good"'
edited 'a removed record' 'record 5 was removed' 'sed 5d "$T/good"'
edited 'records in another order' 'the order was changed' 'awk "NR == 4 { held = \$0; next } { print } NR == 5 { print held }" "$T/good"'
edited 'a record twice' 'record 5 stands where record 6 should be' 'sed 5p "$T/good"'
edited 'a cut tail' 'the end is cut off' 'head -n -2 "$T/good"'
edited 'a tail cut in a record' 'the end is cut off' 'head -c -20 "$T/good"'
edited 'a cut beginning' 'the beginning is missing' 'sed 1,2d "$T/good"'

ends() { records box "$1" | tail -n "$2" | jq -c "[.result, .applied // .discarded, .paths]" | paste -sd" "; }
ok 'apply and undo: that they begin, how they end, and the paths' '
	cove run -q box -- sh -c "echo a >one; echo b >sub/two"
	cove stop -q box
	cove apply -q --yes box one
	same "[\"begun\",null,null] [\"done\",1,[\"$P/one\"]]" "$(ends apply 2)"
	cove undo -q --yes box
	same "[\"begun\",null,null] [\"done\",1,[\"$P/one\"]]" "$(ends undo 2)"
	same one "$(cat one)"
	rc_is 125 cove undo --yes box
	same "[\"begun\",null,null] [\"failed\",0,[]]" "$(ends undo 2)"
	cove undo --dry-run box || true
	same 4 "$(records box undo | wc -l)"'
ok 'an undo or discard that cannot be recorded does not happen' '
	cove apply -q --yes box one
	mv "$LOG" "$T/aside" && mkdir "$LOG"
	rc_is 125 cove undo --yes box 2>"$T/err"
	has "$(cat "$T/err")" "cannot be recorded"
	same a "$(cat one)"
	rc_is 125 cove discard --yes box
	rmdir "$LOG" && mv "$T/aside" "$LOG"
	cove diff --name-only box | grep -q "^sub/two\$"
	cove undo -q --yes box
	same one "$(cat one)"'
ok 'discard: how many and which were thrown away' '
	cove discard -q --yes box one
	same "[\"begun\",null,null] [\"done\",1,[\"$P/one\"]]" "$(ends discard 2)"
	cove run -q box -- sh -c "mkdir lots; cd lots; i=0; while [ \$i -lt 300 ]; do : >f\$i; i=\$((i + 1)); done"
	cove stop -q box
	cove discard -q --yes box
	same "true 302 200 true" "$(records box discard | tail -1 | jq -r "\"\(.all) \(.discarded) \(.paths | length) \(.more)\"")"
	same "" "$(cove diff --name-only box)"
	cove audit --verify box'
ok 'a log that cannot be written refuses commands, but not stop' '
	cove start -q box
	mv "$LOG" "$T/aside" && mkdir "$LOG"
	rc_is 125 cove exec box -- touch ran 2>"$T/err"
	has "$(cat "$T/err")" "cannot be recorded"
	rmdir "$LOG" && mv "$T/aside" "$LOG"
	cove exec box -- sh -c "! test -e ran"
	mv "$LOG" "$T/aside" && mkdir "$LOG"
	cove stop -q box
	rc_is 125 cove start -q box
	rmdir "$LOG" && mv "$T/aside" "$LOG"
	cove audit --verify box'
ok 'a killed keeper: said in the log, which is whole' '
	cove start -q box
	kill -KILL "$(cove inspect box | jq .keeperPid)"
	wait_for 5 sh -c "cove ls --json | jq -e \".[0].state == \\\"stopped\\\"\""
	same "its keeper was killed" "$(records box stop | tail -1 | jq -r .reason)"
	cove run -q box -- true
	cove audit --verify box'
ok 'a torn record is cut off by the next writer' '
	printf "{\"seq\":99999,\"time\":\"20" >>"$LOG"
	cove audit --verify box
	cove exec box -- true
	same 23 "$(records box recovered | tail -1 | jq .tornBytes)"
	cove audit --verify box'
ok 'commands at the same time, from several clients' '
	n=$(records box exec | wc -l)
	for i in 1 2 3 4; do
		(for k in 1 2 3 4 5; do cove exec box -- true || echo failed; done) &
	done
	wait
	same $((n + 20)) "$(records box exec | wc -l)"
	same "$(records box exec | wc -l)" "$(records box exec-end | wc -l)"
	cove audit --verify box'
ok '--follow shows what comes, and ends with the sandbox' '
	timeout 20 cove audit --follow --tail 0 box >"$T/follow" &
	sleep 0.5
	cove exec box -- echo seen-by-follow
	wait_for 5 grep -q seen-by-follow "$T/follow"
	cove rm -q -f box
	wait
	has "$(tail -1 "$T/follow")" removed'
ok 'the log outlives the sandbox' '
	cove audit --tail 1 box >"$T/out" 2>"$T/err"
	has "$(cat "$T/out")" removed
	has "$(cat "$T/err")" "was removed"
	cove audit --verify box
	rc_is 125 cove audit nobody'
ok 'a new sandbox of the name has a new log' '
	cove create -q box
	same 1 "$(cove audit --json box | wc -l)"
	cove rm -q -f box'
ok 'a one-shot that leaves nothing leaves no log' '
	before=$(ls "$COVE_HOME/audit" | wc -l)
	cove run -q -- true
	cove run -q --rm -- true
	same "$before" "$(ls "$COVE_HOME/audit" | wc -l)"'
ok 'a one-shot that is kept has one' '
	cove run -q --env TOKEN=hunter2 -- sh -c "echo y >one; exit 5" || true
	name=$(cove ls -q)
	same "create exec exec-end stop" "$(cove audit --json "$name" | jq -r .event | xargs)"
	same "[5,1]" "$(records "$name" exec-end | jq -c "[.status, .writes.changed]")"
	! grep -q hunter2 "$COVE_HOME/sandboxes/$name/audit.jsonl" || exit 1
	cove audit --verify "$name"
	cove rm -q -f "$name"'
ok 'the key is for its owner only' 'same 600 "$(stat -c %a "$COVE_HOME/audit.key")"'
done_testing
