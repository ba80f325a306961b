//! Composed services: what they are made of, and which member each of their items is bound to.
//!
//! A composed service has no items of its own. A stream of one of its items stands on the list of the member's item, in a
//! form that has an [`Alias`]: the key that the client asked by. So there is one image and one stream upstream, however many
//! names an item has. [`composing`](super::composing) binds items and moves their streams from one member to another.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rdm::directory::{Info, Service as Definition, ServiceState};
use units::Nanos;

use crate::key::{ItemKey, OwnedKey};
use crate::key_index::{KeyIndex, Keyed};
use crate::name_pattern::NamePattern;
use crate::table::Table;

/// A service that is made of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComposedService {
    /// Its name.
    pub name: String,
    /// What it is made of, in order of preference: at least one, none of which is composed.
    pub members: Vec<ComposedMember>,
    /// Further names of items.
    pub aliases: BTreeMap<Vec<u8>, AliasTarget>,
    /// An item goes back to a member that is preferred when that has been up for so long; `None` for never.
    pub fail_back: Option<Duration>,
}

/// A service that a composed one is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComposedMember {
    /// Its name.
    pub service: String,
    /// Patterns of the names of items that come from it; all if there is none.
    pub items: Vec<NamePattern>,
}

/// What an alias stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasTarget {
    /// The name of the item at the member.
    pub name: Vec<u8>,
    /// The place of the only member that it comes from; `None` for any.
    pub member: Option<usize>,
}

/// An item of a composed service as clients know it.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) key: OwnedKey,
    /// Where its [`ComposedItem`] is.
    pub(super) place: usize,
}

/// Each is one of its own.
impl PartialEq for Alias {
    fn eq(&self, other: &Alias) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Alias {}

impl Hash for Alias {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// Where streams of a composed item stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The member; `None` while there is none that could have it.
    pub(super) member: Option<usize>,
    /// The item in the table of items.
    pub(super) index: usize,
    pub(super) serial: u64,
}

/// An item of a composed service that clients watch.
pub(super) struct ComposedItem {
    pub(super) alias: Arc<Alias>,
    /// The place of its service in the configuration.
    pub(super) service: usize,
    /// Its name at members.
    pub(super) name: Box<[u8]>,
    /// It comes from this member alone.
    pub(super) only: Option<usize>,
    pub(super) bound: Bound,
    /// Streams of clients.
    pub(super) streams: usize,
    /// Members that have closed the item, each with how often it had come up by then: when it comes up again it is asked
    /// again.
    pub(super) refused: BTreeMap<usize, u32>,
    /// The item of another member that is being looked at, to which streams move when it is good.
    pub(super) probe: Option<Bound>,
    /// It is in the queue of those that are to be checked.
    pub(super) is_queued: bool,
}

impl Keyed for ComposedItem {
    fn key(&self) -> ItemKey<'_> {
        self.alias.key.as_key()
    }
}

/// What is known of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberState {
    /// Its service's id, once it was announced.
    pub(super) id: Option<u16>,
    /// Since when it is up, if it is.
    pub(super) up_since: Option<Nanos>,
    /// How often it has come up.
    pub(super) times_up: u32,
}

/// A composed service.
pub(super) struct Composition {
    pub(super) config: ComposedService,
    /// The id that clients see.
    pub(super) id: u16,
    pub(super) members: Vec<MemberState>,
    /// The least time in milliseconds between two updates of a stream, that of members included.
    pub(super) interval_ms: u16,
}

impl Composition {
    /// Members that may have an item of a name, in order of preference.
    pub(super) fn candidates<'a>(
        &'a self,
        name: &'a [u8],
        only: Option<usize>,
    ) -> impl Iterator<Item = usize> + 'a {
        let members = self.config.members.iter().enumerate();
        let has = |member: &ComposedMember| {
            member.items.is_empty() || member.items.iter().any(|pattern| pattern.matches(name))
        };
        members
            .filter(move |(at, member)| only.map_or_else(|| has(member), |only| only == *at))
            .map(|(at, _)| at)
    }

    /// The name at members of an item that clients know by this one, and the only member that has it.
    pub(super) fn target<'a>(&'a self, name: &'a [u8]) -> (&'a [u8], Option<usize>) {
        match self.config.aliases.get(name) {
            Some(target) => (&target.name, target.member),
            None => (name, None),
        }
    }

    /// Whether a member has been up for so long that items go back to it.
    pub(super) fn is_stable(&self, member: usize, now: Nanos) -> bool {
        let up_since = self.members[member].up_since;
        self.config.fail_back.is_some_and(|delay| up_since.is_some_and(|since| now.since(since) >= delay))
    }

    /// What clients see of it: what its members offer, together. What there is one of is the first one's.
    pub(super) fn definition(&self, members: &[&Definition], is_up: bool) -> Definition {
        let Some(first) = members.first() else { return Definition::default() };
        let mut info =
            Info { name: self.config.name.clone(), is_source: false, item_list: None, ..first.info.clone() };
        for other in members.iter().map(|definition| &definition.info).skip(1) {
            add(&mut info.capabilities, &other.capabilities);
            add(&mut info.dictionaries_provided, &other.dictionaries_provided);
            add(&mut info.dictionaries_used, &other.dictionaries_used);
            add(&mut info.qos, &other.qos);
            add(&mut info.path, &other.path);
            info.supports_qos_range |= other.supports_qos_range;
            info.supports_out_of_band_snapshots &= other.supports_out_of_band_snapshots;
            info.accepting_consumer_status &= other.accepting_consumer_status;
        }
        let accepts = |definition: &&Definition| definition.state.accepting_requests != Some(false);
        let accepting_requests = members.iter().any(accepts);
        Definition {
            id: self.id,
            info,
            state: ServiceState {
                up: is_up,
                accepting_requests: (!accepting_requests).then_some(false),
                status: None,
            },
            ..Definition::default()
        }
    }
}

