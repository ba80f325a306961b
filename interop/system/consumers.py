"""Clients that watch items: the EMA consumer and `tickcast watch --json`, seen alike."""

import json
import os
import re

from expected import ITEMS
from process import ROOT, Follower, Process

JAR = os.path.join(ROOT, 'interop', 'java', 'target', 'tickcast-interop.jar')
# Small and quick to start: several run at once on a machine of two cores.
JAVA = ['java', '-Xmx192m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-jar']
SERVICE = 'BINANCE'


class Item:
    """What a client has seen of one item."""

    def __init__(self):
        self.position = None  # sequence number of the last message
        self.states = []  # data states, each change
        self.has_image = False
        self.updates = 0
        self.refreshes = 0
        self.updates_while_suspect = 0
        self.steps_back = 0  # refreshes that are older than what came before
        self.faults = []

    def on_refresh(self, seq, complete, data):
        self.steps_back += None not in (seq, self.position) and seq < self.position
        self.position = seq
        self.refreshes += 1
        self.has_image |= complete
        # Good is what is whole: the other parts of an image may still be on the way.
        if complete or data != 'Ok':
            self._on_state(data)

    def on_update(self, seq):
        self.updates += 1
        self.updates_while_suspect += self.states[-1:] != ['Ok']
        if not self.has_image:
            self.faults.append('update %s before an image' % seq)
        elif seq != self.position + 1:
            self.faults.append('update %s after %s' % (seq, self.position))
        self.position = seq

    def on_status(self, data):
        self._on_state(data)

    def _on_state(self, data):
        if data != 'NoChange' and self.states[-1:] != [data]:
            self.states.append(data)

    def is_good(self):
        return self.has_image and self.states[-1:] == ['Ok']


class ConflatedItem(Item):
    """One of which an update may stand for several."""

    def on_update(self, seq):
        self.updates += 1
        if not self.has_image:
            self.faults.append('update %s before an image' % seq)
        elif seq <= self.position:
            self.faults.append('update %s after %s' % (seq, self.position))
        self.position = seq


class Consumer(Process):
    """A client and what it has told so far; `look` reads on."""

    def __init__(self, name, words, directory, items, is_conflated=False):
        self.items = {item: ConflatedItem() if is_conflated else Item() for item in items}
        self.events = []  # all but updates and refreshes
        self.finals = {}
        super().__init__(name, words, directory)
        self.follower = Follower(self.out_path)

    def look(self):
        for line in self.follower.lines():
            self._on_line(line)
        return self

    def has_images(self):
        return all(item.has_image for item in self.look().items.values())

    def is_good(self):
        return all(item.is_good() for item in self.look().items.values())

    def has_become(self, data):
        """Whether this is the last data state of all items."""
        return all(item.states[-1:] == [data] for item in self.look().items.values())

    def is_at(self, positions):
        """Whether it has come as far as `positions` and all is good."""
        return self.is_good() and self.positions() == {key: positions[key] for key in self.items}

    def positions(self):
        return {key: item.position for key, item in self.items.items()}

    def seen(self, ev, **parts):
        """The events of this name whose parts are so."""
        return [e for e in self.events if e['ev'] == ev and all(e.get(k) == v for k, v in parts.items())]

    def faults(self):
        """What is wrong with the order of updates, by item."""
        return {key: item.faults[:5] for key, item in self.look().items.items() if item.faults}

    def _on_event(self, event):
        kind = event['ev']
        item = self.items.get((event.get('item'), event.get('domain')))
        if kind == 'final':
            self.finals[event['item'], event['domain']] = event
        elif item is None or kind not in ('refresh', 'update', 'status'):
            self.events.append(event)
        elif kind == 'refresh':
            item.on_refresh(event.get('seq'), event['complete'], event['state']['data'])
        elif kind == 'update':
            item.on_update(event.get('seq'))
        else:
            self.events.append(event)
            item.on_status(event['state']['data'])

    def _on_line(self, line):
        self._on_event(json.loads(line))


class JavaConsumer(Consumer):
    """The consumer of interop/java. It watches until `finish`."""

    def __init__(
        self, name, place, host, server, directory, items=ITEMS, options=(), service=SERVICE, is_conflated=False
    ):
        self.until = os.path.join(directory, name + '.until')
        words = JAVA + [JAR, 'consumer', '--host', server, '--service', service, '--until', self.until]
        words += ['--timeout', '300', *([] if is_conflated else ['--check-seq', '--check-map']), '--show-updates', *options]
        for item, domain in items:
            words += ['--item', '%d:%s' % (domain, item)]
        super().__init__(name, place.words(host, words), directory, items, is_conflated)

    def finish(self):
        """(exit status, {(item, domain): final line}); the result is in `result`."""
        open(self.until, 'w').close()
        status = self.wait()
        self.look()
        self.result = self.events[-1] if self.events and self.events[-1]['ev'] == 'result' else None
        return status, self.finals


class NativeConsumer(Consumer):
    """`tickcast watch --json`. It watches until `finish`."""

    # Updates are many; of them only item and number are needed, which stand at the ends of the line.
    HEAD = re.compile(rb'\{"domain":(\d+),')
    TAIL = re.compile(rb'"item":"([^"]+)","seq":(\d+),"update_type":\d+\}$')

    def __init__(
        self, name, place, host, server, directory, binary, items=ITEMS, options=(), is_conflated=False, service=SERVICE
    ):
        words = [binary, 'watch', '--json', '--host', server, '--service', service, *options]
        words += ['%d:%s' % (domain, item) for item, domain in items]
        super().__init__(name, place.words(host, words), directory, items, is_conflated)

    def finish(self):
        """(exit status, {(item, domain): final line})"""
        status = self.end()
        self.look()
        return status, self.finals

    def _on_line(self, line):
        head, tail = self.HEAD.match(line), self.TAIL.search(line, max(0, len(line) - 200))
        if head and tail:
            self.items[tail[1].decode(), int(head[1])].on_update(int(tail[2]))
        else:
            super()._on_line(line)
