#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the documentation shows is run. A block that opens with ```sh and has the comment
# `<!-- tested -->` on the line above is one script; it must exit 0. If a block follows that
# opens with ```text and has `<!-- output -->` above, its lines must all be printed. What differs
# from run to run (names of one-shots, ids of findings, times, durations, the directory, process
# and user ids) may differ.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS SOURCE

# Splits a page into $T/blocks/N.sh and N.want.
blocks() {
	rm -rf "$T/blocks" && mkdir "$T/blocks"
	awk -v dir="$T/blocks" '
		/^<!-- tested -->$/ { mark = "sh"; next }
		/^<!-- output -->$/ { mark = "want"; next }
		/^```/ && kind { kind = ""; close(file); next }
		/^```/ && mark {
			kind = mark; mark = ""
			if (kind == "sh") n++
			file = sprintf("%s/%03d.%s", dir, n, kind)
			next
		}
		kind { print > file }
		!kind && NF { mark = "" }' "$1"
}
# What changes from run to run, made the same.
plain() {
	sed -E 's/run-[a-z0-9]{8}/run-NAME/g; s/\b[0-9a-f]{16}\b/ID/g; s/[0-9]+\.[0-9]{3} s/TIME s/g
		s/[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:]{8}(\.[0-9]{3}Z)?/DATE/g; s/(uid[ =]|Pid=)[0-9]+/\1N/g
		s,(/[a-zA-Z0-9_.-]+)+/demo\b,DEMO,g; s/[0-9.]+ (B|KiB)\b/SIZE/g; s/ \(TIME s cpu\)//; s/ +/ /g' "$@"
}
found=0
for page in "$COVE_SRC/README.md" "$COVE_SRC"/docs/*.md "$COVE_SRC"/docs/recipes/*.md; do
	[ -r "$page" ] || continue
	blocks "$page"
	for block in "$T/blocks"/*.sh; do
		[ -e "$block" ] || continue
		found=$((found + 1))
		cp "$block" "$T/block.sh"
		rm -f "$T/block.want"
		[ ! -e "${block%.sh}.want" ] || cp "${block%.sh}.want" "$T/block.want"
		ok "$(basename "$page"): $(grep -v '^#' "$T/block.sh" | head -n 1)" '
			rm -rf "$T/demo" && mkdir "$T/demo" && cd "$T/demo"
			echo "# demo" >README.md && printf "test:\n\t@echo 12 tests passed\n" >Makefile
			timeout 60 sh -e "$T/block.sh" >"$T/o" 2>&1 || { cat "$T/o"; exit 1; }
			plain "$T/o" >"$T/printed"
			[ ! -e "$T/block.want" ] || plain "$T/block.want" |
				while read -r line; do has "$(cat "$T/printed")" "$line" || exit 1; done'
		for name in $(cove ls -q 2>/dev/null); do cove rm -f "$name" >/dev/null 2>&1; done
		for name in $(cove volume ls -q 2>/dev/null); do cove volume rm --yes "$name" >/dev/null 2>&1; done
	done
done
ok 'there are tested blocks in the documentation' '[ "$1" -gt 0 ]' $found
# Section NAME of a man page: its first literal block.
example() { sed -n "/^$2/,/^\.Ed/p" "$COVE_SRC/man/$1" | sed '1,/^\.Bd/d;/^\.Ed/d' | sed 's/\\(dq/"/g;s/\\-/-/g'; }
ok 'the examples of cove-spec(5) are accepted' '
	example cove-spec.5 "A spec with every key" >"$T/spec.yaml"
	example cove-spec.5 "A config file" >"$T/config.yaml"
	test -s "$T/spec.yaml" && test -s "$T/config.yaml"
	cove config check "$T/spec.yaml"
	cove config check "$T/config.yaml"'
ok 'the spec with every key has every key' '
	sed -n "s/^\.It Cm \([a-z]*\)[. ].*/\1/p" "$COVE_SRC/man/cove-spec.5" | sed -n "1,/provision/p" | sort -u |
		grep -vxE "source|target|mode|shared|unprotect|layer|vm|remote|overlay|ro|rw|copy|volume" |
		while read -r key; do grep -q "^$key:" "$T/spec.yaml" || { echo "$key"; exit 1; }; done'

# keys ROW: the keys of the outermost object that STABILITY promises for a row of its table
keys() {
	sed -n "s/^| $1 | \(.*\) |\$/\1/p" "$COVE_SRC/docs/STABILITY.md" |
		sed -E 's/^array of: //;:a;s/ *[[(][^][()]*[])]//;ta;s/;.*//;s/,//g;s/\.[a-zA-Z.]*//g'
}
# promised ROW: standard input is JSON that has them
promised() {
	cat >"$T/json"
	[ -n "$(keys "$1")" ] || { echo "no row $1"; return 1; }
	for key in $(keys "$1"); do
		jq -e "(if type == \"array\" then .[0] else . end) | has(\"$key\")" "$T/json" >/dev/null ||
			{ echo "$1: no $key"; cat "$T/json"; return 1; }
	done
}
if have JQ; then
	ok 'JSON has the keys that STABILITY promises' '
		rm -rf "$T/demo" && mkdir "$T/demo" && cd "$T/demo"
		echo one >a
		cove run -q box --mount .:overlay --mount vol:/v:volume -- sh -c "echo two >a; echo use x >.envrc"
		cove diff --json box | promised diff
		rc_is 1 cove apply --json box | promised "apply, undo"
		cove apply --json box a | promised "apply, undo"
		cove undo --json box | promised "apply, undo"
		cove snapshot --json box one | promised snapshot
		cove snapshots --json box | promised snapshots
		cove volume ls --json | promised "volume ls"
		cove scan --json a | promised scan
		cove audit --json box | head -n 1 | promised audit
		cove audit --verify --json box | promised "audit --verify"
		cove ls --json | promised ls
		cove inspect box | promised ls
		cove attest --json box | promised attest
		cove stop box
		cove discard --yes --json box | promised discard
		cove doctor --json | promised doctor
		cove version --json | promised version'
else
	skip 'JSON has the keys that STABILITY promises' 'needs jq'
fi
ok 'links between the pages lead somewhere' '
	bad=0
	for page in "$COVE_SRC"/*.md "$COVE_SRC"/docs/*.md "$COVE_SRC"/docs/recipes/*.md; do
		[ -r "$page" ] || continue
		for link in $(grep -oE "\]\([^)#]+" "$page" | cut -c3- | grep -vE "^[a-z]+:"); do
			[ -e "$(dirname "$page")/$link" ] || { echo "$page: $link"; bad=1; }
		done
	done
	[ $bad = 0 ]'

done_testing
