#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh - every tier of the tests, in order; `make test` runs it.
#
#   T0 static     format, layers, headers, shell, cppcheck, gcc -fanalyzer, man pages
#   T1 unit       release and ASan+UBSan builds
#   T5 fuzz       corpus replay under ASan, and a short run of every libFuzzer target
#   T3 integration and T4 escape: release build as root and as an ordinary user, then ASan
#
# TIERS='T0 T1' and ONLY=PATTERN narrow it down. Two tests run at a time, three where they
# mostly wait (JOBS=N: as many), but what has `# alone` at its top runs by itself. Logs are in build/test-logs. The last line is
# `N passed, N failed, N skipped`, and the exit status is 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/jobs.sh

top=$PWD
tiers=${TIERS:-T0 T1 T5 T3 T4}
only=${ONLY:-}
release=${COVE_BUILD:-build/release}
asan=${COVE_BUILD_ASAN:-build/asan}
logs=${COVE_TEST_LOGS:-$top/build/test-logs}
results=$logs/results # one line a test: pass|fail|skip, where, what
make=${MAKE:-make}
rm -rf "$logs"
mkdir -p "$logs"
: >"$results"
# Short, because a socket's path has to fit below it; readable, because another user runs from it.
stage=$(mktemp -d /tmp/cove-t.XXXXXX) || exit 1
chmod 755 "$stage"
made_user=
jobs_begin "$stage/jobs"

cleanup() {
	trap '' INT TERM
	jobs_stop
	rm -rf "$stage"
	[ -z "$made_user" ] || userdel "$made_user" >/dev/null 2>&1
}
trap cleanup EXIT
trap 'exit 130' INT TERM

now() { date +%s.%N; }
since() { echo "$1 $(now)" | awk '{ printf "%.1f s", $2 - $1 }'; }
wanted() { case " $tiers " in *" $1 "*) ;; *) return 1 ;; esac; }
tier() {
	jobs_end
	tier_end
	printf '== %s\n' "$1"
	tier_began=$(now)
}
tier_end() {
	[ -z "${tier_began:-}" ] || printf '   %s\n' "$(since "$tier_began")"
}

summary() {
	awk -F '\t' '$1 == "skip" { print "skipped: " $2 ": " $3 }' "$results" | sort | uniq -c |
		sed -E 's/^ *1 //; s/^ *([0-9]+) (.*)/\2 (\1 times)/'
	awk -F '\t' '$1 == "fail" { print "FAILED: " $2 ": " $3 }' "$results"
	awk -F '\t' '{ n[$1]++ } END {
		printf "%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["skip"]
		exit n["fail"] != 0 || n["pass"] == 0 }' "$results"
}

# One test that is one command; its output is shown if it fails.
check() { # LABEL CMD...
	label=$1
	shift
	case $label in *"$only"*) ;; *) return ;; esac
	log=$logs/$(echo "$label" | tr ' /' '__').log
	began=$(now)
	during "$@" >"$log" 2>&1
	rc=$?
	if [ $rc -eq 0 ]; then
		record pass "$label" ok
		printf '  ok    %-44s %s\n' "$label" "$(since "$began")"
	elif [ $rc -eq 77 ]; then
		record skip "$label" "$(tail -n 1 "$log")"
		printf '  skip  %-44s %s\n' "$label" "$(tail -n 1 "$log")"
	else
		record fail "$label" "exit status $rc"
		printf '  FAIL  %-44s %s\n' "$label" "$(since "$began")"
		tail -n 60 "$log" | sed 's/^/      /'
	fi
}

