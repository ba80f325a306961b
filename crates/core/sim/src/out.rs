//! What the cores put out, kept until the world carries it on.

use std::collections::BTreeSet;

use market::backbone::{HopPart, HopTimes, Kind, LinkDown, LinkUp, Passage, StreamMsg};
use market::distributor::{DistributorSink, PeerId, PeerNotice, ProviderError, ProviderId, ProviderNotice};
use market::p2ps::{ClientId, ServerNotice, ServerSink, SourceId, UpstreamSink, Watcher};

/// What a distributor wants sent.
#[derive(Debug)]
pub enum FromDistributor {
    /// A service is published from now on: its id and name.
    Open(u16, String),
    /// It is published no longer.
    Close(u16),
    /// A message of the stream of a service, or of the directory.
    Stream(Option<u16>, Vec<u8>),
    /// A message over a link.
    Peer(PeerId, Vec<u8>),
    /// A message for a provider.
    Provider(ProviderId, Vec<u8>),
    /// A server is too slow.
    Notice(PeerId, PeerNotice),
}

/// The sink of a distributor: what it decides, in order.
#[derive(Debug, Default)]
pub struct DistributorOut(pub Vec<FromDistributor>);

impl DistributorSink for DistributorOut {
    fn open_stream(&mut self, service: u16, name: &str) {
        self.0.push(FromDistributor::Open(service, name.to_owned()));
    }
    fn close_stream(&mut self, service: u16) {
        self.0.push(FromDistributor::Close(service));
    }
    fn publish(&mut self, service: u16, msg: &StreamMsg<'_>) {
        // What the core counts of each update: `stamp_bytes` of its configuration.
        let part = STAMPS.part();
        let parts = if msg.kind == Kind::Update { part.bytes() } else { msg.parts };
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
        use ProviderNotice::{LeavesService, SharesService};
        // A provider may be back before it is seen that it was gone.
        if matches!(notice, SharesService { .. } | LeavesService { .. }) {
            return;
        }
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

/// So much is added to each update on its way out: the distributor is to be configured so.
pub const STAMP_BYTES: usize = HopPart::DISTRIBUTOR_BYTES;
/// Of one clock that stands still.
const STAMPS: HopTimes = HopTimes { distributor: Passage { came: 1, left: 2 }, relay: None };

/// What a server wants sent or joined.
#[derive(Debug)]
pub enum FromServer {
    /// A message for a client.
    Client(ClientId, Vec<u8>),
    /// The topic of a service is to be joined.
    Subscribe(String),
    /// It is to be left.
    Unsubscribe(String),
    /// A link to an instance is to be opened.
    Connect(u64),
    /// A link is to be closed.
    Disconnect(u64),
    /// A message over a link.
    Link(u64, Vec<u8>),
    /// All of a round was sent to a client.
    RoundEnds(ClientId),
}

/// The sink of a server: what it decides, in order, and what it is told of its clients.
#[derive(Debug, Default)]
pub struct ServerOut {
    /// What it decides.
    pub decisions: Vec<FromServer>,
    /// No client has room now.
    pub lags: bool,
    /// Clients that read too slowly.
    pub slow: BTreeSet<ClientId>,
    /// One thing is done for a client at a time.
    pub is_busy: bool,
}

impl ServerSink for ServerOut {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        self.decisions.push(FromServer::Client(client, msg.to_vec()));
    }
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        for watcher in watchers {
            let mut bytes = msg.to_vec();
            rwf::set_stream_id(&mut bytes, watcher.stream_id).expect("a whole message");
            self.decisions.push(FromServer::Client(watcher.client, bytes));
        }
    }
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        let is_slow = |watcher: &&Watcher| self.slow.contains(&watcher.client);
        let (slow, fast): (Vec<Watcher>, Vec<Watcher>) = watchers.iter().partition(is_slow);
        refused.extend(slow);
        self.fan_out(&fast, msg);
    }
    fn lags(&mut self, client: ClientId) -> bool {
        self.lags || self.slow.contains(&client)
    }
    fn admits_more(&mut self, _: ClientId) -> bool {
        !self.is_busy
    }
    fn end_round(&mut self, client: ClientId) {
        self.decisions.push(FromServer::RoundEnds(client));
    }
}

impl UpstreamSink for ServerOut {
    fn subscribe(&mut self, service: &str) {
        self.decisions.push(FromServer::Subscribe(service.to_owned()));
    }
    fn unsubscribe(&mut self, service: &str) {
        self.decisions.push(FromServer::Unsubscribe(service.to_owned()));
    }
    fn connect(&mut self, instance: u64, _: SourceId) {
        self.decisions.push(FromServer::Connect(instance));
    }
    fn disconnect_link(&mut self, instance: u64) {
        self.decisions.push(FromServer::Disconnect(instance));
    }
    fn notice(&mut self, notice: &ServerNotice<'_>) {
        use ServerNotice::{HeardAgain, Lost, Silent, StreamSilent};
        // Networks lose messages and are cut here.
        if matches!(notice, Lost { .. } | Silent { .. } | StreamSilent { .. } | HeardAgain { .. }) {
            return;
        }
        panic!("nothing is wrong with what a distributor says, but: {notice}");
    }
    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.decisions.push(FromServer::Link(instance, bytes));
    }
}
