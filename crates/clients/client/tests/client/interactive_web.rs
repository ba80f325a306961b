//! An interactive provider and consumers that speak JSON over WebSocket, on both sides of a real socket.

use std::cell::RefCell;
use std::time::Duration;

use rwf::{DataState, Domain, Msg, StateCode, StreamState, Writer};
use tickcast_client::{
    ClientId, Consumer, ConsumerConfig, HostPort, InteractiveConfig, InteractiveEvent, InteractiveProvider,
    OwnedEvent, RefreshSpec, UpdateSpec, WebSocketConfig,
};

use crate::interactive::{
    Pair, everything_goes_all_the_way_and_back, port_for, publish, quote, tls_port, trusting,
};

fn with_websocket(config: &mut InteractiveConfig) {
    config.websocket_port = Some(0);
}

fn speaking_json(compression: bool) -> impl FnOnce(&mut ConsumerConfig) {
    move |config| config.websocket = Some(WebSocketConfig { compression, ..WebSocketConfig::default() })
}

fn pair() -> Pair {
    Pair::of(with_websocket, speaking_json(false))
}

/// The first client that has connected.
fn client(pair: &Pair) -> ClientId {
    let client = pair.events.iter().find_map(|event| match event {
        InteractiveEvent::Connected { client, .. } => Some(*client),
        _ => None,
    });
    client.expect("one has connected")
}

#[test]
fn updates_come_in_json_all_and_in_order_compressed_or_not() {
    for (is_compressed, name) in [(false, None), (true, Some("permessage-deflate"))] {
        let mut pair = Pair::of(with_websocket, speaking_json(is_compressed));
        pair.stream_two_thousand();
        let client = client(&pair);
        let traffic = pair.provider.connection(client).expect("it is there").traffic;
        assert_eq!(traffic.compression, name);
        // Login, directory, two dictionaries and the image come before them.
        assert_eq!(traffic.sent.messages, 2_005);
        assert!(traffic.sent.frames < 500, "{traffic:?}");
        assert_eq!(is_compressed, traffic.sent.compressed_bytes > 0, "{traffic:?}");
        let counts = pair.provider.websocket_counters().expect("there is the port");
        assert_eq!((counts.accepted.get(), counts.messages_out.get()), (1, 2_005));
        let json = pair.provider.json_counters().expect("there is the port");
        assert_eq!((json.messages_unwritable.get(), json.messages_refused.get()), (0, 0));
        assert_eq!(pair.provider.connection_counters().accepted.get(), 0, "of RSSL");
    }
}

#[test]
fn a_batch_a_post_and_a_generic_message_go_all_the_way_and_back() {
    everything_goes_all_the_way_and_back(pair());
}

#[test]
fn an_encrypted_session_is_like_any_other() {
    let tls = tls_port(None);
    let change = |config: &mut InteractiveConfig| {
        with_websocket(config);
        config.websocket.tls = Some(tls);
    };
    let mut pair = Pair::of(change, |config| {
        speaking_json(false)(config);
        config.tls = Some(trusting("ca"));
    });
    pair.stream_two_thousand();
    let client = client(&pair);
    let info = pair.provider.connection(client).expect("it is there");
    assert_eq!(info.tls_version, Some("TLS 1.3"));
}