# A program that prints TAP: every line counts, and so does a plan that is not met.
tap() { # LABEL CMD...
	label=$1
	shift
	case $label in *"$only"*) ;; *) return ;; esac
	log=$logs/$(echo "$label" | tr ' /' '__').log
	began=$(now)
	during "$@" >"$log" 2>"$log.err"
	rc=$?
	awk -v label="$label" -v rc=$rc '
		function out(kind, what) { printf "%s\t%s\t%s\n", kind, label, what; n[kind]++ }
		/^1\.\.0 # SKIP/ { sub(/^1\.\.0 # SKIP /, ""); out("skip", $0); planned = 1; plan = 0; next }
		/^1\.\.[0-9]+/ { planned = 1; plan = substr($1, 4); next }
		/^ok .*# SKIP/ { seen++; line = $0; sub(/^ok [0-9]*[ -]*/, "", line); sub(/ *# SKIP */, ": ", line)
			sub(/^: /, "", line); out("skip", line); next }
		/^ok/ { seen++; sub(/^ok [0-9]*[ -]*/, ""); out("pass", $0); next }
		/^not ok/ { seen++; sub(/^not ok [0-9]*[ -]*/, ""); out("fail", $0); next }
		END {
			if (!planned || (plan != seen && !n["skip"]) || (plan > 0 && plan != seen))
				out("fail", "the plan was met (" (planned ? "planned " plan : "no plan") ", seen " seen + 0 ")")
			if (rc != 0 && !n["fail"])
				out("fail", "exit status " rc)
		}' "$log" >"$log.results"
	cat "$log.results" >>"$job_results"
	if grep -q '^fail' "$log.results"; then
		printf '  FAIL  %-44s %s\n' "$label" "$(since "$began")"
		awk '/^not ok/ { show = 1 } /^ok|^1\.\./ { show = 0 } show { print "      " $0 }' "$log"
		tail -n 20 "$log.err" | sed 's/^/      stderr: /'
	else
		printf '  ok    %-44s %3d passed, %d skipped, %s\n' "$label" "$(grep -c ^pass "$log.results")" \
			"$(grep -c ^skip "$log.results")" "$(since "$began")"
	fi
}

# ---- build ---------------------------------------------------------------------------
tier 'build'
began=$(now)
if ! { $make --no-print-directory -s -j2 V=release B="$release" all tests-bin &&
	$make --no-print-directory -s -j2 V=asan B="$asan" all tests-bin; } >"$logs/build.log" 2>&1; then
	tail -n 40 "$logs/build.log"
	record fail build 'the build failed, see build/test-logs/build.log'
	summary
	exit 1
fi
printf '  ok    release and ASan+UBSan builds %s\n' "$(since "$began")"

# The same scripts, with every sandbox a virtual machine: an emulated one on most hosts. So those
# that show a row of tests/rows which no cheaper one shows, and hostile guests; with FULL all that
# can be run there. What is new has to be in one of these lists (T0 classes).
vm_choice='t14-mounts t16-rootfs t20-lifecycle t40-many t44-gate t50-limits t61-egress t73-machine-end
	t74-memory t76-files t77-disk t78-template e10-files e30-mounts e55-capture e92-machine'
vm_full='t01-cli-usage t02-cli-config t03-cli-run t04-cli-named t05-cli-terminal t10-run t12-streams
	t22-clients t24-lifetime t30-crash t32-damage t41-diff t42-changes t43-mount-modes t45-provision
	t46-scan t47-snapshot t48-clone t49-archive t51-audit t52-apply t55-crash-apply t56-crash-snapshot
	t57-property t60-bad-input t62-tls t62-trust t63-secrets t64-ports t65-net t66-http t66-net-ask
	t67-swap t68-egress-edge t68-reflect t70-terminal t71-kernel t75-image t80-install t90-docs
	e20-processes e40-kernel e50-network e60-terminal e70-inheritance e80-exhaustion e85-workspace e90-link
	e95-gate e96-egress-names e97-egress-http e98-egress-exhaust e99-egress-secrets'
vm_none='t72-fs' # they say why
vm_user_choice='t10-run e10-files'

