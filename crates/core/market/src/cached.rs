//! An item as a cache holds it: image, state, and what else its refresh said.

use std::collections::BTreeMap;

use rdm::OwnedState;
use rwf::{
    Conflation, DataState, DataType, DecodeError, FieldList, Qos, RefreshMsg, State, StateCode, StatusMsg,
    UpdateMsg,
};
use units::Sqn;

use crate::changes::{Changes, Lacks, Merged};
use crate::encoding::Encoding;
use crate::extent::{Extent, Input, Merge};
use crate::image::{FieldRules, Image, PartStart};
use crate::key::ItemKey;
use crate::short_bytes::ShortBytes;

/// The last known image of an item and its state.
#[derive(Clone, Debug)]
pub struct CachedItem {
    image: Image,
    state: OwnedState,
    seq_num: Option<u32>,
    qos: Option<Qos>,
    group_id: ShortBytes,
    permission_data: Option<ShortBytes>,
    /// How much of the image is here.
    extent: Extent,
    /// Something that is not in the image, or not all of it, has come since it began.
    has_strayed: bool,
    /// A message about it could not be read: whatever is said of it, it is suspect until the next image.
    is_spoilt: bool,
    /// Old values move to the fields that theirs ripple to.
    ripples: bool,
    /// The image is kept elsewhere, and what is here of it is its type: updates pass without being merged.
    away: Option<DataType>,
    /// Rises with whatever changes the image.
    version: u64,
    /// What of the image changed when, while somebody wants to know.
    changes: Option<Box<Changes>>,
}

impl Default for CachedItem {
    fn default() -> Self {
        CachedItem {
            image: Image::Empty,
            state: State::OPEN_OK.into(),
            seq_num: None,
            qos: None,
            group_id: ShortBytes::from(RefreshMsg::NO_GROUP),
            permission_data: None,
            extent: Extent::Nothing,
            has_strayed: false,
            is_spoilt: false,
            ripples: true,
            away: None,
            version: 0,
            changes: None,
        }
    }
}

/// How an image goes out as refresh messages.
#[derive(Clone, Copy, Debug)]
pub struct RefreshForm {
    /// It answers a request.
    pub solicited: bool,
    /// About how many bytes a part may have.
    pub part_bytes: usize,
}

impl CachedItem {
    /// One without an image, of a service in which fields ripple or not.
    #[must_use]
    pub fn new(ripples: bool) -> CachedItem {
        CachedItem { ripples, ..CachedItem::default() }
    }

    /// The same item from elsewhere, without an image.
    #[must_use]
    pub fn anew(&self) -> CachedItem {
        CachedItem { version: self.version + 1, ..CachedItem::new(self.ripples) }
    }

