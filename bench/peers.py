# SPDX-License-Identifier: Apache-2.0
"""The commands that start-up is measured with: cove, the floor, and every peer found here."""
import json
import os
import shutil
import subprocess

HYBRID = "/sys/fs/cgroup/unified"  # crun and podman refuse a host with v1 and v2 controllers
CACHE = os.path.expanduser("~/.cache/cove-bench")
NPM = {"srt": "@anthropic-ai/sandbox-runtime", "codex": "@openai/codex"}


class Peer:
    def __init__(self, name, argv=None, missing=None, oci=False, version=None):
        self.name, self.argv, self.missing = name, argv, missing
        self.oci = oci  # a container runtime: leaves cgroups to remove, refuses hybrid hosts
        self.version = version


def first_line(argv):
    try:
        r = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        return (r.stdout or r.stderr).strip().splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "?"


def hybrid_host():
    return os.path.ismount(HYBRID)


class QuietNamespace:
    """A mount namespace without the v2 tree, held open by a sleeping process."""

    def __init__(self):
        self.proc = self.path = None
        if os.getuid() != 0 or not hybrid_host():
            return
        self.proc = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c",
             f"umount {HYBRID} && echo ok && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.proc.stdout.readline().strip() == "ok":
            self.path = f"/proc/{self.proc.pid}/ns/mnt"

    def close(self):
        if self.proc:
            self.proc.kill()
            self.proc.wait()


def install_npm():
    """Into a cache outside the repository; returns the directory of the programs, or None."""
    bins = os.path.join(CACHE, "node_modules", ".bin")
    if all(os.path.exists(os.path.join(bins, n)) for n in NPM):
        return bins
    if not shutil.which("npm"):
        return None
    os.makedirs(CACHE, exist_ok=True)
    print("bench: npm install into " + CACHE, flush=True)
    try:
        subprocess.run(["npm", "install", "--no-fund", "--no-audit", "--prefix", CACHE,
                        *NPM.values()], capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        pass
    return bins if os.path.isdir(bins) else None


def npm_for(who, bins):
    """The cache as this user sees it: root's own home is closed to others."""
    if not bins or who.uid == os.getuid():
        return bins
    dst = os.path.join(who.base, "npm")
    if not os.path.exists(dst):
        src = os.path.dirname(os.path.dirname(bins))
        if subprocess.run(["cp", "-al", src, dst], capture_output=True).returncode != 0:
            subprocess.run(["cp", "-a", src, dst], capture_output=True)
    return os.path.join(dst, "node_modules", ".bin")


def rootfs(who):
    """A directory that holds /bin/true and what it needs, for the OCI runtimes."""
    root = os.path.join(who.base, "rootfs")
    if os.path.isdir(root):
        return root
    for d in ("bin", "proc", "dev", "sys", "etc", "tmp", "run"):
        os.makedirs(os.path.join(root, d))
    shutil.copy2("/bin/true", os.path.join(root, "bin"))
    libs = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True).stdout
    for word in libs.split():
        if word.startswith("/"):
            dst = root + word
            os.makedirs(os.path.dirname(dst), exist_ok=True)
            shutil.copy2(word, dst)
    who.own()
    return root


def crun_bundle(who):
    """An OCI bundle with the namespaces of crun's own default, on the rootfs above."""
    bundle = os.path.join(who.base, "bundle")
    if os.path.isdir(bundle):
        return bundle
    os.makedirs(bundle)
    subprocess.run(["crun", "spec"] + ([] if who.uid == 0 else ["--rootless"]), cwd=bundle,
                   capture_output=True)
    path = os.path.join(bundle, "config.json")
    with open(path) as f:
        c = json.load(f)
    c["root"] = {"path": rootfs(who), "readonly": True}
    c["process"]["args"] = ["/bin/true"]
    c["process"]["terminal"] = False
    c["process"].pop("rlimits", None)  # raising one needs CAP_SYS_RESOURCE
    if who.uid != 0:
        for kind, outside in (("uidMappings", who.uid), ("gidMappings", who.gid)):
            c["linux"][kind] = [{"containerID": 0, "hostID": outside, "size": 1}]
        c["mounts"] = [m for m in c["mounts"] if m["destination"] != "/sys/fs/cgroup"]
        c["linux"].pop("resources", None)
    with open(path, "w") as f:
        json.dump(c, f)
    return bundle


