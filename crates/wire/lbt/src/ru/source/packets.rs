//! What each packet from a receiver, or from somebody who pretends to be one, makes a source do.

use super::super::clients::ClientEvent;
use super::super::connection::LEAVE;
use super::super::greeter::Reply;
use super::Unicast;
use crate::error::{Part, WireError};
use crate::session::{Packer, Retransmitter, Transmitter};
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

impl Unicast {
    /// Takes a datagram that arrived at the session's port.
    pub(super) fn take_packet(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        is_ending: bool,
    ) -> Result<(), WireError> {
        let datagram = packer.end().open(datagram, transmitter.counters())?;
        let packet =
            Packet::parse(datagram).inspect_err(|_| transmitter.counters().nak_pckts_dropped.inc())?;
        match packet.body {
            Body::ConnectRequest if packet.flags == 0 => {
                self.on_connect_request(now, from, packet.options.client_id, is_ending);
            }
            Body::Ack { sqn } => {
                self.check_session(from, packet.options.session_id)?;
                if is_leave(packet.rest) {
                    self.on_leave(packer, transmitter, now, from);
                } else {
                    self.on_ack(packer, transmitter, now, from, sqn);
                }
            }
            Body::Nak { numbers, .. } if numbers.is_empty() => {
                self.check_session(from, packet.options.session_id)?;
                self.on_client_report(packer, transmitter, now, from, packet.rest);
            }
            Body::Nak { format, numbers } if format & 0xF == 0 => {
                self.check_session(from, packet.options.session_id)?;
                self.on_nak(packer, transmitter, now, from, numbers);
            }
            _ => transmitter.counters().nak_pckts_dropped.inc(),
        }
        Ok(())
    }

    /// A packet for another session comes from a receiver of one that was here before; it is told so.
    fn check_session(&mut self, from: SocketAddrV4, session_id: Option<u32>) -> Result<(), WireError> {
        if session_id == Some(self.session_id) {
            return Ok(());
        }
        self.counters.clients.dgrams_dropped_sid.inc();
        self.reply(from, Reply::Reset);
        let (found, limit) = (session_id.unwrap_or(0), self.session_id);
        Err(WireError::Inconsistent { part: Part::LbtruSession, found, limit })
    }

    fn on_connect_request(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        client_id: Option<u32>,
        is_ending: bool,
    ) {
        self.counters.clients.creqs_rcved.inc();
        let known = self.clients.find(from).is_some();
        let refused = !known && self.clients.is_full();
        if !self.greeter.may_answer(now, from) {
            self.counters.clients.creqs_ignored.inc();
        } else if refused || !known && is_ending {
            self.counters.clients.clients_refused.add(u64::from(refused));
            self.reply(from, Reply::Reset);
        } else {
            self.reply(from, Reply::Syn { client_id });
        }
    }

    fn on_ack(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        sqn: Sqn,
    ) {
        let window = packer.window();
        let (lead, trail) = (window.unsent().prev(), window.trail());
        // what is going out to one client after the other may have arrived
        let ahead = window.next().prev();
        let counters = self.counters.clone();
        if let Some(at) = self.clients.find(from).filter(|_| !ahead.precedes(sqn)) {
            counters.clients.acks_rcved.inc();
            self.clients.heard(at, now).acked = sqn;
        } else if sqn.precedes(trail.prev()) || lead.precedes(sqn) {
            counters.clients.acks_dropped.inc();
            self.reply(from, Reply::Reset);
        } else if self.clients.is_full() {
            counters.clients.clients_refused.inc();
            self.reply(from, Reply::Reset);
        } else {
            counters.clients.acks_rcved.inc();
            self.greeter.acknowledged(from);
            let forgotten = self.clients.add(now, from, sqn);
            counters.clients.events_dropped.add(u64::from(forgotten));
            counters.clients.clients_connected.inc();
            counters.clients.num_clients.set(self.clients.len() as u64);
            self.share_rate(transmitter, now);
            // the first session message tells it soon what it missed meanwhile
            transmitter.begin_silence(now);
        }
    }

    /// A client leaves. It is told as one that is dropped: if somebody else has said so, it connects again.
    #[cold]
    fn on_leave(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
    ) {
        if let Some(at) = self.clients.find(from) {
            self.counters.clients.clients_left.inc();
            self.drop_client(at);
            self.share_rate(transmitter, now);
            self.end_fan(packer, transmitter, now);
        }
    }

    fn on_nak(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        numbers: SqnList<'_>,
    ) {
        let Some(at) = self.client_or_reset(from) else { return };
        let repair_time = transmitter.on_nak(now, numbers.len());
        let room = transmitter.repeat_room(now);
        let counters = transmitter.counters();
        counters.nak_pckts_rcved.inc();
        let client = self.clients.heard(at, now);
        client.naks_rcved += numbers.len() as u64;
        let config = &self.config;
        let repeats = self
            .clients
            .repeats_or(at, || Retransmitter::new(config, config.retransmit_queue_maximum as usize));
        repeats.set_round_trip(repair_time);
        repeats.on_nak(now, numbers, packer.window(), room, None, counters);
        self.clients.refresh(at);
        counters.rctlr_rx_msgs.set(self.clients.queued());
    }

    fn on_client_report(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        trailer: &[u8],
    ) {
        let Some(at) = self.client_or_reset(from) else { return };
        self.clients.heard(at, now);
        if !transmitter.on_answer(from, trailer)
            && transmitter.on_report(now, trailer, packer.window().unsent())
        {
            let forgotten = self.clients.tell(ClientEvent::TooSlow(from));
            self.counters.clients.events_dropped.add(u64::from(forgotten));
        }
    }

    /// The place of a client; who is none is told so.
    fn client_or_reset(&mut self, from: SocketAddrV4) -> Option<usize> {
        let found = self.clients.find(from);
        if found.is_none() {
            self.counters.clients.dgrams_dropped_client.inc();
            self.reply(from, Reply::Reset);
        }
        found
    }
}
