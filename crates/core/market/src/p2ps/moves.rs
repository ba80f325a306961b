//! What items tell composed services: [`composing`](super::composing) carries it out. It stands between the two, so that items
//! depend on nothing that depends on them.

use units::Nanos;

use super::sink::ServerSink;

/// Streams of composed services that may have to go on from another member's item.
pub(super) trait Moves {
    /// The service of an item is lost: streams of composed services move to other members that are up.
    fn rescue_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink);

    /// A member has closed an item: streams of composed services move to the next one that is up.
    fn refuse_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink);

    /// The state of an item has changed, or an image of it has come.
    fn look_composed(&mut self, now: Nanos, index: usize, sink: &mut impl ServerSink);
}
