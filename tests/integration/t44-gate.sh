#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gate as a user meets it: what is printed, how a finding is accepted, own rules, git.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
P=$T/p
TOKEN=ghp_$(printf '%s%s' R7tQ2mXv9LbKc4Zw8Yd1 Hs6NpJf3GaUe5TxB) # put together: it is no credential

fresh() { # a project, and no sandbox
	cove rm -f g >/dev/null 2>&1 || true
	rm -rf "$P"
	mkdir -p "$P/src"
	echo one >"$P/one"
	cd "$P" || exit
}
inside() { # SCRIPT: in the sandbox g, which is stopped afterwards
	cove run -q g -- sh -ec "$1"
	cove stop -q g
}

ok 'a finding prints path, rule, reason and how to accept it; nothing is applied' '
	fresh; inside "echo x >.envrc; echo y >src/y"
	rc_is 1 cove apply --yes g 2>"$T/err"
	has "$(cat "$T/err")" ".envrc: direnv: "
	has "$(cat "$T/err")" "--accept "
	! test -e .envrc || exit 1; ! test -e src/y || exit 1
	id=$(sed -n "s/.*--accept \([0-9a-f]*\).*/\1/p" "$T/err" | head -n 1)
	same 16 "$(printf %s "$id" | wc -c)"
	cove apply --yes --accept "$id" g
	same "x y" "$(cat .envrc src/y | paste -sd" ")"'
ok '--json has every finding, with all of its parts' '
	fresh; inside "echo x >.envrc; ln -s /etc l"
	rc_is 1 cove apply --yes --json g >"$T/json"
	same ".envrc direnv false|l symlink-absolute true" \
		"$(jq -r ".findings[] | \"\(.path) \(.rule) \(.hard)\"" "$T/json" | paste -sd"|")"
	jq -e ".findings | all(.id and .why and (.line | type == \"number\") and has(\"inner\") and has(\"excerpt\"))" "$T/json"'
ok 'a dry run passes the gate too' '
	fresh; inside "echo x >.envrc"
	rc_is 1 cove apply --dry-run g
	fresh; inside "echo x >fine"
	cove apply --dry-run g
	! test -e fine'
ok 'the paths that are named are judged, and no others' '
	fresh; inside "echo x >.envrc; echo y >src/y"
	cove apply --yes g src
	same y "$(cat src/y)"; ! test -e .envrc'
ok 'a hard finding is not accepted by its id' '
	fresh; inside "mkfifo f"
	rc_is 1 cove apply --yes --json g >"$T/json"
	rc_is 1 cove apply --yes --accept "$(jq -r ".findings[0].id" "$T/json")" g 2>"$T/err"
	has "$(cat "$T/err")" "cannot be accepted"'
ok 'names reach the terminal escaped' '
	fresh; inside "echo x >\"\$(printf \"a\\033[2Jb\")\""
	rc_is 1 cove apply --yes g >"$T/out" 2>&1
	! grep -q "$(printf "\\033")" "$T/out" || exit 1
	has "$(cat "$T/out")" name-control'
ok 'a secret: rule, line, a redacted excerpt, never the value' '
	fresh; inside "(echo first; echo \"key = \\\"$TOKEN\\\"\") >conf"
	rc_is 1 cove apply --yes g >"$T/out" 2>&1
	has "$(cat "$T/out")" "conf:2: "
	! grep -qF "$TOKEN" "$T/out" || exit 1
	rc_is 1 cove apply --yes --json g >"$T/json"
	! grep -qF "$TOKEN" "$T/json" || exit 1
	cove apply --yes $(jq -r ".findings[] | \"--accept \(.id)\"" "$T/json") g
	grep -qF "$TOKEN" conf'
ok 'a secret in two files needs two acceptances' '
	fresh; inside "for f in a b; do echo \"key = \\\"$TOKEN\\\"\" >\$f; done"
	rc_is 1 cove apply --yes --json g >"$T/json"
	rc_is 1 cove apply --yes $(jq -r ".findings[] | select(.path == \"a\") | \"--accept \(.id)\"" "$T/json") g
	! test -e a'

# ---- own rules ---------------------------------------------------------------------------
own_rules() { # DIR
	mkdir -p "$1"
	printf '[[rules]]\nid = "house-key"\nregex = "HOUSE-[0-9]{6}"\nkeywords = ["house-"]\n' >"$1/$2"
}
ok 'the user'\''s own gitleaks.toml is honoured' '
	fresh; inside "echo HOUSE-123456 >f"
	own_rules "$HOME/.config/cove" gitleaks.toml
	rc_is 1 cove apply --yes --json g >"$T/json"
	jq -e "any(.findings[]; .rule == \"house-key\" and .path == \"f\" and .line == 1)" "$T/json"
	rm "$HOME/.config/cove/gitleaks.toml"
	cove apply --yes g'
ok 'one that is wrong lets nothing pass' '
	fresh; inside "echo x >f"
	mkdir -p "$HOME/.config/cove"; echo "[[rules" >"$HOME/.config/cove/gitleaks.toml"
	got=0; cove apply --yes g || got=$?
	rm "$HOME/.config/cove/gitleaks.toml"
	[ $got -eq 1 ] || [ $got -eq 125 ]
	! test -e f'
ok 'one that the sandbox or the project brings counts only once it is trusted' '
	fresh; printf "[allowlist]\npaths = [\".*\"]\n" >.gitleaks.toml
	inside "echo \"key = \\\"$TOKEN\\\"\" >f"
	rc_is 1 cove apply --yes g
	! test -e f'
ok 'a scanner that is missing lets nothing pass: scan-failed' '
	fresh; inside "echo x >f"
	mkdir "$T/noscan"
	for f in cove cove-keeper cove-guest; do cp "$COVE_DIR/$f" "$T/noscan/"; done
	rc_is 1 "$T/noscan/cove" apply --yes --json g >"$T/json"
	same "scan-failed true" "$(jq -r ".findings[] | \"\(.rule) \(.hard)\"" "$T/json")"
	! test -e f || exit 1
	cove apply --yes g'

# ---- git -----------------------------------------------------------------------------------
if have GIT; then
	ok 'a commit that the agent made is one finding, and lands whole once it is accepted' '
		fresh
		git init -q . && git add one && git -c user.name=u -c user.email=u@h commit -qm first
		inside "echo two >two; git add two; git -c user.name=a -c user.email=a@h -c safe.directory=* commit -qm second"
		rc_is 1 cove apply --yes --json g >"$T/json"
		same ".git git-dir" "$(jq -r ".findings[] | \"\(.path) \(.rule)\"" "$T/json")"
		id=$(jq -r ".findings[0].id" "$T/json")
		cove run -q g -- git -c user.name=a -c user.email=a@h -c safe.directory=* commit -q --allow-empty -m third; cove stop -q g
		rc_is 1 cove apply --yes --accept "$id" g
		same first "$(git log -1 --format=%s)"
		rc_is 1 cove apply --yes --json g >"$T/json"
		cove apply --yes -q --accept "$(jq -r ".findings[0].id" "$T/json")" g
		same third "$(git log -1 --format=%s)"
		git fsck --strict && same "" "$(git status --porcelain)"'
else
	skip 'a commit that the agent made is one finding' 'git is not installed'
fi
ok 'what the gate found is in the audit log' '
	fresh; inside "echo x >.envrc"
	rc_is 1 cove apply --yes g
	cove audit g --json >"$T/audit"
	jq -es "any(.[]; .event == \"gate\" and any(.findings[]; .rule == \"direnv\"))" "$T/audit" >/dev/null ||
		grep -q direnv "$T/audit"'

done_testing
