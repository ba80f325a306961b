//! Sessions recorded between the public Java libraries, played as the server.

use std::ops::ControlFlow;
use std::sync::Arc;

use counters::table::RsslConnections;
use rdm::directory::{Directory, DirectoryRefresh, Service};
use rdm::item::{ItemRequest, View};
use rdm::login::LoginRequest;
use rssl::{Handler, Outbound, ServerConfig, ServerConnection, Session, Stop};
use rwf::{MapAction, Msg, RefreshMsg, RequestMsg, Value};
use tickcast_client::{
    ConsumerConfig, ConsumerCore, ConsumerEvent, Endpoint, Identity, ItemHandle, ItemMsg, ItemRequestSpec,
    OwnedEvent, ProviderConfig, ProviderCore, ProviderServiceConfig, PublishSpec, Published, RefreshSpec,
    Socket, UpdateSpec,
};
use units::Nanos;

use crate::session_file::{Direction, load};

const NOW: Nanos = Nanos(1);

/// The messages in what a client has sent.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    #[derive(Default)]
    struct Heard(Vec<Vec<u8>>);
    impl Handler for Heard {
        fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
            ControlFlow::Continue(())
        }
        fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
            self.0.push(message.to_vec());
            ControlFlow::Continue(())
        }
    }
    let params =
        Arc::new(ServerConfig { ping_timeout_min_s: 1, ..ServerConfig::default() }.check().expect("good"));
    let mut server = ServerConnection::new(NOW, &params, &Arc::new(RsslConnections::default()), 1);
    let mut heard = Heard::default();
    server.on_bytes(NOW, bytes, &mut heard).expect("a good client");
    heard.0
}

/// What the stock client of a session has sent.
fn stock_messages(name: &str) -> Vec<Vec<u8>> {
    let to_server = load(name).into_iter().filter(|segment| segment.direction == Direction::ToServer);
    messages(&to_server.filter_map(|segment| segment.bytes).flatten().collect::<Vec<u8>>())
}

/// The bytes that a core has sent in a session.
struct Played {
    sent: Vec<u8>,
}

/// Plays the server of a session to a core.
fn play<E: Endpoint>(name: &str, core: &mut E, mut sink: impl FnMut(E::Event<'_>)) -> Played {
    assert!(matches!(core.socket(NOW), Socket::Connect(_)));
    core.on_established(NOW);
    let mut sent = Vec::new();
    for segment in load(name).iter().filter(|segment| segment.direction == Direction::ToClient) {
        let pending = core.pending().to_vec();
        core.consume(NOW, pending.len());
        sent.extend(pending);
        // The end follows that of the client.
        core.on_bytes(NOW, segment.bytes.as_deref().unwrap_or_default(), &mut sink);
    }
    let pending = core.pending().to_vec();
    core.consume(NOW, pending.len());
    sent.extend(pending);
    Played { sent }
}

/// A consumer with the login of a session's stock client, and the items that it asked for.
fn consumer_like(
    stock: &[Vec<u8>],
    change: impl FnOnce(&mut ConsumerConfig),
) -> (ConsumerCore, Vec<ItemHandle>) {
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).expect("text");
    let login = RequestMsg::parse(&stock[0]).expect("a login");
    let login = LoginRequest::parse(&login).expect("legal");
    let mut config = ConsumerConfig {
        user: text(Some(login.name)),
        application_id: text(Some(login.application_id)),
        application_name: text(login.application_name),
        position: text(login.position),
        round_trip_measurement: login.round_trip_latency.is_some(),
        ..ConsumerConfig::default()
    };
    change(&mut config);
    let identity = Identity { password: login.password.map(|word| text(Some(word))), ..Identity::default() };
    let mut core = ConsumerCore::new(&config, &identity, 1).expect("a good configuration");
    let handles = item_requests(stock).map(|request| {
        let rdm::item::Target::Item(key) = &request.target else { panic!("stock consumers send no batches") };
        let view = match &request.view {
            Some(View::Fields(ids)) => Some(Arc::clone(ids)),
            _ => None,
        };
        let spec = ItemRequestSpec {
            domain: request.domain,
            streaming: request.streaming,
            private_stream: request.private_stream,
            view: view.map(Into::into),
            ..ItemRequestSpec::new("DIRECT_FEED", str::from_utf8(key.name).expect("text"))
        };
        core.subscribe(&spec).expect("each once")
    });
    let handles = handles.collect();
    (core, handles)
}

fn item_requests(messages: &[Vec<u8>]) -> impl Iterator<Item = ItemRequest<'_>> {
    messages.iter().filter_map(|bytes| match Msg::parse(bytes) {
        Ok(Msg::Request(request)) if rdm::item::has_items(request.domain) => {
            ItemRequest::parse(&request).ok()
        }
        _ => None,
    })
}

