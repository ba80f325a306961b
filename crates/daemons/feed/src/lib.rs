//! Feed handlers and replay of recorded markets.

pub mod binance;
mod config;
mod decimal;
mod depth;
mod fid;
mod handler;
mod price;
mod publisher;
mod recording;
mod replay;
mod when;

pub use self::config::{FeedConfig, Speed, SpeedError};
pub use decimal::{Decimal, DecimalError};
pub use handler::{Handler, HandlerError};
pub use publisher::Publisher;
pub use recording::{Merged, Recording, RecordingError};
pub use replay::{Replay, ReplayError};
