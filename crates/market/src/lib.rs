//! The market data model and its decisions: services, items, image cache, watchlist, recovery.

pub mod backbone;
mod cached;
mod encoding;
pub mod image;
mod key;

pub use cached::{CachedItem, OwnedState, RefreshForm, Scratch};
pub use encoding::Encoding;
pub use key::{ItemKey, OwnedKey};
