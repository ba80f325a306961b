import os
from types import TracebackType
from typing import Any, ClassVar, Dict, Iterator, List, Literal, NamedTuple, Optional, Tuple, Type, Union, final

__all__: List[str]
__version__: str

_Value = Union[str, int, bool, List[str]]
_Setting = Union[_Value, Dict[str, _Value]]
"""A value, or a section: its keys with their values."""
_Bytes = Union[bytes, bytearray, memoryview, Any]
"""Whatever shows its bytes; `bytes` are sent from where they are, all else is copied once."""

class TickcastError(Exception):
    """All errors of this package."""

class ConfigError(TickcastError):
    """A file, a setting or a topic is wrong; the text says where."""

class TransportError(TickcastError):
    """The system refused something."""

class WouldBlockError(TickcastError):
    """Not now: what may wait for the transport waits. A `SourceNotice` "wake_up" tells when there is room again."""

class MessageTooLongError(TickcastError):
    """The message is longer than the limit."""

class ClosedError(TickcastError):
    """The context or the source was closed."""

class ForkedError(TickcastError):
    """The context is its parent's: a child made by fork makes its own."""

class LimitError(TickcastError):
    """So many are open already."""

@final
class Message:
    """A message of a source."""

    KIND: ClassVar[Literal["message"]]
    @property
    def receiver_id(self) -> int:
        """The `Receiver.id` of who receives it."""
    @property
    def stream(self) -> int:
        """The number of the source as this context hears it."""
    @property
    def topic(self) -> str: ...
    @property
    def sqn(self) -> int:
        """Topic number, of the last fragment if it was fragmented."""
    @property
    def first_sqn(self) -> int: ...
    @property
    def recovered(self) -> bool:
        """It came by retransmission."""
    @property
    def via(self) -> Literal["transport", "late_join", "off_transport"]: ...
    @property
    def batch(self) -> Optional[Literal["start", "end"]]: ...
    @property
    def number(self) -> Optional[int]:
        """The application's number, if it was sent by `Source.send_hot_failover`."""
    @property
    def is_request(self) -> bool:
        """It may be answered, by `Context.respond`."""
    @property
    def payload(self) -> memoryview:
        """The bytes, not copied. Valid as long as the view lives; keeps the payloads of the turn in memory."""
    def array(self, dtype: Any = ...) -> Any:
        """The bytes as a NumPy array of `dtype` (else bytes), not copied, not writable; lives like `payload`."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

@final
class SourceFound:
    """A source was found; before anything else of its stream."""

    KIND: ClassVar[Literal["source"]]
    @property
    def receiver_id(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def source(self) -> str:
        """The transport session as the field writes it."""

@final
class Begin:
    """The first message of a stream follows, or the loss of it."""

    KIND: ClassVar[Literal["begin"]]
    @property
    def receiver_id(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def first(self) -> int: ...

@final
class Loss:
    """`count` messages from `first` will not come; told in their place in the stream."""

    KIND: ClassVar[Literal["loss"]]
    @property
    def receiver_id(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def is_burst(self) -> bool: ...

@final
class FailoverLoss:
    """No source of the topic can deliver `count` numbers from `first` any more; told in their place, to receivers with
    `hot_failover`."""

    KIND: ClassVar[Literal["failover_loss"]]
    @property
    def receiver_id(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def count(self) -> int: ...

@final
class End:
    """A stream is over; its number is not used again."""

    KIND: ClassVar[Literal["end"]]
    @property
    def receiver_id(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def reason(self) -> Literal["ended", "timed_out", "closed", "broken", "reset", "restarted"]: ...
    @property
    def next(self) -> Optional[int]:
        """The topic number that would have come next; None if nothing of the stream was heard."""
    @property
    def is_tail_unknown(self) -> bool:
        """Further messages may have been sent that nobody knows of: the end itself was not heard."""

@final
class SourceNotice:
    """Something happened to a source of ours."""

    KIND: ClassVar[Literal["source_notice"]]
    @property
    def source_id(self) -> int: ...
    @property
    def what(
        self,
    ) -> Literal["receiver_connected", "receiver_disconnected", "receiver_too_slow", "receivers_changed", "wake_up"]: ...
    @property
    def peer(self) -> Optional[str]: ...
    @property
    def receivers(self) -> Optional[int]:
        """With "receivers_changed": how many there are."""

@final
class SecurityNotice:
    """Something happened to keys and certificates; `text` names the files, or the peer and the reason."""

    KIND: ClassVar[Literal["security_notice"]]
    @property
    def what(self) -> Literal["reloaded", "reload_failed", "certificate_refused", "unreadable", "exposed"]: ...
    @property
    def text(self) -> str: ...

@final
class Response:
    """An answer to a request of ours."""

    KIND: ClassVar[Literal["response"]]
    @property
    def request(self) -> int: ...
    @property
    def payload(self) -> memoryview:
        """As `Message.payload`."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

