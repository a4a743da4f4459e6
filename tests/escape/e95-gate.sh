#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gate under attack. Each offence is made for real in a sandbox (or, where a layer before
# the gate refuses that, in the upper layer itself on the host), then `cove apply` must find it
# and leave the host as it was, byte for byte; the same without the offence must land.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
U=$COVE_HOME/sandboxes/g/m0/upper
# Nothing of this is a credential, but scanners of this source could think so: put together here.
TOKEN=ghp_$(printf '%s%s' R7tQ2mXv9LbKc4Zw8Yd1 Hs6NpJf3GaUe5TxB)

fresh() { # a project, and no sandbox
	cove rm -f g >/dev/null 2>&1 || true
	rm -rf "$P"
	mkdir -p "$P/src/deep" "$P/lib"
	(
		cd "$P" || exit
		echo one >one
		echo main >src/main.c
		echo deep >src/deep/f
		echo readme >README.md
		ln -s one link
	)
	echo canary >"$T/outside"
	cd "$P" || exit
}
inside() { # SCRIPT: in the sandbox g, which is stopped afterwards
	cove run -q g -- sh -ec "$1"
	cove stop -q g
}
shape() {
	(cd "$P" && find . -mindepth 1 -printf '%p\t%y\t%m\t%l\n' | LC_ALL=C sort && find . -type f -exec sha256sum {} + | LC_ALL=C sort)
	cat "$T/outside"
}
rules() { jq -r '.findings[] | select(.accepted | not) | .rule' "$T/json" | sort -u; }
# The findings are those named, and the host is what it was.
refused() { # RULE...
	shape >"$T/shape"
	got=0
	cove apply --yes --json g >"$T/json" 2>"$T/err" || got=$?
	shape | diff "$T/shape" - || { echo "the host changed"; return 1; }
	[ $got -eq 1 ] || { echo "apply: exit status $got, not 1"; cat "$T/json" "$T/err"; return 1; }
	for want; do
		rules | grep -qx "$want" || { echo "no $want but: $(rules | paste -sd" ")"; cat "$T/err"; return 1; }
	done
}
# Only these: nothing else is held against it.
refused_only() {
	refused "$@" && same "$(printf '%s\n' "$@" | sort -u)" "$(rules)"
}
lands() {
	cove apply --yes g || { cove apply --yes --json g; return 1; }
	same "" "$(cove diff --name-only g)"
}
# offence TITLE RULE SCRIPT CONTROL
offence() {
	ok "$1: $2" '
		fresh; inside "$2"; refused_only $1
		fresh; inside "$3"; lands' "$2" "$3" "$4"
}
# The same, made in the upper layer on the host: a layer before the gate refuses it inside.
forged() { # TITLE RULE INSIDE SCRIPT
	ok "$1: $2 (forged in the upper layer)" '
		fresh; inside "echo x >first; $2"
		(cd "$U" && eval "$3")
		refused $1
		fresh; inside "echo x >first"; lands' "$2" "$3" "$4"
}

# ---- paths that run code ---------------------------------------------------------------
executing='
git-hook .git/hooks/pre-commit
git-hook vendor/x/.git/hooks/post-checkout
git-hook .GIT/hooks/pre-commit
git-config .git/config
git-config .git/modules/sub/config
git-dir .git/rebase-merge/git-rebase-todo
git-submodules .gitmodules
git-hook .husky/pre-commit
git-hook .githooks/pre-push
git-hook .pre-commit-config.yaml
git-hook lefthook.yml
git-hook .lintstagedrc.json
direnv .envrc
direnv deep/down/.envrc
direnv mise.toml
editor-task .vscode/tasks.json
editor-task .vscode/settings.json
editor-task my.code-workspace
editor-task .idea/runConfigurations/x.xml
editor-task .zed/tasks.json
editor-task .exrc
editor-task .nvim.lua
editor-task .dir-locals.el
ci .github/workflows/ci.yml
ci .gitlab-ci.yml
ci .circleci/config.yml
ci Jenkinsfile
ci azure-pipelines.yml
ci bitbucket-pipelines.yml
ci .travis.yml
ci .drone.yml
ci .woodpecker/x.yml
ci .buildkite/pipeline.yml
dev-container .devcontainer/devcontainer.json
agent-config .claude/settings.json
agent-config .cursor/mcp.json
agent-config .mcp.json
agent-config .codex/config.toml
agent-config .gemini/settings.json
cove-config cove.yaml
build-config .npmrc
build-config .yarnrc.yml
build-config .pnpmfile.cjs
build-config .bazelrc
build-config .cargo/config.toml
build-config .mvn/extensions.xml
login-file .bashrc
'
ok 'paths that run code are findings, each by its rule' '
	fresh
	printf "%s" "$executing" | while read -r rule path; do [ -z "$path" ] || echo "$path"; done >"$T/paths"
	inside "while read -r p; do mkdir -p \"\$(dirname \"\$p\")\"; echo x >\"\$p\"; done <<E
