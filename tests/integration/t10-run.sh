#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `cove run` as a one-shot: exit codes, arguments, environment, working directory.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
mkdir "$T/p" && cd "$T/p" || exit 1
ID=$$
box() { cove run -q --no-mounts -- "$@"; }

ok 'a command runs' 'same hello "$(box echo hello)"'
ok 'every exit code comes back' '
	for code in 0 1 2 3 42 99 123 124 125 126 127 128 137 200 254 255; do
		rc_is $code box sh -c "exit $code"
	done'
ok 'a signal comes back as 128 and its number' '
	for sig in 1 2 3 6 9 11 13 15; do
		rc_is $((128 + sig)) box sh -c "kill -$sig \$\$"
	done'
ok '127: not found' '
	rc_is 127 box no-such-command-here 2>"$T/err"
	has "$(cat "$T/err")" no-such-command-here'
ok '126: not executable' '
	rc_is 126 box /etc/passwd
	rc_is 126 box /etc'
ok '124: timed out' '
	start=$(date +%s)
	rc_is 124 cove run -q --no-mounts --timeout 1s -- sleep 30
	[ $(($(date +%s) - start)) -lt "$(patient 8)" ]'
ok '124: also when SIGTERM is ignored' '
	rc_is 124 cove run -q --no-mounts --timeout 1s -- sh -c "trap \"\" TERM; sleep 30; sleep 30"'
ok '125: cove failed' 'rc_is 125 cove run -q --no-mounts --mount "$T/nowhere:ro" -- true'
ok '2 or 125: usage' '
	rc=0; cove run --no-such-flag -- true 2>"$T/err" || rc=$?
	[ $rc -eq 2 ] || [ $rc -eq 125 ]
	has "$(cat "$T/err")" no-such-flag'

ok 'arguments arrive as they are' '
	set -- "" " " "a b" "*" "\$HOME" "q\"q" "back\slash" "new
line" "ünïcode" -- --flag
	for a; do printf "<%s>" "$a"; done >"$T/want"
	box sh -c "for a; do printf \"<%s>\" \"\$a\"; done" sh "$@" >"$T/got"
	cmp "$T/want" "$T/got"'
ok 'many and long arguments arrive' '
	long=$(head -c 50000 /dev/zero | tr "\0" x)
	same 50000 "$(box sh -c "printf %s \"\$1\" | wc -c" sh "$long")"
	same 2000 "$(box sh -c "echo \$#" sh $(seq 2000))"'
ok 'bytes that are no text arrive' '
	arg=$(printf "\377\376\001")
	same "377 376 001" "$(box sh -c "printf %s \"\$1\" | od -An -to1" sh "$arg" | sed "s/^ //")"'
ok 'the environment is small and exact' '
	got=$(cove run -q --no-mounts --env A=1 --env "B=two words" --env C= -- env)
	has "$got" "A=1"
	has "$got" "B=two words"
	has "
$got
" "
C=
"
	[ "$(printf "%s\n" "$got" | wc -l)" -lt 20 ]'
ok 'a variable named without a value is taken from the caller' '
	same mine "$(CT_VALUE=mine cove run -q --no-mounts --env CT_VALUE -- sh -c "echo \$CT_VALUE")"'
ok 'HOME, PATH and USER are set, and are not those of the caller' '
	same agent "$(box sh -c "echo \$USER")"
	home=$(box sh -c "cd && pwd")
	[ -n "$home" ] && [ "$home" != "$HOME" ]
	has "$(box sh -c "echo \$PATH")" /usr/bin
	same yes "$(box sh -c "touch ~/x && echo yes")"'
ok 'root when asked for' 'same 0 "$(cove run -q --no-mounts --user root -- id -u)"'
ok 'an ordinary user otherwise' '[ "$(box id -u)" != 0 ]'

ok 'the current directory is mounted, at the same path, and is the working directory' '
	echo here >"$T/p/file"
	same "$T/p here" "$(cove run -q -- sh -c "echo \$(pwd) \$(cat file)")"'
ok 'a directory can be named' '
	mkdir -p "$T/other" && echo there >"$T/other/file"
	same there "$(cove run -q "$T/other" -- cat file)"'
ok '--workdir' '
	same /usr/lib "$(cove run -q --no-mounts --workdir /usr/lib -- pwd)"
	rc=0; cove run -q --no-mounts --workdir /no/such/dir -- true || rc=$?
	[ $rc -ge 125 ]'
ok 'the host name, pid 1 and the user are of the sandbox' '
	[ "$(box hostname)" != "$(hostname)" ] || [ "$(box cat /proc/sys/kernel/hostname)" = cove ]
	same cove-guest "$(box cat /proc/1/comm)"'
ok 'a process that was left running ends with the sandbox' '
	box sh -c "sleep 77.$ID & exit 3" || same 3 $?
	wait_for 3 sh -c "! pgrep -f \"^sleep 77.$ID\""'
ok 'zombies are collected inside' '
	same 0 "$(box sh -c "for i in 1 2 3 4 5; do sh -c \"sh -c :&\"; done; sleep 0.2; grep -l \"^State:.Z\" /proc/[0-9]*/status | wc -l")"'
ok 'tools of the host work inside' '
	box sh -c "ls / >/dev/null && sed --version >/dev/null && awk \"BEGIN { exit 0 }\" && date >/dev/null"
	! command -v git >/dev/null || box git --version
	! command -v gcc >/dev/null || { box sh -c "cd /tmp && echo \"int main(void){return 7;}\" >a.c && gcc a.c -o a && ./a" || same 7 $?; }'
ok 'two hundred one-shots in a row' '
	i=0
	while [ $i -lt "$(often 200)" ]; do cove run -q --no-mounts -- /bin/true; i=$((i + 1)); done'

done_testing
