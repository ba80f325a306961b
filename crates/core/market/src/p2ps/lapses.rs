//! What streams say of what was sent before: that it is good no more, or that it was not all.

use rwf::{DataState, DecodeError, StatusMsg};
use units::Nanos;

use super::items::WatchedItems;
use super::merge::SideNo;
use super::service::What;
use super::sink::ServerSink;
use crate::backbone::StreamMsg;

/// What clients get of an item that the instance had stopped to send for a while.
const OPENED_ANEW: &str = "the source distributor had stopped to send the item for a while";

/// The stream of a service, or of a side of it, says what all its items are from here on.
pub(super) fn on_service_status(
    items: &mut WatchedItems,
    now: Nanos,
    id: u16,
    (side, msg): (Option<SideNo>, &StreamMsg<'_>),
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let state = StatusMsg::parse(msg.body)?.state;
    if state.is_some_and(|state| state.data == DataState::Suspect) {
        // The directory may have told already that it is up again.
        items.sources.recheck_later(id, now);
        let what = match side {
            None => What::DownSince(msg.sequence),
            Some(side) => What::SideDownSince(side, msg.sequence),
        };
        items.sweep(now, id, what, sink);
    }
    Ok(())
}

/// The instance sends an item's messages from here on, and has not before: it had lost the link of this server, or the
/// image here has answered an earlier request. What is older lacks something.
pub(super) fn on_opened_anew(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    sequence: u64,
    sink: &mut impl ServerSink,
) {
    if units::planted(units::Bug::TakesOldAnswers) {
        return;
    }
    let life = &mut items.table[index].life;
    match life.image_after() {
        Some(after) if after >= sequence => {}
        Some(_) => {
            items.resynchronise(now, index, (sequence, OPENED_ANEW), sink);
            items.send_requests(now, sink);
        }
        None => life.note(sequence),
    }
}
