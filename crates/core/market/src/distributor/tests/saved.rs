//! What a later run has of an earlier one.

use super::dialled::Script;
use super::*;
use crate::distributor::saved;

const SAVED: ProviderId = ProviderId(u32::MAX);
const ANY: (usize, usize) = (usize::MAX, usize::MAX);

impl Bench {
    fn saved(&mut self, portion: (usize, usize)) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = saved::directory(&self.core).into_iter().collect();
        let mut next = Some(0);
        while let Some(from) = next {
            next = saved::items(&mut self.core, from, portion, |message| messages.push(message.to_vec()));
        }
        messages
    }

    /// A new run that was given what was saved, with a peer.
    fn restored(messages: &[Vec<u8>]) -> Bench {
        let mut bench = Bench::new(DistributorConfig::default());
        saved::begin(&mut bench.core, SAVED);
        for message in messages {
            let given = saved::give_back(&mut bench.core, T0, SAVED, message, &mut bench.log);
            assert_eq!(given, Ok(()));
        }
        saved::end(&mut bench.core, T0, SAVED, &mut bench.log);
        bench.core.on_wakeup(T0, &mut bench.log);
        bench.core.on_peer_connected(PEER);
        bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
        bench.log.take();
        bench
    }
}

fn published() -> Bench {
    let mut bench = Bench::running();
    for (stream, name) in (1..).zip(["A", "B", "C", "D", "E"]) {
        bench.provider(T0, PROVIDER, &refresh(-stream, name, &[(22, i64::from(stream)), (25, 7)]));
    }
    bench.provider(T0, PROVIDER, &update(-2, None, &[(22, 20)]));
    bench
}

#[test]
fn restored_items_are_suspect_until_their_provider_publishes_them() {
    let messages = published().saved(ANY);
    assert_eq!(messages.len(), 6, "a directory and five images");
    let mut bench = Bench::restored(&messages);
    assert_eq!(
        bench.core.services().map(|(id, name, up, _)| (id, name.to_owned(), up)).collect::<Vec<_>>(),
        [(1, "BINANCE".to_owned(), false)]
    );
    bench.interest(T0, "B");
    let asked = bench.log.take();
    assert_eq!(asked, ["1 Open #2 item 1: B", "peer 7: image of B as item 1 after #2: suspect 22=20 25=7"]);
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.provider(LATER, PROVIDER, &refresh(-9, "B", &[(22, 21), (25, 8)]));
    let log = bench.log.take();
    assert!(log.contains(&"1 Refresh #3 item 1: ok 22=21 25=8".to_owned()), "{log:?}");
    let states: Vec<(String, DataState)> =
        bench.core.items().map(|(key, cached)| (of(&key.as_key()), cached.state().data)).collect();
    let suspect = |name: &str| (name.to_owned(), DataState::Suspect);
    let ok = ("B".to_owned(), DataState::Ok);
    assert_eq!(states, [suspect("A"), ok, suspect("C"), suspect("D"), suspect("E")]);
}

#[test]
fn a_provider_that_was_there_first_is_not_disturbed() {
    let messages = published().saved(ANY);
    let mut bench = Bench::running();
    bench.interest(T0, "A");
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 100)]));
    bench.log.take();
    saved::begin(&mut bench.core, SAVED);
    for message in &messages {
        assert_eq!(saved::give_back(&mut bench.core, T0, SAVED, message, &mut bench.log), Ok(()));
    }
    saved::end(&mut bench.core, T0, SAVED, &mut bench.log);
    bench.core.on_wakeup(T0, &mut bench.log);
    let told: Vec<String> = bench.log.take().into_iter().filter(|line| line.contains("item 1")).collect();
    assert_eq!(told, [""; 0]);
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 101)]));
    assert_eq!(bench.log.take(), ["1 Update #2 item 1: 22=101"]);
}

