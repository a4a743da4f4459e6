#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images that come as a file: unpacked once, by a process that can do nothing else, shared,
# and kept for as long as a sandbox has them. What hostile archives try.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS STATIC_GUEST PYTHON3 JQ
chmod 755 "$T"
I=$COVE_HOME/images
# Templates are removed here: not those that all scripts share.
if [ -L "$COVE_HOME/cache/templates" ]; then
	cp -RL --sparse=always "$COVE_HOME/cache/templates" "$T/templates"
	rm "$COVE_HOME/cache/templates"
	mv "$T/templates" "$COVE_HOME/cache/templates"
fi
tars() { python3 "$COVE_SRC/tests/lib/image_tar.py" "$@"; }
run() { cove run --rm --no-mounts "$@"; }
keys() { cove image ls --json | jq -r '.[] | select(.kind == "tar") | .key' | tr '\n' ' '; }
drop() { for k in $(keys); do cove image rm "$k" || return 1; done; }
# How a host directory looks, but for times of access.
look() { find "$1" -printf '%P %y %m %s %l %T@\n' | sort; }

# A small root from programs of the host, with the libraries they name.
R=$T/root
mkdir -p "$R/bin" "$R/etc" "$R/tmp" "$R/dev" "$R/opt"
for p in sh cat ls id touch rm env sleep mkdir find wc; do
	f=$(command -v $p) && f=$(readlink -f "$f") && cp "$f" "$R/bin/$p"
	ldd "$f" 2>/dev/null | grep -oE '/[^ ]+' | while read -r lib; do
		mkdir -p "$R$(dirname "$lib")"
		cp -L "$lib" "$R$lib"
	done
done
echo one >"$R/etc/which"
tar -C "$R" --format=posix -cf "$T/base.tar" .

# ---- the command ---------------------------------------------------------------------------
ok 'nothing is there, and what is wrong is said' '
	same "" "$(keys)"
	for args in "" frobnicate "ls a" rm "prepare a" "ls --all" "rm --json a" "ls --memory 1G" "rm --all a"; do
		rc_is 2 cove image $args
	done
	rc_is 125 cove image rm nope 2>"$T/e"
	has "$(cat "$T/e")" "cove image ls"
	rc_is 125 cove image rm ""
	rc_is 125 cove image prepare --backend process --image tar:$T/none.tar 2>"$T/e"
	has "$(cat "$T/e")" "No such file"'

# ---- unpacked once -------------------------------------------------------------------------
ok 'a command of a tar file runs; the second time nothing is unpacked' '
	same one "$(run --image "tar:$T/base.tar" -- cat /etc/which 2>"$T/e")"
	has "$(cat "$T/e")" "unpacking it, once"
	same one "$(run --image tar:base.tar -- cat /etc/which 2>"$T/e")"
	! grep unpacking "$T/e" || exit 1
	same 1 "$(keys | wc -w)"
	same "tar $T/base.tar sha256:$(sha256sum <"$T/base.tar" | cut -d" " -f1) true 0" "$(cove image ls --json |
		jq -r ".[0] | \"\\(.kind) \\(.source) \\(.digest) \\(.bytes > 100000) \\(.usedBy | length)\"")"
	has "$(cove image ls)" "$(keys | cut -c1-12)"
	has "$(cove image ls -q)" "$(keys | tr -d " ")"'
ok 'writes stay away from it' '
	before=$(look "$I/$(keys | tr -d " ")")
	run --image "tar:$T/base.tar" -- sh -c "echo two >/etc/which; rm /bin/env; mkdir /new; cat /etc/which" >"$T/out"
	same two "$(cat "$T/out")"
	same "$before" "$(look "$I/$(keys | tr -d " ")")"'
