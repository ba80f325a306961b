"""Servers of NATS on this host, alone or as a cluster, for systems whose backbone they carry."""

import json
import os
import re
import shutil
import socket

from ports import free_ports
from process import Process, wait_until

# Debian has it where only root looks by itself.
DEBIAN = '/usr/sbin/nats-server'


def found():
    """The program, or nothing."""
    return shutil.which('nats-server') or (DEBIAN if os.access(DEBIAN, os.X_OK) else None)


def program():
    if not found():
        raise AssertionError('no nats-server: tools/install.sh installs it')
    return found()


class NatsServer(Process):
    """A server that answers when the constructor returns."""

    def __init__(self, name, directory, options=(), lines=(), scheme='nats'):
        self.port, self.scheme = free_ports(), scheme
        words = [program(), '-a', '127.0.0.1', '-p', str(self.port), '-n', name, *options]
        if lines:
            path = os.path.join(directory, name + '.conf')
            with open(path, 'w') as f:
                f.write('\n'.join([*lines, '']))
            words += ['-c', path]
        super().__init__(name, words, directory)
        self.wait_ready()

    def wait_ready(self):
        wait_until(self._answers, '%s answers' % self.name, [self])

    def restart(self):
        self.start()
        self.wait_ready()

    @property
    def url(self):
        return '%s://127.0.0.1:%d' % (self.scheme, self.port)

    def _answers(self):
        try:
            with socket.create_connection(('127.0.0.1', self.port), 1) as s:
                return s.recv(5) == b'INFO '
        except OSError:
            return False


def cluster(directory, count=3):
    """Servers that know each other."""
    ports = [free_ports() for _ in range(count)]
    routes = ','.join('nats://127.0.0.1:%d' % port for port in ports)
    options = lambda port: ['--cluster_name', 'tickcast', '--cluster', 'nats://127.0.0.1:%d' % port, '--routes', routes]
    return [NatsServer('nats-%d' % number, directory, options(port)) for number, port in enumerate(ports)]


def sets(servers, **more):
    """What daemons are told of them."""
    own = {'carrier': 'nats', 'nats.servers': json.dumps([server.url for server in servers])}
    return {'backbone.' + key: value for key, value in {**own, **more}.items()}


def server_of(daemon, servers):
    """The server that a daemon has connected to last, by its log."""
    seen = lambda: re.findall(r'NATS [\d.]+ at [\d.]+:(\d+)', daemon.log() + daemon.out())
    port = int(wait_until(seen, '%s says where it is connected' % daemon.name, [daemon])[-1])
    return next(server for server in servers if server.port == port)
