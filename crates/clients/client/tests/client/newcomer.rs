//! What somebody meets who uses the library for the first time.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rdm::login::{BatchSupport, Features, LoginStatus};
use tickcast_client::rwf::dictionary::{Field, FieldType};
use tickcast_client::rwf::{self, FieldListWriter, UpdateMsg, encode_to_vec};
use tickcast_client::{
    Consumer, ConsumerSendError, DataState, DataType, DecodeError, Dictionary, DictionaryFault, Domain, Enum,
    FieldError, FieldProblem, GenericSpec, HostPort, HostPortError, InteractiveConfig, InteractiveProvider,
    ItemHandle, OwnedEvent, OwnedItemEvent, PostSpec, ProviderConfig, ProviderCore, ProviderServiceConfig,
    PublishError, PublishSpec, Published, Real, RefreshSpec, RmtesString, State, StreamState, SubscribeError,
    UpdateSpec, Value, Writer,
};

use crate::consumers::consumer;
use crate::sockets::{LIMIT, TestServer};
use crate::world::{dictionary, fields, identity, update};

/// The server of a test, as one writes it.
fn address(server: &TestServer) -> String {
    server.hosts()[0].to_string()
}

/// What comes until an event is `last`, in words.
fn lines(consumer: &mut Consumer, last: impl Fn(&OwnedEvent) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for event in consumer.events(LIMIT) {
        let event = event.expect("a poller");
        lines.push(event.to_string());
        if last(&event) {
            return lines;
        }
    }
    panic!("it does not come: {lines:#?}");
}

fn is_item(event: &OwnedEvent) -> bool {
    matches!(event, OwnedEvent::Item(event) if event.is_ok())
}

#[test]
fn five_lines_are_a_consumer_and_each_event_is_a_line_that_can_be_read() {
    let server = TestServer::start();
    let mut consumer = Consumer::connect(&address(&server)).expect("a host and port");
    consumer.subscribe("S", "I").expect("new");
    let before = lines(&mut consumer, is_item);
    assert!(before[0].starts_with(&format!("connected to {}", address(&server))), "{before:#?}");
    for line in ["service S is up", "dictionary of 3 fields", "S I refresh, open/ok: BID=0.01 ASK=0.02"] {
        assert!(before.iter().any(|said| said == line), "{line} not in {before:#?}");
    }
    server.say(&update(5, &fields(4007)));
    let event = consumer.next_event(LIMIT).expect("a poller").expect("it comes in time");
    assert_eq!(event.to_string(), "S I update: BID=40.07 ASK=40.08");
    assert_eq!(format!("{event:?}"), format!("OwnedEvent({event})"));
}

#[test]
fn events_that_were_read_and_not_asked_for_go_along_into_a_channel() {
    let server = TestServer::start();
    let mut consumer = Consumer::connect(&address(&server)).expect("a host and port");
    consumer.subscribe("S", "I").expect("new");
    let before = lines(&mut consumer, is_item);
    (1..=3).for_each(|n| server.say(&update(5, &fields(n))));
    let first = consumer.next_event(LIMIT).expect("a poller").expect("it comes in time");
    let channel = consumer.into_channel(10).expect("resources");
    let bids: Vec<String> = std::iter::once(first)
        .chain(std::iter::repeat_with(|| channel.recv_timeout(LIMIT).expect("it comes in time")))
        .take(3)
        .map(|event| event.to_string())
        .collect();
    let wanted = [1, 2, 3].map(|n| format!("S I update: BID=0.0{n} ASK=0.0{}", n + 1));
    assert_eq!(bids, wanted, "after {before:#?}");
    channel.close().expect("it ran");
}

