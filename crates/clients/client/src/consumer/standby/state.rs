//! Which item is which at each server, who is active, and what of the servers' events goes to the
//! application.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use counters::table::WarmStandby;
use rwf::{DataState, RefreshMsg, State};
use units::Nanos;

use crate::StandbyMode;
use crate::consumer::event::{
    ConsumerEvent, ConsumerSink, ItemEvent, ItemMsg, PostEvent, ServiceChange, ServiceEvent,
};
use crate::consumer::item::Shown;
use crate::consumer::{ItemHandle, ItemRequestSpec};
use crate::table::{Slot, Table};

/// Everything that a consumer with warm standby knows beside the sessions with its servers: which item is which at
/// each server, who is active, and what the application has seen.
pub(super) struct StandbyState {
    mode: StandbyMode,
    pub(super) items: Table<StandbyItem>,
    pub(super) servers: Vec<ServerState>,
    /// Login-based there is one for everything.
    pub(super) units: Vec<FailoverUnit>,
    unit_names: HashMap<Arc<str>, u32>,
    /// For which services which server is the preferred one.
    preferred: HashMap<Arc<str>, usize>,
    /// Items whose image may be there now.
    pub(super) retries: Vec<Slot>,
    /// Items that have ended at the active server.
    pub(super) ended: Vec<Slot>,
    /// Until when items wait for images that are not behind.
    pub(super) waits_due: VecDeque<(Nanos, Slot)>,
    /// Another server may have to be the active one.
    pub(super) is_due: bool,
    /// The application has ended all sessions.
    pub(super) is_stopping: bool,
    pub(super) counters: Arc<WarmStandby>,
}

/// What is lost together: everything, or one service.
pub(super) struct FailoverUnit {
    pub(super) service: Option<Arc<str>>,
    pub(super) preferred: usize,
    pub(super) active: usize,
    /// Which active server the application knows of.
    pub(super) reported: Option<usize>,
    /// The active server is lost and another one is there: what is still said of its loss is not reported.
    pub(super) is_leaving: bool,
    /// By server: whether the service is up there.
    is_up: Box<[bool]>,
}

/// One of the servers.
pub(super) struct ServerState {
    pub(super) stage: ServerStage,
    /// The application's items by the handles of this server's core.
    pub(super) by_handle: HashMap<ItemHandle, Slot>,
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerStage {
    /// It is tried for the first time.
    Fresh,
    /// It has let the consumer in and sent its directory.
    Up,
    /// It was lost, or could not be reached.
    Down,
}

/// An item of the application.
pub(super) struct StandbyItem {
    pub(super) unit: u32,
    tag: u64,
    pub(super) sync: ImageSync,
    /// The number of the last message that the application was given.
    pub(super) last_seq: Option<u32>,
    /// What was last reported to the application.
    pub(super) shown: Option<Shown>,
    /// By server: the item there.
    pub(super) handles: Box<[Option<ItemHandle>]>,
    pub(super) wish: Box<RequestedItem>,
}

/// What was asked for.
pub(super) struct RequestedItem {
    pub(super) service: Arc<str>,
    pub(super) name: Arc<str>,
    /// All but the names.
    pub(super) spec: ItemRequestSpec<'static>,
    pub(super) is_paused: bool,
}

/// Whether the application has what the active server's messages build on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageSync {
    /// It has: messages go through.
    Done,
    /// It has not: it needs an image first.
    Waiting {
        /// The image is behind what the application has seen; until when it is waited for.
        behind_until: Option<Nanos>,
        /// What came before is no use: only a refresh that is still to come is.
        needs_refresh: bool,
    },
}

impl ImageSync {
    pub(super) const WAITING: ImageSync = ImageSync::Waiting { behind_until: None, needs_refresh: false };
}

impl StandbyItem {
    /// Whether every server is asked for it: snapshots and private streams are the active server's alone.
    pub(super) fn is_shared(&self) -> bool {
        self.wish.spec.streaming && !self.wish.spec.private_stream
    }

    pub(super) fn is_shown_ok(&self) -> bool {
        self.shown.is_some_and(|shown| shown.data == DataState::Ok)
    }

    /// Whether a message of this number is older than what the application has seen. Numbers that are far
    /// apart do not belong to one sequence.
    pub(super) fn is_behind(&self, seq_num: Option<u32>) -> bool {
        let (Some(last), Some(seq)) = (self.last_seq, seq_num) else { return false };
        (1..SEQUENCE_WINDOW).contains(&last.wrapping_sub(seq))
    }

    /// Notes what the application is given.
    #[inline]
    fn note(&mut self, event: &ItemEvent<'_>) {
        match event.msg {
            ItemMsg::Update(_) => {}
            ItemMsg::Refresh(_) | ItemMsg::Status(_) => self.shown = Some(shown(event.state)),
            ItemMsg::Generic(_) | ItemMsg::Ack(_) => return,
        }
        if let Some(seq) = event.seq_num() {
            self.last_seq = Some(seq);
        }
    }
}

