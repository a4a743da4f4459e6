#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Damaged files of one sandbox give a clear error for it and leave the others usable.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
cove create -q good --no-mounts
state() { cove ls --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'; }
others_work() {
	cove start -q good
	cove exec good -- true
	cove stop good
}

for file in spec.json state.json; do
	for kind in empty cut garbage binary array huge directory link missing; do
		ok "$file: $kind" '
			file=$1 kind=$2
			cove create -q bad --no-mounts
			path=$(find "$COVE_HOME" -path "*/bad/$file")
			if [ -z "$path" ]; then # some are written at the first start
				cove start -q bad; cove stop bad
				path=$(find "$COVE_HOME" -path "*/bad/$file")
			fi
			[ -n "$path" ] || { cove rm -f bad; exit 0; }
			case $kind in
			empty) : >"$path" ;;
			cut) head -c 10 "$path" >"$path.x" && mv "$path.x" "$path" ;;
			garbage) echo "}{ not json" >"$path" ;;
			binary) head -c 1000 /dev/urandom >"$path" ;;
			array) echo "[1, 2, {\"name\": 5}]" >"$path" ;;
			huge) head -c 30000000 /dev/zero | tr "\0" "[" >"$path" ;;
			directory) rm "$path" && mkdir "$path" ;;
			link) rm "$path" && ln -s /etc/passwd "$path" ;;
			missing) rm "$path" ;;
			esac
			cove ls >"$T/ls" 2>"$T/err"
			grep -q good "$T/ls"
			grep -q bad "$T/ls"
			rc=0; timeout 10 cove start -q bad 2>"$T/err" || rc=$?
			if [ $rc -ne 0 ]; then # refused, then: with one clear message
				same 125 $rc
				has "$(cat "$T/err")" bad
				[ $(wc -l <"$T/err") -le 3 ]
			fi
			timeout 10 cove inspect bad --json >/dev/null 2>&1 || same 125 $?
			others_work
			cove rm --force bad
			same "" "$(state bad)"' $file $kind
	done
done
ok 'files that do not belong there are no sandbox' '
	dir=$(dirname "$(find "$COVE_HOME" -name good -path "*sandboxes*" | head -n 1)")
	mkdir "$dir/Not A Name" "$dir/.hidden" && touch "$dir/file"
	cove ls >/dev/null
	others_work
	rm -rf "$dir/Not A Name" "$dir/.hidden" "$dir/file"'
if have USER; then
	ok 'a state directory that cannot be read is an error' '
		chmod 000 "$COVE_HOME/sandboxes"
		rc=0; cove ls 2>"$T/err" || rc=$?
		chmod 700 "$COVE_HOME/sandboxes"
		same 125 $rc
		[ -s "$T/err" ]'
fi

done_testing
