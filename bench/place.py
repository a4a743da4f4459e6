# SPDX-License-Identifier: Apache-2.0
"""Who runs a benchmark and where: a scratch directory on disk, a user, an environment."""
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


class Who:
    """One identity with its own scratch tree; every command runs in a clean environment."""

    def __init__(self, name, uid, gid, base, runtime, programs, cove):
        self.name, self.uid, self.gid, self.base = name, uid, gid, base
        self.home = os.path.join(base, "home")
        self.work = os.path.join(base, "work")  # the directory that sandboxes are run on
        self.state = os.path.join(base, "state")
        self.runtime = runtime  # in memory, as a login session has it
        self.bin = os.path.join(base, "bin")  # copies: the build may lie where only root can look
        for d in (self.home, self.work, self.state, self.bin, runtime):
            os.makedirs(d, mode=0o700)
        for f in os.listdir(programs):
            shutil.copy2(os.path.join(programs, f), self.bin)
        for f in os.listdir(os.path.dirname(cove)):  # cove and the programs that it starts
            src = os.path.join(os.path.dirname(cove), f)
            if f.startswith("cove") and os.path.isfile(src):
                shutil.copy2(src, self.bin)
        self.cove = os.path.join(self.bin, os.path.basename(cove))
        for i in range(20):
            with open(os.path.join(self.work, f"file{i}.txt"), "w") as f:
                f.write("some text\n" * 100)
        shutil.copy2(os.path.join(self.bin, "syscalls"), self.work)
        self.own()

    def own(self):
        """Everything below the scratch directory belongs to this user."""
        if os.getuid() != 0 or self.uid == 0:
            return
        for top in (self.base, self.runtime):
            for d, _, files in os.walk(top):
                for p in [d] + [os.path.join(d, f) for f in files]:
                    os.chown(p, self.uid, self.gid, follow_symlinks=False)

    def program(self, name):
        return os.path.join(self.bin, name)

    def env(self):
        keep = {k: os.environ[k] for k in ("PATH", "LANG", "LC_ALL", "COVE_KERNEL_ARGS") if k in os.environ}
        return dict(keep, HOME=self.home, USER=self.name, TERM="dumb",
                    XDG_RUNTIME_DIR=self.runtime)

    def run(self, argv, timeout=60, enter=None, cwd=None, **kw):
        """Runs argv as this user; enter: a mount namespace to run it in."""
        if enter:
            drop = [] if self.uid == os.getuid() else [
                "setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
            argv = ["nsenter", f"--mount={enter}", "env", "-C", cwd or self.work] + drop + argv
        elif self.uid != os.getuid():
            kw.update(user=self.uid, group=self.gid, extra_groups=[])
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(argv, cwd=cwd or self.work, env=self.env(), timeout=timeout,
                              capture_output=True, text=True, **kw)


def end_processes(uid):
    """What a peer left running (podman's pause process) as the user that is about to go."""
    for _ in range(20):
        left = [int(p) for p in os.listdir("/proc")
                if p.isdigit() and stat_uid(f"/proc/{p}") == uid]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not left:
            return
        time.sleep(0.05)


def stat_uid(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


class Places:
    """The scratch trees of one benchmark run; close() removes all of it."""

    def __init__(self, programs, cove, want_user=True):
        self.base = tempfile.mkdtemp(prefix="cove-bench-", dir="/var/tmp")
        self.runtime = tempfile.mkdtemp(prefix="cove-bench-", dir="/dev/shm")
        for d in (self.base, self.runtime):
            os.chmod(d, 0o755)
        self.temp_user = None
        self.podman_lock = "/dev/shm/libpod_lock"
        self.keep_lock = os.path.exists(self.podman_lock)
        me = pwd.getpwuid(os.getuid()).pw_name
        self.main = Who(me, os.getuid(), os.getgid(), os.path.join(self.base, "main"),
                        os.path.join(self.runtime, "main"), programs, cove)
        self.user = None
        if os.getuid() == 0 and want_user:
            self.user = self.make_user(programs, cove)

    def make_user(self, programs, cove):
        name = f"cove-bench-{os.getpid()}"
        if not shutil.which("useradd"):
            return None
        r = subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", "--home-dir",
                            os.path.join(self.base, "user", "home"), name],
                           capture_output=True, text=True)
        if r.returncode != 0:
            return None
        self.temp_user = name
        p = pwd.getpwnam(name)
        return Who(name, p.pw_uid, p.pw_gid, os.path.join(self.base, "user"),
                   os.path.join(self.runtime, "user"), programs, cove)

    def close(self):
        for who in filter(None, (self.main, self.user)):
            try:
                who.run([who.cove, "kill", "--all"], timeout=30)
                who.run([who.cove, "rm", "--force", "--all", "--yes"], timeout=60)
            except (OSError, subprocess.SubprocessError):
                pass
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)
        if not self.keep_lock and os.path.exists(self.podman_lock):
            os.unlink(self.podman_lock)
        if self.temp_user:
            end_processes(self.user.uid)
            subprocess.run(["userdel", self.temp_user], capture_output=True)
            lock = f"/dev/shm/libpod_rootless_lock_{self.user.uid}"
            if os.path.exists(lock):
                os.unlink(lock)