fn shown(state: State<'_>) -> Shown {
    Shown { stream: state.stream, data: state.data, code: state.code }
}

/// Numbers within this distance belong to one sequence.
const SEQUENCE_WINDOW: u32 = 1 << 16;

impl StandbyState {
    pub(super) fn new(
        mode: StandbyMode,
        preferred: Vec<&[String]>,
        counters: Arc<WarmStandby>,
    ) -> StandbyState {
        let server = |_: &&[String]| ServerState { stage: ServerStage::Fresh, by_handle: HashMap::new() };
        let named = |(server, names): (usize, &&[String])| {
            names.iter().map(|name| (Arc::from(name.as_str()), server)).collect::<Vec<_>>()
        };
        // Of several servers for one service the first counts.
        let by_name = preferred.iter().enumerate().rev().flat_map(|(i, names)| named((i, names))).collect();
        let mut state = StandbyState {
            mode,
            items: Table::default(),
            servers: preferred.iter().map(server).collect(),
            units: Vec::new(),
            unit_names: HashMap::new(),
            preferred: by_name,
            retries: Vec::new(),
            ended: Vec::new(),
            waits_due: VecDeque::new(),
            is_due: false,
            is_stopping: false,
            counters,
        };
        if mode == StandbyMode::Login {
            state.units.push(state.unit_of_its_own(None));
        }
        state
    }

    fn unit_of_its_own(&self, service: Option<Arc<str>>) -> FailoverUnit {
        let named = service.as_ref().and_then(|service| self.preferred.get(service)).copied();
        let preferred = named.unwrap_or_default();
        let is_up = vec![false; self.servers.len()].into();
        FailoverUnit { service, preferred, active: preferred, reported: None, is_leaving: false, is_up }
    }

    /// The unit of a service, and whether it is new.
    pub(super) fn unit(&mut self, service: &str) -> (u32, bool) {
        if self.mode == StandbyMode::Login {
            return (0, false);
        }
        if let Some(unit) = self.unit_names.get(service) {
            return (*unit, false);
        }
        let name: Arc<str> = service.into();
        let unit = u32::try_from(self.units.len()).expect("each has had an item, of which there are fewer");
        self.units.push(self.unit_of_its_own(Some(Arc::clone(&name))));
        self.unit_names.insert(name, unit);
        (unit, true)
    }

    /// The active server of a service.
    pub(super) fn active_for(&self, service: &str) -> usize {
        let unit = match self.mode {
            StandbyMode::Login => self.units.first(),
            StandbyMode::Service => self.unit_names.get(service).map(|unit| &self.units[*unit as usize]),
        };
        let preferred = || self.preferred.get(service).copied().unwrap_or_default();
        unit.map_or_else(preferred, |unit| unit.active)
    }

    /// A new item, which no server has been asked for.
    pub(super) fn insert(&mut self, unit: u32, spec: &ItemRequestSpec<'_>) -> Slot {
        let view = spec.view.clone();
        let nameless = ItemRequestSpec { service: "", name: "", view, ..*spec };
        let wish = RequestedItem {
            service: spec.service.into(),
            name: spec.name.into(),
            spec: nameless,
            is_paused: false,
        };
        self.items.insert(StandbyItem {
            unit,
            tag: spec.tag,
            sync: ImageSync::Done,
            last_seq: None,
            shown: None,
            handles: vec![None; self.servers.len()].into(),
            wish: Box::new(wish),
        })
    }

    /// The active server of an item, and the item there.
    pub(super) fn at_active(&self, handle: ItemHandle) -> Option<(usize, ItemHandle)> {
        let entry = self.items.get(handle.0)?;
        let active = self.units[entry.unit as usize].active;
        Some((active, entry.handles[active]?))
    }

    /// Whether a server can be the active one of a unit.
    pub(super) fn is_usable(&self, unit: usize, server: usize) -> bool {
        let unit = &self.units[unit];
        self.servers[server].stage == ServerStage::Up && (unit.service.is_none() || unit.is_up[server])
    }

    /// The server that is to be the active one if the present one is lost.
    pub(super) fn successor(&self, unit: usize) -> Option<usize> {
        let preferred = self.units[unit].preferred;
        std::iter::once(preferred).chain(0..self.servers.len()).find(|server| self.is_usable(unit, *server))
    }

    /// What is up at a server.
    pub(super) fn note_service(&mut self, unit: usize, server: usize, is_up: bool) {
        self.is_due |= std::mem::replace(&mut self.units[unit].is_up[server], is_up) != is_up;
        if !is_up {
            self.leave(unit, server);
        }
    }

