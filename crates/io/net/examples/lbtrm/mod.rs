//! One end of LBT-RM sessions over either carrier, for the examples: a source of one topic, and a receiver of
//! the first session that is heard.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::{LbmDelivery, LbtrmReceiver, LbtrmSource, XdpSocket as XdpCounters};
use lbt::config::{ReceiverConfig, SourceConfig};
use lbt::delivery::DeliverySink;
use lbt::rm::{Receiver, SendError, SessionKey, Source, TopicId};
use lbt::wire::lbtrm::SessionHeader;
use tickcast_net::clock;
use tickcast_net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use tickcast_net::xdp::{XdpOptions, XdpSocket};
use units::Nanos;

const TOPIC_INDEX: u32 = 1;
const BUFFER_BYTES: usize = 8 << 20;
/// Timers are looked at so often.
const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);
/// Longer than a process may have to wait for its turn on a machine with much to do.
const NAK_GENERATION_INTERVAL: Duration = Duration::from_secs(8);
/// Of so many looks at the group's socket, one is at the unicast socket too.
const UNICAST_EVERY: u32 = 16;

/// What brings datagrams.
pub(crate) enum Carrier {
    /// Sockets of the kernel: one for unicast, one for the group.
    Sockets { local: UdpSocket, group: UdpSocket, batch: Box<ReceiveBatch>, looks: u32 },
    /// AF_XDP.
    Xdp { socket: Box<XdpSocket>, local: SocketAddrV4 },
}

impl Carrier {
    /// Ordinary sockets on an interface that hear `group`.
    pub(crate) fn sockets(interface: Ipv4Addr, group: SocketAddrV4) -> io::Result<Carrier> {
        let options = MulticastOptions { interface, ttl: 1, buffer_bytes: BUFFER_BYTES };
        Ok(Carrier::Sockets {
            local: UdpSocket::multicast_sender(SocketAddrV4::new(interface, 0), options)?,
            group: UdpSocket::multicast_receiver(group, options)?,
            batch: Box::new(ReceiveBatch::new(8)),
            looks: 0,
        })
    }

    /// AF_XDP on an interface, hearing `group`.
    pub(crate) fn xdp(
        options: &XdpOptions,
        group: SocketAddrV4,
        counters: Arc<XdpCounters>,
    ) -> io::Result<Carrier> {
        let mut socket = Box::new(XdpSocket::open(options, counters)?);
        let local = socket.bind(0)?;
        socket.join(group)?;
        Ok(Carrier::Xdp { socket, local })
    }

    /// Where unicast arrives.
    pub(crate) fn local(&self) -> io::Result<SocketAddrV4> {
        match self {
            Carrier::Sockets { local, .. } => local.local_address(),
            Carrier::Xdp { local, .. } => Ok(*local),
        }
    }

    /// Sends the first datagrams of a run.
    #[inline]
    pub(crate) fn send(&mut self, to: SocketAddrV4, bytes: &[u8], segment_len: usize) -> io::Result<usize> {
        let sent = match self {
            Carrier::Sockets { local, .. } => local.send_run(to, bytes, segment_len)?,
            Carrier::Xdp { socket, local } => socket.send_run(local.port(), to, bytes, segment_len)?,
        };
        Ok(match sent {
            Sent::Datagrams(count) => count,
            Sent::WouldBlock => 0,
        })
    }

    /// Hands over what has come: sender, whether to the group, payload.
    #[inline]
    pub(crate) fn receive(&mut self, mut take: impl FnMut(SocketAddrV4, bool, &[u8])) -> io::Result<()> {
        match self {
            Carrier::Sockets { local, group, batch, looks } => {
                group.receive(batch)?.datagrams().for_each(|(from, datagram)| take(from, true, datagram));
                *looks += 1;
                if looks.is_multiple_of(UNICAST_EVERY) {
                    local.receive(batch)?.datagrams().for_each(|(from, d)| take(from, false, d));
                }
            }
            Carrier::Xdp { socket, .. } => {
                for d in socket.receive()?.datagrams() {
                    take(d.from, d.to.ip().is_multicast(), d.payload);
                }
            }
        }
        Ok(())
    }

    fn service(&mut self, now: Nanos) -> io::Result<()> {
        match self {
            Carrier::Xdp { socket, .. } if socket.next_service() <= now => socket.service(now),
            _ => Ok(()),
        }
    }
}