ok 'every compression, the same content; one copy for the same file' '
	for c in gzip:gz xz:xz zstd:zst bzip2:bz2; do
		command -v "${c%:*}" >/dev/null || continue
		"${c%:*}" -c "$T/base.tar" >"$T/base.tar.${c#*:}"
		cove image prepare --backend process --image "tar:$T/base.tar.${c#*:}" 2>/dev/null
	done
	for k in $(keys); do
		same "$(look "$R" | grep -v "^ ")" "$(look "$I/$k/root" | grep -v "^ ")"
	done
	cp "$T/base.tar" "$T/other-name.tar"
	n=$(keys | wc -w)
	cove image prepare --backend process --image "tar:$T/other-name.tar"
	same "$n" "$(keys | wc -w)"'
ok 'rm takes the beginning of a key, if it is the only one' '
	for k in $(keys); do cove image rm "$(echo "$k" | cut -c1-20)"; done
	same "" "$(keys)"
	! ls "$I" | grep . || exit 1'
ok 'started ten times at once: unpacked once, and all of them run' '
	pids=
	for i in $(seq "$(often 10)"); do
		run --image "tar:$T/base.tar" -- cat /etc/which >"$T/out.$i" 2>"$T/err.$i" &
		pids="$pids $!"
	done
	for p in $pids; do wait "$p"; done
	for i in $(seq "$(often 10)"); do same one "$(cat "$T/out.$i")"; done
	same 1 "$(cat "$T"/err.* | grep -c "unpacking it")"
	same 1 "$(keys | wc -w)"
	cove image rm "$(keys | tr -d " ")"'
ok 'killed half-way: nothing is used, nobody goes on, the next one starts anew' '
	tars many "$T/many.tar"
	"$COVE_BIN" image prepare --backend process --image "tar:$T/many.tar" 2>/dev/null & pid=$!
	wait_for 10 sh -c "ls \"$I\"/.new-*/root/d >/dev/null 2>&1"
	kill -9 $pid
	wait $pid || :
	same "" "$(keys)"
	n=$(ls "$I"/.new-*/root/d | wc -l)
	sleep 0.5
	same "$n" "$(ls "$I"/.new-*/root/d | wc -l)"
	cove image prepare --backend process --image "tar:$T/base.tar" 2>/dev/null
	! ls -d "$I"/.new-* 2>/dev/null || exit 1
	drop'

# ---- what comes of an archive --------------------------------------------------------------
ok 'links, long names, what comes twice; no set-id bits, no devices, no foreign owners' '
	for kind in good gnu; do
		tars $kind "$T/$kind.tar"
		cove image prepare --backend process --image "tar:$T/$kind.tar" 2>"$T/e"
		has "$(cat "$T/e")" "1 device nodes were left out"
		r=$I/$(keys | tr -d " ")/root
		same hello "$(cat "$r/usr/bin/tool")"
		same "755 2" "$(stat -c "%a %h" "$r/usr/bin/tool")"
		same "$(stat -c %i "$r/hard")" "$(stat -c %i "$r/usr/bin/tool")"
		same "600 $(id -u)" "$(stat -c "%a %u" "$r/abs/file")"
		! test -e "$r/dev/null" || exit 1
		test -p "$r/fifo"
		same /proc/mounts "$(readlink "$r/etc/mtab")"
		same u "$(cat "$r/käse/ö")"
		same l "$(cat "$r"/long/xxxx*/yyyy*)"
		same i "$(cat "$r/inside")"
		same two "$(cat "$r/dup")"
		same 1777 "$(stat -c %a "$r/turn")"
		same "755 1234567890" "$(stat -c "%a %Y" "$r/usr")"
		same "700 s" "$(stat -c %a "$r/closed") $(cat "$r/closed/shadow")"
		drop
	done'
ok 'holes stay holes, and extended attributes are left out' '
	mkdir "$T/x" && truncate -s 200M "$T/x/holes" && echo end >>"$T/x/holes"
	touch "$T/x/marked"
	setfattr -n user.overlay.opaque -v y "$T/x/marked" 2>/dev/null || :
	tar -C "$T/x" --xattrs -cSf "$T/holes.tar" .
	cove image prepare --backend process --image "tar:$T/holes.tar" 2>/dev/null
	r=$I/$(keys | tr -d " ")/root
	cmp "$T/x/holes" "$r/holes"
	test "$(du -k "$r/holes" | cut -f1)" -lt 1000
	! getfattr -d -m - "$r/marked" 2>/dev/null | grep . || exit 1
	drop'