$(cat "$T/paths")
E"
	refused git-hook
	printf "%s" "$executing" | while read -r rule path; do
		[ -z "$path" ] || jq -e --arg r "$rule" --arg p "$path" "any(.findings[]; .rule == \$r and .path == \$p and (.hard | not))" "$T/json" >/dev/null ||
			echo "no finding: $rule $path"
	done >"$T/missing"
	same "" "$(cat "$T/missing")"'
ok 'the same files by other names land' '
	fresh
	inside "mkdir -p hooks workflows vscode; echo x >hooks/pre-commit; echo x >workflows/ci.yml; echo x >vscode/tasks.json; echo x >envrc; echo x >.gitignore"
	lands'
ok 'one finding is accepted by its id, and only that one' '
	fresh
	inside "echo a >.envrc; mkdir sub; echo a >sub/.envrc"
	refused_only direnv
	id=$(jq -r ".findings[] | select(.path == \".envrc\") | .id" "$T/json")
	rc_is 1 cove apply --yes --accept "$id" g
	! test -e .envrc || exit 1
	id2=$(jq -r ".findings[] | select(.path == \"sub/.envrc\") | .id" "$T/json")
	cove run -q g -- sh -c "echo b >.envrc"; cove stop -q g
	rc_is 1 cove apply --yes --accept "$id" --accept "$id2" g
	! test -e .envrc || exit 1
	cove run -q g -- sh -c "echo a >.envrc"; cove stop -q g
	cove apply --yes --accept "$id" --accept "$id2" g
	same "a a" "$(cat .envrc sub/.envrc | paste -sd" ")"'
ok 'deleting and editing what the host has there is a finding too' '
	fresh; mkdir -p .husky .vscode; echo x >.husky/pre-commit; echo x >.vscode/tasks.json
	inside "rm .husky/pre-commit; echo y >>.vscode/tasks.json"
	refused_only git-hook editor-task'
offence 'a symlink in place of an editor directory' editor-task \
	'mkdir x; echo x >x/tasks.json; ln -s x .vscode' 'mkdir x; echo x >x/tasks.json; ln -s x vscode'
offence 'a repository without .git' bare-repository \
	'mkdir -p x/objects x/refs; echo "ref: refs/heads/m" >x/HEAD; echo "[core]" >x/config' \
	'mkdir -p x/objects x/refs; echo "[core]" >x/config'
offence 'a filter for git' git-driver 'echo "*.c filter=evil" >.gitattributes' 'echo "*.c diff=cpp" >.gitattributes'
offence 'a log that is a hook' symlink-to-executing 'ln -s .git/hooks/post-merge build.log' 'ln -s out/post-merge build.log'

# ---- symlinks ----------------------------------------------------------------------------
offence 'absolute' symlink-absolute 'ln -s /etc/passwd l' 'ln -s one l'
offence 'absolute, into the mount' symlink-absolute 'ln -s "$PWD/one" l' 'ln -s one l'
offence 'the parent' symlink-leaves 'ln -s ../outside l' 'ln -s ./one l'
offence 'from below' symlink-leaves 'ln -s ../../../outside src/deep/l' 'ln -s ../../one src/deep/l'
offence 'chained' symlink-leaves 'ln -s b a; ln -s ../outside b' 'ln -s b a; ln -s one b'
offence 'through a symlinked directory' 'symlink-leaves symlink-detour' \
	'mkdir -p x/y; ln -s x/y d; ln -s d/../../../outside l' 'mkdir -p x/y; ln -s x/y d; ln -s d/f l'
