# SPDX-License-Identifier: Apache-2.0
"""Diff, apply, snapshot and clone: what they cost, and that the cost follows the changes."""
import os
import shutil
import time

import report
import workspace_trees as trees
from sandboxes import down, must, result, stat_row

CHANGES = 100
MANY = 10000


def box_on(who, name, top, script):
    """A stopped sandbox in which script was run on top."""
    must(who.run([who.cove, "create", name, top, "--net", "none"]), "cove create")
    must(who.run([who.cove, "run", "-q", name, "--", "sh", "-ec", script], timeout=300, cwd=top),
         "cove run")
    must(who.run([who.cove, "stop", name]), "cove stop")


def clock(who, argv, **kw):
    start = time.monotonic_ns()
    r = who.run(argv, timeout=600, **kw)
    ns = time.monotonic_ns() - start
    must(r, " ".join(argv[:4]))
    return ns


def run_diff(places, opts):
    """100 changes in a large and in a small tree."""
    runs = 20 if opts.quick else 100
    sizes = (20000, 2000) if opts.quick else (200000, 2000)
    print(f"bench: diff of {CHANGES} changes in trees of {sizes[0]} and {sizes[1]} files",
          flush=True)
    with trees.fresh_disk(places, opts, "diff") as (who, note):
        cases = [diff_case(who, n, runs) for n in sizes]
        text = "\n".join("\t".join(c) for c in cases) + "\n"
        out = report.parse_samples(must(who.run([who.program("timeit"), str(runs)], timeout=600,
                                                stdin=None, input=text), "timeit").stdout)
    s = {k: report.summary(v["ns"]) for k, v in out.items()}
    large, small = (s[str(n)] for n in sizes)
    ratio = large["p50_ms"] / small["p50_ms"]
    return result(f"cove diff --name-only of {CHANGES} changes",
                  ["files in the tree", "runs", "min ms", "p50 ms", "p90 ms", ""],
                  [stat_row(str(n), s[str(n)]) for n in sizes],
                  [report.bar(f"diff of {CHANGES} changes in {sizes[0]} files", large["p50_ms"],
                              30, " ms"),
                   report.bar(f"the same, {sizes[0]} files / {sizes[1]} files", ratio, 1.2)],
                  s, ["The sandbox is stopped; the whole command is timed. Each change is in a "
                      "directory of its own.", note])


def diff_case(who, n, runs):
    """A sandbox on a tree of n files with a hundred changes, and how to time its diff."""
    top, box = os.path.join(who.base, f"tree{n}"), f"bench-diff{n}"
    trees.make_tree(top, n, per_dir=max(20, n // 2000))
    who.own()
    box_on(who, box, top,
           f"find . -name '*.c' | sed -n '0~{n // CHANGES}p' | head -n {CHANGES} | "
           "while read -r f; do echo more >>\"$f\"; done")
    got = must(who.run([who.cove, "diff", "--name-only", box]), "cove diff")
    if len(got.stdout.splitlines()) != CHANGES:
        raise RuntimeError(f"diff lists {len(got.stdout.splitlines())} paths")
    return [str(n), str(runs), "0", "-", who.cove, "diff", "--name-only", box]


class Land:
    """The same sandbox several times, with count new files in each.

    Nothing is removed before everything that creates files was timed: ext4 passes over inodes
    that were freed in the last minutes, and creating files then costs several times as much.
    """

    def __init__(self, who, base, count, rounds):
        self.who, self.base, self.count, self.seen = who, base, count, {}
        self.rounds = range(rounds)
        for i in self.rounds:
            os.makedirs(self.top(i))
            shutil.copy(os.path.join(base, "files.tar"), self.top(i))
        who.own()
        for i in self.rounds:
            box_on(who, self.box(i), self.top(i), "mkdir new && tar xf files.tar -C new")

    def box(self, i):
        return f"bench-land{i}"

    def top(self, i):
        return os.path.join(self.base, f"project{i}")

    def copy(self, i, kind):
        return os.path.join(self.base, f"{kind}{i}")

    def time(self, what, argv):
        os.sync()
        self.seen.setdefault(what, []).append(clock(self.who, argv))

    def cove(self, what, *words):
        self.time(what, [self.who.cove, what, "-q", *words])

    def run(self):
        for i in self.rounds:
            self.cove("snapshot", self.box(i), "one")
            self.cove("clone", self.box(i), f"bench-copy{i}")
        for i in self.rounds:
            new = os.path.join(self.top(i), "new")
            self.cove("apply", "--yes", self.box(i))
            landed = sum(len(f) for _, _, f in os.walk(new))
            if landed != self.count:
                raise RuntimeError(f"apply landed {landed} of {self.count} files")
            self.time("cp -a", ["cp", "-a", new, self.copy(i, "copy")])
            self.time("cp -a, then sync", ["sh", "-c", 'cp -a "$0" "$1" && sync -f "$1"', new,
                                           self.copy(i, "synced")])
            self.cove("scan", self.copy(i, "copy"))
        for i in self.rounds:
            self.cove("undo", "--yes", self.box(i))
            self.cove("restore", "--yes", self.box(i), "one")

    def end(self):
        for i in self.rounds:
            down(self.who, self.box(i))
            down(self.who, f"bench-copy{i}")
        shutil.rmtree(self.base, ignore_errors=True)


def run_land(places, opts):
    """Many small files: snapshot, clone, restore, apply, undo, beside cp -a of them."""
    count, rounds = (1000, 2) if opts.quick else (MANY, 5)
    print(f"bench: apply, snapshot and clone with {count} changed files", flush=True)
    with trees.fresh_disk(places, opts, "land") as (who, note):
        base = os.path.join(who.base, "land")
        trees.make_tree(os.path.join(base, "tree"), count)
        must(who.run(["tar", "cf", os.path.join(base, "files.tar"), "-C",
                      os.path.join(base, "tree"), "."]), "tar")
        land = Land(who, base, count, rounds)
        try:
            land.run()
        finally:
            land.end()
    seen = land.seen
    s = {k: report.summary(v) for k, v in seen.items()}
    p50 = lambda k: s[k]["p50_ms"]
    limit = (2 * p50("cp -a") + p50("scan")) / p50("cp -a")
    return result(f"{count} changed files",
                  ["what", "runs", "min ms", "p50 ms", "p90 ms", ""],
                  [stat_row(k, v) for k, v in s.items()],
                  [report.bar(f"cove apply of {count} small files / (2 x cp -a + scan)",
                              p50("apply") / (2 * p50("cp -a") + p50("scan")), 1.0),
                   report.bar(f"snapshot with {count} changed files", p50("snapshot"), 1000,
                              " ms"),
                   report.bar(f"clone with {count} changed files", p50("clone"), 1000, " ms")],
                  s, ["Files of 0.1 to 4 KiB on one disk; what was written before is on disk "
                      "when a command starts. cp -a leaves its copy in memory, apply returns "
                      f"when it is on disk; 2 x cp -a + scan is {limit:.2f} x cp -a here. scan "
                      "is `cove scan` of the same files, a whole process.", note])
