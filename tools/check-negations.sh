#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-negations.sh - under `set -e` a bare "! command" never ends a script: as anything but
# the last line of a test's block it cannot fail. Such a line says "|| exit 1".
set -eu
cd "$(dirname "$0")/.."

bad=$(awk '
	# Of a block: neither its last line (which ends with the quote) nor continued.
	/^[[:space:]]+! / && !/\|\|/ && !/'"'"'([[:space:]]+["$].*)?$/ && !/(\\|\|)$/ {
		print FILENAME ":" FNR ":" $0
	}
	/; ! [^|;]*;/ && !/\|\| exit/ { print FILENAME ":" FNR ":" $0 }' \
	tests/integration/*.sh tests/escape/*.sh)
[ -z "$bad" ] || { printf '%s\n' "$bad"; exit 1; }
