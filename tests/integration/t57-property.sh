#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random edit scripts, run inside a sandbox and on a plain copy: apply gives the same tree, diff
# names what differs and nothing else, and undo brings the old tree back.
. "$(dirname "$0")/../lib/matrix-place.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/matrix.sh"
need USERNS JQ
P=$T/p
Q=$T/plain
SEEDS=${SEEDS:-15}
[ -z "${FULL:-}" ] || SEEDS=500
[ -z "$matrix_asan" ] || SEEDS=6
FIRST=${FIRST:-1} # the first seed, to repeat one: FIRST=77 SEEDS=1
gate='{"gate":{"maxFileMiB":1000,"maxTotalMiB":10000}}'

# Paths whose line differs in two manifests.
differing() { sort "$1" "$2" | uniq -u | cut -f2 | sort -u; }
manifest_name() { # the way a manifest writes names, from JSON strings
	jq -r 'explode | map(if . < 32 or . == 92 or . == 127 then "\\" + ((. / 64 | floor | tostring) +
		((. % 64) / 8 | floor | tostring) + (. % 8 | tostring)) else [.] | implode end) | add'
}
fresh() { # SEED: a tree, a copy of it, a sandbox on it
	cove rm -q -f s >/dev/null 2>&1
	rm -rf "$P" "$Q"
	mkdir "$P" && "$MUTATE" tree "$1" 40 "$P" && cp -a "$P" "$Q" && manifest "$P" >"$T/before" &&
		echo "$gate" >"$T/spec.json" &&
		cove create -q s --spec "$T/spec.json" --no-mounts --net none --mount "$P:/w:overlay" \
			--mount "$T/tools:/tools:ro"
}
inside() {
	if [ -n "${is_running:-}" ]; then
		cove exec s -- "$@"
	else
		cove run -q s -- "$@" && cove stop -q s
	fi
}
# Findings that may be accepted (a binary that can be run, a directory that became a symlink)
# are; one that may not is a failure.
apply() {
	rc=0
	cove apply --json --yes s >"$T/apply.json" 2>"$T/apply.err" || rc=$?
	[ $rc = 1 ] || { [ $rc = 0 ] || cat "$T/apply.err" "$T/apply.json"; return $rc; }
	jq -r '.findings[] | select(.hard) | .rule + " " + .path' "$T/apply.json" >"$T/hard"
	[ ! -s "$T/hard" ] || { cat "$T/hard"; return 1; }
	set --
	for id in $(jq -r '.findings[].id' "$T/apply.json"); do set -- "$@" --accept "$id"; done
	cove apply -q --yes "$@" s
}
names_are_right() { # BEFORE AFTER
	differing "$1" "$2" >"$T/want"
	cove diff --json s | jq -c '.changes[] | .path, .from // empty' | manifest_name | sort -u >"$T/got"
	diff "$T/want" "$T/got" || { echo "diff names other paths than those that differ"; return 1; }
	cove diff --name-only s | sort -u >"$T/plain-names"
	[ "$(wc -l <"$T/plain-names")" = "$(cove diff --json s | jq '.changes | length')" ]
}
one_seed() { # SEED
	fresh "$1" || { echo "not prepared"; return 1; }
	[ -z "${is_running:-}" ] || cove start -q s || return 1
	ops=$((5 + $1 * 7 % 60))
	"$MUTATE" edit "$1" $ops "$Q" && manifest "$Q" >"$T/after" || return 1
	inside /tools/mutate edit "$1" $ops /w || { echo "the script failed inside"; return 1; }
	inside /tools/mutate manifest /w | diff "$T/after" - || { echo "inside is not as on a plain copy"; return 1; }
	manifest "$P" | diff "$T/before" - || { echo "the host changed before apply"; return 1; }
	names_are_right "$T/before" "$T/after" || return 1
	apply || { echo "apply failed"; return 1; }
	manifest "$P" | diff "$T/after" - || { echo "the host is not as the plain copy"; return 1; }
	[ -z "$(cove diff --name-only s)" ] || { echo "changes are left:"; cove diff --name-only s; return 1; }
	inside /tools/mutate manifest /w | diff "$T/after" - || { echo "inside is not as it was before apply"; return 1; }
	cmp -s "$T/before" "$T/after" || cove undo -q --yes s || { echo "undo failed"; return 1; }
	manifest "$P" | diff "$T/before" - || { echo "undo did not bring the host back"; return 1; }
	inside /tools/mutate manifest /w | diff "$T/after" - || { echo "inside is not as it was before undo"; return 1; }
	names_are_right "$T/before" "$T/after"
}
# Several rounds of work and apply, without hard links (apply makes them files of their own).
rounds() { # SEED
	fresh "$1" || { echo "not prepared"; return 1; }
	[ -z "${is_running:-}" ] || cove start -q s || return 1
	for round in 1 2 3; do
		"$MUTATE" edit-nolinks $(($1 * 10 + round)) 12 "$Q" && manifest "$Q" >"$T/after" || return 1
		inside /tools/mutate edit-nolinks $(($1 * 10 + round)) 12 /w || { echo "round $round failed inside"; return 1; }
		inside /tools/mutate manifest /w | diff "$T/after" - || { echo "round $round: inside differs"; return 1; }
		manifest "$P" >"$T/before$round"
		names_are_right "$T/before$round" "$T/after" || { echo "round $round"; return 1; }
		apply || { echo "round $round: apply failed"; return 1; }
		manifest "$P" | diff "$T/after" - || { echo "round $round: the host differs"; return 1; }
	done
	[ -z "${is_running:-}" ] || cove stop -q s
	for round in 3 2 1; do
		next=$(cksum <"$T/before$round")
		[ "$(manifest "$P" | cksum)" = "$next" ] || cove undo -q --yes s || { echo "undo of $round failed"; return 1; }
		manifest "$P" | diff "$T/before$round" - || { echo "undo of round $round differs"; return 1; }
	done
}
every_seed() { # FUNCTION COUNT
	bad=0
	seed=$FIRST
	while [ "$seed" -lt $((FIRST + $2)) ]; do
		"$1" "$seed" >"$T/verdict" 2>&1 || {
			bad=$((bad + 1))
			echo "== seed $seed (FIRST=$seed SEEDS=1 repeats it)"
			tail -n 12 "$T/verdict" | cut -c 1-300
			[ $bad -lt 5 ] || break
		}
		seed=$((seed + 1))
	done
	[ $bad -eq 0 ]
}

ok "$SEEDS random scripts, stopped" 'every_seed one_seed $SEEDS' || :
ok "$((SEEDS / 3 + 1)) times three rounds of apply and undo, stopped" 'every_seed rounds $((SEEDS / 3 + 1))' || :
is_running=1
ok "$SEEDS random scripts, running" 'every_seed one_seed $SEEDS' || :
ok "$((SEEDS / 3 + 1)) times three rounds of apply and undo, running" 'every_seed rounds $((SEEDS / 3 + 1))' || :
is_running=

cove rm -q -f s
done_testing
