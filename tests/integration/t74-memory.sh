#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pausing; and the memory of a running machine: saved, restored to running processes, forked,
# sealed, and refused when it is not what was saved. On the process backend: refused in one line.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ PYTHON3
have ROOT && net_world
REC=$COVE_HOME/sandboxes
mkdir -p "$T/w" && cd "$T/w" || exit 1
in_box() { name=$1; shift; cove exec "$name" -- "$@"; }
# (It is empty for a moment while it is written.)
count() { in_box "${1:-box}" sh -c "until grep . /tmp/count; do sleep 0.01; done"; }
grows() { before=$(count "${1:-box}"); wait_for 10 sh -c "[ \"\$(cove exec ${1:-box} -- cat /tmp/count)\" -gt $before ]"; }
# Other sandboxes of this name may run on the host: ours has our COVE_HOME. Only root can see that.
keeper_of() {
	for p in $(pgrep -f "^cove-keeper $1( |\$)"); do
		! tr '\0' '\n' <"/proc/$p/environ" | grep -qx "COVE_HOME=$COVE_HOME" || echo "$p"
	done
}
qemu_of() { pgrep -P "$(pgrep -P "$(keeper_of "$1")" -x cove-vmm)"; }
# A smaller machine than the default is saved and restored sooner.
size=
[ "$BACKEND" != vm ] || size="--memory 512MiB"
machine() { needs VM "only a machine has memory of its own"; }

# A shell that counts: in memory, and into a file of the workspace that it keeps open.
cat >count.sh <<'END'
exec 3>>"$1/open"
i=0
while :; do i=$((i + 1)); echo $i >/tmp/count; echo $i >&3; sleep 0.1; done
END

save_pipe() { # NAME: that QEMU writes to, when there is one
	until save_pipe=$(find "$COVE_HOME" -path "*/$1/save.memory" -type p) && [ -n "$save_pipe" ]; do sleep 0.05; done
	echo "$save_pipe"
}
# A save that somebody else keeps open, with a byte now and then: it is given up after minutes, so
# what became of it is looked at in the end. They have a state directory of their own.
stuck() { # NAME SECONDS
	cove create "$1" --no-mounts --memory 128MiB && cove start "$1" || return 1
	(exec 9>"$(save_pipe "$1")" && while last=$(date +%s) && printf x >&9; do
		sleep "$2"
		[ $(($(date +%s) - last)) -lt 15 ] || : >"$T/$1.still"
	done) 2>/dev/null &
	(rc=0; cove snapshot --with-memory "$1" a 2>"$T/$1.err" || rc=$?; echo $rc >"$T/$1.rc") &
}
given_up() { # NAME REASON
	wait_for 60 test -s "$T/$1.rc" && same 125 "$(cat "$T/$1.rc")" && has "$(cat "$T/$1.err")" "$2" &&
		same "" "$(cove snapshots -q "$1")" && cove exec "$1" -- true && cove rm -f "$1"
}
ok 'two saves that will not end begin' '
	machine
	export COVE_HOME="$T/d"
	new_home "$COVE_HOME"
	stuck mute 30 && stuck drip 5'

ok 'a paused sandbox holds still, says so, and takes no command' '
	cove create box . $size
	cove start box
	cove exec -d box -- sh count.sh "$T/w"
	wait_for 10 in_box box test -s /tmp/count
	cove pause box
	same paused "$(cove ls --json | jq -r ".[] | select(.name == \"box\").state")"
	cove pause box
	rc_is 125 cove exec box -- true 2>"$T/err"
	has "$(cat "$T/err")" paused
	cove resume box
	same running "$(cove ls --json | jq -r ".[] | select(.name == \"box\").state")"
	grows
	cove resume box'
ok 'a paused sandbox can be copied, stopped and killed' '
	cove create pb . $size && cove start pb
	cove pause pb
	cove snapshot pb a
	same paused "$(cove ls --json | jq -r ".[] | select(.name == \"pb\").state")"
	cove stop pb
	cove start pb; cove pause pb; cove kill pb
	cove rm pb
	rc_is 125 cove pause box2'
ok 'without a machine there is no memory to keep, in one line' '
	needs PROCESS "it has one here"
	rc_is 125 cove snapshot --with-memory box m 2>"$T/err"
	has "$(head -n 1 "$T/err")" "cannot save memory"
	rc_is 125 cove fork box 2>"$T/err"
	has "$(head -n 1 "$T/err")" "cannot save memory"
	same "" "$(cove snapshots -q box)"
	grows'
