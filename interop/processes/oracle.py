"""What is right, from the application's side: of each source and receiver, *sent = delivered + reported lost, in order*.

A `Ledger` reads the logs of all nodes as they grow, so that a driver can wait for what must come; `verdict` says what is
wrong when all nodes are over. It goes by what the logs say and by no time: it holds however slow the machine was.
"""


class Run:
    """A source from its creation on."""

    def __init__(self, node, number, topic):
        self.node, self.number, self.topic = node, number, topic
        # (topic number of the last fragment, length) of each message; no number, if the library's thread gives it
        self.sent = []
        self.is_numbered = True
        self.tried = None  # (index, length) of one of which nobody knows whether it was sent
        self.is_ending = self.is_over = False  # its deletion has begun, is done

    @property
    def next(self):
        """The topic number behind everything that is known to be sent, if numbers are known."""
        return self.sent[-1][0] + 1 if self.sent else 0

    @property
    def most(self):
        """A number that nothing reaches, of what was sent or may have been. Longer messages are fragments."""
        uncertain = 0 if self.tried is None else fragments_most(self.tried[1])
        if self.is_numbered:
            return self.next + uncertain
        return sum(fragments_most(length) for _, length in self.sent) + uncertain

    def knows_all(self, stream):
        """Whether a stream has told all of what was sent."""
        if self.is_numbered:
            return stream.next == self.next
        return stream.last_index == len(self.sent) - 1

    def lacks(self, stream):
        """At least so many numbers were sent of which a stream has told nothing."""
        if self.is_numbered:
            return self.next - (stream.next or 0)
        if stream.last_index is None:
            return 0
        # Each message behind the last one that was delivered has a number or more.
        return len(self.sent) - 1 - stream.last_index - (stream.next - stream.after_last)

    @property
    def sends(self):
        return self.node.state == 'open' and not self.is_ending

    @property
    def may_have_ended(self):
        """Whether its receivers may have been told that it is over."""
        return self.is_ending or self.node.is_closing


def fragments_most(length):
    return length // 500 + 1


class Stream:
    """A source as one receiver hears it."""

    def __init__(self, name, topic, session):
        self.name, self.topic, self.session = name, topic, session
        self.run = None  # the number of the run, known by the first message
        self.first = self.next = None
        self.last_index = self.after_last = None  # of the last message that was delivered
        self.lost_to = 0
        self.end = None  # (reason, next, whether the tail is unknown)


class Node:
    """A process, and what it has logged."""

    def __init__(self, name, path):
        self.name, self.path, self.offset, self.rest = name, path, 0, b''
        self.pid, self.state, self.is_closing = None, 'new', False  # then open, closed, killed
        self.left = 0  # messages that had not left when it was closed
        self.is_inert = False  # as a child, it was refused what is its parent's
        self.receivers = {}  # the topic of each
        self.streams = {}  # by receiver and number
        self.latest = {}  # by receiver and run
        self.reached = {}  # by receiver and run: up to where its streams have told

    def lines(self):
        """Whole lines that have come since the last time: who is killed may leave a part of one."""
        try:
            with open(self.path, 'rb') as log:
                log.seek(self.offset)
                read = log.read()
        except FileNotFoundError:
            return []
        self.offset += len(read)
        *lines, self.rest = (self.rest + read).split(b'\n')
        return [line.decode() for line in lines]


