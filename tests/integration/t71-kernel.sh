#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernels of virtual machines: installed from a package, added, chosen, removed; damaged
# packages, kills and full disks; at the end the distribution's own, fetched and booted.
# shellcheck disable=SC2016 # blocks are evaluated by ok
. "$(dirname "$0")/../lib/harness.sh"
need PYTHON3 JQ

K=$COVE_HOME/kernels
deb() { python3 "$COVE_SRC/tests/lib/kernel_deb.py" "$@"; }
# Finds one (the default, or NAME), makes an initramfs for it and checks every file.
verify() { "$COVE_DIR/escape/machine-probe" "$K" "$@" >/dev/null; }
listed() { cove kernel ls -q | tr '\n' ' '; }
# Programs of the host under names of its choice: what is not in there is not installed.
tools() {
	mkdir -p "$T/tools"
	rm -f "$T/tools"/*
	for tool in "$@"; do ln -s "$(command -v "$tool")" "$T/tools/"; done
}
with_tools() { PATH=$T/tools "$COVE_BIN" "$@"; }

deb "$T/a.deb" 6.1.0-1-test
deb "$T/b.deb" 6.1.0-2-test
deb "$T/plain.deb" 6.1.0-1-test plain

# ---- installing --------------------------------------------------------------------------

ok 'nothing is installed' '
	same "" "$(listed)"
	same "[]" "$(cove kernel ls --json | jq -c .)"
	test ! -e "$K"'
ok 'without apt there is a clear way out' '
	tools true
	rc_is 125 with_tools kernel install 2>"$T/e"
	has "$(cat "$T/e")" "no apt-get"
	has "$(cat "$T/e")" "cove kernel install --deb"
	has "$(cat "$T/e")" "cove kernel add"'
ok 'a package at hand' '
	same 6.1.0-1-test "$(cove kernel install --deb "$T/a.deb")"
	same "6.1.0-1-test true 12 a" "$(cove kernel ls --json |
		jq -r ".[] | \"\(.name) \(.default) \(.modules) \(.source)\"")"
	has "$(cove kernel ls)" "6.1.0-1-test"
	verify
	same 700 "$(stat -c %a "$K/6.1.0-1-test")"
	same ".lock 6.1.0-1-test default " "$(ls -A "$K" | LC_ALL=C sort | tr "\n" " ")"'
ok 'what others depend on comes before them; what nobody needs stays out' '
	jq -r ".files[].path" "$K/6.1.0-1-test/manifest.json" >"$T/order"
	for pair in virtio:virtio_ring virtio_ring:virtio_mmio jbd2:ext4 nf_tables:nft_tproxy; do
		a=$(grep -nx "modules/${pair%:*}.ko" "$T/order" | cut -d: -f1)
		b=$(grep -nx "modules/${pair#*:}.ko" "$T/order" | cut -d: -f1)
		test "$a" -lt "$b"
	done
	! grep -q unneeded "$T/order" || exit 1'
ok 'a signature is cut off' '
	! grep -q "signature appended" "$K/6.1.0-1-test/modules/fuse.ko" || exit 1
	grep -q "license=GPL" "$K/6.1.0-1-test/modules/fuse.ko"'
ok 'again: it is the same' '
	cove kernel install -q --deb "$T/a.deb"
	verify
	same "6.1.0-1-test " "$(listed)"'
ok '--json prints the new one' '
	same "6.1.0-1-test 20000" "$(cove kernel install --json --deb "$T/a.deb" |
		jq -r "\"\(.name) \(.bytes > 20000 | if . then 20000 else 0 end)\"")"'
ok 'a newer one becomes the default; the older one stays' '
	cove kernel install -q --deb "$T/b.deb"
	same "6.1.0-1-test 6.1.0-2-test " "$(listed)"
	same 6.1.0-2-test "$(readlink "$K/default")"
	verify
	verify 6.1.0-1-test'
ok 'default and rm' '
	cove kernel default 6.1.0-1-test
	same 6.1.0-1-test "$(readlink "$K/default")"
	cove kernel rm 6.1.0-1-test
	same "6.1.0-2-test " "$(listed)"
	same 6.1.0-2-test "$(readlink "$K/default")"
	cove kernel rm 6.1.0-2-test
	same "" "$(listed)"
	test ! -e "$K/default" -a ! -L "$K/default"'
ok 'names that are none, kernels that are not there' '
	for name in .. . a/b .lock default "" -x; do rc_is 125 cove kernel rm -- "$name"; done
	rc_is 125 cove kernel rm nope
	rc_is 125 cove kernel default nope 2>"$T/e"
	has "$(cat "$T/e")" "cove kernel ls"
	test -e "$K/.lock"'
ok 'a command line that is wrong' '
	for args in "" frob "install x" "ls x" "add x" "add a b c d" default "default a b" rm "rm --deb f a"; do
		# shellcheck disable=SC2086 # words
		rc_is 2 cove kernel $args
	done'

# ---- packages of other kinds ---------------------------------------------------------------

ok 'without dpkg-deb: the package is opened by hand' '
	tools gzip
	same 6.1.0-1-test "$(with_tools kernel install --deb "$T/a.deb")"
	verify
	tools true
	with_tools kernel install -q --deb "$T/plain.deb"
	verify
	rc_is 125 with_tools kernel install --deb "$T/a.deb" 2>"$T/e"
	has "$(cat "$T/e")" "gzip is not installed"'
ok 'modules that are packed' '
	command -v xz >/dev/null || lacks "xz is not installed"
	deb "$T/xz.deb" 6.1.0-3-test xz
	cove kernel install -q --deb "$T/xz.deb"
	verify 6.1.0-3-test
	cmp "$K/6.1.0-3-test/modules/virtio.ko" "$K/6.1.0-1-test/modules/virtio.ko" | grep -q "differ" # versions
	same "$(stat -c %s "$K/6.1.0-1-test/modules/virtio.ko")" "$(stat -c %s "$K/6.1.0-3-test/modules/virtio.ko")"
	cove kernel rm 6.1.0-3-test'
ok 'what is built in is not looked for' '
	deb "$T/built.deb" 6.1.0-4-test builtin=ext4 builtin=jbd2 builtin=virtio
	cove kernel install -q --deb "$T/built.deb"
	verify 6.1.0-4-test
	! ls "$K/6.1.0-4-test/modules" | grep -E "ext4|jbd2|virtio.ko" || exit 1
	cove kernel rm 6.1.0-4-test'
ok 'a kernel that lacks what a guest needs is refused' '
	for what in fuse virtio_console jbd2 nft_tproxy; do
		deb "$T/lacks.deb" 6.1.0-5-test -$what
		rc_is 125 cove kernel install --deb "$T/lacks.deb" 2>"$T/e"
	done
	has "$(cat "$T/e")" "no nft_tproxy"
	same "6.1.0-1-test " "$(listed)"'
ok 'what it may lack is left out' '
	deb "$T/may.deb" 6.1.0-6-test -virtio-rng
	cove kernel install -q --deb "$T/may.deb"
	verify 6.1.0-6-test
	cove kernel rm 6.1.0-6-test'
ok 'what is no such package is refused, and nothing is left' '
	deb "$T/noimage.deb" noimage
	echo hello >"$T/text.deb"
	: >"$T/empty.deb"
	head -c 30000 "$T/plain.deb" >"$T/cut.deb"
	sed "s/HdrS/hdrs/" "$T/plain.deb" >"$T/odd.deb"
	for f in noimage text empty cut odd missing; do
		rc_is 125 cove kernel install --deb "$T/$f.deb" 2>"$T/e"
		has "$(cat "$T/e")" "$f.deb"
	done
	same ".lock 6.1.0-1-test default " "$(ls -A "$K" | LC_ALL=C sort | tr "\n" " ")"
	verify'

# ---- a kernel of one's own -----------------------------------------------------------------

dpkg-deb -x "$T/a.deb" "$T/tree" 2>/dev/null || { mkdir "$T/tree"; gzip --version >/dev/null; }
if [ -d "$T/tree/boot" ]; then
	ok 'add: an image with the directory of its modules' '
		cove kernel add -q own "$T/tree/boot/vmlinuz-6.1.0-1-test" "$T/tree/lib/modules/6.1.0-1-test"
		verify own
		same "$(jq -c .files "$K/6.1.0-1-test/manifest.json")" "$(jq -c .files "$K/own/manifest.json")"
		same 6.1.0-1-test "$(readlink "$K/default")"'
	ok 'add: not over another, not without what a guest needs, not with modules of another' '
		rc_is 125 cove kernel add own "$T/tree/boot/vmlinuz-6.1.0-1-test" 2>"$T/e"
		has "$(cat "$T/e")" "cove kernel rm own"
		dpkg-deb -x "$T/b.deb" "$T/tree2"
		rc_is 125 cove kernel add x "$T/tree2/boot/vmlinuz-6.1.0-2-test" "$T/tree/lib" 2>"$T/e"
		has "$(cat "$T/e")" "6.1.0-2-test, the modules are 6.1.0-1-test"
		rc_is 125 cove kernel add x /etc/passwd
		rc_is 125 cove kernel add x "$T/tree/boot/vmlinuz-6.1.0-1-test" /etc/apt
		same "6.1.0-1-test own " "$(listed)"'
	ok 'add: an image that has all built in' '
		cove kernel add -q mono "$T/tree/boot/vmlinuz-6.1.0-1-test"
		verify mono
		same "0 true" "$(jq -r ".builtIn as \$b | \"\((.files | length) - 1) \(\$b)\"" "$K/mono/manifest.json")"
		cove kernel rm mono own'
else
	skip 'add' 'needs dpkg-deb'
fi

# ---- damage ---------------------------------------------------------------------------------

ok 'a damaged kernel is found, listed as such, and installed anew' '
	printf x | dd of="$K/6.1.0-1-test/vmlinuz" bs=1 seek=15000 conv=notrunc 2>/dev/null
	rc_is 1 verify 2>"$T/e"
	has "$(cat "$T/e")" "vmlinuz: its checksum is wrong"
	cove kernel install -q --deb "$T/a.deb"
	verify
	rm "$K/6.1.0-1-test/modules/fuse.ko"
	has "$(cove kernel ls)" "modules/fuse.ko"
	rc_is 1 verify
	echo "{" >"$K/6.1.0-1-test/manifest.json"
	same true "$(cove kernel ls --json | jq ".[0] | has(\"problem\")")"
	cove kernel install -q --deb "$T/a.deb"
	verify'

# ---- two at once, kills, a full disk -----------------------------------------------------------

ok 'several at once' '
	cove kernel rm 6.1.0-1-test
	pids=
	for i in 1 2 3 4; do
		cove kernel install -q --deb "$T/a.deb" & pids="$pids $!"
		cove kernel install -q --deb "$T/b.deb" & pids="$pids $!"
	done
	for p in $pids; do wait "$p"; done
	same "6.1.0-1-test 6.1.0-2-test " "$(listed)"
	verify 6.1.0-1-test
	verify 6.1.0-2-test
	cove kernel rm 6.1.0-1-test 6.1.0-2-test'
inject=$COVE_DIR/escape/inject
# plain.deb without dpkg-deb: no other program takes part.
# (A leak cannot be looked for under ptrace.)
one() { PATH=$T/tools ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "$@"; }
ok 'killed at any point, it is there whole or not at all' '
	tools true
	one "$inject" -c -o "$T/count" "$COVE_BIN" kernel install -q --deb "$T/plain.deb"
	cove kernel rm 6.1.0-1-test
	calls=$(grep -o "[0-9]*" "$T/count" | head -n 1)
	test "$calls" -gt 60
	whole=0 n=1
	while [ $n -le "$calls" ]; do
		one "$inject" -n $n -o /dev/null "$COVE_BIN" kernel install -q --deb "$T/plain.deb" >/dev/null 2>&1 || :
		case $(cove kernel ls --json | jq -r ".[] | .problem // \"whole\"") in
		"") ;;
		whole) verify 6.1.0-1-test; whole=$((whole + 1)) ;;
		*) echo "half a kernel after call $n"; exit 1 ;;
		esac
		# the next one cleans up and succeeds
		one "$COVE_BIN" kernel install -q --deb "$T/plain.deb"
		verify
		same ".lock 6.1.0-1-test default " "$(ls -A "$K" | LC_ALL=C sort | tr "\n" " ")"
		[ $n -gt $((calls - 20)) ] || cove kernel rm 6.1.0-1-test
		n=$((n + (n > calls - 20 ? 2 : 8)))
	done
	test $whole -gt 0'
ok 'a disk that is full at any point: an error, and nothing half there' '
	cove kernel rm 6.1.0-1-test
	one "$inject" -c -m enospc -o "$T/count" "$COVE_BIN" kernel install -q --deb "$T/plain.deb"
	cove kernel rm 6.1.0-1-test
	calls=$(grep -o "[0-9]*" "$T/count" | head -n 1)
	failed=0 n=2
	while [ $n -le "$calls" ]; do
		rc=0
		one "$inject" -n $n -p -m enospc -o /dev/null "$COVE_BIN" kernel install -q --deb "$T/plain.deb" || rc=$?
		case $rc in 0) ;; 125) failed=$((failed + 1)) ;; *) echo "exit status $rc at call $n"; exit 1 ;; esac
		case $(cove kernel ls --json | jq -r ".[] | .problem // \"whole\"") in
		"") ;;
		whole) verify 6.1.0-1-test; cove kernel rm 6.1.0-1-test ;;
		*) echo "half a kernel after call $n"; exit 1 ;;
		esac
		n=$((n + 9))
	done
	test $failed -gt 3'

# ---- building one, with a source and an archive of our own -------------------------------------

fake() { # PROGRAM, its script on stdin
	{ echo '#!/bin/sh'; cat; } >"$T/fake/$1"
	chmod 755 "$T/fake/$1"
}
mkdir -p "$T/fake" "$T/linux/scripts/kconfig"
fake apt-cache <<'END'
printf 'Package: linux-source\nVersion: 6.1.5-1\nDepends: linux-source-6.1 (= 6.1.5-1)\n'
END
fake apt-get <<'END'
: >linux-source-6.1_6.1.5-1_all.deb
END
fake dpkg-deb <<'END'
mkdir -p "$3/usr/src" && cp "$T/linux.tar.xz" "$3/usr/src/linux-source-6.1.tar.xz"
END
for tool in gcc flex bison bc perl strip; do fake $tool </dev/null; done
cat >"$T/linux/scripts/kconfig/merge_config.sh" <<'END'
cat "$3" >>"$2"
END
# LOST: an option that the source does not know. BROKEN: a file that does not compile.
printf '%s\n' 'tinyconfig:' '	@echo >.config' 'olddefconfig:' '	@grep -v "$${LOST:-NOTHING}=" .config >n; mv n .config' \
	'vmlinux:' '	@echo "  CC      init/main.o"; test -z "$$BROKEN" || { echo "main.c:7: error: no" >&2; exit 1; }' \
	'	@{ printf "\177ELF\002"; head -c 100 /dev/zero; echo "Linux version 6.1.5-cove (x)"; } >vmlinux' >"$T/linux/Makefile"
with_fakes() { PATH=$T/fake:$PATH cove kernel build "$@"; }

ok 'build: what is missing is named, as packages' '
	tools true
	rc_is 125 with_tools kernel build 2>"$T/e"
	has "$(cat "$T/e")" "sudo apt-get install make gcc binutils flex bison bc perl xz-utils libelf-dev"'
if command -v make >/dev/null && command -v xz >/dev/null && tar -C "$T" -cJf "$T/linux.tar.xz" linux; then
	ok 'build: all steps, nothing left over, and the default stays' '
		cove kernel install -q --deb "$T/a.deb"
		same tuned-6.1.5-cove "$(with_fakes)"
		verify tuned-6.1.5-cove
		same "true built linux-source-6.1_6.1.5-1" \
			"$(jq -r "\"\(.builtIn) \(.origin) \(.source)\"" "$K/tuned-6.1.5-cove/manifest.json")"
		same 6.1.0-1-test "$(readlink "$K/default")"
		same ".lock 6.1.0-1-test default tuned-6.1.5-cove " "$(ls -A "$K" | LC_ALL=C sort | tr "\n" " ")"
		MAKEFLAGS=-n with_fakes -q
		verify tuned-6.1.5-cove
		cove kernel rm 6.1.0-1-test tuned-6.1.5-cove'
	ok 'build: a source that lacks what is needed, and one that does not compile' '
		LOST=CONFIG_NFT_TPROXY rc_is 125 with_fakes 2>"$T/e"
		has "$(cat "$T/e")" "CONFIG_NFT_TPROXY=y"
		LOST=CONFIG_TUN with_fakes -q
		cove kernel rm tuned-6.1.5-cove
		BROKEN=1 rc_is 125 with_fakes 2>"$T/e"
		has "$(cat "$T/e")" "main.c:7: error: no"
		same .lock "$(ls -A "$K")"'
else
	skip 'build' 'needs make and xz'
fi

# ---- the real one -------------------------------------------------------------------------------

boot() { # IMAGE INITRAMFS
	khz=$(awk '/^cpu MHz/ { printf "%d", $4 * 1000; exit }' /proc/cpuinfo)
	timeout 100 qemu-system-x86_64 -M microvm -accel tcg -cpu max -m 256 -nodefaults -no-user-config \
		-nographic -no-reboot -serial stdio -global virtio-mmio.force-legacy=false -kernel "$1" -initrd "$2" \
		-append "console=ttyS0 quiet panic=-1 reboot=t tsc_early_khz=$khz tsc=reliable mitigations=off cryptomgr.notests" \
		-device virtio-serial-device,max_ports=4 -chardev null,id=link -chardev null,id=fs \
		-device virtserialport,chardev=link,name=cove.link,nr=1 \
		-device virtserialport,chardev=fs,name=cove.fs,nr=2 \
		-device virtio-rng-device -device virtio-balloon-device </dev/null
}
ok 'the kernel of the distribution: fetched, whole, and up to date the second time' '
	have STATIC_GUEST || lacks "once is enough: the release build does it"
	command -v apt-get >/dev/null || lacks "this host has no apt-get"
	if ! timeout 150 cove kernel install >"$T/name" 2>"$T/e"; then
		has "$(cat "$T/e")" "hint: "
		lacks "the package could not be fetched: $(head -n 1 "$T/e")"
	fi
	verify "$(cat "$T/name")"
	cove kernel default "$(cat "$T/name")"
	same "$(cat "$T/name")" "$(cove kernel install)"'
ok 'it boots, loads every module in its order, and has what a guest needs' '
	test -s "$T/name" || lacks "there is no such kernel"
	command -v qemu-system-x86_64 >/dev/null || lacks "qemu-system-x86_64 is not installed"
	test "$(uname -m)" = x86_64 || lacks "the machine is not an x86-64"
	"$COVE_DIR/escape/machine-probe" "$K" >"$T/paths"
	boot "$(sed -n 1p "$T/paths")" "$(sed -n 2p "$T/paths")" | tr -d "\r" >"$T/console"
	cat "$T/console"
	modules=$(cove kernel ls --json | jq ".[] | select(.default) | .modules")
	grep -q "probe: loaded $modules modules in" "$T/console"
	grep -qx "probe: port cove.link" "$T/console"
	grep -qx "probe: port cove.fs" "$T/console"
	for fs in fuse overlay erofs ext4 tmpfs; do grep -qx "probe: fs $fs" "$T/console"; done
	grep -qx "probe: capture with IPv6: ok" "$T/console"
	grep -q "probe: done" "$T/console"'
done_testing
