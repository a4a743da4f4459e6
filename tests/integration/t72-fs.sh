#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The file server of virtual machines without one: cove-fs and the guest's own pump between this
# kernel's /dev/fuse and a directory. What programs expect of a file system, what the host changes
# meanwhile, and a guest that lies.
. "$(dirname "$0")/../lib/harness.sh"
process_only 'this file needs no machine at all'
need ROOT
[ -c /dev/fuse ] || skip_all 'needs /dev/fuse'

fs=$COVE_DIR/cove-fs
tools=$COVE_DIR/escape
somebody=54321
mkdir -p "$T/src" "$T/mnt" "$T/low/d" "$T/up" "$T/work" && chmod 755 "$T"
export fs tools

# A program with shared libraries cannot live in a directory of ours: then all of / is served.
if grep -q asan_init "$fs"; then
	root=/ inside=$T/mnt$T/src
else
	root=$T/src inside=$T/mnt
fi
alone() { [ "$root" != / ] || lacks 'the server of this build is not alone in its root'; }

# in_fs [-u UID] NAME - runs $T/NAME in the mounted directory; $HOST is the directory itself
in_fs() {
	who=0
	[ "$1" != -u ] || { who=$2; shift 2; }
	chown "$who" "$T/src"
	(cd "$T/src" && find . -mindepth 1 -delete)
	[ ! -e "$T/$1.before" ] || (cd "$T/src" && sh -e "$T/$1.before")
	FS_UID=$who RUN_UID=$who HOST=$T/src run_in "$root" "$inside" "$1"
}
run_in() { # ROOT INSIDE NAME
	timeout 150 "$tools/fs_mount" "$fs" "$1" "$T/mnt" sh -ec ". '$T/lib'; cd '$2'; . '$T/$3'"
}
# What the host does is there within a moment, although the guest may keep everything for an hour.
cat >"$T/lib" <<'END'
same() { [ "$1" = "$2" ] || { echo "want: $1"; echo " got: $2"; exit 1; }; }
at_once() { # COMMAND WHAT-IT-PRINTS
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(eval "$1" 2>&1 | tr '\n' ' ')" != "$2" ] || return 0
		sleep 0.1
	done
	echo "$1: $(eval "$1" 2>&1 | tr '\n' ' '), not $2"
	exit 1
}
END
echo true >"$T/nothing"
in_fs nothing 2>"$T/why" || skip_all "no FUSE mount here: $(tail -n 1 "$T/why")"

cat >"$T/torture" <<'END'
"$tools/fs_torture" >"$T/log" || { grep -A1 '^not ok' "$T/log"; exit 1; }
END
: >"$T/log" && chmod 666 "$T/log"
ok 'the torture test holds on a plain directory' 'mkdir "$T/plain"; cd "$T/plain"; . "$T/torture"'
ok 'and through the server, as root' 'in_fs torture'
ok 'and as an ordinary user' 'in_fs -u $somebody torture'
ok 'and without a window' 'FS_NO_WINDOW=1 in_fs torture'

# Lengths around a page, a sector, what is worth the window, a slot, and all slots.
cat >"$T/long" <<'END'
for n in 32767 32768 32769 33280 65535 1048575 1048576 1048577 9000001; do
	head -c $n /dev/urandom >"$HOST/out"
	cmp "$HOST/out" "$PWD/out"
	head -c $n /dev/urandom >in
	cksum <in >"$T/sum"
	same "$(cat "$T/sum")" "$(cksum <"$HOST/in")"
	dd if="$HOST/out" of=in bs=300000 conv=notrunc oflag=append status=none
	same "$((n * 2))" "$(stat -c %s "$HOST/in")"
	tail -c $n "$HOST/in" | cmp - "$HOST/out"
	dd if="$HOST/out" of=over bs=1M status=none
	printf x | dd of=over bs=1 seek=$((n / 2)) conv=notrunc status=none
	same "$n" "$(stat -c %s "$HOST/over")"
	same x "$(dd if="$HOST/over" bs=1 skip=$((n / 2)) count=1 status=none)"
done
# several at once, more than there are slots
for i in 1 2 3 4 5 6 7 8; do head -c 3000000 /dev/urandom >"$HOST/many$i"; done
for i in 1 2 3 4 5 6 7 8; do cat many$i >copy$i & done
wait
for i in 1 2 3 4 5 6 7 8; do cmp "$HOST/many$i" "$HOST/copy$i"; done
END
ok 'long files are the same on both sides' 'in_fs long'
ok 'without a window, too' 'FS_NO_WINDOW=1 in_fs long'

