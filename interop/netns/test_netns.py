"""python3 -m unittest discover -s interop/netns        (needs root, ip, nft, tcpdump)"""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import netns
from netns import Lab, NetnsError, SWITCH, address
import repeat

GROUP, PORT = '239.77.1.1', 21000

# Counts datagrams until its standard input ends, then takes what is still queued and prints [count, longest].
RECEIVER = '''
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
s.bind(("", int(sys.argv[3])))
if sys.argv[2] != "-":
    member = socket.inet_aton(sys.argv[2]) + socket.inet_aton(sys.argv[1])
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
print("ready", flush=True)
count = longest = 0
while True:
    ready, _, _ = select.select([s, sys.stdin], [], [])
    if s in ready:
        longest = max(longest, len(s.recv(65536)))
        count += 1
    elif not sys.stdin.readline():
        break
print([count, longest])
'''

# Sends COUNT datagrams of SIZE bytes to ADDRESS:PORT; with SEGMENT each send is cut into segments of so many
# bytes.
SENDER = '''
import socket, struct, sys
address, port, count, size, segment = sys.argv[1], *map(int, sys.argv[2:6])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: do not fragment
if segment:
    s.setsockopt(socket.IPPROTO_UDP, 103, segment)  # UDP_SEGMENT
for i in range(count):
    s.sendto(struct.pack(">I", i) + bytes(size - 4), (address, port))
'''


