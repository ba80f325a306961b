use std::net::SocketAddr;

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
    /// What has gone through it, if its protocol keeps count.
    pub traffic: Option<Traffic>,
    /// Memory of the protocol's end of it; the buffers of TLS are not in it.
    pub memory_bytes: usize,
    /// `TLS 1.2` or `TLS 1.3` if it is encrypted.
    pub tls_version: Option<&'static str>,
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

/// What has gone through a connection in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes of the protocol, before encryption.
    pub bytes: u64,
    /// What they would be without compression.
    pub clear_bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Messages.
    pub messages: u64,
    /// Messages that shared a frame with others.
    pub packed_messages: u64,
    /// Bytes of compressed payloads.
    pub compressed_bytes: u64,
    /// Bytes of the same payloads in clear.
    pub expanded_bytes: u64,
}

impl Flow {
    /// The part of the messages that shared a frame, 0 to 1; 0 before the first message.
    #[must_use]
    pub fn packed_ratio(&self) -> f64 {
        ratio(self.packed_messages, self.messages).unwrap_or(0.0)
    }

    /// How many times longer compressed payloads are in clear; 1 before the first one.
    #[must_use]
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.expanded_bytes, self.compressed_bytes).unwrap_or(1.0)
    }

    fn to_json(self) -> Value {
        json!({
            "bytes": self.bytes,
            "clear_bytes": self.clear_bytes,
            "frames": self.frames,
            "messages": self.messages,
            "packed_ratio": rounded(self.packed_ratio()),
            "compression_ratio": rounded(self.compression_ratio()),
        })
    }
}

impl ConnectionInfo {
    /// The connection as an object of a status page.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "peer": self.peer.to_string(),
            "tls": self.tls_version,
            "compression": self.traffic.and_then(|traffic| traffic.compression),
            "backlog_bytes": self.backlog.depth_bytes,
            "backlog_high_water_bytes": self.backlog.high_water_bytes,
            "backlog_limit_bytes": self.backlog.limit_bytes,
            "memory_bytes": self.memory_bytes,
            "received": self.traffic.map(|traffic| traffic.received.to_json()),
            "sent": self.traffic.map(|traffic| traffic.sent.to_json()),
        })
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Three digits are enough for people.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_traffic_has_ratios() {
        let flow = Flow::default();
        assert_eq!((flow.packed_ratio(), flow.compression_ratio()), (0.0, 1.0));
    }

    #[test]
    fn ratios_are_those_of_messages_and_of_payloads() {
        let flow = Flow {
            bytes: 1300,
            clear_bytes: 3300,
            frames: 7,
            messages: 30,
            packed_messages: 20,
            compressed_bytes: 1000,
            expanded_bytes: 3000,
        };
        let json = flow.to_json();
        assert_eq!(
            (json["packed_ratio"].as_f64(), json["compression_ratio"].as_f64()),
            (Some(0.667), Some(3.0))
        );
        assert_eq!((json["bytes"].as_u64(), json["clear_bytes"].as_u64()), (Some(1300), Some(3300)));
    }
}
