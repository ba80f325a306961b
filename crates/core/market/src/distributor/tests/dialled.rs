//! Providers that are dialled, by a script.

use rdm::directory::{Change, DirectoryUpdate, Edit, GroupElements, Load, ServiceDelta};
use rdm::login::LoginRefresh;
use rwf::{DataState, MapAction, StateCode, StreamState};

use super::*;

pub(super) const A: ProviderId = ProviderId(100);
pub(super) const B: ProviderId = ProviderId(101);
pub(super) const OTHER_PEER: PeerId = PeerId(8);

/// What a dialled provider says.
pub(super) struct Script;

impl Script {
    pub(super) fn login() -> Vec<u8> {
        let mut accepted = LoginRefresh::accept(&LoginRequest::consumer(b"sd"));
        accepted.features.omm_post = Some(true);
        accepted.to_vec().expect("legal")
    }

    pub(super) fn directory(services: &[Service]) -> Vec<u8> {
        let refresh = DirectoryRefresh::publish(2, Filter::ALL, services).expect("unique");
        refresh.to_vec().expect("legal")
    }

    pub(super) fn status(stream_id: i32, state: State<'_>) -> Vec<u8> {
        let msg = StatusMsg {
            state: Some(state),
            ..StatusMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA)
        };
        msg.to_vec().expect("legal")
    }

    fn part(stream_id: i32, part_num: u16, is_last: bool, all: &[(i16, i64)]) -> Vec<u8> {
        let payload = fields(all);
        let msg = RefreshMsg {
            complete: is_last,
            part_num: Some(part_num),
            payload: &payload,
            ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
        };
        msg.to_vec().expect("legal")
    }
}

pub(super) fn config() -> DistributorConfig {
    DistributorConfig {
        service_ids: BTreeMap::from([("BINANCE".to_owned(), 1)]),
        requests_outstanding_max: 2,
        ..DistributorConfig::default()
    }
}

impl Bench {
    /// A bench with a greeted peer, and dialled providers that offer the service under their id 3.
    pub(super) fn dialled(config: DistributorConfig, providers: &[ProviderId]) -> Bench {
        let mut bench = Bench::new(config);
        for provider in providers {
            bench.dial(*provider);
            bench.provider(T0, *provider, &Script::directory(&[service(3, true)]));
        }
        for peer in [PEER, OTHER_PEER] {
            bench.core.on_peer_connected(peer);
            bench.peer_says(T0, peer, &LinkUp::Hello { peer: peer.0.into(), name: b"test" });
        }
        bench.log.take();
        bench
    }

    /// Connects to a provider that lets us in.
    pub(super) fn dial(&mut self, provider: ProviderId) {
        self.dial_as(provider, DialSpec::default());
    }

    /// The same, with what is wanted of it.
    pub(super) fn dial_as(&mut self, provider: ProviderId, spec: DialSpec) {
        let spec = DialSpec { name: "dialled".to_owned(), user: "sd".to_owned(), ..spec };
        self.core.on_dialled(T0, provider, Arc::new(spec), &mut self.log);
        self.provider(T0, provider, &Script::login());
    }

    /// Ids and names of the services.
    fn services(&self) -> Vec<(u16, &str)> {
        self.core.services().map(|(id, name, ..)| (id, name)).collect()
    }

    pub(super) fn peer_says(&mut self, now: Nanos, peer: PeerId, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.core.on_peer_message(now, peer, &bytes, &mut self.log).expect("accepted");
    }

    pub(super) fn no_interest(&mut self, now: Nanos, name: &str) {
        self.peer(now, &LinkUp::NoInterest { key: item(name) });
    }

    /// The provider answers on a stream.
    pub(super) fn image(&mut self, provider: ProviderId, stream_id: i32, all: &[(i16, i64)]) {
        self.provider(T0, provider, &refresh(stream_id, "whatever", all));
    }

    pub(super) fn wake(&mut self, now: Nanos) {
        self.core.on_wakeup(now, &mut self.log);
    }

