//! Services that are made of others.

use std::collections::BTreeMap;

use rdm::item::View as Wanted;
use rwf::{DataState, GenericMsg, PostMsg};

use super::*;
use crate::name_pattern::NamePattern;

/// The instances of the two members, whose services have ids 1 and 2.
const ONE: u64 = 77;
const TWO: u64 = 78;
const INSTANCES: [u64; 2] = [ONE, TWO];
const NAMES: [&str; 2] = ["FIRST", "SECOND"];
const ALL: u16 = 65_535;
const DELAY: Duration = Duration::from_secs(10);
/// Longer than an item lingers.
const LINGERS: Duration = Duration::from_secs(6);

fn member(service: &str, items: &[&str]) -> ComposedMember {
    let items = items.iter().map(|pattern| NamePattern::new(pattern)).collect();
    ComposedMember { service: service.to_owned(), items }
}

/// A composed service of the two members.
fn all() -> ComposedService {
    ComposedService {
        name: "ALL".to_owned(),
        members: vec![member("FIRST", &[]), member("SECOND", &[])],
        aliases: BTreeMap::new(),
        fail_back: Some(DELAY),
    }
}

fn alias(to: &mut ComposedService, alias: &str, name: &str, member: Option<usize>) {
    let target = AliasTarget { name: name.as_bytes().to_vec(), member };
    to.aliases.insert(alias.as_bytes().to_vec(), target);
}

struct Made {
    bench: Bench,
    /// The last number of each stream.
    sequences: [u64; 2],
}

impl Made {
    /// Nothing is there yet.
    fn alone(config: ComposedService) -> Made {
        let mut bench = Bench::alone();
        bench.core.reconfigure(|core| {
            core.composed = vec![config];
            core.silence_timeout = Duration::from_secs(36_000);
            core.image_timeout = Duration::from_secs(5);
        });
        bench.log.4 = Some(Vec::new());
        Made { bench, sequences: [0, 0] }
    }

    /// Both members are up.
    fn running(config: ComposedService) -> Made {
        let mut made = Made::alone(config);
        made.find(0);
        made.find(1);
        // Items are not looked at any more because their services have just come up.
        made.after(Duration::from_secs(2));
        made.took();
        made
    }

    fn definition(member: usize, up: bool) -> Definition {
        let mut definition = definition(up);
        definition.id = member as u16 + 1;
        NAMES[member].clone_into(&mut definition.info.name);
        if member == 1 {
            definition.info.capabilities.push(Domain::MARKET_BY_ORDER);
        }
        definition
    }

    /// The instance of a member is found.
    fn find(&mut self, member: usize) {
        let (bench, instance) = (&mut self.bench, INSTANCES[member]);
        let (directory, stream) = (SourceId(2 * member as u32), SourceId(2 * member as u32 + 1));
        bench.core.on_source(bench.now, directory, Topic::Directory, instance, &mut bench.log);
        self.announce(member, true);
        let bench = &mut self.bench;
        bench.core.on_link_up(instance, &mut bench.log);
        bench.link(instance, &LinkDown::HelloAck { instance, features: Features::OURS });
        bench.core.on_source(bench.now, stream, Topic::Service(NAMES[member]), instance, &mut bench.log);
        self.sequences[member] = 0;
    }

    /// What the directory of a member's instance says.
    fn announce(&mut self, member: usize, up: bool) {
        let offer = [Made::definition(member, up)];
        self.bench.directory(SourceId(2 * member as u32), INSTANCES[member], &offer);
    }

    fn withdraw(&mut self, member: usize) {
        self.bench.directory(SourceId(2 * member as u32), INSTANCES[member], &[]);
    }

    /// The instance of a member is gone.
    fn lose(&mut self, member: usize) {
        let bench = &mut self.bench;
        bench.core.on_link_down(bench.now, INSTANCES[member], &mut bench.log);
    }

    /// And there again.
    fn regain(&mut self, member: usize) {
        let (bench, instance) = (&mut self.bench, INSTANCES[member]);
        bench.core.on_link_up(instance, &mut bench.log);
        bench.link(instance, &LinkDown::HelloAck { instance, features: Features::OURS });
    }

