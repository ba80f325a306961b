//! What each packet from a receiver, or from somebody who pretends to be one, makes a source do.

use super::super::clients::ClientEvent;
use super::super::connection::LEAVE;
use super::super::greeter::Reply;
use super::Source;
use crate::error::{Part, WireError};
use crate::session::Ending;
use crate::wire::extension::{SUBTYPE_LEAVE, find_extension};
use crate::wire::lbtru::{Body, Packet};
use crate::wire::list::SqnList;
use std::net::SocketAddrV4;
use units::{Nanos, Sqn};

/// Whether an ACK says that its sender leaves.
fn is_leave(trailer: &[u8]) -> bool {
    !trailer.is_empty()
        && find_extension(trailer, SUBTYPE_LEAVE).is_some_and(|data| data.first() == Some(&LEAVE[0]))
}

impl Source {
    /// Takes a datagram that arrived at the session's port.
    ///
    /// # Errors
    /// It is no LBT-RU datagram, not signed where it must be, or for another session. What receivers do not
    /// send is counted and dropped.
    pub fn on_datagram(&mut self, now: Nanos, from: SocketAddrV4, datagram: &[u8]) -> Result<(), WireError> {
        let datagram = match self.transport.ending.sealer() {
            None => datagram,
            Some(sealer) => {
                sealer.open(datagram).inspect_err(|_| self.counters.nak_pckts_unauthentic.inc())?
            }
        };
        let packet = Packet::parse(datagram).inspect_err(|_| self.counters.nak_pckts_dropped.inc())?;
        match packet.body {
            Body::ConnectRequest if packet.flags == 0 => {
                self.on_connect_request(now, from, packet.options.client_id);
            }
            Body::Ack { sqn } => {
                self.check_session(from, packet.options.session_id)?;
                if is_leave(packet.rest) {
                    self.on_leave(now, from);
                } else {
                    self.on_ack(now, from, sqn);
                }
            }
            Body::Nak { numbers, .. } if numbers.is_empty() => {
                self.check_session(from, packet.options.session_id)?;
                self.on_client_report(now, from, packet.rest);
            }
            Body::Nak { format, numbers } if format & 0xF == 0 => {
                self.check_session(from, packet.options.session_id)?;
                self.on_nak(now, from, numbers);
            }
            _ => self.counters.nak_pckts_dropped.inc(),
        }
        Ok(())
    }

    /// A packet for another session comes from a receiver of one that was here before; it is told so.
    fn check_session(&mut self, from: SocketAddrV4, session_id: Option<u32>) -> Result<(), WireError> {
        if session_id == Some(self.transport.session_id) {
            return Ok(());
        }
        self.transport.counters.clients.dgrams_dropped_sid.inc();
        self.reply(from, Reply::Reset);
        let (found, limit) = (session_id.unwrap_or(0), self.transport.session_id);
        Err(WireError::Inconsistent { part: Part::LbtruSession, found, limit })
    }

    fn on_connect_request(&mut self, now: Nanos, from: SocketAddrV4, client_id: Option<u32>) {
        self.transport.counters.clients.creqs_rcved.inc();
        let known = self.transport.clients.find(from).is_some();
        let refused = !known && self.transport.clients.is_full();
        if !self.transport.greeter.may_answer(now, from) {
            self.transport.counters.clients.creqs_ignored.inc();
        } else if refused || !known && self.ending != Ending::No {
            self.transport.counters.clients.clients_refused.add(u64::from(refused));
            self.reply(from, Reply::Reset);
        } else {
            self.reply(from, Reply::Syn { client_id });
        }
    }

    fn on_ack(&mut self, now: Nanos, from: SocketAddrV4, sqn: Sqn) {
        let (lead, trail) = (self.window.unsent().prev(), self.window.trail());
        // what is going out to one client after the other may have arrived
        let ahead = self.window.next().prev();
        let counters = self.transport.counters.clone();
        if let Some(at) = self.transport.clients.find(from).filter(|_| !ahead.precedes(sqn)) {
            counters.clients.acks_rcved.inc();
            self.transport.clients.heard(at, now).acked = sqn;
        } else if sqn.precedes(trail.prev()) || lead.precedes(sqn) {
            counters.clients.acks_dropped.inc();
            self.reply(from, Reply::Reset);
        } else if self.transport.clients.is_full() {
            counters.clients.clients_refused.inc();
            self.reply(from, Reply::Reset);
        } else {
            counters.clients.acks_rcved.inc();
            self.transport.greeter.acknowledged(from);
            let forgotten = self.transport.clients.add(now, from, sqn);
            counters.clients.events_dropped.add(u64::from(forgotten));
            counters.clients.clients_connected.inc();
            counters.clients.num_clients.set(self.transport.clients.len() as u64);
            self.share_rate(now);
            // the first session message tells it soon what it missed meanwhile
            self.schedule.on_datagram(now);
        }
    }

    /// A client leaves. It is told as one that is dropped: if somebody else has said so, it connects again.
    #[cold]
    fn on_leave(&mut self, now: Nanos, from: SocketAddrV4) {
        if let Some(at) = self.transport.clients.find(from) {
            self.transport.counters.clients.clients_left.inc();
            self.drop_client(at);
            self.share_rate(now);
            self.end_fan(now);
        }
    }

    fn on_nak(&mut self, now: Nanos, from: SocketAddrV4, numbers: SqnList<'_>) {
        let Some(at) = self.client_or_reset(from) else { return };
        self.asked = now;
        self.note_naks(numbers.len());
        let repair_time = self.repair_time();
        self.counters.nak_pckts_rcved.inc();
        let client = self.transport.clients.heard(at, now);
        client.naks_rcved += numbers.len() as u64;
        let config = &self.transport.config;
        let repeats = self.transport.clients.repeats_or(at, || Source::new_repeats(config));
        repeats.set_round_trip(repair_time);
        repeats.on_nak(now, numbers, &self.window, &mut self.repeat_limit, None, &self.counters);
        self.transport.clients.refresh(at);
        self.counters.rctlr_rx_msgs.set(self.transport.clients.queued());
    }

    fn on_client_report(&mut self, now: Nanos, from: SocketAddrV4, trailer: &[u8]) {
        let Some(at) = self.client_or_reset(from) else { return };
        self.transport.clients.heard(at, now);
        if !self.on_answer(from, trailer) && self.on_report(now, trailer) {
            let forgotten = self.transport.clients.tell(ClientEvent::TooSlow(from));
            self.transport.counters.clients.events_dropped.add(u64::from(forgotten));
        }
    }

    /// The place of a client; who is none is told so.
    fn client_or_reset(&mut self, from: SocketAddrV4) -> Option<usize> {
        let found = self.transport.clients.find(from);
        if found.is_none() {
            self.transport.counters.clients.dgrams_dropped_client.inc();
            self.reply(from, Reply::Reset);
        }
        found
    }
}
