"""A consumer of the JSON protocol on `websocket-client`, with the protocol written out.

Writes a JSON line for each event, and the final image of each item once the file --until is there.
"""

import argparse
import base64
import json
import os
import sys
import time

import websocket

LOGIN_ID = 1
DOMAINS = {'MarketPrice': 6, 'MarketByPrice': 8}
NAMES = {number: name for name, number in DOMAINS.items()}
# How long one look at the socket lasts.
LOOK_S = 0.2
# The package checks UTF-8 in Python, byte by byte; decoding does so anyway.
QUICK = {'skip_utf8_validation': True}


class Failure(Exception):
    """The server did what it must not."""


def tell(ev, **parts):
    sys.stdout.write(json.dumps({'ev': ev, **parts}) + '\n')


def read_frame(text):
    """The messages of a frame; numbers stay as they are written."""
    frame = json.loads(text, parse_float=str, parse_int=str)
    if not isinstance(frame, list):
        raise Failure('not an array: %s' % text[:200])
    return frame


class Item:
    def __init__(self, name, domain):
        self.name, self.domain = name, domain
        self.state = {}
        self.fields, self.entries = {}, {}
        self.parts = 0

    def where(self):
        return {'item': self.name, 'domain': self.domain}

    def on_refresh(self, message):
        self.apply(message)
        tell('refresh', **self.where(), seq=number(message), complete=message.get('Complete', True), state=state(self.state))

    def on_update(self, message):
        self.merge(message)
        tell('update', **self.where(), seq=number(message), key=message.get('Key'))

    def on_status(self, message):
        self.state = message.get('State', self.state)
        tell('status', **self.where(), state=state(self.state), code=self.state.get('Code'), text=self.state.get('Text'))

    def apply(self, message):
        """Of a refresh or an update."""
        if message['Type'] == 'Refresh':
            if message.get('ClearCache', True):
                self.fields, self.entries = {}, {}
            self.state = message['State']
        self.merge(message)

    def merge(self, message):
        self.fields.update(message.get('Fields', {}))
        changes = message.get('Map', {})
        is_buffer = changes.get('KeyType') == 'Buffer'
        for entry in changes.get('Entries', ()):
            key = base64.b64decode(entry['Key']).decode() if is_buffer else entry['Key']
            if entry['Action'] == 'Delete':
                self.entries.pop(key, None)
            elif entry['Action'] == 'Add':
                self.entries[key] = entry.get('Fields', {})
            else:
                self.entries.setdefault(key, {}).update(entry.get('Fields', {}))

    def values(self):
        return {'entries': self.entries} if self.domain == DOMAINS['MarketByPrice'] else {'fields': self.fields}

    def final(self):
        tell('final', **self.where(), state=state(self.state), **self.values())


def number(message):
    return int(message['SeqNumber']) if 'SeqNumber' in message else None


def state(written):
    return {'stream': written.get('Stream'), 'data': written.get('Data')}


class Client:
    def __init__(self, args):
        self.args = args
        self.items = {}  # by id
        self.login = None
        self.others = []
        options = {'ca_certs': args.ca} if args.ca else None
        scheme = 'wss' if args.ca else 'ws'
        self.socket = websocket.create_connection(
            '%s://%s/WebSocket' % (scheme, args.host), subprotocols=[args.protocol], sslopt=options, timeout=30, **QUICK
        )
        tell('connected', protocol=self.socket.getsubprotocol())

    def send(self, message):
        self.socket.send(json.dumps(message))

    def log_in(self):
        elements = {'ApplicationId': '256', 'Position': '127.0.0.1/net'}
        self.send({'ID': LOGIN_ID, 'Domain': 'Login', 'Key': {'Name': self.args.user, 'Elements': elements}})
        frame = read_frame(self.socket.recv())
        if len(frame) != 1 or frame[0].get('ID') != str(LOGIN_ID):
            raise Failure('the first frame is not the answer to the login alone: %s' % frame)
        self.login = frame[0]
        tell('login', type=self.login['Type'], elements=self.login.get('Elements'))

    def request(self):
        wanted = [(name, int(domain)) for domain, name in (item.split(':', 1) for item in self.args.item)]
        common = {'KeyInUpdates': self.args.keys, 'Streaming': not self.args.snapshot}
        if self.args.view:
            common['View'] = self.args.view.split(',')
        next_id = LOGIN_ID + 1
        for domain in sorted({domain for _, domain in wanted}):
            names = [name for name, d in wanted if d == domain]
            key = {'Service': self.args.service} if self.args.service else {}
            if self.args.batch:
                self.send({'ID': next_id, 'Domain': NAMES[domain], 'Key': {'Name': names, **key}, **common})
                next_id += 1
            for name in names:
                self.items[str(next_id)] = Item(name, domain)
                if not self.args.batch:
                    self.send({'ID': next_id, 'Domain': NAMES[domain], 'Key': {'Name': name, **key}, **common})
                next_id += 1

    def on_message(self, message):
        kind, item = message.get('Type'), self.items.get(message.get('ID'))
        if kind == 'Ping':
            self.send({'Type': 'Pong'})
            tell('ping')
        elif kind == 'Error':
            raise Failure('an error: %s' % message)
        elif item is None:
            tell('other', message=message)
        elif kind == 'Refresh':
            item.on_refresh(message)
        elif kind == 'Update':
            item.on_update(message)
        elif kind == 'Status':
            item.on_status(message)
        else:
            raise Failure('unexpected: %s' % message)

    def is_done(self):
        if self.args.until and not os.path.exists(self.args.until):
            return False
        return all(item.state for item in self.items.values())

    def run(self):
        self.log_in()
        self.request()
        self.socket.settimeout(LOOK_S)
        flushed = time.monotonic()
        deadline = flushed + self.args.timeout
        while not self.is_done():
            if time.monotonic() > deadline:
                raise Failure('not done in time')
            try:
                text = self.socket.recv()
            except websocket.WebSocketTimeoutException:
                sys.stdout.flush()
                continue
            for message in read_frame(text):
                self.on_message(message)
            if time.monotonic() > flushed + LOOK_S:
                sys.stdout.flush()
                flushed = time.monotonic()
        for item in self.items.values():
            item.final()
        self.send({'ID': [int(id) for id in self.items], 'Type': 'Close'})
        self.socket.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--host', required=True, help='HOST:PORT')
    parser.add_argument('--item', action='append', required=True, help='DOMAIN:NAME, domain 6 or 8')
    parser.add_argument('--service', help='else the default service')
    parser.add_argument('--user', default='python')
    parser.add_argument('--protocol', default='tr_json2')
    parser.add_argument('--until', help='the end: when this file is there')
    parser.add_argument('--batch', action='store_true', help='one request for all items of a domain')
    parser.add_argument('--view', help='FIELD,FIELD')
    parser.add_argument('--keys', action='store_true', help='wants the key in updates')
    parser.add_argument('--snapshot', action='store_true')
    parser.add_argument('--ca', help='TLS; PEM file of the authority')
    parser.add_argument('--timeout', type=float, default=300)
    try:
        Client(parser.parse_args()).run()
        sys.stdout.flush()
    except (Failure, OSError, websocket.WebSocketException) as e:
        print('%s: %s' % (type(e).__name__, e), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