    /// What is left to be sent or told, heartbeats and directories left out.
    pub(super) fn said(&mut self) -> Vec<String> {
        let mut said = self.log.take();
        said.retain(|line| !line.contains("Heartbeat") && !line.starts_with("directory"));
        said
    }

    fn stage(&self) -> DialledStatus<'_> {
        self.core.dialled_providers().next().expect("one").1
    }

    /// Streams at providers, and items in queues.
    pub(super) fn outstanding(&self) -> (u64, u64) {
        (self.counters.streams_open.get(), self.counters.items_queued.get())
    }
}

#[test]
fn a_dialled_provider_is_asked_for_its_directory_when_it_has_let_us_in() {
    let mut bench = Bench::new(config());
    let spec = DialSpec { name: "ads".to_owned(), user: "sd".to_owned(), ..DialSpec::default() };
    bench.core.on_dialled(T0, A, Arc::new(spec), &mut bench.log);
    assert_eq!(bench.log.take(), ["provider 100: Request login"]);
    assert_eq!((bench.stage().name, bench.stage().stage), ("ads", DialStage::LoggingIn));
    bench.provider(T0, A, &Script::login());
    assert_eq!(bench.log.take(), ["provider 100: Request source directory"]);
    assert_eq!((bench.stage().stage, bench.counters.providers.get()), (DialStage::AwaitingDirectory, 1));
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    assert_eq!(bench.log.take(), ["open stream 1 BINANCE", "directory: 1 BINANCE up"]);
    assert_eq!((bench.stage().stage, bench.stage().services), (DialStage::Ready, 1));
}

#[test]
fn a_provider_that_refuses_the_login_or_says_nothing_is_given_up() {
    let mut bench = Bench::new(config());
    bench.core.on_dialled(T0, A, Arc::default(), &mut bench.log);
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NOT_ENTITLED, "no");
    let status = StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::LOGIN, 1, DataType::NO_DATA) };
    let refused = bench.core.on_provider_message(T0, A, &status.to_vec().expect("legal"), &mut bench.log);
    assert_eq!(refused, Err(ProviderError::LoginEnded(StateCode::NOT_ENTITLED, "no".to_owned())));
    bench.core.on_dialled(T0, B, Arc::default(), &mut bench.log);
    bench.provider(T0, B, &Script::login());
    bench.log.take();
    bench.wake(LATER);
    let why = "login or source directory was not answered in time";
    assert!(bench.log.take().contains(&format!("close provider 101: {why}")));
    assert_eq!((bench.counters.logins_unanswered.get(), bench.counters.providers.get()), (2, 0));
}

#[test]
fn a_dialled_provider_is_logged_out_of_when_the_instance_ends() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.said();
    bench.core.announce_end(&mut bench.log);
    assert_eq!(bench.said(), ["provider 100: Close login"]);
}

#[test]
fn only_the_services_that_are_wanted_of_a_provider_are_taken() {
    let mut bench = Bench::new(config());
    let spec = DialSpec { services: vec!["OTHER".to_owned()], ..DialSpec::default() };
    bench.core.on_dialled(T0, A, Arc::new(spec), &mut bench.log);
    bench.provider(T0, A, &Script::login());
    let other = Service { id: 4, ..named("OTHER") };
    bench.provider(T0, A, &Script::directory(&[service(3, true), other]));
    assert_eq!(bench.core.services().map(|(_, name, ..)| name).collect::<Vec<_>>(), ["OTHER"]);
}

#[test]
fn a_service_can_have_another_name_here_which_one_of_a_provider_has() {
    let mut bench = Bench::new(config());
    let renamed = BTreeMap::from([("FEED".to_owned(), "BINANCE".to_owned())]);
    bench.dial_as(A, DialSpec { renamed, ..DialSpec::default() });
    let theirs = Service { id: 9, ..named("FEED") };
    bench.provider(T0, A, &Script::directory(std::slice::from_ref(&theirs)));
    assert_eq!(bench.services(), [(1, "BINANCE")], "its number here goes by its name here");
    bench.core.on_peer_connected(PEER);
    bench.peer_says(T0, PEER, &LinkUp::Hello { peer: 7, name: b"test" });
    bench.log.take();
    bench.interest(T0, "X");
    assert_eq!(
        bench.log.take()[0],
        "provider 100: request X on 5 in 9",
        "its number there is the provider's"
    );
    // Another one of the provider would have the same name.
    bench.provider(T0, A, &Script::directory(&[theirs, Service { id: 11, ..named("BINANCE") }]));
    let twin = "service \"BINANCE\" is not taken: another service of this provider has that name here";
    assert!(bench.log.take().iter().any(|line| line.contains(twin)));
    assert_eq!((bench.services(), bench.counters.services_refused.get()), (vec![(1, "BINANCE")], 1));
}

