use super::held::HeldMessages;
use super::requests::Requests;
use crate::delivery::reassembly::{Assembly, AssemblyPool, Piece};
use crate::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost, Via, WIDE_ZERO, widen};
use crate::wire::lbmc::Message;
use counters::table::LbmRecovery;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// What all topics of a session share.
pub(super) struct Shared {
    pub(super) pool: AssemblyPool,
    pub(super) held_bytes: usize,
    pub(super) held_bytes_max: usize,
    pub(super) held_count_max: usize,
    pub(super) asked_max: u64,
    pub(super) use_otr: bool,
    pub(super) delay: Duration,
    pub(super) counters: Arc<LbmRecovery>,
}

/// Consecutive numbers of which the same is to be said; runs follow each other without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// To be asked for, not before `from`.
    Gap { end: u64, via: Via, from: Nanos },
    /// Lost for good.
    Lost { end: u64 },
    /// One live message that is held.
    Held { first: u64, end: u64 },
}

impl Run {
    fn end(&self) -> u64 {
        match *self {
            Run::Gap { end, .. } | Run::Lost { end } | Run::Held { end, .. } => end,
        }
    }
}

/// Whether the range of retained messages was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// It is to be asked for, again at this moment.
    Asking { id: u32, again: Nanos },
    /// It is known, or was not wanted, or nobody said.
    Done,
}

/// One topic: what came live, and what is asked for. Numbers are counted in 64 bits.
pub(super) struct Topic {
    pub(super) token: u64,
    pub(super) index: u32,
    pub(super) join: Join,
    /// The source retains messages.
    retained: bool,
    /// `next` is meant: the stream has begun, live or by what is retained.
    started: bool,
    /// The live stream has begun.
    live: bool,
    /// The begin of the stream was passed on.
    begun: bool,
    /// What is delivered next.
    pub(super) next: u64,
    /// The number after all that is known of; `runs` reach from `next` to here.
    pub(super) end: u64,
    runs: VecDeque<Run>,
    held: HeldMessages,
    pub(super) requests: Requests,
    /// The lowest number that was not asked for yet.
    ask_next: u64,
    /// Numbers below this are no longer retained.
    gone_before: u64,
    assembly: Option<Assembly>,
    /// What is to be passed on when nothing waits any more, and whether its number is known.
    ended: Option<(EndOfStream, bool)>,
    /// The end was passed on.
    pub(super) is_over: bool,
    /// When the topic last got an answer, or began to wait for one.
    pub(super) waits_since: Nanos,
}

impl Topic {
    pub(super) fn new(token: u64, index: u32, retained: bool, join: Join, now: Nanos) -> Topic {
        Topic {
            token,
            index,
            join,
            retained,
            started: false,
            live: false,
            begun: false,
            next: WIDE_ZERO,
            end: WIDE_ZERO,
            runs: VecDeque::new(),
            held: HeldMessages::default(),
            requests: Requests::default(),
            ask_next: 0,
            gone_before: 0,
            assembly: None,
            ended: None,
            is_over: false,
            waits_since: now,
        }
    }

    /// Whether something was asked for, or is to be.
    pub(super) fn is_recovering(&self) -> bool {
        self.join != Join::Done || !self.runs.is_empty()
    }

