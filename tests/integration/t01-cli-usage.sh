#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line itself: help, wrong usage, the man page, completion. Nothing here starts a
# sandbox, and nothing here may change anything.
. "$(dirname "$0")/../lib/harness.sh"
mkdir "$T/p" && cd "$T/p" || exit 1
verbs=$(cove __verbs | sed -n 's/^verb //p')

# usage CMD...: exit 2, one line that names the verb, one hint, nothing on stdout
usage() {
	rc_is 2 "$@" >"$T/o" 2>"$T/e" </dev/null
	same "" "$(cat "$T/o")"
	same 2 "$(wc -l <"$T/e")"
	has "$(sed -n 1p "$T/e")" "cove"
	has "$(sed -n 2p "$T/e")" "hint: see 'cove"
}

ok 'cove --help lists every verb' '
	cove --help >"$T/help"
	for v in $verbs; do grep -q "^  $v " "$T/help"; done
	cove help | cmp - "$T/help"'
ok 'no verb: help on stderr, exit 2' '
	rc_is 2 cove >"$T/o" 2>"$T/e"
	test ! -s "$T/o" && grep -q usage "$T/e"'
ok 'every verb has help with usage, flags and an example' '
	for v in $verbs; do
		cove $v --help >"$T/o" 2>"$T/e"
		test ! -s "$T/e"
		grep -q "^usage: cove $v" "$T/o"
		grep -q "^flags:" "$T/o"
		grep -q "^example: .*cove $v" "$T/o" || [ $v = help ] || [ $v = completion ]
		cove help $v | cmp - "$T/o"
		! grep -n ".\{101\}" "$T/o" || exit 1
	done'
ok 'help wins over what else is wrong' 'cove exec --help >/dev/null; cove cp -h >/dev/null'

ok 'an unknown verb is refused with the nearest' '
	rc_is 2 cove rnu 2>"$T/e"; has "$(cat "$T/e")" "did you mean '"'cove run'"'"
	rc_is 2 cove attache 2>"$T/e"; has "$(cat "$T/e")" "cove attach"
	rc_is 2 cove qqqqqqq 2>"$T/e"; has "$(cat "$T/e")" "no such command"'
ok 'an unknown flag is refused with the nearest, in every verb' '
	usage cove run --memroy 1 -- true; has "$(cat "$T/e")" "did you mean --memory"
	for v in $verbs; do usage cove $v --no-such-flag-at-all; usage cove $v -Z; done'
ok 'a flag without its value, or with one too many' '
	usage cove run --memory
	usage cove ls --json=yes
	usage cove stop --grace soon a
	usage cove logs --tail many a
	usage cove exec a --timeout never -- true'
ok 'too few and too many words' '
	usage cove run
	usage cove run --
	usage cove exec
	usage cove exec a
	usage cove exec a --
	usage cove stop
	usage cove stop --all a
	usage cove inspect
	usage cove set a
	usage cove cp a
	usage cove ls a
	usage cove version 1
	usage cove config
	usage cove config frobnicate
	usage cove config check
	usage cove config init file
	usage cove completion tcsh
	usage cove help no-such-verb
	usage cove run a b -- true
	usage cove run ./ ./ -- true
	usage cove run a ./ c -- true
	usage cove diff
	usage cove apply
	usage cove undo
	usage cove undo a b
	usage cove discard
	usage cove scan
	usage cove snapshot a
	usage cove snapshot a b c
	usage cove snapshot rm a b c
	usage cove snapshot rm a b -m text
	usage cove snapshots
	usage cove restore a
	usage cove clone a
	usage cove export
	usage cove import
	usage cove volume
	usage cove volume frobnicate
	usage cove volume rm
	usage cove volume ls a
	usage cove kernel
	usage cove kernel frobnicate
	usage cove kernel add a
	usage cove audit'
ok 'values that are no number' '
	usage cove diff -U many a
	usage cove diff --unified=-1 a
	usage cove audit --tail many a'
ok 'what needs a name says so' '
	usage cove run --detach --no-mounts -- true
	usage cove run --keep --no-mounts -- true
	usage cove create'
ok 'flags that exclude each other' '
	usage cove run --keep --rm -- true
	usage cove run -t -T -- true
	usage cove audit --verify --tail 3 a
	usage cove audit --verify --follow a'
