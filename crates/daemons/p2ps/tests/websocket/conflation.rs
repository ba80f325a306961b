//! A client that reads nothing for a while has its updates conflated, and nobody else notices.

use std::fmt::Write;

use market::backbone::Kind;
use serde_json::{Value, json};
use websocket::{CloseReason, Message, Stop};

use crate::rig::{Client, Rig, logged_in};
use scripted::{image, update};

const FIELDS: i16 = 300;

fn dictionary() -> String {
    let mut text = String::from("!tag Filename t.dic\n!tag Desc T\n!tag Type 1\n!tag Version 4.20.10\n");
    for id in 1..=FIELDS {
        writeln!(text, r#"FIELD_{id:03} "FIELD NUMBER {id:03}" {id} NULL PRICE 17 REAL64 7"#)
            .expect("a text");
    }
    text
}

fn all_fields(value: i64) -> Vec<(i16, i64)> {
    (1..=FIELDS).map(|id| (id, value)).collect()
}

fn rig(disconnect_after_ms: u32) -> Rig {
    let rig = Rig::with_fields(dictionary().as_bytes(), |config| {
        config.conflate_above_bytes = 100_000;
        config.conflate_above_ms = 0;
        config.conflated_room_bytes = 10_000;
        config.tick_after_ms = 0;
        config.disconnect_after_ms = disconnect_after_ms;
        // Nobody repeats the directory here.
        config.silence_timeout_ms = 600_000;
    });
    rig.backbone.serve(&[("IBM", image(&all_fields(0)))]);
    rig
}

fn watching(rig: &mut Rig) -> Client {
    let mut client = logged_in(rig);
    rig.ask(&mut client, &json!({"ID": 10, "Key": {"Name": "IBM"}}).to_string());
    client
}

fn messages(client: &Client) -> Vec<&Value> {
    client.seen.frames.iter().flat_map(|frame| frame.as_array().expect("an array")).collect()
}

fn value(message: &Value) -> Option<i64> {
    message["Fields"]["FIELD_001"].as_f64().map(|value| value as i64)
}

/// The values that a client saw of the item, in order.
fn values(client: &Client) -> Vec<i64> {
    messages(client).into_iter().filter_map(value).collect()
}

/// The value in the last message.
fn last_value(client: &Client) -> Option<i64> {
    value(client.seen.frames.last()?.as_array()?.last()?)
}

/// Publishes updates that one client reads, until a condition holds; the last value.
fn publish(rig: &mut Rig, reader: &mut Client, goes_on: impl Fn(&Rig) -> bool) -> i64 {
    let mut last = 0;
    while goes_on(rig) {
        last += 1;
        assert!(last < 1_000_000, "it goes on for ever");
        rig.backbone.say(Kind::Update, &update(&all_fields(last)));
        rig.turn();
        reader.read();
    }
    last
}

#[test]
fn a_client_that_reads_nothing_for_a_while_skips_to_the_newest_values_and_goes_on() {
    let mut rig = rig(0);
    let (mut slow, mut fast) = (watching(&mut rig), watching(&mut rig));
    publish(&mut rig, &mut fast, |rig| rig.count("p2ps_clients_conflated") == 0);
    let before = rig.count("listener_backlog_bytes");
    let last = 1_000_000;
    for value in last - 500..=last {
        rig.backbone.say(Kind::Update, &update(&all_fields(value)));
        rig.turn();
        fast.read();
    }
    let after = rig.count("listener_backlog_bytes");
    assert!(after < before + 10_000, "500 updates of {FIELDS} fields add nothing: {before}, then {after}");
    rig.drive_while(&mut fast, |_, client| last_value(client) != Some(last));
    let counts = (rig.count("p2ps_updates_conflated_total"), rig.count("p2ps_conflations_begun_total"));
    assert!(counts.0 >= 500 && counts.1 == 1, "{counts:?}");
    rig.drive_while(&mut slow, |rig, _| rig.count("p2ps_clients_conflated") == 1);
    rig.backbone.say(Kind::Update, &update(&[(1, last + 1)]));
    rig.drive_while(&mut slow, |_, client| last_value(client) != Some(last + 1));
    rig.drive_while(&mut fast, |_, client| last_value(client) != Some(last + 1));
    let (seen, all) = (values(&slow), values(&fast));
    assert!(seen.is_sorted(), "nothing goes back in time");
    assert!(all.len() >= seen.len() + 500 && all.is_sorted_by(|a, b| a < b), "the other one got each update");
    assert_eq!(seen[seen.len() - 2], last, "the newest values, then the update behind them");
    let texts: Vec<&str> = messages(&slow)
        .into_iter()
        .filter(|message| message["Domain"] == "Login" && message["Type"] == "Status")
        .filter_map(|message| message["State"]["Text"].as_str())
        .collect();
    assert!(texts.len() == 2 && texts[0].starts_with("updates are conflated"), "{texts:?}");
    assert!(texts[1].starts_with("every update is sent again"), "{texts:?}");
    assert_eq!((rig.count("p2ps_conflations_ended_total"), rig.count("p2ps_clients")), (1, 2));
    assert_eq!(rig.count("listener_backlog_bytes"), 0);
}

#[test]
fn a_client_that_goes_on_to_read_nothing_is_closed_with_a_reason_of_its_own() {
    let mut rig = rig(2_000);
    let (mut slow, mut fast) = (watching(&mut rig), watching(&mut rig));
    publish(&mut rig, &mut fast, |rig| rig.count("websocket_closed_stalled_total") == 0);
    assert_eq!((rig.count("p2ps_clients_conflated"), rig.count("p2ps_clients")), (0, 1));
    assert_eq!(rig.count("p2ps_conflations_begun_total"), 1, "it was conflated before");
    rig.drive_while(&mut slow, |_, client| client.seen.end.is_none());
    assert!(!matches!(slow.seen.end, Some(CloseReason::Stopped(Stop::Application))), "{:?}", slow.seen.end);
    fast.send(Message::Text(r#"{"Type":"Ping"}"#));
    rig.drive(&mut fast, |seen| seen.frames.last() == Some(&json!([{"Type": "Pong"}])));
}
