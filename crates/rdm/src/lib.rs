//! What the domains mean.

pub mod dictionary;
pub mod directory;
mod element;
mod error;
pub mod item;
pub mod login;
mod message;
mod number;
pub mod post;
pub mod publish;
mod reply;
mod state;

pub use element::Element;
pub use error::{Part, RdmError};
pub use message::ToVec;
pub use reply::Reply;
pub use state::{ENTRY_TEXT_BYTES_MAX, OwnedState};
