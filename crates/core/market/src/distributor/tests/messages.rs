//! Posts and generic messages.

use rdm::post::PostUserRights;
use rwf::{AckMsg, GenericMsg, NakCode, PostMsg, PostUserInfo, StreamState};

use super::dialled::{A, B, OTHER_PEER, Script, config};
use super::*;

const USER: PostUserInfo = PostUserInfo { address: 0x7F00_0001, user_id: 42 };

/// A post that wants an acknowledgement.
fn post(post_id: u32, all: &[(i16, i64)]) -> Vec<u8> {
    let payload = fields(all);
    encoded(PostMsg { payload: &payload, ..wanting(post_id) })
}

fn wanting(post_id: u32) -> PostMsg<'static> {
    PostMsg {
        complete: true,
        ack: true,
        post_id: Some(post_id),
        post_user_info: USER,
        key: Some(Key::item(1, b"X")),
        ..PostMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    }
}

fn encoded(msg: PostMsg<'_>) -> Vec<u8> {
    msg.to_vec().expect("legal")
}

pub(super) fn with_message(msg: &rwf::Msg<'_>, rights: PostUserRights) -> Vec<u8> {
    let payload = msg.to_vec().expect("legal");
    let rights = Some(rights.0);
    encoded(PostMsg { container_type: DataType::MSG, payload: &payload, user_rights: rights, ..wanting(9) })
}

impl Bench {
    /// A dialled provider at which X is open on stream 5.
    fn with_open_item(config: DistributorConfig) -> Bench {
        let mut bench = Bench::dialled(config, &[A]);
        bench.interest(T0, "X");
        bench.image(A, 5, &[(22, 1)]);
        bench.log.take();
        bench
    }

    pub(super) fn client_says(&mut self, peer: PeerId, conversation: u64, name: &str, message: &[u8]) {
        let msg = LinkUp::ClientMessage { conversation, key: item(name), message };
        self.peer_says(T0, peer, &msg);
    }

    fn ack(&mut self, provider: ProviderId, stream_id: i32, ack_id: u32, nak_code: Option<NakCode>) {
        let ack =
            AckMsg { ack_id, nak_code, ..AckMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA) };
        self.provider(T0, provider, &ack.to_vec().expect("legal"));
    }
}

fn routed(route: PostRoute) -> DistributorConfig {
    DistributorConfig { posts: BTreeMap::from([("BINANCE".to_owned(), route)]), ..config() }
}

#[test]
fn posts_of_two_clients_with_one_id_are_told_apart_and_answered_each() {
    let mut bench = Bench::with_open_item(config());
    bench.client_says(PEER, 70, "X", &post(9, &[(22, 5)]));
    bench.client_says(OTHER_PEER, 70, "X", &post(9, &[(22, 6)]));
    let posted = ["provider 100: post Some(1) on 5 in Some(3)", "provider 100: post Some(2) on 5 in Some(3)"];
    assert_eq!(bench.log.take(), posted);
    assert_eq!(bench.counters.posts_outstanding.get(), 2);
    bench.ack(A, 5, 2, None);
    bench.ack(A, 5, 1, Some(NakCode::DENIED_BY_SOURCE));
    let denied = "peer 7: answer for 70: nak 9 denied by source";
    assert_eq!(bench.log.take(), ["peer 8: answer for 70: ack 9", denied]);
    bench.ack(A, 5, 1, None);
    assert_eq!((bench.log.take(), bench.counters.messages_unasked.get()), (vec![], 1), "answered already");
    assert_eq!((bench.counters.posts_outstanding.get(), bench.counters.acks_in.get()), (0, 2));
}

#[test]
fn a_post_off_stream_goes_over_the_login_to_the_provider_that_has_the_item_or_to_any() {
    let mut bench = Bench::dialled(config(), &[A, B]);
    bench.client_says(PEER, 70, "", &post(9, &[(22, 5)]));
    bench.interest(T0, "X");
    bench.image(A, 5, &[(22, 1)]);
    bench.client_says(PEER, 70, "", &post(10, &[(22, 5)]));
    let posts: Vec<_> = bench.log.take().into_iter().filter(|l| l.contains("post")).collect();
    let any = "provider 101: post Some(1) on 1 in Some(3)";
    assert_eq!(posts, [any, "provider 100: post Some(2) on 1 in Some(3)"]);
    bench.ack(B, 1, 1, None);
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: ack 9"]);
}

#[test]
fn the_parts_of_a_post_share_an_id_and_each_is_acknowledged() {
    let mut bench = Bench::with_open_item(config());
    let part = |part_num: u16, complete| {
        encoded(PostMsg { complete, part_num: Some(part_num), seq_num: Some(part_num.into()), ..wanting(9) })
    };
    bench.client_says(PEER, 70, "X", &part(0, false));
    bench.client_says(PEER, 70, "X", &part(1, true));
    let both = "provider 100: post Some(1) on 5 in Some(3)";
    assert_eq!(bench.log.take(), [both, both]);
    bench.ack(A, 5, 1, None);
    bench.ack(A, 5, 1, None);
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: ack 9"; 2]);
    assert_eq!(bench.counters.posts_outstanding.get(), 0);
}