    /// Whether the live stream is over, though perhaps not all that is asked for has come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some() || self.is_over
    }

    // ---- what the transport says

    /// The live stream begins.
    pub(super) fn begin<S: DeliverySink>(
        &mut self,
        now: Nanos,
        first: Sqn,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let first = widen(self.end, first);
        self.live = true;
        if !self.started {
            self.started = true;
            (self.next, self.end) = (first, first);
        } else if first > self.end {
            self.miss(now, first, Via::LateJoin);
        }
        self.drain(shared, sink);
    }

    /// The message may be passed on at once: nothing waits and its number is the next. Counts it if so.
    #[inline]
    pub(super) fn passes(&mut self, message: &Delivered<'_>) -> bool {
        let is_next = self.begun && self.next as u32 == message.first_sqn.0;
        if !is_next || self.is_recovering() || self.assembly.is_some() {
            return false;
        }
        self.next += u64::from(message.sqn.0.wrapping_sub(message.first_sqn.0)) + 1;
        self.end = self.next;
        true
    }

    /// Takes a live message that cannot be passed on at once.
    pub(super) fn take_live<S: DeliverySink>(
        &mut self,
        now: Nanos,
        message: &Delivered<'_>,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let first = widen(self.end, message.first_sqn);
        let end = first + u64::from(message.sqn.0.wrapping_sub(message.first_sqn.0)) + 1;
        if end <= self.end {
            return shared.counters.duplicates.inc();
        }
        if first > self.end {
            self.miss(now, first, Via::LateJoin);
        }
        if first < self.end && !self.give_back(first) {
            // part of it was taken by request: so is the rest
            shared.counters.duplicates.inc();
            self.miss(now, end, Via::LateJoin);
        } else if self.has_room(message, shared) {
            let len = HeldMessages::bytes_of(message);
            self.held.push(message);
            self.runs.push_back(Run::Held { first, end });
            self.end = end;
            shared.counters.msgs_held.inc();
            shared.held_bytes += len;
        } else {
            shared.counters.msgs_not_held.inc();
            let via = self.via_of_last_gap();
            self.miss(now, end, via);
        }
        self.drain(shared, sink);
    }

    /// The transport gave numbers up.
    pub(super) fn lose_live<S: DeliverySink>(
        &mut self,
        now: Nanos,
        lost: &Lost,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let end = widen(self.end, lost.first) + u64::from(lost.count);
        if end <= self.end {
            return;
        }
        if self.retained && shared.use_otr {
            self.miss(now + shared.delay, end, Via::OffTransport);
        } else {
            self.runs.push_back(Run::Lost { end });
            self.end = end;
        }
        self.drain(shared, sink);
    }

    /// The session is over.
    pub(super) fn end_live<S: DeliverySink>(&mut self, end: EndOfStream, shared: &mut Shared, sink: &mut S) {
        self.ended = Some((end, true));
        self.drain(shared, sink);
    }

    /// The session is over, and has brought nothing of this topic.
    pub(super) fn end_unheard<S: DeliverySink>(
        &mut self,
        now: Nanos,
        end: EndOfStream,
        is_known: bool,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let next = widen(self.end, end.next);
        if is_known && self.started && next > self.end {
            self.miss(now, next, Via::LateJoin);
        }
        self.ended = Some((end, is_known));
        self.drain(shared, sink);
    }

    // ---- what the source answers

    /// These numbers are retained.
    pub(super) fn join<S: DeliverySink>(
        &mut self,
        now: Nanos,
        low: Sqn,
        high: Sqn,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let end = widen(self.end, high.next());
        let mut first = widen(end, low).min(end);
        if shared.asked_max > 0 {
            first = first.max(end.saturating_sub(shared.asked_max));
        }
        self.join = Join::Done;
        self.waits_since = now;
        if self.started && first < self.next {
            self.runs.push_front(Run::Gap { end: self.next, via: Via::LateJoin, from: now });
            self.next = first;
        } else if !self.started {
            self.started = true;
            (self.next, self.end) = (first, first);
            if first < end {
                self.miss(now, end, Via::LateJoin);
            }
        }
        self.ask_next = self.next;
        self.drain(shared, sink);
    }

    /// Nobody says which numbers are retained: the stream begins live.
    pub(super) fn join_live<S: DeliverySink>(&mut self, shared: &mut Shared, sink: &mut S) {
        self.join = Join::Done;
        self.drain(shared, sink);
    }

    /// A message that was asked for; false if it was not.
    pub(super) fn take_answer<S: DeliverySink>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        bytes: impl FnOnce() -> Box<[u8]>,
        shared: &mut Shared,
        sink: &mut S,
    ) -> bool {
        let number = widen(self.next, message.sqn);
        if self.requests.take(number).is_none() {
            return false;
        }
        self.waits_since = now;
        let via = match self.runs.front() {
            Some(&Run::Gap { via, .. }) if number == self.next => via,
            _ => {
                self.requests.keep(number, bytes());
                return true;
            }
        };
        self.accept(message, via, shared, sink);
        self.drain(shared, sink);
        true
    }

    /// A number that was asked for is not retained, and none below `low` is.
    pub(super) fn answer_gone<S: DeliverySink>(
        &mut self,
        now: Nanos,
        number: u64,
        low: Sqn,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let low = widen(number, low);
        if low <= number {
            // not sent yet, or a contradiction: it is asked for again
            return;
        }
        self.waits_since = now;
        self.gone_before = self.gone_before.max(low.min(self.end));
        self.requests.take(number);
        self.drain(shared, sink);
    }

    /// The next number to ask for now.
    pub(super) fn next_to_ask(&mut self, now: Nanos) -> Option<u64> {
        let mut at = self.runs.partition_point(|run| run.end() <= self.ask_next);
        let mut first = if at == 0 { self.next } else { self.runs[at - 1].end() };
        while let Some(run) = self.runs.get(at) {
            if let Run::Gap { end, from, .. } = *run {
                if from > now {
                    return None;
                }
                let number = self.ask_next.max(first);
                if number < end {
                    self.ask_next = number + 1;
                    return Some(number);
                }
            }
            first = run.end();
            at += 1;
        }
        None
    }

    /// When there will be a number to ask for: now if there is, later if a gap still waits.
    pub(super) fn asks_at(&self) -> Nanos {
        let at = self.runs.partition_point(|run| run.end() <= self.ask_next);
        let gaps = self.runs.range(at..).find_map(|run| match *run {
            Run::Gap { from, .. } => Some(from),
            _ => None,
        });
        gaps.unwrap_or(Nanos::NEVER)
    }

    /// Gives up everything that is asked for.
    pub(super) fn give_up<S: DeliverySink>(&mut self, shared: &mut Shared, sink: &mut S) {
        if self.join != Join::Done {
            self.join_live(shared, sink);
        }
        while let Some(&Run::Gap { end, .. }) = self.runs.front() {
            let cut = self.requests.first_answered().map_or(end, |number| number.min(end));
            shared.counters.given_up.add(cut - self.next);
            self.lose(cut, shared, sink);
            self.drain(shared, sink);
        }
        for run in &mut self.runs {
            if let Run::Gap { end, .. } = *run {
                *run = Run::Lost { end };
            }
        }
        self.drain(shared, sink);
    }

    /// Gives memory back.
    pub(super) fn clear(&mut self, shared: &mut Shared) {
        while self.held.len() > 0 {
            shared.held_bytes -= self.held.pop();
        }
        if let Some(assembly) = self.assembly.take() {
            shared.pool.end(assembly);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.held.memory_bytes() + self.requests.memory_bytes()
    }

    // ---- private steps

    /// Everything from the known end to before `end` is missing.
    fn miss(&mut self, from: Nanos, end: u64, via: Via) {
        if self.runs.is_empty() {
            self.waits_since = from;
            self.ask_next = self.ask_next.max(self.end);
        }
        match self.runs.back_mut() {
            // nobody can be asked for it
            _ if !self.retained => self.runs.push_back(Run::Lost { end }),
            Some(Run::Gap { end: back, via: v, .. }) if *v == via => *back = end,
            _ => self.runs.push_back(Run::Gap { end, via, from }),
        }
        self.end = end;
    }

    /// Takes the numbers from `first` on out of the last gap, as they have come live; false if some of them
    /// are done with.
    fn give_back(&mut self, first: u64) -> bool {
        let begin = match self.runs.len() {
            0 | 1 => self.next,
            n => self.runs[n - 2].end(),
        };
        let Some(Run::Gap { end, .. }) = self.runs.back_mut() else { return false };
        if first < begin {
            return false;
        }
        *end = first;
        if first == begin {
            self.runs.pop_back();
        }
        self.requests.drop_from(first);
        self.end = first;
        true
    }

    fn has_room(&self, message: &Delivered<'_>, shared: &Shared) -> bool {
        let fits = shared.held_bytes + HeldMessages::bytes_of(message) <= shared.held_bytes_max;
        // what the source does not retain cannot be asked for later
        !self.retained || (fits && self.held.len() < shared.held_count_max)
    }

    fn via_of_last_gap(&self) -> Via {
        let gap = self.runs.iter().rev().find_map(|run| match *run {
            Run::Gap { via, .. } => Some(via),
            _ => None,
        });
        gap.unwrap_or(Via::LateJoin)
    }

    /// Delivers what has its turn.
    fn drain<S: DeliverySink>(&mut self, shared: &mut Shared, sink: &mut S) {
        if self.join != Join::Done {
            return;
        }
        while let Some(&run) = self.runs.front() {
            match run {
                Run::Gap { end, via, .. } => {
                    self.drain_gap(end, via, shared, sink);
                    if self.next < end {
                        return;
                    }
                }
                Run::Lost { end } => self.lose(end, shared, sink),
                Run::Held { first, end } => self.deliver_held(first, end, shared, sink),
            }
            self.runs.pop_front();
        }
        if self.live {
            self.begin_at(self.next, sink);
        }
        if let Some((end, is_known)) = self.ended.take() {
            self.abandon(shared, sink);
            self.is_over = true;
            if self.begun {
                let next = Sqn(self.next as u32);
                let tail_unknown = end.tail_unknown || is_known && next.precedes(end.next);
                sink.end_of_stream(EndOfStream { next, tail_unknown, ..end });
            } else {
                sink.unheard(end, is_known);
            }
        }
    }

    /// Takes answers that have come, and drops what is no longer retained, up to the first number without an
    /// answer.
    fn drain_gap<S: DeliverySink>(&mut self, end: u64, via: Via, shared: &mut Shared, sink: &mut S) {
        while self.next < end {
            if self.requests.first_answered() == Some(self.next)
                && let Some(bytes) = self.requests.pop_answer()
            {
                let message = Message::parse(&bytes, 0).expect("it was checked as it came");
                self.accept(&message, via, shared, sink);
                continue;
            }
            let cut = self.requests.first_answered().unwrap_or(end).min(end).min(self.gone_before);
            if cut <= self.next {
                return;
            }
            shared.counters.unavailable.add(cut - self.next);
            self.lose(cut, shared, sink);
        }
    }

    fn deliver_held<S: DeliverySink>(&mut self, first: u64, end: u64, shared: &mut Shared, sink: &mut S) {
        self.abandon(shared, sink);
        self.begin_at(first, sink);
        self.next = end;
        if let Some(held) = self.held.front() {
            sink.deliver(Delivered {
                token: self.token,
                topic_index: self.index,
                first_sqn: Sqn(first as u32),
                sqn: Sqn(end as u32).prev(),
                payload: held.payload,
                headers: held.headers,
                recovered: held.recovered,
                via: Via::Transport,
            });
        }
        shared.held_bytes -= self.held.pop();
    }

    /// Takes the message or fragment that has the next number and was asked for.
    fn accept<S: DeliverySink>(
        &mut self,
        message: &Message<'_>,
        via: Via,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        let number = self.next;
        self.next = number + 1;
        let Some((first_sqn, offset, length)) = message.headers.frag() else {
            self.abandon(shared, sink);
            self.begin_at(number, sink);
            return self.deliver_answer(number, message.data(), message, via, shared, sink);
        };
        let first = widen(number, first_sqn);
        let (data, headers) = (message.data(), message.headers);
        let piece = Piece { first, number, offset, length, data, headers, recovered: true };
        let begins = offset == 0 && first == number;
        if begins {
            self.abandon(shared, sink);
            self.begin_at(number, sink);
            self.assembly = if piece.is_sound() { shared.pool.begin(&piece, false) } else { None };
        } else if !self.begun {
            return shared.counters.before_start.inc();
        }
        let Some(mut assembly) = self.assembly.take() else {
            return self.orphan(number, shared, sink);
        };
        let fits = piece.is_sound() && assembly.continues_with(&piece);
        if !fits || !shared.pool.append(&mut assembly, &piece) {
            self.assembly = Some(assembly);
            self.abandon(shared, sink);
            return self.orphan(number, shared, sink);
        }
        if !assembly.is_complete() {
            self.assembly = Some(assembly);
            return;
        }
        self.deliver_assembled(&assembly, via, shared, sink);
        shared.pool.end(assembly);
    }

    fn deliver_assembled<S: DeliverySink>(
        &mut self,
        assembly: &Assembly,
        via: Via,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        count_via(via, shared);
        sink.deliver(Delivered {
            token: self.token,
            topic_index: self.index,
            first_sqn: Sqn(assembly.first as u32),
            sqn: Sqn(assembly.last as u32),
            payload: assembly.data(),
            headers: assembly.headers(),
            recovered: true,
            via,
        });
    }

    fn deliver_answer<S: DeliverySink>(
        &mut self,
        number: u64,
        payload: &[u8],
        message: &Message<'_>,
        via: Via,
        shared: &mut Shared,
        sink: &mut S,
    ) {
        count_via(via, shared);
        let sqn = Sqn(number as u32);
        sink.deliver(Delivered {
            token: self.token,
            topic_index: self.index,
            first_sqn: sqn,
            sqn,
            payload,
            headers: message.headers,
            recovered: true,
            via,
        });
    }

    /// The stream begins at `number`, if it has not begun.
    fn begin_at<S: DeliverySink>(&mut self, number: u64, sink: &mut S) {
        if !self.begun {
            self.begun = true;
            let first = Sqn(number as u32);
            sink.begin_of_stream(BeginOfStream { token: self.token, topic_index: self.index, first });
        }
    }

    /// The fragments of an unfinished message are lost.
    fn abandon<S: DeliverySink>(&mut self, shared: &mut Shared, sink: &mut S) {
        if let Some(assembly) = self.assembly.take() {
            let (first, end) = (assembly.first, assembly.last + 1);
            shared.counters.fragments_unrecoverably_lost.add(end - first);
            shared.pool.end(assembly);
            self.report(first, end, shared, sink);
        }
    }

    /// A fragment whose message cannot be put together is lost.
    fn orphan<S: DeliverySink>(&mut self, number: u64, shared: &mut Shared, sink: &mut S) {
        shared.counters.fragments_unrecoverably_lost.inc();
        self.report(number, number + 1, shared, sink);
    }

    /// Everything from the next number to before `end` is lost. Before the begin of the stream it is left
    /// out: a late joiner begins with what there is.
    fn lose<S: DeliverySink>(&mut self, end: u64, shared: &mut Shared, sink: &mut S) {
        self.requests.drop_before(end);
        let is_head = !self.begun && matches!(self.runs.front(), Some(Run::Gap { via: Via::LateJoin, .. }));
        let first = match self.assembly.take() {
            Some(assembly) => {
                let (first, count) = (assembly.first, assembly.last + 1 - assembly.first);
                shared.counters.fragments_unrecoverably_lost.add(count);
                shared.pool.end(assembly);
                first
            }
            None => self.next,
        };
        if !is_head {
            self.begin_at(first, sink);
            self.report(first, end, shared, sink);
        }
        self.next = end;
        self.ask_next = self.ask_next.max(end);
    }

    fn report<S: DeliverySink>(&mut self, mut first: u64, end: u64, shared: &mut Shared, sink: &mut S) {
        while first < end {
            let count = u32::try_from(end - first).unwrap_or(u32::MAX);
            shared.counters.lost_events.inc();
            shared.counters.msgs_lost.add(u64::from(count));
            let (token, topic_index) = (self.token, self.index);
            sink.lost(Lost { token, topic_index, first: Sqn(first as u32), count });
            first += u64::from(count);
        }
    }
}

fn count_via(via: Via, shared: &Shared) {
    match via {
        Via::OffTransport => shared.counters.otr_msgs.inc(),
        Via::LateJoin | Via::Transport => shared.counters.late_join_msgs.inc(),
    }
}
