//! Feed handlers and replay of recorded markets.

pub mod binance;
mod decimal;
mod recording;

pub use decimal::{Decimal, DecimalError};
pub use recording::{Merged, Recording, RecordingError};
