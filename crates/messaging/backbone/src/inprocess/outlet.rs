use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use market::distributor::PeerId;
use net::ring::PushError;
use net::{Ready, Registrar, Token};
use units::Nanos;

use super::{CONNECT, DISCONNECT, Hub, LINK, Partner, STREAM, Side, TOPIC_CLOSED, TOPIC_OPENED, head, split};
use crate::{DIRECTORY_TOPIC, Outlet, OutletEvent, SERVICE_TOPIC_PREFIX};

/// A source distributor's side of the backbone inside a process.
pub struct InProcessOutlet {
    side: Arc<Side>,
    inlets: Vec<Attached>,
    /// Names of the topics by their numbers; the directory is 0, a service's is its id plus one.
    topics: BTreeMap<u32, String>,
    next_peer: u32,
}

struct Attached {
    partner: Partner,
    /// Messages that the ring had no room for, oldest first.
    waiting: VecDeque<Vec<u8>>,
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
        Ok(InProcessOutlet { side, inlets: Vec::new(), topics, next_peer: 0 })
    }

    fn send_to_all(&mut self, head: [u8; 5], parts: [&[u8]; 2]) {
        for inlet in &mut self.inlets {
            inlet.send(&[&head, parts[0], parts[1]]);
        }
    }

    fn poll(&mut self, events: &mut Vec<OutletEvent>) {
        for partner in self.side.take_mail() {
            let mut attached = Attached { partner, waiting: VecDeque::new(), peer: None };
            for (&number, name) in &self.topics {
                attached.send(&[&head(TOPIC_OPENED, number), name.as_bytes()]);
            }
            self.inlets.push(attached);
        }
        for at in 0..self.inlets.len() {
            self.poll_one(at, events);
        }
        self.inlets.retain(|inlet| !inlet.partner.is_gone() || inlet.peer.is_some());
    }

    fn poll_one(&mut self, at: usize, events: &mut Vec<OutletEvent>) {
        let Attached { partner, peer, .. } = &mut self.inlets[at];
        let next_peer = &mut self.next_peer;
        partner.from.drain(usize::MAX, |message| match split(message) {
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
        if partner.is_gone()
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
            .any(|i| !i.partner.from.is_empty() || (i.partner.is_gone() && i.peer.is_some()))
    }
}

impl Attached {
    fn send(&mut self, parts: &[&[u8]]) {
        if self.waiting.is_empty() && self.partner.to.push(parts) != Err(PushError::Full) {
            return;
        }
        self.waiting.push_back(parts.concat());
    }

    fn send_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            if self.partner.to.push(&[message]) == Err(PushError::Full) {
                break;
            }
            self.waiting.pop_front();
        }
        self.partner.publish();
    }
}

impl Partner {
    pub(super) fn is_gone(&self) -> bool {
        self.other.is_closed.load(Ordering::Acquire)
    }
}

impl Outlet for InProcessOutlet {
    fn open_stream(&mut self, _: Nanos, service: u16, name: &str) -> io::Result<()> {
        let topic = format!("{SERVICE_TOPIC_PREFIX}{name}");
        self.send_to_all(head(TOPIC_OPENED, topic_of(service)), [topic.as_bytes(), &[]]);
        self.topics.insert(topic_of(service), topic);
        Ok(())
    }

    fn close_stream(&mut self, service: u16) {
        if self.topics.remove(&topic_of(service)).is_some() {
            self.send_to_all(head(TOPIC_CLOSED, topic_of(service)), [&[], &[]]);
        }
    }

    #[inline]
    fn publish(&mut self, _: Nanos, service: u16, header: &[u8], body: &[u8]) {
        self.send_to_all(head(STREAM, topic_of(service)), [header, body]);
    }

    fn publish_directory(&mut self, _: Nanos, header: &[u8], body: &[u8]) {
        self.send_to_all(head(STREAM, DIRECTORY), [header, body]);
    }

    fn to_peer(&mut self, peer: PeerId, bytes: &[u8]) {
        if let Some(inlet) = self.inlets.iter_mut().find(|i| i.peer == Some(peer)) {
            inlet.send(&[&head(LINK, 0), bytes]);
        }
    }

    fn is_full(&self, peer: PeerId) -> bool {
        self.inlets.iter().any(|inlet| inlet.peer == Some(peer) && !inlet.waiting.is_empty())
    }

    fn close_peer(&mut self, peer: PeerId) {
        if let Some(inlet) = self.inlets.iter_mut().find(|i| i.peer == Some(peer)) {
            inlet.peer = None;
            inlet.send(&[&head(DISCONNECT, 0)]);
        }
    }

    fn is_blocked(&self) -> bool {
        self.inlets.iter().any(|i| !i.waiting.is_empty() && !i.partner.is_gone())
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
        self.inlets.iter_mut().for_each(Attached::send_waiting);
    }

    fn end(&mut self, now: Nanos) {
        self.flush(now);
        self.side.close();
    }
}

impl Drop for InProcessOutlet {
    fn drop(&mut self) {
        self.side.close();
        self.inlets.iter().for_each(|i| i.partner.other.waker.wake());
    }
}