offence 'an edited target' symlink-leaves 'ln -sfn ../outside link' 'ln -sfn src/main.c link'
offence 'a loop' symlink-loop 'ln -s b a; ln -s a b' 'ln -s one a; ln -s a b'
offence 'a detour, which could lead elsewhere later' symlink-detour 'ln -s src/../one l' 'ln -s one l'
offence 'a directory that becomes a symlink' directory-to-symlink \
	'rm -r src; ln -s lib src' 'rm -r src; mkdir src'
ok 'through a symlink of the host: symlink-leaves' '
	fresh; ln -s "$T" up; inside "ln -s up/outside l"; refused_only symlink-leaves
	fresh; ln -s src up; inside "ln -s up/main.c l"; lands'
ok 'a symlink that is swapped in while it is applied never lands, nor what is behind it' '
	fresh; mkdir d; echo old >d/outside
	cove create -q g; cove start -q g
	cove exec g -- sh -c "
		mkdir a; echo new >a/outside; ln -s $T b
		while :; do rm -rf d; cp -r a d; rm -rf d; cp -P b d; done" >/dev/null 2>&1 &
	wait_for 5 test -e "$U/d" -o -L "$U/d"
	for i in 1 2 3 4 5 6 7 8 9 10; do
		cove apply --yes g d >/dev/null 2>&1 || true
		! test -L d || exit 1
		same canary "$(cat "$T/outside")"
		! test -d d || same "" "$(ls -A d | grep -vx outside)"
	done
	cove kill g; wait'

# ---- what is no file -----------------------------------------------------------------------
offence 'a fifo' special-file 'mkfifo f' 'echo >f'
offence 'a socket' special-file \
	'perl -e "socket(S, 1, 1, 0); bind(S, pack(q(S a108), 1, q(s))) or die"' 'echo >s'
ok 'a device cannot be made inside, whoever asks' '
	fresh
	for user in agent root; do
		must_refuse cove run -q --rm --user $user -- mknod dev c 1 3
		must_refuse cove run -q --rm --user $user -- mknod dev b 7 0
	done'
if have ROOT; then
	forged 'a device' special-file true 'mknod dev c 1 3'
	forged 'a block device' special-file true 'mknod dev b 7 0'
fi
ok 'a hard link to a file of the host lands as a file of its own' '
	fresh; inside "ln one two; echo more >>two"
	lands
	same "one more" "$(paste -sd" " two)"
	same "1 1" "$(stat -c %h one two | paste -sd" ")"'

# ---- modes -----------------------------------------------------------------------------------
ok 'set-user-id and set-group-id: refused inside, or setuid' '
	fresh
	inside "echo x >a; echo x >b; chmod 4755 a || :; chmod 2755 b || :; stat -c %a a b >modes"
	if grep -qE "^[2-7][0-7]{3}" "$U/modes"; then refused setuid; else lands; same "" "$(find "$P" -perm /6000)"; fi'
forged 'set-user-id' setuid true 'echo x >s; chmod 4755 s'
forged 'set-group-id' setuid true 'echo x >s; chmod 2755 s'
forged 'set-user-id of a directory' setuid true 'mkdir s; chmod 4755 s'
ok 'sticky on a file: refused inside, or sticky' '
	fresh; inside "echo x >a; chmod 1644 a || :; stat -c %a a >mode"
	if grep -q "^1" "$U/mode"; then refused sticky; else lands; fi'
forged 'sticky on a file' sticky true 'echo x >s; chmod 1644 s'
ok 'a directory that inherits its group from the host lands' '
	fresh; mkdir shared; chmod 2775 shared
	inside "mkdir shared/new; echo x >shared/new/f"
	lands; same x "$(cat shared/new/f)"'

