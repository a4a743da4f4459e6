#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Nothing of the caller comes along: descriptors, variables, agent sockets, ids, groups.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS JQ

ID=$$
SECRET=inherited-$$-secret
echo "$SECRET" >"$T/secret"
# A caller that left many doors open: files, directories, the root of the host.
with_doors() {
	(
		# shellcheck disable=SC2094 # that is the point
		exec 5<"$T/secret" 6</ 7<"$T" 8>>"$T/secret" 9<"$T/secret"
		"$@"
	)
}
# Numbers above 9 are not for every shell: /bin/sh hands over to a program that dups them.
printf 'use POSIX; dup2(6, $_) for 10..20, 100, 1000; $^F = 4096; exec @ARGV or die;\n' >"$T/doors.pl"
many_doors() { with_doors perl "$T/doors.pl" "$@"; }

ok 'control: descriptors are inherited outside' 'many_doors "$A" descriptors'
ok 'control: a descriptor leads to the secret outside' 'many_doors "$A" fd-walk "$T/secret" "$SECRET"'
for user in agent root; do
	ok "no descriptor enters a one-shot, as $user" '
		must_refuse many_doors in_box "$1" "$A" descriptors
		must_refuse many_doors in_box "$1" "$A" fd-walk "$T/secret" "$SECRET"' $user
done
ok 'no descriptor enters by the start of a named sandbox, or by exec' '
	cove create -q "$BOX" --no-mounts --mount "$COVE_DIR/escape:ro"
	many_doors cove start -q "$BOX"
	must_refuse many_doors cove exec "$BOX" -- "$A" descriptors
	must_refuse many_doors cove exec "$BOX" -- "$A" fd-walk "$T/secret" "$SECRET"'
ok 'the keeper keeps none of them either' '
	for d in /proc/[0-9]*; do
		[ "$(cat "$d/comm" 2>/dev/null)" = cove-keeper ] || continue
		grep -qz "COVE_HOME=$COVE_HOME" "$d/environ" 2>/dev/null || continue
		! ls -l "$d/fd" | grep -F "$T/secret" || exit 1
	done'
ok 'stdin and stdout are not the files of the caller' '
	inode=$(stat -c %i "$T/secret")
	rc=0; "$A" host-inode $inode <"$T/secret" || rc=$?; same 0 $rc # the control
	must_refuse in_box agent "$A" host-inode $inode <"$T/secret"
	must_refuse in_box agent "$A" host-inode $(stat -c %i "$T/secret") 2>>"$T/secret"'

export CT_SECRET=$SECRET SSH_AUTH_SOCK="$T/agent.sock" DBUS_SESSION_BUS_ADDRESS="unix:path=$T/bus" \
	AWS_SECRET_ACCESS_KEY=$SECRET LD_PRELOAD_X=$SECRET
ok 'control: the environment is inherited outside' '"$A" env CT_SECRET'
for name in CT_SECRET "$SECRET" SSH_AUTH_SOCK DBUS_ AWS_ COVE_HOME "$T/home"; do
	ok "environment: no $name" '
		must_refuse in_box agent "$A" env "$1"
		must_refuse in_box root "$A" env "$1"
		must_refuse cove exec "$BOX" -- "$A" env "$1"' "$name"
done
ok "no process inside shows the caller's environment" '
	must_refuse in_box agent "$A" see "$SECRET"
	must_refuse cove exec "$BOX" -- "$A" see "$SECRET"'
ok 'what is named does enter' 'same yes "$(cove run -q --no-mounts --env CT_SECRET=yes -- sh -c "echo \$CT_SECRET")"'
ok 'TERM, LANG and TZ enter' '
	same "vt100 C.UTF-8 Asia/Tokyo" "$(unset LC_ALL; TERM=vt100 LANG=C.UTF-8 TZ=Asia/Tokyo \
		cove run -q --no-mounts -- sh -c "echo \$TERM \$LANG \$TZ")"'

ok 'no supplementary group of the caller counts' '
	groups=$(in_box agent sh -c "grep Groups: /proc/self/status" | tr -d "\t ")
	case $groups in Groups: | Groups:65534* | Groups:1000 | Groups:100) ;; *) echo "$groups"; false ;; esac'
confined() { # STATUS: of a process
	has "$1" "NoNewPrivs:	1"
	has "$1" "Seccomp:	2"
	has "$1" "CapEff:	0000000000000000"
	has "$1" "CapPrm:	0000000000000000"
	has "$1" "CapBnd:	0000000000000000"
}
# What a machine consists of on the host.
parts_of() { # NAME
	keeper=$(cove inspect "$1" | jq .keeperPid)
	vmm=$(pgrep -P "$keeper" -x cove-vmm)
	echo "$vmm" "$(pgrep -P "$keeper" -x cove-fs)" "$(pgrep -P "$vmm" qemu-system)"
}
ok 'no new privileges, and a filter' '
	if have PROCESS; then
		confined "$(in_box agent cat /proc/self/status)"
	else
		set -- $(parts_of "$BOX")
		same 3 $#
		for pid; do confined "$(cat /proc/$pid/status)"; done
		status=$(in_box agent cat /proc/self/status)
		has "$status" "CapEff:	0000000000000000"
		has "$status" "CapPrm:	0000000000000000"
	fi'
ok 'root inside is nobody outside' '
	have ROOT || lacks "needs root"
	cove create -q rooted --no-mounts --user root
	cove start -q rooted
	same 0 "$(cove exec rooted -- id -u)"
	cove exec rooted -- sleep 4.$ID & p=$!
	if have PROCESS; then
		wait_for 5 pgrep -f "^sleep 4.$ID" >/dev/null
		set -- "$(pgrep -f "^sleep 4.$ID" | head -n 1)"
	else
		set -- $(parts_of rooted)
		same 3 $#
	fi
	for pid; do
		uid=$(ps -o uid= -p $pid | tr -d " ")
		[ "$uid" -ge 1000 ] && [ "$uid" != 65534 ]
	done
	kill $p'

done_testing
