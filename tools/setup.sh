#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh [test|bench|kvm] - the Debian packages that the build (and the tests) need: installs
# what is missing when it may (root, or sudo without a password), else names the one command.
# Without a missing package it is silent and takes a few milliseconds.
set -eu

build='gcc make pkg-config libc6-dev linux-libc-dev musl-tools libyaml-dev libjansson-dev
	libseccomp-dev libsodium-dev g++ libpcre2-dev libarchive-dev zlib1g-dev liblzma-dev libbz2-dev
	libzstd-dev nettle-dev libssl-dev libc-ares-dev'
[ "$(uname -m)" != x86_64 ] || build="$build libhyperscan-dev"
tests='clang clang-format cppcheck shellcheck libclang-rt-14-dev jq tmux expect mandoc git
	procps less vim-tiny openssl curl wget python3 nodejs dnsmasq-base ca-certificates qemu-system-x86 xz-utils e2fsprogs fdisk
	qemu-utils'

peers='nginx'
case ${1:-} in
test) ;;
bench) tests='python3 openssl openssh-client' peers='nginx passt slirp4netns dropbear' ;;
kvm) tests='qemu-system-x86 qemu-system-common e2fsprogs python3 jq procps' peers='' ;;
*) tests='' peers='' ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v dpkg-query >/dev/null 2>&1; then
	for tool in gcc make musl-gcc; do
		command -v "$tool" >/dev/null 2>&1 || say "not found: $tool"
	done
	exit 0 # another distribution: the compiler will name what it lacks
fi

# Prints those of its arguments that are not installed, on one line.
missing() {
	have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
		sed -n 's/^installed //p') || true
	for p in "$@"; do
		case "
$have
" in *"
$p
"*) ;; *) printf ' %s' "$p" ;; esac
	done
}

# What tests and the benchmark start themselves is only unpacked, not installed: it needs no
# service, no user and no configuration of its own on this machine.
fetch() { # PROGRAM PACKAGE...
	program=$1
	shift
	! command -v "$program" >/dev/null 2>&1 || return 0
	[ ! -x "build/peers/usr/sbin/$program" ] && [ ! -x "build/peers/usr/bin/$program" ] || return 0
	mkdir -p build/peers
	(cd build/peers && { apt-get -qq download "$@" 2>/dev/null ||
		{ [ "$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq download "$@"; }; } &&
		for p in "$@"; do dpkg -x "$p"_*.deb . && rm -f "$p"_*.deb; done) >/dev/null 2>&1 ||
		say "could not fetch $program: what needs it is skipped"
}
fetch_peers() {
	for peer in $peers; do
		case $peer in
		passt) fetch pasta passt ;;
		slirp4netns) fetch slirp4netns slirp4netns libslirp0 ;;
		dropbear) fetch dropbear dropbear-bin libtomcrypt1 libtommath1 ;;
		*) fetch "$peer" "$peer" ;;
		esac
	done
}
[ -z "$peers" ] || trap fetch_peers EXIT

# shellcheck disable=SC2086 # the lists are meant to split
{
	need_build=$(missing $build)
	need_tests=${tests:+$(missing $tests)}
	# Any vi will do.
	! command -v vi >/dev/null 2>&1 || need_tests=$(printf '%s' "$need_tests" | sed 's/ vim-tiny//')
}
[ -n "$need_build$need_tests" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=''
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
	as_root='sudo -n'
else
	say "missing packages; install them with:"
	say "  sudo apt-get install -y --no-install-recommends$need_build$need_tests"
	[ -z "$need_build" ] && exit 0 # tests skip what they lack, and say so
	exit 1
fi

apt() {
	# shellcheck disable=SC2086 # sudo -n is two words
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
# shellcheck disable=SC2086 # package names are words
install() {
	apt install -y --no-install-recommends "$@" >/dev/null
}

say "installing:$need_build$need_tests"
ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || apt update >/dev/null
# shellcheck disable=SC2086
if ! install $need_build $need_tests 2>/dev/null; then
	apt update >/dev/null || true # stale lists name files that are gone
	# The build must have its packages; a test tool that this release lacks costs a skip.
	[ -z "$need_build" ] || install $need_build || {
		say "could not install:$need_build"
		exit 1
	}
	for p in $need_tests; do
		install "$p" || say "could not install $p: the tests that need it are skipped"
	done
fi
