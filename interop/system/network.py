"""Where processes run: on this machine over loopback, or on hosts of a network of namespaces."""

import ctypes
import os
import socket
import sys
import threading

from ports import free_ports
from process import ROOT

sys.path.insert(0, os.path.join(ROOT, 'interop', 'netns'))
import netns

CLONE_NEWNET = 0x40000000
TIMEOUT_S = 20


class Loopback:
    """This machine. Ports are found free, multicast ports too, so that runs do not meet."""

    def __init__(self):
        udp, tcp = free_ports(12), free_ports(6)
        self.messaging = {
            'messaging.resolver.multicast_port': udp,
            'messaging.lbtrm.destination_port': udp + 1,
            'messaging.lbtrm.source_port_low': udp + 2,
            'messaging.lbtrm.source_port_high': udp + 11,
            'messaging.request_tcp_port_low': tcp,
            'messaging.request_tcp_port_high': tcp + 5,
        }

    def sets(self, host):
        return self.messaging

    def words(self, host, words):
        return list(words)

    def address(self, host):
        return '127.0.0.1'

    def connect(self, host, port):
        return socket.create_connection(('127.0.0.1', port), TIMEOUT_S)


class Network:
    """Hosts 1, 2 ... of a network of namespaces, with the ports of the defaults for multicast."""

    def __init__(self, lab):
        self.lab = lab

    def sets(self, host):
        return {'messaging.interface': self.address(host)}

    def words(self, host, words):
        return self.lab.command(host, *words)

    def address(self, host):
        return netns.address(host)

    def connect(self, host, port):
        """From the host itself to a port of its loopback: the admin ports."""
        s = _socket_in('%s-%s-%s' % (netns.PREFIX, self.lab.name, host))
        try:
            s.settimeout(TIMEOUT_S)
            s.connect(('127.0.0.1', port))
        except OSError:
            s.close()
            raise
        return s


def lab(host_count):
    """A network of its own, not up at the same time in any other process."""
    return netns.Lab.up('sys%d' % os.getpid(), host_count)


def _socket_in(namespace):
    """A TCP socket of a namespace, whoever uses it. Namespaces belong to threads, so one goes there."""
    made = []

    def make():
        libc = ctypes.CDLL(None, use_errno=True)
        with open('/run/netns/' + namespace) as place:
            if libc.setns(place.fileno(), CLONE_NEWNET):
                made.append(OSError(ctypes.get_errno(), 'cannot enter ' + namespace))
                return
        made.append(socket.socket())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if not made or isinstance(made[0], OSError):
        raise made[0] if made else OSError('cannot enter ' + namespace)
    return made[0]
