#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Secrets: the store, where values come from, what enters the sandbox, and that no value is
# on a command line, in a file of ours, in an error or in JSON.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
V=ghp_abcdefghijklmnopqrstuvwxyz0123456789
export V
P=$T/p
mkdir "$P" && cd "$P" || exit 1

# "! CMD" does not end a script under set -e; a function that fails does.
no() { ! "$@"; }
# Is the value in any file below these? (The store holds it encrypted.)
nowhere() {
	! grep -rqF -e "$V" "$@" || exit 1
}

# ---- cove secret ------------------------------------------------------------------------
ok 'set from standard input, ls, rm' '
	printf "%s\n" "$V" | cove secret set TOKEN --hosts api.example.com,*.example.org
	same TOKEN "$(cove secret ls -q)"
	same "api.example.com *.example.org" "$(cove secret ls --json | jq -r ".[0].hosts | join(\" \")")"
	has "$(cove secret ls)" "api.example.com, *.example.org"
	same 600 "$(stat -c %a "$COVE_HOME/secrets/TOKEN")"
	same 600 "$(stat -c %a "$COVE_HOME/secrets/.key")"
	nowhere "$COVE_HOME"
	cove secret rm TOKEN
	same "" "$(cove secret ls -q)"
	must_refuse sh -c "cove secret rm TOKEN || exit 9"'
ok 'set from a variable, a file, a command' '
	export V
	cove secret set A --from-env V
	printf "%s" "$V" >"$T/value"
	cove secret set B --file "$T/value"
	cove secret set C --command -- sh -c "echo \$V"
	same "A B C" "$(cove secret ls -q | paste -sd" ")"
	rm "$T/value"
	nowhere "$COVE_HOME"
	cove secret rm A B C'
ok 'a value never comes by the command line' '
	rc_is 2 cove secret set A "$V"
	rc_is 2 cove secret set A --from-env V --file x
	rc_is 2 cove secret set A -- echo x
	rc_is 2 cove secret ls --hosts a.test
	rc_is 125 sh -c "printf \"\" | cove secret set A"
	rc_is 125 sh -c "echo x | cove secret set a-b"
	rc_is 125 sh -c "echo x | cove secret set A --hosts \"a b\""
	same "" "$(cove secret ls -q)"'
# says RC MESSAGE CMD...: that exit code, that message on the error stream, and no value.
says() {
	rc=$1 text=$2
	shift 2
	rc_is "$rc" "$@" 2>"$T/err"
	has "$(cat "$T/err")" "$text"
	nowhere "$T/err"
}
ok 'what is wrong is said, with a hint, before a value is asked for' '
	says 125 "hint: a name is that of a variable" cove secret set 9A
	says 125 "hint: a name is that of a variable" cove secret set ../x
	says 125 "hint: it is read from standard input" cove secret set A
	says 125 "NOPE is not in the environment" cove secret set A --from-env NOPE
	says 125 "hint: export NOPE" cove secret set A --from-env NOPE
	says 125 "/nope: No such file" cove secret set A --file /nope
	says 125 "/: Is a directory" cove secret set A --file /
	says 125 "command false failed" cove secret set A --command -- false
	says 125 "more than 16384 bytes" cove secret set A --command -- head -c 1000000 /dev/zero
	says 125 "more than 16384 bytes" cove secret set A --file /dev/zero
	says 125 "more than 16384 bytes" sh -c "head -c 16385 /dev/zero | cove secret set A"
	for bad in "" "*" a.test, https://a.test/; do
		says 125 "is not a host" cove secret set A --from-env V --hosts "$bad"
	done
	same "" "$(cove secret ls -q)"'
ok 'one last line break is not part of a value, LF or CRLF; everything else is' '
	echo "secrets: [{name: S, from: store, inject: file}]" >"$T/bin.yaml"
	big=$(head -c 16384 /dev/zero | tr "\0" x)
	while read -r in want; do
		printf "$in" >"$T/in"
		printf "$want" >"$T/want"
		for how in "" --file; do
			cove secret set S ${how:+$how "$T/in"} <"$T/in"
			cove run -q --rm --spec "$T/bin.yaml" -- sh -c "cat \$S_FILE" </dev/null | cmp - "$T/want"
		done
	done <<-END
		one one
		one\\n one
		one\\r\\n one
		one\\r one\\r
		one\\n\\n one\\n
		one\\n\\r one\\n\\r
		a\\0b\\n a\\0b
		\\0040one\\t\\n \\0040one\\t
		$big $big
		$big\\n $big
		$big\\r\\n $big
	END
	rm -f "$T/in" "$T/want"
	cove secret rm S'