# ---- names ---------------------------------------------------------------------------------------
# named TITLE RULE OFFENCE CONTROL: names as printf(1) formats
named() {
	ok "$1: $2" '
		fresh; inside "n=\$(printf \"$2\"); echo x >\"\$n\""; refused_only $1
		fresh; inside "n=\$(printf \"$2\"); mkdir \"\$n\"; echo x >\"\$n/f\""; refused_only $1
		fresh; inside "n=\$(printf \"$3\"); echo x >\"\$n\""; lands' "$2" "$3" "$4"
}
named 'a newline' name-control 'a\nb' 'a b'
named 'an escape sequence' name-control '\033[2Jx' '[2Jx'
named 'a C1 control' name-control '\302\23331m' '31m'
named 'DEL' name-control 'a\177' 'a'
named 'a lone byte' name-encoding 'caf\351' 'caf\303\251'
named 'an overlong slash' name-encoding 'a\300\257b' 'ab'
named 'right-to-left override' name-invisible 'a\342\200\256cod.exe' 'acod.exe'
named 'right-to-left mark' name-invisible 'a\342\200\217b' 'ab'
named 'isolate' name-invisible 'a\342\201\246b' 'ab'
named 'zero width' name-invisible 'a\342\200\213b' 'ab'
named 'case' name-twin 'readme.MD' 'readme.txt'
ok 'names of the host itself may be odd, and edited' '
	fresh; n=$(printf "odd\nname"); echo x >"$n"
	inside "echo y >>\"$n\""; lands; same "x y" "$(paste -sd" " "$n")"'
offence 'case twins that both land' name-twin 'echo x >New; echo x >new' 'echo x >New; echo x >newer'
offence 'Unicode twins' name-twin \
	'echo x >"$(printf "caf\303\251")"; echo x >"$(printf "cafe\314\201")"' \
	'echo x >"$(printf "caf\303\251")"; echo x >cafe'
ok 'a Unicode twin of a name of the host: name-twin' '
	fresh; echo x >"$(printf "caf\303\251")"
	inside "echo x >\"\$(printf \"cafe\314\201\")\""; refused_only name-twin'
offence 'a twin of a directory' name-twin 'mkdir SRC; echo x >SRC/f' 'mkdir SRC2; echo x >SRC2/f'
ok 'a case-only rename lands' '
	fresh; inside "mv README.md readme.md"; lands; same readme "$(cat readme.md)"; ! test -e README.md'
ok 'names of 255 bytes land' '
	fresh; n=$(printf "%255s" "" | tr " " n)
	inside "echo x >$n"; lands; same x "$(cat "$n")"'
ok 'a deep tree' '
	fresh; inside "i=0; while [ \$i -lt 600 ]; do mkdir d && cd d; i=\$((i + 1)); done; echo x >f"
	refused
	rules | grep -qxE "path-too-deep|path-too-long|unreadable"
	fresh; inside "i=0; while [ \$i -lt 60 ]; do mkdir d && cd d; i=\$((i + 1)); done; echo x >f"
	lands'
ok 'a path that is longer than a call takes' '
	n=$(printf "%200s" "" | tr " " n)
	fresh; inside "perl -e \"for (1 .. 25) { mkdir q($n) and chdir q($n) or die } open F, q(>), q(f) or die\""
	refused
	rules | grep -qxE "path-too-long|unreadable"'

# ---- sizes and programs ---------------------------------------------------------------------------
ok 'a sparse giant counts by its length: too-large' '
	fresh; inside "truncate -s 40M giant"
	refused too-large
	fresh; inside "truncate -s 15G giant"
	began=$(date +%s)
	refused too-large too-large-total
	[ $(($(date +%s) - began)) -lt 20 ]
	fresh; inside "truncate -s 9M small"; lands'
ok 'many files that are too large together: too-large-total' '
	fresh; inside "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do truncate -s 9M f\$i; done"
	refused_only too-large-total
	id=$(jq -r ".findings[0].id" "$T/json")
	inside "echo x >f1; truncate -s 9M f1"
	rc_is 1 cove apply --yes --accept "$id" g
	refused_only too-large-total
	cove apply --yes --accept "$(jq -r ".findings[0].id" "$T/json")" g'
