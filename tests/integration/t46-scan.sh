#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `cove scan`: every form in which a secret can lie in a file, what it says about it, and
# that what cannot be looked at is never a pass.
. "$(dirname "$0")/../lib/harness.sh"
need JQ
command -v python3 >/dev/null || {
	echo '1..0 # SKIP needs python3'
	tap_done=yes
	exit 0
}
mkdir "$T/p" && cd "$T/p" || exit 1
key=ghp_a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ

# scan FILE...: rule ids, one a line
rules() { cove scan --json "$@" | jq -r '.findings[].rule' | sort -u; }

ok 'clean files: nothing to say' '
	echo "int main(void) { return 0; }" >clean.c
	same "" "$(cove scan clean.c)"
	rc_is 0 cove scan clean.c'
ok 'a secret: rule, path, line, redacted excerpt, exit status 1' '
	printf "one\ntwo\nkey = \"%s\"\n" "$key" >leak.txt
	rc_is 1 cove scan leak.txt >"$T/o" 2>/dev/null
	has "$(cat "$T/o")" "leak.txt:3: github-pat"
	has "$(cat "$T/o")" "ghp_****"
	! grep -q "$key" "$T/o"'
ok '--json: findings, files, bytes; an id that stays' '
	cove scan --json . >"$T/j" || :
	same github-pat "$(jq -r ".findings[0].rule" "$T/j")"
	same 2 "$(jq .files "$T/j")"
	id=$(jq -r ".findings[0].id" "$T/j")
	same "$id" "$(cove scan --json . | jq -r ".findings[0].id")"
	same 16 "${#id}"'
ok 'encodings: base64, hex, percent, \u, UTF-16 of both kinds' '
	python3 - "$key" <<-"EOF"
	import sys, base64
	k = ("key = " + sys.argv[1]).encode()
	open("e1", "wb").write(base64.b64encode(k))
	open("e2", "w").write(k.hex())
	open("e3", "w").write("".join("%%%02x" % b for b in k))
	open("e4", "w").write("".join("\\u%04x" % b for b in k))
	open("e5", "wb").write(k.decode().encode("utf-16"))
	open("e6", "wb").write(k.decode().encode("utf-16-be"))
	open("e7", "wb").write(b"\x7fELF\x01\x02\x03" * 50 + k.decode().encode("utf-16-le") + b"\xff" * 300)
	EOF
	for f in e1 e2 e3 e4 e5 e6 e7; do same github-pat "$(rules $f)"; done'
ok 'archives: gz, tar, zip, and one inside another' '
	python3 - "$key" <<-"EOF"
	import sys, io, gzip, tarfile, zipfile, lzma, bz2
	k = ("\n\nkey = " + sys.argv[1] + "\n").encode()
	open("a.gz", "wb").write(gzip.compress(k))
	open("a.xz", "wb").write(lzma.compress(k))
	open("a.bz2", "wb").write(bz2.compress(k))
	def tar(name, data, mode):
	    b = io.BytesIO()
	    t = tarfile.open(fileobj=b, mode=mode)
	    i = tarfile.TarInfo(name)
	    i.size = len(data)
	    t.addfile(i, io.BytesIO(data))
	    t.close()
	    return b.getvalue()
	open("a.tgz", "wb").write(tar("in/side.txt", k, "w:gz"))
	b = io.BytesIO()
	z = zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED)
	z.writestr("x/inner.tgz", tar("deep.txt", k, "w:gz"))
	z.close()
	open("a.zip", "wb").write(b.getvalue())
	open("polyglot.bin", "wb").write(b"#!/bin/sh\nexit\n" + b.getvalue())
	EOF
	for f in a.gz a.xz a.bz2 a.tgz a.zip polyglot.bin; do same github-pat "$(rules $f)"; done
	same in/side.txt "$(cove scan --json a.tgz | jq -r ".findings[0].inner")"
	same "x/inner.tgz!/deep.txt" "$(cove scan --json a.zip | jq -r ".findings[0].inner")"
	same 3 "$(cove scan --json a.zip | jq -r ".findings[0].line")"'
