//! What a non-interactive provider publishes, beside its login
//! ([`LoginRequest::provider`](crate::login::LoginRequest)) and its directory
//! ([`DirectoryRefresh::publish`](crate::directory::DirectoryRefresh)).

use rwf::{
    DataType, Domain, Msg, Qos, RefreshMsg, State, StateCode, StatusMsg, StreamState, UpdateMsg, UpdateType,
};

use crate::RdmError;
use crate::item::{ItemKey, require_items};
use crate::message::wrong_class;

/// What a non-interactive provider says about one of its items, as the server reads it. Nothing of it is
/// answered.
///
/// The item is known by its stream; the key must be there once, in the first image, and some providers repeat
/// it in each message. The service id in the key is the provider's own. Source: RWF 14.1, non-interactive
/// provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream, chosen by the provider: negative.
    pub stream_id: i32,
    /// The item, where the message names it.
    pub item: Option<ItemKey<'a>>,
    /// What is said.
    pub msg: Published<'a>,
}

/// The messages that a non-interactive provider sends about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published<'a> {
    /// An image, or a part of one.
    Image(RefreshMsg<'a>),
    /// A change.
    Update(UpdateMsg<'a>),
    /// A state, or the end of the item.
    Status(StatusMsg<'a>),
}

impl<'a> Publication<'a> {
    /// Reads a message about an item.
    ///
    /// # Errors
    /// [`RdmError::NotAnItemDomain`]; [`RdmError::WrongClass`] for anything but refresh, update and status;
    /// [`RdmError::Missing`] for a key without service or name.
    pub fn parse(msg: &Msg<'a>) -> Result<Publication<'a>, RdmError> {
        require_items(msg.domain())?;
        let published = match msg {
            Msg::Refresh(refresh) => Published::Image(*refresh),
            Msg::Update(update) => Published::Update(*update),
            Msg::Status(status) => Published::Status(*status),
            other => return Err(wrong_class(other)),
        };
        Ok(Publication {
            domain: msg.domain(),
            stream_id: msg.stream_id(),
            item: msg.key().as_ref().map(ItemKey::parse).transpose()?,
            msg: published,
        })
    }

    /// Whether the item ends with this message.
    #[must_use]
    pub fn ends_item(&self) -> bool {
        let state = match self.msg {
            Published::Image(refresh) => Some(refresh.state),
            Published::Status(status) => status.state,
            Published::Update(_) => None,
        };
        state.is_some_and(|state| {
            matches!(state.stream, StreamState::Closed | StreamState::ClosedRecover | StreamState::Redirected)
        })
    }
}

/// An item as a non-interactive provider publishes it: writes its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedItem<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream: negative, one for each item.
    pub stream_id: i32,
    /// The item, with the service id of the provider's own directory.
    pub key: ItemKey<'a>,
    /// Whether updates repeat the key. The server needs it in images only.
    pub key_in_updates: bool,
}

impl<'a> PublishedItem<'a> {
    /// An item whose updates do not repeat its key.
    #[must_use]
    pub const fn new(domain: Domain, stream_id: i32, key: ItemKey<'a>) -> PublishedItem<'a> {
        PublishedItem { domain, stream_id, key, key_in_updates: false }
    }

    /// The whole image, unsolicited; it replaces what was there.
    #[must_use]
    pub fn image(&self, qos: Qos, container_type: DataType, payload: &'a [u8]) -> RefreshMsg<'a> {
        RefreshMsg {
            complete: true,
            qos: Some(qos),
            key: Some(self.key.into()),
            payload,
            ..RefreshMsg::new(self.domain, self.stream_id, container_type)
        }
    }

    /// A change.
    #[must_use]
    pub fn update(
        &self,
        update_type: UpdateType,
        container_type: DataType,
        payload: &'a [u8],
    ) -> UpdateMsg<'a> {
        UpdateMsg {
            update_type,
            key: self.key_in_updates.then(|| self.key.into()),
            payload,
            ..UpdateMsg::new(self.domain, self.stream_id, container_type)
        }
    }

    /// A state.
    #[must_use]
    pub fn status(&self, state: State<'a>) -> StatusMsg<'a> {
        StatusMsg {
            state: Some(state),
            key: Some(self.key.into()),
            ..StatusMsg::new(self.domain, self.stream_id, DataType::NO_DATA)
        }
    }

    /// The end of the item.
    #[must_use]
    pub fn closed(&self, text: &'a str) -> StatusMsg<'a> {
        let state = State::new(StreamState::Closed, rwf::DataState::Suspect);
        self.status(state.because(StateCode::NONE, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToVec;
    use rwf::{CloseMsg, Key};

    const ITEM: PublishedItem<'static> =
        PublishedItem::new(Domain::MARKET_PRICE, -1, ItemKey::new(7, b"NI.1"));

    #[test]
    fn what_is_published_is_read_with_its_item_where_it_is_named() {
        let image = ITEM.image(Qos::REAL_TIME, DataType::FIELD_LIST, &[0]);
        assert!(!image.solicited && image.complete);
        let update = ITEM.update(UpdateType::QUOTE, DataType::FIELD_LIST, &[0]);
        let keyed = PublishedItem { key_in_updates: true, ..ITEM };
        let keyed = keyed.update(UpdateType::QUOTE, DataType::FIELD_LIST, &[0]);
        let end = ITEM.closed("closed by publisher");
        for (msg, named, ends) in [
            (Msg::Refresh(image), true, false),
            (Msg::Update(update), false, false),
            (Msg::Update(keyed), true, false),
            (Msg::Status(end), true, true),
        ] {
            let bytes = msg.to_vec().expect("legal");
            let publication = Publication::parse(&Msg::parse(&bytes).expect("whole")).expect("legal");
            assert_eq!((publication.domain, publication.stream_id), (ITEM.domain, -1));
            assert_eq!(publication.item, named.then_some(ITEM.key));
            assert_eq!(publication.ends_item(), ends);
        }
    }

    #[test]
    fn what_a_provider_cannot_say_about_an_item_is_refused() {
        let close = CloseMsg::new(Domain::MARKET_PRICE, -1, DataType::NO_DATA);
        assert!(matches!(Publication::parse(&Msg::Close(close)), Err(RdmError::WrongClass { .. })));
        let directory = RefreshMsg::new(Domain::SOURCE, 0, DataType::MAP);
        let no_items = RdmError::NotAnItemDomain { domain: Domain::SOURCE };
        assert_eq!(Publication::parse(&Msg::Refresh(directory)), Err(no_items));
        let key = Some(Key { service_id: Some(7), ..Key::default() });
        let nameless = RefreshMsg { key, ..RefreshMsg::new(Domain::MARKET_PRICE, -1, DataType::MAP) };
        let missing = RdmError::Missing { part: crate::Part::Name };
        assert_eq!(Publication::parse(&Msg::Refresh(nameless)), Err(missing));
    }
}
