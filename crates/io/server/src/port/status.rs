use std::net::SocketAddr;
use std::time::Duration;

use counters::Flow;
use serde_json::{Value, json};

use crate::{Backlog, ConnectionId};

/// What a status page shows of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Which.
    pub connection: ConnectionId,
    /// Its client's address.
    pub peer: SocketAddr,
    /// What waits for its socket.
    pub backlog: Backlog,
    /// What has gone through it.
    pub traffic: Traffic,
    /// Memory of the protocol's end of it; the buffers of TLS are not in it.
    pub memory_bytes: usize,
    /// The interval between two rounds of the newest values, if it is sent rounds.
    pub round_interval: Option<Duration>,
    /// `TLS 1.2` or `TLS 1.3` if it is encrypted.
    pub tls_version: Option<&'static str>,
    /// Its client has shown a certificate.
    pub has_client_certificate: bool,
}

/// What has gone through a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the peer.
    pub received: Flow,
    /// To the peer.
    pub sent: Flow,
    /// The name of the compression that was agreed.
    pub compression: Option<&'static str>,
}

impl ConnectionInfo {
    /// The connection as an object of a status page.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "peer": self.peer.to_string(),
            "tls": self.tls_version,
            "client_certificate": self.has_client_certificate,
            "compression": self.traffic.compression,
            "backlog_bytes": self.backlog.depth_bytes,
            "backlog_high_water_bytes": self.backlog.high_water_bytes,
            "backlog_limit_bytes": self.backlog.limit_bytes,
            "round_interval_ms": self.round_interval.map(|interval| interval.as_millis() as u64),
            "memory_bytes": self.memory_bytes,
            "received": to_json(&self.traffic.received),
            "sent": to_json(&self.traffic.sent),
        })
    }
}

fn to_json(flow: &Flow) -> Value {
    json!({
        "bytes": flow.bytes,
        "clear_bytes": flow.clear_bytes(),
        "frames": flow.frames,
        "messages": flow.messages,
        "packed_ratio": rounded(flow.packed_ratio()),
        "compression_ratio": rounded(flow.compression_ratio()),
    })
}

/// Three digits are enough for people.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_shown_with_three_digits_and_bytes_as_they_are() {
        let flow = Flow {
            bytes: 1300,
            frames: 7,
            messages: 30,
            packed_frames: 5,
            packed_messages: 20,
            compressed_bytes: 1000,
            expanded_bytes: 3000,
        };
        let json = to_json(&flow);
        assert_eq!(
            (json["packed_ratio"].as_f64(), json["compression_ratio"].as_f64()),
            (Some(0.667), Some(3.0))
        );
        assert_eq!((json["bytes"].as_u64(), json["clear_bytes"].as_u64()), (Some(1300), Some(3300)));
    }
}