    fn turn(&mut self) {
        self.after(Duration::ZERO);
    }

    fn after(&mut self, span: Duration) {
        self.bench.after(span);
        // Whatever is due at once is done.
        for _ in 0..100 {
            if self.bench.core.next_wakeup() > self.bench.now {
                return;
            }
            self.bench.after(Duration::ZERO);
        }
        panic!("{:?} at {:?}", self.bench.core.next_wakeup(), self.bench.now);
    }

    fn request(&mut self, client: ClientId, stream_id: i32, name: &str) {
        let request = streaming(stream_id, name);
        let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
        let target = rdm::item::Target::Item(Key { service_id: ALL, ..key });
        self.bench.ask(client, &ItemRequest { target, ..request });
        self.turn();
    }

    fn key(member: usize, name: &str) -> ItemKey<'_> {
        ItemKey::named(member as u16 + 1, Domain::MARKET_PRICE, name.as_bytes())
    }

    fn image(&mut self, member: usize, id: u32, name: &str, value: i64) {
        self.image_of(member, id, name, &refresh(&[(22, value)]));
    }

    fn image_of(&mut self, member: usize, id: u32, name: &str, refresh: &[u8]) {
        self.sequences[member] += 1;
        let after = self.sequences[member];
        let opened = [&[6, name.len() as u8], name.as_bytes()].concat();
        self.publish(member, Kind::Open, id, &opened);
        let image = LinkDown::Image { item: id, after, key: Made::key(member, name), refresh };
        self.bench.link(INSTANCES[member], &image);
        self.turn();
    }

    /// Something on the stream of a member, with the next number.
    fn send(&mut self, member: usize, kind: Kind, id: u32, body: &[u8]) {
        self.sequences[member] += 1;
        self.publish(member, kind, id, body);
        self.turn();
    }

    fn publish(&mut self, member: usize, kind: Kind, id: u32, body: &[u8]) {
        let (instance, sequence) = (INSTANCES[member], self.sequences[member]);
        let msg = StreamMsg { kind, instance, sequence, item: id, parts: &[], body };
        let bytes = [&msg.header()[..], body].concat();
        let bench = &mut self.bench;
        let source = SourceId(2 * member as u32 + 1);
        bench.core.on_stream_message(bench.now, source, &bytes, &mut bench.log).expect("accepted");
    }

    fn update(&mut self, member: usize, id: u32, value: i64) {
        self.send(member, Kind::Update, id, &update(&[(22, value)]));
    }

    fn refuse(&mut self, member: usize, name: &str, words: &str) {
        let status = status(StreamState::Closed, words);
        let key = Made::key(member, name);
        self.bench.link(INSTANCES[member], &LinkDown::ItemStatus { key, status: &status });
        self.turn();
    }

    fn took(&mut self) -> Vec<String> {
        self.keys();
        let is_meant =
            |line: &String| !["progress", "hello", "connect"].iter().any(|word| line.contains(word));
        self.bench.took().into_iter().filter(is_meant).collect()
    }

    fn keys(&mut self) -> Vec<String> {
        self.bench.log.4.replace(Vec::new()).unwrap_or_default()
    }

    /// A watches IBM of the first member, 22=1.
    fn watching() -> Made {
        Made::watching_in(all())
    }

    fn watching_in(config: ComposedService) -> Made {
        let mut made = Made::running(config);
        made.request(A, 5, "IBM");
        assert_eq!(made.took(), ["77: interest IBM"]);
        made.image(0, 1, "IBM", 1);
        assert_eq!(made.took(), ["1/5: refresh ok solicited 22=1"]);
        made
    }

    /// When all clients are gone, nothing is left of what they had.
    fn ends_empty(&mut self) {
        for client in [A, B] {
            self.bench.core.on_client_closed(self.bench.now, client, &mut self.bench.log);
        }
        for _ in 0..10 {
            self.after(LINGERS);
        }
        let composed = &self.bench.core.items.composed;
        assert_eq!((composed.table.len(), composed.probing.len(), composed.probes.len()), (0, 0, 0));
        // An image that is on its way keeps its item.
        let table = &self.bench.core.items.table;
        let left = table.iter().filter(|(_, item)| item.life.phase() != life::Phase::Requested);
        assert_eq!(left.map(|(_, item)| format!("{:?}", item.key)).collect::<Vec<_>>(), [""; 0]);
    }

    fn counts(&self) -> [u64; 3] {
        let counters = &self.bench.counters;
        [&counters.composed_items, &counters.composed_switches, &counters.composed_refusals]
            .map(|counter| counter.get())
    }
}