#[test]
fn a_wrong_port_or_host_is_an_event_that_says_where_why_and_what_to_look_at() {
    let taken =
        net::tcp::listen(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("bound").port();
    drop(taken);
    let said = |server: &str| {
        let mut consumer = Consumer::connect(server).expect("a host and port");
        consumer.next_event(LIMIT).expect("a poller").expect("it comes in time").to_string()
    };
    let closed = said(&format!("127.0.0.1:{port}"));
    let wanted =
        format!("no connection to 127.0.0.1:{port}: cannot connect: connection refused (nothing listens");
    assert!(closed.starts_with(&wanted) && closed.contains("; next attempt in "), "{closed}");
    // A label of 64 letters is no name, which the resolver sees without asking anybody.
    let unknown = said(&format!("{}:14002", "x".repeat(64)));
    assert!(unknown.contains("host name cannot be resolved (is the name right"), "{unknown}");
}

#[test]
fn nothing_is_waited_for_after_a_login_that_is_refused_for_good() {
    let server = TestServer::start();
    let address = address(&server);
    let ((begun, is_up), (tell, told)) = (mpsc::channel(), mpsc::channel());
    // In a thread of its own, so that a wait for ever ends the test instead of hanging it.
    let thread = std::thread::spawn(move || {
        let mut consumer = Consumer::connect(&address).expect("a host and port");
        consumer.subscribe("S", "I").expect("new");
        lines(&mut consumer, is_item);
        begun.send(()).expect("it is awaited");
        let rest = consumer.events(Duration::MAX).map(|event| event.expect("a poller").to_string());
        let rest: Vec<String> = rest.collect();
        tell.send((rest, consumer.is_stopped())).expect("it is awaited");
    });
    is_up.recv_timeout(LIMIT).expect("an image in time");
    let denied = State { text: b"denied", ..State::new(StreamState::Closed, DataState::Suspect) };
    server.say(&LoginStatus { stream_id: 1, state: Some(denied), ..LoginStatus::default() });
    let (rest, is_stopped) = told.recv_timeout(LIMIT).expect("the iterator ends");
    let refused = rest.iter().find(|line| line.starts_with("login refused: closed/suspect"));
    assert!(refused.is_some_and(|line| line.ends_with("it is not tried again")), "{rest:#?}");
    assert!(rest.iter().any(|line| line.contains("nothing more is tried")) && is_stopped, "{rest:#?}");
    thread.join().expect("it ran");
}

#[test]
fn errors_are_readable_where_main_prints_them() {
    let refused = Consumer::connect("localhost").err().expect("no port");
    let words = "\"localhost\" is no host and port: a port must follow, as in localhost:14002";
    assert_eq!((refused.to_string(), format!("{refused:?}")), (words.to_owned(), words.to_owned()));
    let debugged = [
        format!("{:?}", "localhost".parse::<HostPort>().expect_err("no port")),
        format!("{:?}", SubscribeError::NotAnItemDomain(Domain::LOGIN)),
        format!("{:?}", ConsumerSendError::NotLoggedIn),
        format!("{:?}", PublishError::NoImage),
    ];
    let shown = [
        HostPortError::NoPort.to_string(),
        SubscribeError::NotAnItemDomain(Domain::LOGIN).to_string(),
        ConsumerSendError::NotLoggedIn.to_string(),
        PublishError::NoImage.to_string(),
    ];
    assert_eq!(debugged, shown);
    let fault = DictionaryFault::NotOffered.to_string();
    assert!(fault.contains("RWFFld") && fault.contains("with_dictionary"), "{fault}");
}

/// An update of an item, and a dictionary with a field of each kind.
fn event(dictionary: Option<Dictionary>, write: impl Fn(&mut FieldListWriter<'_, '_, '_>)) -> OwnedItemEvent {
    let payload = encode_to_vec(|w| w.field_list(&write)).expect("small");
    let msg =
        UpdateMsg { payload: &payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) };
    owned(encode_to_vec(|w| msg.encode(w)).expect("small"), dictionary)
}

fn owned(message: Vec<u8>, dictionary: Option<Dictionary>) -> OwnedItemEvent {
    OwnedItemEvent {
        handle: ItemHandle::from_u64(0),
        tag: 0,
        name: "I".into(),
        service: "S".into(),
        domain: Domain::MARKET_PRICE,
        state: State::OPEN_OK.into(),
        is_final: false,
        message: message.into(),
        dictionary: dictionary.map(Arc::new),
        merged: None,
    }
}

fn all_kinds() -> Dictionary {
    let mut dictionary = Dictionary::new();
    let fields = b"DSPLY_NAME \"NAME\" 3 NULL ALPHANUMERIC 16 RMTES_STRING 16\n\
        EXCH \"EXCH\" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1\nBID \"BID\" 22 NULL PRICE 17 REAL64 7\n\
        ASK \"ASK\" 25 NULL PRICE 17 REAL64 7\nCOUNT \"COUNT\" 77 NULL INTEGER 15 UINT64 5\n";
    dictionary.load_fields(fields).expect("well written");
    dictionary.load_enums(b"EXCH 4\n2 \"NYS\" exchange\n").expect("well written");
    let mean = Field {
        id: 99,
        name: "MEAN".into(),
        dde_acronym: "MEAN".into(),
        ripples_to: None,
        field_type: FieldType::PRICE,
        length: 17,
        enum_length: 0,
        data_type: DataType::DOUBLE,
        rwf_length: 8,
    };
    dictionary.add_field(mean).expect("a new field");
    dictionary
}

fn each_kind(f: &mut FieldListWriter<'_, '_, '_>) {
    f.put(22, Real::decimal(4007, 2));
    f.blank(25);
    f.put(3, RmtesString::from("IBM Corp"));
    f.put(4, Enum(2));
    f.put(77, 7u64);
    f.put(99, 0.5f64);
    f.encoded(-1, &[13, 5]);
}

#[test]
fn fields_are_had_by_name_as_price_number_and_text() {
    let event = event(Some(all_kinds()), each_kind);
    let price = event.price("BID").expect("a price").expect("it is there");
    assert_eq!(
        (price, price.to_string(), price.to_f64()),
        (Real::decimal(4007, 2), "40.07".to_owned(), 40.07)
    );
    assert_eq!(event.price("COUNT"), Ok(Some(Real::decimal(7, 0))));
    assert_eq!((event.number("BID"), event.number("MEAN")), (Ok(Some(40.07)), Ok(Some(0.5))));
    let text = |field: &str| event.text(field).expect("a field").map(|text| text.into_owned());
    assert_eq!(text("DSPLY_NAME").as_deref(), Some("IBM Corp"));
    assert_eq!((text("EXCH").as_deref(), text("BID").as_deref()), (Some("NYS"), Some("40.07")));
    assert_eq!((event.price("ASK"), text("ASK")), (Ok(None), None), "blank");
    assert_eq!(event.price(25i16), Ok(None));
    event.view(|lent| {
        assert_eq!((lent.price("BID"), lent.number("BID")), (event.price("BID"), event.number("BID")));
        assert_eq!(lent.text("EXCH"), event.text("EXCH"));
    });
    let names: Vec<String> =
        event.fields().expect("fields").flatten().map(|f| f.text().into_owned()).collect();
    assert_eq!(names, ["40.07", "", "IBM Corp", "NYS", "7", "0.5", "0x0d05"]);
    let line = "S I update: BID=40.07 ASK=blank DSPLY_NAME=IBM Corp EXCH=NYS COUNT=7 MEAN=0.5 -1=0x0d05";
    assert_eq!(event.to_string(), line);
}

#[test]
fn a_field_that_is_not_what_is_wanted_is_an_error_that_names_it() {
    let problem = |result: Result<Option<Real>, FieldError>| result.expect_err("not to be had").problem;
    let event = event(Some(all_kinds()), each_kind);
    assert_eq!(problem(event.price("BIDD")), FieldProblem::NotDefined);
    assert_eq!(problem(event.price("MEAN")), FieldProblem::NotExact(DataType::DOUBLE));
    assert_eq!(problem(event.price("EXCH")), FieldProblem::NotExact(DataType::ENUM));
    assert_eq!(problem(event.price(-1i16)), FieldProblem::NotDefined);
    let words = event.number("DSPLY_NAME").expect_err("no number").to_string();
    assert_eq!(words, "field DSPLY_NAME: RMTES_STRING is no number: read it with text() or field()");
    let without = owned(event.message.to_vec(), None);
    assert_eq!(problem(without.price("BID")), FieldProblem::NoDictionary);
    assert_eq!(without.field(22i16), Ok(Some(Value::Unknown(&[12, 0x0F, 0xA7]))));
}

#[test]
fn a_message_without_fields_has_none_and_that_is_no_error() {
    let status = rwf::StatusMsg {
        state: Some(State::OPEN_OK),
        ..rwf::StatusMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA)
    };
    let event = owned(encode_to_vec(|w| status.encode(w)).expect("small"), None);
    assert_eq!((event.price("BID"), event.text("BID")), (Ok(None), Ok(None)));
}

