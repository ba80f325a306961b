//! Hop stamps of updates.

use super::items::WatchedItems;
use super::sink::{ServerSink, StampedUpdate};
use crate::backbone::{HopTimes, StreamMsg};

/// An update of the item at a place has optional parts. If hop stamps are among them the sink gets them, and is to be told
/// when the update is handled. Stamps that cannot be read are counted, and the update is as good without them.
#[inline(never)]
pub(super) fn begin(
    items: &WatchedItems,
    index: usize,
    msg: &StreamMsg<'_>,
    sink: &mut impl ServerSink,
) -> bool {
    let Some(item) = items.table.get(index) else { return false };
    match HopTimes::of(msg.parts) {
        Ok(Some(hops)) => {
            items.counters.hop_stamps_in.inc();
            sink.begin_stamped(&StampedUpdate { key: item.key.as_key(), sequence: msg.sequence, hops });
            true
        }
        Ok(None) => false,
        Err(_) => {
            items.counters.hop_stamps_refused.inc();
            false
        }
    }
}
