use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use market::distributor::PeerId;
use net::ring::broadcast::{ALL, Broadcaster};
use net::ring::{Consumer, PushError};
use net::{Ready, Registrar, Token};
use units::Nanos;

use super::{
    CONNECT, DISCONNECT, Hub, LINK, Mail, RING_BYTES, STREAM, Side, TOPIC_CLOSED, TOPIC_OPENED, head, split,
};
use crate::{DIRECTORY_TOPIC, Notice, Outlet, OutletEvent, SERVICE_TOPIC_PREFIX};

/// A source distributor's side of the backbone inside a process.
pub struct InProcessOutlet {
    side: Arc<Side>,
    ring: Broadcaster,
    /// Messages that the ring had no room for, oldest first, and who they are for.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Who has got something since the ring was last shown.
    told: u64,
    inlets: Vec<Attached>,
    /// Names of the topics by their numbers; the directory is 0, a service's is its id plus one.
    topics: BTreeMap<u32, String>,
    next_peer: u32,
}

struct Attached {
    from_inlet: Consumer,
    inlet: Arc<Side>,
    /// It stands for this inlet in the ring.
    bit: u64,
    /// The link, while there is one.
    peer: Option<PeerId>,
}

const DIRECTORY: u32 = 0;

fn topic_of(service: u16) -> u32 {
    u32::from(service) + 1
}

impl InProcessOutlet {
    /// Joins a hub. The thread's poller is woken under `token`; a thread that never sleeps `spins`.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(hub: &Hub, registrar: &Registrar, token: Token, spins: bool) -> io::Result<InProcessOutlet> {
        let topics = BTreeMap::from([(DIRECTORY, DIRECTORY_TOPIC.to_owned())]);
        let side = hub.join(registrar, token, spins, true)?;
        let (ring, waiting) = (Broadcaster::new(RING_BYTES), VecDeque::new());
        Ok(InProcessOutlet { side, ring, waiting, told: 0, inlets: Vec::new(), topics, next_peer: 0 })
    }

    /// Sends a message to the inlets whose bits are set.
    #[inline]
    fn send(&mut self, to: u64, parts: &[&[u8]]) {
        self.told |= to;
        if !self.waiting.is_empty() || self.ring.push(to, parts) == Err(PushError::Full) {
            self.waiting.push_back((to, parts.concat()));
        }
    }

    fn send_waiting(&mut self) {
        while let Some((to, message)) = self.waiting.front() {
            if self.ring.push(*to, &[message]) == Err(PushError::Full) {
                break;
            }
            self.waiting.pop_front();
        }
        self.ring.publish();
        let told = std::mem::take(&mut self.told);
        // One that sleeps, because nothing was for it, may be what the ring waits for.
        let wake = if self.waiting.is_empty() { told } else { ALL };
        self.inlets.iter().filter(|inlet| inlet.bit & wake != 0).for_each(|inlet| inlet.inlet.nudge());
    }

    /// An inlet is there: it gets what is sent from now on.
    fn attach(&mut self, mail: Mail, events: &mut Vec<OutletEvent>) {
        let Mail::Inlet { to_outlet, from_inlet, inlet } = mail else { return };
        let Some(from_outlet) = self.ring.add_reader() else {
            let text = "a server is not reached: there are 64 in this process already".to_owned();
            return events.push(OutletEvent::Notice(Notice { text, is_fault: true }));
        };
        let bit = from_outlet.bit();
        inlet.post(Mail::Outlet { to_outlet, from_outlet, outlet: self.side.clone() });
        for (number, name) in self.topics.clone() {
            self.send(bit, &[&head(TOPIC_OPENED, number), name.as_bytes()]);
        }
        self.inlets.push(Attached { from_inlet, inlet, bit, peer: None });
    }

    fn poll(&mut self, events: &mut Vec<OutletEvent>) {
        for mail in self.side.take_mail() {
            self.attach(mail, events);
        }
        for at in 0..self.inlets.len() {
            self.poll_one(at, events);
        }
        self.inlets.retain(|inlet| !inlet.inlet.is_closed() || inlet.peer.is_some());
    }

    fn poll_one(&mut self, at: usize, events: &mut Vec<OutletEvent>) {
        let Attached { from_inlet, inlet, peer, .. } = &mut self.inlets[at];
        let next_peer = &mut self.next_peer;
        from_inlet.drain(usize::MAX, |message| match split(message) {
            Some((CONNECT, ..)) => {
                *next_peer += 1;
                *peer = Some(PeerId(*next_peer));
                events.push(OutletEvent::Connected(PeerId(*next_peer)));
            }
            Some((LINK, _, bytes)) => {
                if let Some(peer) = peer {
                    events.push(OutletEvent::Message(*peer, bytes.to_vec()));
                }
            }
            Some((DISCONNECT, ..)) => {
                if let Some(gone) = peer.take() {
                    events.push(OutletEvent::Closed(gone, "the peer has ended the link".to_owned()));
                }
            }
            _ => {}
        });
        if inlet.is_closed()
            && let Some(gone) = peer.take()
        {
            events.push(OutletEvent::Closed(gone, "the peer has ended the link".to_owned()));
        }
    }

    fn has_work(&self) -> bool {
        let mail = self.side.has_mail.load(Ordering::Acquire);
        mail || self
            .inlets
            .iter()
            .any(|i| !i.from_inlet.is_empty() || (i.inlet.is_closed() && i.peer.is_some()))
    }
}

