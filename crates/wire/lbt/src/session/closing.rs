//! The end of a session as its driver sees it: what still waits, how long receivers may yet ask, and what is
//! given up where there is no more time.
//!
//! [`Source::end`] says the last number of each topic and the end of the session. The driver then goes on
//! until all was sent and nobody has asked for a while. Where it cannot wait so long, [`Source::abandon`]
//! drops what was not sent and says the end at once: each receiver reports what it lacks as loss
//! (`tests/closing.rs`).

use super::fill::Open;
use super::framing::Framing;
use super::source::{Ending, Source};
use crate::error::WireError;
use crate::rate::TokenBucket;
use crate::wire::lbmc::{Kind, Message, Messages};
use std::time::Duration;
use units::Nanos;

/// What a session has taken and not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Messages of the application; fragments count singly.
    pub messages: u64,
    /// Bytes of their datagrams.
    pub bytes: u64,
}

impl<T: Framing> Source<T> {
    /// What was taken and has not been sent, the open datagram too. Looks at every message.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        let numbers = (0..self.window.unsent_count()).map(|i| self.window.unsent().plus(i));
        let mut messages = u64::from(self.open.messages);
        let mut plain = Vec::new();
        for sqn in numbers {
            let (at, len) = (self.window.offset_of(sqn), self.window.len_of(sqn) as usize);
            let datagram = self.window.slice(at, len);
            let mut written = &datagram[T::DATA_HEADER_LEN..len - self.transport.seal_len()];
            if let Some(encryptor) = &self.encryptor {
                encryptor.reveal_into(sqn, written, &mut plain);
                written = &plain;
            }
            let of_topics = |message: &Result<Message<'_>, WireError>| {
                message.as_ref().is_ok_and(|message| message.kind == Kind::Message)
            };
            messages += Messages::new(written).filter(of_topics).count() as u64;
        }
        let open = if self.open.messages > 0 { self.open.at - self.open.start } else { 0 };
        Unsent { messages, bytes: self.window.unsent_bytes() + open as u64 }
    }

    /// When a receiver last asked for a retransmission; zero if none ever did.
    #[must_use]
    pub fn last_asked(&self) -> Nanos {
        self.asked
    }

    /// Whether there is anything that a receiver can lack: the end of a session that has sent nothing is not.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        !self.ends_silent && (self.window.count() > 0 || self.open.messages > 0)
    }

    /// Says the last number every `wait` from now on, as a session that ends has to: receivers that lost its
    /// last datagrams learn of it by that.
    pub fn hurry(&mut self, now: Nanos, wait: Duration) {
        self.schedule.hurry(now, wait);
    }

    /// Ends the session without what was not sent: that is dropped, with everything that could be sent again,
    /// and the last numbers and the end go out at once, past the rate limit. Receivers that hear one of these
    /// datagrams report what they lack as loss.
    pub fn abandon(&mut self, now: Nanos) {
        self.end(now);
        self.flush();
        self.transport.forget_lent();
        if !self.has_spoken() {
            return;
        }
        self.window.clear();
        self.topics.unsay();
        self.backlog_max = u64::MAX;
        self.open = Open::NONE;
        self.data_limit = TokenBucket::new(0, Duration::ZERO, 0, now);
        self.ending = Ending::Announcing(0);
        self.announce(now);
    }

    /// After [`Source::abandon`]: hands out what that has said once more, since datagrams may be lost.
    pub fn repeat_end(&mut self) {
        self.transport.forget_lent();
        self.window.rewind();
    }
}
