# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# matrix.sh - sourced by the crash matrices after harness.sh.
#
# A matrix takes one command and, for each of its system calls, prepares the same state anew,
# cuts the command off there (SIGKILL, ENOSPC, EIO; see tests/lib/inject.c), and lets the test
# judge what is left. The calls are tried in a shuffled order until the time is over; FULL=1
# tries them all. SEED=N repeats an order (default: the day of the year); the last line of
# each matrix says how many of how many were tried.
#
#   matrix TITLE PREPARE JUDGE MODE SECONDS CMD...
#      MODE: kill, enospc, eio, or enospc-stays, eio-stays (every call from there on)
#      PREPARE and JUDGE are shell functions; JUDGE gets the command's exit status and prints
#      what is wrong
SEED=${SEED:-$(date +%j)}
INJECT=$COVE_DIR/escape/inject
# Programs that run inside get a directory of their own, as a mount.
mkdir "$T/tools" && cp "$COVE_DIR/escape/mutate" "$T/tools/" && chmod -R a+rX "$T/tools" || exit 1
MUTATE=$T/tools/mutate
# LeakSanitizer cannot work under ptrace, and a sanitizer makes everything slow.
matrix_asan=
have STATIC_GUEST || matrix_asan=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

manifest() { "$MUTATE" manifest "$1"; }
now_ms() { date +%s%3N; }
inject_words() { # MODE
	case $1 in
	*-stays) echo "-p -m ${1%-stays}" ;;
	*) echo "-m $1" ;;
	esac
}

# Numbers 1..N, shuffled by the seed.
shuffled() { # N
	awk -v n="$1" -v seed="$SEED" 'BEGIN { srand(seed)
		for (i = 1; i <= n; i++) v[i] = i
		for (i = n; i > 1; i--) { j = int(rand() * i) + 1; t = v[i]; v[i] = v[j]; v[j] = t }
		for (i = 1; i <= n; i++) print v[i] }'
}

matrix_run() { # PREPARE JUDGE MODE SECONDS CMD...
	prepare=$1 judge=$2 mode=$3 seconds=$4
	shift 4
	words=$(inject_words "$mode")
	"$prepare" || { echo "prepare failed"; return 1; }
	# shellcheck disable=SC2086 # words
	"$INJECT" -c $words -o "$T/count" "$@" >"$T/cmd.out" 2>&1 ||
		{ echo "it fails without any help:"; cat "$T/cmd.out"; return 1; }
	all=$(cat "$T/count")
	"$judge" 0 >"$T/verdict" 2>&1 || { echo "uncut:"; cat "$T/verdict"; return 1; }
	tried=0 bad=0 end=$(($(now_ms) + seconds * 1000))
	for n in $(shuffled "$all"); do
		[ -n "${FULL:-}" ] || [ "$(now_ms)" -lt "$end" ] || break
		"$prepare" || { echo "prepare failed"; return 1; }
		rc=0
		# shellcheck disable=SC2086 # words
		"$INJECT" -n "$n" $words -o "$T/hit" "$@" >"$T/cmd.out" 2>&1 || rc=$?
		tried=$((tried + 1))
		"$judge" $rc >"$T/verdict" 2>&1 && continue
		bad=$((bad + 1))
		echo "== $mode at call $n: $(cat "$T/hit"), exit status $rc"
		head -n 2 "$T/cmd.out"
		head -n 8 "$T/verdict"
		[ $bad -lt 6 ] || break
	done
	echo "$tried of $all" >"$T/tried"
	[ $bad -eq 0 ] && [ $tried -gt 0 ]
}

matrix() { # TITLE PREPARE JUDGE MODE SECONDS CMD...
	matrix_title=$1
	shift
	rm -f "$T/tried"
	ok "$matrix_title, $3" 'matrix_run "$@"' "$@" || :
	echo "# $matrix_title, $3: $(cat "$T/tried" 2>/dev/null || echo none) system calls, SEED=$SEED"
}
