//! The source distributor: threads and connections around the market core.
