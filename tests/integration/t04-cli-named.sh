#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The verbs that look at sandboxes and change them: tables, JSON, edit, set, cp, logs.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
mkdir "$T/p" && cd "$T/p" || exit 1

ok 'a sandbox that does not exist: 125 and its name, in every verb' '
	for v in "start" "stop" "restart" "kill" "rm" "reset -y" "inspect" "set --pids 9" "edit" "shell" "attach" "ps" "logs" "stats" "attest"; do
		rc_is 125 cove $v nobody >"$T/o" 2>"$T/e" </dev/null
		test ! -s "$T/o"
		has "$(head -n 1 "$T/e")" "nobody"
		has "$(head -n 1 "$T/e")" "cove ${v%% *}: "
	done
	rc_is 125 cove exec nobody -- true 2>"$T/e"; has "$(cat "$T/e")" nobody
	rc_is 125 cove cp nobody:/x "$T/x" 2>"$T/e"; has "$(cat "$T/e")" nobody'

cove create web "$T/p" --pids 200 && cove start web
ok 'ls: a table with a heading' '
	cove ls >"$T/o"
	same "NAME STATE BACKEND UPTIME IMAGE MOUNTS" "$(sed -n 1p "$T/o" | tr -s " ")"
	has "$(sed -n 2p "$T/o")" "web"
	has "$(sed -n 2p "$T/o")" "running"
	has "$(sed -n 2p "$T/o")" "process"
	has "$(sed -n 2p "$T/o")" "$T/p (overlay)"
	! grep -q "$(printf "\033")" "$T/o"'
ok 'ls: names, JSON, filters' '
	cove create db --no-mounts
	same "db web" "$(cove ls -q | paste -sd" ")"
	same "db stopped,web running" "$(cove ls --json | jq -r ".[] | \"\\(.name) \\(.state)\"" | paste -sd,)"
	same web "$(cove ls -q --filter name=w*)"
	same db "$(cove ls -q --filter state=stopped --filter "name=?b")"
	same "" "$(cove ls -q --filter backend=vm)"
	same 1 "$(cove ls --json --filter name=db | jq length)"
	cove rm db'
ok 'inspect: JSON for people, several at once' '
	cove inspect web >"$T/o"
	same web "$(jq -r .name "$T/o")"
	same 200 "$(jq .spec.resources.pids "$T/o")"
	[ "$(wc -l <"$T/o")" -gt 10 ]'
ok 'ps: a table, JSON, and names that cannot drive the terminal' '
	cove exec web -- sh -c "exec -a x sleep 1" 2>/dev/null || :
	cove exec -d web -- sleep 300 || cove exec web -- sh -c "sleep 300 >/dev/null 2>&1 &"
	wait_for 3 sh -c "cove ps web | grep -q sleep"
	has "$(cove ps web | head -n 1)" "PID"
	cove ps web --json | jq -e ".[0].pid" >/dev/null
	cove exec web -- sh -c "cp /bin/sleep \"\$(printf \"/tmp/e\\033[31m\")\"; /tmp/e* 300 >/dev/null 2>&1 &"
	cove ps web >"$T/o"
	! grep -q "$(printf "\033")" "$T/o"'
ok 'stats: a table and JSON' '
	has "$(cove stats web | head -n 1)" "MEMORY"
	has "$(cove stats | tail -n 1)" "web"
	cove stats --json web | jq -e .pids >/dev/null'
ok 'attest: each item, and exit 0' '
	cove attest web >"$T/o"
	has "$(head -n 1 "$T/o")" "REQUIRED"
	grep -q "^yes .*seccomp" "$T/o"
	! grep -q "^NO" "$T/o" || exit 1
	cove attest web --json | jq -e ".items | length > 5" >/dev/null'
ok 'doctor: this host works' '
	cove doctor >"$T/o"
	grep -q "^ok .*namespaces" "$T/o"
	grep -q "^ok .*process" "$T/o"
	cove doctor --json | jq -e ".backends.process.usable" >/dev/null'
ok 'what is not running cannot be looked into' '
	cove create idle --no-mounts
	for v in ps stats attest shell attach; do
		rc_is 125 cove $v idle >"$T/o" 2>"$T/e" </dev/null
		has "$(cat "$T/e")" idle
	done
	rc_is 125 cove exec idle -- true 2>"$T/e"
	has "$(cat "$T/e")" "hint: "
	cove rm idle'