ok 'a giant is accepted by its id until it changes' '
	fresh; inside "truncate -s 12M giant"
	refused_only too-large
	id=$(jq -r ".findings[0].id" "$T/json")
	cove run -q g -- sh -c "echo x >>giant; truncate -s 12M giant"; cove stop -q g
	rc_is 1 cove apply --yes --accept "$id" g
	refused_only too-large
	cove apply --yes --accept "$(jq -r ".findings[0].id" "$T/json")" g
	same $((12 * 1048576)) "$(stat -c %s giant)"'
offence 'a program that is no text' binary-executable 'cp /bin/true prog' 'echo "#!/bin/sh" >prog; chmod 755 prog'
ok 'the lists of the spec: not-allowed, denied' '
	fresh
	printf "gate: {allow: [\"src/**\"], deny: [\"*.pem\"]}\n" >"$T/spec.yaml"
	cove create -q g --spec "$T/spec.yaml" --mount "$P:overlay"
	inside "echo x >src/a; echo x >src/k.pem; echo x >other; rm one"
	refused_only denied not-allowed
	same "one other" "$(jq -r ".findings[] | select(.rule == \"not-allowed\") | .path" "$T/json" | sort | paste -sd" ")"
	cove apply --yes g src/a
	same x "$(cat src/a)"'

# ---- secrets ------------------------------------------------------------------------------------------
export TOKEN
secret() { # TITLE SCRIPT (with the token as $t)
	ok "a secret $1" '
		fresh; inside "t=$TOKEN; $1"
		refused
		! grep -qF "$TOKEN" "$T/json" || jq -e "any(.findings[]; .path | contains(env.TOKEN))" "$T/json"
		jq -e "any(.findings[]; .accepted | not)" "$T/json"
		fresh; inside "t=none; $1"; lands' "$2"
}
secret 'in a file' 'echo "token = \"$t\"" >f'
secret 'in the middle of a large file' '(seq 1 200000; echo "token = \"$t\""; seq 1 200000) >f'
secret 'in base64' 'for pad in "" x xy; do printf "%stoken=%s;" "$pad" "$t" | base64 -w0; echo; done >f'
secret 'as hex' 'printf "token=%s" "$t" | od -An -v -tx1 | tr -d " \n" >f'
secret 'as UTF-16' 'printf "token = %s\n" "$t" | iconv -t UTF-16 >f'
secret 'gzipped' 'echo "token = \"$t\"" | gzip >f.gz'
secret 'in a tar archive' 'echo "token = \"$t\"" >x; tar cf f.tar x; rm x'
secret 'in a compressed tar archive' 'echo "token = \"$t\"" >x; tar czf f.bin x; rm x'
command -v zip >/dev/null && secret 'in a zip archive' 'echo "token = \"$t\"" >x; zip -q f.zip x; rm x'
secret 'in the name of a file' 'echo x >"key-$t"'
secret 'in the name of a directory' 'mkdir "$t"'
secret 'in the target of a symlink' 'ln -s "$t" l'
secret 'in a file that the host has' 'echo "token = \"$t\"" >>one'
ok 'a secret that the host has in that file already is no finding' '
	fresh; echo "token = \"$TOKEN\"" >conf
	inside "echo more >>conf"; lands
	inside "cp conf conf2"; refused
	same conf2 "$(jq -r ".findings[].path" "$T/json" | sort -u)"'
ok 'a secret is accepted by its id, which holds while the file changes elsewhere' '
	fresh; inside "echo \"token = \\\"$TOKEN\\\"\" >f"
	refused
	id=$(jq -r ".findings[0].id" "$T/json")
	inside "(echo first; cat f) >x; mv x f"
	cove apply --yes --accept "$id" g
	grep -qF "$TOKEN" f'
