#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# suite.sh WHO[+vm]:SCRIPT... - in the nested machine: runs each script test as WHO (root or user),
# with +vm every sandbox of it is a virtual machine. Marks in the output where it begins and how it
# ended. test.py starts it and reads that; COVE_BIN is the program under test.
set -u
user=covetest

# An ordinary user who may use KVM. The accounts here are a copy of the host's.
id "$user" >/dev/null 2>&1 || useradd -M -U -s /bin/sh "$user" || exit 125
! getent group kvm >/dev/null || usermod -aG kvm "$user" || exit 125

# The programs run from a plain file system: an overlay has no id-mapped mounts in this kernel.
build=$(dirname "$COVE_BIN")
stage=$(mktemp -d /tmp/cove-t.XXXXXX) && chmod 755 "$stage" &&
	cp -r "$build/cove" "$build"/cove-* "$build/escape" "$stage/" && chmod -R a+rX "$stage" || exit 125
export COVE_BIN="$stage/cove"
# One kernel and one template for all scripts of a user (tests/lib/vm.sh).
mkdir -m 700 "$stage/vm.root" "$stage/vm.user" && chown "$user" "$stage/vm.user" || exit 125

as() { # WHO CMD...
	case $1 in
	root) shift && "$@" ;;
	user) shift && setpriv --reuid "$user" --regid "$user" --init-groups \
		env USER="$user" LOGNAME="$user" HOME=/nonexistent "$@" ;;
	esac
}

backend=${COVE_TEST_BACKEND:-process}
before=
for item; do
	who=${item%%:*}
	# Another user's templates are no longer needed, and each may fill memory with its file's pages.
	[ -z "$before" ] || [ "$before" = "${who%+vm}" ] || rm -rf "$stage/vm.$before/cache/templates"
	before=${who%+vm}
	COVE_TEST_BACKEND=$backend
	case $who in *+vm) COVE_TEST_BACKEND=vm ;; esac
	export COVE_TEST_BACKEND COVE_TEST_VM="$stage/vm.${who%+vm}"
	echo "## begin $item"
	as "${who%+vm}" sh "${item#*:}" 2>&1
	echo "## end $? $item"
done
