#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mount modes: copy, volume, rw with its guarded paths; mounts in mounts, masks; what a changed
# mount list does to the layers; storage.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
mkdir -p "$P/sub" "$P/lib" && echo one >"$P/one" && echo two >"$P/sub/two"
mkdir -p "$T/conf/d" && echo a=1 >"$T/conf/a" && echo b=2 >"$T/conf/d/b" && echo rc >"$T/rc"

# ---- copy -------------------------------------------------------------------------------

ok 'copy: a directory and a file, changed inside, untouched outside' '
	cove create c --no-mounts --mount "$T/conf:/cfg:copy" --mount "$T/rc:/etc-rc:copy"
	cove run -q c -- sh -ec "echo a=9 >/cfg/a; rm /cfg/d/b; echo new >/cfg/n; echo more >>/etc-rc"
	same a=1 "$(cat "$T/conf/a")"
	same b=2 "$(cat "$T/conf/d/b")"
	same rc "$(cat "$T/rc")"
	! test -e "$T/conf/n"'
ok 'copy: it is kept, and the host later changes nothing' '
	cove stop c
	echo a=5 >"$T/conf/a"
	same "a=9 new rc more" "$(cove run -q c -- sh -c "cat /cfg/a /cfg/n /etc-rc" | paste -sd" ")"
	cove stop c'
ok 'copy: no change for diff or ls' 'same 0 "$(cove inspect c | jq .changes)"'
ok 'copy: reset makes it anew' '
	cove reset --yes c
	same a=5 "$(cove run -q c -- cat /cfg/a)"
	cove rm -f c'
ok 'copy: of a one-shot leaves nothing' '
	cove run -q --no-mounts --mount "$T/conf:/cfg:copy" -- sh -c "echo x >/cfg/a"
	same "" "$(cove ls -q)"'
ok 'copy: a missing source, a source that is no file' '
	rc_is 125 cove run -q --no-mounts --mount "$T/none:/x:copy" -- true 2>"$T/err"
	has "$(cat "$T/err")" "$T/none"
	mkfifo "$T/fifo"
	rc_is 125 cove run -q --no-mounts --mount "$T/fifo:/x:copy" -- true 2>"$T/err"
	has "$(cat "$T/err")" "neither a file nor a directory"'

# ---- volumes ----------------------------------------------------------------------------

ok 'volume: made on first use, persistent, between sandboxes' '
	cove run -q --no-mounts --mount cache:/cache:volume -- sh -ec "echo kept >/cache/f; mkdir /cache/d"
	same kept "$(cove run -q --no-mounts --mount cache:/other:volume -- cat /other/f)"
	same "" "$(cove ls -q)"
	same 700 "$(stat -c %a "$COVE_HOME/volumes/cache")"'
ok 'volume: the user inside owns it' '
	same 1000 "$(cove run -q --no-mounts --mount cache:/cache:volume -- stat -c %u /cache)"
	same "$(id -u)" "$(stat -c %u "$COVE_HOME/volumes/cache/f")"'
ok 'volume: one at a time, unless both share' '
	cove create v1 --no-mounts --mount cache:/c:volume
	cove create v2 --no-mounts --mount cache:/c:volume
	cove create v3 --no-mounts --mount cache:/c:volume,shared
	cove create v4 --no-mounts --mount cache:/c:volume,shared
	cove start v1
	rc_is 125 cove start v2 2>"$T/err"
	has "$(cat "$T/err")" "volume cache is in use by v1"
	rc_is 125 cove start v3
	cove stop v1
	cove start v3
	cove start v4
	rc_is 125 cove start v1
	cove exec v3 -- sh -c "echo shared >/c/s"
	same shared "$(cove exec v4 -- cat /c/s)"
	cove kill v3
	cove kill v4
	cove start v1
	cove stop v1'
ok 'volume: the lock goes with a killed keeper' '
	cove start v1
	kill -9 "$(cove inspect v1 | jq .keeperPid)"
	wait_for 5 cove start v2
	cove stop v2'
ok 'volume ls' '
	same cache "$(cove volume ls -q)"
	same "v1 v2 v3 v4" "$(cove volume ls --json | jq -r ".[0].usedBy | join(\" \")")"
	has "$(cove volume ls)" "v1, v2"'
