//! What a connection brings.

use lbt::stream::StreamMessage;
use lbt::wire::lbmc::Header;
use net::Ready;
use net::tcp::Moved;

use super::connection::Purpose;
use super::{Direct, Recoveries, RecoveryEvent};
use crate::base::{Base, Port};
use crate::{Handler, RequestId};

const READ_BYTES: usize = 256 << 10;

impl Direct {
    pub(crate) fn on_connection_ready(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        ready: Ready,
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (purpose, was_established) = (connection.purpose, connection.is_established);
        let is_given_up = connection.is_given_up;
        let result = if is_given_up && !connection.is_for_answers() {
            Err("the peer does not take what is sent to it".to_owned())
        } else if was_established {
            Ok(())
        } else if self.defers_handshake(base, index) {
            return;
        } else {
            let token = base.token(Port::Connection, index);
            match self.connections[index].establish(base, token) {
                Ok(true) => {
                    self.tell_established(base, recoveries, index, handler);
                    Ok(())
                }
                Ok(false) => return,
                Err(e) => Err(self.reason_of(base, index, &e)),
            }
        };
        let (mut result, mut has_input) = (result, ready.readable);
        // What TLS holds inside no poller tells of.
        while result.is_ok() && (has_input || self.holds_input(index)) {
            has_input = false;
            result = self.read_connection(base, recoveries, index, handler);
        }
        self.answer(base, now, index);
        let result = result
            .and_then(|()| self.write_connection(base, index).map_err(|e| self.reason_of(base, index, &e)));
        if result.is_err() && !is_given_up && self.switch_path(base, index) {
            return;
        }
        if let Err(reason) = result {
            self.close_connection(base, index, &reason, handler);
        } else if let Purpose::Recovery(session) = purpose {
            self.recovery_events.push_back(RecoveryEvent::Used(session));
        }
        self.limit_input(base, handler);
    }

    fn holds_input(&self, index: usize) -> bool {
        self.connections.get(index).is_some_and(|connection| connection.stream.may_hold_input())
    }

    fn read_connection(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        handler: &mut impl Handler,
    ) -> Result<(), String> {
        let now = base.now;
        let (mut is_whole, mut taken) = (false, 0);
        let result = self.take_input(base, recoveries, index, &mut is_whole, &mut taken, handler);
        if taken > 0 {
            self.on_input(now, index, taken, is_whole);
        }
        result
    }

    /// Reads once, and hands on what is whole.
    fn take_input(
        &mut self,
        base: &mut Base,
        recoveries: &mut impl Recoveries,
        index: usize,
        is_whole: &mut bool,
        taken: &mut usize,
        handler: &mut impl Handler,
    ) -> Result<(), String> {
        let Direct { connections, buffer, requests, .. } = self;
        buffer.resize(READ_BYTES, 0);
        let Some(connection) = connections.get_mut(index) else { return Ok(()) };
        let moved = match connection.stream.read(buffer) {
            Ok(moved) => moved,
            Err(error) => return Err(self.reason_of(base, index, &error)),
        };
        match moved {
            Moved::Bytes(count) => {
                *taken = count;
                let id = connection.id;
                if let Purpose::Recovery(session) = connection.purpose {
                    if !recoveries.on_heard(base, session) {
                        return Ok(());
                    }
                    let pushed = connection.decoder.push(&buffer[..count], |msg| {
                        *is_whole = true;
                        // What is no answer is nobody's business.
                        recoveries.on_answer(base, session, &msg, handler);
                    });
                    return pushed.map_err(|e| e.to_string());
                }
                let (asker, retained) = (&mut connection.asker, &mut base.retained);
                let pushed = connection.decoder.push(&buffer[..count], |msg| {
                    *is_whole = true;
                    if let Some(retained) = retained
                        && retained.take_request(asker, &msg)
                    {
                        return;
                    }
                    if let Some(request) = response_to(&msg) {
                        requests.on_response(id, request, msg.payload, &base.counters.context, handler);
                    } else if !msg.payload.is_empty() {
                        // Control messages, such as the announcement of a session, have nothing for the
                        // application.
                        handler.on_direct(id, msg.payload);
                    }
                });
                pushed.map_err(|e| e.to_string())
            }
            Moved::WouldBlock => Ok(()),
            Moved::End => Err("the peer has closed the connection".to_owned()),
        }
    }
}

/// The request that a message answers.
fn response_to(message: &StreamMessage<'_>) -> Option<RequestId> {
    if message.headers.is_empty() {
        return None;
    }
    message.headers.iter().find_map(|header| match header {
        Header::Request { index, .. } => Some(RequestId(index)),
        _ => None,
    })
}
