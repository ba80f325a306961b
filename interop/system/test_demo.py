"""`tickcast demo`, what a person tries first, with applications on the unmodified EMA library."""

import os
import re
import subprocess
import unittest

import expected
import java_tools
from daemons import binary, wait_at
from ports import free_ports
from process import ROOT, WATCHDOG_S, wait_until
from system_test import SystemTest

OTHER_JAVA = os.path.join(ROOT, '..', 'shared', 'interop', 'java')
NO_OTHER_JAVA = 'the other tools on the EMA library are not at hand: ../shared/interop/java'
UPDATES = 119_000  # the sample has a little more


class WholeReplay(SystemTest):
    """Clients that are there from the start, while the recording is played; and one that comes afterwards."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        port = free_ports()
        cls.clients = []
        # One after the other: who has been refused for long waits for long, and would miss much of the replay.
        for connect in (system.java, system.native):
            cls.clients.append(connect('localhost:%d' % port))
            cls.clients[-1].wait_says('refused')  # nobody listens yet
        cls.demo = system.demo('--speed', '20', port=port)
        cls.java, cls.native = cls.clients
        for client in cls.clients:
            wait_until(client.has_images, '%s has its images' % client.name, [client, cls.demo])
        cls.demo.wait_played()
        cls.late = system.java(cls.demo, name='late')
        wait_at(cls.clients, system.wait_right(cls.demo))
        wait_until(cls.late.has_images, 'the late one has its images', [cls.late])

    def test_what_an_ema_consumer_saw_is_what_it_must_be(self):
        self.assert_finished_well(self.java)
        self.assertEqual(self.java.result['reason_count'], 0)

    def test_what_the_native_client_saw_is_what_it_must_be(self):
        self.assert_finished_well(self.native)

    def test_an_ema_consumer_that_comes_afterwards_gets_the_final_images(self):
        self.assert_finished_well(self.late)

    def test_an_ema_consumer_logs_in_finds_the_service_and_downloads_the_dictionary(self):
        login = self.java.seen('login')[0]
        self.assertEqual((login['state']['stream'], login['state']['data']), ('Open', 'Ok'))
        directory = self.java.seen('directory')[-1]
        self.assertEqual([s['info']['Name'] for s in directory['services'].values()], ['BINANCE'])
        dictionaries = {event['name']: event for event in self.java.seen('dictionary')}
        self.assertEqual(set(dictionaries), {'RWFFld', 'RWFEnum'})
        self.assertGreaterEqual(dictionaries['RWFFld']['entries'], 30)

    def test_the_updates_were_those_of_a_market(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assertGreater(sum(item.updates for item in client.items.values()), 0.8 * UPDATES)

    def test_one_request_upstream_per_item_however_many_clients_ask(self):
        self.assertEqual(self.demo.metrics()['p2ps_items'], len(expected.ITEMS))
        self.assertLessEqual(self.demo.metrics()['p2ps_images_requested_total'], 2 * len(expected.ITEMS))

    def test_nothing_was_lost_or_refused(self):
        bad = r'.*(lost|refused|dropped|unrecovered|failed|malformed)_.*total'
        self.assertEqual(self.demo.metrics().nonzero(bad), {})


class AsFastAsItGoes(SystemTest):
    """`--speed max`, through multicast and in memory, clients afterwards."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        kinds = {'multicast': [], 'in-process': ['--backbone', 'in-process']}
        cls.demos = {kind: system.demo('--speed', 'max', *o, name=kind) for kind, o in kinds.items()}
        for demo in cls.demos.values():
            demo.wait_played()
        cls.clients = {kind: system.java(demo, name='java-' + kind) for kind, demo in cls.demos.items()}
        for kind, client in cls.clients.items():
            wait_until(client.has_images, '%s has its images' % client.name, [client, cls.demos[kind]])
            wait_at([client], system.wait_right(cls.demos[kind]))

    def test_the_images_afterwards_are_right(self):
        self.assert_finished_well(self.clients['multicast'])

    def test_the_images_afterwards_are_right_with_the_backbone_in_memory(self):
        self.assert_finished_well(self.clients['in-process'])


