//! What one message asks for is done in as many steps as the front end wants.

use rdm::dictionary::{DictionaryKind, DictionaryRequest};
use rdm::item::Target;

use super::*;

/// Takes up the continuation of a client by single steps; returns what was said in each.
fn steps(bench: &mut Bench, client: ClientId) -> Vec<Vec<String>> {
    let mut steps = vec![bench.took()];
    while bench.core.is_busy(client) {
        bench.log.1 = Some(0);
        bench.core.go_on(bench.now, client, &mut bench.log);
        steps.push(bench.took());
        assert!(steps.len() < 1_000, "it comes to an end");
    }
    steps
}

fn batch(stream_id: i32, target: Target<'_>) -> ItemRequest<'_> {
    ItemRequest { target, ..ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, Key::new(1, b"IBM")) }
}

#[test]
fn the_items_of_a_batch_come_in_order_however_many_fit_a_step() {
    let names: Vec<&[u8]> = vec![b"IBM"; 7];
    let common = Key::new(1, b"");
    let mut said = Vec::new();
    for admitted in [0, 2, 100] {
        let mut bench = Bench::watching();
        bench.log.1 = Some(admitted);
        bench.ask(B, &batch(10, Target::Items { common, names: names.clone() }));
        assert_eq!(bench.core.is_busy(B), admitted < 6);
        let steps = steps(&mut bench, B);
        assert_eq!(steps.len(), 7 - admitted.min(6));
        said.push(steps.concat());
    }
    assert_eq!(said[0].len(), 8, "the end of the batch, and an image each: {:?}", said[0]);
    assert!(said[0] == said[1] && said[0] == said[2]);
}

#[test]
fn a_reissue_of_many_streams_is_answered_when_all_are_done() {
    let mut bench = Bench::watching();
    for id in 6..10 {
        bench.request(A, id, "IBM");
    }
    bench.took();
    bench.log.1 = Some(1);
    bench.ask(A, &batch(20, Target::Streams(vec![5, 6, 7, 8, 9, 99])));
    let said = steps(&mut bench, A).concat();
    assert_eq!(said.len(), 6);
    assert!(said[0].starts_with("1/5: refresh") && said[4].starts_with("1/9: refresh"), "{said:?}");
    assert!(said[5].ends_with("Processed 6 total stream ids from Batch Reissue Request.  5 Ok."));
}

#[test]
fn streams_that_a_login_lets_go_on_get_their_images_step_by_step() {
    let mut bench = Bench::watching();
    for id in 6..10 {
        bench.request(A, id, "IBM");
    }
    let login = LoginRequest::consumer(b"me");
    bench.log_in(A, &LoginRequest { pause: true, ..login });
    bench.took();
    bench.log.1 = Some(0);
    bench.log_in(A, &login);
    let steps = steps(&mut bench, A);
    let images: Vec<usize> =
        steps.iter().map(|said| said.iter().filter(|line| line.contains("refresh")).count()).collect();
    assert_eq!(images.iter().sum::<usize>(), 1 + 5, "{steps:?}");
    assert!(steps.len() == 5 && images[1..].iter().all(|count| *count == 1), "{steps:?}");
}

#[test]
fn a_dictionary_in_parts_is_whole_whatever_the_steps_and_is_encoded_once() {
    let mut bench = Bench::running();
    let mut dictionary = Dictionary::new();
    let fields = include_bytes!("../../../../../../data/dictionary/tickcast-fields.dic");
    dictionary.load_fields(fields).expect("it is part of the project");
    bench.core.dictionary = Arc::new(dictionary);
    bench.core.items.clients.get_mut(A).expect("it is there").profile.dictionary_part_bytes = 100;
    for admitted in [0, 3, 1_000] {
        bench.log.1 = Some(admitted);
        bench.client(A, &DictionaryRequest::new(7, 1, DictionaryKind::Fields).to_vec().expect("legal"));
        let parts = steps(&mut bench, A).concat();
        assert!(parts.len() > 5 && parts.iter().all(|part| part.starts_with("1/7: refresh")), "{parts:?}");
    }
    assert_eq!(bench.core.prepared.count(), 1);
    let stranger =
        DictionaryRequest { name: b"Other", ..DictionaryRequest::new(8, 1, DictionaryKind::Fields) };
    bench.client(A, &stranger.to_vec().expect("legal"));
    assert!(bench.took()[0].contains("closed"), "and nothing is kept of what is not there");
    assert_eq!(bench.core.prepared.count(), 1);
}

#[test]
fn nothing_is_left_of_the_errand_of_a_client_that_is_gone() {
    let mut bench = Bench::watching();
    bench.log.1 = Some(0);
    bench.ask(B, &batch(10, Target::Items { common: Key::new(1, b""), names: vec![b"IBM"; 5] }));
    assert!(bench.core.is_busy(B));
    bench.core.on_client_closed(bench.now, B, &mut bench.log);
    bench.core.go_on(bench.now, B, &mut bench.log);
    assert!(!bench.core.is_busy(B));
}
