# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# escape.sh - sourced after harness.sh by the escape tests.
#
#   attempt TITLE CONTROL NAME [ARG...]
#	The attack must be refused: as the ordinary user and as root of a one-shot sandbox,
#	and by exec in a running one. CONTROL says how it is shown to work without cove, so
#	that a refusal means something:
#	  host    outside, as the user who runs the tests
#	  root    the same, looked at only when that is root
#	  ns      outside, in user, mount and network namespaces of its own
#	  maybe   outside, where this kernel has the thing at all
#	  none    nothing outside would be comparable, or harmless
#
#   attempt_own TITLE CONTROL NAME [ARG...]
#   attempt_any TITLE CONTROL NAME [ARG...]
#	The same, for what is done to the kernel that the process runs on. A machine has one of its
#	own, which root there rules: there the ordinary user must be refused, and root, in a machine
#	of its own, may do it; but the host looks as before. any: nor has the ordinary user of a
#	machine to be refused, as on any other computer.
#
# Machines take longer to start, so there attempts are made in running ones, one whose commands are
# the user's and one whose are root's; FULL=1: in new ones.
#
# $A is the attack program, $W a workspace that is mounted as overlay, $BOX the name of a running
# sandbox with the same mounts.

A=$COVE_DIR/escape/attack
W=$T/work
BOX=esc
mkdir "$W"
echo 'int main(void) { return 0; }' >"$W/main.c"

one_box() { # NAME OPTION...
	one_name=$1
	shift
	cove create -q "$one_name" --no-mounts --mount "$COVE_DIR/escape:ro" --mount "$W:overlay" \
		--workdir "$W" "$@" && cove start -q "$one_name"
}
start_box() {
	one_box "$BOX" && { have PROCESS || one_box "$BOX-root" --user root; }
}

in_box() { # USER CMD...
	as=$1
	shift
	cove run -q --rm --no-mounts --mount "$COVE_DIR/escape:ro" --mount "$W:overlay" \
		--workdir "$W" --user "$as" -- "$@"
}

control() { # HOW CMD...
	how=$1
	shift
	case $how in
	host) "$@" ;;
	root) [ "$(id -u)" != 0 ] || "$@" ;;
	ns) unshare -Urmn "$@" ;;
	maybe) "$@" || echo "no control on this host" ;;
	none) : ;;
	esac || { echo "the control failed: $*"; return 1; }
}

# In a sandbox of its own, or in a running one, see above.
somewhere() { # USER CMD...
	if have PROCESS || [ -n "${FULL:-}" ]; then
		in_box "$@"
	else
		case $1 in root) somewhere_box=$BOX-root ;; *) somewhere_box=$BOX ;; esac
		shift
		cove exec "$somewhere_box" -- "$@"
	fi
}

attempt() {
	attempt_title=$1
	shift
	ok "$attempt_title" '
		how=$1
		shift
		control "$how" "$A" "$@"
		must_refuse somewhere agent "$A" "$@"
		must_refuse somewhere root "$A" "$@"
		must_refuse cove exec "$BOX" -- "$A" "$@"' "$@"
}

# What an attack on a kernel would change, if that were the kernel of the host.
host_looks() {
	hostname
	date +%Y-%m
	for knob in /proc/swaps /proc/modules /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe \
		/proc/sys/vm/overcommit_memory /proc/sys/net/ipv4/ip_forward; do
		echo "$knob $(cat "$knob" 2>/dev/null)" # not every kernel has them all
	done
	grep -F "$T/" /proc/self/mountinfo || :
	find "$COVE_DIR/escape" "$W" -printf '%p %y %m %U:%G %s %T@ %l\n' | sort
}

attempt_own() { if have VM; then on_machine own "$@"; else attempt "$@"; fi; }
attempt_any() { if have VM; then on_machine any "$@"; else attempt "$@"; fi; }
on_machine() { # own|any TITLE CONTROL NAME ARG...
	attempt_who=$1
	attempt_title=$2
	shift 3
	ok "$attempt_title" '
		before=$(host_looks)
		case $attempt_who in
		own) must_refuse cove exec "$BOX" -- "$A" "$@" ;;
		any) cove exec "$BOX" -- "$A" "$@" || : ;;
		esac
		in_box root "$A" "$@" || :
		same "$before" "$(host_looks)"
		cove exec "$BOX" -- true' "$@"
}
