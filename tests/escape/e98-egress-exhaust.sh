#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Exhaustion: connections, half-open ones, questions, and the role itself killed. Honest requests
# of the same sandbox work again within seconds, another sandbox is not disturbed, memory is bounded.
# alone: it takes all it can get.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/net_attack.sh"
need ROOT USERNS JQ
attack_world 'good.test 45.45.0.1
plain.test 45.45.0.1
sink.test 45.45.0.1
read.test 45.45.0.1
hole.test 45.45.0.77
x.wild.test 45.45.0.1'
nsenter -t "$net_there" -n python3 "$COVE_SRC/tests/lib/net_sink.py" 9000 9001 9002 9003 &
sink_pid=$!
when_done "kill $sink_pid; wait $sink_pid"
cat >"$T/spec.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [plain.test, sink.test, hole.test, "*.wild.test"]
  trust: ["$CA"]
  rules:
    - {id: read, host: [good.test, read.test], protocol: http}
END
roles() { # those in this network namespace
	for role in /proc/[0-9]*; do
		[ "$(cat "$role/comm" 2>/dev/null)" = cove-egress ] &&
			[ "$(readlink "$role/ns/net")" = "$(readlink /proc/self/ns/net)" ] && echo "${role#/proc/}"
	done
}
box a --spec "$T/spec.yaml" || exit 1
role=$(roles)
box b --spec "$T/spec.yaml" || exit 1
peak() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$role/status"; }
descriptors() { find "/proc/$role/fd" -mindepth 1 | wc -l; }
sanitized=false # its own memory is not what is measured
! grep -q asan_init "$COVE_DIR/cove-egress" || sanitized=true
# An attack in the one sandbox while the other goes on with its work.
attack() { # MIB ATTACK ARG...
	most=$1
	shift
	inside b exhaust watch 1.5 >"$T/watch" 2>&1 &
	watcher=$!
	attack_rc=0
	inside a exhaust "$@" || attack_rc=1
	wait $watcher || attack_rc=1
	cat "$T/watch"
	echo "the role has used $(peak) MiB at most, and has $(descriptors) descriptors open"
	[ "$(peak)" -le "$most" ] || $sanitized || attack_rc=1
	[ "$(roles | paste -sd" ")" = "$both" ] || { echo "a role has ended"; attack_rc=1; }
	return $attack_rc
}
both=$(roles | paste -sd' ')

ok 'control: both work' '
	has "$(cove exec a -- curl -sS http://plain.test/ok)" UPSTREAM
	has "$(cove exec b -- curl -sS http://good.test/ok)" UPSTREAM'
ok 'connections in a loop' 'attack 100 loop 6000'
ok '10,000 connections that say nothing' 'attack 200 idle 10000'
ok 'refused connections that wait' 'attack 200 denied 3000'
ok 'heads that do not end' 'attack 300 loris 1500'
ok 'TLS handshakes that do not go on' 'attack 300 hellos 1500'
ok 'a host that does not answer' 'attack 300 hole 2500'
ok 'a flood of questions' 'attack 300 dns 30000'
ok 'answers that nobody reads' 'attack 400 greedy'
ok 'everything was given back' '
	wait_for 20 sh -c "[ \$(find /proc/$role/fd -mindepth 1 | wc -l) -lt 60 ]" || { descriptors; false; }'
ok 'the log is bounded, and says that limits were met' '
	cove net log a --json >"$T/log"
	find "$COVE_HOME" -type f -size +20M | { ! grep .; }'
ok 'the role is killed: nothing falls open, nothing waits, the sandbox goes on' '
	kill -9 "$role"
	wait_for 5 sh -c "! test -e /proc/$role || grep -q \"State:.Z\" /proc/$role/status"
	up=$(wc -l <"$T/up.log")
	inside a exhaust gone
	same "$up" "$(wc -l <"$T/up.log")"
	same still "$(cove exec a -- echo still)"
	inside b exhaust watch 0.5'
ok 'and it is said what happened' '
	{ cove inspect a; cove net log a; cove ls; cove audit a; cove net check a plain.test:80; } >"$T/said" 2>&1 || true
	grep -i "cove-egress" "$T/said"'
ok 'a restart brings it back' '
	cove restart -q a
	has "$(cove exec a -- curl -sS --max-time $(patient 5) http://plain.test/ok)" UPSTREAM'
ok 'the role of a one-shot sandbox is killed' '
	cove run --verbose --rm --no-mounts --mount "$P:ro" --spec "$T/spec.yaml" -- sh -c "
		curl -sS http://plain.test/ok && echo ready; sleep 1; curl -sS --max-time $(patient 3) http://plain.test/ok; echo rc=\$?" >"$T/shot" 2>"$T/shot.err" &
	shot=$!
	wait_for 5 grep -q ready "$T/shot"
	for pid in $(roles); do
		case " $(pgrep -P "$shot" | paste -sd" ") " in *" $pid "*) kill -9 "$pid" ;; esac
	done
	wait $shot || true
	cat "$T/shot" "$T/shot.err"
	grep -qE "rc=(6|7|28)" "$T/shot" && ! grep -q "rc=28" "$T/shot"
	grep -q "cove-egress" "$T/shot.err"'
done_testing
