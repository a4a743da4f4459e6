#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernel interfaces that no program in a sandbox needs are closed: calls, knobs, devices.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS
start_box || exit 1

attempt_own 'bpf: a map' root bpf-map
attempt_own 'bpf: a program' root bpf-prog
attempt_own 'perf events' root perf
attempt_any 'io_uring' maybe io-uring
attempt_any 'userfaultfd' maybe userfaultfd
attempt_own 'the kernel log' root kernel-log
attempt_own 'set the time' root set-time
for name in $("$A" reach-names); do
	case $name in
	keyctl | add-key | request-key | io-uring-* | process-madvise | move-pages) how=maybe ;;
	reboot | swapon | swapoff) how=root ;;
	*) how=none ;;
	esac
	case $name in
	keyctl | add-key | request-key | io-uring-* | process-madvise | move-pages | quotactl | modify-ldt) try=attempt_any ;;
	*) try=attempt_own ;;
	esac
	$try "reach $name" $how reach "$name"
done

case $(uname -m) in
x86_64)
	attempt_any 'i386 system calls' maybe int80
	attempt 'x32 system calls' none x32
	ok 'a foreign system call kills' '
		needs PROCESS "the kernel of a machine answers for itself"
		rc_is 31 in_box agent "$A" x32
		rc_is 31 in_box agent "$A" int80'
	;;
*) skip 'foreign system calls kill' "not on $(uname -m)" ;;
esac

# What /proc and /sys offer to root of the host.
for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/kernel/modprobe \
	/proc/sys/vm/overcommit_memory /proc/sys/fs/binfmt_misc/register /proc/sys/net/ipv4/ip_forward \
	/proc/sysrq-trigger /proc/1/oom_score_adj /sys/kernel/uevent_helper /sys/power/state; do
	attempt_own "write $file" none write "$file" ''
done
pattern=$(cat /proc/sys/kernel/core_pattern)
when_done 'grep -qxF "$pattern" /proc/sys/kernel/core_pattern || echo "$pattern" >/proc/sys/kernel/core_pattern'
attempt_own 'core_pattern takes a program' none write /proc/sys/kernel/core_pattern '|/tmp/x'
ok 'the host keeps its core pattern' '! grep -q "^|/tmp/x" /proc/sys/kernel/core_pattern'
for file in /proc/kcore /proc/kmsg /proc/timer_list /proc/vmallocinfo /proc/1/stack \
	/sys/kernel/debug/sched/debug /dev/mem /dev/port /dev/kmsg /dev/kvm /dev/fuse /dev/vda /dev/sda \
	/dev/nvme0n1 /dev/loop0 /dev/loop-control /dev/tty1 /dev/vcs1 /dev/snapshot /dev/net/tun \
	/dev/userfaultfd /dev/vsock /dev/hwrng /dev/uinput; do
	attempt_own "read $file" none read "$file"
done
# An ordinary user's own keyrings are listed by name; the keys themselves need keyctl. A machine
# lists its own.
if have ROOT; then attempt_any 'the list of keys' host read /proc/keys; fi
ok 'the devices that programs need are there' '
	in_box agent sh -c "for d in null zero full random urandom tty ptmx; do test -e /dev/\$d || exit 1; done
		head -c 4 /dev/urandom | wc -c; echo >/dev/null"'

attempt 'a block device node' none mknod "$W/blk" b 254 0
attempt 'a character device node' root mknod "$W/chr" c 1 5
attempt 'a character device node in /tmp' none mknod /tmp/mem c 1 1
attempt_own 'a device node in /dev' none mknod /dev/mem2 c 1 1

done_testing
