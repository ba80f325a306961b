"""Lists of users: who may log in at the ports of a P2PS and of a source distributor, and when a list changes."""

import os
import unittest

import rssl_bytes as rssl
from java_tools import numbered
from process import wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from websocket_bytes import JsonClient

CLOSED, SUSPECT, NOT_ENTITLED, ACCESS_DENIED = 4, 2, 3, 32
OPEN, OK = 1, 1


def login(client):
    """Class and state of what was said last on the login's stream."""
    summary = client.of_stream(1)[-1]
    return summary[0], list(summary[4])


class Users(SystemTest):
    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.consumers = cls.write('consumers', '[[user]]\nname = "trader"\n\n[[user]]\nname = "clerk"\n')
        providers = cls.write('providers', '[[user]]\nname = "feed"\nnetworks = ["127.0.0.0/8"]\n')
        sets = {**numbered('NI_PUB', 1), 'source_distributor.users_file': providers}
        cls.distributor = system.source_distributor(sets=sets)
        cls.p2ps = system.p2ps(sets={'p2ps.users_file': cls.consumers})
        cls.provider_port = system.provider_port
        cls.at_first()
        cls.changed()
        cls.spoiled()
        cls.metrics = {'p2ps': cls.p2ps.metrics(), 'distributor': cls.distributor.metrics()}
        cls.status = {'p2ps': cls.p2ps.status(), 'distributor': cls.distributor.status()}

    @classmethod
    def write(cls, name, text):
        """The file is replaced as a whole, as one should."""
        path = os.path.join(cls.directory, name + '.toml')
        with open(path + '.new', 'w') as f:
            f.write(text)
        os.replace(path + '.new', path)
        return path

    @classmethod
    def at_first(cls):
        cls.stranger = RsslConsumer(cls.p2ps.port, 'stranger').wait_end()
        cls.trader = RsslConsumer(cls.p2ps.port, 'trader').wait_count(1, 1)
        cls.clerk = RsslConsumer(cls.p2ps.port, 'clerk').wait_count(1, 1)
        cls.json_stranger, cls.json_trader = JsonClient(cls.p2ps.websocket_port), JsonClient(cls.p2ps.websocket_port)
        cls.json_refusal, cls.json_login = cls.json_stranger.log_in('stranger'), cls.json_trader.log_in('trader')
        cls.json_end = cls.json_stranger.wait_end()
        cls.bad_provider = RsslProvider(cls.provider_port, 'other').wait_end()
        cls.provider = RsslProvider(cls.provider_port, 'feed').wait_count(1, 1)
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        cls.distributor.wait_count('distributor_items', 1)

    @classmethod
    def changed(cls):
        """The trader is out, over both protocols; the clerk stays; somebody is new."""
        cls.write('consumers', '[[user]]\nname = "clerk"\n\n[[user]]\nname = "new"\n')
        cls.trader.wait_end()
        cls.json_revoked = cls.json_trader.wait(lambda m: m['Type'] == 'Status')
        cls.json_trader.wait_end()
        cls.new = RsslConsumer(cls.p2ps.port, 'new').wait_count(1, 1)
        cls.again = RsslConsumer(cls.p2ps.port, 'trader').wait_end()

    @classmethod
    def spoiled(cls):
        cls.write('consumers', '[[user]]\n')
        cls.p2ps.wait_count('users_reload_failures_total', 1)
        cls.still = RsslConsumer(cls.p2ps.port, 'new').wait_count(1, 1)

    def test_a_user_that_is_not_listed_is_refused_and_disconnected(self):
        refused = 'STATUS', [CLOSED, SUSPECT, NOT_ENTITLED]
        for client in (self.stranger, self.again, self.bad_provider):
            self.assertEqual((login(client), client.is_over), (refused, True))

    def test_a_user_that_is_listed_is_served(self):
        for client in (self.clerk, self.new, self.still, self.provider):
            self.assertEqual((login(client), client.is_over), (('REFRESH', [OPEN, OK, 0]), False))

    def test_it_is_the_same_over_websocket(self):
        state = self.json_refusal['State']
        self.assertEqual((state['Stream'], state['Data'], state['Code']), ('Closed', 'Suspect', 'NotEntitled'))
        self.assertEqual(self.json_refusal['Key']['Name'], 'stranger')
        self.assertEqual((self.json_login['State']['Stream'], self.json_end), ('Open', 1001))

    def test_who_is_taken_off_the_list_is_told_and_disconnected(self):
        self.assertEqual(login(self.trader), ('STATUS', [CLOSED, SUSPECT, NOT_ENTITLED]))
        self.assertEqual((self.json_revoked['Domain'], self.json_revoked['State']['Stream']), ('Login', 'Closed'))

    def test_refusals_are_counted_and_shown(self):
        p2ps, distributor = self.metrics['p2ps'], self.metrics['distributor']
        self.assertEqual((p2ps.sum('p2ps_logins_denied_total'), p2ps.sum('p2ps_logins_revoked_total')), (5, 2))
        self.assertEqual((p2ps.sum('users_reloads_total'), p2ps.sum('users_listed')), (1, 2))
        self.assertEqual(distributor.sum('distributor_logins_denied_total'), 1)
        self.assertIn('login is denied, its connection is closed connection=0 user="stranger"', self.p2ps.log())
        shown = self.status['p2ps']['users']
        denied = [(entry['user'], entry['address']) for entry in shown['denied']]
        names = sorted(user for user, _ in denied)
        self.assertEqual(names, ['stranger', 'stranger', 'trader', 'trader', 'trader'])
        self.assertEqual({address for _, address in denied}, {'127.0.0.1'})
        self.assertEqual((shown['listed'], self.status['distributor']['users']['listed']), (2, 1))

    def test_a_daemon_does_not_start_with_a_list_that_cannot_be_used(self):
        path = self.write('twice', '[[user]]\nname = "a"\n\n[[user]]\nname = "a"\n')
        words = [*self.p2ps.words, '--set', 'p2ps.users_file=' + path]
        daemon = self.system().process('refused', words)
        wait_until(lambda: not daemon.is_running(), 'it ends', [daemon])
        self.assertNotEqual(daemon.wait(), 0)
        self.assertIn('each user is listed once', daemon.log() + daemon.out())


if __name__ == '__main__':
    unittest.main()
