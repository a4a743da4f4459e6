#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Apply, undo, discard: what lands, what stays, what comes back.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p

fresh() { # a project and a stopped sandbox "s" on it
	cove rm -f s >/dev/null 2>&1 || true
	rm -rf "$P"
	mkdir -p "$P/sub/deep" "$P/gone/in" "$P/dir"
	(
		cd "$P" || exit
		seq 1 40 >text
		echo one >one
		echo two >sub/two
		echo deep >sub/deep/f
		echo g >gone/in/g
		echo h >gone/h
		echo d >dir/d
		echo old >file
		ln -s one link
		printf '#!/bin/sh\n' >run
		chmod 755 run
	)
	cd "$P" || return
}
change() { # SCRIPT: in the sandbox s, which is stopped again afterwards
	cove run -q s -- sh -ec "$1"
	cove stop -q s
}
tree() { (cd "$1" && find . -mindepth 1 \( -type l -printf '%p l %l\n' -o -type d -printf '%p d %m\n' -o -printf '%p f %m ' -exec sha256sum {} \; \) | sort); }
everything='
	echo edited >one; echo new >sub/new; mkdir -p made/in; echo m >made/in/m; rm sub/two
	rm -rf gone; rm -rf dir; echo now-a-file >dir; rm file; mkdir file; echo x >file/x
	ln -sfn sub/new link; chmod 644 run; chmod 700 sub; echo "#!/bin/sh" >tool; chmod 755 tool; touch text'

ok 'every kind of change lands, and nothing is left to apply' '
	fresh
	change "$everything"
	cove apply --yes s
	same edited "$(cat one)"; same new "$(cat sub/new)"; same m "$(cat made/in/m)"
	! test -e sub/two || exit 1; ! test -e gone || exit 1; same now-a-file "$(cat dir)"; same x "$(cat file/x)"
	same sub/new "$(readlink link)"; same "644 700 755" "$(stat -c %a run sub tool | paste -sd" ")"
	same "" "$(cove diff --name-only s)"
	same "" "$(find . -name ".cove*")"
	same text "$(find "$COVE_HOME/sandboxes/s/m0/upper" -mindepth 1 -printf "%P\n")"'
ok 'what is applied is what was inside, exactly' '
	fresh
	cp -a "$P" "$T/plain"
	change "$everything"
	(cd "$T/plain" && sh -ec "$everything")
	cove apply --yes s
	tree "$P" >"$T/a"; tree "$T/plain" >"$T/b"; diff "$T/a" "$T/b"
	rm -rf "$T/plain"'
ok 'undo brings the host back, and the changes into the sandbox' '
	fresh
	tree "$P" >"$T/before"
	change "$everything"
	cove diff --name-only s >"$T/names"
	cove apply --yes s; tree "$P" >"$T/after"
	cove undo --yes s
	tree "$P" >"$T/undone"; diff "$T/before" "$T/undone"
	cove diff --name-only s >"$T/names2"; diff "$T/names" "$T/names2"
	cove apply --yes s; tree "$P" >"$T/again"; diff "$T/after" "$T/again"'
ok 'undo has several levels' '
	fresh; tree "$P" >"$T/before"
	change "echo 1 >one"; cove apply -q --yes s
	change "echo 2 >one"; cove apply -q --yes s
	change "echo 3 >one"; cove apply -q --yes s
	cove undo -q --yes s; same 2 "$(cat one)"
	cove undo -q --yes s; same 1 "$(cat one)"
	cove undo -q --yes s; tree "$P" >"$T/undone"; diff "$T/before" "$T/undone"
	rc_is 125 cove undo --yes s'
ok 'undo refuses when the host changed those files since' '
	fresh; change "echo 1 >one; echo n >new"; cove apply -q --yes s
	echo host >one
	rc_is 2 cove undo --yes s
	same host "$(cat one)"; same n "$(cat new)"'
ok 'undo refuses when the host put a file into a directory that apply made' '
	fresh; tree "$P" >"$T/before"
	change "mkdir -p made/in empty; echo m >made/in/m; echo 1 >one"; cove apply -q --yes s
	tree "$P" >"$T/after"
	echo host >made/in/h; mkdir empty/mine
	rc_is 2 cove undo --dry-run s
	rc_is 2 cove undo --yes s 2>"$T/err"
	has "$(cat "$T/err")" "made/in: conflict: the host put h into it"
	has "$(cat "$T/err")" "empty: conflict: the host put mine into it"
	same "host m 1" "$(cat made/in/h made/in/m one | paste -sd" ")"; test -d empty/mine
	same "empty made/in" "$(cove undo --yes --json s 2>/dev/null | jq -r ".conflicts[].path" | paste -sd" ")"
	rm made/in/h; rmdir empty/mine
	tree "$P" >"$T/now"; diff "$T/after" "$T/now"
	cove undo -q --yes s; tree "$P" >"$T/undone"; diff "$T/before" "$T/undone"'
