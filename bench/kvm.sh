#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kvm.sh - the benchmark of virtual machines on a real /dev/kvm, in the nested machine.
# Prints it, and writes benchmarks/results-kvm.md.
#
#   bench/kvm.sh [TOPIC[,TOPIC...]]     make bench-kvm
#
# That machine is emulated, so its figures are no times of anything: what they are good for is the
# ratio of two that were taken in turns. Few rounds (--quick).
set -eu
cd "$(dirname "$0")/.."
topics=${1:-vm-start,vm-memory,vm-exec,vm-files}
out=benchmarks/results-kvm.md

if [ -z "${COVE_NESTED:-}" ]; then
	bench/run.sh --build
	B=$(cd "${COVE_BUILD:-build/release}" && pwd)
	export NESTED="$B/nested" COVE="$B/cove"
	rc=0
	tools/nested/run.sh --memory 6144 --timeout 3000 --retries 0 --share "$B" --env COVE -- \
		sh bench/kvm.sh "$topics" >"$B/bench/kvm.out" || rc=$?
	sed '/^# Benchmark results/,$d' "$B/bench/kvm.out"
	grep -q '^# Benchmark results' "$B/bench/kvm.out" || exit 1
	{
		echo '# Virtual machines on KVM, in the nested machine'
		echo
		echo "Written by 'make bench-kvm'. That machine is itself emulated (docs/nested.md): compare the ratios."
		sed '1,/^Written by/d' "$B/bench/kvm.out"
	} | tee "$out"
	exit $rc
fi

# Inside. An overlay has no id-mapped mounts in this kernel: the programs run from a plain one.
stage=$(mktemp -d /tmp/cove-b.XXXXXX)
chmod 755 "$stage"
build=$(dirname "$COVE")
cp -r "$build/cove" "$build"/cove-* "$build/bench" "$stage/"
export COVE="$stage/cove"
rc=0
for topic in $(echo "$topics" | tr ',' ' '); do
	timeout 900 python3 -B bench/bench.py --programs "$stage/bench" --quick --only "$topic" --out "$stage/out" || rc=1
done
cat "$stage/out/results.md"
exit $rc
