//! What a client gets in place of a message that cannot be written as JSON: something always tells it.
//!
//! | message | in its place |
//! |---|---|
//! | refresh | status Closed, Suspect: there is nothing to show |
//! | update | status Open, Suspect, code GapDetected; an image follows |
//! | status | its state alone |
//! | acknowledgement | the same without key and payload |
//! | generic message | status that changes nothing and says so |

use std::fmt::Display;

use rdm::{Reply, ToVec};
use rwf::{AckMsg, DataState, DataType, Msg, MsgClass, MsgHead, State, StateCode, StreamState};

use super::MessageEffect;

/// The message in place of one that has this head, and what it means for the streams that get it.
pub(crate) fn fallback_status(
    head: MsgHead,
    msg: Option<&Msg<'_>>,
    why: &dyn Display,
) -> (MessageEffect, Vec<u8>) {
    let state = |stream, data, code, text| State::new(stream, data).because(code, text);
    let status = |effect, state| {
        let reply =
            Reply { domain: head.domain, stream_id: head.stream_id, key: None, private_stream: false };
        (effect, reply.status(state).to_vec().unwrap_or_default())
    };
    match (head.class, msg) {
        (MsgClass::Status, Some(Msg::Status(m))) => {
            let effect = MessageEffect::of_state(m.state.as_ref());
            status(effect, m.state.unwrap_or(State::new(StreamState::Open, DataState::NoChange)))
        }
        (_, Some(Msg::Ack(ack))) => {
            let bare = AckMsg {
                ack_id: ack.ack_id,
                nak_code: ack.nak_code,
                text: ack.text,
                seq_num: ack.seq_num,
                ..AckMsg::new(head.domain, head.stream_id, DataType::NO_DATA)
            };
            (MessageEffect::Other, Msg::Ack(bare).to_vec().unwrap_or_default())
        }
        (MsgClass::Update, _) => {
            let text = format!("an update cannot be written as JSON: {why}");
            let suspect = state(StreamState::Open, DataState::Suspect, StateCode::GAP_DETECTED, &text);
            status(MessageEffect::Missed(head.domain), suspect)
        }
        (MsgClass::Generic, _) => {
            let text = format!("a generic message cannot be written as JSON: {why}");
            status(
                MessageEffect::Remark,
                state(StreamState::Open, DataState::NoChange, StateCode::ERROR, &text),
            )
        }
        _ => {
            let text = format!("the data cannot be written as JSON: {why}");
            status(
                MessageEffect::Lost,
                state(StreamState::Closed, DataState::Suspect, StateCode::ERROR, &text),
            )
        }
    }
}
