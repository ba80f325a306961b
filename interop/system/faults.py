"""What can happen to a daemon: each fault is made ready before the system starts, injected, and undone.

A fault is an instance for one run of the system. `before(daemon)` says with which settings, and behind which words, the
daemon is started. `inject(victims)` returns the moment of the fault, by CLOCK_MONOTONIC; what belongs to a fault that
takes time to inject counts as time of the fault. `undo(victims)` leaves the system as it was.
"""

import fcntl
import mmap
import os
import resource
import shutil
import socket
import struct
import subprocess
import threading
import time

from network import _socket_in, netns
from process import ROOT, WATCHDOG_S, wait_until

CUT = 'inet tickcast_cut'
# Those of the tests of the backbone.
CERTIFICATES = os.path.join(ROOT, 'interop', 'testdata', 'backbone')
PEER_NAMES = '["distributor.example", "p2ps.example"]'
# As many connections as make a daemon open descriptors, log lines and ask for memory, in a second.
LOAD_PER_S = 200


class Fault:
    """Nothing: the same run without a fault shows what the machine itself does."""

    def __init__(self, rig):
        self.rig = rig

    def before(self, name):
        """(settings, words in front of the command line, environment) for a daemon."""
        return {}, [], {}

    def inject(self, victims):
        return time.monotonic()

    def undo(self, victims):
        pass

    def close(self):
        """When the system is down."""


class Kill(Fault):
    """kill -9, and the same command line again."""

    def inject(self, victims):
        at = time.monotonic()
        for victim in victims:
            victim.child.kill()
        return at

    def undo(self, victims):
        for victim in victims:
            victim.kill()
            victim.start()


class Stop(Fault):
    """SIGSTOP, and SIGCONT."""

    def inject(self, victims):
        at = time.monotonic()
        for victim in victims:
            victim.hold()
        return at

    def undo(self, victims):
        for victim in victims:
            victim.go_on()


class Cut(Fault):
    """A packet filter on the victim's host drops all that comes in, all that goes out, or both. No end of a connection
    comes to anybody."""

    HOOKS = {'in': 'input', 'out': 'output'}
    ways = ('in', 'out')

    def inject(self, victims):
        devices = {'in': 'iifname', 'out': 'oifname'}
        chains = [
            'chain %s {\n type filter hook %s priority -10\n %s "eth0" drop\n}\n' % (way, self.HOOKS[way], devices[way])
            for way in self.ways
        ]
        at = time.monotonic()
        for victim in victims:
            self._nft(victim, 'table %s {\n%s}\n' % (CUT, ''.join(chains)))
        return at

    def undo(self, victims):
        for victim in victims:
            self._nft(victim, 'delete table %s\n' % CUT)

    def _nft(self, victim, text):
        words = self.rig.lab.command(self.rig.host_of(victim), 'nft', '-f', '-')
        subprocess.run(words, input=text, text=True, check=True)


class CutIn(Cut):
    """Only what comes to the victim's host is dropped: it still sends."""

    ways = ('in',)


class CutOut(Cut):
    """Only what the victim's host sends is dropped: it still hears."""

    ways = ('out',)


class UnderLoad(Fault):
    """While it lasts, strangers connect to the victims and say nothing, so that they accept, log and take memory."""

    def inject(self, victims):
        self.is_over = threading.Event()
        at = self.begin(victims)
        self.threads = [threading.Thread(target=self._load, args=(victim,), daemon=True) for victim in victims]
        for thread in self.threads:
            thread.start()
        return self.wait(victims, at)

    def begin(self, victims):
        raise NotImplementedError

    def wait(self, victims, at):
        """The moment that counts, if it is a later one."""
        return at

    def undo(self, victims):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.end(victims)

    def end(self, victims):
        raise NotImplementedError

    def _load(self, victim):
        host, connections = self.rig.host_of(victim), []
        namespace = '%s-%s-%s' % (netns.PREFIX, self.rig.lab.name, host)
        while not self.is_over.wait(1 / LOAD_PER_S):
            try:
                stranger = _socket_in(namespace)
                stranger.settimeout(0.1)
                stranger.connect(('127.0.0.1', self.rig.port_of(victim)))
                # The beginning of a handshake, for which it waits.
                stranger.sendall(b'\0')
                connections.append(stranger)
            except OSError:
                pass
        for stranger in connections:
            stranger.close()


