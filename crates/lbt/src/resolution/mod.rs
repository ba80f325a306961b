//! Topic resolution: who sends what where, without a server.
//!
//! Sources advertise, receivers query, everybody caches what is heard. Both do so often at first, then once
//! a second for a while, then not at all; a query wakes a quiescent source. Records are packed into
//! datagrams and limited in rate. The records name the LBT-RM session of the topic and where its source
//! takes requests by TCP.

mod hear;
mod limit;
mod pattern;
mod phase;
mod record;
mod resolver;
mod slots;
mod transmit;

pub use record::SourceRecord;
pub use resolver::{AdvertisementId, QueryId, ResolveError, Resolver, ResolverSink};