/// Counts of refreshes, updates and statuses of items, and of those that end one.
fn tally(events: &[OwnedEvent]) -> [usize; 4] {
    let mut tally = [0; 4];
    for event in events {
        let OwnedEvent::Item(event) = event else { continue };
        let kind = event.view(|view| match view.msg() {
            ItemMsg::Refresh(_) => 0,
            ItemMsg::Update(_) => 1,
            _ => 2,
        });
        tally[kind] += 1;
        tally[3] += usize::from(event.is_final);
    }
    tally
}

#[test]
fn we_ask_for_what_stock_consumers_ask_for_to_the_byte_and_deliver_what_they_were_sent() {
    // refreshes, updates, statuses, ends; as the descriptions of the sessions list them
    for (name, expected) in [
        ("plain", [2, 4, 0, 0]),
        ("notfound", [0, 0, 1, 1]),
        ("provider_close", [1, 2, 1, 1]),
        ("dict_fragmented", [1, 0, 0, 0]),
        ("password_user", [1, 0, 0, 0]),
        ("rtt", [1, 0, 0, 0]),
        ("snapshot_private", [1, 0, 0, 1]),
        ("private", [1, 1, 0, 0]),
        ("view_batch", [2, 2, 0, 0]),
        ("mbo", [1, 0, 0, 0]),
        ("symbollist", [1, 0, 0, 0]),
        ("seqnum_alltypes", [1, 1, 0, 0]),
        ("big_plain", [1, 1, 0, 0]),
    ] {
        let stock = stock_messages(name);
        let (mut core, handles) = consumer_like(&stock, |_| ());
        let mut events = Vec::new();
        let mut ours = play(name, &mut core, |event| events.push(OwnedEvent::from(event)));
        assert_eq!(tally(&events), expected, "{name}");
        for handle in handles {
            core.unsubscribe(handle);
        }
        core.on_wakeup(NOW, &mut |_| ());
        core.stop(NOW, &mut |_| ());
        ours.sent.extend_from_slice(core.pending());
        let ours = messages(&ours.sent);
        assert_eq!(ours.len(), stock.len(), "{name}");
        for (ours, stock) in ours.iter().zip(&stock) {
            // The Java library writes the length of an array in three bytes where one does.
            let views =
                [ours, stock].map(|bytes| RequestMsg::parse(bytes).ok().filter(|request| request.view));
            match views {
                [Some(ours), Some(stock)] => {
                    assert_eq!(ItemRequest::parse(&ours), ItemRequest::parse(&stock))
                }
                _ => assert_eq!(ours, stock, "{name}: {:?}", Msg::parse(stock)),
            }
        }
        let counts = core.counters();
        assert_eq!((counts.messages_refused.get(), counts.messages_unwanted.get()), (0, 0), "{name}");
    }
}

#[test]
fn the_values_of_a_recorded_session_are_read_through_the_downloaded_dictionary() {
    let (mut core, _) = consumer_like(&stock_messages("plain"), |config| config.keep_images = true);
    let mut bids = Vec::new();
    play("plain", &mut core, |event| {
        if let ConsumerEvent::Item(event) = event {
            let Ok(Some(Value::Real(bid))) = event.field("BID") else { panic!("each message has a bid") };
            bids.push((event.name().to_owned(), bid.to_f64()));
        }
    });
    let expected = [39.90, 39.90, 39.91, 39.91, 39.92, 39.92];
    let names = ["TEST.1", "TEST.2"].into_iter().cycle();
    assert!(bids.iter().map(|(name, bid)| (name.as_str(), *bid)).eq(names.zip(expected)), "{bids:?}");
    let handle = core.find("DIRECT_FEED", rwf::Domain::MARKET_PRICE, "TEST.2").expect("open");
    let text = core.image_field(handle, "DSPLY_NAME");
    assert!(matches!(text, Ok(Some(Value::Rmtes(name))) if name.0 == b"TEST.2"), "{text:?}");
    let currency = core.dictionary().expect("downloaded").enum_display(15, 840);
    assert_eq!(currency, Some(&b"USD"[..]));
}

#[test]
fn a_recorded_refusal_of_the_login_stops_the_consumer() {
    let stock = stock_messages("login_reject");
    let (mut core, _) = consumer_like(&stock, |_| ());
    let mut refused = Vec::new();
    let ours = play("login_reject", &mut core, |event| {
        if let ConsumerEvent::LoginRefused { state, retry } = event {
            refused.push((state.to_string(), retry));
        }
    });
    assert_eq!(refused, [("closed/suspect, not entitled, \"denied\"".to_owned(), false)]);
    assert!(core.is_stopped());
    assert_eq!(messages(&ours.sent), stock);
}

