//! What the poller watches.

use std::io;
use std::os::fd::AsFd;

use net::Interest;

use crate::context::{Context, Port, token};

impl Context {
    /// Shows the data sockets and the bells of rings to the poller, for good.
    ///
    /// While a poller watches a socket, the kernel does work for each datagram that comes, within the call that sends
    /// it where both ends are on one machine. A context that spins looks at its sockets in each turn anyway: the poller
    /// does not learn of them before it is to sleep, or there are too many of them to look at.
    pub(crate) fn watch_data(&mut self) -> io::Result<()> {
        self.watch_xdp()?;
        self.watch_sockets()
    }

    /// The same without the socket of AF_XDP, which sleeping contexts too look at before they ask the poller.
    pub(crate) fn watch_sockets(&mut self) -> io::Result<()> {
        if self.watches_data {
            return Ok(());
        }
        self.watches_data = true;
        for (index, socket) in self.rm_in.sockets() {
            self.register_data(socket, Port::Group, index)?;
        }
        if let Some(socket) = self.ru_in.socket() {
            self.register_data(socket, Port::RuReceiver, 0)?;
        }
        for (index, connection) in self.tcp_in.unwatched() {
            self.register_data(connection, Port::TcpSession, index)?;
        }
        let token = |at| token(self.token_base, Port::IpcSession, at);
        self.ipc_in.watch(&self.registrar, token)
    }

    /// Shows a data socket to the poller, if that watches data.
    pub(crate) fn register_data(&self, socket: &impl AsFd, port: Port, index: usize) -> io::Result<()> {
        if !self.watches_data {
            return Ok(());
        }
        self.registrar.add(socket, self.token(port, index), Interest::Read)
    }
}
