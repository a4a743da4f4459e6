#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Templates of machines: made once, whole or made again, held, removed; and what every start from
# one has of its own.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS STATIC_GUEST JQ
[ "${COVE_TEST_BACKEND:-}" = vm ] || skip_all "templates are the vm backend's"
chmod 755 "$T"
# They are damaged and removed here: not those that all scripts share.
cp -RL --sparse=always "$COVE_HOME/cache/templates" "$T/templates"
rm "$COVE_HOME/cache/templates"
mv "$T/templates" "$COVE_HOME/cache/templates"
D=$COVE_HOME/cache/templates
run() { cove run --rm --no-mounts "$@"; }
keys() { cove image ls --json | jq -r '.[] | select(.kind == "template") | .key'; }
small="--memory 128M --cpus 1"

ok 'two machines of one template have nothing in common but that' '
	n=$(keys | wc -l)
	for i in 1 2; do
		run -- sh -c "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid /etc/machine-id
			head -c 16 /dev/urandom | od -An -tx1" >"$T/who.$i" 2>"$T/err.$i"
		same 4 "$(wc -l <"$T/who.$i")"
		! grep once "$T/err.$i" || exit 1
	done
	same "" "$(sort "$T/who.1" "$T/who.2" | uniq -d)"
	grep -qxE "[0-9a-f]{32}" "$T/who.1"
	! grep -qxF "$(cat /etc/machine-id 2>/dev/null || echo none)" "$T/who.1" "$T/who.2" || exit 1
	same "$n" "$(keys | wc -l)"'
ok 'so has its root, and its clock is right' '
	run --user root -- sh -c "cat /proc/sys/kernel/random/boot_id /etc/machine-id; date +%s" >"$T/who.3"
	same "" "$(sort "$T/who.1" "$T/who.2" "$T/who.3" | uniq -d)"
	age=$(($(date +%s) - $(tail -n 1 "$T/who.3")))
	[ "$age" -ge -2 ] && [ "$age" -le 60 ]'
ok 'what the host has put in the place of a program since is what runs' '
	[ "$(id -u)" = 0 ] || lacks "needs root: mounts over a program of the host"
	printf "#!/bin/sh\necho another\n" >"$T/another"
	chmod 755 "$T/another"
	run -- /bin/true
	same another "$(unshare -m sh -c "mount --bind $T/another /usr/bin/true && exec $COVE_BIN run --rm --no-mounts -- /bin/true")"
	same "" "$(run -- /bin/true)"'
ok 'a home directory is the sandbox'"'"'s own: empty where it is in memory, kept where it is persistent' '
	run -- sh -c "touch ~/mine"
	same "" "$(run -- sh -c "ls -A ~")"
	cove create kept --no-mounts --storage persistent
	cove run kept -- sh -c "echo kept >~/f"
	cove stop kept
	same kept "$(cove run kept -- sh -c "cat ~/f")"
	cove rm -f --yes kept
	same "" "$(run -- sh -c "ls -A ~")"'
ok 'a shell of the host that hangs costs a start half a minute, not the start' '
	[ "$(id -u)" = 0 ] || lacks "needs root: mounts over a program of the host"
	printf "#!/usr/bin/perl\nsleep 100000;\n" >"$T/hangs"
	chmod 755 "$T/hangs"
	n=$(keys | wc -l)
	start=$(date +%s)
	COVE_KERNEL_ARGS=cove.test=hangs unshare -m sh -c "mount --bind $T/hangs $(readlink -f /bin/sh) &&
		exec $COVE_BIN run --rm --no-mounts $small -- echo ran" >"$T/out" 2>"$T/err" || { cat "$T/err"; exit 1; }
	same ran "$(cat "$T/out")"
	has "$(cat "$T/err")" "no template that has run a shell (its machine: the guest does not get ready)"
	[ $(($(date +%s) - start)) -lt "$(slow 20)" ]
	same "$((n + 1))" "$(keys | wc -l)"'
ok 'whoever comes within the hour does not wait for that again' '
	[ "$(id -u)" = 0 ] || lacks "needs root: mounts over a program of the host"
	same ran "$(COVE_KERNEL_ARGS=cove.test=hangs run $small -- sh -c "echo ran" 2>"$T/err")"
	! grep -e once -e shell "$T/err" || exit 1
	ls "$D" | grep -q forgone'
