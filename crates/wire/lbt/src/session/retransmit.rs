use super::answers::{Answer, Answers};
use super::window::{Run, Window};
use crate::config::SourceConfig;
use crate::wire::list::{NcfReason, SqnList};
use counters::table::ReliableSource;
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
/// | the rate limit has no room and the asker is beyond its share | passed over |
/// | the queue is full | confirmed as shed |
/// | the rate limit has room | queued, goes out with the next transmission |
/// | otherwise | queued, confirmed as delayed |
///
/// So each number costs at most one retransmission and two confirmations an ignore interval, however many
/// receivers ask and however often: a crybaby cannot take more than the retransmission rate limit.
pub(crate) struct Retransmitter {
    enabled: bool,
    ignore: Duration,
    ignore_min: Duration,
    queue_max: usize,
    answers: Answers,
    /// Numbers and the lengths of their datagrams.
    queue: VecDeque<(Sqn, u16)>,
    queued_bytes: u64,
    ncfs: [NcfList; 4],
}

/// Limits what one receiver may ask for where a source has one retransmitter for all.
pub(crate) trait Share {
    /// Whether `bytes` for the one who asks are within its share; if not, they are counted as passed over.
    fn allows(&mut self, bytes: u64) -> bool;
    /// A retransmission of `bytes` is due to the one who asks.
    fn charge(&mut self, bytes: u64);
}

/// The numbers to be confirmed for one reason.
struct NcfList {
    reason: NcfReason,
    numbers: Vec<Sqn>,
}

/// Most numbers waiting to be confirmed for one reason.
const NCFS_WAITING_MAX: usize = 4_096;

impl Retransmitter {
    /// Remembers its answers for `answers` numbers.
    pub(crate) fn new(config: &SourceConfig, answers: usize) -> Retransmitter {
        let list = |reason| NcfList { reason, numbers: Vec::new() };
        let ncfs = [NcfReason::DoNotRetry, NcfReason::Ignored, NcfReason::RetransmitDelay, NcfReason::Shed];
        Retransmitter {
            enabled: config.retransmit_rate_limit != 0,
            ignore: config.ignore_interval,
            ignore_min: config.ignore_interval,
            queue_max: config.retransmit_queue_maximum as usize,
            answers: Answers::new(answers),
            queue: VecDeque::new(),
            queued_bytes: 0,
            ncfs: ncfs.map(list),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let waiting: usize = self.ncfs.iter().map(|l| l.numbers.capacity()).sum();
        let queues = self.queue.capacity() * size_of::<(Sqn, u16)>() + waiting * size_of::<Sqn>();
        queues + self.answers.memory_bytes()
    }

    /// Writes what it remembers once, so that no page of it is first touched while sending.
    pub(crate) fn prefault(&mut self) {
        self.answers.prefault();
    }

    /// A retransmission takes so long to be seen: NAKs are ignored meanwhile, if that is longer than the
    /// configured interval.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.ignore = self.ignore_min.max(round_trip);
    }

    /// Takes a NAK's numbers. `room` is what the rate limit allows now, in bytes; `share` limits who asks.
    pub(crate) fn on_nak(
        &mut self,
        now: Nanos,
        numbers: SqnList<'_>,
        window: &Window,
        room: u64,
        mut share: Option<&mut dyn Share>,
        counters: &ReliableSource,
    ) {
        let mut room = room.saturating_sub(self.queued_bytes);
        for sqn in numbers.iter().skip(usize::from(units::planted(units::Bug::ForgetsFirstNak))) {
            counters.naks_rcved.inc();
            if !window.holds_sent(sqn) {
                counters.naks_outside_window.inc();
                continue;
            }
            let (answer, at) = self.answers.get(sqn);
            let recent = now.since(at) < self.ignore;
            match answer {
                Answer::Queued => counters.naks_rx_delay_ignored.inc(),
                Answer::Repeated if recent => {
                    counters.naks_ignored.inc();
                    self.answers.set(sqn, Answer::Confirmed, at);
                    self.confirm(NcfReason::Ignored, sqn, counters);
                }
                Answer::Confirmed if recent => counters.naks_ignored.inc(),
                Answer::Refused if recent => self.refusal_counter(counters).inc(),
                _ => {
                    let len = window.len_of(sqn);
                    if len > room && share.as_mut().is_some_and(|s| !s.allows(len)) {
                        counters.naks_crybaby.inc();
                        continue;
                    }
                    let queued = self.queue.len();
                    room = self.accept(now, sqn, window, room, counters);
                    if let (Some(share), true) = (&mut share, self.queue.len() > queued) {
                        share.charge(len);
                    }
                }
            }
        }
    }

