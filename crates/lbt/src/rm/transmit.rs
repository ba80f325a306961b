use super::source::Source;
use super::window::Run;
use crate::wire::lbtrm::{
    DATA_FLAGS_AT, DATA_TRAIL_AT, FLAG_RETRANSMISSION, NCF_HEADER_LEN, Ncf, SessionMessage,
};
use units::{Nanos, Sqn};

/// Datagrams to be sent to the session's group: `count` of them in one slice, each `segment_len` long
/// except that the last may be shorter. That is the shape UDP segmentation offload takes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The datagrams, one behind the other.
    pub bytes: &'a [u8],
    /// Length of each but the last.
    pub segment_len: usize,
    /// How many.
    pub count: u32,
}

impl<'a> Transmit<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.segment_len)
    }
}

/// What [`Source::poll_transmit`] handed out last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lent {
    Nothing,
    Ncfs { count: usize },
    SessionMessage,
    Repeats { count: u32 },
    Data { count: u32 },
}

impl Source {
    /// What to send to the group now: NAK confirmations first, then retransmissions, new data, a session
    /// message.
    ///
    /// After sending, in whole or in part, [`Source::sent`] says so; without it the same is handed out
    /// again. `None` until [`Source::next_wakeup`], a NAK, or a flush.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        self.lent = Lent::Nothing;
        if self.repeats.has_ncfs() {
            return self.lend_ncfs();
        }
        if let Some(run) = self.next_repeats(now) {
            self.lent = Lent::Repeats { count: run.count };
            return Some(self.lend(run));
        }
        if let Some(run) = self.next_data(now) {
            self.lent = Lent::Data { count: run.count };
            return Some(self.lend(run));
        }
        if self.schedule.due() <= now { Some(self.lend_session_message()) } else { None }
    }

    /// Takes the first `count` datagrams of what was handed out last as sent.
    ///
    /// # Panics
    /// If more are named than were handed out.
    pub fn sent(&mut self, now: Nanos, count: u32) {
        match std::mem::replace(&mut self.lent, Lent::Nothing) {
            _ if count == 0 => {}
            Lent::Data { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                self.data_sent(now, count);
            }
            Lent::Repeats { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                self.repeats_sent(now, count);
            }
            Lent::Ncfs { count: numbers } => {
                self.repeats.drop_ncfs(numbers);
                self.counters.ncfs_sent.add(numbers as u64);
                self.schedule.on_datagram(now);
            }
            Lent::SessionMessage => {
                self.schedule.on_session_message(now);
                self.counters.sms_sent.inc();
            }
            Lent::Nothing => panic!("{count} datagrams were sent and none were handed out"),
        }
    }

    /// From when on there is something to transmit, session messages aside.
    pub(super) fn transmit_due(&self) -> Nanos {
        if self.repeats.has_ncfs() {
            return Nanos::ZERO;
        }
        let repeats = self
            .repeats
            .front_len()
            .map_or(Nanos::NEVER, |len| self.repeat_limit.ready_at(len).max(self.data_limit.ready_at(len)));
        let data = if self.window.unsent_count() == 0 {
            Nanos::NEVER
        } else {
            self.data_limit.ready_at(self.window.len_of(self.window.unsent()))
        };
        repeats.min(data)
    }

    fn lend(&self, run: Run) -> Transmit<'_> {
        let bytes = self.window.slice(run.at, run.bytes);
        Transmit { bytes, segment_len: run.segment_len, count: run.count }
    }

    fn next_data(&mut self, now: Nanos) -> Option<Run> {
        let count_max = self.window.unsent_count().min(self.run_count_max);
        if count_max == 0 {
            return None;
        }
        let bytes_max = self.data_limit.available(now).min(self.run_bytes_max.max(self.datagram_max as u64));
        self.window.run(self.window.unsent(), count_max, bytes_max)
    }

    fn data_sent(&mut self, now: Nanos, count: u32) {
        let bytes = (0..count).map(|_| self.window.mark_sent()).sum();
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.msgs_sent.add(u64::from(count));
        self.counters.bytes_sent.add(bytes);
        self.counters.rctlr_data_msgs.set(u64::from(self.window.unsent_count()));
        self.counters.txw_msgs.set(u64::from(self.window.count()));
        self.counters.txw_bytes.set(self.window.live_bytes());
    }

    fn next_repeats(&mut self, now: Nanos) -> Option<Run> {
        let (first, count_max) = self.repeats.front(&self.window, self.run_count_max)?;
        let allowed = self.repeat_limit.available(now).min(self.data_limit.available(now));
        let bytes_max = allowed.min(self.run_bytes_max.max(self.datagram_max as u64));
        let run = self.window.run(first, count_max, bytes_max)?;
        let trail = self.window.trail();
        (0..run.count).for_each(|i| self.mark_retransmission(first.plus(i), trail));
        Some(run)
    }

    /// Sets the flag and the present trailing edge in a datagram that is to go out once more.
    fn mark_retransmission(&mut self, sqn: Sqn, trail: Sqn) {
        let at = self.window.offset_of(sqn);
        self.window.bytes_mut(at + DATA_TRAIL_AT, 4).copy_from_slice(&trail.0.to_be_bytes());
        self.window.bytes_mut(at + DATA_FLAGS_AT, 1)[0] |= FLAG_RETRANSMISSION;
    }

    fn repeats_sent(&mut self, now: Nanos, count: u32) {
        let bytes = (0..count).map(|_| self.repeats.mark_sent(now, &mut self.window)).sum();
        self.repeat_limit.take(bytes);
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.rxs_sent.add(u64::from(count));
        self.counters.rx_bytes_sent.add(bytes);
        self.counters.rctlr_rx_msgs.set(self.repeats.queued() as u64);
    }

    fn lend_ncfs(&mut self) -> Option<Transmit<'_>> {
        let count_max = (self.datagram_max - NCF_HEADER_LEN) / 4;
        let (reason, numbers) = self.repeats.first_ncfs(count_max)?;
        self.control.clear();
        Ncf::emit(self.session, self.window.trail(), reason, numbers, &mut self.control);
        self.lent = Lent::Ncfs { count: numbers.len() };
        Some(self.lend_control())
    }

    fn lend_session_message(&mut self) -> Transmit<'_> {
        let lead = self.window.unsent().prev();
        self.control.clear();
        SessionMessage::new(self.session, self.schedule.sm_sqn(), lead, self.window.trail())
            .emit(&mut self.control);
        self.lent = Lent::SessionMessage;
        self.lend_control()
    }

    fn lend_control(&self) -> Transmit<'_> {
        Transmit { bytes: &self.control, segment_len: self.control.len(), count: 1 }
    }
}
