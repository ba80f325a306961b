//! What a source sends, and to which of its clients.

use super::super::fan::{Fan, What};
use super::super::greeter::Reply;
use super::{Lent, Transmit, Unicast};
use crate::session::{self, Packer, Transmitter};
use crate::wire::lbtru::{self, Body, FLAG_SYN, NCF_LEN, Options, Packet};
use std::net::SocketAddrV4;
use units::{Nanos, Sqn};

impl Unicast {
    /// When a confirmation or a retransmission is to go to a client.
    pub(super) fn repeats_due(&self, transmitter: &Transmitter) -> Nanos {
        if self.clients.busy().any(|(_, r)| r.has_ncfs()) {
            return Nanos::ZERO;
        }
        // nobody overtakes the client whose turn it is, even if his datagram is shorter
        let first = self.clients.busy().find_map(|(_, r)| r.front_len());
        first.map_or(Nanos::NEVER, |len| transmitter.repeat_due(len))
    }

    /// When something is to go to all clients.
    pub(super) fn fan_due(&self, packer: &Packer, transmitter: &Transmitter) -> Nanos {
        match self.fan.what {
            _ if self.clients.len() == 0 => transmitter.data_due(packer.window()),
            What::SessionMessage => Nanos::ZERO,
            What::Data(first) => transmitter.data_due_of(packer.window().len_of(first.plus(self.fan.done))),
            What::Nothing => {
                let data = transmitter.data_due(packer.window());
                data.min(transmitter.silence_due()).min(transmitter.pulse_due())
            }
        }
    }

