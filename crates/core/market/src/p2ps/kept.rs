//! Images that another keeps anyway: a shard has a copy of the relay's while it needs one, and a server without a cache
//! of a service has those of the source distributor.
//!
//! An item's updates reach its streams without an image: they are passed on as they came. An image is needed when a
//! stream begins, comes back from a pause, or was not sent an update. So the image of an item that needs none is given up
//! ([`CachedItem::give_up_image`]), after a while or at once: it is *away*. When it is needed it is *recalled*: asked for
//! again. Who is sent every update meanwhile neither waits nor misses anything, and who needs the image waits for it:
//!
//! | stream | waits | until then |
//! |---|---|---|
//! | new, or asks for a refresh | among the newcomers of the item | gets no updates: they will be in the image |
//! | comes back from a pause, or was not sent an update | as one for which an image is due ([`due`](super::due)) | the same; each update that it lacks is counted |
//!
//! From a relay the image comes in its place among the updates. From a source distributor it comes over the link, which
//! is not ordered against the stream. So it is fitted in:
//!
//! | the image | what is done |
//! |---|---|
//! | has messages that have not come | it waits until they have: who gets it then must not get them |
//! | lacks messages that have come since it was asked for | copies of these are merged into it |
//! | lacks some that are not kept, because there was no room | it is asked for again |
//!
//! An image is away only of an item that is [`Live`](Phase::Live); whatever makes it suspect leads to an image for all,
//! and the recall begins again if it is still needed then. An image is here for as long as a stream waits for it, or
//! lacks updates. Without a limit ([`ServerConfig::kept_images_max`]) the images of all other services stay.
//!
//! [`ServerConfig::kept_images_max`]: super::ServerConfig::kept_images_max
//! [`CachedItem::give_up_image`]: crate::CachedItem::give_up_image

use std::sync::Arc;

use rwf::{DecodeError, RefreshMsg, StatusMsg, StreamState, UpdateMsg};
use units::Nanos;

use super::audience::Newcomer;
use super::base::Watcher;
use super::fanout;
use super::instance::send_to_instance;
use super::item::Item;
use super::items::{WatchedItems, begin_recall_again};
use super::life::Phase;
use super::recall::{Early, KeptImages, Recall, Step};
use super::service::Service;
use super::sink::ServerSink;
use super::stream::Incoming;
use crate::backbone::{Kind, LinkUp};
use crate::cached::CachedItem;

/// With more images than there may be, so many are looked at for each that comes: one more than comes.
const LOOKED_AT: usize = 2;

/// Gives up the oldest image unless it is needed, or was sent to somebody and there is room: then it is the newest.
fn look_at_oldest(items: &mut WatchedItems, now: Nanos) {
    let WatchedItems { kept, table, .. } = items;
    let is_over = kept.is_over();
    let Some((_, index, serial)) = kept.here.pop_front() else { return };
    let Some(item) = table.get_mut(index).filter(|item| item.serial == serial) else { return };
    let was_sent = std::mem::take(&mut item.image_use.was_sent);
    if item.audience.needs_image() || was_sent && !is_over && !item.image_use.is_uncached {
        kept.here.push_back((now, index, serial));
        return;
    }
    item.image_use.is_listed = false;
    item.give_up_image();
}

/// Gives up images that nobody has needed for a while, as many as may be looked at in a turn.
fn give_up(items: &mut WatchedItems, now: Nanos) {
    for _ in 0..items.config.cleanups_per_turn {
        if now < items.kept.next_look() {
            break;
        }
        look_at_oldest(items, now);
    }
}

/// The image of an item is here and was sent to those who waited for it.
pub(super) fn note_here(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    let may_go = |item: &&mut Item| items.kept.max.is_some() || item.image_use.is_uncached;
    let Some(item) = items.table.get_mut(index).filter(may_go) else { return };
    if let Some(recall) = item.recall.take() {
        items.kept.forget(&recall);
        recall.streams.iter().for_each(|watcher| items.clients.enqueue_due(*watcher));
    }
    if item.image_use.is_uncached && !item.audience.needs_image() {
        item.give_up_image();
    } else if !std::mem::replace(&mut item.image_use.is_listed, true) {
        items.kept.here.push_back((now, index, item.serial));
    }
    for _ in 0..LOOKED_AT {
        if items.kept.is_over() {
            look_at_oldest(items, now);
        }
    }
    ask(items, sink);
}

