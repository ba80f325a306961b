use super::ProviderError;
use crate::backbone::{LinkDown, StreamMsg};

/// A provider connection, as the front end numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(pub u32);

/// A link from a point-to-point server, as the carrier numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// Where the distributor's decisions go. All calls are made from its inputs, in the order in which they are
/// to take effect.
pub trait DistributorSink {
    /// A service is published from now on; its messages go out on the topic `tickcast.service.NAME`.
    fn open_stream(&mut self, service: u16, name: &str);
    /// A service is no longer published.
    fn close_stream(&mut self, service: u16);
    /// Sends a message of a service's stream to everybody.
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>);
    /// Sends a message on the topic `tickcast.directory`.
    fn publish_directory(&mut self, msg: &StreamMsg<'_>);
    /// Sends a message to one point-to-point server.
    fn to_peer(&mut self, peer: PeerId, msg: &LinkDown<'_>);
    /// Sends an RWF message to a provider.
    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]);
    /// A provider's connection is to be closed. The distributor has forgotten it already.
    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError);
}
