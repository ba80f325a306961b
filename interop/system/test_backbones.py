"""One suite for every way in which the backbone is carried: the roles die under load, a P2PS comes late, all end right.

Multicast is the default, which the other modules use: there `test_deaths.ServerAndDistributor`.
"""

import os
import unittest

import test_deaths
from daemons import binary
from ports import free_ports
from process import wait_until
from system_test import SystemTest


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


class NamesRemoved(SystemTest):
    """Somebody removes the files of shared memory of running daemons, as systemd-logind does when their user logs out."""

    @classmethod
    def scenario(cls):
        cls.memory = os.path.join(cls.directory, 'ipc')
        os.mkdir(cls.memory)
        sets = {'messaging.transport': 'lbtipc', 'messaging.ipc.directory': cls.memory}
        system = cls.system()
        cls.distributor = system.source_distributor(sets=sets)
        cls.p2ps = system.p2ps(sets=sets)
        cls.feed = system.feed(repeat=True)
        cls.client = system.native(cls.p2ps)
        wait_until(cls.client.is_good, 'the client has its images', [cls.client])

    def test_a_p2ps_is_woken_again_and_the_source_distributor_says_what_is_to_be_done(self):
        bells = lambda: {name for name in os.listdir(self.memory) if '.w' in name}
        before = wait_until(bells, 'the P2PS can be woken', [self.p2ps])
        for name in os.listdir(self.memory):
            os.unlink(os.path.join(self.memory, name))
        wait_until(lambda: bells() == before, lambda: 'the sockets are there again: %s' % bells(), [self.p2ps])
        self.p2ps.wait_count('lbtipc_receiver_bells_lost_total', 1)
        self.distributor.wait_says("has removed this source distributor's file of shared memory")
        self.assertEqual(self.distributor.metrics()['messaging_ipc_names_lost_total'], 1)
        wait_until(self.client.is_good, 'the client is good', [self.client])
        self.assertEqual(self.client.faults(), {})


if __name__ == '__main__':
    unittest.main()
