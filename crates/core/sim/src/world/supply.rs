//! Where the items come from: one provider that publishes them, or several that are asked for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use market::distributor::{DialSpec, ProviderId};
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter};
use rdm::login::{LoginMsg, LoginRefresh};
use rwf::{Domain, Msg};
use units::Nanos;

use super::{Event, PROVIDER, World};
use crate::channel::Pipe;
use crate::provider::{Item, image, label_of, service};

/// A provider that the distributor dials: it answers requests, and has what the one truth holds. Of each item
/// it has at most one stream open.
#[derive(Default)]
pub(super) struct Dialled {
    pub(super) epoch: u32,
    pub(super) is_up: bool,
    /// The items of its open streams.
    open: BTreeMap<i32, String>,
    /// Open streams whose image was asked for again: it comes in place of the next updates, as from a server that has to
    /// fetch it.
    fetching: BTreeSet<i32>,
    /// How often an image was asked for again.
    asked_again: u32,
    /// From the distributor, and to it.
    pub(super) to_provider: Pipe,
    to_distributor: Pipe,
}

/// The messages of a greeting before the items.
const LOGIN_AND_DIRECTORY: usize = 2;

/// Dialled providers are numbered from here on at the distributor.
const FIRST_DIALLED: u32 = 100;

impl Dialled {
    /// What it answers; `truth` is what the items are.
    fn on_message(&mut self, bytes: &[u8], truth: &BTreeMap<String, Item>) -> Option<Vec<u8>> {
        let msg = Msg::parse(bytes).expect("a distributor sends whole messages");
        match (&msg, msg.domain()) {
            (_, Domain::LOGIN) => match LoginMsg::parse(&msg).expect("a login has a meaning") {
                LoginMsg::Request(request) => LoginRefresh::accept(&request).to_vec().ok(),
                other => panic!("{other:?}"),
            },
            (Msg::Request(request), Domain::SOURCE) => {
                let services = [&service()];
                let refresh = DirectoryRefresh::publish(request.stream_id, Filter::INFO_AND_STATE, services);
                refresh.expect("one service").to_vec().ok()
            }
            (Msg::Request(request), _) => {
                let name = label_of(&request.key);
                // On a stream that is open its image is wanted again.
                let is_open = self.open.get(&request.stream_id) == Some(&name);
                assert!(
                    is_open || !self.open.values().any(|open| *open == name),
                    "{name} is asked for twice"
                );
                let before = self.open.insert(request.stream_id, name.clone());
                assert!(is_open || before.is_none(), "stream {} is used twice", request.stream_id);
                self.asked_again += u32::from(is_open);
                if is_open && self.asked_again.is_multiple_of(2) {
                    self.fetching.insert(request.stream_id);
                    return None;
                }
                Some(image(request.stream_id, &name, &truth[&name], true))
            }
            (Msg::Close(close), _) => {
                assert!(self.open.remove(&close.stream_id).is_some(), "a stream is closed that is not open");
                self.fetching.remove(&close.stream_id);
                None
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

impl World {
    pub(super) fn change(&mut self) {
        if self.happened.contains_key("changes stopped") {
            return;
        }
        let place = self.rng.below(self.provider.items().len() as u64) as usize;
        let touches_other = self.rng.chance(0.3);
        let name = self.provider.items().keys().nth(place).expect("a place below their number").clone();
        let bytes = self.provider.change(place, touches_other);
        if self.provider_is_up {
            self.provider_sends(vec![bytes.clone()]);
        }
        for provider in 0..self.dialled.len() {
            let open = self.dialled[provider].open.iter().find(|(_, open)| **open == name);
            let Some((&stream_id, _)) = open else { continue };
            if self.dialled[provider].fetching.contains(&stream_id) && self.rng.chance(0.5) {
                continue;
            }
            let bytes = if self.dialled[provider].fetching.remove(&stream_id) {
                image(stream_id, &name, &self.provider.items()[&name], true)
            } else {
                let mut bytes = bytes.clone();
                rwf::set_stream_id(&mut bytes, stream_id).expect("a whole message");
                bytes
            };
            self.dialled_sends(provider, bytes);
        }
        self.later(Duration::from_millis(4), Event::Change);
    }

    pub(super) fn provider_connects(&mut self) {
        self.provider_is_up = true;
        self.with_distributor(|core, _, _| core.on_provider_connected(PROVIDER, None));
        let mut greeting = self.provider.greeting();
        // The first time all items are there at once: nobody has had them before.
        if self.now > Nanos(2_000_000_000) && !self.faults.republished_after.is_zero() {
            let items = greeting.split_off(LOGIN_AND_DIRECTORY);
            for place in 0..items.len() {
                let publishes = Event::Publishes { epoch: self.provider_epoch, place };
                self.later(self.faults.republished_after, publishes);
            }
        }
        self.provider_sends(greeting);
    }

    /// The provider publishes an item, as it is by now.
    pub(super) fn provider_publishes(&mut self, place: usize) {
        let image = self.provider.publish(place);
        self.provider_sends(vec![image]);
    }

    fn provider_sends(&mut self, messages: Vec<Vec<u8>>) {
        for bytes in messages {
            let at = self.provider_pipe.arrival(self.now, self.faults.connection_delay, &mut self.rng);
            self.queue.put(at, Event::ToDistributor { epoch: self.provider_epoch, bytes });
        }
    }

    /// A connection of a provider breaks, or its process dies.
    pub(super) fn provider_breaks(&mut self) {
        if self.dialled.is_empty() {
            self.provider_epoch += 1;
            if std::mem::take(&mut self.provider_is_up) {
                self.with_distributor(|core, now, sink| core.on_provider_closed(now, PROVIDER, sink));
            }
            self.later(Duration::from_secs(2), Event::ProviderConnects { epoch: self.provider_epoch });
        } else {
            let provider = self.rng.below(self.dialled.len() as u64) as usize;
            self.dialled_breaks(provider);
        }
    }

    /// The distributor has died, and with it all connections of providers.
    pub(super) fn providers_lose_the_distributor(&mut self) {
        self.provider_is_up = false;
        if self.dialled.is_empty() {
            self.provider_breaks();
        }
        for provider in 0..self.dialled.len() {
            self.dialled[provider].is_up = false;
            self.dialled_breaks(provider);
        }
    }
}

/// Providers that are dialled.
impl World {
    /// A connection to a provider stands.
    pub(super) fn dial(&mut self, provider: usize) {
        self.dialled[provider].is_up = true;
        self.with_distributor(|core, now, sink| {
            core.on_dialled(now, id_of(provider), Arc::new(DialSpec::default()), sink);
        });
    }

    pub(super) fn dialled_breaks(&mut self, provider: usize) {
        let known = &mut self.dialled[provider];
        known.epoch += 1;
        known.open.clear();
        known.fetching.clear();
        let epoch = known.epoch;
        if std::mem::take(&mut known.is_up) {
            self.with_distributor(|core, now, sink| core.on_provider_closed(now, id_of(provider), sink));
        }
        self.later(Duration::from_secs(2), Event::Dial { provider, epoch });
    }

    /// The distributor says something to a provider; only those that are dialled listen.
    pub(super) fn provider_is_told(&mut self, to: ProviderId, bytes: Vec<u8>) {
        let Some(provider) = to.0.checked_sub(FIRST_DIALLED) else { return };
        let known = &mut self.dialled[provider as usize];
        let at = known.to_provider.arrival(self.now, self.faults.connection_delay, &mut self.rng);
        let (provider, epoch) = (provider as usize, known.epoch);
        self.queue.put(at, Event::ToDialled { provider, epoch, bytes });
    }

    pub(super) fn dialled_hears(&mut self, provider: usize, bytes: &[u8]) {
        if let Some(answer) = self.dialled[provider].on_message(bytes, self.provider.items()) {
            self.dialled_sends(provider, answer);
        }
    }

    fn dialled_sends(&mut self, provider: usize, bytes: Vec<u8>) {
        let known = &mut self.dialled[provider];
        let at = known.to_distributor.arrival(self.now, self.faults.connection_delay, &mut self.rng);
        self.queue.put(at, Event::FromDialled { provider, epoch: known.epoch, bytes });
    }

    pub(super) fn distributor_hears(&mut self, provider: usize, bytes: &[u8]) {
        self.with_distributor(|core, now, sink| {
            core.on_provider_message(now, id_of(provider), bytes, sink).expect("a legal provider");
        });
    }

    /// The items that are open at dialled providers, one name for each stream, sorted.
    #[must_use]
    pub fn open_upstream(&self) -> Vec<&str> {
        let mut open: Vec<&str> =
            self.dialled.iter().flat_map(|known| known.open.values()).map(String::as_str).collect();
        open.sort_unstable();
        open
    }

    /// All consumers leave for good; after a while nobody wants anything any more.
    ///
    /// # Panics
    /// If something of it stays.
    pub fn everybody_leaves(&mut self) {
        for consumer in 0..self.consumers.len() {
            self.consumer_breaks(consumer);
            self.consumers[consumer].epoch += 1;
        }
        self.run(Duration::from_secs(30));
        let counters = self.distributor_counters();
        let left = (self.distributor.item_count(), counters.streams_open.get(), counters.items_queued.get());
        assert_eq!((self.open_upstream(), left), (vec![], (0, 0, 0)), "seed {}", self.seed);
    }
}

fn id_of(provider: usize) -> ProviderId {
    ProviderId(FIRST_DIALLED + provider as u32)
}
