use super::base::{PeerId, ProviderId};
use super::errors::ProviderError;
use super::notices::{PeerNotice, ProviderNotice};
use crate::backbone::{LinkDown, StreamMsg};

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
    /// Whether an image may be sent to a point-to-point server now, because little waits for its link and this turn
    /// has work left. To be asked once for each image, since each counts. What finds no room is served by
    /// [`Distributor::serve_peers`](super::Distributor::serve_peers) later.
    fn has_room(&mut self, _peer: PeerId) -> bool {
        true
    }
    /// Sends an RWF message to a provider.
    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]);
    /// Something about a provider that its operators should know, said once for each connection.
    fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>);
    /// Something about a point-to-point server that operators should know. It names itself.
    fn peer_notice(&mut self, peer: PeerId, name: &str, notice: &PeerNotice);
    /// A provider's connection is to be closed. The distributor has forgotten it already.
    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError);
}