impl Outlet for InProcessOutlet {
    fn open_stream(&mut self, _: Nanos, service: u16, name: &str) -> io::Result<()> {
        let topic = format!("{SERVICE_TOPIC_PREFIX}{name}");
        self.send(ALL, &[&head(TOPIC_OPENED, topic_of(service)), topic.as_bytes()]);
        self.topics.insert(topic_of(service), topic);
        Ok(())
    }

    fn close_stream(&mut self, service: u16) {
        if self.topics.remove(&topic_of(service)).is_some() {
            self.send(ALL, &[&head(TOPIC_CLOSED, topic_of(service))]);
        }
    }

    #[inline]
    fn publish(&mut self, _: Nanos, service: u16, header: &[u8], body: &[u8]) {
        self.send(ALL, &[&head(STREAM, topic_of(service)), header, body]);
    }

    fn publish_directory(&mut self, _: Nanos, header: &[u8], body: &[u8]) {
        self.send(ALL, &[&head(STREAM, DIRECTORY), header, body]);
    }

    fn to_peer(&mut self, peer: PeerId, bytes: &[u8]) {
        if let Some(bit) = self.inlets.iter().find(|i| i.peer == Some(peer)).map(|inlet| inlet.bit) {
            self.send(bit, &[&head(LINK, 0), bytes]);
        }
    }

    fn is_full(&self, peer: PeerId) -> bool {
        !self.waiting.is_empty() && self.inlets.iter().any(|inlet| inlet.peer == Some(peer))
    }

    fn close_peer(&mut self, peer: PeerId) {
        if let Some(inlet) = self.inlets.iter_mut().find(|i| i.peer == Some(peer)) {
            inlet.peer = None;
            let bit = inlet.bit;
            self.send(bit, &[&head(DISCONNECT, 0)]);
        }
    }

    fn is_blocked(&self) -> bool {
        !self.waiting.is_empty() && self.inlets.iter().any(|inlet| !inlet.inlet.is_closed())
    }

    fn on_ready(&mut self, _: Nanos, _: Ready, events: &mut Vec<OutletEvent>) {
        self.side.waker.acknowledge();
        self.poll(events);
        self.side.idle();
        self.poll(events);
    }

    fn on_wakeup(&mut self, _: Nanos, events: &mut Vec<OutletEvent>) {
        self.poll(events);
        self.side.idle();
        self.poll(events);
    }

    /// At once if a ring has something, or is full and may have room again by now.
    fn next_wakeup(&self) -> Nanos {
        if self.has_work() || self.is_blocked() { Nanos::ZERO } else { Nanos::NEVER }
    }

    fn flush(&mut self, _: Nanos) {
        self.send_waiting();
    }

    fn end(&mut self, now: Nanos) {
        self.flush(now);
        self.side.close();
    }
}

impl Drop for InProcessOutlet {
    fn drop(&mut self) {
        self.side.close();
        self.inlets.iter().for_each(|i| i.inlet.waker.wake());
    }
}
