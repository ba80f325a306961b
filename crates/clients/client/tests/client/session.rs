//! Connecting, logging in, losing it, coming back.

use std::time::Duration;

use rdm::login::{LoginRequest, LoginStatus, RoundTrip};
use rssl::ConnectionVersion;
use rssl::handshake::ConnectRequest;
use rwf::{
    CloseMsg, DataState, DataType, Domain, GenericMsg, Msg, Real, RefreshMsg, RequestMsg, State, StateCode,
    StatusMsg, StreamState, Value,
};
use tickcast_client::{
    ConsumerConfig, ConsumerCore, Endpoint, HostPort, Identity, ItemRequestSpec, OwnedEvent,
};

use crate::consumers::{consumer, plain};
use crate::world::{Door, fields, status, update};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_consumer_logs_in_learns_services_and_fields_and_gets_its_item() {
    let mut world = consumer(|_| ());
    let handle = world.item("I");
    world.settle();
    let events = world.told.clone();
    assert_eq!(
        world.words(),
        [
            "connected localhost:14002",
            "logged in open/ok",
            "service 1 S Added, up true",
            "dictionary of 3",
            "I refresh open/ok",
        ]
    );
    let Some(OwnedEvent::Item(refresh)) = events.last() else { panic!("{events:?}") };
    assert_eq!((refresh.handle, refresh.field("BID")), (handle, Ok(Some(Value::Real(Real::decimal(1, 2))))));
    world.say(&update(5, &fields(7)));
    assert_eq!(world.words(), ["I update open/ok"]);
    let counts = world.counts();
    assert_eq!(
        (counts.connect_attempts.get(), counts.logins.get(), counts.dictionary_downloads.get()),
        (1, 1, 1)
    );
    assert_eq!((counts.services.get(), counts.items.get(), counts.items_open.get()), (1, 1, 1));
    assert_eq!((counts.requests_sent.get(), counts.refreshes_in.get(), counts.updates_in.get()), (1, 1, 1));
}

#[test]
fn pings_keep_an_idle_session_for_hours() {
    let mut world = plain(|_| ());
    world.begin();
    world.advance(Duration::from_secs(4 * 3600));
    assert_eq!(world.words(), [""; 0]);
    assert_eq!(world.counts().connect_attempts.get(), 1);
}

