//! The market data model and its decisions: services, items, image cache, watchlist, recovery.

pub mod backbone;
