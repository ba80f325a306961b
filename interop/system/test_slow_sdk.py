"""Slow applications on unmodified SDKs, beside a hundred fast ones: each ends with the publisher's images, and is told of each step.

EMA Java over RSSL: one process that is stopped (SIGSTOP) for 20 s, ten applications whose callbacks take their time, and
a hundred that keep up; the ten and the hundred are consumers of their own, with a connection and a thread each, in one
process of Java each. `lseg-data` and `websocket-client` over WebSocket: a process of each is stopped in the same way.
The callbacks of `lseg-data` slow nobody down: it reads on, and queues without a bound.

Whether a client is slow follows from the bound `CONFLATE_ABOVE_BYTES`, not from the speed of the machine: who is to be
fast is sent less than that in the whole recording (the test makes sure), and who is to be slow does next to nothing
until the P2PS says that it is conflated.
"""

import os
import subprocess
import time
import unittest

import expected
import java_tools
import python_clients
from consumers import JAR, JAVA, SERVICE, Consumer
from daemons import binary, hold_until_ready, wait_at
from expected import ITEMS
from process import WATCHDOG_S, wait_until
from python_clients import FOLDER, PlainClient
from system_test import SystemTest

THROTTLED = 10
STOPPED_S = 20
CONFLATE_ABOVE_BYTES = 3_300_000
# What those watch who are to be fast, each one of it: of each the whole recording is less than the bound.
LIGHT = tuple(item for item in ITEMS if item[1] == 6 or item[0] == 'BTCUSD.PERP')
# What an update costs an application that is throttled: at first next to nothing is read, then less than comes.
STANDSTILL_US, TROT_US = 50_000, 500

SETS = {
    'p2ps.conflate_above_bytes': CONFLATE_ABOVE_BYTES,
    # A client that stands still says nothing.
    'p2ps.rssl.ping_timeout_min_s': 250,
    'p2ps.rssl.ping_timeout_max_s': 250,
    'p2ps.websocket.ping_timeout_s': 250,
}
DOWN, UP = 'updates are conflated, because this client reads too slowly: ', 'every update is sent again, because '


def watching(items):
    return [word for item, domain in items for word in ('--item', '%d:%s' % (domain, item))]


class Crowd(java_tools.JavaTool):
    """EMA consumers in one process; `count` of them, each with all of the items, or with `each` of them in turn."""

    def __init__(self, name, directory, server, count, items=ITEMS, each=None, options=()):
        self.count, self.each = count, each or len(items)
        words = [*JAVA[:1], '-Xmx3g', *JAVA[2:], JAR, 'crowd', '--count', str(count), '--each', str(self.each), '--user', name]
        words += ['--host', server, '--service', SERVICE, '--timeout', '300', *options, *watching(items)]
        super().__init__(name, words, directory)

    def has_images(self):
        self.look()
        seen = {(e['consumer'], e['item'], e['domain']) for e in self.events if e['ev'] == 'refresh' and e['complete']}
        return len(seen) == self.count * self.each

    def wait_results(self):
        """The exit status when all have come to the end."""
        results = lambda: len(self.told('result'))
        said = lambda: '%s: %d of %d results' % (self.name, results(), self.count)
        wait_until(lambda: results() == self.count or not self.is_running(), said, progress=results)
        return self.result()[0]

    def of(self, number):
        """{event name: events} of one consumer."""
        found = {}
        for event in self.events:
            if event.get('consumer') == number:
                found.setdefault(event['ev'], []).append(event)
        return found