ok 'a stopped or paused one has no memory to keep either' '
	machine
	cove create idle .
	rc_is 125 cove snapshot --with-memory idle m 2>"$T/err"
	has "$(cat "$T/err")" "not running"
	cove rm idle
	cove pause box
	rc_is 125 cove snapshot --with-memory box m 2>"$T/err"
	has "$(cat "$T/err")" "paused"
	cove resume box; grows'
ok 'memory is saved, and the sandbox goes on' '
	machine
	cove snapshot --with-memory -m live box live
	grows
	cove snapshots --json box | jq -e ".[0].memory > 1000000"
	same "600 600" "$(stat -c %a "$REC/box/snapshots/live/memory" "$REC/box/snapshots/live/memory.key" | paste -sd" ")"
	same "" "$(find "$COVE_HOME" -name "save.*")"'
ok 'nothing of it can be read in the file' '
	machine
	in_box box sh -c "echo canary-\$((41+1))-in-memory >/tmp/c; cat /tmp/c >/dev/null"
	cove snapshot --with-memory box secret
	! grep -qa "canary-42-in-memory" "$REC/box/snapshots/secret/memory" || exit 1
	cove snapshot rm --yes box secret'
ok 'a restore brings running processes back, with their open files' '
	machine
	cove snapshot --with-memory box r1
	then=$(count)
	wait_for 10 sh -c "[ \"\$(cove exec box -- cat /tmp/count)\" -gt $((then + 10)) ]"
	in_box box sh -c "echo later >later"
	cove stop box
	cove restore --yes box r1
	now=$(count)
	[ "$now" -lt $((then + 30)) ]
	grows
	! in_box box test -e later || exit 1
	sleep 1
	last=$(in_box box sh -c "tail -n 1 open"); [ "$last" -ge "$now" ]
	in_box box sh -c "awk \"{ if (\\\$1 != NR) exit 1 }\" open"
	same box "$(in_box box hostname)"
	d=$(($(in_box box date +%s) - $(date +%s))); [ $d -ge -3 ] && [ $d -le 3 ]'
ok 'after a restore everything works: commands, files, diff, another save' '
	machine
	rc_is 7 in_box box sh -c "exit 7"
	in_box box sh -c "echo new >made; cat made"
	has "$(cove diff --name-only box)" made
	cove cp box:"$T/w/made" "$T/got" && same new "$(cat "$T/got")"
	cove snapshot --with-memory box again
	cove stop box; cove restore --yes box again; grows
	cove snapshot rm --yes box again'
ok 'two restores draw different random numbers, and have boot ids of their own, but are one machine' '
	machine
	for i in 1 2; do
		cove stop box; cove restore --yes box r1
		in_box box sh -c "head -c 16 /dev/urandom | od -An -tx1; cat /etc/machine-id /proc/sys/kernel/random/boot_id" >"$T/r$i"
	done
	[ "$(head -n 1 "$T/r1")" != "$(head -n 1 "$T/r2")" ]
	[ "$(tail -n 1 "$T/r1")" != "$(tail -n 1 "$T/r2")" ]
	same "$(sed -n 2p "$T/r1")" "$(sed -n 2p "$T/r2")"'
ok 'the main session goes on, and can be attached to' '
	machine
	cove run -d ms . $size -- sh -c "i=0; while :; do i=\$((i + 1)); echo tick \$i; sleep 0.1; done"
	wait_for 10 sh -c "cove logs ms | grep -q \"tick 3\""
	cove snapshot --with-memory ms a
	cove stop ms; cove restore --yes ms a
	n=$(cove logs ms | wc -l)
	wait_for 10 sh -c "[ \$(cove logs ms | wc -l) -gt $((n + 5)) ]"
	cove inspect ms | jq -e ".. | .mainRunning? // empty"
	cove rm -f ms'
ok 'connections of before are reset, new ones work' '
	machine
	have ROOT || lacks "the network of these tests needs root"
	# One processor: with two, emulated beside other machines, it hung twice after the restore; why is not known.
	cove create net . $size --cpus 1 --allow good.test && cove start net
	same "the page" "$(in_box net curl -sS http://good.test/page)"
	cove snapshot --with-memory net a
	same "the page" "$(in_box net curl -sS http://good.test/page)"
	cove stop net; cove restore --yes net a
	same "the page" "$(in_box net curl -sS --max-time 20 http://good.test/page)"
	! in_box net curl -sSf --max-time 20 http://evil.test/ || exit 1
	cove rm -f net'