const LOST_TEXT: &str = "the item is taken from another member of the composed service";

#[test]
fn it_is_there_with_its_first_member_and_up_while_one_is() {
    let mut made = Made::alone(all());
    made.bench.client(A, &DirectoryRequest::all(2).to_vec().expect("legal"));
    let services = |made: &Made| -> Vec<(u16, String, bool)> {
        made.bench.core.services().map(|(id, name, up, _)| (id, name.to_owned(), up)).collect()
    };
    assert_eq!(services(&made), []);
    made.find(1);
    let of_all = |up| (ALL, "ALL".to_owned(), up);
    assert_eq!(services(&made), [(2, "SECOND".to_owned(), true), of_all(true)]);
    made.find(0);
    let info = &made.bench.core.items.sources.services[&ALL].definition.info;
    assert_eq!(info.capabilities, [Domain::DICTIONARY, Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER]);
    assert_eq!((info.is_source, info.qos.len()), (false, 1));
    made.announce(1, false);
    assert_eq!(services(&made)[2], of_all(true));
    made.announce(0, false);
    assert_eq!(services(&made)[2], of_all(false));
    made.announce(1, true);
    assert_eq!(services(&made)[2], of_all(true));
    made.withdraw(0);
    made.withdraw(1);
    made.turn();
    assert_eq!(services(&made), [of_all(false)], "it stays, and is down");
    made.find(0);
    assert_eq!(services(&made), [(1, "FIRST".to_owned(), true), of_all(true)]);
    assert!(!made.took().is_empty());
}

#[test]
fn a_service_that_an_instance_offers_under_its_name_is_not_taken() {
    let mut made = Made::alone(all());
    let bench = &mut made.bench;
    bench.core.on_source(bench.now, SourceId(0), Topic::Directory, ONE, &mut bench.log);
    let mut offer = Made::definition(0, true);
    "ALL".clone_into(&mut offer.info.name);
    bench.directory(SourceId(0), ONE, &[offer]);
    let log = made.took();
    assert!(log.iter().any(|line| line.contains("\"ALL\"") && line.contains("is not taken")), "{log:?}");
    assert_eq!(made.bench.counters.services_shadowed.get(), 1);
    assert_eq!(made.bench.core.services().count(), 0);
}

#[test]
fn an_item_comes_from_the_first_member_and_has_the_key_that_was_asked_for() {
    let mut made = Made::watching();
    made.request(B, 6, "IBM");
    assert_eq!(made.keys(), ["65535/IBM"]);
    made.update(0, 1, 2);
    assert_eq!(made.took(), ["2/6: refresh ok solicited 22=1", "1/5,2/6: update 22=2"]);
    // The member's own name is another key of the same item.
    made.bench.request(B, 7, "IBM");
    assert_eq!(made.keys(), ["1/IBM"]);
    made.update(0, 1, 3);
    assert_eq!(made.took(), ["2/7: refresh ok solicited 22=2", "1/5,2/6: update 22=3", "2/7: update 22=3"]);
    assert_eq!((made.bench.counters.items.get(), made.counts()), (1, [1, 0, 0]));
    for (client, stream_id) in [(A, 5), (B, 6), (B, 7)] {
        made.bench.close(client, stream_id);
    }
    assert_eq!(made.counts(), [0, 0, 0]);
    made.after(Duration::from_secs(6));
    assert_eq!(made.took(), ["77: no interest IBM"]);
}

