//! What a queue says about itself.

use std::fmt;

/// What has become of the events of a [`ConsumerChannel`](crate::ConsumerChannel), and what waits.
///
/// An update that came is an event of its own, or it is merged: `updates_in - updates_merged` are or were events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Events that wait.
    pub events_waiting: usize,
    /// Items whose changes wait: an event is made of them when the application comes to it.
    pub items_waiting: usize,
    /// Bytes of the events that wait: their messages and 256 bytes each.
    pub bytes_waiting: usize,
    /// Most events that have waited.
    pub events_waiting_max: usize,
    /// Most bytes that have waited.
    pub bytes_waiting_max: usize,
    /// Updates are merged at present.
    pub is_conflating: bool,
    /// Updates that came.
    pub updates_in: u64,
    /// Of these, such as were merged.
    pub updates_merged: u64,
    /// Of those merged, such as came to nothing: an entry came and went before the application saw it, or the item was
    /// unsubscribed.
    pub updates_without_effect: u64,
    /// Updates that came while updates were merged, and were not: their payload cannot be, or they say that they must
    /// not be, or their stream is private, or there is no dictionary.
    pub updates_not_merged: u64,
    /// Merged events that the application has taken. An image in several parts counts as one.
    pub merged_events: u64,
    /// Of these, images: an update could not have said the changes.
    pub images_made: u64,
    /// How often merging has begun.
    pub conflations: u64,
    /// How often reading has stopped, because too much waited.
    pub blocks: u64,
}

/// The bound of a queue that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueBound {
    /// [`QueueConfig::events_max`](crate::QueueConfig::events_max).
    Events {
        /// Its value.
        max: usize,
    },
    /// [`QueueConfig::bytes_max`](crate::QueueConfig::bytes_max).
    Bytes {
        /// Its value.
        max: usize,
    },
}

/// An application has taken too little, with [`WhenFull::Fail`](crate::WhenFull::Fail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOverrun {
    /// Events that waited.
    pub events: usize,
    /// Bytes that waited.
    pub bytes: usize,
    /// The bound that was reached.
    pub bound: QueueBound,
}

impl fmt::Display for QueueBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueBound::Events { max } => write!(f, "events_max = {max}"),
            QueueBound::Bytes { max } => write!(f, "bytes_max = {max}"),
        }
    }
}

impl fmt::Display for QueueOverrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueOverrun { events, bytes, bound } = self;
        write!(
            f,
            "the application takes too little: {events} events of {bytes} bytes wait ({bound}); the session has \
             ended, and nothing more comes"
        )
    }
}

impl std::error::Error for QueueOverrun {}
