mod doubt;
mod packets;

pub(crate) use packets::{Arrived, Standing};

use super::backoff::Retries;
use super::loss::LossMap;
use super::runs::{RunId, Runs, Standing as RunStanding};
use crate::config::{ConfigError, NakLaw, Order, ReceiverConfig};
use crate::congestion::{Pulse, Report, Reporter};
use crate::delivery::{Delivery, EndReason, Sink, SubscribeError};
use crate::encryption::{Decryptor, PayloadKeys, SessionName};
use crate::presence::{Answer, Answers, Query};
use crate::wire::extension::{SUBTYPE_PULSE, SUBTYPE_REPORT, emit_extension, find_extension};
use counters::table::{LbmDelivery, LbtrmReceiver};
use doubt::Doubt;
use packets::{EndSaid, LASTING, Trail};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Rng, Sqn};

/// The receiving side of one transport session, with the topics of it that somebody subscribed to:
/// [`rm::Receiver`](crate::rm::Receiver) or [`ru::Receiver`](crate::ru::Receiver).
///
/// The driver calls: `on_datagram` for what arrives, `on_wakeup` at `next_wakeup`, and after either
/// `poll_transmit` until there is nothing to send. When [`Receiver::has_ended`], it is dropped; a source
/// that starts again has another session id.
pub struct Receiver<T> {
    /// What the transport has of its own: the session's name, what is said to the source.
    pub(crate) transport: T,
    phase: Phase,
    /// The first number of this receiver.
    base: u64,
    /// The number after the highest one heard of.
    next: u64,
    /// What is below is known to have been sent, of more than one packet: of the rest only the one says so that is the
    /// highest.
    certain: u64,
    /// What is missing below is given up in time.
    proven: u64,
    /// When the highest came.
    raised: Nanos,
    trail: Trail,
    /// That the session ends, as a datagram said while others were missing, or farther ones were here.
    end_said: Option<EndSaid>,
    /// From when on what came with such a datagram may be dropped once more.
    end_refuted: Nanos,
    /// Where the session goes on that has ended, as its numbers were not true for a while.
    goes_on: Option<Sqn>,
    loss: LossMap,
    /// When what is found missing now is first NAKed: numbers found within one wait share it.
    nak_timer: Nanos,
    /// NAKs that may still be sent, and until when.
    nak_credit: usize,
    nak_credit_until: Nanos,
    /// The number that comes next for who has received this session before.
    resume: Option<Sqn>,
    /// Why the session is over, if it is.
    end_reason: Option<EndReason>,
    /// Whether numbers elsewhere are to be believed.
    doubt: Doubt,
    /// Which run of the source it is, if that says so.
    runs: Runs,
    pub(crate) repair: Repair,
    pub(crate) heard: Nanos,
    /// That moment, if it was put off last.
    pardoned: Nanos,
    /// When gaps last got time anew.
    gaps_pardoned: Nanos,
    delivery: Delivery,
    /// Decrypts datagrams, where that is wanted.
    decryptor: Option<Box<Decryptor>>,
    /// 0 without: all that a datagram of plain messages is asked.
    encryption: u8,
    /// What receivers report for congestion control; silent without pulses of the source.
    reporter: Reporter,
    /// What the source has asked.
    answers: Answers,
    rng: Rng,
    /// The numbers of the NAK that is due.
    pub(crate) naks: Vec<Sqn>,
    law: NakLaw,
    initial: Duration,
    retries: Retries,
    suppress: Duration,
    generation: Duration,
    pub(crate) activity: Duration,
    send_naks: bool,
    late_start: bool,
    jump_max: u64,
    pub(crate) counters: Arc<LbtrmReceiver>,
}

/// What a receiver says with a NAK of no numbers.
pub(crate) enum Said {
    /// For congestion control.
    Report(Report),
    /// To a source that asks who receives a topic.
    Answer(Answer),
}

impl Said {
    /// Appends it.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Said::Report(report) => emit_extension(out, SUBTYPE_REPORT, &report.emit()),
            Said::Answer(answer) => answer.emit(out),
        }
    }
}

