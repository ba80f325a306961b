"""Recorded sessions as steps: what the client sends, and what it must have got before it sends on.

    python3 sessions.py VECTORS DIRECTORY      digests of the recordings of VECTORS/rssl and VECTORS/websocket

Of what came only classes, domains, streams, containers and states count. Images in parts count once, updates
in a row too, pings not at all. Where the recordings are from: ../testdata/sessions/README.md.
"""

import glob
import json
import os
import sys

from rssl_reading import Frames, Message, handshake_compression

PAYLOADS = ('Fields', 'Elements', 'Map', 'Vector', 'Series', 'FilterList', 'Opaque', 'Xml', 'Json', 'Message')


class Answers:
    """What came on a connection, stream by stream: summaries of messages, an update run as one."""

    def __init__(self):
        self.streams = {}  # in the order of their first messages
        self.news = []

    def add(self, summary, is_part=False):
        came = self.streams.setdefault(summary[STREAM], [])
        if is_part or is_update(summary) and came[-1:] == [summary]:
            return
        came.append(summary)
        self.news.append(summary)

    def take_news(self):
        """What has come since the last call."""
        news, self.news = self.news, []
        return news


STREAM = 2  # of a summary


def is_update(summary):
    return summary[0].upper() == 'UPDATE'


def without_updates(summaries):
    return [summary for summary in summaries if not is_update(summary)]


def covers(came, wanted):
    """Whether all of one stream has come that is wanted; updates may be more than wanted."""
    position = 0
    for summary in wanted:
        while position < len(came) and is_update(came[position]) and not is_update(summary):
            position += 1
        if position == len(came) or came[position] != summary:
            return False
        position += 1
    return True


def rssl_steps(session):
    """[['send', hex] or ['wait', [summary, ...]], ...]; a wait says what has come since the one before."""
    (connection,) = session['connections']
    frames, answers, steps = Frames(), Answers(), []
    for segment in connection['segments']:
        if segment.get('fin'):
            continue
        if segment['dir'] == 'c2s':
            _add(steps, 'send', segment['hex'])
            continue
        for data in frames.feed(bytes.fromhex(segment['hex'])):
            message = Message(data)
            answers.add(message.summary(), message.is_part())
        _add(steps, 'wait', answers.take_news())
    return steps


def agreed_compression(session):
    """0 none, 1 zlib, 2 LZ4."""
    answer = next(s['hex'] for s in session['connections'][0]['segments'] if s['dir'] == 's2c')
    return handshake_compression(bytes.fromhex(answer))


def reaches_login(session):
    headers = [
        message.get('decoded') or {}
        for connection in session['connections']
        for frame in connection['frames']
        for message in frame.get('messages', ())
    ]
    return any((header.get('msg_class'), header.get('domain')) == ('REQUEST', 1) for header in headers)


def websocket_steps(lines):
    """[['http', [line, ...]] or ['send', text] or ['wait', [summary, ...]], ...]"""
    answers, steps, text = Answers(), [], ''
    for line in lines:
        if 'text' in line:
            text += line['text']
            if not line.get('fin', True):
                continue
            if line['from'] == 'client':
                steps.append(['send', text])
            else:
                for message in json_messages(text):
                    answers.add(*json_answer(message))
                _add(steps, 'wait', answers.take_news())
            text = ''
        elif 'http' in line and line['from'] == 'client':
            steps.append(['http', line['http']])
    return steps


def json_messages(text):
    messages = json.loads(text)
    return messages if isinstance(messages, list) else [messages]


def json_answer(message):
    """Summary and whether it is a part, of a message of the WebSocket API."""
    state = message.get('State')
    payload = [name for name in PAYLOADS if name in message]
    summary = [
        message['Type'],
        message.get('Domain', 'MarketPrice'),
        message.get('ID', 0),
        payload[0] if payload else 'None',
        [state.get('Stream'), state.get('Data'), state.get('Code')] if state else message.get('NakCode'),
    ]
    return summary, message['Type'] == 'Ping' or message.get('Complete') is False


def _add(steps, kind, content):
    """What is sent in a row goes at once, what comes in a row is waited for at once."""
    if steps and steps[-1][0] == kind:
        steps[-1][1] += content
    else:
        steps.append([kind, content])


def digests(vectors):
    """({session: digest} of RSSL, the same of WebSocket). A digest has `steps`, of RSSL `description` and
    `compression` too."""
    rssl, websocket = {}, {}
    for path in sorted(glob.glob(os.path.join(vectors, 'rssl', '*.json'))):
        with open(path) as f:
            session = json.load(f)
        if reaches_login(session):
            rssl[_name(path)] = {
                'description': session['description'],
                'compression': agreed_compression(session),
                'steps': rssl_steps(session),
            }
    for path in sorted(glob.glob(os.path.join(vectors, 'websocket', '*.jsonl'))):
        with open(path) as f:
            lines = [json.loads(line) for line in f]
        if not any('hex' in line for line in lines):
            websocket[_name(path)] = {'steps': websocket_steps(lines)}
    return rssl, websocket


def _name(path):
    return os.path.splitext(os.path.basename(path))[0]


def text(digests):
    """One step a line."""
    sessions = []
    for name, digest in digests.items():
        lines = ['%s: %s' % (json.dumps(key), json.dumps(digest[key])) for key in digest if key != 'steps']
        steps = ',\n   '.join(json.dumps(step) for step in digest['steps'])
        lines.append('"steps": [\n   %s\n  ]' % steps)
        sessions.append('%s: {\n  %s\n }' % (json.dumps(name), ',\n  '.join(lines)))
    return '{\n %s\n}\n' % ',\n '.join(sessions)


def main(vectors, directory):
    for kind, found in zip(('rssl', 'websocket'), digests(vectors)):
        with open(os.path.join(directory, kind + '.json'), 'w') as f:
            f.write(text(found))


if __name__ == '__main__':
    main(*sys.argv[1:])
