#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What happens to a mounted directory: ro stays, overlay lands in the upper layer, rw is
# live but brings no new rights to the host.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS
chmod 755 "$T"

P=$T/project
mkdir -p "$P/src" "$P/.git/hooks"
echo one >"$P/src/one.c"
echo keep >"$P/keep"
ln -s keep "$P/link"
shape() { (cd "$P" && find . -printf '%p %y %m %s %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }
shape >"$T/before"
unharmed() { shape | diff "$T/before" - && shape >/dev/null; }

ok 'overlay: a wrecked project is whole on the host' '
	cove run -q --rm --no-mounts --mount "$P:overlay" --workdir "$P" -- sh -c "
		echo evil >keep; rm -rf src; echo x >new; chmod 777 link; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit
		test ! -e src && test -e new && grep -q evil keep"
	unharmed'
ok 'overlay: rm -rf of everything' '
	cove run -q --rm --no-mounts --mount "$P:overlay" --user root -- sh -c "rm -rf $P/* $P/.git; test -z \"\$(ls $P)\""
	unharmed'
ok 'ro: nothing can be written' '
	for user in agent root; do
		must_refuse cove run -q --no-mounts --mount "$P:ro" --user $user -- sh -c "echo x >$P/keep"
		must_refuse cove run -q --no-mounts --mount "$P:ro" --user $user -- rm -rf "$P/src"
		must_refuse cove run -q --no-mounts --mount "$P:ro" --user $user -- touch "$P/new"
		must_refuse cove run -q --no-mounts --mount "$P:ro" --user $user -- chmod 777 "$P/keep"
	done
	unharmed'
ok 'ro: it can be read' 'same keep "$(cove run -q --no-mounts --mount "$P:ro" -- cat "$P/link")"'
ok 'only the mount is there, not its neighbours' '
	echo x >"$T/neighbour"
	same project "$(cove run -q --no-mounts --mount "$P:ro" -- ls "$T")"'

mkdir -m 777 "$T/rw"
cp "$A" "$T/rw/suid" && chmod 4755 "$T/rw/suid"
if have ROOT; then
	ok 'control: a set-user-id file gives its owner outside' '
		setpriv --reuid 65534 --regid 65534 --clear-groups "$T/rw/suid" euid-is-root'
fi
for mode in rw ro overlay; do
	ok "a set-user-id file gives nothing inside, mount $mode" '
		must_refuse cove run -q --rm --no-mounts --mount "$T/rw:$1" --mount "$COVE_DIR/escape:ro" -- "$A" suid "$T/rw/suid"' $mode
done
ok 'no mount inside honours set-user-id' '
	mounts=$(cove run -q --no-mounts --mount "$T/rw:rw" --mount "$P:overlay" -- cat /proc/self/mountinfo)
	# The last mount of a path is the one that counts; device nodes cannot be run.
	printf "%s\n" "$mounts" | grep -v devtmpfs | awk "{ top[\$5] = \$6 } END { for (m in top) print m, top[m] }" >"$T/top"
	grep -q "^/usr " "$T/top"
	! grep -v nosuid "$T/top"'
ok 'rw: no set-user-id file can be made for the host' '
	"$A" make-suid "$T/rw" # the control
	for user in agent root; do
		must_refuse cove run -q --no-mounts --user $user --mount "$T/rw:rw" --mount "$COVE_DIR/escape:ro" -- "$A" make-suid "$T/rw"
	done
	cove run -q --no-mounts --mount "$T/rw:rw" -- sh -c "echo x >$T/rw/plain; chmod 755 $T/rw/plain"
	same "$T/rw/suid" "$(find "$T/rw" -perm /6000)"'
ok 'rw: devices cannot be made' '
	must_refuse cove run -q --no-mounts --user root --mount "$T/rw:rw" --mount "$COVE_DIR/escape:ro" -- "$A" mknod "$T/rw/dev" c 1 3'

# A mount whose path is swapped for a link while the sandbox starts must not lead elsewhere.
ok 'a source that is a symlink is followed once, by the caller' '
	ln -s "$P" "$T/alias"
	cove run -q --rm --no-mounts --mount "$T/alias:ro" -- true || [ $? -eq 125 ]
	unharmed'

done_testing
