use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use units::Nanos;

use crate::{Interest, Registrar, Token, tcp};

/// A listening socket that rests when the system refuses to accept.
///
/// A process that is out of descriptors or memory leaves the connection in the queue, and the socket stays
/// ready: without a rest its thread would do nothing but fail to accept. Connections that wait are taken
/// after the rest.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    token: Token,
    /// When the poller is to watch it again.
    opens_at: Nanos,
}

impl Door {
    /// How long a door rests.
    pub const REST: Duration = Duration::from_millis(100);

    /// Has `registrar` watch a listener.
    ///
    /// # Errors
    /// The poller does not take it.
    pub fn open(listener: TcpListener, registrar: &Registrar, token: Token) -> io::Result<Door> {
        registrar.add(&listener, token, Interest::Read)?;
        Ok(Door { listener, token, opens_at: Nanos::NEVER })
    }

    /// The next connection that waits, if there is one; see [`tcp::accept`].
    ///
    /// # Errors
    /// The system refuses: the process is out of descriptors, most likely. The door rests.
    pub fn accept(
        &mut self,
        now: Nanos,
        registrar: &Registrar,
    ) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        tcp::accept(&self.listener).inspect_err(|_| self.rest(now, registrar))
    }

    fn rest(&mut self, now: Nanos, registrar: &Registrar) {
        // One that the poller does not let go of is tried again at once, as without a rest.
        if registrar.change(&self.listener, self.token, Interest::Nothing).is_ok() {
            self.opens_at = now + Door::REST;
        }
    }

    /// Ends a rest that is over.
    pub fn on_wakeup(&mut self, now: Nanos, registrar: &Registrar) {
        if now >= self.opens_at {
            let is_back = registrar.change(&self.listener, self.token, Interest::Read).is_ok();
            self.opens_at = if is_back { Nanos::NEVER } else { now + Door::REST };
        }
    }

    /// When [`Door::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.opens_at
    }

    /// The address listened on.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;
    use crate::Poller;

    #[test]
    fn a_door_that_rests_is_not_ready_and_takes_what_waits_afterwards() {
        let mut poller = Poller::new().unwrap();
        let registrar = poller.registrar().clone();
        let listener = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut door = Door::open(listener, &registrar, Token(7)).unwrap();
        let ready = |poller: &mut Poller| poller.wait(Some(Duration::ZERO)).unwrap().count();
        let start = Nanos(1_000);
        assert_eq!(door.next_wakeup(), Nanos::NEVER);
        door.rest(start, &registrar);
        let _waiting = TcpStream::connect(door.local_address().unwrap()).unwrap();
        assert_eq!(ready(&mut poller), 0, "the thread may sleep");
        assert_eq!(door.next_wakeup(), start + Door::REST);
        door.on_wakeup(start + Door::REST / 2, &registrar);
        assert_eq!(ready(&mut poller), 0, "not yet");
        door.on_wakeup(start + Door::REST, &registrar);
        assert_eq!((ready(&mut poller), door.next_wakeup()), (1, Nanos::NEVER));
        assert!(door.accept(start, &registrar).unwrap().is_some());
    }
}
