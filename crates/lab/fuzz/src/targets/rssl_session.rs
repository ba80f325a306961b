use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use counters::table::RsslConnections;
use rssl::{
    ClientConfig, ClientConnection, ClientParams, CloseReason, CompressionType, ConnectionVersion, Handler,
    Limits, Outbound, ServerConfig, ServerConnection, ServerParams, Session, Stop,
};
use units::Nanos;

use super::rssl_handshake::version;
use crate::Outcome;
use crate::input::Input;

const MESSAGE_SIZE_BYTES: u16 = 600;
const LIMITS: Limits = Limits {
    message_bytes_max: 65_535,
    fragmented_open_max: 4,
    fragmented_bytes_max: 131_070,
    backlog_bytes_max: 64 << 10,
};
/// The longest that one operation lets pass, nanoseconds.
const STEP_NS_MAX: u64 = 2_000_000_000;

static SERVER: LazyLock<Arc<ServerParams>> = LazyLock::new(|| {
    let config =
        ServerConfig { limits: LIMITS, message_size_bytes: MESSAGE_SIZE_BYTES, ..ServerConfig::default() };
    Arc::new(config.check().expect("within its bounds"))
});
static CLIENTS: LazyLock<[Arc<ClientParams>; 3]> = LazyLock::new(|| {
    [CompressionType::None, CompressionType::Zlib, CompressionType::Lz4].map(|compression| {
        let version_min = ConnectionVersion::V10;
        let config = ClientConfig { limits: LIMITS, version_min, compression, ..ClientConfig::default() };
        Arc::new(config.check().expect("within its bounds"))
    })
});
static COUNTERS: LazyLock<Arc<RsslConnections>> = LazyLock::new(Arc::default);

/// Input: version and the compression asked for, then operations of three bytes each: what, and a number.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut ends = Ends::new(input.u8());
    let mut over = None;
    while !input.is_empty() && over.is_none() {
        let (what, number) = (input.u8(), input.u16());
        over = ends.operate(what, usize::from(number)).err();
        ends.check();
    }
    if over.is_none() {
        over = ends.exchange_all().err();
        ends.check();
        let arrived = ends.at_server.received.len() == ends.at_client.sent.len()
            && ends.at_client.received.len() == ends.at_server.sent.len();
        assert!(over.is_some() || arrived, "nothing is left on the way");
    }
    let count = |side: &Side| side.received.len().min(8).checked_ilog2();
    let shape = (count(&ends.at_server), count(&ends.at_client), ends.server.negotiated().is_some());
    match over {
        // Two good ends that are heard in time have nothing to blame each other for.
        Some(reason) if ends.slept => Outcome::refused((reason, shape)),
        Some(reason) => panic!("good ends: {reason}"),
        None => Outcome::accepted(shape),
    }
}

/// What one side was given to send, and what it received.
#[derive(Default)]
struct Side {
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Handler for Side {
    fn on_connected(&mut self, _: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        self.push(out, b"hello");
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        self.received.push(message.to_vec());
        if message.len().is_multiple_of(7) {
            self.push(out, &message[..message.len() / 7]);
        }
        ControlFlow::Continue(())
    }
}

impl Side {
    fn push(&mut self, out: &mut Outbound, message: &[u8]) {
        if out.push(message).is_ok() {
            self.sent.push(message.to_vec());
        }
    }
}

struct Ends {
    now: Nanos,
    server: ServerConnection,
    client: ClientConnection,
    at_server: Side,
    at_client: Side,
    /// On its way between the sockets.
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Time passed, so that an end may have waited in vain.
    slept: bool,
}

impl Ends {
    fn new(head: u8) -> Ends {
        let kind = usize::from(head) / ConnectionVersion::ALL.len() % CLIENTS.len();
        Ends {
            now: Nanos::ZERO,
            server: ServerConnection::new(Nanos::ZERO, &SERVER, &COUNTERS, 11),
            client: ClientConnection::new(Nanos::ZERO, &CLIENTS[kind], &COUNTERS, version(head), 22),
            at_server: Side::default(),
            at_client: Side::default(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            slept: false,
        }
    }

    fn operate(&mut self, what: u8, number: usize) -> Result<(), CloseReason> {
        let message = vec![what; 1 + number % 3000];
        match what % 8 {
            0 => self.at_server.push(self.server.outbound(), &message),
            1 => self.at_client.push(self.client.outbound(), &message),
            2 => write(self.server.outbound(), number, &mut self.to_client),
            3 => write(self.client.outbound(), number, &mut self.to_server),
            4 => self.deliver(number, 0)?,
            5 => self.deliver(0, number)?,
            6 => {
                self.slept = true;
                self.now = Nanos(self.now.0 + number as u64 * (STEP_NS_MAX / 65_536));
                self.server.on_wakeup(self.now)?;
                self.client.on_wakeup(self.now)?;
            }
            _ => self.exchange()?,
        }
        Ok(())
    }

    /// Gives each end so many bytes of those that are on their way to it.
    fn deliver(&mut self, to_server: usize, to_client: usize) -> Result<(), CloseReason> {
        let bytes = front(&mut self.to_server, to_server);
        self.server.on_bytes(self.now, &bytes, &mut self.at_server)?;
        let bytes = front(&mut self.to_client, to_client);
        self.client.on_bytes(self.now, &bytes, &mut self.at_client)
    }

    fn exchange(&mut self) -> Result<(), CloseReason> {
        write(self.client.outbound(), usize::MAX - 1, &mut self.to_server);
        write(self.server.outbound(), usize::MAX - 1, &mut self.to_client);
        self.deliver(usize::MAX, usize::MAX)
    }

    fn exchange_all(&mut self) -> Result<(), CloseReason> {
        loop {
            self.exchange()?;
            let pending = [self.client.outbound().depth_bytes(), self.server.outbound().depth_bytes()];
            if pending == [0, 0] && self.to_client.is_empty() && self.to_server.is_empty() {
                return Ok(());
            }
        }
    }

    fn check(&self) {
        assert!(self.at_client.sent.starts_with(&self.at_server.received), "in order to the server");
        assert!(self.at_server.sent.starts_with(&self.at_client.received), "in order to the client");
        let size_bytes = MESSAGE_SIZE_BYTES.max(6144);
        let bound = LIMITS.memory_bytes_max(size_bytes) + Limits::compression_bytes_max(size_bytes);
        for memory_bytes in [self.server.memory_bytes(), self.client.memory_bytes()] {
            assert!(memory_bytes as u64 <= bound, "{memory_bytes} of {bound} bytes");
        }
    }
}

/// Writes up to `number` bytes to the wire; an even number closes the frame that is open first.
fn write(outbound: &mut Outbound, number: usize, wire: &mut Vec<u8>) {
    let pending = if number.is_multiple_of(2) { outbound.flush() } else { outbound.pending() };
    let taken = number.min(pending.len());
    wire.extend_from_slice(&pending[..taken]);
    outbound.consume(taken);
}

fn front(wire: &mut Vec<u8>, count: usize) -> Vec<u8> {
    let rest = wire.split_off(count.min(wire.len()));
    std::mem::replace(wire, rest)
}
