# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# harness.sh - what every script test sources first. The test writes TAP.
#
#   need USERNS TMUX ...   the whole file is skipped, visibly, where one of these is missing
#   have USERNS            the same as a question
#   ok TITLE SCRIPT [ARG]  runs SCRIPT (with ARGs as "$@") in a subshell with set -e; its output
#                          is shown if it fails
#   skip TITLE WHY
#   lacks WHY              inside a SCRIPT: this machine or user cannot; a skip, never a pass
#   needs PROCESS WHY      the same unless `have PROCESS`: what only one backend has
#   process_only WHY       the whole file is skipped, visibly, on any other backend
#   must_refuse CMD...     exit 1-124 is a refusal; 0 is a breach; 125 and more prove nothing
#   rc_is N CMD...         the exit status is N
#   same WANT GOT          two texts are equal;  has TEXT PART: the one holds the other
#   wait_for SECONDS CMD.. polls until CMD succeeds
#   patient SECONDS        prints how long to wait at most on this backend (wait_for knows by itself)
#   slow SECONDS           prints how long to wait in any case, for something that takes so long
#   often N                prints how often, where the process backend does something N times
#   new_home DIR           an empty state directory in which sandboxes of this backend can start
#   when_done CMD          at the end, last one first
#   done_testing           checks that nothing is left behind, and prints the plan
#
# Every file has a private HOME, COVE_HOME and scratch directory $T, and `cove` in PATH is
# $COVE_BIN (default: build/release/cove). `sh tests/integration/t10-run.sh` works by hand.
#
# COVE_TEST_BACKEND=vm: every sandbox is a machine, unless a script says otherwise (--backend).
# A test that holds on one backend only says so with its reason, and is a skip on the other; it
# never asks for less on either. tests/lib/vm.sh provides the kernel.

here=$(cd "$(dirname "$0")" && pwd)
COVE_SRC=${COVE_SRC:-${here%/tests/*}}
COVE_BIN=${COVE_BIN:-$COVE_SRC/build/release/cove}
COVE_DIR=$(cd "$(dirname "$COVE_BIN")" && pwd) || exit 1

BACKEND=${COVE_TEST_BACKEND:-process}
# An emulated machine takes its time, above all on a busy host; and any host stands still for a
# second or two now and then, which must not be taken for a fault.
case $BACKEND in
process) patience=3 slowness=1 fewer=1 ;;
vm) patience=5 slowness=5 fewer=10 && [ -z "${COVE_NESTED:-}" ] || patience=10 slowness=10 ;;
*) echo "COVE_TEST_BACKEND is process or vm, not $BACKEND"; exit 2 ;;
esac
patient() { echo $(($1 * patience)); }
slow() { echo $(($1 * slowness)); }
often() { echo $((($1 + fewer - 1) / fewer)); }

if [ -z "${COVE_TEST_REAPER:-}" ]; then
	exec "$COVE_DIR/escape/reaper" "${COVE_TEST_TIMEOUT:-$(patient 180)}" sh "$here/${0##*/}" "$@"
fi

T=$(mktemp -d "${COVE_TEST_TMP:-/tmp}/ct.XXXXXX") || exit 1
HOME=$T/home
COVE_HOME=$T/c
# The commands under test are the built ones, whatever the caller's PATH says first.
mkdir -m 700 "$HOME" "$T/bin" && ln -s "$COVE_DIR/cove" "$T/bin/cove" || exit 1
PATH=$T/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$COVE_SRC/build/peers/usr/sbin
LC_ALL=C.UTF-8
export T HOME COVE_HOME COVE_SRC COVE_BIN COVE_DIR PATH LC_ALL
unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME COVE_BACKEND COVE_GUEST CDPATH ENV
unset SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS
umask 022
cd "$T" || exit 1

tap_n=0
tap_failed=0
tap_done=
cleanups=:

when_done() { cleanups="$1; $cleanups"; }

finish() {
	eval "$cleanups" >/dev/null 2>&1
	[ -n "$tap_done" ] || echo "not ok - the script reached its end"
	cd / && chmod -R u+rwX "$T" 2>/dev/null
	rm -rf "$T"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

have() {
	case $1 in
	ROOT) [ "$(id -u)" = 0 ] ;;
	USER) [ "$(id -u)" != 0 ] ;;
	USERNS) unshare -Ur true 2>/dev/null ;;
	CGROUP_MEMORY) [ "$(id -u)" = 0 ] && cgroup_has memory ;;
	CGROUP_PIDS) [ "$(id -u)" = 0 ] && cgroup_has pids ;;
	CGROUP_CPU) [ "$(id -u)" = 0 ] && cgroup_has cpu ;;
	PROCESS) [ "$BACKEND" = process ] ;;
	VM) [ "$BACKEND" = vm ] ;;
	STATIC_GUEST) ! grep -q asan_init "$COVE_DIR/cove-guest" ;;
	NESTED) [ -n "${COVE_NESTED:-}" ] ;; # tools/nested/run.sh
	SOURCE) [ -r "$COVE_SRC/Makefile" ] ;;
	CC) command -v gcc >/dev/null && command -v make >/dev/null ;;
	TMUX | EXPECT | JQ | GIT | LESS | VI | STRACE | SCRIPT | MUSL_GCC | CURL | PYTHON3)
		command -v "$(echo "$1" | tr 'A-Z_' 'a-z-')" >/dev/null ;;
	*) echo "# harness: unknown need $1"; return 1 ;;
	esac
}