def oci_peers(who):
    crun = shutil.which("crun")
    if crun:
        argv = [crun, "--root", os.path.join(who.base, "crun")]
        argv += [] if who.uid == 0 else ["--rootless=true", "--cgroup-manager=disabled"]
        yield Peer("crun run", argv + ["run", "--bundle", crun_bundle(who), "cove-bench"],
                   oci=True, version=first_line([crun, "--version"]))
    else:
        yield Peer("crun run", missing="crun")
    podman = shutil.which("podman")
    if podman:
        store = os.path.join(who.base, "podman")
        yield Peer("podman run --rootfs", [
            podman, "--root", store, "--runroot", store + "-run", "--cgroup-manager=cgroupfs",
            "--events-backend=none", "run", "--rm", "--network", "none",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
            "--rootfs", rootfs(who), "/bin/true"],
            oci=True, version=first_line([podman, "--version"]))
    else:
        yield Peer("podman run --rootfs", missing="podman")


def npm_peers(who, bins):
    bins = npm_for(who, bins)
    for name, argv in (("srt", ["/bin/true"]), ("codex", ["sandbox", "--", "/bin/true"])):
        path = bins and os.path.join(bins, name)
        label = "srt (sandbox-runtime)" if name == "srt" else "codex sandbox"
        if path and os.path.exists(path):
            yield Peer(label, [path] + argv, version=first_line([path, "--version"]))
        else:
            yield Peer(label, missing=f"npm {NPM[name]}")


def simple_peers():
    table = (
        ("bwrap --ro-bind / /", "bwrap", "bubblewrap",
         ["--unshare-all", "--ro-bind", "/", "/", "/bin/true"], "--version"),
        ("bwrap, with /proc /dev /tmp", "bwrap", "bubblewrap",
         ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs",
          "/tmp", "/bin/true"], "--version"),
        ("unshare, 7 namespaces", "unshare", "util-linux",
         ["-U", "-r", "-m", "-p", "-n", "-i", "-f", "-u", "--mount-proc", "/bin/true"],
         "--version"),
        ("firejail --noprofile", "firejail", "firejail",
         ["--quiet", "--noprofile", "/bin/true"], "--version"),
    )
    for label, program, package, argv, version in table:
        path = shutil.which(program)
        yield (Peer(label, [path] + argv, version=first_line([path, version])) if path
               else Peer(label, missing=package))


def all_peers(who, bins):
    """Every case, cove and the floor first."""
    etc = os.path.join(who.base, "etc")
    if not os.path.isdir(etc):
        os.makedirs(etc)
        for f in ("ld.so.cache", "passwd", "group", "hosts", "nsswitch.conf"):
            if os.path.exists("/etc/" + f):
                shutil.copy2("/etc/" + f, etc)
    floor = [who.program("floor"), who.state, etc, "/bin/true"]
    yield Peer("cove run", [who.cove, "run", "--net", "none", "--", "/bin/true"],
               version=first_line([who.cove, "version"]))
    yield Peer("cove run --no-mounts",
               [who.cove, "run", "--net", "none", "--no-mounts", "--", "/bin/true"])
    yield Peer("floor", floor)
    yield Peer("floor, with init", floor[:1] + ["-i", who.program("floor_init")] + floor[1:])
    yield Peer("/bin/true, bare", ["/bin/true"])
    yield from simple_peers()
    yield from oci_peers(who)
    yield from npm_peers(who, bins)
