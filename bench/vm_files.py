# SPDX-License-Identifier: Apache-2.0
"""Files in a virtual machine: the workspace of a cove sandbox against virtiofsd."""
import json
import os
import shutil

import report
import vm
import vm_peer
from sandboxes import must, result
from workspace_trees import make_repository, make_tree

FEW, MANY, LARGE = 500, 5000, 128 << 20
MEMORY_MIB = 1024
WAYS = {"virtiofsd": None, "cove, rw": "rw", "cove, overlay": "overlay"}
STEPS = {"create": f"create {FEW} files", "list": f"ls -l of {FEW} files",
         "list again": "the same again", "open and read": f"open and read {FEW} files",
         "open and read again": "the same again", "find": f"find in {MANY} files",
         "git status, first": f"first git status of {MANY} files", "git status, second": "second git status",
         "git status": "git status from then on", "read": "read 128 MiB",
         "write": "write 64 MiB"}


def prepare(who, top):
    """What one round in one machine works on. Nothing of it was ever seen by that machine."""
    os.makedirs(os.path.join(top, "few"))
    for i in range(FEW):
        with open(os.path.join(top, "few", f"f{i:03d}"), "wb") as f:
            f.write(b"x" * 1000)
    make_tree(os.path.join(top, "many"), MANY)
    make_repository(who, os.path.join(top, "many"))
    with open(os.path.join(top, "large"), "wb") as f:
        for i in range(LARGE >> 20):
            f.write(bytes([i]) * (1 << 20))
    with open(os.path.join(top, "large"), "rb") as f:  # in the host's memory, for everybody
        while f.read(1 << 20):
            pass


def machine_words(who, cpus):
    """What makes cove's machine what it is, for one of the same kind."""
    doctor = json.loads(who.run([who.cove, "doctor", "--json"]).stdout)
    kvm = any(c["name"] == "kvm" and c["ok"] for c in doctor["checks"])
    words = must(who.run([who.program("vmwords"), "kvm" if kvm else "tcg", str(cpus),
                          str(MEMORY_MIB)]), "vmwords").stdout.splitlines()
    after = lambda option: words[words.index(option) + 1]
    return {"memory": MEMORY_MIB, **{o: after("-" + o) for o in ("accel", "cpu", "smp",
                                                                 "append")}}


class Sandbox:
    """A sandbox on a workspace; a round of vmfiles for every name that it is given."""

    def __init__(self, who, mode, work, cpus):
        self.who, self.work, self.name = who, work, "bench-vm-" + mode
        # As whom the peer's machine works: whose files are whose is the same in both.
        must(who.run([who.cove, "create", self.name, "--backend", "vm", "--net", "none", "--user", "root",
                      "--cpus", str(cpus), "--memory", f"{MEMORY_MIB}MiB", "--no-mounts",
                      "--mount", f"{work}:{work}:{mode}"]), "cove create")
        must(who.run([who.cove, "start", self.name], timeout=120), "cove start")

    def round(self, name):
        r = self.who.run([self.who.cove, "exec", self.name, "--",
                          os.path.join(self.work, "vmfiles"), self.work, name],
                         timeout=300)
        return must(r, "vmfiles").stdout

    def close(self):
        self.who.run([self.who.cove, "rm", "--force", "--yes", self.name])


def begin(who, way, work, base, cpus):
    if WAYS[way]:
        return Sandbox(who, WAYS[way], work, cpus)
    kernel = os.path.realpath(os.path.join(who.home, ".local/share/cove/kernels/default"))
    return vm_peer.Machine(base, work, kernel, who.program("vmfiles"), machine_words(who, cpus))


def rounds(who, base, count, cpus, times):
    """Each machine in turn, in another order every time."""
    work = {way: os.path.join(base, f"work{i}") for i, way in enumerate(WAYS)}
    machines, missing = {}, None
    try:
        for way, top in work.items():
            os.makedirs(top)
            shutil.copy2(who.program("vmfiles"), top)
            try:
                machines[way] = begin(who, way, top, base, cpus)
            except vm_peer.Missing as e:
                missing = str(e)
        for i in range(count):
            order = list(machines)
            for way in order[i % len(order):] + order[:i % len(order)]:
                name = f"round{i}"
                prepare(who, os.path.join(work[way], name))
                for step, s in report.parse_samples(machines[way].round(name)).items():
                    if s["failures"] and WAYS[way]:
                        raise RuntimeError(f"{way}: {step}: {s['failures']} failures")
                    if s["failures"]:  # a peer's own: that sample is no measure of anything
                        print(f"bench: {way}: {step}: {s['failures']} failures", flush=True)
                        continue
                    times.setdefault(step, {}).setdefault(way, []).append(s["ns"][0] / 1e6)
    finally:
        for m in machines.values():
            m.close()
    return missing


def run(places, opts):
    """Create, list, read, write and look through trees: cove / virtiofsd, step by step."""
    who, count, cpus, times = places.main, 1 if opts.quick else 3, os.cpu_count(), {}
    print("bench: files in virtual machines", flush=True)
    vm.install(who)
    base = os.path.join(places.base, "vm-files")
    os.makedirs(base)
    missing = rounds(who, base, count, cpus, times)
    best = {s: {w: min(v) for w, v in by.items()} for s, by in times.items()}
    rows, bars = [], []
    for step, text in STEPS.items():
        mine = best.get(step, {})
        peer = mine.get("virtiofsd")
        ratio = lambda w: mine[w] / peer if peer and w in mine else None
        show = lambda v, f: "-" if v is None else f.format(v)
        rows.append([text if "again" not in step else f"{step}"] +
                    [show(mine.get(w), "{:.1f}") for w in WAYS] +
                    [show(ratio(w), "{:.2f}") for w in WAYS if WAYS[w]])
        bars += [report.bar(f"{rows[-1][0]}: {w} / virtiofsd", ratio(w), 1.0)
                 for w in WAYS if WAYS[w]]
    notes = [f"Milliseconds, the best of {count} rounds, which take turns. Every machine: the "
             f"same kernel, {cpus} processors, {MEMORY_MIB} MiB, the words that cove gives QEMU; "
             "bench/vmfiles.c measures inside. Every round has files of its own that the "
             "machine has never seen; they are in the host's memory. virtiofsd: Debian's, "
             "cache=auto, its memory shared with the machine's. Root works on files of root in "
             "each: where a sandbox's user has another number than the files' owner outside, "
             "the first git status reads every file (docs/vm.md)."]
    notes += [f"virtiofsd was not measured: {missing}"] if missing else []
    return result("Files in a virtual machine",
                  ["work"] + [w + " ms" for w in WAYS] +
                  [f"{w} / virtiofsd" for w in WAYS if WAYS[w]],
                  rows, bars, {"ms": times}, notes)
