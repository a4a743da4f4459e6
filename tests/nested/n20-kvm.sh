#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /dev/kvm of the nested machine is real: the probe says so, and an ordinary kernel boots on it.
. "$(dirname "$0")/../lib/harness.sh"
need NESTED

# quiet: every letter on a serial port is two exits, and a boot log doubles the time of a boot.
boot() { # OPTION...
	timeout 300 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -cpu host \
		-m 128M -kernel "$COVE_NESTED/vmlinuz" -initrd "$COVE_NESTED/hello.cpio" -serial stdio -append \
		'console=ttyS0 quiet reboot=t panic=-1 mitigations=off cryptomgr.notests nohz=off initcall_blacklist=cmos_init' \
		"$@"
}

ok 'the probe of /dev/kvm says usable' '"$COVE_NESTED/probe"'
ok 'QEMU on KVM brings the cloud kernel to userspace' '
	has "$(boot -accel kvm -M microvm,acpi=off)" "userspace reached"'
ok 'with two processors, ACPI and PCI, too' '
	has "$(boot -accel kvm -M q35 -smp 2)" "userspace reached"'
done_testing
