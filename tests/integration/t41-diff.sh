#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cove diff: every kind of change, in every form; what it prints can be applied.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub" "$P/gone/deep"
seq 1 40 >"$P/numbers"
printf 'int main(void)\n{\n\treturn 0;\n}\n' >"$P/main.c"
printf 'no newline' >"$P/last"
printf 'a\r\nb\r\n' >"$P/crlf"
printf 'one\0two' >"$P/bin"
echo x >"$P/script" && chmod 644 "$P/script"
echo bye >"$P/gone/file" && echo deep >"$P/gone/deep/er"
ln -s numbers "$P/link"
echo moved >"$P/old name" && seq 100 140 >>"$P/old name"
echo t >"$P/turns"
cp -a "$P" "$T/was"

cat >"$T/edit.sh" <<'END'
set -e
sed -i -e 's/^7$/seven/' -e '/^30$/d' -e '20a twenty and a half' numbers
sed -i 's/return 0/return 1/' main.c
printf 'no newline\nmore' >last
printf 'a\r\nB\r\n' >crlf
printf 'one\0two\0three' >bin
chmod 755 script
rm -r gone
ln -sfn main.c link
mv 'old name' 'new name'
rm turns && ln -s nowhere turns
mkdir -p fresh/er
echo hello >fresh/er/file
: >empty
printf 'tab\n' >"$(printf 'tab\there')"
printf 'esc\n' >"$(printf 'esc\033[31mred')"
printf 'quote\n' >'quo"te'
printf '\033]0;title\007\n' >drive
END

ok 'nothing changed: no output, exit 0' '
	cd "$P"
	cove run -q none -- true
	same "" "$(cove diff none)"
	same "{\"changes\":[],\"files\":0,\"added\":0,\"removed\":0}" "$(cove diff --json none | jq -c .)"
	cove rm -f none'
ok 'the edits are made' '
	cd "$P"
	cove run -q box -- sh -c "$(cat "$T/edit.sh")"
	cmp "$P/numbers" "$T/was/numbers"'
ok 'running: names, sorted, quoted, none that is no change' '
	cove diff --name-only box >"$T/names"
	cat "$T/names"
	printf "%s\n" bin crlf drive empty "\"esc\\033[31mred\"" fresh fresh/er fresh/er/file gone gone/deep \
		gone/deep/er gone/file last link main.c "new name" numbers "\"quo\\\"te\"" script "\"tab\\there\"" \
		turns | cmp - "$T/names"'
cove stop box
ok 'stopped: the same' 'cove diff --name-only box | cmp - "$T/names"'
ok 'text has the form of git' '
	cove diff box >"$T/diff"
	cat "$T/diff"
	grep -qx "diff --git a/numbers b/numbers" "$T/diff"
	grep -qx -- "-7" "$T/diff" && grep -qx "+seven" "$T/diff"
	grep -qx "old mode 100644" "$T/diff" && grep -qx "new mode 100755" "$T/diff"
	grep -qx "rename from old name" "$T/diff" && grep -qx "rename to new name" "$T/diff"
	grep -qx "Binary files a/bin and b/bin (7 -> 13 bytes) differ" "$T/diff"
	grep -qx "new file mode 100644" "$T/diff" && grep -qx "deleted file mode 100644" "$T/diff"
	grep -qx "# gone: deleted directory" "$T/diff"
	grep -qx "# fresh: new directory, mode 0755" "$T/diff"
	grep -qF "\\ No newline at end of file" "$T/diff"'
ok 'edits of text equal those of git' '
	have GIT || lacks "needs git"
	mkdir -p "$T/up" && cd "$T" && rm -rf now && cp -a was now
	(cd now && sh -c "$(cat "$T/edit.sh")")
	for f in numbers main.c last crlf; do
		git diff --no-index "was/$f" "now/$f" | sed 1,4d >want || true
		cove diff box "$f" | sed 1,3d >got
		cmp want got || { diff want got; exit 1; }
	done'
ok 'git apply makes the same tree' '
	have GIT || lacks "needs git"
	cd "$T" && rm -rf tree && cp -a was tree && cd tree
	cp "$T/now/bin" bin
	cove diff box $(ls -A "$T/now" | grep -vE "^(bin|new name|tab|esc|quo)") "gone" "new name" "old name" \
		"*tab*" "*esc*" "quo*" >../patch || { cat ../patch; false; }
	git apply ../patch
	rm -rf gone
	diff -r --no-dereference . "$T/now"'