#[test]
fn a_lost_connection_makes_items_suspect_and_they_come_back_with_new_streams() {
    let mut world = plain(|_| ());
    world.manners.sends_images = false;
    let names = ["A", "B"];
    for name in names {
        world.item(name);
    }
    world.begin();
    assert_eq!(world.server().requests(), [(3, "A".into()), (4, "B".into())]);
    world.say(&RefreshMsg { payload: &fields(1), ..crate::world::image(3, 1) });
    assert_eq!(world.words(), ["A refresh open/ok"]);
    world.cut();
    let words = world.words();
    assert!(
        words[0].starts_with("disconnected localhost:14002: peer closed the connection; again in "),
        "{words:?}"
    );
    let lost = |name| format!("{name} status open/suspect, \"connection to the server lost\"");
    assert_eq!(words[1..], names.map(lost));
    assert!(!world.core.is_logged_in());
    world.manners.sends_images = true;
    world.advance(SECOND);
    assert_eq!(
        world.words(),
        ["connected localhost:14002", "logged in open/ok", "A refresh open/ok", "B refresh open/ok"],
        "the service is as it was, so nothing is said of it"
    );
    let counts = world.counts();
    assert_eq!(
        (counts.disconnects.get(), counts.connect_attempts.get(), counts.requests_sent.get()),
        (1, 2, 4)
    );
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_message_costs_nothing_but_the_connection() {
    let mut world = plain(|config| config.keep_images = true);
    let handle = world.item("I");
    world.begin();
    let long = rwf::encode_to_vec(|w| {
        w.field_list(|f| (1..2_000).for_each(|id| f.put(id, Real::decimal(i64::from(id), 0))));
    })
    .expect("legal");
    let message = rdm::ToVec::to_vec(&update(3, &long)).expect("legal");
    assert!(message.len() > 6144, "it goes in fragments");
    world.server().connection.outbound().push(&message).expect("room");
    let bytes = world.server().connection.outbound().flush().to_vec();
    let now = world.now;
    world.core.on_bytes(now, &bytes[..7_000], &mut |_| panic!("the message is not complete"));
    world.cut();
    world.words();
    world.advance(SECOND);
    assert_eq!(world.item_words(), ["I refresh open/ok"]);
    assert_eq!(
        world.core.image_field(handle, 1i16),
        Ok(None),
        "nothing of the broken update is in the image"
    );
    assert!(world.core.image_field(handle, 22i16).is_ok_and(|bid| bid.is_some()));
}

#[test]
fn servers_are_tried_in_turn_and_then_again_after_delays_that_double() {
    let mut world = plain(|config| {
        config.hosts = ["a:1", "b:2", "c:3"].map(|h| h.parse::<HostPort>().expect("good")).into()
    });
    world.door = Door::Shut;
    world.settle();
    assert_eq!(world.connects, ["a:1", "b:2", "c:3"]);
    let waits = |world: &mut crate::consumers::Consumers| -> Vec<Duration> {
        let told = world.take_told().into_iter();
        told.filter_map(
            |event| if let OwnedEvent::Disconnected { retry_in, .. } = event { retry_in } else { None },
        )
        .collect()
    };
    let first = waits(&mut world);
    assert_eq!(first[..2], [Duration::ZERO; 2]);
    assert!((SECOND / 2..=SECOND).contains(&first[2]), "{first:?}");
    for (least, most) in [(1_000, 2_000), (2_000, 4_000), (2_500, 5_000), (2_500, 5_000)] {
        world.connects.clear();
        // The next round begins when the delay that was told is over, and not before.
        let due = world.core.next_wakeup().since(world.now);
        world.advance(due - Duration::from_nanos(1));
        assert_eq!(world.connects, [""; 0]);
        world.advance(Duration::from_nanos(1));
        assert_eq!(world.connects, ["a:1", "b:2", "c:3"]);
        let waits = waits(&mut world);
        assert!((least..=most).contains(&waits[2].as_millis()), "{waits:?}");
    }
    assert_eq!(world.counts().connect_failures.get(), 15);
    world.door = Door::Open;
    world.advance(5 * SECOND);
    assert!(world.core.is_logged_in());
    world.connects.clear();
    world.take_told();
    world.door = Door::Shut;
    world.cut();
    world.settle();
    assert_eq!(world.connects, ["b:2", "c:3"], "the one that was lost has had its turn");
    assert!(waits(&mut world)[2] <= SECOND, "success begins anew with the shortest delay");
}

#[test]
fn a_connection_that_is_neither_made_nor_refused_is_given_up() {
    let mut world = plain(|config| config.connect_timeout_ms = 2_000);
    world.door = Door::Silent;
    world.advance(Duration::from_millis(1_999));
    assert_eq!(world.words(), [""; 0]);
    world.advance(Duration::from_millis(1));
    assert!(world.words()[0].contains("not connected within 2000 ms; again in"));
}

#[test]
fn a_server_that_does_not_answer_is_offered_lower_versions_at_once() {
    let mut world = plain(|_| ());
    world.door = Door::Slammed;
    world.settle();
    assert_eq!(world.connects.len(), 4, "versions 14 to 11");
    let words = world.words();
    assert!(
        words[0].contains("offer of version 11 not answered, no lower version to offer; again in"),
        "{words:?}"
    );
    assert_eq!((words.len(), world.counts().version_fallbacks.get()), (1, 3));
    world.door = Door::Open;
    world.advance(SECOND);
    assert!(world.core.is_logged_in());
    let version = world.server().connection.negotiated().expect("established").version;
    assert_eq!(version, ConnectionVersion::V14, "the next attempt begins with the highest");
}

#[test]
fn a_server_that_falls_silent_is_given_up_after_its_ping_timeout() {
    let mut world = plain(|_| ());
    world.item("I");
    world.begin();
    world.server().is_deaf = true;
    world.advance(Duration::from_secs(29));
    assert_eq!(world.words(), [""; 0]);
    world.advance(Duration::from_secs(2));
    let words = world.words();
    assert!(words[0].contains("nothing received for 30000 ms"), "{words:?}");
    assert_eq!(words.last().map(String::as_str), Some("I refresh open/ok"), "and it is back");
}

#[test]
fn a_login_that_is_refused_for_good_is_not_tried_again_until_the_application_wants_it() {
    let mut world = plain(|_| ());
    world.item("I");
    world.manners.logs_in = false;
    world.settle();
    let request = LoginRequest::consumer(b"ada");
    world.say(&LoginStatus::reject(&request, StateCode::NOT_ENTITLED, "denied"));
    assert_eq!(
        world.words(),
        [
            "connected localhost:14002",
            "login refused closed/suspect, not entitled, \"denied\"",
            "disconnected localhost:14002: login refused by the server (not entitled); for good",
        ]
    );
    assert!(world.core.is_stopped() && world.server.is_none());
    world.advance(Duration::from_secs(3600));
    assert_eq!((world.words(), world.connects.len()), (vec![], 1));
    world.manners.logs_in = true;
    world.core.restart(world.now);
    world.settle();
    assert_eq!(world.words().last().map(String::as_str), Some("I refresh open/ok"));
    let counts = world.counts();
    assert_eq!((counts.logins_refused.get(), counts.connect_failures.get(), counts.logins.get()), (1, 1, 1));
}

#[test]
fn a_login_that_is_refused_for_now_is_tried_again() {
    let mut world = plain(|_| ());
    world.manners.logs_in = false;
    world.settle();
    let request = LoginRequest::consumer(b"ada");
    world.say(&LoginStatus::retry_later(&request, StateCode::NO_RESOURCES, "busy"));
    let words = world.words();
    assert_eq!(words[1], "login refused closed-recover/suspect, no resources, \"busy\", retry");
    assert!(words[2].contains("login ended by the server (no resources); again in"), "{words:?}");
    world.manners.logs_in = true;
    world.advance(SECOND);
    assert!(world.core.is_logged_in());
}

#[test]
fn a_login_that_the_server_ends_later_is_treated_alike() {
    let mut world = plain(|_| ());
    world.item("I");
    world.begin();
    let trouble = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, "source lost");
    let login = |state| LoginStatus { stream_id: 1, state: Some(state), ..LoginStatus::default() };
    world.say(&login(trouble));
    world.say(&login(State::OPEN_OK));
    assert_eq!(world.words(), ["login open/suspect, \"source lost\"", "login open/ok"]);
    world.say(&login(State::new(StreamState::Closed, DataState::Suspect)));
    assert_eq!(
        world.words(),
        [
            "login refused closed/suspect",
            "disconnected localhost:14002: login refused by the server (none); for good",
            "I status open/suspect, \"connection to the server lost\"",
        ]
    );
    assert_eq!(world.counts().disconnects.get(), 1);
}

