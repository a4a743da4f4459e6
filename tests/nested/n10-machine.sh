#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The nested machine has what the tests in it rely on.
. "$(dirname "$0")/../lib/harness.sh"
need NESTED

ok 'the kernel is the one that was fetched, the files are the host'"'"'s' '
	has "$(uname -r)" -cloud-amd64
	has "$(findmnt -no FSTYPE /)" overlay
	command -v qemu-system-x86_64 jq python3'
ok 'an ordinary user makes namespaces' 'unshare -Urmpf --mount-proc true'
ok 'an overlay in one: lower below /, upper in /tmp, with whiteouts and opaque directories' '
	mkdir l l/gone l/kept u w m
	echo old >l/gone/file
	unshare -Urm sh -ec "
		mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr o m
		rm -r m/gone && mkdir m/gone && [ -z \"\$(ls m/gone)\" ]
		rmdir m/kept && [ ! -e m/kept ]
		mount -t overlay -o lowerdir=$COVE_SRC/tests,upperdir=u,workdir=w,userxattr o m
		[ -e m/nested ] && echo new >m/file"
	[ -e u/file ] && [ ! -e "$COVE_SRC/tests/file" ]'
ok 'Landlock is on' 'grep -qw landlock /sys/kernel/security/lsm'
ok 'cgroup v2 with its controllers' '
	for c in cpu memory pids; do grep -qw $c /sys/fs/cgroup/cgroup.controllers; done'
ok 'FUSE and TUN are there for everybody' '[ -w /dev/fuse ] && [ -w /dev/net/tun ]'
ok 'the clock is right' '[ "$(date +%s)" -ge "$(stat -c %Y "$COVE_NESTED/initramfs")" ]'
ok 'random bytes are there' 'head -c 32 /dev/random | wc -c | grep -qx 32'
have ROOT && ok 'the project can be written to, the host behind it cannot' '
	touch "$COVE_SRC/written" && rm "$COVE_SRC/written"
	mkdir host && mount -t virtiofs nested host
	for there in host/usr host/.nested/share/0; do
		[ -n "$(ls $there)" ]
		must_refuse touch "$there/written"
	done
	umount host'
have ROOT && ok 'no network but the loopback' 'same lo "$(ls /sys/class/net)"'
done_testing
