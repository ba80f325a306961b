//! The upgrade requests of recorded clients (`tests/vectors`).

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tickcast_websocket::ServerConfig;
use units::Nanos;

use crate::support::*;

/// The lines of all upgrade requests, by file.
fn requests() -> Vec<(String, Vec<String>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/upgrades.jsonl");
    let text = std::fs::read_to_string(path).expect("it is committed");
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("a line of JSON");
        let lines = value["http"].as_array().expect("header lines").iter();
        let lines = lines.map(|line| line.as_str().expect("a string").to_owned()).collect();
        (value["file"].as_str().expect("a name").to_owned(), lines)
    };
    text.lines().map(parse).collect()
}

#[test]
fn the_requests_of_all_recorded_clients_of_the_json_protocol_are_accepted() {
    let requests = requests();
    assert!(requests.len() >= 20, "{}", requests.len());
    for (file, lines) in requests {
        let mut server = server_with(ServerConfig::default(), &Arc::default());
        let mut seen = Recorder::default();
        // Keys were left out of the recordings.
        let head = format!("{}\r\nSec-WebSocket-Key: {KEY}\r\n\r\n", lines.join("\r\n"));
        let result = server.on_bytes(Nanos::ZERO, head.as_bytes(), &mut seen);
        if file == "ema_rwf_over_websocket" {
            assert!(result.is_err(), "{file} offers nothing but rssl.rwf");
            continue;
        }
        assert_eq!(result, Ok(()), "{file}");
        let is_compressing = head.contains("permessage-deflate");
        let connected = Received::Connected { protocol: "tr_json2".to_owned(), is_compressing };
        assert_eq!(seen.received, [connected], "{file}");
    }
}