class SlowReader(SystemTest):
    """`--slow-reader`: the demo says what becomes of a client that stands still; the others go on."""

    LINES = (
        'slow reader: reads, and is sent every update',
        'slow reader: stands still',
        'slow reader: updates are conflated: ',
        'slow reader: reads again. ',
        'slow reader: it is told: updates are conflated, because this client reads too slowly: ',
        'slow reader: it is told: every update is sent again, ',
    )

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.demo = system.demo('--loop', '--speed', '5', '--slow-reader')
        cls.other = system.native(cls.demo, is_conflated=True)
        # What the sockets hold fills first, as fast as the feed plays.
        conflated = lambda: cls.LINES[2] in cls.demo.out()
        wait_until(conflated, 'the client that stands still is conflated', [cls.demo, cls.other], timeout_s=240)
        positions = cls.other.look().positions()
        moved = lambda: all(number > (positions[key] or 0) for key, number in cls.other.look().positions().items() if number)
        wait_until(moved, 'the other client goes on', [cls.demo, cls.other])
        cls.status = cls.demo.status()
        for line in cls.LINES:
            cls.demo.wait_says(line)
        cls.demo.wait_says('slow reader: every update is sent again. ')
        words = [binary(), 'ledger', '127.0.0.1:%d' % cls.demo.admin.port]
        cls.ledger = subprocess.run(words, capture_output=True, text=True, timeout=2 * WATCHDOG_S)
        cls.ends = cls.other.end(), cls.demo.end()

    def test_each_change_is_a_line_in_its_order(self):
        out = self.demo.out()
        places = [out.find(line) for line in self.LINES]
        self.assertNotIn(-1, places)
        self.assertEqual(places, sorted(places), out)

    def test_updates_were_left_out_and_nothing_is_unexplained(self):
        line = next(line for line in self.demo.out().splitlines() if 'slow reader: every update is sent again' in line)
        self.assertGreater(int(re.search(r'(\d+) updates were left out', line)[1]), 0)
        self.assertEqual((self.ledger.returncode, self.ledger.stdout.splitlines()[-1]), (0, 'balanced'), self.ledger)

    def test_it_is_found_by_its_user(self):
        users = [client['user'] for client in self.status['p2ps']['clients']]
        self.assertEqual(users.count('slow-reader'), 1)

    def test_the_other_client_is_undisturbed_and_all_ends_well(self):
        self.assertEqual((self.ends, self.other.faults(), len(self.other.seen('connected'))), ((0, 0), {}, 1))


class InMemory(SystemTest):
    """The replay with the backbone in memory, clients from the start."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.demo = system.demo('--speed', '50', '--backbone', 'in-process')
        cls.clients = [system.java(cls.demo), system.native(cls.demo)]
        for client in cls.clients:
            wait_until(client.has_images, '%s has its images' % client.name, [client, cls.demo])
        cls.demo.wait_played()
        wait_at(cls.clients, system.wait_right(cls.demo))

    def test_what_the_clients_saw_is_what_it_must_be(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)


class OtherCarriers(SystemTest):
    """`--backbone unicast`, which brings its resolver along, and `--backbone shm`; two of each beside each other."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.demos = {}
        for kind in ('unicast', 'shm'):
            for name in (kind, kind + '-beside'):
                cls.demos[name] = system.demo('--speed', 'max', '--backbone', kind, name=name)
        cls.finals = {}
        for name, demo in cls.demos.items():
            demo.wait_played()
            system.wait_right(demo)
            _, cls.finals[name], _ = system.snapshot(demo)
        cls.metrics = {name: demo.metrics() for name, demo in cls.demos.items()}

    def test_images_are_right(self):
        for name, finals in self.finals.items():
            with self.subTest(name):
                self.assert_final_images(finals)

    def test_the_carrier_is_the_one_that_was_named(self):
        transports = {'unicast': 'lbtru', 'shm': 'lbtipc'}
        for name, metrics in self.metrics.items():
            sent = metrics.nonzero(r'lbt\w+_source_\w*msgs_sent_total')
            with self.subTest(name):
                self.assertEqual({counter.split('_')[0] for counter in sent}, {transports[name.split('-')[0]]})

    def test_each_keeps_to_itself(self):
        for name, demo in self.demos.items():
            with self.subTest(name):
                self.assertEqual(len(demo.status()['p2ps']['services']), 1)


