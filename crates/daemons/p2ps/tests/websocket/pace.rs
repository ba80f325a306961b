//! Clients that ask for more than a turn of the server should do wait, and nobody waits for them.

use std::fmt::Write;

use market::backbone::Kind;
use serde_json::{Value, json};
use websocket::{ClientConfig, Message};

use crate::rig::{Client, LOGIN, Rig, logged_in};
use scripted::{image, update};

/// A dictionary as large as the vendor's: 16,000 fields, 695 of them with ripples.
const FIELD_COUNT: usize = 16_000;

fn dictionary(count: usize) -> String {
    let mut text = String::from("!tag Filename t.dic\n!tag Desc T\n!tag Type 1\n!tag Version 4.20.10\n");
    for n in 0..count {
        let id = if n < FIELD_COUNT / 2 { n as i32 + 1 } else { 7_999 - n as i32 };
        let ripples = if n % 23 == 0 && n > 0 { format!("FIELD_{:05}", n - 1) } else { "NULL".to_owned() };
        writeln!(text, r#"FIELD_{n:05} "FIELD NUMBER {n:05}" {id} {ripples} PRICE 17 REAL64 7"#)
            .expect("a text");
    }
    text
}

const FIELDS: &str = r#"{"ID":4,"Domain":"Dictionary","Key":{"Name":"RWFFld","Filter":7,"Service":1}}"#;

fn large() -> Rig {
    Rig::with_fields(dictionary(FIELD_COUNT).as_bytes(), |_| {})
}

/// A client that sends so many requests at once.
fn greedy(rig: &mut Rig, count: usize) -> Client {
    let mut client = logged_in(rig);
    client.send(Message::Text(&format!("[{}]", vec![FIELDS; count].join(","))));
    client
}

#[test]
fn a_dictionary_of_the_vendors_size_is_one_message_in_frames_that_clients_take() {
    let mut rig = large();
    for compression in [false, true] {
        let mut client = rig.client(ClientConfig { compression, ..ClientConfig::new("h") }, "");
        rig.ask(&mut client, LOGIN);
        let answer = rig.ask(&mut client, FIELDS);
        let message = &answer[0];
        assert_eq!((&message["Type"], &message["Domain"]), (&json!("Refresh"), &json!("Dictionary")));
        assert_eq!(message["Complete"], Value::Null, "it is all in one message");
        assert_eq!(message["Series"]["Entries"].as_array().map(Vec::len), Some(FIELD_COUNT));
        // It comes again from what was made before, under another stream id.
        let again = rig.ask(&mut client, &FIELDS.replace(r#""ID":4"#, r#""ID":5"#));
        assert_eq!((&again[0]["ID"], &again[0]["Series"]), (&json!(5), &message["Series"]));
        assert_eq!(again[0]["Key"], message["Key"]);
    }
}

#[test]
fn one_that_asks_for_a_dictionary_a_thousand_times_and_reads_nothing_waits_alone() {
    let mut rig = large();
    let mut steady = logged_in(&mut rig);
    let greedy = greedy(&mut rig, 700);
    for _ in 0..50 {
        let before = rig.count("json_messages_written_total");
        assert_eq!(rig.ask(&mut steady, r#"{"Type":"Ping"}"#), json!([{"Type": "Pong"}]));
        let made = rig.count("json_messages_written_total") - before;
        // Some turns pass until the loopback interface has brought both ways.
        assert!(made <= 20, "{made} dictionaries were made before a ping was answered");
    }
    assert_eq!(rig.count("p2ps_clients_waiting"), 1);
    assert!(rig.count("p2ps_client_messages_deferred_total") >= 690);
    // What is sent to it stays far below the limit of 64 MB.
    let backlog = rig.count("listener_backlog_bytes");
    assert!((1_000_000..20_000_000).contains(&backlog), "{backlog} bytes wait for it");
    assert_eq!(rig.count("p2ps_clients"), 2, "it is not closed for that");
    drop(greedy);
    rig.drive(&mut steady, |_| true);
    while rig.count("p2ps_clients") == 2 {
        rig.turn();
    }
    rig.turn();
    assert_eq!((rig.count("p2ps_clients_waiting"), rig.count("listener_backlog_bytes")), (0, 0));
}

#[test]
fn what_waited_is_answered_in_order_and_the_connection_goes_on() {
    let mut rig = Rig::with_fields(dictionary(2_000).as_bytes(), |_| {});
    let mut client = logged_in(&mut rig);
    let request = |id| FIELDS.replace(r#""ID":4"#, &format!(r#""ID":{id}"#));
    let all: Vec<String> = (10..30).map(request).collect();
    client.send(Message::Text(&format!("[{}]", all.join(","))));
    client.send(Message::Text(r#"{"ID":30,"Domain":"Source","Key":{}}"#));
    client.send(Message::Text(r#"{"ID":10,"Type":"Close","Domain":"Dictionary"}"#));
    client.send(Message::Text(&request(10)));
    let messages = rig.messages(&mut client, 1, 22);
    let ids: Vec<i64> = messages.iter().map(|message| message["ID"].as_i64().expect("an id")).collect();
    assert_eq!(ids, (10..=30).chain([10]).collect::<Vec<i64>>());
    assert_eq!(rig.ask(&mut client, r#"{"Type":"Ping"}"#), json!([{"Type": "Pong"}]));
    assert_eq!(rig.count("p2ps_clients_waiting"), 0);
}

#[test]
fn beyond_the_limit_of_all_backlogs_those_with_the_most_are_closed() {
    let mut rig = Rig::with_fields(dictionary(FIELD_COUNT).as_bytes(), |config| {
        config.websocket.backlogs_max_bytes = 16 << 20;
    });
    let mut steady = logged_in(&mut rig);
    let greedy: Vec<Client> = (0..6).map(|_| greedy(&mut rig, 20)).collect();
    let mut turns = 0;
    while rig.count("listener_backlogs_relieved_total") == 0 && turns < 10_000 {
        rig.turn();
        turns += 1;
    }
    assert!(rig.count("listener_backlogs_relieved_total") >= 1);
    assert!(rig.count("listener_backlog_bytes") <= 16 << 20);
    assert_eq!(rig.ask(&mut steady, r#"{"Type":"Ping"}"#), json!([{"Type": "Pong"}]));
    assert!(rig.count("p2ps_clients") > 1, "not all are closed");
    drop(greedy);
}

/// An image of many fields, all of one value.
fn large_image(value: i64) -> Vec<u8> {
    let fields: Vec<(i16, i64)> = (1..=700).map(|id| (id, value)).collect();
    image(&fields)
}

#[test]
fn a_client_that_reads_nothing_while_a_feed_starts_again_and_again_gets_the_last_images_when_it_reads() {
    const ITEMS: u32 = 50;
    const ROUNDS: i64 = 40;
    let mut rig = Rig::with_fields(dictionary(2_000).as_bytes(), |config| {
        config.websocket.backlog_max_bytes = 4 << 20;
        // Nobody repeats the directory here.
        config.silence_timeout_ms = 600_000;
    });
    let names: Vec<String> = (1..=ITEMS).map(|item| format!("I{item:02}")).collect();
    let items: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (name.as_str(), large_image(0))).collect();
    rig.backbone.serve(&items);
    let mut client = logged_in(&mut rig);
    client.send(Message::Text(&json!({"ID": 10, "Key": {"Name": names}}).to_string()));
    rig.messages(&mut client, 1, ITEMS as usize);
    for round in 1..=ROUNDS {
        for item in 1..=ITEMS {
            rig.backbone.say_of(item, Kind::Refresh, &large_image(round));
            rig.backbone.say_of(item, Kind::Update, &update(&[(1, round * 1_000)]));
        }
        (0..2).for_each(|_| rig.turn());
    }
    assert!(rig.count("p2ps_images_deferred_total") > u64::from(ITEMS) / 2);
    assert_eq!(rig.count("p2ps_clients"), 1, "it is not closed");
    let value = |message: &Value, field: &str| message["Fields"][field].as_f64();
    let is_last = |message: &&Value| value(message, "FIELD_00001") == Some(ROUNDS as f64);
    rig.drive(&mut client, |seen| {
        let messages = seen.frames.iter().flat_map(|frame| frame.as_array().expect("an array"));
        messages.filter(is_last).count() == ITEMS as usize
    });
    let messages: Vec<&Value> =
        client.seen.frames.iter().flat_map(|frame| frame.as_array().expect("an array")).collect();
    let last = messages.iter().copied().filter(is_last);
    for message in last {
        assert_eq!(value(message, "FIELD_00000"), Some(ROUNDS as f64 * 1_000.0), "updates are in it");
    }
    assert!(messages.len() < 4_000, "most were left out: {}", messages.len());
}
