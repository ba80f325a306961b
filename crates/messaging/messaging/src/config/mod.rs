//! The options of a context: `[messaging]` has what is general, its sections the rest, a file each.
//!
//! A file declares its keys and makes of them what `lbt` goes by. LBT-RM and LBT-RU have one declaration of what they
//! share (`reliable.rs`). What must go together is checked in `check.rs`.

mod check;
mod choices;
mod ipc;
mod lbtrm;
mod lbtru;
mod load;
mod presets;
mod recovery;
mod reliable;
mod renamed;
mod resolver;
mod spread;
mod statics;
mod strangers;
mod tcp;

use std::net::Ipv4Addr;
use std::time::Duration;

use config::Ipv4Cidr;
use lbt::config::DeliveryConfig;

use crate::Interface;

pub use choices::{
    AfXdpMode, Carrier, CongestionControl, IpcBehavior, OrderedDelivery, Preset, ReceiverBehavior,
    TopicTransport, Transport, Wait,
};
pub use ipc::IpcConfig;
pub use lbtrm::LbtrmConfig;
pub use lbtru::LbtruConfig;
pub use recovery::MessageRecoveryConfig;
pub use resolver::TopicResolutionConfig;
pub use statics::StaticSource;
pub use strangers::AllowedGroups;
pub(crate) use strangers::admits;
pub use tcp::{TcpConfig, check_peer_names};

