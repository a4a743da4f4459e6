#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# can.sh - whether this host can run the nested machine, whatever is installed and built; or prints
# why not, and ends with 1.
set -u
no() {
	printf '%s\n' "$*"
	exit 1
}
mib=4608 # the machine's memory, and what QEMU needs beside it

[ "$(uname -m)" = x86_64 ] || no 'needs an x86-64 host'
[ "$(id -u)" = 0 ] || no 'needs root: it shares system directories by mounts of its own'
there=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
[ "$there" -ge $mib ] || no "needs $mib MiB of memory, $there are available"
unshare --mount --pid --fork true 2>/dev/null ||
	no 'cannot make a mount and a pid namespace: needs CAP_SYS_ADMIN'
