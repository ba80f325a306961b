//! Where the dictionary comes from, and what happens without one.

use std::sync::Arc;
use std::time::Duration;

use rdm::Reply;
use rdm::dictionary::DictionaryRequest;
use rwf::{DataType, Domain, Msg, RefreshMsg, RequestMsg, StateCode, Value};
use tickcast_client::{DictionaryMode, FieldId};

use crate::consumers::{Consumers, consumer};
use crate::world::{dictionary, service};

const SECOND: Duration = Duration::from_secs(1);

/// The dictionary requests that wait for an answer: stream, service, name.
fn asked(world: &mut Consumers) -> Vec<(i32, u16, String)> {
    let (asked, rest) = std::mem::take(&mut world.server().inbox).into_iter().partition(|bytes| {
        matches!(Msg::parse(bytes), Ok(Msg::Request(request)) if request.domain == Domain::DICTIONARY)
    });
    world.server().inbox = rest;
    let asked: Vec<Vec<u8>> = asked;
    let read = |bytes: &Vec<u8>| {
        let request = RequestMsg::parse(bytes).expect("it was seen to be one");
        let request = DictionaryRequest::parse(&request).expect("legal");
        let name = String::from_utf8(request.name.to_vec()).expect("text");
        (request.stream_id, request.service_id.expect("a service"), name)
    };
    asked.iter().map(read).collect()
}

/// A world whose server has several services and leaves dictionary requests to the test.
fn without_answers(mode: DictionaryMode) -> Consumers {
    let mut world = consumer(|config| config.dictionary = mode);
    world.manners.services = vec![service(1, "S"), service(2, "T")];
    world.manners.dictionary = None;
    world.item("I");
    world.settle();
    world
}

#[test]
fn items_wait_for_a_dictionary_that_is_required() {
    let mut world = without_answers(DictionaryMode::Required);
    let streams = asked(&mut world);
    assert_eq!(streams, [(3, 1, "RWFFld".into()), (4, 1, "RWFEnum".into())]);
    assert_eq!((world.item_words(), world.core.field_id("BID")), (vec![], None));
    world.manners.dictionary = Some(Arc::new(dictionary()));
    // The first service falls silent, the second answers.
    world.advance(45 * SECOND);
    assert_eq!(
        world.words(),
        ["no dictionary: Timeout { service_id: 1, limit_ms: 45000 }", "dictionary of 3", "I refresh open/ok",]
    );
    assert_eq!(world.core.field_id("BID"), Some(FieldId(22)));
    let counts = world.counts();
    assert_eq!((counts.dictionary_failures.get(), counts.dictionary_downloads.get()), (1, 1));
}

#[test]
fn a_stream_that_the_server_ends_leads_to_the_next_service_and_at_last_to_a_pause() {
    let mut world = without_answers(DictionaryMode::Required);
    world.words();
    for service in [1, 2] {
        let streams = asked(&mut world);
        assert_eq!(streams.iter().map(|asked| asked.1).collect::<Vec<_>>(), [service, service]);
        let request = RequestMsg::new(Domain::DICTIONARY, streams[0].0, DataType::NO_DATA);
        world.say(&Reply::to(&Msg::Request(request)).closed(StateCode::NOT_FOUND, "none here"));
        let told = format!("no dictionary: Ended {{ service_id: {service}, code: not found }}");
        assert_eq!(world.words(), [told]);
    }
    assert_eq!(asked(&mut world), []);
    world.manners.dictionary = Some(Arc::new(dictionary()));
    world.advance(44 * SECOND);
    assert_eq!(world.words(), [""; 0]);
    world.advance(SECOND);
    assert_eq!(world.words(), ["dictionary of 3", "I refresh open/ok"]);
}

#[test]
fn a_service_that_goes_away_leads_to_the_next_at_once() {
    let mut world = without_answers(DictionaryMode::Required);
    world.words();
    assert_eq!(asked(&mut world)[0].1, 1);
    world.change_service(1, |service| service.state.up = false);
    assert_eq!(asked(&mut world)[0].1, 2);
    let words = world.words();
    assert!(words.contains(&"no dictionary: ServiceLost { service_id: 1 }".to_owned()), "{words:?}");
}