/// When something began that is to last for `whole` and has `left` of it to go.
pub(crate) fn later(now: Nanos, left: Duration, whole: Duration) -> Nanos {
    Nanos(now.0.saturating_sub(crate::config::ns(whole.saturating_sub(left))))
}

/// One session as its receiver has it; the counters are those of all sessions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Datagrams of the session since this receiver's first one, whether they arrived or not.
    pub datagrams: u64,
    /// Bytes of those that arrived, duplicates not counted.
    pub bytes: u64,
    /// Datagrams missing now.
    pub missing: u64,
    /// Numbers NAKed, each as often as it was.
    pub naks_sent: u64,
    /// Missing datagrams that came by retransmission.
    pub recovered: u64,
    /// Datagrams given up.
    pub given_up: u64,
    /// Datagrams that were not missing any more.
    pub duplicates: u64,
    /// When the source was last heard.
    pub heard: Nanos,
}

/// How far a session has come at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was heard that sets the first number.
    Waiting,
    Live,
    Ended,
}

/// A datagram to be sent to the source's unicast port.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// Where to.
    pub to: SocketAddrV4,
    /// What to send.
    pub datagram: &'a [u8],
    /// On the second network of a session that has two.
    pub is_second: bool,
}

/// Numbers in one NAK packet: what an Ethernet frame carries, a keyed code included.
pub(crate) const NAK_NUMBERS_MAX: usize = 357;
/// Numbers NAKed within one initial back-off; more than any link carries in that time.
const NAK_BURST_MAX: usize = 2_048;
/// Least time over which the burst is counted.
const NAK_BURST_SPAN_MIN: Duration = Duration::from_micros(100);