ok 'a file that changes while it is scanned: no state with the secret lands' '
	fresh
	cove create -q g; cove start -q g
	cove exec g -- sh -c "
		seq 1 50000 >clean; (cat clean; echo \"token = \\\"$TOKEN\\\"\") >dirty
		while :; do cp clean f; cp dirty f; done" >/dev/null 2>&1 &
	wait_for 5 test -e "$U/dirty"
	landed=0
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		! cove apply --yes --overwrite g f >/dev/null 2>&1 || landed=$((landed + 1))
		! grep -rqF "$TOKEN" "$P" || exit 1
	done
	cove kill g; wait
	echo "landed $landed times"
	inside "cp clean f"; cove apply --yes --overwrite g f; cmp f "$U/clean"'

# ---- the notes of overlayfs, forged -----------------------------------------------------------------------
set_xattr='my %n = (x86_64 => 188, aarch64 => 5); my ($p, $k, $v) = @ARGV; chomp(my $m = `uname -m`);
	mkdir $p; exit(syscall($n{$m}, $p, $k, $v, length $v, 0) != 0)'
set_xattr() { # PATH NAME VALUE
	perl -e "$set_xattr" "$1" "$2" "$3"
}
ok 'inside, whiteouts cannot be made' '
	fresh
	for user in agent root; do
		must_refuse cove run -q --rm --user $user -- mknod one c 0 0
		must_refuse cove run -q --rm --user $user -- mknod new c 0 0
	done'
# Overlayfs refuses these names, or (since Linux 6.7) keeps them under others.
list_xattrs='my %n = (x86_64 => 195, aarch64 => 12); chomp(my $m = `uname -m`); for my $p (@ARGV) {
	my ($b, $l) = (chr(0) x 4096, 0); $l = syscall($n{$m}, $p, $b, 4096);
	print map { "$p $_\n" } split /\0/, substr $b, 0, $l > 0 ? $l : 0 }'
ok 'inside, notes of overlayfs are refused or mean nothing' '
	for user in agent root; do
		fresh
		cove run -q g --user $user -- sh -c "for k in opaque redirect metacopy whiteouts; do
			for p in src lib one made-\$k; do perl -e \"\$1\" \$p user.overlay.\$k y || :; done; done
			echo x >src/new; echo x >>one; ls src" x "$set_xattr" >"$T/ls"
		cove stop -q g
		same "deep main.c new" "$(paste -sd" " "$T/ls")"
		cove diff --name-only g >"$T/names"
		! grep -q main.c "$T/names" || exit 1
		lands
		same main "$(cat src/main.c)"; same "one x" "$(paste -sd" " one)"
		find . -exec perl -e "$list_xattrs" {} + >"$T/xattrs"
		! grep overlay "$T/xattrs" || exit 1
	done'
ok 'control: the same call sets other attributes' '
	fresh; cove run -q g -- perl -e "$set_xattr" d user.other y; cove stop -q g
	perl -e "$list_xattrs" "$U/d" | grep -q user.other'
for note in redirect metacopy; do
	ok "a forged note of overlayfs, $note: unreadable" '
		fresh; inside "echo x >>one; mkdir d; echo x >d/f"
		set_xattr "$U/$([ $1 = redirect ] && echo d || echo one)" "user.overlay.$1" /src
		refused unreadable' $note
done
ok 'a forged opaque directory deletes only what it hides, and shows it' '
	fresh; inside "echo x >src/new"
	set_xattr "$U/src" user.overlay.opaque y
	cove diff --name-only g >"$T/names"
	grep -q main.c "$T/names"
	cove apply --yes g
	same new "$(ls src | paste -sd" ")"
	same one "$(cat one)"
	same canary "$(cat "$T/outside")"
	cove undo --yes g
	same main "$(cat src/main.c)"'
ok 'a forged whiteout deletes what it names in the mount, and nothing else' '
	fresh; inside "echo x >new"
	mknod "$U/README.md" c 0 0
	mkdir -p "$U/nowhere" && mknod "$U/nowhere/x" c 0 0
	cove diff --name-only g | grep -qx README.md
	cove apply --yes g
	! test -e README.md || exit 1
	same one "$(cat one)"
	cove undo --yes g; same readme "$(cat README.md)"'
ok 'a symlink in place of the upper directory itself is not followed' '
	fresh; inside "echo x >new"
	mv "$U" "$U.away" && ln -s "$T" "$U"
	cove apply --yes g >/dev/null 2>&1 || true
	! test -e outside || exit 1; ! test -e new || exit 1; same canary "$(cat "$T/outside")"
	rm "$U" && mv "$U.away" "$U"
	lands'
ok 'a file that cannot be read is refused: unreadable' '
	fresh; inside "echo x >closed; chmod 000 closed"
	if [ "$(id -u)" = 0 ]; then lands; else refused unreadable; fi'

done_testing
