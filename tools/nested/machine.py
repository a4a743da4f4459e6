#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machine.py - starts the nested machine, runs one command in it, ends with its status.

run.sh starts it as PID 1 of a pid namespace and a mount namespace of its own: whatever it
mounts, starts or creates is gone with it, also after kill -9. It shares the host's system
directories and the project with the machine by virtiofs, read-only by the host's own mounts,
starts QEMU, and carries bytes. init.c is the other end and says how the two talk.

A machine that stops giving signs of life is started once more and the fact is printed: nested
SVM in emulation hangs now and then, and a hang is no verdict on what ran inside. A command that
takes too long in a machine that is alive is another matter: status 124, no second try.
"""
import argparse
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time

# From the host, read-only. Everything else in the machine's root is empty and writable.
SYSTEM = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'usr', 'etc', 'opt']
EMPTY = ['dev', 'proc', 'sys', 'run', 'tmp', 'root', 'home', 'mnt', 'media', 'srv', 'boot',
         'var/tmp', 'var/lib', 'var/log', 'var/cache']
VIRTIOFSD = ['/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd']
SCRATCH_GIB = 8  # a sparse file in memory: costs what is written to it

# AMD, as SVM is what QEMU emulates; without what emulation lacks and would warn about.
CPU = ('EPYC,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,-3dnowprefetch,-osvw,-topoext,'
       '-nrip-save,-xsavec')
# No self-tests, no mitigations against neighbours that are not there; an oops is a panic, and that
# ends QEMU. The counter is trusted: found "unstable" on a busy host, it makes way for a timer that
# costs more. Processors but the first are started late (init.c).
KERNEL_ARGS = ('console=ttyS0 quiet panic=-1 mitigations=off cryptomgr.notests nokaslr '
               'no_timer_check random.trust_cpu=on rcupdate.rcu_expedited=1 tsc=reliable '
               'oops=panic maxcpus=1')
# For the guests of this machine. One that sleeps with no timer set may miss its interrupt; the
# other two only save time, as for any emulated machine (docs/vm.md).
GUEST_ARGS = 'nohz=off mitigations=off norandmaps'
PORTS = ['nested.control', 'nested.out', 'nested.err']

BOOT_SECONDS = 60   # 4-6 on a quiet machine
SILENT_SECONDS = 30  # it beats once a second


class Hung(Exception):
    """The machine gives no sign of life."""


class Failed(Exception):
    """It could not be started, or ended by itself."""


def waits(pid):
    """Of every thread below a process: nanoseconds in which it could have run and had no cpu."""
    found, left = {}, [str(pid)]
    while left:
        tasks = f'/proc/{left.pop()}/task'
        try:
            for thread in os.listdir(tasks):
                with open(f'{tasks}/{thread}/children', encoding='ascii') as f:
                    left += f.read().split()
                with open(f'{tasks}/{thread}/schedstat', encoding='ascii') as f:
                    found[thread] = int(f.read().split()[1])
        except (OSError, IndexError):
            continue  # it has ended, or this kernel does not count
    return found


class Clock:
    """Seconds as on a machine of one's own: those in which a thread of the machine waited for a
    cpu do not count. Waiting is all that is taken off, so a machine that hangs is found in time;
    and never all of it, so that there is an end."""

    def __init__(self, pid):
        self.now = 0.0
        self.pid = pid
        self.last = time.monotonic()
        self.waits = waits(pid)

    def tick(self):
        wall = time.monotonic()
        if wall - self.last < 0.2:
            return self.now
        # A long step is one in which this process stood still (a full pipe, a suspended host).
        step = min(wall - self.last, 2)
        before, self.waits, self.last = self.waits, waits(self.pid), wall
        lost = max((ns - before.get(t, 0) for t, ns in self.waits.items()), default=0) / 1e9
        self.now += max(step / 20, step - lost)
        return self.now


def say(text):
    sys.stdout.flush()
    print(f'nested: {text}', file=sys.stderr, flush=True)


def mount(*args):
    subprocess.run(['mount', *args], check=True)


def bind_read_only(source, target):
    os.makedirs(target, exist_ok=True)
    mount('--bind', source, target)
    mount('-o', 'remount,bind,ro', target)


def stage_root(root, shares):
    for name in EMPTY:
        os.makedirs(f'{root}/{name}')
    os.symlink('/run', f'{root}/var/run')
    for name in SYSTEM:
        if os.path.islink(f'/{name}'):
            os.symlink(os.readlink(f'/{name}'), f'{root}/{name}')
        elif os.path.isdir(f'/{name}'):
            bind_read_only(f'/{name}', f'{root}/{name}')
    for i, directory in enumerate(shares):
        bind_read_only(directory, f'{root}/.nested/share/{i}')


def stage_job(root, shares, variables, command):
    """The script that init starts: shares to their places, which may be below /home or /tmp,
    where something else is mounted by then; then the command."""
    lines = [f'export {name}={shlex.quote(value)}' for name, value in variables.items()]
    for i, directory in enumerate(shares):
        place = shlex.quote(directory)
        lines += [f'mkdir -p {place} && mount --bind /.nested/share/{i} {place} || exit 125']
    lines += [f'cd {shlex.quote(shares[0])} || exit 125', f'exec {shlex.join(command)}']
    with open(f'{root}/.nested/job', 'w', encoding='utf-8') as f:
        f.write('\n'.join(lines) + '\n')


def make_scratch(path):
    with open(path, 'wb') as f:
        f.truncate(SCRATCH_GIB << 30)
    subprocess.run(['mke2fs', '-q', '-F', '-t', 'ext4', '-O', '^has_journal', '-E',
                    'lazy_itable_init=1,nodiscard', '-m', '0', path], check=True)


def qemu_program(machine):
    """The one that was fetched (qemu.sh), with its own firmware, or the installed one."""
    own = f'{machine}/qemu/usr'
    if not os.path.exists(f'{own}/bin/qemu-system-x86_64'):
        return ['qemu-system-x86_64']
    return [f'{own}/bin/qemu-system-x86_64', '-L', f'{own}/share/seabios', '-L',
            f'{own}/share/qemu']


def qemu_command(machine, memory_mib, ports, monitor):
    cpus = min(4, max(2, len(os.sched_getaffinity(0))))
    tsc_khz = subprocess.run([f'{machine}/tsc'], check=True, capture_output=True, text=True).stdout
    command = [
        *qemu_program(machine), '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
        '-M', 'q35,memory-backend=ram', '-accel', 'tcg,thread=multi', '-cpu', CPU,
        '-smp', str(cpus), '-m', f'{memory_mib}M',
        '-object', f'memory-backend-memfd,id=ram,size={memory_mib}M,share=on',
        '-kernel', f'{machine}/vmlinuz', '-initrd', f'{machine}/initramfs',
        '-append', f'{KERNEL_ARGS} tsc_early_khz={int(tsc_khz)}',
        '-chardev', 'file,id=console,path=console', '-serial', 'chardev:console',
        '-chardev', f'socket,id=monitor,fd={monitor}', '-mon', 'chardev=monitor,mode=readline',
        '-chardev', 'socket,id=fs,path=fs.sock',
        '-device', 'vhost-user-fs-pci,chardev=fs,tag=nested',
        '-drive', 'if=none,id=scratch,file=scratch,format=raw,cache=unsafe,discard=unmap',
        '-device', 'virtio-blk-pci,drive=scratch',
        '-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci']
    for i, name in enumerate(PORTS):
        command += ['-chardev', f'socket,id=port{i},fd={ports[i]}',
                    '-device', f'virtserialport,chardev=port{i},name={name}']
    return command


def wait_until(condition, seconds, what):
    clock = Clock(os.getpid())
    while not condition():
        if clock.tick() > seconds:
            raise Failed(f'waited in vain for {what}')
        time.sleep(0.01)


def start_virtiofsd(root):
    program = next(p for p in VIRTIOFSD if os.access(p, os.X_OK))
    # The host's files do not change while a test runs: what was looked up once stays.
    with open('fs.log', 'wb') as log:
        daemon = subprocess.Popen(
            [program, '--socket-path=fs.sock', '-o', f'source={root}', '-o', 'cache=always',
             '-o', 'sandbox=chroot'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_until(lambda: os.path.exists('fs.sock') or daemon.poll() is not None, 20, 'virtiofsd')
    if daemon.poll() is not None:
        raise Failed('virtiofsd did not start')
    return daemon


class Session:
    """One start of the machine and the one command in it."""

    def __init__(self, machine, memory_mib, root, silence):
        self.silence = silence
        self.began = time.monotonic()
        if os.path.exists('fs.sock'):
            os.unlink('fs.sock')
        make_scratch('scratch')
        self.daemon = start_virtiofsd(root)
        pairs = [socket.socketpair() for _ in range(len(PORTS) + 1)]
        self.control, self.out, self.err, self.monitor = (ours for ours, _ in pairs)
        theirs = [end.fileno() for _, end in pairs]
        self.qemu = subprocess.Popen(qemu_command(machine, memory_mib, theirs[:3], theirs[3]),
                                     pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        for _, end in pairs:
            end.close()
        self.clock = Clock(os.getpid())
        self.heard = 0.0
        self.up = None  # seconds to the first command
        self.limit = None
        self.text = b''
        self.status = None

    def run(self, timeout):
        """The command's status; 124 when it took more than the timeout."""
        carried = {self.out: 1, self.err: 2}
        waiting = {self.control, *carried}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 0.5)
            for end in ready:
                data = end.recv(65536)
                if not data:
                    waiting.discard(end)
                elif end is self.control:
                    self.hear(data)
                else:
                    write_all(carried[end], data)
            if self.status is not None and not ready:
                return self.status
            if self.too_late(bool(ready), timeout):
                say(f'the command is not done after {timeout:g} s')
                return 124
        if self.status is None:
            raise Failed('the machine ended by itself')
        return self.status

    def hear(self, data):
        *lines, self.text = (self.text + data).split(b'\n')
        for line in lines:
            if line == b'up':
                self.up = time.monotonic() - self.began
            elif line.startswith(b'exit '):
                self.status = int(line[5:])

    def too_late(self, heard, timeout):
        now = self.clock.tick()
        if heard:
            self.heard = now
        if self.up is None:
            if now > BOOT_SECONDS:
                raise Hung('does not come up')
            return False
        if self.limit is None:
            self.limit = now + timeout
        if now - self.heard > self.silence:
            raise Hung('no longer answers')
        return now > self.limit and self.status is None

    def where(self):
        """Where the processors are, and which interrupts wait for them: a bit in IRR of one that
        sleeps (HLT=1) with interrupts on is one that was lost."""
        try:
            self.monitor.setblocking(False)
            self.monitor.sendall(b'info registers -a\ninfo lapic 0\ninfo lapic 1\n')
            time.sleep(1)
            text = self.monitor.recv(1 << 20).decode(errors='replace')
        except OSError:
            return ['QEMU does not answer either']
        return [line.strip() for line in text.splitlines()
                if line.startswith(('CPU#', 'RIP=', 'dumping', 'LVTT', 'IRR', 'ISR', 'Timer'))]

    def end(self):
        for process in (self.qemu, self.daemon):
            process.kill()
            process.wait()


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def tail(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read().splitlines()[-60:]
    except OSError:
        return []


def attempt(options, root):
    session = None
    try:
        session = Session(options.machine, options.memory, root, options.silence)
        status = session.run(options.timeout)
        if options.verbose:
            say(f'a command after {session.up:.1f} s, done after '
                f'{time.monotonic() - session.began:.1f} s')
        return status
    except (Hung, Failed) as e:
        registers = session.where() if isinstance(e, Hung) else []
        for line in tail('fs.log') + tail('console') + registers:
            say(f'  | {line}')
        raise
    finally:
        if session:
            session.end()


def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument('--machine', required=True, help='where vmlinuz and initramfs are')
    parser.add_argument('--project', required=True, help='shared, and the current directory')
    parser.add_argument('--share', action='append', default=[], help='another directory')
    parser.add_argument('--env', action='append', default=[], help='a variable to hand on')
    parser.add_argument('--timeout', type=float, default=300)
    parser.add_argument('--memory', type=int, default=3072, help='in MiB')
    parser.add_argument('--silence', type=float, default=SILENT_SECONDS)
    parser.add_argument('--retries', type=int, default=1)
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('command', nargs='+')
    return parser.parse_args(argv)


def variables(options):
    known = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
             'HOME': '/root', 'USER': 'root', 'LOGNAME': 'root', 'LC_ALL': 'C.UTF-8',
             'COVE_NESTED': options.machine, 'COVE_KERNEL_ARGS': GUEST_ARGS}
    known.update({name: os.environ[name] for name in options.env if name in os.environ})
    return known


def stage(options):
    """All files of a run, in memory. The empty directory below is what stays of it."""
    work = f'{options.machine}/run'
    os.makedirs(work, exist_ok=True)
    mount('-t', 'tmpfs', '-o', 'mode=700,size=90%', 'nested', work)
    mount('-t', 'tmpfs', 'nested', '/run')  # virtiofsd keeps a lock file there
    os.chdir(work)
    root = f'{work}/root'
    os.mkdir(root, 0o755)
    shares = [os.path.realpath(d) for d in (options.project, options.machine, *options.share)]
    stage_root(root, shares)
    stage_job(root, shares, variables(options), options.command)
    return root


def main(argv):
    options = parse(argv)
    # PID 1 gets only the signals it asks for.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: os._exit(128 + n))
    options.machine = os.path.realpath(options.machine)
    root = stage(options)
    for left in range(options.retries, -1, -1):
        try:
            return attempt(options, root)
        except Hung as e:
            once_more = ': known of nested SVM in emulation; once more' if left else ''
            say(f'the machine {e}{once_more}')
        except Failed as e:
            say(str(e))
            break
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
    return 125


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
