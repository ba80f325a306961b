"""The daemons, started as a user starts them: the example configurations, changed by --set."""

import json
import os

import expected
from consumers import JavaConsumer, NativeConsumer
from metrics import Admin
from network import Loopback
from ports import free_ports
from process import ROOT, Process, wait_until

# From the end of the recording: a server that has not got it by then never will.
RIGHT_WITHIN_S = 30


def binary():
    path = os.environ.get('TICKCAST')
    if not path:
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
        path = os.path.join(target, 'ci', 'tickcast')
    if not os.access(path, os.X_OK):
        raise AssertionError('no program %s: cargo build --profile ci -p tickcast, or TICKCAST=PATH' % path)
    return path


# Threads of each P2PS that serve clients, to run any module with another number.
SHARDS = os.environ.get('INTEROP_P2PS_SHARDS')


class Daemon(Process):
    """A daemon with an admin port, which is open when the constructor returns."""

    def __init__(self, name, words, directory, admin, wait=True):
        self.admin = admin
        super().__init__(name, words, directory)
        if wait:
            self.wait_ready()

    def wait_ready(self):
        wait_until(self.admin.is_there, '%s answers at its admin port' % self.name, [self])

    def restart(self):
        self.start()
        self.wait_ready()

    def metrics(self):
        return self.admin.metrics()

    def status(self):
        return self.admin.status()

    def wait_count(self, name, least, **labels):
        """Waits until a counter is at least so high."""
        wait_until(
            lambda: self.metrics().sum(name, **labels) >= least,
            lambda: '%s: %s %s of %s' % (self.name, name, self.metrics().sum(name, **labels), least),
            [self],
        )

    def wait_played(self):
        """Waits until a feed's recording was played to its end; it may take as long as the feed gets on."""
        wait_until(
            lambda: self.metrics()['feed_rounds_total'] >= 1,
            lambda: '%s: the recording is played, position %d' % (self.name, self.metrics()['feed_position']),
            [self],
            progress=lambda: self.metrics()['feed_position'],
        )

    def resident_bytes(self):
        with open('/proc/%d/statm' % self.pid) as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.pid))


