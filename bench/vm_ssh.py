# SPDX-License-Identifier: Apache-2.0
"""What one has without cove: the same kernel in QEMU with its user network, Debian's dropbear
in an initramfs, and ssh from the host."""
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time

import vm_peer
import vm_raw

PEERS = "build/peers"  # what tools/setup.sh unpacked
MODULES = ("virtio_ring", "virtio", "virtio_mmio")
NET = ("net/core/failover.ko", "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko")
PATIENCE = 120


def tool(name):
    path = next((p for p in (f"/usr/sbin/{name}", f"/usr/bin/{name}", f"{PEERS}/usr/sbin/{name}",
                             f"{PEERS}/usr/bin/{name}") if os.path.exists(p)), None)
    if not path:
        raise vm_peer.Missing(f"{name}: apt-get install -y --no-install-recommends dropbear-bin")
    return path


def libraries(program):
    """Where it expects them, and where they are."""
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(PEERS + "/usr/lib/x86_64-linux-gnu"))
    out = subprocess.run(["ldd", program], env=env, capture_output=True, text=True, check=True).stdout
    found = [w for line in out.splitlines() for w in line.split() if w.startswith("/")]
    at = lambda p: p if "ld-linux" in p else "/usr/lib/x86_64-linux-gnu/" + os.path.basename(p)
    return {at(p): p for p in found}, env


class Machine:
    def __init__(self, raw):
        self.raw, self.dir = raw, tempfile.mkdtemp(prefix="cove-ssh.")
        try:
            self.make()
        except BaseException:
            self.close()
            raise

    def make(self):
        if not shutil.which("ssh"):
            raise vm_peer.Missing("ssh: apt-get install -y --no-install-recommends openssh-client")
        path = lambda n: os.path.join(self.dir, n)
        libs, env = libraries(tool("dropbear"))
        subprocess.run([tool("dropbearkey"), "-t", "ed25519", "-f", path("hostkey")], env=env,
                       check=True, capture_output=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path("key")], check=True)
        kernel = os.path.dirname(self.raw.kernel)
        tree = vm_peer.kernel_package(self.dir, os.path.basename(kernel))
        modules = [os.path.join(kernel, "modules", m + ".ko") for m in MODULES]
        modules += [os.path.join(tree, "kernel", m) for m in NET]
        for m in modules[len(MODULES):]:
            subprocess.run(["strip", "--strip-debug", m], check=True)
        files = {"/init": self.raw.program("vm_sshd"), "/usr/sbin/dropbear": tool("dropbear"),
                 "/bin/sh": "/bin/sh", "/bin/true": "/bin/true", "/hostkey": path("hostkey"),
                 "/root/.ssh/authorized_keys": path("key.pub"), **libs,
                 **libraries("/bin/sh")[0], **libraries("/bin/true")[0],
                 **{"/modules/" + os.path.basename(m): m for m in modules}}
        text = {"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/shells": "/bin/sh\n",
                "/modules/order": "".join(f"/modules/{os.path.basename(m)}\n" for m in modules)}
        with open(path("initrd"), "wb") as out:
            out.write(archive(files, text))

    def boot_and_run(self):
        """Nanoseconds from nothing to the end of /bin/true over ssh."""
        with socket.socket() as s:  # a port that is free now
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        begin = time.monotonic_ns()
        qemu = subprocess.Popen(
            [vm_raw.QEMU, "-M", "microvm", "-accel", vm_raw.accelerator(self.raw), "-cpu",
             vm_raw.model(self.raw), "-smp", str(self.raw.cpus), "-m", f"{self.raw.memory}M", "-nodefaults",
             "-no-user-config", "-display", "none", "-no-reboot", "-serial", "null",
             "-global", "virtio-mmio.force-legacy=false", "-kernel", self.raw.kernel,
             "-initrd", self.dir + "/initrd", "-append", self.raw.cmdline,
             "-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
             "-device", "virtio-net-device,netdev=n"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while subprocess.run(
                    ["ssh", "-F", "none", "-i", self.dir + "/key", "-p", str(port), "-o", "BatchMode=yes",
                     "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                     "-o", "LogLevel=ERROR", "root@127.0.0.1", "/bin/true"],
                    stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE).returncode:
                if time.monotonic_ns() - begin > PATIENCE * 1e9 or qemu.poll() is not None:
                    raise RuntimeError("the machine with dropbear does not answer")
                time.sleep(0.02)
            return time.monotonic_ns() - begin
        finally:
            qemu.kill()
            qemu.wait()

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def archive(files, text):
    """An initramfs of files (name: where it is) and texts (name: what is in it)."""
    names = list(files) + list(text)
    dirs = sorted({d for n in names for d in vm_raw.above(n)} | {"/dev", "/proc"})
    out = b"".join(vm_raw.member(d.lstrip("/"), stat.S_IFDIR | 0o700 if d.startswith("/root")
                                 else stat.S_IFDIR | 0o755, b"") for d in dirs)
    for n in names:
        data = text[n].encode() if n in text else vm_peer.read(files[n])
        mode = 0o600 if n.startswith(("/root/", "/hostkey")) else 0o755
        out += vm_raw.member(n.lstrip("/"), stat.S_IFREG | mode, data)
    return out + vm_raw.member("TRAILER!!!", 0, b"")
