//! Stream ids on this port are one space for all domains.

use serde_json::{Value, json};
use websocket::Message;

use crate::rig::{Client, Rig, logged_in};
use scripted::{BID, image};

fn serving() -> (Rig, Client) {
    let mut rig = Rig::new();
    rig.backbone.serve(&[("IBM.N", image(&[(BID, 1)]))]);
    let client = logged_in(&mut rig);
    (rig, client)
}

fn error(answer: &Value) -> &str {
    assert_eq!(answer[0]["Type"], "Error", "{answer}");
    answer[0]["Text"].as_str().expect("a text")
}

#[test]
fn a_request_on_an_id_of_another_domain_is_an_error_and_leaves_the_stream_alone() {
    let (mut rig, mut client) = serving();
    let said = rig.ask(&mut client, r#"{"ID":2,"Key":{"Name":"IBM.N"}}"#);
    assert_eq!((&said[0]["ID"], error(&said)), (&json!(2), "the id 2 is in use for the stream of login"));
    rig.ask(&mut client, r#"{"ID":9,"Domain":"Source","Key":{"Filter":3}}"#);
    let said = rig.ask(&mut client, r#"{"ID":7,"Key":{"Name":["IBM.N","IBM.N"]}}"#);
    assert_eq!(
        error(&said),
        "the id 9 is in use for the stream of source directory",
        "of an item of the batch"
    );
    let said = rig.ask(&mut client, r#"{"ID":5,"Key":{"Name":"IBM.N"}}"#);
    assert_eq!(said[0]["Type"], "Refresh");
    let said = rig.ask(&mut client, r#"{"ID":5,"Domain":"Source","Key":{"Filter":3}}"#);
    assert_eq!(error(&said), "the id 5 is in use for the stream of an item");
    assert_eq!((rig.count("json_ids_in_use_total"), rig.count("json_messages_refused_total")), (3, 3));
    let said = rig.ask(&mut client, r#"{"ID":9,"Domain":"Source","Key":{"Filter":1}}"#);
    assert_eq!(said[0]["Type"], "Refresh", "the same domain is a reissue");
    assert_eq!((rig.count("p2ps_watchers"), rig.count("p2ps_clients")), (1, 1));
}

#[test]
fn an_id_is_free_when_its_stream_has_ended() {
    let (mut rig, mut client) = serving();
    rig.ask(&mut client, r#"{"ID":9,"Domain":"Source","Key":{"Filter":3}}"#);
    client.send(Message::Text(r#"{"ID":9,"Type":"Close"}"#));
    let refused =
        rig.ask(&mut client, r#"{"ID":8,"Domain":"Dictionary","Key":{"Name":"NOSUCH","Filter":7}}"#);
    assert_eq!(refused[0]["State"]["Stream"], "Closed");
    for id in [8, 9] {
        let said = rig.ask(&mut client, &json!({"ID": id, "Key": {"Name": "IBM.N"}}).to_string());
        assert_eq!(said[0]["Type"], "Refresh", "{said}");
    }
}

#[test]
fn a_close_of_several_streams_is_answered_once_with_how_many_were_open() {
    let (mut rig, mut client) = serving();
    rig.ask(&mut client, r#"{"ID":5,"Key":{"Name":"IBM.N"}}"#);
    rig.ask(&mut client, r#"{"ID":6,"Domain":"Source","Key":{"Filter":3}}"#);
    for open in [2, 0] {
        let answer = rig.ask(&mut client, r#"{"ID":[5,6,9,5],"Type":"Close"}"#);
        let text = format!("Processed 4 total stream ids from Batch Close Request. {open} Ok.");
        let state = json!({"Stream": "Closed", "Data": "Ok", "Text": text});
        assert_eq!(answer, json!([{"ID": 5, "Type": "Status", "State": state}]));
    }
    assert_eq!(rig.count("p2ps_watchers"), 0);
}