class Slow:
    """A system whose P2PS conflates, and what holds of every scenario in it."""

    SPEED = '8'
    FAST = 0

    @classmethod
    def start(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        cls.p2ps = cls.system_.p2ps(sets=SETS)
        cls.feed = cls.system_.feed(speed=cls.SPEED, delay_ms=3000)
        cls.at_path = os.path.join(cls.directory, 'end')

    @classmethod
    def stop_for_a_while(cls, processes, users, meanwhile=lambda: None):
        """SIGSTOP for 20 s, or longer: until the clients of these users are conflated and lack updates."""
        began = time.monotonic()
        for process in processes:
            process.hold()
        steps = lambda: [(c['user'], c['step'], c['changed_streams']) for c in cls.clients(users)]
        lack = lambda: [step == 'conflated' and changed > 0 for _, step, changed in steps()] == [True] * len(users)
        wait_until(lack, lambda: '%s lack updates: %s' % (users, steps()), [cls.p2ps])
        meanwhile()
        wait_until(lambda: time.monotonic() >= began + STOPPED_S, 'the stop is over', [cls.p2ps])
        for process in processes:
            process.go_on()

    @classmethod
    def clients(cls, users):
        return [client for client in cls.p2ps.status()['clients'] if client['user'] in users]

    @classmethod
    def play_to_the_end(cls):
        """The positions of all items when everybody is sent every update again."""
        cls.feed.wait_played()
        cls.when_played = cls.p2ps.status()['clients']
        positions = cls.system_.wait_right(cls.p2ps)
        conflated = lambda: [(c['user'], c['backlog_bytes']) for c in cls.p2ps.status()['clients'] if c['step'] != 'tick']
        wait_until(
            lambda: not conflated(),
            lambda: 'all are sent every update again; not: %s' % conflated(),
            [cls.p2ps],
            progress=conflated,
        )
        cls.metrics = cls.p2ps.metrics()
        hosts = ['127.0.0.1:%d' % daemon.admin.port for daemon in (cls.distributor, cls.p2ps)]
        cls.ledger = subprocess.run(
            [binary(), 'ledger', *hosts], capture_output=True, text=True, timeout=2 * WATCHDOG_S
        )
        return positions

    @classmethod
    def say_where_the_end_is(cls, positions):
        with open(cls.at_path + '.new', 'w') as f:
            f.writelines('%d:%s %d\n' % (domain, item, number) for (item, domain), number in positions.items())
        os.rename(cls.at_path + '.new', cls.at_path)

    def assert_steps(self, texts, who):
        """Down and up again, in this order, and at least once."""
        kinds = ['down' if text.startswith(DOWN) else 'up' if text.startswith(UP) else text for text in texts]
        self.assertGreater(len(kinds), 0, who)
        self.assertEqual(kinds, ['down', 'up'] * (len(kinds) // 2), (who, texts))

    def test_the_ledger_is_balanced_and_knows_of_no_loss(self):
        self.assertEqual(self.ledger.returncode, 0, self.ledger.stdout + self.ledger.stderr)
        self.assertEqual(self.ledger.stdout.splitlines()[-1], 'balanced')
        self.assertEqual(self.metrics['p2ps_messages_lost_total'], 0)

    def test_who_keeps_up_is_sent_every_update_and_less_than_the_bound(self):
        fast = [client for client in self.when_played if client['user'].startswith('fast-')]
        self.assertEqual(len(fast), self.FAST)
        self.assertEqual({(client['step'], client['updates_conflated']) for client in fast}, {('tick', 0)})
        self.assertLess(max(client['connection']['sent']['bytes'] for client in fast), CONFLATE_ABOVE_BYTES)

    def test_nobody_is_disconnected(self):
        for port in ('rssl', 'websocket'):
            closed = self.metrics.nonzero('%s_closed_(slow_consumer|stalled|silent)_total' % port)
            self.assertEqual(closed, {})


class Ema(Slow, SystemTest):
    FAST = 100

    @classmethod
    def scenario(cls):
        cls.start()
        at = ['--until-at', cls.at_path]
        cls.pace = os.path.join(cls.directory, 'pace')
        cls.set_pace(STANDSTILL_US)
        judged = [*at, '--check-seq', '--check-map']
        cls.fast = cls.crowd('fast', cls.FAST, items=LIGHT, each=1, options=judged)
        cls.throttled = cls.crowd('throttled', THROTTLED, options=[*at, '--pace', cls.pace])
        cls.stopped = cls.crowd('stopped', 1, options=at)
        cls.all = [cls.fast, cls.throttled, cls.stopped]
        hold_until_ready(cls.feed, cls.distributor, cls.all)
        cls.p2ps.wait_count('p2ps_updates_in_total', 1)
        slow = ['throttled-%d' % number for number in range(THROTTLED)]
        cls.stop_for_a_while([cls.stopped], ['stopped-0', *slow], lambda: cls.set_pace(TROT_US))
        positions = cls.play_to_the_end()
        cls.say_where_the_end_is(positions)
        cls.ends = {crowd.name: crowd.wait_results() for crowd in cls.all}

    @classmethod
    def crowd(cls, name, count, **more):
        crowd = Crowd(name, cls.directory, cls.p2ps.server, count, **more)
        cls.keep(crowd)
        return crowd

    @classmethod
    def set_pace(cls, us):
        with open(cls.pace + '.new', 'w') as f:
            f.write(str(us))
        os.rename(cls.pace + '.new', cls.pace)

    def assert_ends_right(self, crowd):
        """What each consumer of a process has told."""
        self.assertEqual(self.ends[crowd.name], 0, crowd.tail())
        told = [crowd.of(number) for number in range(crowd.count)]
        for number, events in enumerate(told):
            with self.subTest(crowd=crowd.name, consumer=number):
                [result] = events['result']
                self.assertEqual((result['status'], result['reasons']), ('OK', []))
                # It was connected all the time.
                self.assertEqual(len(events['login']), 1)
                finals = {(e['item'], e['domain']): e for e in events['final']}
                self.assertEqual(len(finals), crowd.each)
                self.assertEqual(expected.differences(finals, watched_only=True), [])
                for item in result['items']:
                    sequence = item['sequence']
                    wrong = {key: sequence[key] for key in ('duplicates', 'backwards', 'refreshes_backwards')}
                    self.assertEqual(set(wrong.values()), {0}, (item['item'], sequence))
        return told

    def test_who_keeps_up_gets_every_update_in_order_and_ends_right(self):
        for events in self.assert_ends_right(self.fast):
            self.assertNotIn('login_status', events)
            [item] = events['result'][0]['items']
            self.assertEqual(item['sequence']['gaps'], 0, item)

    def test_who_is_slow_is_told_of_each_step_and_ends_right(self):
        for crowd in (self.throttled, self.stopped):
            for number, events in enumerate(self.assert_ends_right(crowd)):
                states = [event['state'] for event in events['login_status']]
                self.assertEqual({(state['stream'], state['data']) for state in states}, {('Open', 'Ok')})
                self.assert_steps([state['text'] for state in states], (crowd.name, number))

    def test_who_is_slow_gets_fewer_updates(self):
        applied = self.p2ps.metrics()['p2ps_updates_in_total']
        for crowd in (self.throttled, self.stopped):
            for number in range(crowd.count):
                with self.subTest(crowd=crowd.name, consumer=number):
                    updates = sum(item['updates'] for item in crowd.of(number)['result'][0]['items'])
                    self.assertLess(updates, applied)


class Streams(Consumer):
    """interop/python/streams.py: `lseg-data`. It writes final images when it knows where the end is."""

    def __init__(self, name, server, directory, at_path):
        words = [python_clients.python(), os.path.join(FOLDER, 'streams.py'), '--host', server, '--service', SERVICE]
        super().__init__(name, [*words, '--user', name, '--until-at', at_path, *watching(ITEMS)], directory, ITEMS)

    def is_right(self):
        return not python_clients.differences(self.look().finals)


class WebSocket(Slow, SystemTest):
    SPEED = '16'
    FAST = 2

    @classmethod
    def scenario(cls):
        python_clients.python()
        cls.start()
        server = 'localhost:%d' % cls.p2ps.websocket_port
        options = ['--service', SERVICE, '--user', 'plain']
        cls.plain = PlainClient('plain', server, cls.directory, ITEMS, options, is_conflated=True)
        cls.lseg = Streams('lseg', server, cls.directory, cls.at_path)
        cls.slow = [cls.plain, cls.lseg]
        for process in cls.slow:
            cls.keep(process)
        cls.fast = [
            cls.system_.native(cls.p2ps, items=[('BTCUSDT', 6)], options=['--user', 'fast-rssl']),
            cls.system_.native(server, name='json', items=[('BTCUSD.PERP', 6)], options=['--websocket', '--user', 'fast-json']),
        ]
        hold_until_ready(cls.feed, cls.distributor, [*cls.slow, *cls.fast])
        cls.stop_for_a_while(cls.slow, ['plain', 'lseg'])
        positions = cls.play_to_the_end()
        wait_at([*cls.fast, cls.plain], positions)
        cls.say_where_the_end_is(positions)
        differences = lambda: python_clients.differences(cls.lseg.look().finals)
        wait_until(cls.lseg.is_right, lambda: 'the images of lseg-data are right: %s' % differences(), [cls.lseg])

    def test_who_keeps_up_gets_every_update_in_order_and_ends_right(self):
        for client in self.fast:
            with self.subTest(client=client.name):
                status, finals = client.finish()
                self.assertEqual((status, client.faults(), len(client.seen('connected'))), (0, {}, 1))
                self.assertEqual(expected.differences(finals, watched_only=True), [])

    def test_websocket_client_is_told_of_each_step_and_ends_right(self):
        status, finals = self.plain.finish()
        self.assertEqual((status, self.plain.faults()), (0, {}))
        self.assertEqual(python_clients.differences(finals), [])
        said = [event['message'] for event in self.plain.seen('other')]
        self.assertEqual({(message['Domain'], message['State']['Data']) for message in said}, {('Login', 'Ok')})
        self.assert_steps([message['State']['Text'] for message in said], 'plain')

    def test_lseg_data_ends_right_in_one_session(self):
        # It read on, or its images would not have become right; the P2PS still knows both from their first login.
        self.assertTrue(self.lseg.is_right())
        self.assertEqual({final['state']['data'] for final in self.lseg.finals.values()}, {'Ok'})
        self.assertEqual(self.metrics['p2ps_conflations_begun_total'], self.metrics['p2ps_conflations_ended_total'])


if __name__ == '__main__':
    unittest.main()
