//! The ledger: each number where it belongs. That it adds up is looked at in every test ([`Bench`]).

use super::*;
use crate::p2ps::ledger::Ledger;

impl Bench {
    fn service_ledger(&self) -> ServiceLedger<'_> {
        self.core.ledger().find(|service| service.service == "BINANCE").expect("it is known")
    }

    fn clients(&self) -> ClientLedger {
        self.service_ledger().clients
    }

    /// IBM, watched by A, whose updates are conflated and who has no room, and by B.
    fn slow_and_fast() -> Bench {
        let mut bench = Bench::watching();
        bench.request(B, 9, "IBM");
        bench.log.3.insert(A);
        bench.log.2.insert(A);
        bench.took();
        bench
    }

    fn updates(&mut self, sequences: std::ops::RangeInclusive<u64>) {
        for sequence in sequences {
            self.stream(Kind::Update, sequence, 1, &update(&[(22, sequence as i64)]));
        }
    }

    fn serve_due(&mut self) {
        for client in self.core.take_due_clients() {
            while self.core.send_due_images(self.now, client, &mut self.log) {}
        }
    }
}

#[test]
fn what_was_left_out_waits_until_a_later_update_stands_for_it() {
    let mut bench = Bench::slow_and_fast();
    bench.updates(2..=4);
    let waiting = ClientLedger { due: 6, delivered: 3, waiting: 3, ..ClientLedger::default() };
    assert_eq!(bench.clients(), waiting);
    bench.serve_due();
    let served = ClientLedger { conflated: 3, waiting: 0, ..waiting };
    assert_eq!(bench.clients(), served);
    // The next ones end with their client.
    bench.updates(5..=6);
    assert_eq!(bench.clients(), ClientLedger { due: 10, delivered: 5, waiting: 2, ..served });
    bench.core.on_client_closed(bench.now, A, &mut bench.log);
    assert_eq!(bench.clients(), ClientLedger { due: 10, delivered: 5, ended: 2, ..served });
    bench.updates(7..=7);
    assert_eq!(bench.clients().due, 11, "who is gone is due nothing");
}

#[test]
fn several_streams_of_an_item_that_wait_are_each_settled_for_themselves() {
    let mut bench = Bench::slow_and_fast();
    bench.updates(2..=2);
    bench.log.3.insert(B);
    bench.updates(3..=4);
    assert_eq!(bench.clients().waiting, 3 + 2);
    // Something that keeps its order: both are sent the newest values first.
    bench.stream(Kind::Status, 5, 1, &status(StreamState::Open, "halted"));
    let clients = bench.clients();
    assert_eq!((clients.conflated, clients.ended, clients.waiting), (5, 0, 0));
}

#[test]
fn an_image_stands_for_what_came_before_it() {
    let mut bench = Bench::slow_and_fast();
    bench.updates(2..=3);
    bench.stream(Kind::Refresh, 4, 1, &refresh(&[(22, 4)]));
    assert_eq!(bench.clients().waiting, 2, "the image waits for room too");
    bench.updates(5..=5);
    assert_eq!(bench.clients().waiting, 3);
    bench.serve_due();
    let clients = bench.clients();
    assert_eq!((clients.in_images, clients.conflated, clients.waiting), (3, 0, 0));
    // The same with an image that ends the item: what waited is in it.
    bench.updates(6..=6);
    let state = State::new(StreamState::NonStreaming, rwf::DataState::Ok);
    let payload = fields(&[(22, 7)]);
    let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    let last = RefreshMsg { complete: true, state, payload: &payload, ..head };
    bench.stream(Kind::Refresh, 7, 1, &last.to_vec().expect("legal"));
    assert_eq!((bench.clients().in_images, bench.clients().waiting), (4, 0));
}

#[test]
fn who_pauses_is_due_nothing_and_what_waited_ends() {
    let mut bench = Bench::slow_and_fast();
    bench.updates(2..=3);
    bench.ask(A, &ItemRequest { pause: true, no_refresh: true, ..streaming(5, "IBM") });
    let clients = bench.clients();
    assert_eq!((clients.due, clients.ended, clients.waiting), (4, 2, 0));
    bench.updates(4..=4);
    assert_eq!(bench.clients().due, 5);
}