ok 'several at once, and the first ones make one key' '
	rm -rf "$COVE_HOME/secrets"
	for i in 1 2 3 4 5 6 7 8; do
		echo "value-$i-12345678" | cove secret set "K$((i % 4))" &
	done
	wait
	same "K0 K1 K2 K3" "$(cove secret ls -q | paste -sd" ")"
	same 0 "$(cove secret ls --json | jq "[.[] | select(.problem)] | length")"
	same ".key K0 K1 K2 K3" "$(ls -A "$COVE_HOME/secrets" | sort | paste -sd" ")"
	cove secret rm K0 K1 K2 K3'
ok 'killed while it reads: nothing is kept, and the old value stays' '
	echo "$V" | cove secret set OLD
	mkfifo "$T/slow"
	cove secret set OLD <"$T/slow" &
	pid=$!
	exec 9>"$T/slow"
	printf half >&9
	sleep 0.2
	kill -9 $pid
	wait $pid || :
	exec 9>&-
	echo "secrets: [{name: OLD, from: store, inject: env}]" >"$T/old.yaml"
	same "$V" "$(cove run -q --rm --spec "$T/old.yaml" -- printenv OLD)"
	same ".key OLD" "$(ls -A "$COVE_HOME/secrets" | sort | paste -sd" ")"
	cove secret rm OLD'
ok 'files that others can read or change, and links, are not used' '
	echo "$V" | cove secret set A
	chmod 640 "$COVE_HOME/secrets/A"
	has "$(cove secret ls)" "not a file of this user that others cannot read"
	chmod 600 "$COVE_HOME/secrets/A"
	mv "$COVE_HOME/secrets/A" "$T/A"
	ln -s "$T/A" "$COVE_HOME/secrets/A"
	has "$(cove secret ls)" "a link, not a file"
	rm "$COVE_HOME/secrets/A"
	mv "$T/A" "$COVE_HOME/secrets/A"
	chmod 644 "$COVE_HOME/secrets/.key"
	says 125 "others cannot read" sh -c "echo x | cove secret set B"
	chmod 600 "$COVE_HOME/secrets/.key"
	chmod 777 "$COVE_HOME/secrets"
	says 125 "hint: chmod 700 it" cove secret ls
	chmod 700 "$COVE_HOME/secrets"
	cove secret rm A'
ok 'a home that cannot be written, or is of somebody else' '
	[ "$(id -u)" = 0 ] || lacks "needs root"
	mkdir "$T/ro"
	mount -t tmpfs none "$T/ro"
	mkdir "$T/ro/h"
	echo "$V" | COVE_HOME=$T/ro/h cove secret set A
	mount -o remount,ro "$T/ro"
	(
		export COVE_HOME="$T/ro/h"
		same A "$(cove secret ls -q)"
		says 125 "Read-only file system" sh -c "echo x | cove secret set B"
		says 125 "Read-only file system" cove secret rm A
	)
	umount "$T/ro"
	says 125 "hint: " env COVE_HOME=/proc/nope cove secret ls
	says 125 "hint: " setpriv --reuid 65534 --regid 65534 --clear-groups cove secret ls'
ok 'on a terminal it is not shown' '
	have SCRIPT || lacks "needs script"
	(sleep 1; printf "%s\r" "$V"; sleep 0.5) |
		script -qec "cove secret set TTY --hosts a.test" "$T/typescript" >/dev/null
	same TTY "$(cove secret ls -q)"
	has "$(cat "$T/typescript")" "not shown"
	nowhere "$T/typescript"
	echo "secrets: [{name: TTY, from: store, inject: env}]" >"$T/tty.yaml"
	same "$V" "$(cove run -q --rm --spec "$T/tty.yaml" -- printenv TTY)"
	cove secret rm TTY'
ok 'a changed file, another name, a lost key: refused' '
	echo "$V" | cove secret set X --hosts a.test
	cp "$COVE_HOME/secrets/X" "$COVE_HOME/secrets/Y"
	has "$(cove secret ls --json | jq -r ".[] | select(.name == \"Y\").problem")" "cannot be decrypted"
	rm "$COVE_HOME/secrets/Y"
	printf x | dd of="$COVE_HOME/secrets/X" bs=1 seek=70 conv=notrunc 2>/dev/null
	rc_is 125 cove run -q --secret X -- true
	echo "$V" | cove secret set X --hosts a.test
	mv "$COVE_HOME/secrets/.key" "$T/key"
	rc_is 125 cove run -q --secret X -- true 2>"$T/err"
	has "$(cat "$T/err")" "key"
	mv "$T/key" "$COVE_HOME/secrets/.key"
	cove secret rm X'