#[test]
fn services_of_several_providers_may_have_one_number_there_and_not_here() {
    let mut bench = Bench::new(config());
    for (provider, name) in [(A, "FIRST"), (B, "SECOND")] {
        bench.dial(provider);
        bench.provider(T0, provider, &Script::directory(&[Service { id: 1, ..named(name) }]));
    }
    // 1 is that of BINANCE by configuration.
    assert_eq!(bench.services(), [(2, "FIRST"), (3, "SECOND")]);
    bench.provider(T0, A, &Script::directory(&[Service { id: 1, ..named("FIRST") }, service(7, true)]));
    assert_eq!(bench.services(), [(1, "BINANCE"), (2, "FIRST"), (3, "SECOND")]);
}

/// What a provider offers whose data comes through these servers.
fn through(path: &[u64]) -> Vec<u8> {
    let mut theirs = service(3, true);
    theirs.info.path = path.to_vec();
    Script::directory(&[theirs])
}

impl Bench {
    /// The servers that data of the service comes through, this one left out, if it is up.
    fn path(&self) -> Option<Vec<u64>> {
        let definition = &self.core.items.suppliers.services[&1].definition;
        let mut path = definition.info.path.clone();
        assert!(path.contains(&self.core.instance()), "{path:?}");
        path.retain(|server| *server != self.core.instance());
        definition.state.up.then_some(path)
    }
}

#[test]
fn a_provider_that_has_its_data_from_here_is_not_asked_for_it() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    assert_eq!(bench.path(), Some(vec![]));
    bench.log.take();
    // It gets its data from here from now on.
    let ours = bench.core.instance();
    bench.provider(T0, A, &through(&[71, ours]));
    let said = bench.said();
    assert!(said.contains(&"provider 100: close 5".to_owned()), "{said:?}");
    assert!(said.iter().any(|line| line.contains("the provider has it from here")), "{said:?}");
    assert_eq!((bench.path(), bench.outstanding()), (None, (0, 1)), "the service is down, the item waits");
    // And no longer: it is asked again.
    bench.provider(T0, A, &through(&[71, 72]));
    assert!(bench.said().contains(&"provider 100: request X on 6 in 3".to_owned()));
    assert_eq!(bench.path(), Some(vec![71, 72]));
    // So many servers are a circle, whose they are.
    bench.provider(T0, A, &through(&(1_000..1_065).collect::<Vec<u64>>()));
    assert_eq!(bench.path(), None);
}

#[test]
fn a_service_comes_through_the_servers_that_are_asked_or_would_be() {
    let mut bench = Bench::new(config());
    bench.dial_as(A, DialSpec { is_standby: true, ..DialSpec::default() });
    bench.provider(T0, A, &through(&[71]));
    assert_eq!(bench.path(), Some(vec![71]), "there is no other");
    bench.core.on_peer_connected(PEER);
    bench.peer_says(T0, PEER, &LinkUp::Hello { peer: 7, name: b"test" });
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.dial(B);
    bench.provider(T0, B, &through(&[72]));
    assert_eq!(bench.path(), Some(vec![71, 72]), "what it has it keeps");
    bench.no_interest(T0, "X");
    bench.wake(T0 + Duration::from_secs(3_600));
    assert_eq!((bench.path(), bench.outstanding()), (Some(vec![72]), (0, 0)));
    bench.core.on_provider_closed(T0, B, &mut bench.log);
    assert_eq!(bench.path(), Some(vec![71]));
}

