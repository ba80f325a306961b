"""Servers of NATS on this host, alone or as a cluster, for systems whose backbone they carry."""

import json
import os
import re
import shutil
import socket
import threading

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


def with_jetstream(directory, count=1):
    """Servers that can store, alone or as a cluster."""
    ports = [free_ports() for _ in range(count)]
    routes = ','.join('nats://127.0.0.1:%d' % port for port in ports)
    servers = []
    for number, port in enumerate(ports):
        name = 'nats-%d' % number
        options = ['-js', '-sd', os.path.join(directory, name)]
        if count > 1:
            options += ['--cluster_name', 'tickcast', '--cluster', 'nats://127.0.0.1:%d' % port, '--routes', routes]
        servers.append(NatsServer(name, directory, options))
    return servers


STREAM = 'TICKCAST'


def create_stream(server, replicas=1):
    """The stream of the guide. Returns the name of the server that leads it."""
    body = {
        'name': STREAM,
        'subjects': ['tickcast.directory', 'tickcast.service.*'],
        'storage': 'file',
        'retention': 'limits',
        'discard': 'old',
        'max_age': 60 * 10**9,
        'max_bytes': 256 << 20,
        'num_replicas': replicas,
        'no_ack': True,
        'allow_direct': True,
    }

    def created():
        answer = request(server, '$JS.API.STREAM.CREATE.' + STREAM, body)
        return 'error' not in answer and (answer.get('cluster') or {'leader': server.name})

    return wait_until(created, 'JetStream has made a stream', [server])['leader']


def request(server, subject, body):
    """What a server answers."""
    data = json.dumps(body).encode()
    lines = [
        b'CONNECT {"verbose":false}',
        b'SUB answer.%d 1' % id(data),
        b'PUB %s answer.%d %d' % (subject.encode(), id(data), len(data)),
        data,
        b'',
    ]
    try:
        with socket.create_connection(('127.0.0.1', server.port), 5) as s, s.makefile('rb') as answers:
            s.sendall(b'\r\n'.join(lines))
            for line in answers:
                if line.startswith(b'MSG'):
                    return json.loads(answers.read(int(line.split()[-1])))
    except OSError as e:
        return {'error': str(e)}
    return {'error': 'the connection is over'}


class Lossy:
    """Stands between a daemon and its server, and drops packets of services on their way to the daemon."""

    # Kinds of packets that take a number.
    NUMBERED = 1, 2

    def __init__(self, server):
        self.server, self.to_drop, self.dropped = server, 0, 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return 'nats://127.0.0.1:%d' % self.port

    def drop(self, count):
        """The next packets get lost. Returns when they are."""
        until = self.dropped + count
        self.to_drop = count
        wait_until(lambda: self.dropped == until, '%d packets are dropped' % count, [self.server])

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(('127.0.0.1', self.server.port))
            except OSError:
                return
            for pair, copy in ((client, server), self._copy), ((server, client), self._copy_messages):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _copy_messages(self, source, target):
        try:
            with source.makefile('rb') as lines:
                for line in lines:
                    if line.startswith((b'MSG ', b'HMSG ')):
                        words = line.split()
                        data = lines.read(int(words[-1]) + 2)
                        if self.to_drop and words[1].startswith(b'tickcast.service.') and data[1] in self.NUMBERED:
                            self.to_drop -= 1
                            self.dropped += 1
                            continue
                        line += data
                    target.sendall(line)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def sets(servers, **more):
    """What daemons are told of them."""
    own = {'carrier': 'nats', 'nats.servers': json.dumps([server.url for server in servers])}
    return {'backbone.' + key: value for key, value in {**own, **more}.items()}


def server_of(daemon, servers):
    """The server that a daemon has connected to last, by its log."""
    seen = lambda: re.findall(r'NATS [\d.]+ at [\d.]+:(\d+)', daemon.log() + daemon.out())
    port = int(wait_until(seen, '%s says where it is connected' % daemon.name, [daemon])[-1])
    return next(server for server in servers if server.port == port)
