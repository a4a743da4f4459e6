#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# suite.sh WHO:SCRIPT... - in the nested machine: runs each script test as WHO (root or user) and
# marks in the output where it begins and how it ended. test.py starts it and reads that; COVE_BIN
# is the program under test.
set -u
user=covetest

if command -v useradd >/dev/null && ! id "$user" >/dev/null 2>&1; then
	groups=
	! getent group kvm >/dev/null || groups='-G kvm'
	# shellcheck disable=SC2086 # two words, or none
	useradd -M -U $groups -s /bin/sh "$user" || exit 125
fi

# The programs run from a plain file system: an overlay has no id-mapped mounts in this kernel.
build=$(dirname "$COVE_BIN")
stage=$(mktemp -d /tmp/cove-t.XXXXXX) && chmod 755 "$stage" &&
	cp -r "$build/cove" "$build"/cove-* "$build/escape" "$stage/" && chmod -R a+rX "$stage" || exit 125
export COVE_BIN="$stage/cove"

as() { # WHO CMD...
	case $1 in
	root) shift && "$@" ;;
	user) shift && setpriv --reuid "$user" --regid "$user" --init-groups \
		env USER="$user" LOGNAME="$user" HOME=/nonexistent "$@" ;;
	esac
}

for item; do
	echo "## begin $item"
	as "${item%%:*}" sh "${item#*:}" 2>&1
	echo "## end $? $item"
done
