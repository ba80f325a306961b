//! An interactive provider and consumers on both sides of a real socket, in one thread.

use std::sync::Arc;
use std::time::Duration;

use rwf::{Domain, NakCode, Real, StateCode, Value, Writer};
use server::TlsConfig;
use tickcast_client::{
    ClientTlsConfig, Compression, ConnectFailure, Consumer, ConsumerConfig, DisconnectReason, GenericSpec,
    HostPort, InteractiveConfig, InteractiveEvent, InteractiveProvider, ItemHandle, ItemRequestSpec,
    OwnedEvent, OwnedOutcome, PostSpec, ProviderServiceConfig, RefreshSpec, StartError, UpdateSpec,
};

/// Turns of both ends, each of which waits a little: far more than anything here takes.
const TURNS: usize = 2_000;
const TURN: Duration = Duration::from_millis(5);

pub(crate) struct Pair {
    pub(crate) provider: InteractiveProvider,
    pub(crate) consumer: Consumer,
    pub(crate) told: Vec<OwnedEvent>,
    pub(crate) events: Vec<InteractiveEvent>,
}

/// The port of the provider that such a consumer is to use: an encrypted one if there is one.
pub(crate) fn port_for(provider: &InteractiveProvider, consumer: &ConsumerConfig) -> u16 {
    let (encrypted, plain) = match consumer.websocket {
        None => (provider.tls_address(), provider.local_address().map(Some)),
        Some(_) => (provider.websocket_tls_address(), provider.websocket_address()),
    };
    encrypted.expect("bound").or(plain.expect("bound")).expect("there is such a port").port()
}

pub(crate) fn quote(bid: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| w.field_list(|f| f.put(22, Real::decimal(bid, 2)))
}

impl Pair {
    fn new(change: impl FnOnce(&mut InteractiveConfig)) -> Pair {
        Pair::of(change, |_| ())
    }

    pub(crate) fn of(
        change: impl FnOnce(&mut InteractiveConfig),
        change_consumer: impl FnOnce(&mut ConsumerConfig),
    ) -> Pair {
        let service = ProviderServiceConfig { name: "S".into(), id: 1, ..ProviderServiceConfig::default() };
        let mut config =
            InteractiveConfig { port: 0, services: vec![service], ..InteractiveConfig::default() };
        change(&mut config);
        let provider = InteractiveProvider::new(&config).expect("a port");
        let provider = provider.with_dictionary(Arc::new(crate::world::dictionary()));
        let mut config = ConsumerConfig { user: "ada".into(), ..ConsumerConfig::default() };
        change_consumer(&mut config);
        config.hosts = vec![HostPort::new("127.0.0.1", port_for(&provider, &config))];
        let consumer = Consumer::new(&config).expect("descriptors");
        Pair { provider, consumer, told: Vec::new(), events: Vec::new() }
    }

    /// Lets both ends work until `is_over`; `answer` answers the events of the provider.
    pub(crate) fn run(
        &mut self,
        answer: &mut impl FnMut(&mut InteractiveProvider, &InteractiveEvent),
        is_over: impl Fn(&Pair) -> bool,
    ) {
        for _ in 0..TURNS {
            if is_over(self) {
                return;
            }
            let (events, told) = (&mut self.events, &mut self.told);
            let sink = &mut |provider: &mut InteractiveProvider, event: InteractiveEvent| {
                answer(provider, &event);
                events.push(event);
            };
            self.provider.dispatch(Duration::ZERO, sink).expect("it can wait");
            self.consumer.dispatch(TURN, &mut |event| told.push(event.into())).expect("it can wait");
        }
        panic!("it does not come to pass: {:?} {:?}", self.told, self.events);
    }

    /// Publishes so many updates of an item that the consumer subscribes, and sees that all come in order.
    pub(crate) fn stream_two_thousand(&mut self) {
        let handle = self.consumer.subscribe("S", "IBM.N").expect("new");
        self.run(&mut publish, |pair| pair.bids(handle) == [3990]);
        let item = self.provider.item(Domain::MARKET_PRICE, "S", "IBM.N").expect("it is asked for");
        for bid in 0..2_000 {
            assert_eq!(self.provider.update(item, &UpdateSpec::quote(), quote(bid)), Ok(1));
        }
        self.run(&mut publish, |pair| pair.bids(handle).len() == 2_001);
        assert!(self.bids(handle)[1..].iter().copied().eq(0..2_000), "all and in order");
    }

