use super::retention::Retention;
use crate::config::{ConfigError, RetentionConfig};
use crate::rate::TokenBucket;
use crate::stream::StreamMessage;
use crate::wire::lbmc::{self, Chain, Header, Kind, MESSAGE_LEN_MAX, Messages};
use counters::table::LbmRetention;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, RecentMap, Sqn};

/// The retained messages of a context's sources, and the answers to those who ask for them over TCP.
///
/// The driver calls: [`Responder::retain`] with the LBMC messages of what it sends, [`Responder::open`] and
/// [`Responder::close`] for each connection at the request port, [`Responder::on_message`] for what a
/// connection's [`StreamDecoder`](crate::stream::StreamDecoder) gives, [`Responder::poll_transmit`] while a
/// connection's outbox has room.
///
/// A topic is named by the number of its transport session within the context, as advertised
/// ([`SourceRecord::late_join`](crate::resolution::SourceRecord::late_join)), and its index.
pub struct Responder {
    topics: Vec<Retained>,
    by_name: RecentMap<(u32, u32), usize>,
    free: Vec<usize>,
    clients: Vec<Option<Client>>,
    clients_free: Vec<usize>,
    requests_max: usize,
    limit: TokenBucket,
    counters: Arc<LbmRetention>,
}

struct Retained {
    transport: u32,
    messages: Retention,
}

struct Client {
    asked: VecDeque<Asked>,
}

#[derive(Clone, Copy)]
struct Asked {
    request: u32,
    topic: (u32, u32),
    /// The message wanted; none if the range is.
    sqn: Option<Sqn>,
}

/// A connection that may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(usize);

/// How much may go out at once, as a span.
const BURST: Duration = Duration::from_millis(10);