ok 'volume rm: not while a sandbox names it, and not unasked' '
	rc_is 125 cove volume rm --yes cache 2>"$T/err"
	has "$(cat "$T/err")" "belongs to sandbox v1"
	cove rm -f v1 v2 v3 v4
	rc_is 125 cove volume rm cache
	test -e "$COVE_HOME/volumes/cache/f"
	cove volume rm --yes cache
	! test -e "$COVE_HOME/volumes/cache" || exit 1
	same "" "$(cove volume ls -q)"
	rc_is 125 cove volume rm --yes cache'
ok 'volume: rm is refused while a one-shot uses it' '
	cove run -q --no-mounts --mount live:/v:volume -- sleep 20 &
	pid=$!
	wait_for 5 test -e "$COVE_HOME/volumes/.locks/live"
	sleep 0.3
	rc_is 125 cove volume rm --yes live
	kill $pid
	wait $pid || true
	wait_for 5 cove volume rm --yes live'
ok 'volume: bad names, no target' '
	rc_is 125 cove run -q --no-mounts --mount ../x:/v:volume -- true
	rc_is 125 cove run -q --no-mounts --mount x:volume -- true
	rc_is 125 cove run -q --no-mounts --mount "$P:/v:ro,shared" -- true'

# ---- rw and its guarded paths -------------------------------------------------------------

R=$T/rw
mkdir -p "$R/.git/hooks" "$R/.git/objects" "$R/.vscode" "$R/deep/repo/.git/hooks" "$R/src"
echo '[core]' >"$R/.git/config" && echo '#!/bin/sh' >"$R/.git/hooks/pre-commit" && echo '{}' >"$R/.vscode/tasks.json"
echo '[core]' >"$R/deep/repo/.git/config" && echo text >"$R/src/a"
ok 'rw: what the host runs is read-only, the rest is live' '
	cove run -q --no-mounts --mount "$R:rw" -- sh -c "
		cd $R; echo inside >src/a; echo obj >.git/objects/x; touch new
		echo evil >>.git/config; echo evil >.git/hooks/pre-commit; echo evil >.git/hooks/post-checkout
		rm -f .git/config .vscode/tasks.json; mv .git/hooks .git/h2; mv .git .git2; mv .vscode v2
		echo x >deep/repo/.git/config; mv deep/repo/.git deep/repo/g2
		mv .git/config .git/c2; ln .git/config cfg2; chmod 777 .git/config; rm -rf .git/hooks .vscode
		true" >"$T/out" 2>&1
	same inside "$(cat "$R/src/a")"
	same obj "$(cat "$R/.git/objects/x")"
	test -e "$R/new"
	same "[core]" "$(cat "$R/.git/config")"
	same "#!/bin/sh" "$(cat "$R/.git/hooks/pre-commit")"
	same pre-commit "$(ls "$R/.git/hooks")"
	same "{}" "$(cat "$R/.vscode/tasks.json")"
	same "[core]" "$(cat "$R/deep/repo/.git/config")"
	test ! -e "$R/.git2" && test ! -e "$R/v2" && test ! -e "$R/cfg2"'
ok 'rw: a clean run leaves no record and no word' '
	cove run --no-mounts --mount "$R:rw" -- true 2>"$T/err"
	same "" "$(cat "$T/err")"
	same "" "$(cove ls -q)"'
ok 'rw: what appears goes to quarantine, with a notice' '
	cove run --no-mounts --mount "$R:rw" -- sh -c "echo evil >$R/.envrc; mkdir $R/.husky; echo evil >$R/.husky/pre-push" 2>"$T/err"
	test ! -e "$R/.envrc" && test ! -e "$R/.husky"
	has "$(cat "$T/err")" "$R/.envrc: appeared where the host runs it; moved to"
	has "$(cat "$T/err")" "$R/.husky:"
	name=$(cove ls -q)
	same 2 "$(cove inspect "$name" | jq ".quarantine | length")"
	same evil "$(cat "$COVE_HOME/sandboxes/$name/quarantine"/*-.envrc)"
	same evil "$(cat "$COVE_HOME/sandboxes/$name/quarantine"/*-.husky/pre-push)"
	cove rm -f "$name"'
