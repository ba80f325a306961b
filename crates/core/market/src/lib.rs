//! The market data model and its decisions: services, items, image cache, watchlist, recovery.

pub mod backbone;
mod cached;
mod changes;
pub mod distributor;
mod encoding;
mod extent;
pub mod image;
mod intake;
mod key;
pub mod p2ps;
mod ration;
#[cfg(test)]
mod state_tables;
pub mod users;
mod view;

pub use cached::{CachedItem, Conflated, RefreshForm, Scratch};
pub use encoding::{EncodeFault, Encoding};
pub use intake::{Intake, IntakeConfig, Waited};
pub use key::{ItemKey, KEY_ATTRIBUTES_BYTES_MAX, OwnedKey};
pub use ration::Ration;