#[test]
fn a_provider_that_stands_by_is_asked_while_no_other_can_be_and_keeps_what_it_has() {
    let mut bench = Bench::new(config());
    bench.dial_as(A, DialSpec { is_standby: true, ..DialSpec::default() });
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    bench.dial(B);
    bench.provider(T0, B, &Script::directory(&[service(3, true)]));
    bench.core.on_peer_connected(PEER);
    bench.peer_says(T0, PEER, &LinkUp::Hello { peer: 7, name: b"test" });
    bench.log.take();
    // More than B answers at a time: they wait for B.
    for name in ["X", "Y", "Z"] {
        bench.interest(T0, name);
    }
    let asked =
        |said: Vec<String>| said.into_iter().filter(|line| line.starts_with("provider")).collect::<Vec<_>>();
    assert_eq!(
        asked(bench.said()),
        ["provider 101: request X on 5 in 3", "provider 101: request Y on 6 in 3"]
    );
    bench.image(B, 5, &[(22, 1)]);
    assert_eq!(asked(bench.said()), ["provider 101: request Z on 7 in 3"]);
    bench.core.on_provider_closed(T0, B, &mut bench.log);
    bench.wake(T0);
    assert_eq!(asked(bench.said()).len(), 2, "all that it answers at a time");
    bench.image(A, 5, &[(22, 1)]);
    bench.image(A, 6, &[(22, 1)]);
    assert_eq!(asked(bench.said()), ["provider 100: request Z on 7 in 3"]);
    // B is back: what is new goes there, and what A has stays.
    bench.dial(B);
    bench.provider(T0, B, &Script::directory(&[service(3, true)]));
    bench.log.take();
    bench.interest(T0, "W");
    assert_eq!(asked(bench.said()), ["provider 101: request W on 5 in 3"]);
}

fn named(name: &str) -> Service {
    let mut service = service(3, true);
    service.info.name = name.to_owned();
    service
}

#[test]
fn an_item_is_asked_for_once_however_many_want_it() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    assert_eq!(bench.log.take(), ["provider 100: request X on 5 in 3", "peer 7: X asked for"]);
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("X") });
    assert_eq!(bench.log.take(), ["peer 8: X asked for"]);
    bench.image(A, 5, &[(22, 1)]);
    let log = bench.log.take();
    assert_eq!(
        [&*log[0], &*log[1], &*log[3]],
        [
            "1 Open #1 item 1: X",
            "peer 7: image of X as item 1 after #1: ok 22=1",
            "peer 8: image of X as item 1 after #2: ok 22=1"
        ]
    );
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    assert_eq!(bench.log.take(), ["1 Update #3 item 1: 22=2"]);
    assert_eq!((bench.counters.requests_out.get(), bench.outstanding()), (1, (1, 0)));
}

#[test]
fn an_item_that_nobody_wants_is_closed_after_a_while_and_nothing_of_it_stays() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.no_interest(T0, "X");
    bench.wake(T0 + Duration::from_secs(4));
    bench.interest(T0, "X");
    assert_eq!(bench.counters.requests_out.get(), 1, "it lingered");
    bench.no_interest(T0, "X");
    bench.log.take();
    bench.wake(LATER);
    assert_eq!(bench.said(), ["provider 100: close 5"]);
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    assert_eq!(bench.said(), [""; 0], "what was on its way is dropped");
    bench.interest(LATER, "X");
    assert_eq!(bench.said()[0], "provider 100: request X on 6 in 3", "streams are not used again");
}

#[test]
fn a_link_that_breaks_takes_its_interest_with_it() {
    let mut bench = Bench::dialled(config(), &[A]);
    for name in ["X", "Y", "Z"] {
        bench.interest(T0, name);
    }
    bench.image(A, 5, &[(22, 1)]);
    bench.image(A, 6, &[(22, 1)]);
    assert_eq!(bench.outstanding(), (3, 0));
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    bench.log.take();
    bench.image(A, 7, &[(22, 1)]);
    bench.wake(LATER);
    let closed = ["provider 100: close 5", "provider 100: close 6", "provider 100: close 7"];
    assert_eq!(
        (bench.said(), bench.core.item_count(), bench.outstanding()),
        (closed.map(String::from).to_vec(), 0, (0, 0))
    );
}

