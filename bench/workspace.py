# SPDX-License-Identifier: Apache-2.0
"""File work inside an overlay: cove against the kernel's overlayfs, fuse-overlayfs and none."""
import os
import random
import shutil
import time

import report
import workspace_trees as trees
from sandboxes import must

COUNT = 20000
SLOW_ROUNDS = 2  # of fuse-overlayfs, which takes a minute each
COVE, BARE, FUSE, PLAIN = "cove", "overlayfs, volatile", "fuse-overlayfs", "plain"

APPEND = """find dir0 dir1 -type f -print0 |
    perl -0ne 'chomp; open F, ">>", $_ or die; print F "x\\n"'"""
REWRITE = """find dir4 dir5 -type f -print0 |
    perl -0ne 'chomp; open F, "<", $_ or die; local $/; $t = <F>; $t =~ s/words/lines/;
        open F, ">", $_ or die; print F $t; close F; $/ = "\\0"'"""
GIT = "git -c safe.directory='*' status --porcelain >/dev/null"

# name, script, counts for the bars against overlayfs and fuse-overlayfs. The first is the
# first look into a fresh mount.
TASKS = (
    ("find + stat", "find . -path ./.git -prune -o -printf '%s %m %p\\n' >/dev/null", True),
    ("read all", "find . -path ./.git -prune -o -type f -print0 | xargs -0 cat >/dev/null", True),
    ("git status", GIT, True),
    ("untar", "mkdir new && tar xf \"$TAR\" -C new", True),
    ("cp -a", "cp -a new copy", True),
    ("rm -rf", "rm -rf copy", True),
    ("append a line to files of the host", APPEND, False),
    ("rewrite files of the host", REWRITE, False),
    ("rm -rf of files of the host", "rm -rf dir2 dir3", False),
)


def timed(place, script, timeout=600):
    os.sync()  # what the task before wrote is not this one's to wait for
    start = time.monotonic_ns()
    r = place.who.run(place.command(script), timeout=timeout)
    ns = time.monotonic_ns() - start
    must(r, f"{place.name}: {script}")
    return ns


def measure(places, tasks, rounds, tar):
    seen = {}
    order = random.Random(7)
    for i in range(rounds):
        wanted = [p for p in places if not p.why and (i < SLOW_ROUNDS or p.name != FUSE)]
        for p in wanted:
            p.begin()
        alive = [p for p in wanted if not p.why]
        for name, script, _ in tasks:
            for p in alive if script == GIT else ():
                # Once, git notices that owners or inodes are others than in its index.
                p.who.run(p.command(GIT))
            for p in order.sample(alive, len(alive)):
                # The archive lies in the tree: the only place that all of them can read.
                ns = timed(p, script.replace('"$TAR"', tar))
                seen.setdefault((name, p.name), []).append(ns)
        for p in alive:
            p.end()
    return seen


def run(places, opts):
    count, rounds = (2000, 2) if opts.quick else (COUNT, 5)
    print(f"bench: file work on {count} files", flush=True)
    with trees.fresh_disk(places, opts, "files") as (who, note):
        base = os.path.join(who.base, "files")
        lower = os.path.join(base, "lower")
        os.makedirs(base)
        trees.make_tree(lower, count)
        must(who.run(["tar", "cf", os.path.join(base, "all.tar"), "-C", lower, "."]), "tar")
        git = trees.make_repository(who, lower)
        tar = ".git/all.tar" if git else "all.tar"
        shutil.move(os.path.join(base, "all.tar"), os.path.join(lower, tar))
        who.own()
        tasks = [t for t in TASKS if git or not t[0].startswith("git")]
        everywhere = trees.all_places(who, base, lower)
        try:
            seen = measure(everywhere, tasks, rounds, tar)
        finally:
            for p in everywhere:
                p.end()
    r = result_of(seen, everywhere, tasks, count, rounds)
    r["notes"].append(note)
    return r


def result_of(seen, everywhere, tasks, count, rounds):
    mid = {k: report.summary(v)["p50_ms"] for k, v in seen.items()}
    names = [p.name for p in everywhere if not p.why]
    rows = [[t] + [f"{mid[(t, n)]:.1f}" for n in names] +
            [ratio_text(mid, t, BARE), ratio_text(mid, t, FUSE, turned=True),
             ratio_text(mid, t, PLAIN)] for t, _, _ in tasks]
    bars = []
    for t, _, counted in tasks:
        if counted:
            bars.append(report.bar(f"{t} inside / bare overlayfs", ratio(mid, t, BARE), 1.1))
    for t, _, counted in tasks:
        if counted:
            bars.append(report.bar(f"{t}: fuse-overlayfs / inside", ratio(mid, t, FUSE, True), 2,
                                   at_least=True))
    for t in ("append a line to files of the host", "rewrite files of the host"):
        bars.append(report.bar(f"{t} (copy-up) / plain", ratio(mid, t, PLAIN), 2.5))
    notes = [f"{count} files of 0.1 to 4 KiB in directories of 100, median of {rounds} rounds "
             f"(fuse-overlayfs: {SLOW_ROUNDS}), interleaved; every round starts with an empty "
             "upper layer on the same disk. git status is run once before it is timed. The time "
             "of `cove exec` and of nsenter is included.",
             "cove mounts with `volatile`, and so does the overlay that it is compared with: "
             "copy-up does not wait for the disk."]
    notes += [f"{p.name}: {p.why}." for p in everywhere if p.why]
    head = ["ms", *names, "cove / overlayfs", "fuse / cove", "cove / plain"]
    return {"title": f"File work inside an overlay of {count} files",
            "tables": [{"title": "", "head": head, "rows": rows}], "bars": bars,
            "data": {f"{a}: {b}": report.summary(v) for (a, b), v in seen.items()},
            "notes": notes}


def ratio(mid, task, other, turned=False):
    a, b = mid.get((task, COVE)), mid.get((task, other))
    if not a or not b:
        return None
    return b / a if turned else a / b


def ratio_text(mid, task, other, turned=False):
    r = ratio(mid, task, other, turned)
    return "-" if r is None else f"{r:.2f}"