class Contributions(SystemTest):
    """An EMA application posts into the demo's items."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.demo = system.demo('--speed', 'max', '--backbone', 'in-process')
        cls.demo.wait_played()
        port = int(cls.demo.server.split(':')[1])
        words = ('--service', 'BINANCE', '--items', 'BTCUSDT')
        posting = java_tools.consumer(
            cls.directory, port, *words, '--post', '1', '--post-fields', '22=REAL:777:14', name='posting'
        )
        cls.keep(posting)
        cls.posted = posting.result()
        later = java_tools.consumer(cls.directory, port, *words, '--snapshot', name='later')
        cls.keep(later)
        cls.later = later.result()

    def test_they_are_acknowledged_and_seen_by_others(self):
        status, result, _ = self.posted
        self.assertEqual((status, result['posts']['acks'], result['posts']['nacks']), (0, 1, 0), result)
        status, _, finals = self.later
        bid = finals['BTCUSDT', 6]['fields']['22']
        self.assertEqual((status, bid['mantissa'], bid['hint']), (0, 777, 14))


@unittest.skipUnless(os.path.isdir(OTHER_JAVA), NO_OTHER_JAVA)
class OtherConsumer(SystemTest):
    """An EMA consumer that others wrote."""

    @classmethod
    def scenario(cls):
        # Again and again: the recording must not end before a Java program of a busy machine has what it wants.
        cls.demo = cls.system().demo('--speed', '10', '--loop')
        cls.jar = build_other(cls.directory)

    def run_other(self, name, *options):
        words = ['java', '-Xmx192m', '-jar', self.jar, 'consumer', '--host', self.demo.server]
        words += ['--service', 'BINANCE', '--items', ','.join(expected.NAMES)]
        words += ['--updates', '20', '--timeout', '40']
        process = self.system().process(name, words + list(options))
        return process.wait(), process

    def test_it_gets_images_and_updates(self):
        status, _ = self.run_other('prices')
        self.assertEqual(status, 0)

    def test_it_gets_books_and_their_updates(self):
        status, _ = self.run_other('books', '--domain', '8')
        self.assertEqual(status, 0)


@unittest.skipUnless(expected.FULL, 'the full recordings are not at hand: ../shared/data/open/crypto')
class FullRecordings(SystemTest):
    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.demo = system.demo('--speed', 'max', '--data', *expected.FULL)
        cls.demo.wait_played()
        cls.java = system.java(cls.demo)
        wait_until(cls.java.has_images, 'java has its images', [cls.java, cls.demo])
        wait_at([cls.java], system.wait_right(cls.demo, recordings=expected.FULL))

    def test_the_final_images_are_right(self):
        status, finals = self.java.finish()
        self.assertEqual(status, 0, self.java.result['reasons'])
        self.assert_final_images(finals, expected.FULL)


def build_other(directory):
    """Its program, built in a directory of ours, because its own may not be written."""
    target = os.path.join(directory, 'other')
    subprocess.run(['cp', '-r', OTHER_JAVA, target], check=True)
    subprocess.run(['chmod', '-R', 'u+w', target], check=True)
    run = lambda *words: subprocess.run(words, cwd=target, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    done = run('mvn', '-q', '-o', 'package')
    if done.returncode:  # what is not here yet is fetched
        done = run('mvn', '-q', 'package')
    if done.returncode:
        raise AssertionError('mvn package of the other consumer: %s' % done.stdout.decode()[-2000:])
    return os.path.join(target, 'target', 'rssl-interop.jar')


if __name__ == '__main__':
    unittest.main()
