# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: start from a template and by booting, exec and output of a running one,
memory; each next to the plainest machine that QEMU makes of the same kernel, interleaved."""
import os
import shutil
import subprocess
import time

import report
import vm_peer
import vm_raw
import vm_ssh
from sandboxes import down, must, ours, result, stat_row

SMALL = ["--memory", "512M"]
MIB = 128  # that vm_agent sends


def cove(who, *argv, **kw):
    return who.run([who.cove, *argv], timeout=kw.pop("timeout", 200), **kw)


def install(who):
    """A kernel is there. In the nested machine, which has no network, from the package at hand."""
    at_hand = os.environ.get("COVE_NESTED")
    must(cove(who, "kernel", "install", "-q",
              *(["--deb", at_hand + "/kernel.deb"] if at_hand else [])), "cove kernel install")


def kernel(who):
    """A kernel and a template are there; the machine's command line."""
    if not os.path.exists(vm_raw.QEMU):
        raise RuntimeError("not measured: qemu-system-x86_64 is not installed")
    own = os.environ.get("BENCH_KERNELS")  # a directory of kernels that are installed already
    target = os.path.join(who.home, ".local/share/cove")
    os.makedirs(target, mode=0o700, exist_ok=True)
    if own and not os.path.exists(target + "/kernels"):
        shutil.copytree(own, target + "/kernels", symlinks=True)
    if not os.path.exists(target + "/kernels/default"):
        install(who)
    r = must(cove(who, "run", "--rm", "--no-mounts", "--backend", "vm", *SMALL, "--",
                  "sh", "-c", "cat /proc/cmdline; nproc"), "cove run --backend vm")
    cmdline, cpus = r.stdout.strip().splitlines()
    return target, cmdline, int(cpus)


def plain(who):
    target, cmdline, cpus = kernel(who)
    return vm_raw.Raw(target + "/kernels", who.program, cmdline, cpus, 512)


def timed(fn):
    begin = time.monotonic_ns()
    fn()
    return time.monotonic_ns() - begin


def up(who, name, *more):
    must(cove(who, "create", name, "--no-mounts", "--backend", "vm", *SMALL, *more), "cove create")
    must(cove(who, "start", name), f"cove start {name}")


def clone_and_run(raw, what):
    """Nanoseconds from nothing to the end of a program in it; its own end is not counted."""
    begin = time.monotonic_ns()
    m = raw.clone()
    try:
        m.ask(what)
        return time.monotonic_ns() - begin
    finally:
        m.end()


def boot_and_run(raw):
    begin = time.monotonic_ns()
    m = raw.machine()
    try:
        m.expect(b"R")
        m.ask(b"d")
        return time.monotonic_ns() - begin
    finally:
        m.end()


def start_and_run(who):
    """The same of cove, as two commands: nanoseconds of each."""
    must(cove(who, "create", "bench-vm", "--no-mounts", "--backend", "vm", *SMALL), "cove create")
    try:
        return (timed(lambda: must(cove(who, "start", "bench-vm"), "cove start")),
                timed(lambda: must(cove(who, "exec", "bench-vm", "--", "/bin/true"), "cove exec")))
    finally:
        down(who, "bench-vm")


class NoTemplates:
    """Meanwhile there is no place to keep one, so that machines boot."""

    def __init__(self, who):
        self.path = os.path.join(who.home, ".local/share/cove/cache/templates")

    def __enter__(self):
        os.rename(self.path, self.path + ".away")
        with open(self.path, "w"):
            pass

    def __exit__(self, *_):
        os.unlink(self.path)
        os.rename(self.path + ".away", self.path)


def run_start(places, opts):
    who = places.main
    clones, boots = (4, 2) if opts.quick else (15, 5)
    print("bench: start of virtual machines", flush=True)
    raw = plain(who)
    ns = {k: [] for k in ("plain clone", "plain clone, static program", "cove start, then exec", "cove start", "cove exec",
                          "plain boot", "cove, booting", "qemu boot + ssh")}
    ssh, missing = None, ""
    try:
        ssh = vm_ssh.Machine(raw)
    except vm_peer.Missing as e:
        missing = f"not measured: {e}"
    try:
        raw.save()
        for _ in range(clones):
            ns["plain clone"].append(clone_and_run(raw, b"d"))
            ns["plain clone, static program"].append(clone_and_run(raw, b"x"))
            start, first = start_and_run(who)
            for k, v in (("cove start", start), ("cove exec", first), ("cove start, then exec", start + first)):
                ns[k].append(v)
        with NoTemplates(who):
            for _ in range(boots):
                ns["plain boot"].append(boot_and_run(raw))
                ns["cove, booting"].append(sum(start_and_run(who)))
                if ssh:
                    ns["qemu boot + ssh"].append(ssh.boot_and_run())
    finally:
        raw.close()
        if ssh:
            ssh.close()
    s = {k: report.summary(v) for k, v in ns.items() if v}
    p50 = lambda k: s[k]["p50_ms"]
    rows = [stat_row(k, s[k]) for k in s]
    if missing:
        rows.append(["qemu boot + ssh", missing, "", "", "", ""])
    return result(
        "Start of virtual machines, to the end of /bin/true", ["what", "runs", "min ms", "p50 ms", "p90 ms", ""],
        rows, [report.bar("template to first exec / plain clone and exec",
                          p50("cove start, then exec") / p50("plain clone"), 1.5),
               report.bar("template to first exec", p50("cove start, then exec"), 300, " ms"),
               report.bar("boot to first exec / plain boot and exec",
                          p50("cove, booting") / p50("plain boot"), 1.3)],
        s, [f"512 MiB, {raw.cpus} cpus, {vm_raw.accelerator(raw)}. Plain: the same kernel, modules and command line, "
            "an /init that starts the same /bin/true, and answers (bench/vm_agent.c). Static: a program "
            "without loader and library instead, which cove's user does not have. qemu boot + ssh: dropbear in "
            "an initramfs, QEMU's user network, ssh from the host (bench/vm_ssh.py). cove, booting: "
            "no place to keep a template."])


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        lines = [l.split() for l in f]
    total = lambda *keys: sum(int(l[1]) for l in lines if l[0] in keys)
    return total("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"), total("Pss:")


