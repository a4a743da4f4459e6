#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Snapshots: a consistent cut, shared where nothing changed, restored in one step.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub/old" && echo one >"$P/one" && echo two >"$P/sub/two" && echo three >"$P/sub/old/three"
REC=$COVE_HOME/sandboxes

# Every path, kind, mode, time, target and content below a directory.
picture() {
	(cd "$1" && find . -printf '%P %y %m %T@ %l\n' | sort
	find . -type f -printf '%P %n\n' | sort
	find . -type f -print0 | sort -z | xargs -0r sha256sum)
}

ok 'a snapshot of a running sandbox, and a list of it' '
	cd "$P"
	cove run -q box -- sh -ec "echo mine >one; rm sub/two; rm -r sub/old; mkdir -p new/d; echo n >new/d/f; ln new/d/f new/d/g; ln -s nowhere l; chmod 751 new; printf x >odd\\ name"
	cove snapshot -m "first state" box first
	cove snapshots --json box | jq -e ".[0] | .tag == \"first\" and .description == \"first state\" and .parent == \"\" and .files > 5"
	same first "$(cove snapshots -q box)"
	has "$(cove snapshots box)" "first state"
	same mine "$(cove exec box -- cat "$P/one")"'
ok 'what it holds is what the layer holds: whiteouts, links, modes, times' '
	cove stop box
	picture "$REC/box/m0/upper" >"$T/a"
	picture "$REC/box/snapshots/first/m0/upper" >"$T/b"
	diff "$T/a" "$T/b"
	same "0 0" "$(stat -c "%t %T" "$REC/box/snapshots/first/m0/upper/sub/two")"
	[ "$REC/box/snapshots/first/m0/upper/new/d/f" -ef "$REC/box/snapshots/first/m0/upper/new/d/g" ]'
ok 'a second one shares what did not change' '
	sleep 0.3
	cove run -q box -- sh -c "echo more >>one"
	sleep 0.3
	cove snapshot box second
	cove run -q box -- sh -c "echo even more >>one"
	cove snapshot box third
	cove snapshots --json box | jq -e "map(.parent) == [\"\", \"first\", \"second\"]"
	if [ "$(stat -f -c %T "$REC")" != tmpfs ]; then
		[ "$REC/box/snapshots/second/m0/upper/odd name" -ef "$REC/box/snapshots/third/m0/upper/odd name" ]
	fi
	[ ! "$REC/box/snapshots/second/m0/upper/one" -ef "$REC/box/snapshots/third/m0/upper/one" ]
	[ ! "$REC/box/m0/upper/new/d/f" -ef "$REC/box/snapshots/third/m0/upper/new/d/f" ]'
ok 'a tag is taken once, and is a name' '
	rc_is 125 cove snapshot box first 2>"$T/err"
	has "$(cat "$T/err")" "exists already"
	rc_is 125 cove snapshot box ../x
	rc_is 125 cove snapshot box .x
	rc_is 125 cove snapshot nobody x'
ok 'restore wants a stopped sandbox, and a yes' '
	rc_is 125 cove restore --yes box first 2>"$T/err"
	has "$(cat "$T/err")" "cove stop box"
	cove stop box
	rc_is 125 cove restore box first
	rc_is 125 cove restore --yes box nothing 2>"$T/err"
	has "$(cat "$T/err")" "no snapshot nothing"
	same "mine more even more" "$(cat "$REC/box/m0/upper/one" | paste -sd" ")"'
ok 'restore brings back exactly that state, again and again' '
	cove restore --yes box first
	picture "$REC/box/m0/upper" | diff "$T/a" -
	same mine "$(cove run -q box -- cat "$P/one")"
	cove exec box -- sh -ec "test ! -e sub/two; test ! -e sub/old; test new/d/f -ef new/d/g; echo spoilt >one; echo x >sub/two; rm -r new"
	cove stop box
	cove restore --yes box second
	same "mine more" "$(cove run -q box -- cat "$P/one" | paste -sd" ")"
	cove exec box -- sh -ec "test ! -e sub/two; test -e new/d/g"
	cove stop box
	cove restore --yes box first
	picture "$REC/box/m0/upper" | diff "$T/a" -
	same first "$(cat "$REC/box/parent")"
	same "" "$(find "$REC/box" -name ".new-*" -o -name ".old-*" -o -name restoring)"'
