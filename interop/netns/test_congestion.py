"""python3 -m unittest test_congestion        (needs root, ip, tc; the program: TICKCAST=PATH, or it is built)

Sources of reliable multicast that share a narrow link: what `tickcast bench congestion` measures. What is
asserted holds on a busy machine too: nine processes on two CPUs say little about fairness.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import repeat
import scenarios

WATCHDOG_S = 180


@unittest.skipUnless(os.geteuid() == 0, 'network namespaces need root')
@unittest.skipUnless(shutil.which('tc'), 'tc is not here')
@repeat.printed
class NarrowLink(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        words = [scenarios.program(), 'bench', 'congestion', '--json', '--seconds', '16']
        said = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=WATCHDOG_S, text=True).stdout
        lines = [json.loads(line) for line in said.splitlines()]
        print(said)
        cls.raw, cls.fixed, cls.adaptive = [line['figures'] for line in lines if 'figures' in line]

    def test_a_fixed_rate_above_the_link_wastes_or_loses(self):
        fixed = self.fixed
        self.assertTrue(fixed['of_raw'] < 0.9 or fixed['unrecovered'] > 0, fixed)
        self.assertGreater(fixed['dropped'], 0.1)

    def test_with_congestion_control_nothing_is_lost(self):
        self.assertEqual(self.adaptive['unrecovered'], 0)
        self.assertGreater(self.adaptive['of_raw'], 0.7)
        self.assertLess(self.adaptive['dropped'], 0.1)
        self.assertTrue(all(share > 0 for share in self.adaptive['shares']), self.adaptive)


if __name__ == '__main__':
    unittest.main()