# ---- sources ------------------------------------------------------------------------------
cat >"$T/env.yaml" <<X
secrets: [{name: S, inject: env}]
X
ok 'standard input, then the environment, then the store' '
	echo from-store-1234 | cove secret set S
	same from-store-1234 "$(cove run -q --rm --spec "$T/env.yaml" -- printenv S)"
	same from-env-1234 "$(S=from-env-1234 cove run -q --rm --spec "$T/env.yaml" -- printenv S)"
	same from-stdin-1234 "$(echo from-stdin-1234 |
		S=from-env-1234 cove run -q --rm --spec "$T/env.yaml" --secret-stdin S -- printenv S)"
	cove secret rm S'
ok 'a missing one is refused, and every place is named' '
	rc_is 125 cove run -q --spec "$T/env.yaml" -- true 2>"$T/err"
	has "$(cat "$T/err")" "secret S:"
	has "$(cat "$T/err")" "environment"
	has "$(cat "$T/err")" "store"
	has "$(cat "$T/err")" "hint: "'
ok 'one without hosts and without inject is refused with a hint' '
	S=$V rc_is 125 cove run -q --secret S -- true 2>"$T/err"
	has "$(cat "$T/err")" "no hosts"
	has "$(cat "$T/err")" "--secret S@"
	nowhere "$T/err"'

ok 'a project names only files of the project, whatever links are in it' '
	mkdir -p "$T/proj/sub" "$T/cfg"
	printf "%s\n" "$V" >"$T/outside"
	echo inside-value-1234 >"$T/proj/sub/real"
	printf "defaults: {secrets: [{name: S, from: file, path: key, inject: env}]}\n" >"$T/proj/cove.yaml"
	cove config trust "$T/proj/cove.yaml" >/dev/null
	ln -s sub/real "$T/proj/key"
	cd "$T/proj"
	same inside-value-1234 "$(cove run -q --rm --no-mounts -- printenv S)"
	for there in "$T/outside" ../outside /proc/self/environ; do
		ln -sfn "$there" key
		says 125 "a link leads out of the project" cove run -q --rm --no-mounts -- printenv S
	done
	ln -sfn sub/real key
	cove create -q moved --no-mounts
	cd /
	cove start -q moved
	same inside-value-1234 "$(cove exec -q moved -- printenv S)"
	cove rm -f moved
	cove config trust --forget "$T/proj/cove.yaml" >/dev/null 2>&1 || :'

# ---- inside ----------------------------------------------------------------------------------
cat >"$T/both.yaml" <<X
secrets:
  - {name: E, from: env, inject: env}
  - {name: F, from: env, inject: file}
X
export E=value-of-E-123 F="$V"
ok 'inject: env and file, in a one-shot' '
	cove run -q --rm --spec "$T/both.yaml" -- sh -c "
		echo \$E; cat \$F_FILE; echo; stat -c \"%a %F\" \$F_FILE; stat -f -c %T \$F_FILE; echo \${F-unset}" >"$T/out"
	same "value-of-E-123|$V|600 regular file|tmpfs|unset" "$(paste -sd"|" "$T/out")"'
ok 'inject: env and file, in a named sandbox, also by exec and after a restart' '
	cove run -q box --spec "$T/both.yaml" -- true
	same "value-of-E-123 $V" "$(cove exec box -- sh -c "echo \$E \$(cat \$F_FILE)")"
	same mine "$(cove exec box --env E=mine -- printenv E)"
	cove restart -q box
	same "value-of-E-123 $V" "$(cove exec box -- sh -c "echo \$E \$(cat \$F_FILE)")"'
ok 'no value on the command line or in the environment of any process of ours' '
	for p in /proc/[0-9]*; do
		name=$(cat "$p/comm" 2>/dev/null) || continue
		case $name in cove*) ;; *) continue ;; esac
		no grep -qaF -e "$V" -e value-of-E "$p/cmdline"
		[ "$name" = cove-guest ] && continue
		no grep -qaF -e "$V" -e value-of-E "$p/environ"
	done'
ok 'inspect tells that it is injected, and nothing else of it' '
	same "env file" "$(cove inspect box | jq -r "[.spec.secrets[].inject] | join(\" \")")"
	cove inspect box >"$T/out"
	nowhere "$T/out"'
ok 'a value on a command line inside is not in ps and not in the audit log' '
	cove exec box -- sh -c "sleep 1; : $V" &
	wait_for 5 sh -c "cove ps box --json | grep -q \"sleep 1\""
	cove ps box --json >"$T/ps"
	wait
	has "$(cat "$T/ps")" "[F]"
	cove audit box --json >"$T/audit"
	has "$(cat "$T/audit")" "[F]"
	nowhere "$T/audit" "$T/ps" "$COVE_HOME/sandboxes/box"'
