# SPDX-License-Identifier: Apache-2.0
"""Start-up of /bin/true: cove, the floor and every peer, interleaved in one run."""
import os
import subprocess
import time

import peers
import report

SECONDS_EACH = 90  # a slow peer gets as many runs as fit, at least FEWEST
FEWEST = 30
PAUSE_US = 1000
# The kernel removes an OCI runtime's cgroup in the background, under a lock that whoever makes
# the next cgroup waits for: that time is not the next command's.
OCI_PAUSE_US = 50000


def try_out(who, peer, enter):
    """Runs it twice (the first fills caches); seconds of the second, or why it fails."""
    seconds = 0.0
    for _ in range(2):
        start = time.monotonic()
        try:
            r = who.run(peer.argv, timeout=60, enter=enter)
        except subprocess.TimeoutExpired:
            return None, "no answer in 60 s"
        except OSError as e:
            return None, str(e)
        seconds = time.monotonic() - start
        if r.returncode != 0:
            lines = (r.stderr or r.stdout).strip().splitlines() or [f"exit {r.returncode}"]
            return None, lines[-1][:140].replace("|", "/")
    return seconds, None


def choose(who, quiet, bins, runs):
    """Every peer with its number of runs; those that do not run carry the reason."""
    chosen = []
    for p in peers.all_peers(who, bins):
        why = p.missing and f"not installed: {p.missing}"
        n = 0
        if not why:
            inside = p.oci or who.uid != os.getuid()
            seconds, why = try_out(who, p, quiet.path if inside else None)
        if not why:
            n = min(runs, max(min(runs, FEWEST), int(SECONDS_EACH / max(seconds, 1e-4))))
        chosen.append((p, n, why))
    return chosen


def measure(who, quiet, chosen, runs):
    lines = []
    # An ordinary user cannot enter another mount namespace: then all cases run in it.
    inside = quiet.path if who.uid != os.getuid() else None
    for p, n, why in chosen:
        if not why:
            mnt = quiet.path if p.oci and quiet.path and not inside else "-"
            pause = OCI_PAUSE_US if p.oci else PAUSE_US
            lines.append("\t".join([p.name, str(n), str(pause), mnt] + p.argv))
    r = who.run([who.program("timeit"), str(runs)], timeout=3600, enter=inside,
                stdin=None, input="\n".join(lines) + "\n")
    if r.returncode != 0:
        raise RuntimeError("timeit: " + r.stderr.strip())
    return report.parse_samples(r.stdout)


def ratio(stats, name, other):
    a, b = stats.get(name), stats.get(other)
    return a["p50_ms"] / b["p50_ms"] if a and b else None


def rows_of(chosen, samples, stats):
    rows = []
    for p, _, why in chosen:
        s = stats.get(p.name)
        if not s:
            failed = samples.get(p.name, {}).get("failures")
            rows.append([p.name, why or f"failed {failed} times"] + [""] * 6)
            continue
        rel = [ratio(stats, p.name, o) for o in ("bwrap --ro-bind / /", "floor, with init")]
        rows.append([p.name, s["runs"], samples[p.name]["failures"]] +
                    [f"{s[k]:.2f}" for k in ("min_ms", "p50_ms", "p90_ms")] +
                    ["-" if x is None else f"{x:.2f}" for x in rel])
    return rows


HEAD = ["command", "runs", "failed", "min ms", "p50 ms", "p90 ms", "x bwrap --ro-bind / /",
        "x floor with init"]


def bars_of(stats, label):
    r = lambda other: ratio(stats, "cove run", other)
    return [report.bar(f"cove run / bwrap --unshare-all --ro-bind / /, {label}",
                       r("bwrap --ro-bind / /"), 0.6),
            report.bar(f"cove run / crun, {label}", r("crun run"), 0.25),
            report.bar(f"cove run / floor (the same system calls, with init), {label}",
                       r("floor, with init"), 1.4),
            report.bar(f"cove run / floor (no init), {label}", r("floor"), 1.4)]


def run(places, opts):
    runs = 20 if opts.quick else 200
    bins = None if opts.no_npm else peers.install_npm()
    quiet = peers.QuietNamespace()
    result = {"title": "Start-up of /bin/true", "tables": [], "bars": [], "data": {}, "notes": [
        "cove run: all layers (8 namespaces, pivot_root, overlay of the current directory on "
        "disk, Landlock, seccomp, no capabilities, cgroup limits as root). floor: bench/floor.c, "
        "the same system calls in a straight line; with init, PID 1 is a program of its own as "
        "cove-guest is. bwrap, unshare and firejail set no filter, no Landlock and no limits.",
        "Every round runs each command once in shuffled order, 1 ms apart (50 ms after crun and "
        "podman, whose cgroups the kernel removes in the background); a run is timed from before "
        "posix_spawn until wait4 returned."]}
    try:
        for who in filter(None, (places.main, places.user)):
            label = "root" if who.uid == 0 else "ordinary user"
            print(f"bench: start-up as {label}: {runs} runs each", flush=True)
            chosen = choose(who, quiet, bins, runs)
            samples = measure(who, quiet, chosen, runs)
            stats = {k: s for k, v in samples.items() if (s := report.summary(v["ns"]))}
            result["tables"].append({"title": f"as {label}", "head": HEAD,
                                     "rows": rows_of(chosen, samples, stats)})
            result["bars"] += bars_of(stats, label)
            result["data"][label] = {k: dict(s, failures=samples[k]["failures"])
                                     for k, s in stats.items()}
            result["data"]["versions"] = {os.path.basename(p.argv[0]): p.version
                                          for p, _, _ in chosen if p.version}
        result["notes"].append("Versions: " + ", ".join(
            f"{k}: {v}" for k, v in result["data"]["versions"].items()) + ".")
        if quiet.path:
            result["notes"].append(
                "This host has cgroup v1 and v2 controllers at once, which crun and podman "
                "refuse: they ran in a mount namespace without the v2 tree.")
    finally:
        quiet.close()
    return result