#[test]
fn no_more_requests_wait_than_allowed_and_each_answer_lets_the_next_go() {
    let mut bench = Bench::dialled(config(), &[A]);
    for name in ["W", "X", "Y", "Z"] {
        bench.interest(T0, name);
    }
    let asked = |bench: &mut Bench| -> Vec<String> {
        bench.said().into_iter().filter(|l| l.contains("request")).collect()
    };
    assert_eq!(asked(&mut bench), ["provider 100: request W on 5 in 3", "provider 100: request X on 6 in 3"]);
    assert_eq!(bench.outstanding(), (2, 2));
    bench.no_interest(T0, "Y");
    assert_eq!(bench.outstanding(), (2, 1), "what was not asked for is forgotten at once");
    bench.image(A, 6, &[(22, 1)]);
    assert_eq!(asked(&mut bench), ["provider 100: request Z on 7 in 3"]);
    assert_eq!(bench.outstanding(), (3, 0));
}

#[test]
fn the_window_and_the_limit_of_the_provider_are_kept() {
    let mut bench = Bench::dialled(config(), &[A]);
    let with = |load| Script::directory(&[Service { load, ..service(3, true) }]);
    bench.provider(T0, A, &with(Load { open_window: Some(0), ..Load::default() }));
    bench.interest(T0, "X");
    bench.interest(T0, "Y");
    assert_eq!(bench.outstanding(), (0, 2));
    bench.provider(T0, A, &with(Load { open_limit: Some(1), ..Load::default() }));
    bench.image(A, 5, &[(22, 1)]);
    assert_eq!(bench.outstanding(), (1, 1), "one open item is all it takes");
    bench.no_interest(T0, "X");
    bench.wake(LATER);
    assert_eq!(bench.counters.requests_out.get(), 2);
}

const OVER_LIMIT: &str = "waiting: the providers of the service have as many items open as they take";

#[test]
fn items_beyond_the_limit_of_the_provider_are_told_so_at_once_and_wait_for_room() {
    let mut bench = Bench::dialled(config(), &[A]);
    let limited = Load { open_limit: Some(3), ..Load::default() };
    bench.provider(T0, A, &Script::directory(&[Service { load: limited, ..service(3, true) }]));
    for name in ["U", "V", "W", "X"] {
        bench.interest(T0, name);
    }
    let asked = ["U", "V", "W", "X"].map(|name| format!("peer 7: {name} asked for"));
    let told: Vec<String> = bench.said().into_iter().filter(|l| l.starts_with("peer")).collect();
    assert_eq!(told, asked, "two wait for answers, the others for them");
    bench.image(A, 5, &[(22, 1)]);
    let log = bench.said();
    assert_eq!(
        log[..3],
        [
            "provider 100: request W on 7 in 3".to_owned(),
            format!("peer 7: X open suspect {OVER_LIMIT}"),
            "notice on 100: service \"BINANCE\": items wait, as no more than 3 are taken".to_owned(),
        ]
    );
    bench.interest(T0, "Y");
    assert_eq!(bench.said(), [format!("peer 7: Y open suspect {OVER_LIMIT}")]);
    assert_eq!(bench.counters.items_over_limit.get(), 2);
    bench.image(A, 6, &[(22, 1)]);
    bench.image(A, 7, &[(22, 1)]);
    assert!(bench.said().iter().all(|l| !l.contains("suspect")), "told once");
    bench.no_interest(T0, "U");
    bench.wake(LATER);
    assert_eq!(bench.said()[1..], ["provider 100: request X on 8 in 3"], "there is room");
}