#[test]
fn a_field_that_its_provider_wrote_wrongly_is_named_and_costs_no_other() {
    let event = event(Some(all_kinds()), |f| {
        f.put(22, 7937u64);
        f.put(25, Real::decimal(4011, 2));
    });
    assert!(matches!(
        event.price("BID"),
        Err(FieldError { problem: FieldProblem::Malformed(DecodeError::BadValue { .. }), .. })
    ));
    assert_eq!(event.price("ASK"), Ok(Some(Real::decimal(4011, 2))));
    let line = event.to_string();
    assert!(line.contains("(BID cannot be read as REAL: ") && line.ends_with(" ASK=40.11"), "{line}");
    assert!(line.contains("its bytes: 0x1f01"), "{line}");
}

fn service() -> ProviderServiceConfig {
    ProviderServiceConfig { name: "S".into(), id: 1, ..ProviderServiceConfig::default() }
}

fn uint_for_bid(w: &mut Writer<'_>) {
    w.field_list(|f| f.put("BID", 40u64));
}

const WORDS: &str =
    "field BID: UINT given, REAL wanted, such as Real::decimal(4007, 2) for 40.07; nothing was sent";

#[test]
fn a_provider_puts_fields_by_name_and_refuses_a_value_of_another_type() {
    let config = ProviderConfig { services: vec![service()], ..ProviderConfig::default() };
    let mut core = ProviderCore::new(&config, &identity(), 1).expect("a good configuration");
    core.set_dictionary(&dictionary());
    let item = core.item(&PublishSpec::new(Domain::MARKET_PRICE, "S", "I")).expect("new");
    let by_name = |w: &mut Writer<'_>| {
        w.field_list(|f| {
            f.put("BID", Real::decimal(1, 2));
            f.put("ASK", Real::decimal(2, 2));
        });
    };
    assert_eq!(core.refresh(item, &RefreshSpec::default(), by_name), Ok(Published::Kept));
    let image = |core: &ProviderCore| core.image(item).map(|cached| format!("{:?}", cached.image()));
    let kept = image(&core);
    let by_id = core.refresh(item, &RefreshSpec::default(), |w| w.bytes(&fields(1)));
    assert_eq!((by_id, image(&core)), (Ok(Published::Kept), kept.clone()));
    for refused in [
        core.refresh(item, &RefreshSpec::default(), uint_for_bid),
        core.update(item, &UpdateSpec::quote(), uint_for_bid),
        core.update(item, &UpdateSpec::quote(), |w| w.field_list(|f| f.put(22, 40u64))),
    ] {
        assert_eq!(refused.expect_err("another type").to_string(), WORDS);
    }
    let unknown = core.update(item, &UpdateSpec::quote(), |w| w.field_list(|f| f.blank("BIDD")));
    let problem = FieldProblem::NotDefined;
    assert_eq!(unknown, Err(PublishError::Field(FieldError { field: "BIDD".into(), problem })));
    assert_eq!(image(&core), kept, "nothing of it is in the image");
}

