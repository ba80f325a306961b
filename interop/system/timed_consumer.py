"""`tickcast watch --json` whose every line is noted with the time at which it came, and what that says of a fault."""

import fcntl
import json
import os
import re
import threading
import time

from process import Process

PIPE_BYTES = 1 << 20
# A silence that is longer is one, whatever the machine does beside.
SILENCE_S = 0.1


class Item:
    """What has come of one item."""

    __slots__ = ('last', 'is_ok', 'longest', 'longest_end', 'event_at', 'flows_at')

    def __init__(self):
        self.last = 0.0  # when its last fresh update came that was good
        self.is_ok = False
        self.mark(0.0)

    def mark(self, at):
        """From here on what follows is noted."""
        self.longest, self.longest_end = 0.0, None
        self.event_at = self.flows_at = None


class TimedConsumer(Process):
    """A consumer that knows several servers. `mark` begins a measurement; until then all updates are fresh."""

    HEAD = b'{"domain":6,"ev":"update"'
    TAIL = re.compile(rb'"item":"([^"]+)","seq":(\d+),"update_type":\d+\}$')

    def __init__(self, name, words, directory, items):
        self.items = {item.encode(): Item() for item in items}
        self.lock = threading.Lock()
        self.mark_at, self.mark_ms, self.first_event = 0.0, 0, None
        self.server, self.transcript = None, []
        super().__init__(name, words, directory)

    def open_out(self, path):
        open(path, 'wb').close()
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        threading.Thread(target=self._read, args=(reader,), daemon=True).start()
        return os.fdopen(writer, 'wb')

    def mark(self, at):
        """A fault at this moment: updates that were made before it count no more."""
        with self.lock:
            self.mark_at, self.mark_ms, self.first_event = at, int(at * 1000) + 1, None
            self.transcript = []
            for item in self.items.values():
                item.mark(at)

    def look(self):
        """(events since the mark, items that flow, longest silence) in a word: a `Look`."""
        with self.lock:
            return Look(self, time.monotonic())

    def _read(self, reader):
        rest = b''
        with os.fdopen(reader, 'rb', buffering=0) as pipe:
            while data := pipe.read(PIPE_BYTES):
                at = time.monotonic()
                *lines, rest = (rest + data).split(b'\n')
                with self.lock:
                    for line in lines:
                        self._on_line(at, line)

    def _on_line(self, at, line):
        if line.startswith(self.HEAD):
            tail = self.TAIL.search(line, max(0, len(line) - 100))
            self._on_update(at, self.items[tail[1]], int(tail[2]))
            return
        event = json.loads(line)
        item = self.items.get(event.get('item', '').encode())
        kind = event['ev']
        if kind == 'connected':
            self.server = event['host']
        if item is not None:
            item.is_ok = event['state']['data'] == 'Ok'
        if at >= self.mark_at and kind in ('refresh', 'status', 'disconnected'):
            reason = event.get('reason') or event['state']['text']
            if self.first_event is None:
                self.first_event = at, kind, reason
            if item is not None:
                item.event_at, item.flows_at = at, None
            if len(self.transcript) < 200:
                self.transcript.append((round(at - self.mark_at, 4), kind, event.get('item'), reason))

    def _on_update(self, at, item, made_ms):
        if made_ms < self.mark_ms or not item.is_ok:
            return
        if item.last:
            silence = at - max(item.last, self.mark_at)
            if silence > item.longest:
                item.longest, item.longest_end = silence, at
        if item.event_at is not None and item.flows_at is None:
            item.flows_at = at
        item.last = at


class Look:
    """What a consumer has seen since its mark."""

    def __init__(self, consumer, now):
        items = consumer.items.values()
        self.first_event = consumer.first_event
        since = [now - max(item.last, consumer.mark_at) for item in items]
        #: All items are good, and none is silent.
        self.is_whole = all(item.is_ok for item in items) and max(since) < SILENCE_S
        self.longest = max(max(item.longest for item in items), max(since))
        #: When the items that were disturbed flowed again, None for those that do not yet.
        self.flows = [
            item.flows_at if item.event_at is not None else item.longest_end
            for item in items
            if item.event_at is not None or item.longest > SILENCE_S
        ]
        self.is_disturbed = bool(self.flows) or self.first_event is not None or max(since) > SILENCE_S
