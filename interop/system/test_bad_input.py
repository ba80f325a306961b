"""Bad input at ports 14002 and 14003 of running daemons: it costs its own connection and nothing else."""

import random
import resource
import socket
import struct
import time
import unittest

import rssl_bytes as rssl
from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest, repeat

BATCH = 200  # connections open at a time
PATIENCE_S = 60  # every connection of ours must be over by then
HANGS_S = 10 * PATIENCE_S
SLACK_BYTES = 4 << 20
DESCRIPTORS = 4096  # that we need ourselves
# The thousands that come and go at once may all be there when a daemon has had no processor for a while.
LIMITS = {'connections_max': 100_000, 'connections_per_address_max': 100_000}
# Long enough for good clients that get no processor for a while.
TIMEOUTS = {'handshake_timeout_ms': 10_000, 'login_timeout_ms': 10_000, 'ping_timeout_min_s': 1, **LIMITS}
HELLO = rssl.connect_request()  # of a version without key exchange: frames may follow at once
MORE = (b'', b'\2', b'\2\0\0\0\0\0')
LENGTHS = [struct.pack('>H', length) + more for length in (0, 1, 2, 65535) for more in MORE]


def frames(*messages):
    return b''.join(map(rssl.frame, messages))


CONSUMER = frames(rssl.login_request(0))
PROVIDER = frames(rssl.login_request(1))
CONSUMER_MESSAGES = [
    rssl.login_request(0),
    rssl.directory_request(),
    rssl.dictionary_request(),
    rssl.item_request(),
    rssl.close(),
    rssl.post(),
    rssl.generic(),
]
PROVIDER_MESSAGES = [
    rssl.login_request(1),
    rssl.DIRECTORY_REFRESH,
    rssl.ITEM_REFRESH,
    rssl.ITEM_UPDATE,
    rssl.ITEM_STATUS,
]


def garbage(seed, count):
    """Random bytes; some behind a handshake, so that they are frames."""
    source = random.Random(seed)
    one = lambda: source.randbytes(source.choice((1, 3, 20, 500, 9000)))
    return [(HELLO if source.random() < 0.5 else b'') + one() for _ in range(count)]


def strangers():
    """Other protocols."""
    with_name = '160301007a010000760303' + '5a' * 32 + '00' + '0004130113020100' + '0049'
    return [
        bytes.fromhex(with_name) + bytes(73),
        b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n',
        b'SSH-2.0-OpenSSH_9.6\r\n',
        b'\0',
    ]


def cut_handshakes():
    """Requests of all versions cut at every byte, and with a field too much."""
    requests = [rssl.connect_request(version) for version in rssl.VERSIONS]
    unknown = [rssl.connect_request(version) for version in (0, 0x12, 0x18, 0xFFFFFFFF)]
    return [r[:n] for r in requests for n in range(len(r))] + [r + bytes(3) for r in requests] + unknown


def bad_frames(login):
    flags = [rssl.frame(rssl.close(), flags) for flags in (0, 1, 3, 0x0A, 0x10, 0x12, 0x80, 0xFF)]
    return [HELLO + before + bad for before in (b'', login) for bad in LENGTHS + flags]


def cut_messages(login, messages):
    """Each message cut at every byte, in a frame that fits it, behind a login unless it is one."""
    for message in messages:
        before = HELLO if message is messages[0] else HELLO + login
        yield from (before + rssl.frame(message[:n]) for n in range(len(message)))


def flipped_messages(login, messages, seed):
    source = random.Random(seed)
    for message in messages:
        before = HELLO if message is messages[0] else HELLO + login
        for at in range(len(message)):
            changed = bytearray(message)
            changed[at] ^= source.randrange(1, 256)
            yield before + rssl.frame(bytes(changed))


def converse(target, conversations, close=True):
    """Sends each on a connection of its own and reads until the other side ends it; what came back.

    With `close` our direction ends at once.
    """
    answers, conversations = [], list(conversations)
    for start in range(0, len(conversations), BATCH):
        batch = [target.connect() for _ in conversations[start : start + BATCH]]
        for connection, content in zip(batch, conversations[start:]):
            send(connection, content, close)
        answers += [read_to_end(connection) for connection in batch]
    return answers


