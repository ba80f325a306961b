//! Consumers in a world, and their events in words.

use std::sync::Arc;

use counters::table::ConsumerSession;
use tickcast_client::{
    ConsumerConfig, ConsumerCore, ConsumerEvent, ItemHandle, ItemRequestSpec, OwnedEvent, OwnedItemEvent,
};

use crate::world::{FromEvent, World, identity};

pub(crate) type Consumers = World<ConsumerCore, OwnedEvent>;

impl FromEvent<ConsumerEvent<'_>> for OwnedEvent {
    fn from_event(event: ConsumerEvent<'_>) -> Self {
        event.into()
    }
}

/// A consumer with the defaults but for `change`, which has not connected yet.
pub(crate) fn consumer(change: impl FnOnce(&mut ConsumerConfig)) -> Consumers {
    let mut config = ConsumerConfig::default();
    change(&mut config);
    World::new(ConsumerCore::new(&config, &identity(), 1).expect("a good configuration"))
}

/// The same without a dictionary, which most tests do not care about.
pub(crate) fn plain(change: impl FnOnce(&mut ConsumerConfig)) -> Consumers {
    consumer(|config| {
        config.dictionary = tickcast_client::DictionaryMode::None;
        change(config);
    })
}

impl Consumers {
    /// Subscribes the item `name` of service S.
    pub(crate) fn item(&mut self, name: &str) -> ItemHandle {
        self.core.subscribe(&ItemRequestSpec::new("S", name)).expect("new")
    }

    /// The events since this was last asked, in words.
    pub(crate) fn words(&mut self) -> Vec<String> {
        self.take_told().iter().map(word).collect()
    }

    /// Those about items.
    pub(crate) fn item_words(&mut self) -> Vec<String> {
        self.take_told().iter().filter(|event| matches!(event, OwnedEvent::Item(_))).map(word).collect()
    }

    /// The events about items.
    pub(crate) fn item_events(&mut self) -> Vec<OwnedItemEvent> {
        let items = self.take_told().into_iter();
        items.filter_map(|event| if let OwnedEvent::Item(item) = event { Some(item) } else { None }).collect()
    }

    /// Lets the session begin and forgets what it told.
    pub(crate) fn begin(&mut self) {
        self.settle();
        assert!(self.core.is_logged_in());
        self.told.clear();
    }

    pub(crate) fn counts(&self) -> Arc<ConsumerSession> {
        Arc::clone(self.core.counters())
    }
}

pub(crate) fn word(event: &OwnedEvent) -> String {
    match event {
        OwnedEvent::Connected { host, .. } => format!("connected {host}"),
        OwnedEvent::Disconnected { host, reason, retry_in } => match retry_in {
            Some(wait) => format!("disconnected {host}: {reason}; again in {wait:?}"),
            None => format!("disconnected {host}: {reason}; for good"),
        },
        OwnedEvent::LoggedIn { state, .. } => format!("logged in {}", state.borrow()),
        OwnedEvent::LoginStatus(state) => format!("login {}", state.borrow()),
        OwnedEvent::LoginRefused { state, retry } => {
            format!("login refused {}{}", state.borrow(), if *retry { ", retry" } else { "" })
        }
        OwnedEvent::Service { change, id, name, service } => match service {
            Some(service) => format!("service {id} {name} {change:?}, up {}", service.state.up),
            None => format!("service {id} {name} {change:?}"),
        },
        OwnedEvent::DictionaryReady(dictionary) => format!("dictionary of {}", dictionary.field_count()),
        OwnedEvent::DictionaryUnavailable(fault) => format!("no dictionary: {fault:?}"),
        OwnedEvent::Active { service, host, instead_of, .. } => {
            let of = service.as_ref().map_or(String::new(), |service| format!(" for {service}"));
            let before = instead_of.as_ref().map_or(String::new(), |before| format!(" instead of {before}"));
            format!("active {host}{before}{of}")
        }
        OwnedEvent::Posted { id, tag, item, outcome } => {
            format!("post {} of {tag}{}: {outcome:?}", id.0, if item.is_some() { " on stream" } else { "" })
        }
        OwnedEvent::Item(event) => item_word(event),
        _ => "an event that the tests do not know".to_owned(),
    }
}

fn item_word(event: &OwnedItemEvent) -> String {
    let kind = event.view(|view| match view.msg() {
        tickcast_client::ItemMsg::Refresh(_) => "refresh",
        tickcast_client::ItemMsg::Update(_) => "update",
        tickcast_client::ItemMsg::Status(_) => "status",
        tickcast_client::ItemMsg::Generic(_) => "generic",
        tickcast_client::ItemMsg::Ack(_) => "ack",
        _ => "message that the tests do not know",
    });
    let end = if event.is_final { ", final" } else { "" };
    format!("{} {kind} {}{end}", event.name, event.state.borrow())
}
