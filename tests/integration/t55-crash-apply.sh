#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# apply and undo, cut off at every system call by SIGKILL, a full disk or a broken one: the
# next command finds the host wholly before or wholly after, and the sandbox's work whole.
. "$(dirname "$0")/../lib/matrix-place.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/matrix.sh"
need USERNS JQ
P=$T/p
BASE=$T/base
quick=${MATRIX_SECONDS:-2}
[ -z "$matrix_asan" ] || quick=1

mkdir -p "$BASE/sub/deep" "$BASE/gone/in" "$BASE/dir" "$BASE/moved" && (
	cd "$BASE" || exit 1
	seq 1 200 >text
	echo one >one
	echo two >sub/two
	echo deep >sub/deep/f
	echo g >gone/in/g
	echo h >gone/h
	echo d >dir/d
	echo old >file
	head -c 3000 /dev/zero | tr '\0' x >big
	echo moved >moved/m
	ln -s one link
	printf '#!/bin/sh\n' >run
	chmod 755 run
	echo same >untouched
	chmod 750 sub
) || exit 1
cat >"$T/tools/change" <<'END'
set -e
cd "$1"
echo edited >one; sed -i s/100/hundred/ text; rm sub/two; rm -rf gone; mv big bigger
rm -rf dir; echo now a file >dir; rm file; mkdir file; echo x >file/x; echo y >file/y
ln -sfn sub/new link; echo new >sub/new; chmod 644 run; chmod 700 sub/deep
echo '#!/bin/sh' >tool; chmod 755 tool; mkdir -p made/in; echo m >made/in/m; mkdir empty
echo again >moved/n; rm moved/m; ln -s one second; mv untouched sub/deep/touched
END

manifest "$BASE" >"$T/before"
cp -a "$BASE" "$T/plain" && sh "$T/tools/change" "$T/plain" && manifest "$T/plain" >"$T/after"
rm -rf "$T/plain"

drop() {
	cove rm -q -f s >/dev/null 2>&1
	rm -rf "$P"
	cp -a "$BASE" "$P"
}
new_box() { # [FLAGS]
	drop && cove create -q s --no-mounts --mount "$P:/w:overlay" --mount "$T/tools:/tools:ro" --net none
}
stopped() {
	new_box && cove run -q s -- sh /tools/change /w && cove stop -q s
}
running() {
	new_box && cove start -q s && cove exec s -- sh /tools/change /w
}
view() {
	if [ -n "${is_running:-}" ]; then
		cove exec s -- /tools/mutate manifest /w
	else
		cove run -q s -- /tools/mutate manifest /w && cove stop -q s
	fi
}
stopped_applied() { stopped && cove apply -q --yes s; }
running_applied() { running && cove apply -q --yes s; }
stopped && cove diff --name-only s >"$T/names"
[ -s "$T/names" ] || echo "# no changes: nothing can be tested"
: >"$T/nothing"

# Where the host is: before or after; anything else is a torn state.
where() {
	cove ls >/dev/null || { echo "cove ls failed"; return 1; }
	manifest "$P" >"$T/host"
	if cmp -s "$T/host" "$T/before"; then
		place=before
		cove diff --name-only s | diff "$T/names" - || { echo "not all changes are there"; return 1; }
	elif cmp -s "$T/host" "$T/after"; then
		place=after
		cove diff --name-only s | diff "$T/nothing" - || { echo "applied changes are still there"; return 1; }
	else
		echo "the host is torn:"
		diff "$T/before" "$T/host"
		return 1
	fi
	view >"$T/view" || { echo "the sandbox does not show its files"; return 1; }
	diff "$T/after" "$T/view" || { echo "the sandbox's view is not what it made"; return 1; }
}
reach() { # before|after: the host is there now
	manifest "$P" | diff "$T/$1" - || { echo "the second time does not get there"; return 1; }
}
judge_apply() { # RC
	where || return 1
	[ "$1" != 0 ] || [ "$place" = after ] || { echo "success was claimed"; return 1; }
	cove apply -q --yes s || { echo "the second apply failed"; return 1; }
	reach after || return 1
	[ "$place" = before ] || return 0
	cove diff --name-only s | diff "$T/nothing" -
}
judge_undo() {
	where || return 1
	[ "$1" != 0 ] || [ "$place" = before ] || { echo "success was claimed"; return 1; }
	[ "$place" = before ] || cove undo -q --yes s || { echo "the second undo failed"; return 1; }
	reach before || return 1
	cove diff --name-only s | diff "$T/names" - || return 1
	cove apply -q --yes s && reach after
}

for mode in kill enospc eio enospc-stays; do
	matrix 'apply, stopped' stopped judge_apply $mode "$quick" cove apply -q --yes s
	matrix 'undo, stopped' stopped_applied judge_undo $mode "$quick" cove undo -q --yes s
