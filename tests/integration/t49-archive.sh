#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Archives: a sandbox goes into one file and comes back; a hostile archive gets nowhere.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
command -v python3 >/dev/null || need PYTHON
P=$T/p
mkdir -p "$P/gone" && echo one >"$P/one" && echo x >"$P/gone/x"
REC=$COVE_HOME/sandboxes

# Every path, kind, mode, time, target, attribute and content below a directory.
picture() {
	python3 - "$1" <<-"END"
		import hashlib, os, stat, sys
		for d, dirs, files in sorted(os.walk(os.fsencode(sys.argv[1]))):
		    for n in [b"."] + sorted(files + [x for x in dirs if os.path.islink(os.path.join(d, x))]):
		        p = os.path.join(d, n); s = os.lstat(p); kind = stat.S_IFMT(s.st_mode)
		        more = os.readlink(p) if kind == stat.S_IFLNK else b""
		        if kind == stat.S_IFREG:
		            more = hashlib.sha256(open(p, "rb").read()).hexdigest(), s.st_nlink
		        if kind in (stat.S_IFREG, stat.S_IFDIR):
		            more = more, [(x, os.getxattr(p, x)) for x in sorted(os.listxattr(p)) if x.startswith("user.")]
		        print(os.path.relpath(p, os.fsencode(sys.argv[1])), oct(s.st_mode), s.st_mtime_ns, s.st_rdev, more)
	END
}
long=$(printf 'n%.0s' $(seq 200))

ok 'out and in again: every path as it was' '
	cd "$P"
	cove create box --storage persistent
	cove run -q box -- sh -ec "
		echo mine >one; rm -r gone; mkdir -p d/e; echo 1 >d/f; ln d/f d/e/g; ln -s ../../x l
		mkfifo ff; truncate -s 300M sparse; echo end >>sparse; dd if=/dev/urandom of=blob bs=1k count=300 2>/dev/null
		chmod 640 d/f; mkdir -m 1777 sticky; mkdir -m 500 closed; echo h >~/h
		mkdir -p $long/$long/$long; echo deep >$long/$long/$long/f
		touch \"\$(printf \"new\\nline\")\" \"\$(printf \"\\377bad\")\""
	cove snapshot -m note box s1
	cove exec box -- sh -c "echo later >one"
	cove stop box
	cove export -o "$T/box.tar" box
	same copy "$(cove import "$T/box.tar" copy)"
	picture "$REC/box/m0/upper" >"$T/a"; picture "$REC/copy/m0/upper" >"$T/b"
	diff "$T/a" "$T/b"
	picture "$REC/box/snapshots/s1/m0/upper" >"$T/a"; picture "$REC/copy/snapshots/s1/m0/upper" >"$T/b"
	diff "$T/a" "$T/b"
	same "later h" "$(cove run -q copy -- sh -c "cat one ~/h" | paste -sd" ")"
	cove stop copy
	cove restore --yes copy s1
	same mine "$(cove run -q copy -- cat one)"
	cove snapshots --json copy | jq -e ".[0].description == \"note\""
	[ "$(stat -c %s "$T/box.tar")" -lt 4000000 ]
	cove rm -f copy'
ok 'any tar can read it' '
	tar tf "$T/box.tar" >"$T/list"
	grep -qx cove.json "$T/list"
	grep -qx m0/upper/one "$T/list"
	mkdir "$T/x" && tar -xf "$T/box.tar" -C "$T/x" --exclude="*/gone"
	same later "$(cat "$T/x/m0/upper/one")"
	cmp "$REC/box/m0/upper/sparse" "$T/x/m0/upper/sparse"
	rm -rf "$T/x"'
ok 'through a pipe, from a running sandbox, under its own name' '
	cove start box
	cove export box >"$T/pipe.tar"
	cove rm -f box
	same box "$(cove import - <"$T/pipe.tar")"
	same later "$(cove run -q box -- cat "$P/one")"
	rc_is 125 cove import "$T/pipe.tar" 2>"$T/err"
	has "$(cat "$T/err")" "exists already"
	cove rm -f box'
ok 'a mount source that is not here is named, and can be replaced' '
	mv "$P" "$T/elsewhere"
	rc_is 125 cove import "$T/box.tar" 2>"$T/err"
	has "$(cat "$T/err")" "$P"
	has "$(cat "$T/err")" "--mount"
	cove import -q "$T/box.tar" --mount "$T/elsewhere:overlay"
	same later "$(cove run -q box -- cat one)"
	same later "$(cove exec box -- cat "$T/elsewhere/one")"
	cove rm -f box
	mv "$T/elsewhere" "$P"'