kept() { ls -d "$COVE_HOME/quarantine/$1"-* 2>/dev/null; }
ok 'rw: what is in quarantine outlives the sandbox, and rm says where' '
	cove create k --no-mounts --mount "$R:rw"
	cove run -q k -- sh -c "echo mine >$R/.envrc; mkdir $R/.husky; echo h >$R/.husky/pre-push"
	cove stop -q k
	cove reset --yes -q k
	same mine "$(cat "$COVE_HOME/sandboxes/k/quarantine"/*-.envrc)"
	cove rm -f k 2>"$T/err"
	same "cove: k: 2 quarantined files are kept in $(kept k)" "$(cat "$T/err")"
	same "mine h" "$(cat "$(kept k)"/*-.envrc "$(kept k)"/*-.husky/pre-push | paste -sd" ")"
	same 2 "$(grep -c "\"path\":\"$R/" "$(kept k)/list.jsonl")"
	same 700 "$(stat -c %a "$COVE_HOME/quarantine")"
	! test -e "$COVE_HOME/sandboxes/k"'
ok 'rw: a second one of the name has a place of its own; nothing is kept of an empty one' '
	cove create k --no-mounts --mount "$R:rw"
	cove run -q k -- sh -c "echo again >$R/.envrc" 2>/dev/null
	cove create none --no-mounts --mount "$R:rw"
	cove run -q none -- true
	mkdir -p "$COVE_HOME/sandboxes/none/quarantine"
	cove rm -f --all 2>"$T/err"
	same 1 "$(grep -c quarantined "$T/err")"
	has "$(cat "$T/err")" "k: 1 quarantined file is kept in"
	same 2 "$(kept k | wc -l)"
	same "" "$(kept none)"
	same "again mine" "$(cat "$COVE_HOME"/quarantine/k-*/*-.envrc | sort | paste -sd" ")"'
ok 'rw: run --rm keeps them too' '
	(cd "$P" && cove run -q --rm --no-mounts --mount "$R:rw" --mount "$P:overlay" -- sh -c "echo x >$R/.envrc; echo y >$P/new" 2>"$T/err")
	has "$(cat "$T/err")" "1 quarantined file is kept in $COVE_HOME/quarantine/"
	same "" "$(cove ls -q)"'
ok 'rw: where they cannot be kept, nothing is removed' '
	cove create k2 --no-mounts --mount "$R:rw"
	cove run -q k2 -- sh -c "echo x >$R/.envrc" 2>/dev/null
	mv "$COVE_HOME/quarantine" "$T/aside-q" && : >"$COVE_HOME/quarantine"
	rc_is 125 cove rm -f k2 2>"$T/err"
	has "$(cat "$T/err")" "nothing was removed"
	same x "$(cat "$COVE_HOME/sandboxes/k2/quarantine"/*-.envrc)"
	rm "$COVE_HOME/quarantine" && mv "$T/aside-q" "$COVE_HOME/quarantine"
	cove rm -f k2 2>/dev/null
	same x "$(cat "$(kept k2)"/*-.envrc)"'
ok 'rw: the same at the end of each command of a named one' '
	cove create g --no-mounts --mount "$R:rw"
	cove run -q g -- true 2>"$T/err"
	same "" "$(cat "$T/err")"
	cove exec g -- sh -c "ln -s /etc/passwd $R/.envrc; echo x >$R/cove.yaml" 2>"$T/err"
	test ! -h "$R/.envrc" && test ! -e "$R/cove.yaml"
	same 1 "$(grep -c "$R/.envrc: appeared" "$T/err")"
	same "" "$(cove exec g -- true 2>&1)"
	same 2 "$(cove inspect g | jq ".quarantine | length")"
	cove stop g
	cove audit g | grep -q quarantine
	cove rm -f g'
ok 'rw: a symlink or a file on the way to a guarded path' '
	mkdir -p "$T/rw2/other/hooks"
	cove run -q --no-mounts --mount "$T/rw2:rw" -- sh -c "ln -s other $T/rw2/.git"
	test ! -h "$T/rw2/.git"
	cove run -q --no-mounts --mount "$T/rw2:rw" -- sh -c "echo gitdir: other >$T/rw2/.git"
	test ! -e "$T/rw2/.git"
	echo "gitdir: /x" >"$T/rw2/.git"
	cove run -q --no-mounts --mount "$T/rw2:rw" -- sh -c "echo y >$T/rw2/.git" || true
	same "gitdir: /x" "$(cat "$T/rw2/.git")"
	rm "$T/rw2/.git"
	cove rm -f $(cove ls -q)'
