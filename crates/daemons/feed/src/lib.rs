//! Feed handlers and replay of recorded markets.
//!
//! ```
//! use tickcast_feed::Decimal;
//!
//! // Prices are decimal from the exchange's text to the message: no binary fraction comes between.
//! let bid: Decimal = "40.07".parse()?;
//! let step: Decimal = "0.01".parse()?;
//! assert_eq!(bid.checked_add(step).map(|ask| ask.to_string()).as_deref(), Some("40.08"));
//! # Ok::<(), tickcast_feed::DecimalError>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`binance`] | the handler of Binance's streams: messages of the exchange become items and their updates |
//! | [`Recording`], [`Merged`] | recorded streams, one, or several in the order of their times |
//! | [`Replay`] | plays recordings at a chosen speed and publishes what a handler makes of them |
//! | [`Publisher`] | items of one service, published over a provider's connection |

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
