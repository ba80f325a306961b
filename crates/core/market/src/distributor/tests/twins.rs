//! Two distributors that hear the same: one does everything at once, the other one a little in each turn. Peers and
//! providers hear the same of each item from both.

use std::collections::HashMap;

use rwf::{StateCode, StreamState};
use units::Rng;

use super::cleanups::{OTHER, name};
use super::dialled::{A, Script};
use super::many::{GOOD, GROUP, NEXT, all, group, merge, say, suspect};
use super::*;
use crate::distributor::provider::Target;

const ITEMS: u64 = 12;

struct Twins {
    whole: Bench,
    parted: Bench,
    rng: Rng,
    /// What was heard of each item, by its name: from the one and from the other.
    heard: [HashMap<String, Vec<String>>; 2],
    /// The names that ids of items stand for.
    ids: [HashMap<String, String>; 2],
    script: Vec<String>,
    /// Providers that do not list the service.
    unlisted: Vec<ProviderId>,
}

impl Twins {
    fn new(seed: u64, make: &impl Fn() -> Bench) -> Twins {
        let (mut whole, mut parted) = (make(), make());
        whole.budget(usize::MAX / 2);
        parted.budget(3);
        Twins {
            whole,
            parted,
            rng: Rng::new(seed),
            heard: Default::default(),
            ids: Default::default(),
            script: Vec::new(),
            unlisted: Vec::new(),
        }
    }

    fn both(&mut self, what: String, mut act: impl FnMut(&mut Bench)) {
        self.script.push(what);
        act(&mut self.whole);
        act(&mut self.parted);
        self.hear();
        // What a provider says while it waits is heard later: for the other one it has not said it yet.
        while self.parted.core.waits.has_waiting_providers() {
            self.turns(1);
        }
    }

    fn hear(&mut self) {
        for (at, bench) in [&mut self.whole, &mut self.parted].into_iter().enumerate() {
            for line in bench.log.take() {
                let words: Vec<&str> = line.split(' ').collect();
                let (name, what) = match words[..] {
                    // Not said of each item if meanwhile the service is down altogether, which the directory says.
                    ["1", "Status", _, "item", _, "open", "suspect", "the", ..] => continue,
                    ["1", kind, _, "item", id, ref body @ ..] if kind != "Heartbeat" => {
                        let id = id.trim_end_matches(':');
                        if kind == "Open" {
                            self.ids[at].insert(id.to_owned(), body.join(" "));
                        }
                        (self.ids[at][id].clone(), format!("{kind} {}", body.join(" ")))
                    }
                    ["peer", _, "image", "of", name, "as", "item", _, "after", _, ref body @ ..] => {
                        (name.to_owned(), format!("image {}", body.join(" ")))
                    }
                    ["peer", _, name, ref body @ ..] => (name.to_owned(), body.join(" ")),
                    _ => continue,
                };
                self.heard[at].entry(name).or_default().push(what);
            }
        }
    }

    /// Some turns of the one that does a little in each.
    fn turns(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        for _ in 0..count {
            self.parted.core.on_wakeup(T0, &mut self.parted.log);
        }
        self.script.push(format!("{count} turns"));
        self.hear();
    }

    /// What one provider lists and whether it is there decides about items of the other one: it comes when nothing of
    /// that is left. Connections are in no order to each other.
    fn finish_other(&mut self, provider: ProviderId) {
        while self.parted.core.items.cleanups.sweeps.iter().any(|sweep| sweep.provider != provider) {
            self.turns(1);
        }
    }

    fn finish(&mut self) {
        while self.parted.is_cleaning() {
            self.turns(1);
        }
    }

    /// What differs.
    fn compare(&self) -> Result<(), String> {
        let [whole, parted] = &self.heard;
        for name in whole.keys().chain(parted.keys()) {
            let (whole, parted) = (whole.get(name), parted.get(name));
            if whole != parted {
                return Err(format!("{name}: {whole:#?}, in portions {parted:#?}"));
            }
        }
        let state = |bench: &Bench| {
            let mut items: Vec<String> = bench
                .core
                .items()
                .map(|(key, cached)| {
                    // Which of several losses made it suspect may differ.
                    let state = cached.state();
                    let text = Some(&state.text).filter(|text| !text.starts_with("the provider"));
                    format!("{key:?} {} {} {text:?} {:?}", state.stream, state.data, cached.group_id())
                })
                .collect();
            items.sort();
            (items, bench.core.services().map(|(id, _, up, _)| (id, up)).collect::<Vec<_>>())
        };
        let (whole, parted) = (state(&self.whole), state(&self.parted));
        let (open, open_parted) = (self.whole.outstanding(), self.parted.outstanding());
        if whole != parted || open != open_parted {
            return Err(format!("{whole:#?} {open:?}, in portions {parted:#?} {open_parted:?}"));
        }
        Ok(())
    }

