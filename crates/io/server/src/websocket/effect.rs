use rwf::{DataState, Domain, Msg, MsgClass, State, StreamState};

/// What a message means for the streams that get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageEffect {
    /// It is an image of a stream that goes on.
    Image,
    /// It changes what the client has.
    Update,
    /// It says of a stream that goes on that its data is not to be trusted, for those that have an image.
    Doubt,
    /// It says something else of a stream that goes on, for those that have an image.
    Remark,
    /// The stream has ended.
    End,
    /// Anything else.
    Other,
    /// It stands for an update that cannot be written: who has an image is suspect from now on.
    Missed(Domain),
    /// It stands for an image that cannot be written: the stream is closed.
    Lost,
}

impl MessageEffect {
    /// What an item's message means. Updates need not be looked into.
    pub fn of(msg: &[u8]) -> MessageEffect {
        if rwf::peek(msg).is_ok_and(|head| head.class == MsgClass::Update) {
            return MessageEffect::Update;
        }
        match Msg::parse(msg) {
            Ok(Msg::Refresh(refresh)) if refresh.state.stream == StreamState::Open => MessageEffect::Image,
            Ok(Msg::Refresh(_)) => MessageEffect::End,
            Ok(Msg::Status(status)) => MessageEffect::of_state(status.state.as_ref()),
            _ => MessageEffect::Other,
        }
    }

    pub(crate) fn of_state(state: Option<&State<'_>>) -> MessageEffect {
        match state {
            Some(state) if state.stream != StreamState::Open => MessageEffect::End,
            Some(state) if state.data == DataState::Suspect => MessageEffect::Doubt,
            _ => MessageEffect::Remark,
        }
    }
}

#[cfg(test)]
mod tests {
    use rdm::ToVec;
    use rwf::{DataType, RefreshMsg, StatusMsg, UpdateMsg};

    use super::*;

    fn status(stream: StreamState, data: DataState) -> Vec<u8> {
        let state = Some(State::new(stream, data));
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
        assert_eq!(MessageEffect::of(&refresh(StreamState::Open)), MessageEffect::Image);
        assert_eq!(MessageEffect::of(&refresh(StreamState::NonStreaming)), MessageEffect::End);
        assert_eq!(MessageEffect::of(&status(StreamState::Open, DataState::Suspect)), MessageEffect::Doubt);
        assert_eq!(MessageEffect::of(&status(StreamState::Open, DataState::Ok)), MessageEffect::Remark);
        assert_eq!(
            MessageEffect::of(&status(StreamState::ClosedRecover, DataState::Suspect)),
            MessageEffect::End
        );
        let update = Msg::Update(UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA));
        assert_eq!(MessageEffect::of(&update.to_vec().expect("legal")), MessageEffect::Update);
    }
}
