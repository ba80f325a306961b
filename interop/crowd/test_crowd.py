"""A short life of the crowd (TICKCAST=PATH of the program, else that of the profile `ci`), and the checks of its judge."""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import crowd
import market
import soak
from rssl_reading import Message

LIMIT_S = 600


def play(*words):
    """The exit status of a soak, and what it says."""
    ended = subprocess.run(
        [sys.executable, os.path.join(HERE, 'soak.py'), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )
    return ended.returncode, ended.stdout.decode()


class Played(unittest.TestCase):
    def test_a_crowd_that_misbehaves_stops_nothing_and_nobody_gets_a_wrong_value(self):
        status, said = play('--clients', '100', '--seconds', '20', '--seed', '1')
        self.assertEqual(status, 0, said)
        self.assertIn('"wrong": []', said.splitlines()[-1])


class Judge(unittest.TestCase):
    """Consumers of stream 5, which is item 3."""

    def setUp(self):
        self.items = market.Items({5: 3})

    def see(self, message):
        message = message[:4] + (5).to_bytes(4, 'big') + message[8:]
        return self.items.see(Message(message), message)

    def test_each_update_has_the_next_number_and_says_when_it_was_due(self):
        self.see(market.image(3, 7))
        self.assertEqual([self.see(market.update(3, number, 1000 + number)) for number in (8, 9)], [1008, 1009])
        self.assertEqual((self.items.images, self.items.updates, self.items.numbers), (1, 2, {3: 9}))

    def test_what_is_missing_doubled_old_or_of_another_item_is_wrong(self):
        self.see(market.image(3, 7))
        for wrong in (market.update(3, 9, 0), market.update(3, 7, 0), market.image(3, 6), market.update(4, 8, 0)):
            with self.assertRaises(market.Wrong):
                self.see(wrong)

    def test_an_update_before_any_image_is_wrong(self):
        with self.assertRaises(market.Wrong):
            self.see(market.update(3, 1, 0))

    def test_a_damaged_value_is_wrong(self):
        self.see(market.image(3, 7))
        damaged = bytearray(market.update(3, 8, 0))
        damaged[-15] ^= 1  # a byte of the check value
        with self.assertRaises(market.Wrong):
            self.see(bytes(damaged))


class Names(unittest.TestCase):
    def test_each_behaviour_is_one_of_a_client_and_has_its_row_of_the_table(self):
        for name in crowd.SHARES:
            self.assertTrue(callable(getattr(crowd.Client, name)), name)
        self.assertEqual(set(crowd.SHARES), set(soak.CROWDS))


if __name__ == '__main__':
    unittest.main()
