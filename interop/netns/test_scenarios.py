"""python3 -m unittest test_scenarios        (needs root, ip, nft; the program: TICKCAST=PATH, or it is built)

What scenarios.py measures, at rates that any machine keeps up with: nothing is asserted of times.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import repeat
import scenarios

RATE = 20_000


@unittest.skipIf(os.geteuid() != 0, 'network namespaces need root')
@repeat.printed
class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = scenarios.program()

    def lost_datagrams_are_repaired(self, transport):
        run = scenarios.loss(self.program, transport, rate=5 * RATE, seconds=3)
        self.assertGreater(min(run['dropped'].values()), 0, run)
        # As often as a datagram or a NAK was lost, and not for each receiver or each try.
        self.assertGreater(run['source']['rxs_sent'], 0, run)
        self.assertGreater(run['receiver']['recovered'], 0, run)
        self.assertLess(run['receiver']['first'], 5 * RATE // 10, run)

    def test_reliable_multicast_repairs_what_is_lost(self):
        self.lost_datagrams_are_repaired('lbtrm')

    def test_reliable_unicast_repairs_what_is_lost(self):
        self.lost_datagrams_are_repaired('lbtru')

    def test_a_stopped_receiver_costs_the_others_nothing_and_is_told_its_loss(self):
        for case in scenarios.CASES:
            with self.subTest(case):
                run = scenarios.stop(self.program, case, 1, RATE, before_s=1, after_s=2)
                self.assertGreater(run['last']['messages'], RATE, run)


if __name__ == '__main__':
    unittest.main()