    pub(super) fn fan_out<'a>(
        &'a mut self,
        packer: &'a mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
    ) -> Option<Transmit<'a>> {
        if self.clients.len() == 0 {
            self.pass_unheard(packer, transmitter, now);
            return None;
        }
        let mut fresh = None;
        if self.fan.what == What::Nothing {
            let first = packer.window().unsent();
            fresh = transmitter.next_data(now, packer.window());
            if let Some(run) = fresh {
                self.fan = Fan::new(What::Data(first), run.count);
            } else if transmitter.silence_due() <= now {
                self.begin_session_message(packer, transmitter, now);
            }
        }
        let Fan { what, count, client, done } = self.fan;
        let left = self.clients.len() - client;
        let (run, clients) = match what {
            What::Nothing => return None,
            What::SessionMessage => (None, left),
            What::Data(first) => {
                let run = match fresh {
                    Some(run) => run,
                    None => {
                        let bytes_max = transmitter.data_bytes_max(now);
                        packer.window().run(first.plus(done), count - done, bytes_max)?
                    }
                };
                let whole = left > 1 && done == 0 && run.count == count;
                let mut affordable = || transmitter.data_room(now) / run.bytes as u64;
                let clients = if whole { left.min(usize::try_from(affordable()).unwrap_or(left)) } else { 1 };
                (Some(run), clients.max(1))
            }
        };
        let (count, bytes) = run.map_or((1, 0), |run| (run.count, run.bytes as u64));
        self.lent = Lent::Fan { count, bytes, clients: clients as u32 };
        let to = &self.clients.addresses()[client..client + clients];
        let message = || session::Transmit::one(&self.session_message);
        Some(Transmit { to, run: run.map_or_else(message, |run| packer.lend(run)) })
    }

    /// Bytes of the next `count` datagrams of data, client by client.
    #[cold]
    pub(super) fn fan_bytes(&self, packer: &Packer, count: u32) -> u64 {
        let fan = self.fan;
        let What::Data(first) = fan.what else { return 0 };
        (0..count).map(|i| packer.window().len_of(first.plus((fan.done + i) % fan.count))).sum()
    }

    pub(super) fn fan_sent(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        count: u32,
        bytes: u64,
    ) {
        if let What::Data(_) = self.fan.what {
            transmitter.data_went_out(now, count, bytes);
        } else {
            transmitter.counters().sms_sent.add(u64::from(count));
        }
        self.fan.advance(count);
        self.end_fan(packer, transmitter, now);
    }

    /// Goes on to the next datagrams if all clients have these.
    pub(super) fn end_fan(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos) {
        let fan = self.fan;
        if fan.client < self.clients.len() {
            return;
        }
        match fan.what {
            What::Nothing => {}
            What::SessionMessage => {
                let bytes = transmitter.copies() * self.session_message.len() as u64;
                transmitter.session_message_went_out(now, bytes);
            }
            What::Data(_) => {
                let bytes = packer.mark_sent(now, fan.count);
                transmitter.note_sent(bytes, fan.count);
                transmitter.show_window(packer.window());
            }
        }
        self.fan = Fan::IDLE;
    }

    /// Nobody is there to hear what is new. It passes no faster than to a client, so that the window still
    /// holds the number that a receiver is told when its acknowledgement of it arrives.
    fn pass_unheard(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos) {
        self.fan = Fan::IDLE;
        while let Some(run) = transmitter.next_data(now, packer.window()) {
            let bytes = packer.mark_sent(now, run.count);
            transmitter.data_passed(bytes);
            self.counters.clients.unheard.add(u64::from(run.count));
            transmitter.show_window(packer.window());
        }
    }

    pub(super) fn next_repeats(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
    ) -> Option<(usize, Sqn, session::Run)> {
        loop {
            let (at, _) = self.clients.busy().find(|(_, r)| r.queued() > 0)?;
            let (bytes_max, count_max) = (transmitter.repeat_bytes_max(now), transmitter.run_count_max());
            let repeats = self.clients.repeats(at)?;
            if let Some((first, run)) = repeats.next_run(packer.window(), count_max, bytes_max) {
                return Some((at, first, run));
            }
            if repeats.queued() > 0 {
                // the rate limit: the turn is kept
                return None;
            }
            self.clients.refresh(at);
        }
    }

    pub(super) fn repeats_sent(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        at: usize,
        count: u32,
    ) {
        let Some(repeats) = self.clients.repeats(at) else { return };
        let bytes = (0..count).map(|_| repeats.mark_sent(now, packer.window())).sum();
        self.clients.client_mut(at).rxs_sent += u64::from(count);
        self.clients.refresh(at);
        self.clients.pass_turn(at);
        let copies = transmitter.copies();
        transmitter.note_sent(bytes / copies, count / copies as u32);
        transmitter.repeats_went_out(now, count, bytes);
        transmitter.counters().rctlr_rx_msgs.set(self.clients.queued());
    }

    fn options(&self) -> Options {
        Options::session(Some(self.session_id))
    }

    pub(super) fn lend_ncfs(&mut self, packer: &Packer, at: usize) -> Transmit<'_> {
        let (options, trail) = (self.options(), packer.window().trail());
        let count_max = packer.control_max(NCF_LEN) / 4;
        let Unicast { clients, control, lent, to, .. } = self;
        *to = [clients.addresses()[at]];
        let ncfs = clients.repeats(at).and_then(|r| r.first_ncfs(count_max));
        let (reason, numbers) = ncfs.expect("the caller found one");
        control.clear();
        lbtru::emit_ncf(options, trail, reason, numbers, control);
        packer.end().append(control);
        *lent = Lent::Ncfs { client: at, count: numbers.len() };
        Transmit { to, run: session::Transmit::one(control) }
    }

    pub(super) fn lend_reply(
        &mut self,
        packer: &Packer,
        transmitter: &Transmitter,
        to: SocketAddrV4,
        reply: Reply,
    ) -> Transmit<'_> {
        let packet = match reply {
            Reply::Reset => Packet::new(Body::Reset, Options::default()),
            Reply::Syn { client_id } => {
                let body = session_message(packer, transmitter.sm_sqn());
                let options = Options { client_id, ..self.options() };
                Packet { flags: FLAG_SYN, ..Packet::new(body, options) }
            }
        };
        self.control.clear();
        packet.emit(&mut self.control);
        packer.end().append(&mut self.control);
        self.to = [to];
        self.lent = Lent::Reply;
        Transmit { to: &self.to, run: session::Transmit::one(&self.control) }
    }

    pub(super) fn reply_sent(&mut self) {
        let counters = &self.counters.clients;
        match self.greeter.drop_first() {
            Some((_, Reply::Syn { .. })) => counters.syns_sent.inc(),
            Some((_, Reply::Reset)) => counters.rsts_sent.inc(),
            None => {}
        }
    }

    /// Answers to requests bear the number of the last session message, so that no client sees a hole.
    pub(super) fn begin_session_message(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
    ) {
        let sm_sqn = transmitter.sm_sqn().wrapping_add(1);
        let packet = Packet::new(session_message(packer, sm_sqn), self.options());
        let out = &mut self.session_message;
        out.clear();
        packet.emit(out);
        transmitter.emit_pulse(now, sm_sqn, out);
        packer.end().append(out);
        self.fan = Fan::new(What::SessionMessage, 1);
    }

    /// Clients came or went: what congestion control allows to one is allowed to each.
    pub(super) fn share_rate(&self, transmitter: &mut Transmitter, now: Nanos) {
        transmitter.set_copies(now, self.clients.len().max(1) as u64);
    }

    pub(super) fn drop_client(&mut self, at: usize) {
        let (address, forgotten) = self.clients.remove(at);
        self.fan.removed(at);
        self.lent = Lent::Nothing;
        let counters = self.counters.clone();
        counters.clients.events_dropped.add(u64::from(forgotten));
        counters.clients.num_clients.set(self.clients.len() as u64);
        self.reply(address, Reply::Reset);
    }

    pub(super) fn reply(&mut self, to: SocketAddrV4, reply: Reply) {
        if !self.greeter.reply(to, reply) {
            self.counters.clients.replies_dropped.inc();
        }
    }
}

fn session_message(packer: &Packer, sm_sqn: u32) -> Body<'static> {
    let (lead_sqn, trail_sqn) = (packer.window().unsent().prev(), packer.window().trail());
    Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn }
}
