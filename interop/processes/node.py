"""A node of the random tests of real processes, in Python: node.py DIRECTORY NAME LIFETIME_S [KEY=VALUE]...

README.md says what it is told and what it writes.
"""

import os
import signal
import sys
import threading
import time

import tickcast

HEAD, LONGEST, AT_ONCE, WHILE_CLOSING = 8, 20000, 1000, 200
JOIN_S = 300
PATTERN = bytes(range(256)) * (LONGEST // 256 + 2)


def length_of(run, index):
    mixed = (run * 2654435761 + index * 40503) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    kind = mixed % 200
    return LONGEST if kind == 0 else 3000 if kind < 10 else HEAD + (mixed >> 8) % 200


def payload(length, run, index):
    at = (HEAD + run * 7 + index * 13) & 255
    return run.to_bytes(4, 'big') + index.to_bytes(4, 'big') + PATTERN[at : at + length - HEAD]


class Run:
    def __init__(self, source):
        self.source, self.next, self.wanted, self.is_tried = source, 0, 0, False


class Node:
    def __init__(self, directory, lifetime_s, settings):
        self.directory, self.until, self.settings = directory, time.monotonic() + lifetime_s, settings
        self.context, self.is_open, self.runs = None, False, {}
        self.driver = None  # a thread that drives the context, if this one does not

    def begin(self, name):
        path = os.path.join(self.directory, name)
        self.commands = os.open(path + '.cmd', os.O_RDONLY | os.O_CREAT, 0o600)
        self.log = os.open(path + '.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.told = b''
        self.say('start %d' % os.getpid())

    def say(self, line):
        """One line is one write to a file that is appended to: what was written stays, however the process ends."""
        line = line.replace('\n', ' ').encode() + b'\n'
        if os.write(self.log, line) != len(line):
            os._exit(71)

    def hear(self, event):
        kind = event.KIND
        if kind == 'message':
            octets = bytes(event)
            run, index = int.from_bytes(octets[:4], 'big'), int.from_bytes(octets[4:8], 'big')
            is_whole = HEAD <= len(octets) <= LONGEST and octets == payload(len(octets), run, index)
            self.say('message %d %d %d %d %d %d %d %d' % (
                event.receiver_id, event.stream, event.first_sqn, event.sqn, run, index, len(octets), is_whole))
        elif kind == 'source':
            self.say('found %d %d %s %s' % (event.receiver_id, event.stream, event.topic, event.source))
        elif kind == 'begin':
            self.say('begin %d %d %d' % (event.receiver_id, event.stream, event.first))
        elif kind == 'loss':
            self.say('loss %d %d %d %d' % (event.receiver_id, event.stream, event.first, event.count))
        elif kind == 'end':
            next = '-' if event.next is None else event.next
            self.say('end %d %d %s %s %d' % (event.receiver_id, event.stream, event.reason, next, event.is_tail_unknown))

    def misuse(self):
        """What its parent has made does nothing in a child."""
        calls = [self.context.poll, self.context.flush, lambda: self.context.drain(0), lambda: self.context.source('px')]
        calls += [lambda run=run: run.source.send(b'', flush=True) for run in self.runs.values()]
        for number, call in enumerate(calls):
            try:
                call()
            except tickcast.ForkedError:
                continue
            self.say('error call %d in a child was not refused' % number)
            os._exit(75)
        self.say('inert')

    def obey(self, line):
        verb, *words = line.split()
        if verb == 'open':
            # A parent's goes, in a child.
            self.runs, self.context = {}, tickcast.Context(**self.settings)
            self.is_open = True
            if words == ['thread']:
                self.driver = threading.Thread(target=self.drive, args=(self.context,), daemon=True)
                self.driver.start()
            self.say('opened')
        elif verb == 'source':
            run, topic, transport = words
            self.runs[int(run)] = Run(self.context.source(topic, transport=transport))
            self.say('source %s %s %s' % (run, topic, transport))
        elif verb == 'send':
            number, run = int(words[0]), self.runs[int(words[0])]
            run.wanted += int(words[1])
            self.send_some(number, run)
        elif verb == 'delete':
            self.say('deleting %s' % words[0])
            self.runs.pop(int(words[0])).source.close()
            self.say('deleted %s' % words[0])
        elif verb == 'receive':
            self.say('receiving %d %s' % (self.context.receiver(words[0]).id, words[0]))
        elif verb == 'fork':
            self.fork(words[0])
        elif verb == 'close':
            self.close(int(words[0]) / 1e9)
            sys.exit(0)
        elif verb == 'exit':
            sys.exit(0)
        else:
            self.say('error not understood: ' + line)
            os._exit(77)

    def drive(self, context):
        """Hears what comes until the context is closed."""
        try:
            while True:
                for event in context.wait(1):
                    self.hear(event)
        except tickcast.ClosedError:
            pass
        except BaseException as error:
            self.say('error in the driving thread: %r' % error)
            os._exit(79)

    def close(self, linger_s):
        """Another thread closes a context that a thread drives, while this one goes on sending until it is refused."""
        self.say('closing')
        left = []
        if self.driver is None:
            left.append(self.context.close(linger=linger_s))
        else:
            closer = threading.Thread(target=lambda: left.append(self.context.close(linger=linger_s)), daemon=True)
            closer.start()
            for run in self.runs.values():
                run.wanted += WHILE_CLOSING
            while closer.is_alive():
                for number, run in self.runs.items():
                    try:
                        self.send_some(number, run, 1)
                    except tickcast.ClosedError:
                        pass
                closer.join(0.0001)
            for thread in (closer, self.driver):
                thread.join(JOIN_S)
                if thread.is_alive():
                    self.say('error %s does not end' % thread)
                    os._exit(80)
        self.say('closed %d %d' % (left[0].messages, left[0].bytes))

    def fork(self, name):
        if os.fork() > 0:
            return
        os.close(self.commands)
        os.close(self.log)
        self.begin(name)
        if self.context is not None:
            self.misuse()
        self.is_open, self.driver = False, None

    def listen(self):
        """Does what it is told, line by line."""
        while True:
            self.told += os.read(self.commands, 4096)
            line, newline, rest = self.told.partition(b'\n')
            if not newline:
                return
            self.told = rest
            self.obey(line.decode())

    def send_some(self, number, run, most=AT_ONCE):
        for _ in range(most):
            if run.next == run.wanted:
                return
            octets = payload(length_of(number, run.next), number, run.next)
            # Said before it is done: of each source at most one message is known to be sent or not.
            if not run.is_tried:
                self.say('try %d %d %d' % (number, run.next, len(octets)))
            run.is_tried = True
            try:
                sqn = run.source.send(octets)
            except tickcast.WouldBlockError:
                return
            self.say('sent %d %d %d' % (number, run.next, sqn))
            run.is_tried, run.next = False, run.next + 1

    def live(self):
        while True:
            self.listen()
            if time.monotonic() > self.until:
                os._exit(78)
            if not self.is_open:
                time.sleep(0.005)
                continue
            for number, run in self.runs.items():
                self.send_some(number, run)
            if self.driver is not None:
                time.sleep(0.002)
                continue
            for event in self.context.wait(0.002):
                self.hear(event)


def main():
    directory, name, lifetime_s, *settings = sys.argv[1:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children
    node = Node(directory, float(lifetime_s), dict(setting.split('=', 1) for setting in settings))
    node.begin(name)
    try:
        node.live()
    except Exception as error:
        node.say('error %r' % error)
        raise


if __name__ == '__main__':
    main()