# ---- damaged and hostile --------------------------------------------------------------
refused() { # FILE: no sandbox, nothing left, nothing outside
	rc_is 125 cove import "$1" evil 2>"$T/err" || return 1
	! test -e "$REC/evil" && same "" "$(find "$REC" -maxdepth 1 -name '.new-*')" && ! test -e "$T/pwned" || exit 1
}
ok 'a cut, changed or lengthened archive is refused' '
	size=$(stat -c %s "$T/box.tar")
	for n in 0 100 512 1024 5000 $((size / 2)) $((size - 512)) $((size - 1)); do
		head -c $n "$T/box.tar" >"$T/bad.tar"
		refused "$T/bad.tar"
	done
	(cat "$T/box.tar"; echo more) >"$T/bad.tar"; refused "$T/bad.tar"
	python3 - "$T/box.tar" "$T/bad.tar" <<-"END"
		import sys
		b = bytearray(open(sys.argv[1], "rb").read())
		i = b.index(b"later\n")
		b[i] ^= 1
		open(sys.argv[2], "wb").write(b)
	END
	refused "$T/bad.tar"
	has "$(cat "$T/err")" damaged
	head -c 100000 /dev/urandom >"$T/bad.tar"; refused "$T/bad.tar"'

cat >"$T/evil.py" <<'END'
# Writes an archive with a right checksum and one entry that must not be accepted.
import hashlib, json, sys
out = bytearray()
def rec(k, v):
    k = k if isinstance(k, bytes) else k.encode(); v = v if isinstance(v, bytes) else v.encode()
    n = len(k) + len(v) + 3
    while n != len(str(n)) + len(k) + len(v) + 3: n = len(str(n)) + len(k) + len(v) + 3
    return str(n).encode() + b" " + k + b"=" + v + b"\n"
def header(t, size, mode, dev=(0, 0)):
    h = bytearray(512)
    h[0:4] = b"name"
    h[100:108] = b"%07o\0" % mode; h[108:116] = h[116:124] = b"0000000\0"
    h[124:136] = b"%011o\0" % size; h[136:148] = b"%011o\0" % 0
    h[148:156] = b" " * 8; h[156:157] = t; h[257:265] = b"ustar\00000"
    h[329:337] = b"%07o\0" % dev[0]; h[337:345] = b"%07o\0" % dev[1]
    h[148:155] = b"%06o\0" % sum(h)
    return bytes(h)
def pad(b): return b + b"\0" * (-len(b) % 512)
def entry(path, t=b"0", data=b"", link=None, mode=0o644, dev=(0, 0), extra=()):
    p = rec("path", path)
    if link is not None: p += rec("linkpath", link)
    p += rec("size", str(len(data))) + rec("mtime", "1.000000000")
    for k, v in extra: p += rec(k, v)
    out.extend(header(b"x", len(p), 0o644) + pad(p) + header(t, len(data), mode, dev) + pad(data))
def start(mounts=()):
    entry("cove.json", data=json.dumps({"format": 1, "name": "evil", "version": "0", "time": 0}).encode())
    entry("spec.json", data=json.dumps({"mounts": list(mounts)}).encode())
    entry("home", b"5", mode=0o700)
def end():
    entry("checksum", data=hashlib.blake2b(bytes(out), digest_size=32).hexdigest().encode() + b"\n")
    out.extend(b"\0" * 1024)
