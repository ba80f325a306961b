//! Images for a later run: read out in portions, and given back when that begins.
//!
//! What is saved is what a provider would send that has all the services and items of this instance: a directory, then
//! refreshes. Whoever gives it back is such a provider, and leaves at once. So it brings what a lost provider leaves:
//! services that are down, items that are Suspect. What is not as it should be is refused as a provider's messages are.
//!
//! A server that has had an item before does not get its saved image, which is older than what clients of that server have
//! seen: it waits until the item is published, as if nothing had been saved.

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter};
use rwf::{DataState, Msg, RefreshMsg};
use units::Nanos;

use super::Distributor;
use super::base::ProviderId;
use super::provider::{DIRECTORY_STREAM_ID, FIRST_STREAM_ID, Provider};
use super::sink::DistributorSink;
use crate::cached::RefreshForm;

/// What a restored item says until a provider publishes it.
const TEXT: &str = "saved by an earlier run: no provider has published the item since";

/// The provider that stands for saved images, in status pages while they are given back.
const USER: &str = "saved images";

/// The services whose images are saved, as a directory: those that providers publish. Items of others are asked for anyway.
/// `None` if there is none.
#[must_use]
pub fn directory(core: &Distributor) -> Option<Vec<u8>> {
    let published = core.items.suppliers.services.values();
    let published = published.filter(|s| s.requested().is_none() && !s.is_withdrawn());
    let mut services: Vec<_> = published.map(|s| s.definition.clone()).collect();
    for service in &mut services {
        service.state.up = false;
    }
    let refresh = DirectoryRefresh::publish(DIRECTORY_STREAM_ID, Filter::ALL, &services).ok()?;
    if services.is_empty() { None } else { refresh.to_vec().ok() }
}

/// Gives `each` the images of the items of a portion of the table, as whole messages: those from the place `from` on,
/// until there were so many places or so many bytes. Returns where the next portion begins; `None` behind the last.
pub fn items(
    core: &mut Distributor,
    from: usize,
    (places, bytes): (usize, usize),
    mut each: impl FnMut(&[u8]),
) -> Option<usize> {
    let (mut written, encoding) = (0, &mut core.encoding);
    let end = core.items.table.end();
    for place in from..end.min(from.saturating_add(places)) {
        if written >= bytes {
            return Some(place);
        }
        let stream_id = i32::try_from(place).ok()?.checked_add(FIRST_STREAM_ID)?;
        core.items.with_published_image(place, |image| {
            let Ok(mut image) = RefreshMsg::parse(image) else { return };
            image.stream_id = stream_id;
            image.state.data = DataState::Suspect;
            image.state.text = TEXT.as_bytes();
            let Ok(message) = encoding.try_encode(|w| image.encode(w)) else { return };
            written += message.len();
            each(message);
        });
    }
    Some(from.saturating_add(places)).filter(|next| *next < end)
}

/// Saved images are given back from now on, by [`give_back`], as if a provider of that number had logged in. [`end`] is its
/// end.
pub fn begin(core: &mut Distributor, provider: ProviderId) {
    let known = Provider { user: Some(USER.to_owned()), is_saved: true, ..Provider::default() };
    core.items.suppliers.providers.insert(provider, known);
}

/// A saved message.
///
/// # Errors
/// It is none that is saved; nothing of it is taken.
pub fn give_back(
    core: &mut Distributor,
    now: Nanos,
    provider: ProviderId,
    bytes: &[u8],
    sink: &mut impl DistributorSink,
) -> Result<(), NotSaved> {
    match Msg::parse(bytes) {
        Ok(Msg::Refresh(_)) => core.on_provider_message(now, provider, bytes, sink).map_err(|_| NotSaved),
        _ => Err(NotSaved),
    }
}

/// All has been given back.
pub fn end(core: &mut Distributor, now: Nanos, provider: ProviderId, sink: &mut impl DistributorSink) {
    core.provider_gone(now, provider, TEXT, sink);
}

/// A message that is never saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSaved;

impl std::fmt::Display for NotSaved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("neither a directory nor an image")
    }
}

impl std::error::Error for NotSaved {}

impl super::items::Items {
    /// The messages of an item's image, if a provider publishes it and the image is there.
    fn with_published_image(&mut self, place: usize, each: impl FnMut(&[u8])) {
        let Some(item) = self.table.get(place) else { return };
        let services = &self.suppliers.services;
        let is_published =
            services.get(&item.key.service).is_some_and(|s| s.requested().is_none() && !s.is_withdrawn());
        if !is_published || !item.cached.is_known() {
            return;
        }
        let form = RefreshForm { solicited: false, part_bytes: self.part_bytes };
        item.cached.encode_refresh(item.key.as_key(), form, &mut self.scratch, each);
    }
}
