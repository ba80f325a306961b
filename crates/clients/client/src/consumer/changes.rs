//! Open items that are asked for again, for something else.

use rdm::ToVec;
use rdm::directory::{Directory, Service};
use rdm::login::Features;
use rssl::Outbound;
use rwf::Priority;

use super::item::{Change, Phase};
use super::requests::{Full, push};
use super::watchlist::Watchlist;
use super::{ItemHandle, ItemView};
use crate::table::Slot;

/// What of a wish becomes another.
pub(crate) enum Wanted {
    View(Option<ItemView>),
    Priority(Priority),
    Paused(bool),
    Image,
}

impl Watchlist {
    /// Changes what is wanted of an item. Where its stream is open the server is told; else the next request
    /// says it. Returns whether there is such an item, and updates of it are wanted.
    pub(crate) fn change(&mut self, handle: ItemHandle, wanted: Wanted) -> bool {
        let Some(item) = self.items.get_mut(handle.0).filter(|item| item.wish.streaming) else {
            return false;
        };
        let wish = &mut item.wish;
        let change = match wanted {
            Wanted::View(view) if view == wish.view => Change::None,
            Wanted::View(view) => {
                wish.view = view;
                // What is left of the old view must not be taken for a part of the new one.
                Change::Image
            }
            Wanted::Priority(priority) if priority == wish.priority => Change::None,
            Wanted::Priority(priority) => {
                wish.priority = priority;
                Change::Quiet
            }
            Wanted::Paused(is_paused) if is_paused == wish.is_paused => Change::None,
            Wanted::Paused(is_paused) => {
                wish.is_paused = is_paused;
                // A resumed item has missed updates.
                if is_paused { Change::Quiet } else { Change::Image }
            }
            Wanted::Image => Change::Image,
        };
        let is_new = item.change == Change::None && change != Change::None;
        item.change = item.change.max(change);
        if is_new && let Phase::Open { .. } = item.phase {
            self.changes.push_back(handle.0);
            self.is_pump_due = true;
        }
        true
    }

    /// The request of an item is answered: what was wanted of it meanwhile can be told.
    pub(super) fn on_answered(&mut self, slot: Slot) {
        if self.items.get(slot).is_some_and(|item| item.change != Change::None) {
            self.changes.push_back(slot);
            self.is_pump_due = true;
        }
    }

    /// Asks again for the items that have changed.
    pub(super) fn send_changes(
        &mut self,
        directory: &Directory,
        features: &Features,
        out: &mut Outbound,
    ) -> Result<(), Full> {
        while let Some(slot) = self.changes.front().copied() {
            self.send_change(slot, directory, features, out)?;
            self.changes.pop_front();
        }
        Ok(())
    }

    fn send_change(
        &mut self,
        slot: Slot,
        directory: &Directory,
        features: &Features,
        out: &mut Outbound,
    ) -> Result<(), Full> {
        let Some(item) = self.items.get_mut(slot).filter(|item| item.change != Change::None) else {
            return Ok(());
        };
        let service =
            self.service_queues[item.service as usize].service_id.and_then(|id| directory.service(id));
        if let (Phase::Open { stream_id }, Some(Service { id, info, .. })) = (item.phase, service) {
            let mut request = item.request(stream_id, *id, &info.qos, features);
            request.no_refresh = item.change == Change::Quiet;
            // A view of more fields than a message can hold was refused with the first request, or stays
            // unreported.
            if let Ok(bytes) = request.to_vec() {
                push(out, &bytes)?;
                self.counters.reissues_out.inc();
            }
            item.change = Change::None;
        }
        Ok(())
    }
}
