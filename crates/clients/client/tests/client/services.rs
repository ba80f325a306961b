//! Items and the services they come from.

use std::time::Duration;

use rdm::OwnedState;
use rdm::directory::{
    Change, DirectoryRefresh, Edit, Filter, GroupElements, Load, ServiceDelta, StateElements,
};
use rwf::{DataState, Domain, MapAction, Qos, RefreshMsg, State, StateCode, StreamState};
use tickcast_client::ItemRequestSpec;

use crate::consumers::{Consumers, plain};
use crate::world::{fields, image, service, status};

const SECOND: Duration = Duration::from_secs(1);

/// A world with the item I on stream 3, open, and a server that leaves further requests to the test.
fn open() -> Consumers {
    let mut world = plain(|_| ());
    world.item("I");
    world.begin();
    world.manners.sends_images = false;
    world
}

#[test]
fn an_item_of_an_unknown_service_is_told_so_once_and_waits_for_it() {
    let mut world = plain(|_| ());
    world.manners.services.clear();
    world.item("I");
    world.settle();
    assert_eq!(
        world.item_words(),
        ["I status open/suspect, source unknown, \"service not in the directory\""]
    );
    world.advance(Duration::from_secs(1000));
    assert_eq!(world.words(), [""; 0]);
    world.say_directory(vec![ServiceDelta::added(&service(1, "S"))]);
    assert_eq!(world.words(), ["service 1 S Added, up true", "I refresh open/ok"]);
    // One that is subscribed later is told as well.
    world.core.subscribe(&ItemRequestSpec::new("T", "J")).expect("new");
    world.settle();
    assert_eq!(world.words(), ["J status open/suspect, source unknown, \"service not in the directory\""]);
}

#[test]
fn a_service_that_goes_down_takes_its_items_with_it_until_it_is_up() {
    let mut world = open();
    world.change_service(1, |service| service.state.up = false);
    assert_eq!(
        world.words(),
        ["service 1 S Changed, up false", "I status open/suspect, \"service is down\""]
    );
    assert_eq!((world.server().closes(), world.counts().items_open.get()), (vec![3], 0));
    world.item("J");
    world.settle();
    assert_eq!(world.words(), ["J status open/suspect, \"service is down\""]);
    world.change_service(1, |service| service.state.up = true);
    assert_eq!(world.server().requests(), [(4, "I".into()), (5, "J".into())]);
}

#[test]
fn a_service_that_is_deleted_takes_its_items_with_it_until_it_is_there_again() {
    let mut world = open();
    world.say_directory(vec![ServiceDelta::removed(1)]);
    assert_eq!(
        world.words(),
        ["service 1 S Removed", "I status open/suspect, source unknown, \"service not in the directory\""]
    );
    assert_eq!((world.server().closes(), world.counts().services.get()), (vec![], 0));
    world.say_directory(vec![ServiceDelta::added(&service(9, "S"))]);
    assert_eq!(world.server().requests(), [(4, "I".into())]);
    assert_eq!(world.core.directory().service_by_name("S").map(|service| service.id), Some(9));
}

#[test]
fn a_name_that_another_service_takes_over_costs_the_items_their_streams() {
    let mut world = open();
    world.say_directory(vec![ServiceDelta::removed(1), ServiceDelta::added(&service(2, "S"))]);
    let words = world.item_words();
    assert_eq!(words, ["I status open/suspect, source unknown, \"service not in the directory\""]);
    assert_eq!(world.server().requests(), [(4, "I".into())]);
}

#[test]
fn a_service_that_accepts_no_requests_keeps_its_items_and_gets_no_new_ones() {
    let mut world = open();
    world.change_service(1, |service| service.state.accepting_requests = Some(false));
    world.item("J");
    world.settle();
    assert_eq!(
        world.item_words(),
        ["J status open/suspect, no resources, \"service accepts no requests\""],
        "nothing happens to I"
    );
    assert_eq!((world.server().requests(), world.server().closes()), (vec![], vec![]));
    world.change_service(1, |service| service.state.accepting_requests = Some(true));
    assert_eq!(world.server().requests(), [(4, "J".into())]);
}

#[test]
fn what_a_service_can_never_have_ends_at_once() {
    let mut world = open();
    let book = ItemRequestSpec { domain: Domain::HISTORY, ..ItemRequestSpec::new("S", "B") };
    world.core.subscribe(&book).expect("new");
    let delayed = Qos { timeliness: rwf::Timeliness::Delayed(15), ..Qos::REAL_TIME };
    world
        .core
        .subscribe(&ItemRequestSpec { qos: Some(delayed), ..ItemRequestSpec::new("S", "D") })
        .expect("new");
    world.settle();
    let refused = |item, why| format!("{item} status closed/suspect, invalid argument, \"{why}\", final");
    let domain = refused("B", "domain not among the capabilities of the service");
    assert_eq!(world.words(), [domain, refused("D", "quality of service not offered")]);
    assert_eq!((world.server().requests(), world.core.item_count()), (vec![], 1));
    let wide = ItemRequestSpec { view: Some([1; 40_000].into()), ..ItemRequestSpec::new("S", "V") };
    world.manners.features.view_requests = Some(true);
    world.cut();
    world.advance(SECOND);
    world.words();
    world.core.subscribe(&wide).expect("new");
    world.settle();
    assert_eq!(world.words(), ["V status closed/suspect, usage error, \"request too long\", final"]);
}