ok 'named paths only; the rest stays' '
	fresh; change "$everything"
	cove apply -q --yes s sub/ one
	same edited "$(cat one)"; same new "$(cat sub/new)"; test -e gone/h
	! cove diff --name-only s | grep -q "^one\$" || exit 1
	cove diff --name-only s | grep -q "^gone"
	cove apply -q --yes s; same "" "$(cove diff --name-only s)"'
ok 'a path that names nothing is an error' '
	fresh; change "echo 1 >one"; rc_is 125 cove apply --yes s nothing-like-it; same one "$(cat one)"'
ok 'dry run changes nothing' '
	fresh; tree "$P" >"$T/before"; change "$everything"
	cove apply --dry-run s | grep -q one
	tree "$P" >"$T/after"; diff "$T/before" "$T/after"'
ok 'a host that changed another part of a text is merged' '
	fresh; change "sed -i s/^5\$/five/ text"
	sed -i s/^35\$/host/ text
	cove apply --yes s
	same "five host" "$(sed -n "5p;35p" text | paste -sd" ")"
	same "" "$(cove diff --name-only s)"'
ok 'a host that changed the same lines is a conflict, and nothing is touched' '
	fresh; change "sed -i s/^5\$/five/ text; echo edited >one"
	sed -i s/^5\$/host/ text
	rc_is 2 cove apply --yes s 2>"$T/err"; has "$(cat "$T/err")" text
	same one "$(cat one)"; same host "$(sed -n 5p text)"
	rc_is 2 cove apply --yes --json s >"$T/json"; same text "$(jq -r ".conflicts[0].path" "$T/json")"
	cove apply -q --yes --overwrite s; same five "$(sed -n 5p text)"; same edited "$(cat one)"'
ok 'created on both sides: conflict if different, nothing to do if equal' '
	fresh; change "echo a >new; echo same >eq"
	echo b >new; echo same >eq
	rc_is 2 cove apply --yes s; same b "$(cat new)"
	rm new; cove apply -q --yes s; same a "$(cat new)"; same same "$(cat eq)"'
ok 'deleted inside, edited on the host: conflict' '
	fresh; change "rm one"; echo host >one; rc_is 2 cove apply --yes s; same host "$(cat one)"'
ok 'a deleted directory into which the host put a file: conflict' '
	fresh; change "rm -rf gone"; echo new >gone/new; rc_is 2 cove apply --yes s; same new "$(cat gone/new)"; same h "$(cat gone/h)"'
ok 'while it runs: lands, is no change any more, and later edits are' '
	fresh
	cove run -q s -- sh -c "echo 1 >one; echo n >new; rm sub/two; mkdir d2; echo x >d2/x"
	cove apply -q --yes s
	same 1 "$(cat one)"; same n "$(cat new)"; ! test -e sub/two || exit 1; same x "$(cat d2/x)"
	same "" "$(cove diff --name-only s)"
	cove exec s -- sh -c "echo 2 >$P/one; rm $P/d2/x"
	cove diff --name-only s | sort >"$T/names"; same "d2/x one" "$(paste -sd" " "$T/names")"
	cove apply -q --yes s; same 2 "$(cat one)"; ! test -e d2/x
	cove undo -q --yes s; same 1 "$(cat one)"; same x "$(cat d2/x)"
	cove stop -q s
	cove apply -q --yes s; same 2 "$(cat one)"
	same "" "$(cove diff --name-only s)"
	same 2 "$(cove run -q s -- cat one)"; cove stop -q s'
ok 'after it landed, the sandbox sees what the host does with it' '
	fresh; change "echo 1 >one"; cove apply -q --yes s; echo host >one
	same host "$(cove run -q s -- cat one)"; cove stop -q s'
ok 'chosen file by file, hunk by hunk' '
	fresh; change "sed -i \"s/^5\$/five/;s/^35\$/thirtyfive/\" text; echo edited >one; echo n >new"
	printf "n\nn\ny\ny\nn\n" | cove apply -i s
	same one "$(cat one)"; ! test -e new
	same "five 35" "$(sed -n "5p;35p" text | paste -sd" ")"
	same "new one text" "$(cove diff --name-only s | sort | paste -sd" ")"
	cove apply -q --yes s; same thirtyfive "$(sed -n 35p text)"; same n "$(cat new)"'
