//! Views, pauses and other forms in which a stream wants its item.

use rdm::item::View;
use rwf::{Conflation, Decode};

use super::*;

pub(super) fn ibm(stream_id: i32) -> ItemRequest<'static> {
    ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, Key::new(1, b"IBM"))
}

fn viewing(stream_id: i32, ids: &[i16]) -> ItemRequest<'static> {
    ItemRequest { view: Some(View::Fields(ids.into())), ..ibm(stream_id) }
}

#[test]
fn streams_with_different_views_share_one_item_and_see_their_fields_alone() {
    let mut bench = Bench::running();
    bench.ask(A, &viewing(5, &[22]));
    bench.ask(B, &viewing(6, &[25, 30]));
    bench.ask(B, &ibm(7));
    assert_eq!(bench.took(), ["77: interest IBM"]);
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1), (25, 2), (30, 3)]);
    let log = bench.took();
    assert_eq!(
        log,
        [
            "1/5: refresh ok solicited 22=1",
            "2/6: refresh ok solicited 25=2 30=3",
            "2/7: refresh ok solicited 22=1 25=2 30=3"
        ]
    );
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 4), (30, 5)]));
    assert_eq!(bench.took(), ["1/5: update 22=4", "2/6: update 30=5", "2/7: update 22=4 30=5"]);
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5: update 22=6", "2/7: update 22=6"], "nothing of it is in the view");
    assert_eq!((bench.counters.updates_out.get(), bench.counters.updates_outside_views.get()), (5, 1));
}

#[test]
fn streams_with_the_same_view_get_one_message() {
    let mut bench = Bench::watching();
    bench.ask(A, &viewing(6, &[22, 25]));
    bench.ask(B, &viewing(7, &[25, 22]));
    bench.took();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 4), (30, 5)]));
    assert_eq!(bench.took(), ["1/5: update 22=4 30=5", "1/6,2/7: update 22=4"]);
}

#[test]
fn an_image_asked_for_again_goes_out_in_each_view() {
    let mut bench = Bench::watching();
    bench.ask(B, &viewing(6, &[22]));
    bench.took();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 7), (25, 8)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=7 25=8", "2/6: refresh ok 22=7"]);
}

#[test]
fn a_stream_that_becomes_a_snapshot_ends_with_its_image_and_one_that_was_to_be_one_goes_on() {
    let as_snapshot = |is_snapshot: bool| ItemRequest { streaming: !is_snapshot, ..ibm(5) };
    let goes_on = vec!["1/5: refresh ok solicited 22=1", "1/5: update 22=2"];
    let ends = vec!["1/5: refresh ok solicited non-streaming 22=1"];
    // Before there is an image.
    for (is_snapshot, expected) in [(false, &goes_on), (true, &ends)] {
        let mut bench = Bench::running();
        bench.ask(A, &as_snapshot(!is_snapshot));
        bench.ask(A, &as_snapshot(is_snapshot));
        bench.open(1, 1, "IBM");
        bench.took();
        bench.image(1, 1, "IBM", &[(22, 1)]);
        bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
        assert_eq!(&bench.took(), expected, "{is_snapshot}");
        assert_eq!(bench.counters.watchers.get(), u64::from(!is_snapshot));
    }
    // Afterwards, also where no refresh is wanted: it is how the stream ends.
    for no_refresh in [false, true] {
        let mut bench = Bench::watching();
        bench.ask(A, &ItemRequest { no_refresh, ..as_snapshot(true) });
        bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
        assert_eq!(bench.took(), ends);
        assert_eq!(bench.counters.watchers.get(), 0);
        bench.request(A, 5, "IBM");
        assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=2"], "the stream id is free again");
    }
}

#[test]
fn a_reissue_changes_the_view_or_takes_it_away() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Refresh, 2, 1, &refresh(&[(22, 1), (25, 2)]));
    bench.took();
    bench.ask(A, &viewing(5, &[25]));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3), (25, 3)]));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 25=2", "1/5: update 25=3"]);
    // Field 22 has changed behind the view: without a refresh the client would have an old value.
    bench.ask(A, &ItemRequest { no_refresh: true, ..ibm(5) });
    bench.stream(Kind::Update, 4, 1, &update(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=3 25=3", "1/5: update 22=4"]);
    bench.ask(A, &ItemRequest { no_refresh: true, priority: None, ..ibm(5) });
    assert_eq!(bench.took(), [""; 0], "nothing has changed that a refresh would tell");
    assert_eq!(bench.counters.watchers.get(), 1);
}

#[test]
fn a_reissue_before_the_image_has_come_counts_when_it_comes() {
    let mut bench = Bench::running();
    bench.ask(A, &ibm(5));
    bench.ask(A, &ItemRequest { pause: true, ..viewing(5, &[22]) });
    bench.open(1, 1, "IBM");
    bench.took();
    bench.image(1, 1, "IBM", &[(22, 1), (25, 2)]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1"]);
}

#[test]
fn a_paused_stream_gets_states_alone_and_a_refresh_when_it_goes_on() {
    let mut bench = Bench::watching();
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..ibm(5) });
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.stream(Kind::Refresh, 3, 1, &refresh(&[(22, 3)]));
    assert_eq!(bench.took(), [""; 0]);
    bench.stream(Kind::Status, 4, 1, &status(StreamState::Open, "late"));
    assert_eq!(bench.took(), ["1/5: status open suspect: late"]);
    bench.stream(Kind::Refresh, 5, 1, &refresh(&[(22, 5)]));
    bench.ask(A, &ibm(5));
    bench.stream(Kind::Update, 6, 1, &update(&[(22, 6)]));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=5", "1/5: update 22=6"]);
}