ok 'cp into a directory keeps the name' '
	echo 1 >one
	mkdir -p out
	cove cp one web:/tmp/
	same 1 "$(cove exec web -- cat /tmp/one)"
	cove cp web:/tmp/one out
	same 1 "$(cat out/one)"
	rc_is 125 cove cp "$T" web:/tmp/dir 2>"$T/e"
	same 2 "$(grep -c "" "$T/e")"'
ok 'logs: all, the last lines, and on' '
	cove run -q -d log --no-mounts -- sh -c "for i in 1 2 3 4 5; do echo line \$i; done; sleep 2; echo late; sleep 300"
	wait_for 5 sh -c "cove logs log | grep -q \"line 5\""
	same "line 4,line 5" "$(cove logs --tail 2 log | tr -d "\r" | paste -sd,)"
	same "" "$(cove logs --tail 0 log)"
	timeout 20 cove logs --follow --tail 1 log >"$T/f" & p=$!
	wait_for 8 grep -q late "$T/f"
	has "$(head -n 1 "$T/f")" "line 5"
	cove kill log
	wait $p
	cove rm log'

ok 'a second main session is refused, not lost' '
	cove run -q -d two --no-mounts -- sleep 300
	rc_is 125 cove run -q -d two -- sleep 300 2>"$T/e"
	has "$(cat "$T/e")" "cove attach two"
	same beside "$(cove run -q two -- echo beside)"
	cove rm -f two'
ok 'set: limits of a running sandbox, and a refusal that changes nothing' '
	pids() { cove inspect web | jq .spec.resources.pids; }
	want=$(pids)
	if cove set web --pids 150 2>"$T/e"; then
		want=150
		same 150 "$(cove attest web --json | jq -r ".items[] | select(.item == \"limit pids\").actual")"
	else # without a pids controller only a start can set it
		has "$(cat "$T/e")" "cannot change while it runs"
	fi
	same "$want" "$(pids)"
	rc_is 125 cove set web --pids 100000 2>"$T/e"
	has "$(cat "$T/e")" "only be lowered"
	rc_is 125 cove set web --disk 900GiB 2>"$T/e"
	has "$(cat "$T/e")" "only be lowered"
	rc_is 125 cove set web --image rootfs:/ 2>"$T/e"
	has "$(cat "$T/e")" "restart"
	rc_is 125 cove set web --pids none-at-all 2>"$T/e"
	same "$want" "$(pids)"'

edited() { # SED SCRIPT, then words for cove edit
	printf '#!/bin/sh\ncp "$1" "%s/seen"\nsed -i "%s" "$1"\n' "$T" "$1" >"$T/editor"
	chmod +x "$T/editor"
	shift
	VISUAL="" EDITOR="$T/editor" cove edit "$@"
}
cove stop web
ok 'edit: the spec as text, a change is applied' '
	cove set web --pids 150
	edited "s/pids: .*/pids: 123/" web
	grep -q "pids: 150" "$T/seen"
	same 123 "$(cove inspect web | jq .spec.resources.pids)"
	cove start web && cove stop web'
ok 'edit: nothing changed' '
	cove inspect web >"$T/before"
	edited "" web 2>"$T/e"
	has "$(cat "$T/e")" "nothing changed"
	cove inspect web | cmp - "$T/before"'
ok 'edit: all problems are shown and nothing changes' '
	rc_is 125 edited "s/pids: .*/pids: few/; s/memoryMiB: .*/memoryMiB: much/; s/^network:/netwrok:/" web 2>"$T/e" </dev/null
	has "$(cat "$T/e")" pids
	has "$(cat "$T/e")" netwrok
	cove inspect web | cmp - "$T/before"'
ok 'edit: an editor that fails changes nothing' '
	rc_is 125 env VISUAL=false cove edit web 2>"$T/e"
	cove inspect web | cmp - "$T/before"
	test -z "$(find /tmp "$T" -maxdepth 1 -name "cove-edit-*" -user "$(id -u)" 2>/dev/null)"'

ok 'reset and rm --all want --yes where nobody can be asked' '
	rc_is 125 cove reset web 2>"$T/e" </dev/null
	has "$(cat "$T/e")" "--yes"
	rc_is 125 cove rm --all 2>"$T/e" </dev/null
	has "$(cat "$T/e")" "--yes"
	same web "$(cove ls -q)"
	cove reset --yes web
	cove rm --all --yes
	same "" "$(cove ls -q)"'
ok 'one failure among several names does not stop the others' '
	cove create a --no-mounts && cove create c --no-mounts
	rc_is 125 cove rm a b c 2>"$T/e"
	same "" "$(cove ls -q)"
	same 1 "$(grep -c "^cove rm: " "$T/e")"'
done_testing
