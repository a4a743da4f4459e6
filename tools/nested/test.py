#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test.py BUILD [SCRIPT...] - script tests in the nested machine; `make test-kvm` runs it.

Without SCRIPTs: tests/nested/h*.sh on the host, about the machine itself, then tests/nested/n*.sh
inside, as root and as an ordinary user, with FULL=1 also the integration tests with every sandbox a
virtual machine, all in one machine. A script is TAP by tests/lib/harness.sh; WHO:SCRIPT (root:... or
user:...) runs it as that one only, WHO+vm:SCRIPT with virtual machines. Variables called
COVE_TEST_* go along.

A script that takes longer than its limit (a minute or two, stretched on a busy host; a line
`# limit: SECONDS` in it sets its own), takes the machine down with it or fails with a guest that
reset itself gets a second try in a fresh machine, since nested SVM in emulation does these things
now and then. That is printed and counted, and
the second time it is a failure; but a skip when the whole machine stood still both times, which a
program in it can hardly bring about. The others go on where they were.

After MINUTES (40; FULL: 300) nothing new is begun. Logs are in BUILD/nested/logs. The last line is
`N passed, N failed, N skipped, N retried`, and the exit status is 1 if anything failed or
nothing passed.
"""
import glob
import os
import re
import select
import signal
import subprocess
import sys
import time

from machine import Clock

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
LIMIT = 120
VM_LIMIT = 900  # for a script that starts many machines
MINUTES = int(os.environ.get('MINUTES') or (300 if os.environ.get('FULL') else 40))
MEMORY_MIB = 4096
LATE = f'not begun within {MINUTES} min'
RESET = 'the guest reset its machine'  # as the product says it
STOOD_STILL = re.compile(r'nested: the machine (does not come up|no longer answers)')


class Test:
    """One script as one user, and what it said."""

    def __init__(self, item):
        self.who, self.script = item.split(':', 1)
        self.item = item
        self.label = f'{self.who.replace("+", " ")} {os.path.basename(self.script)}'
        self.tries = 0
        self.breaks = []  # when it did not get to its end: whether the machine stood still
        self.lines = []
        self.began = None
        with open(os.path.join(PROJECT, self.script), encoding='utf-8') as f:
            own = re.search(r'^# limit: (\d+)', f.read(), re.M)
        self.limit = int(own[1]) if own else VM_LIMIT if self.who.endswith('+vm') else LIMIT

    def begin(self):
        self.tries += 1
        self.lines = []
        self.began = time.monotonic()

    def met_reset(self, status):
        """A guest of it ended as guests on nested SVM do now and then."""
        return status != 0 and any(RESET in line for line in self.lines)

    def points(self, status):
        """(pass|fail|skip, what) of each line of TAP; a plan that is not met is a failure."""
        found, planned = [], None
        for line in self.lines:
            plan = re.match(r'1\.\.(\d+)(?: # SKIP (.*))?', line)
            point = re.match(r'(not )?ok\b ?\d*[ -]*(.*?)(?: *# SKIP (.*))?$', line)
            if plan:
                planned = int(plan[1])
                if plan[2]:
                    return [('skip', plan[2])]
            elif point and point[3] is not None:
                found.append(('skip', f'{point[2]}: {point[3]}'))
            elif point:
                found.append(('fail' if point[1] else 'pass', point[2]))
        if planned != len(found):
            found.append(('fail', f'the plan was met (planned {planned}, seen {len(found)})'))
        if status != 0 and not any(kind == 'fail' for kind, _ in found):
            found.append(('fail', f'exit status {status}'))
        return found


class Report:
    def __init__(self, logs):
        self.logs = logs
        self.results = []
        self.retried = []
        os.makedirs(logs, exist_ok=True)

    def done(self, test, status):
        points = test.points(status)
        self.results += [(kind, test.label, what) for kind, what in points]
        self.keep(test)
        count = {k: sum(kind == k for kind, _ in points) for k in ('pass', 'fail', 'skip')}
        word = 'FAIL' if count['fail'] else 'ok'
        print(f'  {word:5} {test.label:40} {count["pass"]:3} passed, {count["skip"]} skipped, '
              f'{time.monotonic() - test.began:.1f} s', flush=True)
        if count['fail']:
            self.show(test.lines)

    def keep(self, test, suffix=''):
        name = test.label.replace(' ', '-') + suffix
        with open(f'{self.logs}/{name}.log', 'w', encoding='utf-8') as f:
            f.write('\n'.join(test.lines) + '\n')

    def show(self, lines):
        shown = False
        for line in lines:
            shown = line.startswith('not ok') or (shown and not re.match(r'ok |1\.\.', line))
            if shown or not re.match(r'ok |1\.\.|#', line):
                print(f'      {line}')

    def retry(self, test, why):
        self.retried.append((test.label, why))
        print(f'  again {test.label:40} {why}', flush=True)
        self.keep(test, '.first')
        self.show(test.lines[-20:])

    def skip(self, tests, why):
        for test in tests:
            self.results.append(('skip', test.label, why))
            print(f'  skip  {test.label:40} {why}', flush=True)

    def fail(self, test, why):
        self.results.append(('fail', test.label, why))
        print(f'  FAIL  {test.label:40} {why}', flush=True)
        self.show(test.lines[-20:])

    def summary(self):
        for kind, label, what in self.results:
            if kind != 'pass':
                print(f'{"FAILED" if kind == "fail" else "skipped"}: {label}: {what}')
        for label, why in self.retried:
            print(f'retried: {label}: {why}')
        count = {k: sum(kind == k for kind, _, _ in self.results) for k in ('pass', 'fail', 'skip')}
        print(f'{count["pass"]} passed, {count["fail"]} failed, {count["skip"]} skipped, '
              f'{len(self.retried)} retried')
        return 1 if count['fail'] or not count['pass'] else 0


class Machine:
    """One start of the nested machine with the tests that are still to be done."""

    def __init__(self, build, tests):
        hand_on = [n for n in os.environ if n.startswith('COVE_TEST_')] + ['COVE_BIN']
        command = ['setpriv', '--pdeathsig', 'KILL', f'{HERE}/run.sh', '--retries', '0',
                   '--timeout', str(60 + sum(t.limit for t in tests)),
                   '--memory', str(MEMORY_MIB), '--share', build]
        for name in hand_on:
            command += ['--env', name]
        self.process = subprocess.Popen(
            [*command, '--', 'sh', 'tools/nested/suite.sh', *(t.item for t in tests)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=PROJECT)
        self.rest = b''

    def lines(self):
        """Lines as they come, None now and then when there are none, to the end."""
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            if not ready:
                yield None
                continue
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return
            *whole, self.rest = (self.rest + data).split(b'\n')
            yield from (line.decode(errors='replace') for line in whole)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def run_machine(build, tests, report, until):
    """Takes what it gets done off `tests`; says why it did not get any further, and whether the
    machine as a whole stood still."""
    machine = Machine(build, tests)
    clock = Clock(machine.process.pid)
    current, since, still = None, 0.0, False
    try:
        for line in machine.lines():
            now = clock.tick()
            begin = line and re.match(r'## begin (.*)', line)
            end = line and re.match(r'## end (\d+) (.*)', line)
            if begin:
                if time.monotonic() > until:
                    return LATE, False
                current, since = tests[0], now
                current.begin()
            elif end and tests[0].met_reset(int(end[1])) and not tests[0].breaks:
                return RESET, False
            elif end:
                report.done(tests.pop(0), int(end[1]))
                current = None
            elif line is not None and current:
                current.lines.append(line)
            elif line is not None:
                print(f'      {line}', flush=True)
            still = still or bool(line and STOOD_STILL.match(line))
            if current and now - since > current.limit:
                return f'no end after {current.limit} s', False
    finally:
        machine.end()
    return ('the machine stood still' if still else 'the machine went away'), still


def break_off(tests, why, still, report):
    """The first of `tests` did not get to its end. What becomes of it, and of the others if no
    machine comes up at all."""
    first = tests[0]
    first.breaks.append(still)
    if len(first.breaks) == 1:
        report.retry(first, why)
        return
    ended = tests[:1] if first.tries else tests[:]
    del tests[:len(ended)]
    if all(first.breaks):
        report.skip(ended, f'{why}, twice: nested SVM in emulation')
    else:
        report.fail(first, why)


def run_inside(build, items, report, until):
    tests = [Test(item) for item in items]
    while tests:
        why, still = run_machine(build, tests, report, until)
        if tests and why == LATE:
            report.skip(tests, why)
            return
        if tests:
            break_off(tests, why, still, report)


def run_on_host(items, report):
    for item in items:
        test = Test(item)
        test.begin()
        done = subprocess.run(['sh', test.script], cwd=PROJECT, text=True, errors='replace',
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        test.lines = done.stdout.splitlines()
        report.done(test, done.returncode)


def default_items():
    os.chdir(PROJECT)
    host = [f'host:{s}' for s in sorted(glob.glob('tests/nested/h[0-9]*.sh'))]
    inside = sorted(glob.glob('tests/nested/n[0-9]*.sh'))
    items = host + [f'{who}:{s}' for who in ('root', 'user') for s in inside]
    if os.environ.get('FULL'):
        suite = sorted(glob.glob('tests/integration/t[0-9]*.sh'))
        return items + [f'{who}+vm:{s}' for who in ('root', 'user') for s in suite]
    return items


def main(build, *items):
    began = time.monotonic()
    # These end the machine, too: by the finally above. For kill -9 there is a death signal.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    build = os.path.realpath(build)
    os.environ['COVE_BIN'] = f'{build}/cove'
    os.environ['NESTED'] = f'{build}/nested'
    # The limit of a script is ours, by a clock that knows the load; this one is for the worst.
    os.environ.setdefault('COVE_TEST_TIMEOUT', str(10 * LIMIT))
    items = [i if ':' in i else f'root:{i}' for i in items] or default_items()
    report = Report(f'{build}/nested/logs')
    run_on_host([i for i in items if i.startswith('host:')], report)
    run_inside(build, [i for i in items if not i.startswith('host:')], report,
               began + MINUTES * 60)
    print(f'{time.monotonic() - began:.0f} s')
    return report.summary()


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