config::section! {
    /// The messaging library: interface, transports, batching, direct connections. Names are the field's, with the
    /// unit behind them.
    pub struct MessagingConfig {
        /// Values for one purpose, `latency` or `throughput`, which count where nothing else sets their keys;
        /// `docs/guides/tune.md` lists them.
        preset: Option<Preset> = None;
        /// Interface that everything uses: its address, its name, or a network, which stands for the first
        /// interface in it. 127.0.0.1 keeps all on this host.
        interface: Interface = Interface::Address(Ipv4Addr::LOCALHOST);
        /// Interface of a second network, B, that carries the same multicast as that of `interface`, A:
        /// LBT-RM sessions send everything on both, and of what comes on both the first copy is taken.
        interface_b: Option<Interface> = None;
        /// Transport of sources that do not choose one.
        transport: Transport = Transport::LbtRm;
        /// Transports of some topics: `PREFIX* = TRANSPORT` or `TOPIC = TRANSPORT`, the first that fits.
        source_transport: Vec<TopicTransport> = [], length 0..=1_000;
        /// How long a context that is closed or dropped goes on, at most, to get rid of what it has accepted and to
        /// answer receivers that ask for it again; 0 for one attempt.
        linger_us: u64 = 5_000_000, range 0..=3_600_000_000;
        /// How a thread waits that drives a context with a poller of its own.
        wait: Wait = Wait::Block;
        /// CPU that the thread of a context is kept on, if it has one of its own.
        thread_cpu: Option<u32> = None;
        /// Real-time priority (SCHED_FIFO) of that thread; an ordinary thread if it is not set.
        thread_realtime_priority: Option<u8> = None, range 1..=99;
        /// Bytes that wait between an application's thread and that of a context, for each source.
        source_queue_bytes: u32 = 1_048_576, range 65_536..=1_073_741_824;
        /// Bytes of events that wait for the application's thread to dispatch them.
        event_queue_bytes: u32 = 16_777_216, range 65_536..=1_073_741_824;
        /// How many routers a multicast packet may cross.
        ttl: u8 = 16;
        /// How often the files of keys and certificates are looked at, and read again when they have changed; 0 for
        /// never.
        security_reload_interval_us: u64 = 2_000_000, range 0..=86_400_000_000;
        /// Networks in which sources may be that this process receives; all if there are none.
        session_allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// Sessions that are received at once, all transports together. Beyond it, and the bounds that follow,
        /// advertised sessions wait, and those that have shown no sign of life make room for them.
        session_maximum_count: u32 = 16_384, range 1..=1_000_000;
        /// Groups, one for each network, and connections that sessions may have together: three quarters of the
        /// descriptors that the process may have, if it is not set.
        session_maximum_descriptors: Option<u32> = None, range 1..=1_000_000;
        /// TCP sessions, and sessions of reliable unicast, that have shown no sign of life: each of them costs
        /// whoever was advertised packets.
        session_maximum_unproven: u32 = 256, range 1..=65_536;
        /// Those of one address.
        session_maximum_unproven_per_address: u32 = 32, range 1..=65_536;
        /// How long a session without a sign of life is kept before it makes room for others.
        session_proof_interval_us: u64 = 2_000_000, range 1_000..=600_000_000;
        /// Longest message; 8 MiB, or half the transmission window if that is less, if it is not set. The
        /// transmission window of LBT-RM must be at least twice as long.
        maximum_message_size_bytes: Option<u32> = None, range 65_536..=67_108_864;
        /// Directory, in memory, of the file in which a process shows the counters of its contexts to `tickcast
        /// counters`; none is written if it is empty. Daemons have `admin.counters_directory`.
        counters_directory: String = "/dev/shm", length 0..=4_096;
        /// How often counters are copied into that file; the first context of a process says.
        counters_interval_ms: u32 = 1_000, range 10..=3_600_000;
        /// Most sessions, receivers of them, streams and sources of a context that are shown there by name (`tickcast
        /// counters --sessions`), some 250 bytes each; 0 for none. Those beyond are counted.
        counters_sessions_maximum: u32 = 4_096, range 0..=65_536;
        /// Where sources of this process are that others know so: lines as those of
        /// `resolver.static_source`. They are published exactly there, and not advertised.
        source_static_session: Vec<StaticSource> = [], length 0..=1_000;
        /// Lowest TCP port at which other processes reach this one directly.
        request_tcp_port_low: u16 = 14391, range 1..=65535;
        /// Highest TCP port at which other processes reach this one directly.
        request_tcp_port_high: u16 = 14395, range 1..=65535;
        /// Connections of others to the request port. Beyond it those that have said nothing make room for others,
        /// and others are refused.
        request_tcp_maximum_connections: u32 = 1_000, range 1..=60_000;
        /// Those of one address.
        request_tcp_maximum_connections_per_address: u32 = 250, range 1..=60_000;
        /// Networks from which others may connect to the request port; all if there are none.
        request_tcp_allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// A connection to the request port that brings no whole message for so long, and to which nothing is
        /// sent, is closed; 0 for never.
        request_tcp_first_message_timeout_us: u64 = 10_000_000, range 0..=3_600_000_000;
        /// A message on a direct connection of which less than 32 KiB come in so long is given up, and the
        /// connection closed; 0 for never.
        request_tcp_message_timeout_us: u64 = 30_000_000, range 0..=3_600_000_000;
        /// A connection to the request port that is not used for so long is closed; 0 for never.
        request_tcp_idle_timeout_us: u64 = 3_600_000_000, range 0..=86_400_000_000;
        /// Longest direct message that is taken.
        request_tcp_maximum_message_size_bytes: u32 = 16_777_216, range 65_536..=67_108_864;
        /// What all direct connections together hold of messages that are not whole. Beyond it the connection
        /// that holds most is closed.
        request_tcp_receive_buffer_maximum_bytes: u64 = 134_217_728, range 1_048_576..=68_719_476_736;
        /// A direct connection for whose peer more than this waits is closed.
        request_tcp_send_buffer_maximum_bytes: u64 = 268_435_456, range 65_536..=68_719_476_736;
        /// What waits for the peers of all direct connections together. Beyond it the connection for which most
        /// waits is closed.
        request_tcp_send_buffer_total_maximum_bytes: u64 = 1_073_741_824, range 65_536..=68_719_476_736;
        /// The same as `tcp.activity_timeout_us` for connections to other processes directly.
        request_tcp_activity_timeout_us: u64 = 60_000_000, range 0..=32_000_000_000;
        /// A direct connection is broken when its peer acknowledges nothing of what was sent to it for so long; 0 for
        /// `request_tcp_activity_timeout_us`.
        request_tcp_unacknowledged_timeout_us: u64 = 0, range 0..=600_000_000;
        /// Whether direct connections, those of requests, answers and late join among them, are encrypted: the
        /// request port shows the certificate of `tcp.tls_certificate_file`, and connections are made to
        /// processes of `tcp.tls_ca_file`. Certificates of clients go by the same keys as those of TCP
        /// sessions.
        request_tcp_tls: bool = false;
        /// A connection opened to answer requests is closed when it was not used for so long.
        response_tcp_deletion_timeout_us: u64 = 20_000_000, range 1_000..=86_400_000_000;
        /// Whether a source of LBT-RM or LBT-RU has the whole memory of its transmission window from its start. If not,
        /// memory is taken as the window fills for the first time, and an idle source has next to none.
        transport_transmission_window_prefault: bool = false;
        /// In which order a topic's messages are delivered.
        ordered_delivery: OrderedDelivery = OrderedDelivery::Topic;
        /// Loss of so many messages at once is told as a burst.
        delivery_control_maximum_burst_loss: u32 = 1_024, range 2..;
        /// Most messages of a session that wait for missing ones before them, all topics together; beyond it
        /// the oldest missing ones are given up. They take no more memory than the larger of the
        /// transmission windows of LBT-RM and LBT-RU, or 32 MiB.
        delivery_control_maximum_total_map_entries: u32 = 200_000, range 8_192..=67_108_864;
        /// How long a receiver with hot failover waits for a number that one source has passed over and
        /// another may still send.
        hot_failover_gap_interval_us: u64 = 1_000_000, range 0..=100_000_000;
        /// Most messages of a topic that such a receiver holds behind such a number; beyond it the oldest gap
        /// is given up.
        hot_failover_hold_maximum_count: u32 = 16_384, range 1..=16_777_216;
        /// Most bytes of them.
        hot_failover_hold_maximum_bytes: u64 = 16_777_216, range 0..=68_719_476_736;
        /// Most sources of a topic that such a receiver hears at once.
        hot_failover_maximum_sources: u32 = 8, range 1..=64;
        /// A datagram goes out once it has this many bytes, though not full; 65507 leaves it to the sender to
        /// flush.
        implicit_batching_minimum_length_bytes: u32 = 65507, range 1..=65507;
        /// Longest wait of a message in an open datagram; 0 for no timer.
        implicit_batching_interval_us: u64 = 0, range 0..=10_000_000;
        /// LBT-RM: reliable multicast.
        lbtrm: LbtrmConfig;
        /// LBT-RU: reliable unicast.
        lbtru: LbtruConfig;
        /// TCP: receivers connect to the source. Certificates are those of direct connections too.
        tcp: TcpConfig;
        /// LBT-IPC: shared memory of one host.
        ipc: IpcConfig;
        /// Topic resolution: how sources and receivers find each other.
        resolver: TopicResolutionConfig;
        /// Messages beyond the transport: late join, and off-transport recovery (OTR) of what a transport gave up.
        recovery: MessageRecoveryConfig;
    }
    check = MessagingConfig::check;
    presets = presets::PRESETS;
    renamed = renamed::RENAMED;
}