done
is_running=1
for mode in kill enospc eio; do
	matrix 'apply, running' running judge_apply $mode "$quick" cove apply -q --yes s
	matrix 'undo, running' running_applied judge_undo $mode "$quick" cove undo -q --yes s
done
is_running=

# The completion itself can be cut off too, again and again.
judge_twice() {
	for k in 3 11 2 17 5; do
		"$INJECT" -n $k -o "$T/hit2" cove ls >/dev/null 2>&1
	done
	judge_apply "$1"
}
matrix 'apply, and its completion' stopped judge_twice kill "$quick" cove apply -q --yes s

# The project on one file system and the sandbox on another: renames become copies. Then both
# on disk, whatever the rest ran on.
disk=$(mktemp -d /var/tmp/ct.XXXXXX) && mkdir -m 700 "$disk/c" || exit 1
when_done "rm -rf '$disk'"
here=$COVE_HOME
cove rm -q -f s
COVE_HOME=$disk/c
for mode in kill enospc; do
	matrix 'apply, two file systems' stopped judge_apply $mode "$quick" cove apply -q --yes s
	matrix 'undo, two file systems' stopped_applied judge_undo $mode "$quick" cove undo -q --yes s
done
cove rm -q -f s
P=$disk/p
matrix 'apply, on disk' stopped judge_apply kill "$quick" cove apply -q --yes s
cove rm -q -f s
COVE_HOME=$here P=$T/p

# What a power cut could undo must not be relied on. Over the calls of one apply: what was
# written or named since its last fsync is dirty, and may not be when the next phase begins.
cat >"$T/order" <<'ORDER'
function stage(x) { return index(x, p "/.cove-stage-") == 1 }
function host(x) { return index(x, p "/") == 1 && !stage(x) }
function up(x) { sub("/[^/]*$", "", x); return x }
function bad(what) { print "call " $1 ": " what; failed = 1 }
function clean(prefix, when) {
	for (x in dirty)
		if (index(x, prefix) == 1)
			bad(x " is not on disk " when)
}
$3 < 0 { next }
$2 == "syncfs" { for (x in dirty) delete dirty[x]; next }
$2 ~ /^f(data)?sync$/ { delete dirty[$4]; next }
host($4) && $2 !~ /sync/ && !go++ { bad("a step before the journal is under way") }
host($4) && (c in dirty) && !done { bad("a step, and the journal's name is not on disk") }
index($4, c "/m0/upper/") == 1 && (!done || (c in dirty)) && $2 !~ /^open/ {
	bad("the sandbox's change goes before the host has it") }
$2 == "renameat" && $4 == c "/apply.prep" { go = 1; clean(p, "when the steps begin"); clean(c "/apply.prep", "when the steps begin") }
$2 == "renameat" && $4 == c "/apply.go" { done = 1; clean(p, "when the apply counts as done") }
$2 ~ /^(p?write|ftruncate|fallocate|fchmod$|fchown$|fsetxattr|ioctl|sendfile|open)/ { dirty[$4] = 1 }
$2 == "copy_file_range" { dirty[$5] = 1 }
$2 ~ /^open/ && $5 ~ /[4-7c-f].$/ { dirty[up($4)] = 1 }
$2 ~ /^(mkdir|mknod|symlink)/ { dirty[up($2 ~ /^sym/ ? $5 : $4)] = 1 }
$2 ~ /^unlink/ { delete dirty[$4]; dirty[up($4)] = 1 }
$2 ~ /^rename/ { delete dirty[$4]; dirty[up($4)] = 1; dirty[up($5)] = 1 }
END { if (!go || !done) { print "no apply was seen"; failed = 1 } exit failed }
ORDER
ok 'stage and journal are on disk before the first step, all steps before the sandbox lets go' '
	stopped
	"$INJECT" -l -w files -o "$T/calls" cove apply -q --yes s
	awk -F "\t" -v p="$P" -v c="$COVE_HOME/sandboxes/s" -f "$T/order" "$T/calls"'

