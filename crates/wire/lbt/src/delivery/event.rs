use crate::wire::lbmc::Headers;
use units::Sqn;

/// Where a session's messages and events go: called while a datagram is being processed, on the caller's
/// thread.
///
/// For each topic the calls are: [`DeliverySink::begin_of_stream`], then messages and losses in the order of their
/// numbers (in order of arrival if the topic was subscribed so), then [`DeliverySink::end_of_stream`]. In topic
/// order every number from the first to the last belongs to exactly one message or one loss.
pub trait DeliverySink {
    /// A whole message. Its payload is valid during the call.
    fn deliver(&mut self, message: Delivered<'_>);
    /// Numbers that will not come, in the place where they are missing.
    fn lost(&mut self, lost: Lost);
    /// The first message or loss of a topic follows.
    fn begin_of_stream(&mut self, begin: BeginOfStream);
    /// The session is over for a topic that had begun.
    fn end_of_stream(&mut self, end: EndOfStream);
    /// The session is over for a topic of which nothing was heard; `end.next` would have come next, if that
    /// `is_known`.
    fn unheard(&mut self, end: EndOfStream, is_known: bool) {
        let _ = (end, is_known);
    }
}

/// A message of a subscribed topic.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// What the topic was subscribed with.
    pub token: u64,
    /// The topic within its session.
    pub topic_index: u32,
    /// Number of the message's first fragment; `sqn` if it was not fragmented.
    pub first_sqn: Sqn,
    /// Number of the message: that of its last fragment.
    pub sqn: Sqn,
    /// The application data.
    pub payload: &'a [u8],
    /// Extension headers; of the first fragment if it was fragmented.
    pub headers: Headers<'a>,
    /// Whether the message, or a fragment of it, came by retransmission.
    pub recovered: bool,
    /// By which way it came.
    pub via: Via,
}

/// By which way a message came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// The transport session.
    #[default]
    Transport,
    /// Asked for by a receiver that came later: sent before it joined.
    LateJoin,
    /// Asked for after the transport had given it up.
    OffTransport,
}

/// A range of a topic's numbers that is lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What the topic was subscribed with.
    pub token: u64,
    /// The topic within its session.
    pub topic_index: u32,
    /// First lost number.
    pub first: Sqn,
    /// How many.
    pub count: u32,
}

/// A topic's stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginOfStream {
    /// What the topic was subscribed with.
    pub token: u64,
    /// The topic within its session.
    pub topic_index: u32,
    /// The first number that will be delivered or reported lost. What was sent before it is not reported.
    pub first: Sqn,
}

/// A topic's stream is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfStream {
    /// What the topic was subscribed with.
    pub token: u64,
    /// The topic within its session.
    pub topic_index: u32,
    /// Why.
    pub reason: EndReason,
    /// The number that would have come next.
    pub next: Sqn,
    /// Datagrams were lost after the last one that told of this topic: it may have had further messages.
    pub tail_unknown: bool,
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The source said so.
    Ended,
    /// Nothing was heard for the activity timeout.
    TimedOut,
    /// The receiver was told to close it.
    Closed,
    /// The connection to the source, or its process, is gone without a word.
    Broken,
    /// The source refused the receiver, or knew it no longer.
    Reset,
    /// The source was started again under the same session, and numbers begin anew.
    Restarted,
}
