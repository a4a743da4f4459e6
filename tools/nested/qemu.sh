#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# qemu.sh DIR - the QEMU that the machine itself runs on, in DIR/qemu, where the installed one is
# older than 10: that of Debian's backports, fetched and unpacked, not installed. What runs inside
# uses the installed one. Without it the machine runs on that too, and hangs now and then
# (docs/nested.md); this is said. Needs no root; what is there is kept.
set -eu

dir=$1
say() { printf 'nested: %s\n' "$*" >&2; }
[ ! -e "$dir/qemu" ] || exit 0
installed=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
[ "${installed:-0}" -lt 10 ] || exit 0

# The release that apt gets from somewhere is where its backports are.
source_line() {
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
		sed -n "s|^$codename \(.*\)|deb [signed-by=$keyring] \1 $codename-backports main|p" | head -n 1
}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

private() { # APT_GET_ARGUMENT...: with lists and sources of its own
	apt-get -qq -o Dir::Etc::SourceList="$tmp/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User=root \
		-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::Languages=none "$@"
}
fetch() {
	source_line >"$tmp/sources.list"
	[ -s "$tmp/sources.list" ] && mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/root" &&
		private update && private download qemu-system-x86 qemu-system-data seabios &&
		for p in ./*.deb; do dpkg -x "$p" "$tmp/root" || return 1; done &&
		# Its libraries are those of the release, and come with the installed one.
		"$tmp/root/usr/bin/qemu-system-x86_64" --version
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
tmp=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
say "fetching a QEMU from backports"
if (cd "$tmp" && fetch) >"$tmp/log" 2>&1; then
	mv "$tmp/root" "$dir/qemu" # the last step: now it is there
else
	sed 's/^/nested:   | /' "$tmp/log" >&2
	say "no QEMU from backports: the machine runs on the installed one (${installed:-none}), which hangs now and then"
fi
