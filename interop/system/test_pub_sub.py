"""`tickcast pub` and `tickcast sub` as two processes, over each transport; and with the libraries for Python and C."""

import json
import os
import subprocess
import tempfile
import unittest

from daemons import binary
from network import Loopback
from process import ROOT, Process, wait_until

TRANSPORTS = ('lbtrm', 'lbtru', 'tcp', 'lbtipc')
TARGET = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))


class Fed(Process):
    """A process that reads what we write."""

    stdin = subprocess.PIPE

    def write(self, data):
        self.child.stdin.write(data)
        self.child.stdin.close()


class PubSub(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.place, self.count = directory.name, Loopback(), 0

    def settings(self, **more):
        more = {'messaging.' + key: value for key, value in more.items()}
        return {**self.place.sets('any'), **more}

    def sets(self, **more):
        return [word for item in self.settings(**more).items() for word in ('--set', '%s=%s' % item)]

    def process(self, name, *words, kind=Process):
        self.count += 1
        process = kind('%s.%d' % (name, self.count), [str(word) for word in words], self.directory)
        self.addCleanup(process.kill)
        return process

    def tickcast(self, command, *words, kind=Process, **more):
        return self.process(command, binary(), command, *words, *self.sets(**more), kind=kind)

    def subscribe(self, *words, **more):
        return self.tickcast('sub', *words, **more)

    def publish(self, *words, **more):
        """(exit status, process)"""
        process = self.tickcast('pub', '--quiet', *words, **more)
        return process.wait(), process

    def lines(self, process):
        return [json.loads(line) for line in process.out().splitlines()]


class EachTransport(PubSub):
    def test_messages_arrive_whole_and_in_order(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                sub = self.subscribe('orders', '--json', '--count', 300)
                words = ('--size', 3000, '--rate', 1000, '--count', 300, '--transport', transport, '--delay', 2)
                connected = () if transport in ('lbtrm', 'lbtipc') else ('--receivers', 1)
                status, pub = self.publish('orders', *words, *connected)
                self.assertEqual(status, 0, pub.log())
                self.assertEqual(sub.wait(), 0, sub.log())
                messages = [line for line in self.lines(sub) if line['ev'] == 'message']
                self.assertEqual(len(messages), 300)
                numbers = [bytes.fromhex(m['hex']) if 'hex' in m else m['text'].encode() for m in messages]
                self.assertEqual([int.from_bytes(n[16:24], 'big') for n in numbers], list(range(300)))
                self.assertEqual({m['length'] for m in messages}, {3000})

    def test_large_messages_arrive_whole(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                sub = self.subscribe('large', '--json', '--hex', '--count', 2)
                words = ('--size', 1 << 20, '--rate', 5, '--count', 2, '--transport', transport, '--delay', 2)
                status, pub = self.publish('large', *words, '--linger', 3)
                self.assertEqual(status, 0, pub.log())
                self.assertEqual(sub.wait(), 0, sub.log())
                lengths = [line['length'] for line in self.lines(sub) if line['ev'] == 'message']
                self.assertEqual(lengths, [1 << 20] * 2)

    def test_a_request_is_answered(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                sub = self.subscribe('questions', '--respond', 'noon', '--count', 2)
                words = ('--request', '--text', 'what time is it', '--rate', 10, '--count', 2, '--linger', 30)
                words += ('--answers', 1, '--transport', transport, '--delay', 2)
                status, pub = self.publish('questions', *words)
                self.assertEqual((status, pub.out()), (0, 'noon\nnoon\n'), pub.log())
                self.assertEqual(sub.wait(), 0, sub.log())


    def test_all_answers_to_a_request_are_shown(self):
        subs = [self.subscribe('votes', '--respond', answer, '--count', 1) for answer in ('no', 'yes')]
        words = ('--request', '--text', 'shall we', '--count', 1, '--delay', 2)
        status, pub = self.publish('votes', *words, '--answers', 2, '--linger', 30)
        self.assertEqual((status, sorted(pub.out().split())), (0, ['no', 'yes']), pub.log())
        self.assertEqual([sub.wait() for sub in subs], [0, 0])
        subs = [self.subscribe('votes', '--respond', answer, '--count', 1) for answer in ('no', 'yes')]
        status, pub = self.publish('votes', *words, '--linger', 4)
        self.assertEqual((status, sorted(pub.out().split())), (0, ['no', 'yes']), 'all of the time it lingers')
        self.assertEqual([sub.wait() for sub in subs], [0, 0])


class Forms(PubSub):
    def test_lines_of_standard_input_are_messages_in_text_hex_and_json(self):
        text = self.subscribe('lines', '--count', 3)
        hexadecimal = self.subscribe('lines', '--count', 3, '--hex')
        objects = self.subscribe('lines', '--count', 3, '--json')
        pub = self.tickcast('pub', 'lines', '--stdin', '--delay', 2, kind=Fed)
        pub.write(b'first\n\nZ\xc3\xbcrich\t\xff')
        self.assertEqual(pub.wait(), 0)
        for sub in (text, hexadecimal, objects):
            self.assertEqual(sub.wait(), 0, sub.log())
        self.assertEqual(text.out(), 'lines 0 first\nlines 1 \nlines 2 Zürich\\t\\xff\n')
        self.assertEqual(hexadecimal.out(), 'lines 0 6669727374\nlines 1 \nlines 2 5ac3bc7269636809ff\n')
        messages = [line for line in self.lines(objects) if line['ev'] == 'message']
        self.assertEqual([m.get('text', m.get('hex')) for m in messages], ['first', '', '5ac3bc7269636809ff'])
        self.assertEqual(messages[0]['topic'], 'lines')

    def test_a_wildcard_receives_what_begins_alike(self):
        sub = self.subscribe('--wildcard', 'px.*', '--count', 2)
        other, _ = self.publish('other', '--text', 'no', '--count', 1)
        for topic in ('px.a', 'px.b'):
            status, _ = self.publish(topic, '--text', topic, '--count', 1, '--delay', 2)
            self.assertEqual(status, 0)
        self.assertEqual((sub.wait(), other), (0, 0))
        self.assertEqual(sub.out(), 'px.a 0 px.a\npx.b 0 px.b\n')

    def test_statistics_tell_rate_and_latency(self):
        sub = self.subscribe('load', '--quiet', '--json', '--until-end')
        status, _ = self.publish('load', '--rate', 1000, '--seconds', 2.5, '--delay', 2)
        self.assertEqual((status, sub.wait()), (0, 0), sub.log())
        lines = self.lines(sub)
        self.assertGreaterEqual(sum(line['ev'] == 'statistics' for line in lines), 2)
        total = lines[-1]
        self.assertEqual((total['ev'], total['lost'], total['bytes']), ('total', 0, 64 * total['messages']))
        # A message that is due with the end of the time is sent or not.
        self.assertIn(total['messages'], range(2000, 2502))
        self.assertEqual(total['latency']['count'], total['messages'])
        self.assertGreater(total['latency']['max_ns'], 0)

    def test_help_teaches(self):
        for command, words in (('pub', ('--rate', 'Exit status', '--request')), ('sub', ('--quiet', 'Exit status'))):
            process = self.process('help', binary(), command, '--help')
            self.assertEqual(process.wait(), 0)
            for word in words:
                self.assertIn(word, process.out())


class ExitStatus(PubSub):
    def test_wrong_usage_and_configuration_are_2(self):
        for words, said in (
            (('pub', 'x', '--rate', '0'), '--rate'),
            (('pub', 'x', '--transport', 'pigeon'), 'lbtrm'),
            (('pub', 'x', '--text', 'a', '--stdin'), '--stdin'),
            (('pub', 'x', '--set', 'messaging.tll=1'), 'ttl'),
            (('pub',), 'TOPIC'),
            (('sub', 'x', '--seconds', 'soon'), '--seconds'),
            (('sub', '--wildcard', 'a*b'), '*'),
            (('sub', 'x' * 300), 'x'),
            (('sub', 'x', '--config', '/nonexistent.toml'), '/nonexistent.toml'),
        ):
            with self.subTest(' '.join(words)):
                process = self.process('wrong', binary(), *words)
                self.assertEqual(process.wait(), 2, process.tail())
                self.assertIn(said, process.log())
                self.assertEqual(process.out(), '')

    def test_too_few_messages_are_1(self):
        sub = self.subscribe('nobody', '--count', 1, '--seconds', 0.3)
        self.assertEqual(sub.wait(), 1)
        self.assertIn('0 messages came, 1 were wanted', sub.log())

    def test_a_request_that_nobody_answers_is_1(self):
        status, pub = self.publish('nobody', '--request', '--text', 'hello', '--count', 1, '--linger', 0.2)
        self.assertEqual(status, 1)
        self.assertIn('0 of 1 requests were answered', pub.log())

    def test_loss_is_1(self):
        # A receiver that is stopped for longer than the socket's buffer lasts, and may not ask for what it missed.
        more = {
            'lbtrm.receiver_socket_buffer_bytes': 65536,
            'lbtrm.send_naks': 'false',
        }
        sub = self.subscribe('lossy', '--quiet', '--until-end', **more)
        pub = self.tickcast('pub', 'lossy', '--size', 1000, '--rate', 2000, '--quiet', '--delay', 1)
        wait_until(lambda: 'begins' in sub.log(), 'the first message', [sub, pub])
        sub.hold()
        before = self.sent_bytes(pub)
        wait_until(lambda: self.sent_bytes(pub) > before + 4_000_000, 'more than the buffer', [pub])
        sub.go_on()
        wait_until(lambda: ' lost' in sub.log() or 'are lost' in sub.log(), 'loss', [sub, pub])
        self.assertEqual(pub.end(), 0)
        self.assertEqual(sub.wait(), 1, sub.log())
        self.assertRegex(sub.log(), r'tickcast: \d+ messages were lost')

    def sent_bytes(self, process):
        """What the process has written so far, about: bytes at 1,000 a message and 2,000 messages a second."""
        ticks = os.sysconf('SC_CLK_TCK')
        with open('/proc/%d/stat' % process.pid) as stat, open('/proc/uptime') as uptime:
            started = int(stat.read().rsplit(')', 1)[1].split()[19]) / ticks
            return (float(uptime.read().split()[0]) - started) * 2_000_000

    def test_being_stopped_is_0(self):
        pub = self.tickcast('pub', 'endless', '--quiet')
        pub.wait_says('publishing')
        sub = self.subscribe('endless')
        wait_until(lambda: 'endless' in sub.out() or 'begins' in sub.log(), 'a message', [pub, sub])
        self.assertEqual((pub.end(), sub.end()), (0, 0))


class Languages(PubSub):
    """Python and C against the program, across processes."""

    def interpreter(self):
        path = os.path.join(TARGET, 'python-package', 'bin', 'python')
        if not os.access(path, os.X_OK):
            self.skipTest('no Python package in %s: bindings/python/test.sh installs it' % path)
        return path

    def c(self, name):
        path = os.path.join(TARGET, 'tmp', name)
        if not os.access(path, os.X_OK):
            self.skipTest('no C example %s: cargo test -p tickcast-c compiles it' % path)
        return path

    def plain(self):
        return ['%s=%s' % (key.removeprefix('messaging.'), value) for key, value in self.settings().items()]

    def example(self, language, name, *words):
        if language == 'python':
            path = os.path.join(ROOT, 'bindings', 'python', 'examples', name + '.py')
            return self.process(name, self.interpreter(), '-u', path, *words, *self.plain())
        return self.process(name, self.c(name), *words, *self.plain())

    def test_what_they_publish_the_program_hears(self):
        for language in ('python', 'c'):
            with self.subTest(language):
                sub = self.subscribe('from.them', '--until-end', '--json')
                publisher = self.example(language, 'publish', 'from.them', '20')
                self.assertEqual(publisher.wait(), 0, publisher.log())
                self.assertEqual(sub.wait(), 0, sub.log())
                texts = [line['text'] for line in self.lines(sub) if line['ev'] == 'message']
                self.assertEqual(texts[-1], 'message 19')
                self.assertEqual(texts, ['message %d' % i for i in range(20 - len(texts), 20)])

    def test_what_the_program_publishes_they_hear(self):
        subscribers = [self.example(language, 'subscribe', 'to.them') for language in ('python', 'c')]
        status, _ = self.publish('to.them', '--text', 'hello', '--rate', 10, '--count', 20, '--delay', 2)
        self.assertEqual(status, 0)
        for subscriber in subscribers:
            self.assertEqual(subscriber.wait(), 0, subscriber.log())
            self.assertEqual(subscriber.out().splitlines(), ['%d hello' % i for i in range(20)])

    def test_they_ask_each_other(self):
        for asks, answers in (('python', 'c'), ('c', 'python')):
            with self.subTest('%s asks %s' % (asks, answers)):
                responder = self.example(answers, 'respond', 'between.them')
                for text in ('a question', 'stop'):
                    request = self.example(asks, 'request', 'between.them', text)
                    self.assertEqual((request.wait(), request.out()), (0, text + '\n'), request.log())
                self.assertEqual(responder.wait(), 0, responder.log())


if __name__ == '__main__':
    unittest.main()
