//! The consumer's core against a scripted server.

use std::time::Duration;

use rwf::{Real, Value};
use tickcast_client::{ConsumerConfig, ConsumerCore, ConsumerEvent, ItemRequestSpec, OwnedEvent};

use crate::world::{FromEvent, World, fields, identity, update};

type Consumers = World<ConsumerCore, OwnedEvent>;

impl FromEvent<ConsumerEvent<'_>> for OwnedEvent {
    fn from_event(event: ConsumerEvent<'_>) -> Self {
        event.into()
    }
}

fn consumer(change: impl FnOnce(&mut ConsumerConfig)) -> Consumers {
    let mut config = ConsumerConfig::default();
    change(&mut config);
    World::new(ConsumerCore::new(&config, &identity(), 1).expect("a good configuration"))
}

/// Events in short.
fn words(events: &[OwnedEvent]) -> Vec<String> {
    events.iter().map(word).collect()
}

fn word(event: &OwnedEvent) -> String {
    match event {
        OwnedEvent::Connected { host, .. } => format!("connected {host}"),
        OwnedEvent::Disconnected { reason, retry_in, .. } => format!("disconnected: {reason}, {retry_in:?}"),
        OwnedEvent::LoggedIn { .. } => "logged in".to_owned(),
        OwnedEvent::LoginStatus(state) => format!("login {}", state.borrow()),
        OwnedEvent::LoginRefused { state, retry } => {
            format!("login refused {}, retry {retry}", state.borrow())
        }
        OwnedEvent::Service { change, id, name, service } => {
            format!("service {id} {name} {change:?} up {:?}", service.as_ref().map(|s| s.state.up))
        }
        OwnedEvent::DictionaryReady(dictionary) => format!("dictionary of {}", dictionary.field_count()),
        OwnedEvent::DictionaryUnavailable(fault) => format!("no dictionary: {fault:?}"),
        OwnedEvent::Item(event) => event.view(|view| {
            let kind = if view.is_refresh() {
                "refresh"
            } else if view.is_update() {
                "update"
            } else {
                "status"
            };
            let last = if event.is_final { ", final" } else { "" };
            format!("{} {kind} {}{last}", event.name, event.state.borrow())
        }),
        _ => "unknown".to_owned(),
    }
}

#[test]
fn a_consumer_logs_in_learns_services_and_fields_and_gets_its_item() {
    let mut world = consumer(|_| ());
    let handle = world.core.subscribe(&ItemRequestSpec::new("S", "I")).expect("new");
    world.settle();
    let events = world.take_told();
    assert_eq!(
        words(&events),
        [
            "connected localhost:14002",
            "logged in",
            "service 1 S Added up Some(true)",
            "dictionary of 3",
            "I refresh open/ok",
        ]
    );
    let Some(OwnedEvent::Item(refresh)) = events.last() else { panic!("{events:?}") };
    assert_eq!((refresh.handle, refresh.field("BID")), (handle, Ok(Some(Value::Real(Real::decimal(1, 2))))));
    world.say(&update(5, &fields(7)));
    let events = world.take_told();
    assert_eq!(words(&events), ["I update open/ok"]);
    world.advance(Duration::from_secs(3600));
    assert_eq!(words(&world.take_told()), [""; 0], "pings keep the session");
}