# A controller that the host mounts (v1), or that v2's root offers.
cgroup_has() {
	grep -qE " - cgroup [^ ]+ ([^ ]*,)?$1(,|\$)" /proc/self/mountinfo ||
		grep -qw "$1" /sys/fs/cgroup/cgroup.controllers 2>/dev/null
}

skip_all() {
	tap_done=1
	echo "1..0 # SKIP $1"
	exit 0
}

need() {
	for what in "$@"; do
		have "$what" || skip_all "needs $what"
	done
}

process_only() { have PROCESS || skip_all "the process backend's: $1"; }

lacks() {
	echo "$1" >"$T/.lacks"
	exit 77
}

needs() { have "$1" || lacks "$2"; }

ok() {
	tap_n=$((tap_n + 1))
	rm -f "$T/.lacks"
	tap_title=$1
	tap_script=$2
	shift 2
	(
		set -e
		eval "$tap_script"
	) >"$T/.out" 2>&1 </dev/null
	tap_rc=$?
	if [ $tap_rc -eq 0 ]; then
		echo "ok $tap_n - $tap_title"
		return 0
	fi
	if [ $tap_rc -eq 77 ] && [ -e "$T/.lacks" ]; then
		echo "ok $tap_n - $tap_title # SKIP $(cat "$T/.lacks")"
		return 0
	fi
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_n - $tap_title"
	printf '%s\n' "$tap_script" "$@" | sed 's/^/#   | /'
	echo "#   exit status $tap_rc, output:"
	tail -c 4000 "$T/.out" | tr -d '\000' | sed 's/^/#   > /'
	return 1
}

skip() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

must_refuse() {
	refuse_rc=0
	"$@" || refuse_rc=$?
	[ $refuse_rc -ne 0 ] || { echo "BREACH: $*"; return 1; }
	[ $refuse_rc -lt 125 ] || { echo "proves nothing, exit status $refuse_rc: $*"; return 1; }
}

rc_is() {
	want_rc=$1
	shift
	got_rc=0
	"$@" || got_rc=$?
	[ "$got_rc" = "$want_rc" ] || { echo "exit status $got_rc, not $want_rc: $*"; return 1; }
}

same() {
	[ "$1" = "$2" ] || { printf 'want: %s\n got: %s\n' "$1" "$2"; return 1; }
}

has() {
	case $1 in *"$2"*) ;; *) printf 'no "%s" in: %s\n' "$2" "$1"; return 1 ;; esac
}

wait_for() {
	wait_n=$(($(patient "$1") * 20))
	shift
	until "$@"; do
		wait_n=$((wait_n - 1))
		[ $wait_n -gt 0 ] || { echo "waited in vain for: $*"; return 1; }
		sleep 0.05
	done
}

# Processes that the commands of this file left behind: they are the reaper's children now.
left_processes() {
	ps -eo ppid=,pid=,stat=,args= | awk -v r="$COVE_TEST_REAPER" -v me=$$ \
		'$1 == r && $2 != me && $3 !~ /^Z/ { print }'
}
left_mounts() { grep -F "$T/" /proc/self/mountinfo; }
left_locks() {
	find "$T" -type f -printf '%i\n' 2>/dev/null | sort >"$T/.inodes"
	awk '{ split($6, p, ":"); print p[3] }' /proc/locks | sort | comm -12 - "$T/.inodes"
}
# A control group is called cove-NAME.HASH, with a hash of the state directory (FNV-1a), so those
# of other people's sandboxes are not ours. t50 checks that they are found while in use.
COVE_HASH=$(perl -e '$h = 2166136261; $h = (($h ^ $_) * 16777619) & 0xffffffff for unpack "C*", shift;
	printf "%08x", $h' "$COVE_HOME")
left_cgroups() { find /sys/fs/cgroup -type d -name "cove-*.$COVE_HASH" 2>/dev/null; }

nothing() { # CMD: prints nothing
	nothing_got=$("$@") || true
	[ -z "$nothing_got" ]
}

if have VM; then
	. "$COVE_SRC/tests/lib/vm.sh"
	vm_use
fi
new_home() {
	mkdir -m 700 "$1" || return 1
	! have VM || vm_home "$1"
}
# shellcheck disable=SC2031
new_home "$COVE_HOME" || exit 1

done_testing() {
	ok 'no process, mount, lock or control group is left' '
		for name in $(cove ls -q); do cove rm --force "$name"; done
		cove ls
		wait_for 5 nothing left_processes || { left_processes; false; }
		wait_for 2 nothing left_mounts || { left_mounts; false; }
		wait_for 2 nothing left_locks || { left_locks; false; }
		wait_for 3 nothing left_cgroups || { left_cgroups; false; }'
	tap_done=1
	echo "1..$tap_n"
	[ $tap_failed -eq 0 ]
	exit
}
