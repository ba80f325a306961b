//! Clients: their connections, and who takes which of their messages.

use rdm::Reply;
use rdm::item::has_items;
use rwf::{Domain, Msg, StateCode};
use units::Nanos;

use super::PointToPoint;
use super::base::ClientId;
use super::client::{Client, ClientProfile};
use super::notices::ClientError;
use super::sink::ServerSink;

/// Connections.
impl PointToPoint {
    /// A client has completed its handshake.
    pub fn on_client_connected(&mut self, client: ClientId, profile: ClientProfile) {
        self.items.forget_rest(client);
        self.items.clients.insert(client, Client::new(profile, self.instances.peer()));
    }

    /// A connection is gone. While [`PointToPoint::is_leaving`] its number is not to be given to another one.
    pub fn on_client_closed(&mut self, now: Nanos, client: ClientId, sink: &mut impl ServerSink) {
        let Some(gone) = self.items.clients.remove(client) else { return };
        self.items.clients.count_clients(-i64::from(gone.login.is_some()));
        self.items.clients.leave_class(gone.class);
        self.items.clients.count_conflated(-i64::from(gone.conflation.since.is_some()));
        self.items.clients.count_at_interval(-i64::from(gone.conflation.at_interval_since.is_some()));
        gone.login
            .as_ref()
            .and_then(|login| login.conversation)
            .map(|number| self.items.conversations.end(number));
        self.items.forget_client(now, (client, gone), sink);
    }

    /// A message of a client.
    ///
    /// # Errors
    /// The connection has to be closed, after what was sent to it is out.
    pub fn on_client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let result = self.client_message(now, client, bytes, sink);
        if matches!(result, Err(ClientError::Malformed(_))) {
            self.counters.client_messages_refused.inc();
        }
        result
    }

    fn client_message(
        &mut self,
        now: Nanos,
        client: ClientId,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let msg = Msg::parse(bytes).map_err(ClientError::Malformed)?;
        let Some(known) = self.items.clients.get(client) else { return Ok(()) };
        if msg.domain() != Domain::LOGIN && known.login.is_none() {
            self.refuse(client, &Reply::to(&msg), StateCode::USAGE_ERROR, "log in first", sink);
            return Ok(());
        }
        let result = match (&msg, msg.domain()) {
            (Msg::Post(post), _) => {
                self.on_post(now, client, post, sink);
                Ok(())
            }
            // The domain of what is said on an item's stream is anything.
            (Msg::Generic(generic), _) if self.has_stream(client, generic.stream_id) => {
                self.on_generic(client, generic, bytes, sink);
                Ok(())
            }
            (_, Domain::LOGIN) => return self.on_login(now, client, &msg, sink),
            (_, Domain::SOURCE) => self.on_directory_msg(client, &msg, sink),
            (_, Domain::DICTIONARY) => self.on_dictionary_msg(client, &msg, bytes, sink),
            (Msg::Request(request), domain) if has_items(domain) => {
                self.on_item_request(now, client, request, sink)
            }
            (Msg::Close(close), _) => self.on_item_close(now, client, close, sink),
            _ => {
                self.counters.client_messages_refused.inc();
                Ok(())
            }
        };
        if let Err(error) = result {
            self.counters.client_messages_refused.inc();
            if let (Msg::Request(_), Ok(answer)) = (&msg, Reply::to(&msg).refuse(&error)) {
                self.counters.requests_refused.inc();
                sink.send(client, &answer);
            }
        }
        Ok(())
    }

    /// Answers what is out of place with a closed stream.
    pub(super) fn refuse(
        &mut self,
        client: ClientId,
        reply: &Reply<'_>,
        code: StateCode,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        self.counters.client_messages_refused.inc();
        let answer = reply.closed(code, text);
        sink.send(client, self.encoding.encode(|w| answer.encode(w)));
    }
}
