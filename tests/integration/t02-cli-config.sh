#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where a spec comes from: flags, COVE_BACKEND, --spec, profile, configuration, and the
# default mount. Nothing that is wrong may start or change anything.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
mkdir "$T/p" && cd "$T/p" || exit 1
spec_of() { cove inspect "$1" | jq -c ".spec | $2"; }

# bad CMD...: exit 125, nothing on stdout, no sandbox
bad() {
	rc_is 125 "$@" >"$T/o" 2>"$T/e" </dev/null
	same "" "$(cat "$T/o")"
	has "$(head -n 1 "$T/e")" "cove "
	same "" "$(cove ls -q)"
}

ok 'a bad value of each flag is one clear line' '
	for f in "--backend toaster" "--image floppy:x" "--mount x:sideways" "--net wet" "--cpus lots" \
		"--memory much" "--memory -1" "--disk big" "--swap x" "--pids few" "--pids -3" "--ttl long" \
		"--idle bored" "--publish 99999:1" "--user a:b:c" "--allow a//b" "--secret =" \
		"--profile nobody" "--spec $T/nowhere.yaml"; do
		bad cove create x $f
		has "$(cat "$T/e")" "cove create: "
		[ "$(wc -l <"$T/e")" -le 2 ]
		bad cove run x $f -- true
	done'
ok 'bad names' 'for n in UPPER .dot -x "a b" "$(printf "a%.0s" $(seq 64))" "ü"; do
		rc=0; cove create -- "$n" >"$T/o" 2>"$T/e" || rc=$?
		[ $rc = 125 ] || [ $rc = 2 ]
	done
	same "" "$(cove ls -q)"'
ok 'sizes and durations with units reach the spec' '
	cove create s --no-mounts --memory 1GiB --cpus 1.5 --pids 99 --ttl 2h --idle 5m --timeout 90s
	same "[1024,1.5,99,7200,300]" "$(spec_of s "[.resources | .memoryMiB, .cpus, .pids, .ttlSeconds, .idleSeconds]")"
	same 90 "$(spec_of s .exec.timeoutSeconds)"
	cove rm s'
ok 'the default mount is the current directory, as overlay' '
	cove create s
	same "[[\"$T/p\",\"overlay\"]]" "$(spec_of s "[.mounts[] | [.source, .mode]]")"
	cove rm s'
ok 'a directory with a colon in its name can be the default mount' '
	mkdir -p "$T/a:/b" && cd "$T/a:/b" && echo 1 >f
	same 1 "$(cove run -q -- cat f)"'
ok 'mounts by flag, and none' '
	mkdir -p "$T/d"
	cove create s --mount "$T/d:ro"
	same "[[\"$T/d\",\"ro\"]]" "$(spec_of s "[.mounts[] | [.source, .mode]]")"
	cove rm s
	cove create s --no-mounts
	same "[]" "$(spec_of s .mounts)"
	cove rm s'
ok 'neither / nor the home directory is mounted by default' '
	cd / && bad cove run -- true && has "$(cat "$T/e")" "hint: "
	cd "$HOME" && bad cove run -- true && has "$(cat "$T/e")" "home directory"
	bad cove create x /
	cove run -q --no-mounts -- true
	mkdir -p "$HOME/project" && cd "$HOME/project" && cove run -q -- true'
ok 'the home directory can be named' 'cd "$HOME" && cove run -q --mount "$HOME:overlay" -- true'
ok 'a directory that is not there' 'bad cove run ./nowhere -- true; has "$(cat "$T/e")" nowhere'

ok '--spec: the file counts, flags win, and its name is used' '
	printf "name: fromfile\nmounts: []\nresources:\n  memoryMiB: 300\n  pids: 77\n" >s.yaml
	cove create --spec s.yaml --pids 88
	same "[300,88]" "$(spec_of fromfile "[.resources.memoryMiB, .resources.pids]")"
	same "[]" "$(spec_of fromfile .mounts | sed "s/\[{.*}\]/one/")" || same one "$(spec_of fromfile .mounts | sed "s/\[{.*}\]/one/")"
	cove rm fromfile'
