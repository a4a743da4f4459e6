#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files of a running sandbox and the host at work on them: what either does the other sees at once,
# who watches inside hears of it, and everything that programs expect of a file system holds, on a
# mount that is the host's own (rw) and on the layer above a workspace.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
mkdir -p "$T/w/d/e" "$T/rw/sub" "$T/bin2" && cp "$COVE_DIR/escape/fs_listen" "$COVE_DIR/escape/fs_torture" "$T/bin2/"
chmod 755 "$T/bin2"
cd "$T/w" && echo first >"$T/one" && echo old >d/e/old || exit 1
for d in "$T/w" "$T/rw"; do echo one >"$d/a"; echo never-looked-at >"$d/b"; echo c >"$d/c"; done
in_box() { cove exec box -- "$@"; }
sees() { # WANT SHELL-COMMAND: that is what the command prints inside, soon
	wait_for "$(patient 3)" sh -c '[ "$(cove exec box -- sh -c "$2" 2>&1 | tr "\n" " ")" = "$1 " ]' sh "$1" "$2" ||
		{ echo "$2: $(in_box sh -c "$2" 2>&1), not $1"; false; }
}
# What fs_listen said inside about $DIR, in order; a name that moved may be one that went or came.
hears() { # EXTENDED-REGEX
	wait_for "$(patient 5)" sh -c 'tail -n +"$1" "$T/heard" | grep -Eqx "$2"' sh "$((line + 1))" "$1" ||
		{ echo "never heard: $1"; cat "$T/heard"; false; }
	line=$(grep -Enx "$1" "$T/heard" | tail -n 1 | cut -d: -f1)
}
listen() { # PATH
	line=0
	cove exec box -- /tools/fs_listen "$1" >"$T/heard" 2>&1 &
	listener=$!
	hears ready
}

ok 'a sandbox with a workspace, and a directory of the host as it is' '
	cove create box . --mount "$T/rw:/rw:rw" --mount "$T/bin2:/tools:ro" --mount "$T/one:/one:ro"
	cove start box
	same "one one" "$(in_box cat a /rw/a | tr "\n" " " | sed "s/ $//")"'

for mount in rw w; do
	case $mount in rw) DIR=/rw ;; w) DIR=$T/w ;; esac
	HOST=$T/$mount
	export DIR HOST
	ok "$mount: what the host changes is seen inside" '
		in_box sh -c "ls -lR \"$DIR\"; cat \"$DIR\"/[abc]; ! test -e /rw/new || test \"$DIR\" != /rw" >/dev/null
		echo longer >"$HOST/a"; sees longer "cat $DIR/a"
		echo more >>"$HOST/a"; sees "longer more" "cat $DIR/a"
		echo born >"$HOST/new"; sees born "cat $DIR/new"
		chmod 600 "$HOST/new"; sees 600 "stat -c %a $DIR/new"'
done
ok 'a file that is mounted by itself: what the host changes is seen inside' '
	same first "$(in_box cat /one)"
	echo another >"$T/one"; sees another "cat /one"
	echo more >>"$T/one"; sees "another more" "cat /one"
	chmod 640 "$T/one"; sees 640 "stat -c %a /one"'
ok 'rw: what the host replaces, renames and removes is seen inside' '
	echo other >"$T/rw/x"; mv "$T/rw/x" "$T/rw/a"; sees other "cat /rw/a"
	mv "$T/rw/new" "$T/rw/sub/new"; sees "new born" "ls /rw/sub; cat /rw/sub/new; test -e /rw/new && echo there"
	rm "$T/rw/sub/new"; sees "a b c sub 0" "ls /rw; ls /rw/sub | wc -l"'
ok 'rw: what is done inside is there on the host' '
	in_box sh -ec "echo inside >/rw/i; mv /rw/i /rw/j; mkdir -p /rw/k/l; echo more >>/rw/a; rm /rw/b"
	same inside "$(cat "$T/rw/j")"
	same "other more" "$(paste -sd" " "$T/rw/a")"
	test -d "$T/rw/k/l" && ! test -e "$T/rw/b" && ! test -e "$T/rw/i"
	in_box sh -ec "rm -r /rw/k /rw/j; echo b >/rw/b"'

