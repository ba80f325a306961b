//! One core, one socket, one poller, in the application's own thread.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use net::tls::TlsError;
use net::{Interest, Poller, Registrar, Resolver, Token, clock};
use units::Nanos;

use crate::wire::{READS_MAX, Wire};
use crate::{ClientTlsConfig, Endpoint, HostPortError};

/// How long the close of a connection tries to write what is pending.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(500);

/// What [`Consumer`](crate::Consumer) and [`Provider`](crate::Provider) are made of.
pub(crate) struct Driver<E> {
    pub(crate) core: E,
    wire: Wire,
    poller: Poller,
    /// The poller that the socket is registered with is the driver's own.
    is_armed_here: bool,
}

impl<E: Endpoint> Driver<E> {
    pub(crate) fn new(
        core: E,
        read_buffer_bytes: usize,
        tls: Option<&ClientTlsConfig>,
    ) -> Result<Driver<E>, StartError> {
        let tls = tls.map(ClientTlsConfig::load).transpose()?;
        Ok(Driver::of_parts((core, Wire::new(read_buffer_bytes, tls)))?)
    }

    pub(crate) fn set_resolver(&mut self, resolver: Resolver) {
        self.wire.set_resolver(resolver);
    }

    /// What can go to another thread: all but the poller.
    pub(crate) fn into_parts(mut self) -> (E, Wire) {
        self.wire.disarm(self.poller.registrar());
        (self.core, self.wire)
    }

    pub(crate) fn of_parts((core, wire): (E, Wire)) -> io::Result<Driver<E>> {
        Ok(Driver { core, wire, poller: Poller::new()?, is_armed_here: true })
    }

    /// Does what there is to do without waiting, and returns how many events there were.
    /// It reads at most `reads` times.
    pub(crate) fn work<F: FnMut(E::Event<'_>)>(&mut self, reads: usize, on_event: &mut F) -> usize {
        let mut count = 0;
        self.wire.turn(&mut self.core, reads, &mut |event: E::Event<'_>| {
            count += 1;
            on_event(event);
        });
        count
    }

    /// The same, and waits for at most `timeout` as long as there is no event.
    pub(crate) fn dispatch<F: FnMut(E::Event<'_>)>(
        &mut self,
        timeout: Duration,
        on_event: &mut F,
    ) -> io::Result<usize> {
        let deadline = clock::monotonic().after(timeout);
        loop {
            let count = self.work(READS_MAX, on_event);
            let now = clock::monotonic();
            if count > 0 || now >= deadline {
                return Ok(count);
            }
            self.wait(true, deadline, now)?;
        }
    }

    /// Waits until the socket is ready (if `reads`), a timer is due, or `deadline`.
    pub(crate) fn wait(&mut self, reads: bool, deadline: Nanos, now: Nanos) -> io::Result<()> {
        if !self.is_armed_here {
            // What another poller knows of the socket is none of ours.
            self.wire.forget_arming();
            self.is_armed_here = true;
        }
        if reads {
            self.wire.arm(self.poller.registrar(), Token(0))?;
        } else {
            self.wire.disarm(self.poller.registrar());
        }
        let due = if reads { self.next_wakeup() } else { self.core.next_wakeup() };
        let until = due.min(deadline);
        let timeout = (until != Nanos::NEVER).then(|| until.since(now));
        self.poller.wait(timeout)?.for_each(drop);
        Ok(())
    }

    /// Waits until somebody wakes the poller, whatever socket and timers do.
    pub(crate) fn wait_for_waker(&mut self) -> io::Result<()> {
        self.wire.disarm(self.poller.registrar());
        self.poller.wait(None)?.for_each(drop);
        Ok(())
    }

    /// When [`Driver::work`] is to be called whatever the socket does.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.wire.next_wakeup(&self.core)
    }

    /// Registers the socket with somebody else's poller.
    pub(crate) fn arm(&mut self, registrar: &Registrar, token: Token) -> io::Result<()> {
        if self.is_armed_here {
            self.wire.disarm(self.poller.registrar());
            self.is_armed_here = false;
        }
        self.wire.arm(registrar, token)
    }

    /// The poller's way to be woken.
    pub(crate) fn registrar(&self) -> &Registrar {
        self.poller.registrar()
    }

    pub(crate) fn descriptor(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        self.wire.descriptor()
    }

    /// Writes what is pending; returns whether all of it is written. A connection that is dead stays until
    /// the next [`Driver::work`], which tells of it.
    pub(crate) fn flush(&mut self) -> bool {
        self.wire.flush(&mut self.core, clock::monotonic())
    }

    /// Writes the last words of a core that was stopped, and closes the socket.
    pub(crate) fn close(&mut self) {
        self.wire.drain(&mut self.core, LAST_WORDS);
    }
}

