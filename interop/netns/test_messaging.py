"""python3 -m unittest test_messaging        (needs root, ip, nft, tcpdump, cargo; tshark for the judgement)

The messaging library between two hosts that lose packets: each transport that has packets, and both carriers
of LBT-RM, chosen by configuration alone; and a link that is cut. The programs are examples of crates/messaging/messaging,
as ends.py finds them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from ends import ROOT, WATCHDOG_S, Ends, program
from netns import Lab, address
import repeat

JUDGE = os.path.join(ROOT, 'interop', 'lbm_wire.py')
MESSAGES = 20000
LOSS_PERCENT = 5

@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
@repeat.printed
class Transports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = program()

    def setUp(self):
        name = 'msg%d' % os.getpid()
        Lab(name).down()
        self.network = Lab.up(name, 2)
        self.addCleanup(self.network.down)

    def run_ends(self, transport, source_carrier, receiver_carrier, plain_host=2):
        with tempfile.TemporaryDirectory() as directory:
            filter = 'udp or tcp'
            capture = self.network.capture(plain_host, os.path.join(directory, 'c.pcap'), filter)
            self.network.drop(LOSS_PERCENT, [2 if plain_host == 2 else 1])
            seen, _ = Ends(self, transport, MESSAGES, carriers=(source_carrier, receiver_carrier)).finish()
            self.assertEqual(capture.stop()['missed'], 0)
            self.assertEqual((seen['wrong'], seen['lost']), (0, 0), seen)
            self.assertEqual(seen['first'] + seen['messages'], MESSAGES, seen)
            self.assertLess(seen['first'], 100, 'the first may be lost before the receiver knows of any')
            self.judged(capture.path, transport)
            return seen

    def judged(self, pcap, transport, least=MESSAGES // 4):
        if shutil.which('tshark') is None:
            print('tshark is missing: packets not judged', file=sys.stderr)
            return
        words = [sys.executable, JUDGE, '--source-port', '1024-65535', pcap]
        if transport in ('lbtrm', 'lbtru'):
            words += ['--least', '%s.DATA=%d' % (transport, least)]
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_multicast_by_sockets_recovers_what_is_lost(self):
        self.assertGreater(self.run_ends('lbtrm', 'socket', 'socket')['recovered'], 100)

    def test_multicast_by_af_xdp_is_heard_by_a_socket(self):
        self.assertGreater(self.run_ends('lbtrm', 'af_xdp', 'socket')['recovered'], 100)

    def test_multicast_by_a_socket_is_heard_by_af_xdp(self):
        # What comes in on host 2 goes past its filter, so it is the NAKs on host 1 that are lost.
        self.run_ends('lbtrm', 'socket', 'af_xdp', plain_host=1)

    def test_unicast_recovers_what_is_lost(self):
        self.assertGreater(self.run_ends('lbtru', 'socket', 'socket')['recovered'], 100)

    def test_tcp_goes_on_under_loss(self):
        self.run_ends('tcp', 'socket', 'socket')

    def example(self, host, name, *words):
        path = os.path.join(os.path.dirname(self.program), name)
        settings = ['transport=tcp', 'interface=' + address(host), 'tcp.activity_timeout_us=3000000']
        pipes = {'stdout': subprocess.PIPE, 'text': True}
        process = self.network.popen(host, path, *words, *settings, **pipes)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def connections(self, host):
        return self.network.run(host, 'ss', '-Htn', 'state', 'established').splitlines()

    def test_both_ends_of_tcp_notice_that_the_other_machine_has_vanished(self):
        receiver = self.example(2, 'subscribe', 'px')
        self.example(1, 'publish', 'px', '100000')
        self.assertIn('message', receiver.stdout.readline())
        self.assertEqual([len(self.connections(host)) for host in (1, 2)], [1, 1])
        self.network.run(2, 'ip', 'link', 'set', 'eth0', 'down')
        receiver.communicate(timeout=WATCHDOG_S)
        self.assertEqual(receiver.returncode, 0, 'its source has ended')
        until = time.monotonic() + WATCHDOG_S
        while self.connections(1):
            self.assertLess(time.monotonic(), until, 'the source still waits for its receiver')
            time.sleep(0.2)


if __name__ == '__main__':
    unittest.main()