ok 'the host saw nothing of it' 'same one "$(cat "$P/one")"; same two "$(cat "$P/sub/two")"'
ok 'a removed snapshot leaves those that shared with it whole' '
	picture "$REC/box/snapshots/third/m0/upper" | sed "s/ [0-9]*$//" >"$T/3"
	rc_is 125 cove snapshot rm box second
	cove snapshot rm --yes box second
	picture "$REC/box/snapshots/third/m0/upper" | sed "s/ [0-9]*$//" | diff "$T/3" -
	same "first third" "$(cove snapshots -q box | paste -sd" ")"
	cove restore --yes box third
	same "mine more even more" "$(cove run -q box -- cat "$P/one" | paste -sd" ")"
	cove rm -f box'

ok 'home and image layer are part of it' '
	cove create home --storage persistent --no-mounts
	cove run -q home -- sh -c "echo h >~/h"
	cove snapshot home a
	cove exec home -- sh -c "echo i >~/h; echo j >~/j"
	cove stop home
	cove restore --yes home a
	same h "$(cove run -q home -- sh -c "cat ~/h; ls ~/j 2>/dev/null")"
	cove rm -f home'
ok 'volumes too, and not under somebody who uses them' '
	cove create v1 --no-mounts --mount data:/data:volume,shared
	cove create v2 --no-mounts --mount data:/data:volume,shared
	cove run -q v1 -- sh -c "echo a >/data/f"
	cove snapshot v1 a
	cove exec v1 -- sh -c "echo b >/data/f"
	cove stop v1
	cove start v2
	rc_is 125 cove restore --yes v1 a 2>"$T/err"
	has "$(cat "$T/err")" "in use"
	same b "$(cove exec v2 -- cat /data/f)"
	cove stop v2
	cove restore --yes v1 a
	same a "$(cove run -q v2 -- cat /data/f)"
	cove rm -f v1 v2; cove volume rm --yes data
	same "" "$(find "$COVE_HOME/volumes" -name ".new-*" -o -name ".old-*")"'
ok 'a mount that was changed since is a refusal, and nothing changes' '
	mkdir -p "$T/q"
	cd "$P"
	cove run -q box -- sh -c "echo mine >one"
	cove stop box
	cove snapshot box a
	cove discard --yes box
	cove set box --mount "$T/q:overlay"
	rc_is 125 cove restore --yes box a 2>"$T/err"
	has "$(cat "$T/err")" "cove clone box@a"
	cove rm -f box'

ok 'what its modes close to everybody is kept all the same' '
	cd "$P"
	cove run -q box -- sh -ec "mkdir shut; echo s >shut/f; mkdir shut/d; ln -s x shut/l; chmod 0 shut/f shut/d shut; echo z >zero; chmod 0 zero"
	cove stop box
	cove snapshot box a
	cove clone box other
	cove export -o "$T/shut.tar" box
	cove run -q box -- sh -ec "chmod 700 shut; rm -rf shut zero"
	cove stop box
	cove restore --yes box a
	for name in box other; do
		cove run -q $name -- sh -ec "test \$(stat -c %a shut) = 0; chmod 700 shut; test \$(stat -c %a%a shut/f shut/d | paste -sd+) = 00+00; chmod 600 shut/f zero; cat shut/f zero"
	done
	cove import -q "$T/shut.tar" third
	same "s z" "$(cove run -q third -- sh -ec "chmod 700 shut; chmod 600 shut/f zero; cat shut/f zero" | paste -sd" ")"
	cove rm -f box other third'

# ---- the cut is consistent ------------------------------------------------------------
# Two files that a program inside always writes one after the other, with the same number.
writer='n=0; while :; do n=$((n + 1)); echo $n >a; echo $n >b; done'
ok 'a running writer is held still: its files fit together' '
	cd "$P"
	cove run -q -d box -- sh -c "$writer"
	wait_for 5 test -e "$REC/box/m0/upper/b"
	for i in 1 2 3 4 5; do
		cove snapshot box s$i
		a=$(cat "$REC/box/snapshots/s$i/m0/upper/a") b=$(cat "$REC/box/snapshots/s$i/m0/upper/b")
		echo "$a $b"
		[ -z "$b" ] || [ -z "$a" ] || [ "$a" = "$b" ] || [ "$a" = $((b + 1)) ]
	done
	n=$(cove exec box -- cat a || true)
	sleep 0.3
	wait_for 3 sh -c "[ \"\$(cove exec box -- cat a)\" != \"$n\" ]"'
