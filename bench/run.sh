#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - builds the small programs of the benchmark and runs it.
#
#   bench/run.sh [--build] [--quick] [--only TOPIC[,TOPIC...]] [--out DIR] [--no-npm]
#
# COVE=PATH names the cove to measure (default build/release/cove; cove-keeper, cove-guest
# and libcove.a lie beside it). Results: benchmarks/results.md and .json; a --quick run writes
# beside the binaries instead. A peer that is not installed gets a row that says so.
set -eu
cd "$(dirname "$0")/.."

COVE=${COVE:-build/release/cove}
B=$(cd "$(dirname "$COVE")" && pwd)
OUT=$B/bench
CC=${CC:-gcc}
export COVE="$B/${COVE##*/}"
[ -x "$COVE" ] || { echo "bench: $COVE: not built; run make all" >&2; exit 1; }

python=
for p in /usr/bin/python3 python3; do
	command -v "$p" >/dev/null 2>&1 && python=$p && break
done
if [ -z "$python" ]; then
	echo 'bench: needs python3: apt-get install -y --no-install-recommends python3' >&2
	exit 1
fi

mkdir -p "$OUT"
flags="-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Iinclude -Isrc -Ibench -I$B/gen
	-include tools/banned.h"
# shellcheck disable=SC2086 # the flags are words
{
	for p in timeit sink; do
		$CC $flags bench/$p.c -o "$OUT/$p"
	done
	# What runs inside is static, so that its own start weighs as little as it can.
	static="$CC -static"
	if command -v musl-gcc >/dev/null 2>&1 && [ -d "$B/musl-include" ]; then
		static="musl-gcc -static -isystem $B/musl-include"
	fi
	$static $flags bench/floor.c bench/floor_child.c src/os/landlock.c -o "$OUT/floor"
	for p in floor_init syscalls filtered netload vmfiles vm_agent vm_sshd vm_spawn; do
		$static $flags bench/$p.c -o "$OUT/$p"
	done
	$static $flags bench/landlocked.c src/os/landlock.c -o "$OUT/landlocked"
	$CC $flags bench/httpload.c -lssl -lcrypto -lpthread -o "$OUT/httpload"
	for p in exec_lib big_caller policy vmwords; do
		$CC $flags bench/$p.c "$B/libcove.a" -lyaml -ljansson -lsodium -o "$OUT/$p"
	done
}
[ "${1:-}" != --build ] || exit 0 # bench/kvm.sh runs it elsewhere
exec "$python" -B bench/bench.py --programs "$OUT" "$@"
