#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# snapshot, restore and clone, cut off at every system call by SIGKILL, a full disk or a broken
# one: a snapshot or clone is there and whole or not there, a restore happened or did not.
. "$(dirname "$0")/../lib/matrix-place.sh"
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/matrix.sh"
need USERNS JQ
P=$T/p
quick=${MATRIX_SECONDS:-2}
[ -z "$matrix_asan" ] || quick=1

mkdir -p "$P/sub/deep" "$P/gone" && (
	cd "$P" || exit 1
	seq 1 200 >text
	echo one >one
	echo two >sub/two
	echo g >gone/g
	ln -s one link
) || exit 1
manifest "$P" >"$T/host"
cat >"$T/tools/first" <<'END'
cd /w && echo 1 >one && rm -rf gone && mkdir -p new/in && seq 1 500 >new/in/f && ln -s f new/in/l &&
	chmod 700 sub && echo home >~/kept && mkdir ~/.d && echo v >/vol/v
END
cat >"$T/tools/second" <<'END'
cd /w && echo 2 >one && rm -rf new && mkdir gone && echo back >gone/g && echo x >sub/x && chmod 755 sub &&
	rm text && echo changed >~/kept && rm -rf ~/.d && echo w >/vol/v && echo more >/vol/w
END
cat >"$T/tools/view" <<'END'
cd / && for d in /w "$HOME" /vol; do echo "== $d" && /tools/mutate manifest "$d"; done
END

echo '{"storage":{"type":"persistent"}}' >"$T/spec.json" # so that the home is kept too
new_box() {
	cove rm -q -f s >/dev/null 2>&1
	cove rm -q -f b >/dev/null 2>&1
	cove volume rm -q --yes v >/dev/null 2>&1
	cove create -q s --spec "$T/spec.json" --no-mounts --net none --mount "$P:/w:overlay" --mount "$T/tools:/tools:ro" \
		--mount v:/vol:volume
}
inside() { # NAME SCRIPT
	if [ -n "${is_running:-}" ] && [ "$1" = s ]; then
		cove exec s -- sh -e "/tools/$2"
	else
		cove run -q "$1" -- sh -e "/tools/$2" && cove stop -q "$1"
	fi
}
with_first() {
	new_box || return 1
	[ -z "${is_running:-}" ] || cove start -q s || return 1
	inside s first
}
with_second() { with_first && cove snapshot -q s one && inside s second; }
with_snapshot() { with_first && cove snapshot -q s one; }

with_second || echo "# not prepared"
inside s view >"$T/view2"
cove restore -q --yes s one && inside s view >"$T/view1"
cmp -s "$T/view1" "$T/view2" && echo "# two equal states prove nothing"

shows() { # NAME FILE WHAT
	inside "$1" view >"$T/view" || { echo "$3: cannot be looked at"; return 1; }
	diff "$2" "$T/view" || { echo "$3: not what it was"; return 1; }
}
tags() { cove snapshots --json s | jq -r '.[].tag' | paste -sd' '; }
host_is_whole() {
	manifest "$P" | diff "$T/host" - || { echo "the host's directory changed"; return 1; }
}
no_scraps() { # half-made snapshots, clones and restores are gone
	scraps=$(find "$COVE_HOME/sandboxes" -mindepth 1 -maxdepth 1 -name '.*' ! -name '.spare*'
		find "$COVE_HOME/sandboxes" -path '*/snapshots/.*' -prune -print
		find "$COVE_HOME/sandboxes" -mindepth 2 -maxdepth 2 -name 'restoring*')
	[ -z "$scraps" ] || { echo "left over: $scraps"; return 1; }
}
judge_snapshot() { # RC
	cove ls >/dev/null || { echo "cove ls failed"; return 1; }
	shows s "$T/view1" 'after the cut' || return 1
	got=$(tags)
	case $got in
	one) ;;
	'') [ "$1" != 0 ] || { echo "success was claimed"; return 1; }
		cove snapshot -q s one || { echo "the second snapshot failed"; return 1; } ;;
	*) echo "snapshots: $got"; return 1 ;;
	esac
	inside s second || return 1
	[ -z "${is_running:-}" ] || cove stop -q s
	was_running=${is_running:-}
	is_running=
	cove restore -q --yes s one && shows s "$T/view1" 'restored' && host_is_whole && no_scraps
	judged=$?
	is_running=$was_running
	return $judged
}
judge_restore() {
	cove ls >/dev/null || { echo "cove ls failed"; return 1; }
	inside s view >"$T/view" || { echo "cannot be looked at"; return 1; }
	if cmp -s "$T/view" "$T/view2"; then
		[ "$1" != 0 ] || { echo "success was claimed"; return 1; }
	else
		diff "$T/view1" "$T/view" || { echo "torn"; return 1; }
	fi
	same one "$(tags)" && cove restore -q --yes s one && shows s "$T/view1" 'the second time' &&
		host_is_whole && no_scraps
}
judge_clone() {
	cove ls >/dev/null || { echo "cove ls failed"; return 1; }
	shows s "$T/view1" 'the original' || return 1
	if cove ls -q | grep -qx b; then
		shows b "$T/view1" 'the clone' || return 1
		cove rm -q -f b
	else
		[ "$1" != 0 ] || { echo "success was claimed"; return 1; }
	fi
	cove clone -q s b && shows b "$T/view1" 'the second clone' && host_is_whole && no_scraps
}

for mode in kill enospc eio enospc-stays; do
	matrix 'snapshot, stopped' with_first judge_snapshot $mode "$quick" cove snapshot -q s one
	matrix 'restore' with_second judge_restore $mode "$quick" cove restore -q --yes s one
done
for mode in kill enospc; do
	matrix 'clone' with_first judge_clone $mode "$quick" cove clone -q s b
	matrix 'clone of a snapshot' with_snapshot judge_clone $mode "$quick" cove clone -q s@one b
done
is_running=1
for mode in kill enospc eio; do
	matrix 'snapshot, running' with_first judge_snapshot $mode "$quick" cove snapshot -q s one
done
is_running=

cove rm -q -f s
cove volume rm -q --yes v
done_testing