class Receiver:
    def __init__(self, lab, host, group='-'):
        self.process = lab.popen(
            host,
            sys.executable,
            '-c',
            RECEIVER,
            address(host),
            group,
            str(PORT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == 'ready\n'

    def result(self):
        out, _ = self.process.communicate(timeout=20)
        return json.loads(out)

    def stop(self):
        self.process.kill()
        self.process.communicate()


def send(lab, host, to, count=1, size=100, segment=0):
    return lab.run(host, sys.executable, '-c', SENDER, to, str(PORT), str(count), str(size), str(segment))


def wait_until(condition, what):
    """A watchdog, no measure: the kernel hands packets over in its own time."""
    until = time.monotonic() + 20
    while not condition():
        if time.monotonic() > until:
            raise AssertionError('never happened: ' + what)
        time.sleep(0.01)


def received_by_sockets(lab, host):
    """Datagrams that UDP of this host has handed to sockets so far."""
    rows = [
        line.split()
        for line in lab.run(host, 'cat', '/proc/net/snmp').splitlines()
        if line.startswith('Udp:')
    ]
    return int(rows[1][rows[0].index('InDatagrams')])


def datagram_sizes(path):
    """UDP payload sizes of a capture made on Ethernet, without those of other protocols."""
    with open(path, 'rb') as f:
        data = f.read()
    at, sizes = 24, []
    while at < len(data):
        (length,) = struct.unpack_from('<I', data, at + 8)
        frame = data[at + 16 : at + 16 + length]
        if frame[12:14] == b'\x08\0' and frame[23] == 17:
            sizes.append(struct.unpack_from('>H', frame, 14 + 4 * (frame[14] & 15) + 4)[0] - 8)
        at += 16 + length
    return sizes


ENDLESS_SENDER = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(bytes(100), (sys.argv[1], 5000))
    time.sleep(0.001)
"""


@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
@repeat.printed
class Networks(unittest.TestCase):
    name = 'selftest'

    def setUp(self):
        Lab(self.name).down()

    def lab(self, *arguments, name=None):
        lab = Lab.up(name or self.name, *arguments)
        self.addCleanup(lab.down)
        return lab

    def receiver(self, lab, host, group='-'):
        receiver = Receiver(lab, host, group)
        self.addCleanup(receiver.stop)
        return receiver

    def test_multicast_reaches_every_member_but_no_other_host(self):
        lab = self.lab(4)
        lab.drop(0)
        members = [self.receiver(lab, host, GROUP) for host in (2, 3)]
        other = self.receiver(lab, 4)
        send(lab, 1, GROUP, 20)
        wait_until(
            lambda: all(lab.counters()[host]['arrived'] == 20 for host in (2, 3)), '20 datagrams on two hosts'
        )
        self.assertEqual([m.result() for m in members], [[20, 100]] * 2)
        self.assertEqual(other.result(), [0, 0])

    def test_unicast_goes_both_ways_and_to_itself(self):
        lab = self.lab(2)
        for source, target, to in ((1, 2, address(2)), (2, 1, address(1)), (1, 1, '127.0.0.1')):
            receiver = self.receiver(lab, target)
            send(lab, source, to)
            wait_until(lambda: received_by_sockets(lab, target), 'a datagram at host %d' % target)
            self.assertEqual(receiver.result(), [1, 100])

    def test_the_mtu_is_kept(self):
        for mtu, fits in ((1500, False), (9000, True)):
            lab = self.lab(2, mtu)
            lab.drop(0)
            self.receiver(lab, 2)
            if fits:
                send(lab, 1, address(2), size=8000)
                wait_until(lambda: lab.counters()[2]['arrived'] == 1, 'an 8,000-byte datagram')
            else:
                with self.assertRaisesRegex(NetnsError, 'Message too long'):
                    send(lab, 1, address(2), size=8000)
                self.assertEqual(lab.counters()[2]['arrived'], 0)
            lab.down()

    def test_drop_rules_drop_their_share_on_their_hosts_only(self):
        lab = self.lab(3)
        receivers = {host: self.receiver(lab, host, GROUP) for host in (2, 3)}
        lab.drop(0)
        lab.drop(30, [3])
        send(lab, 1, GROUP, 2000, 50)
        wait_until(lambda: all(lab.counters()[host]['arrived'] == 2000 for host in (2, 3)), 'all datagrams')
        counters = lab.counters()
        self.assertEqual(counters[2]['dropped'], 0)
        self.assertTrue(450 < counters[3]['dropped'] < 750, counters)  # seven standard deviations around 600
        self.assertEqual(receivers[2].result()[0], 2000)
        self.assertEqual(receivers[3].result()[0], 2000 - counters[3]['dropped'])

    def test_drop_covers_unicast_to_the_sender_and_can_be_ended(self):
        lab = self.lab(2)
        source = self.receiver(lab, 1)
        lab.drop(100)
        send(lab, 2, address(1), 10)
        wait_until(lambda: lab.counters()[1]['arrived'] == 10, 'ten datagrams to the source')
        self.assertEqual(lab.counters(), {1: {'arrived': 10, 'dropped': 10}, 2: {'arrived': 0, 'dropped': 0}})
        lab.drop(0)
        self.assertEqual(lab.counters()[1], {'arrived': 0, 'dropped': 0})
        send(lab, 2, address(1), 10)
        wait_until(lambda: lab.counters()[1]['arrived'] == 10, 'ten more')
        self.assertEqual(source.result()[0], 10)

    def test_networks_with_the_same_addresses_do_not_meet(self):
        one, two = self.lab(2), self.lab(2, name='selftest2')
        for lab in (one, two):
            lab.drop(0)
        self.assertEqual(one.hosts(), two.hosts())
        mine, other = self.receiver(one, 2, GROUP), self.receiver(two, 2, GROUP)
        send(one, 1, GROUP, 5)
        wait_until(lambda: one.counters()[2]['arrived'] == 5, 'five datagrams')
        self.assertEqual((mine.result()[0], other.result()[0]), (5, 0))
        self.assertEqual(two.counters()[2]['arrived'], 0)
        two.down()
        self.assertEqual(len(one.hosts()), 2)

    def test_a_capture_on_the_switch_holds_each_datagram_once(self):
        lab = self.lab(3)
        lab.drop(0)
        lab.drop(100, [3])
        for host in (2, 3):
            self.receiver(lab, host, GROUP)
        with tempfile.TemporaryDirectory() as d:
            capture = lab.capture(SWITCH, os.path.join(d, 'c.pcap'))
            send(lab, 1, GROUP, 50)
            wait_until(lambda: all(lab.counters()[h]['arrived'] == 50 for h in (2, 3)), '50 datagrams')
            counts = capture.stop()
            self.assertEqual(datagram_sizes(capture.path), [100] * 50)
        self.assertEqual(counts['missed'], 0)
        self.assertGreaterEqual(counts['captured'], 50)
        self.assertEqual(capture.stop(), counts)

    def test_a_capture_is_stopped_while_more_and_more_comes(self):
        lab = self.lab(2)
        lab.drop(0)
        with tempfile.TemporaryDirectory() as d:
            capture = lab.capture(SWITCH, os.path.join(d, 'c.pcap'), 'udp')
            sender = lab.popen(1, sys.executable, '-c', ENDLESS_SENDER, address(2))
            self.addCleanup(sender.wait)
            self.addCleanup(sender.kill)
            wait_until(lambda: lab.counters()[2]['arrived'] >= 500, '500 datagrams')
            before = lab.counters()[2]['arrived']
            counts = capture.stop()
            self.assertEqual(counts['missed'], 0)
            self.assertGreaterEqual(counts['captured'], before)
            self.assertEqual(len(datagram_sizes(capture.path)), counts['captured'])

    def test_segmented_sends_are_single_datagrams_on_the_wire(self):
        lab = self.lab(2)
        lab.drop(0)
        receiver = self.receiver(lab, 2, GROUP)
        with tempfile.TemporaryDirectory() as d:
            captures = [lab.capture(host, os.path.join(d, '%s.pcap' % host)) for host in (1, SWITCH, 2)]
            send(lab, 1, GROUP, 3, size=10 * 1400, segment=1400)
            wait_until(lambda: lab.counters()[2]['arrived'] == 30, '30 datagrams of three sends')
            for capture in captures:
                self.assertEqual(capture.stop()['missed'], 0)
                self.assertEqual(datagram_sizes(capture.path), [1400] * 30)
        self.assertEqual(receiver.result(), [30, 1400])

    def test_nothing_but_the_test_is_on_the_wire(self):
        with tempfile.TemporaryDirectory() as d:
            lab = self.lab(2)
            capture = lab.capture(SWITCH, os.path.join(d, 'c.pcap'))
            self.receiver(lab, 2)
            send(lab, 1, address(2))
            capture.stop()
            self.assertEqual(len(datagram_sizes(capture.path)), 1)

    def test_down_ends_processes_and_leaves_nothing(self):
        lab = self.lab(2)
        sleeper = lab.popen(1, 'sleep', '600')
        stubborn = lab.popen(
            2,
            sys.executable,
            '-c',
            'import signal, time\nsignal.signal(15, signal.SIG_IGN)\n'
            'print("ready", flush=True)\ntime.sleep(600)',
            stdout=subprocess.PIPE,
        )
        self.assertEqual(stubborn.stdout.readline(), b'ready\n')
        lab.down()
        self.assertEqual((sleeper.wait(), stubborn.wait()), (-signal.SIGTERM, -signal.SIGKILL))
        stubborn.stdout.close()
        self.assertEqual(lab.namespaces(), [])
        lab.down()

    def test_a_second_up_is_refused_and_harms_nothing(self):
        lab = self.lab(2)
        with self.assertRaisesRegex(NetnsError, 'is up'):
            Lab.up(self.name, 3)
        self.assertEqual(len(lab.hosts()), 2)

    def test_a_failure_on_the_way_up_cleans_up(self):
        made = []
        settings = netns._settings

        def fail_at_the_third(namespace):
            made.append(namespace)
            if len(made) == 3:
                raise NetnsError('made to fail')
            settings(namespace)

        netns._settings = fail_at_the_third
        self.addCleanup(setattr, netns, '_settings', settings)
        with self.assertRaisesRegex(NetnsError, 'made to fail'):
            Lab.up(self.name, 5)
        self.assertEqual(len(made), 3)
        self.assertEqual(Lab(self.name).namespaces(), [])

    def test_names_that_begin_alike_are_not_mixed_up(self):
        one, longer = self.lab(1), self.lab(1, name='selftest1')
        one.down()
        self.assertEqual(len(longer.hosts()), 1)

    def test_more_than_255_hosts_have_addresses(self):
        self.assertEqual(
            (address(255), address(256), address(1000)), ('10.77.0.255', '10.77.1.0', '10.77.3.232')
        )

    def test_wrong_hosts_and_names_are_refused(self):
        lab = self.lab(2)
        with self.assertRaisesRegex(NetnsError, 'no host 3'):
            lab.drop(5, [3])
        for name in ('', 'a-b', 'A', '1a', 'a' * 17):
            with self.assertRaises(NetnsError):
                Lab(name)
        with self.assertRaisesRegex(NetnsError, 'not up'):
            Lab('selftest9').drop(5)
        with self.assertRaises(NetnsError):
            lab.capture(7, '/dev/null')


@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
class CommandLine(unittest.TestCase):
    def call(self, *words):
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, 'netns.py')] + list(words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    def test_a_network_from_up_to_down(self):
        self.addCleanup(self.call, 'down', 'selftestcli')
        self.assertEqual(
            json.loads(self.call('up', 'selftestcli', '2', '1400')[1]), {'1': '10.77.0.1', '2': '10.77.0.2'}
        )
        self.assertEqual(
            json.loads(self.call('show', 'selftestcli')[1]), {'1': '10.77.0.1', '2': '10.77.0.2'}
        )
        self.assertEqual(self.call('drop', 'selftestcli', '2.5', '1')[0], 0)
        self.assertEqual(
            json.loads(self.call('counters', 'selftestcli')[1]), {'1': {'arrived': 0, 'dropped': 0}}
        )
        status, out, _ = self.call(
            'exec', 'selftestcli', '2', 'sh', '-c', 'cat /sys/class/net/eth0/mtu; exit 7'
        )
        self.assertEqual((status, out), (7, '1400\n'))
        self.assertEqual(self.call('down', 'selftestcli')[0], 0)
        self.assertEqual(self.call('show', 'selftestcli')[1], '{}\n')

    def test_capture_runs_until_a_signal(self):
        self.addCleanup(self.call, 'down', 'selftestcli')
        self.call('up', 'selftestcli', '2')
        lab = Lab('selftestcli')
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as d:
                path = os.path.join(d, 'c.pcap')
                capture = subprocess.Popen(
                    [
                        sys.executable,
                        os.path.join(HERE, 'netns.py'),
                        'capture',
                        'selftestcli',
                        'switch',
                        path,
                    ],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(capture.stdout.readline(), 'capturing\n')
                send(lab, 1, GROUP, 7)
                capture.send_signal(number)
                out, _ = capture.communicate(timeout=20)
                self.assertEqual(capture.returncode, 0)
                self.assertEqual(json.loads(out)['missed'], 0)
                self.assertEqual(len(datagram_sizes(path)), 7)

    def test_wrong_usage_exits_2_and_failure_1(self):
        for words in ((), ('up', 'x'), ('up', 'x', 'many'), ('sideways', 'x'), ('down', 'x', 'y')):
            with self.subTest(words):
                self.assertEqual(self.call(*words)[0], 2)
        status, _, said = self.call('up', 'selftestcli', '1', '40')
        self.assertEqual(status, 1)
        self.assertIn('mtu', said)
        self.assertEqual(Lab('selftestcli').namespaces(), [])

    def test_a_missing_program_is_named_with_its_package(self):
        environment = dict(os.environ, PATH='/nowhere')
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, 'netns.py'), 'show', 'selftestcli'],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn('ip is missing (package iproute2)', done.stderr)


if __name__ == '__main__':
    unittest.main()
