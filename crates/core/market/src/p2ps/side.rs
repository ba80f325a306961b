//! What comes over the stream of one of the two sides of a hot service, and what is done with it (`hot`).

use std::cmp::Reverse;

use rwf::{DataState, DecodeError, GenericMsg, RefreshMsg, State, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::base::{LOST, SourceId};
use super::hot::{ask_side, give_up_sides, prove_later, recount_sides, want_side, want_side_later};
use super::items::WatchedItems;
use super::lapses;
use super::life::Phase;
use super::merge::{Head, SideNo, Standing, Verdict, digest, other};
use super::notices::ServerNotice;
use super::side_images::{REOPEN_AFTER, bind_side, check_refusals, on_side_part};
use super::sink::ServerSink;
use super::stamps;
use super::stream::Order;
use crate::backbone::{Kind, StreamMsg};

const UNREADABLE: &str = "a message of the source distributor could not be used";
const CLOSED_SIDE: &str = "the item is closed at one source distributor of the pair, the other one is asked";
const SUSPECT_SIDE: &str = "the provider is lost at one source distributor of the pair";
const DIFFERS: &str = "the two source distributors of the pair say different things";
const LATE: &str = "an update has come too late to be put in order";

/// What is compared of a message of a stream.
fn head_of(msg: &StreamMsg<'_>) -> Result<Head, DecodeError> {
    let mut is_part = false;
    let (number, said) = match msg.kind {
        Kind::Update => {
            let update = UpdateMsg::parse(msg.body)?;
            (update.seq_num, digest(msg.kind, update.container_type.0, update.payload))
        }
        Kind::Refresh => {
            let refresh = RefreshMsg::parse(msg.body)?;
            is_part = refresh.part_num.is_some();
            (refresh.seq_num, digest(msg.kind, refresh.container_type.0, refresh.payload))
        }
        Kind::Status | Kind::Close => StatusMsg::parse(msg.body).map(|_| (None, 0))?,
        Kind::Generic => GenericMsg::parse(msg.body).map(|_| (None, 0))?,
        _ => (None, 0),
    };
    Ok(Head { kind: msg.kind, sequence: msg.sequence, number, digest: said, is_part })
}

/// A message of a side's stream whose turn has come.
pub(super) fn on_side_message(
    items: &mut WatchedItems,
    now: Nanos,
    (source, side): (SourceId, SideNo),
    msg: &StreamMsg<'_>,
    sink: &mut impl ServerSink,
) {
    let Some(stream) = items.sources.stream_mut(source) else { return };
    let (service, item) = (stream.service, stream.item(msg.item));
    if msg.kind == Kind::Heartbeat {
        return;
    }
    // Until it is taken.
    stream.count_standby(Order::Next, msg.kind);
    if matches!(msg.kind, Kind::Open | Kind::OpenInFull) {
        let (Ok(key), Ok(is_anew)) = (msg.opened(service), msg.is_anew()) else {
            items.counters.messages_refused.inc();
            return;
        };
        if let Some(index) = items.find_settled(key, sink) {
            bind_side(items, index, side, msg.item);
            // See `lapses::on_opened_anew`.
            if is_anew && outdate_side(items, index, side, msg.sequence) {
                lack_side(items, now, index, (side, msg.sequence), sink);
            }
        }
        return;
    }
    if msg.kind == Kind::ServiceStatus {
        if lapses::on_service_status(items, now, service, (Some(side), msg), sink).is_err() {
            items.counters.messages_refused.inc();
        }
        return;
    }
    let Some(index) = item else {
        if msg.kind == Kind::Update {
            items.counters.updates_unwatched.inc();
        }
        return;
    };
    items.settle(index, sink);
    if items.table.get(index).and_then(|item| item.hot.as_ref()).is_none() {
        return;
    }
    match head_of(msg) {
        Ok(head) => on_side_head(items, now, (index, source, side), (head, msg), sink),
        Err(_) => {
            items.counters.messages_refused.inc();
            lose_side(items, now, index, side, UNREADABLE, sink);
            want_side(items, index, side);
        }
    }
}

/// The state that a status or an image says the item is in.
fn state_of(kind: Kind, body: &[u8]) -> Option<State<'_>> {
    match kind {
        Kind::Status => StatusMsg::parse(body).ok().and_then(|msg| msg.state),
        Kind::Refresh => RefreshMsg::parse(body).ok().map(|msg| msg.state),
        _ => None,
    }
}

