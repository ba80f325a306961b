"""A random life of processes in Rust, C and Python, all of it from a seed.

What is done, and in which order, follows from the seed; when it happens and what comes of it is the machine's. So the
oracle goes by the logs, and what must come is waited for.
"""

import os
import random
import select
import shutil
import signal
import subprocess
import tempfile
import time

from oracle import Ledger

# Who drives a context: the node's own thread, one of the library (in Python one of Python), or one of the library that puts
# events into a queue.
WAYS = {'rust': ('own', 'thread', 'queue'), 'c': ('own', 'thread'), 'python': ('own', 'thread')}
LANGUAGES = tuple(WAYS)
TRANSPORTS = ('lbtrm', 'lbtru', 'tcp', 'lbtipc')
LIFETIME_S = 1800  # a node that nobody ends goes by itself
PATIENCE_S = float(os.environ.get('PATIENCE_S', 300))  # for what must come
NODES_MAX = 7
STEP_S = 0.25  # on average
SPEAKS_S = 1.5  # between two messages of a source that is waited for
MEAN_PAUSE_STEPS = 8
LONG_PAUSE_STEPS = 56  # 14 s, longer than the time-outs


class Stuck(Exception):
    """What must come did not."""


class Process:
    def __init__(self, name, language, node):
        self.name, self.language, self.node = name, language, node
        self.popen, self.pidfd = None, None
        self.runs, self.receives = [], []
        self.is_open = self.is_closing = False
        self.way = None
        self.stopped_until = None  # a step

    def signal(self, number):
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            pass  # it has ended, and `look` says whether it was to

    def is_gone(self, timeout_s=0):
        return bool(select.select([self.pidfd], [], [], timeout_s)[0])


