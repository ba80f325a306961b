//! Seeded links: loss (independent or in bursts), duplication, delay, reordering, partitions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Nanos, Rng};

/// What a link does to packets.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    /// Loss in the good state.
    pub(crate) loss: f64,
    /// Loss in the bad state of the Gilbert-Elliott model.
    pub(crate) loss_bad: f64,
    /// Chances to change into the bad state and back, per packet.
    pub(crate) to_bad: f64,
    pub(crate) to_good: f64,
    pub(crate) duplicate: f64,
    /// Chance of a packet to be held back by up to `reorder_ns`.
    pub(crate) reorder: f64,
    pub(crate) reorder_ns: u64,
    /// Chance of a packet to arrive damaged in a way that UDP's checksum did not see.
    pub(crate) corrupt: f64,
    pub(crate) delay_ns: u64,
    pub(crate) jitter_ns: u64,
    /// Nothing passes from the first to the second moment.
    pub(crate) partitions: Vec<(Nanos, Nanos)>,
}

impl LinkPlan {
    pub(crate) fn perfect(delay_ns: u64) -> LinkPlan {
        LinkPlan {
            loss: 0.0,
            loss_bad: 0.0,
            to_bad: 0.0,
            to_good: 1.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_ns: 0,
            corrupt: 0.0,
            delay_ns,
            jitter_ns: 0,
            partitions: Vec::new(),
        }
    }
}

struct Link {
    plan: LinkPlan,
    bad: bool,
    /// FIFO except for what is held back: nothing arrives before what was sent before it.
    last_arrival: Nanos,
}

/// A packet on its way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    arrives: Nanos,
    order: u64,
    link: usize,
    datagram: Vec<u8>,
}

pub(crate) struct Network {
    links: Vec<Link>,
    flights: BinaryHeap<Reverse<Flight>>,
    rng: Rng,
    order: u64,
    faults: bool,
    pub(crate) dropped: u64,
    pub(crate) damaged: u64,
}

/// Bytes of the longer of the transports' DATA headers.
const HEADER_LEN: usize = 20;

impl Network {
    pub(crate) fn new(plans: Vec<LinkPlan>, seed: u64) -> Network {
        let links = plans.into_iter().map(|plan| Link { plan, bad: false, last_arrival: Nanos::ZERO });
        let (links, flights) = (links.collect(), BinaryHeap::new());
        Network { links, flights, rng: Rng::new(seed), order: 0, faults: true, dropped: 0, damaged: 0 }
    }

    /// From now on links only delay.
    pub(crate) fn heal(&mut self) {
        self.faults = false;
    }

    pub(crate) fn next_arrival(&self) -> Nanos {
        self.flights.peek().map_or(Nanos::NEVER, |f| f.0.arrives)
    }

    pub(crate) fn send(&mut self, now: Nanos, link: usize, datagram: &[u8]) {
        if self.faults && self.is_lost(now, link) {
            self.dropped += 1;
            return;
        }
        self.fly(now, link, datagram);
        if self.faults && self.rng.chance(self.links[link].plan.duplicate) {
            self.fly(now, link, datagram);
        }
    }

    fn is_lost(&mut self, now: Nanos, link: usize) -> bool {
        let Link { plan, bad, .. } = &mut self.links[link];
        let change = if *bad { plan.to_good } else { plan.to_bad };
        *bad ^= self.rng.chance(change);
        let loss = if *bad { plan.loss_bad } else { plan.loss };
        let cut = plan.partitions.iter().any(|&(from, to)| (from..to).contains(&now));
        self.rng.chance(loss) || cut
    }

    fn fly(&mut self, now: Nanos, link: usize, datagram: &[u8]) {
        let Link { plan, last_arrival, .. } = &mut self.links[link];
        let mut arrives =
            Nanos(now.0 + plan.delay_ns + self.rng.below(plan.jitter_ns + 1)).max(*last_arrival);
        if self.faults && self.rng.chance(plan.reorder) {
            arrives.0 += self.rng.below(plan.reorder_ns + 1);
        } else {
            *last_arrival = arrives;
        }
        let mut datagram = datagram.to_vec();
        if self.faults && self.rng.chance(self.links[link].plan.corrupt) {
            self.damage(&mut datagram);
        }
        self.order += 1;
        self.flights.push(Reverse(Flight { arrives, order: self.order, link, datagram }));
    }

    /// Cuts a packet short, replaces it or its tail by garbage, or, rarely, turns a bit of its header. A bit
    /// that is turned in a message is not for the transport to find.
    fn damage(&mut self, datagram: &mut Vec<u8>) {
        self.damaged += 1;
        let at = self.rng.below(datagram.len() as u64 + 1) as usize;
        match self.rng.below(8) {
            0..4 => datagram.truncate(at),
            4..6 => datagram.iter_mut().for_each(|b| *b = self.rng.next_u32() as u8),
            6 if datagram.len() <= HEADER_LEN => {
                datagram[at..].iter_mut().for_each(|b| *b = self.rng.next_u32() as u8);
            }
            6 => datagram.extend([0; 3]),
            _ => {
                let bits = 8 * datagram.len().min(HEADER_LEN) as u64;
                let bit = self.rng.below(bits) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// The next packet that has arrived by `now`: its link and bytes.
    pub(crate) fn arrived(&mut self, now: Nanos) -> Option<(usize, Vec<u8>)> {
        if self.next_arrival() > now {
            return None;
        }
        self.flights.pop().map(|Reverse(flight)| (flight.link, flight.datagram))
    }
}
