#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""image_tar.py KIND FILE [PREFIX] - tar files for the tests of images.

"good" has all that an image may hold, in the form of FILE's suffix (.gz, .bz2, .xz) or
plain; "gnu" is the same in GNU's format. Every other kind is an attack, or damaged.
PREFIX: a path of the host that an attack aims at.
"""
import io
import sys
import tarfile

FILE, DIR, SYM, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
CHAR, FIFO = tarfile.CHRTYPE, tarfile.FIFOTYPE

GOOD = [
    ("./", DIR, {"mode": 0o700}),
    ("usr", DIR, {"mode": 0o555}),
    ("usr/bin", DIR, {"mode": 0o755}),
    ("bin", SYM, {"linkname": "usr/bin"}),
    ("bin/tool", FILE, {"mode": 0o4755}, b"hello"),  # through a symlink
    ("hard", HARD, {"linkname": "usr/bin/tool"}),
    ("/abs/file", FILE, {"mode": 0o600, "uid": 77, "gid": 78}, b"x"),
    ("dev/null", CHAR, {"devmajor": 1, "devminor": 3}),
    ("fifo", FIFO, {"mode": 0o644}),
    ("etc/mtab", SYM, {"linkname": "/proc/mounts"}),
    ("k\u00e4se/\u00f6", FILE, {}, b"u"),
    ("long/" + "x" * 200 + "/" + "y" * 200, FILE, {}, b"l"),
    ("top", SYM, {"linkname": "/"}),
    ("top/inside", FILE, {}, b"i"),  # an absolute link begins at the image's own root
    ("dup", FILE, {}, b"one"),
    ("dup", FILE, {}, b"two"),
    ("turn", FILE, {}, b"file"),
    ("turn", DIR, {"mode": 0o1777}),
    ("closed", DIR, {"mode": 0}),
    ("closed/shadow", FILE, {"mode": 0}, b"s"),
]


def bad(prefix):
    return {
        "dots": [("a/../../x", FILE, {}, b"x")],
        "dots-link": [("a", FILE, {}, b"x"), ("b", HARD, {"linkname": "../../etc/passwd"})],
        "loop": [("a", SYM, {"linkname": "b"}), ("b", SYM, {"linkname": "a"}), ("a/x", FILE, {}, b"x")],
        "dangling": [("a", SYM, {"linkname": "nowhere"}), ("a/x", FILE, {}, b"x")],
        "no-target": [("a", HARD, {"linkname": "nope"})],
        "outside-target": [("h", SYM, {"linkname": prefix}), ("a", HARD, {"linkname": "h/host-file"})],
        "over": [("a/b", FILE, {}, b"x"), ("a", FILE, {}, b"x")],
        "under": [("a", FILE, {}, b"x"), ("a/b", FILE, {}, b"x")],
        "name": [("n" * 300, FILE, {}, b"x")],
        "empty": [],
        "only-dot": [("./", DIR, {})],
        # these unpack, but not to where they aim
        "sym": [("a", SYM, {"linkname": prefix}), ("a/x", FILE, {}, b"x")],
        "sym-up": [("a", SYM, {"linkname": "../" * 40 + prefix.lstrip("/")}), ("a/x", FILE, {}, b"x")],
        "zeros": [("z%d" % i, FILE, {}, b"\0" * (1 << 24)) for i in range(10)],
        "many": [("d/f%d" % i, FILE, {}, b"") for i in range(40000)],
    }


def write(name, entries, form):
    suffix = name.rsplit(".", 1)[-1]
    mode = "w:" + suffix if suffix in ("gz", "bz2", "xz") else "w"
    with tarfile.open(name, mode, format=form) as t:
        for path, kind, attributes, *data in entries:
            i = tarfile.TarInfo(path)
            i.type, i.mtime = kind, 1234567890
            for k, v in attributes.items():
                setattr(i, k, v)
            i.size = len(data[0]) if data else 0
            t.addfile(i, io.BytesIO(data[0] if data else b""))


def main():
    kind, name = sys.argv[1:3]
    prefix = sys.argv[3] if len(sys.argv) > 3 else "/nowhere"
    form = tarfile.GNU_FORMAT if kind == "gnu" else tarfile.PAX_FORMAT
    write(name, GOOD if kind in ("good", "gnu") else bad(prefix)[kind], form)


main()