/// Adds what is not there yet.
fn add<T: Clone + PartialEq>(to: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !to.contains(one) {
            to.push(one.clone());
        }
    }
}

/// All composed services, and their items that clients watch.
#[derive(Default)]
pub(super) struct Composed {
    pub(super) services: Vec<Composition>,
    pub(super) table: Table<ComposedItem>,
    index: KeyIndex,
    /// By item that is being looked at: the composed items that wait for it.
    pub(super) probing: HashMap<usize, Vec<Arc<Alias>>>,
    /// When looking at an item ends, in order: the composed item, and the item with its serial number.
    pub(super) probes: VecDeque<(Nanos, Arc<Alias>, Bound)>,
    /// Composed items that are to be checked.
    pub(super) queue: VecDeque<Arc<Alias>>,
    /// When all of them are to be checked, in order.
    pub(super) checks: Vec<Nanos>,
    /// Where the check that is under way goes on.
    pub(super) next: Option<usize>,
}

impl Composed {
    /// Those of a configuration, with the ids that `id_of` gives them. One for which there is no id is left out.
    pub(super) fn new(
        config: &[ComposedService],
        interval_of: impl Fn(&str) -> u16,
        mut id_of: impl FnMut(&str) -> Option<u16>,
    ) -> Composed {
        let composition = |config: &ComposedService| {
            let members = config.members.iter().map(|member| interval_of(&member.service));
            let interval_ms = members.chain([interval_of(&config.name)]).max().unwrap_or(0);
            Some(Composition {
                id: id_of(&config.name)?,
                members: vec![MemberState::default(); config.members.len()],
                interval_ms,
                config: config.clone(),
            })
        };
        Composed { services: config.iter().filter_map(composition).collect(), ..Composed::default() }
    }

    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    /// The place of the composed service of an id.
    pub(super) fn service_of(&self, id: u16) -> Option<usize> {
        self.services.iter().position(|service| service.id == id)
    }

    /// The item that clients know by a key.
    pub(super) fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        self.index.find(&self.table, key)
    }

    /// The item of an alias, unless it is gone.
    pub(super) fn item_of(&mut self, alias: &Arc<Alias>) -> Option<&mut ComposedItem> {
        self.table.get_mut(alias.place).filter(|item| Arc::ptr_eq(&item.alias, alias))
    }

    /// Adds an item that nobody has watched so far.
    pub(super) fn insert(
        &mut self,
        (service, key): (usize, OwnedKey),
        (name, only): (Box<[u8]>, Option<usize>),
        bound: Bound,
    ) -> usize {
        let alias = |place| Arc::new(Alias { key, place });
        let item = |alias| ComposedItem {
            alias,
            service,
            name,
            only,
            bound,
            streams: 0,
            refused: BTreeMap::new(),
            probe: None,
            is_queued: false,
        };
        let place = self.table.insert_at(|place| item(alias(place)));
        self.index.insert(&self.table, place);
        place
    }

    /// Removes an item that nobody watches any more.
    pub(super) fn remove(&mut self, place: usize) -> ComposedItem {
        let gone = self.table.remove(place);
        self.index.remove(place, gone.alias.key.as_key());
        gone
    }

    /// Has an item checked soon.
    pub(super) fn enqueue(&mut self, alias: &Arc<Alias>) {
        let Some(item) = self.item_of(alias) else { return };
        if !std::mem::replace(&mut item.is_queued, true) {
            self.queue.push_back(Arc::clone(alias));
        }
    }

    /// Has all items checked at a time.
    pub(super) fn check_at(&mut self, at: Nanos) {
        if let Err(place) = self.checks.binary_search(&at) {
            self.checks.insert(place, at);
        }
    }
}
