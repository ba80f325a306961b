//! The end of a TCP session: kept until each receiver's kernel has everything.

use lbt::session::Unsent;
use net::Ready;
use net::tcp;

use super::{Client, TcpOutgoing};

impl TcpOutgoing {
    /// Goes on with a session that has ended; whether every receiver's kernel has taken all of it. What a
    /// receiver says is read and dropped: a connection that is closed with unread input is reset.
    pub(super) fn go_on_after_end(&mut self) -> bool {
        self.say_end();
        self.serve_clients();
        self.events.clear();
        self.session.has_said_end() && self.clients.iter().all(|(_, client)| self.lacks(client) == 0)
    }

    /// Reads what receivers say and gives them what they lack, whatever the poller says.
    pub(super) fn serve_clients(&mut self) {
        for index in 0..self.clients.capacity() {
            if self.clients.get(index).is_some() {
                let token = self.client_token(index);
                self.serve_client(index, Ready { token, readable: true, writable: true });
            }
        }
    }

    /// What the slowest receiver lacks, and how many receivers lack something.
    pub(super) fn unread(&self) -> (Unsent, u32) {
        let (mut left, mut receivers) = (Unsent::default(), 0);
        for (_, client) in &self.clients {
            let bytes = self.lacks(client);
            receivers += u32::from(bytes > 0);
            left.bytes = left.bytes.max(bytes);
            let messages = client.cursor.as_ref().map_or(0, |cursor| self.backlog.messages_after(cursor));
            left.messages = left.messages.max(messages);
        }
        (left, receivers)
    }

    /// Bytes that a receiver's kernel has not acknowledged. Somebody who is not through with a handshake is no
    /// receiver yet.
    fn lacks(&self, client: &Client) -> u64 {
        let Some(cursor) = &client.cursor else { return 0 };
        // A connection that is broken takes nothing more, which its end says.
        let in_kernel = tcp::unacknowledged(client.transport.socket()).map_or(0, |waits| waits.bytes as u64);
        let inside = u64::from(client.transport.holds_output());
        self.backlog.pending(cursor) + inside + in_kernel
    }
}