#[test]
fn answers_that_do_not_come_in_time_cost_the_connection() {
    let mut world = plain(|config| (config.login_timeout_ms, config.directory_timeout_ms) = (3_000, 4_000));
    world.manners.logs_in = false;
    world.advance(Duration::from_millis(3_000));
    assert!(world.words()[1].contains("login not answered within 3000 ms; again in"));
    world.manners.logs_in = true;
    world.manners.sends_directory = false;
    world.advance(SECOND);
    world.words();
    world.advance(Duration::from_millis(4_000));
    let words = world.words();
    assert!(words[0].contains("no source directory within 4000 ms; again in"), "{words:?}");
}

#[test]
fn a_directory_that_the_server_ends_costs_the_connection() {
    let mut world = plain(|_| ());
    world.begin();
    let state = State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::TIMEOUT, "");
    world.say(&StatusMsg { state: Some(state), ..StatusMsg::new(Domain::SOURCE, 2, DataType::NO_DATA) });
    assert!(world.words()[0].contains("source directory ended by the server (timeout); again in"));
}

#[test]
fn messages_that_are_malformed_or_out_of_place_cost_the_connection_with_their_reason() {
    let request = |domain, stream_id| {
        rdm::ToVec::to_vec(&RequestMsg::new(domain, stream_id, DataType::NO_DATA)).expect("legal")
    };
    let close = |domain, stream_id| {
        rdm::ToVec::to_vec(&CloseMsg::new(domain, stream_id, DataType::NO_DATA)).expect("legal")
    };
    let bad: [(Vec<u8>, &str); 7] = [
        (vec![0, 9, 9, 6, 0, 0, 0, 3, 0, 4, 0], "unknown message class 9"),
        (vec![0, 200, 4, 6], "message header: 200 bytes needed, 2 left"),
        (request(Domain::LOGIN, 1), "key name: missing"),
        (close(Domain::LOGIN, 1), "login: no use for a Close message"),
        (close(Domain::SOURCE, 2), "source directory: no use for a Close message"),
        (request(Domain::MARKET_PRICE, 3), "market price: no use for a Request message"),
        (close(Domain::MARKET_PRICE, 3), "market price: no use for a Close message"),
    ];
    for (bytes, why) in bad {
        let mut world = plain(|_| ());
        world.item("I");
        world.begin();
        world.say_bytes(&bytes);
        let words = world.words();
        assert!(words[0].contains(&format!("message refused: {why}")), "{words:?}");
        assert_eq!((world.counts().messages_refused.get(), world.counts().disconnects.get()), (1, 1));
        world.advance(SECOND);
        assert!(world.core.is_logged_in());
    }
}

