use super::event::{BeginOfStream, Delivered, DeliverySink, Lost, Via};
use super::reassembly::{Assembly, AssemblyPool, Piece};
use crate::config::Order;
use crate::wire::lbmc::{Header, Message};
use counters::table::LbmDelivery;
use std::collections::VecDeque;
use std::sync::Arc;
use units::Sqn;

/// Topic and transport numbers are counted in 64 bits inside; number 0 stands here, so that numbers before
/// it exist.
pub(crate) const WIDE_ZERO: u64 = 1 << 32;

/// The 64-bit form of `sqn` that is nearest to `reference`.
pub(crate) fn widen(reference: u64, sqn: Sqn) -> u64 {
    reference.wrapping_add_signed(i64::from(Sqn(reference as u32).distance_to(sqn)))
}

/// What the common case of a topic needs: one message after another.
pub(super) struct Hot {
    /// The number that comes next.
    pub(super) next: u64,
    /// Transport number of the last datagram that told of the topic.
    pub(super) last_t: u64,
    pub(super) token: u64,
    pub(super) index: u32,
    /// A message without extension headers and with the next number may be delivered at once: the stream
    /// has begun and nothing is held or being put together.
    pub(super) plain: bool,
}

/// What the other cases of a topic need.
pub(super) struct Cold {
    pub(super) order: Order,
    /// Transport numbers below this do not concern the topic: it was subscribed later.
    pub(super) floor: u64,
    /// The session is heard from its first datagram on and the topic was subscribed before: numbers begin
    /// at 0.
    pub(super) from_zero: bool,
    /// `next` is known.
    pub(super) started: bool,
    /// `next` is what an earlier reception of the topic would have got next. A message below it is not of the same
    /// run of the source: the topic then begins with that.
    pub(super) resumes: bool,
    /// The number that came next before the loss that followed the last jump, with the transport number that told it.
    before_jump: (u64, u64),
    /// The begin of the stream was reported.
    begun: bool,
    /// The number that was reported.
    first: u64,
    /// What waits behind a gap, ordered by number; an announcement before the message of the same number.
    pub(super) held: VecDeque<Held>,
    /// The transport number for which the topic stands in the queue of gaps to become final.
    pub(super) queued_t: u64,
    /// The message being put together, front to back.
    assembly: Option<Assembly>,
    /// Messages being put together in any order; of topics in order of arrival.
    partials: Vec<Assembly>,
}

/// One thing that waits behind a gap.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) number: u64,
    /// Transport number of the datagram it came in.
    pub(super) t: u64,
    /// Where its bytes are held.
    pub(super) segment: u64,
    pub(super) at: u32,
    pub(super) len: u16,
    pub(super) kind: HeldKind,
    pub(super) recovered: bool,
    /// The source said so when it was asked once more.
    pub(super) is_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldKind {
    /// Everything below the number was sent by now.
    Announced,
    /// The message was delivered as it arrived.
    Seen,
    /// So it was, but its number is not believed, and its datagram was asked for once more.
    Doubted,
    /// The message waits.
    Waiting,
}

impl Held {
    /// The message was delivered as it arrived; only its number is held.
    pub(super) fn seen(number: u64, t: u64) -> Held {
        Held {
            number,
            t,
            segment: 0,
            at: 0,
            len: 0,
            kind: HeldKind::Seen,
            recovered: false,
            is_answer: false,
        }
    }

    /// Everything below `end` was sent by datagram `t`.
    pub(super) fn announced(end: u64, t: u64) -> Held {
        Held { kind: HeldKind::Announced, ..Held::seen(end, t) }
    }
}

/// Entries for which a topic keeps memory while nothing is held.
const HELD_KEPT_MAX: usize = 1_024;
/// Most messages of one topic being put together in any order.
const PARTIALS_MAX: usize = 1_024;