ok 'nor in the log of the main session, also where a write cuts it' '
	cove stop -q box
	cove run -q box -- sh -c "cut -c1-9 \$F_FILE | tr -d \"\\n\"; sleep 0.3; cut -c10- \$F_FILE; echo \$E" >/dev/null
	cove stop -q box
	same "[F]|[E]" "$(cove logs box | tr -d "\r" | paste -sd"|")"
	nowhere "$COVE_HOME/sandboxes/box"'
ok 'an injected value is not in a change, a snapshot, a clone or an archive, and ends with the sandbox' '
	cove rm -f box
	cove run -q box . --spec "$T/both.yaml" --mount .:overlay -- sh -c "echo made >made; test -s \$F_FILE"
	same made "$(cove diff --names box 2>/dev/null || cove diff box | sed -n "s/^+++ b.//p")"
	cove snapshot -q box s1
	cove clone -q box twin
	cove export -q -o "$T/box.tar" box
	nowhere "$T/box.tar" "$COVE_HOME"
	no grep -rqF value-of-E-123 "$T/box.tar" "$COVE_HOME/sandboxes"
	says 125 "hint: export E" env -u E -u F cove start twin
	cove inspect box >"$T/out"
	cove ps box --json >>"$T/out"
	cove audit box --json >>"$T/out"
	cove net log box --json >>"$T/out" 2>&1 || :
	nowhere "$T/out"
	no grep -qF value-of-E-123 "$T/out"
	cove stop -q box
	E=another-value-of-E F=another-value-of-F cove start -q box
	same "another-value-of-E another-value-of-F" "$(cove exec box -- sh -c "echo \$E \$(cat \$F_FILE)")"
	cove rm -f twin'
ok 'errors do not hold a value' '
	cove rm -f box
	echo "secrets: [{name: F, from: env, inject: env}, {name: G, from: file, path: /no/$V, inject: env}]" >"$T/err.yaml"
	rc_is 125 cove run -q --spec "$T/err.yaml" -- true 2>"$T/err"
	has "$(cat "$T/err")" "secret G: /no/[F]: No such file"
	nowhere "$T/err"'
ok 'what a sandbox wrote does not land if it holds the value' '
	cove run -q box . --spec "$T/both.yaml" --mount .:overlay -- sh -c "cat \$F_FILE | base64 >leak"
	rc_is 1 cove apply box >"$T/out" 2>&1
	nowhere "$T/out"
	no test -e leak
	cove rm -f box'

# ---- placeholders ------------------------------------------------------------------------------
ok 'the sandbox sees a placeholder of the same shape, the same after a restart' '
	cove run -q ph --secret F@api.example.com -- printenv F >"$T/one" 2>"$T/err" || {
		grep -q "network" "$T/err" && lacks "no network role here"; cat "$T/err"; exit 1; }
	one=$(cat "$T/one")
	same ${#V} ${#one}
	case $one in ghp_*) ;; *) exit 1 ;; esac
	[ "$one" != "$V" ]
	cove restart -q ph
	same "$one" "$(cove exec ph -- printenv F)"
	same 600 "$(stat -c %a "$COVE_HOME/sandboxes/ph/placeholders.json")"
	nowhere "$COVE_HOME/sandboxes/ph"
	no cove exec ph -- sh -c "grep -rqF $V /proc/*/environ /run 2>/dev/null"
	cove rm -f ph'
ok 'the store knows the hosts' '
	printf "%s" "$V" | cove secret set H --hosts api.example.com
	cove run -q --rm --secret H -- printenv H >"$T/out" 2>"$T/err" || {
		grep -q "network" "$T/err" && lacks "no network role here"; cat "$T/err"; exit 1; }
	[ "$(cat "$T/out")" != "$V" ] && [ -s "$T/out" ]
	cove secret rm H'
ok 'an archive cannot help itself to secrets' '
	cove create a1 --no-mounts --secret F@api.example.com
	cove export -o "$T/a.tar" a1
	cove rm -f a1
	rc_is 125 cove import "$T/a.tar" a2 2>"$T/err"
	has "$(cat "$T/err")" "secret F"
	cove import -q "$T/a.tar" a2 --secret E@other.example.com
	same "E other.example.com" "$(cove inspect a2 | jq -r ".spec.secrets[] | .name + \" \" + .hosts[0]")"
	cove rm -f a2'
done_testing
