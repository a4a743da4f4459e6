#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make install` puts everything in its place, and it works from there.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS SOURCE CC STATIC_GUEST
[ -n "${COVE_BUILD:-}" ] || { tap_done=1; echo '1..0 # SKIP needs the build directory'; exit 0; }
D=$T/dest
P=/usr/local
when_done 'chmod -R u+w "$T/dest"'

ok 'make install' '
	cd "$COVE_SRC"
	make -s --no-print-directory install B="$COVE_BUILD" DESTDIR="$D"
	for f in bin/cove libexec/cove/cove-keeper libexec/cove/cove-guest lib/libcove.a lib/libcove.so.1 lib/libcove.so \
		include/cove.h lib/pkgconfig/cove.pc share/man/man1/cove.1 share/cove/spec.schema.json \
		share/bash-completion/completions/cove share/zsh/site-functions/_cove share/fish/vendor_completions.d/cove.fish; do
		test -s "$D$P/$f" || { echo "missing: $f"; exit 1; }
	done'
ok 'the installed command runs a sandbox' 'same fine "$("$D$P/bin/cove" run -q --no-mounts -- echo fine)"'
ok 'the installed command runs a named sandbox' '
	same fine "$("$D$P/bin/cove" run -q inst --no-mounts -- echo fine)"
	"$D$P/bin/cove" rm -f inst'
ok 'only the public symbols are exported' '
	same "" "$(nm -D --defined-only "$D$P/lib/libcove.so.1" | awk "\$3 !~ /^cove_/ { print \$3 }")"'
ok 'a program is built with pkg-config and runs' '
	command -v pkg-config >/dev/null || lacks "needs pkg-config"
	flags=$(PKG_CONFIG_PATH="$D$P/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$D" pkg-config --cflags --libs cove)
	gcc -o "$T/embed" "$COVE_SRC/examples/embed.c" $flags
	LD_LIBRARY_PATH="$D$P/lib" "$T/embed"'
ok 'embed.c is short' '[ "$(wc -l <"$COVE_SRC/examples/embed.c")" -le 60 ]'
ok 'the schema is JSON' '! command -v jq >/dev/null || jq -e . "$D$P/share/cove/spec.schema.json" >/dev/null'
ok 'completions are valid shell' 'bash -n "$D$P/share/bash-completion/completions/cove"'

done_testing