#[test]
fn a_recorded_book_is_read_entry_by_entry() {
    let (mut core, _) = consumer_like(&stock_messages("mbo"), |config| config.keep_images = true);
    let mut entries = Vec::new();
    play("mbo", &mut core, |event| {
        let ConsumerEvent::Item(event) = event else { return };
        let map = event.map().expect("a map");
        for entry in map.entries() {
            let entry = entry.expect("legal");
            let fields = entry.fields().expect("legal").filter(|field| field.is_ok()).count();
            entries.push((entry.action, fields));
        }
    });
    assert!(
        !entries.is_empty()
            && entries.iter().all(|(action, fields)| *action == MapAction::Add && *fields > 0)
    );
    let handle = core.find("DIRECT_FEED", rwf::Domain::MARKET_BY_ORDER, "BOOK.1").expect("open");
    let Some(market::image::Image::Map(book)) = core.image(handle).map(market::CachedItem::image) else {
        panic!("a map is kept")
    };
    assert_eq!(book.len(), entries.len());
}

#[test]
fn we_publish_what_a_stock_provider_publishes() {
    let stock = stock_messages("ni");
    let parsed: Vec<Msg<'_>> = stock.iter().map(|bytes| Msg::parse(bytes).expect("legal")).collect();
    let Msg::Request(login) = &parsed[0] else { panic!("a login") };
    let login = LoginRequest::parse(login).expect("legal");
    let Msg::Refresh(directory) = &parsed[1] else { panic!("a directory") };
    let directory = DirectoryRefresh::parse(directory).expect("legal");
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).expect("text");
    let theirs = services(&directory);
    let service = &theirs[0];
    let config = ProviderConfig {
        user: text(Some(login.name)),
        application_name: text(login.application_name),
        position: text(login.position),
        services: vec![ProviderServiceConfig {
            name: service.info.name.clone(),
            id: service.id,
            domains: service.info.capabilities.iter().map(|domain| domain.0).collect(),
            ..ProviderServiceConfig::default()
        }],
        ..ProviderConfig::default()
    };
    let mut core = ProviderCore::new(&config, &Identity::default(), 1).expect("a good configuration");
    let mut sent = play("ni", &mut core, |_| ()).sent;
    for msg in &parsed[2..] {
        publish(&mut core, &service.info.name, msg);
    }
    core.stop(&mut |_| ());
    sent.extend_from_slice(core.pending());
    let ours = messages(&sent);
    assert_eq!(ours.len(), stock.len());
    for (ours, (stock, theirs)) in ours.iter().zip(stock.iter().zip(&parsed)) {
        match (Msg::parse(ours).expect("legal"), theirs) {
            (Msg::Refresh(ours), Msg::Refresh(theirs)) if theirs.domain == rwf::Domain::SOURCE => {
                let (ours, directory) = (DirectoryRefresh::parse(&ours).expect("legal"), &directory);
                assert_eq!(
                    (ours.stream_id, ours.solicited, ours.clear_cache),
                    (0, false, directory.clear_cache)
                );
                let (ours, theirs) = (&services(&ours)[0], &services(directory)[0]);
                assert_eq!(
                    (&ours.info.name, ours.id, ours.state.up),
                    (&theirs.info.name, theirs.id, theirs.state.up)
                );
                assert_eq!(ours.info.capabilities, theirs.info.capabilities);
            }
            // Theirs says nothing of what a cache had before; ours says that it is void.
            (Msg::Refresh(ours), Msg::Refresh(theirs)) => {
                assert_eq!(RefreshMsg { clear_cache: false, ..ours }, *theirs)
            }
            // The length of the attributes is written in two bytes where one does.
            (Msg::Request(ours), Msg::Request(theirs)) => {
                assert_eq!(LoginRequest::parse(&ours), LoginRequest::parse(theirs));
            }
            _ => assert_eq!(ours, stock, "{theirs:?}"),
        }
    }
}

fn services(refresh: &DirectoryRefresh<'_>) -> Vec<Service> {
    let mut directory = Directory::default();
    directory.apply_refresh(refresh).expect("legal");
    directory.services().cloned().collect()
}

/// Publishes what a recorded message says.
fn publish(core: &mut ProviderCore, service: &str, msg: &Msg<'_>) {
    let Some(name) = msg.key().and_then(|key| key.name) else { return };
    let name = str::from_utf8(name).expect("text");
    let spec = PublishSpec { key_in_updates: true, ..PublishSpec::new(msg.domain(), service, name) };
    let item = core.item(&spec).expect("it can be published");
    let published = match msg {
        Msg::Refresh(msg) => {
            let spec = RefreshSpec { state: msg.state, ..RefreshSpec::default() };
            core.refresh(item, &spec, |w| w.bytes(msg.payload))
        }
        Msg::Update(msg) => {
            let spec = UpdateSpec { update_type: msg.update_type, ..UpdateSpec::default() };
            core.update(item, &spec, |w| w.bytes(msg.payload))
        }
        Msg::Status(msg) => core.status(item, msg.state.expect("a state")),
        other => panic!("stock providers send no {:?}", other.class()),
    };
    assert_eq!(published, Ok(Published::Sent));
}