#[test]
fn messages_on_streams_that_nobody_has_are_counted_and_passed_over() {
    let mut world = plain(|_| ());
    world.begin();
    for stream_id in [-1, 0, 99, i32::MAX] {
        world.say(&status(stream_id, State::OPEN_OK));
    }
    assert_eq!((world.words(), world.counts().messages_unwanted.get()), (vec![], 4));
}

#[test]
fn a_round_trip_is_offered_where_it_is_configured_and_sent_back_unchanged() {
    let login_of = |offers: bool| {
        let mut world = plain(|config| config.round_trip_measurement = offers);
        world.manners.logs_in = false;
        world.settle();
        let bytes = world.server().inbox.remove(0);
        let request = RequestMsg::parse(&bytes).expect("a login");
        LoginRequest::parse(&request).expect("legal").round_trip_latency
    };
    assert_eq!((login_of(false), login_of(true)), (None, Some(2)));
    let mut world = plain(|_| ());
    world.begin();
    let ping =
        RoundTrip { stream_id: 1, ticks: 77, last_latency_us: Some(5), tcp_retransmission_count: None };
    world.say(&ping);
    let bytes = world.server().inbox.remove(0);
    let back = RoundTrip::parse(&GenericMsg::parse(&bytes).expect("a generic message")).expect("legal");
    assert_eq!((back, world.counts().round_trips.get()), (Some(ping), 1));
}

#[test]
fn a_consumer_that_is_stopped_logs_out_and_stays_away() {
    let mut world = plain(|_| ());
    world.item("I");
    world.begin();
    let (now, mut told) = (world.now, Vec::new());
    world.core.stop(now, &mut |event| told.push(OwnedEvent::from(event)));
    assert_eq!(told.len(), 2, "disconnected, and the item suspect");
    world.settle();
    assert!(
        world.server.is_none() && world.lost == 1,
        "the logout has arrived before the end of the connection"
    );
    world.advance(Duration::from_secs(3600));
    assert_eq!(world.connects.len(), 1);
    world.core.stop(now, &mut |_| panic!("it is stopped already"));
}

