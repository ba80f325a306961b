"""python3 crowd.py RSSL_PORT WEBSOCKET_PORT ITEMS --clients N --seconds N [--seed N] [--only NAME,NAME]

Clients that come, ask, leave, stall and misbehave at random, N at a time, each from its own random numbers. They share
one process and one thread. Those that behave check every value they get. At the end, or at SIGTERM, a JSON line says
how often each behaviour was lived through, what became of the connections, and which values were wrong; the exit status
is 1 if any was.
"""

import argparse
import asyncio
import collections
import json
import random
import resource
import signal
import socket
import struct
import sys
import time

import market
import rssl_bytes as rssl
import websocket_bytes as websocket
from rssl_reading import Frames, Message

HOST = '127.0.0.1'
READ_BYTES = 65_536
LIFE_S = 30  # most that one behaviour lasts
PATIENCE_S = 10
STREAM = 5  # of the first item that a client asks for
WRONG_MAX = 20  # that are told
# {behaviour: share}
SHARES = {
    'watch': 30,
    'json_watch': 10,
    'json_batch': 4,
    'download': 3,
    'json_download': 2,
    'flood': 2,
    'json_flood': 2,
    'stall': 4,
    'json_stall': 2,
    'hurry': 10,
    'reset': 5,
    'half': 5,
    'silent': 4,
    'drip': 3,
    'garbage': 4,
    'flip': 6,
    'json_garbage': 3,
    'json_flip': 4,
    'missing': 4,
    'churn': 4,
    'post': 3,
}


class Crowd:
    def __init__(self, rssl_port, websocket_port, items, seed, only):
        self.rssl_port, self.websocket_port, self.items, self.seed = rssl_port, websocket_port, items, seed
        self.names = only or list(SHARES)
        self.weights = [SHARES[name] for name in self.names]
        self.lived, self.ends, self.wrong = collections.Counter(), collections.Counter(), []
        self.checked, self.is_over = 0, False

    async def live(self, number):
        """One client after the other, until it is over."""
        rng = random.Random('%s %s' % (self.seed, number))
        await asyncio.sleep(rng.random() * 5)
        while not self.is_over:
            name = rng.choices(self.names, self.weights)[0]
            client = Client(self, rng)
            try:
                await asyncio.wait_for(getattr(client, name)(), LIFE_S)
                self.ends['done'] += 1
            except market.Wrong as wrong:
                self.wrong.append('%s: %s' % (name, wrong))
            except asyncio.TimeoutError:
                self.ends['in time'] += 1
            except EOFError:
                self.ends['closed by the server'] += 1
            except OSError as error:
                self.ends[type(error).__name__] += 1
            finally:
                client.close()
                self.lived[name] += 1
                self.checked += client.checked
            await asyncio.sleep(rng.random() * 2)