ok 'rw: a guarded symlink that leaves the mount is refused, one within is followed' '
	mkdir -p "$T/rw3/conf" && echo in >"$T/rw3/conf/envrc"
	ln -s /etc/hostname "$T/rw3/.envrc"
	rc_is 125 cove run -q --no-mounts --mount "$T/rw3:rw" -- true 2>"$T/err"
	has "$(cat "$T/err")" "$T/rw3/.envrc is a symlink that leaves the mount"
	ln -sf conf/envrc "$T/rw3/.envrc"
	cove run -q --no-mounts --mount "$T/rw3:rw" -- sh -c "echo evil >$T/rw3/conf/envrc; echo evil >$T/rw3/.envrc" 2>/dev/null || true
	same in "$(cat "$T/rw3/conf/envrc")"
	cove run -q --no-mounts --mount "$T/rw3:rw" -- sh -c "rm $T/rw3/.envrc; echo evil >$T/rw3/.envrc" 2>"$T/err"
	test ! -e "$T/rw3/.envrc"
	cove rm -f $(cove ls -q)'
ok 'rw: a guarded file with another name is watched' '
	mkdir "$T/rw4" && echo mine >"$T/rw4/.envrc" && ln "$T/rw4/.envrc" "$T/rw4/alias"
	cove run -q --no-mounts --mount "$T/rw4:rw" -- sh -c "echo evil >>$T/rw4/alias" 2>"$T/err"
	test ! -e "$T/rw4/.envrc"
	has "$(cat "$T/err")" "changed, and could not be protected"
	cove rm -f $(cove ls -q)'
ok 'rw: unprotect names exceptions' '
	printf "mounts: [{source: %s, mode: rw, unprotect: [.envrc, .git/hooks]}]\n" "$R" >"$T/u.yaml"
	cove run -q --spec "$T/u.yaml" -- sh -c "echo mine >$R/.envrc; echo hook >$R/.git/hooks/h; echo evil >>$R/.git/config" 2>/dev/null || true
	same mine "$(cat "$R/.envrc")"
	same hook "$(cat "$R/.git/hooks/h")"
	same "[core]" "$(cat "$R/.git/config")"
	rm "$R/.envrc" "$R/.git/hooks/h"
	same "" "$(cove ls -q)"'
ok 'rw: the .git directory itself as mount' '
	cove run -q --no-mounts --mount "$R/.git:rw" -- sh -c "echo evil >>$R/.git/config; echo ok >$R/.git/objects/y" 2>/dev/null || true
	same "[core]" "$(cat "$R/.git/config")"
	same ok "$(cat "$R/.git/objects/y")"'
ok 'rw: attest lists what is protected' '
	cove create at --no-mounts --mount "$R:rw"
	cove start at
	same read-only "$(cove attest --json at | jq -r ".items[] | select(.item == \"protected $R/.git/hooks\").actual")"
	same 0 "$(cove attest --json at | jq .short)"
	cove rm -f at'
ok 'rw: what the host replaces meanwhile is told, and attest fails' '
	cove create hr --no-mounts --mount "$R:rw"
	cove start hr
	echo "[user]" >"$R/.git/config.new" && mv "$R/.git/config.new" "$R/.git/config"
	cove exec hr -- true 2>"$T/err"
	has "$(cat "$T/err")" "$R/.git/config: was replaced on the host"
	same "[user]" "$(cat "$R/.git/config")"
	rc_is 1 cove attest hr
	same "" "$(cove exec hr -- true 2>&1)"
	cove rm -f hr
	echo "[core]" >"$R/.git/config"'
ok 'rw: a file on its own' '
	cove run -q --no-mounts --mount "$T/rc:rw" -- sh -c "echo edited >$T/rc"
	same edited "$(cat "$T/rc")"'

# ---- mounts in mounts, masks ---------------------------------------------------------------

