#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh SECONDS [TARGET...] - builds the fuzz targets for libFuzzer (clang, ASan, UBSan)
# and runs each for SECONDS on its corpus. New inputs go to build/fuzz/new; a crash is
# kept as build/fuzz/crash-* and fails the run. Exit 77: this machine cannot.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
out=${COVE_FUZZ_DIR:-build/fuzz}
mkdir -p "$out/new"

command -v clang >/dev/null 2>&1 || { echo 'fuzz: clang is not installed' >&2; exit 77; }
echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' >"$out/try.c"
clang -fsanitize=fuzzer,address,undefined "$out/try.c" -o "$out/try" 2>/dev/null || {
	echo 'fuzz: clang lacks libFuzzer (Debian: libclang-rt-14-dev)' >&2
	exit 77
}
"${MAKE:-make}" --no-print-directory -s -j2 V=fuzz B="$out" fuzz-bin

fail=0
for src in tests/fuzz/*.c; do
	name=$(basename "$src" .c)
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	mkdir -p "$out/new/$name"
	corpus=tests/fuzz/corpus/$name
	[ -d "$corpus" ] || corpus=
	# shellcheck disable=SC2086 # no corpus, no argument
	if "$out/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix="$out/crash-$name-" "$out/new/$name" $corpus >"$out/$name.log" 2>&1; then
		echo "fuzz: $name: $(grep -oE 'cov: [0-9]+' "$out/$name.log" | tail -1), no crash in $seconds s"
	else
		echo "fuzz: $name: FAILED, see $out/$name.log"
		tail -n 30 "$out/$name.log"
		fail=1
	fi
done
exit $fail