    /// Queues or refuses a number that nothing was done about lately; returns what the rate limit has left.
    fn accept(&mut self, now: Nanos, sqn: Sqn, window: &Window, room: u64, counters: &ReliableSource) -> u64 {
        if !self.enabled || self.queue.len() >= self.queue_max {
            self.answers.set(sqn, Answer::Refused, now);
            self.refusal_counter(counters).inc();
            let reason = if self.enabled { NcfReason::Shed } else { NcfReason::DoNotRetry };
            self.confirm(reason, sqn, counters);
            return room;
        }
        let len = window.len_of(sqn);
        self.answers.set(sqn, Answer::Queued, now);
        self.queue.push_back((sqn, len as u16));
        self.queued_bytes += len;
        if len > room {
            counters.naks_rx_delay_ignored.inc();
            self.confirm(NcfReason::RetransmitDelay, sqn, counters);
        }
        room.saturating_sub(len)
    }

    fn refusal_counter<'a>(&self, counters: &'a ReliableSource) -> &'a counters::Counter {
        if self.enabled { &counters.naks_shed } else { &counters.naks_refused }
    }

    fn confirm(&mut self, reason: NcfReason, sqn: Sqn, counters: &ReliableSource) {
        let list = self.ncfs.iter_mut().find(|l| l.reason == reason).expect("one list for each reason sent");
        if list.numbers.len() < NCFS_WAITING_MAX {
            list.numbers.push(sqn);
        } else {
            counters.ncfs_dropped.inc();
        }
    }

    /// Whether a retransmission or a confirmation waits.
    pub(crate) fn has_ncfs(&self) -> bool {
        self.ncfs.iter().any(|l| !l.numbers.is_empty())
    }

    /// The first confirmations to send, at most `count_max` of one reason.
    pub(crate) fn first_ncfs(&self, count_max: usize) -> Option<(NcfReason, &[Sqn])> {
        let list = self.ncfs.iter().find(|l| !l.numbers.is_empty())?;
        Some((list.reason, &list.numbers[..list.numbers.len().min(count_max)]))
    }

    /// Drops what [`Retransmitter::first_ncfs`] returned, `count` numbers of it.
    pub(crate) fn drop_ncfs(&mut self, count: usize) {
        if let Some(list) = self.ncfs.iter_mut().find(|l| !l.numbers.is_empty()) {
            list.numbers.drain(..count);
        }
    }

    /// The number to be retransmitted first, and with how many consecutive ones, at most `count_max`, the
    /// queue begins.
    ///
    /// Numbers that left the window while they waited are dropped here.
    fn front(&mut self, window: &Window, count_max: u32) -> Option<(Sqn, u32)> {
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

    /// The retransmissions that go out first, as far as they lie behind one another within `bytes_max`.
    pub(crate) fn next_run(&mut self, window: &Window, count_max: u32, bytes_max: u64) -> Option<(Sqn, Run)> {
        let (first, count_max) = self.front(window, count_max)?;
        window.run(first, count_max, bytes_max).map(|run| (first, run))
    }

    /// Takes the first of the queue as retransmitted and returns its length.
    pub(crate) fn mark_sent(&mut self, now: Nanos, window: &Window) -> u64 {
        let (sqn, len) = self.queue.pop_front().expect("only what is queued is handed out");
        self.queued_bytes -= u64::from(len);
        if window.holds_sent(sqn) {
            self.answers.set(sqn, Answer::Repeated, now);
        }
        u64::from(len)
    }

    /// Bytes of the retransmission that goes out first.
    pub(crate) fn front_len(&self) -> Option<u64> {
        self.queue.front().map(|&(_, len)| u64::from(len))
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }
}