#[test]
fn no_more_requests_are_out_than_the_window_of_the_service_allows() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    world.manners.services[0].load = Load { open_window: Some(2), ..Load::default() };
    for name in ["A", "B", "C", "D"] {
        world.item(name);
    }
    world.begin();
    assert_eq!(world.server().requests(), [(3, "A".into()), (4, "B".into())]);
    world.say(&RefreshMsg { payload: &fields(1), ..image(3, 1) });
    assert_eq!(world.server().requests(), [(5, "C".into())], "an answer makes room");
    world.say(&status(4, State::new(StreamState::Closed, DataState::Suspect)));
    assert_eq!(world.server().requests(), [(6, "D".into())], "a refusal as well");
    world.item("E");
    world.settle();
    assert_eq!(world.server().requests(), []);
    world.change_service(1, |service| service.load.open_window = Some(3));
    assert_eq!(world.server().requests(), [(7, "E".into())]);
}

#[test]
fn no_more_items_are_open_than_the_service_allows() {
    let mut world = plain(|_| ());
    world.manners.services[0].load = Load { open_limit: Some(2), ..Load::default() };
    let handles = ["A", "B", "C"].map(|name| world.item(name));
    world.settle();
    assert_eq!(world.item_words(), ["A refresh open/ok", "B refresh open/ok"]);
    assert!(world.core.unsubscribe(handles[0]));
    world.settle();
    assert_eq!(world.item_words(), ["C refresh open/ok"]);
    world.item("D");
    world.settle();
    assert_eq!(world.item_words(), [""; 0]);
    world.say(&status(4, State::new(StreamState::Closed, DataState::Suspect)));
    assert_eq!(world.item_words(), ["B status closed/suspect, final", "D refresh open/ok"]);
}

#[test]
fn a_state_of_the_service_is_that_of_its_items() {
    let mut world = open();
    let say = |world: &mut Consumers, stream, text: &str| {
        let state = State::new(stream, DataState::Suspect).because(StateCode::NONE, text);
        let elements = StateElements { status: Some(OwnedState::from(state)), ..StateElements::default() };
        let edits = vec![Edit::State(Change::Update(StateElements { up: Some(true), ..elements }))];
        world.say_directory(vec![ServiceDelta { service_id: 1, action: MapAction::Update, edits }]);
    };
    say(&mut world, StreamState::Open, "line trouble");
    assert_eq!(world.item_words(), ["I status open/suspect, \"line trouble\""]);
    say(&mut world, StreamState::ClosedRecover, "again, please");
    assert_eq!(world.item_words(), ["I status open/suspect, \"again, please\""]);
    world.advance(SECOND);
    assert_eq!(world.server().requests(), [(4, "I".into())]);
}

#[test]
fn a_state_of_a_group_is_that_of_its_items_alone() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    for name in ["A", "B", "C"] {
        world.item(name);
    }
    world.begin();
    for (stream_id, group_id) in [(3, &[0, 1][..]), (4, &[0, 2]), (5, &[0, 0])] {
        world.say(&RefreshMsg { group_id, payload: &fields(1), ..image(stream_id, 1) });
    }
    world.words();
    let say = |world: &mut Consumers, group_id: [u8; 2], merged_to: Option<[u8; 2]>, text: &str| {
        let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, text);
        let group = GroupElements {
            group_id: group_id.into(),
            merged_to: merged_to.map(Into::into),
            status: Some(OwnedState::from(state)),
        };
        let edits = vec![Edit::Group(Change::Set(group))];
        world.say_directory(vec![ServiceDelta { service_id: 1, action: MapAction::Update, edits }]);
    };
    say(&mut world, [0, 1], None, "one");
    assert_eq!(world.item_words(), ["A status open/suspect, \"one\""]);
    say(&mut world, [0, 0], None, "none");
    assert_eq!(world.item_words(), [""; 0], "items without a group are not a group");
    say(&mut world, [0, 1], Some([0, 2]), "merged");
    assert_eq!(world.item_words(), ["A status open/suspect, \"merged\""]);
    say(&mut world, [0, 2], None, "two");
    assert_eq!(world.item_words(), ["A status open/suspect, \"two\"", "B status open/suspect, \"two\""]);
}

#[test]
fn a_service_that_has_another_number_after_a_reconnect_is_the_same_to_its_items() {
    let mut world = open();
    world.manners.sends_images = true;
    world.manners.services = vec![service(9, "S")];
    world.cut();
    world.item("J");
    world.words();
    world.advance(SECOND);
    assert_eq!(world.item_words(), ["I refresh open/ok", "J refresh open/ok"]);
}

#[test]
fn services_that_a_new_directory_does_not_name_are_gone_though_it_clears_no_cache() {
    let mut world = open();
    world.manners.sends_directory = false;
    world.cut();
    world.words();
    world.advance(SECOND);
    world.say(&DirectoryRefresh {
        stream_id: 2,
        solicited: true,
        complete: true,
        clear_cache: false,
        state: State::OPEN_OK,
        filter: Some(Filter::ALL),
        service_id: None,
        services: vec![ServiceDelta::added(&service(5, "OTHER"))],
    });
    let words = world.words();
    assert!(words.contains(&"service 1 S Removed".to_owned()), "{words:?}");
}

#[test]
fn services_that_are_gone_after_a_reconnect_are_told() {
    let mut world = open();
    world.manners.services = vec![service(5, "OTHER")];
    world.cut();
    world.words();
    world.advance(SECOND);
    let words = world.words();
    assert!(words.contains(&"service 1 S Removed".to_owned()), "{words:?}");
    assert!(words.contains(&"service 5 OTHER Added, up true".to_owned()), "{words:?}");
}
