"""python3 -m unittest test_networks        (needs root, ip, nft, tcpdump, cargo; tshark for the judgement)

The messaging library on two networks that know nothing of each other: both lose packets, one is cut and comes
back. The programs are those of ends.py.
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from ends import WATCHDOG_S, Ends, program
from netns import Lab, address
import repeat
import test_messaging


@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
@repeat.printed
class TwoNetworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = program()

    def setUp(self):
        name = 'two%d' % os.getpid()
        Lab(name).down()
        self.network = Lab.up(name, 2)
        self.addCleanup(self.network.down)
        self.network.second_network()

    def run_ends(self, count, rate, meanwhile=lambda: None):
        """What the receiver and the source say at the end; nothing may be lost."""
        ends = Ends(self, 'lbtrm', count, rate, is_doubled=True)
        meanwhile()
        seen, said = ends.finish()
        self.assertEqual((seen['wrong'], seen['lost']), (0, 0), seen)
        self.assertEqual(seen['first'] + seen['messages'], count, seen)
        self.assertLess(seen['first'], 100, 'the first may be lost before the receiver knows of any')
        return seen, said

    def test_twenty_per_cent_loss_on_both_networks_costs_nothing_but_few_naks(self):
        self.network.drop(20, [1, 2], ('eth0', 'eth1'))
        seen, said = self.run_ends(40000, 10000)
        datagrams = sum(seen['arrived'])
        # 4 % are lost on both, and so is one NAK in five.
        self.assertGreater(seen['repaired'], 0.01 * datagrams, seen)
        self.assertLess(seen['repaired'], 0.05 * datagrams, seen)
        self.assertLess(seen['naks'], 2 * seen['repaired'], seen)
        self.assertGreater(sum(seen['filled']), 0.05 * datagrams, seen)
        self.assertEqual(said['copies_dropped'], [0, 0])

    def test_a_cut_cable_is_counted_and_not_noticed(self):
        for cut in (0, 1):
            device = 'eth%d' % cut

            def meanwhile():
                time.sleep(1)
                self.network.cable(1, device, False)
                time.sleep(2)
                self.network.cable(1, device, True)

            seen, _ = self.run_ends(50000, 10000, meanwhile)
            self.assertEqual(seen['silences'][cut], 1, seen)
            self.assertEqual(seen['silent'], [0, 0], seen)
            self.assertLess(seen['arrived'][cut], 0.8 * seen['arrived'][1 - cut], seen)
            self.assertLess(seen['naks'], 100, seen)

    def test_an_interface_that_is_down_does_not_hold_the_source_up(self):
        def meanwhile():
            time.sleep(1)
            self.network.run(1, 'ip', 'link', 'set', 'eth0', 'down')
            time.sleep(2)
            self.network.run(1, 'ip', 'link', 'set', 'eth0', 'up')
            time.sleep(1)
            self.network.run(1, 'ip', 'link', 'set', 'eth1', 'down')

        seen, said = self.run_ends(50000, 10000, meanwhile)
        self.assertGreater(min(said['copies_dropped']), 1000, said)
        self.assertEqual(seen['silences'][0], 1, seen)

    def example(self, host, name, *words):
        """An example of the library on both networks, as a process."""
        path = os.path.join(os.path.dirname(self.program), name)
        settings = ['interface=' + address(host), 'interface_b=' + address(host, 1)]
        # Of one that stops without a word the others are to know soon.
        settings += ['lbtrm.activity_timeout_us=5000000']
        pipes = {'stdout': subprocess.PIPE, 'text': True}
        process = self.network.popen(host, path, *words, *settings, **pipes)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_who_joins_late_when_network_a_is_cut_gets_everything_that_is_retained(self):
        for cut in (0, 1):
            device = 'eth%d' % cut
            publisher = self.example(1, 'publish', 'px.%d' % cut, '80', 'recovery.late_join=true')
            time.sleep(2)
            self.network.cable(1, device, False)
            subscriber = self.example(2, 'subscribe', 'px.%d' % cut)
            out, _ = subscriber.communicate(timeout=WATCHDOG_S)
            publisher.communicate(timeout=WATCHDOG_S)
            self.network.cable(1, device, True)
            self.assertEqual(out.splitlines(), ['%d message %d' % (i, i) for i in range(80)])

    def test_requests_are_answered_while_network_a_is_cut(self):
        for host in (1, 2):
            responder = self.example(2, 'respond', 'q.%d' % host)
            for text, is_whole in (('whole', True), ('cut', False), ('still cut', False), ('mended', True)):
                self.network.cable(host, 'eth0', is_whole)
                answers, _ = self.example(1, 'request', 'q.%d' % host, text).communicate(timeout=WATCHDOG_S)
                self.assertEqual(set(answers.splitlines()), {text})
            responder.kill()

    def test_what_is_on_each_network_is_a_plain_session(self):
        with tempfile.TemporaryDirectory() as directory:
            captures = [
                self.network.capture(2, os.path.join(directory, device), 'udp', device=device)
                for device in ('eth0', 'eth1')
            ]
            self.run_ends(8000, 10000)
            for capture in captures:
                self.assertEqual(capture.stop()['missed'], 0)
                test_messaging.Transports.judged(self, capture.path, 'lbtrm', least=2000)


if __name__ == '__main__':
    unittest.main()
