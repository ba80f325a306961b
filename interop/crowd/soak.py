"""python3 soak.py [--clients 2000] [--seconds 1800] [--seed N] [--only NAME,...]     (TICKCAST=PATH of the program)

A source distributor and a P2PS with a dictionary of 16,000 fields, a provider and a reference consumer (`steady.py`),
and a crowd of clients that misbehave at random (`crowd.py`). JSON lines say how it goes, every 10 s; the last one is the
result. The exit status is 1 if a daemon ended, a value was wrong or missing, or connections or descriptors were left
behind. Whether memory stays flat is told as figures: `rss_mib` in thirds of the run.

  --fairness    no soak: the reference consumer beside each behaviour alone, 10 s each, as a table
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..'), os.path.join(HERE, '..', 'system')]
import crowd
import repeat
from daemons import System
from process import ROOT, Follower, Process, wait_until

DICTIONARY = os.path.join(ROOT, 'data', 'dictionary')
ITEMS = 200
FIELDS = 16_000
RIPPLES_EVERY = 23
DESCRIPTORS = 20_000
LOOK_S = 10
NATURAL_END_S = 60
FAIRNESS_S, SETTLE_S = 10, 3
# {behaviour: clients at a time}; what one connection may do is bounded, so it takes many of them.
CROWDS = {
    'watch': 500, 'json_watch': 500, 'json_batch': 100, 'download': 500, 'json_download': 100, 'flood': 40,
    'json_flood': 20, 'stall': 100, 'json_stall': 100, 'hurry': 200, 'reset': 200, 'half': 500, 'silent': 500,
    'drip': 200, 'garbage': 200, 'flip': 200, 'json_garbage': 200, 'json_flip': 200, 'missing': 200, 'churn': 100,
    'post': 100,
}  # fmt: skip


def dictionary(directory):
    """A field dictionary as large as the vendor's, of which every 23rd field ripples to the next: Tickcast's and others."""
    with open(os.path.join(DICTIONARY, 'tickcast-fields.dic'), encoding='utf-8') as f:
        lines = f.read().splitlines()
    taken = {int(words[-6]) for words in (line.split() for line in lines if not line.startswith('!')) if len(words) > 5}
    free = [number for number in range(-FIELDS, 0) if number not in taken][: FIELDS - len(taken)]
    for at, number in enumerate(free):
        ripple = 'MADE_%d' % (at + 1) if at % RIPPLES_EVERY == 0 and at + 1 < len(free) else 'NULL'
        lines.append('MADE_%-6d "A FIELD OF THE TESTS %d" %6d  %-10s  PRICE  17  REAL64  7' % (at, at, number, ripple))
    path = os.path.join(directory, 'fields.dic')
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join([*lines, '']))
    return path


class Soak:
    def __init__(self, directory):
        self.directory, self.processes = directory, []
        system = System(directory, self.processes.append)
        enums = os.path.join(DICTIONARY, 'tickcast-enums.def')
        fields = {'dictionary.fields_file': dictionary(directory), 'dictionary.enums_file': enums}
        many = {'connections_max': DESCRIPTORS, 'connections_per_address_max': DESCRIPTORS}
        sets = {'p2ps.%s.%s' % (port, key): value for port in ('rssl', 'websocket') for key, value in many.items()}
        self.distributor = system.source_distributor(sets=fields)
        self.p2ps = system.p2ps(sets={**fields, **sets})
        self.steady = self._start('steady', [system.provider_port, self.p2ps.port, ITEMS, 1 << 30])
        self.lines = Follower(self.steady.out_path)
        wait_until(self.seconds, 'the reference consumer has its images', self.daemons())
        self.descriptors = self.p2ps.descriptors()

    def daemons(self):
        return [self.distributor, self.p2ps, self.steady]

    def _start(self, name, words):
        words = [sys.executable, os.path.join(HERE, name + '.py'), *map(str, words)]
        process = Process(name, words, self.directory)
        self.processes.append(process)
        return process

    def crowd(self, clients, seconds, seed, only=None):
        words = [self.p2ps.port, self.p2ps.websocket_port, ITEMS]
        words += ['--clients', clients, '--seconds', seconds, '--seed', seed]
        return self._start('crowd', words + (['--only', only] if only else []))

    def seconds(self):
        """What the reference consumer has said since the last call."""
        return [json.loads(line) for line in self.lines.lines()]

    def failures(self):
        return ['%s has ended' % process.name for process in self.daemons() if not process.is_running()]

    def rss_mib(self):
        return [round(daemon.resident_bytes() / 2**20, 1) for daemon in (self.distributor, self.p2ps)]

    def clients(self):
        return (self.p2ps.status() or {}).get('connections', 0)

    def wait_alone(self):
        """Until the P2PS has the reference consumer alone, and no more descriptors than before the crowd came. The last
        connections are drained when they are over, and a question for its status is a connection as well."""
        is_alone = lambda: self.clients() == 1 and self.p2ps.descriptors() <= self.descriptors
        left = lambda: '%d clients, %d descriptors' % (self.clients(), self.p2ps.descriptors())
        said = lambda: 'one client and %d descriptors are left: %s' % (self.descriptors, left())
        wait_until(is_alone, said, self.daemons())

    def end(self):
        """Ends all in order; what is not as it must be."""
        wrong = []
        for process in (self.steady, self.p2ps, self.distributor):
            status = process.end()
            if status:
                wrong.append('%s: exit status %s\n%s' % (process.name, status, process.tail()))
        return wrong

    def close(self):
        for process in self.processes:
            process.kill()


def worst(seconds, key='worst_ms'):
    return max((second[key] for second in seconds), default=None)


def soak(options):
    """The result: {`wrong`: [...], ...}."""
    with Place() as at:
        crowd_ = at.crowd(options.clients, options.seconds, options.seed, options.only)
        begun, all_seconds, memory, wrong = time.monotonic(), [], [], []
        while crowd_.is_running() and not wrong:
            time.sleep(min(LOOK_S, max(1, options.seconds / 10)))
            wrong += at.failures()
            if wrong:
                break
            seconds = at.seconds()
            all_seconds += seconds
            memory.append(at.rss_mib())
            line = {'t': round(time.monotonic() - begun), 'clients': at.clients(), 'rss_mib': memory[-1]}
            say({**line, 'worst_ms': worst(seconds), 'p99_ms': worst(seconds, 'p99_ms'), 'own_ms': worst(seconds, 'own_ms')})
            if time.monotonic() - begun > options.seconds + NATURAL_END_S:
                wrong.append('the crowd does not end')
        if wrong:
            return {'wrong': wrong, 'logs': [process.tail() for process in at.processes]}
        status = crowd_.wait()
        crowd_result = json.loads(crowd_.out() or '{}')
        if status:
            wrong.append('the crowd: exit status %s: %s\n%s' % (status, crowd_result, crowd_.tail()))
        at.wait_alone()
        wrong += at.end()
        thirds = [memory[len(memory) * third // 3 : len(memory) * (third + 1) // 3] for third in range(3)]
        return {
            'wrong': wrong,
            'crowd': crowd_result,
            'worst_ms': worst(all_seconds),
            'own_ms': worst(all_seconds, 'own_ms'),
            'p99_ms_median': sorted(second['p99_ms'] for second in all_seconds)[len(all_seconds) // 2] if all_seconds else None,
            'rss_mib': [[max(column) for column in zip(*third)] for third in thirds if third],
            'reference': json.loads(at.steady.out().splitlines()[-1]),
        }


def fairness(options):
    """The rows of the table: the reference consumer alone, then beside each behaviour."""
    with Place() as at:
        rows, wrong = [], []
        for name, clients in [('nobody', 0), *CROWDS.items(), ('nobody', 0)]:
            if options.only and name not in ('nobody', *options.only.split(',')):
                continue
            crowd_ = at.crowd(clients, SETTLE_S + FAIRNESS_S, options.seed, name) if clients else None
            time.sleep(SETTLE_S)
            at.seconds()
            time.sleep(FAIRNESS_S)
            seconds = at.seconds()
            row = {'beside': name, 'clients': clients, 'worst_ms': worst(seconds), 'p99_ms': worst(seconds, 'p99_ms')}
            rows.append({**row, 'own_ms': worst(seconds, 'own_ms'), 'rss_mib': at.rss_mib()[1]})
            say(rows[-1])
            wrong += at.failures()
            if crowd_ and crowd_.wait():
                wrong.append('%s: %s' % (name, crowd_.tail()))
            if wrong:
                break
            at.wait_alone()
        wrong += at.end()
        print('\n| beside | clients | worst ms | p99 ms | own ms |\n|---|---|---|---|---|')
        for row in rows:
            print('| %(beside)s | %(clients)d | %(worst_ms)s | %(p99_ms)s | %(own_ms)s |' % row)
        return {'wrong': wrong}


class Place:
    """A soak in a directory of its own."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix='tickcast-crowd-')
        self.soak = Soak(self.directory)
        return self.soak

    def __exit__(self, *_):
        self.soak.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def say(line):
    print(json.dumps(line), flush=True)


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--clients', type=int, default=2000, help='at a time')
    parser.add_argument('--seconds', type=float, default=1800)
    parser.add_argument('--seed', default=str(int(time.time())))
    parser.add_argument('--only', help='these behaviours: %s' % ', '.join(crowd.SHARES))
    parser.add_argument('--fairness', action='store_true', help='the reference consumer beside each behaviour')
    options = parser.parse_args(words)
    say({'seed': options.seed})
    result = fairness(options) if options.fairness else soak(options)
    say(result)
    if result['wrong']:
        repeat.show(command(options))
    return 1 if result['wrong'] else 0


def command(options):
    """What runs the same again."""
    words = ['python3 interop/crowd/soak.py --seed %s' % options.seed]
    if options.only:
        words.append('--only %s' % options.only)
    words.append('--fairness' if options.fairness else '--clients %d --seconds %g' % (options.clients, options.seconds))
    return ' '.join(words)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