def run_memory(places, opts):
    who, many = places.main, 4 if opts.quick else 20
    print(f"bench: memory of virtual machines, {many} at once", flush=True)
    kernel(who)
    names, rows, data = [f"bench-vm{i}" for i in range(many)], [], {}
    failed = 0

    def look(count):
        sizes = [private_kib(p) for p in ours(who)]
        data[str(count)] = {"private_kib": sum(x for x, _ in sizes) / count,
                            "pss_kib": sum(x for _, x in sizes) / count}
        rows.append([count, len(sizes)] + [f"{v / 1024:.1f}" for v in data[str(count)].values()])

    try:
        up(who, names[0])
        time.sleep(1)
        look(1)
        for n in names[1:]:
            try:
                up(who, n)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                print(f"bench: {e}", flush=True)
                failed += 1
        for n in names:
            r = cove(who, "exec", n, "--", "sh", "-c", "echo $((6 * 7))")
            failed += r.stdout.strip() != "42"
        look(many)
    finally:
        failed += sum(down(who, n).returncode != 0 for n in names)
    time.sleep(0.5)
    left = len(ours(who))
    return result(
        "Memory of idle virtual machines, all their processes", ["machines", "processes", "private MiB each", "PSS MiB each"],
        rows, [report.bar("private memory of one", data["1"]["private_kib"] / 1024, 80, " MiB"),
               report.bar(f"failures of {many} at once: start, work, end", failed, 0),
               report.bar("processes left behind", left, 0)],
        dict(data, failed=failed, left=left), ["512 MiB each; keeper, cove-vmm, QEMU and cove-fs, from smaps_rollup."])


def output_seconds(who):
    begin = time.monotonic()
    p = subprocess.run([who.cove, "exec", "bench-vm", "--", "./vm_spawn", "out", str(MIB)],
                       env=who.env(), cwd=who.work, stdin=subprocess.DEVNULL, timeout=300,
                       stdout=subprocess.PIPE, check=True)
    if len(p.stdout) != MIB << 20:
        raise RuntimeError("output of a machine: cut")
    return time.monotonic() - begin


def run_exec(places, opts):
    who, runs, streams = places.main, *((30, 2) if opts.quick else (200, 7))
    print("bench: exec and output of a running virtual machine", flush=True)
    raw = plain(who)
    shutil.copy2(who.program("vm_spawn"), who.work)
    echo, rate = [], {"cove exec": [], "port, from memory": [], "port, from a pipe": []}
    inside, lib = [], []
    try:
        must(cove(who, "create", "bench-vm", who.work, "--backend", "vm", *SMALL), "cove create")
        must(cove(who, "start", "bench-vm"), "cove start")
        raw.save()
        m = raw.clone()
        try:
            m.ask(b"e")
            for _ in range(5):
                echo += [timed(lambda: m.ask(b"e")) for _ in range(runs // 5)]
                inside += report.parse_samples(must(cove(
                    who, "exec", "bench-vm", "--", "./vm_spawn", str(runs // 5), "/bin/true"),
                    "vm_spawn").stdout)["inside"]["ns"]
                lib += report.parse_samples(must(who.run(
                    [who.program("exec_lib"), "bench-vm", str(runs // 5), "/bin/true"], timeout=300),
                    "exec_lib").stdout)["cove_exec"]["ns"]
            for _ in range(streams):
                rate["cove exec"].append(MIB / output_seconds(who))
                rate["port, from memory"].append(MIB / m.stream(b"w", MIB << 20))
                rate["port, from a pipe"].append(MIB / m.stream(b"p", MIB << 20))
        finally:
            m.end()
    finally:
        down(who, "bench-vm")
        raw.close()
    s = {k: report.summary(v) for k, v in {"link: echo of a plain port": echo, "inside: spawn and wait": inside,
                                          "cove_exec()": lib}.items()}
    p50 = [s[k]["p50_ms"] for k in s]
    best = {k: report.median(v) for k, v in rate.items()}
    out = result(
        "exec and output of a running virtual machine", ["what", "runs", "min ms", "p50 ms", "p90 ms", ""],
        [stat_row(k, s[k]) for k in s],
        [report.bar("exec of /bin/true / (echo + start inside)", p50[2] / (p50[0] + p50[1]), 2),
         report.bar("output / a port written from memory",
                    best["cove exec"] / best["port, from memory"], 0.7, at_least=True),
         report.bar("output / a port fed from a pipe",
                    best["cove exec"] / best["port, from a pipe"], 0.7, at_least=True)],
        {"latency": s, "mib_per_s": best},
        ["Echo and port: bench/vm_agent.c in a plain machine; what is written comes in blocks of 64 KiB from the "
         "same kind of program everywhere (head writes 8 KiB at a time, and is the slowest part itself). The first programs inside are translated "
         "by QEMU once; medians do not see that."])
    out["tables"].append({"title": f"{MIB} MiB to the host", "head": ["way", "MiB/s"],
                          "rows": [[k, f"{v:.0f}"] for k, v in best.items()]})
    return out