#[test]
fn an_update_is_made_into_json_once_for_all_and_clients_of_rssl_have_it_too() {
    let mut pair = pair();
    let mut others = Vec::new();
    for websocket in [Some(WebSocketConfig::default()), None] {
        let mut config = ConsumerConfig { websocket, ..ConsumerConfig::default() };
        config.hosts = vec![HostPort::new("127.0.0.1", port_for(&pair.provider, &config))];
        let mut consumer = Consumer::new(&config).expect("descriptors");
        consumer.subscribe("S", "IBM.N").expect("new");
        others.push((consumer, Vec::<OwnedEvent>::new()));
    }
    let others = RefCell::new(others);
    let is_update = |event: &&OwnedEvent| match event {
        OwnedEvent::Item(item) => matches!(Msg::parse(&item.message), Ok(Msg::Update(_))),
        _ => false,
    };
    let counts_of_others = || {
        let mut others = others.borrow_mut();
        let counts = others.iter_mut().map(|(consumer, told)| {
            consumer.dispatch(Duration::ZERO, &mut |event| told.push(event.into())).expect("it can wait");
            told.iter().filter(is_update).count()
        });
        counts.collect::<Vec<_>>()
    };
    pair.consumer.subscribe("S", "IBM.N").expect("new");
    let mut answer = |provider: &mut InteractiveProvider, event: &InteractiveEvent| {
        if let InteractiveEvent::Requested { item, .. } = event {
            provider.refresh(*item, &RefreshSpec::default(), quote(3990)).expect("a good image");
        }
    };
    pair.run(&mut answer, |pair| {
        counts_of_others();
        pair.provider.counters().streams.get() == 3
    });
    let item = pair.provider.item(Domain::MARKET_PRICE, "S", "IBM.N").expect("it is asked for");
    let written = |pair: &Pair| pair.provider.json_counters().expect("the port").messages_written.get();
    let before = written(&pair);
    for bid in 0..10 {
        assert_eq!(pair.provider.update(item, &UpdateSpec::quote(), quote(bid)), Ok(3));
    }
    assert_eq!(written(&pair) - before, 10);
    pair.run(&mut answer, |pair| {
        counts_of_others() == [10, 10] && pair.told.iter().filter(is_update).count() == 10
    });
}

#[test]
fn a_login_that_is_refused_is_told_in_json() {
    let mut pair = Pair::of(
        |config| {
            with_websocket(config);
            config.asks_for_logins = true;
        },
        speaking_json(false),
    );
    let mut refuse = |provider: &mut InteractiveProvider, event: &InteractiveEvent| {
        if let InteractiveEvent::Login { client, login } = event {
            assert_eq!(login.user, "ada");
            assert!(provider.reject_login(*client, StateCode::NOT_ENTITLED, "who?"));
        }
    };
    pair.run(&mut refuse, |pair| pair.consumer.is_stopped());
    assert_eq!(pair.provider.counters().logins_refused.get(), 1);
}

/// States of the item that its consumer was told, with their texts, as far as they differ.
fn states(pair: &Pair) -> Vec<(StreamState, DataState, String)> {
    let mut states: Vec<(StreamState, DataState, String)> = Vec::new();
    for event in &pair.told {
        let OwnedEvent::Item(item) = event else { continue };
        let state = item.state.borrow();
        let state = (state.stream, state.data, String::from_utf8_lossy(state.text).into_owned());
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

#[test]
fn what_cannot_be_json_is_told_to_those_it_concerns() {
    let mut pair = Pair::of(with_websocket, |config| {
        speaking_json(false)(config);
        config.single_open = false;
    });
    let handle = pair.consumer.subscribe("S", "IBM.N").expect("new");
    pair.run(&mut publish, |pair| pair.bids(handle) == [3990]);
    let item = pair.provider.item(Domain::MARKET_PRICE, "S", "IBM.N").expect("it is asked for");
    let is_last = |pair: &Pair, stream, data| {
        states(pair).last().is_some_and(|state| (state.0, state.1) == (stream, data))
    };
    // A field list whose real has a format that there is not: nobody looks at a value before it is to be written.
    let broken = |w: &mut Writer<'_>| w.bytes(&[8, 0, 1, 0, 22, 2, 31, 1]);
    assert_eq!(pair.provider.update(item, &UpdateSpec::default(), broken), Ok(1));
    pair.run(&mut publish, |pair| is_last(pair, StreamState::Open, DataState::Suspect));
    assert!(states(&pair)[1].2.starts_with("an update cannot be written as JSON: "), "{:?}", states(&pair));
    assert_eq!(pair.provider.refresh(item, &RefreshSpec::default(), quote(3991)), Ok(1));
    pair.run(&mut publish, |pair| is_last(pair, StreamState::Open, DataState::Ok));
    assert_eq!(pair.provider.refresh(item, &RefreshSpec::default(), broken), Ok(1));
    pair.run(&mut publish, |pair| is_last(pair, StreamState::Closed, DataState::Suspect));
    assert!(states(&pair)[3].2.starts_with("the data cannot be written as JSON: "), "{:?}", states(&pair));
    assert_eq!(pair.provider.watcher_count(item), 0);
    assert_eq!(pair.provider.json_counters().expect("there is the port").messages_unwritable.get(), 2);
}
