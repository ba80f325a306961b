//! Sources: topics that a context publishes.

use lbt::resolution::AdvertisementId;
use lbt::rm::TopicId;

/// A topic of ours.
pub(crate) struct SourceEntry {
    /// As [`sealed`] where it was made.
    pub(crate) number: u32,
    pub(crate) session: usize,
    pub(crate) topic: TopicId,
    /// None if it is not advertised: receivers know of it by configuration.
    pub(crate) advertisement: Option<AdvertisementId>,
    /// Its number in `source_static_session`.
    pub(crate) static_place: Option<usize>,
    /// A send was refused and nobody has said yet that there is room.
    pub(crate) is_refused: bool,
    /// Between the first and the last message of an explicit batch.
    pub(crate) in_batch: bool,
    pub(crate) topic_index: u32,
    pub(crate) name: Box<str>,
    /// Sends refused.
    pub(crate) blocked: u64,
}

impl SourceEntry {
    /// As in its handle.
    pub(crate) fn number(&self) -> u32 {
        sealed(self.number)
    }
}

/// A source's number with the mark of this process, which a child made by `fork` has another of: so a parent's source is
/// none there, without a look of its own on the path of a message. Done twice it gives the number back.
#[inline]
pub(crate) fn sealed(number: u32) -> u32 {
    number ^ net::fork::mark()
}

/// The source that the last message was sent by: the next one is mostly its too, and need not be looked for.
///
/// Its session is the one that [`Turns::last`](crate::outgoing::Turns::last) looks at in each turn: whoever changes
/// that forgets this.
pub(crate) struct Current {
    /// Its number as [`sealed`], which no other handle of the context has, or [`NO_SOURCE`].
    pub(crate) number: u32,
    pub(crate) session: usize,
    pub(crate) topic: TopicId,
}

impl Default for Current {
    fn default() -> Current {
        Current { number: NO_SOURCE, session: 0, topic: TopicId::default() }
    }
}

/// No source is known by it.
const NO_SOURCE: u32 = u32::MAX;
