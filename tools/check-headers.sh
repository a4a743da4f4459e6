#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-headers.sh - every header compiles alone; the public one also as strict C99 and C++.
set -eu
cd "$(dirname "$0")/.."

cc=${CC:-gcc}
gen=${1:-build/release/gen} # generated headers
bad=0
for h in $(find src tests/lib tests/escape -name '*.h' | sort); do
	"$cc" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-variable \
		-Iinclude -Isrc "-I$gen" -fsyntax-only -x c "$h" || bad=1
done
printf '#include "cove.h"\nint main(void) { return 0; }\n' >"${TMPDIR:-/tmp}/cove-header.$$.c"
trap 'rm -f "${TMPDIR:-/tmp}/cove-header.$$.c"' EXIT
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only "${TMPDIR:-/tmp}/cove-header.$$.c" || bad=1
for cxx in g++ clang++; do
	command -v $cxx >/dev/null 2>&1 || continue
	# A compiler without its C++ library headers cannot judge.
	printf '#include <cstddef>\n' | $cxx -fsyntax-only -x c++ - 2>/dev/null || continue
	$cxx -std=c++11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ \
		"${TMPDIR:-/tmp}/cove-header.$$.c" || bad=1
done
exit $bad
