//! The backbone inside one process: a ring from each source distributor that all point-to-point servers read, and
//! a ring back from each of them.
//!
//! A stream message is written once. What one server alone is to get goes the same way, so that it has its place among
//! the stream messages; the others pass over it. Nothing is lost: a server that does not keep up holds up the ring, and
//! the distributor is told that it is blocked.
//!
//! Shape of a message in a ring: tag `u8`, for stream messages and topics the topic's number `u32`, then the
//! bytes.

mod inlet;
mod outlet;

pub use inlet::InProcessInlet;
pub use outlet::InProcessOutlet;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::ring::broadcast::Reader;
use net::ring::{Consumer, Producer, ring};
use net::{Registrar, Token, Waker};

/// Where the sides of one process meet.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<Meeting>>);

#[derive(Default)]
struct Meeting {
    outlets: Vec<Arc<Side>>,
    inlets: Vec<Arc<Side>>,
}

/// One outlet or inlet, as the others see it.
struct Side {
    waker: Waker,
    /// Whether it has to be woken: it has found nothing to do, and its thread may sleep.
    wants_wake: AtomicBool,
    /// Its thread never sleeps.
    spins: bool,
    /// What others have sent it, and it has not taken notice of.
    mail: Mutex<Vec<Mail>>,
    has_mail: AtomicBool,
    is_closed: AtomicBool,
}

/// What sides send each other to get together.
enum Mail {
    /// To an outlet: an inlet is there, with the ends of the ring back from it.
    Inlet { to_outlet: Producer, from_inlet: Consumer, inlet: Arc<Side> },
    /// The outlet's answer: what the inlet sends to, and what it reads.
    Outlet { to_outlet: Producer, from_outlet: Reader, outlet: Arc<Side> },
}

/// Room in each ring.
const RING_BYTES: usize = 32 << 20;

const STREAM: u8 = 0;
const LINK: u8 = 1;
const TOPIC_OPENED: u8 = 2;
const TOPIC_CLOSED: u8 = 3;
const CONNECT: u8 = 4;
const DISCONNECT: u8 = 5;

impl Hub {
    /// A meeting place without anybody.
    #[must_use]
    pub fn new() -> Hub {
        Hub::default()
    }

    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a side and joins it with all of the other kind. `is_outlet` says which it is.
    fn join(
        &self,
        registrar: &Registrar,
        token: Token,
        spins: bool,
        is_outlet: bool,
    ) -> io::Result<Arc<Side>> {
        let side = Arc::new(Side {
            waker: Waker::new(registrar, token)?,
            wants_wake: AtomicBool::new(false),
            spins,
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        let mut meeting = self.meeting();
        let others = if is_outlet { &meeting.inlets } else { &meeting.outlets };
        for other in others.iter().filter(|s| !s.is_closed.load(Ordering::Acquire)) {
            let (to_outlet, from_inlet) = ring(RING_BYTES);
            let (outlet, inlet) = if is_outlet { (&side, other) } else { (other, &side) };
            outlet.post(Mail::Inlet { to_outlet, from_inlet, inlet: inlet.clone() });
        }
        if is_outlet {
            meeting.outlets.push(side.clone())
        } else {
            meeting.inlets.push(side.clone())
        }
        Ok(side)
    }
}

impl Side {
    /// Sends something to this side. One that is closed does not get it: it would hold up a ring that it never reads.
    fn post(&self, mail: Mail) {
        let mut waiting = self.mail();
        if !self.is_closed.load(Ordering::Acquire) {
            waiting.push(mail);
            self.has_mail.store(true, Ordering::Release);
            self.waker.wake();
        }
    }

    fn mail(&self) -> MutexGuard<'_, Vec<Mail>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_mail(&self) -> Vec<Mail> {
        if !self.has_mail.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.mail())
    }

    /// Says that this side has nothing to do; the caller looks into its rings once more afterwards.
    ///
    /// The fences order "wants to be woken" before that look, and a partner's message before its look at the
    /// wish: one of the two sees the other.
    fn idle(&self) {
        if !self.spins {
            self.wants_wake.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Wakes this side if it may sleep.
    fn nudge(&self) {
        if !self.spins {
            fence(Ordering::SeqCst);
            if self.wants_wake.swap(false, Ordering::Relaxed) {
                self.waker.wake();
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.mail().clear();
    }
}

/// Splits a message into tag, topic number and bytes; `None` for one that this process cannot have made.
fn split(message: &[u8]) -> Option<(u8, u32, &[u8])> {
    let (&tag, rest) = message.split_first()?;
    let (number, bytes) = rest.split_first_chunk::<4>()?;
    Some((tag, u32::from_be_bytes(*number), bytes))
}

/// What stands in front of the bytes of a message.
fn head(tag: u8, topic: u32) -> [u8; 5] {
    let [a, b, c, d] = topic.to_be_bytes();
    [tag, a, b, c, d]
}
