//! What the poller watches.

use std::io;

use super::Context;

impl Context {
    /// Shows the data sockets and the bells of rings to the poller, for good.
    ///
    /// While a poller watches a socket, the kernel does work for each datagram that comes, within the call that sends
    /// it where both ends are on one machine. A context that spins looks at its sockets in each turn anyway: the poller
    /// does not learn of them before it is to sleep, or there are too many of them to look at. Nor does it learn of a
    /// socket that LBT-RU sends from to one client, as the kernel tells a poller of room as well, after each datagram.
    pub(crate) fn watch_data(&mut self) -> io::Result<()> {
        self.base.watch_xdp()?;
        self.watch_sockets()
    }

    /// The same without the socket of AF_XDP, which sleeping contexts too look at before they ask the poller.
    pub(crate) fn watch_sockets(&mut self) -> io::Result<()> {
        if self.base.watches_data {
            return Ok(());
        }
        self.receiving.watch_data(&self.base)?;
        self.publishing.watch()?;
        self.base.watches_data = true;
        Ok(())
    }
}
