//! A server that cannot handle what comes over the backbone keeps it, reports how far it is, and counts what it drops.

use market::backbone::Kind;

use crate::rig::{Client, Rig, logged_in};
use scripted::{BID, image, update};

/// A server that handles so many bytes a second.
fn slow(rate: u64) -> (Rig, Client) {
    let mut rig = Rig::with(|config| {
        config.intake_rate_limit_bytes_per_second = rate;
        config.intake_max_bytes = 1 << 20;
        // The directory of these tests comes once.
        config.silence_timeout_ms = 600_000;
    });
    rig.backbone.serve(&[("A", image(&[(BID, 1)]))]);
    let mut client = logged_in(&mut rig);
    let answer = rig.ask(&mut client, r#"{"ID":5,"Key":{"Name":"A","Service":"TESTS"}}"#);
    assert_eq!(answer[0]["State"]["Data"], "Ok");
    (rig, client)
}

fn bid(client: &Client) -> Option<i64> {
    let messages = client.seen.frames.iter().flat_map(|frame| frame.as_array().into_iter().flatten());
    messages.filter_map(|message| message["Fields"]["BID"].as_i64()).next_back()
}

#[test]
fn what_cannot_be_handled_in_time_waits_and_the_source_distributor_hears_how_far_it_is() {
    let (mut rig, mut client) = slow(100_000);
    for value in 1..=500 {
        rig.backbone.say(Kind::Update, &update(&[(BID, value)]));
    }
    rig.turn();
    assert!(rig.count("p2ps_intake_bytes") > 10_000);
    let (mut delay, mut reported) = (0, 0);
    rig.drive_while(&mut client, |rig, client| {
        delay = delay.max(rig.count("p2ps_intake_delay_ns"));
        let (taken, sent) = rig.backbone.taken_of_sent();
        reported += u32::from(taken > 0 && taken < sent);
        bid(client) != Some(500) || taken < sent
    });
    assert!(delay > 10_000_000 && reported > 0, "{delay} ns, {reported} reports meanwhile");
    rig.turn();
    assert_eq!((rig.count("p2ps_intake_bytes"), rig.count("p2ps_intake_delay_ns")), (0, 0));
    assert_eq!((rig.count("p2ps_intake_dropped_total"), rig.count("p2ps_messages_lost_total")), (0, 0));
    assert!(rig.count("p2ps_progress_out_total") > 1);
}

#[test]
fn what_finds_no_room_is_dropped_counted_and_a_gap() {
    let (mut rig, mut client) = slow(10_000_000);
    let long = update(&(0..200).map(|_| (BID, 7)).collect::<Vec<_>>());
    for _ in 0..2_000 {
        rig.backbone.say(Kind::Update, &long);
    }
    rig.turn();
    let dropped = rig.count("p2ps_intake_dropped_total");
    assert!(dropped > 0 && dropped < 2_000, "{dropped}");
    assert_eq!(rig.count("p2ps_messages_lost_total"), 0, "it has not come to them yet");
    // The first message that finds room again, once half of it is free, tells of the gap before it.
    rig.drive_while(&mut client, |rig, _| {
        rig.backbone.say(Kind::Update, &update(&[(BID, 8)]));
        rig.count("p2ps_gaps_total") == 0
    });
    assert!(rig.count("p2ps_messages_lost_total") >= dropped);
}

#[test]
fn a_socket_of_the_backbone_is_emptied_before_anything_else_however_small_its_datagrams_are() {
    let (mut rig, _client) = slow(0);
    rig.backbone.fill_socket(40);
    rig.backbone_is_ready();
    assert_eq!(rig.backbone.looks_and_batches(), (41, 0));
    // One that is never empty does not keep the others waiting for ever.
    rig.backbone.fill_socket(usize::MAX);
    rig.backbone_is_ready();
    assert_eq!(rig.backbone.looks_and_batches().0, 64);
}
