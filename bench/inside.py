# SPDX-License-Identifier: Apache-2.0
"""What a program notices inside: the price of a system call, and of its output."""
import os
import shutil

import report
from sandboxes import down, must, result, up


def run_syscalls(places, opts):
    """getpid, stat and openat: native, inside cove, and under Landlock alone."""
    who, rounds = places.main, 3 if opts.quick else 15
    print("bench: system calls", flush=True)
    program = os.path.join(who.work, "syscalls")
    cases = {"native": [program],
             "cove": [who.cove, "run", "--net", "none", "--", program],
             "Landlock alone": [who.program("landlocked"), program],
             "a filter of one instruction alone": [who.program("filtered"), program]}
    seen = {c: {} for c in cases}
    for _ in range(rounds):
        for name, argv in cases.items():
            words = must(who.run(argv), name).stdout.split()
            for call, ns in zip(words[::2], words[1::2]):
                seen[name].setdefault(call, []).append(float(ns))
    mid = {c: {k: report.median(v) for k, v in calls.items()} for c, calls in seen.items()}
    rows = [[c] + [f"{mid[c][k]:.0f}" for k in ("getpid", "stat", "open")] for c in cases]
    for base in ("native", "Landlock alone"):
        rows.append([f"cove / {base}"] + [f"{mid['cove'][k] / mid[base][k]:.3f}"
                                          for k in ("getpid", "stat", "open")])
    r = lambda call, base: mid["cove"][call] / mid[base][call]
    return result("System calls inside, ns", ["", "getpid", "stat", "openat + close"], rows,
                  [report.bar("getpid inside / native", r("getpid", "native"), 1.12),
                   report.bar("stat inside / native", r("stat", "native"), 1.12),
                   report.bar("openat inside / Landlock alone", r("open", "Landlock alone"), 1.05)],
                  mid, [f"Median of {rounds} rounds, each the best of 40 batches of 5000 calls.",
                        "A filter of one instruction that allows everything shows what the kernel "
                        "charges for having a filter: no sandbox with seccomp gets below it."])


def producers(size):
    return (("head -c, 8 KiB writes", ["/usr/bin/head", "-c", str(size), "/dev/zero"]),
            ("dd, 1 MiB writes", ["/bin/dd", "if=/dev/zero", "bs=1M", f"count={size >> 20}",
                                  "status=none"]))


def run_throughput(places, opts):
    """stdout of a program inside into a pipe, against the pipe alone."""
    who = places.main
    size, rounds = (256 << 20, 2) if opts.quick else (2 << 30, 4)
    print("bench: stdout throughput", flush=True)
    up(who, "bench-out")
    seen, order = {}, []
    try:
        for _ in range(rounds):
            for label, argv in producers(size):
                for how, prefix in (("bare pipe", []),
                                    ("cove run", [who.cove, "run", "--net", "none", "--"]),
                                    ("cove exec", [who.cove, "exec", "bench-out", "--"])):
                    out = must(who.run([who.program("sink")] + prefix + argv, timeout=300), how)
                    n, ns = map(int, out.stdout.split())
                    if n != size:
                        raise RuntimeError(f"{how}: {n} of {size} bytes arrived")
                    key = (how, label)
                    if key not in seen:
                        order.append(key)
                    seen.setdefault(key, []).append(n / ns * 1e9 / (1 << 30))
    finally:
        down(who, "bench-out")
    mid = {k: report.median(v) for k, v in seen.items()}
    names = [label for label, _ in producers(size)]
    rows = [[how] + [f"{mid[(how, l)]:.2f}" for l in names]
            for how in ("bare pipe", "cove run", "cove exec")]
    best = lambda how: max(mid[(how, l)] for l in names)
    return result("stdout through the link, GiB/s", ["", *names], rows,
                  [report.bar(f"stdout of {how}", best(how), 1.0, " GiB/s", at_least=True)
                   for how in ("cove run", "cove exec")],
                  {f"{a}: {b}": v for (a, b), v in mid.items()},
                  [f"{size >> 20} MiB each time, median of {rounds}; the reader takes 1 MiB reads "
                   "from a pipe of 1 MiB and throws them away."])
