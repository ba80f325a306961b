//! What an application sees of its items, and whether it may be so.

use client::{ConsumerEvent, ItemEvent, ItemMsg};
use rwf::{DataState, StreamState};
use sim::parts::numbers;

/// The field that counts an item's changes.
pub(crate) const COUNT: i16 = 22;
/// A field that only some changes touch.
pub(crate) const OTHER: i16 = 25;

/// The values of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) count: i64,
    pub(crate) other: i64,
}

/// One item as an application sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The newest values it was ever shown.
    pub(crate) values: Option<Values>,
    /// They are shown as good.
    pub(crate) is_ok: bool,
    /// An update came behind a hole while the item was suspect: only an image makes good.
    skipped: bool,
    /// The stream has ended for good; the application asks again.
    pub(crate) is_closed: bool,
}

/// All items of one application; it says what is wrong by a panic.
pub(crate) struct Oracle {
    client: usize,
    /// Images may stand for updates that were left out.
    pub(crate) is_lenient: bool,
    pub(crate) items: Vec<Seen>,
    /// Of everything that was shown.
    pub(crate) digest: u64,
    pub(crate) updates: u64,
    pub(crate) refreshes: u64,
    pub(crate) suspects: u64,
}

impl Oracle {
    pub(crate) fn new(client: usize, items: usize) -> Oracle {
        let items = vec![Seen::default(); items];
        Oracle { client, is_lenient: false, items, digest: 0, updates: 0, refreshes: 0, suspects: 0 }
    }

    /// The process of the application is a new one: it has been shown nothing.
    pub(crate) fn forget(&mut self) {
        for seen in &mut self.items {
            (seen.is_ok, seen.skipped, seen.is_closed) = (false, false, false);
        }
    }

    pub(crate) fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        if let ConsumerEvent::Item(item) = event {
            self.on_item(item);
        }
    }

    fn on_item(&mut self, event: &ItemEvent<'_>) {
        let (client, item) = (self.client, event.tag() as usize);
        let seen = &mut self.items[item];
        let state = event.state();
        let is_ok = state.stream == StreamState::Open && state.data == DataState::Ok;
        let kind: u64 = match event.msg() {
            ItemMsg::Refresh(refresh) => {
                self.refreshes += 1;
                let mut values = Values::default();
                apply(&mut values, refresh.payload);
                if let Some(before) = seen.values {
                    assert!(
                        values.count >= before.count,
                        "back: client {client}, item {item}: an image with {values:?} after {before:?}"
                    );
                    assert!(
                        !seen.is_ok || values.count == before.count || self.is_lenient,
                        "unsaid gap: client {client}, item {item}: an image with {values:?} after {before:?} while it was ok"
                    );
                }
                seen.values = Some(values);
                (seen.is_ok, seen.skipped) = (is_ok, false);
                1
            }
            ItemMsg::Update(update) => {
                self.updates += 1;
                let values = seen.values.as_mut();
                let values = values
                    .unwrap_or_else(|| panic!("client {client}, item {item}: an update before any image"));
                let before = *values;
                apply(values, update.payload);
                let stands_for = update.conflation.map_or(1, |conflation| i64::from(conflation.count));
                assert!(
                    values.count > before.count,
                    "back: client {client}, item {item}: an update with {values:?} after {before:?}"
                );
                let follows = values.count == before.count + stands_for;
                assert!(
                    follows || !seen.is_ok,
                    "unsaid gap: client {client}, item {item}: an update with {values:?} after {before:?} while it was ok"
                );
                seen.skipped |= !follows;
                assert!(
                    !is_ok || seen.is_ok,
                    "client {client}, item {item}: an update makes a suspect item ok"
                );
                2
            }
            ItemMsg::Status(_) => {
                assert!(
                    !is_ok || !seen.skipped,
                    "unsaid gap: client {client}, item {item}: ok again without an image behind a hole"
                );
                self.suspects += u64::from(seen.is_ok && !is_ok);
                seen.is_ok = is_ok && seen.values.is_some();
                3
            }
            _ => 4,
        };
        seen.is_closed = event.is_final();
        let values = seen.values.unwrap_or_default();
        for part in [item as u64, kind, u64::from(seen.is_ok), values.count as u64, values.other as u64] {
            self.digest = mix(self.digest, part);
        }
    }
}

/// A digest with a further number in it.
pub(crate) fn mix(digest: u64, part: u64) -> u64 {
    (digest ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn apply(values: &mut Values, payload: &[u8]) {
    for (id, value) in numbers(payload) {
        match id {
            COUNT => values.count = value,
            OTHER => values.other = value,
            other => panic!("field {other} was never published"),
        }
    }
}