    /// The values of field 22 that came for an item, in order.
    pub(crate) fn bids(&self, of: ItemHandle) -> Vec<i64> {
        let bid = |event: &OwnedEvent| match event {
            OwnedEvent::Item(item) if item.handle == of => match item.field("BID") {
                Ok(Some(Value::Real(Real::Finite { mantissa, .. }))) => Some(mantissa),
                _ => None,
            },
            _ => None,
        };
        self.told.iter().filter_map(bid).collect()
    }
}

/// Publishes an image of each item that is asked for.
pub(crate) fn publish(provider: &mut InteractiveProvider, event: &InteractiveEvent) {
    if let InteractiveEvent::Requested { item, .. } = event {
        assert_eq!(provider.refresh(*item, &RefreshSpec::default(), quote(3990)), Ok(1));
    }
}

#[test]
fn a_consumer_finds_service_dictionary_image_and_updates_at_an_interactive_provider() {
    let mut pair = Pair::new(|_| ());
    let handle = pair.consumer.subscribe("S", "IBM.N").expect("new");
    pair.run(&mut publish, |pair| pair.bids(handle) == [3990]);
    let item = pair.provider.item(Domain::MARKET_PRICE, "S", "IBM.N").expect("it is asked for");
    for bid in 3991..3994 {
        assert_eq!(pair.provider.update(item, &UpdateSpec::quote(), quote(bid)), Ok(1));
    }
    pair.provider.flush();
    pair.run(&mut publish, |pair| pair.bids(handle) == [3990, 3991, 3992, 3993]);
    assert!(pair.consumer.unsubscribe(handle));
    let unwanted =
        |event: &InteractiveEvent| matches!(event, InteractiveEvent::Unwanted { item: of } if *of == item);
    pair.run(&mut publish, |pair| pair.events.iter().any(unwanted));
    assert!(pair.provider.forget(item));
    let counts = pair.provider.counters();
    assert_eq!((counts.clients.get(), counts.requests_in.get(), counts.updates_out.get()), (1, 1, 3));
    assert_eq!(pair.provider.connection_counters().accepted.get(), 1);
}

#[test]
fn a_batch_a_post_and_a_generic_message_go_all_the_way_and_back() {
    everything_goes_all_the_way_and_back(Pair::new(|_| ()));
}

pub(crate) fn everything_goes_all_the_way_and_back(mut pair: Pair) {
    let batch = ItemRequestSpec::new("S", "");
    let handles: Vec<ItemHandle> =
        pair.consumer.subscribe_all(&batch, &["A", "B"]).into_iter().map(|h| h.expect("new")).collect();
    pair.run(&mut publish, |pair| handles.iter().all(|handle| pair.bids(*handle) == [3990]));
    assert_eq!(pair.consumer.counters().batches_out.get(), 1);
    pair.consumer
        .send_generic(handles[0], &GenericSpec::default(), |w| w.element_list(|_| ()))
        .expect("open");
    for (tag, bid) in [(1, 5), (2, 6)] {
        let spec = PostSpec { tag, ..PostSpec::default() };
        pair.consumer.post(handles[0], &spec, quote(bid)).expect("open");
    }
    let mut posts = 0;
    let mut answer = |provider: &mut InteractiveProvider, event: &InteractiveEvent| match event {
        InteractiveEvent::Post { ticket: Some(ticket), item: Some(item), message, .. } => {
            posts += 1;
            if posts == 1 {
                let payload = message.post().map(|post| post.payload.to_vec()).unwrap_or_default();
                let sent = provider.update(*item, &UpdateSpec::default(), |w| w.bytes(&payload));
                assert_eq!((sent, provider.ack(*ticket)), (Ok(1), true));
            } else {
                assert!(provider.nak(*ticket, NakCode::DENIED_BY_SOURCE, "enough"));
            }
        }
        InteractiveEvent::Generic { item, .. } => {
            assert_eq!(
                provider.send_generic(*item, &GenericSpec::default(), |w| w.element_list(|_| ())),
                Ok(1)
            );
        }
        _ => {}
    };
    let outcome = |told: &[OwnedEvent], wanted: u64| {
        told.iter().find_map(|event| match event {
            OwnedEvent::Posted { tag, outcome, .. } if *tag == wanted => Some(outcome.clone()),
            _ => None,
        })
    };
    pair.run(&mut answer, |pair| outcome(&pair.told, 2).is_some());
    assert_eq!(outcome(&pair.told, 1), Some(OwnedOutcome::Taken));
    let refused = OwnedOutcome::Refused { code: NakCode::DENIED_BY_SOURCE, text: "enough".into() };
    assert_eq!(outcome(&pair.told, 2), Some(refused));
    assert_eq!(pair.bids(handles[0]), [3990, 5], "what was posted came back as an update");
    assert_eq!(pair.consumer.counters().generics_in.get(), 1);
}