ok 'patch -p1 makes the same files' '
	command -v patch >/dev/null || lacks "needs patch"
	cd "$T" && rm -rf tree && cp -a was tree && cd tree
	cove diff box numbers main.c last crlf fresh gone/file >../patch
	patch -s -p1 <../patch
	for f in numbers main.c last crlf fresh/er/file; do cmp "$f" "$T/now/$f"; done
	! test -e gone/file'
ok 'git refuses a patch with a binary file in it' '
	have GIT || lacks "needs git"
	cd "$T" && rm -rf tree && cp -a was tree && cd tree
	cove diff box bin >../patch
	must_refuse git apply ../patch'
ok '-U' '
	same 0 "$(cove diff -U 0 box numbers | grep -c "^ ")"
	same 2 "$(cove diff -U1 box main.c | grep -c "^ ")"
	rc_is 2 cove diff -U x box'
ok '--stat has rows and a sum' '
	cove diff --stat box >"$T/stat"
	cat "$T/stat"
	grep -qE "^ numbers +\| +4 \+\+--$" "$T/stat"
	grep -qE "^ bin +\| Bin 7 -> 13 bytes$" "$T/stat"
	grep -qE "^ old name => new name +\| +0$" "$T/stat"
	tail -n 1 "$T/stat" | grep -qE "^ 21 files changed, [0-9]+ insertions\(\+\), [0-9]+ deletions\(-\)$"'
ok '--json tells kinds, modes, counts; with -U the text' '
	cove diff --json box >"$T/json"
	jq -e ".files == 21 and (.changes | length) == 21" "$T/json"
	is() { same "$1" "$(jq -r "$2" "$T/json")"; }
	is edited ".changes[] | select(.path == \"numbers\").kind"
	is "2 2" ".changes[] | select(.path == \"numbers\") | \"\(.added) \(.removed)\""
	is attributes ".changes[] | select(.path == \"script\").kind"
	is "100644 100755" ".changes[] | select(.path == \"script\") | \"\(.oldMode) \(.newMode)\""
	is "renamed old name" ".changes[] | select(.path == \"new name\") | \"\(.kind) \(.from)\""
	is retyped ".changes[] | select(.path == \"turns\").kind"
	is "numbers main.c" ".changes[] | select(.path == \"link\") | \"\(.oldTarget) \(.newTarget)\""
	is "[\"content\",\"binary\"]" ".changes[] | select(.path == \"bin\").what | tojson"
	is "$P" ".changes[0].source"
	is null ".changes[] | select(.path == \"numbers\").diff"
	cove diff --json -U3 box numbers | jq -re ".changes[0].diff" | grep -qx "+seven"'
ok 'names that are no text are escaped in JSON, with their bytes' '
	cove run -q box -- sh -c "echo x >\"\$(printf \"bad\\377\")\""
	cove stop box
	same "bad\\xff 626164ff" "$(cove diff --json box | jq -r ".changes[] | select(.pathHex) | \"\(.path) \(.pathHex)\"")"
	same "\"bad\\377\"" "$(cove diff --name-only box | grep bad)"'
ok 'paths narrow it; an unknown one is an error' '
	same "fresh/er/file" "$(cove diff --name-only box fresh/er/file)"
	same 3 "$(cove diff --name-only box fresh | wc -l)"
	same "main.c" "$(cove diff --name-only box "*.c")"
	rc_is 125 cove diff box nothing-of-that-name 2>"$T/err"
	has "$(cat "$T/err")" "nothing-of-that-name"'
ok 'an unknown sandbox is an error' '
	rc_is 125 cove diff no-such-box 2>"$T/err"
	has "$(cat "$T/err")" "cove diff: "'
ok 'a reader that leaves early is no error' '
	cove diff box | head -n 1'
