#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images that are disks: never written, a layer over them that is as large as the limit says,
# kept, copied and removed with the sandbox; and memory that a machine gives back.
. "$(dirname "$0")/../lib/harness.sh"
need VM USERNS JQ
chmod 755 "$T"
have_tool() { command -v "$1" >/dev/null; }
have_tool mke2fs || skip_all 'mke2fs (e2fsprogs) is not installed'

# A small root from programs of the host, with the libraries they name.
R=$T/root
mkdir -p "$R/bin" "$R/etc" "$R/tmp"
chmod 1777 "$R/tmp"
for p in sh cat ls id rm df dd sync stat tail sleep hostname; do
	f=$(command -v $p) && f=$(readlink -f "$f") && cp "$f" "$R/bin/$p"
	ldd "$f" 2>/dev/null | grep -oE '/[^ ]+' | while read -r lib; do
		mkdir -p "$R$(dirname "$lib")"
		cp -L "$lib" "$R$lib"
	done
done
echo one >"$R/etc/which"
ln -s /run/nowhere "$R/etc/resolv.conf"
mke2fs -q -F -t ext4 -b 4096 -d "$R" "$T/whole.img" 48M >/dev/null 2>&1 || skip_all 'mke2fs cannot make an image'
chmod 444 "$T/whole.img"
sum=$(sha256sum <"$T/whole.img")
size="--cpus 1 --memory 256MiB --disk 64MiB"
# shellcheck disable=SC2086 # words
run() { cove run -q --rm --no-mounts $size "$@"; }
blocks() { stat -c %b "$COVE_HOME/sandboxes/$1/root/disk"; }

# ---- who takes it --------------------------------------------------------------------------
ok 'only a machine takes one, and auto no emulated one' '
	rc_is 125 run --backend process --image "raw:$T/whole.img" -- cat /etc/which 2>"$T/e"
	has "$(cat "$T/e")" "needs backend vm"
	if run --backend auto --image "raw:$T/whole.img" -- cat /etc/which >"$T/out" 2>"$T/e"; then
		same one "$(cat "$T/out")" # a host with KVM
	else
		has "$(cat "$T/e")" "--backend vm"
	fi'
ok 'what is no disk is refused with the reason' '
	rc_is 125 run --image "raw:$T/none" -- true 2>"$T/e"
	has "$(cat "$T/e")" "No such file"
	rc_is 125 run --image "raw:$T/root" -- true 2>"$T/e"
	has "$(cat "$T/e")" "no file with a disk"
	rc_is 125 run --image "qcow2:$T/whole.img" -- true 2>"$T/e"
	has "$(cat "$T/e")" "no qcow2 file"
	if rc_is 125 cove run --rm --no-mounts --memory 136MiB --image "raw:$T/root" -- true 2>&1 | grep booting; then exit 1; fi
	dd if=/dev/urandom of="$T/noise" bs=64k count=4 2>/dev/null
	rc_is 125 run --image "raw:$T/noise" -- true 2>"$T/e"
	has "$(cat "$T/e")" "no root file system"'

# ---- the whole disk ------------------------------------------------------------------------
ok 'a command runs on it: its own files, its size, a resolver, its name; it is not written' '
	run --user root --net none --image "raw:$T/whole.img" -- sh -c "
		cat /etc/which; echo two >/etc/which; cat /etc/which; rm /bin/ls; id -u; hostname
		df -k / | tail -n 1; echo x >/run/x; echo y >/tmp/y; [ -d /root ] && echo home" >"$T/out" 2>"$T/e"
	same "one two 0 cove" "$(head -n 4 "$T/out" | tr "\n" " " | sed "s/ $//")"
	set -- $(sed -n 5p "$T/out")
	[ "$2" -gt 40000 ] && [ "$2" -le 65536 ]
	same home "$(sed -n 6p "$T/out")"
	same "$sum" "$(sha256sum <"$T/whole.img")"'
