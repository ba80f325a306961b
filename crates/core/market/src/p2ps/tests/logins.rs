//! What a login promises, and what it asks for.

use rdm::directory::ConsumerStatus;
use rdm::login::{ConnectionStatus, LoginMsg, RoundTrip, STANDBY_BY_LOGIN, STANDBY_BY_SERVICE, StandbyRole};

use super::*;

/// The login stream of a client as it is answered.
#[derive(Default)]
pub(super) struct Answers(pub(super) Vec<Vec<u8>>);

impl ServerSink for Answers {
    fn send(&mut self, _: ClientId, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
    fn fan_out(&mut self, _: &[Watcher], _: &[u8]) {}
}

impl UpstreamSink for Answers {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
    fn notice(&mut self, _: &ServerNotice<'_>) {}
}

#[test]
fn a_login_is_answered_with_what_works() {
    let mut bench = Bench::alone();
    let request = LoginRequest { round_trip_latency: Some(2), ..LoginRequest::consumer(b"me") };
    let mut answers = Answers::default();
    let bytes = request.to_vec().expect("legal");
    bench.core.on_client_message(T0, A, &bytes, &mut answers).expect("accepted");
    let msg = Msg::parse(&answers.0[0]).expect("whole");
    let Ok(LoginMsg::Refresh(refresh)) = LoginMsg::parse(&msg) else { panic!("{msg:?}") };
    assert_eq!(refresh.features.batch_requests, Some(rdm::login::BatchSupport::ALL));
    assert_eq!(refresh.features.view_requests, Some(true));
    assert_eq!(refresh.features.optimized_pause_resume, Some(true));
    assert_eq!((refresh.single_open, refresh.allow_suspect_data), (Some(true), Some(true)));
    assert_eq!(refresh.round_trip_latency, Some(2));
    for way in [STANDBY_BY_LOGIN, STANDBY_BY_SERVICE] {
        assert!(refresh.features.takes_roles(way), "warm standby, way {way}");
    }
}

#[test]
fn what_the_server_is_to_a_client_with_several_can_be_seen() {
    use StandbyRole::{Active, Standby};
    let mut bench = Bench::watching();
    let seen = |bench: &Bench| {
        let info = bench.core.clients_after(None).next().expect("one");
        (
            info.role,
            info.service_roles.iter().map(|&(name, role)| (name.to_owned(), role)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(seen(&bench), (None, vec![]));
    for role in [Standby, Active] {
        bench.client(A, &ConnectionStatus { stream_id: 1, role }.to_vec().expect("legal"));
        let services = vec![(1, role), (9, Standby)];
        bench.client(A, &ConsumerStatus { stream_id: 2, services }.to_vec().expect("legal"));
        assert_eq!(seen(&bench), (Some(role), vec![("BINANCE".to_owned(), role)]), "9 is no service");
    }
    bench.log_in(A, &LoginRequest { no_refresh: true, ..LoginRequest::consumer(b"me") });
    assert_eq!(seen(&bench).0, Some(Active), "a login that is changed keeps it");
    bench.took();
    assert_eq!(bench.counters.client_messages_refused.get(), 0);
    let mut bad = ConnectionStatus { stream_id: 1, role: Standby }.to_vec().expect("legal");
    *bad.last_mut().expect("the role") = 7;
    bench.client(A, &bad);
    assert_eq!((seen(&bench).0, bench.counters.client_messages_refused.get()), (Some(Active), 1));
}

#[test]
fn a_server_that_stood_by_sends_its_images_when_it_becomes_the_active_one() {
    use StandbyRole::{Active, Standby};
    let mut bench = Bench::watching();
    let by_login = |role| ConnectionStatus { stream_id: 1, role }.to_vec().expect("legal");
    let by_service =
        |role| ConsumerStatus { stream_id: 2, services: vec![(1, role)] }.to_vec().expect("legal");
    bench.took();
    let ways: [&dyn Fn(StandbyRole) -> Vec<u8>; 2] = [&by_login, &by_service];
    for told in ways {
        for role in [Active, Standby] {
            bench.client(A, &told(role));
            assert_eq!(bench.took(), Vec::<String>::new(), "nothing is missing");
        }
        bench.client(A, &told(Active));
        let took = bench.took();
        assert!(took.len() == 1 && took[0].contains("refresh"), "{took:?}");
    }
}

#[test]
fn a_login_on_a_second_stream_is_refused() {
    let mut bench = Bench::alone();
    let second = LoginRequest { stream_id: 9, ..LoginRequest::consumer(b"me") }.to_vec().expect("legal");
    let refused = bench.core.on_client_message(T0, A, &second, &mut bench.log);
    assert_eq!(refused, Err(ClientError::LoginRefused));
    assert!(bench.took()[0].starts_with("1/9: status closed suspect: this connection is logged in"));
}

#[test]
fn who_and_where_a_client_is_can_be_seen() {
    let mut bench = Bench::watching();
    let login = LoginRequest {
        position: Some(b"10.0.0.1/desk"),
        application_name: Some(b"app"),
        pause: true,
        ..LoginRequest::consumer(b"someone")
    };
    bench.log_in(A, &login);
    let info = bench.core.clients_after(None).next().expect("one");
    assert_eq!((info.user, info.position, info.application), ("someone", "10.0.0.1/desk", "app"));
    assert_eq!((info.client, info.streams, info.is_paused, info.round_trip_us), (A, 1, true, None));
}

#[test]
fn the_round_trip_is_measured_of_those_who_offer_it() {
    let mut bench = Bench::alone();
    bench.log_in(A, &LoginRequest { round_trip_latency: Some(2), ..LoginRequest::consumer(b"me") });
    bench.took();
    let interval = ServerConfig::default().round_trip_interval;
    assert_eq!(bench.core.next_wakeup(), T0 + interval);
    bench.after(interval);
    assert_eq!(bench.took(), ["1/1: generic login"], "the other client has not offered it");
    let answer =
        RoundTrip { stream_id: 1, ticks: bench.now.0, last_latency_us: None, tcp_retransmission_count: None };
    bench.now += Duration::from_micros(250);
    bench.client(A, &answer.to_vec().expect("legal"));
    assert_eq!(bench.core.clients_after(None).next().expect("one").round_trip_us, Some(250));
    bench.client(A, &answer.to_vec().expect("legal"));
    assert_eq!((bench.counters.round_trips.get(), bench.counters.client_messages_refused.get()), (1, 1));
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    bench.after(interval);
    assert_eq!((bench.took(), bench.core.next_wakeup()), (vec![], Nanos::NEVER));
}

fn with_login(login: &LoginRequest<'_>) -> Bench {
    let mut bench = Bench::watching();
    bench.log_in(B, &LoginRequest { no_refresh: true, ..*login });
    bench.request(B, 9, "IBM");
    bench.took();
    bench
}

#[test]
fn who_wants_no_suspect_data_has_its_streams_closed_instead() {
    let mut bench = with_login(&LoginRequest { allow_suspect_data: false, ..LoginRequest::consumer(b"me") });
    bench.stream(Kind::Status, 2, 1, &status(StreamState::Open, "late"));
    assert_eq!(bench.took(), ["2/9: status closed-recover suspect: late", "1/5: status open suspect: late"]);
    bench.request(B, 10, "IBM");
    assert!(bench.took()[0].starts_with("2/10: status closed-recover suspect"), "it is suspect still");
    bench.stream(Kind::Refresh, 3, 1, &refresh(&[(22, 3)]));
    bench.request(B, 10, "IBM");
    assert_eq!(bench.took(), ["1/5: refresh ok 22=3", "2/10: refresh ok solicited 22=3"]);
    assert_eq!(bench.counters.watchers.get(), 2);
}

#[test]
fn who_recovers_by_itself_is_told_to_when_the_service_is_lost_but_not_for_a_gap() {
    let mut bench = with_login(&LoginRequest { single_open: false, ..LoginRequest::consumer(b"me") });
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    bench.gap_answer(2, 3, Some(&[1]));
    assert_eq!(bench.took()[1], "1/5,2/9: status open suspect: messages were lost on the backbone");
    bench.image(1, 4, "IBM", &[(22, 4)]);
    bench.took();
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    let down = "suspect: the service is down: its provider has gone";
    assert_eq!(
        bench.took(),
        [format!("2/9: status closed-recover {down}"), format!("1/5: status open {down}")]
    );
    bench.request(B, 9, "IBM");
    assert!(bench.took()[0].starts_with("2/9: status closed-recover suspect"));
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.took();
    bench.request(B, 11, "MSFT");
    assert_eq!(bench.took(), ["2/11: status closed-recover suspect: the service is down, waiting for it"]);
    assert_eq!(bench.counters.watchers.get(), 1);
}
