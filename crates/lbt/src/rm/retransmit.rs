use super::window::{Answer, Window};
use crate::rate::TokenBucket;
use crate::wire::lbtrm::{Nak, NcfReason};
use counters::table::LbtrmSource;
use std::collections::VecDeque;
use std::time::Duration;
use units::{Nanos, Sqn};

/// Decides what becomes of each NAKed number, and queues retransmissions and NAK confirmations.
///
/// | condition | action |
/// |---|---|
/// | older than the window, or never sent | nothing |
/// | retransmitted within the ignore interval | confirmed as ignored, once an interval |
/// | refused within the ignore interval | nothing: the group was told |
/// | retransmission is off | confirmed as "do not retry" |
/// | the queue is full | confirmed as shed |
/// | the rate limit has room | queued, goes out with the next transmission |
/// | otherwise | queued, confirmed as delayed |
///
/// So each number costs at most one retransmission and two confirmations an ignore interval, however many
/// receivers ask and however often: a crybaby cannot take more than the retransmission rate limit.
pub(super) struct Retransmitter {
    enabled: bool,
    ignore: Duration,
    queue_max: usize,
    /// Numbers and the lengths of their datagrams.
    queue: VecDeque<(Sqn, u16)>,
    queued_bytes: u64,
    ncfs: [NcfList; 4],
}

/// The numbers to be confirmed for one reason.
struct NcfList {
    reason: NcfReason,
    numbers: Vec<Sqn>,
}

/// Most numbers waiting to be confirmed for one reason.
const NCFS_WAITING_MAX: usize = 4_096;

impl Retransmitter {
    pub(super) fn new(enabled: bool, ignore: Duration, queue_max: usize) -> Retransmitter {
        let list = |reason| NcfList { reason, numbers: Vec::new() };
        let ncfs = [NcfReason::DoNotRetry, NcfReason::Ignored, NcfReason::RetransmitDelay, NcfReason::Shed];
        Retransmitter {
            enabled,
            ignore,
            queue_max,
            queue: VecDeque::new(),
            queued_bytes: 0,
            ncfs: ncfs.map(list),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let waiting: usize = self.ncfs.iter().map(|l| l.numbers.capacity()).sum();
        self.queue.capacity() * size_of::<(Sqn, u16)>() + waiting * size_of::<Sqn>()
    }

    /// Takes a NAK's numbers.
    pub(super) fn on_nak(
        &mut self,
        now: Nanos,
        nak: &Nak<'_>,
        window: &mut Window,
        limit: &mut TokenBucket,
        counters: &LbtrmSource,
    ) {
        let mut room = limit.available(now).saturating_sub(self.queued_bytes);
        for sqn in nak.numbers.iter() {
            counters.naks_rcved.inc();
            if !window.holds_sent(sqn) {
                counters.naks_outside_window.inc();
                continue;
            }
            let (answer, at) = window.answer(sqn);
            let recent = now.since(at) < self.ignore;
            match answer {
                Answer::Queued => counters.naks_rx_delay_ignored.inc(),
                Answer::Repeated if recent => {
                    counters.naks_ignored.inc();
                    window.set_answer(sqn, Answer::Confirmed, at);
                    self.confirm(NcfReason::Ignored, sqn, counters);
                }
                Answer::Confirmed if recent => counters.naks_ignored.inc(),
                Answer::Refused if recent => self.refusal_counter(counters).inc(),
                _ => room = self.accept(now, sqn, window, room, counters),
            }
        }
        counters.rctlr_rx_msgs.set(self.queue.len() as u64);
    }

    /// Queues or refuses a number that nothing was done about lately; returns what the rate limit has left.
    fn accept(
        &mut self,
        now: Nanos,
        sqn: Sqn,
        window: &mut Window,
        room: u64,
        counters: &LbtrmSource,
    ) -> u64 {
        if !self.enabled || self.queue.len() >= self.queue_max {
            window.set_answer(sqn, Answer::Refused, now);
            self.refusal_counter(counters).inc();
            let reason = if self.enabled { NcfReason::Shed } else { NcfReason::DoNotRetry };
            self.confirm(reason, sqn, counters);
            return room;
        }
        let len = window.len_of(sqn);
        window.set_answer(sqn, Answer::Queued, now);
        self.queue.push_back((sqn, len as u16));
        self.queued_bytes += len;
        if len > room {
            counters.naks_rx_delay_ignored.inc();
            self.confirm(NcfReason::RetransmitDelay, sqn, counters);
        }
        room.saturating_sub(len)
    }

    fn refusal_counter<'a>(&self, counters: &'a LbtrmSource) -> &'a counters::Counter {
        if self.enabled { &counters.naks_shed } else { &counters.naks_refused }
    }

    fn confirm(&mut self, reason: NcfReason, sqn: Sqn, counters: &LbtrmSource) {
        let list = self.ncfs.iter_mut().find(|l| l.reason == reason).expect("one list for each reason sent");
        if list.numbers.len() < NCFS_WAITING_MAX {
            list.numbers.push(sqn);
        } else {
            counters.ncfs_dropped.inc();
        }
    }

    /// Whether a retransmission or a confirmation waits.
    pub(super) fn has_ncfs(&self) -> bool {
        self.ncfs.iter().any(|l| !l.numbers.is_empty())
    }

    /// The first confirmations to send, at most `count_max` of one reason.
    pub(super) fn first_ncfs(&self, count_max: usize) -> Option<(NcfReason, &[Sqn])> {
        let list = self.ncfs.iter().find(|l| !l.numbers.is_empty())?;
        Some((list.reason, &list.numbers[..list.numbers.len().min(count_max)]))
    }

    /// Drops what [`Retransmitter::first_ncfs`] returned, `count` numbers of it.
    pub(super) fn drop_ncfs(&mut self, count: usize) {
        if let Some(list) = self.ncfs.iter_mut().find(|l| !l.numbers.is_empty()) {
            list.numbers.drain(..count);
        }
    }

    /// The number to be retransmitted first, and with how many consecutive ones, at most `count_max`, the
    /// queue begins.
    ///
    /// Numbers that left the window while they waited are dropped here.
    pub(super) fn front(&mut self, window: &Window, count_max: u32) -> Option<(Sqn, u32)> {
        while let Some(&(first, len)) = self.queue.front() {
            if window.holds_sent(first) {
                let candidates = self.queue.iter().zip(0..count_max);
                let count = candidates.take_while(|((sqn, _), i)| *sqn == first.plus(*i)).count();
                return Some((first, count as u32));
            }
            self.queue.pop_front();
            self.queued_bytes -= u64::from(len);
        }
        None
    }

    /// Takes the first of the queue as retransmitted and returns its length.
    pub(super) fn mark_sent(&mut self, now: Nanos, window: &mut Window) -> u64 {
        let (sqn, len) = self.queue.pop_front().expect("only what is queued is handed out");
        self.queued_bytes -= u64::from(len);
        if window.holds_sent(sqn) {
            window.set_answer(sqn, Answer::Repeated, now);
        }
        u64::from(len)
    }

    /// Bytes of the retransmission that goes out first.
    pub(super) fn front_len(&self) -> Option<u64> {
        self.queue.front().map(|&(_, len)| u64::from(len))
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }
}