ok 'the user is its own, and its rights are the image'"'"'s' '
	run --image "raw:$T/whole.img" -- sh -c "id -u; echo x >\$HOME/x && echo home; echo x >/etc/x || echo no" >"$T/out" 2>/dev/null
	same "1000 home no" "$(tr "\n" " " <"$T/out" | sed "s/ $//")"'
ok 'a captured network has its resolver, where the image has a dead link' '
	has "$(run --net open --image "raw:$T/whole.img" -- cat /etc/resolv.conf)" nameserver'

# ---- other disks ---------------------------------------------------------------------------
if have_tool sfdisk; then
	ok 'a table of partitions: the largest with a root in it' '
		truncate -s 120M "$T/parts.img"
		printf "label: gpt\nsize=8MiB\nsize=50MiB\nsize=52MiB\n" | sfdisk -q "$T/parts.img"
		mke2fs -q -F -t ext4 "$T/empty.img" 52M >/dev/null 2>&1
		set -- $(sfdisk -J "$T/parts.img" | jq ".partitiontable.partitions[].start")
		dd if="$T/whole.img" of="$T/parts.img" bs=512 seek="$2" conv=notrunc,sparse 2>/dev/null
		dd if="$T/empty.img" of="$T/parts.img" bs=512 seek="$3" conv=notrunc,sparse 2>/dev/null
		same one "$(run --image "raw:$T/parts.img" -- cat /etc/which)"'
else
	skip 'a table of partitions' 'sfdisk (fdisk) is not installed'
fi
if have_tool qemu-img; then
	ok 'qcow2: one that stands alone' '
		qemu-img convert -q -c -O qcow2 "$T/whole.img" "$T/a.qcow2"
		same one "$(run --image "qcow2:$T/a.qcow2" -- cat /etc/which)"'
	ok 'qcow2: one that names a file of the host is refused' '
		qemu-img create -q -f qcow2 -F raw -b "$T/whole.img" "$T/b.qcow2"
		rc_is 125 run --image "qcow2:$T/b.qcow2" -- true 2>"$T/e"
		has "$(cat "$T/e")" "backing file"
		qemu-img create -q -f qcow2 -o data_file="$T/data,data_file_raw=on" "$T/d.qcow2" 16M
		rc_is 125 run --image "qcow2:$T/d.qcow2" -- true 2>"$T/e"
		has "$(cat "$T/e")" "another file"'
else
	skip 'qcow2' 'qemu-img (qemu-utils) is not installed'
fi

# ---- one that stays ------------------------------------------------------------------------
mkdir "$T/work" && echo w >"$T/work/f"
ok 'with a workspace over it: files of both, and a diff of the one' '
	cove create -q d --storage persistent --user root $size --image "raw:$T/whole.img" --mount "$T/work:/work:overlay"
	cove start -q d
	cove exec d -- sh -c "cat /work/f /etc/which; echo changed >/work/f; echo kept >/etc/kept; sync" >"$T/out"
	same "w one" "$(tr "\n" " " <"$T/out" | sed "s/ $//")"
	has "$(cove diff d)" changed
	same w "$(cat "$T/work/f")"'
ok 'full is full inside, and nowhere else' '
	cove exec d -- sh -c "dd if=/dev/zero of=/big bs=64k 2>&1; stat -c %s /big" >"$T/out" || true
	has "$(cat "$T/out")" "No space left"
	[ "$(tail -n 1 "$T/out")" -gt 30000000 ]
	same one "$(cove exec d -- cat /etc/which)"
	[ $(($(blocks d) / 2)) -le 65600 ]
	same "true true" "$(cove stats d --json | jq -r "\"\(.diskBytes > 30000000) \(.diskLimitBytes == 67108864)\"")"'
