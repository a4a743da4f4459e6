# SPDX-License-Identifier: Apache-2.0
"""The plainest machine of the same kind as cove's, with Debian's virtiofsd for its files."""
import os
import shutil
import socket
import subprocess
import time

VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
MODULES = ("virtio_ring", "virtio", "virtio_mmio", "virtio_console", "fuse", "virtiofs")


class Missing(Exception):
    """What this host lacks."""


def newc(files):
    """An initramfs: (path, mode, content) in the format that the kernel unpacks."""
    out = bytearray()

    def entry(number, path, mode, data):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out.extend(b"070701" + b"".join(b"%08x" % f for f in fields) + name)
        out.extend(b"\0" * (-len(out) % 4) + data)
        out.extend(b"\0" * (-len(out) % 4))

    for i, (path, mode, data) in enumerate(files):
        entry(i + 1, path, mode, data)
    entry(0, "TRAILER!!!", 0, b"")
    return bytes(out)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def kernel_package(directory, kernel):
    """cove keeps no module that its guests do not need: the package is fetched, or at hand where
    there is no network (docs/nested.md). Its directory of modules."""
    name = "linux-image-" + kernel
    at_hand = os.environ.get("COVE_NESTED")
    if at_hand:
        deb = at_hand + "/kernel.deb"
    else:
        r = subprocess.run(["apt-get", "-q", "download", name], cwd=directory, capture_output=True,
                           text=True, timeout=300)
        debs = [f for f in os.listdir(directory) if f.startswith(name)]
        if not debs:
            raise Missing(f"package {name}: " +
                          (r.stderr.strip().splitlines() or ["not found"])[-1])
        deb = os.path.join(directory, debs[0])
    tree = os.path.join(directory, "package")
    subprocess.run(["dpkg-deb", "-x", deb, tree], check=True)
    return os.path.join(tree, "lib/modules", kernel)


def virtiofs_module(directory, kernel):
    path = os.path.join(kernel_package(directory, kernel), "kernel/fs/fuse/virtiofs.ko")
    subprocess.run(["strip", "--strip-debug", path], check=True)  # and the signature
    return path


def libraries(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [w for line in out.splitlines() for w in line.split() if w.startswith("/")]


def initramfs(kernel_dir, directory, init):
    modules = {m: os.path.join(kernel_dir, "modules", m + ".ko") for m in MODULES}
    modules["virtiofs"] = virtiofs_module(directory, os.path.basename(kernel_dir))
    files = [(d, 0o40755, b"") for d in ("dev", "proc", "modules", "usr", "usr/bin", "lib",
                                         "lib64", "lib/x86_64-linux-gnu", "root")]
    files += [("modules/" + m, 0o100644, read(p)) for m, p in modules.items()]
    order = "".join(f"/modules/{m}\n" for m in modules).encode()
    files += [("modules/order", 0o100644, order), ("init", 0o100755, read(init))]
    if shutil.which("git"):
        files += [("usr/bin/git", 0o100755, read(shutil.which("git")))]
        files += [(p.lstrip("/"), 0o100755, read(p)) for p in libraries(shutil.which("git"))]
    return newc(files)


class Machine:
    """Booted once; then a round of vmfiles for every name that it is given."""

    def __init__(self, directory, source, kernel_dir, init, like):
        """like: the words of cove's own QEMU that make its machine what it is."""
        program = next((p for p in VIRTIOFSD if os.path.exists(p)), None)
        if not program:
            raise Missing("virtiofsd: apt-get install -y --no-install-recommends qemu-system-common")
        self.children = []
        try:
            self.boot(program, directory, source, kernel_dir, init, like)
        except BaseException:
            self.close()
            raise

    def boot(self, program, directory, source, kernel_dir, init, like):
        path = lambda n: os.path.join(directory, n)
        with open(path("initrd"), "wb") as f:
            f.write(initramfs(kernel_dir, directory, init))
        self.start([program, "--socket-path=" + path("vfs"), "-o", "source=" + source,
                    "-o", "cache=auto"])
        self.wait_for(path("vfs"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path("port"))
        listener.listen(1)
        mib = like["memory"]
        self.start(["qemu-system-x86_64", "-M", "microvm,memory-backend=ram", "-accel",
                    like["accel"], "-cpu", like["cpu"], "-smp", like["smp"], "-m", f"{mib}M",
                    "-object", f"memory-backend-memfd,id=ram,size={mib}M,share=on",
                    "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                    "-global", "virtio-mmio.force-legacy=false",
                    "-kernel", os.path.join(kernel_dir, "vmlinuz"), "-initrd", path("initrd"),
                    "-append", like["append"], "-serial", "file:" + path("console"),
                    "-chardev", "socket,id=vfs,path=" + path("vfs"),
                    "-device", "vhost-user-fs-device,chardev=vfs,tag=bench",
                    "-device", "virtio-serial-device,max_ports=4",
                    "-chardev", "socket,id=port,path=" + path("port"),
                    "-device", "virtserialport,chardev=port,nr=1"])
        listener.settimeout(120)
        self.port = listener.accept()[0]
        self.port.settimeout(600)
        self.lines = self.port.makefile("r")
        if self.lines.readline() != "ready\n":
            raise RuntimeError("the peer's machine did not start")

    def start(self, argv):
        self.children.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL))

    def wait_for(self, path):
        for _ in range(500):
            if os.path.exists(path):
                return
            time.sleep(0.01)
        raise RuntimeError("virtiofsd did not start")

    def round(self, name):
        self.port.sendall(name.encode() + b"\n")
        out = []
        for line in self.lines:
            if line.startswith("end\t"):
                return "".join(out)
            out.append(line)
        raise RuntimeError("the peer's machine ended")

    def close(self):
        """virtiofsd, which is two processes, ends by itself when its machine has ended."""
        for p in reversed(self.children):
            if p is not self.children[0]:
                p.kill()
            try:
                p.wait(timeout=10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
