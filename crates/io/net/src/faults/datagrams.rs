//! Datagrams that are lost, come late or come twice, in one process and by a seed.

use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use units::Rng;

/// What happens to the datagrams of the UDP sockets that a thread makes [`within`](Faults::within) it. They
/// are lost, late or doubled where they are received, so that each receiver of a group has its own fate.
#[derive(Debug, Default)]
pub struct Faults {
    lost: AtomicU32,
    late: AtomicU32,
    twice: AtomicU32,
    is_cut: AtomicBool,
    seed: AtomicU64,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Faults>>> = const { RefCell::new(None) };
}

impl Faults {
    /// No faults yet; what is random follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Faults> {
        Arc::new(Faults { seed: AtomicU64::new(seed), ..Faults::default() })
    }

    /// How many of 1,000 datagrams are lost, come after later ones, and come twice. A late one waits for the
    /// next that arrives.
    pub fn set(&self, lost: u32, late: u32, twice: u32) {
        self.lost.store(lost, Ordering::Relaxed);
        self.late.store(late, Ordering::Relaxed);
        self.twice.store(twice, Ordering::Relaxed);
    }

    /// Nothing goes out and nothing comes in, or no longer so.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Does something of which every UDP socket that is made has these faults for good.
    pub fn within<T>(self: &Arc<Faults>, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let result = work();
        CURRENT.set(before);
        result
    }
}

/// The faults of a socket, which most sockets do not have.
#[derive(Debug)]
pub(crate) struct SocketFaults(Option<RefCell<Box<FaultySocket>>>);

impl SocketFaults {
    /// Those of a socket that is being made.
    pub(crate) fn of_new_socket() -> SocketFaults {
        SocketFaults(CURRENT.with_borrow(Clone::clone).map(|faults| {
            let seed = faults.seed.fetch_add(1, Ordering::Relaxed);
            RefCell::new(Box::new(FaultySocket { faults, rng: Rng::new(seed), waiting: Vec::new() }))
        }))
    }

    /// Whether the socket was made [`within`](Faults::within) faults.
    pub(crate) fn are_possible(&self) -> bool {
        self.0.is_some()
    }

    /// Whether nothing goes out and nothing comes in.
    pub(crate) fn is_cut(&self) -> bool {
        self.0.as_ref().is_some_and(|socket| socket.borrow().faults.is_cut())
    }

    /// What of the datagrams that have arrived is seen, in which order: at most eight more than arrived.
    pub(crate) fn pass(&self, arrived: Vec<Datagram>) -> Vec<Datagram> {
        match &self.0 {
            Some(socket) => socket.borrow_mut().pass(arrived),
            None => arrived,
        }
    }
}

/// A datagram and its sender.
type Datagram = (SocketAddrV4, Vec<u8>);

/// The faults of one socket.
#[derive(Debug)]
struct FaultySocket {
    faults: Arc<Faults>,
    rng: Rng,
    /// Late or doubled ones.
    waiting: Vec<Datagram>,
}

/// Datagrams that wait for others, at most.
const WAITING_MAX: usize = 8;

impl FaultySocket {
    fn pass(&mut self, arrived: Vec<Datagram>) -> Vec<Datagram> {
        if arrived.is_empty() {
            return arrived;
        }
        if self.faults.is_cut() {
            self.waiting.clear();
            return Vec::new();
        }
        let mut released = std::mem::take(&mut self.waiting);
        let mut seen = Vec::with_capacity(arrived.len() + released.len());
        for datagram in arrived {
            if self.happens(&self.faults.clone().lost) {
                continue;
            }
            let is_late = self.happens(&self.faults.clone().late);
            let has_room = self.waiting.len() < WAITING_MAX;
            if has_room && (is_late || self.happens(&self.faults.clone().twice)) {
                self.waiting.push(datagram.clone());
                if is_late {
                    continue;
                }
            }
            seen.push(datagram);
        }
        while let Some(datagram) = released.pop() {
            let at = self.rng.below(seen.len() as u64 + 1) as usize;
            seen.insert(at, datagram);
        }
        seen
    }

    fn happens(&mut self, per_mille: &AtomicU32) -> bool {
        let per_mille = per_mille.load(Ordering::Relaxed);
        per_mille > 0 && self.rng.below(1_000) < u64::from(per_mille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{MulticastOptions, ReceiveBatch, UdpSocket};
    use std::net::Ipv4Addr;

    const OPTIONS: MulticastOptions =
        MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: 1 << 20 };

    /// What of 1,000 datagrams is seen.
    fn seen(faults: &Arc<Faults>, polls: bool) -> Vec<u32> {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let make = || UdpSocket::multicast_sender(any, OPTIONS).expect("a port is free");
        let (to, from) = (faults.within(make), make());
        let address = to.local_address().expect("bound");
        let (mut batch, mut numbers) = (ReceiveBatch::new(16), Vec::new());
        for number in 0..1_000_u32 {
            from.send_run(address, &number.to_be_bytes(), 4).expect("loopback");
            let got = if polls { to.poll(&mut batch) } else { to.receive(&mut batch) };
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("a number"));
            numbers.extend(got.expect("loopback").datagrams().map(|(_, bytes)| number(bytes)));
        }
        numbers
    }

    #[test]
    fn datagrams_are_lost_late_and_doubled_by_the_seed_and_not_without() {
        let _repeat = testkit::repeat!();
        for polls in [false, true] {
            let all: Vec<u32> = (0..1_000).collect();
            let faults = Faults::new(7);
            assert_eq!(seen(&faults, polls), all);
            faults.set(200, 0, 0);
            let some = seen(&faults, polls);
            assert!((700..900).contains(&some.len()) && some.is_sorted(), "{}", some.len());
            faults.set(0, 200, 100);
            let some = seen(&faults, polls);
            assert!(!some.is_sorted() && (1_020..1_200).contains(&some.len()), "{}", some.len());
            let again = Faults::new(9);
            again.set(100, 100, 100);
            let same = Faults::new(9);
            same.set(100, 100, 100);
            assert_eq!(seen(&again, polls), seen(&same, polls));
            faults.cut(true);
            assert!(seen(&faults, polls).is_empty());
        }
    }

    #[test]
    fn what_is_cut_sends_nothing() {
        let _repeat = testkit::repeat!();
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let make = || UdpSocket::multicast_sender(any, OPTIONS).expect("a port is free");
        let faults = Faults::new(1);
        let (from, to) = (faults.within(make), make());
        let address = to.local_address().expect("bound");
        let mut batch = ReceiveBatch::new(1);
        for (is_cut, count) in [(true, 0), (false, 1)] {
            faults.cut(is_cut);
            from.send_run(address, b"hello", 5).expect("it does not notice");
            assert_eq!(to.receive(&mut batch).expect("loopback").datagrams().count(), count);
        }
    }
}