# After the crash, before the next command, somebody edits what has landed and what has not.
# The n-th rename of an apply: 1 gone away, 2 a, 3 b, 4 c, 5 made/f, 6 n; of its undo: the same
# from the end.
few() {
	cove rm -q -f s >/dev/null 2>&1
	rm -rf "$P" && mkdir "$P" && for f in a b c gone; do echo "old $f" >"$P/$f"; done
	cove create -q s --no-mounts --mount "$P:/w:overlay" --net none
	cove run -q s -- sh -ec "cd /w; for f in a b c n; do echo new \$f >\$f; done; mkdir -p made/in; echo new f >made/f; rm gone"
	cove stop -q s
}
cut_at() { # N CMD...: killed before the n-th rename of the steps
	cut_n=$1
	shift
	rc_is 137 "$INJECT" -n "$cut_n" -s renameat2 -o "$T/hit" "$@" && has "$(cat "$T/hit")" hit
}
now() { (cd "$P" && for f in "$@"; do cat "$f" 2>/dev/null || echo "no $f"; done | paste -sd,); }
saved() { cat "$COVE_HOME/sandboxes/s/quarantine"/*-"$1"; }
ok 'an apply that was cut off, and nobody edits: it is completed, and the log says so' '
	few; cut_at 5 cove apply -q --yes s
	same "new a,new b,new c,no made/f,no n,no gone" "$(now a b c made/f n gone)"
	cove ls >/dev/null
	same "new a,new b,new c,new f,new n,no gone" "$(now a b c made/f n gone)"
	same "" "$(cove diff --name-only s)"
	same "begun completed" "$(cove audit --json s | jq -r "select(.event == \"apply\").result" | paste -sd" ")"'
cut_and_edited() {
	few && cut_at 5 cove apply -q --yes s || return 1
	echo host a >"$P/a" && echo host c >"$P/c.new" && mv "$P/c.new" "$P/c" && echo host gone >"$P/gone"
	echo host n >"$P/n" && echo host x >"$P/made/in/x"
}
edits="host a,old b,host c,no made/f,host x,host n,host gone"
judge_edited() {
	cove ls >/dev/null || return 1
	same "$edits" "$(now a b c made/f made/in/x n gone)" || return 1
	same "old a,old c,old gone" "$(for f in a c gone; do saved $f; done | paste -sd,)" || return 1
	cove diff --name-only s >"$T/left" 2>"$T/err" || { cat "$T/err"; return 1; }
	same "a b c gone made/f n" "$(paste -sd" " "$T/left")"
}
ok 'edits of the host after a cut-off apply survive it and the next one, and are told' '
	cut_and_edited
	judge_edited
	for f in a c gone; do has "$(cat "$T/err")" "$P/$f: changed on the host after an apply was cut off: it stays, and the file it replaced was saved; moved to"; done
	for f in made made/in n; do has "$(cat "$T/err")" "$P/$f: changed on the host after an apply was cut off: it stays as it is"; done
	same "755 755" "$(stat -c %a "$P/made" "$P/made/in" | paste -sd" ")"
	rc_is 2 cove apply -q --yes s 2>"$T/err"
	for f in a c gone n; do has "$(cat "$T/err")" "$f: conflict"; done
	same "$edits" "$(now a b c made/f made/in/x n gone)"
	same "begun,taken back,begun,conflict" "$(cove audit --json s | jq -r "select(.event == \"apply\").result" | paste -sd,)"
	cove apply -q --yes s b
	cove apply -q --yes --overwrite s
	same "new a,new b,new c,new f,host x,new n,no gone" "$(now a b c made/f made/in/x n gone)"
	same "" "$(find "$P" -name ".cove*")"'
for mode in kill enospc eio; do
	matrix 'recovery with edits of the host' cut_and_edited judge_edited $mode "$quick" cove ls
done
ok 'an edit of what had not landed yet is no less safe' '
	for n in 1 2 3 4 5 6; do
		few; cut_at $n cove apply -q --yes s
		echo host c >"$P/c"; echo host n >"$P/n"
		cove diff --name-only s >/dev/null 2>"$T/err"
		same "old a,old b,host c,host n,old gone" "$(now a b c n gone)"
		has "$(cat "$T/err")" "$P/c: changed on the host"; has "$(cat "$T/err")" "$P/n: changed on the host"
		rc_is 2 cove apply -q --yes s; same "old a,old b,host c,host n,old gone" "$(now a b c n gone)"
	done'
ok 'edits of the host after a cut-off undo survive it, and are told; nothing is torn' '
	few; cove apply -q --yes s; cut_at 4 cove undo -q --yes s
	same "new a,new b,old c,no n" "$(now a b c n)"
	echo host a >"$P/a"; echo host c >"$P/c"
	cove ls >/dev/null
	same "host a,new b,host c,new f,new n,no gone" "$(now a b c made/f n gone)"
	cove diff --name-only s >"$T/left" 2>"$T/err"
	same "" "$(cat "$T/left")"
	for f in a c; do has "$(cat "$T/err")" "$P/$f: changed on the host after an undo was cut off"; done
	rc_is 2 cove undo -q --yes s
	same "host a,new b,host c,new f,new n,no gone" "$(now a b c made/f n gone)"
	few; cove apply -q --yes s; cut_at 4 cove undo -q --yes s; echo host c >"$P/c"; cove ls >/dev/null
	same "old a,old b,host c,no made/f,no n,old gone" "$(now a b c made/f n gone)"
	rc_is 2 cove apply -q --yes s 2>"$T/err"; has "$(cat "$T/err")" "c: conflict"; same "host c" "$(cat "$P/c")"'

cove rm -q -f s
done_testing