def send(connection, content, close):
    try:
        connection.sendall(content)
        if close:
            connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it was quicker to close


def read_to_end(connection):
    answer, until = b'', time.monotonic() + HANGS_S
    with connection:
        try:
            # One that is sent pings for ever is not closed either.
            while time.monotonic() < until:
                part = connection.recv(1 << 16)
                if not part:
                    return answer
                answer += part
        except ConnectionError:
            return answer
        except socket.timeout:
            pass
    raise AssertionError('a connection was not closed; it was sent %r' % answer[:200])


class Target:
    """A port under fire, and what its daemon counts."""

    def __init__(self, daemon, port, label, login, messages):
        self.daemon, self.port, self.label, self.login, self.messages = daemon, port, label, login, messages
        self.opened = 0  # connections of ours

    def connect(self):
        self.opened += 1
        return socket.create_connection(('127.0.0.1', self.port), PATIENCE_S)

    def sum(self, name):
        return self.daemon.metrics().sum(name, port=self.label)

    def closed(self):
        """{reason: connections closed for it}"""
        return self.daemon.metrics().nonzero(r'rssl_closed_\w+_total', port=self.label)

    def gone(self, others=0):
        """Whether every connection of ours, and `others`, is over for a reason that was counted."""
        return self.gone_count() == self.opened + others

    def gone_count(self):
        return sum(self.closed().values())

    def everything(self):
        """All kinds of bad input that end at once."""
        converse(self, garbage(1, 400))
        converse(self, strangers())
        converse(self, cut_handshakes())
        converse(self, bad_frames(self.login))
        converse(self, cut_messages(self.login, self.messages))
        converse(self, flipped_messages(self.login, self.messages, 2))


