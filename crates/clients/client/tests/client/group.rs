//! A core and several servers without a network, under virtual time.

use std::time::Duration;

use counters::table::WarmStandby;
use rdm::directory::ServiceDelta;
use rssl::Disconnect;
use rwf::{DataType, Domain, ElementList, GenericMsg, Map, RefreshMsg, UpdateMsg};
use tickcast_client::{
    ConsumerConfig, DictionaryMode, Endpoint, HostPort, ItemHandle, ItemRequestSpec, OwnedEvent,
    OwnedItemEvent, StandbyCore, StandbyServerConfig, WarmStandbyConfig,
};
use units::Nanos;

use crate::consumers::word;
use crate::world::{Door, End, Server, fields, identity, image};

/// A core and its servers `a:1`, `b:2` ..., which send images only if their manners say so.
pub(crate) struct Group {
    pub(crate) now: Nanos,
    pub(crate) core: StandbyCore,
    pub(crate) told: Vec<OwnedEvent>,
    pub(crate) ends: Vec<End>,
}

/// A group of so many servers, with nothing sent yet.
pub(crate) fn group(servers: usize, change: impl FnOnce(&mut WarmStandbyConfig)) -> Group {
    let host = |i: usize| HostPort::new(["a", "b", "c", "d"][i], i as u16 + 1);
    let config = ConsumerConfig {
        hosts: vec![host(0)],
        dictionary: DictionaryMode::None,
        reconnect_delay_min_ms: 1_000,
        reconnect_delay_max_ms: 1_000,
        ..ConsumerConfig::default()
    };
    let others = (1..servers).map(|i| StandbyServerConfig { hosts: vec![host(i)], services: Vec::new() });
    let mut standby = WarmStandbyConfig { servers: others.collect(), ..WarmStandbyConfig::default() };
    change(&mut standby);
    let core = StandbyCore::new(&config, &standby, &identity(), 1).expect("a good configuration");
    let ends = (0..servers).map(|_| {
        let mut end = End::default();
        end.manners.sends_images = false;
        end
    });
    Group { now: Nanos(1_000_000_000), core, told: Vec::new(), ends: ends.collect() }
}

impl Group {
    /// Everything that happens without time going by.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the ends never come to rest");
            let mut is_done = true;
            for server in 0..self.ends.len() {
                is_done &= !self.turn(server);
            }
            if is_done {
                return;
            }
        }
    }

    /// What one server's socket has to do; returns whether that was something.
    fn turn(&mut self, server: usize) -> bool {
        let (now, told, end) = (self.now, &mut self.told, &mut self.ends[server]);
        let core = self.core.at(server);
        let followed = end.follow(core, now, &mut |event| told.push(event.into()));
        let carried = end.carry(core, now, &mut |event: tickcast_client::ConsumerEvent<'_>| {
            told.push(event.into());
        });
        let is_due = core.next_wakeup() <= now;
        if is_due {
            core.on_wakeup(now, &mut |event| told.push(event.into()));
        }
        followed || carried || is_due
    }

    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now.after(span);
        self.settle();
        loop {
            let cores = (0..self.ends.len()).map(|server| self.core.at(server).next_wakeup());
            let cores = cores.min().unwrap_or(Nanos::NEVER);
            let servers =
                self.ends.iter().filter_map(|end| Some(end.server.as_ref()?.connection.next_wakeup()));
            let due = servers.min().unwrap_or(Nanos::NEVER).min(cores);
            if due > end {
                break;
            }
            self.now = due.max(self.now);
            for server in self.ends.iter_mut().filter_map(|end| end.server.as_mut()) {
                server.connection.on_wakeup(self.now).expect("the core keeps the session");
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    pub(crate) fn server(&mut self, server: usize) -> &mut Server {
        self.ends[server].server.as_mut().expect("a connection stands")
    }

    /// A server sends a message.
    pub(crate) fn say(&mut self, server: usize, message: &impl rdm::ToVec) {
        let bytes = message.to_vec().expect("legal");
        self.server(server).connection.outbound().push(&bytes).expect("room");
        self.settle();
    }

    /// An image with a number, and the number as its value.
    pub(crate) fn refresh(&mut self, server: usize, stream_id: i32, seq_num: u32) {
        self.say(server, &RefreshMsg { payload: &fields(seq_num.into()), ..image(stream_id, seq_num) });
    }

    pub(crate) fn update(&mut self, server: usize, stream_id: i32, seq_num: u32) {
        let msg = UpdateMsg { seq_num: Some(seq_num), ..crate::world::update(stream_id, &[]) };
        self.say(server, &UpdateMsg { payload: &fields(seq_num.into()), ..msg });
    }

    /// The connection to a server is lost, and is not to be had again until its door opens.
    pub(crate) fn kill(&mut self, server: usize) {
        self.ends[server].door = Door::Shut;
        self.ends[server].server = None;
        let (now, told) = (self.now, &mut self.told);
        let end = Disconnect::EndOfStream;
        self.core.at(server).on_disconnected(now, end, &mut |event| told.push(event.into()));
        self.settle();
    }

    pub(crate) fn revive(&mut self, server: usize) {
        self.ends[server].door = Door::Open;
        self.advance(Duration::from_secs(2));
    }

    /// A service goes down, or up, at a server.
    pub(crate) fn turn_service(&mut self, server: usize, up: bool) {
        let known = &mut self.ends[server].manners.services[0];
        let old = known.clone();
        known.state.up = up;
        let services = vec![ServiceDelta::between(&old, known).expect("something changes")];
        let filter = Some(rdm::directory::Filter::ALL);
        self.say(server, &rdm::directory::DirectoryUpdate { stream_id: 2, filter, services });
    }

    pub(crate) fn item(&mut self, name: &str) -> ItemHandle {
        self.core.subscribe(&ItemRequestSpec::new("S", name)).expect("new")
    }

    pub(crate) fn words(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told).iter().map(word).collect()
    }

    /// What was told of items, with their numbers, and of active servers.
    pub(crate) fn story(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.told);
        let line = |event: &OwnedEvent| match event {
            OwnedEvent::Item(item) => {
                let number = seq_num(item).map_or(String::new(), |number| format!(" {number}"));
                Some(word(event) + &number)
            }
            OwnedEvent::Active { .. } => Some(word(event)),
            _ => None,
        };
        told.iter().filter_map(line).collect()
    }

    pub(crate) fn counts(&self) -> &WarmStandby {
        self.core.counters()
    }

    /// The roles that a server was told, by the domain of the message.
    pub(crate) fn roles(&mut self, server: usize) -> Vec<(Domain, u8)> {
        let inbox = std::mem::take(&mut self.server(server).inbox);
        inbox.iter().filter_map(|bytes| role(bytes)).collect()
    }
}

fn seq_num(event: &OwnedItemEvent) -> Option<u32> {
    event.view(|view| view.seq_num())
}

pub(crate) fn role(bytes: &[u8]) -> Option<(Domain, u8)> {
    let msg = GenericMsg::parse(bytes).ok().filter(|msg| msg.container_type == DataType::MAP)?;
    let map = Map::parse(msg.payload).expect("a map");
    let entry = map.entries().next().expect("an entry").expect("whole");
    let list = ElementList::parse(entry.data.expect("elements")).expect("a list");
    let element = list.entries().next().expect("an element").expect("whole");
    Some((msg.domain, element.content[0]))
}
