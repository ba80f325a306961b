"""python3 -m unittest test_drops        (needs root, ip, nft, cargo)

What was sent is delivered or reported lost, in order, at any rate of loss: a source and a receiver on two hosts
whose packets a filter (nftables) drops at random, on both ways or mostly on that of the answers. Up to 5 % the
library's defaults recover everything. MESSAGING_ENDS=PATH as in ends.py.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from ends import RECEIVER, SOURCE, Ends, program
from netns import Lab, NetnsError
import repeat

MESSAGES, RATE = 20000, 10000
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
@repeat.printed
class Loss(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = program()

    def setUp(self):
        name = 'loss%d' % os.getpid()
        Lab(name).down()
        self.network = Lab.up(name, 2)
        self.addCleanup(self.network.down)

    def ask_often(self):
        """The kernel's TCP waits up to two minutes between tries; a second will do (Linux 6.15 and later)."""
        for host in (SOURCE, RECEIVER):
            self.network.run(host, 'sh', '-c', 'f=/proc/sys/net/ipv4/tcp_rto_max_ms; ! test -e $f || echo 1000 >$f')

    def lose(self, transport, percent, data_percent, count):
        """Sends under loss of answers and data, and judges what the receiver says."""
        protocols = ('tcp',) if transport == 'tcp' else ('udp',)
        if transport == 'tcp':
            self.ask_often()
        self.network.drop(percent, [SOURCE], protocols=protocols)
        self.network.drop(data_percent, [RECEIVER], protocols=protocols)
        seen, _ = Ends(self, transport, count, RATE).finish()
        dropped = sum(counts['dropped'] for counts in self.network.counters().values())
        self.assertGreater(dropped, 0, 'the filter has done something')
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