#[test]
fn an_item_beyond_the_limit_of_one_provider_goes_to_another_one() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    let none = Load { open_limit: Some(0), ..Load::default() };
    bench.provider(T0, A, &Script::directory(&[Service { load: none, ..service(3, true) }]));
    bench.interest(T0, "X");
    assert_eq!(bench.said(), ["provider 101: request X on 5 in 3", "peer 7: X asked for"]);
    bench.core.on_provider_closed(T0, B, &mut bench.log);
    let told = bench.said();
    assert!(told.contains(&format!("peer 7: X open suspect {OVER_LIMIT}")), "{told:?}");
    bench.dial(B);
    bench.provider(T0, B, &Script::directory(&[service(3, true)]));
    assert!(bench.said().contains(&"provider 101: request X on 5 in 3".to_owned()), "it goes to who comes");
}

#[test]
fn an_item_that_is_not_found_is_closed_for_everybody_and_forgotten() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "NOPE");
    bench.log.take();
    let closed =
        State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NOT_FOUND, "no such item");
    bench.provider(T0, A, &Script::status(5, closed));
    assert_eq!(bench.log.take(), ["peer 7: NOPE closed suspect no such item"]);
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
    bench.interest(T0, "X");
    bench.image(A, 6, &[(22, 1)]);
    bench.log.take();
    bench.provider(T0, A, &Script::status(6, closed));
    assert_eq!(bench.log.take(), ["1 Close #2 item 1: closed suspect no such item"]);
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
}

#[test]
fn only_a_redirection_names_another_item() {
    let mut bench = Bench::dialled(config(), &[A]);
    let mut end = |name: &str, stream_id, stream| {
        bench.interest(T0, name);
        bench.log.take();
        let state = State::new(stream, DataState::Suspect).because(StateCode::NONE, "over");
        let key = Some(Key { name: Some(ELSEWHERE), ..Key::default() });
        let msg = StatusMsg {
            state: Some(state),
            key,
            ..StatusMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA)
        };
        bench.provider(T0, A, &msg.to_vec().expect("legal"));
        bench.log.take()
    };
    assert_eq!(end("X", 5, StreamState::Redirected), ["peer 7: X redirected suspect over elsewhere"]);
    assert_eq!(end("Y", 6, StreamState::Closed), ["peer 7: Y closed suspect over"]);
}

#[test]
fn an_item_that_is_closed_for_now_is_suspect_and_asked_for_again_after_a_while() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.log.take();
    let now = State::new(StreamState::ClosedRecover, DataState::Suspect).because(StateCode::NONE, "busy");
    bench.provider(T0, A, &Script::status(5, now));
    assert_eq!(bench.said(), ["1 Status #2 item 1: open suspect busy"]);
    bench.wake(T0 + Duration::from_secs(4));
    assert_eq!(bench.said(), [""; 0]);
    bench.wake(T0 + Duration::from_secs(6));
    assert_eq!(bench.said(), ["provider 100: request X on 6 in 3"]);
    bench.provider(T0, A, &update(6, None, &[(22, 7)]));
    bench.image(A, 6, &[(22, 2)]);
    assert_eq!(bench.said(), ["1 Refresh #3 item 1: ok 22=2"], "no update in front of the image");
}

#[test]
fn an_image_in_parts_is_whole_with_the_last_and_the_parts_of_another_provider_are_not_mixed_in() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    bench.interest(T0, "X");
    bench.provider(T0, A, &Script::part(5, 0, false, &[(22, 1)]));
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    bench.log.take();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    let lost = "peer 7: X open suspect the connection to the provider is lost";
    assert_eq!(bench.said(), [lost, "provider 101: request X on 5 in 3"]);
    bench.provider(T0, B, &Script::part(5, 0, false, &[(25, 3)]));
    assert_eq!(bench.said(), [""; 0]);
    bench.provider(T0, B, &Script::part(5, 1, true, &[(30, 4)]));
    assert_eq!(bench.said()[1], "peer 7: image of X as item 1 after #1: ok 25=3 30=4");
}