@repeat.printed
class BadInput(SystemTest):
    """First while a market is played, with clients that watch all of it; then at rest, for the memory."""

    @classmethod
    def scenario(cls):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
        cls.system_ = cls.system()
        sets = lambda place: {'%s.%s' % (place, key): value for key, value in TIMEOUTS.items()}
        cls.distributor = cls.system_.source_distributor(sets=sets('source_distributor.provider'))
        cls.p2ps = cls.system_.p2ps(sets=sets('p2ps.rssl'))
        cls.feed = cls.system_.feed(speed='15', delay_ms=3000)
        cls.clients = [cls.system_.java(cls.p2ps), cls.system_.native(cls.p2ps)]
        cls.daemons = [cls.distributor, cls.p2ps, cls.feed]
        consumers = Target(cls.p2ps, cls.p2ps.port, 'consumer', CONSUMER, CONSUMER_MESSAGES)
        port = cls.system_.provider_port
        providers = Target(cls.distributor, port, 'provider', PROVIDER, PROVIDER_MESSAGES)
        cls.good = {consumers: 2, providers: 1}  # connections that are to stay
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        cls.under_fire()
        cls.feed.wait_played()
        wait_at(cls.clients, cls.system_.wait_right(cls.p2ps))
        cls.at_rest()

    @classmethod
    def under_fire(cls):
        played = lambda: cls.feed.metrics()['provider_updates_out_total']
        before = played()
        cls.cut_logins, cls.whole_logins = {}, {}
        for target in cls.good:
            target.everything()
            cut = [HELLO + rssl.frame(target.messages[0][:n]) for n in range(len(target.messages[0]))]
            *parts, whole = converse(target, cut + [HELLO + target.login])
            cls.cut_logins[target.label] = [behind_ack(answer) for answer in parts]
            cls.whole_logins[target.label] = behind_ack(whole)
        cls.silence()
        cls.played_meanwhile = played() - before

    @classmethod
    def silence(cls):
        """What begins and does not go on: nothing at all, half handshakes, half frames, all together."""
        waiting = []
        for target in cls.good:
            silent = [b''] * 500 + cut_handshakes()[::3]
            halves = [HELLO] + [HELLO + target.login + half for half in LENGTHS[-3:] + [b'\0']]
            for content in silent + halves:
                waiting.append(target.connect())
                send(waiting[-1], content, close=False)
        cls.idle = len(waiting)
        for connection in waiting:
            read_to_end(connection)

    @classmethod
    def at_rest(cls):
        for target in cls.good:
            converse(target, garbage(3, 100))
        cls.wait_gone()
        cls.before = cls.resources()
        for target in cls.good:
            target.everything()
            for count in range(5000):
                target.connect().close()
                if count % BATCH == 0:
                    # Not all at once, however slow the daemon is: what so many take is not the question here.
                    wait_until(lambda: target.gone_count() > target.opened - 2 * BATCH, 'they go', [target.daemon])
        cls.wait_gone()
        descriptors = lambda: {name: count for name, (_, count) in cls.resources().items()}
        # A connection that was asked for counters may still be on its way out.
        are_back = lambda: all(descriptors()[name] <= count for name, (_, count) in cls.before.items())
        wait_until(are_back, lambda: 'descriptors closed: %s, %s' % (cls.before, descriptors()))
        cls.after = cls.resources()
        cls.left = {target: target.sum('rssl_active') for target in cls.good}

    @classmethod
    def wait_gone(cls):
        snapshots = [process for process in cls.processes if process.name == 'snapshot']
        for target in cls.good:
            others = len(snapshots) if target.daemon is cls.p2ps else 0
            said = lambda: '%d connections over: %s' % (target.opened + others, target.closed())
            wait_until(lambda: target.gone(others), said, timeout_s=PATIENCE_S)

    @classmethod
    def resources(cls):
        return {d.name: (d.resident_bytes(), d.descriptors()) for d in (cls.p2ps, cls.distributor)}

    def test_it_happened_while_the_market_was_played(self):
        # How much of it depends on the machine; that it was some hundred updates at least does not.
        self.assertGreater(self.played_meanwhile, 500)

    def test_all_daemons_live(self):
        self.assertEqual([daemon.is_running() for daemon in self.daemons], [True] * 3)
        self.assertEqual([daemon.starts for daemon in self.daemons], [1] * 3)

    def test_good_clients_are_undisturbed(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                suspect = [key for key, item in client.items.items() if 'Suspect' in item.states[1:]]
                self.assertEqual((suspect, client.seen('disconnected')), ([], []))
                self.assert_finished_well(client)

    def test_none_but_the_good_connections_are_left(self):
        self.assertEqual(self.left, self.good)
        for target in self.good:
            self.assertGreater(target.opened, 7000)

    def test_the_reasons_are_those_of_the_input(self):
        wanted = 'handshake_timeout unknown_version frame_length frame_flags http silent'.split()
        for target in self.good:
            with self.subTest(port=target.label):
                closed = target.closed()
                missing = [reason for reason in wanted if 'rssl_closed_%s_total' % reason not in closed]
                self.assertEqual(missing, [], closed)

    def test_messages_out_of_order_are_counted(self):
        self.assertGreater(self.p2ps.metrics()['p2ps_client_messages_refused_total'], 200)
        self.assertGreater(self.distributor.metrics()['distributor_messages_refused_total'], 200)

    def test_no_part_of_a_login_is_taken_for_a_login(self):
        for label, answers in self.cut_logins.items():
            with self.subTest(port=label):
                self.assertEqual([len(answer) for answer in answers], [0] * len(answers))
                self.assertGreater(len(self.whole_logins[label]), 50)

    def test_memory_does_not_grow(self):
        for name, (resident_bytes, _) in self.before.items():
            with self.subTest(daemon=name):
                self.assertLess(self.after[name][0], resident_bytes + SLACK_BYTES)


def behind_ack(answer):
    """What a server sent after the connect ack."""
    assert len(answer) > 2, 'no ack: %r' % answer
    return answer[struct.unpack('>H', answer[:2])[0] :]


if __name__ == '__main__':
    unittest.main()