@final
class RequestEnded:
    """Nobody will answer the request any more."""

    KIND: ClassVar[Literal["request_ended"]]
    @property
    def request(self) -> int: ...

Event = Union[Message, SourceFound, Begin, Loss, FailoverLoss, End, SourceNotice, SecurityNotice, Response, RequestEnded]

@final
class Left:
    """What has not left a context; false if everything has."""

    @property
    def messages(self) -> int:
        """Accepted and not sent to every receiver; fragments count singly."""
    @property
    def bytes(self) -> int:
        """Not sent, or not acknowledged by the kernel of a TCP peer; direct messages too."""
    @property
    def sessions(self) -> List[Tuple[str, int, int, int]]:
        """Transport sessions with such messages, as the field writes them, each with messages, bytes and receivers that
        lack something."""
    def __bool__(self) -> bool: ...

@final
class Source:
    """A topic that is published; made by `Context.source`."""

    @property
    def id(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def transport(self) -> str:
        """The transport session as the field writes it."""
    def send(
        self,
        data: _Bytes,
        *,
        flush: bool = False,
        batch: Optional[Literal["start", "end"]] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Sends a message and returns its topic number. It leaves with the next turn at the latest, with `flush` at
        once. Without room it is a WouldBlockError; with `timeout` the context is driven for so many seconds until there
        is room. Events of that come with the next turn; a WouldBlockError before the time says that too many wait."""
    def send_hot_failover(
        self, number: int, data: _Bytes, *, flush: bool = False, batch: Optional[Literal["start", "end"]] = None
    ) -> int:
        """Sends a message that other sources of the topic send as well, under the same `number`: receivers with
        `hot_failover` hear the first copy. The numbers of a source ascend; a jump by more than 2**30 is not
        believed."""
    def wait_for_receivers(self, count: int = 1, timeout: Optional[float] = None) -> int:
        """Drives the context until `count` receivers have found the source and get its next message, for `timeout` seconds
        at most; returns how many there are then. What is sent before a receiver has found the source does not reach it,
        unless the source retains messages. A receiver is a context that takes the topic, by name or by pattern. Those of
        other software, and of older versions, are not counted. Events of that come with the next turn; if too many wait
        it returns before the time."""
    def watch_receivers(self, watches: bool = True) -> None:
        """Begins to ask who receives the topic, or ends it, for who turns the context himself; a `SourceNotice`
        "receivers_changed" tells of each change."""
    @property
    def receivers(self) -> Optional[int]:
        """How many receivers have answered; None unless the source asks."""
    def request(self, data: _Bytes) -> int:
        """Sends a message that may be answered; returns the number that a `Response` names."""
    def flush(self) -> None: ...
    def close(self) -> None: ...

@final
class Receiver:
    """A topic, or a set of topics, that is received; made by `Context.receiver`."""

    @property
    def id(self) -> int: ...
    @property
    def topic(self) -> str: ...
    def restart_hot_failover(self) -> List[Event]:
        """The numbers of its topics begin anew, higher or lower; when all sources of the old ones have ended. Returns the
        events of that: what was held back, and the loss before it."""
    def close(self) -> None:
        """No event for it follows."""

class Statistic(NamedTuple):
    """A source, session, receiver or stream by name, and its numbers: who loses, who asks again."""

    kind: Literal["source", "session", "peer", "incoming", "stream"]
    topic: Optional[str]
    """Of a source or a stream."""
    transport: str
    """The session, as the field writes it."""
    peer: Optional[str]
    """Address or process of a peer."""
    numbers: Dict[str, int]
    """`naks`, `lost` and so on: see `docs/messaging/statistics.md`."""

class Context:
    """Sockets and protocol state. Threads may share a context: while one waits, others send."""

    def __new__(
        cls, config: Optional[Union[str, "os.PathLike[str]"]] = None, **settings: _Setting
    ) -> "Context":
        """`config` is a TOML file with a section [messaging]; `settings` stand over it. Counters that cannot be
        published (`counters_directory`) are a RuntimeWarning."""
    def source(self, topic: str, *, transport: Optional[str] = None) -> Source: ...
    def receiver(self, topic: str, *, arrival_order: bool = False, hot_failover: bool = False) -> Receiver:
        """All sources of a topic. With `hot_failover` the first copy of each message that they send by
        `send_hot_failover`, in the order of the numbers."""
    def prefix_receiver(
        self, prefix: str, *, arrival_order: bool = False, hot_failover: bool = False
    ) -> Receiver: ...
    def pattern_receiver(
        self, pattern: str, *, arrival_order: bool = False, hot_failover: bool = False
    ) -> Receiver:
        """All topics in whose names `pattern` is found: Perl's syntax, without look around and references back.
        ConfigError says why one is not understood."""
    def poll(self) -> List[Event]:
        """One turn without waiting."""
    def wait(self, timeout: Optional[float] = None) -> List[Event]:
        """Turns until there are events, at most `timeout` seconds. The interpreter is let go meanwhile."""
    def statistics(self, most: int = 10_000) -> List[Statistic]:
        """What each session, receiver, stream and source has come to, in this order, `most` at most."""
    def iter_statistics(self, page: int = 1_000) -> Iterator[Statistic]:
        """The same without a bound, asked for `page` (10,000 at most) at a time; for monitoring, about once a second."""
    def events(self, timeout: Optional[float] = None) -> Iterator[Event]:
        """Events as they come; ends when none has come for `timeout` seconds, or when the context is closed. Whoever leaves
        the iteration, by `break` or an exception, finds the events that it has not been given with the next call."""
    def run(self, handler: object, timeout: Optional[float] = None) -> None:
        """`dispatch` for each of `events`."""
    def respond(self, message: Message, data: _Bytes) -> None:
        """Answers a request; any number of times."""
    def cancel_request(self, request: int) -> None:
        """Takes no more answers."""
    def flush(self) -> None:
        """Sends what waits."""
    def reload_security(self) -> None:
        """Reads the files of keys and certificates again, now; the context does it by itself when they change. Files that
        cannot be used are a TransportError; what was in force of those stays."""
    def fileno(self) -> int:
        """Readable when `poll` has something to take. It must not be closed."""
    def until_wakeup(self) -> Optional[float]:
        """How many seconds an event loop may wait before it polls though nothing is readable."""
    def drain(self, timeout: Optional[float] = None) -> Left:
        """Drives the context until everything that was sent has left, as far as is known, at most `timeout` seconds;
        returns what has not. Events of that come with the next turn; it ends before the time if too many wait."""
    def close(self, linger: Optional[float] = None) -> Left:
        """Sends what was accepted, tells receivers that the sources end, and answers those that ask for something again,
        for `linger` seconds at most (else `linger_us` of the configuration; 0: one attempt). Returns what did not leave.
        Nothing but `close` may be called then. A context that is deleted does the same."""
    @property
    def is_closed(self) -> bool: ...
    def __enter__(self) -> "Context": ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Recorder:
    """Takes down the id and the time of each message that a program observes, for `tickcast analyse` (docs/observer.md).

    Its memory, 16 bytes a message, is there before the first one. It belongs to the thread that made it: `record` on another
    one is a TickcastError. After a fork, `write` in the child is a ForkedError."""

    def __new__(
        cls,
        point: str,
        capacity: int,
        *,
        stream: str = "",
        clock: Optional[Literal["tsc", "monotonic", "monotonic-raw"]] = None,
    ) -> "Recorder":
        """`point` is where messages are observed, as "sender"; `stream` says which, if several kinds have the same ids.
        `capacity` is 1 to 2**35. Without `clock` it is the TSC where that is a clock, else CLOCK_MONOTONIC. ConfigError if
        something is out of its range or the clock is none here, TransportError if there is not so much memory."""
    def record(self, id: int) -> bool:
        """Takes a message down, by an id of 64 bits without sign; whether there was room. What finds none is counted."""
    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes all of it, whole or not at all, after the run. The recorder goes on; when it writes again, the file has
        all. The interpreter is let go meanwhile."""
    @property
    def records(self) -> int:
        """Messages that were taken down."""
    @property
    def lost(self) -> int:
        """Messages that found no room."""
    @property
    def capacity(self) -> int: ...
    @property
    def clock(self) -> Literal["tsc", "monotonic", "monotonic-raw"]: ...
    @property
    def cost_ns(self) -> float:
        """What taking down costs within the library, nanoseconds; it is in the file. The interpreter's call comes on top."""
    @property
    def is_locked(self) -> bool:
        """The system cannot take its memory away; the limit of locked memory may forbid that."""
    @staticmethod
    def id(publisher: int, number: int) -> int:
        """The id of a publisher's message: the publisher (0 to 65535) in the upper 16 bits, so that several are kept apart."""

def dispatch(event: Event, handler: object) -> None:
    """Calls the method of `handler` that is for this event, `on_` and the event's KIND, if it has one."""
