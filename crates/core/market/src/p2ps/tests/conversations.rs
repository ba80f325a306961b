//! Posts, generic messages and private streams.

use rdm::post::post;
use rwf::{AckMsg, GenericMsg, NakCode, PostMsg, PostUserInfo};

use super::*;

const IBM: Key<'static> = Key::new(1, b"IBM");

/// A post to IBM that wants an acknowledgement, on a stream of its client's.
fn to_ibm(stream_id: i32, post_id: u32) -> PostMsg<'static> {
    PostMsg {
        ack: true,
        post_id: Some(post_id),
        seq_num: Some(post_id + 100),
        ..post(Domain::MARKET_PRICE, stream_id, IBM, DataType::FIELD_LIST, &[0])
    }
}

fn ack(post_id: u32, nak_code: Option<NakCode>) -> Vec<u8> {
    let ack = AckMsg {
        ack_id: post_id,
        nak_code,
        seq_num: Some(post_id + 100),
        ..AckMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA)
    };
    ack.to_vec().expect("legal")
}

impl Bench {
    fn post(&mut self, client: ClientId, msg: &PostMsg<'_>) {
        self.client(client, &msg.to_vec().expect("legal"));
    }

    fn answer(&mut self, conversation: u64, message: &[u8]) {
        self.link(INSTANCE, &LinkDown::ClientAnswer { conversation, message });
    }

    fn private(&mut self, conversation: u64, msg: &impl ToVec) {
        let message = msg.to_vec().expect("legal");
        self.link(INSTANCE, &LinkDown::PrivateMessage { conversation, message: &message });
    }
}

#[test]
fn a_post_goes_to_the_instance_and_its_acknowledgement_comes_back_once() {
    let mut bench = Bench::watching();
    bench.post(A, &to_ibm(5, 7));
    assert_eq!(bench.took(), ["77: client message 1 IBM post"]);
    assert_eq!(bench.counters.posts_outstanding.get(), 1);
    bench.answer(1, &ack(7, None));
    bench.answer(1, &ack(7, None));
    assert_eq!(bench.took(), ["1/5: ack 7"]);
    bench.post(A, &to_ibm(5, 8));
    bench.answer(1, &ack(8, Some(NakCode::ACCESS_DENIED)));
    assert_eq!(bench.took()[1], "1/5: ack 8 refused: access denied");
    let counters = &bench.counters;
    assert_eq!((counters.posts_in.get(), counters.acks_out.get(), counters.answers_late.get()), (2, 2, 1));
    assert_eq!((counters.posts_outstanding.get(), counters.posts_refused.get()), (0, 0));
}

#[test]
fn a_post_off_stream_needs_no_open_item() {
    let mut bench = Bench::running();
    bench.post(B, &to_ibm(1, 7));
    assert_eq!(bench.took(), ["77: client message 1  post"], "without a name it is off stream");
    bench.answer(1, &ack(7, None));
    assert_eq!(bench.took(), ["2/1: ack 7"]);
    let unknown = PostMsg { key: Some(Key::new(9, b"IBM").into()), ..to_ibm(1, 8) };
    bench.post(B, &unknown);
    assert_eq!(bench.took(), ["2/1: ack 8 refused: source unknown"]);
}

#[test]
fn a_post_that_cannot_be_passed_on_is_refused_with_the_reason() {
    let mut bench = Bench::watching();
    bench.post(A, &to_ibm(99, 1));
    assert_eq!(bench.took(), ["1/99: ack 1 refused: not open"]);
    bench.post(A, &PostMsg { ack: false, ..to_ibm(99, 2) });
    assert_eq!(bench.took(), [""; 0], "nobody wants to know");
    bench.core.reconfigure(|config| config.posts_outstanding_max = 1);
    bench.post(A, &to_ibm(5, 3));
    bench.post(A, &to_ibm(5, 4));
    assert_eq!(bench.took()[1], "1/5: ack 4 refused: no resources");
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    assert_eq!(bench.took()[0], "1/5: ack 3 refused: source down", "its answer will never come");
    bench.post(A, &to_ibm(5, 5));
    assert_eq!(bench.took(), ["1/5: ack 5 refused: source down"]);
    assert_eq!(bench.counters.posts_refused.get(), 5);
}