# ---- archives that mean harm ---------------------------------------------------------------
mkdir "$T/host" && echo secret >"$T/host/host-file"
ok 'paths and links that leave are refused, and nothing is left' '
	before=$(look "$T/host")
	for kind in dots dots-link loop dangling no-target outside-target over under name empty only-dot sym sym-up; do
		tars $kind "$T/bad.tar" "$T/host"
		rc_is 125 cove image prepare --backend process --image "tar:$T/bad.tar" 2>"$T/e"
		has "$(cat "$T/e")" "not a tar file that can be used"
		same "" "$(keys)"
		! ls -d "$I"/.new-* 2>/dev/null || exit 1
	done
	same "$before" "$(look "$T/host")"'
ok 'what is damaged or no tar file is refused' '
	gzip -c "$T/base.tar" >"$T/base.gz"
	head -c 300000 "$T/base.gz" >"$T/cut.tar.gz"
	head -c 300000 "$T/base.tar" >"$T/cut.tar"
	echo nothing >"$T/text.tar"; : >"$T/null.tar"
	head -c 100000 /dev/urandom >"$T/noise.tar"
	(cat "$T/base.gz"; echo tail) >"$T/ok.tar.gz"
	for f in cut.tar.gz cut.tar text.tar null.tar noise.tar; do
		rc_is 125 cove image prepare --backend process --image "tar:$T/$f" 2>"$T/e"
		same "" "$(keys)"
	done
	rc_is 125 cove image prepare --backend process --image "tar:$T" 2>"$T/e"
	has "$(cat "$T/e")" "not a file"
	mkfifo "$T/fifo.tar"
	rc_is 125 timeout 10 cove image prepare --backend process --image "tar:$T/fifo.tar"'
ok 'bombs end at the disk limit: bytes, number of files, holes' '
	tars zeros "$T/zeros.tar.gz"
	truncate -s 3G "$T/x/holes"
	tar -C "$T/x" -cSf "$T/holes.tar" holes
	for f in zeros.tar.gz many.tar holes.tar; do
		rc_is 125 run --disk 100MiB --image "tar:$T/$f" -- true 2>"$T/e"
		has "$(cat "$T/e")" "larger than allowed"
		same "" "$(keys)"
	done'
ok 'its reader cannot be talked to by hand' '
	rc_is 2 "$COVE_DIR/cove-untar"
	rc_is 2 "$COVE_DIR/cove-untar" 100 </dev/null 3</dev/null'

# ---- a sandbox keeps the image it was made with --------------------------------------------
ok 'the file changes: new sandboxes get the new one, old ones keep theirs' '
	cp "$T/base.tar" "$T/moving.tar"
	cove create --no-mounts --storage persistent --image "tar:$T/moving.tar" old
	cove start old 2>/dev/null
	same one "$(cove exec old -- cat /etc/which)"
	cove exec old -- sh -c "echo kept >/opt/file; rm /bin/env"
	cove stop old
	echo two >"$R/etc/which"
	tar -C "$R" -cf "$T/two.tar" .
	cp "$T/two.tar" "$T/moving.tar"
	cove start old
	same "one kept" "$(cove exec old -- sh -c "echo \$(cat /etc/which /opt/file)")"
	! cove exec old -- ls /bin/env 2>/dev/null || exit 1
	cove stop old
	same two "$(run --image "tar:$T/moving.tar" -- cat /etc/which 2>/dev/null)"
	same 2 "$(keys | wc -w)"
	has "$(cove inspect old | jq -r .spec.image.source)" "@sha256:"
	same "tar:$T/moving.tar" "$(cove ls --json | jq -r ".[0].image")"'
