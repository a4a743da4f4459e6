#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Limits: met where the host can, refused where it cannot, told with --degraded.
# alone: it measures processor time.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
A=$COVE_DIR/escape/attack
box() { cove run -q --no-mounts --mount "$COVE_DIR/escape:ro" "$@"; }
stopped() { stopped_rc=0; "$@" || stopped_rc=$?; [ $stopped_rc -eq 137 ] || { [ $stopped_rc -gt 0 ] && [ $stopped_rc -lt 125 ]; }; }
# A kernel of its own needs some of the memory, and QEMU some beside it.
if have VM; then
	small=160MiB large=400MiB much=400 little=100 group=436207616
else
	small=64MiB large=300MiB much=200 little=100 group=67108864
fi

if have CGROUP_MEMORY; then
	ok 'memory is limited' 'stopped box --memory $small -- "$A" memory $much; box --memory $large -- "$A" memory $little'
	ok 'the control group says the same' '
		cove create -q m --no-mounts --memory $small --pids 77 && cove start -q m
		[ -n "$(left_cgroups)" ]
		found=$(for d in $(left_cgroups); do cat $d/memory.limit_in_bytes $d/memory.max || :; done 2>/dev/null)
		has "
$found
" "
$group
"
		cove attest m
		cove rm -f m'
	ok 'a running sandbox gets new limits; a machine must be stopped for them' '
		cove create -q s --no-mounts --mount "$COVE_DIR/escape:ro" --memory $small && cove start -q s
		stopped cove exec s -- "$A" memory $much
		if have VM; then
			rc_is 125 cove set s --memory $large 2>"$T/err"
			has "$(cat "$T/err")" "stop it, change it, start it"
			cove stop -q s
			cove set s --memory $large
			cove start -q s
		fi
		cove set s --memory $large
		cove exec s -- "$A" memory $little
		cove rm -f s'
else
	skip 'memory limits' 'needs root and the memory controller'
fi
if have CGROUP_PIDS; then
	ok 'processes are limited' 'stopped box --pids 16 -- "$A" forks 40; box --pids 64 -- "$A" forks 40'
else
	skip 'process limits by control group' 'needs root and the pids controller'
fi
if have CGROUP_CPU; then
	# Milliseconds of processor time that a busy loop gets within SECONDS.
	# A machine's clock is its own: there it is what QEMU got, in as many seconds of the host.
	busy() { # SECONDS FLAGS...
		busy_seconds=$1
		shift
		! have VM || { busy_machine "$@"; return; }
		box "$@" -- sh -c "timeout $busy_seconds sh -c \"while :; do :; done\"; times" |
			awk -F'[ms]' 'NR == 2 { printf "%d", ($1 * 60 + $2) * 1000 }'
	}
	qemu_ms() { awk '{ sub(/.*\) /, ""); printf "%d", ($12 + $13) * 10 }' "/proc/$1/stat"; }
	child_of() { ps -eo ppid=,pid=,comm= | awk -v p="$1" -v c="$2" '$1 == p && index($3, c) == 1 { print $2 }'; }
	busy_machine() { # FLAGS...
		cove create -q busy --no-mounts "$@" && cove start -q busy
		busy_qemu=$(child_of "$(child_of "$(cove inspect busy | jq .keeperPid)" cove-vmm)" qemu)
		cove exec -d busy -- sh -c "while :; do :; done" >/dev/null
		busy_before=$(qemu_ms "$busy_qemu") busy_from=$(date +%s%3N)
		sleep "$busy_seconds"
		echo $((($(qemu_ms "$busy_qemu") - busy_before) * busy_seconds * 1000 / ($(date +%s%3N) - busy_from)))
		cove rm -f busy >/dev/null
	}
	ok 'processor time is limited' '
		with=$(busy 2 --cpus 0.2)
		without=$(busy 2)
		echo "within two seconds: with 0.2 cpus $with ms, without $without ms"
		[ "$with" -lt 600 ]
		# A machine that is busy otherwise may not give it more than that.
		[ "$without" -gt 700 ] || [ "$(busy 6)" -gt 700 ] || lacks "a processor that is free"'
else
	skip 'processor limits' 'needs root and the cpu controller'
fi

# An ordinary user without a delegated control group cannot have these.
if have USER && ! cove run -q --no-mounts --memory 64MiB -- true 2>"$T/err"; then
	ok 'a limit that cannot be set is refused, with the reason' '
		rc_is 125 cove run -q --no-mounts --memory 64MiB -- true 2>"$T/err"
		has "$(cat "$T/err")" memory
		[ $(wc -l <"$T/err") -ge 2 ] # the hint
		same "" "$(cove ls -q)"'
	ok '--degraded runs all the same' 'same ok "$(cove run -q --degraded --no-mounts --memory 64MiB -- echo ok)"'
	ok '--degraded is told by ls, inspect and attest' '
		cove create -q d --no-mounts --memory 64MiB
		cove start -q --degraded d
		has "$(cove ls)" degraded
		cove ls --json | jq -e ".[0] | .degraded" >/dev/null
		cove inspect d --json | grep -q degraded
		rc=0; cove attest d >"$T/attest" || rc=$?
		[ $rc -ne 0 ]
		has "$(cat "$T/attest")" memory
		cove rm -f d'
else
	skip 'refusal and --degraded' 'this host can set the limits'
fi
ok 'defaults that cannot be set do not get in the way' 'cove run -q --no-mounts -- true'
ok 'wrong sizes are refused' '
	for bad in abc -5 5XB "" 99999999999999999999; do
		rc=0; cove run -q --no-mounts --memory "$bad" -- true 2>"$T/err" || rc=$?
		[ $rc -eq 125 ] || [ $rc -eq 2 ]
	done'
ok 'file size, core and descriptor limits are set inside' '
	same 0 "$(cove run -q --no-mounts -- sh -c "ulimit -c")"
	[ "$(cove run -q --no-mounts -- sh -c "ulimit -n")" -ge 1024 ]'

done_testing
