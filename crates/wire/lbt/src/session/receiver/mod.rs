mod doubt;
mod evidence;
mod gaps;
mod liveness;
mod packets;
mod transport;

pub(crate) use gaps::NAK_NUMBERS_MAX;
pub(crate) use liveness::later;
pub(crate) use packets::{Arrived, Standing};
pub use transport::ReceiverTransport;

use super::runs::{RunId, Runs, Standing as RunStanding};
use super::tally;
use crate::authentication::{Keys, Sealer};
use crate::config::{ConfigError, Order, ReceiverConfig};
use crate::congestion::{Pulse, Reporter};
use crate::delivery::{Delivery, DeliverySink, EndReason, SubscribeError};
use crate::encryption::{Decryptor, PayloadKeys, SessionName};
use crate::error::WireError;
use crate::presence::{Answers, Query};
use crate::wire::extension::{SUBTYPE_PULSE, SUBTYPE_REPORT, emit_extension, find_extension};
use counters::table::{LbmDelivery, ReliableReceiver};
use doubt::Doubt;
use evidence::Evidence;
use gaps::Gaps;
use liveness::Liveness;
use packets::{EndSaid, LASTING};
use std::net::SocketAddrV4;
use std::sync::Arc;
use units::{Nanos, Rng, Sqn};