#[test]
fn keys_in_updates_and_in_statuses_are_those_asked_for() {
    let mut made = Made::running(all());
    let mut request = streaming(5, "IBM");
    let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
    request.target = rdm::item::Target::Item(Key { service_id: ALL, ..key });
    request.key_in_updates = true;
    made.bench.ask(A, &request);
    made.image(0, 1, "IBM", 1);
    made.keys();
    made.update(0, 1, 2);
    assert_eq!(made.keys(), ["65535/IBM"]);
    let keyed = |class: &str| {
        let key = Some(rwf::Key::item(9, b"IBM"));
        let payload = fields(&[(22, 3)]);
        let update = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        let status = StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
        let generic = GenericMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA);
        match class {
            "update" => UpdateMsg { key, payload: &payload, ..update }.to_vec(),
            "status" => StatusMsg { key, ..status }.to_vec(),
            _ => GenericMsg { key, ..generic }.to_vec(),
        }
        .expect("legal")
    };
    made.bench.request(B, 6, "IBM");
    made.keys();
    for (kind, class, keys) in [
        (Kind::Update, "update", &["65535/IBM"][..]),
        (Kind::Status, "status", &["1/IBM", "65535/IBM"]),
        (Kind::Generic, "generic", &["65535/IBM", "1/IBM"]),
    ] {
        made.send(0, kind, 1, &keyed(class));
        assert_eq!(made.keys(), keys, "{class}");
    }
    made.send(0, Kind::Close, 1, &status(StreamState::Closed, "no more"));
    made.keys();
    made.refuse(1, "IBM", "never heard");
    assert_eq!(made.counts(), [0, 1, 2]);
}

#[test]
fn who_is_refused_by_one_member_asks_the_next() {
    let mut made = Made::running(all());
    made.request(A, 5, "IBM");
    made.took();
    made.refuse(0, "IBM", "not here");
    assert_eq!(made.took(), ["78: interest IBM"]);
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.took(), ["1/5: refresh ok solicited 22=7"]);
    assert_eq!(made.counts(), [1, 1, 1]);
    // It is not asked for again in vain while the first member stays as it is.
    made.after(DELAY * 3);
    assert_eq!(made.took(), [""; 0]);
    made.refuse(1, "IBM", "nor here");
    assert_eq!(made.took(), ["1/5: status closed suspect: nor here"]);
    assert_eq!(made.counts(), [0, 1, 2]);
    // Who asks anew begins anew.
    made.request(A, 5, "IBM");
    assert_eq!(made.took(), ["77: interest IBM"]);
}

#[test]
fn an_item_that_is_closed_later_goes_on_from_the_next_member() {
    let mut made = Made::watching();
    made.send(0, Kind::Close, 1, &status(StreamState::Closed, "delisted"));
    let suspect = format!("1/5: status open suspect: {LOST_TEXT}");
    assert_eq!(made.took(), [suspect, "78: interest IBM".to_owned()]);
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.keys(), ["65535/IBM"]);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"]);
    // The first member may have it again after it has come up anew.
    made.lose(0);
    made.took();
    made.regain(0);
    made.after(DELAY + Duration::from_millis(100));
    assert_eq!(made.took(), ["77: interest IBM"]);
    made.image(0, 9, "IBM", 9);
    assert_eq!(made.took(), ["1/5: refresh ok 22=9"]);
}

#[test]
fn a_lost_member_is_followed_by_the_next_and_comes_back_after_a_while() {
    let mut made = Made::watching();
    made.lose(0);
    made.turn();
    let suspect = format!("1/5: status open suspect: {LOST_TEXT}");
    assert_eq!(made.took(), [suspect, "78: interest IBM".to_owned()]);
    made.update(1, 4, 6);
    assert_eq!(made.took(), [""; 0], "no update of another source behind the old image");
    made.image(1, 4, "IBM", 7);
    made.update(1, 4, 8);
    made.after(LINGERS);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7", "1/5: update 22=8"]);
    made.regain(0);
    made.turn();
    made.after(DELAY - Duration::from_secs(1));
    let log = made.took();
    assert!(!log.iter().any(|line| line.contains("interest")), "too soon: {log:?}");
    made.after(Duration::from_millis(1_100));
    assert_eq!(made.took(), ["77: interest IBM"]);
    made.update(1, 4, 10);
    assert_eq!(made.took(), ["1/5: update 22=10"], "the other one's updates go on until the image is here");
    made.image(0, 1, "IBM", 11);
    made.update(1, 4, 12);
    made.update(0, 1, 13);
    assert_eq!(made.took(), ["1/5: refresh ok 22=11", "1/5: update 22=13"]);
    assert_eq!(made.counts(), [1, 2, 0]);
    made.after(Duration::from_secs(6));
    assert_eq!(made.took(), ["78: no interest IBM"]);
}