/// What the clients of one server have alike; the driver is their field `driver`.
macro_rules! driver_calls {
    ($client:ident, $event:ident) => {
        impl $client {
            /// The same with another resolver of host names than the system's.
            #[must_use]
            pub fn with_resolver(mut self, resolver: net::Resolver) -> $client {
                self.driver.set_resolver(resolver);
                self
            }

            /// Waits for events, for at most `timeout`, and gives all that there are to `on_event`. Returns their
            /// number. What is pending is written.
            ///
            /// With a timeout of zero it looks and returns: a thread that calls it in a loop reacts soonest. Names of
            /// servers are looked up on other threads, see [`Resolver`](net::Resolver).
            ///
            /// # Errors
            /// The system refuses to wait for the socket. What happens to connections comes as events.
            pub fn dispatch<F: FnMut($event<'_>)>(
                &mut self,
                timeout: std::time::Duration,
                on_event: &mut F,
            ) -> std::io::Result<usize> {
                self.driver.dispatch(timeout, on_event)
            }

            /// Begins again after a login that was refused for good.
            pub fn restart(&mut self) {
                self.driver.core.restart(net::clock::monotonic());
            }
        }

        /// In somebody else's loop: [`arm`](Self::arm) (or [`descriptor`](Self::descriptor)) before each wait, of
        /// which [`next_wakeup`](Self::next_wakeup) is the end at the latest, and [`work`](Self::work) after it.
        impl $client {
            /// Does what there is to do without waiting. Returns the number of events.
            pub fn work<F: FnMut($event<'_>)>(&mut self, on_event: &mut F) -> usize {
                self.driver.work($crate::wire::READS_MAX, on_event)
            }

            /// Registers the descriptor, which changes from connection to connection, with a poller. Always
            /// the same one: a socket leaves a poller only when it is closed.
            ///
            /// # Errors
            /// The poller refuses the socket.
            pub fn arm(&mut self, registrar: &net::Registrar, token: net::Token) -> std::io::Result<()> {
                self.driver.arm(registrar, token)
            }

            /// The descriptor to wait for and what for, in a loop that has another kind of poller: the socket,
            /// or the look-up of a host name before it; `None` without either.
            #[must_use]
            pub fn descriptor(&self) -> Option<(std::os::fd::BorrowedFd<'_>, net::Interest)> {
                self.driver.descriptor()
            }

            /// When [`work`](Self::work) is to be called whatever the socket does, on
            /// [`net::clock::monotonic`].
            #[must_use]
            pub fn next_wakeup(&self) -> units::Nanos {
                self.driver.next_wakeup()
            }
        }
    };
}

pub(crate) use driver_calls;

/// Why a consumer or provider cannot be made.
#[non_exhaustive]
pub enum StartError {
    /// What should say where the server is does not.
    Host {
        /// What was given.
        text: String,
        /// What is wrong with it.
        error: HostPortError,
    },
    /// The connection handshake cannot hold what is configured.
    Config(rssl::ConfigError),
    /// A service of the configuration is not one.
    Service(rdm::RdmError),
    /// A certificate, key or authority cannot be read or used.
    Tls(TlsError),
    /// The system refuses: the password file cannot be read, or there are no descriptors left.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Host { text, error } => write!(f, "{text:?} is no host and port: {error}"),
            StartError::Config(error) => error.fmt(f),
            StartError::Service(error) => error.fmt(f),
            StartError::Tls(error) => error.fmt(f),
            StartError::Io(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for StartError {
    /// As it is shown: `main` prints the error that it returns so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::Io(error)
    }
}

impl From<TlsError> for StartError {
    fn from(error: TlsError) -> Self {
        StartError::Tls(error)
    }
}

impl From<rssl::ConfigError> for StartError {
    fn from(error: rssl::ConfigError) -> Self {
        StartError::Config(error)
    }
}

impl From<rdm::RdmError> for StartError {
    fn from(error: rdm::RdmError) -> Self {
        StartError::Service(error)
    }
}