#[test]
fn a_post_that_nobody_answers_is_refused_in_time_or_with_the_provider() {
    let mut bench = Bench::with_open_item(config());
    bench.client_says(PEER, 70, "X", &post(9, &[(22, 5)]));
    bench.log.take();
    bench.wake(T0 + Duration::from_secs(16));
    assert_eq!(bench.said(), ["peer 7: answer for 70: nak 9 no response"]);
    bench.client_says(PEER, 70, "X", &post(10, &[(22, 5)]));
    bench.client_says(OTHER_PEER, 71, "X", &post(11, &[(22, 5)]));
    bench.core.on_peer_closed(T0, OTHER_PEER, &mut bench.log);
    bench.log.take();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    assert_eq!(bench.said(), ["peer 7: answer for 70: nak 10 source down", "all of 1 suspect #2"]);
    assert_eq!((bench.counters.posts_outstanding.get(), bench.counters.posts_refused.get()), (0, 2));
}

#[test]
fn a_post_that_cannot_go_anywhere_is_refused_with_the_reason() {
    let refused = |config: DistributorConfig, name: &str| {
        let mut bench = Bench::with_open_item(config);
        bench.client_says(PEER, 70, name, &post(9, &[(22, 5)]));
        assert_eq!(bench.counters.posts_refused.get(), 1);
        bench.log.take().join("; ")
    };
    assert_eq!(refused(config(), "Y"), "peer 7: answer for 70: nak 9 not open");
    assert_eq!(refused(routed(PostRoute::Refuse), "X"), "peer 7: answer for 70: nak 9 denied by source");
    let none = DistributorConfig { posts_outstanding_max: 0, ..config() };
    assert_eq!(refused(none, "X"), "peer 7: answer for 70: nak 9 no resources");
    let mut bench = Bench::running();
    bench.client_says(PEER, 70, "", &post(9, &[(22, 5)]));
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 denied by source"]);
    let other = LinkUp::ClientMessage {
        conversation: 70,
        key: ItemKey::named(8, Domain::MARKET_PRICE, b"X"),
        message: &post(9, &[(22, 5)]),
    };
    bench.peer(T0, &other);
    bench.client_says(PEER, 70, "X", b"no message");
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 source unknown"]);
    assert_eq!(bench.counters.link_messages_refused.get(), 1);
}

#[test]
fn a_provider_whose_login_takes_no_posts_gets_none() {
    let mut bench = Bench::with_open_item(config());
    let plain = rdm::login::LoginRefresh::accept(&LoginRequest::consumer(b"sd"));
    bench.provider(T0, A, &plain.to_vec().expect("legal"));
    bench.client_says(PEER, 70, "X", &post(9, &[(22, 5)]));
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 denied by source"]);
}

#[test]
fn a_post_to_the_cache_is_an_update_for_all_and_stays_in_the_image() {
    let mut bench = Bench::with_open_item(routed(PostRoute::Cache));
    bench.client_says(PEER, 70, "X", &post(9, &[(22, 5)]));
    assert_eq!(bench.log.take(), ["1 Update #2 item 1: posted 22=5", "peer 7: answer for 70: ack 9"]);
    let inner = fields(&[(25, 7)]);
    let update = rwf::Msg::Update(UpdateMsg {
        payload: &inner,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    });
    bench.client_says(PEER, 70, "", &with_message(&update, PostUserRights(0)));
    assert_eq!(bench.log.take(), ["1 Update #3 item 1: posted 25=7", "peer 7: answer for 70: ack 9"]);
    bench.peer_says(T0, OTHER_PEER, &LinkUp::Interest { key: item("X") });
    assert_eq!(bench.log.take()[1], "peer 8: image of X as item 1 after #4: ok 22=5 25=7");
    assert_eq!((bench.counters.posts_cached.get(), bench.counters.posts_out.get()), (2, 0));
}

#[test]
fn what_the_cache_cannot_hold_is_refused_and_changes_nothing() {
    let mut bench = Bench::with_open_item(routed(PostRoute::Cache));
    let whole = fields(&[(22, 5), (25, 6)]);
    let cut = encoded(PostMsg { payload: &whole[..whole.len() - 1], ..wanting(9) });
    bench.client_says(PEER, 70, "X", &cut);
    let map = encoded(PostMsg { container_type: DataType::OPAQUE, payload: b"x", ..wanting(10) });
    bench.client_says(PEER, 70, "X", &map);
    assert_eq!(bench.log.take(), [refused(9), refused(10)]);
    bench.client_says(PEER, 70, "Y", &post(11, &[(22, 5)]));
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 11 symbol unknown"]);
    bench.peer(T0, &LinkUp::ImageRequest { key: item("X") });
    assert_eq!(bench.log.take(), ["peer 7: image of X as item 1 after #1: ok 22=1"]);
}

