"""Hosts in a network that loses packets: what is repaired, nobody notices.

Each host drops 5 % of the UDP packets that it receives, from first to last, NAKs and repairs included. Now and then the
source distributor stands still for longer than a P2PS asks a source in vain.
"""

import os
import subprocess
import sys
import time
import unittest

from daemons import hold_until_ready, wait_at
from network import Network, lab, netns
from process import ROOT
from system_test import SystemTest, needs_root, repeat

LOSS_PERCENT = 5
LEAST_DROPPED = 400  # datagrams are the fewer, the busier the machine is
SOURCE, SERVERS, CLIENTS = 1, (2, 3), 4  # hosts
# lbtrm.nak_generation_interval_us is 1 s; a transport waits 10 s for a source that says nothing, and so is the P2PS told to.
PATIENT = {'p2ps.silence_timeout_ms': 10_000}
STILL_S, STILL_TIMES, MOVING_S = 1.3, 4, 0.5
UNREPAIRED = (
    r'lbtrm_receiver_unrecovered_\w+_total|lbm_delivery_(msgs_lost|lost_events|fragments_\w+lost)_total'
)
OWN_JUDGE = os.path.join(ROOT, 'interop', 'lbm_wire.py')
OTHER_JUDGE = os.path.join(ROOT, '..', 'shared', 'interop', 'check-lbm-wire')


@needs_root
@repeat.printed
class FivePercent(SystemTest):
    """Feed and source distributor on one host, two P2PS on two hosts, clients of both on a fourth."""

    @classmethod
    def scenario(cls):
        cls.lab = lab(4)
        cls.addClassCleanup(cls.lab.down)
        system = cls.system(Network(cls.lab))
        cls.capture_path = os.path.join(cls.directory, 'switch.pcap')
        capture = cls.lab.capture(netns.SWITCH, cls.capture_path, 'udp')
        cls.addClassCleanup(capture.stop)
        cls.lab.drop(LOSS_PERCENT)
        cls.distributor = system.source_distributor(SOURCE)
        cls.servers = [system.p2ps(host, name='p2ps-%d' % host, sets=PATIENT) for host in SERVERS]
        cls.feed = system.feed(SOURCE, speed='20', delay_ms=4000)
        # The first directory may be lost too. Clients that come before a server has it are told, rightly,
        # that the service is not there.
        for server in cls.servers:
            system.wait_serving(server)
        first, second = cls.servers
        cls.clients = [
            system.java(first, CLIENTS, name='java-1'),
            system.native(first, CLIENTS, name='native-1'),
            system.native(second, CLIENTS, name='native-2'),
        ]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        for _ in range(STILL_TIMES):
            time.sleep(MOVING_S)
            cls.distributor.hold()
            time.sleep(STILL_S)
            cls.distributor.go_on()
        cls.feed.wait_played()
        for server in cls.servers:
            positions = system.wait_right(server, CLIENTS)
            wait_at([client for client in cls.clients if client.words.count(server.server)], positions)
        cls.captured = capture.stop()
        cls.dropped = {host: found['dropped'] for host, found in cls.lab.counters().items()}

    def test_every_client_ends_with_right_images_and_saw_all_updates_in_order(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)

    def test_no_client_saw_anything_but_good_data(self):
        for client in self.clients:
            for (name, domain), item in client.items.items():
                # A book is suspect until the recording's first snapshot.
                wanted = ['Ok'] if domain == 6 else ['Suspect', 'Ok']
                with self.subTest(client=client.name, item=name, domain=domain):
                    self.assertEqual((item.states, item.updates_while_suspect), (wanted, 0))

    def test_packets_were_lost_and_all_repaired(self):
        for host, server in zip(SERVERS, self.servers):
            with self.subTest(server=server.name):
                metrics = server.metrics()
                self.assertGreater(self.dropped[host], LEAST_DROPPED)
                self.assertGreater(metrics['lbtrm_receiver_recovered_total'], LEAST_DROPPED / 2)
                self.assertEqual(metrics.nonzero(UNREPAIRED), {})
                self.assertEqual((metrics['p2ps_messages_lost_total'], metrics['p2ps_gaps_total']), (0, 0))

    def test_naks_were_lost_too(self):
        received = self.distributor.metrics()['lbtrm_source_nak_pckts_rcved_total']
        sent = sum(server.metrics()['lbtrm_receiver_nak_pckts_sent_total'] for server in self.servers)
        self.assertGreater(received, 0)
        self.assertLess(received, sent)
        self.assertGreater(self.dropped[SOURCE], 0)

    def test_an_unmodified_wireshark_reads_all_that_crossed_the_switch(self):
        self.assertEqual(self.captured['missed'], 0)
        self.judge(OWN_JUDGE, '--least', 'lbtrm.DATA-RX=%d' % LEAST_DROPPED)

    @unittest.skipUnless(os.path.exists(OTHER_JUDGE), 'the other judge of the wire is not at hand')
    def test_another_judge_of_the_wire_agrees(self):
        self.judge(OTHER_JUDGE, '--require', 'lbtrm.DATA-RX=%d' % LEAST_DROPPED)

    def judge(self, program, *options):
        words = [sys.executable, program, *options, self.capture_path]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])


if __name__ == '__main__':
    unittest.main()
