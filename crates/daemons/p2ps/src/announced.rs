//! Messages between the moment when the core is told of them and their turn.

use market::MESSAGES_AHEAD;
use market::p2ps::SourceId;
use units::Nanos;

/// A message that the core was told of.
#[derive(Debug, Default)]
pub(crate) struct AnnouncedMessage {
    pub(crate) source: SourceId,
    /// It has waited in this server since then, if it has.
    pub(crate) waited_since: Option<Nanos>,
    pub(crate) bytes: Vec<u8>,
}

/// The last few messages that the core was told of, in order.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    slots: [AnnouncedMessage; MESSAGES_AHEAD],
    /// Where the oldest is.
    first: usize,
    len: usize,
}

impl Announced {
    /// Longer messages are not announced: a copy of them would cost more than it saves.
    pub(crate) const BYTES_MAX: usize = 2_048;

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a message. If there is no room, the oldest is handed on before.
    #[inline]
    pub(crate) fn put(
        &mut self,
        (source, waited_since): (SourceId, Option<Nanos>),
        message: &[u8],
        act: impl FnOnce(&AnnouncedMessage),
    ) {
        if self.len == MESSAGES_AHEAD {
            self.take(act);
        }
        let slot = &mut self.slots[(self.first + self.len) % MESSAGES_AHEAD];
        (slot.source, slot.waited_since) = (source, waited_since);
        slot.bytes.clear();
        slot.bytes.extend_from_slice(message);
        self.len += 1;
    }

    /// Hands on the oldest; false if there is none.
    #[inline]
    pub(crate) fn take(&mut self, act: impl FnOnce(&AnnouncedMessage)) -> bool {
        if self.is_empty() {
            return false;
        }
        act(&self.slots[self.first]);
        self.first = (self.first + 1) % MESSAGES_AHEAD;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_with_their_own_times() {
        let message =
            |n: u32| (SourceId(n), n.is_multiple_of(3).then_some(Nanos(n.into())), vec![n as u8; n as usize]);
        let (mut announced, mut taken) = (Announced::default(), Vec::new());
        let mut take = |message: &AnnouncedMessage| {
            taken.push((message.source, message.waited_since, message.bytes.clone()));
        };
        for (source, waited_since, bytes) in (0..20).map(message) {
            announced.put((source, waited_since), &bytes, &mut take);
        }
        while announced.take(&mut take) {}
        assert_eq!(taken, (0..20).map(message).collect::<Vec<_>>());
        assert!(announced.is_empty());
    }
}
