//! An end of a run: a context that its thread drives, a source in one direction and a receiver in the other.

use std::net::Ipv4Addr;
use std::time::Duration;

use measure::ends::{End, Failure, Link, answer, play};
use messaging::{
    AfXdpMode, Context, Handler, IpcBehavior, LbtrmConfig, LbtruConfig, Message, MessagingConfig,
    ReceiverOptions, SendError, Source, SourceOptions, TopicResolutionConfig, Wait,
};
use net::clock;
use serde_json::json;
use testkit::hosts::{FAR, NEAR};

use super::Settings;
use crate::BenchError;
use crate::pair::Path;
use crate::process::START_LIMIT;

/// Of each multicast socket.
const BUFFER_BYTES: u64 = 64 << 20;
/// From the near end, from the far one.
const TOPICS: [&str; 2] = ["there", "back"];
/// What the ends say to each other before a run, shorter than any message of it.
const HELLO: &[u8] = b"hello";
/// How often the near end says it.
const HELLO_EVERY: Duration = Duration::from_millis(5);

fn topic(pair: usize, direction: usize) -> String {
    format!("bench.{pair}.{}", TOPICS[direction])
}

/// Plays the end that the words describe.
pub(crate) fn run(words: &[String]) -> Result<(), BenchError> {
    let end = End::parse(words)?;
    net::affinity::pin_to_cpu(end.cpu)?;
    let mut ends: Vec<Ends> = (0..end.pairs).map(|pair| Ends::open(&end, pair)).collect::<Result<_, _>>()?;
    if !end.is_far() {
        ends.iter_mut().try_for_each(Ends::await_other)?;
    }
    answer(&json!({ "ready": true }));
    Ok(play(&end, &mut ends)?)
}

struct Ends {
    context: Context,
    source: Source,
    is_far: bool,
    /// The other end has said hello; what is far answers, so that the near one knows that both ways are open.
    is_heard: bool,
}

impl Ends {
    fn open(end: &End, pair: usize) -> Result<Ends, Failure> {
        let found = super::by_mode(&end.mode);
        let (transport, carrier) = found.ok_or_else(|| format!("{} is no transport", end.mode))?;
        let mut configuration = configuration(end, pair)?;
        configuration.lbtrm.carrier = carrier;
        let mut context = Context::standalone(&configuration)?;
        let own = usize::from(end.is_far());
        let number = end.first_pair + pair;
        context.create_receiver(&topic(number, 1 - own), &ReceiverOptions::default())?;
        let options = SourceOptions { transport: Some(transport), ..SourceOptions::default() };
        let source = context.create_source(&topic(number, own), &options)?;
        Ok(Ends { context, source, is_far: end.is_far(), is_heard: false })
    }

    /// Until messages go both ways.
    fn await_other(&mut self) -> Result<(), Failure> {
        let (deadline, mut next) = (clock::monotonic().after(START_LIMIT), clock::monotonic());
        while !self.is_heard {
            let now = clock::monotonic();
            if now > deadline {
                return Err(format!("the other end was not heard within {START_LIMIT:?}").into());
            }
            if now >= next {
                self.send(HELLO)?;
                next = now.after(HELLO_EVERY);
            }
            self.receive(|_| ())?;
        }
        Ok(())
    }

    #[cold]
    fn on_hello(&mut self) -> Result<(), Failure> {
        self.is_heard = true;
        if self.is_far {
            // There is no room only if another answer waits.
            self.send(HELLO)?;
        }
        Ok(())
    }
}

/// Where nothing else sets the key: nothing holds the sender back but the receiver, as with the peers.
fn standard() -> Vec<String> {
    [
        "lbtrm.data_rate_limit_bits_per_second=0".to_owned(),
        "lbtru.data_rate_limit_bits_per_second=0".to_owned(),
        format!("lbtrm.receiver_socket_buffer_bytes={BUFFER_BYTES}"),
        format!("ipc.behavior={}", IpcBehavior::ReceiverPaced),
    ]
    .to_vec()
}

fn configuration(end: &End, pair: usize) -> Result<MessagingConfig, Failure> {
    // With groups of their own the ends do not hear themselves, nor other pairs.
    let pair = end.first_pair + pair;
    let group = Ipv4Addr::new(239, 77, 4, (2 * pair + usize::from(end.is_far())) as u8);
    // On a network of two hosts datagrams leave the host, but not the network.
    let (interface, ttl) = match (end.path == Path::Veth.to_string(), end.is_far()) {
        (false, _) => (Ipv4Addr::LOCALHOST, 0),
        (true, false) => (NEAR, 1),
        (true, true) => (FAR, 1),
    };
    let settings: Settings = end.settings.parse()?;
    let config = settings.over(&standard())?;
    Ok(MessagingConfig {
        interface: interface.into(),
        interface_b: None,
        source_static_session: Vec::new(),
        wait: Wait::Spin,
        ttl,
        // Nothing else runs beside what is measured.
        counters_directory: String::new(),
        request_tcp_port_low: 20_000,
        request_tcp_port_high: 29_999,
        lbtrm: LbtrmConfig {
            af_xdp_mode: AfXdpMode::Generic,
            multicast_address: group,
            multicast_address_low: None,
            multicast_address_high: None,
            destination_port: end.port,
            source_port_low: 20_000,
            source_port_high: 29_999,
            datagram_max_size_bytes: end.datagram as u32,
            ..config.lbtrm
        },
        resolver: TopicResolutionConfig {
            // Not the port of the data, as it is not by default: the kernel shows each multicast datagram to all sockets of
            // its port.
            multicast_port: end.port ^ 1,
            ..TopicResolutionConfig::default()
        },
        lbtru: LbtruConfig {
            port_low: 20_000,
            port_high: 29_999,
            receiver_port_low: 20_000,
            receiver_port_high: 29_999,
            datagram_max_size_bytes: end.datagram as u32,
            ..config.lbtru
        },
        ..config
    })
}

/// PayloadHandler payloads on.
struct PayloadHandler<F> {
    handle: F,
    count: usize,
    has_hello: bool,
}

impl<F: FnMut(&[u8])> Handler for PayloadHandler<F> {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        if message.payload.len() == HELLO.len() {
            self.has_hello = true;
            return;
        }
        self.count += 1;
        (self.handle)(message.payload);
    }
}

impl Link for Ends {
    /// As many messages of 64 bytes as fill the longest run of datagrams that one call sends: 7 of 8972 bytes, 44
    /// of 1472.
    const BURST: u64 = 742;

    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        match self.context.send(self.source, &[message]) {
            Ok(_) => Ok(true),
            Err(SendError::WouldBlock) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive(&mut self, handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        let mut hands = PayloadHandler { handle, count: 0, has_hello: false };
        self.context.poll(&mut hands)?;
        let (count, has_hello) = (hands.count, hands.has_hello);
        if has_hello {
            self.on_hello()?;
        }
        Ok(count)
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Failure> {
        self.receive(|_| ()).map(drop)
    }

    /// A turn of the context does both.
    #[inline]
    fn turn_beside_receive(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
