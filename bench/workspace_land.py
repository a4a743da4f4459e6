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
    must(r, " ".join(argv[1:3]))
    return ns, r


def run_diff(places, opts):
    """100 changes in a large and in a small tree."""
    who, runs = places.main, 20 if opts.quick else 100
    sizes = (20000, 2000) if opts.quick else (200000, 2000)
    print(f"bench: diff of {CHANGES} changes in trees of {sizes[0]} and {sizes[1]} files",
          flush=True)
    base = os.path.join(who.base, "diff")
    cases = []
    try:
        for n in sizes:
            top = os.path.join(base, str(n))
            trees.make_tree(top, n)
            who.own()
            box_on(who, f"bench-diff{n}", top,
                   f"find . -name '*.c' | awk 'NR % {n // CHANGES} == 0' | head -n {CHANGES} |"
                   "while read -r f; do echo more >>\"$f\"; done")
            got = must(who.run([who.cove, "diff", "--name-only", f"bench-diff{n}"]), "cove diff")
            if len(got.stdout.splitlines()) != CHANGES:
                raise RuntimeError(f"diff lists {len(got.stdout.splitlines())} paths")
            cases.append([str(n), str(runs), "0", "-", who.cove, "diff", "--name-only",
                          f"bench-diff{n}"])
        text = "\n".join("\t".join(c) for c in cases) + "\n"
        out = report.parse_samples(must(who.run([who.program("timeit"), str(runs)], timeout=600,
                                                stdin=None, input=text), "timeit").stdout)
    finally:
        for n in sizes:
            down(who, f"bench-diff{n}")
        shutil.rmtree(base, ignore_errors=True)
    s = {k: report.summary(v["ns"]) for k, v in out.items()}
    large, small = (s[str(n)] for n in sizes)
    ratio = large["p50_ms"] / small["p50_ms"]
    return result(f"cove diff --name-only of {CHANGES} changes",
                  ["files in the tree", "runs", "min ms", "p50 ms", "p90 ms", ""],
                  [stat_row(str(n), s[str(n)]) for n in sizes],
                  [report.bar(f"diff of {CHANGES} changes in {sizes[0]} files", large["p50_ms"],
                              30, " ms"),
                   report.bar(f"the same, {sizes[0]} files / {sizes[1]} files", ratio, 1.2)],
                  s, ["The sandbox is stopped; the whole command is timed."])


def one_round(who, base, count, seen):
    """Makes a sandbox with count new files; times what is done with it."""
    def note(what, ns):
        seen.setdefault(what, []).append(ns)

    top, copy = os.path.join(base, "project"), os.path.join(base, "copy")
    src = os.path.join(base, "files.tar")
    shutil.rmtree(top, ignore_errors=True)
    os.makedirs(top)
    shutil.copy(src, top)
    who.own()
    box_on(who, "bench-land", top, "mkdir new && tar xf files.tar -C new")
    os.sync()
    note("snapshot", clock(who, [who.cove, "snapshot", "-q", "bench-land", "one"])[0])
    os.sync()
    note("clone", clock(who, [who.cove, "clone", "-q", "bench-land", "bench-copy"])[0])
    down(who, "bench-copy")
    os.sync()
    note("restore", clock(who, [who.cove, "restore", "-q", "--yes", "bench-land", "one"])[0])
    os.sync()
    note("apply", clock(who, [who.cove, "apply", "-q", "--yes", "bench-land"])[0])
    landed = sum(len(f) for _, _, f in os.walk(os.path.join(top, "new")))
    if landed != count:
        raise RuntimeError(f"apply landed {landed} of {count} files")
    os.sync()
    note("cp -a", clock(who, ["cp", "-a", os.path.join(top, "new"), copy])[0])
    shutil.rmtree(copy)
    os.sync()
    note("cp -a, then sync", clock(who, ["sh", "-c", 'cp -a "$0" "$1" && sync -f "$1"',
                                         os.path.join(top, "new"), copy])[0])
    os.sync()
    note("scan", clock(who, [who.cove, "scan", "-q", copy])[0])
    shutil.rmtree(copy)
    os.sync()
    note("undo", clock(who, [who.cove, "undo", "-q", "--yes", "bench-land"])[0])
    down(who, "bench-land")


def run_land(places, opts):
    """Many small files: snapshot, clone, restore, apply, undo, beside cp -a of them."""
    who = places.main
    count, rounds = (1000, 2) if opts.quick else (MANY, 5)
    print(f"bench: apply, snapshot and clone with {count} changed files", flush=True)
    base = os.path.join(who.base, "land")
    trees.make_tree(os.path.join(base, "tree"), count)
    must(who.run(["tar", "cf", os.path.join(base, "files.tar"), "-C",
                  os.path.join(base, "tree"), "."]), "tar")
    seen = {}
    try:
        for _ in range(rounds):
            one_round(who, base, count, seen)
    finally:
        for name in ("bench-land", "bench-copy"):
            down(who, name)
        shutil.rmtree(base, ignore_errors=True)
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
                      "is `cove scan` of the same files, a whole process."])
