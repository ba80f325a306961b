use std::net::SocketAddrV4;

use counters::table::MessagingContext;
use lbt::resolution::{AdvertisementId, SourceRecord};
use lbt::rm::{SendError, SessionKey, Source};
use lbt::wire::lbtrm::SessionHeader;
use net::Interest;
use net::udp::{ReceiveBatch, Sent, UdpSocket};
use slab::Slab;
use units::Nanos;

use crate::context::{Context, ContextError, Port, first_free};

/// A topic that a context publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicId(usize);

/// The transport session that a context publishes on.
pub(crate) struct Publisher {
    socket: UdpSocket,
    group: SocketAddrV4,
    session: Source,
    key: SessionKey,
    next_index: u32,
    topics: Slab<Topic>,
    /// The socket's buffer was full; no use to try before then.
    blocked_until: Nanos,
}

struct Topic {
    id: lbt::rm::TopicId,
    advertisement: AdvertisementId,
}

/// How long to wait when a UDP socket takes nothing: about what it sends meanwhile.
const BLOCKED_WAIT: std::time::Duration = std::time::Duration::from_micros(100);

impl Context {
    /// Begins to publish a topic: it is advertised, and its messages number from 0.
    ///
    /// # Errors
    /// The session's socket cannot be opened, or the name cannot be sent; the error names it.
    pub fn publish(&mut self, now: Nanos, topic: &str) -> Result<TopicId, ContextError> {
        if self.publisher.is_none() {
            self.open_publisher(now)?;
        }
        let request = self.direct.address();
        let publisher = self.publisher.as_mut().expect("it was opened above");
        let topic_index = publisher.next_index;
        let record = SourceRecord { topic_index, key: publisher.key, group: publisher.group, request };
        let advertisement = self.resolver.advertise(now, topic, record)?;
        publisher.next_index = topic_index.wrapping_add(1);
        let id = publisher.session.add_topic(now, topic_index);
        let topic = publisher.topics.insert(Topic { id, advertisement });
        self.send_resolution(now);
        Ok(TopicId(topic))
    }

    /// Ends a topic.
    pub fn unpublish(&mut self, topic: TopicId) {
        if let Some(publisher) = &mut self.publisher
            && let Some(gone) = publisher.topics.try_remove(topic.0)
        {
            publisher.session.remove_topic(gone.id);
            self.resolver.withdraw(gone.advertisement);
        }
    }

    fn open_publisher(&mut self, now: Nanos) -> Result<(), ContextError> {
        let (low, high) =
            (self.config.transport_lbtrm_source_port_low, self.config.transport_lbtrm_source_port_high);
        let options = self.options();
        let socket =
            first_free(self.config.interface, low, high, |a| UdpSocket::multicast_sender(a, options))?;
        let local = socket.local_address()?;
        let session_id = self.rng.next_u32().max(1);
        let header = SessionHeader { ucast_port: local.port(), session_id };
        let mut session = Source::new(&self.config.source(), header, now, self.counters.source.clone())?;
        session.prefault();
        self.registrar.add(&socket, self.token(Port::Publisher, 0), Interest::Read)?;
        self.publisher = Some(Publisher {
            socket,
            group: SocketAddrV4::new(
                self.config.transport_lbtrm_multicast_address,
                self.config.transport_lbtrm_destination_port,
            ),
            session,
            key: SessionKey { source: *local.ip(), session: header },
            next_index: self.rng.next_u32(),
            topics: Slab::new(),
            blocked_until: Nanos::ZERO,
        });
        Ok(())
    }

    /// Appends a message, gathered from `parts`; it leaves when a datagram is full or with
    /// [`Context::flush`].
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when more than the configured buffer waits for the rate limit or the socket:
    /// nothing was taken, to be tried again after [`Context::next_wakeup`]. Else why it can never be sent.
    #[inline]
    pub fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<(), SendError> {
        let publisher = self.publisher.as_mut().ok_or(SendError::UnknownTopic)?;
        let id = publisher.topics.get(topic.0).ok_or(SendError::UnknownTopic)?.id;
        match publisher.session.send(now, id, parts) {
            Ok(_) => Ok(()),
            Err(SendError::WouldBlock) => {
                publisher.transmit(now, &self.counters.context);
                publisher.session.send(now, id, parts).map(drop).inspect_err(|_| {
                    self.counters.context.sends_blocked.inc();
                })
            }
            Err(other) => Err(other),
        }
    }
}

impl Publisher {
    /// NAKs have arrived.
    pub(crate) fn on_ready(&mut self, now: Nanos, batch: &mut ReceiveBatch) {
        if let Ok(received) = self.socket.receive(batch) {
            for (_, datagram) in received.datagrams() {
                // What is not a NAK of this session is counted by the session.
                let _ = self.session.on_datagram(now, datagram);
            }
        }
    }

    pub(crate) fn on_wakeup(&mut self, now: Nanos) {
        self.session.on_wakeup(now);
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.session.next_wakeup().max(self.blocked_until)
    }

    pub(crate) fn flush(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.flush();
        self.transmit(now, counters);
    }

    pub(crate) fn end(&mut self, now: Nanos, counters: &MessagingContext) {
        self.session.end(now);
        self.transmit(now, counters);
    }

    /// Sends what there is to send until the rate limit or the socket has enough.
    pub(crate) fn transmit(&mut self, now: Nanos, counters: &MessagingContext) {
        if now < self.blocked_until {
            return;
        }
        while let Some(run) = self.session.poll_transmit(now) {
            match self.socket.send_run(self.group, run.bytes, run.segment_len) {
                Ok(Sent::Datagrams(count)) => self.session.sent(now, count as u32),
                Ok(Sent::WouldBlock) => {
                    self.blocked_until = now + BLOCKED_WAIT;
                    return;
                }
                // No route, say. The datagrams count as sent and lost; NAKs bring them back when there is one
                // again.
                Err(_) => {
                    counters.sends_failed.inc();
                    let count = run.count;
                    self.session.sent(now, count);
                }
            }
        }
    }
}