#[test]
fn a_post_that_is_not_answered_in_time_is_refused() {
    let mut bench = Bench::watching();
    bench.post(A, &to_ibm(5, 7));
    bench.took();
    let timeout = ServerConfig::default().post_timeout;
    bench.now += timeout;
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    assert_eq!(bench.took(), [""; 0]);
    bench.core.on_wakeup(bench.now, &mut bench.log);
    assert_eq!(bench.took(), ["1/5: ack 7 refused: no response"]);
    bench.answer(1, &ack(7, None));
    assert_eq!((bench.took(), bench.counters.answers_late.get()), (vec![], 1));
}

#[test]
fn what_a_client_has_posted_is_forgotten_with_its_stream() {
    let mut bench = Bench::watching();
    bench.post(A, &to_ibm(5, 7));
    bench.close(A, 5);
    bench.took();
    bench.answer(1, &ack(7, None));
    bench.request(A, 5, "IBM");
    bench.post(A, &to_ibm(5, 7));
    assert_eq!(bench.took()[1], "77: client message 2 IBM post", "a number is not used again");
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    bench.after(Duration::from_secs(60));
    assert!(!bench.took().iter().any(|line| line.contains("ack")));
}

/// What went up, whole.
#[derive(Default)]
struct Up(Vec<Vec<u8>>);

impl ServerSink for Up {
    fn send(&mut self, _: ClientId, _: &[u8]) {}
    fn fan_out(&mut self, _: &[Watcher], _: &[u8]) {}
}

impl UpstreamSink for Up {
    fn notice(&mut self, _: &ServerNotice<'_>) {}
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, msg: &LinkUp<'_>) {
        if let LinkUp::ClientMessage { message, .. } = *msg {
            self.0.push(message.to_vec());
        }
    }
}

#[test]
fn who_posts_is_filled_in_where_the_client_says_nothing() {
    let mut bench = Bench::watching();
    let c = ClientId(3);
    bench.core.on_client_connected(c, ClientProfile { address: 0x0A00_0001, ..ClientProfile::default() });
    bench.log_in(c, &LoginRequest::consumer(b"me"));
    bench.request(c, 5, "IBM");
    let said = PostUserInfo { address: 9, user_id: 8 };
    for (post_user_info, expected) in [(PostUserInfo { address: 0, user_id: 8 }, 0x0A00_0001), (said, 9)] {
        let mut up = Up::default();
        let bytes = PostMsg { post_user_info, ..to_ibm(5, 7) }.to_vec().expect("legal");
        bench.core.on_client_message(bench.now, c, &bytes, &mut up).expect("accepted");
        let passed = PostMsg::parse(&up.0[0]).expect("whole");
        assert_eq!(passed.post_user_info, PostUserInfo { address: expected, user_id: 8 });
        assert_eq!((passed.post_id, passed.seq_num, passed.ack), (Some(7), Some(107), true));
    }
}

#[test]
fn generic_messages_go_both_ways() {
    let mut bench = Bench::watching();
    bench.request(B, 6, "IBM");
    bench.took();
    let generic = GenericMsg { complete: true, ..GenericMsg::new(Domain(200), 5, DataType::NO_DATA) };
    let bytes = generic.to_vec().expect("legal");
    bench.client(A, &bytes);
    assert_eq!(bench.took(), ["77: client message 1 IBM generic"]);
    bench.answer(1, &bytes);
    bench.stream(Kind::Generic, 2, 1, &bytes);
    assert_eq!(bench.took(), ["1/5: generic domain 200", "1/5,2/6: generic domain 200"]);
    bench.client(B, &GenericMsg { stream_id: 99, ..generic }.to_vec().expect("legal"));
    assert_eq!(bench.took(), [""; 0]);
    let counters = &bench.counters;
    assert_eq!((counters.generics_in.get(), counters.generics_out.get()), (1, 3));
    assert_eq!(counters.client_messages_refused.get(), 1);
}

fn private_request(stream_id: i32) -> ItemRequest<'static> {
    ItemRequest { private_stream: true, ..ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, IBM) }
}

/// An image of a private stream as its provider, which calls the service 4, sends it.
fn private_image(payload: &[u8]) -> RefreshMsg<'_> {
    RefreshMsg {
        complete: true,
        solicited: true,
        key: Some(rwf::Key::item(4, b"IBM")),
        payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    }
}