cat >"$T/unpack" <<'END'
tar xpf "$T/a.tar"; diff -r --no-dereference "$T/tree" .
END
ok 'an archive unpacked there is the same tree' '
	mkdir "$T/tree"; cp -a "$COVE_SRC/src/base" "$COVE_SRC/src/fs" "$T/tree/"
	ln -s nowhere "$T/tree/link"; ln "$T/tree/base/io.c" "$T/tree/hard"; chmod 711 "$T/tree/fs"
	tar -C "$T/tree" --format=pax -cf "$T/a.tar" .
	in_fs unpack
	for d in tree src; do
		(cd "$T/$d" && find . -mindepth 1 -printf "%p %y %m %l %T@ %n\n" | sed "s/ d \(.*\) [0-9]*$/ d \1/" | sort) >"$T/$d.list"
	done
	diff "$T/tree.list" "$T/src.list"'

cat >"$T/git" <<'END'
git clone -q "$T/repo" r
cd r
same '' "$(git status --porcelain)"
echo >>base/io.c
same ' M base/io.c' "$(git status --porcelain)"
git -c user.name=n -c user.email=e commit -qam two
git fsck --strict 2>&1
END
if have GIT; then
	ok 'git clones, commits and finds nothing changed' '
		git -c init.defaultBranch=m init -q "$T/repo"; cp -a "$COVE_SRC/src/base" "$T/repo/"
		cd "$T/repo" && git add . && git -c user.name=n -c user.email=e commit -qm one
		in_fs git'
else
	skip 'git clones, commits and finds nothing changed' 'needs GIT'
fi

# ---- the host at work ------------------------------------------------------------------------
cat >"$T/host.before" <<'END'
mkdir sub; echo one >a; echo b >sub/b; ln -s a l
END
cat >"$T/host" <<'END'
ls -lR . >/dev/null; cat a sub/b >/dev/null; ! test -e new || exit 1
echo longer >"$HOST/a"; at_once 'cat a' 'longer '
echo more >>"$HOST/a"; at_once 'cat a' 'longer more '
: >"$HOST/a"; at_once 'cat a; stat -c %s a' '0 '
echo born >"$HOST/new"; at_once 'cat new; ls' 'born a l new sub '
rm "$HOST/new"; at_once 'ls' 'a l sub '
echo other >"$HOST/x"; mv "$HOST/x" "$HOST/a"; at_once 'cat a' 'other '
chmod 600 "$HOST/a"; at_once 'stat -c %a a' '600 '
ln -sfn sub "$HOST/l"; at_once 'readlink l' 'sub '
mv "$HOST/sub/b" "$HOST/b"; at_once 'ls sub; cat b' 'b '
mv "$HOST/sub" "$HOST/sub2"; at_once 'ls' 'a b l sub2 '
exec 5<a; cat <&5 >/dev/null; echo tail >>"$HOST/a"; at_once 'cat <&5' 'tail '
END
ok 'what the host changes is seen inside' 'in_fs host'

# What a program hears that watches a directory, in the order of what the host does.
cat >"$T/lib.listen" <<'END'
hears() { # EVENT: it comes, and after what came before
	i=0
	until sed -n "$line,\$p" "$T/heard" | grep -qx "$1"; do
		i=$((i + 1)); [ $i -lt 100 ] || { echo "never heard: $1"; cat "$T/heard"; exit 1; }
		sleep 0.1
	done
	line=$(grep -nx "$1" "$T/heard" | tail -n 1 | cut -d: -f1)
}
listen() { # PATH...
	"$tools/fs_listen" "$@" >"$T/heard" & listener=$!
	line=1
	hears ready
}
END
cat >"$T/inotify.before" <<'END'
mkdir sub; echo one >a; echo never-looked-at >b; echo c >c
END
cat >"$T/inotify" <<'END'
. "$T/lib.listen"
stat a >/dev/null
listen .
echo longer >"$HOST/a"; hears 'modify a'; hears 'close_write a'; same longer "$(cat a)"
echo more >>"$HOST/b"; hears 'modify b'
echo born >"$HOST/new"; hears 'create new'; hears 'close_write new'; same born "$(cat new)"
mkdir "$HOST/dir"; hears 'create dir'; test -d dir
ln -s a "$HOST/link"; hears 'create link'; same a "$(readlink link)"
chmod 600 "$HOST/new"; hears 'attrib new'; same 600 "$(stat -c %a new)"
rm "$HOST/new"; hears 'delete new'; ! test -e new || exit 1
rm "$HOST/c"; hears 'delete c'; ! test -e c || exit 1
rmdir "$HOST/dir"; hears 'delete dir'; ! test -e dir || exit 1
mv "$HOST/a" "$HOST/a2"; hears 'delete a'; hears 'create a2'; same longer "$(cat a2)"
echo other >"$HOST/sub/x"; mv "$HOST/sub/x" "$HOST/a2"; hears 'create a2'; same other "$(cat a2)"
same "$(ls "$HOST")" "$(ls)"
# What is done here is heard once.
echo mine >mine; mv mine mine2; rm mine2
echo end >"$HOST/end"; hears 'create end'
kill $listener
same '1 1 1' "$(for e in 'create mine' 'moved_to mine2' 'delete mine2'; do grep -cx "$e" "$T/heard"; done | tr '\n' ' ' | sed 's/ $//')"
# A file alone.
listen b
echo again >>"$HOST/b"; hears 'modify .'
kill $listener
END
ok 'and who watches inside hears of it (inotify)' 'in_fs inotify'

