//! The consumer: events, items, the core and its driver.

mod answers;
mod batches;
mod calls;
mod changes;
mod channel;
mod core;
mod dictionary;
mod display;
mod driver;
mod event;
mod events;
mod fields;
mod item;
mod losses;
mod map;
mod owned;
mod patience;
mod posts;
mod queue;
mod reading;
mod requests;
mod sending;
mod session;
mod spec;
mod standby;
mod streams;
mod watchlist;

pub use self::core::ConsumerCore;
pub(crate) use self::session::Session;
pub use channel::ConsumerChannel;
pub use driver::Consumer;
pub(crate) use event::ConsumerSink;
pub use event::{
    ConsumerEvent, DictionaryFault, ItemEvent, ItemMsg, PostEvent, PostId, PostOutcome, ServerEvent,
    ServiceChange, ServiceEvent,
};
pub use events::Events;
pub use fields::{FieldId, FieldRef, FieldView, Fields, FieldsOrRaw, UnreadableField};
pub use map::{EntryFields, MapEntryView, MapEntryViews, MapView};
pub use owned::{Merged, OwnedEvent, OwnedItemEvent, OwnedOutcome};
pub use queue::{QueueBound, QueueOverrun, QueueStats};
pub use sending::{Capability, ConsumerSendError, GenericSpec, PostSpec};
pub(crate) use spec::NAME_BYTES_MAX;
pub use spec::{ItemHandle, ItemRequestSpec, ItemView, SubscribeError};
pub use standby::{StandbyConsumer, StandbyCore};
