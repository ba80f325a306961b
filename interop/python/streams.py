"""Streams of the vendor's package `lseg-data`, and the images that its messages make.

Writes a JSON line for the first image of each item. Once the file --until-at is there, which says where the items are
at the end (lines `DOMAIN:NAME NUMBER`), writes the image of each item that has come so far, as often as it changes,
until it is ended.

The package hands messages over from a priority queue, in which refreshes overtake updates and updates have no order
among themselves: while it lags, an application sees them in another order than they came. So they are put into order
by their sequence numbers here, and an item that is at its last number may still change.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time

import lseg.data as data
from lseg.data.delivery import omm_stream

from deployed import session_of, within_limit
from plain import NAMES, Item, number, state

LOOK_S = 0.1


def tell(ev, **parts):
    sys.stdout.write(json.dumps({'ev': ev, **parts}) + '\n')
    sys.stdout.flush()


class Stream:
    """One item: what has come of it. Callbacks come on a thread of the package."""

    def __init__(self, name, domain, service, session):
        self.name, self.domain = name, domain
        self.lock = threading.Lock()
        self.messages, self.told, self.has_image = [], 0, False
        self.stream = omm_stream.Definition(name=name, service=service, domain=NAMES[domain]).get_stream(session)
        for subscribe in (self.stream.on_refresh, self.stream.on_update, self.stream.on_status):
            subscribe(self.on_message)

    def on_message(self, *said):
        message = next(part for part in said if isinstance(part, dict) and 'Type' in part)
        with self.lock:
            self.messages.append(message)
            if message['Type'] == 'Refresh' and message.get('Complete', True) and not self.has_image:
                self.has_image = True
                tell('refresh', item=self.name, domain=self.domain, seq=number(message), complete=True,
                     state=state(message['State']))

    def image(self, position):
        """The image, if the item has come to `position` and has changed since the last time; None otherwise."""
        with self.lock:
            messages = list(self.messages)
        numbers = [number(message) for message in messages if 'SeqNumber' in message]
        if len(messages) == self.told or max(numbers, default=-1) < position:
            return None
        self.told = len(messages)
        item = Item(self.name, self.domain)
        of_values = [message for message in messages if message['Type'] in ('Refresh', 'Update')]
        # Of one number the refresh comes first, and of that the parts in order.
        for message in sorted(of_values, key=lambda m: (number(m), m['Type'] != 'Refresh', m.get('PartNumber', 0))):
            item.apply(message)
        statuses = [message['State'] for message in messages if message['Type'] == 'Status' and 'State' in message]
        return {'state': state(statuses[-1] if statuses else item.state), **as_written(item.values())}


def as_written(value):
    """Numbers as texts, of which fractions can be made exactly."""
    if isinstance(value, dict):
        return {key: as_written(part) for key, part in value.items()}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    return value


def positions(path):
    with open(path, encoding='utf-8') as f:
        words = [line.rsplit(' ', 1) for line in f.read().splitlines()]
    return {place: int(position) for place, position in words}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--host', required=True, help='HOST:PORT')
    parser.add_argument('--service', required=True)
    parser.add_argument('--item', action='append', required=True, help='DOMAIN:NAME, domain 6 or 8')
    parser.add_argument('--user', default='python')
    parser.add_argument('--until-at', required=True)
    args = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    os.chdir(tempfile.mkdtemp(prefix='streams-'))  # it writes a log where it stands
    session = session_of(data, args.host, args.user)
    session.open()
    wanted = [(name, int(domain)) for domain, name in (item.split(':', 1) for item in args.item)]
    streams = [Stream(name, domain, args.service, session) for name, domain in wanted]
    for stream in streams:
        within_limit(stream.stream.open)
    while not ended.is_set():
        if os.path.exists(args.until_at):
            at = positions(args.until_at)
            for stream in streams:
                image = stream.image(at['%d:%s' % (stream.domain, stream.name)])
                if image:
                    tell('final', item=stream.name, domain=stream.domain, **image)
        time.sleep(LOOK_S)


if __name__ == '__main__':
    main()
    # The package leaves threads behind.
    os._exit(0)
