//! One port for several threads: who accepts a connection hands it to the thread that has least to do.
//!
//! Each thread has a [`Listener`](super::Listener) with a [`Seat`]. The one in the first place has the listening
//! sockets; the others have a mailbox each. Limits are those of the port: they count what all have.
//!
//! What a thread has to do is measured by the messages that it delivers in a second. A connection that was handed over
//! since a thread measured last counts as an average one, so that a crowd that comes at once is spread.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::{Addresses, Transport, Waker};

/// The connections that a port has let in, on whichever thread they are.
pub(crate) struct Roll {
    addresses: Mutex<Addresses>,
    connections: AtomicUsize,
}

impl Roll {
    pub(crate) fn new(per_address_max: usize) -> Roll {
        Roll { addresses: Mutex::new(Addresses::new(per_address_max)), connections: AtomicUsize::new(0) }
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts one more, unless its address has too many; tells whether it did.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let admits = self.addresses().admit(address);
        self.connections.fetch_add(usize::from(admits), Ordering::Relaxed);
        admits
    }

    /// One that was admitted is gone.
    pub(crate) fn release(&self, address: IpAddr) {
        self.addresses().release(address);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The threads of one port.
pub struct Exchange {
    seats: Vec<Place>,
    roll: Arc<Roll>,
}

#[derive(Default)]
struct Place {
    mail: Mutex<Mail>,
    connections: AtomicUsize,
    /// Messages that it delivers in a second.
    rate: AtomicU64,
    /// Connections that it was given since it measured that.
    fresh: AtomicU64,
}

/// What is to be done by another thread.
#[derive(Default)]
struct Mail {
    /// Set when the thread is there.
    waker: Option<Waker>,
    handed: Vec<Handed>,
}

/// A connection that another thread has accepted.
pub(crate) type Handed = (Transport, SocketAddr);

impl Place {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// A port for so many threads, with at most `per_address_max` connections from one address.
    #[must_use]
    pub fn new(threads: usize, per_address_max: usize) -> Arc<Exchange> {
        let seats = (0..threads.max(1)).map(|_| Place::default()).collect();
        Arc::new(Exchange { seats, roll: Arc::new(Roll::new(per_address_max)) })
    }

    /// The place that has least to do.
    fn idlest(&self) -> usize {
        let read = |place: &Place| {
            let (rate, fresh) = (place.rate.load(Ordering::Relaxed), place.fresh.load(Ordering::Relaxed));
            (rate, fresh, place.connections.load(Ordering::Relaxed) as u64)
        };
        let all: Vec<(u64, u64, u64)> = self.seats.iter().map(read).collect();
        idlest_of(&all)
    }
}

/// What a connection counts at least, in messages a second: where little happens they are spread by number.
const CONNECTION: u64 = 100;

/// The first of those with least to do, of the messages a second, the fresh connections and all connections of each.
fn idlest_of(all: &[(u64, u64, u64)]) -> usize {
    let rates: u64 = all.iter().map(|(rate, ..)| rate).sum();
    let connections: u64 = all.iter().map(|(_, _, connections)| connections).sum();
    let average = rates.checked_div(connections).unwrap_or(0);
    let load =
        |(rate, fresh, connections): &(u64, u64, u64)| rate + fresh * average + connections * CONNECTION;
    let least = all.iter().enumerate().min_by_key(|(at, one)| (load(one), *at));
    least.map_or(0, |(at, _)| at)
}

/// One thread's place at an exchange.
#[derive(Clone)]
pub struct Seat {
    exchange: Arc<Exchange>,
    place: usize,
}

impl Seat {
    /// The place of a number.
    ///
    /// # Panics
    /// If the exchange has no such place.
    #[must_use]
    pub fn new(exchange: &Arc<Exchange>, place: usize) -> Seat {
        assert!(place < exchange.seats.len(), "place {place} of {}", exchange.seats.len());
        Seat { exchange: Arc::clone(exchange), place }
    }

    /// Whether this thread has the listening sockets.
    pub(crate) fn accepts(&self) -> bool {
        self.place == 0
    }

    pub(crate) fn roll(&self) -> Arc<Roll> {
        Arc::clone(&self.exchange.roll)
    }

    fn own(&self) -> &Place {
        &self.exchange.seats[self.place]
    }

    /// From now on connections that are handed over wake the thread.
    pub(crate) fn take(&self, waker: Waker) {
        self.own().mail().waker = Some(waker);
    }

    /// Gives a connection to the thread that has least to do. Returns it if that is this one.
    pub(crate) fn pass_on(&self, connection: Handed) -> Option<Handed> {
        let at = self.exchange.idlest();
        let place = &self.exchange.seats[at];
        if at == self.place {
            return Some(connection);
        }
        let mut mail = place.mail();
        let Some(waker) = &mail.waker else { return Some(connection) };
        waker.wake();
        mail.handed.push(connection);
        drop(mail);
        place.count();
        None
    }

    /// What this thread was given.
    pub(crate) fn handed(&self) -> Vec<Handed> {
        let mut mail = self.own().mail();
        mail.waker.iter().for_each(Waker::acknowledge);
        std::mem::take(&mut mail.handed)
    }

    /// This thread keeps a connection that it has accepted.
    pub(crate) fn keep(&self) {
        self.own().count();
    }

    /// A connection of this thread's is gone.
    pub(crate) fn lose(&self) {
        self.own().connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many messages a second are delivered.
    pub(crate) fn measured(&self, rate: u64) {
        self.own().rate.store(rate, Ordering::Relaxed);
        self.own().fresh.store(0, Ordering::Relaxed);
    }

    /// The thread takes nothing any more; what it was given and has not taken is closed.
    pub(crate) fn leave(&self) {
        let mut mail = self.own().mail();
        mail.waker = None;
        for (_, peer) in mail.handed.drain(..) {
            self.exchange.roll.release(peer.ip());
            self.lose();
        }
    }
}

impl Place {
    fn count(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.fresh.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_connection_goes_where_least_is_to_be_done() {
        assert_eq!(idlest_of(&[(0, 0, 3), (0, 0, 2), (0, 0, 2)]), 1, "idle: by number");
        assert_eq!(idlest_of(&[(60, 1, 1), (0, 0, 1), (0, 0, 2)]), 1, "a few messages count for nothing");
        assert_eq!(idlest_of(&[(90_000, 0, 1), (10_000, 0, 9)]), 1, "one connection may be much work");
        assert_eq!(idlest_of(&[(100_000, 0, 10), (0, 9, 9)]), 1);
        assert_eq!(idlest_of(&[(100_000, 0, 10), (0, 150, 150)]), 0, "a crowd that came at once counts");
    }

    #[test]
    fn a_crowd_that_comes_at_once_is_spread() {
        let mut all = [(50_000, 0, 10), (50_000, 0, 10), (0, 0, 0), (50_000, 0, 10)];
        for _ in 0..60 {
            let at = idlest_of(&all);
            all[at].1 += 1;
            all[at].2 += 1;
        }
        let given: Vec<u64> = all.iter().map(|(_, fresh, _)| *fresh).collect();
        assert_eq!(given.iter().sum::<u64>(), 60);
        assert!(given[2] > given[0] && given[0].abs_diff(given[1]) <= 1, "{given:?}");
    }
}