/// A source and a receiver on one carrier.
pub(crate) struct End<S> {
    carrier: Carrier,
    to: SocketAddrV4,
    source: Source,
    topic: TopicId,
    receiver: Option<Receiver>,
    pub(crate) receiver_counters: Arc<LbtrmReceiver>,
    pub(crate) source_counters: Arc<LbtrmSource>,
    /// Where messages go.
    pub(crate) sink: S,
    /// That of its source, whose session messages come back to its host.
    session: SessionHeader,
    upkeep_due: Nanos,
}

impl<S: DeliverySink> End<S> {
    /// An end that sends to the group `to`.
    pub(crate) fn new(
        carrier: Carrier,
        to: SocketAddrV4,
        config: &SourceConfig,
        sink: S,
    ) -> io::Result<End<S>> {
        let now = clock::monotonic();
        let session = SessionHeader { ucast_port: carrier.local()?.port(), session_id: clock::seed() as u32 };
        let source_counters = Arc::<LbtrmSource>::default();
        let mut source =
            Source::new(config, session, now, source_counters.clone()).map_err(io::Error::other)?;
        source.prefault();
        let topic = source.add_topic(now, TOPIC_INDEX);
        let receiver_counters = Arc::default();
        Ok(End {
            carrier,
            to,
            source,
            topic,
            receiver: None,
            receiver_counters,
            source_counters,
            sink,
            session,
            upkeep_due: now,
        })
    }

    /// Sends a message, alone in its datagram when `flush` says so. False if it would block.
    #[inline]
    pub(crate) fn send(&mut self, now: Nanos, message: &[u8], flush: bool) -> io::Result<bool> {
        match self.source.send(now, self.topic, &[message]) {
            Ok(_) => {}
            Err(SendError::WouldBlock) => {
                self.transmit(now)?;
                return Ok(false);
            }
            Err(e) => return Err(io::Error::other(e)),
        }
        if flush {
            self.source.flush();
            self.transmit(now)?;
        }
        Ok(true)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn end(&mut self, now: Nanos) {
        self.source.end(now);
    }

    /// Takes what has come, and does what is due every now and then.
    #[inline]
    pub(crate) fn turn(&mut self, now: Nanos) -> io::Result<()> {
        let own = self.session;
        let (source, receiver, sink) = (&mut self.source, &mut self.receiver, &mut self.sink);
        let counters = &self.receiver_counters;
        self.carrier.receive(|from, to_group, datagram| {
            // What is malformed is counted and dropped where it is found.
            if !to_group {
                let _ = source.on_datagram(now, from, datagram);
            } else if let Some(receiver) = receiver {
                let _ = receiver.on_datagram(now, from, datagram, sink);
            } else if let Some(key) = SessionKey::of(*from.ip(), datagram).filter(|key| key.session != own) {
                let mut new = new_receiver(key, now, counters.clone());
                let _ = new.on_datagram(now, from, datagram, sink);
                *receiver = Some(new);
            }
        })?;
        if self.upkeep_due <= now { self.upkeep(now) } else { Ok(()) }
    }

    fn upkeep(&mut self, now: Nanos) -> io::Result<()> {
        self.upkeep_due = now.after(UPKEEP_INTERVAL);
        self.carrier.service(now)?;
        if let Some(receiver) = &mut self.receiver
            && receiver.next_wakeup() <= now
        {
            receiver.on_wakeup(now, &mut self.sink);
            while let Some(feedback) = receiver.poll_transmit(now) {
                self.carrier.send(feedback.to, feedback.datagram, feedback.datagram.len())?;
            }
        }
        if self.source.next_wakeup() <= now {
            self.source.on_wakeup(now);
            self.transmit(now)?;
        }
        Ok(())
    }

    #[inline]
    fn transmit(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(run) = self.source.poll_transmit(now) {
            let sent = self.carrier.send(self.to, run.bytes, run.segment_len)?;
            if sent == 0 {
                break;
            }
            self.source.sent(now, sent as u32);
        }
        Ok(())
    }
}

fn new_receiver(key: SessionKey, now: Nanos, counters: Arc<LbtrmReceiver>) -> Receiver {
    let delivery = Arc::<LbmDelivery>::default();
    let config =
        ReceiverConfig { nak_generation_interval: NAK_GENERATION_INTERVAL, ..ReceiverConfig::default() };
    let mut receiver =
        Receiver::new(&config, key, clock::seed(), now, counters, delivery).expect("it is allowed");
    receiver.subscribe(TOPIC_INDEX, 0).expect("the first topic");
    receiver
}