    /// The items that a provider supplies are those of its streams.
    fn check_streams(&self) {
        for bench in [&self.whole, &self.parted] {
            for (id, known) in &bench.core.items.suppliers.providers {
                let streams: BTreeSet<usize> = known.item_places().collect();
                let is_supplied = |item: &Item| {
                    item.supply.provider() == Some(*id) || item.standbys.iter().any(|s| s.provider == *id)
                };
                let items = bench.core.items.table.iter().filter(|(_, item)| is_supplied(item));
                assert_eq!(streams, items.map(|(place, _)| place).collect(), "{id:?}: {:#?}", self.script);
            }
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    /// One thing said of groups, which fits what is said before it.
    fn edit(&mut self) -> rdm::directory::Edit {
        let (id, to) = (self.pick(&[GROUP, NEXT]), self.pick(&[GROUP, NEXT]));
        let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "over");
        let state = self.pick(&[suspect("line down"), suspect("late"), GOOD, closed]);
        match self.rng.below(8) {
            0..4 => group(id, state),
            4..6 => merge(id, to),
            _ => all(self.pick(&[suspect("all down"), GOOD])),
        }
    }

    /// What peers do: they want what is there, and do not want it any more.
    fn peers(&mut self) {
        let name = name(self.rng.below(ITEMS) as i32);
        if self.whole.core.items.find(item(&name)).is_none() {
            return;
        }
        match self.rng.below(3) {
            0 => self.both(format!("no interest in {name}"), |bench| bench.no_interest(T0, &name)),
            _ => self.both(format!("interest in {name}"), |bench| bench.interest(T0, &name)),
        }
    }
}

fn image(stream_id: i32, name: &str, group_id: &[u8], value: i64) -> Vec<u8> {
    let payload = fields(&[(22, value)]);
    let msg = RefreshMsg {
        complete: true,
        group_id,
        key: Some(Key::item(3, name.as_bytes())),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("legal")
}

/// Something that happens at a provider that publishes.
fn published(twins: &mut Twins, may_withdraw: bool) {
    let provider = twins.pick(&[PROVIDER, OTHER]);
    let number = twins.rng.below(ITEMS) as i32;
    let (value, group_id) = (twins.rng.below(1_000) as i64, twins.pick(&[GROUP, NEXT]));
    match twins.rng.below(24) {
        0..6 => {
            let bytes = image(-1 - number, &name(number), group_id, value);
            twins.both(format!("{provider:?} image {number} {group_id:?}"), |b| {
                b.provider(T0, provider, &bytes)
            });
        }
        6..10 => {
            let bytes = update(-1 - number, None, &[(22, value)]);
            twins.both(format!("{provider:?} update {number}"), |b| b.provider(T0, provider, &bytes));
        }
        10 => {
            let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "end");
            let bytes = Script::status(-1 - number, twins.pick(&[closed, suspect("one")]));
            twins.both(format!("{provider:?} status {number}"), |b| b.provider(T0, provider, &bytes));
        }
        11..18 if !twins.unlisted.contains(&provider) => {
            let count = 1 + twins.rng.below(2);
            let edits: Vec<_> = (0..count).map(|_| twins.edit()).collect();
            let what = format!("{provider:?} says {edits:?}");
            let bytes = say(edits);
            twins.both(what, |b| b.provider(T0, provider, &bytes));
        }
        18 => {
            twins.finish_other(provider);
            let is_up = twins.rng.chance(0.5);
            let services =
                if may_withdraw && twins.rng.chance(0.3) { vec![] } else { vec![service(3, is_up)] };
            twins.unlisted.retain(|unlisted| *unlisted != provider || services.is_empty());
            twins.unlisted.extend(services.is_empty().then_some(provider));
            twins.both(format!("{provider:?} lists {} {is_up}", services.len()), |b| {
                b.announce(provider, &services)
            });
        }
        19 => {
            twins.finish_other(provider);
            twins.both(format!("{provider:?} is lost"), |b| {
                b.core.on_provider_closed(T0, provider, &mut b.log)
            });
            while twins.parted.core.is_leaving(provider) {
                twins.turns(1);
            }
            twins.unlisted.retain(|unlisted| *unlisted != provider);
            twins.both(format!("{provider:?} is back"), |b| {
                b.provider_logs_in(provider);
                b.announce(provider, &[service(3, true)]);
            });
        }
        _ => twins.peers(),
    }
}

/// Something that happens at a provider that is asked.
fn dialled(twins: &mut Twins) {
    let provider = A;
    let value = twins.rng.below(1_000) as i64;
    let group_id = twins.pick(&[GROUP, NEXT]);
    let streams = |bench: &Bench| {
        let known = bench.core.items.suppliers.providers.get(&provider);
        let items = known.into_iter().flat_map(|known| known.streams.iter());
        let named = items.filter_map(|(id, target)| match target {
            Target::Item(index) => {
                Some((String::from_utf8_lossy(&bench.core.items.table[index].key.name).into_owned(), id))
            }
            Target::Private(_) => None,
        });
        named.collect::<BTreeMap<String, i32>>()
    };
    match twins.rng.below(20) {
        0..7 => {
            // Both have asked for the item, on whatever stream.
            let (whole, parted) = (streams(&twins.whole), streams(&twins.parted));
            let both: Vec<&String> = whole.keys().filter(|name| parted.contains_key(*name)).collect();
            if let Some(&name) = both.get(twins.rng.below(1 + both.len() as u64) as usize) {
                let bytes = [whole[name], parted[name]].map(|id| image(id, "whatever", group_id, value));
                twins.whole.provider(T0, provider, &bytes[0]);
                twins.parted.provider(T0, provider, &bytes[1]);
                twins.script.push(format!("{provider:?} image {name}"));
                twins.hear();
            }
        }
        7..13 => {
            let edits = vec![twins.edit()];
            let what = format!("{provider:?} says {edits:?}");
            let bytes = say(edits);
            twins.both(what, |b| b.provider(T0, provider, &bytes));
        }
        13.. => {
            let name = name(twins.rng.below(ITEMS) as i32);
            twins.both(format!("interest in {name}"), |bench| bench.interest(T0, &name));
        }
    }
}

fn publishing() -> Bench {
    let mut bench = Bench::running();
    bench.provider_logs_in(OTHER);
    bench.announce(OTHER, &[service(3, true)]);
    bench
}

/// Lets things happen, and compares. If the two differ, the fewest that show it are told.
fn compare(make: impl Fn() -> Bench, happens: impl Fn(&mut Twins)) {
    let run = |seed: u64, steps: usize| {
        let mut twins = Twins::new(seed, &make);
        for _ in 0..steps {
            happens(&mut twins);
            let turns = twins.pick(&[0, 0, 0, 1, 2]);
            twins.turns(turns);
            twins.check_streams();
        }
        twins.finish();
        twins.compare().map_err(|difference| format!("seed {seed}: {:#?}\n{difference}", twins.script))
    };
    testkit::for_each_seed!(0..SEEDS, |seed| {
        if run(seed, STEPS).is_err() {
            let first = (1..=STEPS).find_map(|steps| run(seed, steps).err());
            panic!("{}", first.unwrap_or_default());
        }
    });
}

const SEEDS: u64 = 500;
const STEPS: usize = 150;

#[test]
fn of_providers_that_publish_all_hear_the_same_however_much_is_done_in_a_turn() {
    compare(publishing, |twins| published(twins, false));
}

#[test]
fn of_services_that_come_and_go_all_hear_the_same() {
    compare(publishing, |twins| published(twins, true));
}

#[test]
fn of_providers_that_are_asked_all_hear_the_same_however_much_is_done_in_a_turn() {
    let config = DistributorConfig { requests_outstanding_max: 1_000, ..super::dialled::config() };
    compare(|| Bench::dialled(config.clone(), &[A]), dialled);
}
