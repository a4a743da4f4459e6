#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernel.sh DIR - Debian's cloud kernel in DIR/vmlinuz, its modules in DIR/modules, its package in
# DIR/kernel.deb: fetched and unpacked, not installed. Needs no root; what is there is kept.
set -eu

dir=$1
say() { printf 'nested: %s\n' "$*" >&2; }
[ ! -e "$dir/vmlinuz" ] || exit 0

# The meta package names the current one.
current() {
	apt-cache depends linux-image-cloud-amd64 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[0-9].*-cloud-amd64\)$/\1/p' | head -n 1
}
download() {
	package=$(current)
	[ -n "$package" ] && apt-get -qq -o APT::Sandbox::User=root download "$package" 2>/dev/null
}

mkdir -p "$dir"
tmp=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
say 'fetching the cloud kernel'
(cd "$tmp" && { download || { apt-get -qq update >/dev/null 2>&1 && download; }; }) || {
	say 'cannot fetch linux-image-cloud-amd64: needs apt, and the network or its archive at hand'
	exit 1
}
mv "$tmp"/linux-image-*.deb "$dir/kernel.deb"
dpkg -x "$dir/kernel.deb" "$tmp/root"
rm -rf "$dir/modules"
mv "$tmp"/root/lib/modules/*/kernel "$dir/modules"
touch "$tmp"/root/boot/vmlinuz-* # newer than what asked for it
mv "$tmp"/root/boot/vmlinuz-* "$dir/vmlinuz" # the last step: now it is there
