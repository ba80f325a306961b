"""The EMA tools of ../java in processes: a consumer that judges, providers of made-up data, a sink.

The older `consumers.JavaConsumer` watches until it is told to end; these run by themselves.
"""

import json
import os
import subprocess

from consumers import JAR, JAVA
from process import ROOT, Follower, Process, wait_until

# The library's provider wants room for its buffers.
JAVA_PROVIDER = ['java', '-Xmx1g', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-jar']
DICTIONARY = os.path.join(ROOT, 'data', 'dictionary')
WITH_DICTIONARY = [
    *('--field-dictionary', os.path.join(DICTIONARY, 'tickcast-fields.dic')),
    *('--enum-dictionary', os.path.join(DICTIONARY, 'tickcast-enums.def')),
]
TLS = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')


class JavaTool(Process):
    """A tool; `events` are what it has told so far."""

    stdin = subprocess.PIPE

    def start(self):
        self.events = []
        super().start()
        self.follower = Follower(self.out_path)

    def look(self):
        """Those of the events that are new."""
        new = [json.loads(line) for line in self.follower.lines()]
        self.events += new
        return new

    def told(self, ev, **parts):
        """The events of this name whose parts are so."""
        self.look()
        return [e for e in self.events if e['ev'] == ev and all(e.get(k) == v for k, v in parts.items())]

    def wait_told(self, ev, count=1, **parts):
        said = '%s tells %s %s' % (self.name, ev, parts)
        wait_until(lambda: len(self.told(ev, **parts)) >= count, said, [self])
        return self.told(ev, **parts)

    def result(self):
        """(exit status, result event, {(item, domain): final event}) when it has ended by itself."""
        status = self.wait()
        self.look()
        finals = {(e['item'], e['domain']): e for e in self.events if e['ev'] == 'final'}
        return status, self.events[-1] if self.events else None, finals

    def command(self, text):
        """Tells a provider what to do, and waits until it is done."""
        self.look()
        self.child.stdin.write(text.encode() + b'\n')
        answers = []
        new = lambda: [e for e in self.look() if e['ev'] in ('done', 'error')]
        is_answered = lambda: answers.extend(new()) or answers
        wait_until(is_answered, '%s answers %r' % (self.name, text), [self])
        if answers[0]['ev'] == 'error':
            raise AssertionError('%s: %s' % (text, answers[0]['text']))


def interactive(directory, port, *options, name='iprovider'):
    """An interactive provider, which listens when this returns."""
    words = [*JAVA_PROVIDER, JAR, 'iprovider', *WITH_DICTIONARY, '--port', str(port), *options]
    provider = JavaTool(name, words, directory)
    provider.wait_told('ready')
    return provider


def non_interactive(directory, port, *options, name='niprovider'):
    """A provider that connects to a port of this machine."""
    words = [*JAVA_PROVIDER, JAR, 'niprovider', *WITH_DICTIONARY, '--host', 'localhost:%d' % port, *options]
    return JavaTool(name, words, directory)


def consumer(directory, port, *options, name='consumer'):
    """A consumer of a port of this machine; `options` name the service and the items."""
    return JavaTool(name, [*JAVA, JAR, 'consumer', '--host', 'localhost:%d' % port, *options], directory)


def dialled(name, port):
    """Settings of a source distributor that dials a provider at a port of this machine."""
    return {'source_distributor.interactive': '[{ name = "%s", hosts = ["127.0.0.1:%d"] }]' % (name, port)}


def numbered(name, number):
    """Settings of a source distributor that give a service its number."""
    return {'source_distributor.services': '[{ name = "%s", id = %d }]' % (name, number)}