if have SCRIPT; then
	# What a person sees: through a pager, in colour, and nothing that drives the terminal.
	tty_run() { TERM=xterm script -qec "$1" /dev/null </dev/null; }
	ok 'on a terminal: a pager' '
		COVE_PAGER="sed s/^/PAGED:/" tty_run "cove diff --name-only box" >"$T/out"
		has "$(cat "$T/out")" "PAGED:numbers"
		PAGER="sed s/^/PAGED:/" tty_run "cove diff --no-pager --name-only box" >"$T/out"
		! grep -q PAGED "$T/out" || exit 1
		COVE_PAGER="" tty_run "cove diff --name-only box numbers" >"$T/out"
		has "$(cat "$T/out")" numbers'
	ok 'on a terminal: colour, unless NO_COLOR' '
		tty_run "cove diff --no-pager box numbers" >"$T/out"
		grep -q "$(printf "\033\[32m+seven")" "$T/out"
		NO_COLOR=1 tty_run "cove diff --no-pager box numbers" >"$T/out"
		! grep -q "$(printf "\033")" "$T/out"'
	ok 'on a terminal: contents cannot drive it' '
		tty_run "cove diff --no-pager box drive" >"$T/out"
		! grep -q "$(printf "\033\]")" "$T/out" || exit 1
		grep -qF "\\x1b]0;title\\x07" "$T/out"
		tty_run "cove diff --no-pager box crlf" >"$T/out"
		grep -qF "+B^M" "$T/out"'
	ok 'in a file the bytes are those of the file' '
		cove diff box drive | grep -q "$(printf "\033\]0;title")"'
else
	skip 'on a terminal' 'script is not installed'
fi
ok 'directories become files and the reverse; odd modes; a giant' '
	mkdir -p "$T/p3/dir/in" && cd "$T/p3" && echo 1 >dir/in/f && echo 2 >file && echo 3 >set
	cp -a "$T/p3" "$T/p3was"
	cove run -q odd -- sh -ec "rm -r dir; echo now >dir; rm file; mkdir file; echo 4 >file/g; chmod 600 set
		truncate -s 65M giant; mkfifo pipe"
	cove diff odd >"$T/out"
	cat "$T/out"
	grep -qx "# dir: deleted directory" "$T/out"
	grep -qx "# file: new directory, mode 0755" "$T/out"
	grep -qx "# pipe: new fifo, mode 0644" "$T/out"
	grep -qx "new mode 100600" "$T/out"
	grep -qx "Binary files /dev/null and b/giant (0 -> 68157440 bytes) differ" "$T/out"
	cove diff odd dir dir/in/f file file/g >"$T/patch"
	cd "$T/p3was"
	! have GIT || git apply "$T/patch"
	! have GIT || same "now 4" "$(cat dir file/g | paste -sd" ")"
	cove rm -f odd'
ok 'an open pager holds nobody up' '
	have SCRIPT || lacks "needs script"
	mkfifo "$T/hold"
	COVE_PAGER="cat; cat \"$T/hold\"" TERM=xterm script -qec "cove diff box" /dev/null </dev/null >"$T/out" 2>&1 &
	wait_for 5 grep -q seven "$T/out"
	timeout 10 cove diff --name-only box >/dev/null
	: >"$T/hold"
	wait'
ok 'several mounts: each is named' '
	mkdir -p "$T/p2" && echo 1 >"$T/p2/other"
	cove run -q two --mount "$P:overlay" --mount "$T/p2:overlay" -- sh -c "echo 2 >$P/main.c; echo 2 >$T/p2/other"
	cove diff two >"$T/out"
	cat "$T/out"
	grep -qx "diff --git a/main.c b/main.c" "$T/out"
	grep -qx "# in $T/p2:" "$T/out"
	same "$T/p2" "$(cove diff --json two | jq -r ".changes[] | select(.path == \"other\").source")"
	same other "$(cove diff --name-only two "$T/p2/other" | tail -n 1)"
	cove rm -f two'
ok 'the cost follows the changes, not the tree' '
	have STRACE || lacks "needs strace"
	export ASAN_OPTIONS=detect_leaks=0
	calls() { strace -f -e trace=file,desc -o "$T/trace" cove diff --name-only "$1" >/dev/null && wc -l <"$T/trace"; }
	for n in 20 2000; do
		mkdir "$T/t$n"
		(cd "$T/t$n" && seq 1 $n | sed "s/^/f/" | xargs touch)
		cd "$T/t$n"
		cove run -q "n$n" -- sh -c "for i in 1 2 3 4 5 6 7 8 9; do echo x >f\$i; done"
		cove stop "n$n"
	done
	a=$(calls n20) b=$(calls n2000)
	echo "$a $b"
	[ "$b" -le $((a + 20)) ]'
done_testing