ok 'discard some, then all; no byte is left' '
	fresh; change "$everything; echo dot >.dotfile"
	cove discard -q --yes s one gone/h .dotfile
	! cove diff --name-only s | grep -qE "^(one|gone/h|.dotfile)\$" || exit 1
	cove diff --name-only s | grep -q "^gone/in/g\$"
	same "one h" "$(cove run -q s -- sh -c "cat one gone/h" | paste -sd" ")"; cove stop -q s
	rc_is 125 cove discard s
	cove discard -q --yes s
	same "" "$(cove diff --name-only s)"
	same "" "$(find "$COVE_HOME"/sandboxes/s/m0/upper -mindepth 1 2>/dev/null)"
	! grep -rq now-a-file "$COVE_HOME/sandboxes/s/m0"'
ok 'a running sandbox is not discarded' '
	fresh; cove run -q s -- sh -c "echo 1 >one"; rc_is 125 cove discard --yes s; cove stop -q s; same one "$(cove diff --name-only s)"'
ok 'run --apply lands at once, and only when the command succeeded' '
	fresh
	cove run -q --apply -- sh -c "echo 1 >one"; same 1 "$(cat one)"
	rc_is 3 cove run -q --apply -- sh -c "echo 2 >one; exit 3"; same 1 "$(cat one)"
	for n in $(cove ls -q); do cove rm -f "$n"; done'
ok 'two applies at once: one of them lands, nothing is torn' '
	fresh; change "$everything"
	cove apply -q --yes s & cove apply -q --yes s; wait
	same "" "$(cove diff --name-only s)"; same edited "$(cat one)"'
ok 'a directory that cannot be written is refused, and everything is as before' '
	[ "$(id -u)" != 0 ] || lacks "root writes everywhere"
	fresh; change "echo 1 >one; echo 2 >sub/two"; chmod 555 sub
	tree "$P" >"$T/before"
	rc_is 125 cove apply --yes s; chmod 555 sub
	tree "$P" >"$T/after"; diff "$T/before" "$T/after"; chmod 755 sub
	cove apply -q --yes s; same 2 "$(cat sub/two)"'
ok 'owner of what lands is the owner of the project' '
	fresh; [ "$(id -u)" != 0 ] || chown -R 1234:1234 "$P"
	change "echo 1 >one; echo n >new; mkdir dd"; cove apply -q --yes s
	same 1 "$(stat -c %u one new dd | sort -u | wc -l)"; same "$(stat -c %u .)" "$(stat -c %u new)"'
ok 'json tells what landed' '
	fresh; change "echo 1 >one"; cove apply --yes --json s >"$T/json"
	same "true 1 one" "$(jq -r "\"\(.ok) \(.applied) \(.changes[0].path)\"" "$T/json")"'
ok 'paths that begin with a dot are seen from here' '
	fresh; change "echo 1 >one; echo 2 >sub/two; echo f >sub/deep/f2"
	cd sub
	same "sub/deep/f2 sub/two" "$(cove diff --name-only s . | paste -sd" ")"
	cove apply -q --yes s ./two; same 2 "$(cat two)"; same one "$(cat ../one)"
	cove apply -q --yes s ../one; same 1 "$(cat ../one)"
	same sub/deep/f2 "$(cove diff --name-only s)"'
ok 'what is left is told' '
	fresh; change "echo 1 >one; echo n >new"
	same 1 "$(cove apply --yes --json s one | jq .left)"'
ok 'a stopped undo on another file system gives everything back' '
	[ "$(id -u)" = 0 ] || lacks "needs root to mount"
	fresh; rm -rf "$P"; mkdir "$P"; mount -t tmpfs none "$P"; trap "cd /; umount $P" EXIT; cd "$P"
	mkdir d; echo one >one; ln -s one link; echo x >d/x; tree "$P" >"$T/before"
	change "echo 1 >one; ln -sf d link; rm -r d; echo n >new; chmod 755 new"; cove diff --name-only s >"$T/names"
	cove apply -q --yes s; same 1 "$(cat one)"; cove undo -q --yes s
	tree "$P" >"$T/undone"; diff "$T/before" "$T/undone"
	cove diff --name-only s >"$T/names2"; diff "$T/names" "$T/names2"; cove apply -q --yes s; same n "$(cat new)"
	cove rm -f s; cd /'
done_testing
