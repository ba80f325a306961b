"""Publish and subscribe by topic, without a broker.

    with tickcast.Context(interface='10.29.4.0/24') as context:
        source = context.source('px.eq')
        source.send(b'hello', flush=True)

A `Context` holds sockets and protocol state. Nothing runs by itself: `poll`, `wait`, `events`, `run`, or `tickcast.aio`
drive it. Each turn brings events: small objects that do not change. `Message.payload` is a read-only `memoryview` into
the bytes of its turn: nothing is copied for it, and it stays valid as long as the view, or a NumPy array on it, lives. It
keeps all payloads of that turn in memory; `bytes(message)` is a copy that does not.
"""

from collections import deque
from importlib.metadata import version as _version
from itertools import islice
from typing import Dict, NamedTuple, Optional, Union

from tickcast._native import (
    Begin,
    ClosedError,
    ConfigError,
    End,
    FailoverLoss,
    ForkedError,
    Left,
    LimitError,
    Loss,
    Message,
    MessageTooLongError,
    Receiver,
    Recorder,
    RequestEnded,
    Response,
    SecurityNotice,
    Source,
    SourceFound,
    SourceNotice,
    TickcastError,
    TransportError,
    WouldBlockError,
)
from tickcast._native import Context as _Context

__version__ = _version('tickcast')

Event = Union[
    Message, SourceFound, Begin, Loss, FailoverLoss, End, SourceNotice, SecurityNotice, Response, RequestEnded
]

__all__ = [
    'Begin',
    'ClosedError',
    'ConfigError',
    'Context',
    'End',
    'Event',
    'FailoverLoss',
    'ForkedError',
    'Left',
    'LimitError',
    'Loss',
    'Message',
    'MessageTooLongError',
    'Receiver',
    'Recorder',
    'RequestEnded',
    'Response',
    'SecurityNotice',
    'Source',
    'SourceFound',
    'SourceNotice',
    'Statistic',
    'TickcastError',
    'TransportError',
    'WouldBlockError',
    'dispatch',
]


class Statistic(NamedTuple):
    """A source, session, receiver or stream by name, and its numbers: who loses, who asks again."""

    kind: str
    topic: Optional[str]
    transport: str
    peer: Optional[str]
    numbers: Dict[str, int]


class Context(_Context):
    """Sockets and protocol state; a file with a section [messaging] and settings over it as keywords."""

    def __new__(cls, *args, **settings):
        self = super().__new__(cls, *args, **settings)
        # Events of a turn that an iteration has not given out: they come next, whoever asks, so that leaving it loses none.
        self._left = deque()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def statistics(self, most=10_000):
        """What each session, receiver, stream and source has come to, in this order, `most` at most."""
        return list(islice(self.iter_statistics(min(most, 1_000)), most))

    def iter_statistics(self, page=1_000):
        """The same without a bound, asked for `page` (10,000 at most) at a time; for monitoring, about once a second."""
        at = 0
        while at is not None:
            rows, at = self._statistics(at, page)
            for *names, numbers in rows:
                yield Statistic(*names, dict(numbers))

    def events(self, timeout=None):
        """Events as they come; ends when none has come for `timeout` seconds, or when the context is closed. Whoever leaves the
        iteration, by `break` or an exception, finds the events that it has not been given with the next call."""
        left = self._left
        while left or not self.is_closed:
            if not left:
                try:
                    left.extend(self.wait(timeout))
                except ClosedError:
                    return
                if not left:
                    return
            yield left.popleft()

    def poll(self):
        """One turn without waiting; the events that an iteration has left come first."""
        if not self._left:
            return super().poll()
        left = list(self._left)
        self._left.clear()
        if not self.is_closed:
            left += super().poll()
        return left

    def wait(self, timeout=None):
        """Turns until there are events, at most `timeout` seconds; those that an iteration has left are there at once."""
        return self.poll() if self._left else super().wait(timeout)

    def until_wakeup(self):
        return 0.0 if self._left else super().until_wakeup()

    def run(self, handler, timeout=None):
        """Calls `handler.on_message(event)` and so on for each event (see `dispatch`), as long as `events` gives some."""
        for event in self.events(timeout):
            dispatch(event, handler)


def dispatch(event, handler):
    """Calls the method of `handler` that is for this event, `on_` and the event's KIND, if it has one."""
    method = getattr(handler, 'on_' + event.KIND, None)
    if method is not None:
        method(event)
