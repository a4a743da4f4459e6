# SPDX-License-Identifier: Apache-2.0
"""The secret scan: speed over source text, what it finds, what it leaves alone.

A topic of bench/run.sh, and a program of its own: bench/scan.py COVE [--quick]
"""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import report
import scan_samples

CACHE = os.path.expanduser("~/.cache/cove-bench")
PACKAGE = "@nogoo9/gitleaks-linux-x64"
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ("/usr/include", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share", "/usr/src",
           "/usr/lib/node_modules", "/usr/lib/go", "/usr/local/lib")
SUFFIXES = (".c", ".h", ".hpp", ".cc", ".cpp", ".py", ".js", ".ts", ".pl", ".pm", ".rb", ".go",
            ".rs", ".java", ".sh", ".lua", ".tcl", ".el", ".vim", ".m4", ".cmake", ".css", ".html",
            ".xml", ".json", ".yaml", ".yml", ".toml", ".md", ".rst", ".txt")


def corpus(directory, size):
    """Copies source text of this host, in a fixed order, until there is enough."""
    total = count = 0
    for top in SOURCES:
        for path, dirs, files in os.walk(top):
            dirs.sort()
            for name in sorted(files):
                src = os.path.join(path, name)
                if not name.endswith(SUFFIXES) or os.path.islink(src):
                    continue
                n = os.path.getsize(src)
                if n > 4 << 20:
                    continue
                dst = os.path.join(directory, f"d{count // 200}")
                os.makedirs(dst, exist_ok=True)
                shutil.copyfile(src, os.path.join(dst, f"{count}-{name}"))
                total, count = total + n, count + 1
                if total >= size:
                    return total, count
    return total, count


def gitleaks():
    """The program, from a cache outside the repository; None if it cannot be had."""
    path = os.path.join(CACHE, "gitleaks", "package", "bin", "gitleaks")
    if os.path.exists(path):
        return path
    where = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    os.makedirs(where, exist_ok=True)
    try:
        subprocess.run(["npm", "pack", PACKAGE], cwd=where, capture_output=True, timeout=300)
        archive = next(f for f in os.listdir(where) if f.endswith(".tgz"))
        subprocess.run(["tar", "xzf", archive], cwd=where, timeout=60)
        os.chmod(path, 0o755)
    except (OSError, StopIteration, subprocess.SubprocessError):
        return None
    return path


def gitleaks_rules(program):
    """Its own rule file, which it carries inside."""
    with open(program, "rb") as f:
        data = f.read()
    at = data.find(b"# This file has been auto-generated. Do not edit manually.")
    end = re.compile(rb"[^\t\n\r -\x7f]").search(data, at).start()
    lines = data[at:end].decode().split("\n")
    for n in range(len(lines), 0, -1):
        try:
            tomllib.loads("\n".join(lines[:n]))
            return "\n".join(lines[:n]) + "\n"
        except tomllib.TOMLDecodeError:
            pass
    raise RuntimeError("no rule file in gitleaks")


