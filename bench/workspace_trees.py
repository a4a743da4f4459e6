# SPDX-License-Identifier: Apache-2.0
"""Trees to measure on, and the places that show one: plain, kernel overlays, fuse, cove."""
import contextlib
import os
import shutil
import subprocess

from place import Who
from sandboxes import must

WORDS = b"int main(void) { return call(argument, other); } /* some words of source text */\n"


@contextlib.contextmanager
def fresh_disk(places, opts, topic):
    """Somebody whose files lie on an ext4 file system made for this, if that is possible.

    On one in use, ext4 passes over every inode that was freed in the last minutes: after a
    large rm -rf, creating a file takes ten times as long, whoever creates it.
    """
    image, top = (os.path.join(places.base, topic + end) for end in (".img", ""))
    os.makedirs(top)
    with open(image, "wb") as f:
        f.truncate(24 << 30)
    made = os.getuid() == 0 and all(
        subprocess.run(argv, capture_output=True).returncode == 0
        for argv in (["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, top]))
    try:
        who = places.main
        if made:
            os.chmod(top, 0o755)
            who = Who(who.name, who.uid, who.gid, os.path.join(top, "main"),
                      os.path.join(places.runtime, topic), opts.programs, os.environ["COVE"])
        yield who, ("The files lie on an ext4 file system made for this run (a loop device on "
                    "the disk)." if made else "The files lie on the disk as it was.")
    finally:
        if made:
            who.run([who.cove, "rm", "--force", "--all", "--yes"])
            subprocess.run(["umount", top], capture_output=True)
        os.unlink(image)


def make_tree(top, files, per_dir=100, owner=None):
    """Small files as source has them (0.1 to 4 KiB), per_dir in each directory."""
    os.makedirs(top)
    for d in range((files + per_dir - 1) // per_dir):
        path = os.path.join(top, f"dir{d % 10}", f"part{d}")
        os.makedirs(path)
        for i in range(min(per_dir, files - d * per_dir)):
            n = 100 + (i * 7919 + d * 104729) % 4000
            with open(os.path.join(path, f"file{i}.c"), "wb") as f:
                f.write((b"/* %d %d */\n" % (d, i) + WORDS * (n // len(WORDS) + 1))[:n])
    if owner:
        for d, dirs, names in os.walk(top):
            for p in [d] + [os.path.join(d, n) for n in names]:
                os.chown(p, *owner, follow_symlinks=False)


def make_repository(who, top):
    """The tree as a git work tree with an index, if git is there."""
    if not shutil.which("git"):
        return False
    env = dict(who.env(), GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    for words in (["init", "-q"], ["config", "gc.auto", "0"], ["add", "-A"],
                  ["-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-qm", "all"]):
        must(subprocess.run(["git", "-C", top] + words, env=env, capture_output=True, text=True),
             "git " + words[0])
    return True


class Plain:
    """A copy of the tree, without any layer."""
    name = "plain"
    why = None

    def __init__(self, who, base, lower):
        self.who, self.lower = who, lower
        self.dir = os.path.join(base, "plain")

    def begin(self):
        self.end()
        must(self.who.run(["cp", "-a", self.lower, self.dir]), "cp")

    def command(self, script):
        return ["env", "-C", self.dir, "sh", "-c", script]

    def end(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class Overlay:
    """A mount of our own in a mount namespace that a sleeping process holds."""
    why = None

    def __init__(self, name, who, base, lower, mount):
        self.name, self.who, self.lower, self.mount = name, who, lower, mount
        self.base = os.path.join(base, "".join(c for c in name if c.isalnum()))
        self.proc = None

    def begin(self):
        self.end()
        up, work, view = (os.path.join(self.base, d) for d in ("upper", "work", "view"))
        for d in (up, work, view):
            os.makedirs(d)
        self.dir = view
        words = f"lowerdir={self.lower},upperdir={up},workdir={work}"
        self.proc = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec",
             self.mount.format(options=words, view=view) + "\necho ok\nexec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.proc.stdout.readline().strip() != "ok":
            self.why = (self.proc.stderr.read().strip().splitlines() or ["mount failed"])[-1]
            self.end()

    def command(self, script):
        return ["nsenter", f"--mount=/proc/{self.proc.pid}/ns/mnt", "env", "-C", self.dir,
                "sh", "-c", script]

    def end(self):
        if self.proc:
            # A fuse server lives as long as its mount.
            subprocess.run(["nsenter", f"--mount=/proc/{self.proc.pid}/ns/mnt", "umount",
                            self.dir], capture_output=True)
            self.proc.kill()
            self.proc.wait()
            self.proc = None
        shutil.rmtree(self.base, ignore_errors=True)


class Cove:
    """A running sandbox with the tree as its overlay."""
    name = "cove"
    why = None

    def __init__(self, who, lower):
        self.who, self.dir, self.box = who, lower, "bench-files"

    def begin(self):
        self.end()
        must(self.who.run([self.who.cove, "create", self.box, self.dir, "--net", "none"]),
             "cove create")
        must(self.who.run([self.who.cove, "start", self.box]), "cove start")

    def command(self, script):
        return [self.who.cove, "exec", "--workdir", self.dir, self.box, "--", "sh", "-c", script]

    def end(self):
        self.who.run([self.who.cove, "rm", "--force", "--yes", self.box])


def all_places(who, base, lower):
    """Those that this host can have; why is set on the others."""
    fuse = Overlay("fuse-overlayfs", who, base, lower, "fuse-overlayfs -o {options} {view}")
    if not shutil.which("fuse-overlayfs"):
        fuse.why = "not installed: fuse-overlayfs"
    elif not os.path.exists("/dev/fuse"):
        fuse.why = "no /dev/fuse"
    bare = "mount -t overlay overlay -o {options}%s {view}"
    return [Cove(who, lower),
            Overlay("overlayfs, volatile", who, base, lower, bare % ",userxattr,volatile"),
            Overlay("overlayfs, default options", who, base, lower, bare % ""),
            fuse, Plain(who, base, lower)]
