"""python3 -m unittest test_drops        (needs root, ip, nft, cargo)

What was sent is delivered or reported lost, in order, at any rate of loss: a source and a receiver on two hosts
whose packets a filter (nftables) drops at random, on both ways or mostly on that of the answers. Up to 5 % the
library's defaults recover everything. MESSAGING_ENDS=PATH as in test_messaging.
"""

import json
import os
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from netns import Lab, NetnsError, address
from test_messaging import program

SOURCE, RECEIVER = 1, 2
MESSAGES, BYTES, RATE = 20000, 700, 10000
WATCHDOG_S = 240
CONNECTED_S = 3  # from the discovery of the source: to join or to connect
ALL_RECOVERED_PERCENT = 5
DATA_PERCENT = 1  # of the data where it is the answers that are lost: without any there are no NAKs


def has_namespaces():
    """Whether this machine lets hosts be made; a reason if not."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    try:
        Lab.up('try%d' % os.getpid(), 1).down()
    except (NetnsError, OSError) as error:
        return 'no network namespaces here: %s' % error
    return None


REFUSED = has_namespaces()


@unittest.skipIf(REFUSED, REFUSED)
class Loss(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = program()

    def setUp(self):
        name = 'loss%d' % os.getpid()
        Lab(name).down()
        self.network = Lab.up(name, 2)
        self.addCleanup(self.network.down)

    def end(self, host, verb, transport, count):
        words = [self.program, verb, address(host), transport, 'socket', str(count), str(BYTES), '-', str(RATE)]
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        process = self.network.popen(host, *words, **pipes)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), 'ready\n')
        return process

    def lose(self, transport, percent, data_percent, count):
        """Sends under loss of answers and data, and judges what the receiver says."""
        protocols = ('tcp',) if transport == 'tcp' else ('udp',)
        self.network.drop(percent, [SOURCE], protocols=protocols)
        self.network.drop(data_percent, [RECEIVER], protocols=protocols)
        receiver = self.end(RECEIVER, 'hear', transport, count)
        source = self.end(SOURCE, 'send', transport, count)
        self.assertEqual(receiver.stdout.readline(), 'found\n')
        time.sleep(CONNECTED_S)
        source.stdin.write('go\n')
        source.stdin.flush()
        out, _ = receiver.communicate(timeout=WATCHDOG_S)
        seen = json.loads(out)
        dropped = sum(counts['dropped'] for counts in self.network.counters().values())
        self.assertGreater(dropped, 0, 'the filter has done something')
        source.communicate(timeout=WATCHDOG_S)
        self.assertEqual(seen['wrong'], 0, seen)
        self.assertEqual(seen['first'] + seen['messages'] + seen['lost'], count, seen)
        self.assertGreater(seen['messages'], 0, seen)
        if percent <= ALL_RECOVERED_PERCENT:
            self.assertEqual(seen['lost'], 0, seen)
        return seen


def add(transport, percent, way):
    def test(self):
        # The kernel repairs TCP, and takes its time.
        count = 2000 if transport == 'tcp' and percent >= 5 else MESSAGES
        self.lose(transport, percent, percent if way == 'both_ways' else DATA_PERCENT, count)

    setattr(Loss, 'test_%s_at_%s_per_cent_%s' % (transport, str(percent).replace('.', '_'), way), test)


for transport in ('lbtrm', 'lbtru', 'tcp'):
    for percent in (0.1, 1, 5, 20):
        add(transport, percent, 'both_ways')
        if transport != 'tcp' and percent >= 5:
            add(transport, percent, 'of_answers')

if __name__ == '__main__':
    unittest.main()
