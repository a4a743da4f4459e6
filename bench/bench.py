# SPDX-License-Identifier: Apache-2.0
"""The benchmark of cove: runs the topics asked for, writes benchmarks/results.{md,json}.

Started by bench/run.sh, which builds the programs in --programs.
"""
import argparse
import os
import sys
import traceback

import egress
import egress_live
import egress_tls
import inside
import policy
import report
import sandboxes
import scan
import startup
import vm
import vm_files
import workspace
import workspace_land
from place import Places

TOPICS = {"startup": startup.run, "exec": sandboxes.run_exec, "caller": sandboxes.run_caller,
          "memory": sandboxes.run_memory, "many": sandboxes.run_many,
          "syscalls": inside.run_syscalls, "throughput": inside.run_throughput,
          "scan": scan.run, "files": workspace.run, "diff": workspace_land.run_diff,
          "land": workspace_land.run_land, "policy": policy.run, "net": egress.run,
          "net-tls": egress_tls.run, "net-held": egress_live.run_held,
          "net-reload": egress_live.run_reload, "vm-start": vm.run_start,
          "vm-memory": vm.run_memory, "vm-exec": vm.run_exec, "vm-files": vm_files.run}


def main():
    a = argparse.ArgumentParser(prog="bench/run.sh")
    a.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    a.add_argument("--quick", action="store_true", help="few runs; results beside the binaries")
    a.add_argument("--only", default=",".join(TOPICS), help="topics: " + " ".join(TOPICS))
    a.add_argument("--out", help="directory for the results")
    a.add_argument("--no-npm", action="store_true", help="leave out srt and codex")
    opts = a.parse_args()
    topics = opts.only.split(",")
    for t in topics:
        if t not in TOPICS:
            a.error(f"--only {t}: not one of {' '.join(TOPICS)}")
    results = report.Results(opts.out or (opts.programs if opts.quick else "benchmarks"))
    places = Places(opts.programs, os.environ["COVE"], want_user=not {"startup", "net", "net-tls", "net-held"}.isdisjoint(topics))
    failed = False
    try:
        for t in topics:
            try:
                results.put(t, TOPICS[t](places, opts))
            except Exception as e:  # one topic that fails does not take the others with it
                failed = True
                print(f"bench: {t}: {e}", file=sys.stderr)
                if os.environ.get("BENCH_DEBUG"):
                    traceback.print_exc()
    finally:
        places.close()
    results.terminal(topics)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