#[test]
fn an_item_stays_where_it_is_if_it_is_not_to_go_back() {
    let mut made = Made::watching_in(ComposedService { fail_back: None, ..all() });
    made.announce(0, false);
    made.turn();
    made.took();
    made.image(1, 4, "IBM", 7);
    made.after(LINGERS);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7", "77: no interest IBM"]);
    made.announce(0, true);
    made.after(DELAY * 10);
    assert_eq!(made.took(), [""; 0]);
    made.update(1, 4, 8);
    assert_eq!(made.took(), ["1/5: update 22=8"]);
    assert_eq!(made.counts(), [1, 1, 0]);
}

#[test]
fn a_member_that_flaps_makes_no_storm() {
    let mut made = Made::watching();
    made.announce(0, false);
    made.turn();
    made.image(1, 4, "IBM", 7);
    made.after(LINGERS);
    made.took();
    for _ in 0..20 {
        made.announce(0, true);
        made.after(DELAY - Duration::from_secs(1));
        made.announce(0, false);
        made.turn();
    }
    assert_eq!((made.took(), made.counts()), (Vec::<String>::new(), [1, 1, 0]));
    made.ends_empty();
}

#[test]
fn while_all_members_are_down_an_item_waits_for_the_first_that_comes() {
    let mut made = Made::watching();
    made.announce(1, false);
    made.announce(0, false);
    made.turn();
    let down = "1/5: status open suspect: the service is down: its provider has gone";
    assert_eq!(made.took(), [down]);
    made.announce(1, true);
    made.turn();
    assert_eq!(made.took(), ["78: interest IBM"], "it is suspect already");
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"]);
}

#[test]
fn an_item_that_no_member_has_announced_waits_with_its_own_key() {
    let mut config = all();
    config.members = vec![member("FIRST", &["I*"]), member("SECOND", &["*.L"])];
    let mut made = Made::alone(config);
    made.find(1);
    made.turn();
    made.took();
    made.request(A, 5, "IBM");
    assert_eq!(made.keys(), ["65535/IBM"]);
    assert_eq!(made.took(), ["1/5: status open suspect: the service is down, waiting for it"]);
    made.request(A, 6, "VOD");
    assert_eq!(
        made.took(),
        ["1/6: status closed suspect: no member of the composed service has items of this name and domain"]
    );
    made.find(0);
    made.turn();
    let log = made.took();
    assert!(log.contains(&"77: interest IBM".to_owned()), "{log:?}");
    made.image(0, 1, "IBM", 1);
    assert_eq!(made.took(), ["1/5: refresh ok solicited 22=1"]);
    made.request(A, 7, "VOD.L");
    assert_eq!(made.took(), ["78: interest VOD.L"]);
    assert_eq!(made.counts(), [2, 0, 0]);
    made.ends_empty();
}

#[test]
fn aliases_and_names_of_one_item_share_it() {
    let mut config = all();
    alias(&mut config, "BTC=", "IBM", None);
    alias(&mut config, "BTC2=", "IBM", Some(1));
    let mut made = Made::watching_in(config);
    made.request(B, 6, "BTC=");
    assert_eq!((made.keys(), made.bench.counters.items.get()), (vec!["65535/BTC=".to_owned()], 1));
    assert_eq!(made.took(), ["2/6: refresh ok solicited 22=1"]);
    made.request(B, 7, "BTC2=");
    assert_eq!(made.took(), ["78: interest IBM"], "of that member alone");
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.keys(), ["65535/BTC2="]);
    made.took();
    made.announce(1, false);
    made.turn();
    assert_eq!(made.took(), ["2/7: status open suspect: the service is down: its provider has gone"]);
    made.announce(1, true);
    made.after(Duration::from_secs(1));
    made.image(1, 4, "IBM", 8);
    assert_eq!(made.took(), ["78: image IBM", "2/7: refresh ok 22=8"]);
    // All three go on from the one item of the second member.
    made.announce(0, false);
    made.turn();
    assert_eq!(made.keys(), ["65535/IBM", "65535/BTC="]);
    assert_eq!(made.took(), ["1/5: refresh ok 22=8", "2/6: refresh ok 22=8"]);
    made.update(1, 4, 9);
    let mut to: Vec<String> = made.took();
    to.sort_unstable();
    assert_eq!(to, ["1/5: update 22=9", "2/6: update 22=9", "2/7: update 22=9"]);
    assert_eq!(made.counts(), [3, 2, 0]);
    made.ends_empty();
}

