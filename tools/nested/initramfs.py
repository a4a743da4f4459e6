#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""initramfs.py OUT INIT [MODULE_DIR MODULE...] - an initramfs of one program and some modules.

INIT becomes /init. The named modules and what they depend on go to /modules, under names that
sort in the order of loading. Dependencies are read from the modules themselves, as a package
that was never installed has no modules.dep. Modules are stripped: half the size, and without
their signature, which would be checked in software emulation.
"""
import os
import re
import stat
import subprocess
import sys
import tempfile


def module_files(directory):
    """Name, as the kernel spells it, to path."""
    found = {}
    for where, _, names in os.walk(directory):
        for name in names:
            if name.endswith('.ko'):
                found[name[:-3].replace('-', '_')] = os.path.join(where, name)
    return found


def depends(path):
    with open(path, 'rb') as f:
        match = re.search(rb'\0depends=([^\0]*)\0', f.read())
    return [n.replace('-', '_') for n in match[1].decode().split(',') if n] if match else []


def load_order(files, wanted):
    order = []

    def add(name):
        if name in order:
            return
        if name not in files:
            sys.exit(f'initramfs: no module {name}')
        for needed in depends(files[name]):
            add(needed)
        order.append(name)

    for name in wanted:
        add(name.replace('-', '_'))
    return order


def stripped(path):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(['strip', '--strip-debug', '-o', out.name, path], check=True)
        with open(out.name, 'rb') as f:
            return f.read()


class Archive:
    """A cpio archive in the format `newc`, always the same for the same content."""

    def __init__(self, path):
        self.out = open(path, 'wb')
        self.inode = 0

    def add(self, name, mode, data=b'', device=(0, 0)):
        self.inode += 1
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        self.put(b'070701' + b''.join(b'%08X' % f for f in fields) + name.encode() + b'\0')
        self.put(data)

    def put(self, data):
        self.out.write(data + b'\0' * (-len(data) % 4))

    def close(self):
        self.add('TRAILER!!!', 0)
        self.out.close()


def main(out, init, directory=None, *wanted):
    files = module_files(directory) if directory else {}
    temporary = out + '.tmp'
    archive = Archive(temporary)
    archive.add('dev', stat.S_IFDIR | 0o755)
    # Without it the kernel has no console to give to /init.
    archive.add('dev/console', stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add('modules', stat.S_IFDIR | 0o755)
    for i, name in enumerate(load_order(files, wanted)):
        archive.add(f'modules/{i:02}-{name}.ko', stat.S_IFREG | 0o644, stripped(files[name]))
    with open(init, 'rb') as f:
        archive.add('init', stat.S_IFREG | 0o755, f.read())
    archive.close()
    os.rename(temporary, out)


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
