use rwf::{
    DataState, DataType, Domain, EncodeError, Key, Msg, Qos, RefreshMsg, State, StateCode, StatusMsg,
    StreamState,
};

use crate::RdmError;
use crate::message::ToVec;

/// Where an answer goes: the stream, domain and key of what is answered.
///
/// Works for every message that could be read as RWF, also one whose meaning was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream.
    pub stream_id: i32,
    /// The key to repeat. That of a login is without its attributes, which hold secrets.
    pub key: Option<Key<'a>>,
    /// The stream is for this consumer alone.
    pub private_stream: bool,
}

impl<'a> Reply<'a> {
    /// The answer to a message.
    #[must_use]
    pub fn to(msg: &Msg<'a>) -> Reply<'a> {
        let domain = msg.domain();
        let key = msg.key().filter(|key| *key != Key::default());
        let key = if domain == Domain::LOGIN { key.map(without_attributes) } else { key };
        let private_stream = matches!(msg, Msg::Request(request) if request.private_stream);
        Reply { domain, stream_id: msg.stream_id(), key, private_stream }
    }

    /// The same for another stream and key, such as an item of a batch.
    #[must_use]
    pub fn on(self, stream_id: i32, key: impl Into<Key<'a>>) -> Reply<'a> {
        Reply { stream_id, key: Some(key.into()), ..self }
    }

    /// The item is as the state says.
    #[must_use]
    pub fn status(&self, state: State<'a>) -> StatusMsg<'a> {
        StatusMsg {
            private_stream: self.private_stream,
            state: Some(state),
            key: self.key,
            ..StatusMsg::new(self.domain, self.stream_id, DataType::NO_DATA)
        }
    }

    /// The stream has ended, and the same request will not succeed.
    #[must_use]
    pub fn closed(&self, code: StateCode, text: &'a str) -> StatusMsg<'a> {
        self.status(State::new(StreamState::Closed, DataState::Suspect).because(code, text))
    }

    /// The stream has ended, and the same request may succeed later. Stock consumers repeat a dictionary
    /// request at once: use [`Reply::closed`] there.
    #[must_use]
    pub fn closed_recover(&self, code: StateCode, text: &'a str) -> StatusMsg<'a> {
        self.status(State::new(StreamState::ClosedRecover, DataState::Suspect).because(code, text))
    }

    /// The stream goes on, its data may be stale.
    #[must_use]
    pub fn suspect(&self, code: StateCode, text: &'a str) -> StatusMsg<'a> {
        self.status(State::new(StreamState::Open, DataState::Suspect).because(code, text))
    }

    /// The stream goes on, its data is good again.
    #[must_use]
    pub fn recovered(&self, text: &'a str) -> StatusMsg<'a> {
        self.status(State::OPEN_OK.because(StateCode::NONE, text))
    }

    /// The item is elsewhere: under the key `to`.
    #[must_use]
    pub fn redirected(&self, to: impl Into<Key<'a>>, text: &'a str) -> StatusMsg<'a> {
        let state = State::new(StreamState::Redirected, DataState::Suspect).because(StateCode::NONE, text);
        StatusMsg { key: Some(to.into()), ..self.status(state) }
    }

    /// The item is to be had on a private stream only.
    #[must_use]
    pub fn redirected_to_private(&self, text: &'a str) -> StatusMsg<'a> {
        let state = State::new(StreamState::Redirected, DataState::Suspect).because(StateCode::NONE, text);
        StatusMsg { private_stream: true, ..self.status(state) }
    }

    /// The batch was taken: its own stream is over, its items follow on theirs.
    #[must_use]
    pub fn batch_taken(&self) -> StatusMsg<'a> {
        let state = State::new(StreamState::Closed, DataState::Ok);
        StatusMsg { key: None, ..self.status(state.because(StateCode::NONE, BATCH_TAKEN)) }
    }

    /// The message is refused for what is wrong with it: closed, with the code and words of the error.
    ///
    /// # Errors
    /// [`EncodeError`], never for a key that was read from a message.
    pub fn refuse(&self, error: &RdmError) -> Result<Vec<u8>, EncodeError> {
        let text = error.to_string();
        self.closed(error.state_code(), &text).to_vec()
    }

    /// The image of an item, whole, as the answer to a request.
    #[must_use]
    pub fn image(&self, qos: Qos, container_type: DataType, payload: &'a [u8]) -> RefreshMsg<'a> {
        RefreshMsg {
            solicited: true,
            complete: true,
            private_stream: self.private_stream,
            qos: Some(qos),
            key: self.key,
            payload,
            ..RefreshMsg::new(self.domain, self.stream_id, container_type)
        }
    }
}

const BATCH_TAKEN: &str = "Stream closed for batch";

fn without_attributes(key: Key<'_>) -> Key<'_> {
    Key { attributes: None, ..key }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemKey;
    use crate::login::LoginRequest;
    use rwf::RequestMsg;

    fn item(private_stream: bool) -> Msg<'static> {
        Msg::Request(RequestMsg {
            private_stream,
            key: Key::item(1, b"TEST.1"),
            ..RequestMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
        })
    }

    #[test]
    fn every_status_has_its_state_on_the_stream_and_key_of_the_request() {
        let reply = Reply::to(&item(false));
        let code = StateCode::NO_RESOURCES;
        for (status, stream, data) in [
            (reply.closed(code, "t"), StreamState::Closed, DataState::Suspect),
            (reply.closed_recover(code, "t"), StreamState::ClosedRecover, DataState::Suspect),
            (reply.suspect(code, "t"), StreamState::Open, DataState::Suspect),
            (reply.recovered("t"), StreamState::Open, DataState::Ok),
        ] {
            let bytes = status.to_vec().expect("legal");
            let back = StatusMsg::parse(&bytes).expect("whole");
            let state = back.state.expect("a state");
            assert_eq!((state.stream, state.data, state.text), (stream, data, &b"t"[..]));
            assert_eq!((back.stream_id, back.key), (5, Some(Key::item(1, b"TEST.1"))));
        }
    }

    #[test]
    fn a_private_stream_is_answered_as_one() {
        let reply = Reply::to(&item(true));
        assert!(reply.closed(StateCode::NONE, "").private_stream);
        assert!(reply.image(Qos::REAL_TIME, DataType::FIELD_LIST, &[0]).private_stream);
        let asked_normally = Reply::to(&item(false)).redirected_to_private("");
        assert!(asked_normally.private_stream && asked_normally.key.is_some());
    }

    #[test]
    fn a_redirection_says_where_to() {
        let status = Reply::to(&item(false)).redirected(ItemKey::new(2, b"TEST.2"), "moved");
        assert_eq!(status.key, Some(Key::item(2, b"TEST.2")));
        assert_eq!(status.state.map(|state| state.stream), Some(StreamState::Redirected));
    }

    #[test]
    fn a_batch_is_answered_on_its_stream_and_its_items_on_theirs() {
        let reply = Reply::to(&item(false));
        let taken = reply.batch_taken();
        let state = taken.state.expect("a state");
        assert_eq!((state.stream, state.data), (StreamState::Closed, DataState::Ok));
        assert_eq!((taken.stream_id, taken.key), (5, None));
        let second = reply.on(7, ItemKey::new(1, b"B")).closed(StateCode::NOT_FOUND, "");
        assert_eq!((second.stream_id, second.key), (7, Some(Key::item(1, b"B"))));
    }

    #[test]
    fn a_refused_login_does_not_get_its_password_back() {
        let login = LoginRequest { password: Some(b"s3cret"), ..LoginRequest::consumer(b"u") };
        let bytes = login.to_vec().expect("legal");
        let reply = Reply::to(&Msg::parse(&bytes).expect("whole"));
        let refused = reply.refuse(&RdmError::UnknownDictionary).expect("legal");
        let status = StatusMsg::parse(&refused).expect("whole");
        assert_eq!(status.key.and_then(|key| key.name), Some(&b"u"[..]));
        assert_eq!(status.key.and_then(|key| key.attributes), None);
        assert_eq!(status.state.map(|state| state.code), Some(StateCode::NOT_FOUND));
    }
}
