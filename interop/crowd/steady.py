"""python3 steady.py PROVIDER_PORT CONSUMER_PORT ITEMS SECONDS

A provider and a consumer of all its items, in one process. The first item has 1,000 updates a second, the others have
one a second together for every 5 ms. A JSON line a second says how late the updates were:

  {"t": s, "updates": n, "worst_ms": x, "p99_ms": x, "own_ms": x, "images": n, "statuses": n}

`worst_ms` and `p99_ms` count from when an update was due to when it was read, so a provider that is held up hides nothing.
`own_ms` is the longest that this process itself was late to send: the machine's part. A value that is not as it was
sent ends it with exit status 1 and says what it was; so does a connection that ends. SIGTERM ends it well, with all
updates read.
"""

import json
import select
import signal
import socket
import sys
import time

import market
import rssl_bytes as rssl
from rssl_clients import RsslConsumer, RsslProvider
from rssl_reading import Message

PERIOD_US = 1000
OTHERS_EVERY = 5  # periods
READ_BYTES = 1 << 18
PING_S = 0.5
DRAIN_S = 60


def now_us():
    return time.monotonic_ns() // 1000


class Steady:
    def __init__(self, provider_port, consumer_port, items):
        self.item_count = items
        self.numbers = [1] * items
        self.provider = RsslProvider(provider_port, 'steady')
        self.provider.wait(lambda: any(m.kind == 'REFRESH' for m in self.provider.messages), 'its login is answered')
        self.provider.send(rssl.DIRECTORY_REFRESH)
        for item in range(items):
            self.provider.send(market.image(item, 1))
        self.consumer = self._consumer(consumer_port)
        self.items = market.Items({5 + item: item for item in range(items)})
        for client in (self.provider, self.consumer):
            # As SDKs do: else the kernel keeps small updates back for up to 40 ms.
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.provider.socket.setblocking(False)
        self.consumer.socket.setblocking(False)
        self.unsent = b''
        self.begun = self.second = self.pinged = now_us()
        self.period = 0
        self._new_second()

    def _consumer(self, port):
        """One that is logged in and has asked for every item, the first ones until the service is there."""
        while True:
            consumer = RsslConsumer(port, 'steady')
            consumer.wait(lambda: any(m.domain == rssl.LOGIN for m in consumer.messages), 'its login is answered')
            consumer.send(market.request(0, 4))
            consumer.wait_count(4, 1)
            if consumer.of_stream(4)[0][0] == 'REFRESH':
                break
            consumer.close()
            time.sleep(0.1)
        consumer.send(rssl.close(stream=4), *(market.request(item, 5 + item) for item in range(self.item_count)))
        return consumer

    def _new_second(self):
        self.late, self.own_late = [], 0

    def run(self, until):
        """Until `until()` says so; then reads what is under way."""
        while not until():
            self._send_due()
            self._read(max(0, self._due() - now_us()) / 1e6)
            self._report()
        deadline = time.monotonic() + DRAIN_S
        while self.items.numbers != dict(enumerate(self.numbers)):
            if time.monotonic() > deadline:
                last = {i: n for i, n in enumerate(self.numbers) if self.items.numbers.get(i) != n}
                raise market.Wrong('never came: %s; got %s' % (last, {i: self.items.numbers.get(i) for i in last}))
            self._flush()
            self._read(0.01)

    def _due(self):
        return self.begun + self.period * PERIOD_US

    def _send_due(self):
        now, out = now_us(), []
        while self._due() <= now:
            due = self._due()
            out.append(self._next(0, due))
            if self.period % OTHERS_EVERY == 0 and self.item_count > 1:
                out.append(self._next(1 + self.period // OTHERS_EVERY % (self.item_count - 1), due))
            self.own_late = max(self.own_late, now - due)
            self.period += 1
        if now - self.pinged > PING_S * 1e6:
            self.pinged = now
            out.append(rssl.PING)
            self.consumer.socket.send(rssl.PING)
        self.unsent += b''.join(out)
        self._flush()

    def _flush(self):
        try:
            while self.unsent:
                self.unsent = self.unsent[self.provider.socket.send(self.unsent) :]
        except BlockingIOError:
            pass

    def _next(self, item, due):
        self.numbers[item] += 1
        return rssl.frame(market.update(item, self.numbers[item], due))

    def _read(self, timeout_s):
        for ready in select.select([self.provider.socket, self.consumer.socket], [], [], timeout_s)[0]:
            client = self.provider if ready is self.provider.socket else self.consumer
            data = ready.recv(READ_BYTES)
            if not data:
                raise market.Wrong('the connection of the %s has ended' % type(client).__name__)
            messages = client.frames.feed(data)
            if client is self.consumer:
                now = now_us()
                for message in messages:
                    due = self.items.see(Message(message), message)
                    if due is not None:
                        self.late.append(now - due)

    def _report(self):
        if now_us() - self.second < 1_000_000:
            return
        self.second = now_us()
        late = sorted(self.late) or [0]
        line = {
            't': round((self.second - self.begun) / 1e6, 3),
            'updates': len(self.late),
            'worst_ms': late[-1] / 1e3,
            'p99_ms': late[len(late) * 99 // 100] / 1e3,
            'own_ms': self.own_late / 1e3,
            'images': self.items.images,
            'statuses': len(self.items.statuses),
        }
        print(json.dumps(line), flush=True)
        self._new_second()


def main(provider_port, consumer_port, items, seconds):
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    deadline = time.monotonic() + float(seconds)
    steady = Steady(int(provider_port), int(consumer_port), int(items))
    try:
        steady.run(lambda: over or time.monotonic() > deadline)
    except market.Wrong as wrong:
        print('wrong: %s' % wrong, file=sys.stderr)
        return 1
    print(json.dumps({'sent': sum(steady.numbers) - len(steady.numbers), 'got': steady.items.updates}), flush=True)
    return 0


if __name__ == '__main__':
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
