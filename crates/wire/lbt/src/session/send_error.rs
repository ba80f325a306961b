use std::fmt;

/// Why a message was not taken.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The backlog is full: call again after some of it was sent. Nothing of the message was taken.
    WouldBlock,
    /// The message is longer than may be sent, or claimed, at once.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The topic was removed, or is another session's.
    UnknownTopic,
    /// The session was [ended](super::Source::end).
    Ended,
    /// The session is one of the process that this one was forked from. Whoever owns sessions says so: here nothing
    /// is known of processes.
    Forked,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SendError::WouldBlock => f.write_str("the backlog is full"),
            SendError::TooLong { bytes, max } => {
                write!(f, "a message of {bytes} bytes is above the limit of {max}")
            }
            SendError::UnknownTopic => f.write_str("the topic is not one of this session"),
            SendError::Ended => f.write_str("the session has ended"),
            SendError::Forked => f.write_str(
                "the session is its parent's: a child made by fork cannot use it and makes its own",
            ),
        }
    }
}

impl std::error::Error for SendError {}