#[test]
fn a_stream_that_goes_on_without_wanting_a_refresh_gets_what_it_has_missed_all_the_same() {
    let mut bench = Bench::watching();
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..ibm(5) });
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.ask(A, &ItemRequest { no_refresh: true, ..ibm(5) });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=2"]);
}

#[test]
fn a_view_that_ends_with_a_pause_is_shown_when_the_stream_goes_on() {
    let mut bench = Bench::watching();
    bench.ask(A, &viewing(5, &[25]));
    bench.took();
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..ibm(5) });
    assert_eq!(bench.took(), [""; 0], "a paused stream gets no image that nobody asked for");
    bench.ask(A, &ibm(5));
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1"]);
}

#[test]
fn an_item_may_be_asked_for_as_paused() {
    let mut bench = Bench::watching();
    bench.ask(B, &ItemRequest { pause: true, ..ibm(6) });
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["2/6: refresh ok solicited 22=1", "1/5: update 22=2"]);
    bench.close(B, 6);
    assert_eq!(bench.counters.watchers.get(), 1);
}

#[test]
fn a_paused_login_pauses_all_streams_but_not_those_of_others() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "IBM");
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..ibm(6) });
    bench.request(B, 9, "IBM");
    let login = LoginRequest { no_refresh: true, ..LoginRequest::consumer(b"me") };
    bench.log_in(A, &LoginRequest { pause: true, ..login });
    bench.request(A, 7, "IBM");
    bench.took();
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["2/9: update 22=2"]);
    bench.log_in(A, &login);
    let mut log = bench.took();
    log.sort_unstable();
    assert_eq!(log, ["1/5: refresh ok 22=2", "1/7: refresh ok 22=2"], "stream 6 was paused by itself");
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    assert_eq!(bench.took().join(" ").matches("update").count(), 1, "one form, one message");
    bench.log_in(A, &login);
    assert_eq!(bench.took(), [""; 0], "a login that is repeated changes nothing");
}

/// The raw messages of the last call, for what the words do not tell.
#[derive(Default)]
pub(super) struct Raw(pub(super) Vec<Vec<u8>>);

impl ServerSink for Raw {
    fn send(&mut self, _: ClientId, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
    fn fan_out(&mut self, _: &[Watcher], msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
}

impl UpstreamSink for Raw {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
    fn notice(&mut self, _: &ServerNotice<'_>) {}
}

fn streamed(bench: &mut Bench, sequence: u64, body: &[u8]) -> Vec<Vec<u8>> {
    let msg = StreamMsg { kind: Kind::Update, instance: INSTANCE, sequence, item: 1, parts: &[], body };
    let bytes = [&msg.header()[..], body].concat();
    let mut raw = Raw::default();
    bench.core.on_stream_message(bench.now, STREAM, &bytes, &mut raw).expect("accepted");
    raw.0
}

#[test]
fn key_and_conflation_stand_in_the_updates_of_those_who_want_them() {
    let mut bench = Bench::watching();
    bench.ask(B, &ItemRequest { key_in_updates: true, conflation_info_in_updates: true, ..ibm(6) });
    let payload = fields(&[(22, 2)]);
    let conflated = UpdateMsg {
        seq_num: Some(9),
        conflation: Some(Conflation { count: 3, time: 100 }),
        payload: &payload,
        ..UpdateMsg::new(Domain::MARKET_PRICE, -5, DataType::FIELD_LIST)
    };
    let sent = streamed(&mut bench, 2, &conflated.to_vec().expect("legal"));
    let updates: Vec<UpdateMsg<'_>> = sent.iter().map(|b| UpdateMsg::parse(b).expect("whole")).collect();
    assert_eq!(updates.len(), 2);
    assert_eq!((updates[0].key, updates[0].conflation), (None, None));
    let key = Some(rwf::Key::item(1, b"IBM"));
    assert_eq!((updates[1].key, updates[1].conflation), (key, conflated.conflation));
    assert!(updates.iter().all(|u| u.payload == payload && u.seq_num == Some(9)));
    let plain = update(&[(22, 3)]);
    assert_eq!(streamed(&mut bench, 3, &plain)[0], plain, "the provider's bytes as they are");
}

#[test]
fn a_book_is_restricted_entry_by_entry() {
    let mut bench = Bench::running();
    bench.ask(A, &viewing(5, &[22]));
    bench.open(1, 1, "IBM");
    let head = rwf::MapHead::new(DataType::BUFFER, DataType::FIELD_LIST);
    let payload = rwf::encode_to_vec(|w| {
        w.map(&head, |m| {
            let list = fields(&[(22, 1), (25, 2)]);
            m.entry(rwf::MapAction::Add, rwf::Buffer(b"k"), None, |w| w.bytes(&list));
        });
    })
    .expect("legal");
    let refresh = RefreshMsg {
        complete: true,
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::MAP)
    };
    let refresh = refresh.to_vec().expect("legal");
    let mut bytes = Vec::new();
    LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &refresh }.encode(&mut bytes);
    let mut raw = Raw::default();
    bench.core.on_link_message(bench.now, INSTANCE, &bytes, &mut raw).expect("accepted");
    let sent = RefreshMsg::parse(&raw.0[0]).expect("whole");
    let map = rwf::Map::parse(sent.payload).expect("whole");
    let entries: Vec<_> = map.entries().collect::<Result<_, _>>().expect("whole");
    let list = FieldList::parse(entries[0].data.expect("an add has data")).expect("whole");
    let ids: Vec<_> =
        list.entries().map(|e| e.expect("whole")).map(|e| (e.id, Real::decode(e.content))).collect();
    assert_eq!(ids, [(22, Ok(Some(Real::decimal(1, 0))))]);
    assert_eq!(map.total_count_hint, Some(1));
}
