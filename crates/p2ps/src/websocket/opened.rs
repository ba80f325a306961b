use std::collections::{HashMap, HashSet};

use market::server::ClientId;
use rssl_server::ConnectionId;
use rwf::{Msg, MsgClass, StreamState};

use super::connection_of;

/// The streams of WebSocket clients that have an image.
///
/// A status that leaves a stream open goes to these alone: the vendor's packages take the first message of a
/// stream for its answer, and would return without data while the image is still on its way.
#[derive(Debug, Default)]
pub(crate) struct Opened(HashMap<ConnectionId, HashSet<i32>>);

/// What a message means for the streams that get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// It is an image of a stream that goes on.
    Image,
    /// It says something of a stream that goes on, for those that have an image.
    Remark,
    /// The stream has ended.
    End,
    /// Anything else.
    Other,
}

impl Means {
    /// What an item's message means. Updates need not be looked into.
    pub(crate) fn of(msg: &[u8]) -> Means {
        if rwf::peek(msg).is_ok_and(|head| head.class == MsgClass::Update) {
            return Means::Other;
        }
        match Msg::parse(msg) {
            Ok(Msg::Refresh(refresh)) if refresh.state.stream == StreamState::Open => Means::Image,
            Ok(Msg::Refresh(_)) => Means::End,
            Ok(Msg::Status(status)) if status.state.is_none_or(|state| state.stream == StreamState::Open) => {
                Means::Remark
            }
            Ok(Msg::Status(_)) => Means::End,
            _ => Means::Other,
        }
    }
}

impl Opened {
    /// Whether a stream is to get a message that means this; from now on it is as the message says.
    pub(crate) fn admits(&mut self, client: ClientId, stream_id: i32, means: Means) -> bool {
        let Some(connection) = connection_of(client) else { return true };
        match means {
            Means::Other => true,
            Means::Image => {
                self.0.entry(connection).or_default().insert(stream_id);
                true
            }
            Means::Remark => self.0.get(&connection).is_some_and(|open| open.contains(&stream_id)),
            Means::End => {
                self.forget(connection, stream_id);
                true
            }
        }
    }

    /// The client has closed a stream.
    pub(crate) fn forget(&mut self, connection: ConnectionId, stream_id: i32) {
        if let Some(open) = self.0.get_mut(&connection) {
            open.remove(&stream_id);
        }
    }

    /// A connection is gone.
    pub(crate) fn forget_all(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use rdm::ToVec;
    use rwf::{DataState, DataType, Domain, RefreshMsg, State, StatusMsg, UpdateMsg};

    use super::*;
    use crate::websocket::client_of;

    fn status(stream: StreamState) -> Vec<u8> {
        let state = Some(State::new(stream, DataState::Suspect));
        let msg = StatusMsg { state, ..StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) };
        Msg::Status(msg).to_vec().expect("legal")
    }

    fn refresh(stream: StreamState) -> Vec<u8> {
        let state = State::new(stream, DataState::Ok);
        let msg = RefreshMsg { state, ..RefreshMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) };
        Msg::Refresh(msg).to_vec().expect("legal")
    }

    #[test]
    fn messages_mean_what_their_state_says() {
        assert_eq!(Means::of(&refresh(StreamState::Open)), Means::Image);
        assert_eq!(Means::of(&refresh(StreamState::NonStreaming)), Means::End);
        assert_eq!(Means::of(&status(StreamState::Open)), Means::Remark);
        assert_eq!(Means::of(&status(StreamState::ClosedRecover)), Means::End);
        let update = Msg::Update(UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA));
        assert_eq!(Means::of(&update.to_vec().expect("legal")), Means::Other);
    }

    #[test]
    fn a_remark_before_the_image_or_after_the_end_is_kept_back_from_websocket_clients_alone() {
        let mut opened = Opened::default();
        let (connection, rssl) = (ConnectionId(3), ClientId(3));
        let client = client_of(connection);
        assert!(!opened.admits(client, 5, Means::Remark) && opened.admits(rssl, 5, Means::Remark));
        assert!(opened.admits(client, 5, Means::Image) && opened.admits(client, 5, Means::Remark));
        assert!(!opened.admits(client, 6, Means::Remark), "of another stream");
        assert!(opened.admits(client, 5, Means::End) && !opened.admits(client, 5, Means::Remark));
        for forget in
            [|o: &mut Opened| o.forget(ConnectionId(3), 5), |o: &mut Opened| o.forget_all(ConnectionId(3))]
        {
            opened.admits(client, 5, Means::Image);
            forget(&mut opened);
            assert!(!opened.admits(client, 5, Means::Remark));
        }
    }
}