#[test]
fn an_item_that_is_suspect_goes_on_from_a_member_where_it_is_good() {
    let mut made = Made::watching();
    let bad = status(StreamState::Open, "line down");
    made.send(0, Kind::Status, 1, &bad);
    assert_eq!(made.took(), ["1/5: status open suspect: line down", "78: interest IBM"]);
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"]);
    // Bad at the second too: nothing is gained by a change.
    made.send(1, Kind::Status, 4, &bad);
    assert_eq!(made.took(), ["1/5: status open suspect: line down"]);
    made.after(Duration::from_secs(60));
    assert_eq!(made.counts(), [1, 1, 0]);
    made.ends_empty();
}

#[test]
fn streams_move_as_they_are() {
    let mut made = Made::watching();
    // One that pauses, one with a view, one that waits for its first image.
    let at_all = |mut request: ItemRequest<'static>| {
        let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
        request.target = rdm::item::Target::Item(Key { service_id: ALL, ..key });
        request
    };
    made.bench.ask(B, &ItemRequest { pause: true, ..at_all(streaming(6, "IBM")) });
    let view = Some(Wanted::Fields([25].into()));
    made.bench.ask(B, &ItemRequest { view, ..at_all(streaming(7, "IBM")) });
    made.request(B, 8, "MSFT");
    made.bench.ask(B, &ItemRequest { streaming: false, ..at_all(streaming(9, "MSFT")) });
    made.took();
    made.announce(0, false);
    made.turn();
    let mut log = made.took();
    log.sort_unstable();
    assert_eq!(
        log,
        [
            format!("1/5: status open suspect: {LOST_TEXT}"),
            format!("2/6: status open suspect: {LOST_TEXT}"),
            format!("2/7: status open suspect: {LOST_TEXT}"),
            "78: interest IBM".to_owned(),
            "78: interest MSFT".to_owned(),
        ]
    );
    made.image_of(1, 4, "IBM", &refresh(&[(22, 7), (25, 8)]));
    let mut log = made.took();
    log.sort_unstable();
    assert_eq!(log, ["1/5: refresh ok 22=7 25=8", "2/7: refresh ok 25=8"]);
    made.image(1, 5, "MSFT", 9);
    let mut log = made.took();
    log.sort_unstable();
    assert_eq!(log, ["2/8: refresh ok solicited 22=9", "2/9: refresh ok solicited non-streaming 22=9"]);
    // The paused one goes on with an image.
    made.bench.ask(B, &at_all(streaming(6, "IBM")));
    assert_eq!(made.took(), ["2/6: refresh ok solicited 22=7 25=8"]);
    made.ends_empty();
}

#[test]
fn an_image_in_parts_is_awaited_whole() {
    let mut made = Made::watching();
    made.announce(0, false);
    made.turn();
    made.took();
    let payload = fields(&[(22, 7)]);
    let part = |part_num, complete| {
        let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        let msg = RefreshMsg { part_num: Some(part_num), complete, payload: &payload, ..head };
        msg.to_vec().expect("legal")
    };
    made.image_of(1, 4, "IBM", &part(0, false));
    assert_eq!(made.took(), [""; 0]);
    let after = made.sequences[1];
    let last = part(1, true);
    let key = Made::key(1, "IBM");
    made.bench.link(TWO, &LinkDown::Image { item: 4, after, key, refresh: &last });
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"]);
}