N=$T/n
mkdir -p "$N/ov" "$N/ro" "$N/src" && echo 1 >"$N/ov/f" && echo 2 >"$N/ro/f" && echo 3 >"$N/src/f"
ok 'overlay in rw, ro in overlay, volume in overlay, files in overlay' '
	cove create n --no-mounts --mount "$N:rw" --mount "$N/ov:overlay" --mount "$N/ro:$N/ov/ro:ro" \
		--mount vol:$N/ov/vol:volume --mount "$T/rc:$N/ov/rc:copy" --mount "$T/conf/a:$N/ov/a:ro"
	cove run -q n -- sh -ec "cd $N
		echo live >src/f; echo changed >ov/f; echo kept >ov/vol/f; echo mine >ov/rc
		! echo x 2>/dev/null >ov/ro/f || exit 1; ! echo x 2>/dev/null >ov/a || exit 1; cat ov/ro/f ov/a"
	cove stop n
	same live "$(cat "$N/src/f")"
	same 1 "$(cat "$N/ov/f")"
	same 2 "$(cat "$N/ro/f")"
	same "f" "$(ls "$N/ov")"
	same edited "$(cat "$T/rc")"
	same 1 "$(cove inspect n | jq .changes)"
	same "changed mine kept" "$(cove run -q n -- sh -c "cat $N/ov/f $N/ov/rc $N/ov/vol/f" | paste -sd" ")"
	cove rm -f n
	cove volume rm --yes vol'
ok 'a mount point that a read-only mount lacks is an error with a hint' '
	rc_is 125 cove run -q --no-mounts --mount "$P:ro" --mount "$T/conf:$P/none:ro" -- true 2>"$T/err"
	has "$(cat "$T/err")" "read-only"'
mkdir -p "$P/node_modules/x" && echo host >"$P/node_modules/x/y"
ok 'mask: empty inside, private, untouched outside' '
	cd "$P"
	cove run -q --mask node_modules --mask build -- sh -ec "test -z \"\$(ls -A node_modules)\"; test -z \"\$(ls -A build)\"; echo m >node_modules/m; echo b >build/b"
	same x "$(ls node_modules)"
	test ! -e build
	same "" "$(cove ls -q)"'
ok 'mask: with persistent storage it is kept, with ephemeral it is not' '
	cd "$P"
	cove create mp --storage persistent --mask node_modules --mask sub/new
	cove run -q mp -- sh -c "echo kept >node_modules/m; echo n >sub/new/n"
	cove stop mp
	same "kept n" "$(cove run -q mp -- sh -c "cat node_modules/m sub/new/n" | paste -sd" ")"
	cove stop mp
	same 0 "$(cove inspect mp | jq .changes)"
	cove reset --yes mp
	same "" "$(cove run -q mp -- ls node_modules)"
	cove rm -f mp
	cove create me --mask node_modules
	cove run -q me -- sh -c "echo gone >node_modules/m"
	cove restart me
	same "" "$(cove exec me -- ls "$P/node_modules")"
	cove rm -f me'
ok 'mask: absolute, in the spec, nested in a rw mount; refused where it cannot be' '
	cd "$P"
	cove run -q --mask "$P/sub" -- sh -c "test -z \"\$(ls $P/sub)\""
	printf "mask: [sub]\nmounts: [{source: %s, mode: rw}]\n" "$P" >"$T/m.yaml"
	cove run -q --spec "$T/m.yaml" -- sh -c "echo x >$P/sub/x"
	test ! -e "$P/sub/x"
	rc_is 125 cove run -q --mask ../x -- true
	rc_is 125 cove run -q --mask /proc -- true
	rc_is 125 cove run -q --no-mounts --mask x -- true
	rc_is 125 cove run -q --mask one -- true 2>"$T/err"
	has "$(cat "$T/err")" "over a file"
	same "" "$(cove ls -q)"'

# ---- a changed list of mounts ---------------------------------------------------------------

