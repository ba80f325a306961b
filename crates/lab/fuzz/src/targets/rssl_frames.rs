use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use counters::table::RsslConnections;
use rssl::handshake::{ClientKey, ConnectRequest};
use rssl::{
    CloseReason, CompressionType, ConnectionVersion, Handler, Limits, Outbound, ServerConfig,
    ServerConnection, ServerParams, Session, Stop,
};
use units::Nanos;

use super::rssl_handshake::{compression, version};
use crate::Outcome;

const MESSAGE_SIZE_BYTES: u16 = 600;
const LIMITS: Limits = Limits {
    message_bytes_max: 65_535,
    fragmented_open_max: 4,
    fragmented_bytes_max: 131_070,
    backlog_bytes_max: 64 << 10,
};

static SERVER: LazyLock<Arc<ServerParams>> = LazyLock::new(|| {
    let config =
        ServerConfig { limits: LIMITS, message_size_bytes: MESSAGE_SIZE_BYTES, ..ServerConfig::default() };
    Arc::new(config.check().expect("within its bounds"))
});
static COUNTERS: LazyLock<Arc<RsslConnections>> = LazyLock::new(Arc::default);

/// Input: version and the compression asked for, bytes a piece less one, frames.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let &[head, piece, ref frames @ ..] = input else { return Outcome::refused("short") };
    let whole = fed(head, frames, usize::MAX, 0);
    assert_eq!(whole, fed(head, frames, usize::from(piece) + 1, 0), "whole, and in pieces");
    for piece_bytes in [usize::MAX, usize::from(piece) + 1] {
        assert_eq!(whole, fed(head, frames, piece_bytes, 1 + usize::from(piece) % 4), "with a look ahead");
    }
    let (messages, reason) = whole;
    let longest = messages.iter().map(Vec::len).max().unwrap_or(0);
    let shape = (messages.len().min(4), longest.checked_ilog2());
    match reason {
        Some(reason) => Outcome::refused((reason, shape)),
        None => Outcome::accepted(shape),
    }
}

fn fed(head: u8, frames: &[u8], piece_bytes: usize, ahead: usize) -> (Vec<Vec<u8>>, Option<CloseReason>) {
    let (version, compression) = (version(head), compression(head));
    let mut server = ServerConnection::new(Nanos::ZERO, &SERVER, &COUNTERS, 7);
    let mut collector = Collector { ahead, ..Collector::default() };
    let mut handshake = Vec::new();
    let request = ConnectRequest::new(version, 30);
    ConnectRequest { compression: compression.request_bit(), ..request }.emit(&mut handshake);
    if version == ConnectionVersion::V14 {
        ClientKey { key: Some(3) }.emit(&mut handshake);
    }
    server.on_bytes(Nanos::ZERO, &handshake, &mut collector).expect("a good handshake");
    let agreed = server.negotiated().expect("a good handshake").compression;
    let more = match agreed {
        CompressionType::None => 0,
        _ => Limits::compression_bytes_max(MESSAGE_SIZE_BYTES) + u64::from(LIMITS.message_bytes_max),
    };
    let bound = LIMITS.memory_bytes_max(MESSAGE_SIZE_BYTES) + more;
    let reason = frames.chunks(piece_bytes).find_map(|piece| {
        let end = server.on_bytes(Nanos::ZERO, piece, &mut collector).err();
        assert!(server.memory_bytes() as u64 <= bound, "{} of {bound} bytes", server.memory_bytes());
        end
    });
    if reason.is_none() {
        let mut messages = collector.messages.iter();
        let comes = |shown| messages.any(|message| message == shown);
        assert!(collector.shown.iter().all(comes), "what is shown comes, in the same order");
    }
    (collector.messages, reason)
}

/// Keeps the messages that arrive, and those that are shown before.
#[derive(Default)]
struct Collector {
    ahead: usize,
    messages: Vec<Vec<u8>>,
    shown: Vec<Vec<u8>>,
}

impl Handler for Collector {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        assert!(!message.is_empty() && message.len() <= LIMITS.message_bytes_max as usize);
        self.messages.push(message.to_vec());
        ControlFlow::Continue(())
    }

    fn messages_ahead(&self) -> usize {
        self.ahead
    }

    fn on_coming(&mut self, message: &[u8]) {
        self.shown.push(message.to_vec());
    }
}