/// A map of entries with these keys, of no data.
fn map_of(keys: &[&[u8]]) -> Vec<u8> {
    let head = rwf::MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA);
    rwf::encode_to_vec(|w| {
        w.map(&head, |m| {
            keys.iter().for_each(|key| m.entry(rwf::MapAction::Add, rwf::AsciiString(key), None, |_| ()));
        });
    })
    .expect("legal")
}

#[test]
fn a_post_that_fails_half_way_leaves_image_and_table_as_they_were() {
    let mut bench = Bench::new(routed(PostRoute::Cache));
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    let (good, mut half_good) = (map_of(&[b"one"]), map_of(&[b"two", b"?"]));
    // The key of the second entry is left out, and its length is none.
    assert_eq!(half_good.split_off(half_good.len() - 2), [1, b'?']);
    half_good.push(0);
    let image = |payload| RefreshMsg {
        complete: true,
        payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, -5, DataType::MAP)
    };
    bench.client_says(
        PEER,
        70,
        "NEW",
        &with_message(&rwf::Msg::Refresh(image(&half_good)), PostUserRights::CREATE),
    );
    assert_eq!((bench.log.take().pop(), bench.core.item_count()), (Some(refused(9)), 0), "not made");
    let key = Some(Key::item(3, b"X"));
    bench.provider(T0, PROVIDER, &RefreshMsg { key, ..image(&good) }.to_vec().expect("legal"));
    let before = format!("{:?}", bench.core.items().next());
    bench.log.take();
    let update = encoded(PostMsg { container_type: DataType::MAP, payload: &half_good, ..wanting(10) });
    bench.client_says(PEER, 70, "X", &update);
    bench.client_says(PEER, 70, "X", &with_message(&rwf::Msg::Refresh(image(&half_good)), PostUserRights(0)));
    assert_eq!(bench.log.take(), [refused(10), refused(9)]);
    assert_eq!(format!("{:?}", bench.core.items().next()), before);
}

fn refused(id: u32) -> String {
    format!("peer 7: answer for 70: nak {id} invalid content")
}

#[test]
fn items_of_the_cache_are_made_and_removed_by_who_may() {
    let mut bench = Bench::new(DistributorConfig { items_max: 1, ..routed(PostRoute::Cache) });
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    bench.interest(T0, "X");
    bench.log.take();
    let payload = fields(&[(22, 1)]);
    let image = rwf::Msg::Refresh(RefreshMsg {
        complete: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
    });
    bench.client_says(PEER, 70, "", &with_message(&image, PostUserRights(0)));
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 symbol unknown"]);
    bench.client_says(PEER, 70, "", &with_message(&image, PostUserRights::CREATE));
    let made = "peer 7: image of X as item 1 after #1: ok 22=1";
    assert_eq!(bench.log.take(), ["1 Open #1 item 1: X", made, "peer 7: answer for 70: ack 9"]);
    let gone = State::new(StreamState::Closed, DataState::Suspect).because(rwf::StateCode::NONE, "over");
    let end = rwf::Msg::Status(StatusMsg {
        state: Some(gone),
        ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA)
    });
    bench.client_says(PEER, 70, "X", &with_message(&end, PostUserRights::CREATE));
    assert_eq!(bench.log.take(), ["peer 7: answer for 70: nak 9 access denied"]);
    bench.client_says(PEER, 70, "X", &with_message(&end, PostUserRights::DELETE));
    let closed = "1 Close #2 item 1: closed suspect over";
    assert_eq!(bench.log.take(), [closed, "peer 7: answer for 70: ack 9"]);
    assert_eq!(bench.core.item_count(), 0);
}

#[test]
fn generic_messages_go_to_the_provider_and_come_to_all_who_watch() {
    let mut bench = Bench::with_open_item(config());
    let generic =
        GenericMsg { complete: true, ..GenericMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.client_says(PEER, 70, "X", &generic.to_vec().expect("legal"));
    assert_eq!(bench.log.take(), ["provider 100: generic on 5"]);
    bench.provider(T0, A, &GenericMsg { stream_id: 5, ..generic }.to_vec().expect("legal"));
    assert_eq!(bench.log.take(), ["1 Generic #2 item 1: generic "]);
    bench.client_says(PEER, 70, "Y", &generic.to_vec().expect("legal"));
    bench.provider(T0, A, &GenericMsg { stream_id: 6, ..generic }.to_vec().expect("legal"));
    assert_eq!(bench.log.take(), [""; 0]);
    let counters = &bench.counters;
    assert_eq!((counters.generics_in.get(), counters.generics_out.get()), (1, 1));
    assert_eq!((counters.link_messages_refused.get(), counters.messages_unasked.get()), (1, 1));
    bench.provider(T0, A, &Script::login());
}