#[test]
fn logins_and_items_are_refused_as_the_application_says() {
    let mut pair = Pair::new(|config| config.asks_for_logins = true);
    let handle = pair.consumer.subscribe("S", "NOPE").expect("new");
    let mut answer = |provider: &mut InteractiveProvider, event: &InteractiveEvent| match event {
        InteractiveEvent::Login { client, login } => {
            assert_eq!(login.user, "ada");
            assert!(provider.accept_login(*client));
        }
        InteractiveEvent::Requested { item, .. } => {
            assert_eq!(provider.close_item(*item, StateCode::NOT_FOUND, "item not found"), Ok(1));
        }
        _ => {}
    };
    let ended = |told: &[OwnedEvent]| {
        told.iter().any(|event| {
            matches!(event, OwnedEvent::Item(item)
                if item.handle == handle && item.is_final && item.state.borrow().code == StateCode::NOT_FOUND)
        })
    };
    pair.run(&mut answer, |pair| ended(&pair.told));
    let mut pair = Pair::new(|config| config.asks_for_logins = true);
    let mut refuse = |provider: &mut InteractiveProvider, event: &InteractiveEvent| {
        if let InteractiveEvent::Login { client, .. } = event {
            assert!(provider.reject_login(*client, StateCode::NOT_ENTITLED, "who?"));
        }
    };
    pair.run(&mut refuse, |pair| pair.consumer.is_stopped());
    assert_eq!(pair.provider.counters().logins_refused.get(), 1);
}

/// A file of the certificates that crate `net` tests with: they are for `localhost` and 127.0.0.1.
fn pem(name: &str) -> String {
    format!("{}/../../io/net/testdata/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"))
}

fn key(name: &str) -> String {
    pem(name).replace(".pem", ".key")
}

fn encrypted(consumer: ClientTlsConfig, client_ca: Option<&str>) -> Pair {
    let tls = tls_port(client_ca);
    Pair::of(|config| config.rssl.tls = Some(tls), |config| config.tls = Some(consumer))
}

pub(crate) fn tls_port(client_ca: Option<&str>) -> TlsConfig {
    TlsConfig {
        port: 0,
        certificate_file: pem("server"),
        key_file: key("server"),
        client_ca_file: client_ca.map(pem),
        ..TlsConfig::default()
    }
}

pub(crate) fn trusting(ca: &str) -> ClientTlsConfig {
    ClientTlsConfig { ca_file: pem(ca), certificate_file: None, key_file: None }
}

#[test]
fn an_encrypted_session_is_like_any_other() {
    let identity = ClientTlsConfig {
        certificate_file: Some(pem("client")),
        key_file: Some(key("client")),
        ..trusting("ca")
    };
    for (consumer, client_ca) in [(trusting("ca"), None), (identity, Some("ca"))] {
        let mut pair = encrypted(consumer, client_ca);
        pair.stream_two_thousand();
    }
}

#[test]
fn certificates_that_are_not_trusted_are_told_apart_from_other_failures() {
    let lost = |told: &[OwnedEvent], wanted: ConnectFailure| {
        told.iter().any(|event| {
            let wanted = DisconnectReason::Connect(wanted);
            matches!(event, OwnedEvent::Disconnected { reason, .. } if *reason == wanted)
        })
    };
    let mut pair = encrypted(trusting("other-ca"), None);
    pair.run(&mut publish, |pair| lost(&pair.told, ConnectFailure::Certificate));
    let mut pair = Pair::of(|_| (), |config| config.tls = Some(trusting("ca")));
    pair.run(&mut publish, |pair| lost(&pair.told, ConnectFailure::Tls));
    let missing = ConsumerConfig { tls: Some(trusting("nonexistent")), ..ConsumerConfig::default() };
    assert!(matches!(Consumer::new(&missing), Err(StartError::Tls(_))));
}

#[test]
fn compressed_connections_carry_the_same_and_fewer_bytes() {
    for compression in [Compression::Zlib, Compression::Lz4] {
        let mut pair = Pair::of(|_| (), |config| config.compression = Some(compression));
        pair.stream_two_thousand();
        let counts = pair.consumer.connection_counters();
        let agreed = match compression {
            Compression::Zlib => counts.compression_zlib.get(),
            Compression::Lz4 => counts.compression_lz4.get(),
        };
        assert_eq!(agreed, 1);
        assert!(counts.compressed_frames_in.get() > 0);
        assert!(counts.compressed_bytes_in.get() * 2 < counts.expanded_bytes_in.get());
    }
}