ok 'what is deleted inside goes back to the host' '
	before=$(blocks d)
	cove exec d -- sh -c "rm /big; sync"
	freed() { [ $(($1 - $(blocks d))) -gt 60000 ]; }
	wait_for 20 freed "$before"'
ok 'a snapshot of the running one has what was written and not synced' '
	cove exec d -- sh -c "echo unsynced >/etc/late"
	cove snapshot d s1 >/dev/null
	cove exec d -- sh -c "rm /etc/late; echo worse >/etc/kept; cat /etc/kept"
	cove stop -q d
	cove restore -y d s1 >/dev/null
	cove start -q d
	same "unsynced kept" "$(cove exec d -- cat /etc/late /etc/kept | tr "\n" " " | sed "s/ $//")"'
ok 'so has one of a paused one, which stays paused, and goes on' '
	cove exec d -- sh -c "echo unsynced >/etc/later"
	cove pause -q d
	cove snapshot d s2 >/dev/null
	same paused "$(cove ls --json | jq -r ".[0].state")"
	cove snapshot --with-memory d s3 >/dev/null
	rc_is 125 cove exec d -- true
	cove resume -q d
	cove exec d -- rm /etc/later
	cove clone d@s2 e >/dev/null
	cove start -q e
	same unsynced "$(cove exec e -- cat /etc/later)"
	cove rm -q -f e
	cove pause -q d && cove stop -q d && cove restore -y d s3 >/dev/null
	same unsynced "$(cove exec d -- cat /etc/later)"
	cove snapshot rm -y -q d s3'
ok 'with memory: a process goes on, and its file is on the disk of the same instant' '
	cove exec -d d -- sh -c "exec 3>>/log; i=0; while :; do i=\$((i + 1)); echo \$i >&3; echo \$i >/run/count; sleep 0.2; done"
	wait_for 10 cove exec d -- cat /run/count
	cove snapshot --with-memory d m1 >/dev/null
	cove exec d -- rm /log /etc/which
	cove stop -q d
	cove restore -y d m1 >/dev/null
	same one "$(cove exec d -- cat /etc/which)"
	before=$(cove exec d -- stat -c %s /log)
	goes_on() { [ "$(cove exec d -- stat -c %s /log)" -gt "$1" ]; }
	wait_for 10 goes_on "$before"
	same 1 "$(cove exec d -- cat /log | head -n 1)"'
ok 'it is kept from stop to start, without a sync' '
	cove exec d -- sh -c "echo last >/etc/last"
	cove stop -q d && cove start -q d
	same last "$(cove exec d -- cat /etc/last)"'
ok 'a clone has a disk of its own' '
	cove clone d e >/dev/null
	cove exec d -- sh -c "echo d >/etc/last"
	cove start -q e
	same last "$(cove exec e -- cat /etc/last)"
	cove rm -q -f e
	[ ! -e "$COVE_HOME/sandboxes/e" ]'
ok 'it grows, and does not shrink' '
	cove stop -q d
	cove set d --disk 96MiB >/dev/null
	cove start -q d
	set -- $(cove exec d -- df -k / | tail -n 1)
	[ "$2" -gt 75000 ]
	same d "$(cove exec d -- cat /etc/last)"
	cove stop -q d
	cove set d --disk 80MiB >/dev/null
	rc_is 125 cove start -q d 2>"$T/e"
	has "$(cat "$T/e")" "cannot shrink"
	cove set d --disk 96MiB >/dev/null'
ok 'over another image it does not start; reset begins anew' '
	touch -d "2001-01-01" "$T/whole.img"
	rc_is 125 cove start -q d 2>"$T/e"
	has "$(cat "$T/e")" "cove reset"
	cove reset -y -q d
	[ ! -e "$COVE_HOME/sandboxes/d/root/disk" ]
	cove start -q d
	same one "$(cove exec d -- cat /etc/which)"
	cove rm -q -f d
	same "$sum" "$(sha256sum <"$T/whole.img")"'

