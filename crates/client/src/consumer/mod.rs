//! The consumer: events, items, the core and its driver.

mod answers;
mod book;
mod channel;
mod core;
mod dictionary;
mod driver;
mod event;
mod fields;
mod item;
mod losses;
mod map;
mod owned;
mod requests;
mod session;
mod spec;
mod streams;

pub use self::core::ConsumerCore;
pub use channel::ConsumerChannel;
pub use driver::Consumer;
pub use event::{ConsumerEvent, DictionaryFault, ItemEvent, ItemMsg, ServiceChange, ServiceEvent};
pub use fields::{FieldId, FieldRef, FieldView, Fields};
pub use map::{EntryFields, MapEntryView, MapEntryViews, MapView};
pub use owned::{OwnedEvent, OwnedItemEvent};
pub(crate) use spec::NAME_BYTES_MAX;
pub use spec::{ItemHandle, ItemRequestSpec, SubscribeError};