ok '--spec: every problem of the file is shown, with file and line' '
	printf "name: x\nmemory: 1\nresources:\n  pids: few\nnetwork: {mode: wet}\n" >bad.yaml
	bad cove create y --spec bad.yaml
	has "$(cat "$T/e")" "bad.yaml:2"
	has "$(cat "$T/e")" "bad.yaml:4"
	has "$(cat "$T/e")" "bad.yaml:5"'
ok 'COVE_BACKEND counts unless a flag says otherwise' '
	COVE_BACKEND=process cove create s --no-mounts; same "\"process\"" "$(spec_of s .backend)"; cove rm s
	COVE_BACKEND=vm cove create s --no-mounts --backend process; same "\"process\"" "$(spec_of s .backend)"; cove rm s
	export COVE_BACKEND=toaster
	rc_is 125 cove create s --no-mounts 2>"$T/e"
	has "$(cat "$T/e")" "COVE_BACKEND=toaster"'

ok 'config init writes a file that checks, once' '
	cove config init >"$T/o"
	has "$(cat "$T/o")" "$HOME/.config/cove/config.yaml"
	cove config check "$HOME/.config/cove/config.yaml"
	echo "# mine" >>"$HOME/.config/cove/config.yaml"
	rc_is 125 cove config init 2>"$T/e"
	has "$(cat "$T/e")" "exists already"
	grep -q "# mine" "$HOME/.config/cove/config.yaml"
	rm "$HOME/.config/cove/config.yaml"'
ok 'config check shows every problem' '
	printf "defaults:\n  memory: 1\nprofile: {}\n" >c.yaml
	rc_is 125 cove config check c.yaml 2>"$T/e"
	has "$(cat "$T/e")" "c.yaml:2"
	has "$(cat "$T/e")" "c.yaml:3"
	rc_is 125 cove config check nowhere.yaml 2>"$T/e"'
ok 'defaults, then profile, then flags' '
	mkdir -p "$HOME/.config/cove"
	cat >"$HOME/.config/cove/config.yaml" <<-END
	defaults: { resources: { memoryMiB: 100, pids: 100, ttlSeconds: 100 } }
	profiles: { small: { resources: { memoryMiB: 50, pids: 50 } } }
	END
	cove create s --no-mounts --profile small --pids 25
	same "[50,25,100]" "$(spec_of s "[.resources | .memoryMiB, .pids, .ttlSeconds]")"
	cove rm s'
ok 'mounts in the configuration replace the default mount' '
	mkdir -p "$T/d"
	echo "defaults: { mounts: [ { source: $T/d, mode: ro } ] }" >"$HOME/.config/cove/config.yaml"
	cove create s
	same "[\"$T/d\"]" "$(spec_of s "[.mounts[].source]")"
	cove rm s'
rm -f "$HOME/.config/cove/config.yaml"

ok 'a project file is said to be untrusted, and does not count' '
	echo "defaults: { resources: { pids: 33 } }" >cove.yaml
	cove create s 2>"$T/e"
	has "$(cat "$T/e")" "cove config trust"
	[ "$(spec_of s .resources.pids)" != 33 ]
	cove rm s
	cove create s -q 2>"$T/e"
	test ! -s "$T/e"
	cove rm s'
ok 'trusted it counts, until one byte changes' '
	cove config trust >"$T/o"
	has "$(cat "$T/o")" "$T/p/cove.yaml"
	has "$(cat "$T/o")" "$(sha256sum <cove.yaml | cut -d" " -f1)"
	cove create s 2>"$T/e"
	test ! -s "$T/e"
	same 33 "$(spec_of s .resources.pids)"
	cove rm s
	echo "# more" >>cove.yaml
	cove create s 2>"$T/e"
	has "$(cat "$T/e")" "cove config trust"
	cove rm s'
ok 'untrust takes it back' '
	cove config trust cove.yaml && cove config untrust cove.yaml
	cove create s 2>"$T/e"
	has "$(cat "$T/e")" "cove config trust"
	cove rm s'
ok 'a file that is not there cannot be trusted' 'rc_is 125 cove config trust nowhere.yaml 2>"$T/e"; has "$(cat "$T/e")" nowhere'
done_testing
