#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A guest that was taken over attacks the host over the link. The host answers with a clean
# error (125) within seconds, with bounded memory, and prints nothing the guest made up raw.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS

evil() { # MODE: a guest program of that kind as $T/guest-MODE
	pad=$(printf '%-20s' "$1" | tr ' ' .)
	sed "s/EVIL-MODE=garbage............./EVIL-MODE=$pad/" "$COVE_DIR/escape/evil-guest" >"$T/guest-$1"
	chmod 755 "$T/guest-$1"
}
chmod 755 "$T"

# Address space is bounded in the release build; ASan's shadow does not fit below a limit, nor does
# the memory of a machine.
bounded() {
	if have STATIC_GUEST && have PROCESS; then
		timeout -s KILL 20 prlimit --as=268435456 "$@"
	else
		timeout -s KILL "$(patient 20)" "$@"
	fi
}
# Each kind of guest is a machine of its own, booted for the occasion: a few kinds, unless FULL.
modes() { # ALL FEW
	if have PROCESS || [ -n "${FULL:-}" ]; then echo "$1"; else echo "$2"; fi
}
! have VM || own_templates
attack() { # MODE CMD...: stderr in $T/err, stdout in $T/stdout
	evil "$1"
	mode=$1
	shift
	attack_rc=0
	COVE_GUEST=$T/guest-$mode bounded "$@" >"$T/stdout" 2>"$T/err" || attack_rc=$?
	cat "$T/err"
	! LC_ALL=C grep -q "$(printf '[\001-\010\016-\037]')" "$T/err" || exit 1
}

ok 'control: the hook takes a good guest' '
	cp "$COVE_DIR/cove-guest" "$T/good" && chmod 755 "$T/good"
	same fine "$(COVE_GUEST=$T/good cove run -q --no-mounts -- echo fine)"'

for mode in $(modes "garbage huge-length bad-magic bad-version no-hello half-hello silent bad-fd exit-alien \
	start-alien window attributes requests hello-twice alien-type escape-bye exit-signal gone" \
	"garbage huge-length half-hello requests gone"); do
	ok "one-shot: $mode" '
		start=$(date +%s)
		attack "$1" cove run -q --no-mounts --timeout 5s -- true
		same 125 $attack_rc
		[ $(wc -l <"$T/err") -le 3 ] && [ $(wc -c <"$T/err") -le 1200 ]
		[ $(($(date +%s) - start)) -le $(patient 15) ]' "$mode"
done
ok 'one-shot: a text with terminal escapes is shown harmless' '
	attack escape-text cove run -q --no-mounts --timeout 5s -- true
	[ $attack_rc -ge 125 ] && [ $attack_rc -le 127 ]
	[ $(wc -l <"$T/err") -le 3 ]'
ok 'one-shot: an exit code that does not fit is no success' '
	attack exit-code cove run -q --no-mounts --timeout 5s -- true
	[ $attack_rc -ne 0 ]'
ok 'one-shot: the first exit counts' '
	attack exit-twice cove run -q --no-mounts --timeout 5s -- true
	[ $attack_rc -ne 0 ]'
ok 'one-shot: data beyond the credit' '
	evil credit
	mkfifo "$T/slow"
	sleep 30 <"$T/slow" & p=$!
	rc=0
	COVE_GUEST=$T/guest-credit bounded cove run -q --no-mounts --timeout 5s -- true >"$T/slow" || rc=$?
	kill $p
	same 125 $rc'
ok 'one-shot: pings without end, answers never read' '
	attack pings cove run -q --no-mounts --timeout 3s -- true
	[ $attack_rc -eq 125 ] || [ $attack_rc -eq 124 ]'

for mode in $(modes "garbage silent bad-magic gone" garbage); do
	ok "named: start fails cleanly: $mode" '
		cove create -q "n$1" --no-mounts
		attack "$1" cove start -q "n$1"
		same 125 $attack_rc
		has "$(cove ls --json)" "\"n$1\""
		cove rm --force "n$1"' "$mode"
done
ok 'named: the keeper survives no protocol error, and says so' '
	evil alien-type
	cove create -q nx --no-mounts
	COVE_GUEST=$T/guest-alien-type bounded cove start -q nx
	rc=0; bounded cove exec nx -- true 2>"$T/err" || rc=$?
	same 125 $rc
	wait_for 5 sh -c "cove ls --json | jq -e \".[] | select(.name == \\\"nx\\\") | .state == \\\"stopped\\\"\""
	cove start -q nx
	cove exec nx -- true
	cove rm --force nx'
ok 'copy out of a lying sandbox writes nothing outside the target' '
	evil files
	mkdir -p "$T/deep/er/target"
	cove create -q liar --no-mounts
	COVE_GUEST=$T/guest-files bounded cove start -q liar
	rc=0; bounded cove cp -r liar:/anything "$T/deep/er/target/copy" || rc=$?
	[ $rc -ne 0 ]
	same "" "$(find "$T/deep" "$T" -maxdepth 3 -name "owned*")"
	! test -e /owned || exit 1
	cove kill liar || :
	cove rm --force liar'

done_testing