ok 'bombs: too large, too many, too deep: a finding, soon' '
	python3 - <<-"EOF"
	import io, zipfile
	z = zipfile.ZipFile("big.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9)
	with z.open("zeros", "w", force_zip64=True) as f:
	    for _ in range(1200):
	        f.write(bytes(1 << 20))
	z.close()
	d = b"x"
	for _ in range(5):
	    b = io.BytesIO()
	    z = zipfile.ZipFile(b, "w")
	    z.writestr("inner.zip", d)
	    z.close()
	    d = b.getvalue()
	open("deep.zip", "wb").write(d)
	z = zipfile.ZipFile("many.zip", "w")
	for i in range(100100):
	    z.writestr(str(i), b"")
	z.close()
	EOF
	for f in big.zip deep.zip many.zip; do
		same archive-limit "$(timeout 60 cove scan --json $f | jq -r ".findings[].rule" | sort -u)"
	done'
ok 'damaged and encrypted archives: unreadable, not clean' '
	head -c 40 a.tgz >cut.tgz
	same unreadable "$(rules cut.tgz)"
	python3 - <<-"EOF"
	d = bytearray(open("a.zip", "rb").read())
	d[6] |= 1
	i = d.find(b"PK\x01\x02")
	d[i + 8] |= 1
	open("locked.zip", "wb").write(d)
	EOF
	same unreadable "$(rules locked.zip)"'
ok 'names are content; symlinks are not followed; devices are not read' '
	mkdir names && : >"names/$key.txt"
	same github-pat "$(rules names)"
	mkdir links && ln -s ../leak.txt links/l && mkfifo links/f
	rc_is 0 timeout 20 cove scan links'
ok 'at the edge of a chunk, and far behind' '
	python3 - "$key" <<-"EOF"
	import sys
	k = sys.argv[1]
	for n in range(3):
	    pre = (2 << 20) - 60 + 20 * n
	    open("edge%d" % n, "w").write("a\n" * (pre // 2) + " " + k + " \n" + "b\n" * 100)
	open("far", "w").write("a b c\n" * 1500000 + k + "\n")
	EOF
	for n in 0 1 2; do
		same 1 "$(cove scan --json edge$n | jq ".findings | length")"
		same $(((2097152 - 60 + 20 * n) / 2 + 1)) "$(cove scan --json edge$n | jq ".findings[0].line")"
	done
	same 1500001 "$(cove scan --json far | jq ".findings[0].line")"'
ok 'what cannot be opened is a finding' '
	[ "$(id -u)" != 0 ] || lacks "root reads every file"
	: >secret.bin && chmod 0 secret.bin
	same unreadable "$(rules secret.bin)"
	rm -f secret.bin'
ok "a user's rule file" '
	cat >my.toml <<-"EOF"
	[extend]
	useDefault = true
	[[rules]]
	id = "acme"
	description = "ACME key"
	regex = "acme_[0-9]{6}"
	keywords = ["acme_"]
	[allowlist]
	paths = ["leak"]
	EOF
	echo acme_123456 >acme.txt
	same acme "$(cove scan --json --rules my.toml acme.txt | jq -r ".findings[].rule")"
	rc_is 0 cove scan --rules my.toml leak.txt'
ok 'a wrong rule file: cove fails, it does not pass' '
	printf "[[rules]]\nid = \"x\"\nregex = \"(\"\n" >bad.toml
	rc_is 125 cove scan --rules bad.toml clean.c 2>"$T/err"
	has "$(cat "$T/err")" "rule x"
	rc_is 125 cove scan --rules missing.toml clean.c 2>/dev/null
	rc_is 125 cove scan missing.c 2>/dev/null'
ok 'a scanner that cannot run is no pass' '
	rc_is 125 env COVE_SCAN=/nowhere cove scan clean.c 2>/dev/null
	rc_is 1 env COVE_SCAN=/bin/true cove scan clean.c >"$T/o" 2>/dev/null
	has "$(cat "$T/o")" scan-failed'
if have STATIC_GUEST; then # the run time of ASan needs more calls than the filter has
ok 'the scanner is confined: no file, no program, a filter' '
	python3 - "$COVE_DIR/cove-scan" <<-"EOF"
	import array, fcntl, os, socket, struct, subprocess, sys
	pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
	a, b = [socket.socket(fileno=fcntl.fcntl(x.detach(), fcntl.F_DUPFD_CLOEXEC, 10)) for x in pair]
	os.dup2(b.fileno(), 3)
	p = subprocess.Popen([sys.argv[1]], pass_fds=[3], executable=sys.argv[1])
	fd = os.memfd_create("c")
	hello = struct.pack("=IIQQII", 1, 0x636f7365, 1 << 30, 0, 0, 0)
	a.sendmsg([hello], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
	assert struct.unpack("=I", a.recv(65536)[:4])[0] == 4, "READY"
	s = dict(l.split(":\t", 1) for l in open("/proc/%d/status" % p.pid).read().splitlines() if ":\t" in l)
	assert s["NoNewPrivs"] == "1", s["NoNewPrivs"]
	assert s["Seccomp"] == "2", s["Seccomp"]
	if os.getuid() == 0: # it cannot be looked at by its own user
	    fds = os.listdir("/proc/%d/fd" % p.pid)
	    assert sorted(fds) == ["0", "1", "2", "3"], fds
	name = b"/etc/passwd" # a descriptor is needed, a name opens nothing
	files = struct.pack("=IIQ32H", 2, 1, 0, len(name), *[0] * 31) + name
	dev = os.open("/dev/null", os.O_RDONLY)
	a.sendmsg([files], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [dev]))])
	assert b"unreadable" in a.recv(65536)
	a.close()
	p.kill()
	EOF'
else
	skip 'the scanner is confined' 'a build with ASan'
fi

done_testing
