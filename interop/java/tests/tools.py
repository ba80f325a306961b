"""Runs the Java tools as processes for tests: reads their events, waits for them, never sleeps for luck."""

import json
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'system'))

from ports import free_ports

JAR = os.path.join(HERE, '..', 'target', 'tickcast-interop.jar')
DICTIONARY = os.path.join(HERE, '..', '..', '..', 'data', 'dictionary')
SUFFIX = {'field': 'dic', 'enum': 'def'}
WATCHDOG_S = 60


class Tool:
    """A process that writes one JSON object a line; `events` are those read so far."""

    def __init__(self, words, cwd=None):
        if not os.path.exists(JAR):
            raise AssertionError('build the tools first: mvn package in interop/java')
        self.words = words
        self.events = []
        self.arrived = threading.Condition()
        self.closed = False
        self.process = subprocess.Popen(
            words,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding='utf-8',
        )
        self.log = []
        self.threads = [threading.Thread(target=self._read_events), threading.Thread(target=self._read_log)]
        for thread in self.threads:
            thread.start()

    def _read_events(self):
        for line in self.process.stdout:
            with self.arrived:
                self.events.append(json.loads(line))
                self.arrived.notify_all()
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()

    def _read_log(self):
        self.log.extend(self.process.stderr)

    def wait_for(self, wanted, start=0):
        """The first event from `start` on for which `wanted` holds, and the position after it."""
        with self.arrived:
            position = start
            while True:
                for i in range(position, len(self.events)):
                    if wanted(self.events[i]):
                        return self.events[i], i + 1
                position = len(self.events)
                if self.closed or not self.arrived.wait(WATCHDOG_S):
                    raise AssertionError(
                        'never came from %s; events: %s\nlog: %s'
                        % (
                            self.words,
                            '\n'.join(map(json.dumps, self.events))[-4000:],
                            ''.join(self.log)[-4000:],
                        )
                    )

    def wait_ev(self, ev, start=0, **parts):
        """Waits for an event of this name whose parts are so."""
        return self.wait_for(lambda e: e['ev'] == ev and all(e.get(k) == v for k, v in parts.items()), start)[
            0
        ]

    def finish(self):
        """(exit status, events) when it has ended by itself."""
        status = self.process.wait(WATCHDOG_S)
        for thread in self.threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        return status, self.events

    def kill(self):
        """Ends it at once, without any good-bye to its peers."""
        self.process.kill()
        self.finish()


class Provider(Tool):
    """The scripted provider. `command` returns when it has been carried out."""

    def __init__(
        self,
        port,
        service='TEST',
        options=(),
        images=(),
        fields=os.path.join(HERE, 'all-types.dic'),
        enums=os.path.join(HERE, 'all-types.def'),
    ):
        # The library's provider needs room for its buffers.
        super().__init__(
            [
                'java',
                '-Xmx1g',
                '-XX:+UseSerialGC',
                '-XX:TieredStopAtLevel=1',
                '-jar',
                JAR,
                'provider',
                '--port',
                str(port),
                '--service',
                service,
                '--field-dictionary',
                fields,
                '--enum-dictionary',
                enums,
            ]
            + list(options)
        )
        # What it is to answer is known before anybody can ask.
        for image in images:
            self.command('image ' + image)
        self.send('listen')
        self.wait_ev('ready')

    def send(self, text):
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()

    def command(self, text):
        start = len(self.events)
        self.send(text)
        event, _ = self.wait_for(lambda e: e['ev'] in ('done', 'error'), start)
        if event['ev'] == 'error':
            raise AssertionError('%s: %s' % (text, event))


class Commanded(Tool):
    """A provider of made-up data. `command` returns when it has been carried out."""

    def __init__(self, tool, options):
        words = ['java', '-Xmx1g', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-jar', JAR, tool]
        for name in ('field', 'enum'):
            path = os.path.join(DICTIONARY, 'tickcast-%ss.%s' % (name, SUFFIX[name]))
            words += ['--%s-dictionary' % name, path]
        super().__init__(words + list(options))

    def command(self, text):
        start = len(self.events)
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()
        event, _ = self.wait_for(lambda e: e['ev'] in ('done', 'error'), start)
        if event['ev'] == 'error':
            raise AssertionError('%s: %s' % (text, event))


class InteractiveProvider(Commanded):
    """`iprovider`; ready when the constructor returns."""

    def __init__(self, port, *options):
        super().__init__('iprovider', ['--port', str(port), *options])
        self.wait_ev('ready')


class NonInteractiveProvider(Commanded):
    def __init__(self, port, *options):
        super().__init__('niprovider', ['--host', 'localhost:%d' % port, *options])


class Sink(Tool):
    """`nisink`; ready when the constructor returns."""

    def __init__(self, port, *options):
        super().__init__(['java', '-Xmx256m', '-XX:TieredStopAtLevel=1', '-jar', JAR, 'nisink']
                         + ['--port', str(port), *options])
        self.wait_ev('ready')


class Consumer(Tool):
    def __init__(self, port, *options, service='TEST', java=()):
        super().__init__(
            ['java', '-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
            + list(java)
            + ['-jar', JAR, 'consumer', '--host', 'localhost:%d' % port]
            + (['--service', service] if service else [])
            + list(options)
        )

    def result(self):
        """(exit status, result event, {(item, domain): final event}) at its end."""
        status, events = self.finish()
        if not events or events[-1]['ev'] != 'result':
            raise AssertionError(
                'the last event is no result: %s\n%s' % (events[-1:], ''.join(self.log)[-4000:])
            )
        finals = {(e['item'], e['domain']): e for e in events if e['ev'] == 'final'}
        return status, events[-1], finals
