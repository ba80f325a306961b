//! What the poller watches.

use std::io;
use std::os::fd::AsFd;

use net::{Interest, Registrar, Token};

use crate::context::{Context, Port, token};
use crate::outgoing::OutgoingKind;

impl Context {
    /// Shows the data sockets and the bells of rings to the poller, for good.
    ///
    /// While a poller watches a socket, the kernel does work for each datagram that comes, within the call that sends
    /// it where both ends are on one machine. A context that spins looks at its sockets in each turn anyway: the poller
    /// does not learn of them before it is to sleep, or there are too many of them to look at. Nor does it learn of a
    /// socket that LBT-RU sends from to one client, as the kernel tells a poller of room as well, after each datagram.
    pub(crate) fn watch_data(&mut self) -> io::Result<()> {
        self.watch_xdp()?;
        self.watch_sockets()
    }

    /// The same without the socket of AF_XDP, which sleeping contexts too look at before they ask the poller.
    pub(crate) fn watch_sockets(&mut self) -> io::Result<()> {
        if self.watches_data {
            return Ok(());
        }
        for (index, socket) in self.rm_in.sockets() {
            self.show_data(socket, Port::Group, index)?;
        }
        if let Some(socket) = self.ru_in.socket() {
            self.show_data(socket, Port::RuReceiver, 0)?;
        }
        for (index, connection) in self.tcp_in.unwatched() {
            self.show_data(connection, Port::TcpSession, index)?;
        }
        for (_, outgoing) in &mut self.outgoing {
            if let OutgoingKind::Ru(session) = &mut outgoing.kind {
                session.watch()?;
            }
        }
        let token = |at| token(self.token_base, Port::IpcSession, at);
        self.ipc_in.watch(&self.registrar, token, &self.counters.context)?;
        self.watches_data = true;
        Ok(())
    }

    fn show_data(&self, socket: &impl AsFd, port: Port, index: usize) -> io::Result<()> {
        show(&self.registrar, socket, self.token(port, index))
    }

    /// Shows a data socket to the poller, if that watches data.
    pub(crate) fn register_data(&self, socket: &impl AsFd, port: Port, index: usize) -> io::Result<()> {
        if !self.watches_data {
            return Ok(());
        }
        self.registrar.add(socket, self.token(port, index), Interest::Read)
    }
}

/// Shows a socket to the poller, which may know it: an attempt before may have failed half way.
pub(crate) fn show(registrar: &Registrar, socket: &impl AsFd, token: Token) -> io::Result<()> {
    match registrar.add(socket, token, Interest::Read) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        shown => shown,
    }
}
