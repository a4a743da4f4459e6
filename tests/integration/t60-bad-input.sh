#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bad input to every verb: one clear line (and perhaps a hint; for a spec file one a problem), exit
# 125 or 2, nothing changed.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
cove create -q here --no-mounts
snapshot() { find "$COVE_HOME" -path '*sandboxes*' -printf '%p %y %s\n' | sort; }

# bad LABEL WORD CMD...: stderr starts with "cove", holds WORD, is short; state is as before.
bad() {
	bad_title=$1
	shift
	ok "$bad_title" '
		word=$1
		shift
		snapshot >"$T/before"
		rc=0
		timeout 20 "$@" >"$T/o" 2>"$T/e" || rc=$?
		echo "exit status $rc"; cat "$T/o" "$T/e"
		[ $rc -eq 125 ] || [ $rc -eq 2 ]
		[ -s "$T/e" ]
		[ $(wc -l <"$T/e") -le 6 ]
		has "$(head -n 1 "$T/e")" cove
		has "$(cat "$T/e")" "$word"
		! LC_ALL=C grep -q "$(printf "[\001-\010\016-\037]")" "$T/e" || exit 1
		snapshot | diff "$T/before" -' "$@"
}

bad 'no such verb' frobnicate cove frobnicate
bad 'nearly a verb: a suggestion' start cove strat here
for verb in start stop restart kill rm reset inspect exec shell attach ps logs stats attest set edit; do
	case $verb in
	exec) bad "$verb: no such sandbox" nothere cove exec nothere -- true ;;
	set) bad "$verb: no such sandbox" nothere cove set nothere --pids 5 ;;
	*) bad "$verb: no such sandbox" nothere cove $verb nothere ;;
	esac
	bad "$verb: unknown flag" bogus cove $verb --bogus here
	for name in 'UPPER' '../x' 'a/b' '.hid' "$(printf 'esc\033[2J')" "$(head -c 300 /dev/zero | tr '\0' a)"; do
		case $verb in
		exec) bad "$verb: bad name" '' cove exec "$name" -- true ;;
		set) bad "$verb: bad name" '' cove set "$name" --pids 5 ;;
		*) bad "$verb: bad name" '' cove $verb "$name" ;;
		esac
	done
done
for verb in start stop restart kill rm reset inspect exec shell attach ps logs attest set edit; do
	bad "$verb: no name" '' cove $verb
done
for verb in ls version doctor completion config; do
	bad "$verb: unknown flag" bogus cove $verb --bogus
done
for name in 'UPPER' '../x' 'a/b' '.hid' '-x' '' 'a b' "$(printf 'new\nline')"; do
	bad 'create: bad name' '' cove create -- "$name"
done
bad 'create: taken name' here cove create here --no-mounts
bad 'exec: not running' here cove exec here -- true
bad 'exec: no command' '' cove exec here --
bad 'cp: no sandbox in either' '' cove cp /etc/passwd "$T/copy"
bad 'cp: no such sandbox' nothere cove cp nothere:/x "$T/copy"
bad 'cp: too few' '' cove cp here:/x
bad 'completion: no such shell' '' cove completion tcsh
bad 'config: no such word' '' cove config frob
bad 'config check: no such file' nofile cove config check "$T/nofile"
bad 'run: no command' '' cove run --no-mounts --
bad 'run: bad backend' banana cove run --backend banana --no-mounts -- true
bad 'run: backend that is not here' remote cove run --backend remote --no-mounts -- true
bad 'run: machines without QEMU' "$T/no-qemu" env "COVE_QEMU=$T/no-qemu" cove run --backend vm --no-mounts -- true
bad 'run: bad network' banana cove run --net banana --no-mounts -- true
bad 'run: bad image' banana cove run --image banana:x --no-mounts -- true
bad 'run: bad mount' '' cove run --no-mounts --mount :::: -- true
bad 'run: mount onto the root' '' cove run --no-mounts --mount "$T:/:ro" -- true
bad 'run: mount onto /proc' '' cove run --no-mounts --mount "$T:/proc:ro" -- true
bad 'run: bad variable' '' cove run --no-mounts --env =x -- true
bad 'run: bad number' '' cove run --no-mounts --pids many -- true
bad 'run: negative number' '' cove run --no-mounts --pids -5 -- true
bad 'run: bad duration' '' cove run --no-mounts --timeout soon -- true
bad 'run: unknown user' nosuchuser cove run --no-mounts --user nosuchuser -- true
bad 'run: unknown profile' noprofile cove run --no-mounts --profile noprofile -- true
bad 'run: spec file missing' nospec cove run --spec "$T/nospec.yaml" -- true
printf 'netwrok: {mode: none}\n' >"$T/s.yaml"
bad 'run: unknown key, with file, line and the nearest key' network cove run --spec "$T/s.yaml" -- true
printf 'name: x\nresources:\n  memoryMiB: lots\n  pids: -1\n' >"$T/s2.yaml"
bad 'run: wrong values' s2.yaml:3 cove run --spec "$T/s2.yaml" -- true
printf '\000\001\002' >"$T/s3.yaml"
bad 'run: binary spec' s3.yaml cove run --spec "$T/s3.yaml" -- true
printf 'a: &a [*a, *a]\n' >"$T/s4.yaml"
bad 'run: spec with aliases that grow' s4.yaml cove run --spec "$T/s4.yaml" -- true
bad 'run: a directory as spec' '' cove run --spec "$T" -- true

ok 'help works without a sandbox, for every verb' '
	cove --help >"$T/help"
	for verb in run create start stop restart kill rm reset ls inspect set edit exec shell attach ps cp logs stats doctor attest version completion config; do
		grep -qw $verb "$T/help"
		cove $verb --help >"$T/h"
		has "$(cat "$T/h")" "cove $verb"
	done'
ok 'a home that cannot be written is an error' '
	rc=0; COVE_HOME=/proc/nowhere cove create x --no-mounts 2>"$T/e" || rc=$?
	same 125 $rc
	[ -s "$T/e" ]'
ok 'a state path that is far too long is an error' '
	long=$T/$(head -c 200 /dev/zero | tr "\0" x)
	rc=0; COVE_HOME=$long cove run -q x --no-mounts -- true 2>"$T/e" || rc=$?
	[ $rc -eq 125 ] || [ $rc -eq 0 ]
	COVE_HOME=$long cove rm -f x 2>/dev/null || :
	rm -rf "$long"'

done_testing