class World:
    """`commands` are those of the nodes, by language; `network` is a Lab of one host, or None: then nothing is lost."""

    def __init__(self, seed, commands, network, steps):
        self.seed, self.commands, self.network, self.steps = seed, commands, network, steps
        self.rng = random.Random(seed)
        self.ledger, self.trace = Ledger(), []
        self.living, self.all = [], []
        self.directory = tempfile.mkdtemp(prefix='tickcast-processes-%d-' % seed)
        self.memory = tempfile.mkdtemp(prefix='tickcast-ipc-', dir='/dev/shm')
        self.step_number = self.run_count = self.dropped = 0
        self.begun = self.spoken = time.monotonic()
        self.topics = ['px.%d' % number for number in range(self.rng.randint(1, 3))]
        self.loss = self.rng.choice((0, 0.1, 1, 5, 20))
        self.settings = self._settings()

    def _settings(self):
        place = random.Random('%d %d' % (os.getpid(), self.seed))
        port, group = place.randrange(20000, 29000), place.randrange(1, 255)
        settings = {
            'interface': '127.0.0.1',
            'resolver.multicast_address': '239.255.101.%d' % group,
            'resolver.multicast_port': port,
            'lbtrm.multicast_address': '239.255.102.%d' % group,
            'lbtrm.destination_port': port,
            'lbtrm.source_port_low': 30000,
            'lbtrm.source_port_high': 40000,
            'request_tcp_port_low': 30000,
            'request_tcp_port_high': 40000,
            'ipc.directory': self.memory,
            'ipc.transmission_window_size_bytes': 2 << 20,
            'counters_directory': '',
            'recovery.late_join': 'true' if self.rng.random() < 0.3 else 'false',
            'tcp.activity_timeout_us': 10000000,
        }
        if self.rng.random() < 0.5:
            # Time-outs that most pauses outlast.
            for key in ('lbtrm.activity', 'lbtru.activity', 'lbtru.client_activity', 'tcp.receiver_stopped', 'ipc.receiver_stopped'):
                settings['%s_timeout_us' % key] = 3000000
            settings['lbtrm.sm_maximum_interval_us'] = 500000
        return ['%s=%s' % item for item in settings.items()]

    def say(self, what):
        self.trace.append('%8.3f  step %d: %s' % (time.monotonic() - self.begun, self.step_number, what))

    # What may happen to processes.

    def _add(self, language):
        name = '%s%d' % (language, len(self.all))
        path = os.path.join(self.directory, name)
        process = Process(name, language, self.ledger.add(name, path + '.log'))
        open(path + '.cmd', 'w').close()
        self.all.append(process)
        return process

    def start(self, language):
        process = self._add(language)
        words = [*self.commands[language], self.directory, process.name, str(LIFETIME_S), *self.settings]
        if self.network is not None:
            words = self.network.command(1, *words)
        with open(os.path.join(self.directory, process.name + '.err'), 'wb') as errors:
            process.popen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        process.pidfd = os.pidfd_open(process.popen.pid)
        self.living.append(process)
        self.say('%s starts' % process.name)
        self.open(process)
        return process

    def tell(self, process, *words):
        with open(os.path.join(self.directory, process.name + '.cmd'), 'a') as commands:
            commands.write(' '.join(map(str, words)) + '\n')

    def open(self, process):
        process.way = self.rng.choice(WAYS[process.language])
        self.say('%s opens, driven by %s' % (process.name, process.way))
        self.tell(process, 'open', process.way)
        process.is_open = True

    def fork(self, process):
        child = self._add(process.language)
        self.tell(process, 'fork', child.name)
        self.say('%s forks %s' % (process.name, child.name))
        self.wait_for('the child', lambda: [] if child.node.pid else [child.name])
        child.pidfd = os.pidfd_open(child.node.pid)
        self.living.append(child)
        return child

    def kill(self, process):
        self.say('%s is killed' % process.name)
        process.signal(signal.SIGKILL)
        self._reap(process)
        # What it had logged by then counts as done.
        self.ledger.read()
        if process.node.state != 'closed':
            process.node.state = 'killed'

    def _reap(self, process):
        if not process.is_gone(PATIENCE_S):
            raise Stuck('%s does not end' % process.name)
        os.close(process.pidfd)
        if process.popen is not None:
            process.popen.wait()
        self.living.remove(process)

    def close(self, process, linger_ns):
        """It ends in order. Its context is closed, if it has one."""
        self.say('%s closes, %s' % (process.name, linger_ns))
        self.tell(process, *(('close', linger_ns) if process.is_open else ('exit',)))
        process.is_closing = True

    def look(self):
        """Takes note of what was logged, and of who has ended."""
        self.ledger.read()
        if self.ledger.wrong:
            raise Stuck('nothing more is done')
        for process in [process for process in self.living if process.is_gone()]:
            self._reap(process)
            self.ledger.read()
            is_well = process.is_closing and (process.node.state == 'closed' or not process.is_open)
            if not is_well or process.popen is not None and process.popen.returncode != 0:
                self.ledger.wrong.append('%s has ended by itself: %s' % (process.name, process.popen and process.popen.returncode))

    def pause(self, process, steps):
        self.say('%s is stopped for %d steps' % (process.name, steps))
        process.signal(signal.SIGSTOP)
        process.stopped_until = self.step_number + steps

    def go_on(self, process):
        self.say('%s goes on' % process.name)
        process.stopped_until = None
        process.signal(signal.SIGCONT)

    def lose(self, percent):
        if self.network is not None:
            self.say('%s %% are lost' % percent)
            self.dropped += sum(counts['dropped'] for counts in self.network.counters().values())
            self.network.drop(percent, devices=('lo',))

    def publish(self, process, topic, transport):
        process.runs.append(self.run_count)
        self.say('%s publishes %s on %s as run %d' % (process.name, topic, transport, self.run_count))
        self.tell(process, 'source', self.run_count, topic, transport)
        self.run_count += 1

    def receive(self, process, topic):
        if topic not in process.receives:
            process.receives.append(topic)
            self.say('%s receives %s' % (process.name, topic))
            self.tell(process, 'receive', topic)

    # A life.

    def furnish(self, process):
        """Gives a context something to do."""
        rng = self.rng
        for _ in range(rng.randint(1, 2)):
            if rng.random() < 0.6:
                self.publish(process, rng.choice(self.topics), rng.choice(TRANSPORTS))
            if rng.random() < 0.7:
                self.receive(process, rng.choice(self.topics))

    def burst(self, process):
        if process.runs:
            self.tell(process, 'send', self.rng.choice(process.runs), self.rng.randint(1, self.rng.choice((5, 100, 1000))))

    def any(self, *wanted):
        """A living process for which all of that holds."""
        found = [process for process in self.living if all(test(process) for test in wanted)]
        return self.rng.choice(found) if found else None

    def run(self):
        for language in LANGUAGES:
            process = self.start(language)
            self.receive(process, self.rng.choice(self.topics))
            self.publish(process, self.rng.choice(self.topics), self.rng.choice(TRANSPORTS))
        self.lose(self.loss)
        for _ in range(self.steps):
            self.step()
        return self.finish()

    def step(self):
        rng = self.rng
        self.step_number += 1
        for process in list(self.living):
            if process.stopped_until is not None and self.step_number >= process.stopped_until:
                self.go_on(process)
        self.look()
        self.act(rng.randrange(100))
        for process in list(self.living):
            if process.is_open and not process.is_closing and rng.random() < 0.5:
                self.burst(process)
        time.sleep(rng.uniform(0, 2 * STEP_S))

    def act(self, what):
        rng = self.rng
        awake = lambda process: process.stopped_until is None
        stays = lambda process: not process.is_closing
        is_open = lambda process: process.is_open
        if what < 8 and len(self.living) < NODES_MAX:
            self.furnish(self.start(rng.choice(LANGUAGES)))
        elif what < 16:
            process = self.any(stays)
            if process and rng.random() < 0.5:
                self.burst(process)
            if process:
                self.close(process, rng.choice((0, 100_000_000, 5_000_000_000, 5_000_000_000)))
        elif what < 24:
            process = self.any()
            if process:
                self.kill(process)
        elif what < 32:
            # One of its place starts at once.
            process = self.any(stays)
            if process:
                self.close(process, 5_000_000_000) if rng.random() < 0.5 else self.kill(process)
                self.furnish(self.start(process.language))
        elif what < 46:
            process = self.any(awake)
            if process:
                is_long = rng.random() < 0.25
                self.pause(process, LONG_PAUSE_STEPS if is_long else rng.randint(1, 2 * MEAN_PAUSE_STEPS))
        elif what < 56 and len(self.living) < NODES_MAX:
            process = self.any(awake, stays)
            if process:
                child = self.fork(process)
                if rng.random() < 0.6:
                    self.open(child)
                    self.furnish(child)
                if rng.random() < 0.3:
                    self.kill(process)
        elif what < 62:
            process = self.any(stays, is_open, lambda process: process.runs)
            if process:
                run = process.runs.pop(rng.randrange(len(process.runs)))
                self.say('%s deletes run %d' % (process.name, run))
                self.tell(process, 'delete', run)
        elif what < 72:
            process = self.any(stays, is_open)
            if process:
                self.furnish(process)
        elif what < 76:
            self.lose(rng.choice((0, 1, 5, 20, 100)))
        elif what < 82:
            self.lose(self.loss)

    # What must come in the end.

    def wait_for(self, what, lacks, meanwhile=lambda: None):
        until = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            lacking = lacks()
            if not lacking:
                return
            if time.monotonic() > until:
                raise Stuck('%s:\n  %s' % (what, '\n  '.join(lacking[:20])))
            meanwhile()
            time.sleep(0.05)

    def finish(self):
        self.step_number += 1
        self.say('fair weather')
        self.lose(0)
        for process in self.living:
            if process.stopped_until is not None:
                self.go_on(process)
        # Each language hears each, by a transport of its own.
        for language in LANGUAGES:
            process = self.start(language)
            self.publish(process, 'px.end', self.rng.choice(TRANSPORTS))
            self.receive(process, 'px.end')
        self.wait_for('all that close are gone', lambda: [p.name for p in self.living if p.is_closing])
        # Each source says something now and then, until everybody hears it; then all of it must come.
        self.wait_for('sources are heard', self.unheard, self.speak)
        for process in self.living:
            self.burst(process)
        self.wait_for('everything is told', self.behind, self.speak)
        self.wait_for('what is over has ended', self.unended)
        for process in self.rng.sample(self.living, len(self.living)):
            # Without a moment between its last message and its end.
            self.burst(process)
            self.close(process, 5_000_000_000)
            self.wait_for('%s closes' % process.name, lambda: [process.name] if process in self.living else [])
            self.wait_for('what is over has ended', self.unended)

    def speak(self):
        if time.monotonic() - self.spoken >= SPEAKS_S:
            self.spoken = time.monotonic()
            for process in self.living:
                for run in process.runs:
                    self.tell(process, 'send', run, 1)

    def open_names(self):
        return [process.name for process in self.living if process.is_open]

    def unheard(self):
        """Receivers that hear nothing of a source."""
        told = {run for process in self.living for run in process.runs}
        made = {run.number for run in self.ledger.runs.values() if run.sends}
        return ['run %d is not there' % run for run in told ^ made] + self.ledger.unheard(self.open_names())

    def behind(self):
        return self.ledger.behind(self.open_names())

    def unended(self):
        return list(self.ledger.unended([process.name for process in self.living]))

    def down(self):
        """Ends everybody who is left."""
        for process in list(self.living):
            process.signal(signal.SIGKILL)
            self._reap(process)
        shutil.rmtree(self.memory, ignore_errors=True)

    def report(self):
        return '\n'.join(self.trace[-80:])
