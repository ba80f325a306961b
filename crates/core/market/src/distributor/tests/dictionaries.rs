//! Dictionaries of dialled providers beside the one that clients get.

use rdm::dictionary::{DictionaryKind, DictionaryParts, DictionaryRequest, PartSizes};

use super::dialled::{A, Script, config};
use super::*;

fn going_by(dictionaries: &[&str]) -> Service {
    let mut service = service(3, true);
    service.info.dictionaries_provided = dictionaries.iter().map(|name| (*name).to_owned()).collect();
    service.info.dictionaries_used.clone_from(&service.info.dictionaries_provided);
    service
}

/// What a provider answers that has a dictionary of these versions and number.
fn answer(kind: DictionaryKind, stream_id: i32, (version, dictionary_id): (&str, u16)) -> Vec<u8> {
    let mut dictionary = Dictionary::new();
    let info = dictionary.info_mut();
    (info.field_version, info.enum_dt_version) = (version.to_owned(), version.to_owned());
    info.dictionary_id = dictionary_id;
    let request = DictionaryRequest { streaming: false, ..DictionaryRequest::new(stream_id, 3, kind) };
    let mut parts = DictionaryParts::new(&request, &dictionary, PartSizes::default()).expect("a known name");
    parts.next().expect("one part").expect("it fits")
}

/// A bench whose clients get version 1 and number 1, and whose provider goes by some dictionaries.
fn bench(dictionaries: &[&str]) -> Bench {
    let mut bench = Bench::new(config());
    let mut ours = Dictionary::new();
    let info = ours.info_mut();
    (info.field_version, info.enum_dt_version) = ("1".to_owned(), "1".to_owned());
    info.dictionary_id = 1;
    bench.core.items.suppliers.dictionary = Arc::new(ours);
    bench.dial(A);
    bench.log.take();
    bench.provider(T0, A, &Script::directory(&[going_by(dictionaries)]));
    bench
}

fn asked_and_told(bench: &mut Bench) -> Vec<String> {
    let mut said = bench.log.take();
    said.retain(|line| line.contains("dictionary"));
    said
}

#[test]
fn a_provider_is_asked_once_what_its_dictionaries_are() {
    let mut bench = bench(&["RWFFld", "RWFEnum"]);
    assert_eq!(asked_and_told(&mut bench), ["provider 100: Request dictionary"; 2]);
    bench.provider(T0, A, &answer(DictionaryKind::Fields, 3, ("1", 1)));
    bench.provider(T0, A, &answer(DictionaryKind::Enums, 4, ("1", 0)));
    bench.provider(T0, A, &Script::directory(&[going_by(&["RWFFld", "RWFEnum"])]));
    assert_eq!(asked_and_told(&mut bench), [""; 0], "they are the same, as far as is said");
    assert_eq!(bench.counters.dictionaries_differing.get(), 0);
}

#[test]
fn another_version_or_number_is_told_and_counted_once() {
    let mut bench = bench(&["RWFFld", "RWFEnum"]);
    bench.log.take();
    for _ in 0..2 {
        bench.provider(T0, A, &answer(DictionaryKind::Fields, 3, ("4.20", 7)));
        bench.provider(T0, A, &answer(DictionaryKind::Enums, 4, ("17", 1)));
    }
    let told = [
        "notice on 100: dictionary RWFFld has version \"4.20\", clients get \"1\"",
        "notice on 100: dictionary RWFFld has DictionaryId 7, clients get 1",
        "notice on 100: dictionary RWFEnum has version \"17\", clients get \"1\"",
    ];
    assert_eq!(bench.log.take(), told);
    assert_eq!(bench.counters.dictionaries_differing.get(), 3);
    let (_, status) = bench.core.dialled_providers().next().expect("one");
    assert_eq!(status.differences.len(), 3);
}

#[test]
fn a_dictionary_of_another_name_is_told_and_not_asked_for() {
    let mut bench = bench(&["VendorFields"]);
    let told = "notice on 100: dictionary \"VendorFields\" is not one of those that are served";
    assert_eq!(asked_and_told(&mut bench), [told]);
    bench.provider(T0, A, &answer(DictionaryKind::Fields, 3, ("4", 1)));
    assert_eq!((bench.counters.messages_unasked.get(), bench.log.take().len()), (1, 0), "nobody has asked");
}

#[test]
fn an_answer_that_is_no_dictionary_is_refused_and_a_refusal_says_nothing() {
    let mut bench = bench(&["RWFFld", "RWFEnum"]);
    bench.log.take();
    bench.provider(T0, A, &answer(DictionaryKind::Enums, 3, ("1", 1)));
    assert_eq!(bench.counters.messages_refused.get(), 1, "enumerations are no field definitions");
    let closed = State::new(StreamState::Closed, DataState::Suspect);
    let status =
        StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::DICTIONARY, 4, DataType::NO_DATA) };
    bench.provider(T0, A, &rdm::ToVec::to_vec(&status).expect("legal"));
    assert_eq!((bench.counters.messages_refused.get(), bench.log.take().len()), (1, 0));
}
