#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The process backend works in the nested machine, so what fails there on the other is the other's.
. "$(dirname "$0")/../lib/harness.sh"
need NESTED USERNS
mkdir p && cd p || exit 1

ok 'cove run' 'same hello "$(cove run -q --no-mounts -- echo hello)"'
ok 'the workspace, through an overlay' '
	echo old >file
	cove run -q --mount .:overlay -- sh -c "cat file; echo new >file" >"$T/out"
	same old "$(cat "$T/out")"
	same old "$(cat file)"'
ok 'a named sandbox starts, runs a command and goes' '
	cove create one && cove start one
	same 3 "$(cove exec one -- sh -c "echo \$((1 + 2))")"
	cove rm --force one'
done_testing