#[test]
fn what_a_view_does_not_show_is_no_loss() {
    let mut bench = Bench::watching();
    let view = Some(rdm::item::View::Fields([25].into()));
    bench.ask(B, &ItemRequest { view, ..streaming(9, "IBM") });
    bench.updates(2..=3);
    let clients = bench.clients();
    assert_eq!((clients.due, clients.delivered, clients.outside_views), (4, 2, 2));
}

#[test]
fn messages_are_received_or_lost_and_what_was_received_is_taken_or_waits() {
    let mut bench = Bench::watching();
    bench.updates(2..=2);
    // 3 and 4 are missing.
    bench.updates(5..=6);
    let waiting = bench.service_ledger().streams[0].clone();
    let counts = StreamCounts { numbers: 6, received: 4, lost: 2, behind_gaps: 2, ..StreamCounts::default() };
    assert_eq!((waiting.first, waiting.counts), (1, counts));
    assert_eq!(waiting.lost, [LostRange { instance: INSTANCE, first: 3, last: 4 }]);
    bench.gap_answer(3, 4, Some(&[]));
    bench.stream(Kind::Update, 7, 99, &update(&[(22, 7)]));
    let service = bench.service_ledger();
    assert_eq!(service.streams[0].counts.behind_gaps, 0);
    assert_eq!(
        service.taken,
        TakenLedger { applied: 3, unwatched: 1, others: 1, ..TakenLedger::default() },
        "1 opened the item, 99 is none that is watched"
    );
    // What waits for an image that was asked for is in it, unless it comes behind it.
    bench.updates(9..=9);
    bench.gap_answer(8, 8, Some(&[1]));
    assert_eq!(bench.service_ledger().taken.in_images, 1);
    bench.image(1, 8, "IBM", &[(22, 8)]);
    assert_eq!((bench.service_ledger().taken.in_images, bench.service_ledger().taken.applied), (0, 4));
}

#[test]
fn the_newest_losses_are_kept_and_all_are_counted_though_their_stream_is_gone() {
    let mut bench = Bench::watching();
    for sequence in (3..).step_by(2).take(20) {
        bench.stream(Kind::Heartbeat, sequence - 1, 0, &[]);
        bench.gap_answer(sequence - 1, sequence - 1, Some(&[]));
        bench.updates(sequence..=sequence);
    }
    let stream = bench.service_ledger().streams[0].clone();
    let (oldest, newest) = (stream.lost[0], stream.lost[stream.lost.len() - 1]);
    assert_eq!((stream.counts.lost, stream.lost.len(), oldest.first, newest.last), (20, 16, 10, 40));
    bench.core.on_source_ended(bench.now, STREAM, &mut bench.log);
    let service = bench.service_ledger();
    assert_eq!((service.streams.len(), service.ended.lost, service.ended_lost.len()), (0, 20, 16));
    assert_eq!(service.ended.received, stream.counts.received);
}

#[test]
fn an_update_that_cannot_be_read_is_due_to_nobody() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Update, 2, 1, b"no update");
    let service = bench.service_ledger();
    assert_eq!((service.taken.unusable, service.taken.applied, service.clients.due), (1, 0, 0));
}

#[test]
fn numbers_of_updates_that_begin_again_are_counted_right() {
    use super::super::ledger::{before, updates_between};
    let number = |number: u32| std::num::NonZeroU32::new(number).expect("it is not 0");
    let max = std::num::NonZeroU32::MAX;
    assert_eq!((before(number(1)), before(number(7))), (max, number(6)));
    assert_eq!(updates_between(number(5), number(5)), 0);
    assert_eq!((updates_between(max, number(1)), updates_between(number(u32::MAX - 1), number(3))), (1, 4));
}

#[test]
fn services_above_the_bound_share_an_account() {
    let mut ledger = Ledger::default();
    let ids: Vec<_> = (0..1_026).map(|number| ledger.open(&format!("S{number}"))).collect();
    let own: BTreeSet<_> = ids[..1_024].iter().collect();
    assert_eq!((own.len(), own.contains(&0)), (1_024, false));
    assert_eq!(ids[1_024..], [0, 0]);
    assert_eq!(ledger.open("S7"), ids[7]);
}