class Client:
    """One connection and what it does; each behaviour is a method."""

    def __init__(self, crowd, rng):
        self.crowd, self.rng, self.loop = crowd, rng, asyncio.get_running_loop()
        self.socket, self.checked = None, 0

    def close(self):
        if self.socket:
            self.socket.close()

    async def connect(self, port, buffer_bytes=None):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        await self.loop.sock_connect(self.socket, (HOST, port))

    async def send(self, data):
        await self.loop.sock_sendall(self.socket, data)

    async def read(self):
        data = await self.loop.sock_recv(self.socket, READ_BYTES)
        if not data:
            raise EOFError
        return data

    async def read_for(self, seconds, read=None):
        """Reads, with pings, until the time is over."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                data = await asyncio.wait_for(self.read(), min(left, 1))
            except asyncio.TimeoutError:
                await self.ping()
                continue
            if read:
                read(data)

    async def ping(self):
        await self.send(rssl.PING)

    def some_items(self, most=5):
        """Not the first one: it has so many updates that a crowd of readers in one process could not follow."""
        return self.rng.sample(range(1, self.crowd.items), min(self.rng.randint(1, most), self.crowd.items - 1))

    # RSSL

    async def log_in(self, buffer_bytes=None):
        await self.connect(self.crowd.rssl_port, buffer_bytes)
        user = b'crowd%d' % self.rng.randrange(1000)
        await self.send(rssl.connect_request(self.rng.choice(rssl.VERSIONS[:3])))
        await self.send(rssl.frame(rssl.login_request(0, user)))

    async def say(self, *messages):
        await self.send(b''.join(map(rssl.frame, messages)))

    async def watch(self):
        await self.log_in()
        items = self.some_items()
        check, frames = market.Items({STREAM + at: item for at, item in enumerate(items)}), Frames()

        def read(data):
            for message in frames.feed(data):
                check.see(Message(message), message)
            self.checked = check.images + check.updates

        await self.say(*(market.request(item, STREAM + at) for at, item in enumerate(items)))
        await self.read_for(self.rng.random() * 15, read)
        closed = STREAM + self.rng.randrange(len(items))
        check.streams.pop(closed, None)
        await self.say(rssl.close(stream=closed))
        await self.read_for(self.rng.random() * 5, read)
        await self.say(rssl.close(rssl.LOGIN, 1))

    async def download(self):
        await self.log_in()
        await self.say(rssl.directory_request(), rssl.dictionary_request(b'RWFFld'), rssl.dictionary_request(b'RWFEnum'))
        await self.read_for(self.rng.random() * 10)

    async def flood(self):
        """16 KiB of requests for the dictionary, of which little is read."""
        await self.log_in()
        await self.say(*[rssl.dictionary_request()] * 400)
        await asyncio.sleep(self.rng.random() * 3)
        await self.read_for(self.rng.random())

    async def stall(self):
        """The item with the most updates and a dictionary, and nothing is read."""
        await self.log_in(4096)
        await self.say(market.request(0, STREAM), rssl.dictionary_request())
        for _ in range(self.rng.randint(1, LIFE_S)):
            await asyncio.sleep(1)
            await self.ping()

    async def hurry(self):
        """Asks and is gone before it is answered."""
        await self.log_in()
        await self.say(rssl.directory_request(), *(market.request(i, STREAM + i) for i in self.some_items(20)))

    async def reset(self):
        await self.hurry()
        await self.read_for(self.rng.random())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))

    async def half(self):
        await self.connect(self.crowd.rssl_port)
        request = rssl.connect_request()
        await self.send(request[: self.rng.randrange(1, len(request))])
        await self.read_for(self.rng.random() * PATIENCE_S)

    async def silent(self):
        await self.connect(self.rng.choice([self.crowd.rssl_port, self.crowd.websocket_port]))
        await asyncio.wait_for(self.read(), self.rng.random() * LIFE_S)

    async def drip(self):
        await self.connect(self.crowd.rssl_port)
        for byte in rssl.connect_request() + rssl.frame(rssl.login_request()):
            await self.send(bytes([byte]))
            await asyncio.sleep(self.rng.random() * 0.5)

    async def garbage(self):
        await self.log_in()
        await self.send(self.rng.randbytes(self.rng.randint(1, 20_000)))
        await self.read_for(PATIENCE_S)

    async def flip(self):
        """A session with some bits the other way."""
        await self.connect(self.crowd.rssl_port)
        items = self.some_items()
        messages = [rssl.login_request(), rssl.directory_request(), rssl.post(), rssl.generic()]
        messages += [market.request(item, STREAM + at) for at, item in enumerate(items)]
        data = bytearray(rssl.connect_request() + b''.join(map(rssl.frame, messages)))
        for _ in range(self.rng.randint(1, 8)):
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        await self.send(bytes(data))
        await self.read_for(self.rng.random() * PATIENCE_S)

    async def missing(self):
        await self.log_in()
        numbers = range(100)
        await self.say(*(market.request(1_000_000 + self.rng.randrange(1_000_000), STREAM + at) for at in numbers))
        await self.read_for(self.rng.random() * PATIENCE_S)

    async def churn(self):
        """Opens and closes one item again and again."""
        await self.log_in()
        (item,) = self.some_items(1)
        for _ in range(self.rng.randint(1, 50)):
            await self.say(market.request(item, STREAM), rssl.close(stream=STREAM))
            if self.rng.random() < 0.2:
                await self.read_for(0.05)
        await self.read_for(self.rng.random())

    async def post(self):
        await self.log_in()
        (item,) = self.some_items(1)
        await self.say(market.request(item, STREAM), *[rssl.post(market.name(item), STREAM), rssl.generic()] * 20)
        await self.read_for(self.rng.random() * PATIENCE_S)

    # WebSocket

    async def upgrade(self, buffer_bytes=None):
        await self.connect(self.crowd.websocket_port, buffer_bytes)
        key = websocket.new_key()
        await self.send(websocket.upgrade(key))
        head = b''
        while b'\r\n\r\n' not in head:
            head += await self.read()
        head, _, rest = head.partition(b'\r\n\r\n')
        if not websocket.is_upgraded(head, key):
            raise market.Wrong('no upgrade: %r' % head[:200])
        self.frames = websocket.Frames()
        self.ping = self.pong
        await self.say_json(websocket.login_request('crowd'))
        return rest

    async def pong(self):
        await self.send(websocket.frame(websocket.TEXT, b'{"Type":"Ping"}'))

    async def say_json(self, *messages):
        texts = (json.dumps(message).encode() for message in messages)
        await self.send(b''.join(websocket.frame(websocket.TEXT, text) for text in texts))

    @staticmethod
    def json_request(to_stream, name):
        return {'ID': to_stream, 'Key': {'Name': name, 'Service': market.SERVICE}}

    def json_reader(self):
        """Checks the numbers of what is read."""
        numbers = {}

        def read(data):
            for kind, payload in self.frames.feed(data):
                for message in json.loads(payload) if kind == websocket.TEXT else ():
                    self.see_json(message, numbers)

        return read

    def see_json(self, message, numbers):
        if message['Type'] not in ('Refresh', 'Update') or 'Fields' not in message:
            return
        name, fields = message['Key']['Name'], message['Fields']
        item, number = int(name.partition('.')[2]), fields.get('BID')
        last = numbers.get(name)
        is_next = last is None or number == last + 1 or message['Type'] == 'Refresh' and number >= last
        if number is None or fields.get('ASK') != market.check(item, number) or not is_next:
            raise market.Wrong('%s behind %s' % (message, last))
        numbers[name] = number
        self.checked += 1

    async def json_watch(self):
        rest = await self.upgrade()
        read = self.json_reader()
        read(rest)
        names = [market.name(item).decode() for item in self.some_items()]
        await self.say_json(*(self.json_request(STREAM + at, name) for at, name in enumerate(names)))
        await self.read_for(self.rng.random() * 15, read)
        await self.say_json({'ID': STREAM, 'Type': 'Close'}, {'ID': 1, 'Domain': 'Login', 'Type': 'Close'})

    async def json_batch(self):
        rest = await self.upgrade()
        read = self.json_reader()
        read(rest)
        names = [market.name(item).decode() for item in range(1, self.crowd.items)]
        await self.say_json(self.json_request(STREAM, names))
        await self.read_for(self.rng.random() * PATIENCE_S, read)

    async def json_download(self):
        await self.upgrade()
        await self.say_json(self.json_dictionary(3))
        await self.read_for(self.rng.random() * PATIENCE_S)

    @staticmethod
    def json_dictionary(to_stream):
        return {'ID': to_stream, 'Domain': 'Dictionary', 'Key': {'Name': 'RWFFld', 'Filter': 7, 'Service': market.SERVICE}}

    async def json_flood(self):
        await self.upgrade()
        await self.say_json(*(self.json_dictionary(3 + at) for at in range(100)))
        await asyncio.sleep(self.rng.random() * 3)

    async def json_stall(self):
        await self.upgrade(4096)
        await self.say_json(self.json_request(STREAM, 'NI.0'), self.json_dictionary(3))
        await asyncio.sleep(self.rng.random() * LIFE_S)

    async def json_garbage(self):
        await self.upgrade()
        await self.send(self.rng.randbytes(self.rng.randint(1, 20_000)))
        await self.read_for(PATIENCE_S)

    async def json_flip(self):
        await self.upgrade()
        text = bytearray(json.dumps([self.json_request(STREAM, ['NI.1', 'NI.2']), self.json_dictionary(3)]).encode())
        for _ in range(self.rng.randint(1, 4)):
            text[self.rng.randrange(len(text))] ^= 1 << self.rng.randrange(8)
        await self.send(websocket.frame(websocket.TEXT, bytes(text)))
        await self.read_for(self.rng.random() * PATIENCE_S)


async def run(crowd, clients, seconds):
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    tasks = [asyncio.create_task(crowd.live(number)) for number in range(clients)]
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except asyncio.TimeoutError:
        pass
    crowd.is_over = True
    waiting = tasks
    while waiting:
        # Again and again: a time-out in the same moment swallows it.
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=1)
    ended = [task.exception() for task in tasks if not task.cancelled()]
    # A mistake in a behaviour, not of the server.
    return [repr(error) for error in ended if error]


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rssl_port', type=int)
    parser.add_argument('websocket_port', type=int)
    parser.add_argument('items', type=int, help='that the market has')
    parser.add_argument('--clients', type=int, default=100, help='at a time')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--seed', default='1')
    parser.add_argument('--only', type=lambda text: text.split(','), help='these behaviours: %s' % ', '.join(SHARES))
    options = parser.parse_args(words)
    unknown = set(options.only or ()) - set(SHARES)
    if unknown:
        parser.error('no behaviour %s; there are %s' % (', '.join(sorted(unknown)), ', '.join(SHARES)))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    crowd = Crowd(options.rssl_port, options.websocket_port, options.items, options.seed, options.only)
    broken = asyncio.run(run(crowd, options.clients, options.seconds))
    crowd.wrong += broken
    result = {
        'lived': dict(crowd.lived),
        'ends': dict(crowd.ends),
        'values_checked': crowd.checked,
        'wrong': crowd.wrong[:WRONG_MAX],
        'wrong_count': len(crowd.wrong),
    }
    print(json.dumps(result), flush=True)
    return 1 if crowd.wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
