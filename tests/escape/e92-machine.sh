#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Root of a machine, who rules its kernel, against the host: mounts made writable, and the host's end
# of its ports. What it writes there ends its own machine at most: in order, with a reason, with
# bounded memory, and with nothing of the host read or changed.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS JQ
have VM || skip_all 'root of a machine is what attacks here'
chmod 755 "$T"
mkdir "$T/ro" && echo precious >"$T/ro/file"
shape() { find "$T/ro" "$W" "$COVE_DIR/escape" -printf '%p %y %m %U:%G %s %T@ %l\n' | sort; cat "$T/ro/file" "$W/main.c"; }
shape >"$T/before"
unharmed() { shape | diff "$T/before" -; }

machine() { # NAME
	one_box "$1" --user root --mount "$T/ro:ro"
}
machine bystander || exit 1
ok 'read-only mounts made writable inside: nothing changes outside' '
	machine mounts
	for dir in "$T/ro" "$COVE_DIR/escape" /usr /etc; do
		cove exec mounts -- mount -o remount,rw "$dir" || :
	done
	cove exec mounts -- sh -c "echo evil >$T/ro/file" && exit 1
	cove exec mounts -- sh -c "echo evil >$T/ro/new" && exit 1
	cove exec mounts -- chmod 777 "$T/ro/file" && exit 1
	cove exec mounts -- rm -f "$T/ro/file" && exit 1
	cove exec mounts -- touch -d 2001-01-01 "$T/ro/file" && exit 1
	cove exec mounts -- sh -c "echo evil >$COVE_DIR/escape/attack" && exit 1
	unharmed
	same precious "$(cove exec mounts -- cat "$T/ro/file")"'
ok 'nor by a second mount of the same, or from another namespace' '
	cove exec mounts -- sh -c "mkdir -p /tmp/m && mount --bind $T/ro /tmp/m && mount -o remount,bind,rw /tmp/m"
	cove exec mounts -- sh -c "echo evil >/tmp/m/file" && exit 1
	cove exec mounts -- unshare -m sh -c "mount -o remount,rw $T/ro; echo evil >$T/ro/file" && exit 1
	unharmed
	cove rm -f mounts'

keeper_of() { cove inspect "$1" | jq .keeperPid; }
children() { ps -eo ppid=,pid= | awk -v p="$1" '$1 == p { print $2 }'; }
# KiB that the host's own programs of this machine hold; QEMU's memory is the machine's.
host_holds() { # KEEPER
	for host_pid in "$1" $(children "$1"); do
		awk '/^Name:/ { n = $2 } /^VmRSS:/ && n !~ /^qemu/ { print $2 }' "/proc/$host_pid/status" 2>/dev/null
	done | awk '{ n += $1 } END { print n + 0 }'
}
# Its machine lives, or has ended with a reason; the bystander and the host are well.
ok 'a port is open once: root has to take it from the guest' '
	machine once
	for port in cove.link cove.fs cove.net; do
		must_refuse cove exec once -- "$A" port-open $port
	done
	cove rm -f once'
for port in cove.link cove.fs cove.net; do
	for kind in garbage lengths forged; do
		ok "$kind written to $port" '
			machine evil
			keeper=$(keeper_of evil)
			timeout "$(patient 20)" cove exec evil -- "$A" port "$1" "$2" 3 >"$T/out" 2>&1 & p=$!
			most=0
			while kill -0 $p 2>/dev/null; do
				now=$(host_holds "$keeper")
				[ "$now" -le $most ] || most=$now
				sleep 0.3
			done
			wait $p || :
			cat "$T/out"
			echo "at most $most KiB"
			[ "$most" -gt 0 ] && [ "$most" -lt 200000 ]
			if ! timeout "$(patient 10)" cove exec evil -- true 2>"$T/err"; then
				cat "$T/err"
				wait_for 10 sh -c "cove ls --json | jq -e \".[] | select(.name == \\\"evil\\\").state == \\\"stopped\\\"\""
				cove inspect evil | jq -e ".lastRun.reason | length > 0"
			fi
			cove exec bystander -- true
			unharmed
			timeout 60 cove rm -f evil
			! LC_ALL=C grep -q "$(printf "[\001-\010\016-\037]")" "$T/err" || exit 1' $port $kind
	done
done

done_testing
