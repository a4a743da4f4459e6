#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whose change is it? Host and sandbox edit the same files while the sandbox runs: nobody's
# work is taken back, and what only the host did is no change of the sandbox.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
P=$T/p
mkdir "$P"
when_done 'cove rm -f box'

fresh() {
	cove rm -f box >/dev/null 2>&1 || true
	rm -rf "$P"
	mkdir "$P"
	seq 1 9 >"$P/text"
	echo one >"$P/other"
	cove create box --mount "$P:overlay" >/dev/null
	cove start box >/dev/null
}
# What the keeper notices at the end of an exec is noticed by any other command, too.
inside() { cove exec box -- sh -ec "cd '$P'; $1" && changed >/dev/null; }
changed() { cove diff box --name-only; }
lines() { tr '\n' ' ' <"$P/$1"; }

ok 'edits of other lines are merged, again and again, while it runs' '
	fresh
	inside "sed -i s/2/S/ text"
	sed -i s/8/H/ "$P/text"
	cove apply --yes box
	same "1 S 3 4 5 6 7 H 9 " "$(lines text)"
	same "" "$(changed)"
	inside "sed -i s/5/SS/ text"
	same text "$(changed)"
	cove apply --yes box
	same "1 S 3 4 SS 6 7 H 9 " "$(lines text)"'
ok 'what the host does after an apply is no change of the sandbox' '
	echo more >>"$P/text"
	same "" "$(changed)"
	rm "$P/text"
	same "" "$(changed)"'
ok 'what was only touched inside stays no change when the host goes on' '
	fresh
	inside "touch text; chmod 644 other"
	same "" "$(changed)"
	echo ten >>"$P/text"
	chmod 600 "$P/other"
	same "" "$(changed)"'
ok 'an edit that the sandbox saw is no conflict' '
	fresh
	sleep 0.1
	echo host >>"$P/other"
	sleep 0.1
	inside "echo sandbox >>other"
	cove apply --yes box
	same "one host sandbox " "$(lines other)"'
ok 'one that it cannot have seen is, also after a restart' '
	fresh
	inside "echo sandbox >other"
	echo host >"$P/other"
	rc_is 2 cove apply --yes box
	cove stop box
	cove start box
	rc_is 2 cove apply --yes box
	same host "$(cat "$P/other")"'
ok 'a file below a deleted directory that the host edited is kept' '
	fresh
	mkdir -p "$P/d/e" && echo old >"$P/d/e/f"
	inside "rm -r d"
	echo edited >"$P/d/e/f"
	rc_is 2 cove apply --yes box
	same edited "$(cat "$P/d/e/f")"'
ok 'what the agent locked away is named and stops the apply' '
	fresh
	inside "mkdir closed; echo x >closed/f; chmod 0 closed; echo y >open"
	has "$(changed)" closed
	has "$(changed)" open
	[ "$(id -u)" = 0 ] || must_refuse cove apply --yes box
	cove stop box
	cove discard --yes box
	same "" "$(changed)"'
done_testing
