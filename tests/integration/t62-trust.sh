#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A project's cove.yaml counts only once the user trusted that exact content.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS
mkdir "$T/p" && cd "$T/p" || exit 1
value() { cove run --rm -- sh -c 'echo ${FROM_PROJECT:-unset}' 2>"$T/err"; }
printf 'defaults:\n  exec: {env: {FROM_PROJECT: "yes"}}\n' >cove.yaml

ok 'untrusted: cove says so and goes on without it' '
	same unset "$(value)"
	has "$(cat "$T/err")" cove.yaml'
ok 'trusted: it counts' '
	cove config trust cove.yaml
	same yes "$(value)"
	! grep -qi trust "$T/err"'
ok 'changed: it does not count any more' '
	echo "# changed" >>cove.yaml
	same unset "$(value)"
	has "$(cat "$T/err")" cove.yaml'
ok 'the same content elsewhere is another file, or the same: but never more' '
	cove config trust cove.yaml
	mkdir -p "$T/q" && cp cove.yaml "$T/q/" && echo "# x" >>"$T/q/cove.yaml"
	cd "$T/q"
	same unset "$(value)"'
ok 'a sandbox cannot trust for the user' '
	cd "$T/p"
	before=$(find "$HOME" "$COVE_HOME" -type f -name "*trust*" -exec cat {} + | sha256sum)
	cove run -q --rm -- sh -c "echo more >>cove.yaml; mkdir -p ~/.config/cove" || :
	same "$before" "$(find "$HOME" "$COVE_HOME" -type f -name "*trust*" -exec cat {} + | sha256sum)"'
ok 'config check names every problem with its line' '
	printf "defaults:\n  netwrok: {}\n  resources: {memoryMiB: x}\n" >"$T/bad.yaml"
	rc=0; cove config check "$T/bad.yaml" >"$T/o" 2>&1 || rc=$?
	[ $rc -ne 0 ]
	has "$(cat "$T/o")" bad.yaml:2
	has "$(cat "$T/o")" bad.yaml:3'
ok 'config init writes a file that checks' '
	cove config init
	file=$(find "$HOME" -name config.yaml)
	cove config check "$file"'
ok 'profiles of the user' '
	printf "profiles:\n  tight:\n    exec: {env: {PROF: tight}}\n" >"$HOME/.config/cove/config.yaml"
	cd "$T"
	same tight "$(cove run -q --no-mounts --profile tight -- sh -c "echo \$PROF")"
	rc_is 125 cove run -q --no-mounts --profile tigth -- true 2>"$T/err"
	has "$(cat "$T/err")" tight'
ok 'a spec file' '
	cd "$T/p"
	printf "exec:\n  env: {S: spec}\nmounts: []\n" >"$T/spec.yaml"
	same spec "$(cove run -q --rm --spec "$T/spec.yaml" -- sh -c "echo \$S")"
	printf "{\"exec\": {\"env\": {\"S\": \"json\"}}, \"mounts\": []}" >"$T/spec.json"
	same json "$(cove run -q --rm --spec "$T/spec.json" -- sh -c "echo \$S")"'

done_testing