class Ledger:
    def __init__(self):
        self.nodes, self.runs, self.wrong = {}, {}, []
        self.messages = []  # (stream, run, index, topic numbers, length, whether it is whole)
        self.counts = dict.fromkeys(('sent', 'delivered', 'lost', 'streams', 'ended', 'cut_off', 'left'), 0)

    def add(self, name, path):
        self.nodes[name] = Node(name, path)
        return self.nodes[name]

    def read(self):
        """Takes what was logged since the last time."""
        for node in self.nodes.values():
            for line in node.lines():
                verb, *words = line.split(' ')
                getattr(self, '_' + verb)(node, *words)

    # What a node does as a sender.

    def _start(self, node, pid):
        node.pid = int(pid)

    def _opened(self, node):
        node.state = 'open'

    def _inert(self, node):
        node.is_inert = True

    def _error(self, node, *words):
        self.wrong.append('%s: %s' % (node.name, ' '.join(words)))

    def _source(self, node, run, topic, _transport):
        self.runs[int(run)] = Run(node, int(run), topic)

    def _try(self, node, run, index, length):
        self.runs[int(run)].tried = (int(index), int(length))

    def _sent(self, node, run, index, sqn):
        run = self.runs[int(run)]
        tried, length = run.tried
        run.is_numbered = sqn != '-'
        if tried != int(index) or tried != len(run.sent) or run.is_numbered and int(sqn) < run.next:
            self.wrong.append('%s: message %s of run %d is sent as %s after %s' % (node.name, index, run.number, sqn, run.sent[-1:]))
        run.sent.append((int(sqn) if run.is_numbered else None, length))
        run.tried = None
        self.counts['sent'] += 1

    def _deleting(self, node, run):
        self.runs[int(run)].is_ending = True

    def _deleted(self, node, run):
        self.runs[int(run)].is_over = True

    def _closing(self, node):
        node.is_closing = True
        for run in self.runs.values():
            run.is_ending |= run.node is node

    def _closed(self, node, messages, _bytes):
        node.state = 'closed'
        node.left = int(messages)
        self.counts['left'] += int(messages)
        for run in self.runs.values():
            run.is_over |= run.node is node

    # What it is told as a receiver.

    def _receiving(self, node, receiver, topic):
        node.receivers[receiver] = topic

    def _found(self, node, receiver, stream, topic, session):
        self.counts['streams'] += 1
        name = '%s: stream %s of %s at %s' % (node.name, stream, topic, session)
        if (receiver, stream) in node.streams:
            self.wrong.append('%s is found twice' % name)
        node.streams[receiver, stream] = Stream(name, topic, session)

    def _stream(self, node, receiver, number):
        """A stream of which something is told; one that was not found is wrong, and taken as if it was."""
        stream = node.streams.get((receiver, number))
        if stream is None:
            self._found(node, receiver, number, '?', '?')
            stream = node.streams[receiver, number]
            self.wrong.append('%s was never found' % stream.name)
        if stream.end is not None:
            self.wrong.append('%s: something after its end' % stream.name)
        return stream

    def _advance(self, stream, first, next):
        if stream.next is None or first != stream.next:
            self.wrong.append('%s: %d to %d where %s comes next' % (stream.name, first, next, stream.next))
        stream.next = next

    def _begin(self, node, receiver, number, first):
        stream = self._stream(node, receiver, number)
        if stream.first is not None:
            self.wrong.append('%s begins twice' % stream.name)
        stream.first = stream.next = int(first)

    def _message(self, node, receiver, number, first, last, run, index, length, is_whole):
        stream, run = self._stream(node, receiver, number), int(run)
        self._advance(stream, int(first), int(last) + 1)
        self.counts['delivered'] += 1
        stream.last_index, stream.after_last = int(index), int(last) + 1
        self.messages.append((stream, run, int(index), (int(first), int(last)), int(length), is_whole == '1'))
        key = receiver, run
        if stream.run is None:
            stream.run = run
            node.latest[key] = stream
            reached = node.reached.get(key, stream.first)
            if reached != stream.first:
                self.wrong.append('%s: run %d was told up to %d and goes on at %s' % (stream.name, run, reached, stream.first))
        elif stream.run != run:
            self.wrong.append('%s: a message of run %d in the stream of run %d' % (stream.name, run, stream.run))
        node.reached[key] = stream.next

    def _loss(self, node, receiver, number, first, count):
        stream, next = self._stream(node, receiver, number), int(first) + int(count)
        self._advance(stream, int(first), next)
        self.counts['lost'] += int(count)
        stream.lost_to = next
        if stream.run is not None:
            node.reached[receiver, stream.run] = next

    def _end(self, node, receiver, number, reason, next, is_tail_unknown):
        stream = self._stream(node, receiver, number)
        next = None if next == '-' else int(next)
        stream.end = reason, next, is_tail_unknown == '1'
        self.counts['ended' if reason == 'ended' else 'cut_off'] += 1
        if next != stream.next:
            self.wrong.append('%s ends at %s where %s comes next' % (stream.name, next, stream.next))
        if stream.run is None and stream.first is not None:
            # Nothing but loss was told of it. Of which run, an earlier stream of the session says.
            for (of, run), reached in node.reached.items():
                before = node.latest[of, run]
                if of == receiver and reached == stream.first and before.session == stream.session:
                    node.reached[of, run], stream.run = stream.next, run
                    stream.last_index, stream.after_last = before.last_index, before.after_last
                    break

    # What must come, and what is wrong.

    def _pairs(self, names):
        """Sources that send, and who of these nodes should hear them: (run, node, the stream of it or None)."""
        for run in self.runs.values():
            if not run.sends:
                continue
            for node in (self.nodes[name] for name in names):
                for receiver, topic in node.receivers.items():
                    if topic == run.topic and node is not run.node:
                        yield run, node, node.latest.get((receiver, run.number))

    def unheard(self, names):
        """Receivers at these nodes that do not hear a source that sends."""
        return [
            '%s does not hear run %d of %s' % (node.name, run.number, run.node.name)
            for run, node, stream in self._pairs(names) if stream is None or stream.end is not None
        ]

    def behind(self, names):
        """Those that do not know all that it has sent."""
        return [
            '%s knows run %d of %s up to %s of %s' % (
                node.name, run.number, run.node.name, stream and (stream.end or stream.next), run.sent[-1:])
            for run, node, stream in self._pairs(names)
            if stream is None or stream.end is not None or not run.knows_all(stream)
        ]

    def unended(self, names):
        """Streams at these nodes of sources that are over, and that have not ended. A source that is deleted ends with its
        session, which others may use; until then everything that it sent is told."""
        for name in names:
            for stream in self.nodes[name].streams.values():
                run = self.runs.get(stream.run)
                if run is None or stream.end is not None:
                    continue
                if run.node.state in ('closed', 'killed'):
                    yield '%s of run %d goes on' % (stream.name, run.number)
                elif run.is_over and run.lacks(stream) > 0:
                    yield '%s of run %d lacks %d' % (stream.name, run.number, run.lacks(stream))

    def verdict(self):
        """All that is wrong, now that the logs are whole."""
        wrong, places = list(self.wrong), {}
        for stream, number, index, (first, sqn), length, is_whole in self.messages:
            run = self.runs.get(number)
            if run is None or not is_whole or run.topic != stream.topic:
                wrong.append('%s: run %d, %d, of %d bytes is none that was sent' % (stream.name, number, index, length))
            elif index < len(run.sent):
                known = sqn if run.is_numbered else None
                if (known, length) != run.sent[index]:
                    wrong.append('%s: run %d, %d: %s was sent, not %s' % (stream.name, number, index, run.sent[index], (sqn, length)))
            elif run.tried != (index, length):
                wrong.append('%s: run %d, %d was never sent' % (stream.name, number, index))
            if run is not None and places.setdefault(number, {}).setdefault(index, (first, sqn)) != (first, sqn):
                wrong.append('%s: run %d, %d has two numbers' % (stream.name, number, index))
        for number, of_run in places.items():
            wrong += self._order_verdict(number, sorted(of_run.items()))
        for node in self.nodes.values():
            for stream in node.streams.values():
                wrong += self._stream_verdict(stream)
        return wrong

    def _order_verdict(self, number, places):
        """Messages in the order in which they were sent have ascending numbers, without one between neighbours."""
        before, end = -1, 0
        for index, (first, last) in places:
            between, skipped = first - end, index - before - 1
            if between < skipped or (between > 0) != (skipped > 0):
                yield 'run %d: message %d has the numbers %d to %d, after %d up to %d' % (number, index, first, last, before, end)
            before, end = index, last + 1

    def _stream_verdict(self, stream):
        run = self.runs.get(stream.run)
        if run is None:
            return
        for what, number in (('has lost', stream.lost_to), ('reaches', stream.next)):
            if number > run.most:
                yield '%s %s up to %d of run %d, of which %d were sent at most' % (stream.name, what, number, run.number, run.most)
        if stream.end is None:
            return
        reason, next, is_tail_unknown = stream.end
        if not run.may_have_ended and (reason == 'ended' or not is_tail_unknown):
            yield '%s has ended (%s) while run %d sends' % (stream.name, stream.end, run.number)
        elif not is_tail_unknown and run.lacks(stream) > (0 if run.is_numbered else self._kept_back(run)):
            yield '%s has ended (%s), and not a word of %d of run %d' % (stream.name, stream.end, run.lacks(stream), run.number)

    @staticmethod
    def _kept_back(run):
        """Messages that the library's thread had taken and may not have sent."""
        return len(run.sent) if run.node.state == 'killed' else run.node.left