/// Whether a status or an image says that the item is to be trusted.
fn says_good(head: &Head, msg: &StreamMsg<'_>) -> bool {
    let state = state_of(head.kind, msg.body);
    state.is_some_and(|state| state.stream == StreamState::Open && state.data == DataState::Ok)
}

pub(super) fn on_side_head(
    items: &mut WatchedItems,
    now: Nanos,
    (index, source, side): (usize, SourceId, SideNo),
    (head, msg): (Head, &StreamMsg<'_>),
    sink: &mut impl ServerSink,
) {
    let (bytes_max, until) = (items.config.held_bytes_max, now + items.config.hot_wait);
    let item = &mut items.table[index];
    let is_live = item.life.phase() == Phase::Live;
    let Some(merge) = item.hot.as_mut() else { return };
    match merge.sides[side].standing {
        Standing::Asked | Standing::Refused { .. } => {
            items.counters.updates_held.inc();
            if !merge.sides[side].hold((head, msg.body), until, bytes_max) {
                items.counters.held_overflows.inc();
            }
        }
        // It was left because its data was not to be trusted, which may be over.
        Standing::Out if item.life.awaits_image() && says_good(&head, msg) => {
            ask_side(items, index, side, sink);
        }
        // Of an item that is not live, an image is asked for that has it.
        _ if !is_live => {}
        // One that nobody has asked for is as good as one that was asked for.
        Standing::Out if head.kind == Kind::Refresh => {
            on_side_part(items, now, (index, side), (msg.sequence, msg.body), sink);
        }
        Standing::Out if says_good(&head, msg) => want_side(items, index, side),
        Standing::Out => {}
        Standing::Unproven | Standing::Joined => {
            let is_behind = !merge.sides[side].waiting.is_empty();
            let verdict = if is_behind { Verdict::Hold } else { merge.judge(side, &head) };
            if verdict != Verdict::Hold {
                let is_stamped = !msg.parts.is_empty()
                    && msg.kind == Kind::Update
                    && matches!(verdict, Verdict::Take | Verdict::TakeAlone)
                    && stamps::begin(items, index, msg, sink);
                carry_out(items, now, (index, source, side), (head, verdict, msg.body), sink);
                if is_stamped {
                    sink.end_stamped();
                }
                if has_waiting(items, index) {
                    drain_sides(items, now, index, sink);
                }
                return;
            }
            if !merge.sides[side].hold((head, msg.body), until, bytes_max) {
                items.counters.held_overflows.inc();
                // Nothing may be lost of what waits for the other side: all of the item comes anew.
                let is_joined = merge.sides[side].standing == Standing::Joined;
                merge.sides[side].leave();
                if is_joined {
                    resynchronise_sides(items, now, index, LOST, sink);
                } else {
                    want_side(items, index, side);
                }
                return;
            }
            drain_sides(items, now, index, sink);
        }
    }
}

#[inline]
pub(super) fn has_waiting(items: &WatchedItems, index: usize) -> bool {
    let merge = items.table.get(index).and_then(|item| item.hot.as_ref());
    merge.is_some_and(|merge| merge.sides.iter().any(|side| !side.waiting.is_empty()))
}

/// Goes on with what waits, as far as it can.
pub(super) fn drain_sides(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    loop {
        let Some(item) = items.table.get_mut(index).filter(|item| item.life.phase() == Phase::Live) else {
            return;
        };
        let service = item.key.service;
        let Some((side, waiting, verdict)) = item.hot.as_mut().and_then(|merge| merge.next_waiting()) else {
            return list_waiting(items, index);
        };
        let Some(source) = items.sources.source_of_side(service, side) else { continue };
        carry_out(items, now, (index, source, side), (waiting.head, verdict, &waiting.body), sink);
    }
}

/// If something waits for the other side, that is not for ever.
fn list_waiting(items: &mut WatchedItems, index: usize) {
    let item = &mut items.table[index];
    let (service, serial) = (item.key.service, item.serial);
    let Some(merge) = item.hot.as_mut().filter(|merge| !merge.is_listed) else { return };
    let Some(until) = merge.waits_until() else { return };
    merge.is_listed = true;
    if let Some(pair) = items.sources.due_pair_mut(service) {
        pair.holds.push(Reverse((until, index, serial)));
    }
}

/// Does what was judged of a message.
pub(super) fn carry_out(
    items: &mut WatchedItems,
    now: Nanos,
    (index, source, side): (usize, SourceId, SideNo),
    (head, verdict, body): (Head, Verdict, &[u8]),
    sink: &mut impl ServerSink,
) {
    if on_side_state(items, now, (index, side), (&head, body), sink) {
        return;
    }
    let Some(merge) = items.table[index].hot.as_mut() else { return };
    let was = merge.sides[side].standing;
    let lacks = merge.settle(side, &head, verdict);
    let is_news = merge.sides[side].standing != was;
    if lacks > 0 {
        items.counters.hot_lacking.add(lacks as u64);
    }
    match verdict {
        Verdict::Take => {
            if head.kind == Kind::Close {
                give_up_sides(items, index, sink);
            }
            take_message(items, now, (index, source), (head.kind, body), sink);
        }
        Verdict::TakeAlone => {
            leave_second(items, index, side);
            if head.kind == Kind::Refresh && head.number.is_some() {
                // An image begins a new count, to which the other one can be joined.
                items.table[index].hot.iter_mut().for_each(|merge| merge.adopt(side, head.number));
                want_side(items, index, other(side));
                recount_sides(items, index);
            }
            take_message(items, now, (index, source), (head.kind, body), sink);
        }
        Verdict::Drop => items.counters.hot_duplicates.inc(),
        Verdict::Hold => {}
        Verdict::Leave => {
            items.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
            recount_sides(items, index);
            match head.is_part {
                // With its further parts it is an image that is compared.
                true => on_side_part(items, now, (index, side), (head.sequence, body), sink),
                false => prove_later(items, now, index, side),
            }
        }
        Verdict::Differs if was != Standing::Joined => {
            // It counts for itself, or has not come to where the other one is.
            items.counters.hot_differing.inc();
            items.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
            prove_later(items, now, index, side);
        }
        Verdict::Differs => on_difference(items, now, index, sink),
        Verdict::Lost => {
            items.counters.hot_late.inc();
            items.table[index].hot.iter_mut().for_each(|merge| merge.prefers = Some(side));
            resynchronise_sides(items, now, index, LATE, sink);
        }
    }
    if is_news {
        recount_sides(items, index);
    }
}

/// From here on the item comes from one side alone.
pub(super) fn leave_second(items: &mut WatchedItems, index: usize, side: SideNo) {
    if let Some(merge) = items.table[index].hot.as_mut() {
        merge.lead = side;
        merge.sides[other(side)].leave();
    }
    recount_sides(items, index);
}

/// The two have said different things: the item goes on from the side that leads, if clients have had all of that.
pub(super) fn on_difference(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    items.counters.hot_differing.inc();
    let item = &mut items.table[index];
    let Some(merge) = item.hot.as_mut() else { return };
    let lead = merge.lead;
    let is_current = merge.sides[lead].is_usable()
        && merge.sides[lead].last == merge.number
        && merge.sides[lead].waiting.is_empty();
    merge.number = None;
    merge.sides[other(lead)].leave();
    merge.is_distrusted |= is_current;
    report_difference(items, now, index, sink);
    if is_current {
        recount_sides(items, index);
    } else {
        resynchronise_sides(items, now, index, DIFFERS, sink);
    }
}

/// Names an item of which the two have said different things, unless many were named lately.
pub(super) fn report_difference(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    sink: &mut impl ServerSink,
) {
    if let Some(held_back) = items.sources.ration.take(now) {
        sink.notice(&ServerNotice::Differs { item: items.table[index].key.as_key(), held_back });
    }
}

/// The next message of an item.
pub(super) fn take_message(
    items: &mut WatchedItems,
    now: Nanos,
    (index, source): (usize, SourceId),
    (kind, body): (Kind, &[u8]),
    sink: &mut impl ServerSink,
) {
    let item = &items.table[index];
    let (service, account) = (item.key.service, item.account);
    let Some(pair) = items.sources.pair_mut(service) else { return };
    let sequence = pair.next_sequence();
    if let Some(stream) = items.sources.stream_mut(source) {
        stream.take_from_standby();
    }
    if kind != Kind::Update {
        items.ledger.account(account).taken.others += 1;
    }
    items.on_item_message(now, index, sequence, kind, body, sink);
}

/// What a status, a close or an image with a bad state says of a side. Returns whether that is all there is to do.
pub(super) fn on_side_state(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    (head, body): (&Head, &[u8]),
    sink: &mut impl ServerSink,
) -> bool {
    let Some(merge) = items.table[index].hot.as_mut() else { return true };
    if head.sequence <= merge.sides[side].after {
        items.counters.hot_duplicates.inc();
        return true;
    }
    let (leads, second) = (merge.lead == side, other(side));
    let state = match head.kind {
        Kind::Close => {
            let is_spare = merge.sides[second].is_usable();
            let is_hoped = merge.sides[second].is_registered;
            merge.sides[side].is_registered = false;
            items.unbind_side(index, side);
            if is_spare || is_hoped {
                lose_side(items, now, index, side, CLOSED_SIDE, sink);
                let merge = items.table.get_mut(index).and_then(|item| item.hot.as_mut());
                if let Some(merge) = merge
                    && merge.sides[side].standing == Standing::Out
                {
                    merge.sides[side].standing = Standing::Refused { is_closed: true };
                    want_side_later(items, index, side, now + REOPEN_AFTER);
                }
                return true;
            }
            return !leads;
        }
        kind => state_of(kind, body),
    };
    let Some(state) = state else { return false };
    let is_end = state.stream != StreamState::Open;
    match state.data {
        DataState::Suspect if !is_end => {
            merge.sides[side].is_good = false;
            if merge.sides[second].is_usable() {
                lose_side(items, now, index, side, SUSPECT_SIDE, sink);
                return true;
            }
            !leads
        }
        _ if merge.sides[side].is_good => false,
        DataState::Ok if leads => {
            merge.sides[side].is_good = true;
            false
        }
        DataState::Ok => {
            items.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
            want_side(items, index, side);
            true
        }
        _ => false,
    }
}

/// A side is of no use for an item any more. If the other one is, the item goes on from there, and nobody notices.
pub(super) fn lose_side(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    side: SideNo,
    why: &str,
    sink: &mut impl ServerSink,
) {
    let Some(item) = items.table.get_mut(index) else { return };
    let is_live = item.life.phase() == Phase::Live;
    let Some(merge) = item.hot.as_mut() else { return };
    let (was_usable, led) = (merge.sides[side].standing == Standing::Joined, merge.lead == side);
    merge.sides[side].leave();
    if !is_live {
        // Whether the other one answers alone is known when it does.
        return check_refusals(items, now, index, None, sink);
    }
    if led {
        merge.lead = other(side);
        if !merge.sides[other(side)].is_usable() {
            merge.lead = side;
            return resynchronise_sides(items, now, index, why, sink);
        }
        items.counters.hot_switches.inc();
    }
    if was_usable || led {
        recount_sides(items, index);
        drain_sides(items, now, index, sink);
    }
}

/// An item has missed something: it is suspect until one of the sides has sent an image.
pub(super) fn resynchronise_sides(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    why: &str,
    sink: &mut impl ServerSink,
) {
    let service = items.table[index].key.service;
    let lacks = items.sources.pair_mut(service).map_or(0, |pair| pair.sequence);
    items.resynchronise(now, index, (lacks, why), sink);
    recount_sides(items, index);
    items.send_requests(now, sink);
}

/// What a side has sent before a number lacks something, or is not to be trusted any more: an image that is on its way has
/// to be younger. Returns whether the item goes on from what was before.
pub(super) fn outdate_side(items: &mut WatchedItems, index: usize, side: SideNo, sequence: u64) -> bool {
    let Some(merge) = items.table[index].hot.as_mut() else { return false };
    let own = &mut merge.sides[side];
    match own.standing {
        Standing::Asked | Standing::Refused { .. } => {
            own.dropped = own.dropped.max(sequence);
            false
        }
        Standing::Unproven | Standing::Joined => own.after < sequence,
        Standing::Out => false,
    }
}

/// Messages about an item were lost of a side's stream.
pub(super) fn lack_side(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    (side, lacks): (SideNo, u64),
    sink: &mut impl ServerSink,
) {
    let Some(item) = items.table.get_mut(index) else { return };
    let is_live = item.life.phase() == Phase::Live;
    let Some(merge) = item.hot.as_mut() else { return };
    match merge.sides[side].standing {
        Standing::Asked => {
            // The image that is on its way may be older than what was lost.
            let own = &mut merge.sides[side];
            own.ask();
            own.dropped = lacks;
        }
        Standing::Out if is_live => prove_later(items, now, index, side),
        Standing::Out | Standing::Refused { .. } => {}
        Standing::Unproven | Standing::Joined if is_live => {
            lose_side(items, now, index, side, LOST, sink);
            want_side(items, index, side);
        }
        Standing::Unproven | Standing::Joined => merge.sides[side].leave(),
    }
}