#[test]
fn a_private_stream_is_not_shared_and_not_cached() {
    let mut bench = Bench::watching();
    bench.ask(A, &private_request(6));
    bench.ask(B, &private_request(6));
    assert_eq!(bench.took(), ["77: private request 1", "77: private request 2"]);
    let payload = fields(&[(22, 9)]);
    bench.private(2, &private_image(&payload));
    let msg =
        UpdateMsg { payload: &payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST) };
    bench.private(2, &msg);
    assert_eq!(bench.took(), ["2/6: refresh ok solicited private of 1 22=9", "2/6: update 22=9"]);
    bench.ask(B, &ItemRequest { no_refresh: true, ..private_request(6) });
    bench.client(B, &GenericMsg::new(Domain(200), 6, DataType::NO_DATA).to_vec().expect("legal"));
    bench.post(B, &to_ibm(6, 7));
    bench.private(2, &AckMsg { ack_id: 7, ..AckMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) });
    bench.close(B, 6);
    assert_eq!(
        bench.took(),
        [
            "77: private message 2 request",
            "77: private message 2 generic",
            "77: private message 2 post",
            "2/6: ack 7",
            "77: private message 2 close"
        ]
    );
    assert_eq!((bench.counters.watchers.get(), bench.counters.items.get()), (2, 1));
    bench.private(2, &msg);
    assert_eq!((bench.took(), bench.counters.answers_late.get()), (vec![], 1));
}

#[test]
fn a_private_stream_ends_with_its_provider_s_word_with_a_snapshot_or_with_the_link() {
    let mut bench = Bench::running();
    for stream_id in 5..=7 {
        bench.ask(A, &private_request(stream_id));
    }
    bench.ask(A, &ItemRequest { streaming: false, ..private_request(8) });
    bench.took();
    let ended = State::new(StreamState::Closed, rwf::DataState::Suspect).because(StateCode::NOT_FOUND, "no");
    let status = StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
    bench.private(1, &StatusMsg { state: Some(ended), ..status });
    bench.private(4, &private_image(&[0]));
    assert_eq!(
        bench.took(),
        ["1/5: status closed suspect: no private", "1/8: refresh ok solicited non-streaming private of 1"]
    );
    assert_eq!(bench.counters.watchers.get(), 2);
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    let mut log = bench.took();
    log.sort_unstable();
    let lost = "status closed-recover suspect: the source distributor is lost private";
    assert_eq!(log, [format!("1/6: {lost}"), format!("1/7: {lost}")]);
    bench.ask(A, &private_request(6));
    assert_eq!(bench.took(), ["1/6: status closed-recover suspect: the service is down private"]);
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn a_private_stream_is_a_snapshot_if_the_last_request_says_so() {
    let as_snapshot = |is_snapshot: bool| ItemRequest { streaming: !is_snapshot, ..private_request(5) };
    for is_snapshot in [false, true] {
        let mut bench = Bench::running();
        bench.ask(A, &as_snapshot(!is_snapshot));
        bench.ask(A, &as_snapshot(is_snapshot));
        bench.took();
        bench.private(1, &private_image(&[0]));
        let state = if is_snapshot { "non-streaming " } else { "" };
        assert_eq!(bench.took(), [format!("1/5: refresh ok solicited {state}private of 1")]);
        assert_eq!(bench.counters.watchers.get(), u64::from(!is_snapshot));
    }
}

#[test]
fn a_client_that_goes_takes_its_private_streams_with_it() {
    let mut bench = Bench::running();
    bench.ask(A, &private_request(5));
    bench.took();
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert_eq!(bench.took(), ["77: private message 1 close"]);
}

#[test]
fn a_stream_is_private_or_not() {
    let mut bench = Bench::watching();
    bench.ask(A, &private_request(5));
    assert_eq!(bench.took(), ["1/5: status closed suspect: the stream is open for another item private"]);
    bench.ask(A, &private_request(6));
    bench.request(A, 6, "IBM");
    let log = bench.took();
    assert_eq!(log[1], "1/6: status closed suspect: the stream is open for another item");
    assert_eq!(log[2], "77: private message 1 close");
    assert_eq!(bench.counters.watchers.get(), 0);
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let mut bench = Bench::watching();
    bench.post(A, &to_ibm(5, 7));
    bench.ask(A, &private_request(6));
    bench.took();
    let request = private_request(5).to_vec().expect("legal");
    for msg in [
        LinkDown::ClientAnswer { conversation: 1, message: &request },
        LinkDown::PrivateMessage { conversation: 2, message: &request },
        LinkDown::ClientAnswer { conversation: 1, message: &[1, 2] },
    ] {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        assert!(bench.core.on_link_message(bench.now, INSTANCE, &bytes, &mut bench.log).is_err());
    }
    bench.link(INSTANCE, &LinkDown::PrivateMessage { conversation: 1, message: &ack(7, None) });
    assert_eq!((bench.took(), bench.counters.messages_refused.get()), (vec![], 3));
}