def timed(argv):
    """Wall and processor seconds of one run on one processor."""
    cpu = max(os.sched_getaffinity(0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    r = subprocess.run(["taskset", "-c", str(cpu), *argv], capture_output=True, text=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if r.returncode not in (0, 1):
        raise RuntimeError(f"{argv[0]}: {r.stderr.strip()}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cove_findings(cove, *words):
    r = subprocess.run([cove, "scan", "--json", *words], capture_output=True, text=True)
    if r.returncode not in (0, 1):
        raise RuntimeError("cove scan: " + r.stderr.strip())
    return json.loads(r.stdout)["findings"]


def planted(cove, base, seed):
    """How many secrets of each built-in rule's form are not found (by any rule)."""
    with open(os.path.join(TOP, "rules", "secrets.toml"), "rb") as f:
        rules = tomllib.load(f)["rules"]
    directory = os.path.join(base, "planted")
    os.makedirs(directory)
    made = scan_samples.plant(rules, directory, 1, seed)
    hit = {os.path.basename(f["path"]) for f in cove_findings(cove, directory)}
    return len(made), [r for name, r in made.items() if name not in hit]


def parity(cove, program, base, seed):
    """The findings of gitleaks with its own rules that cove does not have."""
    config = os.path.join(base, "gitleaks-rules.toml")
    with open(config, "w") as f:
        f.write(gitleaks_rules(program))
    directory, out = os.path.join(base, "parity"), os.path.join(base, "gitleaks.json")
    os.makedirs(directory)
    with open(config, "rb") as f:
        scan_samples.plant(tomllib.load(f)["rules"], directory, 8, seed)
    subprocess.run([program, "dir", "-c", config, "--no-banner", "-l", "error", "-f", "json", "-r",
                    out, "."], cwd=directory, capture_output=True, timeout=600)
    with open(out) as f:
        theirs = {(x["RuleID"], x["File"], x["StartLine"]) for x in json.load(f)}
    ours = {(x["rule"], os.path.basename(x["path"]), x["line"])
            for x in cove_findings(cove, "--rules", config, directory)}
    return len(theirs), sorted(theirs - ours)


def measure(cove, base, quick):
    size = (20 if quick else 200) << 20
    runs = 3 if quick else 7
    tree = os.path.join(base, "corpus")
    os.makedirs(tree)
    total, count = corpus(tree, size)
    empty = os.path.join(base, "empty")
    open(empty, "w").close()
    clean = cove_findings(cove, tree)  # and the page cache is warm
    walls, cpus = zip(*(timed([cove, "scan", "-q", tree]) for _ in range(runs)))
    start = report.median([timed([cove, "scan", empty])[0] for _ in range(20)])
    out = {"bytes": total, "files": count, "runs": runs, "cove_s": min(walls),
           "cove_median_s": report.median(walls), "cove_cpu_s": min(cpus), "start_ms": start * 1e3,
           "clean": len(clean), "clean_rules": sorted({f["rule"] for f in clean})}
    out["planted"], out["not_found"] = planted(cove, base, 1)
    program = gitleaks()
    if program:
        out["gitleaks_s"] = timed([program, "dir", "--no-banner", "-l", "error", tree])[0]
        out["theirs"], out["missed"] = parity(cove, program, base, 2)
    return out


def result(m):
    mb = m["bytes"] / 1e6
    speed = mb / m["cove_s"]
    rows = [["cove scan, built-in rules", f"{mb:.0f}", m["files"], f"{m['cove_s']:.3f}",
             f"{speed:.0f}"]]
    ratio = missed = None
    notes = ["Whole processes (the command and the scanner it starts), both on one processor; "
             f"the best of {m['runs']} runs, the median took {m['cove_median_s']:.3f} s. The text "
             "is source code and documentation of this host.",
             f"`cove scan` of an empty file takes {m['start_ms']:.1f} ms.",
             f"Findings on this text: {m['clean']} ({', '.join(m['clean_rules']) or 'none'})."]
    if "gitleaks_s" in m:
        theirs = mb / m["gitleaks_s"]
        ratio, missed = speed / theirs, len(m["missed"])
        rows.append(["gitleaks 8.30, its own rules", f"{mb:.0f}", m["files"],
                     f"{m['gitleaks_s']:.3f}", f"{theirs:.1f}"])
        notes.append(f"With gitleaks' own rule file, on texts made from its expressions, gitleaks "
                     f"has {m['theirs']} findings; cove misses {missed} of them.")
    else:
        rows.append(["gitleaks", "", "", "not installed", ""])
    return {"title": "Secret scan",
            "tables": [{"title": "", "head": ["what", "MB", "files", "s", "MB/s"], "rows": rows}],
            "bars": [report.bar("secret scan of source text on one processor", speed, 600, " MB/s",
                                at_least=True),
                     report.bar("secret scan / gitleaks", ratio, 25, " x", at_least=True),
                     report.bar(f"planted secrets not found, of {m['planted']}",
                                len(m["not_found"]), 0),
                     report.bar("findings of gitleaks missed with the same rules", missed, 0),
                     report.bar("findings per 100 MB of clean source", m["clean"] * 100 / mb, 2)],
            "samples": m, "notes": notes}


def run(places, opts):
    print("bench: secret scan", flush=True)
    base = os.path.join(places.main.base, "scan")
    os.makedirs(base)
    try:
        return result(measure(places.main.cove, base, opts.quick))
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="cove-bench-", dir="/var/tmp") as d:
        r = result(measure(sys.argv[1], d, "--quick" in sys.argv))
    for b in r["bars"]:
        print(" | ".join(report.bar_text(b)))
    print("\n".join(" | ".join(map(str, row)) for row in r["tables"][0]["rows"]))
    print("\n".join(r["notes"]), r["samples"]["not_found"], r["samples"].get("missed", [])[:5])