ok 'cp: exactly one side is a sandbox' 'usage cove cp a b; usage cove cp a:/b c:/d; usage cove cp a: b'
ok 'ls: a filter that does not exist' 'usage cove ls --filter colour=red; usage cove ls --filter state'
ok 'parts that come later are refused in one line, exit 125' '
	rc_is 125 cove run --backend vm --no-mounts -- true 2>"$T/e"
	has "$(cat "$T/e")" "vm"'
ok 'an --env name that is not set, or is no name' '
	usage cove run --no-mounts --env CT_NOT_SET_ANYWHERE -- true
	usage cove run --no-mounts --env =x -- true'
ok 'control characters in a message are escaped' '
	rc_is 2 cove "$(printf "x\033[31my\nz")" 2>"$T/e"
	! grep -q "$(printf "\033")" "$T/e" || exit 1
	has "$(cat "$T/e")" "\\x1b[31my\\x0az"'

ok 'every verb and flag is in the man page, and no other' '
	page="$COVE_SRC/man/cove.1"
	cove __verbs | sed -n "s/^flag [a-z]* --//p" | sort -u >"$T/flags"
	sed -n "s/^\.It Fl \(. , \)\{0,1\}-\([a-z-]*\).*/\2/p" "$page" | sort -u >"$T/man-flags"
	diff "$T/flags" "$T/man-flags"
	cove __verbs | sed -n "s/^verb //p" | sort -u >"$T/verbs"
	sed -n "/^\.Sh VERBS/,/^\.Sh FLAGS/s/^\.It Cm \([a-z]*\).*/\1/p" "$page" | sort -u >"$T/man-verbs"
	diff "$T/verbs" "$T/man-verbs"'
ok 'every verb has an example in the man page' '
	for v in $verbs; do grep -q "^\.Dl .*cove $v" "$COVE_SRC/man/cove.1" || { echo "$v"; false; }; done'
ok 'every exit code of the man page is in STABILITY, and the reverse' '
	sed -n "/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It \([0-9]*\)$/\1/p" "$COVE_SRC/man/cove.1" | sort >"$T/man-codes"
	sed -n "/^| exit code/,/^$/p" "$COVE_SRC/docs/STABILITY.md" | cut -d"|" -f2 | tr -d "+," |
		grep -o "\b[0-9][0-9]*\b" | grep -vx 128 | sort >"$T/codes"
	diff "$T/man-codes" "$T/codes"'
if command -v mandoc >/dev/null; then
	ok 'the man pages have no lint' 'mandoc -Tlint -Wwarning "$COVE_SRC"/man/*.[15]'
else
	skip 'the man pages have no lint' 'needs mandoc'
fi

ok 'completion scripts hold every verb and flag' '
	for shell in bash zsh fish; do
		cove completion $shell >"$T/$shell"
		for w in $(cove __verbs | sed "s/.* //;s/^--//" | sort -u); do grep -q -- "$w" "$T/$shell"; done
	done'
if command -v bash >/dev/null; then
	ok 'bash completion completes verbs, flags and values' '
		cat >"$T/try" <<-"END"
		. "$1"; shift
		COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cove
		echo "${COMPREPLY[*]}"
		END
		bash -n "$T/bash"
		same "restore restart resume reset" "$(bash "$T/try" "$T/bash" cove re)"
		same "--memory" "$(bash "$T/try" "$T/bash" cove run --mem)"
		same "none" "$(bash "$T/try" "$T/bash" cove run --net n)"
		same "trust" "$(bash "$T/try" "$T/bash" cove config tr)"'
fi
for shell in zsh fish; do
	if command -v $shell >/dev/null; then
		ok "the $shell completion parses" "$shell -n $T/$shell"
	fi
done

ok 'version, in words and as JSON' '
	has "$(cove version)" "cove 0"
	same "$(cove --version)" "$(cove version)"
	has "$(cove version --json)" "\"version\""'
ok 'a closed reader of stdout ends it quietly' '
	(cove --help; cove run --help; cove completion bash) 2>"$T/e" | true
	test ! -s "$T/e"'
ok 'a stdout that cannot be written is an error' '
	rc_is 125 cove version >/dev/full 2>"$T/e"
	has "$(cat "$T/e")" "No space left"'
ok 'closed standard descriptors do no harm' 'cove version <&- >"$T/o" 2>&-; has "$(cat "$T/o")" cove'
ok 'nothing was made' 'test -z "$(find "$COVE_HOME" -name spec.json)"'
done_testing