/// The instance says that an item's image takes its time: others are asked for meanwhile.
pub(super) fn let_wait(items: &mut WatchedItems, index: usize) {
    if let Some(recall) = &mut items.table[index].recall {
        items.kept.let_wait(recall);
    }
}

/// An image is needed that is away; `streams` are those that it is due for when it has come.
pub(super) fn recall(
    items: &mut WatchedItems,
    index: usize,
    streams: &[Watcher],
    sink: &mut impl ServerSink,
) {
    let item = &mut items.table[index];
    let is_news = item.recall.is_none();
    item.recall.get_or_insert_default().streams.extend(streams);
    if is_news {
        items.kept.wanted.push_back((index, item.serial));
        ask(items, sink);
    }
}

/// Asks for images until enough are on their way.
fn ask(items: &mut WatchedItems, sink: &mut impl ServerSink) {
    for _ in 0..items.config.cleanups_per_turn {
        if items.kept.outstanding >= items.config.images_outstanding_max {
            break;
        }
        let Some((index, serial)) = items.kept.wanted.pop_front() else { break };
        let Some(item) = items.table.get_mut(index).filter(|item| item.serial == serial) else { continue };
        // Of one that is not live an image for all comes by itself.
        let is_live = item.life.phase() == Phase::Live;
        let service = items.sources.services.get(&item.key.service).filter(|_| is_live);
        let Some(active) = service.and_then(|service| service.active) else { continue };
        let last = item.life.image_after().unwrap_or_default();
        let Some(recall) = item.recall.as_mut().filter(|recall| recall.step == Step::Wanted) else {
            continue;
        };
        recall.begin(last);
        item.answers_due = item.answers_due.saturating_add(1);
        items.kept.outstanding += 1;
        items.counters.images_requested.inc();
        let msg = LinkUp::ImageRequest { key: item.key.as_key() };
        send_to_instance(&items.sources.instances, active.instance, msg, sink);
    }
}

/// Shows images whose messages have come, asks for what is still to be asked for, and gives up what is not needed.
pub(super) fn check(items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
    show_early(items, now, sink);
    ask(items, sink);
    give_up(items, now);
}

/// When [`check`] is due next.
pub(super) fn next_wakeup(items: &WatchedItems) -> Nanos {
    let KeptImages { wanted, outstanding, .. } = &items.kept;
    let may_ask = !wanted.is_empty() && *outstanding < items.config.images_outstanding_max;
    if may_ask || next_early(items).is_some() { Nanos::ZERO } else { items.kept.next_look() }
}

/// The number up to which items of a service have got their messages.
fn handed_on(items: &WatchedItems, service: u16) -> u64 {
    let source = items.sources.services.get(&service).and_then(Service::active_source);
    source.and_then(|source| items.sources.stream(source)).map_or(0, Incoming::handed_on)
}

/// The first early image whose messages have come.
fn next_early(items: &WatchedItems) -> Option<Early> {
    let mut service = 0;
    loop {
        let next = *items.kept.early.range((service, 0, 0)..).next()?;
        if next.1 <= handed_on(items, next.0) {
            return Some(next);
        }
        service = next.0.checked_add(1)?;
    }
}

/// Shows images that have come before their messages, as many as may be looked at in a turn.
fn show_early(items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
    for _ in 0..items.config.cleanups_per_turn {
        let Some(next) = next_early(items) else { break };
        items.kept.early.remove(&next);
        let (_, _, index) = next;
        if show(items, now, index, sink).is_err() {
            items.spoil(now, index, sink);
        }
    }
}