mkdir -p "$T/q" && echo q >"$T/q/f"
ok 'set: mounts keep their layers when the list changes' '
	cd "$P"
	cove create s
	cove run -q s -- sh -c "echo mine >one"
	rc_is 125 cove set s --add-mount "$T/q:overlay" 2>"$T/err"
	has "$(cat "$T/err")" "needs a restart"
	same 1 "$(cove inspect s | jq ".spec.mounts | length")"
	cove stop s
	cove set s --add-mount "$T/q:overlay"
	same 2 "$(cove inspect s | jq ".spec.mounts | length")"
	cove run -q s -- sh -c "cat one; echo changed >$T/q/f"
	cove stop s
	cove set s --mount "$T/q:overlay" --mount "$T/conf:/cfg:ro" --mount "$P:overlay"
	same "mine changed" "$(cove run -q s -- sh -c "cat $P/one $T/q/f" | paste -sd" ")"
	cove stop s
	same q "$(cat "$T/q/f")"'
ok 'set: a mount with changes is not dropped' '
	rc_is 125 cove set s --no-mounts 2>"$T/err"
	has "$(cat "$T/err")" "holds 1 changed path"
	has "$(cat "$T/err")" "apply or discard"
	rc_is 125 cove set s --mount "$P:overlay"
	same 3 "$(cove inspect s | jq ".spec.mounts | length")"
	same "mine changed" "$(cove run -q s -- sh -c "cat $P/one $T/q/f" | paste -sd" ")"
	cove stop s'
ok 'set: without changes mounts go, and new ones begin fresh' '
	cove reset --yes s
	cove set s --no-mounts
	same 0 "$(cove inspect s | jq ".spec.mounts | length")"
	cove run -q s -- sh -c "test ! -e $P && pwd"
	cove stop s
	cove set s --mount "$P:overlay"
	same one "$(cove run -q s -- cat "$P/one")"
	cove rm -f s'
ok 'set: a copy with changes is not dropped either' '
	cove create sc --no-mounts --mount "$T/conf:/cfg:copy"
	cove run -q sc -- cat /cfg/a
	cove stop sc
	cove set sc --mount "$T/conf:/cfg2:copy"
	cove run -q sc -- sh -c "echo x >/cfg2/a"
	cove stop sc
	rc_is 125 cove set sc --no-mounts 2>"$T/err"
	has "$(cat "$T/err")" "holds 1 changed path"
	cove rm -f sc'

# ---- storage ----------------------------------------------------------------------------------

ok 'storage: the home directory, ephemeral and persistent' '
	cove create se --no-mounts
	cove run -q se -- sh -c "echo x >~/f"
	cove restart se
	same no "$(cove exec se -- sh -c "test -e ~/f || echo no")"
	cove stop se
	cove set se --storage persistent
	cove run -q se -- sh -c "echo x >~/f"
	cove restart se
	same x "$(cove exec se -- sh -c "cat ~/f")"
	cove stop se
	cove set se --storage ephemeral
	same no "$(cove run -q se -- sh -c "test -e ~/f || echo no")"
	cove rm -f se'
if have STATIC_GUEST; then
ok 'storage: the layer of an image, ephemeral and persistent' '
	I=$T/img
	mkdir -p "$I/bin" "$I/etc" "$I/tmp" "$I/usr"
	for d in bin lib lib64; do [ ! -L /$d ] || { rm -rf "$I/$d"; ln -s "usr/$d" "$I/$d"; }; done
	mkdir -p "$I/usr/bin" "$I/usr/lib" "$I/usr/lib64"
	for f in sh cat; do cp "$(readlink -f "$(command -v $f)")" "$I/usr/bin/$f"; done
	ldd "$(readlink -f "$(command -v sh)")" "$(readlink -f "$(command -v cat)")" | grep -o "/[^ ]*" | grep -v : | sort -u | while read -r l; do
		mkdir -p "$I/$(dirname "$l")"; cp -L "$l" "$I/$l"; done
	cove create im --no-mounts --image "rootfs:$I"
	cove run -q im -- sh -c "echo x >/etc/mark"
	cove restart im
	rc_is 1 cove exec im -- cat /etc/mark
	cove stop im
	cove set im --storage persistent
	cove run -q im -- sh -c "echo x >/etc/mark"
	cove restart im
	same x "$(cove exec im -- cat /etc/mark)"
	test ! -e "$I/etc/mark"
	cove rm -f im'
else
	skip 'storage: the layer of an image, ephemeral and persistent' 'this guest needs libraries'
fi

done_testing
