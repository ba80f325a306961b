"""Warm standby of the EMA library: two P2PSs, of which it uses one, and the other at once when that is killed."""

import unittest

import java_tools
from ports import free_ports
from process import wait_until
from system_test import SystemTest

SERVICE = 'MADEUP'
ITEMS = ('A', 'B', 'C')
USER = 'standing'


class Standby:
    """The scenario: the active server is killed under updates, and the other one goes on."""

    BY = None

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        port = free_ports()
        cls.provider = java_tools.interactive(cls.directory, port, '--service', SERVICE, '--rate', '50')
        cls.keep(cls.provider)
        sets = java_tools.dialled('ema', port) | java_tools.numbered(SERVICE, 77)
        cls.distributor = cls.system_.source_distributor(sets=sets)
        cls.servers = [cls.system_.p2ps(name=name) for name in ('first', 'second')]
        for server in cls.servers:
            cls.system_.wait_serving(server, SERVICE)
        first, second = cls.servers
        words = ['--service', SERVICE, '--items', ','.join(ITEMS), '--user', USER, '--show-updates']
        words += ['--standby', 'localhost:%d' % second.port, '--standby-by', cls.BY, '--timeout', '300']
        cls.until = cls.directory + '/until'
        words += ['--until', cls.until]
        cls.client = java_tools.consumer(cls.directory, first.port, *words)
        cls.keep(cls.client)
        cls.wait_role(first, 'active')
        cls.wait_role(second, 'standby')
        cls.wait_updates(10)
        cls.images = len(cls.client.told('refresh'))
        first.kill()
        cls.wait_role(second, 'active')
        cls.client.wait_told('refresh', count=cls.images + len(ITEMS))
        cls.wait_updates(20)
        open(cls.until, 'w').close()
        cls.outcome = cls.client.result()

    @classmethod
    def clients(cls, server):
        return [c for c in (server.status() or {}).get('clients', ()) if c['user'] == USER]

    @classmethod
    def role(cls, server):
        """What the library has told a server that it is, and how many streams it has there."""
        clients = cls.clients(server)
        return clients and (cls.role_of(clients[0]), clients[0]['streams'])

    @classmethod
    def wait_role(cls, server, role):
        """Until the server has all streams and knows what it is."""
        is_it = lambda: cls.role(server) == (role, len(ITEMS))
        said = lambda: '%s is %s: %s' % (server.name, role, cls.clients(server))
        wait_until(is_it, said, [server, cls.client])

    @classmethod
    def wait_updates(cls, more):
        """Waits until each item has so many updates more."""
        counts = lambda: {item: len(cls.client.told('update', item=item)) for item in ITEMS}
        before = counts()
        flows = lambda: all(count >= before[item] + more for item, count in counts().items())
        wait_until(flows, lambda: 'updates: %s, were %s' % (counts(), before), [cls.client])

    def test_the_consumer_is_content(self):
        status, result, _ = self.outcome
        self.assertEqual((status, result['reasons']), (0, []))

    # Where what the lost server had not delivered is missing, the item is suspect until the image.
    def test_updates_go_on_without_a_gap(self):
        for item in ITEMS:
            position, is_ok, switched = None, False, False
            for event in self.client.events:
                if event.get('item') != item or event['ev'] not in ('refresh', 'update', 'status'):
                    continue
                if event['ev'] == 'status':
                    is_ok = event['state']['data'] == 'Ok'
                    switched |= not is_ok
                    continue
                if event['ev'] == 'refresh':
                    is_ok = event['state']['data'] == 'Ok'
                elif is_ok:
                    self.assertEqual(event['seq'], position + 1, '%s, %s' % (item, event))
                position = event['seq']
            self.assertTrue(is_ok, '%s is good at the end' % item)
            self.assertTrue(switched, 'the library has noticed that its server was lost')

    def test_each_item_was_asked_for_once(self):
        asked = sorted(e['item'] for e in self.provider.told('request'))
        self.assertEqual(asked, sorted(ITEMS), 'two servers, one stream at the provider')


class ByLogin(Standby, SystemTest):
    BY = 'login'

    @staticmethod
    def role_of(client):
        return client['standby_role']


class ByService(Standby, SystemTest):
    BY = 'service'

    @staticmethod
    def role_of(client):
        return client['service_roles'].get(SERVICE)


if __name__ == '__main__':
    unittest.main()