class FullDisk(UnderLoad):
    """The file system of the log and of the file of counters is full."""

    SIZE = '8m'

    def __init__(self, rig):
        super().__init__(rig)
        self.places = {}

    def before(self, name):
        place = self.places[name] = os.path.join(self.rig.directory, 'disk-' + name)
        os.mkdir(place)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=' + self.SIZE, 'none', place], check=True)
        sets = {'log.file': os.path.join(place, 'log'), 'log.level': 'debug', 'admin.counters_directory': place}
        return sets, [], {}

    def begin(self, victims):
        at = time.monotonic()
        for victim in victims:
            with open(os.path.join(self.places[victim.name], 'fill'), 'wb', buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(1 << 16))
                except OSError:
                    pass
        return at

    def end(self, victims):
        for victim in victims:
            os.unlink(os.path.join(self.places[victim.name], 'fill'))

    def close(self):
        for place in self.places.values():
            subprocess.run(['umount', place], check=False)
            shutil.rmtree(place, ignore_errors=True)


class SlowDisk(UnderLoad):
    """What takes nothing for a while: the log goes to a pipe (a log file cannot be one, so to standard error), which nobody
    reads while the fault lasts. A write to a disk that hangs waits in the same way."""

    PIPE_BYTES = 4096

    def __init__(self, rig):
        super().__init__(rig)
        self.pipes, self.readers = [], []
        self.is_read, self.is_closed = threading.Event(), threading.Event()
        self.is_read.set()

    def before(self, name):
        path = os.path.join(self.rig.directory, 'pipe-' + name)
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.pipes.append(pipe)
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, self.PIPE_BYTES)
        self.readers.append(threading.Thread(target=self._read, args=(pipe,), daemon=True))
        self.readers[-1].start()
        return {'log.level': 'debug'}, ['sh', '-c', 'exec "$@" 2> "$0"', path], {}

    def begin(self, victims):
        self.is_read.clear()
        return time.monotonic()

    def end(self, victims):
        self.is_read.set()

    def _read(self, pipe):
        while not self.is_closed.is_set():
            self.is_read.wait()
            try:
                os.read(pipe, 1 << 16)
            except BlockingIOError:
                self.is_closed.wait(0.01)

    def close(self):
        self.is_closed.set()
        self.is_read.set()
        for reader in self.readers:
            reader.join()
        for pipe in self.pipes:
            os.close(pipe)