# ---- T0 static -------------------------------------------------------------------------
lacks() { command -v "$1" >/dev/null 2>&1 && return 1; echo "$1 is not installed"; }
c_files() { find src include tests examples tools bench -name '*.[ch]' | sort; }
sh_files() { find src tests tools bench examples docs -name '*.sh' | sort; echo .ci/run; }
static_format() { lacks clang-format && return 77; c_files | xargs clang-format --dry-run -Werror; }
static_shell() { lacks shellcheck && return 77; sh_files | xargs shellcheck; }
static_cppcheck() {
	lacks cppcheck && return 77
	cppcheck --std=c11 --enable=warning,performance,portability --inline-suppr --suppress=memleak \
		--error-exitcode=1 --quiet -j2 -D__linux__ -D__x86_64__ -DCOVE_VERSION='""' \
		--include=tools/cppcheck.h --suppress=internalAstError -Iinclude -Isrc "-I$release/gen" src
}
# Leaks are left to LeakSanitizer: gcc 12 takes a pointer stored through a pointer for lost.
static_analyzer() {
	find src -name '*.c' | sort | xargs -P 2 -n 4 sh -c '
		for c; do gcc -std=gnu11 -D_GNU_SOURCE -O0 -fanalyzer -Wno-analyzer-malloc-leak -Werror \
			-include tools/banned.h -Iinclude -Isrc "-I$0/gen" -DCOVE_VERSION=\"0\" \
			-DCOVE_LIBEXEC=\"/\" -c "$c" -o /dev/null || exit 1; done' "$release"
}
static_man() { lacks mandoc && return 77; mandoc -Tlint -Wwarning man/*.[1-9]; }
static_classes() { # every script is classed for machines, once
	for t in tests/integration/t[0-9]*.sh tests/escape/e[0-9]*.sh; do basename "$t" .sh; done | sort >"$stage/have"
	echo "$vm_choice $vm_full $vm_none" | tr -s ' \t' '\n' | grep . | sort | diff "$stage/have" -
}
static_words() { # nothing half done
	! grep -rnE '\b(TODO|FIXME|XXX|HACK)\b' src include tests tools bench examples docs man README.md \
		--include='*.[ch]' --include='*.sh' --include='*.md' --include='*.[1-9]' | grep -v 'tools/test.sh:'
}
if wanted T0; then
	tier 'T0 static'
	beside check 'T0 format' static_format
	beside check 'T0 layers' tools/check-layers.sh
	beside check 'T0 headers' tools/check-headers.sh "$release/gen"
	beside check 'T0 shellcheck' static_shell
	beside check 'T0 words' static_words
	beside check 'T0 classes' static_classes
	beside check 'T0 negations' tools/check-negations.sh
	beside check 'T0 man pages' static_man
	alone check 'T0 cppcheck' static_cppcheck # both use every processor
	alone check 'T0 analyzer' static_analyzer
fi

# ---- T1 unit, T5 fuzz --------------------------------------------------------------------
ASAN_OPTIONS=exitcode=200:detect_leaks=1:abort_on_error=0
UBSAN_OPTIONS=exitcode=200:print_stacktrace=1
export ASAN_OPTIONS UBSAN_OPTIONS
if wanted T1; then
	tier 'T1 unit'
	for dir in "$release" "$asan"; do
		for t in "$dir"/unit/*; do
			case $t in *.d | *'*') continue ;; esac
			beside tap "T1 $(basename "$dir") $(basename "$t")" "$t"
		done
		beside check "T1 $(basename "$dir") embed example" env COVE_HOME="$stage/embed" "$dir/embed"
	done
fi
replay() { find "tests/fuzz/corpus/$1" -type f | sort | xargs "$asan/fuzz/$1"; }
if wanted T5; then
	tier 'T5 fuzz'
	for c in tests/fuzz/*.c; do
		name=$(basename "$c" .c)
		beside check "T5 replay $name" replay "$name"
	done
	jobs_end
	tools/fuzz.sh 1 none >/dev/null 2>&1 # builds them all, once
	for c in tests/fuzz/*.c; do
		name=$(basename "$c" .c)
		beside check "T5 libFuzzer $name" tools/fuzz.sh "${FUZZ_SECONDS:-3}" "$name"
	done
fi

# ---- T3 integration, T4 escape --------------------------------------------------------------
# Everything another user needs is copied to where that user can read it.
stage_build() { # DIR NAME
	mkdir -p "$stage/$2/escape"
	cp "$1/cove" "$1"/cove-* "$1/embed" "$1"/libcove.so* "$1/libcove.a" "$stage/$2/" &&
		cp "$1"/escape/* "$stage/$2/escape/" &&
		chmod -R a+rX "$stage/$2"
}
stage_source() {
	mkdir -p "$stage/src"
	# Only what tests read; the build directory stays where it is.
	cp -r tests examples docs man include README.md CONTRIBUTING.md LICENSE Makefile tools benchmarks "$stage/src/" 2>/dev/null
	chmod -R a+rX "$stage/src"
}
test_user() { # or $why
	why='not root: cannot become another user'
	[ "$(id -u)" = 0 ] || return 1
	why='setpriv is not installed'
	command -v setpriv >/dev/null || return 1
	why='useradd failed'
	id covetest >/dev/null 2>&1 && return 0
	useradd -M -U -s /bin/sh covetest 2>/dev/null && made_user=covetest
}
how() { if grep -q '^# alone' "$1"; then echo alone; else echo beside; fi; } # SCRIPT
script() { # SCRIPT BUILD WHO TIER SECONDS
	label="$4 $2 $3 $(basename "$1")"
	san=$logs/san.$2.$3.$(basename "$1" .sh)
	backend=process
	case $3 in vm*) backend=vm ;; esac
	case $3 in
	*user)
		tap "$label" setpriv --reuid covetest --regid covetest --clear-groups env -i \
			PATH="$PATH" USER=covetest HOME=/nonexistent COVE_BIN="$stage/$2/cove" \
			COVE_SRC="$stage/src" COVE_TEST_BACKEND=$backend COVE_TEST_VM="$stage/$3" \
			COVE_TEST_TIMEOUT="$5" sh "$stage/src/$1"
		;;
	*)
		tap "$label" env COVE_BIN="$stage/$2/cove" COVE_SRC="$top" COVE_BUILD="$release" \
			ASAN_OPTIONS="$ASAN_OPTIONS:log_path=$san" UBSAN_OPTIONS="$UBSAN_OPTIONS:log_path=$san" \
			COVE_TEST_BACKEND=$backend COVE_TEST_VM="$stage/$3" COVE_TEST_TIMEOUT="$5" sh "$1"
		;;
	esac
	# A sanitizer's report counts even where no exit status shows it (a keeper's).
	for report in "$san".*; do
		# (ASan warns, rightly and in vain, about a child on a stack of its own.)
		grep -qsE 'ERROR: |runtime error' "$report" || continue
		record fail "$label" "sanitizer report $(basename "$report")"
		head -n 30 "$report" | sed 's/^/      /'
	done
}
# What runs alone does so at the end, so that the others need not wait for each other before it.
when() { # SCRIPT BUILD WHO TIER SECONDS
	case $(how "$1") in alone) echo "$*" >>"$stage/later" ;; *) beside script "$@" ;; esac
}
scripts() { # KIND BUILD WHO TIER SECONDS
	at_once=${JOBS:-3} # processes of a sandbox wait for each other most of the time
	for t in tests/"$1"/[te][0-9]*.sh; do
		[ ! -e "$t" ] || when "$t" "$2" "$3" "$4" "$5"
	done
}
scripts_alone() {
	[ -e "$stage/later" ] || return 0
	while read -r a b c d e; do
		alone script "$a" "$b" "$c" "$d" "$e"
	done <"$stage/later"
	rm "$stage/later"
}
chosen() { # SCRIPT NAMES
	case " $(echo "$2" | tr -s '\n\t' ' ') " in *" $(basename "$1" .sh) "*) ;; *) [ -n "${FULL:-}" ] ;; esac
}
vm_scripts() { # KIND WHO TIER NAMES
	at_once=${JOBS:-2}
	for t in tests/"$1"/[te][0-9]*.sh; do
		! chosen "$t" "$4" || when "$t" release "$2" "$3" 900
	done
}
# An ordinary user's machines have the kernel that was fetched before.
vm_user_dir() {
	mkdir "$stage/vm-user" || return 1
	[ ! -d "$stage/vm/kernels" ] || cp -r "$stage/vm/kernels" "$stage/vm-user/"
	chown -R covetest:covetest "$stage/vm-user"
}
# What holds on either backend: a line for each row of tests/rows, with the scripts that show it.
matrix() {
	awk -F '\t' '
		function cell(row, col,    text) {
			if (!n[row, col, "pass"] && !n[row, col, "fail"] && !n[row, col, "skip"]) return "-"
			text = n[row, col, "pass"] + 0 " ok"
			if (n[row, col, "fail"]) text = n[row, col, "fail"] " FAILED, " text
			return text (n[row, col, "skip"] ? ", " n[row, col, "skip"] " skipped" : "")
		}
		FNR == NR { if ($0 !~ /^#/ && NF == 3) { order[++rows] = $1; what[$1] = $2; by[$1] = " " $3 " " } next }
		$2 ~ /^T[34] / {
			split($2, w, " "); sub(/\.sh$/, "", w[4])
			col = w[3] ~ /^vm/ ? "vm" : "process"
			for (i = 1; i <= rows; i++)
				if (by[order[i]] == " all " || index(by[order[i]], " " w[4] " ") ||
				    (w[3] ~ /user$/ && index(by[order[i]], " user:" w[4] " ")))
					n[order[i], col, $1]++
		}
		END {
			printf "%-4s %-42s %-24s %s\n", "row", "what", "process", "vm"
			for (i = 1; i <= rows; i++)
				printf "%-4s %-42s %-24s %s\n", order[i], what[order[i]], cell(order[i], "process"), cell(order[i], "vm")
		}' tests/rows "$results"
}
kinds=
! wanted T3 || kinds='integration:T3'
! wanted T4 || kinds="$kinds escape:T4"
if [ -n "$kinds" ]; then
	stage_build "$release" release && stage_build "$asan" asan && stage_source || exit 1
	me=root
	[ "$(id -u)" = 0 ] || me=self
	tier 'T3 integration, T4 escape: release and ASan+UBSan builds'
	for kind in $kinds; do
		beside echo "-- ${kind#*:} ${kind%:*}, release build, as $(id -un)"
		scripts "${kind%:*}" release $me "${kind#*:}" 300
		if test_user; then
			beside echo "-- ${kind#*:} ${kind%:*}, release build, as an ordinary user"
			scripts "${kind%:*}" release user "${kind#*:}" 300
		else
			record skip "${kind#*:} as an ordinary user" "$why"
		fi
		beside echo "-- ${kind#*:} ${kind%:*}, ASan+UBSan build"
		scripts "${kind%:*}" asan $me "${kind#*:}" 600
	done
	jobs_end
	scripts_alone
fi

if [ -n "$kinds" ]; then
	tier 'every sandbox a virtual machine, release build'
	for kind in $kinds; do
		vm_scripts "${kind%:*}" vm "${kind#*:}" "$vm_choice"
	done
	jobs_end
	scripts_alone
	if test_user && vm_user_dir; then
		tier 'every sandbox a virtual machine, release build, as an ordinary user'
		for kind in $kinds; do
			FULL='' vm_scripts "${kind%:*}" vm-user "${kind#*:}" "$vm_user_choice"
		done
		jobs_end
		scripts_alone
	else
		record skip 'machines as an ordinary user' "$why"
	fi
fi

jobs_end
tier_end
echo
[ -z "$kinds" ] || matrix
summary
