"""The workloads run, count every update, and print figures that a program can read. How high they are is not judged."""

import glob
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import nats_servers
from daemons import ROOT, binary

SHORT = ['--runs', '1', '--seconds', '0.5', '--json']
# For what spins on both CPUs.
VERY_SHORT = ['--seconds', '0.1']
TLS = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')
PEERS = os.path.join(os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target')), 'peers')
WITH_PEERS = os.pathsep.join([PEERS, os.environ['PATH']])


def bench(*words, **environment):
    """The figures of a workload, one object a row."""
    shortness = SHORT if '--seconds' not in words else ['--runs', '1', '--json']
    done = subprocess.run([binary(), 'bench', *words, *shortness], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError('bench %s: status %d\n%s' % (' '.join(words), done.returncode, done.stderr))
    return [json.loads(line) for line in done.stdout.splitlines()]


def children(parent):
    with open('/proc/%d/task/%d/children' % (parent, parent)) as file:
        return [int(word) for word in file.read().split()]


def is_running(pid):
    try:
        with open('/proc/%d/stat' % pid) as file:
            return file.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except FileNotFoundError:
        return False


def eventually(look, is_it):
    """What is found once it is as expected."""
    deadline = time.monotonic() + 60
    while not is_it(found := look()):
        if time.monotonic() > deadline:
            raise AssertionError('still %r' % (found,))
        time.sleep(0.05)
    return found


class Bench(unittest.TestCase):
    def figures(self, workload, *words):
        rows = bench(*words)
        self.assertEqual({row['workload'] for row in rows}, {workload})
        return self.of(workload, rows)

    def of(self, workload, rows):
        rows = [row for row in rows if 'figures' in row]
        self.assertTrue(all('cores' in row['machine'] for row in rows), rows)
        return [row['figures'] for row in rows if row['workload'] == workload]

    def test_rwf(self):
        rows = bench('rwf')
        own, containers = self.of('rwf', rows), self.of('codec', rows)
        converted = self.of('json', rows)
        self.assertEqual((len(own), len(own) + len(containers) + len(converted)), (9, len(rows)))
        self.assertTrue(all(row['ns']['median'] > 0 for row in own + converted), rows)
        self.assertEqual({row['case'] for row in converted}, {'update-74-bytes', 'map'})
        names = {'update-74-bytes', 'element-list', 'filter-list', 'map', 'series', 'vector'}
        self.assertEqual({row['name'] for row in containers}, names)
        figures = [row[name]['median'] for row in containers for name in ('decode_ns', 'copy_ns')]
        self.assertTrue(all(figure > 0 for figure in figures), containers)

    def test_end_to_end_beside_the_bare_chain(self):
        figures = self.figures('end-to-end', 'end-to-end', '--rates', '500', '--items', '100')
        self.assertEqual([row['way'] for row in figures], ['bare chain', 'separate', 'one-process'])
        self.assertEqual(figures[0]['p50_to_chain'], 1.0)
        for row in figures:
            self.assertGreater(row['p50_ns']['median'], 0)
            self.assertGreaterEqual(row['p999_ns']['median'], row['p50_ns']['median'])
            of_all = row['all']
            self.assertLessEqual(of_all['shortest_ns'], row['p50_ns']['low'])
            self.assertEqual(of_all['longest_ns'], row['max_ns']['high'])
            self.assertTrue(of_all['shortest_ns'] <= of_all['mean_ns'] <= of_all['longest_ns'], row)
            self.assertTrue(0 <= of_all['deviation_ns'] <= of_all['longest_ns'], row)
            self.assertGreater(of_all['points'], 0)
        self.assertEqual([row['lost'] for row in figures], [0, 0, 0])
        for row in figures[:2]:
            self.assertTrue(all(server['median'] > 0 for server in row['server_cpu_ns_per_update']), row)

    def test_a_rate_that_is_not_sustained_is_a_row_that_says_so(self):
        # No machine publishes so much; the run after it is not disturbed.
        words = ['end-to-end', '--rates', '100000000,500', '--items', '100', '--layouts', 'separate']
        figures = self.figures('end-to-end', *words)
        ways = ['bare chain', 'separate']
        rates = (100_000_000, 500)
        self.assertEqual([(row['way'], row['rate']) for row in figures], [(way, rate) for rate in rates for way in ways])
        for row in figures[:2]:
            self.assertFalse(row['is_sustained'], row)
            self.assertGreater(row['unsent'], 0)
            self.assertGreater(row['late_ns'], 1_000_000_000)
        self.assertEqual([(row['lost'], row['unsent']) for row in figures[2:]], [(0, 0)] * 2)

    def test_end_to_end_through_a_point_of_presence(self):
        words = ['end-to-end', '--rates', '500', '--items', '100', '--layouts', 'separate,pop']
        figures = self.figures('end-to-end', *words)
        self.assertEqual([(row['way'], row['lost']) for row in figures], [('bare chain', 0), ('separate', 0), ('pop', 0)])
        servers = [[server['median'] > 0 for server in row['server_cpu_ns_per_update']] for row in figures]
        self.assertEqual(servers, [[True] * 2, [True] * 2, [True] * 3])

    def test_end_to_end_over_each_carrier(self):
        words = ['end-to-end', '--rates', '500', '--items', '100', '--layouts', 'separate']
        words += ['--nats-server', nats_servers.program()]
        figures = self.figures('end-to-end', *words, '--backbones', 'multicast,unicast,tcp,shm,nats')
        ways = ['bare chain', 'separate', *('separate, ' + name for name in ('unicast', 'tcp', 'shm', 'nats'))]
        self.assertEqual([(row['way'], row['lost']) for row in figures], [(way, 0) for way in ways])
        ratios = [row['p50_to_multicast'] for row in figures]
        self.assertEqual(ratios[:2], [None, 1.0])
        self.assertTrue(all(ratio > 0 for ratio in ratios[2:]), ratios)
        servers = [len(row['server_cpu_ns_per_update']) for row in figures]
        self.assertEqual(servers, [2, 2, 2, 2, 2, 3], 'the server of NATS works too')

    def test_the_highest_rate_over_another_carrier(self):
        ways = [(('p2ps-lan', 'on'), ['source_distributor', 'p2ps'])]
        words = ['--layouts', 'p2ps-lan', '--cache', 'on', '--nats-server', nats_servers.program()]
        for carrier in ('shm', 'nats'):
            with self.subTest(carrier):
                self.highest_rates(ways, *words, '--backbone', carrier)
        rows = bench('end-to-end', '--rates', '500', '--items', '100', '--layouts', 'separate', '--backbones', 'nats',
                     PATH='/nowhere')
        self.assertTrue(any('nats-server is left out' in row.get('note', '') for row in rows), rows)
        words = [binary(), 'bench', 'no-fan-out', '--backbone', 'nats']
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('is not measured over nats: choose among direct, p2ps-lan and p2ps-pop', done.stderr)

    def test_end_to_end_in_bursts(self):
        words = ['end-to-end', '--rates', '1000', '--bursts', '20', '--items', '100', '--layouts', 'separate']
        figures = self.figures('end-to-end', *words)
        self.assertTrue(all(row['mean_ns']['median'] > 0 and row['lost'] == 0 for row in figures), figures)

    def ways(self, figures):
        """Each way's only row."""
        self.assertTrue(all(row['out_per_s']['median'] > 0 and row['per_cpu'] > 0 for row in figures), figures)
        return {row['way']: row for row in figures}

    def bytes(self, row):
        return row['bytes_per_update']['median']

    def test_fan_out_beside_a_bare_server(self):
        figures = self.figures('producer-50-50', 'fan-out', '--mounts', '5', '--rates', '1000')
        self.assertEqual(list(self.ways(figures)), ['bare', 'tickcast'])
        for row in figures:
            self.judge_latencies(row)
            self.assertEqual(len(row['servers']), 1)
            self.assertEqual(row['sustained'] == row['runs'], row['is_sustained'], row)

    def judge_latencies(self, row):
        """What a row says of its latencies, of one run."""
        of_all = row['all']
        self.assertGreater(of_all['points'], 0, row)
        self.assertLessEqual(of_all['shortest_ns'], row['p50_ns']['low'], row)
        self.assertTrue(of_all['shortest_ns'] <= of_all['mean_ns'] <= of_all['longest_ns'], row)
        self.assertGreaterEqual(row['p999999_ns']['median'], row['p50_ns']['median'], row)

    def test_fan_out_over_several_servers_that_decode_and_time_everything(self):
        words = ['fan-out', '--mounts', '5', '--each', '10', '--rates', '500', '--servers', '2', '--time-every', '1']
        words += ['--layouts', 'lan,pop', '--cache', 'on,off', '--decode', 'image']
        rows = bench(*words)
        figures = self.of('producer-50-50', rows)
        ways = ['bare', *('tickcast' + way for way in ('', ', cache off', ', pop', ', pop, cache off'))]
        self.assertEqual([row['way'] for row in figures], ways)
        for row in figures:
            self.judge_latencies(row)
            self.assertEqual((row['lost'], row['unsent']), (0, 0), row)
            # 250 updates, half of them to all five consumers and half to one.
            self.assertEqual(row['all']['points'], 750, row)
            self.assertEqual([server['all']['points'] > 0 for server in row['servers']], [True] * 2, row)
            self.assertEqual(sum(server['all']['points'] for server in row['servers']), 750, row)
        notes = ' '.join(row.get('note', '') for row in rows)
        self.assertIn('Every update is timed.', notes)
        self.assertIn('--decode image', notes)

    def test_a_fan_out_that_is_not_sustained_is_a_row_that_says_so(self):
        words = ['fan-out', '--mounts', '3', '--each', '5', '--rates', '100000000']
        figures = self.figures('producer-50-50', *words)
        self.assertEqual([row['way'] for row in figures], ['bare', 'tickcast'])
        for row in figures:
            self.assertFalse(row['is_sustained'], row)
            self.assertIn('not sent', row['fault'])
            self.assertGreater(row['unsent'], 0)

    def test_the_highest_rate_with_a_percentile_under_a_bound(self):
        # A bound that every machine keeps, at a rate that every machine has; how high the rate is, nobody asks.
        search = ['--under', '30s', '--percentile', '99', '--from', '1000', '--precision', '100', *VERY_SHORT]
        fan_out = ['fan-out', '--mounts', '3', '--each', '5', *search]
        for workload, words in (('producer-50-50', fan_out), ('end-to-end', ['end-to-end', '--items', '50', *search])):
            rows = bench(*words)
            figures = self.of(workload, rows)
            self.assertIn('tickcast' if workload == 'producer-50-50' else 'separate', {row['way'] for row in figures})
            for row in figures:
                self.assertEqual(row['bound'], {'percentile': '99', 'under_ns': 30_000_000_000})
                self.assertGreater(row['trials'], 1)
                end = row['bracket']['low' if row['is_sustained'] else 'high']
                self.assertEqual(end, row['rate'])
            self.assertTrue(any('jitter' in row.get('state', {}) for row in rows), rows)

    def test_end_to_end_without_caches_and_with_decoding(self):
        words = ['end-to-end', '--rates', '500', '--items', '100', '--layouts', 'separate', '--cache', 'on,off']
        figures = self.figures('end-to-end', *words, '--decode', 'fields')
        self.assertEqual([(row['way'], row['lost']) for row in figures],
                         [('bare chain', 0), ('separate', 0), ('separate, cache off', 0)])
        for row in figures:
            # A sender is late or in time, never early.
            self.assertLessEqual(row['naive']['all']['mean_ns'], row['all']['mean_ns'])
            self.assertEqual(row['naive']['all']['points'], row['all']['points'])
        words = ['end-to-end', '--rates', '500', '--items', '100', '--layouts', 'separate', '--payload', '63']
        short = self.figures('end-to-end', *words)
        self.assertEqual([row['naive'] is None for row in short], [False, True], 'there is no room for the time of sending')

    def test_options_that_do_not_go_together_are_refused(self):
        for words, said in (
                (['fan-out', '--payload', '75'], '63, 74, or 77 to 330 bytes'),
                (['fan-out', '--cache', 'off', '--payload', '63'], '--cache off: the interactive publisher'),
                (['end-to-end', '--cache', 'off', '--image-fields', '20'], '--cache off: the interactive publisher'),
                (['fan-out', '--servers', '9', '--mounts', '8'], '--servers: 1 to 8'),
                (['end-to-end', '--under', '1h'], '1us to 60s'),
                (['end-to-end', '--under', '1ms', '--percentile', '98'], '99.9999 or max'),
                (['fan-out', '--search', '--rates', '5'], 'cannot be used with'),
                (['no-fan-out', '--config', 'a.toml'], 'takes no --config')):
            done = subprocess.run([binary(), 'bench', *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=60)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stderr)

    def test_fan_out_beside_readers_that_do_not_keep_up(self):
        words = ['fan-out', '--mounts', '5', '--rates', '1000', '--slow', '--image-fields', '40', '--update-fields', '8']
        rows = bench(*words)
        ways = self.ways(self.of('producer-50-50', rows))
        self.assertEqual(list(ways), ['bare', 'tickcast', 'tickcast, beside slow'])
        # Texts differ by two bytes, updates may share a frame, and pings go beside them.
        self.assertAlmostEqual(self.bytes(ways['tickcast']), self.bytes(ways['bare']), delta=6)
        paired = [row['state'] for row in rows if 'state' in row]
        self.assertEqual([row['way'] for row in paired], ['tickcast, beside slow'], rows)
        self.assertGreater(paired[0]['p99_ratio'], 0)
        self.assertIsNone(paired[0]['interval95'], 'one run gives no interval')

    def test_a_profile_whose_updates_have_more_fields_than_its_images_is_refused(self):
        words = [binary(), 'bench', 'end-to-end', '--image-fields', '10', '--update-fields', '11']
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('--update-fields: 2 to 10', done.stderr)

    def test_images_of_any_profile_directly_and_through_the_servers(self):
        words = ['images', '--items', '300', '--steady', '10', '--rates', '0,1000', '--image-fields', '86',
                 '--update-fields', '23']
        figures = self.figures('images', *words)
        ways = [(row['way'], row['rate']) for row in figures]
        self.assertEqual(ways, [(way, rate) for rate in (0, 1000) for way in ('direct', 'cache', 'both-servers')])
        self.assertTrue(all(row['images_ns']['median'] > 0 for row in figures), figures)

    def highest_rates(self, ways, *words):
        """Each way's highest rate that is sustained, and the lowest one that is not."""
        # Every bracket is good, whatever its width, and a second late is not: how quick the machine is, nobody asks.
        words = ['no-fan-out', '--items', '100', '--precision', '100', '--late-ms', '1000', *VERY_SHORT, *words]
        figures = self.figures('no-fan-out', *words)
        seen = list(dict.fromkeys((row['layout'], row['cache']) for row in figures))
        self.assertEqual(seen, [way for way, _ in ways])
        for way, parts in ways:
            rows = [row for row in figures if (row['layout'], row['cache']) == way]
            self.assertEqual([row['is_sustained'] for row in rows], [True, False][:len(rows)], rows)
            found = rows[0]
            self.assertEqual((found['fault'], found['lost'], found['runs']), (None, 0, 1), found)
            self.assertEqual(set(found['cpu_ns_per_update']), {'publisher', 'consumer', *parts}, found)
            self.assertGreater(found['trials'], 1)
            self.assertEqual(found['bracket']['low'], found['rate'])
            for row in rows[1:]:
                self.assertTrue(found['rate'] < row['rate'] == row['bracket']['high'] and row['fault'], row)
        return figures

    def test_the_highest_rate_without_fan_out_by_layout(self):
        parts = ['source_distributor', 'p2ps', 'point_of_presence']
        ways = [(('direct', None), []), (('source-distributor', 'on'), parts[:1]), (('p2ps-lan', 'on'), parts[:2]),
                (('p2ps-pop', 'on'), parts)]
        figures = self.highest_rates(ways, '--cache', 'on')
        self.assertEqual(figures[0]['to_direct'], 1.0)
        self.assertTrue(all(row['to_direct'] > 0 for row in figures if row['is_sustained']), figures)

    def test_the_highest_rate_without_fan_out_and_without_caches(self):
        ways = [(('source-distributor', 'off'), ['source_distributor']),
                (('p2ps-pop', 'off'), ['source_distributor', 'p2ps', 'point_of_presence'])]
        figures = self.highest_rates(ways, '--cache', 'off', '--layouts', 'source-distributor,p2ps-pop')
        self.assertTrue(all(row['to_direct'] is None for row in figures), figures)

    def test_a_storm_of_clients_that_stand_still_and_leave(self):
        words = ['storm', '--clients', '60', '--each', '20', '--items', '100', '--steady', '10', '--stand-still', '0.5']
        for how in ([], ['--cold', '--set', 'p2ps.shards=2']):
            parts = {row['part']: row for row in self.figures('storm', *words, *how)}
            self.assertEqual(list(parts), ['alone', 'come', 'stand still', 'catch up', 'leave'])
            self.assertGreater(parts['come']['images_per_s'], 0)
            self.assertTrue(all(0 < row['server_bytes']['median'] <= row['server_bytes_max'] for row in parts.values()), parts)

    def test_a_storm_that_is_killed_leaves_nothing_behind(self):
        # Both servers, the publisher, a steady client, one that holds all items, and the crowd.
        words = ['storm', '--clients', '5', '--each', '5', '--items', '10', '--steady', '5']
        self.killed(6, *words)

    def test_a_chain_that_is_killed_leaves_nothing_behind(self):
        # Both servers, the publisher, the consumer, and the four parts of bare sockets.
        self.killed(8, 'end-to-end', '--layouts', 'separate', '--rates', '100', '--items', '10', '--runs', '1')

    def killed(self, count, *words):
        """Starts a workload, and kills it when it has so many parts."""
        words = [binary(), 'bench', *words, '--seconds', '30']
        started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            parts = eventually(lambda: children(started.pid), lambda found: len(found) == count)
        finally:
            started.kill()
            started.wait()
        eventually(lambda: [pid for pid in parts if is_running(pid)], lambda left: not left)

    def test_fan_out_compressed_and_encrypted(self):
        words = ['fan-out', '--mounts', '5', '--rates', '1000', '--compression', 'zlib,lz4', '--tls', TLS]
        ways = self.ways(self.figures('producer-50-50', *words))
        self.assertEqual(list(ways), ['bare', 'tickcast', 'tickcast, zlib', 'tickcast, LZ4', 'tickcast, TLS'])
        self.assertLess(self.bytes(ways['tickcast, zlib']), self.bytes(ways['tickcast']))

    def test_fan_out_over_websocket_compressed_and_encrypted(self):
        words = ['websocket-fan-out', '--clients', '5', '--rates', '200', '--compression', '--tls', TLS]
        rows = bench(*words, PATH='/nowhere')
        ways = self.ways(self.of('websocket-fan-out', [row for row in rows if 'figures' in row]))
        self.assertEqual(list(ways), ['tickcast', 'tickcast, deflate', 'tickcast, TLS'])
        self.assertLess(self.bytes(ways['tickcast, deflate']), self.bytes(ways['tickcast']))
        notes = [row['note'] for row in rows if 'note' in row]
        self.assertEqual(len([note for note in notes if 'make peers' in note]), 1, notes)
        self.assertTrue(any('one in 16' in note for note in notes), notes)

    @unittest.skipUnless(shutil.which('nats-server', path=WITH_PEERS), 'there is no nats-server; make peers')
    def test_fan_out_over_websocket_beside_nats_server(self):
        words = ['websocket-fan-out', '--clients', '5', '--rates', '200', '--compression']
        ways = self.ways(self.of('websocket-fan-out', bench(*words, PATH=WITH_PEERS)))
        self.assertEqual(list(ways), ['tickcast', 'tickcast, deflate', 'nats-server', 'nats-server, deflate'])
        self.assertLess(self.bytes(ways['tickcast']), self.bytes(ways['nats-server']))

    def test_multicast_beside_raw_datagrams(self):
        figures = self.figures('lbtrm-1-1', 'lbtrm', '--rates', '5000,10000')
        # A way that does not keep up on a busy machine is not asked for the second rate.
        self.assertEqual({row['way'] for row in figures}, {'raw', 'lbtrm'})
        # Bare sockets repeat nothing.
        self.assertTrue(all(row['lost'] == 0 for row in figures if row['way'] == 'lbtrm'), figures)

    def ends(self, words, ways, **environment):
        """Rows of workloads between two ends, by path and way."""
        rows = bench(*words, **environment)
        figures = self.of(words[0], [row for row in rows if 'figures' in row])
        self.assertTrue(ways <= {(row['path'], row['way']) for row in figures}, figures)
        self.assertTrue(all(row['placement'] in ('near', 'far', 'changed') for row in figures), figures)
        jitter = [row['state']['jitter'] for row in rows if 'state' in row]
        self.assertEqual(len(jitter), 2, rows)
        self.assertTrue(all(cpu['watched_ns'] > 0 for cpu in jitter), jitter)
        return figures, [row['note'] for row in rows if 'note' in row]

    def test_ping_pongs_beside_bare_paths(self):
        ways = {(path, 'raw') for path in ('shm', 'udp', 'multicast', 'tcp')}
        ways |= {('multicast', 'tickcast, LBT-RM'), ('tcp', 'tickcast, TCP')}
        figures, notes = self.ends(['pingpong', '--sizes', '64', *VERY_SHORT], ways, PATH='/nowhere')
        for row in figures:
            self.assertGreater(row['p50_ns']['median'], 0, row)
            self.assertGreaterEqual(row['max_ns']['median'], row['p99_ns']['median'], row)
            self.assertTrue(row['to_raw'] == 1.0 or row['way'] != 'raw', row)
        self.assertEqual(len([note for note in notes if 'make peers' in note]), 2, notes)

    @unittest.skipUnless(os.geteuid() == 0, 'two hosts (network namespaces) need root')
    def test_ping_pongs_between_two_hosts(self):
        ways = {('veth', way) for way in ('raw, AF_XDP', 'raw, UDP', 'tickcast, AF_XDP', 'tickcast, sockets')}
        figures, notes = self.ends(['pingpong', '--paths', 'veth', '--sizes', '64', *VERY_SHORT], ways)
        self.assertEqual(len(figures), 4, notes)
        for row in figures:
            self.assertGreater(row['p50_ns']['median'], 0, row)
            self.assertGreater(row['to_raw'], 0, row)

    def test_two_hosts_that_cannot_be_are_noted(self):
        rows = bench('pingpong', '--paths', 'veth', *VERY_SHORT, PATH='/nowhere')
        notes = [row['note'] for row in rows if 'note' in row]
        self.assertTrue(any(note.startswith('veth is left out: two hosts cannot be made: ') for note in notes), notes)
        self.assertFalse([row for row in rows if 'figures' in row], rows)

    def test_streams_beside_bare_paths(self):
        ways = {('multicast', 'raw, sendmmsg'), ('multicast', 'raw, GSO and GRO'), ('multicast', 'tickcast, LBT-RM'),
                ('tcp', 'raw, 256 KiB a write'), ('tcp', 'tickcast, TCP'),
                ('shm', 'raw, published each'), ('shm', 'raw, published every 16')}
        words = ['stream', '--paths', 'multicast,tcp,shm', '--sizes', '64', *VERY_SHORT]
        figures, _ = self.ends(words, ways, PATH='/nowhere')
        self.assertTrue(all(row['received_per_s']['median'] > 0 for row in figures), figures)
        # What the bare ways have not heard after a while counts as lost, and on a busy machine that is some.
        waits = [row for row in figures if row['path'] in ('tcp', 'shm') and row['way'].startswith('tickcast')]
        self.assertTrue(all(row['lost'] == 0 for row in waits), figures)

    def test_latency_under_load_of_one_and_of_three_pairs(self):
        ways = {('multicast', 'raw'), ('multicast', 'tickcast, LBT-RM')}
        for workload, pairs in (('messaging-1-1', ['all']), ('messaging-3-3', ['1', '2', '3', 'all'])):
            figures, notes = self.ends([workload, '--rates', '1000,3000', *VERY_SHORT], ways, PATH='/nowhere')
            self.assertEqual({row['rate'] for row in figures}, {1000, 3000})
            for rate in (1000, 3000):
                for way in ('raw', 'tickcast, LBT-RM'):
                    rows = [row for row in figures if (row['rate'], row['way']) == (rate, way)]
                    self.assertEqual([row['pair'] for row in rows], pairs, rows)
            # Bare sockets repeat nothing: on a busy machine they may lose all of a tenth of a second.
            ours = [row for row in figures if row['way'] != 'raw']
            self.assertTrue(all(row['lost'] == 0 and row['p50_ns']['median'] > 0 for row in ours), figures)
            for row in ours:
                # A sender is never early, so that what it adds is never less than nothing.
                self.assertEqual(row['naive']['all']['points'], row['all']['points'], row)
                self.assertLessEqual(row['naive']['all']['mean_ns'], row['all']['mean_ns'] * 1.01, row)
            self.assertEqual(len(pairs) > 1, any('yield' in note for note in notes), notes)

    def test_three_pairs_driven_by_one_thread_each_way(self):
        words = ['messaging-3-3', '--one-thread', '--rates', '3000', *VERY_SHORT]
        figures, _ = self.ends(words, {('multicast', 'tickcast, LBT-RM')}, PATH='/nowhere')
        self.assertEqual([(row['pair'], row['lost']) for row in figures], [('all', 0)], figures)
        for words in (['messaging-1-1', '--one-thread'], ['messaging-3-3', '--cpus', '0,1,2'],
                      ['messaging-1-1', '--cpus', '1,1']):
            done = self.refused(*words)
            self.assertIn(words[1], done.stderr)

    def refused(self, *words):
        done = subprocess.run([binary(), 'bench', *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done

    def test_a_rate_that_no_sender_keeps_is_a_row_and_the_next_one_is_measured(self):
        words = ['messaging-1-1', '--path', 'tcp', '--rates', '900000000,1000', *VERY_SHORT]
        figures, _ = self.ends(words, {('tcp', 'tickcast, TCP')}, PATH='/nowhere')
        ours = [row for row in figures if row['way'] != 'raw']
        self.assertEqual([row['rate'] for row in ours], [900_000_000, 1000], figures)
        self.assertFalse(ours[0]['is_sustained'], ours)
        self.assertGreater(ours[0]['late_ns'], 50_000_000)
        self.assertEqual(ours[1]['lost'], 0, ours)

    def test_the_settings_of_2009_count_as_they_stand(self):
        settings = ['--config', os.path.join(ROOT, 'examples', 'lbm-2009.toml')]
        words = ['messaging-1-1', *settings, '--rates', '1000', *VERY_SHORT]
        figures, notes = self.ends(words, {('multicast', 'tickcast, LBT-RM')}, PATH='/nowhere')
        self.assertTrue(all(row['datagram'] == 1472 for row in figures), figures)
        self.assertTrue(any('nak_backoff_interval_us is 0: 30000' in note for note in notes), notes)
        rows = self.figures('lbtrm-1-1', 'lbtrm', '--set', 'lbtrm.ignore_interval_us=1000', '--rates', '5000')
        self.assertEqual({row['way'] for row in rows}, {'raw', 'lbtrm'})

    def test_settings_that_cannot_be_are_refused_before_anything_starts(self):
        for setting, said in (('lbtrm.ignore_interval=1', 'ignore_interval_us'),
                              ('lbtrm.destination_port=1', 'the workload sets this key itself')):
            for workload in ('messaging-1-1', 'messaging-3-3', 'stream', 'pingpong', 'lbtrm', 'congestion'):
                self.assertIn(said, self.refused(workload, '--set', setting).stderr)

    def test_the_highest_rate_under_a_bound(self):
        # So wide a bracket that any machine finds it, and a latency that it does not pass as long as it keeps up.
        words = ['messaging-1-1', '--path', 'shm', '--under', '10s', '--precision', '100', *VERY_SHORT]
        figures, notes = self.ends(words, {('shm', 'raw'), ('shm', 'tickcast, LBT-IPC')}, PATH='/nowhere')
        for row in figures:
            self.assertEqual(row['bound'], {'under_ns': 10_000_000_000, 'percentile': '99'}, row)
            self.assertGreater(row['trials'], 1)
            self.assertEqual(row['bracket']['low'], row['rate'], row)
            if row['rate'] is not None and row['bracket']['high'] is not None:
                self.assertLess(row['rate'], row['bracket']['high'], row)
                self.assertTrue(row['above_fault'], row)
        self.assertTrue(any('p99 under 10s' in note for note in notes), notes)
        for words in (['--under', '1'], ['--under', '1ms', '--percentile', '98'], ['--under', '1ms', '--rates', '5']):
            self.assertIn(words[-2] if words[-1] != '5' else '--rates', self.refused('messaging-1-1', *words).stderr)

    def test_messages_of_64_kib_go_to_and_fro(self):
        ways = {('tcp', 'raw'), ('shm', 'raw'), ('shm', 'tickcast, LBT-IPC'), ('tcp', 'tickcast, TCP'),
                ('udp', 'tickcast, LBT-RU'), ('multicast', 'tickcast, LBT-RM')}
        words = ['pingpong', '--paths', 'shm,udp,multicast,tcp', '--sizes', '65536', *VERY_SHORT]
        figures, notes = self.ends(words, ways, PATH='/nowhere')
        self.assertTrue(all(row['p50_ns']['median'] > 0 for row in figures), figures)
        self.assertEqual(len([note for note in notes if 'carries at most 65507 bytes' in note]), 2, notes)
        self.assertIn('65536', self.refused('pingpong', '--sizes', '65537').stderr)

    def test_the_published_sizes_are_those_of_the_tests_of_sockets(self):
        words = ['pingpong', '--paths', 'tcp', '--published-sizes', '--seconds', '0.05']
        figures, _ = self.ends(words, {('tcp', 'raw')}, PATH='/nowhere')
        sizes = [row['size'] for row in figures if row['way'] == 'raw']
        self.assertEqual(sizes, [64, 128, 256, 512, 1024, 1500, 2048])

    def test_streams_of_three_pairs(self):
        words = ['stream', '--paths', 'tcp', '--pairs', '3', *VERY_SHORT]
        figures, _ = self.ends(words, {('tcp', 'tickcast, TCP')}, PATH='/nowhere')
        ours = [row for row in figures if row['way'] != 'raw, 256 KiB a write']
        self.assertEqual([row['pair'] for row in ours], ['1', '2', '3', 'all'], ours)
        each = sum(row['received_per_s']['median'] for row in ours[:3])
        self.assertAlmostEqual(each, ours[3]['received_per_s']['median'], delta=each / 1e6)
        for row in ours:
            self.assertAlmostEqual(row['gigabits_per_s'], row['received_per_s']['median'] * 64 * 8 / 1e9)

    def test_a_share_of_a_stream_comes_back(self):
        words = ['messaging-1-1', '--path', 'udp', '--rates', '2000', '--reflect', '10', *VERY_SHORT]
        figures, _ = self.ends(words, {('udp', 'raw, UDP'), ('udp', 'tickcast, LBT-RU')}, PATH='/nowhere')
        for row in figures:
            self.assertEqual((row['reflected']['percent'], row['reflected']['expected']), (10, 20), row)
        ours = [row['reflected'] for row in figures if row['way'] != 'raw, UDP']
        self.assertTrue(all(back['came'] == 20 and back['all']['shortest_ns'] > 0 for back in ours), figures)

    @unittest.skipUnless(os.geteuid() == 0, 'two hosts (network namespaces) need root')
    def test_bypass_at_one_end_alone(self):
        ways = {('veth', 'tickcast, ' + way) for way in ('AF_XDP', 'AF_XDP at the sender', 'AF_XDP at the receiver',
                                                         'sockets')}
        words = ['messaging-1-1', '--path', 'veth', '--bypass', 'both,sender,receiver,none', '--rates', '1000',
                 '--reflect', '5', *VERY_SHORT]
        figures, notes = self.ends(words, ways | {('veth', 'raw, UDP')})
        ours = [row for row in figures if row['way'] != 'raw, UDP']
        self.assertTrue(all(row['lost'] == 0 and row['reflected']['came'] == 5 for row in ours), (figures, notes))

    def test_a_matrix_goes_on_where_it_was(self):
        with tempfile.TemporaryDirectory() as directory:
            words = ['messaging-matrix', '--shapes', 'messaging-1-1', '--path', 'shm', '--datagrams', '1472',
                     '--rates', '1000', '--out', directory, *VERY_SHORT]
            for sizes, measured in (('64', {64}), ('64,256', {256}), ('64,256', set())):
                rows = [row for row in bench(*words, '--sizes', sizes, PATH='/nowhere') if 'figures' in row]
                self.assertEqual({(row['workload'], row['figures']['size']) for row in rows},
                                 {('messaging-1-1', size) for size in measured})
            self.assertEqual(sorted(os.listdir(directory)),
                             ['messaging-1-1-%05d-in-01472' % size for size in (64, 256)])

    def test_files_of_observations_agree_with_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ['messaging-1-1', '--rates', '2000', *VERY_SHORT, '--observe', os.path.join(folder, 'new')]
            rows = bench(*words, PATH='/nowhere')
            files = glob.glob(os.path.join(folder, 'new', '*.obs'))
            self.assertEqual(len(files), 2, files)
            command = [binary(), 'analyse', '--json', *files]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        row, = (row['figures'] for row in rows if 'figures' in row and row['figures']['way'] != 'raw')
        cost, = (row['state']['observer'] for row in rows if 'observer' in row.get('state', {}))
        self.assertTrue(0 < cost['cost_ns'] and cost['clock'] in ('tsc', 'monotonic'), cost)
        analysis = json.loads(done.stdout)
        pair, = analysis['pairs']
        self.assertEqual((pair['from'], pair['to'], pair['sent']), ('sender', 'receiver', 200))
        self.assertEqual((pair['matched'], pair['lost'], pair['only_at_to']), (row['all']['points'], row['lost'], 0))
        self.assertEqual((pair['duplicates_from'], pair['duplicates_to'], pair['reordered']), (0, 0, 0))
        # Each message was sent after its intended time, and taken down at its receiver before it was timed there. The table
        # keeps three digits.
        most = row['all']['mean_ns'] * 1.001 + pair['error_ns'] + 1
        self.assertTrue(0 < pair['latency']['mean_ns'] <= most, (pair, row))
        self.assertEqual(pair['latency']['count'], sum(count for _, count in pair['latency']['buckets']))

    def test_what_the_observer_costs(self):
        rows = bench('observer', '--paths', 'tcp', '--sizes', '64', *VERY_SHORT)
        clocks = {row['state']['clock']: row['state'] for row in rows if 'clock' in row.get('state', {})}
        self.assertEqual(set(clocks), {'tsc', 'monotonic', 'monotonic-raw'})
        self.assertTrue(all('why_not' in clock or clock['cost_ns'] > 0 for clock in clocks.values()), clocks)
        row, = (row['figures'] for row in rows if 'figures' in row)
        self.assertTrue(row['ratio'] > 0 and row['observed_received_per_s']['median'] > 0, row)
        self.assertIsNone(row['ratio_interval95'], 'it needs six runs')

    @unittest.skipUnless(shutil.which('aeron-peer', path=WITH_PEERS), 'there is no aeron-peer; make peers')
    def test_aeron_takes_part_where_it_is(self):
        words = ['stream', '--paths', 'shm,multicast', *VERY_SHORT]
        ways = {(path, way) for path in ('shm', 'multicast') for way in ('aeron, offer', 'aeron, claim')}
        figures, _ = self.ends(words, ways, PATH=WITH_PEERS)
        self.assertTrue(all(row['lost'] == 0 for row in figures if 'aeron' in row['way']), figures)

    def test_jitter_of_an_idle_machine(self):
        figures = self.of('jitter', [row for row in bench('jitter') if 'figures' in row])
        self.assertEqual([row['cpu'] for row in figures], [0, 1])

    def test_a_process_that_cannot_start_is_named(self):
        words = [binary(), 'bench', 'end-to-end', '--set', 'p2ps.rssl_prot=1', *SHORT]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('rssl_prot', done.stderr)


if __name__ == '__main__':
    unittest.main()
