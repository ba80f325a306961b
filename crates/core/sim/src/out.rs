//! What the cores put out, kept until the world carries it on.

use std::collections::BTreeSet;

use market::backbone::{HopPart, HopTimes, Kind, LinkDown, LinkUp, Passage, StreamMsg};
use market::distributor::{DistributorSink, PeerId, PeerNotice, ProviderError, ProviderId, ProviderNotice};
use market::p2ps::{ClientId, ServerNotice, ServerSink, SourceId, UpstreamSink, Watcher};

/// What a distributor wants sent.
pub(crate) enum FromDistributor {
    Open(u16),
    Close(u16),
    Stream(Option<u16>, Vec<u8>),
    Peer(PeerId, Vec<u8>),
    Provider(ProviderId, Vec<u8>),
    Notice(PeerId, PeerNotice),
}

#[derive(Default)]
pub(crate) struct DistributorOut(pub(crate) Vec<FromDistributor>);

impl DistributorSink for DistributorOut {
    fn open_stream(&mut self, service: u16, _: &str) {
        self.0.push(FromDistributor::Open(service));
    }
    fn close_stream(&mut self, service: u16) {
        self.0.push(FromDistributor::Close(service));
    }
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        // What the core counts of each update: `stamp_bytes` of its configuration.
        let part = STAMPS.part();
        let parts = if msg.kind == Kind::Update { part.bytes() } else { &[] };
        let msg = StreamMsg { parts, ..*msg };
        self.0.push(FromDistributor::Stream(Some(service), [&msg.header()[..], parts, msg.body].concat()));
    }
    fn publish_directory(&mut self, msg: &StreamMsg<'_>) {
        self.0.push(FromDistributor::Stream(None, [&msg.header()[..], msg.body].concat()));
    }
    fn to_peer(&mut self, peer: PeerId, msg: &LinkDown<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.0.push(FromDistributor::Peer(peer, bytes));
    }
    fn to_provider(&mut self, provider: ProviderId, msg: &[u8]) {
        self.0.push(FromDistributor::Provider(provider, msg.to_vec()));
    }
    fn notice(&mut self, provider: ProviderId, notice: &ProviderNotice<'_>) {
        panic!("nothing is wrong with provider {}, but: {notice}", provider.0);
    }
    fn peer_notice(&mut self, peer: PeerId, _: &str, notice: &PeerNotice) {
        // Holds are part of how servers are waited for.
        if !matches!(notice, PeerNotice::HoldsBack { .. } | PeerNotice::LetsGo { .. }) {
            self.0.push(FromDistributor::Notice(peer, *notice));
        }
    }
    fn close_provider(&mut self, provider: ProviderId, why: &ProviderError) {
        panic!("provider {} is cut off, though it is a legal one: {why}", provider.0);
    }
}

/// So much is added to each update.
pub(crate) const STAMP_BYTES: usize = HopPart::DISTRIBUTOR_BYTES;
/// Of one clock that stands still.
const STAMPS: HopTimes = HopTimes { distributor: Passage { came: 1, left: 2 }, relay: None };

/// What a server wants sent or joined.
pub(crate) enum FromServer {
    Client(ClientId, Vec<u8>),
    Subscribe(bool),
    Connect(u64),
    Disconnect(u64),
    Link(u64, Vec<u8>),
    RoundEnds(ClientId),
}

/// The second field says that no client has room now, the third names those that read too slowly, the fourth says that one
/// thing is done at a time.
#[derive(Default)]
pub(crate) struct ServerOut(
    pub(crate) Vec<FromServer>,
    pub(crate) bool,
    pub(crate) BTreeSet<ClientId>,
    pub(crate) bool,
);

impl ServerSink for ServerOut {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        self.0.push(FromServer::Client(client, msg.to_vec()));
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        for watcher in watchers {
            let mut bytes = msg.to_vec();
            rwf::set_stream_id(&mut bytes, watcher.stream_id).expect("a whole message");
            self.0.push(FromServer::Client(watcher.client, bytes));
        }
    }
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        let is_slow = |watcher: &&Watcher| self.2.contains(&watcher.client);
        let (slow, fast): (Vec<Watcher>, Vec<Watcher>) = watchers.iter().partition(is_slow);
        refused.extend(slow);
        self.fan_out(&fast, msg);
    }
    fn lags(&mut self, client: ClientId) -> bool {
        self.1 || self.2.contains(&client)
    }
    fn admits_more(&mut self, _: ClientId) -> bool {
        !self.3
    }
    fn end_round(&mut self, client: ClientId) {
        self.0.push(FromServer::RoundEnds(client));
    }
}

impl UpstreamSink for ServerOut {
    fn subscribe(&mut self, _: &str) {
        self.0.push(FromServer::Subscribe(true));
    }
    fn unsubscribe(&mut self, _: &str) {
        self.0.push(FromServer::Subscribe(false));
    }
    fn connect(&mut self, instance: u64, _: SourceId) {
        self.0.push(FromServer::Connect(instance));
    }
    fn disconnect_link(&mut self, instance: u64) {
        self.0.push(FromServer::Disconnect(instance));
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        use ServerNotice::{HeardAgain, Lost, Silent};
        // Networks lose messages and are cut here.
        if matches!(notice, Lost { .. } | Silent { .. } | HeardAgain { .. }) {
            return;
        }
        panic!("nothing is wrong with what a distributor says, but: {notice}");
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.0.push(FromServer::Link(instance, bytes));
    }
}