#[test]
fn what_streams_lack_is_in_the_image_of_the_next_member() {
    let mut made = Made::watching();
    made.request(B, 6, "IBM");
    made.took();
    made.bench.log.3.insert(B);
    made.update(0, 1, 2);
    assert_eq!(made.took(), ["1/5: update 22=2"]);
    // The other member's item is live already; B lags.
    made.bench.ask(A, &{
        let request = streaming(7, "IBM");
        let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
        ItemRequest { target: rdm::item::Target::Item(Key { service_id: 2, ..key }), ..request }
    });
    made.image(1, 4, "IBM", 7);
    made.took();
    made.bench.log.2.insert(B);
    made.announce(0, false);
    made.turn();
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"], "never suspect");
    made.bench.log.2.clear();
    made.bench.log.3.clear();
    let now = made.bench.now;
    made.bench.core.send_due_images(now, B, &mut made.bench.log);
    made.update(1, 4, 8);
    let mut log = made.took();
    log.sort_unstable();
    assert_eq!(log, ["1/5,2/6: update 22=8", "1/7: update 22=8", "2/6: refresh ok 22=7"]);
}

#[test]
fn who_wants_no_suspect_data_is_closed_unless_the_switch_needs_none() {
    let mut made = Made::running(all());
    let strict = LoginRequest { allow_suspect_data: false, ..LoginRequest::consumer(b"me") };
    made.bench.log_in(A, &strict);
    let by_itself = LoginRequest { single_open: false, ..LoginRequest::consumer(b"me") };
    made.bench.log_in(B, &by_itself);
    made.request(A, 5, "IBM");
    made.request(B, 6, "IBM");
    made.image(0, 1, "IBM", 1);
    made.took();
    made.announce(0, false);
    made.turn();
    let mut log = made.took();
    log.sort_unstable();
    assert_eq!(
        log,
        [
            format!("1/5: status closed-recover suspect: {LOST_TEXT}"),
            format!("2/6: status open suspect: {LOST_TEXT}"),
            "78: interest IBM".to_owned(),
        ]
    );
}

#[test]
fn posts_and_generic_messages_go_to_the_member() {
    let mut made = Made::watching();
    let name = b"IBM";
    let key = Some(rwf::Key::item(ALL, name));
    let post = |stream_id, post_id| {
        let head = PostMsg::new(Domain::MARKET_PRICE, stream_id, DataType::NO_DATA);
        PostMsg { complete: true, post_id: Some(post_id), key, ..head }.to_vec().expect("legal")
    };
    made.bench.client(A, &post(5, 1));
    made.bench.client(A, &post(1, 2));
    let generic = GenericMsg { key, ..GenericMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) };
    made.bench.client(A, &generic.to_vec().expect("legal"));
    let log = made.took();
    assert_eq!(
        log,
        ["77: client message 1 IBM post", "77: client message 2  post", "77: client message 1 IBM generic"]
    );
    made.announce(0, false);
    made.turn();
    made.took();
    made.bench.client(A, &post(5, 3));
    made.bench.client(A, &post(1, 4));
    assert_eq!(made.took(), ["78: client message 1 IBM post", "78: client message 2  post"]);
}

#[test]
fn a_private_stream_is_refused() {
    let mut made = Made::running(all());
    let request = streaming(5, "IBM");
    let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
    let target = rdm::item::Target::Item(Key { service_id: ALL, ..key });
    made.bench.ask(A, &ItemRequest { target, private_stream: true, ..request });
    assert_eq!(
        made.took(),
        [
            "1/5: status closed suspect: a composed service has no private streams: ask one of its members private"
        ]
    );
}

#[test]
fn a_withdrawn_member_is_followed_by_the_next() {
    let mut made = Made::watching();
    made.withdraw(0);
    made.turn();
    let log = made.took();
    assert!(log.contains(&"78: interest IBM".to_owned()), "{log:?}");
    made.image(1, 4, "IBM", 7);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7"]);
    made.withdraw(1);
    made.turn();
    let log = made.took();
    assert!(
        log.iter().any(|line| line.starts_with("1/5: status closed") && line.contains("no longer offered")),
        "{log:?}"
    );
}