impl Cold {
    pub(super) fn new(order: Order, floor: u64) -> Cold {
        Cold {
            order,
            floor,
            from_zero: false,
            started: false,
            resumes: false,
            before_jump: (0, 0),
            begun: false,
            first: 0,
            held: VecDeque::new(),
            queued_t: u64::MAX,
            assembly: None,
            partials: Vec::new(),
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The number with which it has.
    pub(super) fn begun_at(&self) -> Option<u64> {
        self.begun.then_some(self.first)
    }

    /// Whether the message of a number is held, or was seen.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.place_of(number).is_some()
    }

    /// Where the message of a number is held, or is noted as seen.
    pub(super) fn place_of(&self, number: u64) -> Option<usize> {
        // what arrives in order behind a gap goes to the end
        if self.held.back().is_none_or(|last| last.number < number) {
            return None;
        }
        let at = self.held.partition_point(|h| (h.number, h.kind != HeldKind::Announced) < (number, true));
        self.held.get(at).filter(|h| h.number == number).map(|_| at)
    }

    /// Puts an entry in its place; false if there is one like it: a number is held once, and announced once.
    pub(super) fn insert(&mut self, entry: Held) -> bool {
        let key = |h: &Held| (h.number, h.kind != HeldKind::Announced);
        if self.held.back().is_none_or(|last| key(last) < key(&entry)) {
            self.held.push_back(entry);
            return true;
        }
        let at = self.held.partition_point(|h| key(h) < key(&entry));
        if self.held.get(at).is_some_and(|h| key(h) == key(&entry)) {
            return false;
        }
        self.held.insert(at, entry);
        true
    }
}

/// What all topics of a session share.
pub(super) struct Shared {
    pub(super) pool: AssemblyPool,
    pub(super) counters: Arc<LbmDelivery>,
    /// The transport number before the last jump.
    pub(super) jumped_from: u64,
    /// That jump was not true: streams go on where they were.
    pub(super) goes_on: bool,
}

/// One topic while something happens to it.
pub(super) struct Topic<'a, S> {
    pub(super) hot: &'a mut Hot,
    pub(super) cold: &'a mut Cold,
    pub(super) shared: &'a mut Shared,
    pub(super) sink: &'a mut S,
}

