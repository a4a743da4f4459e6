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
		s,(/[a-zA-Z0-9_.-]+)+/demo\b,DEMO,g; s/[0-9.]+ (B|KiB)\b/SIZE/g; s/ +/ /g' "$@"
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