#[test]
fn who_logs_in_is_what_is_configured_or_who_runs_the_process() {
    let login = |change: fn(&mut tickcast_client::ConsumerConfig)| {
        let mut world = plain(change);
        world.manners.logs_in = false;
        world.settle();
        world.server().inbox.remove(0)
    };
    let bytes = login(|_| ());
    let Ok(Msg::Request(msg)) = Msg::parse(&bytes) else { panic!("a login") };
    let request = LoginRequest::parse(&msg).expect("legal");
    assert_eq!((request.name, request.position), (&b"ada"[..], Some(&b"10.1.2.3/apphost"[..])));
    assert_eq!((request.application_id, request.password), (&b"256"[..], None));
    let bytes = login(|config| {
        config.user = "bob".into();
        config.position = "here".into();
        config.application_id = "300".into();
    });
    let Ok(Msg::Request(msg)) = Msg::parse(&bytes) else { panic!("a login") };
    let request = LoginRequest::parse(&msg).expect("legal");
    assert_eq!((request.name, request.position), (&b"bob"[..], Some(&b"here"[..])));
    assert_eq!((request.application_id, request.application_name), (&b"300"[..], Some(&b"tickcast"[..])));
}

#[test]
fn the_same_session_twice_is_the_same_to_the_byte() {
    let run = || {
        let mut world = consumer(|config| config.keep_images = true);
        for name in ["A", "B", "C"] {
            world.item(name);
        }
        world
            .core
            .subscribe(&ItemRequestSpec { streaming: false, ..ItemRequestSpec::new("S", "D") })
            .expect("new");
        world.advance(SECOND);
        world.cut();
        world.advance(3 * SECOND);
        (world.words(), world.connects.clone(), world.now, world.core.next_wakeup())
    };
    assert_eq!(run(), run());
}

#[test]
fn the_connection_handshake_says_which_host_and_component_this_is() {
    let mut world = plain(|config| (config.component, config.ping_timeout_s) = ("probe 7".into(), 12));
    world.door = Door::Silent;
    world.settle();
    let now = world.now;
    world.core.on_established(now);
    let request = ConnectRequest::parse(world.core.pending()).expect("a connect request");
    assert_eq!((request.host.to_string(), request.ip.to_string()), ("apphost".into(), "10.1.2.3".into()));
    assert_eq!((request.component_version.to_string(), request.ping_timeout_s), ("probe 7".into(), 12));
}

#[test]
fn a_host_name_that_the_handshake_cannot_hold_is_refused() {
    let identity = Identity { host_name: "x".repeat(250), ..Identity::default() };
    let core = ConsumerCore::new(&ConsumerConfig::default(), &identity, 1);
    assert!(core.is_err_and(|error| error.to_string().contains("host_name is 250")));
}

#[test]
fn a_session_moves_to_the_preferred_server_when_that_is_back() {
    let mut world = plain(|config| {
        config.hosts = vec![HostPort::new("a", 1), HostPort::new("b", 2)];
        config.preferred_host_check_s = 60;
    });
    world.item("I");
    world.door = Door::Shut;
    world.settle();
    world.door = Door::Open;
    world.advance(SECOND);
    // The round of both that failed, then the first, or the second: on we go until it is the second.
    while world.connects.last().is_some_and(|host| host == "a:1") {
        world.cut();
        world.advance(SECOND);
    }
    assert_eq!((world.connects.last().map(String::as_str), world.probes.len()), (Some("b:2"), 0));
    world.words();
    world.advance(61 * SECOND);
    assert_eq!(world.probes, ["a:1"]);
    assert_eq!(world.words(), [""; 0], "nothing happens as long as it does not answer");
    let (now, told) = (world.now, &mut world.told);
    world.core.on_reachable(now, &mut |event| told.push(event.into()));
    world.settle();
    assert_eq!(world.connects.last().map(String::as_str), Some("a:1"));
    let words = world.words();
    assert_eq!(words[0], "disconnected b:2: the preferred server is back; again in 0ns");
    assert_eq!(words.last().map(String::as_str), Some("I refresh open/ok"));
    world.advance(300 * SECOND);
    assert_eq!(world.probes.len(), 1, "it is where it wants to be");
}