class Clock(Fault):
    """The wall clock jumps by an hour, to and fro, for the victim alone.

    A library in front of the C library adds what stands in a file to CLOCK_REALTIME. The machine's clock stays. All that
    reads the wall clock is in use: topic resolution is signed with the time, links are encrypted by certificates, which
    expire, and updates carry hop stamps.
    """

    STEP_S = 3600
    SOURCE = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile int64_t *offset;
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) offset = at;
        close(fd);
    }
}
int clock_gettime(clockid_t clock, struct timespec *into) {
    int result = (int)syscall(SYS_clock_gettime, clock, into);
    if (result == 0 && clock == CLOCK_REALTIME && offset) into->tv_sec += *offset;
    return result;
}
'''

    def __init__(self, rig):
        super().__init__(rig)
        self.library = os.path.join(rig.directory, 'clock.so')
        source = os.path.join(rig.directory, 'clock.c')
        with open(source, 'w') as f:
            f.write(self.SOURCE)
        subprocess.run(['cc', '-shared', '-fPIC', '-O1', '-o', self.library, source], check=True)
        self.keys = os.path.join(rig.directory, 'keys')
        with open(self.keys, 'w') as f:
            f.write('1 %s\n' % ('5a' * 32))
        os.chmod(self.keys, 0o600)
        self.files = {}

    def before(self, name):
        path = os.path.join(self.rig.directory, 'clock-' + name)
        with open(path, 'wb') as f:
            f.write(bytes(4096))
        with open(path, 'r+b') as f:
            self.files[name] = mmap.mmap(f.fileno(), 4096)
        own = os.path.join(CERTIFICATES, 'distributor' if name.startswith('distributor') else 'p2ps')
        sets = {
            'backbone.%s_key_file' % kind: self.keys for kind in ('authentication', 'encryption')
        } | {
            'backbone.certificate_file': own + '.pem',
            'backbone.key_file': own + '.key',
            'backbone.ca_file': os.path.join(CERTIFICATES, 'ca.pem'),
            'backbone.peer_names': PEER_NAMES,
        }
        if name.startswith('distributor'):
            sets['source_distributor.hop_stamps'] = 'true'
        return sets, [], {'LD_PRELOAD': self.library, 'CLOCK_OFFSET_FILE': path}

    def inject(self, victims):
        return self._step(victims, self.STEP_S)

    def undo(self, victims):
        self._step(victims, 0)

    def _step(self, victims, seconds):
        at = time.monotonic()
        for victim in victims:
            struct.pack_into('q', self.files[victim.name], 0, seconds)
        return at


class ClockBack(Clock):
    """The same, an hour back and forth again."""

    STEP_S = -3600


class Descriptors(UnderLoad):
    """The victim may have no more descriptors than it has, while strangers connect."""

    def begin(self, victims):
        self.limits = {}
        at = time.monotonic()
        for victim in victims:
            soft, hard = resource.prlimit(victim.pid, resource.RLIMIT_NOFILE)
            self.limits[victim] = soft, hard
            resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (victim.descriptors(), hard))
        return at

    def end(self, victims):
        for victim in victims:
            resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, self.limits[victim])


class Memory(UnderLoad):
    """The victim reaches a memory ceiling, is killed for it, and is started again.

    The ceiling is that of a memory control group, where one can be made; elsewhere RLIMIT_AS, at which the process ends by
    itself. The fault is the moment at which the process has ended.
    """

    ROOM_BYTES = 1 << 20
    GROUPS = '/sys/fs/cgroup/memory'
    UNIFIED = '/sys/fs/cgroup'

    def kind(self):
        """How the ceiling is made here."""
        if os.access(os.path.join(self.GROUPS, 'cgroup.procs'), os.W_OK):
            return 'cgroup v1'
        try:
            with open(os.path.join(self.UNIFIED, 'cgroup.subtree_control')) as f:
                return 'cgroup v2' if 'memory' in f.read().split() else 'RLIMIT_AS'
        except OSError:
            return 'RLIMIT_AS'

    def begin(self, victims):
        self.groups = []
        for victim in victims:
            kind = self.kind()
            if kind == 'RLIMIT_AS':
                with open('/proc/%d/statm' % victim.pid) as f:
                    used = int(f.read().split()[0]) * mmap.PAGESIZE
                _, hard = resource.prlimit(victim.pid, resource.RLIMIT_AS)
                resource.prlimit(victim.pid, resource.RLIMIT_AS, (used + self.ROOM_BYTES, hard))
                continue
            root = self.GROUPS if kind == 'cgroup v1' else self.UNIFIED
            group = os.path.join(root, 'tickcast-%d-%s' % (os.getpid(), victim.name))
            os.makedirs(group, exist_ok=True)
            self.groups.append(group)
            # What the process has got before counts for where it came from: what it gets from now on is bounded.
            ceiling = 'memory.limit_in_bytes' if kind == 'cgroup v1' else 'memory.max'
            for name, value in (ceiling, self.ROOM_BYTES), ('cgroup.procs', victim.pid):
                with open(os.path.join(group, name), 'w') as f:
                    f.write(str(value))
        return time.monotonic()

    def wait(self, victims, at):
        ended = []
        for victim in victims:
            until = time.monotonic() + WATCHDOG_S
            while victim.is_running():
                if time.monotonic() > until:
                    raise AssertionError('%s has not reached the ceiling' % victim.name)
                time.sleep(0.0005)
            ended.append(time.monotonic())
        return min(ended)

    def end(self, victims):
        for victim in victims:
            victim.kill()
            victim.start()
        for group in self.groups:
            wait_until(lambda: _is_removed(group), 'the control group %s is empty' % group)


def _is_removed(group):
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True