cat >"$T/gone" <<'END'
echo text >"$HOST/f"; exec 5<f; rm "$HOST/f"; sleep 0.2; cat <&5 || true; ! test -e f
END
ok 'a file that the host removes while it is open inside is an error, and nothing worse' 'in_fs gone'

cat >"$T/overlay" <<'END'
ls -lR . >/dev/null; cat d/f
echo longer >"$HOST/d/f"; at_once 'cat d/f' 'longer '
echo two >"$HOST/d/g"; at_once 'ls d' 'e f g '
(cd d/e; echo up >up; touch ../up; ls -l .. >/dev/null; same "$T/mnt/d/e" "$(env pwd)"; ls up)
echo mine >>d/f; same longer "$(cat "$HOST/d/f")"
END
over='mount --make-rprivate /; mount -t overlay o -o "lowerdir=$T/low,upperdir=$T/up,workdir=$T/work" "$T/src"'
ok 'changes of the lower directory of an overlay are seen' '
	alone
	mkdir "$T/low/d/e"; echo one >"$T/low/d/f"
	unshare -m sh -ec "$over" || lacks "no overlay can be mounted here"
	export FS_LOWER="$T/low" HOST="$T/low"
	unshare -m sh -ec "$over; exec timeout 60 $tools/fs_mount $fs $T/src $T/mnt sh -ec \". $T/lib; cd $T/mnt; . $T/overlay\""
	same "longer mine" "$(tr "\n" " " <"$T/up/d/f" | sed "s/ $//")"'

# ---- what must not be ------------------------------------------------------------------------
cat >"$T/readonly" <<'END'
mount -o remount,rw "$T/mnt"
cat f
for c in 'echo more | tee -a f' 'touch new' 'rm f' 'mkdir d' 'chmod 600 f' 'ln f g' ': >f' 'mv f h'; do
	sh -c "$c" 2>&1 | grep -q 'Read-only file system' || { echo "not refused: $c"; exit 1; }
done
END
ok 'what is read-only on the host is read-only inside, whatever the guest mounts' '
	alone
	find "$T/src" -mindepth 1 -delete; echo text >"$T/src/f"
	unshare -m sh -ec "mount --make-rprivate /; mount --bind $T/src $T/src; mount -o remount,bind,ro $T/src
		exec timeout 60 $tools/fs_mount $fs $T/src $T/mnt sh -ec \". $T/lib; cd $T/mnt; . $T/readonly\""
	same text "$(cat "$T/src/f")"'

cat >"$T/refused" <<'END'
touch f
! chmod 4755 f 2>/dev/null || exit 1
! mknod d c 1 3 2>/dev/null || exit 1
! chown 1:1 f 2>/dev/null || exit 1
same 644 "$(stat -c %a "$HOST/f")"
END
ok 'no set-user-id file, no device, no other owner' 'in_fs -u $somebody refused'

cat >"$T/faces" <<'END'
test -d proc; same '' "$(ls -A proc)"; ! cat proc/self/maps 2>/dev/null || exit 1
test -d sys; same '' "$(ls -A sys)"
END
ok 'the kernel of the host has no face: /proc and /sys are empty' 'run_in / "$T/mnt" faces'
ok 'a guest that lies, floods, does not listen or vanishes' '"$tools/fs_hostile" "$fs"'

cat >"$T/dies" <<'END'
mkdir d; echo text >f; cat f
kill -9 $(pgrep -P $PPID cove-fs); sleep 0.3
rc=0; timeout 5 ls d 2>/dev/null || rc=$?
test $rc -ne 0 && test $rc -ne 124
END
ok 'when the server dies, nobody hangs' 'in_fs dies'
done_testing