    /// Asks for the image's values, for an update that comes soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Image::Fields(fields) = &self.image {
            fields.prefetch();
        }
    }

    /// Takes a refresh, or a part of one. Returns whether the image is whole now.
    ///
    /// A part begins a new image when the one before was the last, or it is numbered 0 or asks to clear the
    /// cache.
    ///
    /// # Errors
    /// The payload is malformed; there is no image then until the next refresh, and further parts of this one
    /// are dropped.
    pub fn on_refresh(&mut self, msg: &RefreshMsg<'_>, rules: &FieldRules) -> Result<bool, DecodeError> {
        let (extent, merge) = self.extent.next(Input::of(msg));
        let is_first = merge == Merge::Begin;
        if merge == Merge::Skip {
            self.extent = extent;
            return Ok(false);
        }
        self.away = None;
        self.renew_version();
        let is_taken = match self.image.refresh(msg.container_type, msg.payload, is_first, rules) {
            Ok(is_taken) => is_taken,
            Err(error) => {
                // What whole image there was has been replaced in part.
                self.image = Image::Empty;
                self.extent = self.extent.next(Input::unreadable(msg.complete)).0;
                return Err(error);
            }
        };
        self.is_spoilt &= !is_first;
        self.state = msg.state.into();
        self.seq_num = msg.seq_num;
        self.qos = msg.qos;
        self.group_id = msg.group_id.into();
        if is_first || msg.permission_data.is_some() {
            self.permission_data = msg.permission_data.map(Into::into);
        }
        self.has_strayed = !is_taken || self.has_strayed && !is_first;
        self.extent = extent;
        Ok(msg.complete)
    }

    /// Merges an update.
    ///
    /// # Errors
    /// The payload is malformed; what stood before the fault is merged.
    #[inline]
    pub fn on_update(&mut self, msg: &UpdateMsg<'_>, rules: &FieldRules) -> Result<(), DecodeError> {
        self.version += 1;
        if msg.seq_num.is_some() {
            self.seq_num = msg.seq_num;
        }
        if let Some(permission_data) = msg.permission_data {
            self.permission_data = Some(permission_data.into());
            if let Some(changes) = &mut self.changes {
                changes.note_permission(self.version);
            }
        }
        if msg.do_not_cache {
            return Ok(());
        }
        if let Some(ours) = self.away {
            // Whoever has the image could not merge anything else.
            self.has_strayed |= ![ours, DataType::NO_DATA].contains(&msg.container_type);
            return Ok(());
        }
        let ripples = self.ripples && !msg.do_not_ripple;
        if let Some(changes) = &mut self.changes {
            let merged = Merged { msg, ripples };
            let is_merged = merge_noting(&mut self.image, changes, merged, self.version, rules);
            self.has_strayed |= !is_merged?;
            return Ok(());
        }
        self.has_strayed |= !self.image.update(msg.container_type, msg.payload, ripples, rules)?;
        Ok(())
    }

    /// Takes over what a status says.
    pub fn on_status(&mut self, msg: &StatusMsg<'_>) {
        if msg.clear_cache {
            self.away = None;
            self.renew_version();
            self.image = Image::Empty;
            self.extent = self.extent.next(Input::Clear).0;
        }
        if let Some(state) = msg.state {
            self.change_state(state);
        }
        if let Some(group_id) = msg.group_id {
            self.group_id = group_id.into();
        }
        if let Some(permission_data) = msg.permission_data {
            self.permission_data = Some(permission_data.into());
        }
    }

    /// Marks the data as no longer to be trusted, for a reason.
    pub fn suspect(&mut self, code: StateCode, text: &str) {
        self.change_state(State::new(self.state.stream, DataState::Suspect).because(code, text));
    }

    /// Takes over what a state says; "no change" of the data leaves it as it was. Data that was spoilt is not
    /// made good by words.
    fn change_state(&mut self, state: State<'_>) {
        if self.is_spoilt && state.stream == self.state.stream && state.data != DataState::Suspect {
            return;
        }
        let data = if state.data == DataState::NoChange { self.state.data } else { state.data };
        self.state = State { data, ..state }.into();
    }

    /// A message about the item could not be read: it is suspect until the next image, whatever is said of it
    /// meanwhile. Returns whether it was not so before.
    pub fn spoil(&mut self, text: &str) -> bool {
        let is_news = !self.is_spoilt;
        self.is_spoilt = true;
        self.suspect(StateCode::ERROR, text);
        is_news
    }

    /// A message about the item could not be read, and no image has come since.
    #[inline]
    #[must_use]
    pub fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// Between the first and the last part of a refresh.
    #[must_use]
    pub fn is_between_parts(&self) -> bool {
        self.extent == Extent::Parts
    }

    /// The next refresh begins a new image, whatever it says of itself. Parts that were not followed by the
    /// last one are dropped.
    pub fn begin_again(&mut self) {
        let (extent, merge) = self.extent.next(Input::BeginAgain);
        self.extent = extent;
        if merge == Merge::Drop {
            self.renew_version();
            self.image = Image::Empty;
        }
    }

    /// The group that the item is in.
    #[must_use]
    pub fn group_id(&self) -> &[u8] {
        &self.group_id
    }

    /// Moves the item to another group.
    pub fn join_group(&mut self, group_id: &[u8]) {
        self.group_id = group_id.into();
    }

    /// Whether a whole image has come.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// Whether a whole image is here.
    #[must_use]
    pub fn has_image(&self) -> bool {
        self.is_known() && !self.is_away()
    }

    /// Whether the image is kept elsewhere ([`CachedItem::give_up_image`]).
    #[inline]
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Frees the image, since the same one is kept elsewhere: from now on updates pass without being merged, until
    /// there is another image. Returns whether it was done: not for an image that updates have passed over or that has
    /// no parts, and not while changes are noted.
    pub fn give_up_image(&mut self) -> bool {
        let has_parts = !matches!(self.image, Image::Empty | Image::Opaque { .. });
        let may = has_parts && self.has_image() && self.is_current() && self.changes.is_none();
        if may {
            self.away = Some(self.image.container_type());
            self.image = Image::Empty;
        }
        may
    }

    /// Whether the image is away, and a refresh says by its number that it is the same one, with nothing new beside it.
    #[must_use]
    pub fn is_repeated_by(&self, msg: &RefreshMsg<'_>) -> bool {
        let permission = msg.permission_data.is_none_or(|data| self.permission_data.as_deref() == Some(data));
        self.away == Some(msg.container_type)
            && msg.seq_num.is_some()
            && msg.seq_num == self.seq_num
            && self.state == OwnedState::from(msg.state)
            && *self.group_id == *msg.group_id
            && self.qos == msg.qos
            && permission
    }

    /// The image that was kept elsewhere is here again, with all that has come since.
    pub fn take_back(&mut self, image: CachedItem) {
        let (version, ripples) = (self.version + 1, self.ripples);
        *self = CachedItem { version, ripples, changes: None, ..image };
    }

    /// Whether the image of another item is the same. `None` if that cannot be told: one is not here or has strayed, or they
    /// are containers whose entries may stand in another order.
    #[must_use]
    pub fn is_same_image(&self, other: &CachedItem) -> Option<bool> {
        if !(self.has_all_updates() && other.has_all_updates() && self.has_image() && other.has_image()) {
            return None;
        }
        let write = |image: &Image| {
            let mut encoding = Encoding::default();
            encoding.encode(|w| _ = image.write_part(&PartStart::First, usize::MAX, w)).to_vec()
        };
        let (ours, theirs) = (write(&self.image), write(&other.image));
        if ours == theirs {
            return Some(self.image.container_type() == other.image.container_type());
        }
        let (Image::Fields(_), Image::Fields(_)) = (&self.image, &other.image) else { return None };
        fn fields(payload: &[u8]) -> Option<BTreeMap<i16, &[u8]>> {
            let list = FieldList::parse(payload).ok()?;
            list.entries().map(|entry| entry.ok().map(|field| (field.id, field.content))).collect()
        }
        Some(fields(&ours)? == fields(&theirs)?)
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> &OwnedState {
        &self.state
    }

    /// The number of the last message that had one and went into the image.
    #[must_use]
    pub fn seq_num(&self) -> Option<u32> {
        self.seq_num
    }

    /// Whether an image with this number has not come as far: no, if one of the two has none.
    #[must_use]
    pub(crate) fn is_newer_than(&self, number: Option<u32>) -> bool {
        number.zip(self.seq_num).is_some_and(|(its, ours)| Sqn(its).precedes(Sqn(ours)))
    }

    /// The data.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Whether the image has all that came since it began: not after an update that could not be merged,
    /// until the next refresh.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !self.has_strayed
    }

    /// Writes the image as refresh messages with stream id 0, one or several; `each` gets the bytes of each.
    ///
    /// `scratch` is working room, grown as needed and kept for the next call.
    pub fn encode_refresh(
        &self,
        key: ItemKey<'_>,
        form: RefreshForm,
        scratch: &mut Scratch,
        mut each: impl FnMut(&[u8]),
    ) {
        let mut at = PartStart::First;
        for part_num in 0.. {
            let next = self.encode_part(key, form, (part_num, &at), scratch);
            each(scratch.message.bytes());
            match next {
                Some(start) => at = start,
                None => break,
            }
        }
    }

    /// The first of these messages alone, with about so many bytes of the image: how it begins.
    pub fn encode_begin<'s>(
        &self,
        key: ItemKey<'_>,
        part_bytes: usize,
        scratch: &'s mut Scratch,
    ) -> &'s [u8] {
        let form = RefreshForm { solicited: false, part_bytes };
        self.encode_part(key, form, (0, &PartStart::First), scratch);
        scratch.message.bytes()
    }

    /// Writes a part of the image into `scratch`; returns where the next one begins.
    fn encode_part(
        &self,
        key: ItemKey<'_>,
        form: RefreshForm,
        (part_num, at): (u16, &PartStart),
        scratch: &mut Scratch,
    ) -> Option<PartStart> {
        let mut next = None;
        scratch.payload.encode(|w| next = self.image.write_part(at, form.part_bytes, w));
        let is_single = part_num == 0 && next.is_none();
        let msg = RefreshMsg {
            solicited: form.solicited,
            complete: next.is_none(),
            clear_cache: part_num == 0,
            seq_num: self.seq_num,
            state: self.state_to_send(),
            // One without bytes stops consumers on EMA Java 3.9.1.
            group_id: if self.group_id.is_empty() { RefreshMsg::NO_GROUP } else { &self.group_id },
            permission_data: self.permission_data.as_deref(),
            qos: self.qos,
            key: Some(key.to_key()),
            part_num: (!is_single).then_some(part_num),
            payload: scratch.payload.bytes(),
            ..RefreshMsg::new(key.domain, 0, self.image.container_type())
        };
        scratch.message.encode(|w| msg.encode(w));
        next
    }

    /// How often the item has changed: rises by one with each update, merged or not, and with each refresh or part of
    /// one. It is the same number only of the same image.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The image is another one: no change leads to it.
    fn renew_version(&mut self) {
        self.version += 1;
        if let Some(changes) = &mut self.changes {
            changes.restart(self.version);
        }
    }

    /// Notes from now on what updates change, if that is not done already, for
    /// [`CachedItem::encode_changes`]. With the last update that was merged, what it has changed is noted too: readers
    /// that were not sent it lack no more than that.
    pub fn track_changes(&mut self, last: Option<&UpdateMsg<'_>>) {
        if self.changes.is_some() || self.is_away() {
            return;
        }
        let version = self.version;
        let Some(msg) = last.filter(|_| version > 0) else {
            self.changes = Some(Box::new(Changes::new(version)));
            return;
        };
        let mut changes = Box::new(Changes::new(version - 1));
        if msg.permission_data.is_some() {
            changes.note_permission(version);
        }
        if !msg.do_not_cache {
            let merged = Merged { msg, ripples: self.ripples && !msg.do_not_ripple };
            changes.note_entries_late(merged, version);
            changes.note_fields(&self.image, merged, version);
        }
        self.changes = Some(changes);
    }

    /// Notes no more changes and frees what was noted: no reader lacks any.
    pub fn forget_changes(&mut self) {
        self.changes = None;
    }

    /// Whether changes are noted.
    #[inline]
    #[must_use]
    pub fn tracks_changes(&self) -> bool {
        self.changes.is_some()
    }

    #[cfg(test)]
    pub(crate) fn changes(&self) -> Option<&Changes> {
        self.changes.as_deref()
    }

    /// Encodes an update with stream id 0 that brings a reader up to date who was sent everything up to a version, and
    /// nothing after it: the newest value of each field that has changed since, in the image's order; of a map each
    /// entry that has changed since, whole, and its summary.
    ///
    /// Ripples are among the changes, so they are not to be made again. The update is of no particular type: it may
    /// stand for several. It has the item's last sequence number, and permission data if these were changed. With
    /// `waited_ms`, the time since the first of these changes, it says how many updates it stands for. Extended headers,
    /// and who posted a value, are of single updates and left out.
    #[must_use]
    pub fn encode_changes<'s>(
        &self,
        key: ItemKey<'_>,
        since: u64,
        waited_ms: Option<u16>,
        scratch: &'s mut Scratch,
    ) -> Conflated<'s> {
        if since == self.version {
            return Conflated::Nothing;
        }
        let changes = self.changes.as_ref().filter(|_| since < self.version && self.has_all_updates());
        let Some(changes) = changes else { return Conflated::NeedsImage };
        match changes.after(since, &self.image) {
            Lacks::Image => return Conflated::NeedsImage,
            Lacks::Nothing => return Conflated::Nothing,
            Lacks::Some => {}
        }
        let Scratch { payload, message } = scratch;
        let payload = payload.try_encode(|w| changes.write(since, &self.image, w));
        let count = (self.version - since).min(COUNT_MAX) as u16;
        let msg = UpdateMsg {
            do_not_ripple: true,
            seq_num: self.seq_num,
            conflation: waited_ms.map(|time| Conflation { count, time }),
            permission_data: self.permission_data.as_deref().filter(|_| changes.has_permission_after(since)),
            payload: payload.unwrap_or_default(),
            ..UpdateMsg::new(key.domain, 0, self.image.container_type())
        };
        match (payload, message.try_encode(|w| msg.encode(w))) {
            (Ok(_), Ok(bytes)) => Conflated::Update(bytes),
            _ => Conflated::NeedsImage,
        }
    }

    /// Whether the image has all updates: a payload that cannot be merged is in the updates alone.
    #[must_use]
    pub fn has_all_updates(&self) -> bool {
        self.is_known() && self.is_current()
    }

    /// The state to tell: an image that updates have passed over without being merged is not to be trusted,
    /// whatever the provider said.
    pub(crate) fn state_to_send(&self) -> State<'_> {
        let state = self.state.borrow();
        if self.is_current() {
            return state;
        }
        State::new(state.stream, DataState::Suspect)
            .because(StateCode::NONE, "updates of this kind cannot be merged into the image")
    }
}