/// Streams are to be sent an image that is away: they wait for it. `solicited` if it answers their requests.
#[cold]
pub(super) fn wait(
    items: &mut WatchedItems,
    index: usize,
    watchers: &[Watcher],
    solicited: bool,
    sink: &mut impl ServerSink,
) {
    let mut due = Vec::new();
    for &watcher in watchers {
        let Some(client) = items.clients.get(watcher.client) else { continue };
        let Some(stream) = client.streams.get(&watcher.stream_id) else { continue };
        let (form, is_paused) = (Arc::clone(&stream.form), client.pauses(watcher.stream_id));
        let item = &mut items.table[index];
        if solicited {
            item.audience.remove(watcher);
            let newcomer = Newcomer { watcher, form, is_paused, is_due: false };
            item.audience.await_image(newcomer);
        } else if item.audience.defer_one(watcher, &form) {
            items.clients.begin_due(watcher, item.updates);
            due.push(watcher);
        }
    }
    recall(items, index, &due, sink);
}

/// One part of an image that was recalled; `id` is the item's in the stream.
pub(super) fn on_image(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    (id, after): (u32, u64),
    msg: &RefreshMsg<'_>,
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let is_awaited = |recall: &Recall| recall.step != Step::Wanted;
    if !items.table[index].recall.as_deref().is_some_and(is_awaited) {
        return Ok(());
    }
    // An image that ends its stream is all there is: no update follows that it would have to fit.
    let is_last = msg.state.stream != StreamState::Open;
    let was_bound = items.table[index].id == Some(id);
    let is_first = msg.part_num.unwrap_or(0) == 0;
    if is_first && !is_last && !(items.bind(index, id) && items.joins_stream(index, after, was_bound)) {
        ask_again(items, index, sink);
        return Ok(());
    }
    let ripples = items.ripples_of(items.table[index].key.service);
    let item = &mut items.table[index];
    let Some(recall) = &mut item.recall else { return Ok(()) };
    if is_first {
        recall.incoming = Some((after, CachedItem::new(ripples)));
    }
    let Some((_, image)) = recall.incoming.as_mut().filter(|(begun, _)| *begun == after) else {
        return Ok(());
    };
    match image.on_refresh(msg, &items.rules) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => {
            give_up_recall(items, index);
            return Err(error);
        }
    }
    let Some((_, image)) = recall.incoming.take() else { return Ok(()) };
    if is_last {
        item.cached.take_back(image);
        items.end_with_image(index, sink);
        return Ok(());
    }
    let early = (item.key.service, after, index);
    if let Some((former, _)) = recall.early.replace((early, image)) {
        items.kept.early.remove(&former);
    }
    if after > handed_on(items, early.0) {
        items.kept.early.insert(early);
        return Ok(());
    }
    show(items, now, index, sink)
}

/// From here on it is an item without an image, which is asked for again when that is overdue.
#[cold]
fn give_up_recall(items: &mut WatchedItems, index: usize) {
    begin_recall_again(items, index);
    items.request(index);
}

/// All of an image is here, and every message that it has. What it lacks is merged into it; then it is shown.
fn show(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let item = &mut items.table[index];
    let Some(recall) = &mut item.recall else { return Ok(()) };
    let Some(((_, after, _), mut image)) = recall.early.take() else { return Ok(()) };
    if !recall.accepts_image(after) {
        ask_again(items, index, sink);
        return Ok(());
    }
    for (_, kind, body) in recall.take_after(after) {
        let result = match kind {
            Kind::Update => UpdateMsg::parse(&body).and_then(|msg| image.on_update(&msg, &items.rules)),
            _ => StatusMsg::parse(&body).map(|msg| image.on_status(&msg)),
        };
        if let Err(error) = result {
            give_up_recall(items, index);
            return Err(error);
        }
    }
    // Unless one for all has come meanwhile; one that was cleared is none.
    if !item.cached.has_image() {
        item.cached.take_back(image);
        items.count_suspect(index);
    }
    fanout::close_if_suspect(items, now, index, sink);
    fanout::serve_newcomers(items, now, index, sink);
    note_here(items, now, index, sink);
    Ok(())
}

/// What has come of an image is of no use.
#[cold]
fn ask_again(items: &mut WatchedItems, index: usize, sink: &mut impl ServerSink) {
    let item = &mut items.table[index];
    let Some(recall) = &mut item.recall else { return };
    items.kept.ask_again(recall);
    items.kept.wanted.push_back((index, item.serial));
    ask(items, sink);
}
