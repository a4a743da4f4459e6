#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# image rootfs:DIR: a root file system of its own, read from a directory.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS STATIC_GUEST
chmod 755 "$T"

# A small root from programs of the host, with the libraries they name.
R=$T/root
mkdir -p "$R/bin" "$R/etc" "$R/tmp" "$R/proc" "$R/dev" "$R/usr/bin" "$R/only-here"
copy_program() {
	cp "$1" "$R/bin/"
	ldd "$1" 2>/dev/null | grep -oE '/[^ ]+' | while read -r lib; do
		mkdir -p "$R$(dirname "$lib")"
		cp -L "$lib" "$R$lib"
	done
}
for p in sh cat ls id touch echo pwd env; do copy_program "$(command -v $p)" 2>/dev/null; done
echo 'root:x:0:0::/root:/bin/sh' >"$R/etc/passwd"
echo mini >"$R/etc/which"
run() { cove run -q --rm --no-mounts --image "rootfs:$R" "$@"; }

ok 'a command of the image runs' 'same mini "$(run -- /bin/cat /etc/which)"'
ok 'PATH finds programs of the image' 'same mini "$(run -- cat /etc/which)"'
ok 'the host is not there' '
	must_refuse run -- /bin/ls /usr/bin/env
	must_refuse run -- /bin/cat /etc/hostname.host'
ok 'writes stay away from the directory' '
	run -- sh -c "echo x >/etc/new && echo y >/etc/which" || :
	! test -e "$R/etc/new" || exit 1
	same mini "$(cat "$R/etc/which")"'
ok 'one mount is the root, and /.. is that root' '
	same 1 "$(run -- cat /proc/self/mountinfo | cut -d" " -f5 | grep -cx /)"
	same "$(run -- ls -a / | sort)" "$(run -- ls -a /.. | sort)"
	same 1 "$(cove run -q --rm --no-mounts -- cat /proc/self/mountinfo | cut -d" " -f5 | grep -cx /)"'
ok '/proc, /dev and /tmp are there' '
	run -- sh -c "test -e /proc/self/stat && test -c /dev/null && echo x >/tmp/x"'
ok 'mounts work in it' '
	mkdir -p "$T/w" && echo data >"$T/w/f"
	same data "$(cove run -q --rm --no-mounts --image "rootfs:$R" --mount "$T/w:ro" -- cat "$T/w/f")"'
ok 'links of the image that point outside stay inside' '
	ln -sf /etc/shadow "$R/etc/leak"
	ln -sf ../../../../../../etc/hosts "$R/etc/leak2"
	must_refuse run -- cat /etc/leak
	must_refuse run -- cat /etc/leak2'
ok 'an image whose mount points are links cannot move mounts' '
	cp -r "$R" "$T/root2"
	rm -rf "$T/root2/proc" "$T/root2/dev" "$T/root2/tmp"
	ln -s "$T/outside" "$T/root2/proc"; ln -s /etc "$T/root2/dev"; ln -s ../../.. "$T/root2/tmp"
	mkdir "$T/outside"
	rc=0; cove run -q --rm --no-mounts --image "rootfs:$T/root2" -- true || rc=$?
	same "" "$(ls -A "$T/outside")"
	same "" "$(grep "$T" /proc/self/mountinfo || :)"'
ok 'an image whose directories are links makes nothing on the host' '
	mkdir "$T/outside3" && chmod 777 "$T/outside3"
	cp -r "$R" "$T/root3"
	rm -rf "$T/root3/home" "$T/root3/run"
	ln -s "$T/outside3" "$T/root3/home"; ln -s "$T/outside3" "$T/root3/run"
	rc=0; cove run -q --rm --no-mounts --image "rootfs:$T/root3" -- true || rc=$?
	same "" "$(ls -A "$T/outside3")"'
ok 'a directory that is missing is an error' '
	rc_is 125 cove run -q --no-mounts --image "rootfs:$T/none" -- true 2>"$T/err"
	has "$(cat "$T/err")" "$T/none"'
ok 'an empty directory: the command is not found' '
	mkdir "$T/empty"
	rc=0; cove run -q --no-mounts --image "rootfs:$T/empty" -- sh || rc=$?
	[ $rc -eq 127 ] || [ $rc -eq 125 ]'
ok 'images of other kinds refuse with a reason' '
	rc_is 125 cove run -q --no-mounts --image oci:debian -- true 2>"$T/err"
	[ -s "$T/err" ]'

done_testing
