#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-layers.sh - a file includes only downward:
#   base < policy < os, ipc, spec, text < vm < backend, work < core < api < roles; guest uses
#   base and ipc, and of os two files that need nothing else of the host: a machine's first
#   process catches connections and finds their owners by the very code that the host has for
#   processes; scan and fs use base, egress uses base, policy and ipc, and only a role uses
#   any of them;
#   the command uses nothing but cove.h.
set -eu
cd "$(dirname "$0")/.."

allowed() {
	case $1 in
	base) echo base ;;
	policy) echo base policy ;;
	os) echo base os ;;
	ipc) echo base ipc ;;
	spec) echo base policy spec ;;
	text) echo base text ;;
	scan) echo base scan ;;
	fs) echo base fs ;;
	vm) echo base os spec vm ;;
	egress) echo base policy ipc egress ;;
	work) echo base os spec text work ;;
	backend) echo base policy os ipc spec vm backend ;;
	core) echo base policy os ipc spec text vm backend work core ;;
	api) echo base policy os ipc spec text vm backend work core api ;;
	roles) echo scan fs egress base policy os ipc spec text vm backend work core api roles ;;
	guest) echo base ipc guest os/capture.h os/who.h ;;
	cli) echo cli ;;
	*) echo ;;
	esac
}

bad=0
for dir in src/*/; do
	layer=$(basename "$dir")
	may=$(allowed "$layer")
	[ -n "$may" ] || { echo "$dir: a layer that tools/check-layers.sh does not know"; bad=1; }
	# "file:line:include" of every quoted include that names another directory
	hits=$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]*/' -r "$dir" --include='*.[ch]' |
		awk -F: -v may=" $may " '{
			split($3, q, "\""); split(q[2], part, "/")
			if (index(may, " " part[1] " ") == 0 && index(may, " " q[2] " ") == 0) print $1 ":" $2 ": includes " q[2]
		}')
	[ -z "$hits" ] || { echo "$hits"; bad=1; }
done
# A client that includes a private header by its bare name would pass the loop above.
hits=$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"\.\./' -r src include --include='*.[ch]' || true)
[ -z "$hits" ] || { echo "$hits"; bad=1; }
# system() and its kin are poisoned by banned.h, which every compilation includes.
grep -q -- '-include tools/banned.h' Makefile || { echo 'Makefile: banned.h is not included'; bad=1; }
exit $bad