impl<S: DeliverySink> Topic<'_, S> {
    /// Makes `number` the first of the stream.
    pub(super) fn start(&mut self, number: u64) {
        self.cold.started = true;
        self.hot.next = number;
    }

    /// Takes the message that has the next number.
    pub(super) fn accept(&mut self, message: &Message<'_>, t: u64, recovered: bool) {
        self.begin();
        let number = self.hot.next;
        let piece = piece_of(message, number, recovered);
        // fragments are numbered without a break: what began before this message can grow no more
        if !self.cold.partials.is_empty() {
            self.drop_partials_before(piece.map_or(number, |p| p.first));
        }
        match piece {
            None => {
                self.abandon(number);
                self.deliver_plain(message, number, recovered);
            }
            // In topic order there are such messages if the topic was heard in order of arrival before.
            Some(piece) if self.cold.order == Order::Arrival || self.has_partial(&piece) => {
                if !self.accept_piece_early(&piece) {
                    self.drop_partials_before(number + 1);
                    self.report(number, number + 1);
                }
            }
            Some(piece) => self.accept_piece(&piece),
        }
        self.hot.next = number + 1;
        self.hot.last_t = t;
    }

    /// Takes a message before its turn, of a topic in order of arrival; false if it had to be left out and
    /// is to be taken as missing.
    pub(super) fn accept_early(&mut self, message: &Message<'_>, number: u64, recovered: bool) -> bool {
        self.begin();
        match piece_of(message, number, recovered) {
            None => {
                self.deliver_plain(message, number, recovered);
                true
            }
            Some(piece) => self.accept_piece_early(&piece),
        }
    }

    /// Reports everything from the next number to before `end` as lost, with what was already put together
    /// of the message that lacks it.
    pub(super) fn lose_until(&mut self, end: u64, t: u64) {
        let first = match self.cold.assembly.take() {
            Some(assembly) => self.drop_assembly(assembly),
            None => self.hot.next,
        };
        if self.cold.before_jump.1 < self.shared.jumped_from && self.shared.jumped_from <= t {
            self.cold.before_jump = (first, t);
        }
        self.drop_partials_before(end);
        self.report(first, end);
        self.hot.next = end;
        self.hot.last_t = t;
    }

    /// At the end of a session that goes on where it was before the last jump: so does the topic.
    pub(super) fn go_back(&mut self) {
        let (next, t) = self.cold.before_jump;
        if self.shared.goes_on && t >= self.shared.jumped_from {
            self.hot.next = next;
        }
    }

    /// A fragment that was taken before its turn is not believed: its place is free for the source's own.
    pub(super) fn disown(&mut self, number: u64) {
        let mut partials = self.cold.partials.iter_mut();
        let Some(at) = partials.position(|partial| partial.take_out(number)) else { return };
        if self.cold.partials[at].pieces.is_empty() {
            let empty = self.cold.partials.swap_remove(at);
            self.shared.pool.end(empty);
        }
    }

    /// Numbers below `end` are all settled: what began there and still lacks one lacks it for ever.
    pub(super) fn drop_partials_before(&mut self, end: u64) {
        while let Some(at) = self.cold.partials.iter().position(|partial| partial.first < end) {
            let mut dead = self.cold.partials.swap_remove(at);
            self.shared.counters.fragments_unrecoverably_lost.inc();
            // What is missing of it is told as a gap. What has arrived was not told, and will not be delivered.
            dead.pieces.sort_unstable();
            for run in dead.pieces.chunk_by(|a, b| a.0 + 1 == b.0) {
                if let [(first, _), ..] = *run {
                    self.report(first, first + run.len() as u64);
                }
            }
            self.shared.pool.end(dead);
        }
    }

    /// Reports the fragments of an unfinished message as lost, all before `end`.
    pub(super) fn abandon(&mut self, end: u64) {
        if let Some(assembly) = self.cold.assembly.take() {
            let first = self.drop_assembly(assembly);
            self.report(first, end);
        }
    }

    /// Gives back what is being put together, without an event.
    pub(super) fn forget(&mut self) {
        let unfinished = self.cold.assembly.take().into_iter().chain(self.cold.partials.drain(..));
        for assembly in unfinished {
            self.shared.counters.fragments_unrecoverably_lost.inc();
            self.shared.pool.end(assembly);
        }
    }

    /// Reports the begin of the stream, at the next number, if that was not done.
    pub(super) fn begin(&mut self) {
        if !self.cold.begun {
            self.cold.begun = true;
            self.cold.first = self.hot.next;
            let Hot { token, index: topic_index, next, .. } = *self.hot;
            self.sink.begin_of_stream(BeginOfStream { token, topic_index, first: Sqn(next as u32) });
        }
    }

    /// Brings the short-cut for the common case up to date.
    pub(super) fn settle(&mut self) {
        let nothing_held = self.cold.held.is_empty();
        if nothing_held && self.cold.held.capacity() > HELD_KEPT_MAX {
            self.cold.held = VecDeque::new();
        }
        let idle = nothing_held && self.cold.assembly.is_none() && self.cold.partials.is_empty();
        self.hot.plain = self.cold.begun && idle;
    }

    // ---- private steps

    fn deliver_plain(&mut self, message: &Message<'_>, number: u64, recovered: bool) {
        let sqn = Sqn(number as u32);
        if message.headers.iter().any(|h| matches!(h, Header::Request { .. })) {
            self.shared.counters.lbm_reqs_rcved.inc();
        }
        self.count_delivered(message.data().len());
        self.sink.deliver(Delivered {
            token: self.hot.token,
            topic_index: self.hot.index,
            first_sqn: sqn,
            sqn,
            payload: message.data(),
            headers: message.headers,
            recovered,
            via: Via::Transport,
        });
    }

    fn count_delivered(&self, bytes: usize) {
        self.shared.counters.msgs_delivered.inc();
        self.shared.counters.bytes_delivered.add(bytes as u64);
    }

    fn accept_piece(&mut self, piece: &Piece<'_>) {
        let begins = piece.offset == 0 && piece.first == piece.number;
        if begins {
            self.abandon(piece.number);
            self.cold.assembly = if piece.is_sound() { self.shared.pool.begin(piece, false) } else { None };
        }
        let Some(mut assembly) = self.cold.assembly.take() else {
            return self.orphan(piece.number, piece.number);
        };
        let fits = piece.is_sound() && assembly.continues_with(piece);
        if !fits || !self.shared.pool.append(&mut assembly, piece) {
            let first = self.drop_assembly(assembly);
            return self.orphan(first, piece.number);
        }
        if assembly.is_complete() {
            self.deliver_assembled(assembly);
        } else {
            self.cold.assembly = Some(assembly);
        }
    }

    fn has_partial(&self, piece: &Piece<'_>) -> bool {
        self.cold.partials.iter().any(|partial| partial.first == piece.first)
    }

    /// A fragment whose message cannot be put together any more is lost, with those before it.
    fn orphan(&mut self, first: u64, number: u64) {
        self.shared.counters.fragments_unrecoverably_lost.inc();
        self.report(first, number + 1);
    }

    fn accept_piece_early(&mut self, piece: &Piece<'_>) -> bool {
        let same = |p: &Assembly| p.first == piece.first && p.length == piece.length && p.has_room_for(piece);
        let found = self.cold.partials.iter().position(same).filter(|_| piece.is_sound());
        let Some(at) = found.or_else(|| self.begin_partial(piece)) else {
            self.shared.counters.fragments_unrecoverably_lost.inc();
            return false;
        };
        self.shared.pool.place(&mut self.cold.partials[at], piece);
        if self.cold.partials[at].is_complete() {
            let assembly = self.cold.partials.swap_remove(at);
            self.deliver_assembled(assembly);
        }
        true
    }

    fn begin_partial(&mut self, piece: &Piece<'_>) -> Option<usize> {
        if self.cold.partials.len() == PARTIALS_MAX || !piece.is_sound() {
            return None;
        }
        let assembly = self.shared.pool.begin(piece, true)?;
        self.cold.partials.push(assembly);
        Some(self.cold.partials.len() - 1)
    }

    fn deliver_assembled(&mut self, assembly: Assembly) {
        self.count_delivered(assembly.data().len());
        let headers = assembly.headers();
        if headers.iter().any(|h| matches!(h, Header::Request { .. })) {
            self.shared.counters.lbm_reqs_rcved.inc();
        }
        self.sink.deliver(Delivered {
            token: self.hot.token,
            topic_index: self.hot.index,
            first_sqn: Sqn(assembly.first as u32),
            sqn: Sqn(assembly.last as u32),
            payload: assembly.data(),
            headers,
            recovered: assembly.recovered,
            via: Via::Transport,
        });
        self.shared.pool.end(assembly);
    }

    /// Gives the buffer back and returns the first number of the message.
    fn drop_assembly(&mut self, assembly: Assembly) -> u64 {
        let arrived = assembly.last - assembly.first + 1;
        self.shared.counters.fragments_unrecoverably_lost.add(arrived);
        let first = assembly.first;
        self.shared.pool.end(assembly);
        first
    }

    fn report(&mut self, mut first: u64, end: u64) {
        self.begin();
        let Hot { token, index: topic_index, .. } = *self.hot;
        // one event in every case but that of numbers that jump by more than half of their range
        while first < end {
            let count = u32::try_from(end - first).unwrap_or(u32::MAX);
            self.shared.counters.lost_events.inc();
            self.shared.counters.msgs_lost.add(u64::from(count));
            self.sink.lost(Lost { token, topic_index, first: Sqn(first as u32), count });
            first += u64::from(count);
        }
    }
}

/// The fragment that a message is, or `None` if it is whole.
fn piece_of<'a>(message: &Message<'a>, number: u64, recovered: bool) -> Option<Piece<'a>> {
    if message.headers.is_empty() {
        return None;
    }
    let (first_sqn, offset, length) = message.headers.frag()?;
    let first = widen(number, first_sqn);
    let (data, headers) = (message.data(), message.headers);
    Some(Piece { first, number, offset, length, data, headers, recovered })
}
