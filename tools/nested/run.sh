#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [OPTION...] -- COMMAND... - runs COMMAND in a machine where /dev/kvm is real.
#
#   --timeout S    of a machine of one's own; on a busy one it is stretched (default 300)
#   --share DIR    another directory of the host, read-only, beside the system and the project
#   --env NAME     a variable to hand on
#   --memory MIB   of the machine (default 3072)
#   --retries N    starts after a hang of the machine (default 1)
#   --silence S    without a sign of life that are a hang (default 30; it beats once a second)
#   --verbose      says how long it took
#
# The current directory inside is the project; what is written stays in memory and is gone in
# the end. Output is live, the exit status is the command's: 124 after the timeout, 125 when
# there was no machine. It is built by `make nested`; NESTED names its directory.
set -u

project=$(cd "$(dirname "$0")/../.." && pwd)
machine=${NESTED:-$project/build/release/nested}
refuse() {
	printf 'nested: %s\n' "$*" >&2
	exit 125
}

why=$("$project/tools/nested/can.sh") || refuse "$why"
for tool in unshare setpriv mount mke2fs python3 qemu-system-x86_64; do
	command -v "$tool" >/dev/null || refuse "$tool is not installed: tools/setup.sh kvm"
done
[ -x /usr/lib/qemu/virtiofsd ] || [ -x /usr/libexec/virtiofsd ] ||
	refuse 'virtiofsd is not installed: tools/setup.sh kvm'
for file in vmlinuz initramfs tsc; do
	[ -e "$machine/$file" ] || refuse "no $machine/$file: make nested"
done

# The machine lives and dies with its namespace, the namespace with this process: by the trap
# where there is time for one, by the kernel's death signal where there is none.
child=
trap '[ -z "$child" ] || kill -KILL $child; wait; exit 130' INT
trap '[ -z "$child" ] || kill -KILL $child; wait; exit 143' TERM HUP
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
	python3 "$project/tools/nested/machine.py" --machine "$machine" --project "$project" "$@" &
child=$!
wait $child