ok 'the file goes: what is unpacked serves' '
	rm "$T/moving.tar"
	cove start old
	same kept "$(cove exec old -- cat /opt/file)"'
ok 'an image that a sandbox has is not removed: running, stopped' '
	k=$(cove image ls --json | jq -r ".[] | select(.usedBy == [\"old\"]) | .key")
	rc_is 125 cove image rm "$k" 2>"$T/e"
	has "$(cat "$T/e")" "belongs to sandbox old"
	cove stop old
	rc_is 125 cove image rm "$k" 2>/dev/null
	cove image rm --all 2>"$T/e"
	has "$(cat "$T/e")" "belongs to old"
	same "$k " "$(keys)"'
ok 'a one-shot that runs holds its image' '
	"$COVE_BIN" run --rm --no-mounts --image "tar:$T/two.tar" -- sh -c "echo up; sleep 20" >"$T/out" 2>/dev/null & pid=$!
	wait_for 10 grep -q up "$T/out"
	k=$(cove image ls --json | jq -r ".[] | select(.usedBy == []) | .key")
	rc_is 125 cove image rm "$k" 2>"$T/e"
	has "$(cat "$T/e")" "in use"
	kill $pid
	wait $pid || :
	wait_for 5 cove image rm "$k"'
ok 'a clone has the same image; without it and without the file it says what is missing' '
	cove clone old new
	same "$(cove inspect old | jq -r .spec.image.source)" "$(cove inspect new | jq -r .spec.image.source)"
	cove rm -f old
	mv "$I/$(keys | tr -d " ")" "$T/away"
	rc_is 125 cove start new 2>"$T/e"
	has "$(cat "$T/e")" "moving.tar"
	cp "$T/base.tar" "$T/moving.tar"
	cove start new 2>/dev/null
	same "one kept" "$(cove exec new -- sh -c "echo \$(cat /etc/which /opt/file)")"
	cove stop new
	cove image ls -q | grep . >/dev/null
	cove rm -f new'
ok 'a digest in the spec is an order: another file is refused' '
	sum=$(sha256sum <"$T/base.tar" | cut -d" " -f1)
	same one "$(run --image "tar:$T/base.tar@sha256:$sum" -- cat /etc/which 2>/dev/null)"
	wait_for 5 drop # the end of a one-shot goes on behind it
	echo tail >>"$T/moving.tar"
	rc_is 125 run --image "tar:$T/moving.tar@sha256:$sum" -- cat /etc/which 2>"$T/e"
	has "$(cat "$T/e")" "has changed"
	same "" "$(keys)"'
ok 'provision with such an image, cached by its content' '
	printf "image: tar:%s\nprovision: [\"echo made >/opt/made\"]\n" "$T/base.tar" >"$T/p.yaml"
	same made "$(run --spec "$T/p.yaml" -- cat /opt/made 2>/dev/null)"
	same made "$(run --spec "$T/p.yaml" -- cat /opt/made 2>"$T/e")"
	! grep provision "$T/e" || exit 1'

# ---- templates of machines -----------------------------------------------------------------
ok 'a machine is booted ahead, listed, and removed' '
	have VM || lacks "templates are the vm backend'\''s"
	wait_for 5 cove image rm --all
	cove image prepare --memory 256MiB --cpus 1 2>"$T/e"
	has "$(cat "$T/e")" "booting"
	same "template 1 256" "$(cove image ls --json | jq -r ".[] | \"\\(.kind) \\(.cpus) \\(.memoryMiB)\"")"
	cove image prepare --memory 256MiB --cpus 1 2>"$T/e"
	! grep booting "$T/e" || exit 1
	cove run -q --rm --degraded --no-mounts --memory 256MiB --cpus 1 -- true 2>"$T/e"
	! grep booting "$T/e" || exit 1
	cove image rm "$(cove image ls -q | cut -c1-8)"
	same "[]" "$(cove image ls --json | jq -c .)"'
done_testing