impl<T> Receiver<T> {
    /// A receiver that has heard nothing yet. `seed` is where its random waits come from.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub(crate) fn with_transport(
        config: &ReceiverConfig,
        transport: T,
        seed: u64,
        now: Nanos,
        counters: Arc<LbtrmReceiver>,
        delivery_counters: Arc<LbmDelivery>,
    ) -> Result<Receiver<T>, ConfigError> {
        config.check()?;
        let mut rng = Rng::new(seed);
        let reporter = Reporter::new(rng.next_u32(), config.nak_law);
        // Not from the same row of numbers: what is drawn for other things stays as it was.
        let answers = Answers::new(!seed);
        Ok(Receiver {
            transport,
            phase: Phase::Waiting,
            base: 0,
            next: 0,
            certain: 0,
            proven: 0,
            raised: Nanos::ZERO,
            trail: Trail::default(),
            end_said: None,
            end_refuted: Nanos::ZERO,
            goes_on: None,
            loss: LossMap::new(config.maximum_gaps as usize, u64::from(config.maximum_missing)),
            nak_timer: Nanos::ZERO,
            nak_credit: NAK_BURST_MAX,
            nak_credit_until: Nanos::ZERO,
            resume: None,
            end_reason: None,
            doubt: Doubt::NONE,
            runs: Runs::new(),
            repair: Repair::default(),
            heard: now,
            pardoned: Nanos::NEVER,
            gaps_pardoned: Nanos::ZERO,
            delivery: Delivery::new(&config.delivery, delivery_counters),
            decryptor: None,
            encryption: 0,
            reporter,
            answers,
            rng,
            naks: Vec::with_capacity(NAK_NUMBERS_MAX),
            law: config.nak_law,
            initial: config.nak_initial_backoff_interval,
            retries: Retries::new(config.nak_backoff_interval, config.nak_generation_interval),
            suppress: config.nak_suppress_interval,
            generation: config.nak_generation_interval,
            activity: config.activity_timeout,
            send_naks: config.send_naks,
            late_start: config.late_start,
            jump_max: u64::from(config.maximum_missing),
            counters,
        })
    }

    /// Takes only messages that are encrypted from now on.
    pub(crate) fn decrypt_as(&mut self, name: SessionName, keys: PayloadKeys) {
        self.decryptor = Some(Box::new(Decryptor::new(keys, name, self.activity)));
        self.encryption = 1;
    }

    /// Goes on with other keys, if messages are encrypted.
    pub fn rekey_payloads(&mut self, keys: PayloadKeys) {
        if let Some(decryptor) = &mut self.decryptor {
            decryptor.rekey(keys);
        }
    }

    /// The session's name has become known.
    pub(crate) fn name_session(&mut self, name: SessionName) {
        if let Some(decryptor) = &mut self.decryptor {
            decryptor.rename(name);
        }
    }

    /// Delivers the messages of a topic from now on, in the configured order. `token` comes back in every
    /// event.
    ///
    /// A topic that was subscribed before the session's datagram number 0 was heard begins at its number 0,
    /// and loss at its head is reported. Otherwise it begins with the first message that arrives; what was
    /// missing before the subscription does not hold it up, what is missing since then does.
    ///
    /// # Errors
    /// The topic is subscribed, or there are too many.
    pub fn subscribe(&mut self, topic_index: u32, token: u64) -> Result<(), SubscribeError> {
        self.subscribe_ordered(topic_index, token, None)
    }

    /// The same with the order of this topic; `None` for the configured one.
    ///
    /// # Errors
    /// As [`Receiver::subscribe`].
    pub fn subscribe_ordered(
        &mut self,
        topic_index: u32,
        token: u64,
        order: Option<Order>,
    ) -> Result<(), SubscribeError> {
        let floor = if self.phase == Phase::Waiting { 0 } else { self.next };
        self.delivery.subscribe(topic_index, token, order, floor)
    }

    /// The session was received before, up to `next`: what was sent since then is missing, and is asked for as far as
    /// the source still has it. To be called before anything is heard.
    pub fn resume(&mut self, next: Sqn) {
        if self.phase == Phase::Waiting {
            self.resume = Some(next);
        }
    }

    /// The session's id was drawn for this run of its source: no other run has it.
    pub fn expect_one_run(&mut self) {
        self.delivery.expect_one_run();
    }

    /// Takes the place of a receiver whose session has ended, and whose source may go on or be started again: what
    /// comes late of the runs of the source that are over is left out; a run that was lost goes on where it was, as
    /// after [`Receiver::resume`]; and one that is new is asked for from its first datagram on, with all topics that
    /// are subscribed before it is heard. To be called before anything is heard.
    pub fn succeed(&mut self, before: &Receiver<T>) {
        let is_lost = before.goes_on.is_some()
            || matches!(before.end_reason, Some(EndReason::TimedOut | EndReason::Reset));
        let next = before.goes_on.or(before.next_number());
        let expected = self.runs.succeed(&before.runs, next, is_lost);
        self.resume = expected.or(next.filter(|_| is_lost && !before.knows_runs()));
    }

    /// The run of the source that is heard, or was; none if the source does not say it, or nothing was heard.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        self.runs.current.or(self.runs.awaited)
    }

    /// Whether the source says which run it is in, or did in an earlier one.
    #[must_use]
    pub fn knows_runs(&self) -> bool {
        self.runs.are_known()
    }

    /// A topic that was just subscribed was received before, up to `next`: it begins there, with a loss if that is not
    /// what comes. Where the source has begun anew meanwhile, and that shows by its numbers, it begins as it would
    /// without.
    pub fn resume_topic(&mut self, topic_index: u32, next: Sqn) {
        if self.phase == Phase::Waiting || self.resume.is_some() {
            self.delivery.resume(topic_index, next);
        }
    }

    /// The transport number that comes next; none if nothing was heard.
    #[must_use]
    pub fn next_number(&self) -> Option<Sqn> {
        if self.next > 0 { Some(Sqn(self.next as u32)) } else { self.resume }
    }

    /// From now on a topic that was subscribed in order of arrival is delivered in topic order: to what follows the
    /// number that is returned, of which nothing was delivered before its turn. None if the stream has not begun.
    pub fn put_in_order(&mut self, topic_index: u32) -> Option<Sqn> {
        self.delivery.put_in_order(topic_index)
    }

    /// A part of what a packet says is asked for though it is not believed yet: a source that is about to leave has no time
    /// to say it again and again. What is not answered is not missing by that word alone; if it is, more is asked for next.
    #[cold]
    fn probe(&mut self, now: Nanos, jump: u64) {
        let is_answered = self.next == 0 || !self.loss.contains(self.next - 1);
        if is_answered && let Some(length) = self.doubt.next_probe(self.next, jump) {
            let end = self.next + length;
            self.miss(now, end);
            (self.certain, self.proven, self.raised) = (self.next, self.next, now);
            self.next = end;
        }
    }

    /// What lies between the highest number and `end` is missing.
    fn miss(&mut self, now: Nanos, end: u64) {
        let jump = end - self.next;
        if jump > 0 {
            let due = self.first_nak_due(now);
            self.delivery.note_jump(self.next);
            let given_up = self.loss.add(self.next, end, now, due);
            self.counters.lost.add(jump);
            self.reporter.on_loss(now, jump, &mut self.rng);
            self.counters.unrecovered_bound.add(given_up);
            self.repair.given_up += given_up;
        }
    }

    /// Drops a topic with all that waits for it; no event follows.
    pub fn unsubscribe(&mut self, topic_index: u32) {
        self.delivery.unsubscribe(topic_index);
    }

    /// Whether the ends of datagrams are to be looked at for the run that they are of.
    #[inline]
    pub(crate) fn watches_runs(&self) -> bool {
        self.runs.is_watched
    }

    /// Takes note of the run of a packet, which says that numbers before `end` were sent. Whether the packet is to be
    /// taken; if not, the session may be over.
    #[inline(never)]
    pub(crate) fn is_of_this_run<S: Sink>(
        &mut self,
        now: Nanos,
        run: Option<RunId>,
        end: Option<Sqn>,
        sink: &mut S,
    ) -> bool {
        self.runs.arriving = run;
        match self.runs.judge(now, self.phase == Phase::Waiting, self.heard, run, end) {
            RunStanding::Taken => return true,
            RunStanding::Past => self.counters.before_start.inc(),
            RunStanding::Restarted => self.end(EndReason::Restarted, sink),
        }
        false
    }

    /// How far the session has come.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// What this session has cost to repair, and what of it was lost.
    #[must_use]
    pub fn repair(&self) -> Repair {
        let datagrams = self.next.saturating_sub(self.base);
        Repair { datagrams, missing: self.loss.missing(), heard: self.heard, ..self.repair }
    }

    /// Numbers of a topic from `first`, with which its stream began, up to the next one; none if it has not begun.
    #[must_use]
    pub fn span(&self, topic_index: u32, first: Sqn) -> Option<u64> {
        self.delivery.span(topic_index, first)
    }

    /// The highest number heard of.
    pub(crate) fn highest(&self) -> Sqn {
        Sqn(self.next as u32).prev()
    }

    /// Does what is due in a session that has begun: gives up what is too old, ends a session that fell
    /// silent.
    pub(crate) fn age<S: Sink>(&mut self, now: Nanos, sink: &mut S) {
        let count = self.loss.give_up_older(now, self.generation, self.proven);
        self.counters.unrecovered_tmo.add(count);
        self.repair.given_up += count;
        if now >= self.end_due() {
            self.believe_end();
        }
        self.advance(now, sink);
        if self.phase == Phase::Live && now >= self.heard + self.activity {
            self.end(EndReason::TimedOut, sink);
        }
    }

    /// The numbers of the next NAK, if one is due; empty if none is.
    pub(crate) fn next_naks(&mut self, now: Nanos) -> &[Sqn] {
        self.naks.clear();
        if now < self.loss.next_due() || self.phase != Phase::Live {
            return &self.naks;
        }
        if now >= self.nak_credit_until {
            self.nak_credit = NAK_BURST_MAX;
            self.nak_credit_until = now + self.initial.max(NAK_BURST_SPAN_MIN);
        }
        let count_max = self.nak_credit.min(NAK_NUMBERS_MAX);
        let wait = self.retries.draw(self.law, &mut self.rng);
        self.loss.collect_due(now, wait, count_max, &mut self.naks);
        if !self.naks.is_empty() {
            self.nak_credit -= self.naks.len();
            self.counters.nak_pckts_sent.inc();
            self.counters.naks_sent.add(self.naks.len() as u64);
            self.repair.naks_sent += self.naks.len() as u64;
        }
        &self.naks
    }

    /// Takes what congestion control says with session message `sm_sqn`, and what the source asks.
    pub(crate) fn on_pulse(&mut self, now: Nanos, sm_sqn: u32, trailer: &[u8]) {
        if trailer.is_empty() {
            return;
        }
        if let Some(query) = Query::find(trailer) {
            self.answers.on_query(now, &query, |topic| self.delivery.is_subscribed(topic));
        }
        if let Some(pulse) = find_extension(trailer, SUBTYPE_PULSE).and_then(Pulse::parse) {
            self.reporter.on_pulse(now, sm_sqn, &pulse, self.next, &mut self.rng);
        }
    }

    /// What is due to be said without a NAK.
    pub(crate) fn next_said(&mut self, now: Nanos) -> Option<Said> {
        if self.phase != Phase::Live {
            return None;
        }
        if now >= self.reporter.due()
            && let Some(report) = self.reporter.report(now, self.next)
        {
            self.counters.reports_sent.inc();
            return Some(Said::Report(report));
        }
        let answer = self.answers.poll(now)?;
        self.counters.queries_answered.inc();
        Some(Said::Answer(answer))
    }

    /// When there is something to do in a session that has begun.
    pub(crate) fn live_due(&self) -> Nanos {
        let mut nak = self.loss.next_due();
        if self.nak_credit == 0 {
            nak = nak.max(self.nak_credit_until);
        }
        let give_up = self.loss.next_give_up(self.generation, self.proven);
        let said = self.reporter.due().min(self.answers.due());
        nak.min(said).min(give_up).min(self.heard + self.activity).min(self.end_due())
    }

    /// When an end is believed that was said, if the session says nothing before.
    fn end_due(&self) -> Nanos {
        if self.end_said.is_none() { Nanos::NEVER } else { self.heard + LASTING.min(self.activity / 2) }
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile. A source that was stopped as well
    /// gets a quarter of its time-out to be heard again, once, and what is missing half of the generation interval.
    pub(crate) fn pardon(&mut self, now: Nanos, timeout: Duration) {
        let earliest = later(now, timeout / 4, timeout);
        if self.heard < earliest && self.heard != self.pardoned {
            (self.heard, self.pardoned) = (earliest, earliest);
        }
        // Who is always late gets no more time than that.
        if now >= self.gaps_pardoned + self.generation * 2 {
            self.gaps_pardoned = now;
            self.loss.detected_after(later(now, self.generation / 2, self.generation));
        }
    }

    /// Ends the session from this side: what waits is delivered, then every topic's stream ends.
    pub fn close<S: Sink>(&mut self, sink: &mut S) {
        if self.phase != Phase::Ended {
            self.end(EndReason::Closed, sink);
        }
    }

    /// Whether anything was heard of the session, be it over or not.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        // Numbers are counted from far above 0.
        self.next != 0
    }

    /// Whether the session is over; nothing comes any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Why the session is over; none if it is not.
    #[must_use]
    pub fn end_reason(&self) -> Option<EndReason> {
        self.end_reason
    }

    /// Where a session goes on that has ended as restarted, if it is the run that was heard: numbers far ahead were
    /// believed that were not its own. Who [succeeds](Receiver::succeed) it begins there; each topic is to be resumed with
    /// the number of its end.
    #[must_use]
    pub fn goes_on(&self) -> Option<Sqn> {
        self.goes_on
    }

    /// Datagrams missing now.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.loss.missing()
    }

    /// Memory held by loss map, held datagrams, messages being put together, topics.
    pub(crate) fn parts_memory_bytes(&self) -> usize {
        let scratch = self.naks.capacity() * size_of::<Sqn>();
        let encryption = self.decryptor.as_ref().map_or(0, |d| d.memory_bytes());
        self.loss.memory_bytes() + self.delivery.memory_bytes() + encryption + scratch
    }
}