impl Responder {
    /// Nothing is retained yet, nobody asks.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(
        config: &RetentionConfig,
        now: Nanos,
        counters: Arc<LbmRetention>,
    ) -> Result<Responder, ConfigError> {
        config.check()?;
        let clients_max = config.retransmit_retention_clients_maximum as usize;
        let depth_min = 2 * MESSAGE_LEN_MAX as u64;
        Ok(Responder {
            topics: Vec::new(),
            by_name: RecentMap::default(),
            free: Vec::new(),
            clients: Vec::new(),
            clients_free: (0..clients_max).rev().collect(),
            requests_max: config.retransmit_retention_requests_maximum as usize,
            limit: TokenBucket::new(config.retransmit_retention_rate_limit, BURST, depth_min, now),
            counters,
        })
    }

    /// Begins to retain a topic. Its options may differ from those of other topics; what concerns the
    /// connections is the context's.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn add_topic(
        &mut self,
        transport: u32,
        topic_index: u32,
        config: &RetentionConfig,
    ) -> Result<(), ConfigError> {
        config.check()?;
        self.remove_topic(transport, topic_index);
        let retained = Retained { transport, messages: Retention::new(config) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.topics[slot] = retained;
                slot
            }
            None => {
                self.topics.push(retained);
                self.topics.len() - 1
            }
        };
        self.by_name.insert((transport, topic_index), slot);
        Ok(())
    }

    /// Forgets a topic with its messages.
    pub fn remove_topic(&mut self, transport: u32, topic_index: u32) {
        if let Some(slot) = self.by_name.remove((transport, topic_index)) {
            self.topics[slot].messages.clear(&self.counters);
            self.free.push(slot);
        }
    }

    /// Retains what was sent: LBMC messages end to end, as they lie in a datagram or stream of the session.
    /// Those of topics that are not retained are passed over.
    pub fn retain(&mut self, now: Nanos, transport: u32, messages: &[u8]) {
        let mut at = 0;
        while at < messages.len() {
            let rest = &messages[at..];
            let (index, sqn, len) = match lbmc::plain(rest) {
                Some(plain) => plain,
                None => match Messages::new(rest).next() {
                    Some(Ok(m)) if m.kind == Kind::Message => (m.topic_index, m.sqn, m.len),
                    Some(Ok(other)) => {
                        at += other.len;
                        continue;
                    }
                    _ => return,
                },
            };
            if let Some(slot) = self.by_name.find((transport, index)) {
                self.topics[slot].messages.push(now, sqn, &rest[..len], &self.counters);
            }
            at += len;
        }
    }

    /// A connection at the request port; `None` if there are too many: it can do without answers.
    pub fn open(&mut self) -> Option<ClientId> {
        let Some(slot) = self.clients_free.pop() else {
            self.counters.clients_refused.inc();
            return None;
        };
        if slot >= self.clients.len() {
            self.clients.resize_with(slot + 1, || None);
        }
        self.clients[slot] = Some(Client { asked: VecDeque::new() });
        self.counters.clients.set(self.counters.clients.get() + 1);
        Some(ClientId(slot))
    }

    /// The connection is gone, with what it had asked.
    pub fn close(&mut self, client: ClientId) {
        if self.clients.get_mut(client.0).and_then(Option::take).is_some() {
            self.clients_free.push(client.0);
            self.counters.clients.set(self.counters.clients.get() - 1);
        }
    }

    /// Takes a message of a connection; false if it is no request, and none of this part's business.
    pub fn on_message(&mut self, client: ClientId, message: &StreamMessage<'_>) -> bool {
        let Some(Some(client)) = self.clients.get_mut(client.0) else { return false };
        let asked = message.headers.iter().find_map(|header| match header {
            Header::LateJoinInfoRequest { request, transport, topic, .. } => {
                Some(Asked { request, topic: (transport, topic), sqn: None })
            }
            Header::RetransmissionRequest { request, transport, topic, sqn, .. } => {
                Some(Asked { request, topic: (transport, topic), sqn: Some(sqn) })
            }
            _ => None,
        });
        let Some(asked) = asked.filter(|_| message.kind == Kind::Control) else {
            self.counters.msgs_ignored.inc();
            return false;
        };
        match asked.sqn {
            None => self.counters.info_requests_rcved.inc(),
            Some(_) => self.counters.requests_rcved.inc(),
        }
        if client.asked.len() >= self.requests_max {
            self.counters.requests_refused.inc();
        } else {
            client.asked.push_back(asked);
        }
        true
    }

    /// Appends answers for a connection until `out` has `len_max` bytes, nothing more was asked, or the rate
    /// limit is reached; returns whether something was appended. One answer may go beyond `len_max`.
    pub fn poll_transmit(&mut self, now: Nanos, client: ClientId, len_max: usize, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        while out.len() < len_max && self.limit.available(now) >= MESSAGE_LEN_MAX as u64 {
            let Some(Some(state)) = self.clients.get_mut(client.0) else { break };
            let Some(asked) = state.asked.pop_front() else { break };
            let start = out.len();
            self.answer(now, asked, out);
            self.limit.take((out.len() - start) as u64);
        }
        out.len() > before
    }

    /// From when on [`Responder::poll_transmit`] has something for a connection.
    #[must_use]
    pub fn ready_at(&self, client: ClientId) -> Nanos {
        match self.clients.get(client.0) {
            Some(Some(state)) if !state.asked.is_empty() => self.limit.ready_at(MESSAGE_LEN_MAX as u64),
            _ => Nanos::NEVER,
        }
    }

    fn answer(&mut self, now: Nanos, asked: Asked, out: &mut Vec<u8>) {
        let Some(slot) = self.by_name.find(asked.topic) else {
            // nothing is retained: everything up to the number asked for is gone
            let high = asked.sqn.unwrap_or(Sqn(0).prev());
            self.counters.requests_unavailable.inc();
            return emit_info(high.next(), high, asked.request, out);
        };
        let Retained { transport, messages } = &mut self.topics[slot];
        let start = out.len();
        if let Some(sqn) = asked.sqn {
            if messages.emit(now, sqn, *transport, out, &self.counters) {
                self.counters.rxs_sent.inc();
                return self.counters.rx_bytes_sent.add((out.len() - start) as u64);
            }
            self.counters.requests_unavailable.inc();
        }
        let (low, high) = messages.range(now, &self.counters);
        emit_info(low, high, asked.request, out);
    }
}

fn emit_info(low: Sqn, high: Sqn, request: u32, out: &mut Vec<u8>) {
    let mut chain = Chain::default();
    chain.push(&Header::LateJoinInfo { flags: 0, low, high, request });
    lbmc::emit_message(out, Kind::Control, None, &chain, None);
}
