"""Recorded sessions of real clients, played again against running daemons: the answers must be alike.

What is compared, and what is not: sessions.py. Recordings that never reach a login have no digest; all others are played.
"""

import json
import os
import unittest

import java_tools
from ports import free_ports
from process import ROOT
from replay import Different, JsonReplay, RsslReplay
from sessions import digests, is_update, text
from system_test import SystemTest

SESSIONS = os.path.join(ROOT, 'interop', 'testdata', 'sessions')
VECTORS = os.path.join(ROOT, '..', 'shared', 'vectors')
ITEMS = 'TEST.1,TEST.2,BIG.1,BOOK.1,SYM.LIST,TRI.N,IBM.N,T.N,A.N,B.N'

# Sessions whose server refuses the user: this one has a list with another in it.
REFUSED = ('login_reject', 'lseg_data_login_denied')
# What the server of a recording did otherwise, and why this one may differ: [(its answer, ours), ...].
REFERENCE_LOGIN = (
    # What a client may do comes with the login; the server of these sessions, a bare provider, sent nothing.
    ['Refresh', 'Login', 1, 'None', ['Open', 'Ok', None]],
    ['Refresh', 'Login', 1, 'Elements', ['Open', 'Ok', None]],
)
DIFFERENT = {
    # Nothing comes after the image of a snapshot; that provider said Open whatever it was asked.
    'snapshot_private': [
        (['REFRESH', 6, 5, 'FIELD_LIST', [1, 1, 0]], ['REFRESH', 6, 5, 'FIELD_LIST', [2, 1, 0]]),
    ],
    'reference_server_python_market_price': [REFERENCE_LOGIN],
    'reference_server_python_posting': [REFERENCE_LOGIN],
    'reference_server_ema_json': [
        REFERENCE_LOGIN,
        # The source of these sessions put a field list where a book belongs.
        (
            ['Refresh', 'MarketByOrder', 9, 'Fields', ['Open', 'Ok', None]],
            ['Refresh', 'MarketByOrder', 9, 'Map', ['Open', 'Ok', None]],
        ),
        (['Update', 'MarketPrice', 9, 'Fields', None], ['Update', 'MarketByOrder', 9, 'Map', None]),
    ],
}
# The provider of these sessions did something at a certain point: stream, what has come on it, the command.
PROMPTS = {
    'provider_close': (5, 'status 6 TEST.1 Closed Suspect 0 stream ended by provider'),
}
# How its provider answered posts, if not with an acknowledgement.
POSTS = {'test_nack': 'ACCESS_DENIED'}
PROVIDER_SIDE = ('ni', 'ni_lz4')


def load(kind):
    with open(os.path.join(SESSIONS, kind + '.json')) as f:
        return json.load(f)


def adapted(name, steps):
    """The steps with what may differ put in place."""
    different = DIFFERENT.get(name, ())
    ours = lambda summary: next((ours for theirs, ours in different if theirs == summary), summary)
    of_wait = lambda content: [ours(summary) for summary in content]
    return [[kind, of_wait(content) if kind == 'wait' else content] for kind, content in steps]


class Daemons(SystemTest):
    """A provider of the recordings' items, a source distributor, a P2PS."""

    PROVIDER = ()

    @classmethod
    def scenario(cls):
        system = cls.system()
        port = free_ports()
        options = ['--service', cls.SERVICE, '--rate', '20', '--items', ITEMS, *cls.PROVIDER]
        cls.provider = java_tools.interactive(cls.directory, port, *options)
        cls.keep(cls.provider)
        sets = java_tools.dialled('replayed', port) | java_tools.numbered(cls.SERVICE, cls.SERVICE_ID)
        cls.distributor = system.source_distributor(sets=sets)
        cls.p2ps = system.p2ps()
        cls.strict = system.p2ps(name='strict', sets={'p2ps.users_file': cls.users_file()})
        cls.provider_port = system.provider_port
        cls.provider.wait_told('login')
        for server in (cls.p2ps, cls.strict):
            system.wait_serving(server, cls.SERVICE)

    @classmethod
    def users_file(cls):
        path = os.path.join(cls.directory, 'users.toml')
        with open(path, 'w') as f:
            f.write('[[user]]\nname = "somebody-else"\n')
        return path

    def server(self, name):
        return self.strict if name in REFUSED else self.p2ps

    def prompt(self, name):
        """Tells the provider what it did in the recording, when updates have come on the stream."""
        if name not in PROMPTS:
            return None
        stream, command = PROMPTS[name]
        told = []

        def tell(answers):
            if not told and any(map(is_update, answers.streams.get(stream, ()))):
                told.append(self.provider.command(command))

        return tell


class Rssl(Daemons):
    SERVICE, SERVICE_ID = 'DIRECT_FEED', 1

    def setUp(self):
        self.provider.command('posts ' + POSTS.get(self._testMethodName, 'ack'))

    def play(self, name, session):
        port = self.provider_port if name in PROVIDER_SIDE else self.server(name).port
        steps, compression = adapted(name, session['steps']), session['compression']
        try:
            RsslReplay(port, steps, self.prompt(name), compression=compression).run()
        except Different as e:
            self.fail(e)


class WebSocket(Daemons):
    """The servers of these recordings published what was posted, and did not answer generic messages."""

    SERVICE, SERVICE_ID = 'ELEKTRON_DD', 257
    PROVIDER = ('--publish-posts', '--no-echo')

    def play(self, name, session):
        try:
            JsonReplay(self.server(name).websocket_port, adapted(name, session['steps'])).run()
        except Different as e:
            self.fail(e)


class Recordings(unittest.TestCase):
    """The committed digests against the recordings themselves."""

    @unittest.skipUnless(os.path.isdir(VECTORS), 'the recordings are not at hand: ../shared/vectors')
    def test_the_digests_are_those_of_the_recordings(self):
        for kind, found in zip(('rssl', 'websocket'), digests(VECTORS)):
            with open(os.path.join(SESSIONS, kind + '.json')) as f:
                self.assertEqual(f.read(), text(found), kind)


def add_tests(case, kind):
    """A test for each session, `test_` and its name."""
    for name, session in load(kind).items():
        test = lambda self, name=name, session=session: self.play(name, session)
        setattr(case, 'test_' + name, test)


add_tests(Rssl, 'rssl')
add_tests(WebSocket, 'websocket')

if __name__ == '__main__':
    unittest.main()