ok 'rw: thousands of changes at once are all seen, and end nothing' '
	mkdir "$T/rw/burst" && (cd "$T/rw/burst" && seq 1 3000 | xargs touch)
	same 3000 "$(in_box sh -c "ls -lU /rw/burst | grep -c rw")"
	for i in 1 2 3; do
		(cd "$T/rw/burst" && seq 1 3000 | xargs touch -d @$i)
		in_box true
	done
	(cd "$T/rw/burst" && seq 1 3000 | xargs rm && touch last)
	sees last "ls /rw/burst"
	rm -r "$T/rw/burst"
	sees gone "test -e /rw/burst || echo gone"'

ok 'rw: who watches inside hears what the host does' '
	HOST=$T/rw
	listen /rw
	echo longer >"$HOST/a"; hears "modify a"; hears "close_write a"
	echo more >>"$HOST/b"; hears "modify b"
	echo born >"$HOST/new"; hears "create new"; hears "close_write new"; sees born "cat /rw/new"
	mkdir "$HOST/dir"; hears "create dir"
	chmod 640 "$HOST/new"; hears "attrib new"
	rm "$HOST/new"; hears "delete new"; sees gone "test -e /rw/new || echo gone"
	rm "$HOST/c"; hears "delete c"
	rmdir "$HOST/dir"; hears "delete dir"
	mv "$HOST/a" "$HOST/a2"; hears "delete a|moved_from a"; hears "create a2|moved_to a2"
	echo other >"$HOST/sub/x"; mv "$HOST/sub/x" "$HOST/a2"; hears "create a2|moved_to a2"; sees other "cat /rw/a2"
	in_box sh -ec "echo mine >/rw/mine; mv /rw/mine /rw/mine2; rm /rw/mine2"; hears "delete mine2"
	echo end >"$HOST/end"; hears "create end"
	same "1 1 1" "$(for e in "create mine" "moved_to mine2" "delete mine2"; do grep -cx "$e" "$T/heard"; done | paste -sd" ")"
	in_box pkill fs_listen; wait $listener || true'
ok 'workspace: who watches inside hears what the host does' '
	needs VM "a watch on an overlay hears nothing of its lower directory"
	listen "$T/w"
	echo new >"$T/w/fresh"; hears "create fresh"; hears "close_write fresh"
	echo more >>"$T/w/b"; hears "modify b"
	in_box pkill fs_listen; wait $listener || true'
# To write to a file copies its directories up: they are others then to who looks at them from the
# host, by names that the guest has in use, and knows too well to look again.
ok 'workspace: a directory that is copied up stays where it is for who stands in it' '
	mkfifo "$T/go"
	cove exec -i box -- sh -ec "cd d/e; echo up >>old; echo stands; read go; readlink /proc/self/cwd; ls old; echo more >>old" \
		<"$T/go" >"$T/stood" 2>&1 & stands=$!
	exec 9>"$T/go"
	wait_for 5 grep -q stands "$T/stood"
	touch "$T/w/d/e" "$T/w/d"; echo mark >"$T/w/d/e/mark"
	sees mark "ls d/e | grep mark"
	echo go >&9
	exec 9>&-
	rc=0; wait $stands || rc=$?
	cat "$T/stood"; same 0 $rc
	same "stands $T/w/d/e old" "$(paste -sd" " "$T/stood")"
	same "old up more" "$(in_box cat d/e/old | paste -sd" ")"'

# Links, xattrs, fallocate, copy_file_range, O_TMPFILE, open files without a name, rename flags, exact
# times, shared mappings, locks: each part says what it tried.
parts=
# A machine that is emulated takes minutes for the rest; t72 has it.
! have VM || parts="content large allocated copied mapped names renames unlinked temporary special attributes locks synced"
export parts
for dir in /rw/sub "$T/w/d"; do
	export dir
	ok "what programs expect of a file system: $dir" '
		in_box sh -ec "mkdir $dir/t; cd $dir/t; /tools/fs_torture $parts" >"$T/log" || { grep -A1 "^not ok" "$T/log" || tail -n 3 "$T/log"; false; }
		grep -q "^1\\.\\." "$T/log"'
done
done_testing
