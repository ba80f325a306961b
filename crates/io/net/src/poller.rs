//! Waiting for sockets: a thin, level-triggered epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::fork::Unshared;

/// Names a registered descriptor in what [`Poller::wait`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// What a caller wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, connections or an end of stream to read.
    Read,
    /// The same, and room to write again.
    ReadWrite,
    /// Room to write alone.
    Write,
    /// Only that the descriptor is broken, which is always told.
    Nothing,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN | EventFlags::RDHUP,
            Interest::ReadWrite => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
            Interest::Write => EventFlags::OUT,
            Interest::Nothing => EventFlags::empty(),
        }
    }
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// As registered.
    pub token: Token,
    /// There is something to read, or the peer is gone (reading then says so).
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A set of descriptors to wait for.
pub struct Poller {
    registrar: Registrar,
    events: Events,
}

/// Descriptors that one look reports: what all of them lead to is done before timers and other work are looked at
/// again. The kernel reports the others next.
const READY_MAX: usize = 64;

/// What the kernel has reported. The union of an event holds a pointer besides the number that is used here.
struct Events(Vec<Event>);

// SAFETY: every event is registered with `EventData::new_u64`, so the pointers are never made, read or
// followed; what remains is numbers, which any thread may have.
unsafe impl Send for Events {}

/// The side of a [`Poller`] that descriptors are added to; parts of a thread's work hold one each.
#[derive(Clone, Debug)]
pub struct Registrar(Arc<Unshared>);

impl Registrar {
    /// Adds a descriptor.
    ///
    /// # Errors
    /// It is already in the set, or cannot be polled.
    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&*self.0, fd, EventData::new_u64(token.0), interest.flags())?)
    }

    /// Changes what is wanted of a descriptor.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&*self.0, fd, EventData::new_u64(token.0), interest.flags())?)
    }

    /// Takes a descriptor out. Closing it does the same.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&*self.0, fd)?)
    }
}

/// The set itself is readable when something in it is ready: another poller can wait for it.
impl AsFd for Registrar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Poller {
    /// An empty set that reports at most 64 descriptors a call (the others come with the next).
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new() -> io::Result<Poller> {
        let epoll = Unshared::new(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Poller { registrar: Registrar(Arc::new(epoll)), events: Events(Vec::with_capacity(READY_MAX)) })
    }

    /// Where descriptors are added.
    #[must_use]
    pub fn registrar(&self) -> &Registrar {
        &self.registrar
    }

    /// Waits until something is ready or `timeout` is over (`None`: for ever; zero: just looks).
    ///
    /// An interrupting signal ends the wait with nothing ready.
    ///
    /// # Errors
    /// Only for descriptors gone wrong in ways the caller cannot mend.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = Ready> + use<'_>> {
        let timespec = timeout.map(|d| Timespec {
            tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: d.subsec_nanos().into(),
        });
        self.events.0.clear();
        match epoll::wait(
            &*self.registrar.0,
            rustix::buffer::spare_capacity(&mut self.events.0),
            timespec.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(self.events.0.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: Token(event.data.u64()),
                readable: flags
                    .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
                writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
            }
        }))
    }
}

/// Wakes a [`Poller`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Unshared>);

impl Waker {
    /// A waker registered under `token`.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(registrar: &Registrar, token: Token) -> io::Result<Waker> {
        let fd = Unshared::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        registrar.add(&fd, token, Interest::Read)?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Makes the next or present [`Poller::wait`] return with the waker's token.
    pub fn wake(&self) {
        // Only a full counter can refuse (EAGAIN), and then the poller is awake already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Takes the wake-up back, to be called when its token was reported.
    pub fn acknowledge(&self) {
        let mut count = [0; 8];
        // EAGAIN means that there was none.
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_can_go_to_another_thread() {
        let mut poller = Poller::new().unwrap();
        let waker = Waker::new(poller.registrar(), Token(9)).unwrap();
        let waiting = std::thread::spawn(move || poller.wait(None).unwrap().count());
        waker.wake();
        assert_eq!(waiting.join().unwrap(), 1);
    }

    #[test]
    fn a_wake_up_is_seen_once() {
        let mut poller = Poller::new().unwrap();
        let waker = Waker::new(poller.registrar(), Token(9)).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
        waker.wake();
        waker.wake();
        let seen: Vec<_> = poller.wait(None).unwrap().map(|r| r.token).collect();
        assert_eq!(seen, [Token(9)]);
        waker.acknowledge();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
    }
}
