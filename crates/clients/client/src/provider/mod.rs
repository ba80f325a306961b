//! The non-interactive provider: items, the core and its driver.

mod core;
mod driver;
mod event;
mod items;
mod publish;
mod session;
mod spec;

pub use self::core::ProviderCore;
pub use driver::Provider;
pub use event::{ProviderEvent, PublishedTicket};
pub(crate) use publish::next_number;
pub use spec::{ItemError, PublishError, PublishSpec, Published, PublishedItem, RefreshSpec, UpdateSpec};