ok 'unless somebody removes what was made instead' '
	[ "$(id -u)" = 0 ] || lacks "needs root: mounts over a program of the host"
	for k in $(keys); do
		[ "$(jq -r .memoryMiB "$D/$k/info.json")" != 128 ] || cove image rm "$k"
	done
	! ls "$D" | grep forgone || exit 1
	same ran "$(COVE_KERNEL_ARGS=cove.test=hangs run $small -- sh -c "echo ran" 2>"$T/err")"
	same 1 "$(grep -c once "$T/err")"
	has "$(ls "$D"/*)" tables'
ok 'a host whose counter runs at another rate has templates of its own, and the next boot keeps its own' '
	[ -e "$COVE_HOME/cache/tsc" ] || lacks "machines here are not emulated: they are told nothing of it"
	run $small -- true 2>/dev/null
	n=$(keys | wc -l)
	was=$(cat "$COVE_HOME/cache/tsc")
	echo "${was% *} $((${was#* } / 2))" >"$COVE_HOME/cache/tsc" # of this boot: it is believed
	run $small -- true 2>"$T/err"
	has "$(cat "$T/err")" "booting"
	same "$((n + 1))" "$(keys | wc -l)"
	echo "another-boot ${was#* }" >"$COVE_HOME/cache/tsc" # it is measured, and as good as the same
	run $small -- true 2>"$T/err"
	! grep booting "$T/err" || exit 1
	same "$was" "$(cat "$COVE_HOME/cache/tsc")"'
ok 'the first start of another kind boots once, however many come, and all say so who do it' '
	pids=
	for i in 1 2 3 4; do
		COVE_KERNEL_ARGS=cove.test=1 "$COVE_BIN" run --rm --no-mounts $small -- cat /proc/cmdline >"$T/out.$i" 2>"$T/err.$i" &
		pids="$pids $!"
	done
	for p in $pids; do wait "$p"; done
	same 4 "$(cat "$T"/out.? | grep -c " cove.test=1$")"
	same 1 "$(cat "$T"/err.? | grep -c "booting .* once")"
	same 0 "$(ls "$D" | grep -c making)"'
ok 'who starts one by name hears of it too' '
	cove create box --no-mounts $small
	COVE_KERNEL_ARGS=cove.test=2 cove start box 2>"$T/err" || { cat "$T/err"; exit 1; }
	has "$(cat "$T/err")" "booting"
	has "$(cove exec box -- cat /proc/cmdline)" "cove.test=2"
	cove stop box'
ok 'what the kernel is told must be a text' '
	rc_is 125 env COVE_KERNEL_ARGS="$(printf "a\nb")" "$COVE_BIN" start box 2>"$T/err"
	has "$(cat "$T/err")" "COVE_KERNEL_ARGS"'
ok 'a template that QEMU does not take is made again, and that is said' '
	export COVE_KERNEL_ARGS=cove.test=2
	before=$(keys | sort)
	for k in $before; do
		[ "$(jq -r .memoryMiB "$D/$k/info.json")" = 128 ] || continue
		# as if it had been saved so: its checksum is right
		printf x | dd of="$D/$k/state" bs=1 seek=3 conv=notrunc 2>/dev/null
		sum=$(cat "$D/$k/state" "$D/$k/tables" | b2sum -l 128 | cut -d" " -f1)
		jq --arg s "$sum" ".stateDigest = \$s" "$D/$k/info.json" >"$T/info" && cp "$T/info" "$D/$k/info.json"
	done
	cove start box 2>"$T/err" || { cat "$T/err"; exit 1; }
	has "$(cat "$T/err")" "cannot be restored"
	same ok "$(cove exec box -- echo ok)"
	cove attest box >/dev/null
	cove stop box
	same "$before" "$(keys | sort)"'
ok 'one that is cut is made again before it is used' '
	for k in $(keys); do
		[ "$(jq -r .memoryMiB "$D/$k/info.json")" = 128 ] && truncate -s 1M "$D/$k/ram"
	done
	COVE_KERNEL_ARGS=cove.test=2 cove start box 2>"$T/err" || { cat "$T/err"; exit 1; }
	has "$(cat "$T/err")" "damaged (its memory): it is made again"
	cove image rm --all 2>/dev/null || for k in $(keys); do cove image rm "$k"; done
	same "" "$(keys)"
	same ok "$(cove exec box -- echo ok)"
	cove attest box >/dev/null
	cove rm -f box'
done_testing