class System:
    """Daemons and clients that belong together. `keep` is called with each process that is started."""

    # Of each P2PS: a pause of a busy machine is not to be taken for the end of a source distributor.
    patience = {'p2ps.silence_timeout_ms': 2_000}

    def __init__(self, directory, keep, place=None):
        self.directory, self.keep = directory, keep
        self.place = place or Loopback()
        self.provider_port = free_ports()
        self.distributor_host = None

    def source_distributor(self, host=None, sets=(), name='distributor', example=None):
        """`example` is the name of its configuration among the examples, or a path without `.toml`."""
        self.distributor_host = host
        own = {'source_distributor.provider_port': self.provider_port}
        return self._daemon('source-distributor', name, host, own, sets, example)

    def p2ps(self, host=None, sets=(), name='p2ps', example=None, port=None):
        port, websocket_port = port or free_ports(), free_ports()
        own = {'p2ps.rssl_port': port, 'p2ps.websocket_port': websocket_port, 'p2ps.name': name, **self.patience}
        if SHARDS:
            own['p2ps.shards'] = SHARDS
        daemon = self._daemon('p2ps', name, host, own, sets, example)
        daemon.websocket_port = websocket_port
        daemon.port, daemon.server = port, '%s:%d' % (self.place.address(host), port)
        return daemon

    def pop(self, upstream, host=None, sets=(), name='pop', lines=(), port=None):
        """A P2PS behind servers: [(name, [host:port, ...], {further keys}), ...]; `lines` are further ones of its file."""
        text = list(lines)
        for each, hosts, keys in upstream:
            text += ['[[p2ps.upstream]]', 'name = "%s"' % each, 'hosts = %s' % json.dumps(hosts)]
            text += ['%s = %s' % (key, _toml(value)) for key, value in keys.items()]
        path = os.path.join(self.directory, name)
        with open(path + '.toml', 'w') as f:
            f.write('\n'.join([*text, '']))
        return self.p2ps(host, sets, name, path, port)

    def feed(self, host=None, sets=(), name='feed', speed='20', repeat=False, delay_ms=0):
        distributor = '%s:%d' % (self.place.address(self.distributor_host), self.provider_port)
        own = {
            'feed.provider.hosts': '["%s"]' % distributor,
            'feed.speed': speed,
            'feed.loop': str(repeat).lower(),
            'feed.start_delay_ms': delay_ms,
        }
        return self._daemon('feed', name, host, own, sets)

    def demo(self, *options, name='demo', port=None):
        ports = [port or free_ports(), free_ports(), free_ports(), free_ports()]
        words = [binary(), 'demo', *options]
        for option, number in zip(('--rssl-port', '--provider-port', '--admin-port', '--websocket-port'), ports):
            words += [option, str(number)]
        admin = Admin(ports[2], lambda port: self.place.connect(None, port))
        demo = Daemon(name, words, self.directory, admin, wait=False)
        demo.server = 'localhost:%d' % ports[0]
        self._keep(demo)
        demo.wait_ready()
        return demo

    def java(self, p2ps, host=None, name='java', **options):
        """`p2ps` is a daemon, or HOST:PORT of one that is yet to come."""
        return self._keep(JavaConsumer(name, self.place, host, _server(p2ps), self.directory, **options))

    def native(self, p2ps, host=None, name='native', **options):
        consumer = NativeConsumer(name, self.place, host, _server(p2ps), self.directory, binary(), **options)
        return self._keep(consumer)

    def process(self, name, words, host=None):
        return self._keep(Process(name, self.place.words(host, words), self.directory))

    def _daemon(self, role, name, host, own, sets, example=None):
        admin_port = free_ports()
        values = {'admin.port': admin_port, **self.place.sets(host), **own, **dict(sets)}
        if role == 'feed':
            values = {k: v for k, v in values.items() if not k.startswith('messaging.')}
        words = [binary(), role, '--config', os.path.join(ROOT, 'examples', (example or role) + '.toml')]
        for key, value in values.items():
            words += ['--set', '%s=%s' % (key, value)]
        admin = Admin(admin_port, lambda port: self.place.connect(host, port))
        daemon = Daemon(name, self.place.words(host, words), self.directory, admin, wait=False)
        self._keep(daemon)
        daemon.wait_ready()
        return daemon

    def _keep(self, process):
        self.keep(process)
        return process

    def wait_serving(self, p2ps, service='BINANCE'):
        """Waits until a server offers a service as up."""
        # null until it has first described itself
        services = lambda: (p2ps.status() or {}).get('services', ())
        wait_until(
            lambda: any(known['name'] == service and known['up'] for known in services()),
            lambda: '%s offers %s: %s' % (p2ps.name, service, services()),
            [p2ps],
        )

    def snapshot(self, p2ps, host=None, name='snapshot'):
        """(exit status, final images, {(item, domain): sequence number}), as a client gets them now."""
        consumer = self.native(p2ps, host, name, options=['--snapshot', '--timeout', '20'])
        status = consumer.wait()
        consumer.look()
        return status, consumer.finals, consumer.positions()

    def wait_right(self, p2ps, host=None, recordings=expected.SAMPLE):
        """Waits until a client that asks gets the images expected; the positions that they are at."""
        wrong = ['nothing yet']

        def is_right():
            status, finals, positions = self.snapshot(p2ps, host)
            wrong[:] = expected.differences(finals, recordings)
            if status:
                wrong.append('exit status %s' % status)
            return None if wrong else positions

        said = lambda: 'right images at the server; the last: %s' % '\n'.join(wrong[:20])
        return wait_until(is_right, said, [p2ps], RIGHT_WITHIN_S)


def _toml(value):
    """A value as TOML: as in JSON, but for tables."""
    if isinstance(value, dict):
        return '{ %s }' % ', '.join('%s = %s' % (key, _toml(part)) for key, part in value.items())
    return '[%s]' % ', '.join(map(_toml, value)) if isinstance(value, list) else json.dumps(value)


def _server(p2ps):
    return p2ps if isinstance(p2ps, str) else p2ps.server


def hold_until_ready(feed, distributor, clients):
    """Stops a feed, which waits its start delay, until clients have images: none misses an update."""
    distributor.wait_count('distributor_items', len(expected.ITEMS))
    feed.hold()
    for client in clients:
        wait_until(client.has_images, '%s has the first images' % client.name, [client])
    feed.go_on()


def wait_at(clients, positions):
    """Waits until each client has come as far as `positions`, however long that takes while it comes further."""
    for client in clients:
        wait_until(
            lambda: client.is_at(positions),
            lambda: '%s at %s; it is at %s' % (client.name, positions, client.positions()),
            [client],
            # A client with a rate in bytes may need half a minute for one image of a book.
            progress=client.positions,
        )