#[test]
fn an_interactive_provider_refuses_it_too() {
    let config = InteractiveConfig { port: 0, services: vec![service()], ..InteractiveConfig::default() };
    let provider = InteractiveProvider::new(&config).expect("a port");
    let mut provider = provider.with_dictionary(Arc::new(dictionary()));
    let item = provider.item(Domain::MARKET_PRICE, "S", "I").expect("new");
    let refused = provider.refresh(item, &RefreshSpec::default(), uint_for_bid);
    assert_eq!(refused.expect_err("another type").to_string(), WORDS);
    assert_eq!(provider.refresh(item, &RefreshSpec::default(), |w| w.field_list(|f| f.blank("BID"))), Ok(0));
    let refused = provider.update(item, &UpdateSpec::quote(), uint_for_bid);
    assert_eq!(refused.expect_err("another type").to_string(), WORDS);
}

#[test]
fn a_consumer_posts_fields_by_name_and_is_refused_a_value_of_another_type() {
    let mut world = consumer(|_| ());
    world.manners.features =
        Features { omm_post: Some(true), batch_requests: Some(BatchSupport::ALL), ..Features::default() };
    let handle = world.item("I");
    world.settle();
    world.server().inbox.clear();
    let now = world.now;
    let refused = world.core.post(now, handle, &PostSpec::default(), uint_for_bid);
    assert_eq!(refused.expect_err("another type").to_string(), WORDS);
    let list = GenericSpec { container_type: DataType::FIELD_LIST, ..GenericSpec::default() };
    let refused = world.core.send_generic(handle, &list, uint_for_bid);
    assert_eq!(refused.expect_err("another type").to_string(), WORDS);
    world.settle();
    assert!(world.server().inbox.is_empty(), "nothing was sent");
    let bid = |w: &mut Writer<'_>| w.field_list(|f| f.put("BID", Real::decimal(1, 2)));
    world.core.post(now, handle, &PostSpec::default(), bid).expect("open");
    world.settle();
    assert_eq!(world.server().inbox.len(), 1);
}

#[test]
fn an_example_needs_this_library_alone() {
    for name in ["first", "consumer", "channel", "provider", "interactive", "tour"] {
        let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&path).expect("an example");
        let used = source.lines().filter_map(|line| line.strip_prefix("use "));
        for line in used {
            assert!(line.starts_with("std::") || line.starts_with("tickcast_client::"), "{name}: use {line}");
        }
        for other in ["rwf::", "rdm::", "net::", "units::", "market::"] {
            let paths = source.match_indices(other).filter(|(at, _)| !source[..*at].ends_with("std::"));
            assert_eq!(paths.count(), 0, "{name}: {other}");
        }
    }
}
