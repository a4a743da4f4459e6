#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The caller's terminal cannot be typed into or pasted to from inside.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS SCRIPT
start_box || exit 1

# Runs CMD on a terminal of its own and passes its exit status on.
on_terminal() {
	printf 'exec' >"$T/cmd"
	for word in "$@"; do printf " '%s'" "$word" >>"$T/cmd"; done
	script -qec "sh $T/cmd" /dev/null
}

ok 'control: TIOCSTI types into a terminal outside' '
	[ "$(cat /proc/sys/dev/tty/legacy_tiocsti 2>/dev/null || echo 1)" = 1 ] || [ "$(id -u)" = 0 ] || lacks "the host forbids TIOCSTI to everybody"
	on_terminal "$A" tiocsti'
attempt_any 'TIOCSTI on a terminal of its own' maybe tiocsti-own
attempt 'TIOCLINUX on a console of the host' root tioclinux /dev/tty1
attempt "the host's console" root console
for user in agent root; do
	ok "TIOCSTI on the terminal of the session, as $user" '
		needs PROCESS "the terminal is one of the machine, and of its kernel"
		must_refuse on_terminal cove run -q --rm --tty --user "$1" --no-mounts \
			--mount "$COVE_DIR/escape:ro" -- "$A" tiocsti' $user
	ok "TIOCSTI on stdin without a terminal inside, as $user" '
		must_refuse on_terminal cove run -q --rm --no-tty --user "$1" --no-mounts \
			--mount "$COVE_DIR/escape:ro" -- "$A" tiocsti' $user
	ok "TIOCLINUX on the terminal of the session, as $user" '
		needs PROCESS "the terminal is one of the machine, and of its kernel"
		must_refuse on_terminal cove run -q --rm --tty --user "$1" --no-mounts \
			--mount "$COVE_DIR/escape:ro" -- "$A" tioclinux -' $user
done
ok 'the terminal inside is not the terminal outside' '
	printf "%s\n" "tty; stat -Lc %d:%i /dev/stdin >$T/outer" "exec cove run -q --rm --tty --no-mounts -- stat -Lc %d:%i /dev/stdin" >"$T/two"
	inner=$(script -qec "sh $T/two" /dev/null | tail -n 1 | tr -d "\r")
	[ -n "$inner" ] && [ "$inner" != "$(cat "$T/outer")" ]'
ok 'exec with a terminal refuses the same' '
	needs PROCESS "the terminal is one of the machine, and of its kernel"
	must_refuse on_terminal cove exec --tty "$BOX" -- "$A" tiocsti'

done_testing
