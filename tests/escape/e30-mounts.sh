#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The view of the file system and the namespaces cannot be changed from inside.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS
D=$W/dir
mkdir "$D"
start_box || exit 1

attempt_own 'mount a tmpfs' ns mount-tmpfs "$D"
attempt_own 'mount sysfs' ns mount-sysfs "$D"
attempt_own 'mount proc' none mount-proc "$D"
attempt_own 'bind mount the root' ns mount-bind "$D"
attempt_own 'mount with fsopen, fsmount, move_mount' ns new-mount-api "$D"
attempt_own 'clone the mount tree and move it' ns move-tree "$D"
attempt_own 'pivot_root' none pivot-root "$D"
attempt_own 'chroot' ns chroot "$D"
attempt_own 'unmount the workspace' none umount "$W"
attempt_own 'unmount /proc' none umount /proc
attempt_own 'unmount the root' none umount /
attempt_own 'unmount a directory of the image' none umount /etc
attempt_own 'make /usr writable' none remount-rw /usr
attempt_own 'make a read-only mount writable' none remount-rw "$COVE_DIR/escape"
attempt_own 'a control group hierarchy with a release agent' none release-agent "$D"
attempt_own 'write a release agent of the host' none write /sys/fs/cgroup/release_agent /tmp/x
attempt_own 'move itself to another control group' none write /sys/fs/cgroup/cgroup.procs 0

for space in user mnt pid net ipc uts cgroup time; do
	case $space in user) how=host try=attempt_any ;; *) how=ns try=attempt_own ;; esac
	$try "unshare: new $space namespace" $how unshare $space
done
for space in user mnt net; do
	case $space in user) how=host try=attempt_any ;; *) how=ns try=attempt_own ;; esac
	$try "clone: new $space namespace" $how clone $space
	$try "clone3: new $space namespace" $how clone3 $space
done
attempt_own 'change the host name' root set-hostname "$(hostname)"

ok 'a mount made on the host later does not show inside' '
	have ROOT || lacks "needs root"
	mkdir -p "$T/m" && mount -t tmpfs t "$T/m" && touch "$T/m/x"
	rc=0; cove exec "$BOX" -- test -e "$T/m/x" || rc=$?
	umount "$T/m"
	same 1 $rc'

done_testing
