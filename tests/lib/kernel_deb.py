#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_deb.py OUT [VERSION] [OPTION...] - a package that looks like a kernel's, and is tiny.

  -NAME         without this module
  xz            modules are packed with xz (which must be installed)
  builtin=NAME  this module is built in
  plain         the tree is not compressed
  noimage       no kernel in it
"""
import gzip
import io
import struct
import subprocess
import sys
import tarfile

MODULES = {
    "virtio": "",
    "virtio_ring": "virtio",
    "virtio_mmio": "virtio,virtio_ring",
    "virtio_console": "virtio,virtio_ring",
    "virtio_blk": "virtio,virtio_ring",
    "virtio-rng": "virtio",
    "fuse": "",
    "overlay": "",
    "ext4": "jbd2",
    "jbd2": "",
    "nf_tables": "",
    "nft_tproxy": "nf_tables",
    "unneeded": "",
}


def module(version, depends):
    """A relocatable ELF file with .modinfo and a signature."""
    info = b"license=GPL\0depends=%s\0vermagic=%s SMP\0" % (depends.encode(), version.encode())
    names = b"\0.modinfo\0.shstrtab\0"
    at = 64 + len(info) + len(names)
    head = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0,
                       1, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 2)

    def section(name, kind, offset, size):
        return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)

    signature = b"S" * 50
    return (head + info + names + section(0, 0, 0, 0) + section(1, 1, 64, len(info)) +
            section(10, 3, 64 + len(info), len(names)) +
            signature + bytes(8) + struct.pack(">I", len(signature)) +
            b"~Module signature appended~\n")


def image(version):
    b = bytearray(20000)
    b[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", b, 0x20E, 0x100)
    text = version.encode() + b" (test)\0"
    b[0x300:0x300 + len(text)] = text
    return bytes(b)


def tree(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        for name, content in files:
            i = tarfile.TarInfo("./" + name)
            i.size = len(content)
            t.addfile(i, io.BytesIO(content))
    return out.getvalue()


def ar(members):
    out = b"!<arch>\n"
    for name, content in members:
        out += ("%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, "100644", len(content))).encode()
        out += content + (b"\n" if len(content) % 2 else b"")
    return out


def main():
    out, options = sys.argv[1], sys.argv[2:]
    version = options.pop(0) if options and options[0][0].isdigit() else "6.1.0-1-test"
    builtin = [o[8:] for o in options if o.startswith("builtin=")]
    left_out = [o[1:] for o in options if o.startswith("-")] + builtin
    base = "lib/modules/%s/" % version
    files = [] if "noimage" in options else [("boot/vmlinuz-" + version, image(version))]
    files.append((base + "modules.builtin", "".join("kernel/%s.ko\n" % b for b in builtin).encode()))
    for name, depends in MODULES.items():
        if name in left_out:
            continue
        content, suffix = module(version, depends), ".ko"
        if "xz" in options:
            content = subprocess.run(["xz", "-c"], input=content, stdout=subprocess.PIPE, check=True).stdout
            suffix = ".ko.xz"
        files.append((base + "kernel/a/rather/long/way/to/a/module/that/needs/a/name/of/its/own/" + name + suffix, content))
    control = b"Package: linux-image-%s\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n" % version.encode()
    data = tree(files)
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", gzip.compress(tree([("control", control)])))]
    members.append(("data.tar", data) if "plain" in options else ("data.tar.gz", gzip.compress(data)))
    with open(out, "wb") as f:
        f.write(ar(members))


main()
