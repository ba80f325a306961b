#!/usr/bin/env python3
"""Sources of reliable multicast that share a narrow link, with and without congestion control.

Hosts 1 to 4 send, each to a group of its own; host 5 receives all, behind a port of the switch that a token
bucket filter narrows. A raw sender alone says what the link carries. Needs root, ip, tc, and cargo for the
example `congestion` of the room net, unless $TICKCAST_CONGESTION names it built.

  test_congestion.py [unittest's options]      prints the shares; what is asserted holds on a busy machine too:
                                               nine processes on two CPUs say little about fairness
"""

import json
import os
import shutil
import subprocess
import unittest

import netns

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
FLOWS = 4
RECEIVERS = FLOWS + 1  # their host
RATE_MBIT = 40
QUEUE_MS = 50
SECONDS = 20
SETTLED = slice(8, 18)  # of the seconds in which all flows send
WATCHDOG_S = 120


def built_program():
    """The example's path; built if nobody names it."""
    path = os.environ.get('TICKCAST_CONGESTION')
    if path is None:
        build = 'cargo build --locked --profile ci -p tickcast-net --example congestion'
        subprocess.run(build.split(), cwd=ROOT, check=True)
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
        path = os.path.join(target, 'ci', 'examples', 'congestion')
    return path


@unittest.skipUnless(os.geteuid() == 0, 'network namespaces need root')
@unittest.skipUnless(shutil.which('tc'), 'tc is not here')
class NarrowLink(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = built_program()
        cls.lab = netns.Lab.up('cong%d' % os.getpid(), RECEIVERS)
        cls.addClassCleanup(cls.lab.down)
        shaper = 'tbf rate %dmbit burst 8kb latency %dms' % (RATE_MBIT, QUEUE_MS)
        words = 'tc qdisc add dev host%d root %s' % (RECEIVERS, shaper)
        cls.lab.run(netns.SWITCH, *words.split())
        cls.raw = run(cls.program, cls.lab, 'raw', [1], RATE_MBIT * 1_500_000)
        cls.link_per_s = sum(settled(cls.raw)) / (SETTLED.stop - SETTLED.start)

    def test_a_fixed_rate_above_the_link_wastes_or_loses(self):
        share, lost, _ = self.report('a third of the link each', run(
            self.program, self.lab, 'fixed', range(1, FLOWS + 1), RATE_MBIT * 1_000_000 // 3))
        self.assertTrue(share < 0.9 or lost > 0, (share, lost))

    def test_with_congestion_control_nothing_is_lost(self):
        share, lost, _ = self.report('adaptive', run(
            self.program, self.lab, 'adaptive', range(1, FLOWS + 1), 1_000_000_000))
        self.assertEqual(lost, 0)
        self.assertGreater(share, 0.7)

    def report(self, name, flows):
        got = settled(flows)
        share = sum(got) / (SETTLED.stop - SETTLED.start) / self.link_per_s
        lost = sum(flow['lost'] + flow['missing'] for flow in flows)
        jain = sum(got) ** 2 / (len(got) * sum(n * n for n in got))
        print('%s: %.3f of a raw sender (%.0f/s), shares %s, Jain %.4f, least/most %.2f, lost %d, %s' % (
            name, share, self.link_per_s, got, jain, min(got) / max(got), lost,
            {key: [flow[key] for flow in flows] for key in ('found_missing', 'recovered', 'duplicates')}))
        return share, lost, jain


def run(program, lab, mode, sources, rate):
    """What the receiver of each source says at the end."""
    receivers, senders = [], []
    try:
        for source in sources:
            group = '239.77.0.%d:14400' % source
            kind = 'raw' if mode == 'raw' else 'lbtrm'
            receiver = lab.popen(RECEIVERS, program, 'receive', netns.address(RECEIVERS), group, kind,
                                 str(SECONDS + 8), stdout=subprocess.PIPE, text=True)
            receivers.append(receiver)
            json.loads(receiver.stdout.readline())
        for source in sources:
            group = '239.77.0.%d:14400' % source
            senders.append(lab.popen(source, program, 'send', netns.address(source), group, mode, str(rate),
                                     str(SECONDS), stdout=subprocess.PIPE, text=True))
        for sender in senders:
            said, _ = sender.communicate(timeout=WATCHDOG_S)
            print(mode, said.strip())
        return [json.loads(receiver.communicate(timeout=WATCHDOG_S)[0]) for receiver in receivers]
    finally:
        for process in receivers + senders:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()


def settled(flows):
    """Messages of each flow in the same settled seconds."""
    begin = max(flow['first_second'] for flow in flows)
    series = [flow['messages'][begin - flow['first_second']:] for flow in flows]
    return [sum(one[SETTLED]) for one in series]


if __name__ == '__main__':
    unittest.main()