#[test]
fn items_move_to_another_provider_of_the_service_when_theirs_is_lost() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    for name in ["W", "X"] {
        bench.interest(T0, name);
    }
    assert!(bench.log.take().contains(&"provider 101: request X on 5 in 3".to_owned()), "the load is shared");
    bench.image(A, 5, &[(22, 1)]);
    bench.image(B, 5, &[(22, 5)]);
    bench.log.take();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    assert_eq!(
        bench.log.take(),
        [
            "1 Status #3 item 1: open suspect the connection to the provider is lost",
            "provider 101: request W on 6 in 3"
        ],
        "the service stays up, the other item good"
    );
    bench.image(B, 6, &[(22, 2)]);
    assert_eq!(bench.log.take(), ["1 Refresh #4 item 1: ok 22=2"]);
    assert_eq!((bench.counters.items_lost.get(), bench.outstanding()), (1, (2, 0)));
}

#[test]
fn without_a_provider_the_service_is_down_and_its_items_wait_for_one() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.log.take();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    assert_eq!(bench.log.take(), ["all of 1 suspect #2", "directory: 1 BINANCE down"]);
    bench.interest(T0, "Y");
    assert_eq!(bench.log.take(), ["peer 7: Y open suspect waiting for a provider of the service"]);
    bench.dial(A);
    bench.provider(T0, A, &Script::directory(&[service(9, true)]));
    assert_eq!(
        bench.log.take()[2..],
        ["provider 100: request X on 5 in 9", "provider 100: request Y on 6 in 9", "directory: 1 BINANCE up"]
    );
}

#[test]
fn a_service_that_goes_down_at_its_provider_is_asked_for_again_when_it_is_up() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.log.take();
    bench.provider(T0, A, &Script::directory(&[service(3, false)]));
    let said = bench.log.take();
    assert_eq!(said, ["all of 1 suspect #2", "provider 100: close 5", "directory: 1 BINANCE down"]);
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    assert_eq!(bench.log.take(), ["provider 100: request X on 6 in 3", "directory: 1 BINANCE up"]);
    bench.provider(T0, A, &Script::directory(&[]));
    assert!(bench.log.take().contains(&"close stream 1".to_owned()));
    assert_eq!((bench.core.item_count(), bench.outstanding()), (0, (0, 0)));
}

#[test]
fn a_request_that_is_not_answered_is_made_again_elsewhere() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    bench.interest(T0, "X");
    bench.log.take();
    bench.wake(T0 + Duration::from_secs(16));
    assert_eq!(
        bench.said(),
        [
            "provider 100: close 5",
            "peer 7: X open suspect the provider does not answer, the item is asked for again",
            "provider 101: request X on 5 in 3"
        ]
    );
    bench.image(A, 5, &[(22, 1)]);
    assert_eq!(bench.said(), [""; 0], "too late");
    assert_eq!((bench.counters.requests_unanswered.get(), bench.counters.messages_unasked.get()), (1, 1));
}

#[test]
fn the_least_busy_provider_is_asked_or_each_in_turn() {
    for (balance, expected) in [(Balance::Load, [101, 101]), (Balance::RoundRobin, [100, 101])] {
        let mut bench = Bench::dialled(DistributorConfig { balance, ..config() }, &[A, B]);
        let busy = Load { load_factor: Some(900), ..Load::default() };
        bench.provider(T0, A, &Script::directory(&[Service { load: busy, ..service(3, true) }]));
        bench.interest(T0, "X");
        bench.interest(T0, "Y");
        let asked: Vec<String> = bench.said().into_iter().filter(|l| l.contains("request")).collect();
        let providers: Vec<String> = expected.map(|p| format!("provider {p}:")).to_vec();
        assert!(asked.iter().zip(&providers).all(|(line, p)| line.starts_with(p)), "{balance:?} {asked:?}");
    }
}

#[test]
fn a_provider_that_takes_no_requests_is_not_asked_and_keeps_what_is_open() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    let mut closed = service(3, true);
    closed.state.accepting_requests = Some(false);
    bench.log.take();
    bench.provider(T0, A, &Script::directory(&[closed]));
    bench.interest(T0, "Y");
    bench.interest(T0, "Z");
    let log = bench.said();
    assert!(log.iter().all(|l| !l.contains("provider 100")), "{log:?}");
    bench.provider(T0, A, &update(5, None, &[(22, 2)]));
    assert_eq!(bench.said(), ["1 Update #2 item 1: 22=2"]);
}

