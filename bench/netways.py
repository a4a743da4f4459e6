# SPDX-License-Identifier: Apache-2.0
"""Ways from a sandbox's network to a server on the host's loopback: a shell behind each."""
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import time

import report

COVE, DIRECT = "cove", "direct"
TAP, SPLICED, SLIRP = "pasta, tap", "pasta, spliced (-T)", "slirp4netns"
HOST = "host.cove.internal"
PEERS = "build/peers"  # what tools/setup.sh unpacks instead of installing it
OTHER_RULES = 100


def find_program(name):
    """A program that is installed, or that was unpacked for this benchmark."""
    places = [os.path.join(PEERS, "usr", d, name) for d in ("bin", "sbin")]
    found = shutil.which(name) or next((p for p in places if os.access(p, os.X_OK)), None)
    return found and os.path.abspath(found)


def free_ports(n):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def popen(who, argv, **kw):
    if who.uid != os.getuid():
        kw.update(user=who.uid, group=who.gid, extra_groups=[])
    env = who.env()
    libs = os.path.join(who.base, "peers")
    if os.path.isdir(libs):
        env["LD_LIBRARY_PATH"] = libs
    return subprocess.Popen(argv, cwd=who.work, env=env, stderr=subprocess.DEVNULL, **kw)


def bring(who, name):
    """A peer's program where this user can run it, with the libraries unpacked beside it."""
    path = find_program(name)
    if not path or not path.startswith(os.path.abspath(PEERS)):
        return path
    dst = os.path.join(who.base, "peers")
    os.makedirs(dst, exist_ok=True)
    os.chmod(dst, 0o755)
    for d, _, files in os.walk(os.path.join(PEERS, "usr", "lib")):
        for f in files:
            if ".so" in f and os.path.isfile(os.path.join(d, f)):
                shutil.copy2(os.path.join(d, f), dst)
    return shutil.copy2(path, dst)


def stop(proc):
    if proc and proc.poll() is None:
        proc.send_signal(signal.SIGTERM)
        try:
            proc.wait(10)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()


def wait_listening(port, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nothing listens on port {port}")


class Way:
    """A shell in one network: gets a line, answers with a line of JSON."""

    def __init__(self, who, name, host, argv, beside=None):
        self.who, self.name, self.host, self.why = who, name, host, None
        self.shell = self.helper = None
        if not argv:
            self.why = "not installed"
            return
        self.shell = popen(who, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rest = b""
        if beside:
            self.helper = popen(who, beside + [str(self.shell.pid), "tap0"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def line(self, text, timeout=60):
        self.shell.stdin.write(text.encode() + b"\n")
        self.shell.stdin.flush()
        return self.read(timeout)

    def read(self, timeout=60):
        end = time.monotonic() + timeout
        while b"\n" not in self.rest:
            if not select.select([self.shell.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"{self.name}: no answer in {timeout} s")
            more = os.read(self.shell.stdout.fileno(), 65536)
            if not more:
                raise RuntimeError(f"{self.name}: ended")
            self.rest += more
        first, self.rest = self.rest.split(b"\n", 1)
        return first.decode()

    def ask(self, command, timeout=120):
        """Runs a load program; the numbers that it printed."""
        answer = self.line(f"{command} 2>/dev/null || echo '{{}}'", timeout)
        return next(iter(json.loads(answer).values()), None)

    def ready(self, port):
        """Leaves it with a reason if not even one connection gets through."""
        if self.why:
            return False
        try:
            for _ in range(50):
                got = self.ask(f"./netload connect {self.host} {port} 1", 10)
                if got and got["n"] == 1:
                    # Where the user may: a closed connection's port is free for the next one.
                    self.line("echo 1 2>/dev/null >/proc/sys/net/ipv4/tcp_tw_reuse; echo", 10)
                    return True
                time.sleep(0.1)
            self.why = "no connection gets through here"
        except (RuntimeError, OSError) as e:
            self.why = str(e)
        return False

    def close(self):
        stop(self.helper)
        if self.shell:
            self.shell.stdin.close()
            try:
                self.shell.wait(10)
            except subprocess.TimeoutExpired:
                pass
            stop(self.shell)
            self.shell.stdout.close()


def gateway():
    """Where pasta's tap finds the host: the address of the default route."""
    with open("/proc/net/route") as f:
        for words in (line.split() for line in f):
            if words[1:2] == ["00000000"] and words[2] != "00000000":
                return socket.inet_ntoa(struct.pack("=I", int(words[2], 16)))
    return None


def spec(who, name, text):
    path = os.path.join(who.base, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return path


def rules(own):
    """The policy of the benchmark: so many others first, then those that decide."""
    lines = ["network:", "  mode: allowlist", "  rules:"]
    lines += [f"    - {{id: other{i}, host: h{i}.example.com, port: 443}}"
              for i in range(OTHER_RULES)]
    return "\n".join(lines + [f"    - {r}" for r in own]) + "\n"


def cove_way(who, path, name=COVE):
    return Way(who, name, HOST, [who.cove, "run", "-q", "--rm", "-i", "--spec", path, "--", "sh"])


def peers(who, ports):
    """The peers; ports: way -> the ports on the host's loopback that it must reach."""
    pasta, slirp = bring(who, "pasta"), bring(who, "slirp4netns")
    via = gateway()
    none = ["-t", "none", "-u", "none", "-U", "none"]
    shell = ["--", "sh"]
    tap = pasta and via and [pasta, "-f", "-q", "--config-net", "-T", "none"] + none + shell
    spliced = pasta and via and [pasta, "-f", "-q", "--config-net", "-T",
                                 ",".join(map(str, ports[SPLICED]))] + none + shell
    yield Way(who, TAP, via, tap)
    yield Way(who, SPLICED, "127.0.0.1", spliced)
    yield Way(who, SLIRP, "10.0.2.2", slirp and ["unshare", "-Urn", "sh"],
              beside=slirp and [slirp, "--configure", "--mtu=65520"])


def measure(cases, rounds):
    """cases: (way, measure, command, key); interleaved; medians and the errors seen."""
    seen, errors, order = {}, {}, random.Random(7)
    for _ in range(rounds):
        for way, what, command, key in order.sample(cases, len(cases)):
            got = way.ask(command)
            if not got:
                raise RuntimeError(f"{way.name}: {what}: the client failed")
            row = key or way.name
            if got["errors"]:
                errors[(what, row)] = errors.get((what, row), 0) + got["errors"]
                if "gbit" in got:
                    continue  # it broke off
            value = got.get("p50_us", got.get("per_second", got.get("gbit")))
            seen.setdefault((what, row), []).append(value)
    return {k: report.median(v) for k, v in seen.items()}, errors


def error_note(errors):
    if not errors:
        return "No connection and no request failed."
    return "Failed: " + "; ".join(f"{row}, {what}: {n}" for (what, row), n in errors.items()) + "."
