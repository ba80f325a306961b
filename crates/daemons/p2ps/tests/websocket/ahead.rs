//! With many items the server tells its core of messages before their turn: nothing comes late for it, or out of order.

use market::backbone::Kind;
use serde_json::json;
use websocket::Message;

use crate::rig::{Client, Rig, logged_in};
use scripted::{BID, image, update};

/// More than a table has to have for a look ahead.
const ITEMS: usize = 1_500;
/// Stream ids of a batch are those behind its own.
const BATCH: i64 = 5;

fn name(item: usize) -> String {
    format!("I{item}")
}

/// A client that has the images of all items, at a server that handles so many bytes a second, 0 for all.
fn watched(rate: u64) -> (Rig, Client) {
    let mut rig = Rig::with(|config| {
        config.intake_rate_limit_bytes_per_second = rate;
        (config.conflate_above_bytes, config.conflate_above_ms) = (0, 0);
        // The directory of these tests comes once.
        config.silence_timeout_ms = 600_000;
    });
    let items: Vec<(String, Vec<u8>)> = (0..ITEMS).map(|item| (name(item), image(&[(BID, 0)]))).collect();
    let served: Vec<(&str, Vec<u8>)> = items.iter().map(|(name, image)| (&**name, image.clone())).collect();
    rig.backbone.serve(&served);
    let mut client = logged_in(&mut rig);
    for part in 0..ITEMS / 100 {
        let names: Vec<String> = (part * 100..part * 100 + 100).map(name).collect();
        let id = BATCH + part as i64 * 1_000;
        let request = json!({"ID": id, "Key": {"Name": names, "Service": "TESTS"}}).to_string();
        client.send(Message::Text(&request));
        let seen = (part + 1) * 100;
        rig.drive_while(&mut client, |_, client| of_type(client, "Refresh").count() < seen + 1);
    }
    (rig, client)
}

fn of_type<'a>(client: &'a Client, kind: &'a str) -> impl Iterator<Item = &'a serde_json::Value> {
    let messages = client.seen.frames.iter().flat_map(|frame| frame.as_array().into_iter().flatten());
    messages.filter(move |message| message["Type"] == kind)
}

/// Item and value of each update, in order.
fn updates(client: &Client) -> Vec<(usize, i64)> {
    let of = |message: &serde_json::Value| {
        let at = message["ID"].as_i64().expect("every message has one") - BATCH - 1;
        ((at / 1_000 * 100 + at % 1_000) as usize, message["Fields"]["BID"].as_i64().expect("each has one"))
    };
    of_type(client, "Update").map(of).collect()
}

#[test]
fn updates_of_many_items_come_at_once_and_in_order() {
    for rate in [0, 50_000_000] {
        let (mut rig, mut client) = watched(rate);
        let mut expected = Vec::new();
        for value in 1..=6_000usize {
            let item = value * 7_919 % ITEMS;
            // Some are too long to be told of.
            let times = if value % 50 < 3 { 300 } else { 1 };
            let body = update(&vec![(BID, value as i64); times]);
            rig.backbone.say_of(item as u32 + 1, Kind::Update, &body);
            expected.push((item, value as i64));
        }
        rig.drive_while(&mut client, |_, client| of_type(client, "Update").count() < 6_000);
        assert!(updates(&client) == expected, "at {rate} bytes a second");
        for value in 6_001..6_010 {
            rig.backbone.say_of(3, Kind::Update, &update(&[(BID, value)]));
            expected.push((2, value));
            let before = rig.count("p2ps_updates_out_total");
            // The second turn is for a server that handles what waits with some delay.
            (0..2).for_each(|_| rig.turn());
            if rate == 0 {
                assert_eq!(
                    rig.count("p2ps_updates_out_total"),
                    before + 1,
                    "the last one waits for no other"
                );
            }
        }
        rig.drive_while(&mut client, |_, client| of_type(client, "Update").count() < 6_009);
        assert!(updates(&client) == expected, "at {rate} bytes a second");
    }
}
