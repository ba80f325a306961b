#!/usr/bin/env python3
"""How long it takes until a fault is noticed, and how long from then until updates flow again.

Two source distributors, two P2PSs and two providers run on hosts of their own (network namespaces), with two consumers
that know both P2PSs. Each try injects one fault at T0, waits until all is well, undoes it, and waits until the system is
as it was. All times are of one clock, CLOCK_MONOTONIC of this machine:

  detected   from T0 until the first consumer concerned is told: a state Suspect, a new image, or that its server is lost
  flowing    from there until the first item concerned has an update that was made after T0
  whole      from there until the last item has
  silence    the longest time in which an item had no fresh update, from T0 on

Where both of a pair are concerned, nothing flows before they are back: `flowing` and `whole` begin when the fault is
undone. A try in which nothing changes for the consumers is `undisturbed`. One in which nothing flows within --patience
counts as `silent` (nobody was told) or `lost`, and the command exits with 1.

An update says when it was made, so that old ones do not count. There is one every --interval-ms for each item: no time is
more exact than that. T0 is taken before the fault is injected. Clients and providers give a silent peer up by the ping
time-out of their connection, here --ping-timeout: what they detect so scales with it.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import faults
from daemons import System, binary
from java_tools import numbered
from network import Network, lab, netns
from process import Process, wait_until
from ticking_provider import item
from timed_consumer import TimedConsumer

DISTRIBUTORS, SERVERS, CONSUMERS, PROVIDERS = (1, 2), (3, 4), 5, (6, 7)
SERVICE = 'NI_PUB'
MEMORY = '/dev/shm'
# How long a try is looked at in which nothing seems to happen, and for how long all has to be well at the end.
WINDOW_S, WELL_S = 1.0, 0.3
EARLIEST_S = 0.3
LOOK_S = 0.005
AHEAD_S = 0.05
# After so many tries in a row in which nothing flows again, a case is not tried further.
VAIN_MAX = 3

KINDS = {
    'kill': (faults.Kill, 'kill -9, then the same command line again'),
    'stop': (faults.Stop, 'SIGSTOP, then SIGCONT'),
    'cut': (faults.Cut, 'its network is cut both ways'),
    'cut-in': (faults.CutIn, 'nothing comes to its host, what it sends arrives'),
    'cut-out': (faults.CutOut, 'nothing leaves its host, what is sent to it arrives'),
    'full-disk': (faults.FullDisk, 'the file system of log and counters is full'),
    'slow-disk': (faults.SlowDisk, 'what its log is written to takes nothing'),
    'clock': (faults.Clock, 'its wall clock jumps an hour ahead'),
    'clock-back': (faults.ClockBack, 'its wall clock jumps an hour back'),
    'descriptors': (faults.Descriptors, 'it gets no more descriptors while strangers connect'),
    'memory': (faults.Memory, 'it reaches a memory ceiling and is killed for it'),
    'nothing': (faults.Fault, 'no fault: what the machine itself does'),
}
LINKS = ('kill', 'stop', 'cut', 'cut-in', 'cut-out')
OWN = ('full-disk', 'slow-disk', 'clock', 'clock-back', 'descriptors', 'memory')
#: The cases by name: whose fault, of how many, which.
CASES = {
    'nothing': ('distributor', 1, 'nothing'),
    **{'distributor-' + kind: ('distributor', 1, kind) for kind in (*LINKS, *OWN)},
    **{'distributors-' + kind: ('distributor', 2, kind) for kind in ('kill', 'stop', 'cut')},
    **{'p2ps-' + kind: ('p2ps', 1, kind) for kind in (*LINKS, *OWN)},
    **{'p2pss-' + kind: ('p2ps', 2, kind) for kind in ('kill', 'stop', 'cut')},
    **{'provider-' + kind: ('provider', 1, kind) for kind in LINKS},
    **{'providers-' + kind: ('provider', 2, kind) for kind in ('kill', 'stop', 'cut')},
}


class Place(Network):
    """The network, with words and variables in front of what runs there."""

    def __init__(self, lab):
        super().__init__(lab)
        self.environment, self.before = {}, []

    def words(self, host, words):
        own = ['env', *('%s=%s' % pair for pair in self.environment.items())] if self.environment else []
        return super().words(host, [*own, *self.before, *words])


class Rig:
    """The system of one case."""

    def __init__(self, options, case):
        self.options, self.case = options, case
        self.role, self.count, kind = CASES[case]
        self.processes, self.hosts = [], {}
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix='tickcast-recovery-', dir=memory)
        self.fault = self.lab = None
        try:
            self.lab = lab(7)
            self.place = Place(self.lab)
            self.system = System(self.directory, self.processes.append, self.place)
            self.system.patience = {}  # what users have
            self.fault = KINDS[kind][0](self)
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in reversed(self.processes):
            process.kill()
        if self.fault:
            self.fault.close()
        if self.lab:
            self.lab.down()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self):
        ping = self.options.ping_timeout
        pings = lambda section: {'%s.ping_timeout_%s_s' % (section, bound): ping for bound in ('min', 'max')}
        own = {**dict(self.options.set), **numbered(SERVICE, 1), **pings('source_distributor.provider')}
        self.distributors = [
            self._daemon(self.system.source_distributor, 'distributor-%d' % host, host, own)
            for host in DISTRIBUTORS
        ]
        own = {**dict(self.options.set), **pings('p2ps.rssl')}
        self.servers = [self._daemon(self.system.p2ps, 'p2ps-%d' % host, host, own) for host in SERVERS]
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'ticking_provider.py')
        at = ['%s:%d' % (self.place.address(host), self.system.provider_port) for host in DISTRIBUTORS]
        words = [sys.executable, script, str(self.options.interval_ms), str(self.options.items), *at]
        self.providers = []
        for host in PROVIDERS:
            provider = self.system.process('provider-%d' % host, words, host)
            self.hosts[provider] = host
            self.providers.append(provider)
            # The first one has all items.
            for distributor in self.distributors:
                distributor.wait_count('distributor_providers', len(self.providers))
                distributor.wait_count('distributor_items', self.options.items)
        for server in self.servers:
            server.wait_count('p2ps_instances', len(self.distributors))
            self.system.wait_serving(server, SERVICE)
        self.consumers = [self._consumer(at) for at in range(len(self.servers))]
        self.owner = 0
        self.wait_ready()

    def _daemon(self, make, name, host, sets):
        more, self.place.before, self.place.environment = self.fault.before(name)
        daemon = make(host, sets={**sets, **more}, name=name)
        self.place.before, self.place.environment = [], {}
        self.hosts[daemon] = host
        return daemon

    def _consumer(self, at):
        """One that begins at a server."""
        items = [item(number) for number in range(self.options.items)]
        hosts = [word for server in self.servers[at:] + self.servers[:at] for word in ('--host', server.server)]
        words = [binary(), 'watch', '--json', '--service', SERVICE, '--fields', 'NONE', *hosts, *items]
        name = 'consumer-%d' % at
        consumer = TimedConsumer(name, self.place.words(CONSUMERS, words), self.directory, items)
        self.processes.append(consumer)
        return consumer

    def host_of(self, process):
        return self.hosts[process]

    def port_of(self, process):
        return self.system.provider_port if process in self.distributors else process.port

    def wait_ready(self):
        """Waits until everybody is there and nobody is disturbed."""

        def is_ready():
            whole = [consumer.look().is_whole for consumer in self.consumers]
            try:
                providers = [distributor.metrics()['distributor_providers'] for distributor in self.distributors]
                instances = [server.metrics()['p2ps_instances'] for server in self.servers]
            except OSError:
                return False  # it is being started
            counts.update(whole=whole, providers=providers, instances=instances)
            return all(whole) and set(providers) == {len(self.providers)} and set(instances) == {len(self.distributors)}

        counts = {}
        said = lambda: '%s: all is as it was; it is %s\n%s' % (self.case, counts, self.tails())
        wait_until(is_ready, said, self.processes)
        standby = [distributor.metrics()['distributor_messages_standby_total'] for distributor in self.distributors]

        def stands_by():
            now = [distributor.metrics()['distributor_messages_standby_total'] for distributor in self.distributors]
            return all(a > b for a, b in zip(now, standby))

        wait_until(stands_by, said, self.processes)

    def tails(self):
        return '\n'.join(process.tail() for process in self.processes)

    def _source_of(self, server):
        """The source distributor that a P2PS takes the service from."""
        known = next(known for known in server.status()['services'] if known['name'] == SERVICE)
        return next(each for each in self.distributors if each.status()['instance'] == known['instance'])

    def _server_of(self, consumer):
        return next(server for server in self.servers if server.server == consumer.server)

    def victims(self):
        """Those who get the fault, and the consumers that are concerned."""
        first = self.consumers[0]
        if self.role == 'p2ps':
            victims = [self._server_of(first)] if self.count == 1 else self.servers
            return victims, [each for each in self.consumers if self._server_of(each) in victims]
        if self.role == 'provider':
            return [self.providers[self.owner]] if self.count == 1 else self.providers, self.consumers
        victims = [self._source_of(self._server_of(first))] if self.count == 1 else self.distributors
        sources = {server: self._source_of(server) for server in self.servers}
        return victims, [each for each in self.consumers if sources[self._server_of(each)] in victims]

    def taken_over(self):
        return sum(each.metrics()['distributor_items_taken_over_total'] for each in self.distributors)


class Try:
    """One fault and what came of it, in milliseconds."""

    def __init__(self, rig):
        victims, concerned = rig.victims()
        taken_over = rig.taken_over() if rig.role == 'provider' else 0
        for consumer in rig.consumers:
            consumer.mark(time.monotonic())
        self.at = rig.fault.inject(victims)
        # Consumers may notice the end of a process before this one does. What came long before is of something else.
        told = [look.first_event[0] for each in concerned if (look := each.look()).first_event]
        if told and self.at - min(told) > AHEAD_S:
            for consumer in rig.consumers:
                consumer.mark(self.at)
        else:
            self.at = min([self.at, *told])
        self.repaired_at = None
        try:
            self._watch(rig, victims, concerned)
        finally:
            if self.repaired_at is None:
                rig.fault.undo(victims)
        others = [each.look().longest for each in rig.consumers if each not in concerned]
        self.others = 1000 * max(others) if others else None
        self.transcripts = {each.name: each.transcript for each in concerned}
        rig.wait_ready()
        if rig.role == 'provider' and rig.count == 1 and rig.taken_over() > taken_over:
            rig.owner = 1 - rig.owner

    def _watch(self, rig, victims, concerned):
        well_since = None
        self.outcome = None
        while self.outcome is None:
            time.sleep(LOOK_S)
            now = time.monotonic()
            looks = [consumer.look() for consumer in concerned]
            events = [look.first_event for look in looks if look.first_event]
            if rig.count == 2 and self.repaired_at is None and len(events) == len(looks):
                self.repaired_at = time.monotonic()
                rig.fault.undo(victims)
                continue
            is_well = all(look.is_whole and None not in look.flows for look in looks)
            well_since = (well_since or now) if is_well else None
            is_disturbed = any(look.is_disturbed for look in looks)
            if well_since and now - self.at > EARLIEST_S and now - well_since > WELL_S:
                if is_disturbed:
                    self.outcome = 'recovered'
                elif now - self.at > WINDOW_S:
                    self.outcome = 'undisturbed'
            elif now - self.at > rig.options.patience:
                self.outcome = 'lost' if events else 'silent'
        self._note(looks, events)

    def _note(self, looks, events):
        ms = lambda at: round(1000 * at, 1)
        self.silence = ms(max(look.longest for look in looks))
        self.detected = self.flowing = self.whole = self.by = None
        first = min(events) if events else None
        if first:
            self.detected, self.by = ms(first[0] - self.at), '%s: %s' % first[1:]
        flows = [at for look in looks for at in look.flows if at is not None]
        if self.outcome == 'recovered' and flows and first:
            since = self.repaired_at or first[0]
            self.flowing, self.whole = ms(min(flows) - since), ms(max(flows) - since)

    def __str__(self):
        parts = [self.outcome]
        parts += ['%s %.0f ms' % (name, value) for name, value in self.times().items() if value is not None]
        return ', '.join(parts) + (' (%s)' % self.by if self.by else '')

    def times(self):
        return {'detected': self.detected, 'flowing': self.flowing, 'whole': self.whole, 'silence': self.silence}


class Result:
    """The tries of a case."""

    def __init__(self, case, tries):
        self.case, self.tries = case, tries

    def is_good(self):
        return bool(self.tries) and all(each.outcome in ('recovered', 'undisturbed') for each in self.tries)

    def row(self):
        cells = [self.case, str(len(self.tries))]
        outcomes = [each.outcome for each in self.tries]
        cells.append(', '.join('%s %d' % (name, outcomes.count(name)) for name in sorted(set(outcomes))))
        for name in ('detected', 'flowing', 'whole', 'silence'):
            values = [value for each in self.tries if (value := each.times()[name]) is not None]
            cells.append('%.0f / %.0f' % (statistics.median(values), max(values)) if values else '-')
        return '| %s |' % ' | '.join(cells)

    def document(self):
        tries = [{'outcome': each.outcome, 'by': each.by, 'others': each.others, **each.times()} for each in self.tries]
        return {'case': self.case, 'what': KINDS[CASES[self.case][2]][1], 'tries': tries}


HEAD = (
    '| case | tries | outcome | detected, ms (median / max) | flowing | whole | silence |\n|---|--:|---|--:|--:|--:|--:|'
)


def measure(case, options, say=lambda line: None):
    """The result of a case: a system of its own, and so many tries."""
    tries, vain = [], 0
    with Rig(options, case) as rig:
        while len(tries) < options.tries and vain < VAIN_MAX:
            each = Try(rig)
            tries.append(each)
            vain = vain + 1 if each.outcome in ('lost', 'silent') else 0
            say('%s %d/%d: %s' % (case, len(tries), options.tries, each))
            if options.transcript:
                for name, events in each.transcripts.items():
                    for at, kind, of, reason in events:
                        say('  %8.1f ms  %s  %-12s %-5s %s' % (1000 * at, name, kind, of or '', reason))
        if vain == VAIN_MAX and len(tries) < options.tries:
            say('%s: not tried further, as nothing flowed again %d times in a row' % (case, VAIN_MAX))
    return Result(case, tries)


def parser():
    lines = ['cases:'] + ['  %-26s %s' % (name, KINDS[kind][1]) for name, (_, _, kind) in CASES.items()]
    lines += [
        '',
        'distributor-, p2ps- and provider- concern one of a pair, the one that the first consumer depends on;',
        'distributors-, p2pss- and providers- concern both at once.',
        '',
        'examples:',
        '  recovery_times.py                                   all cases, 20 tries each: some 25 minutes',
        '  recovery_times.py --cases distributor-stop --tries 3',
        '  recovery_times.py --cases distributor- --json > times.json     all that begin so',
        '  recovery_times.py --cases distributor-stop --set p2ps.silence_timeout_ms=2000',
        '',
        'It needs root, iproute2 and nftables; the clock cases need cc. The program is TICKCAST or target/ci/tickcast.',
        'Exit status: 0 all tries ended well; 1 in some nothing flowed again; 2 wrong usage.',
    ]
    made = argparse.ArgumentParser(
        description=__doc__, epilog='\n'.join(lines), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument('--cases', default='', metavar='NAME,...', help='cases, or what their names begin with (all)')
    made.add_argument('--tries', type=_number(1, 1000), default=20, help='tries of each case (20)')
    made.add_argument('--items', type=_number(1, 10_000), default=50, help='items (50)')
    made.add_argument('--interval-ms', type=_number(1, 100), default=10, help='time between updates of an item (10)')
    made.add_argument('--ping-timeout', type=_number(1, 255), default=2, help='of all RSSL connections, seconds (2)')
    made.add_argument('--patience', type=_number(1, 600), default=10, help='longest wait until all flows, seconds (10)')
    made.add_argument('--set', action='append', default=[], type=_setting, metavar='KEY=VALUE', help='of all daemons')
    made.add_argument('--json', action='store_true', help='print all tries as JSON in place of the table')
    made.add_argument('--transcript', action='store_true', help='print what consumers were told, for each try')
    return made


def _number(low, high):
    def number(text):
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError('%s; %d to %d are possible' % (text, low, high))
        return value

    return number


def _setting(text):
    key, is_there, value = text.partition('=')
    if not key or not is_there:
        raise argparse.ArgumentTypeError('%r is not KEY=VALUE' % text)
    return key, value


def chosen(text):
    """The cases that a list names; those without a fault only by name."""
    if not text:
        return [name for name in CASES if name != 'nothing']
    found = []
    for word in text.split(','):
        fits = [word] if word in CASES else [name for name in CASES if name.startswith(word)]
        if not fits or not word:
            raise ValueError('%r is no case and begins none; --help lists them' % word)
        found += fits
    return list(dict.fromkeys(found))


def main(argv):
    made = parser()
    options = made.parse_args(argv)
    try:
        cases = chosen(options.cases)
    except ValueError as e:
        made.error(str(e))
    if os.geteuid() != 0:
        made.error('network namespaces need root')
    # Readers of what consumers say take turns with who waits for it.
    sys.setswitchinterval(0.0005)
    say = lambda line: print(line, file=sys.stderr, flush=True)
    results = []
    for case in cases:
        try:
            results.append(measure(case, options, say))
        except (AssertionError, OSError, netns.NetnsError, subprocess.CalledProcessError) as e:
            # The other cases are worth their time all the same.
            say('%s: %s: %s' % (case, type(e).__name__, e))
            results.append(Result(case, []))
    if options.json:
        print(json.dumps([result.document() for result in results], indent=1))
    else:
        print('\n'.join([HEAD, *(result.row() for result in results)]))
    return 0 if all(result.is_good() for result in results) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
