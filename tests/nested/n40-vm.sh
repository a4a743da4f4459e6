#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The vm backend on a real /dev/kvm: what only hardware virtualization can show, and one walk
# through the life of a machine. The integration suite runs on it by name, see tools/nested/test.py.
# limit: 240
COVE_TEST_BACKEND=vm
export COVE_TEST_BACKEND
. "$(dirname "$0")/../lib/harness.sh"
need NESTED JQ
mkdir p && cd p || exit 1
in_box() { cove exec box -- "$@"; }
count() { in_box cat /tmp/count; }
grows() { before=$(count); wait_for 10 sh -c "[ \"\$(cove exec box -- cat /tmp/count)\" -gt $before ]"; }
attested() { cove attest --json "$1" | jq -r ".items[] | select(.item == \"$2\").actual"; }

ok 'the kernel is the one of the package at hand; the doctor finds nothing missing' '
	has "$(cove kernel ls --json | jq -r ".[] | select(.default).name")" cloud-amd64
	cove doctor --json >"$T/doctor" || true
	for check in kvm qemu guest-kernel; do
		jq -e "[.. | objects | select(.name? == \"$check\" and .backend? == \"vm\")][0].ok" "$T/doctor" ||
			{ cat "$T/doctor"; false; }
	done'
have ROOT && ok 'who is not in its group is told how to get there' '
	[ "$(stat -c %a /dev/kvm)" = 660 ] || lacks "everybody may use /dev/kvm here"
	other=$(mktemp -d /tmp/ct.XXXXXX)
	chown 65534 "$other"
	(cd / && setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$other" COVE_HOME="$other/c" \
		"$COVE_BIN" doctor --json) >"$T/doctor" || true
	rm -rf "$other"
	has "$(jq -r "[.. | objects | select(.name? == \"kvm\")][0].fix" "$T/doctor")" "usermod -aG kvm"'
ok 'a command runs, and nobody speaks of emulation' '
	same hello "$(cove run --no-mounts -- echo hello 2>"$T/err")"
	! grep -i emulat "$T/err" || exit 1'
ok 'auto takes the machine here' '
	cove create auto --backend auto --no-mounts
	cove start auto
	same "hardware virtualization (KVM)" "$(attested auto isolation)"
	! have ROOT || ls -l /proc/[0-9]*/fd 2>/dev/null | grep anon_inode:kvm-vcpu
	cove rm -f auto'
ok 'the workspace: read inside, changed in a layer, shown, applied' '
	echo old >file
	cove create box . --net allowlist --memory 512M
	cove start box
	same old "$(in_box cat file)"
	in_box sh -c "echo new >file; mkdir d; echo more >d/more"
	same old "$(cat file)"
	cove diff --name-only box >"$T/names"
	has "$(cat "$T/names")" d/more
	has "$(cat "$T/names")" file
	cove apply --yes box
	same "new more" "$(cat file d/more | paste -sd" ")"'
ok 'it is attested: KVM, a restored template, everything as asked' '
	same "hardware virtualization (KVM)" "$(attested box isolation)"
	has "$(attested box "QEMU: template")" "0 shared; of 1 descriptors 0 can write"
	same 0 "$(cove attest --json box | jq .short)"'
ok 'what policy does not allow is refused, and logged' '
	must_refuse in_box curl -sSf --max-time 20 http://192.0.2.1/
	cove net log box --json | jq -s -e "map(select(.verdict == \"deny\")) | length >= 1"'
ok 'memory is saved with what runs in it, and goes on from there' '
	cove exec -d box -- sh -c "i=0; while :; do i=\$((i + 1)); echo \$i >/tmp/count; sleep 0.2; done"
	wait_for 10 in_box test -s /tmp/count
	grows
	cove snapshot --with-memory box then
	in_box touch /tmp/later
	cove stop box
	cove restore --yes box then
	! in_box test -e /tmp/later || exit 1
	grows
	same "hardware virtualization (KVM)" "$(attested box isolation)"'
ok 'two restores of one template are no twins' '
	for i in 1 2; do cove run -q --no-mounts -- sh -c "head -c 16 /dev/urandom | od -An -tx1
		cat /proc/sys/kernel/random/boot_id /etc/machine-id"; done | sort | uniq -d >"$T/same"
	same "" "$(cat "$T/same")"'
ok 'it stops in order, and starts again' '
	cove stop box
	cove start box
	same new "$(in_box cat file)"
	cove rm -f box'
done_testing