/// The receiving side of one transport session, with the topics of it that somebody subscribed to:
/// [`rm::Receiver`](crate::rm::Receiver) or [`ru::Receiver`](crate::ru::Receiver).
///
/// The driver calls: `on_datagram` for what arrives, `on_wakeup` at `next_wakeup`, and after either
/// `poll_transmit` until there is nothing to send. When [`Receiver::has_ended`], it is dropped; a source
/// that starts again has another session id.
pub struct Receiver<T> {
    /// What the transport has of its own: the session's name, what is said to the source.
    transport: T,
    phase: Phase,
    /// The first number of this receiver.
    base: u64,
    /// The number after the highest one heard of.
    next: u64,
    evidence: Evidence,
    /// That the session ends, as a datagram said while others were missing, or farther ones were here.
    end_said: Option<EndSaid>,
    /// From when on what came with such a datagram may be dropped once more.
    end_refuted: Nanos,
    /// Where the session goes on that has ended, as its numbers were not true for a while.
    goes_on: Option<Sqn>,
    gaps: Gaps,
    /// The number that comes next for who has received this session before.
    resume: Option<Sqn>,
    /// Why the session is over, if it is.
    end_reason: Option<EndReason>,
    /// Whether numbers elsewhere are to be believed.
    doubt: Doubt,
    /// Which run of the source it is, if that says so.
    runs: Runs,
    liveness: Liveness,
    /// Bytes of datagrams that were taken.
    bytes: u64,
    /// Datagrams that were not missing any more.
    duplicates: u64,
    delivery: Delivery,
    /// Decrypts datagrams, where that is wanted.
    decryptor: Option<Box<Decryptor>>,
    /// 0 without: all that a datagram of plain messages is asked.
    encryption: u8,
    /// Checks what comes in and signs what goes out, where that is wanted.
    sealer: Option<Box<Sealer>>,
    /// What receivers report for congestion control; silent without pulses of the source.
    reporter: Reporter,
    /// What the source has asked.
    answers: Answers,
    rng: Rng,
    late_start: bool,
    jump_max: u64,
    /// What is being handed out.
    out: Vec<u8>,
    counters: Arc<ReliableReceiver>,
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
pub enum Phase {
    /// Nothing was heard that sets the first number.
    Waiting,
    /// It has begun.
    Live,
    /// It is over.
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

impl<T: ReceiverTransport> Receiver<T> {
    /// A receiver that has heard nothing yet. `seed` is where its random waits come from; what it sends has at most
    /// `out_max` bytes.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub(crate) fn with_transport(
        config: &ReceiverConfig,
        (transport, out_max): (T, usize),
        seed: u64,
        now: Nanos,
        counters: Arc<ReliableReceiver>,
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
            evidence: Evidence::default(),
            end_said: None,
            end_refuted: Nanos::ZERO,
            goes_on: None,
            gaps: Gaps::new(config, counters.clone()),
            resume: None,
            end_reason: None,
            doubt: Doubt::NONE,
            runs: Runs::new(),
            liveness: Liveness::new(now, config.activity_timeout),
            bytes: 0,
            duplicates: 0,
            delivery: Delivery::new(&config.delivery, delivery_counters),
            decryptor: None,
            encryption: 0,
            sealer: None,
            reporter,
            answers,
            rng,
            late_start: config.late_start,
            jump_max: u64::from(config.maximum_missing),
            out: Vec::with_capacity(out_max),
            counters,
        })
    }

    /// What the transport has of its own.
    #[inline]
    pub(crate) fn transport(&self) -> &T {
        &self.transport
    }

    /// The same to be changed.
    #[inline]
    pub(crate) fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Takes only what is signed from now on, and signs what it sends.
    pub fn authenticate(&mut self, keys: Keys) {
        self.sealer = Some(Box::new(Sealer::new(keys, self.transport.source())));
    }

    /// Goes on with other keys, if it has some at all: what is signed from now on is signed with the new one, and
    /// only what is signed with one of `keys` is taken.
    pub fn rekey(&mut self, keys: Keys) {
        Sealer::rekey(&mut self.sealer, keys);
    }

    /// A datagram without its keyed code, if it must have one; whether it must.
    ///
    /// # Errors
    /// It is not signed as it must be.
    #[inline]
    pub(crate) fn open<'a>(&self, datagram: &'a [u8]) -> Result<(&'a [u8], bool), WireError> {
        match &self.sealer {
            None => Ok((datagram, false)),
            Some(sealer) => Ok((sealer.open(datagram)?, true)),
        }
    }

    /// The source was heard.
    #[inline]
    pub(crate) fn hear(&mut self, now: Nanos) {
        self.gaps.hear(now, self.liveness.heard());
        self.liveness.hear(now);
    }

    /// Takes only messages that are encrypted from now on.
    pub(crate) fn decrypt_as(&mut self, name: SessionName, keys: PayloadKeys) {
        self.decryptor = Some(Box::new(Decryptor::new(keys, name, self.liveness.timeout())));
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
        let is_answered = self.next == 0 || !self.gaps.contains(self.next - 1);
        if is_answered && let Some(length) = self.doubt.next_probe(self.next, jump) {
            let end = self.next + length;
            self.miss(now, end);
            self.evidence.probe(now, self.next);
            self.next = end;
        }
    }

    /// What lies between the highest number and `end` is missing.
    fn miss(&mut self, now: Nanos, end: u64) {
        let jump = end - self.next;
        if jump > 0 {
            self.delivery.note_jump(self.next);
            self.gaps.add(now, self.next, end, &mut self.rng);
            self.reporter.on_loss(now, jump, &mut self.rng);
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
    pub(crate) fn is_of_this_run<S: DeliverySink>(
        &mut self,
        now: Nanos,
        run: Option<RunId>,
        end: Option<Sqn>,
        sink: &mut S,
    ) -> bool {
        self.runs.arriving = run;
        match self.runs.judge(now, self.phase == Phase::Waiting, self.liveness.heard(), run, end) {
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
        let repaired = self.gaps.repaired();
        Repair {
            datagrams: self.next.saturating_sub(self.base),
            bytes: self.bytes,
            missing: self.gaps.missing(),
            naks_sent: repaired.naks_sent,
            recovered: repaired.recovered,
            given_up: repaired.given_up,
            duplicates: self.duplicates,
            heard: self.liveness.heard(),
        }
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

    /// Takes a datagram that arrived from the source, or from the group.
    ///
    /// # Errors
    /// What is wrong with it; it was counted and dropped whole, and nothing of it was delivered.
    #[inline]
    pub fn on_datagram<S: DeliverySink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        match T::take(self, now, from, datagram, sink) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refuse(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: WireError) -> WireError {
        if self.transport.on_refused(&error) {
            tally::dropped(&self.counters, &error);
        }
        error
    }

    /// Does what is due: gives up what is too old; ends a session that fell silent, or that the transport gives up.
    /// What is to be sent comes out of [`Receiver::poll_transmit`] afterwards.
    pub fn on_wakeup<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S) {
        if self.phase == Phase::Live {
            self.age(now, sink);
        }
        if self.phase != Phase::Ended
            && let Some(reason) = self.transport.failure(now, self.phase, self.liveness.heard())
        {
            self.end(reason, sink);
        }
    }

    /// Does what is due in a session that has begun: gives up what is too old, ends a session that fell
    /// silent.
    fn age<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S) {
        self.gaps.give_up_older(now, self.liveness.heard_for_gaps(), self.evidence.proven());
        if now >= self.end_due() {
            self.believe_end();
        }
        self.advance(now, sink);
        if self.phase == Phase::Live && now >= self.liveness.expiry() {
            self.end(EndReason::TimedOut, sink);
        }
    }

    /// The next NAK, report or answer to send, or what else the transport says to the source, if one is due; to be called
    /// until there is none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Feedback<'_>> {
        // Asked after each datagram, nearly always in vain.
        if now < self.transmit_due() { None } else { self.transmit(now) }
    }

    /// When something may be due to be sent.
    #[inline]
    fn transmit_due(&self) -> Nanos {
        let said = self.transport.write_due_at().min(self.gaps.nak_due());
        said.min(self.reporter.due()).min(self.answers.due())
    }

    #[inline(never)]
    fn transmit(&mut self, now: Nanos) -> Option<Feedback<'_>> {
        if self.phase == Phase::Ended {
            return None;
        }
        let highest = self.highest();
        if !self.transport.write_due(now, highest, &mut self.out) {
            self.write_feedback(now)?;
        }
        Some(self.lend_feedback())
    }

    /// Writes a NAK, a report or an answer, if one is due.
    fn write_feedback(&mut self, now: Nanos) -> Option<()> {
        if self.phase != Phase::Live {
            return None;
        }
        self.out.clear();
        let numbers = self.gaps.next_naks(now, &mut self.rng);
        if !numbers.is_empty() {
            self.transport.write_nak(numbers, &mut self.out);
            return Some(());
        }
        if now >= self.reporter.due()
            && let Some(report) = self.reporter.report(now, self.next)
        {
            self.counters.reports_sent.inc();
            self.transport.write_empty_nak(&mut self.out);
            emit_extension(&mut self.out, SUBTYPE_REPORT, &report.emit());
            return Some(());
        }
        let answer = self.answers.poll(now)?;
        self.counters.queries_answered.inc();
        self.transport.write_empty_nak(&mut self.out);
        answer.emit(&mut self.out);
        Some(())
    }

    /// Hands out what was written.
    fn lend_feedback(&mut self) -> Feedback<'_> {
        if let Some(sealer) = &self.sealer {
            sealer.append(&mut self.out);
        }
        let (to, is_second) = self.transport.feedback_to();
        Feedback { to, datagram: &self.out, is_second }
    }

    /// Hands out what `write` writes with the highest number that was heard of, if it does.
    pub(crate) fn lend_written(
        &mut self,
        write: impl FnOnce(&mut T, Sqn, &mut Vec<u8>) -> bool,
    ) -> Option<Feedback<'_>> {
        let highest = self.highest();
        write(&mut self.transport, highest, &mut self.out).then(|| self.lend_feedback())
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

    /// When [`Receiver::on_wakeup`] and [`Receiver::poll_transmit`] are to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let own = self.transport.due(self.phase, self.liveness.heard());
        match self.phase {
            Phase::Ended => Nanos::NEVER,
            Phase::Waiting => own,
            Phase::Live => {
                let gaps = self.gaps.due(self.liveness.heard_for_gaps(), self.evidence.proven());
                own.min(self.reporter.due())
                    .min(self.answers.due())
                    .min(gaps)
                    .min(self.liveness.expiry())
                    .min(self.end_due())
            }
        }
    }

    /// When an end is believed that was said, if the session says nothing before.
    fn end_due(&self) -> Nanos {
        let wait = LASTING.min(self.liveness.timeout() / 2);
        if self.end_said.is_none() { Nanos::NEVER } else { self.liveness.heard() + wait }
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile: nobody is given up for the silence of
    /// that time alone. A source that was stopped as well gets a quarter of its time-out to be heard again, once, and
    /// what is missing half of the generation interval.
    pub fn after_pause(&mut self, now: Nanos) {
        let timeout = self.transport.after_pause(now, self.phase).unwrap_or(self.liveness.timeout());
        self.liveness.pardon(now, timeout);
        self.gaps.pardon(now);
    }

    /// Ends the session from this side: what waits is delivered, then every topic's stream ends.
    pub fn close<S: DeliverySink>(&mut self, sink: &mut S) {
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
        self.gaps.missing()
    }

    /// Memory held: loss map, held datagrams, messages being put together, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let encryption = self.decryptor.as_ref().map_or(0, |d| d.memory_bytes());
        self.gaps.memory_bytes() + self.delivery.memory_bytes() + encryption + self.out.capacity()
    }
}