/// Merges an update and notes what it changes.
#[inline(never)]
fn merge_noting(
    image: &mut Image,
    changes: &mut Changes,
    update: Merged<'_, '_>,
    version: u64,
    rules: &FieldRules,
) -> Result<bool, DecodeError> {
    changes.note_entries(image, update, version);
    let is_merged = image.update(update.msg.container_type, update.msg.payload, update.ripples, rules);
    match is_merged {
        Ok(true) => changes.note_fields(image, update, version),
        // A part of it may be merged.
        Ok(false) | Err(_) => changes.restart(version),
    }
    is_merged
}

/// The most updates that one can say it stands for.
const COUNT_MAX: u64 = 0x7FFF;

/// What a reader is to be sent that lacks updates, see [`CachedItem::encode_changes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflated<'s> {
    /// This update.
    Update(&'s [u8]),
    /// Nothing has changed for it: an entry came and went, or an update was not to be cached.
    Nothing,
    /// The image, if there is one: changes since that version are not known, or cannot be said by an update.
    NeedsImage,
}

/// Working room for [`CachedItem::encode_refresh`] and [`CachedItem::encode_changes`].
#[derive(Debug, Default)]
pub struct Scratch {
    payload: Encoding,
    message: Encoding,
}

#[cfg(test)]
mod tests {
    use rwf::{DataType, Domain, FieldList, Key, Msg, Real, StreamState, encode_to_vec};

