"""One suite for every way in which the backbone is carried: the roles die under load, a P2PS comes late, all end right.

Multicast is the default, which the other modules use: there `test_deaths.ServerAndDistributor`.
"""

import unittest

import test_deaths
from daemons import binary
from ports import free_ports
from process import wait_until


def low_and_high(name, count):
    """Ports of a kind for the contexts of one system."""
    first = free_ports(count)
    return {'messaging.%s_low' % name: first, 'messaging.%s_high' % name: first + count - 1}


class ReliableUnicast(test_deaths.ServerAndDistributor):
    """LBT-RU, found through a resolver: no multicast at all, as in clouds."""

    @classmethod
    def begin(cls, speed):
        port, admin = free_ports(), free_ports()
        clients = low_and_high('resolver.unicast_port', 10)
        cls.SETS = {
            'messaging.transport': 'lbtru',
            'messaging.resolver.unicast_daemon': '["127.0.0.1:%d"]' % port,
            **clients,
            **low_and_high('lbtru.port', 10),
            **low_and_high('lbtru.receiver_port', 10),
        }
        low, high = clients.values()
        sets = ['resolver.interface=127.0.0.1', 'resolver.port=%d' % port, 'admin.port=%d' % admin]
        sets += ['resolver.client_port_low=%d' % low, 'resolver.client_port_high=%d' % high]
        words = [word for each in sets for word in ('--set', each)]
        cls.resolver = cls.system().process('resolver', [binary(), 'resolver', *words])
        is_up = lambda: 'resolver' in cls.resolver.log()
        wait_until(is_up, 'the resolver is up', [cls.resolver])
        super().begin(speed)


class Tcp(test_deaths.ServerAndDistributor):
    """A connection for each P2PS."""

    @classmethod
    def begin(cls, speed):
        cls.SETS = {'messaging.transport': 'tcp', **low_and_high('tcp.port', 10)}
        super().begin(speed)


class SharedMemory(test_deaths.ServerAndDistributor):
    """All daemons on one host."""

    SETS = {'messaging.transport': 'lbtipc'}


if __name__ == '__main__':
    unittest.main()