#[test]
fn the_state_of_a_group_is_the_state_of_its_items() {
    let mut bench = Bench::dialled(config(), &[A]);
    for (stream_id, name, group) in [(5, "X", b"\0\x05"), (6, "Y", b"\0\x06")] {
        bench.interest(T0, name);
        let payload = fields(&[(22, 1)]);
        let msg = RefreshMsg {
            complete: true,
            group_id: group,
            payload: &payload,
            ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
        };
        bench.provider(T0, A, &msg.to_vec().expect("legal"));
    }
    bench.log.take();
    let stale = State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, "line down");
    let tell = |group: GroupElements| {
        let edits = vec![Edit::Group(Change::Update(group))];
        let delta = ServiceDelta { service_id: 3, action: MapAction::Update, edits };
        DirectoryUpdate { stream_id: 2, filter: None, services: vec![delta] }.to_vec().expect("legal")
    };
    let group = GroupElements { group_id: b"\0\x05".to_vec(), merged_to: None, status: Some(stale.into()) };
    bench.provider(T0, A, &tell(group));
    assert_eq!(bench.said(), ["1 Status #3 item 1: open suspect line down"]);
    let merged =
        GroupElements { group_id: b"\0\x05".to_vec(), merged_to: Some(b"\0\x06".to_vec()), status: None };
    bench.provider(T0, A, &tell(merged));
    let both = GroupElements { group_id: b"\0\x06".to_vec(), merged_to: None, status: Some(stale.into()) };
    bench.provider(T0, A, &tell(both));
    assert_eq!(bench.said().len(), 2);
}

#[test]
fn a_service_is_published_or_asked_for_but_not_both() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.provider_logs_in(PROVIDER);
    bench.log.take();
    bench.announce(PROVIDER, &[service(3, true)]);
    let refused = "service \"BINANCE\" is not taken:";
    let told = format!("notice on 1: {refused} it is asked for at interactive providers");
    assert_eq!((bench.log.take(), bench.counters.services_refused.get()), (vec![told], 1));
    bench.interest(T0, "X");
    assert_eq!(bench.counters.requests_out.get(), 1, "whoever came first keeps it");
    let mut bench = Bench::running();
    bench.dial(A);
    bench.log.take();
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    let told = format!("notice on 100: {refused} a non-interactive provider publishes it");
    assert_eq!((bench.log.take(), bench.counters.services_refused.get()), (vec![told], 1));
    assert_eq!(bench.core.services().count(), 1);
    bench.provider(T0, PROVIDER, &refresh(-5, "X", &[(22, 1)]));
    bench.interest(T0, "X");
    assert_eq!(bench.counters.requests_out.get(), 0);
}

#[test]
fn an_item_whose_message_cannot_be_read_is_asked_for_again_alone() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.log.take();
    let whole = update(5, None, &[(22, 1), (25, 2)]);
    bench.provider(T0, A, &whole[..whole.len() - 1]);
    let spoilt = "1 Status #2 item 1: open suspect a message of the provider could not be read";
    assert_eq!(bench.said()[1..], ["provider 100: close 5", spoilt]);
    assert_eq!(bench.counters.messages_refused.get(), 1);
    bench.wake(LATER);
    assert_eq!(bench.said(), ["provider 100: request X on 6 in 3"]);
}

#[test]
fn a_domain_that_no_provider_has_and_one_item_too_many_are_refused() {
    let mut bench = Bench::dialled(DistributorConfig { items_max: 1, ..config() }, &[A]);
    bench.peer(T0, &LinkUp::Interest { key: ItemKey::named(1, Domain::MARKET_BY_PRICE, b"X") });
    assert_eq!(bench.said(), ["peer 7: X closed suspect no provider of the service has this domain"]);
    bench.interest(T0, "X");
    bench.log.take();
    bench.interest(T0, "Y");
    assert_eq!(bench.said(), ["peer 7: Y closed-recover suspect the source distributor keeps no more items"]);
    assert_eq!((bench.counters.items_not_found.get(), bench.counters.interests_refused.get()), (1, 1));
}