# ---- provisioning --------------------------------------------------------------------------
cat >"$T/p.yaml" <<END
image: raw:$T/whole.img
exec: {user: root}
resources: {cpus: 1, memoryMiB: 256, diskGiB: 0.0625}
provision:
- echo made >/etc/made; echo in >\$HOME/in; echo x >>/etc/runs
- [/bin/rm, /bin/ls]
END
layers() { find "$COVE_HOME/cache/provision" -name disk | wc -l; }
ok 'what provision writes to the disk is there, in every sandbox of the same spec, and was run once' '
	for i in 1 2; do
		cove run -q --rm --no-mounts --spec "$T/p.yaml" -- sh -c "
			cat /etc/made /etc/which \$HOME/in /etc/runs; [ ! -e /bin/ls ] && echo gone; echo worse >/etc/made" >"$T/out.$i" 2>"$T/e" || { cat "$T/e"; exit 1; }
		same "made one in x gone" "$(tr "\n" " " <"$T/out.$i" | sed "s/ $//")"
	done
	same 1 "$(layers)"
	same "$sum" "$(sha256sum <"$T/whole.img")"
	[ "$(du -sm "$COVE_HOME/cache/provision" | cut -f1)" -lt 40 ]'
ok 'one that stays gets it once, and again after a reset' '
	cove create -q p --no-mounts --storage persistent --spec "$T/p.yaml"
	cove start -q p
	cove exec p -- sh -c "cat /etc/made; echo mine >/etc/made"
	cove stop -q p && cove start -q p
	same mine "$(cove exec p -- cat /etc/made)"
	cove stop -q p && cove reset -y -q p && cove start -q p
	same made "$(cove exec p -- cat /etc/made)"
	cove rm -q -f p
	same 1 "$(layers)"'
ok 'a larger disk is another, and so is another image; what fails leaves nothing' '
	same made "$(cove run -q --rm --no-mounts --disk 80MiB --spec "$T/p.yaml" -- cat /etc/made)"
	same 2 "$(layers)"
	touch -d "2002-02-02" "$T/whole.img"
	same made "$(cove run -q --rm --no-mounts --spec "$T/p.yaml" -- cat /etc/made)"
	same 3 "$(layers)"
	sed -i "s,/bin/rm,/bin/none," "$T/p.yaml"
	rc_is 125 cove run -q --rm --no-mounts --spec "$T/p.yaml" -- true 2>"$T/e"
	has "$(cat "$T/e")" "provision 2/2"
	same 3 "$(layers)"'

# ---- memory --------------------------------------------------------------------------------
ok 'processors, memory and swap are what was asked for; memory that is freed goes back' '
	cove create -q m --no-mounts --cpus 1 --memory 512MiB --swap 64MiB
	cove start -q m 2>"$T/e" || { cat "$T/e"; exit 1; }
	if grep template "$T/e"; then exit 1; fi # with a disk for swap it is restored, too
	same 1 "$(cove exec m -- grep -c ^processor /proc/cpuinfo)"
	set -- $(cove exec m -- sh -c "grep -E \"MemTotal|SwapTotal\" /proc/meminfo" | tr -dc "0-9\n")
	[ "$1" -gt 400000 ] && [ "$1" -le 524288 ] && [ "$2" -gt 65000 ] && [ "$2" -le 65536 ]
	[ "$(cove stats m --json | jq ".cgroup")" = true ] || { cove rm -q -f m; lacks "no cgroup counts its memory"; }
	rss() { cove stats m --json | jq ".memoryBytes / 1024 | floor"; }
	cove exec m -- dd if=/dev/urandom of=/dev/shm/x bs=1M count=100 2>/dev/null
	before=$(rss)
	cove exec m -- rm /dev/shm/x
	fell() { [ $(($before - $(rss))) -gt 60000 ]; }
	wait_for 20 fell
	cove rm -q -f m'
done_testing
