//! Servers that ask each other, as they are told of each other's services in any order: once nothing changes any more,
//! no data goes in a circle, and who can have it has it.

use units::Rng;

use super::dialled::{Script, config};
use super::*;

/// Where a site has data from that nobody else brings.
const LINE: ProviderId = ProviderId(200);
/// Deliveries after which all have to know all.
const DELIVERIES_MAX: usize = 2_000;

/// A site that others ask, and that asks others.
struct Site {
    bench: Bench,
    /// The others that it may ask, whether they stand by for it, and what it was told of their service last.
    others: BTreeMap<usize, (bool, Option<Service>)>,
    has_line: bool,
    line_stands_by: bool,
    is_line_up: bool,
}

struct Sites(Vec<Site>);

fn provider_of(site: usize) -> ProviderId {
    ProviderId(100 + site as u32)
}

impl Site {
    fn new(at: usize, count: usize, rng: &mut Rng) -> Site {
        let mut bench = Bench::new(config());
        bench.core.items.suppliers.instance = 1_000 + at as u64;
        bench.core.on_peer_connected(PEER);
        bench.peer(T0, &LinkUp::Hello { peer: 7, name: b"test" });
        let mut others = BTreeMap::new();
        for other in (0..count).filter(|&other| other != at) {
            if rng.below(3) > 0 {
                let stands_by = rng.below(2) == 0;
                others.insert(other, (stands_by, None));
                bench.dial_as(provider_of(other), DialSpec { is_standby: stands_by, ..DialSpec::default() });
                bench.provider(T0, provider_of(other), &Script::directory(&[]));
            }
        }
        let (has_line, line_stands_by) = (rng.below(3) > 0, rng.below(4) == 0);
        Site { bench, others, has_line, line_stands_by, is_line_up: false }
    }

    /// Its service as others see it.
    fn service(&self) -> Option<Service> {
        let listed = self.bench.core.items.suppliers.listed(1)?;
        Some(Service { id: 3, ..listed.definition.clone() })
    }

    fn turn_line(&mut self) {
        self.is_line_up = !self.is_line_up;
        if self.is_line_up {
            let spec = DialSpec { is_standby: self.line_stands_by, ..DialSpec::default() };
            self.bench.dial_as(LINE, spec);
            self.bench.provider(T0, LINE, &Script::directory(&[super::service(3, true)]));
            // Somebody watches as soon as there is a service.
            self.bench.interest(T0, "X");
        } else {
            self.bench.core.on_provider_closed(T0, LINE, &mut self.bench.log);
        }
        self.settle();
    }

    fn hear(&mut self, other: usize, service: Option<Service>) {
        let listed: Vec<Service> = service.iter().cloned().collect();
        self.bench.provider(T0, provider_of(other), &Script::directory(&listed));
        self.others.get_mut(&other).expect("it asks that one").1 = service;
        self.bench.interest(T0, "X");
        self.settle();
    }

    /// What is done in portions is done.
    fn settle(&mut self) {
        for _ in 0..10 {
            self.bench.wake(T0);
        }
        self.bench.log.take();
    }

    /// Whom the item is asked for at.
    fn asked(&self) -> Option<ProviderId> {
        let (_, item) = self.bench.core.items.table.iter().next()?;
        item.supply.provider()
    }

    fn is_up(&self) -> bool {
        self.service().is_some_and(|service| service.state.up)
    }
}

impl Sites {
    /// Who has not heard yet what another one says now.
    fn news(&self) -> Vec<(usize, usize)> {
        let sites = self.0.iter().enumerate();
        let pairs = sites.flat_map(|(at, site)| site.others.keys().map(move |other| (at, *other)));
        pairs.filter(|(at, other)| self.0[*at].others[other].1 != self.0[*other].service()).collect()
    }

    /// One of them hears; false if there is no news.
    fn deliver(&mut self, rng: &mut Rng) -> bool {
        let news = self.news();
        let Some(&(at, other)) = news.get(rng.below(news.len().max(1) as u64) as usize) else { return false };
        let service = self.0[other].service();
        self.0[at].hear(other, service);
        true
    }

    /// Whether a site can have data, by its own line or through others.
    fn can_have(&self, at: usize) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![at]);
        while let Some(at) = open.pop() {
            if self.0[at].is_line_up {
                return true;
            }
            if seen.insert(at) {
                open.extend(self.0[at].others.keys());
            }
        }
        false
    }

    /// The line that a site's data comes from, if it goes in no circle.
    fn origin(&self, at: usize) -> Option<usize> {
        let mut now = at;
        for _ in 0..=self.0.len() {
            match self.0[now].asked()? {
                LINE => return self.0[now].is_line_up.then_some(now),
                ProviderId(number) => now = number as usize - 100,
            }
        }
        None
    }
}

#[test]
fn whoever_is_lost_and_comes_back_no_data_goes_in_a_circle_and_who_can_have_it_has_it() {
    testkit::for_each_seed!(0..2_000, lose_and_come_back);
}

fn lose_and_come_back(seed: u64) {
    let mut rng = Rng::new(seed);
    let count = 2 + rng.below(3) as usize;
    let mut sites = Sites((0..count).map(|at| Site::new(at, count, &mut rng)).collect());
    for _ in 0..20 {
        let at = rng.below(count as u64) as usize;
        if sites.0[at].has_line {
            sites.0[at].turn_line();
        }
        for _ in 0..rng.below(8) {
            sites.deliver(&mut rng);
        }
    }
    let quiet = (0..DELIVERIES_MAX).any(|_| !sites.deliver(&mut rng));
    assert!(quiet, "news without end");
    for at in 0..count {
        let (can, is_up, origin) = (sites.can_have(at), sites.0[at].is_up(), sites.origin(at));
        assert_eq!((is_up, origin.is_some()), (can, can), "site {at}: {origin:?}");
    }
}
