#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mounts: overlay keeps changes apart, ro refuses them, rw is live; nothing else is there.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub" && echo one >"$P/one" && echo two >"$P/sub/two" && chmod 750 "$P/sub"

ok 'overlay: changes show inside, not outside' '
	cd "$P"
	cove run -q --rm -- sh -ec "echo changed >one; rm sub/two; echo new >sub/new; grep -q changed one; test ! -e sub/two"
	same one "$(cat one)"
	same two "$(cat sub/two)"
	! test -e sub/new'
ok 'overlay: changes of a one-shot are kept and named' '
	cd "$P"
	cove run -- sh -c "echo kept >one" 2>"$T/err"
	name=$(cove ls -q)
	[ -n "$name" ]
	has "$(cat "$T/err")" "$name"
	same one "$(cat one)"
	same kept "$(cove run "$name" -- cat "$P/one")"
	cove rm -f "$name"'
ok 'overlay: nothing is kept when nothing changed' '
	cd "$P"
	cove run -- cat one
	same "" "$(cove ls -q)"'
ok 'overlay: --rm keeps nothing' '
	cd "$P"
	cove run --rm -- sh -c "echo x >one"
	same "" "$(cove ls -q)"'
ok 'overlay: a named sandbox sees its own changes again' '
	cd "$P"
	cove run -q box -- sh -c "echo mine >one"
	same mine "$(cove exec box -- cat "$P/one")"
	cove stop box
	same mine "$(cove run -q box -- cat "$P/one")"
	same one "$(cat "$P/one")"
	cove stop box
	cove reset --yes box
	same one "$(cove run -q box -- cat "$P/one")"
	cove rm -f box'
ok 'overlay: edits on the host show inside' '
	cd "$P"
	cove run -q live -- true
	echo later >"$P/sub/later"
	same later "$(cove exec live -- cat "$P/sub/later")"
	rm "$P/sub/later"
	cove rm -f live'
ok 'overlay: modes and links are kept' '
	cd "$P"
	ln -sf one link
	same "one 750" "$(cove run -q --rm -- sh -c "readlink link; stat -c %a sub" | paste -sd" ")"'
ok 'overlay: many small files, renames, append' '
	cd "$P"
	cove run -q --rm -- sh -ec "
		i=0; while [ \$i -lt 300 ]; do echo \$i >f\$i; i=\$((i + 1)); done
		mv f1 g1; mkdir d; mv f2 d/; mv sub sub2 || cp -r sub sub2
		echo more >>one; test \$(wc -l <one) = 2; test \$(ls | wc -l) -ge 300"'
ok 'ro: reads, refuses writes' '
	same one "$(cove run -q --no-mounts --mount "$P:ro" -- cat "$P/one")"
	must_refuse cove run -q --no-mounts --mount "$P:ro" -- sh -c "echo x >$P/one"
	same one "$(cat "$P/one")"'
ok 'rw: live in both directions' '
	chmod 777 "$P" && mkdir -m 777 -p "$T/rw" && echo host >"$T/rw/a" && chmod 666 "$T/rw/a"
	cove run -q --no-mounts --mount "$T/rw:rw" -- sh -ec "grep -q host $T/rw/a; echo inside >$T/rw/b; echo edit >$T/rw/a"
	same inside "$(cat "$T/rw/b")"
	same edit "$(cat "$T/rw/a")"
	same "$(id -u)" "$(stat -c %u "$T/rw/b")"'
ok 'a target of its own' 'same one "$(cove run -q --no-mounts --mount "$P:/mnt/here:ro" -- cat /mnt/here/one)"'
ok 'a single file can be mounted' 'same one "$(cove run -q --no-mounts --mount "$P/one:ro" -- cat "$P/one")"'
ok 'several mounts, one inside another' '
	same "one ro" "$(cove run -q --no-mounts --mount "$P:overlay" --mount "$P/sub:ro" -- sh -c "cat $P/one; echo x >$P/sub/two || echo ro" 2>/dev/null | paste -sd" ")"'
ok 'names with odd characters' '
	odd="$T/a b,c=d:e\\f"
	mkdir -p "$odd" && echo odd >"$odd/file"
	cd "$odd"
	same odd "$(cove run -q --rm -- cat file)"
	cove run -q --rm -- sh -c "echo x >file"
	same odd "$(cat file)"'
ok 'a missing source is an error that names it' '
	rc_is 125 cove run -q --no-mounts --mount "$T/missing:ro" -- true 2>"$T/err"
	has "$(cat "$T/err")" "$T/missing"'
ok 'an unknown mode is an error' '
	rc=0; cove run -q --no-mounts --mount "$P:banana" -- true 2>"$T/err" || rc=$?
	[ $rc -eq 125 ] || [ $rc -eq 2 ]
	has "$(cat "$T/err")" banana'
ok 'a DIR that is named is mounted, whatever else is' '
	mkdir -p "$T/extra" && echo extra >"$T/extra/file"
	cd "$T"
	same "$P" "$(cove run -q named "$P" --mount "$T/extra:ro" -- sh -ec "cat one >/dev/null; cat $T/extra/file >/dev/null; pwd")"
	cove rm -f named
	same "$P" "$(cove run -q named "$P" --mount "$P:ro" -- sh -ec "! touch x 2>/dev/null; pwd")"
	cove rm -f named'
ok 'inside, only the mounts and the image are there' '
	cd "$P"
	same "$(basename "$P")" "$(cove run -q --rm -- ls "$T")"
	same "" "$(cove run -q --no-mounts -- ls -A /home /root /srv /mnt /media /opt 2>/dev/null | grep -v : | grep -v agent | tr -d "\n")"'
ok 'the tools of a project work on it: git, a compiler' '
	command -v git >/dev/null && command -v gcc >/dev/null || lacks "git and gcc"
	mkdir "$T/tools" && cd "$T/tools"
	echo "int main(void) { return 7; }" >a.c
	rc_is 7 cove run -q tools -- sh -ec "git init -q . && git add a.c
		git -c user.name=a -c user.email=a@b commit -qm first
		gcc -o a a.c && git status --short | grep -qxF \"?? a\" && ./a"
	cove rm -f tools
	same a.c "$(ls -A)"'

done_testing
