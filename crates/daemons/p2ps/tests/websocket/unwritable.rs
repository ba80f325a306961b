//! What clients learn of messages that cannot be written as JSON: nothing is left out in silence.

use market::backbone::Kind;
use rdm::ToVec;
use rwf::{DataState, DataType, Domain, GenericMsg, Key, Msg, State, StateCode, StatusMsg, StreamState};
use serde_json::{Value, json};
use websocket::Message;

use crate::rig::{Client, Rig, logged_in};
use scripted::{ASK, BID, GARBAGE, image, update};

const DELAY_MS: u64 = 50;

fn rig(first_image: &[(i16, i64)]) -> (Rig, Client) {
    let mut rig = Rig::with(|config| config.json_image_delay_ms = DELAY_MS);
    rig.backbone.serve(&[("IBM.N", image(first_image))]);
    let mut client = logged_in(&mut rig);
    rig.messages(&mut client, 0, 1);
    (rig, client)
}

/// One that watches the item on stream 5 and has its image.
fn watching() -> (Rig, Client) {
    let (mut rig, mut client) = rig(&[(BID, 1), (ASK, 2)]);
    client.send(Message::Text(r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"TESTS"}}"#));
    let image = rig.messages(&mut client, 1, 1);
    assert_eq!((&image[0]["Type"], &image[0]["Fields"]), (&json!("Refresh"), &json!({"BID": 1, "ASK": 2})));
    (rig, client)
}

/// Class, state in words, fields.
fn told(message: &Value) -> String {
    let state = &message["State"];
    let words = ["Stream", "Data", "Code"].map(|part| state[part].as_str().unwrap_or(""));
    let fields = message.get("Fields").map_or(String::new(), Value::to_string);
    let class = message["Type"].as_str().expect("a class");
    format!("{} {class} {} {fields}", message["ID"], words.join(" ")).trim_end().to_owned()
}

fn all_told(messages: &[Value]) -> Vec<String> {
    messages.iter().map(told).collect()
}

