//! Providers: `client::ProviderCore`, which speaks RSSL, with what it publishes.

use std::sync::Arc;

use client::{
    ConnectFailure, Endpoint as _, HostPort, Identity, ProviderConfig, ProviderCore, ProviderServiceConfig,
    PublishSpec, Published, PublishedItem, RefreshSpec, UpdateSpec,
};
use market::distributor::ProviderId;
use rwf::{Domain, Real, Writer};
use units::Nanos;

use super::connections::{Dialler, End};
use super::{Event, Node, World};
use crate::oracle::{COUNT, OTHER, Values};
use crate::plan::Host;

pub(super) struct ProviderNode {
    pub(super) core: ProviderCore,
    pub(super) is_up: bool,
    pub(super) dialler: Dialler,
    /// Its items by their places in the service.
    items: Vec<PublishedItem>,
}

impl ProviderNode {
    pub(super) fn next_wakeup(&self) -> Nanos {
        if self.is_up { self.core.next_wakeup() } else { Nanos::NEVER }
    }
}

/// The name of a service.
pub(super) fn service_name(service: usize) -> String {
    format!("S{service}")
}

/// The name of an item.
pub(super) fn item_name(place: usize) -> String {
    format!("I{place}")
}

/// Who a process says it is: always the same.
pub(super) fn identity() -> Identity {
    let (user, host_name) = ("sim".to_owned(), "sim".to_owned());
    Identity { user, host_name, ip_address: "10.0.0.1".to_owned(), password: None }
}

fn write(w: &mut Writer<'_>, values: Values, touches_other: bool) {
    w.field_list(|f| {
        f.put(COUNT, Real::decimal(values.count, 0));
        if touches_other {
            f.put(OTHER, Real::decimal(values.other, 0));
        }
    });
}

impl World {
    /// A process that has published all its items, as they are, and is about to connect.
    pub(super) fn new_provider(&mut self, at: usize) -> ProviderNode {
        let name = service_name(at);
        let service = ProviderServiceConfig {
            name: name.clone(),
            id: 1 + at as u16,
            ..ProviderServiceConfig::default()
        };
        let config = ProviderConfig {
            hosts: vec![HostPort::new("distributor", 14_003)],
            services: vec![service],
            connect_timeout_ms: 1_000,
            reconnect_delay_min_ms: 50,
            reconnect_delay_max_ms: 300,
            ..ProviderConfig::default()
        };
        let core = ProviderCore::new(&config, &identity(), self.rng.next_u64());
        let mut core = core.expect("a legal configuration");
        core.set_dictionary(&Arc::clone(&self.dictionary));
        let mut items = Vec::new();
        for (item, (service, place)) in self.items.iter().enumerate() {
            if *service == at {
                let label = item_name(*place);
                let spec =
                    PublishSpec { seq_nums: true, ..PublishSpec::new(Domain::MARKET_PRICE, &name, &label) };
                let handle = core.item(&spec).expect("a legal item");
                let values = self.truth[item];
                let published = core.refresh(handle, &RefreshSpec::default(), |w| write(w, values, true));
                assert_eq!(published.expect("it is kept"), Published::Kept);
                items.push(handle);
            }
        }
        self.touched.insert(Node::Provider(at));
        ProviderNode { core, is_up: true, dialler: Dialler::default(), items }
    }

    /// Does what a provider has to do now.
    pub(super) fn provider_turn(&mut self, at: usize) {
        self.touched.insert(Node::Provider(at));
        let now = self.now;
        let node = &mut self.providers[at];
        if !node.is_up {
            return;
        }
        let wanted = node.dialler.turn(now, &mut node.core, &mut |_| ());
        wanted.carry_out(self, Host::Provider(at));
    }

    pub(super) fn provider_dialled(&mut self, at: usize) {
        let (now, to) = (self.now, self.plan.services[at].distributor);
        if !self.distributors[to].is_up {
            let failure = ConnectFailure::Io(std::io::ErrorKind::ConnectionRefused);
            self.providers[at].core.on_connect_failed(now, failure, &mut |_| ());
            return self.provider_turn(at);
        }
        let provider = ProviderId(self.distributors[to].next_provider());
        let hosts = (Host::Provider(at), Host::Distributor(to));
        let connection = self.connect((hosts.0, End::Provider(at)), (hosts.1, End::Accepted(to, provider)));
        self.accept_provider(to, provider, connection);
        self.providers[at].dialler.connection = Some(connection);
        self.providers[at].core.on_established(now);
        self.provider_turn(at);
    }

    /// Changes an item.
    pub(super) fn publish(&mut self, item: usize, touches_other: bool) {
        let (service, place) = self.items[item];
        let node = &mut self.providers[service];
        if !node.is_up {
            return;
        }
        let mut values = self.truth[item];
        values.count += 1;
        values.other += if touches_other { 7 } else { 0 };
        let handle = node.items[place];
        let published = node.core.update(handle, &UpdateSpec::default(), |w| write(w, values, touches_other));
        match published.expect("there is room") {
            Published::Sent | Published::Kept => self.truth[item] = values,
            Published::Dropped => {}
        }
        self.provider_turn(service);
    }

    /// Publishes the image of an item again.
    pub(super) fn republish(&mut self, item: usize) {
        let (service, place) = self.items[item];
        let (node, values) = (&mut self.providers[service], self.truth[item]);
        if node.is_up {
            let handle = node.items[place];
            let published = node.core.refresh(handle, &RefreshSpec::default(), |w| write(w, values, true));
            let _ = published.expect("there is room");
            self.provider_turn(service);
        }
    }

    /// A host connects; the answer comes when packets pass both ways.
    pub(super) fn dial(&mut self, host: Host, attempt: u32) {
        let to = match host {
            Host::Provider(at) => Host::Distributor(self.plan.services[at].distributor),
            Host::Client(at) => Host::Server(self.plan.clients[at].server),
            Host::Server(at) => Host::Server(self.plan.servers[at].upstream.expect("a point of presence")),
            Host::Distributor(_) => unreachable!("a distributor of the backbone dials nobody"),
        };
        let passes = self.passes_at(host, to).max(self.passes_at(to, host));
        let at = passes + self.span(std::time::Duration::from_millis(3));
        self.queue.put(at, Event::Dial(host, attempt));
    }

    /// Only the last attempt counts.
    pub(super) fn dialled(&mut self, host: Host, attempt: u32) {
        match host {
            Host::Provider(at)
                if self.providers[at].is_up && self.providers[at].dialler.attempt == attempt =>
            {
                self.provider_dialled(at);
            }
            Host::Client(at) if self.clients[at].is_up && self.clients[at].dialler.attempt == attempt => {
                self.client_dialled(at);
            }
            Host::Server(at) if self.servers[at].is_up => self.upstream_dialled(at, attempt),
            _ => {}
        }
    }
}