    use super::*;

    fn fields(all: &[(i16, i64)]) -> Vec<u8> {
        encode_to_vec(|w| w.field_list(|f| all.iter().for_each(|&(id, v)| f.put(id, Real::decimal(v, 0)))))
            .expect("legal")
    }

    fn refresh(payload: &[u8]) -> RefreshMsg<'_> {
        RefreshMsg {
            complete: true,
            payload,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST)
        }
    }

    fn update(payload: &[u8]) -> UpdateMsg<'_> {
        UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) }
    }

    fn sent(item: &CachedItem) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let form = RefreshForm { solicited: true, part_bytes: 1000 };
        item.encode_refresh(
            ItemKey::named(7, Domain::MARKET_PRICE, b"IBM"),
            form,
            &mut Scratch::default(),
            |bytes| all.push(bytes.to_vec()),
        );
        all
    }

    #[test]
    fn the_image_goes_out_with_all_that_came_since() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        assert!(!item.is_known());
        let image = fields(&[(22, 1), (25, 2)]);
        let seq_num = Some(10);
        item.on_refresh(&RefreshMsg { seq_num, ..refresh(&image) }, &rules).expect("legal");
        let change = fields(&[(25, 3)]);
        item.on_update(&UpdateMsg { seq_num: Some(11), ..update(&change) }, &rules).expect("legal");
        assert!(item.is_known());
        let all = sent(&item);
        let Ok(Msg::Refresh(msg)) = Msg::parse(&all[0]) else { panic!("{all:?}") };
        assert_eq!((all.len(), msg.part_num, msg.complete, msg.solicited), (1, None, true, true));
        assert_eq!((msg.seq_num, msg.key, msg.state), (Some(11), Some(Key::item(7, b"IBM")), State::OPEN_OK));
        assert_eq!(msg.payload, fields(&[(22, 1), (25, 3)]));
    }

    #[test]
    fn an_update_that_is_not_to_be_cached_changes_nothing() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let image = fields(&[(22, 1)]);
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        let change = fields(&[(22, 2)]);
        item.on_update(&UpdateMsg { do_not_cache: true, ..update(&change) }, &rules).expect("legal");
        let Image::Fields(kept) = item.image() else { panic!("a field list came") };
        assert_eq!(kept.entries().count(), FieldList::parse(&image).expect("legal").entries().count());
        assert_eq!(kept.field(22), Some(&[14, 1][..]));
    }

    #[test]
    fn parts_make_an_image_when_the_last_has_come_and_a_new_first_part_starts_over() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let part = |n: u16, last: bool, payload| RefreshMsg {
            part_num: Some(n),
            complete: last,
            ..RefreshMsg { payload, ..refresh(payload) }
        };
        let opaque = |msg: RefreshMsg<'static>| RefreshMsg { container_type: DataType::OPAQUE, ..msg };
        assert_eq!(item.on_refresh(&opaque(part(0, false, b"one")), &rules), Ok(false));
        assert!(!item.is_known());
        assert_eq!(item.on_refresh(&opaque(part(0, false, b"ONE")), &rules), Ok(false));
        assert_eq!(item.on_refresh(&opaque(part(1, true, b"TWO")), &rules), Ok(true));
        let all = sent(&item);
        let payloads: Vec<_> = all.iter().map(|m| Msg::parse(m).expect("legal").payload()).collect();
        assert_eq!(payloads, [b"ONE", b"TWO"]);
        let Ok(Msg::Refresh(last)) = Msg::parse(&all[1]) else { panic!("{all:?}") };
        assert_eq!((last.part_num, last.complete, last.clear_cache), (Some(1), true, false));
    }

    #[test]
    fn an_image_that_an_update_has_passed_over_is_sent_as_suspect() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let xml = |payload| RefreshMsg { container_type: DataType::XML, ..refresh(payload) };
        item.on_refresh(&xml(b"<a/>"), &rules).expect("legal");
        let change = UpdateMsg { container_type: DataType::XML, ..update(b"<b/>") };
        item.on_update(&change, &rules).expect("legal");
        let all = sent(&item);
        let Ok(Msg::Refresh(msg)) = Msg::parse(&all[0]) else { panic!("{all:?}") };
        assert_eq!((msg.state.data, msg.payload), (DataState::Suspect, &b"<a/>"[..]));
    }

    #[test]
    fn an_image_is_suspect_after_an_update_of_another_container_until_the_next_refresh() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let image = fields(&[(22, 1)]);
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        let nothing = UpdateMsg { container_type: DataType::NO_DATA, ..update(&[]) };
        item.on_update(&nothing, &rules).expect("legal");
        assert_eq!(item.state_to_send().data, DataState::Ok, "it says nothing about the data");
        let other = UpdateMsg { container_type: DataType::XML, ..update(b"<a/>") };
        item.on_update(&other, &rules).expect("legal");
        assert_eq!(item.state_to_send().data, DataState::Suspect);
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        assert_eq!(item.state_to_send().data, DataState::Ok);
    }

    #[test]
    fn an_element_list_is_merged_by_name() {
        let rules = FieldRules::default();
        let elements = |all: &[(&str, u64)]| {
            encode_to_vec(|w| w.element_list(|e| all.iter().for_each(|(name, v)| e.put(name, *v))))
                .expect("legal")
        };
        let mut item = CachedItem::default();
        let (image, change) = (elements(&[("A", 1), ("B", 2)]), elements(&[("B", 3), ("C", 4)]));
        let container_type = DataType::ELEMENT_LIST;
        item.on_refresh(&RefreshMsg { container_type, ..refresh(&image) }, &rules).expect("legal");
        item.on_update(&UpdateMsg { container_type, ..update(&change) }, &rules).expect("legal");
        let all = sent(&item);
        let Ok(Msg::Refresh(msg)) = Msg::parse(&all[0]) else { panic!("{all:?}") };
        assert_eq!(msg.payload, elements(&[("A", 1), ("B", 3), ("C", 4)]));
        assert_eq!((msg.state.data, msg.container_type), (DataState::Ok, container_type));
    }

    #[test]
    fn an_item_that_was_spoilt_is_suspect_until_its_next_image_whatever_is_said_of_it() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let image = fields(&[(22, 1)]);
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        assert!(item.spoil("cut") && !item.spoil("cut again"));
        let good = StatusMsg {
            state: Some(State::OPEN_OK),
            ..StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
        };
        item.on_status(&good);
        assert_eq!(
            (item.state().data, &*item.state().text, item.is_spoilt()),
            (DataState::Suspect, "cut again", true)
        );
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        assert_eq!((item.state().data, item.is_spoilt()), (DataState::Ok, false));
    }

    #[test]
    fn of_a_refresh_whose_part_cannot_be_read_nothing_is_kept() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let (first, cut, last) = (fields(&[(22, 1)]), [8, 0, 1, 0, 22, 9], fields(&[(25, 2)]));
        let part =
            |part, complete, payload| RefreshMsg { part_num: Some(part), complete, ..refresh(payload) };
        assert_eq!(item.on_refresh(&part(0, false, &first), &rules), Ok(false));
        assert!(item.on_refresh(&part(1, false, &cut), &rules).is_err());
        assert_eq!(item.on_refresh(&part(2, true, &last), &rules), Ok(false));
        assert!(!item.is_known());
        assert_eq!(item.on_refresh(&refresh(&last), &rules), Ok(true));
        let Image::Fields(kept) = item.image() else { panic!("a field list came") };
        assert_eq!((kept.entries().count(), item.is_known()), (1, true));
    }

    #[test]
    fn a_status_changes_state_and_keeps_the_image() {
        let rules = FieldRules::default();
        let mut item = CachedItem::default();
        let image = fields(&[(22, 1)]);
        item.on_refresh(&refresh(&image), &rules).expect("legal");
        item.suspect(StateCode::GAP_DETECTED, "gap");
        let no_change = State::new(StreamState::Open, DataState::NoChange).because(StateCode::NONE, "still");
        let status = StatusMsg {
            state: Some(no_change),
            ..StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
        };
        item.on_status(&status);
        let state = item.state().borrow();
        assert_eq!((state.data, &*state.text_lossy(), item.is_known()), (DataState::Suspect, "still", true));
        item.on_status(&StatusMsg { clear_cache: true, ..status });
        assert!(!item.is_known());
    }
}
