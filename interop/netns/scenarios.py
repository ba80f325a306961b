#!/usr/bin/env python3
"""The messaging library on real sockets, in namespaces: where datagrams are lost, and where a receiver stops.

  scenarios.py loss [--transport lbtrm|lbtru]... [--datagram BYTES]... [--rate N] [--seconds N] [--percent N]
      one source, one receiver, messages of 64 bytes, a hundred at a time; so many percent of the UDP packets that come in are
      lost at both ends: data, NAKs, confirmations, retransmissions
  scenarios.py stop [--case CASE]... [--rate N]
      one source, three receivers, of which one is stopped (SIGSTOP) for two seconds; beside it a run in which
      none is. CASE: lbtrm, lbtru, tcp, tcp-source-paced, lbtipc or lbtipc-receiver-paced
  scenarios.py all

Prints a line of JSON for each run: what was sent, delivered, lost and repaired, and one-way latencies in
microseconds, from when a message was meant to leave. Exit status 1 if a message is neither delivered nor told
as lost, if one comes out of order, or if one is lost where none may be. Needs root, ip, nft, and the program:
$TICKCAST, or it is built.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import repeat
from netns import Lab, address

TOPIC = 'load'
BYTES = 64
BURST = 100  # messages that share datagrams, where datagrams are lost
DELAY_S = 2  # for the receivers to find the source
LINGER_S = 60  # the source is stopped before
STOPPED_S = 2
BEFORE_S, AFTER_S = 4, 6  # of a run in which a receiver is stopped
QUIET_S = 5  # without a message: nothing more will come
WATCHDOG_S = 180
# What is shown of the counters, whatever the transport.
SOURCE_COUNTERS = ('rxs_sent', 'naks_rcved', 'naks_shed', 'naks_crybaby', 'naks_outside_window', 'naks_ignored',
                   'naks_rx_delay', 'ncfs', 'sends_blocked', 'sends_failed')
RECEIVER_COUNTERS = (
    'naks_sent', 'unrecovered_txw', 'unrecovered_tmo', 'unrecovered_bound', 'unrecovered_ncf', 'unrecovered_end',
    'datagrams_dropped_by_kernel',
)
# What may be lost by whom: the one that is stopped, where the source does not wait for it.
CASES = {
    'lbtrm': {'transport': 'lbtrm'},
    'lbtru': {'transport': 'lbtru'},
    'tcp': {'transport': 'tcp'},
    'tcp-source-paced': {
        'transport': 'tcp', 'set': ['tcp.multiple_receiver_behavior=source_paced'],
    },
    'lbtipc': {'transport': 'lbtipc'},
    'lbtipc-receiver-paced': {'transport': 'lbtipc', 'set': ['ipc.behavior=receiver_paced']},
}
PACED_BY_RECEIVERS = ('tcp', 'lbtipc-receiver-paced')


class ScenarioError(Exception):
    """What did not hold."""


def program():
    """The program's path; built if nobody names it."""
    path = os.environ.get('TICKCAST')
    if path is None:
        build = ['cargo', 'build', '--locked', '--profile', 'ci', '--bin', 'tickcast']
        subprocess.run(build, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
        path = os.path.join(target, 'ci', 'tickcast')
    return path


class End:
    """A running `tickcast pub` or `tickcast sub`."""

    def __init__(self, lab, binary, host, words, settings):
        words = [binary] + words + ['--set', 'messaging.interface=' + address(host)]
        words += ['--set', 'messaging.counters_interval_ms=100']
        words += [word for setting in settings for word in ('--set', 'messaging.' + setting)]
        self.binary = binary
        self.process = lab.popen(host, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []  # when it came, what it was
        self.errors = []
        pipes = ((self.process.stdout, self._on_line), (self.process.stderr, self.errors.append))
        self.threads = [threading.Thread(target=self._read, args=pipe, daemon=True) for pipe in pipes]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _read(pipe, take):
        for line in pipe:
            take(line)

    def _on_line(self, line):
        self.lines.append((time.monotonic(), json.loads(line)))

    def counted(self, names):
        """Counters whose names hold one of these, without what is zero, and its processor time."""
        words = [self.binary, 'counters', str(self.process.pid), '--json']
        said = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        all = [pair for one in json.loads(said)['sets'] for pair in one['counters'].items()]
        sums = {name: sum(count for full, count in all if name in full) for name in names}
        return {**{name: count for name, count in sums.items() if count}, 'cpu_s': self.cpu_s()}

    def cpu_s(self):
        """Processor time so far, of the program and of the kernel for it."""
        with open('/proc/%d/stat' % self.process.pid) as stat:
            fields = stat.read().rpartition(')')[2].split()
        return round((int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK'), 2)

    def waits_for(self, word, limit_s):
        """Until it has said so on standard error."""
        until = time.monotonic() + limit_s
        while not any(word in line for line in self.errors):
            if time.monotonic() > until or self.process.poll() is not None:
                raise ScenarioError('no %r: %s' % (word, ''.join(self.errors[-5:])))
            time.sleep(0.01)

    def events(self, name):
        return [(at, event) for at, event in self.lines if event['ev'] == name]

    def settled(self):
        """Messages delivered and told as lost, by the statistics of whole seconds; the first number."""
        seconds = [event for _, event in self.events('statistics')]
        begins = self.events('begin')
        first = begins[0][1]['sqn'] if begins else 0
        return first, sum(s['messages'] for s in seconds), sum(s['lost'] for s in seconds)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Run:
    """A source on host 1 and receivers, on hosts 2 and up, or with shared memory on host 1 as well."""

    def __init__(self, lab, binary, transport, receivers, rate, seconds, settings=(), burst=1):
        self.count = int(rate * seconds)
        self.ends = []
        hosts = [1] * receivers if transport == 'lbtipc' else range(2, 2 + receivers)
        sub = ['sub', '--quiet', '--json', TOPIC]
        self.receivers = [self._end(lab, binary, host, sub, settings) for host in hosts]
        pub = ['pub', TOPIC, '--size', BYTES, '--rate', rate, '--count', self.count, '--transport', transport]
        pub += ['--burst', burst, '--delay', DELAY_S, '--linger', LINGER_S, '--quiet']
        if transport != 'lbtrm':
            pub += ['--receivers', receivers]
        self.source = self._end(lab, binary, 1, [str(word) for word in pub], settings)
        self.source.waits_for('publishing', WATCHDOG_S)
        self.begun = time.monotonic() + DELAY_S

    def _end(self, *words):
        end = End(*words)
        self.ends.append(end)
        return end

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.kill()

    def finish(self):
        """Lets everything be sent and repaired. What the source and each receiver come to."""
        self.source.waits_for('published:', WATCHDOG_S)
        took = time.monotonic() - self.begun
        last, since = None, time.monotonic()
        while True:
            now = [sum(receiver.settled()) for receiver in self.receivers]
            if all(one >= self.count for one in now) or time.monotonic() - since > QUIET_S:
                break
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.05)
        sent = {'sent': self.count, 'per_second': round(self.count / took)}
        sent.update(self.source.counted(SOURCE_COUNTERS))
        counted = [receiver.counted(RECEIVER_COUNTERS) for receiver in self.receivers]
        for end in self.ends:
            end.process.send_signal(signal.SIGINT)
            end.process.wait(timeout=WATCHDOG_S)
            for thread in end.threads:
                thread.join()
        heard = [self._heard(receiver, n) for receiver, n in zip(self.receivers, counted)]
        for one in heard:
            if one['first'] + one['messages'] + one['lost'] != self.count or one['disordered']:
                raise ScenarioError('of %d messages: %r' % (self.count, one))
        return sent, heard

    def _heard(self, receiver, counted):
        total = receiver.events('total')[-1][1]
        first = receiver.settled()[0]
        heard = {key: total[key] for key in ('messages', 'lost', 'recovered', 'disordered')}
        return {'first': first, **heard, **counted, 'latency_us': latency([total])}

    def window(self, receivers, begin, end):
        """Latencies of these receivers in the whole seconds between two moments of the run."""
        seconds = [
            event for receiver in receivers for at, event in receiver.events('statistics')
            if self.begun + begin <= at - event['seconds'] and at <= self.begun + end
        ]
        return latency(seconds)


def latency(seconds):
    """Medians over the seconds, and the worst of them; none without messages."""
    seconds = [one['latency'] for one in seconds if one['latency'] is not None]
    if not seconds:
        return None
    us = lambda key, of: round(of([one[key] for one in seconds]) / 1e3, 1)
    figures = {name: us(name + '_ns', statistics.median) for name in ('p50', 'p99', 'p999')}
    return {**figures, 'worst_p99': us('p99_ns', max), 'max': us('max_ns', max)}


def loss(binary, transport, datagram=1472, rate=1_000_000, seconds=5, percent=5):
    """A run under loss; what came of it. Nothing may be lost for good."""
    name = 'loss%d' % os.getpid()
    settings = ['preset=throughput', 'wait=block']
    settings += ['%s.datagram_max_size_bytes=%d' % (t, datagram) for t in ('lbtrm', 'lbtru')]
    with Lab.up(name, 2, mtu=1500 if datagram <= 1472 else 9000) as lab:
        lab.drop(percent)
        with Run(lab, binary, transport, 1, rate, seconds, settings, BURST) as run:
            sent, (heard,) = run.finish()
        dropped = {host: counts['dropped'] for host, counts in lab.counters().items()}
    if heard['lost']:
        raise ScenarioError('unrecovered: dropped %r, sent %r, heard %r' % (dropped, sent, heard))
    what = {'scenario': 'loss', 'transport': transport, 'datagram': datagram, 'percent': percent, 'rate': rate}
    return {**what, 'dropped': dropped, 'source': sent, 'receiver': heard}


def stop(binary, case, stopped_s=STOPPED_S, rate=100_000, before_s=BEFORE_S, after_s=AFTER_S):
    """A run in which the last of three receivers is stopped for a while (0: it is not). The others may lose
    nothing; the one that was stopped has everything, or was told what it has not."""
    name = 'stop%d' % os.getpid()
    transport, settings = CASES[case]['transport'], CASES[case].get('set', ())
    end = before_s + (stopped_s or STOPPED_S)
    with Lab.up(name, 4) as lab:
        with Run(lab, binary, transport, 3, rate, end + after_s, settings) as run:
            *others, last = run.receivers
            time.sleep(max(0, run.begun + before_s - time.monotonic()))
            if stopped_s:
                last.process.send_signal(signal.SIGSTOP)
                time.sleep(stopped_s)
                last.process.send_signal(signal.SIGCONT)
            sent, heard = run.finish()
            spans = {'before': (0.5, before_s), 'during': (before_s - 0.5, end + 1), 'after': (end + 1, 1e9)}
            windows = {span: run.window(others, *bounds) for span, bounds in spans.items()}
    if any(one['lost'] for one in heard[:-1]):
        raise ScenarioError('%s: one stopped, others lost: %r' % (case, heard))
    if case in PACED_BY_RECEIVERS and heard[-1]['lost']:
        raise ScenarioError('%s: the source was to wait: %r' % (case, heard))
    what = {'scenario': 'stop', 'case': case, 'stopped_s': stopped_s, 'rate': rate, 'source': sent}
    return {**what, 'others': windows, 'last': heard[-1]}


def main():
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    words.add_argument('scenario', choices=['loss', 'stop', 'all'])
    words.add_argument('--transport', action='append', choices=['lbtrm', 'lbtru'])
    words.add_argument('--datagram', action='append', type=int)
    words.add_argument('--case', action='append', choices=CASES)
    words.add_argument('--rate', type=int)
    words.add_argument('--seconds', type=int, default=5)
    words.add_argument('--percent', type=float, default=5)
    args = words.parse_args()
    runs = []
    if args.scenario in ('loss', 'all'):
        rate = args.rate or 1_000_000
        for transport in args.transport or ['lbtrm', 'lbtru']:
            for size in args.datagram or [1472, 8972]:
                runs.append((loss, transport, size, rate, args.seconds, args.percent))
    if args.scenario in ('stop', 'all'):
        for case in args.case or CASES:
            runs += [(stop, case, stopped_s, args.rate or 100_000) for stopped_s in (0, STOPPED_S)]
    binary, status = program(), 0
    for scenario, *of in runs:
        try:
            print(json.dumps(scenario(binary, *of)), flush=True)
        except ScenarioError as error:
            print(json.dumps({'scenario': scenario.__name__, 'of': of, 'failed': str(error)}), flush=True)
            repeat.show(' '.join(['python3 interop/netns/scenarios.py', *sys.argv[1:]]))
            status = 1
    return status


if __name__ == '__main__':
    sys.exit(main())
