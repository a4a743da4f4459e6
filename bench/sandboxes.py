# SPDX-License-Identifier: Apache-2.0
"""Named sandboxes: exec into a running one, memory when idle, two hundred of them; and
libcove called from a large process."""
import concurrent.futures
import os
import time

import report


def must(r, what):
    if r.returncode != 0:
        text = (r.stderr or r.stdout).strip().splitlines()
        raise RuntimeError(f"{what}: exit {r.returncode}: {text[-1] if text else ''}")
    return r


def up(who, name):
    must(who.run([who.cove, "create", name, "--net", "none"]), f"cove create {name}")
    must(who.run([who.cove, "start", name]), f"cove start {name}")


def down(who, name):
    return who.run([who.cove, "rm", "--force", "--yes", name])


def result(title, head, rows, bars, data, notes):
    return {"title": title, "tables": [{"title": "", "head": head, "rows": rows}], "bars": bars,
            "data": data, "notes": notes}


def stat_row(name, s, over=None):
    return [name, s["runs"]] + [f"{s[k]:.3f}" for k in ("min_ms", "p50_ms", "p90_ms")] + [
        "" if over is None else f"{over:+.3f}"]


def run_exec(places, opts):
    """cove exec, as a whole command and through the library, over a bare start."""
    who, runs = places.main, 30 if opts.quick else 300
    print("bench: exec into a running sandbox", flush=True)
    up(who, "bench-exec")
    try:
        cases = [["bare", str(runs), "1000", "-", "/bin/true"],
                 ["cove exec", str(runs), "1000", "-", who.cove, "exec", "bench-exec", "--",
                  "/bin/true"]]
        text = "\n".join("\t".join(c) for c in cases) + "\n"
        cli = report.parse_samples(must(who.run(
            [who.program("timeit"), str(runs)], timeout=600, stdin=None, input=text),
            "timeit").stdout)
        lib = report.parse_samples(must(who.run(
            [who.program("exec_lib"), "bench-exec", str(runs), "/bin/true"], timeout=600),
            "exec_lib").stdout)
    finally:
        down(who, "bench-exec")
    s = {("cli", k): report.summary(v["ns"]) for k, v in cli.items()}
    s.update({("lib", k): report.summary(v["ns"]) for k, v in lib.items()})
    if not s[("cli", "cove exec")]:
        raise RuntimeError("cove exec failed every time")
    over_cli = s[("cli", "cove exec")]["p50_ms"] - s[("cli", "bare")]["p50_ms"]
    over_lib = s[("lib", "cove_exec")]["p50_ms"] - s[("lib", "bare")]["p50_ms"]
    rows = [stat_row("/bin/true, bare", s[("cli", "bare")]),
            stat_row("cove exec NAME -- /bin/true", s[("cli", "cove exec")], over_cli),
            stat_row("/bin/true, bare (from the library's caller)", s[("lib", "bare")]),
            stat_row("cove_exec + cove_wait", s[("lib", "cove_exec")], over_lib)]
    failures = cli["cove exec"]["failures"] + lib["cove_exec"]["failures"]
    return result("exec into a running sandbox",
                  ["what", "runs", "min ms", "p50 ms", "p90 ms", "p50 over bare"], rows,
                  [report.bar("cove exec over a bare start, median", over_cli, 1.0, " ms"),
                   report.bar("cove_exec of libcove over a bare start, median", over_lib, 1.0,
                              " ms")],
                  {f"{a} {b}": v for (a, b), v in s.items()}, [f"Failures: {failures}."])


def run_caller(places, opts):
    """A start from a process with 1 GiB of touched memory against a small one."""
    who, runs = places.main, 24 if opts.quick else 200
    print("bench: libcove from a large process", flush=True)
    out = report.parse_samples(must(who.run(
        [who.program("big_caller"), str(runs), "1024", "/bin/true"], timeout=900),
        "big_caller").stdout)
    s = {k: report.summary(v["ns"]) for k, v in out.items()}
    ratio = s["big"]["p50_ms"] / s["small"]["p50_ms"]
    return result("cove_start from a large process",
                  ["caller", "runs", "min ms", "p50 ms", "p90 ms", ""],
                  [stat_row("small", s["small"]), stat_row("1 GiB touched", s["big"])],
                  [report.bar("cove_start from 1 GiB / from a small process", ratio, 1.1)], s, [])


def processes():
    """pid -> (parent, command name), for all of /proc."""
    out = {}
    for d in os.listdir("/proc"):
        try:
            with open(f"/proc/{d}/stat") as f:
                text = f.read()
        except (OSError, ValueError):
            continue
        if d.isdigit():
            name = text[text.index("(") + 1:text.rindex(")")]
            out[int(d)] = (int(text[text.rindex(")") + 2:].split()[1]), name)
    return out


