#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-layers.sh - a file includes only downward:
#   base < os, ipc, spec, text < backend, work < core < api < roles; guest uses base and ipc;
#   scan uses base, and only a role uses scan; the command uses nothing but cove.h.
set -eu
cd "$(dirname "$0")/.."

allowed() {
	case $1 in
	base) echo base ;;
	os) echo base os ;;
	ipc) echo base ipc ;;
	spec) echo base spec ;;
	text) echo base text ;;
	scan) echo base scan ;;
	work) echo base os spec text work ;;
	backend) echo base os ipc spec backend ;;
	core) echo base os ipc spec text backend work core ;;
	api) echo base os ipc spec text backend work core api ;;
	roles) echo scan base os ipc spec text backend work core api roles ;;
	guest) echo base ipc guest ;;
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
			if (index(may, " " part[1] " ") == 0) print $1 ":" $2 ": includes " q[2]
		}')
	[ -z "$hits" ] || { echo "$hits"; bad=1; }
done
# A client that includes a private header by its bare name would pass the loop above.
hits=$(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"\.\./' -r src include --include='*.[ch]' || true)
[ -z "$hits" ] || { echo "$hits"; bad=1; }
# system() and its kin are poisoned by banned.h, which every compilation includes.
grep -q -- '-include tools/banned.h' Makefile || { echo 'Makefile: banned.h is not included'; bad=1; }
exit $bad