#[test]
fn a_member_that_does_not_answer_is_asked_again_later_and_streams_stay() {
    let mut made = Made::watching();
    made.announce(0, false);
    made.turn();
    made.image(1, 4, "IBM", 7);
    made.after(LINGERS);
    made.announce(0, true);
    made.took();
    made.after(DELAY + Duration::from_millis(100));
    assert_eq!(made.took(), ["77: interest IBM"]);
    made.after(Duration::from_secs(11));
    made.update(1, 4, 8);
    assert!(made.took().contains(&"1/5: update 22=8".to_owned()));
    for _ in 0..3 {
        made.after(Duration::from_secs(5));
    }
    made.took();
    made.image(0, 1, "IBM", 9);
    assert_eq!(made.took(), ["1/5: refresh ok 22=9"]);
    made.ends_empty();
}

#[test]
fn images_kept_elsewhere_are_recalled_for_streams_that_move() {
    let mut made = Made::alone(all());
    made.bench.core.reconfigure(|config| config.kept_images_max = Some(0));
    made.find(0);
    made.find(1);
    made.turn();
    made.request(A, 5, "IBM");
    made.image(0, 1, "IBM", 1);
    made.took();
    made.announce(0, false);
    made.turn();
    made.took();
    made.image(1, 4, "IBM", 7);
    made.update(1, 4, 8);
    assert_eq!(made.took(), ["1/5: refresh ok 22=7", "1/5: update 22=8"]);
    assert_eq!(
        DataState::Ok,
        made.bench.core.items.table.iter().last().expect("it is there").1.cached.state().data
    );
}

#[test]
fn many_items_move_so_many_in_a_turn() {
    let mut made = Made::running(all());
    made.bench.core.items.cleanups.set_per_turn(10);
    made.bench.core.items.config = Arc::new(ServerConfig {
        images_outstanding_max: 7,
        ..ServerConfig::clone(&made.bench.core.items.config)
    });
    let names: Vec<String> = (0..100).map(|n| format!("I{n}")).collect();
    for (at, name) in (10..).zip(&names) {
        made.request(A, at, name);
        made.image(0, at as u32, name, 1);
    }
    made.took();
    made.announce(0, false);
    let at_once = made.counts()[1];
    assert!(at_once <= 20, "{at_once}");
    made.turn();
    assert_eq!(made.counts()[1], 100);
    let asked = |made: &mut Made, to: &str| made.took().iter().filter(|line| line.starts_with(to)).count();
    assert_eq!(asked(&mut made, "78: interest"), 7);
    for (at, name) in (10..).zip(&names) {
        made.image(1, at as u32, name, 2);
    }
    assert_eq!(asked(&mut made, "78: interest"), 93);
    made.after(LINGERS);
    assert_eq!(asked(&mut made, "77: no interest"), 100);
    made.announce(0, true);
    made.after(DELAY + Duration::from_millis(100));
    assert_eq!(asked(&mut made, "77: "), 7, "no more than may be outstanding");
    for (at, name) in (10..).zip(&names) {
        made.image(0, at as u32, name, 3);
    }
    assert_eq!((asked(&mut made, "77: "), made.counts()[1]), (93, 200));
    made.ends_empty();
}

#[test]
fn streams_of_clients_that_are_gone_are_left_behind() {
    let mut made = Made::running(all());
    for at in 10..40 {
        made.request(A, at, "IBM");
    }
    made.image(0, 1, "IBM", 1);
    made.took();
    made.bench.core.items.cleanups.set_per_turn(1);
    let now = made.bench.now;
    made.bench.core.on_client_closed(now, A, &mut made.bench.log);
    made.announce(0, false);
    // Somebody asks for the item while its last streams are taken off.
    let request = streaming(6, "IBM");
    let rdm::item::Target::Item(key) = request.target else { panic!("it is for an item") };
    let target = rdm::item::Target::Item(Key { service_id: ALL, ..key });
    made.bench.ask(B, &ItemRequest { target, ..request });
    made.turn();
    made.image(1, 4, "IBM", 7);
    made.update(1, 4, 8);
    let log = made.took();
    assert!(log.ends_with(&["2/6: update 22=8".to_owned()]), "{log:?}");
    assert_eq!((made.counts()[0], made.bench.counters.watchers.get()), (1, 1));
    made.ends_empty();
}
