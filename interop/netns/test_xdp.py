"""python3 -m unittest test_xdp        (needs root, ip, nft, tcpdump, cargo, tshark)

LBT-RM sessions of which one end uses AF_XDP and the other an ordinary socket, under loss; what is on the wire
at the end with the socket is judged by tshark. The program is an example of crates/io/net, XDP_SESSION=PATH or
built here.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
JUDGE = os.path.join(ROOT, 'interop', 'lbm_wire.py')
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from netns import SWITCH, Lab, address
import repeat

GROUP, PORT = '239.77.3.1', 20000
MESSAGES, BYTES = 8000, 700  # of which two share a datagram
DATAGRAMS_LEAST = MESSAGES // 2
LOSS_PERCENT = 5
WATCHDOG_S = 120


def program():
    path = os.environ.get('XDP_SESSION')
    if path is None:
        build = 'cargo build --locked --profile ci -p tickcast-net --example xdp_session'
        subprocess.run(build.split(), cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
        path = os.path.join(target, 'ci', 'examples', 'xdp_session')
    return path


class End:
    """A running end of a session that has opened everything."""

    def __init__(self, test, host, carrier, verb, *more):
        words = [test.program, verb, address(host), '%s:%d' % (GROUP, PORT), carrier, *map(str, more)]
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        self.process = test.network.popen(host, *words, **pipes)
        test.addCleanup(self.process.communicate)
        test.addCleanup(self.process.kill)
        test.assertEqual(self.process.stdout.readline(), 'ready\n')

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def result(self):
        out, _ = self.process.communicate(timeout=WATCHDOG_S)
        return json.loads(out)


def drop_on_the_switch(network, percent):
    """Loss for hosts whose frames no rule of their own sees."""
    text = (
        'table bridge tickcast_loss {\n chain forward {\n  type filter hook forward priority 0;\n'
        '  ip protocol udp numgen random mod 100 < %d drop\n }\n}\n' % percent
    )
    command = network.command(SWITCH, 'nft', '-f', '-')
    subprocess.run(command, input=text, text=True, check=True)


@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
@repeat.printed
class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = program()

    def setUp(self):
        name = 'xdp%d' % os.getpid()
        Lab(name).down()
        self.network = Lab.up(name, 2)
        self.addCleanup(self.network.down)

    def judged(self, pcap):
        """Every packet is legal and every number is on the wire."""
        if shutil.which('tshark') is None:
            self.skipTest('the session was whole; tshark is missing, so its packets were not judged')
        words = [sys.executable, JUDGE, '--group', GROUP, '--port', str(PORT), '--source-port', '1024-65535']
        words += ['--least', 'lbtrm.DATA=%d' % DATAGRAMS_LEAST, '--least', 'lbtrm.DATA-RX=100', pcap]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def session(self, source_carrier, receiver_carrier, plain_host):
        with tempfile.TemporaryDirectory() as d:
            capture = self.network.capture(plain_host, os.path.join(d, 'c.pcap'), 'udp')
            receiver = End(self, 2, receiver_carrier, 'receive')
            source = End(self, 1, source_carrier, 'send', MESSAGES, BYTES)
            source.tell('go')
            seen = receiver.result()
            sent = source.result()
            self.assertEqual(capture.stop()['missed'], 0)
            self.assertEqual((seen['wrong'], seen['lost']), (0, 0), seen)
            self.assertEqual(seen['first'] + seen['messages'], MESSAGES, seen)
            # The first datagrams may be lost before the receiver knows of any.
            self.assertLess(seen['first'], 20, seen)
            # Seven standard deviations below a twentieth of the datagrams.
            self.assertGreater(seen['recovered'], 100, seen)
            self.assertGreaterEqual(sent['datagrams'], DATAGRAMS_LEAST)
            self.judged(capture.path)

    def test_what_a_source_sends_by_af_xdp_is_recovered_by_a_receiver_with_a_socket(self):
        for mode in ('generic', 'native'):
            with self.subTest(mode):
                self.network.drop(LOSS_PERCENT, [2])
                self.session(mode, 'socket', plain_host=2)

    def test_what_a_source_sends_by_a_socket_is_recovered_by_a_receiver_with_af_xdp(self):
        drop_on_the_switch(self.network, LOSS_PERCENT)
        for mode in ('generic', 'native'):
            with self.subTest(mode):
                self.session('socket', mode, plain_host=1)

    def test_a_killed_process_leaves_the_interface_free(self):
        for mode in ('generic', 'native', 'generic'):
            end = End(self, 2, mode, 'receive')
            # Of `ip netns exec` it has the process: it replaced itself.
            os.kill(end.process.pid, signal.SIGKILL)
            end.process.wait()


if __name__ == '__main__':
    unittest.main()
