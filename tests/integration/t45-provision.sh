#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# provision: runs once, is cached by what it depends on, and fails as a whole.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P" && echo one >"$P/one"
spec() { # FILE MARK [STORAGE]
	cat >"$1" <<-END
		storage: {type: ${3:-persistent}}
		provision:
		  - "echo first $2; echo $2 >~/made; date +%s%N >~/when"
		  - [sh, -c, 'test -d \$HOME && echo second >>~/made']
		exec: {env: {MARK: "$2"}}
	END
}
spec "$T/a.yaml" a

ok 'create runs the commands, with progress and output' '
	cd "$P"
	cove create a --spec "$T/a.yaml" 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/2: echo first a"
	has "$(cat "$T/err")" "provision 2/2: sh"
	grep -qx "first a" "$T/err"
	same "a second one" "$(cove run -q a -- sh -c "cat ~/made one" | paste -sd" ")"
	same a "$(cove ls -q)"'
ok 'they run without the mounts of the project' '
	printf "provision: [\"test ! -e %s/one\"]\n" "$P" >"$T/nm.yaml"
	cd "$P" && cove run -q --spec "$T/nm.yaml" -- cat one'
ok 'the second create of the same runs nothing and has a copy of its own' '
	cd "$P"
	cove create b --spec "$T/a.yaml" 2>"$T/err"
	same "" "$(cat "$T/err")"
	same "$(cove exec a -- sh -c "cat ~/when")" "$(cove run -q b -- sh -c "cat ~/when")"
	cove exec b -- sh -c "echo changed >~/made"
	same a "$(cove exec a -- sh -c "head -1 ~/made")"
	cove stop b
	same changed "$(cove run -q b -- sh -c "cat ~/made")"'
ok 'reset goes back to what was provisioned' '
	cove stop b
	cove reset --yes b
	same "a second" "$(cove run -q b -- sh -c "cat ~/made" | paste -sd" ")"
	cove rm -f a b'
ok 'other commands, another environment, another user: made anew' '
	cd "$P"
	spec "$T/c.yaml" c
	cove create c --spec "$T/c.yaml" 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/2"
	cove create d --spec "$T/a.yaml" --env X=1 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/2"
	cove create e --spec "$T/a.yaml" --user root 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/2"
	cove rm -f c d e'
ok 'ephemeral storage starts from it every time' '
	cd "$P"
	spec "$T/eph.yaml" a ephemeral
	cove create f --spec "$T/eph.yaml"
	cove run -q f -- sh -c "cat ~/made; echo x >~/made"
	cove restart f
	same "a second" "$(cove exec f -- sh -c "cat ~/made" | paste -sd" ")"
	cove rm -f f
	same "a second" "$(cove run -q --spec "$T/eph.yaml" -- sh -c "cat ~/made" | paste -sd" ")"
	same "" "$(cove ls -q)"'
ok 'a cache that was cleared is made again at the start' '
	cd "$P"
	cove create h --spec "$T/eph.yaml"
	rm -rf "$COVE_HOME/cache/provision"
	cove start h 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/2"
	same a "$(cove exec h -- sh -c "head -1 ~/made")"
	cove rm -f h'
ok 'a failure names the command, its exit code and its last lines, and leaves nothing' '
	cd "$P"
	printf "provision: [\"true\", \"echo so far; echo the reason >&2; exit 7\", \"true\"]\n" >"$T/bad.yaml"
	rc_is 125 cove create bad --spec "$T/bad.yaml" 2>"$T/err"
	has "$(cat "$T/err")" "provision 2/3: echo so far"
	has "$(cat "$T/err")" "exit code 7: so far|the reason"
	! grep -q "provision 3/3" "$T/err" || exit 1
	rc_is 125 cove run -q --spec "$T/bad.yaml" -- true
	rc_is 125 cove run -q named --spec "$T/bad.yaml" -- true
	same "" "$(cove ls -q)"
	same "" "$(ls -A "$COVE_HOME/sandboxes" | grep -v "^\\.spare")"
	same "" "$(ls -A "$COVE_HOME/cache/provision" | grep "^\\.new" || true)"'
ok 'a command that does not exist' '
	printf "provision: [[no-such-program, x]]\n" >"$T/nf.yaml"
	rc_is 125 cove create bad --no-mounts --spec "$T/nf.yaml" 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/1: no-such-program: No such file"'
ok 'killed in the middle: nothing half-made, the next one makes it' '
	printf "provision: [\"echo x >~/begun; sleep 30\"]\n" >"$T/slow.yaml"
	cove create k --no-mounts --spec "$T/slow.yaml" &
	pid=$!
	sleep 0.7
	kill -9 $pid
	wait $pid || true
	same "" "$(cove ls -q)"
	same "" "$(find "$COVE_HOME/cache/provision" -maxdepth 1 -type d ! -name ".*" -newer "$T/slow.yaml" ! -path "*/provision" | head -1)"'
ok 'two at once: one provisions, the other waits' '
	printf "provision: [\"date +%%s%%N >~/when; sleep 1\"]\nstorage: {type: persistent}\n" >"$T/two.yaml"
	cove create t1 --no-mounts --spec "$T/two.yaml" 2>"$T/e1" &
	cove create t2 --no-mounts --spec "$T/two.yaml" 2>"$T/e2" &
	wait
	same 1 "$(cat "$T/e1" "$T/e2" | grep -c "provision 1/1")"
	same "$(cove run -q t1 -- sh -c "cat ~/when")" "$(cove run -q t2 -- sh -c "cat ~/when")"
	cove rm -f t1 t2'
if have STATIC_GUEST; then
ok 'the layer of an image is cached too' '
	I=$T/img
	mkdir -p "$I/etc" "$I/tmp" "$I/usr/bin" "$I/usr/lib" "$I/usr/lib64"
	for d in bin lib lib64; do ln -s "usr/$d" "$I/$d"; done
	for f in sh cat rm; do cp "$(readlink -f "$(command -v $f)")" "$I/usr/bin/$f"; done
	for f in sh cat rm; do ldd "$(readlink -f "$(command -v $f)")"; done | grep -o "/[^ ]*" | grep -v : | sort -u |
		while read -r l; do mkdir -p "$I/$(dirname "$l")"; cp -L "$l" "$I/$l"; done
	echo old >"$I/etc/gone"
	printf "image: {source: \"rootfs:%s\"}\nprovision: [\"echo made >/etc/made; rm /etc/gone\"]\n" "$I" >"$T/img.yaml"
	cove create i1 --no-mounts --spec "$T/img.yaml" 2>"$T/err"
	has "$(cat "$T/err")" "provision 1/1"
	cove create i2 --no-mounts --spec "$T/img.yaml" --storage persistent 2>"$T/err"
	same "" "$(cat "$T/err")"
	for i in i1 i2; do
		same "made no" "$(cove run -q $i -- sh -c "cat /etc/made; test -e /etc/gone || echo no" | paste -sd" ")"
	done
	cove exec i1 -- sh -c "echo other >/etc/made"
	cove exec i2 -- sh -c "echo other >/etc/made"
	cove restart i1
	cove restart i2
	same made "$(cove exec i1 -- cat /etc/made)"
	same other "$(cove exec i2 -- cat /etc/made)"
	test ! -e "$I/etc/made" && test -e "$I/etc/gone"
	cove rm -f i1 i2'
else
	skip 'the layer of an image is cached too' 'this guest needs libraries'
fi

done_testing