#[test]
fn a_stream_that_misses_an_update_is_suspect_until_an_image_has_what_was_missed() {
    let (mut rig, mut client) = watching();
    rig.backbone.say(Kind::Update, &update(&[(BID, GARBAGE), (ASK, 3)]));
    for bid in 5..10 {
        rig.backbone.say(Kind::Update, &update(&[(BID, GARBAGE)]));
        rig.backbone.say(Kind::Update, &update(&[(BID, bid)]));
    }
    let messages = rig.messages(&mut client, 2, 2);
    let wanted = ["5 Status Open Suspect GapDetected", r#"5 Refresh Open Ok  {"ASK":3,"BID":9}"#];
    assert_eq!(all_told(&messages), wanted, "one status and one image, however many updates fail");
    let text = messages[0]["State"]["Text"].as_str().expect("it says why");
    assert!(text.starts_with("an update cannot be written as JSON: field 22: "), "{text}");
    rig.backbone.say(Kind::Update, &update(&[(BID, 10)]));
    assert_eq!(all_told(&rig.messages(&mut client, 4, 1)), [r#"5 Update    {"BID":10}"#]);
    assert_eq!(rig.count("json_messages_unwritable_total"), 6);
    assert_eq!((rig.count("json_streams_suspected_total"), rig.count("json_streams_restored_total")), (1, 1));
}

#[test]
fn a_stream_whose_image_cannot_be_written_either_is_closed_with_the_reason() {
    let (mut rig, mut client) = watching();
    rig.backbone.say(Kind::Update, &update(&[(BID, GARBAGE)]));
    let messages = rig.messages(&mut client, 2, 2);
    let wanted = ["5 Status Open Suspect GapDetected", "5 Status Closed Suspect Error"];
    assert_eq!(all_told(&messages), wanted);
    let text = messages[1]["State"]["Text"].as_str().expect("it says why");
    assert!(text.starts_with("the data cannot be written as JSON: field 22: "), "{text}");
    assert_eq!((rig.count("p2ps_watchers"), rig.count("json_streams_closed_total")), (0, 1));
    rig.backbone.say(Kind::Update, &update(&[(BID, 4)]));
    rig.ask(&mut client, r#"{"Type":"Ping"}"#);
    client.send(Message::Text(r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"TESTS"}}"#));
    let again = rig.messages(&mut client, 5, 1);
    assert_eq!(all_told(&again), [r#"5 Refresh Open Ok  {"ASK":2,"BID":4}"#], "the id is free");
}

#[test]
fn a_first_image_that_cannot_be_written_is_the_end_of_the_stream() {
    let (mut rig, mut client) = rig(&[(BID, GARBAGE), (ASK, 2)]);
    client.send(Message::Text(r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"TESTS"}}"#));
    client.send(Message::Text(r#"{"ID":6,"Key":{"Name":"IBM.N","Service":"TESTS"},"View":["ASK"]}"#));
    client.send(Message::Text(r#"{"ID":7,"Key":{"Name":"IBM.N","Service":"TESTS"},"Streaming":false}"#));
    let mut messages = all_told(&rig.messages(&mut client, 1, 3));
    messages.sort();
    let wanted =
        ["5 Status Closed Suspect Error", r#"6 Refresh Open Ok  {"ASK":2}"#, "7 Status Closed Suspect Error"];
    assert_eq!(messages, wanted, "who does not see the field is served");
    rig.backbone.say(Kind::Update, &update(&[(BID, GARBAGE), (ASK, 3)]));
    assert_eq!(all_told(&rig.messages(&mut client, 4, 1)), [r#"6 Update    {"ASK":3}"#]);
    assert_eq!((rig.count("p2ps_watchers"), rig.count("json_streams_closed_total")), (1, 2));
}

#[test]
fn an_unasked_image_that_can_be_written_makes_a_suspect_stream_good_at_once() {
    let mut rig = Rig::with(|config| config.json_image_delay_ms = 600_000);
    rig.backbone.serve(&[("IBM.N", image(&[(BID, 1)]))]);
    let mut client = logged_in(&mut rig);
    client.send(Message::Text(r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"TESTS"}}"#));
    rig.messages(&mut client, 1, 1);
    rig.backbone.say(Kind::Update, &update(&[(BID, GARBAGE)]));
    rig.backbone.say(Kind::Update, &update(&[(ASK, 7)]));
    rig.backbone.say(Kind::Refresh, &image(&[(BID, 8)]));
    rig.backbone.say(Kind::Update, &update(&[(BID, 9)]));
    let wanted =
        ["5 Status Open Suspect GapDetected", r#"5 Refresh Open Ok  {"BID":8}"#, r#"5 Update    {"BID":9}"#];
    assert_eq!(all_told(&rig.messages(&mut client, 2, 3)), wanted);
}

#[test]
fn of_a_status_the_state_is_told_and_of_a_generic_message_that_there_was_one() {
    let (mut rig, mut client) = watching();
    // Attributes of a key that are no element list.
    let key = Key {
        attributes: Some(rwf::Attributes { container_type: DataType::ELEMENT_LIST, data: &[8, 0, 9] }),
        ..Key::item(1, b"IBM.N")
    };
    let state = State::new(StreamState::Open, DataState::Suspect).because(StateCode::TIMEOUT, "late");
    let status = StatusMsg {
        state: Some(state),
        key: Some(key),
        ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA)
    };
    rig.backbone.say(Kind::Status, &Msg::Status(status).to_vec().expect("legal"));
    let generic = GenericMsg {
        payload: &[8, 0, 9],
        ..GenericMsg::new(Domain::MARKET_PRICE, 0, DataType::ELEMENT_LIST)
    };
    rig.backbone.say(Kind::Generic, &Msg::Generic(generic).to_vec().expect("legal"));
    let messages = rig.messages(&mut client, 2, 2);
    assert_eq!(all_told(&messages), ["5 Status Open Suspect Timeout", "5 Status Open NoChange Error"]);
    assert_eq!(messages[0]["State"]["Text"], "late");
    let text = messages[1]["State"]["Text"].as_str().expect("it says why");
    assert!(text.starts_with("a generic message cannot be written as JSON: "), "{text}");
    assert_eq!(rig.count("json_streams_suspected_total"), 0);
}

#[test]
fn a_private_stream_that_misses_an_update_is_closed_at_both_ends() {
    let (mut rig, mut client) = rig(&[(BID, 1)]);
    client.send(Message::Text(r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"TESTS"},"Private":true}"#));
    rig.ask(&mut client, r#"{"Type":"Ping"}"#);
    rig.backbone.say_privately(&image(&[(BID, 1)]));
    rig.backbone.say_privately(&update(&[(BID, GARBAGE)]));
    let wanted = [
        r#"5 Refresh Open Ok  {"BID":1}"#,
        "5 Status Open Suspect GapDetected",
        "5 Status Closed Suspect Error",
    ];
    assert_eq!(all_told(&rig.messages(&mut client, 2, 3)), wanted);
    rig.ask(&mut client, r#"{"Type":"Ping"}"#);
    assert_eq!((rig.backbone.private_messages(), rig.count("p2ps_watchers")), (1, 0), "the provider is told");
    assert_eq!(rig.count("json_streams_closed_total"), 1);
}