    /// A server is lost for a unit: if it was the active one and there is another, what it still says of its
    /// loss is withheld.
    fn leave(&mut self, unit: usize, server: usize) {
        let goes_on = !self.is_stopping && self.successor(unit).is_some();
        let unit = &mut self.units[unit];
        unit.is_leaving |= unit.active == server && goes_on;
    }
}

/// What comes from the servers.
impl StandbyState {
    /// An event of the session with one of the servers.
    #[inline]
    pub(super) fn on_event<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        server: usize,
        event: ConsumerEvent<'_>,
        sink: &mut F,
    ) {
        let ConsumerEvent::Item(event) = event else { return self.on_session_event(server, event, sink) };
        let slot = Slot::from_u64(event.tag);
        let Some(entry) = self.items.get_mut(slot) else { return };
        let unit = &self.units[entry.unit as usize];
        if unit.active != server || unit.is_leaving || entry.sync != ImageSync::Done || event.is_final {
            return self.on_aside(server, slot, event, sink);
        }
        entry.note(&event);
        sink(ConsumerEvent::Item(ItemEvent { handle: ItemHandle(slot), tag: entry.tag, ..event }));
    }

    /// Gives the application an event of an item.
    pub(super) fn deliver(&mut self, slot: Slot, event: ItemEvent<'_>, sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.items.get_mut(slot) else { return };
        entry.note(&event);
        sink(ConsumerEvent::Item(ItemEvent { handle: ItemHandle(slot), tag: entry.tag, ..event }));
    }

    /// An event of an item that does not simply go through.
    #[cold]
    fn on_aside(&mut self, server: usize, slot: Slot, event: ItemEvent<'_>, sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.items.get_mut(slot) else { return };
        if event.is_final {
            entry.handles[server] = None;
            self.servers[server].by_handle.remove(&event.handle);
        }
        let unit = &self.units[entry.unit as usize];
        if unit.active != server {
            self.counters.updates_withheld.add(u64::from(event.is_update()));
        } else if event.is_final {
            self.ended.push(slot);
            self.deliver(slot, event, sink);
        } else if !unit.is_leaving {
            self.on_awaited(slot, event, sink);
        }
    }

    /// An event of the active server for an item of which the application has no image to build on.
    fn on_awaited(&mut self, slot: Slot, event: ItemEvent<'_>, sink: &mut ConsumerSink<'_>) {
        let Some(entry) = self.items.get_mut(slot) else { return };
        let ImageSync::Waiting { behind_until, needs_refresh } = entry.sync else {
            return self.deliver(slot, event, sink);
        };
        match event.msg {
            ItemMsg::Update(msg) => {
                self.counters.updates_withheld.inc();
                if behind_until.is_some() && !entry.is_behind(msg.seq_num) {
                    self.retries.push(slot);
                }
            }
            ItemMsg::Refresh(msg) if is_whole(msg) && !entry.is_behind(msg.seq_num) => {
                entry.sync = ImageSync::Done;
                self.deliver(slot, event, sink);
            }
            ItemMsg::Refresh(msg) => {
                entry.sync =
                    ImageSync::Waiting { behind_until, needs_refresh: needs_refresh && !msg.complete };
                if msg.complete {
                    self.retries.push(slot);
                }
            }
            ItemMsg::Status(_) if event.is_ok() => self.retries.push(slot),
            ItemMsg::Status(_) | ItemMsg::Generic(_) | ItemMsg::Ack(_) => self.deliver(slot, event, sink),
        }
    }

    #[cold]
    fn on_session_event(&mut self, server: usize, event: ConsumerEvent<'_>, sink: &mut ConsumerSink<'_>) {
        match &event {
            ConsumerEvent::Disconnected { .. } => {
                self.servers[server].stage = ServerStage::Down;
                self.is_due = true;
                for unit in 0..self.units.len() {
                    self.units[unit].is_up[server] = false;
                    self.leave(unit, server);
                }
            }
            ConsumerEvent::Service(service) => {
                let is_reported = self.active_for(service.name) == server;
                self.on_service(server, service);
                if !is_reported {
                    return;
                }
            }
            ConsumerEvent::Posted(post) => {
                let item = post.item.and_then(|item| self.servers[server].by_handle.get(&item));
                let item = item.copied().map(ItemHandle);
                return sink(ConsumerEvent::Posted(PostEvent { item, ..*post }));
            }
            _ => {}
        }
        sink(event);
    }

    fn on_service(&mut self, server: usize, event: &ServiceEvent<'_>) {
        if let (StandbyMode::Service, Some(unit)) = (self.mode, self.unit_names.get(event.name)) {
            let is_up = event.change != ServiceChange::Removed && event.service.is_some_and(|s| s.state.up);
            self.note_service(*unit as usize, server, is_up);
        }
    }
}

/// Whether a refresh is an image by itself.
fn is_whole(msg: &RefreshMsg<'_>) -> bool {
    msg.complete && msg.part_num.is_none_or(|part| part == 0)
}
