"""Non-interactive providers on the EMA library publish at the source distributor: every domain, compressed,
encrypted; what consumers get is what was published."""

import re
import unittest

import java_tools
from ports import free_ports
from process import wait_until
from test_ema_consumer import TRUST, Judged, encrypted, wait_compressed

DOMAINS = (6, 7, 8, 9, 10, 134)
# The values of the element N in what the library prints of a container.
NUMBERS = re.compile(r'ElementEntry name="N" dataType="UInt" value="(\d+)"')


class Published(Judged):
    """A source distributor and a P2PS; each test has a provider with a service of its own."""

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.tls_port = free_ports()
        sets = encrypted('source_distributor.provider.tls', cls.tls_port)
        cls.distributor = cls.system_.source_distributor(sets=sets)
        cls.p2ps = cls.system_.p2ps()
        cls.port = cls.p2ps.port

    def publish(self, service, *options, items, port=None):
        words = [word for item in items for word in ('--item', item)]
        number = 100 + sum(map(ord, service)) % 1000
        provider = java_tools.non_interactive(
            self.directory,
            port or self.system_.provider_port,
            *('--service', service, '--service-id', str(number)),
            *words,
            *options,
            name=service,
        )
        self.keep(provider)
        provider.wait_told('published')
        self.system_.wait_serving(self.p2ps, service)
        return provider

    def check(self, service, *options, port=None):
        """The items of every domain, published by a provider with these options, are as they should be."""
        items = ['%d:%s' % (domain, service) for domain in DOMAINS]
        provider = self.publish(service, '--rate', '20', *options, items=items, port=port)
        words = [word for item in items for word in ('--item', item)]
        wanted = ('--updates', '10', '--check-seq', '--check-map')
        self.assert_images(*self.ok(*words, *wanted, service=('--service', service)))
        if '--compression' in options:
            wait_compressed(self.distributor, options[-1])
        provider.kill()

    def test_every_domain(self):
        self.check('PLAIN')

    def test_compression(self):
        for kind in ('zlib', 'lz4'):
            with self.subTest(kind):
                self.check('NI' + kind.upper(), '--compression', kind)

    def test_encryption(self):
        self.check('NITLS', *TRUST, port=self.tls_port)
        self.check('NITLSLZ4', *TRUST, '--compression', 'lz4', port=self.tls_port)

    def test_the_cache_answers_consumers_that_come_late(self):
        provider = self.publish('LATE', '--rate', '0', items=['6:A', '7:A'])
        for item in ('6 A', '7 A'):
            provider.command('update %s 25' % item)
        late = ('--item', '6:A', '--item', '7:A', '--snapshot')
        result, finals = self.wait_last(25, *late, service=('--service', 'LATE'))
        self.assert_images(result, finals)

    def test_containers_of_containers_are_merged_for_those_who_come_late(self):
        """25 updates: each sets a third of a vector, adds a row to a series, changes an element of a filter."""
        items = ['129:A', '130:A', '133:A', '128:A']
        provider = self.publish('MERGED', '--rate', '0', items=items)
        for item in items:
            provider.command('update %s 25' % item.replace(':', ' '))
        words = [word for item in items for word in ('--item', item)]
        result, finals = self.wait_last(25, *words, '--snapshot', service=('--service', 'MERGED'))
        self.assertEqual({final['state']['data'] for final in finals.values()}, {'Ok'})
        numbers = lambda domain: [int(n) for n in NUMBERS.findall(finals['A', domain]['payload']['text'])]
        self.assertEqual(numbers(129), [24, 25, 23])
        self.assertEqual(numbers(130), [0, 0, 0, *range(1, 26)])
        self.assertEqual(numbers(133), [25])
        self.assertIn('name="Base"', finals['A', 133]['payload']['text'], 'it is of the image')
        self.assertEqual(finals['A', 128]['elements']['N'], 25)
        provider.kill()

    def wait_last(self, number, *words, service):
        """(result, finals) of the first consumer that finds the items at this number."""
        found = []

        def is_there():
            found[:] = self.ok(*words, service=service)
            return all(item['sequence']['last'] == number for item in found[0]['items'])

        wait_until(is_there, 'all updates are in the cache', [self.p2ps, self.distributor])
        return found

    def test_states_reach_the_consumers(self):
        provider = self.publish('STATES', '--rate', '0', items=['6:A', '6:B'])
        words = ('--items', 'A', '--expect-status', 'Ok,Suspect', '--expect-closed', 'NoResources')
        consumer = self.consumer(*words, service=('--service', 'STATES'))
        consumer.wait_told('refresh')
        provider.command('status 6 A Open Suspect 0 wait')
        consumer.wait_told('status')
        provider.command('status 6 A Closed Suspect 12 gone')
        self.good(consumer)

    def test_a_provider_that_comes_back_makes_its_items_good_again(self):
        provider = self.publish('BACK', '--rate', '20', items=['6:A'])
        words = ('--items', 'A', '--expect-status', 'Ok,Suspect,Ok')
        consumer = self.consumer(*words, service=('--service', 'BACK'))
        consumer.wait_told('refresh')
        provider.kill()
        consumer.wait_told('status')
        provider.start()
        result, finals = self.good(consumer)
        self.assert_images(result, finals)


if __name__ == '__main__':
    unittest.main()
