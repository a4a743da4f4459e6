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
# $A is the attack program, $W a workspace that is mounted as overlay, $BOX the name of a running
# sandbox with the same mounts.

A=$COVE_DIR/escape/attack
W=$T/work
BOX=esc
mkdir "$W"
echo 'int main(void) { return 0; }' >"$W/main.c"

start_box() {
	cove create -q "$BOX" --no-mounts --mount "$COVE_DIR/escape:ro" --mount "$W:overlay" \
		--workdir "$W" && cove start -q "$BOX"
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

attempt() {
	attempt_title=$1
	shift
	ok "$attempt_title" '
		how=$1
		shift
		control "$how" "$A" "$@"
		must_refuse in_box agent "$A" "$@"
		must_refuse in_box root "$A" "$@"
		must_refuse cove exec "$BOX" -- "$A" "$@"' "$@"
}