impl MessagingConfig {
    /// What the delivery of topics goes by.
    #[must_use]
    pub fn delivery(&self) -> DeliveryConfig {
        let standard = DeliveryConfig::default();
        let maximum_message_size = self.message_max(standard.maximum_message_size);
        // What is older than a window cannot be retransmitted anyway; a source's is taken to be like ours.
        let window = self.lbtrm.transmission_window_size_bytes.max(self.lbtru.transmission_window_size_bytes);
        DeliveryConfig {
            ordered_delivery: self.ordered_delivery.order(),
            maximum_message_size,
            delivery_control_maximum_total_map_entries: self.delivery_control_maximum_total_map_entries,
            // A message whose first fragment is late waits as a whole, and is then put together.
            hold_maximum_bytes: standard
                .hold_maximum_bytes
                .max(u32::try_from(window).unwrap_or(u32::MAX))
                .max(2 * maximum_message_size),
            reassembly_maximum_bytes: standard
                .reassembly_maximum_bytes
                .max(2 * u64::from(maximum_message_size)),
            ..standard
        }
    }

    /// Lets a connection to another process directly notice that its peer has vanished.
    pub(crate) fn watch_direct(&self, stream: &std::net::TcpStream) -> std::io::Result<()> {
        watch(stream, self.request_tcp_activity_timeout_us)?;
        match self.request_tcp_unacknowledged_timeout_us {
            0 => Ok(()),
            us => net::tcp::set_unacknowledged_timeout(stream, Duration::from_micros(us)),
        }
    }

    /// How long a context that is closed goes on.
    #[must_use]
    pub fn linger(&self) -> Duration {
        Duration::from_micros(self.linger_us)
    }

    pub(crate) fn response_deletion_timeout(&self) -> Duration {
        Duration::from_micros(self.response_tcp_deletion_timeout_us)
    }

    fn message_max(&self, standard: u32) -> u32 {
        self.maximum_message_size_bytes.unwrap_or(standard)
    }

    /// The transport of a topic's source that does not choose one.
    #[must_use]
    pub fn transport_of(&self, topic: &str) -> Transport {
        let rule = self.source_transport.iter().find(|rule| rule.fits(topic));
        rule.map_or(self.transport, |rule| rule.transport)
    }
}

fn watch(stream: &std::net::TcpStream, timeout_us: u64) -> std::io::Result<()> {
    match timeout_us {
        0 => Ok(()),
        us => net::tcp::set_activity_timeout(stream, Duration::from_micros(us)),
    }
}
