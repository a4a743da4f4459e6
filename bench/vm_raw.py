# SPDX-License-Identifier: Apache-2.0
"""The plainest machines to compare with: QEMU, cove's kernel and modules, an /init that only
answers (bench/vm_agent.c); booted, saved, and cloned as research/vm.md C2 has it: memory in a
file that is mapped privately, the devices' state by QMP."""
import glob
import json
import os
import socket
import stat
import subprocess
import tempfile
import time

QEMU = "/usr/bin/qemu-system-x86_64"
TIMEOUT = 120


def member(name, mode, data):
    """One file of a cpio archive, as the kernel unpacks it."""
    head = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    out = b"070701" + b"".join(b"%08x" % x for x in head) + name.encode() + b"\0"
    out += b"\0" * (-len(out) % 4) + data
    return out + b"\0" * (-len(data) % 4)


def with_libraries(program):
    """A program of the host's and what it is linked with, where it looks for them."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [program] + [w for line in out.splitlines() for w in line.split() if w.startswith("/")]
    ways = {d for p in paths for d in above(p)}
    text = b"".join(member(d.lstrip("/"), stat.S_IFDIR | 0o755, b"") for d in sorted(ways))
    for path in paths:
        with open(path, "rb") as f:
            text += member(path.lstrip("/"), stat.S_IFREG | 0o755, f.read())
    return text


def above(path):
    while (path := os.path.dirname(path)) != "/":
        yield path


class Raw:
    """What all plain machines share: a kernel, an initramfs, a command line, a template."""

    def __init__(self, kernels, program, cmdline, cpus, memory_mib):
        self.program, agent = program, program("vm_agent")
        self.dir = tempfile.mkdtemp(prefix="cove-raw.")
        kernel = os.path.realpath(os.path.join(kernels, "default"))
        self.kernel = os.path.join(kernel, "vmlinuz")
        own = max(glob.glob(os.path.join(kernel, "initramfs.*")), key=os.path.getmtime)
        with open(own, "rb") as f, open(agent, "rb") as a, \
                open(os.path.join(self.dir, "initrd"), "wb") as out:
            text = f.read()
            # A second archive: its /init takes the place of cove-guest.
            out.write(text + b"\0" * (-len(text) % 512) +
                      member("init", stat.S_IFREG | 0o755, a.read()) + with_libraries("/bin/true") +
                      member("TRAILER!!!", 0, b""))
        self.cmdline, self.cpus, self.memory = cmdline, cpus, memory_mib

    def machine(self, share=None, incoming=False):
        return Machine(self, share, incoming)

    def save(self):
        """Boots one and keeps it as a template."""
        m = self.machine(share="on")
        try:
            m.expect(b"R")
            with open(os.path.join(self.dir, "state"), "wb") as f:
                m.command("qmp_capabilities")
                m.ignore_shared()
                m.pass_fd("state", f.fileno())
                m.command("migrate", uri="fd:state")
                until = time.monotonic() + TIMEOUT
                while m.command("query-migrate").get("status") != "completed":
                    if time.monotonic() > until:
                        raise RuntimeError("QEMU does not save its state")
                    time.sleep(0.01)
        finally:
            m.end()

    def clone(self):
        """A machine that goes on where the template was."""
        m = self.machine(share="off", incoming=True)
        with open(os.path.join(self.dir, "state"), "rb") as f:
            m.command("qmp_capabilities")
            m.ignore_shared()
            m.pass_fd("state", f.fileno())
            m.command("migrate-incoming", uri="fd:state")
        return m

    def close(self):
        subprocess.run(["rm", "-rf", self.dir], check=False)


class Machine:
    def __init__(self, raw, share, incoming):
        ours, port = socket.socketpair()
        self.qmp, qmp = socket.socketpair()
        self.port, self.lines, self.answers = ours, b"", 0
        for s in (self.port, self.qmp):
            s.settimeout(TIMEOUT)
        memory = (f"memory-backend-file,id=ram,size={raw.memory}M,mem-path={raw.dir}/ram,share={share}"
                  if share else f"memory-backend-ram,id=ram,size={raw.memory}M")
        argv = [QEMU, "-M", "microvm,memory-backend=ram", "-accel", accelerator(raw), "-cpu", model(raw),
                "-smp", str(raw.cpus), "-m", f"{raw.memory}M", "-object", memory, "-nodefaults",
                "-no-user-config", "-display", "none", "-no-reboot", "-serial", "null",
                "-global", "virtio-mmio.force-legacy=false",
                "-chardev", f"socket,id=qmp,fd={qmp.fileno()}", "-mon", "chardev=qmp,mode=control",
                "-device", "virtio-serial-device", "-chardev", f"socket,id=a,fd={port.fileno()}",
                "-device", "virtserialport,chardev=a,nr=1"]
        if incoming:
            argv += ["-incoming", "defer"]
        else:
            argv += ["-kernel", raw.kernel, "-initrd", raw.dir + "/initrd", "-append", raw.cmdline]
        self.process = subprocess.Popen(argv, pass_fds=(qmp.fileno(), port.fileno()),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        port.close()
        qmp.close()

    def send(self, name, arguments, fd=None):
        text = json.dumps({"execute": name, "arguments": arguments}).encode()
        if fd is None:
            self.qmp.sendall(text)
        else:
            socket.send_fds(self.qmp, [text], [fd])

    def command(self, name, **arguments):
        self.send(name, arguments)
        return self.answer()

    def pass_fd(self, name, fd):
        self.send("getfd", {"fdname": name}, fd)
        return self.answer()

    def answer(self):
        while True:
            while b"\n" not in self.lines:
                got = self.qmp.recv(65536)
                if not got:
                    raise RuntimeError("QEMU has ended")
                self.lines += got
            line, self.lines = self.lines.split(b"\n", 1)
            o = json.loads(line)
            if "error" in o:
                raise RuntimeError("QEMU: " + o["error"].get("desc", ""))
            if "return" in o:
                return o["return"]

    def ignore_shared(self):
        self.command("migrate-set-capabilities",
                     capabilities=[{"capability": "x-ignore-shared", "state": True}])

    def expect(self, byte):
        if self.port.recv(1) != byte:
            raise RuntimeError("the plain machine gave another answer")

    def ask(self, byte):
        self.port.sendall(byte)
        self.expect(byte)

    def stream(self, byte, size):
        """Seconds that it takes the machine to send so many bytes."""
        begin = time.monotonic()
        self.port.sendall(byte)
        while size > 0:
            size -= len(self.port.recv(1 << 20))
        return time.monotonic() - begin

    def end(self):
        self.process.kill()
        self.process.wait()
        self.port.close()
        self.qmp.close()


def accelerator(raw):
    return "tcg,thread=multi" if "tsc_early_khz" in raw.cmdline else "kvm"


def model(raw):
    return "max,-erms,-la57" if "tsc_early_khz" in raw.cmdline else "host"