ok 'processes that were stopped stay so, others go on' '
	cove exec box -- setsid sh -c "(sh -c \"echo \\\$\\\$ >stopped; kill -STOP \\\$\\\$; echo woke >woke\") >/dev/null 2>&1 </dev/null &"
	wait_for 3 test -s "$REC/box/m0/upper/stopped"
	sleep 0.2
	cove snapshot box t1
	sleep 0.3
	cove exec box -- sh -c "grep -q \"^State:.T\" /proc/\$(cat stopped)/status"
	! test -e "$REC/box/m0/upper/woke"'
ok 'a client that is killed in the middle leaves nobody frozen' '
	cove exec box -- sh -c "mkdir big; i=0; while [ \$i -lt 3000 ]; do echo \$i >big/\$i; i=\$((i + 1)); done"
	cove snapshot box dead & pid=$!
	sleep 0.05; kill -9 $pid; wait $pid || true
	n=$(cove exec box -- cat a || true)
	wait_for 5 sh -c "[ \"\$(cove exec box -- cat a)\" != \"$n\" ]"
	cove snapshots -q box
	cove snapshot box alive
	same "" "$(find "$REC/box/snapshots" -maxdepth 1 -name ".new-*")"'
ok 'a keeper that is killed while it holds the sandbox takes it with it' '
	keeper=$(cove inspect box | jq -r ".keeperPid")
	guest=$(cove inspect box | jq -r ".guestPid")
	cove snapshot box late & pid=$!
	sleep 0.02; kill -9 "$keeper"
	rc=0; wait $pid || rc=$?
	wait_for 5 sh -c "! kill -0 $guest 2>/dev/null"
	[ $rc -ne 0 ] || cove snapshots -q box | grep -qx late
	cove ls
	cove rm -f box'
ok 'two at once' '
	cd "$P"
	cove run -q box -- sh -c "echo x >one"
	for i in 1 2 3 4; do cove snapshot box p$i & done
	wait
	same "p1 p2 p3 p4" "$(cove snapshots -q box | sort | paste -sd" ")"
	cove rm -f box'

# ---- killed half-way ------------------------------------------------------------------
ok 'a restore that is killed at any moment gives the one state or the other' '
	cd "$P"
	cove run -q box -- sh -c "i=0; while [ \$i -lt 200 ]; do echo a >f\$i; i=\$((i + 1)); done; echo a >one"
	cove stop box; cove snapshot box a
	cove run -q box -- sh -c "i=0; while [ \$i -lt 200 ]; do echo b >f\$i; i=\$((i + 1)); done; echo b >one"
	cove stop box; cove snapshot box b
	state() { cat "$REC/box/m0/upper"/f* "$REC/box/m0/upper/one" | sort | uniq -c | tr -d " "; }
	for ms in 001 003 005 008 010 013 016 020 025 030 040 050 060 080; do
		want=$(state | tr -d 0-9)
		[ "$want" = a ] && to=b || to=a
		timeout -s KILL 0.$ms cove restore --yes box $to || true
		cove snapshots -q box >/dev/null
		cove diff --name-only box >/dev/null
		echo "$ms $to: $(state)"
		case $(state) in 201a | 201b) ;; *) false ;; esac
		same "" "$(find "$REC/box" -maxdepth 1 -name restoring)"
	done
	cove restore --yes box a
	same 201a "$(state)"
	same "" "$(find "$REC/box" -maxdepth 1 -name ".new-*" -o -maxdepth 1 -name ".old-*")"
	cove rm -f box'
ok 'the log has it all' '
	cd "$P"
	cove run -q box -- sh -c "echo x >one"; cove stop box
	cove snapshot box a; cove restore --yes box a; cove snapshot rm --yes box a
	cove audit --json box >"$T/log"
	for e in snapshot restore snapshot-rm; do grep -q "\"event\":\"$e\"" "$T/log"; done
	cove audit --verify box
	cove rm -f box'
done_testing