# Refusals: nothing may change, and the message is one line.
refused() { # WHAT
	picture=$(md5sum <"$REC/box/m0/upper/open")
	rc_is 125 cove restore --yes box r1 2>"$T/err" || return 1
	has "$(head -n 1 "$T/err")" "$1" || return 1
	[ "$(wc -l <"$T/err")" -le 2 ] || return 1
	same stopped "$(cove ls --json | jq -r ".[] | select(.name == \"box\").state")" || return 1
	same "$picture" "$(md5sum <"$REC/box/m0/upper/open")" || return 1
	[ ! -e "$REC/box/restoring" ]
}
flip() { # FILE OFFSET
	python3 -c "
import sys
f = open(sys.argv[1], \"r+b\"); f.seek(int(sys.argv[2])); b = f.read(1)[0]; f.seek(int(sys.argv[2]))
f.write(bytes([b ^ 1 << int(sys.argv[2]) % 8]))" "$1" "$2"
}
ok 'one flipped bit, wherever, is a refusal that changes nothing' '
	machine
	cove stop box
	f=$REC/box/snapshots/r1/memory; size=$(stat -c %s "$f")
	for at in 0 9 13 17 40 56 57 1000 1048000 $((size / 3)) $((size / 2)) $((size - 18)) $((size - 1)); do
		flip "$f" $at; refused damaged; flip "$f" $at
	done
	f=$f.key
	for at in 0 8 16 40 87; do flip "$f" $at; refused key; flip "$f" $at; done'
ok 'a file that was cut, or is longer' '
	machine
	f=$REC/box/snapshots/r1/memory; cp -a "$f" "$T/whole"
	for n in 1 100 1048593 5000000; do
		truncate -s -$n "$f"; refused damaged; cp -a "$T/whole" "$f"
	done
	echo more >>"$f"; refused damaged; cp -a "$T/whole" "$f"
	truncate -s 0 "$f"; refused damaged; cp -a "$T/whole" "$f"; rm "$T/whole"'
ok 'without the key of the user: refused; the memory of another snapshot: refused' '
	machine
	mv "$COVE_HOME/secrets/.key" "$T/key"
	refused "key"
	head -c 32 /dev/urandom >"$COVE_HOME/secrets/.key"; chmod 600 "$COVE_HOME/secrets/.key"
	refused "key"
	mv "$T/key" "$COVE_HOME/secrets/.key"
	d=$REC/box/snapshots; mv "$d/r1/memory" "$T/m"; cp "$d/live/memory" "$d/r1/memory"
	refused damaged
	mv "$d/r1/memory.key" "$T/k"; cp "$d/live/memory.key" "$d/r1/memory.key"
	refused "another snapshot"
	mv "$T/m" "$d/r1/memory"; mv "$T/k" "$d/r1/memory.key"
	cp -a "$d/r1/meta.json" "$T/meta"; sed -i "s/\"description\": \"\"/\"description\": \"x\"/" "$d/r1/meta.json"
	! cmp -s "$d/r1/meta.json" "$T/meta" || exit 1
	refused "another snapshot"; mv "$T/meta" "$d/r1/meta.json"'
ok 'chunks in another order, or twice; memory that is missing' '
	machine
	f=$REC/box/snapshots/r1/memory; cp -a "$f" "$T/whole"
	chunk=$((1048576 + 17)); at() { echo $((56 + $1 * chunk)); }
	python3 -c "
import sys
f = open(sys.argv[1], \"r+b\"); a, b, n = map(int, sys.argv[2:])
f.seek(a); x = f.read(n); f.seek(b); y = f.read(n)
f.seek(a); f.write(y); f.seek(b); f.write(x)" "$f" "$(at 1)" "$(at 2)" $chunk
	refused damaged; cp -a "$T/whole" "$f"
	dd if="$T/whole" of="$f" bs=1 count=0 2>/dev/null
	{ head -c "$(at 2)" "$T/whole"; tail -c +$(($(at 1) + 1)) "$T/whole"; } >"$f"
	refused damaged
	rm "$f"; refused missing; mv "$T/whole" "$f"'
ok 'a machine of another size is refused; the limit of processes goes along' '
	machine
	was=$(cove inspect box | jq -r "[.. | .memoryMiB? // empty][0]"); [ "$was" -ne 640 ]
	cove set box --memory 640MiB
	refused "resources.memoryMiB"; has "$(cat "$T/err")" "files-only"
	cove set box --memory "${was}MiB"
	cove set box --swap 64MiB; refused "resources.swap"; cove set box --swap 0
	if [ "$(nproc)" -gt 1 ]; then # else a machine has one in any case
		was=$(cove inspect box | jq -r "[.. | .cpus? // empty][0]"); [ "$was" -ne 1 ]
		cove set box --cpus 1; refused "resources.cpus"; cove set box --cpus "$was"
	fi
	if [ -e "$COVE_HOME/cache/tsc" ]; then # an emulated one counts with the host
		was=$(cat "$COVE_HOME/cache/tsc")
		echo "${was% *} $((${was#* } / 2))" >"$COVE_HOME/cache/tsc"
		refused "its clock would be wrong"; has "$(cat "$T/err")" "files-only"
		echo "$was" >"$COVE_HOME/cache/tsc"
	fi
	cove set box --pids 77
	cove restore --yes box r1
	has "$(in_box box grep "Max processes" /proc/self/limits)" " 77 "
	cove stop box; cove set box --pids 512'
# It takes over the pipe that QEMU writes to, and has no end.
flood() {
	exec timeout 300 cat /dev/zero >"$(save_pipe endless)"
}
ok 'a save that does not end is cut off, and nothing is left of it' '
	machine
	cove create endless . --memory 192MiB && cove start endless
	flood & flood=$!
	rc_is 125 cove snapshot --with-memory endless a 2>"$T/err"
	has "$(cat "$T/err")" "QEMU writes more than the machine has"
	wait $flood || :
	same "" "$(cove snapshots -q endless)"
	[ "$(du -sm "$REC/endless" | cut -f1)" -lt 100 ]
	cove exec endless -- true
	cove snapshot --with-memory endless a
	cove rm -f endless'
ok 'another user gets nothing' '
	machine
	have ROOT || lacks "a second user"
	cp -a "$REC/box/snapshots/r1/memory" "$T/m"; chmod 755 "$T"; 
	! setpriv --reuid 65534 --regid 65534 --clear-groups cat "$REC/box/snapshots/r1/memory" || exit 1
	rm "$T/m"'
ok 'whole again, it is restored; --files-only leaves the memory out' '
	machine
	cove restore --yes --files-only box r1
	same stopped "$(cove ls --json | jq -r ".[] | select(.name == \"box\").state")"
	cove restore --yes box r1
	grows'
ok 'a restored one keeps neither key nor file open' '
	machine
	have ROOT || lacks "root: a keeper is not to be looked into"
	pid=$(keeper_of box); [ -n "$pid" ]
	find "/proc/$pid/fd" -lname "*eventpoll*" | grep -q .
	! find "/proc/$pid/fd" -lname "*/memory*" | grep . || exit 1
	! find "/proc/$pid/fd" -lname "*/snapshots/*" | grep . || exit 1'
ok 'shred makes it unreadable and removes it' '
	machine
	d=$REC/box/snapshots/live
	ln "$d/memory" "$T/kept"; ln "$d/memory.key" "$T/kept.key"; cp "$T/kept.key" "$T/before"
	rc_is 125 cove snapshot shred box live
	cove snapshot shred --yes box live
	[ ! -e "$d" ]
	! cmp -s "$T/kept.key" "$T/before" || exit 1
	mkdir "$d" && cp -a "$REC/box/snapshots/r1/." "$d/"
	cp "$T/kept" "$d/memory"; cp "$T/kept.key" "$d/memory.key"
	cove stop box
	rc_is 125 cove restore --yes box live 2>"$T/err"
	has "$(cat "$T/err")" "key"
	rm -rf "$d" "$T/kept" "$T/kept.key"
	cove snapshot box plain
	rc_is 125 cove snapshot shred --yes box plain
	cove snapshot rm --yes box plain
	cove start box'
ok 'forks of a snapshot: as many as asked for, each itself' '
	machine
	same "f-1 f-2" "$(cove fork -n 2 --name f box@r1 | paste -sd" ")"
	for i in 1 2; do
		same f-$i "$(in_box f-$i hostname)"
		in_box f-$i sh -c "head -c 16 /dev/urandom | od -An -tx1; cat /etc/machine-id /proc/sys/kernel/random/boot_id" >"$T/r$i"
		grows f-$i
		in_box f-$i sh -c "echo $i >mine"
	done
	[ "$(head -n 1 "$T/r1")" != "$(head -n 1 "$T/r2")" ]
	same "" "$(sort "$T/r1" "$T/r2" | uniq -d)"
	same 32 "$(sed -n 2p "$T/r1" | tr -d "\n" | wc -c)"
	same 1 "$(in_box f-1 cat mine)"; same 2 "$(in_box f-2 cat mine)"
	! in_box box test -e mine || exit 1
	cove attest f-1 >"$T/attest"
	has "$(cat "$T/attest")" "memory of forks"'
ok 'forks share the memory that they go on from' '
	machine
	have ROOT || lacks "root: to count pages"
	for i in 1 2; do
		q=$(qemu_of f-$i); [ -n "$q" ]
		grep -A 30 "memfd:cove-fork-memory" "/proc/$q/smaps" >"$T/smaps"
		awk "/^Rss/ { r += \$2 } /^Pss:/ { p += \$2 } /^Private_Clean|^Private_Dirty/ { own += \$2 } END { print r, p, own }" "$T/smaps" >"$T/pages$i"
		read -r rss pss own <"$T/pages$i"
		[ "$own" -lt $((rss * 3 / 4)) ]; [ "$pss" -lt "$rss" ]
		grep -q "^[0-9a-f-]* rw-p" "$T/smaps"
	done
	cove rm -f f-1 f-2'
ok 'forks of a running sandbox; a name that is taken makes none' '
	machine
	cove exec -d box -- sh count.sh "$T/w"
	wait_for 10 in_box box test -s /tmp/count
	cove fork --json --name g box | jq -e ".names == [\"g-1\"]"
	grows g-1
	same r1 "$(cove snapshots -q box | paste -sd" ")"
	rc_is 125 cove fork -n 2 --name g box@r1
	same "box g-1" "$(cove ls --json | jq -r ".[].name" | sort | paste -sd" ")"
	rc_is 2 cove fork -n 0 box; rc_is 2 cove fork -n x box
	cove rm -f g-1'
ok 'a save whose client is killed leaves a sandbox that runs' '
	machine
	for i in 1 2 3; do
		cove snapshot --with-memory box k$i & pid=$!
		sleep 0.$((i * 3)); kill -9 $pid 2>/dev/null || :; wait $pid || :
		in_box box true
	done
	cove snapshot --with-memory box k9
	in_box box true'
ok 'a fork that is killed leaves no key, and what it leaves is removed' '
	machine
	for i in 1 2 3; do
		cove fork --name k box >/dev/null 2>&1 & pid=$!
		sleep 0.$((i * 3)); kill -9 $pid 2>/dev/null || :; wait $pid || :
		! find "$REC/box/snapshots" -path "*fork-*" -name "*.key" | grep . || exit 1
		in_box box true
	done
	cove snapshots -q box >"$T/list"; ! grep fork- "$T/list" || exit 1
	cove snapshot box clean
	wait_for 10 sh -c "! ls -A \"$REC/box/snapshots\" | grep -q fork-"
	cove rm -f k-1 2>/dev/null || :'
ok 'memory and files are of one instant' '
	machine
	cove create inst . $size && cove start inst
	cove exec -d inst -- python3 -c "
import os
f = os.open(\"seq\", os.O_WRONLY | os.O_CREAT | os.O_APPEND); i = 0
while True: i += 1; os.write(f, b\"%d\\n\" % i)"
	wait_for 20 in_box inst test -s seq
	cove snapshot --with-memory inst a
	cove stop inst
	cove restore --yes --files-only inst a
	kept=$(wc -l <"$REC/inst/m0/upper/seq"); [ "$kept" -gt 0 ]
	cove restore --yes inst a
	wait_for 20 sh -c "[ \$(wc -l <\"$REC/inst/m0/upper/seq\") -gt $kept ]"
	cove pause inst
	awk "{ if (\$1 != NR) exit 1 }" "$REC/inst/m0/upper/seq"
	cove resume inst
	cove rm -f inst'
ok 'a machine that is slow to stop is waited for, and its keeper listens' '
	machine
	have ROOT || lacks "root: to hold QEMU up"
	q=$(qemu_of box); [ -n "$q" ]
	kill -STOP "$q"
	cove pause box & paused=$!
	timeout 10 cove stats box >/dev/null
	sleep 2; kill -CONT "$q"
	wait $paused
	same paused "$(cove ls --json | jq -r ".[] | select(.name == \"box\").state")"
	kill -STOP "$q"; timeout 5 cove resume box; sleep 2; kill -CONT "$q"
	in_box box true
	cove snapshot --with-memory box slow & saved=$!
	sleep 0.1; kill -STOP "$q"; sleep 2; kill -CONT "$q"
	wait $saved
	in_box box true'
cove rm -f box >/dev/null 2>&1
ok 'a save in which nothing comes is given up' '
	machine
	export COVE_HOME="$T/d"
	given_up mute "save: QEMU writes nothing"'
ok 'and so is one in which something comes for ever, if slowly' '
	machine
	export COVE_HOME="$T/d"
	given_up drip "save: QEMU does not end" || {
		cove rm -f drip
		[ -e "$T/drip.still" ] || exit 1
		lacks "this host stood still for longer than a save may"
	}'
done_testing
