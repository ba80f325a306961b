//! The venue's web-socket frames as recorded: `docs/feeds.md` describes them.

mod book;
mod frame;

pub use book::{Book, BookError, DepthChange, Level};
pub use frame::{Depth, Event, Frame, FrameError, Quote, Side, Snapshot, Symbol, Trade};
