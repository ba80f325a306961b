"""What the tests of dialled providers share."""

import json

from consumers import JAR, JAVA
from java_tools import JAVA_PROVIDER
from ports import free_ports
from process import wait_until
from system_test import SystemTest

SERVICE = 'IP'
FIELDS = 'data/dictionary/tickcast-fields.dic'
NAMES = ('A', 'B', 'C', 'D')
ITEMS = tuple((name, 6) for name in NAMES)
# Short, so that the end of interest is seen at the provider soon.
LINGER = {'p2ps': {'p2ps.item_linger_ms': 300}, 'distributor': {'source_distributor.requests.linger_ms': 300}}


class Interactive(SystemTest):
    """What the scenarios share: providers of one service, a distributor that dials them, a P2PS."""

    @classmethod
    def begin(cls, *options):
        cls.system_ = cls.system()
        cls.ports = [free_ports(), free_ports()]
        cls.providers = [cls.provider(name, port, *options) for name, port in zip(('one', 'two'), cls.ports)]
        cls.distributor, cls.p2ps = cls.serve()
        cls.wait_ready(2)

    @classmethod
    def serve(cls):
        """(who asks the providers, whom consumers ask)"""
        return cls.dial(cls.ports), cls.system_.p2ps(sets=LINGER['p2ps'])

    @classmethod
    def provider(cls, name, port, *options, service=SERVICE, fields=FIELDS):
        words = JAVA_PROVIDER + [JAR, 'iprovider', '--port', str(port), '--service', service]
        words += ['--field-dictionary', fields]
        words += ['--enum-dictionary', 'data/dictionary/tickcast-enums.def']
        return cls.system_.process(name, words + ['--items', ','.join(NAMES), *options])

    @classmethod
    def dial(cls, ports, sets=()):
        hosts = {
            'source_distributor.interactive.%d.hosts' % at: '["127.0.0.1:%d"]' % port
            for at, port in enumerate(ports)
        }
        sets = {**hosts, **LINGER['distributor'], **dict(sets)}
        return cls.system_.source_distributor(sets=sets, example='interactive')

    @classmethod
    def wait_ready(cls, count):
        wait_until(
            lambda: cls.states().count('ready') == count,
            lambda: '%d providers are ready: %s' % (count, cls.states()),
            [cls.distributor, *cls.providers],
        )

    @classmethod
    def states(cls):
        return [one['state'] for one in cls.distributor_status().get('interactive_providers', ())]

    @classmethod
    def distributor_status(cls):
        return cls.distributor.status() or {}  # null until it has first described itself

    @classmethod
    def said(cls, ev, **parts):
        """What the providers have told, of all of them."""
        lines = [line for one in cls.providers for line in one.out().splitlines() if line.endswith('}')]
        events = [json.loads(line) for line in lines]
        return [e for e in events if e['ev'] == ev and all(e.get(k) == v for k, v in parts.items())]

    @classmethod
    def consume(cls, name, *options, items=NAMES, service=SERVICE):
        """(exit status, result, final images) of a consumer that ends by itself."""
        status, events = cls.consumed(name, *options, items=items, service=service)
        return status, events[-1], [e for e in events if e['ev'] == 'final']

    @classmethod
    def consumed(cls, name, *options, items, service=SERVICE, server=None):
        """(exit status, all that it tells) of a consumer that ends by itself."""
        words = JAVA + [JAR, 'consumer', '--host', server or cls.p2ps.server, '--service', service]
        words += ['--items', ','.join(items), '--timeout', '60', *options]
        consumer = cls.system_.process(name, words)
        status = consumer.wait()
        return status, [json.loads(line) for line in consumer.out().splitlines()]

    @classmethod
    def watch(cls, name):
        return cls.system_.java(cls.p2ps, name=name, service=SERVICE, items=ITEMS)

    def assert_ok(self, outcome):
        status, result, _ = outcome
        self.assertEqual((status, result['reasons']), (0, []))