#[test]
fn portions_have_every_item_once_and_are_bounded() {
    let mut bench = published();
    let whole = bench.saved(ANY);
    assert_eq!(bench.saved((1, usize::MAX)), whole);
    assert_eq!(bench.saved((3, 1)), whole);
    let mut messages = 0;
    assert_eq!(saved::items(&mut bench.core, 0, (2, usize::MAX), |_| messages += 1), Some(2));
    assert_eq!(saved::items(&mut bench.core, 2, (usize::MAX, 1), |_| messages += 1), Some(3));
    assert_eq!(saved::items(&mut bench.core, 3, (2, usize::MAX), |_| messages += 1), None);
    assert_eq!(messages, 5);
}

#[test]
fn what_is_withdrawn_or_asked_for_is_not_saved() {
    let mut bench = published();
    bench.announce(PROVIDER, &[]);
    assert_eq!(bench.saved(ANY), Vec::<Vec<u8>>::new());
}

#[test]
fn other_messages_are_refused_and_nothing_is_lost_by_them() {
    let messages = published().saved(ANY);
    let mut bench = Bench::new(DistributorConfig::default());
    saved::begin(&mut bench.core, SAVED);
    let login = LoginRequest::consumer(b"me").to_vec().expect("legal");
    for wrong in [&b""[..], b"abc", &login, &update(-5, None, &[(22, 101)])] {
        assert_eq!(saved::give_back(&mut bench.core, T0, SAVED, wrong, &mut bench.log), Err(saved::NotSaved));
    }
    for message in &messages {
        assert_eq!(saved::give_back(&mut bench.core, T0, SAVED, message, &mut bench.log), Ok(()));
        for end in 0..message.len() {
            _ = saved::give_back(&mut bench.core, T0, SAVED, &message[..end], &mut bench.log);
        }
    }
    assert_eq!(bench.core.item_count(), 5);
}

#[test]
fn a_server_that_has_had_an_item_waits_for_what_is_newer_than_a_saved_image() {
    let messages = published().saved(ANY);
    for by_status in [false, true] {
        let mut bench = Bench::restored(&messages);
        let waits = "peer 7: B open suspect waiting for the provider to publish the item";
        bench.resume(T0, "B");
        assert_eq!(bench.log.take(), [waits]);
        // It is asked for again when the service comes up, before the item is published.
        bench.provider_logs_in(PROVIDER);
        bench.announce(PROVIDER, &[service(3, true)]);
        bench.log.take();
        bench.peer(LATER, &LinkUp::ImageRequest { key: item("B") });
        assert_eq!(bench.log.take(), [waits]);
        bench.interest(LATER, "A");
        let log = bench.log.take();
        assert!(log.iter().any(|line| line.contains("image of A") && line.contains("suspect")), "{log:?}");
        match by_status {
            false => bench.provider(LATER, PROVIDER, &refresh(-9, "B", &[(22, 21), (25, 8)])),
            true => {
                let good = State::new(StreamState::Open, DataState::Ok);
                let key = item("B").to_key();
                let key = rwf::Key { service_id: Some(3), ..key };
                let status = StatusMsg {
                    state: Some(good),
                    key: Some(key),
                    ..StatusMsg::new(Domain::MARKET_PRICE, -9, rwf::DataType::NO_DATA)
                };
                bench.provider(LATER, PROVIDER, &status.to_vec().expect("legal"));
            }
        }
        let log = bench.log.take();
        assert!(log.iter().any(|line| line.contains("image of B") && line.contains("ok")), "{log:?}");
    }
}

#[test]
fn a_saved_service_whose_items_are_asked_for_now_is_taken() {
    let messages = published().saved(ANY);
    let mut bench = Bench::restored(&messages);
    bench.dial(PROVIDER);
    bench.provider(T0, PROVIDER, &Script::directory(&[service(3, true)]));
    bench.core.on_wakeup(LATER, &mut bench.log);
    bench.log.take();
    bench.interest(LATER, "B");
    let log = bench.log.take();
    assert!(log.iter().any(|line| line.contains("request") && line.contains('B')), "{log:?}");
    assert_eq!(bench.saved(ANY), Vec::<Vec<u8>>::new());
}