T = sys.argv[2]
cases = {
    "good": lambda: entry("home/f", data=b"fine"),
    "absolute": lambda: entry(T + "/pwned", data=b"x"),
    "parent": lambda: entry("home/../../../pwned", data=b"x"),
    "dot": lambda: entry("home/./f", data=b"x"),
    "empty": lambda: entry("home//f", data=b"x"),
    "foreign": lambda: entry("audit.jsonl", data=b"x"),
    "notdir": lambda: entry("m0", data=b"x"),
    "restoring": lambda: entry("restoring", b"5"),
    "symlink-way": lambda: (entry("home/l", b"2", link=T), entry("home/l/pwned", data=b"x")),
    "symlink-over": lambda: (entry("home/l", b"2", link=T + "/pwned"), entry("home/l", data=b"x")),
    "hardlink-out": lambda: entry("home/f", b"1", link="/etc/passwd"),
    "hardlink-up": lambda: entry("home/f", b"1", link="../../x"),
    "hardlink-symlink": lambda: (entry("home/l", b"2", link="/etc/passwd"), entry("home/f", b"1", link="home/l")),
    "hardlink-tree": lambda: (entry("home/f", data=b"x"), entry("root", b"5"), entry("root/f", b"1", link="home/f")),
    "device": lambda: entry("home/d", b"3", dev=(1, 3)),
    "block": lambda: entry("home/d", b"4", dev=(7, 0)),
    "twice": lambda: (entry("home/f", data=b"x"), entry("home/f", data=b"y")),
    "long-name": lambda: entry("home/" + "n" * 256, data=b"x"),
    "nul": lambda: entry(b"home/a\0b", data=b"x"),
    "xattr": lambda: entry("home/f", data=b"x", extra=[("SCHILY.xattr.security.capability", "x")]),
    "trusted": lambda: entry("home/f", data=b"x", extra=[("SCHILY.xattr.trusted.overlay.opaque", "y")]),
    "unknown-key": lambda: entry("home/f", data=b"x", extra=[("hdrcharset", "BINARY")]),
    "sparse-lies": lambda: entry("home/f", data=pad(b"1\n0\n99999\n") + b"x", extra=[
        ("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "10")]),
    "bad-tag": lambda: (entry("snapshots", b"5", mode=0o700), entry("snapshots/.x", b"5", mode=0o700)),
    "no-meta": lambda: (entry("snapshots", b"5", mode=0o700), entry("snapshots/x", b"5", mode=0o700)),
    "after-sum": lambda: (end(), out.__delitem__(slice(-1024, None)), entry("home/late", data=b"x")),
    "orphan": lambda: entry("home/no/such/f", data=b"x"),
}
if sys.argv[1] == "list":
    print("\n".join(k for k in cases if k != "good"))
else:
    start(); cases[sys.argv[1]](); end()
    sys.stdout.buffer.write(bytes(out))
END
ok 'the maker of bad archives can make a good one' '
	python3 "$T/evil.py" good "$T" >"$T/e.tar"
	cove import -q "$T/e.tar" fine
	same fine "$(cat "$REC/fine/home/f")"
	cove rm -f fine'
for case in $(python3 "$T/evil.py" list "$T"); do
	ok "refused: $case" '
		python3 "$T/evil.py" "$1" "$T" >"$T/e.tar"
		refused "$T/e.tar"
		cat "$T/err"' "$case"
done
ok 'no set-user-id bit comes out of an archive' '
	sed "s/mode=0o644, dev/mode=0o6755, dev/" "$T/evil.py" >"$T/suid.py"
	python3 "$T/suid.py" good "$T" >"$T/e.tar"
	cove import -q "$T/e.tar" fine
	same 755 "$(stat -c %a "$REC/fine/home/f")"
	cove rm -f fine'
ok 'killed half-way: no sandbox, nothing left' '
	for ms in 002 005 010 020 030; do
		timeout -s KILL 0.$ms cove import -q "$T/box.tar" half || true
		cove ls >/dev/null
		! cove inspect half >/dev/null 2>&1 || cove rm -f half
		wait_for 3 sh -c "cove ls >/dev/null; [ -z \"\$(find \"$REC\" -maxdepth 1 -name \".new-*\")\" ]"
	done'
ok 'both ends are in the log' '
	cove import -q "$T/box.tar"
	cove export box >/dev/null
	cove audit --json box >"$T/log"
	grep -q "\"event\":\"import\"" "$T/log"
	grep -q "\"event\":\"export\"" "$T/log"
	cove rm -f box'
ok 'an archive cannot give itself write access to the host' '
	mkdir -p "$T/live" && echo host >"$T/live/f"
	cove create live --mount "$T/live:rw"
	cove export -o "$T/live.tar" live
	cove rm -f live
	rc_is 125 cove import "$T/live.tar" live 2>"$T/err"
	has "$(cat "$T/err")" "wants to write to $T/live"
	same "" "$(cove ls -q)"
	cove import "$T/live.tar" live --mount "$T/live:overlay" 2>"$T/err"
	has "$(cat "$T/err")" "it will see $T/live (overlay)"
	cove rm -f live
	cove import -q "$T/live.tar" live --mount "$T/live:rw"
	cove rm -f live'
done_testing
