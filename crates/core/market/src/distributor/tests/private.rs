//! Private streams.

use rwf::{CloseMsg, GenericMsg, PostMsg, RequestMsg, StreamState};

use super::dialled::{A, B, OTHER_PEER, Script, config};
use super::*;

fn request(streaming: bool) -> Vec<u8> {
    let key = Key::item(1, b"X");
    let plain = RequestMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
    RequestMsg { streaming, private_stream: true, key, ..plain }.to_vec().expect("legal")
}

impl Bench {
    fn private(&mut self, peer: PeerId, conversation: u64, streaming: bool) {
        let request = &request(streaming);
        self.peer_says(T0, peer, &LinkUp::PrivateRequest { service: 1, conversation, request });
    }

    fn private_says(&mut self, conversation: u64, message: &[u8]) {
        self.peer(T0, &LinkUp::PrivateMessage { conversation, message });
    }

    fn privates(&self) -> (u64, u64) {
        (self.counters.private_streams.get(), self.counters.streams_open.get())
    }
}

#[test]
fn each_client_has_a_stream_of_its_own_and_nothing_of_it_is_kept() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.private(PEER, 70, true);
    bench.private(OTHER_PEER, 70, true);
    let asked = ["provider 100: request X on 5 in 3", "provider 100: request X on 6 in 3"];
    assert_eq!((bench.log.take(), bench.privates()), (asked.map(String::from).to_vec(), (2, 2)));
    bench.image(A, 6, &[(22, 6)]);
    bench.image(A, 5, &[(22, 5)]);
    bench.provider(T0, A, &update(5, None, &[(22, 7)]));
    assert_eq!(
        bench.log.take(),
        ["peer 8: private 70: ok 22=6", "peer 7: private 70: ok 22=5", "peer 7: private 70: 22=7"]
    );
    assert_eq!((bench.core.item_count(), bench.counters.private_messages_out.get()), (0, 3));
}

#[test]
fn what_the_client_says_goes_to_its_stream_until_it_closes_it() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.private(PEER, 70, true);
    bench.image(A, 5, &[(22, 5)]);
    bench.log.take();
    let generic = GenericMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
    bench.private_says(70, &generic.to_vec().expect("legal"));
    let post =
        PostMsg { post_id: Some(9), ack: true, ..PostMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.private_says(70, &post.to_vec().expect("legal"));
    bench.private_says(70, &request(true));
    let close = CloseMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA).to_vec().expect("legal");
    bench.private_says(70, &close);
    assert_eq!(
        bench.log.take(),
        [
            "provider 100: generic on 5",
            "provider 100: post Some(9) on 5 in None",
            "provider 100: request X on 5 in 3",
            "provider 100: close 5"
        ]
    );
    bench.private_says(70, &close);
    bench.provider(T0, A, &update(5, None, &[(22, 7)]));
    assert_eq!((bench.log.take(), bench.privates()), (vec![], (0, 0)));
    assert_eq!(bench.counters.messages_unasked.get(), 1);
}

#[test]
fn a_snapshot_is_over_with_its_image_and_a_stream_with_its_end() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.private(PEER, 70, false);
    bench.private(PEER, 71, true);
    bench.image(A, 5, &[(22, 5)]);
    assert_eq!(bench.privates(), (1, 1));
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(rwf::StateCode::NONE, "bye");
    bench.provider(T0, A, &Script::status(6, closed));
    assert_eq!(bench.log.take().last().expect("it is told"), "peer 7: private 71: closed suspect bye");
    assert_eq!(bench.privates(), (0, 0));
}

#[test]
fn a_provider_that_goes_on_with_a_stream_that_is_over_is_sent_a_close() {
    let mut bench = Bench::dialled(config(), &[A]);
    // One image was wanted, and the provider says that the stream is open.
    bench.private(PEER, 70, false);
    bench.image(A, 5, &[(22, 5)]);
    assert_eq!(bench.log.take().last().expect("it is told"), "provider 100: close 5");
    // The last request counts.
    bench.private(PEER, 71, false);
    bench.private_says(71, &request(true));
    bench.image(A, 6, &[(22, 5)]);
    assert_eq!(bench.privates(), (1, 1));
    // A request has met the provider's end of the stream, which opens it again.
    let closed = State::new(StreamState::Closed, DataState::Suspect);
    bench.provider(T0, A, &Script::status(6, closed));
    bench.log.take();
    let payload = fields(&[(22, 6)]);
    let image = RefreshMsg {
        private_stream: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 6, DataType::FIELD_LIST)
    };
    bench.provider(T0, A, &image.to_vec().expect("legal"));
    assert_eq!(bench.log.take(), ["provider 100: close 6"]);
    assert_eq!(bench.privates(), (0, 0));
}

#[test]
fn a_private_stream_ends_with_its_provider_its_link_or_for_want_of_an_answer() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.private(PEER, 70, true);
    bench.log.take();
    bench.wake(T0 + Duration::from_secs(16));
    let silent = "peer 7: private 70: closed-recover suspect the provider does not answer";
    assert_eq!(bench.said(), ["provider 100: close 5", silent]);
    bench.private(PEER, 71, true);
    bench.private(OTHER_PEER, 72, true);
    bench.image(A, 7, &[(22, 5)]);
    bench.log.take();
    bench.core.on_peer_closed(T0, OTHER_PEER, &mut bench.log);
    assert_eq!(bench.said(), ["provider 100: close 7"]);
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    let lost = "peer 7: private 71: closed-recover suspect the connection to the provider is lost";
    assert_eq!(
        (bench.said(), bench.privates()),
        (["all of 1 suspect #1", lost].map(str::to_owned).to_vec(), (0, 0))
    );
    assert_eq!(bench.counters.requests_unanswered.get(), 1);
}

#[test]
fn a_private_stream_that_cannot_be_is_refused_with_the_reason() {
    let refused = |config: DistributorConfig, providers: &[ProviderId]| {
        let mut bench = Bench::dialled(config, providers);
        bench.private(PEER, 70, true);
        assert_eq!(bench.counters.private_streams_refused.get(), 1);
        bench.log.take().join("; ")
    };
    let told = |text: &str| format!("peer 7: private 70: {text}");
    let none = DistributorConfig { private_streams_max: 0, ..config() };
    let too_many = "closed-recover suspect there are too many private streams";
    assert_eq!(refused(none, &[A, B]), told(too_many));
    let busy = DistributorConfig { requests_outstanding_max: 0, ..config() };
    let no_room = "closed-recover suspect no provider of the service takes a request now";
    assert_eq!(refused(busy, &[A]), told(no_room));
    assert_eq!(refused(config(), &[]), told("closed suspect the service is not published here"));
    let mut bench = Bench::running();
    bench.private(PEER, 70, true);
    assert_eq!(bench.log.take(), [told("closed suspect the service has no private streams")]);
}