def ours(who):
    """Processes of cove that use this scratch tree: keepers by their environment, and what
    they started."""
    table = processes()
    found = set()
    for pid, (_, name) in table.items():
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                mine = f"XDG_RUNTIME_DIR={who.runtime}".encode() in f.read().split(b"\0")
        except OSError:
            continue
        if mine and name.startswith("cove"):
            found.add(pid)
    grown = True
    while grown:
        more = {p for p, (parent, _) in table.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return {p: table[p][1] for p in found}


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("Pss:"))


def run_memory(places, opts):
    """Proportional set size of keeper and guest of idle sandboxes, one alone and ten."""
    who, rows, data = places.main, [], {}
    print("bench: memory of idle sandboxes", flush=True)
    names = [f"bench-mem{i}" for i in range(10)]
    try:
        for count in (1, len(names)):
            for n in names[:count] if count == 1 else names[1:]:
                up(who, n)
            time.sleep(1)
            alive = ours(who)
            sizes = {p: pss_kib(p) for p in alive}
            by_name = {}
            for p, n in alive.items():
                by_name[n] = by_name.get(n, 0) + sizes[p]
            per = sum(sizes.values()) / count
            data[str(count)] = {"pss_kib_per_sandbox": per, "processes": len(alive),
                                "by_name": by_name}
            rows.append([count, f"{len(alive) / count:g}", f"{per:.0f}",
                         ", ".join(f"{n} {v / count:.0f}" for n, v in sorted(by_name.items()))])
    finally:
        for n in names:
            down(who, n)
    worst = max(d["pss_kib_per_sandbox"] for d in data.values()) / 1024
    return result("Memory of an idle named sandbox",
                  ["sandboxes", "processes each", "PSS each, KiB", "of it, KiB"], rows,
                  [report.bar("PSS of keeper and guest, idle (the worse of 1 and 10)", worst,
                              2.0, " MiB")],
                  data, [])


def cgroup_dirs():
    return {d for d, _, _ in os.walk("/sys/fs/cgroup")}


def mounts():
    with open("/proc/self/mountinfo") as f:
        return {l.split()[4] for l in f}


def files(who):
    out = set()
    for top in (os.path.join(who.home, ".local"), who.runtime):
        for d, dirs, names in os.walk(top):
            out |= {os.path.join(d, n) for n in dirs + names}
    return out


def run_many(places, opts):
    """Sandboxes alive at once: each started, used and removed; then what is left is counted."""
    who, count = places.main, 20 if opts.quick else 200
    print(f"bench: {count} sandboxes", flush=True)
    up(who, "bench-warm")  # caches that stay on purpose are there before the count
    down(who, "bench-warm")
    before = (ours(who), mounts(), cgroup_dirs(), files(who))
    names = [f"bench-many{i}" for i in range(count)]
    failures, times = [], {}

    def step(label, fn):
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, r in zip(names, pool.map(fn, names)):
                if r:
                    failures.append(f"{label} {name}: {r}")
        times[label] = time.monotonic() - start

    def start(name):
        try:
            up(who, name)
        except RuntimeError as e:
            return str(e)

    def use(name):
        r = who.run([who.cove, "exec", name, "--", "/bin/echo", name])
        good = r.returncode == 0 and r.stdout == name + "\n"
        return None if good else r.stderr.strip() or "wrong output"

    def remove(name):
        r = down(who, name)
        return None if r.returncode == 0 else r.stderr.strip()

    step("create and start", start)
    step("exec", use)
    step("remove", remove)
    time.sleep(1)
    after = (ours(who), mounts(), cgroup_dirs(), files(who))
    left = {k: sorted(str(x) for x in set(b) - set(a)) for k, a, b in
            zip(("processes", "mounts", "cgroups", "files"), before, after)}
    n_left = sum(len(v) for v in left.values())
    rows = [[k, f"{v:.2f}", f"{1000 * v / count:.1f}"] for k, v in times.items()]
    notes = [f"{count} alive at once, two commands at a time; {len(failures)} failures; left "
             "over: " + ", ".join(f"{len(v)} {k}" for k, v in left.items()) + "."]
    notes += [f"First failure: {failures[0]}"] if failures else []
    return result(f"{count} sandboxes started, used and removed", ["step", "s", "ms each"], rows,
                  [report.bar(f"failures with {count} sandboxes", len(failures), 0),
                   report.bar(f"leftovers after {count} sandboxes", n_left, 0)],
                  {"seconds": times, "failures": failures[:20], "left": left}, notes)
