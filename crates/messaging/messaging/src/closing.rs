//! How far the end of a context has come, and what it leaves.

use std::fmt;
use std::time::Duration;

use lbt::resolution::TransportSession;

/// What a transport session could not get rid of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLeft {
    /// The session; prints as the field's source strings do.
    pub transport: TransportSession,
    /// Messages that were accepted and have not been sent to every receiver; fragments count singly.
    pub messages: u64,
    /// Bytes of what was not sent, with headers. Of a connection also what the peer's kernel has not
    /// acknowledged.
    pub bytes: u64,
    /// Receivers that the session knows to lack something, or that have not said that they have heard of its end.
    /// Multicast does not know its receivers: 0.
    pub receivers: u32,
}

/// What has not left a context: nothing, if all went well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Sessions with messages that were not sent to all their receivers.
    pub sessions: Vec<SessionLeft>,
    /// Bytes of direct messages and responses that their peers have not taken.
    pub direct_bytes: u64,
    /// Messages that the context has not taken yet: in the rings of sources of a context with a thread of its own;
    /// in C, of callbacks.
    pub queued_messages: u64,
}

impl Left {
    /// Whether everything has left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.direct_bytes == 0 && self.queued_messages == 0
    }

    /// Messages that were not sent to every receiver, of all sessions and rings.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.queued_messages + self.sessions.iter().map(|session| session.messages).sum::<u64>()
    }

    /// Bytes that have not left, of all sessions and direct connections; those in rings do not count.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.direct_bytes + self.sessions.iter().map(|session| session.bytes).sum::<u64>()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("everything has left");
        }
        write!(f, "{} messages and {} bytes have not left", self.messages(), self.bytes())?;
        for SessionLeft { transport, messages, bytes, receivers } in &self.sessions {
            write!(f, "; {transport}: {messages} messages, {bytes} bytes, {receivers} receivers")?;
        }
        if self.direct_bytes > 0 {
            write!(f, "; direct connections: {} bytes", self.direct_bytes)?;
        }
        if self.queued_messages > 0 {
            write!(f, "; waiting: {} messages", self.queued_messages)?;
        }
        Ok(())
    }
}

/// How far a context is on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Its sources have ended.
    Ended,
    /// It sends what waits, and receives nothing any more.
    Settling,
    /// Nothing more is done for anybody.
    Closed,
}

/// How long receivers are given to ask for what they lack.
pub(crate) struct Patience {
    /// After the last datagram, if none has asked since the end.
    pub(crate) quiet: Duration,
    /// After the last time that one has asked.
    pub(crate) repair: Duration,
    /// Between two session messages.
    pub(crate) remind: Duration,
}