#[test]
fn a_dictionary_that_is_none_is_refused_and_asked_for_elsewhere() {
    let mut world = without_answers(DictionaryMode::Required);
    world.words();
    let stream_id = asked(&mut world)[0].0;
    let part = RefreshMsg {
        payload: &[1, 2, 3],
        ..RefreshMsg::new(Domain::DICTIONARY, stream_id, DataType::SERIES)
    };
    world.say(&part);
    let words = world.words();
    assert!(words[0].starts_with("no dictionary: Malformed("), "{words:?}");
    assert_eq!(asked(&mut world)[0].1, 2);
    assert!(world.core.is_logged_in());
}

#[test]
fn items_do_without_a_dictionary_that_is_optional_once_nobody_has_it() {
    let mut world = consumer(|config| config.dictionary = DictionaryMode::Optional);
    world.manners.services[0].info.dictionaries_provided.clear();
    world.item("I");
    world.settle();
    assert_eq!(world.words()[3..], ["no dictionary: NotOffered", "I refresh open/ok"]);
    world.change_service(1, |service| {
        service.info.dictionaries_provided = vec!["RWFFld".into(), "RWFEnum".into()]
    });
    let words = world.words();
    assert_eq!(words, ["service 1 S Changed, up true", "dictionary of 3"], "and take one that comes later");
}

#[test]
fn an_optional_dictionary_lets_items_go_when_the_download_fails() {
    let mut world = without_answers(DictionaryMode::Optional);
    world.words();
    assert_eq!(world.item_words(), [""; 0]);
    world.advance(90 * SECOND);
    let words = world.words();
    assert_eq!(words.len(), 3, "{words:?}");
    assert_eq!(words[2], "I refresh open/ok");
}

#[test]
fn a_dictionary_of_the_application_is_used_and_none_is_downloaded() {
    let mut world = consumer(|_| ());
    world.core.set_dictionary(Arc::new(dictionary()));
    world.manners.dictionary = None;
    world.item("I");
    world.settle();
    assert_eq!(world.item_words(), ["I refresh open/ok"]);
    assert_eq!((asked(&mut world), world.core.field_id("ASK")), (vec![], Some(FieldId(25))));
}

#[test]
fn on_a_new_connection_the_known_dictionary_serves_until_the_new_one_is_there() {
    let mut world = consumer(|_| ());
    world.item("I");
    world.settle();
    world.words();
    let mut larger = dictionary();
    larger
        .add_field(rwf::dictionary::Field {
            id: 30,
            name: "BIDSIZE".into(),
            ..larger.field(22).expect("BID").clone()
        })
        .expect("new");
    world.manners.dictionary = None;
    world.cut();
    world.advance(SECOND);
    assert_eq!(world.item_words().last().map(String::as_str), Some("I refresh open/ok"), "it does not wait");
    let streams = asked(&mut world);
    world.manners.dictionary = Some(Arc::new(larger));
    for (stream_id, service_id, name) in streams {
        let kind = rdm::dictionary::kind_of(name.as_bytes()).expect("one of the two");
        let request =
            rdm::ToVec::to_vec(&DictionaryRequest::new(stream_id, service_id, kind)).expect("legal");
        let answers = world.manners.answers(&Msg::parse(&request).expect("legal"));
        answers.iter().for_each(|answer| world.say_bytes(answer));
    }
    assert_eq!(
        (world.words(), world.core.field_id("BIDSIZE")),
        (vec!["dictionary of 4".into()], Some(FieldId(30)))
    );
}

#[test]
fn without_a_dictionary_fields_have_their_bytes_and_no_names() {
    let mut world = consumer(|config| config.dictionary = DictionaryMode::None);
    world.item("I");
    world.settle();
    let event = world.item_events().remove(0);
    assert_eq!((event.field("BID"), event.field(22i16)), (Ok(None), Ok(Some(Value::Unknown(&[12, 1])))));
    assert_eq!(event.view(|view| view.fields().expect("a list").filter(|field| field.is_ok()).count()), 2);
    assert!(world.core.dictionary().is_none());
}
