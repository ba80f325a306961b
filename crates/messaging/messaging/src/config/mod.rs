mod choices;
mod load;
mod presets;
mod recovery;
mod spread;
mod statics;
mod strangers;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::config::{
    ConfigError, DeliveryConfig, LbtruReceiverConfig, LbtruSourceConfig, ReceiverConfig, ResolverConfig,
    SourceConfig,
};

use lbt::ordered::OrderedConfig;

use config::Ipv4Cidr;

use crate::Interface;

pub use choices::{
    AfXdpMode, Carrier, CongestionControl, IpcBehavior, OrderedDelivery, Preset, ReceiverBehavior,
    TopicTransport, Transport, Wait,
};
pub use statics::StaticSource;
pub use strangers::AllowedGroups;
pub(crate) use strangers::admits;

config::section! {
    /// Reliable multicast: interface, groups, batching, loss recovery. Names are the field's, with the unit
    /// behind them.
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
        /// Silence of one of the two networks, while the other brings something of the same session, after
        /// which that network is counted as silent and no NAK goes out on it. Silent sources say something
        /// each `transport_lbtrm_sm_maximum_interval_us`.
        transport_lbtrm_network_silence_timeout_us: u64 = 3_000_000, range 1_000..=600_000_000;
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
        /// Group of the transport sessions that this process opens.
        transport_lbtrm_multicast_address: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 10);
        /// First group of a range over which topics are spread, each with a session of its own; with it goes
        /// `transport_lbtrm_multicast_address_high`, and `transport_lbtrm_multicast_address` does not count.
        transport_lbtrm_multicast_address_low: Option<Ipv4Addr> = None;
        /// Last group of that range.
        transport_lbtrm_multicast_address_high: Option<Ipv4Addr> = None;
        /// UDP port of those sessions' data.
        transport_lbtrm_destination_port: u16 = 14400, range 1..=65535;
        /// By which way the packets of those sessions, and of sessions that are received, reach the network.
        transport_lbtrm_carrier: Carrier = Carrier::Socket;
        /// Queue of the interface that AF_XDP uses.
        transport_lbtrm_af_xdp_queue: u32 = 0, range 0..=1023;
        /// Where in the kernel AF_XDP takes frames.
        transport_lbtrm_af_xdp_mode: AfXdpMode = AfXdpMode::Auto;
        /// Lowest UDP port at which a session takes NAKs.
        transport_lbtrm_source_port_low: u16 = 14390, range 1..=65535;
        /// Highest UDP port at which a session takes NAKs.
        transport_lbtrm_source_port_high: u16 = 14399, range 1..=65535;
        /// Lowest TCP port at which a session of the TCP transport takes receivers.
        transport_tcp_port_low: u16 = 14371, range 1..=65535;
        /// Highest TCP port at which a session of the TCP transport takes receivers.
        transport_tcp_port_high: u16 = 14390, range 1..=65535;
        /// What a slow receiver of a TCP session means for the others.
        transport_tcp_multiple_receiver_behavior: ReceiverBehavior = ReceiverBehavior::Normal;
        /// Bytes that wait for the slowest receiver of a TCP session before sends are refused, or it is
        /// passed over.
        transport_tcp_session_maximum_buffer_bytes: u32 = 1_048_576, range 65_536..=268_435_456;
        /// Longest LBMC message of a TCP session; longer ones travel in fragments.
        transport_tcp_datagram_max_size_bytes: u32 = 65_535, range 500..=65_535;
        /// Receivers that one TCP session takes.
        transport_tcp_maximum_clients: u32 = 1_000, range 1..=60_000;
        /// Those of one address.
        transport_tcp_maximum_clients_per_address: u32 = 250, range 1..=60_000;
        /// Connections to one TCP session whose TLS handshake is under way. Beyond it the oldest of the address
        /// that has most of them is closed.
        transport_tcp_maximum_handshakes: u32 = 64, range 1..=4_096;
        /// A connection to a TCP session whose TLS handshake takes longer is closed. Until then it is no
        /// receiver, and no message waits for it. The same holds for direct connections (`request_tcp_tls`).
        transport_tcp_handshake_timeout_us: u64 = 5_000_000, range 1_000..=600_000_000;
        /// How long a TCP session whose buffer is full waits for a receiver that takes less than 32 KiB. It is
        /// passed over then, and told what it lost, until it takes that much again; 0 for never.
        transport_tcp_receiver_stopped_timeout_us: u64 = 5_000_000, range 0..=3_600_000_000;
        /// Networks from which receivers may connect to TCP sessions; all if there are none.
        transport_tcp_allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// A TCP session's peer that answers nothing for so long is taken to have vanished, and so is a receiver
        /// that takes nothing for so long of what waits for it; whole seconds, two at least, 0 for never.
        transport_tcp_activity_timeout_us: u64 = 60_000_000, range 0..=32_000_000_000;
        /// Certificate (PEM) of sources' TCP sessions, which are then encrypted; the key goes with it.
        transport_tcp_tls_certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate.
        transport_tcp_tls_key_file: Option<String> = None, length 1..=4_096;
        /// Authorities (PEM) of sources whose TCP sessions are encrypted; receivers then take no others.
        transport_tcp_tls_ca_file: Option<String> = None, length 1..=4_096;
        /// Authorities (PEM) of receivers of sources' encrypted TCP sessions, who then have to show a certificate;
        /// without it they are not asked for one.
        transport_tcp_tls_client_ca_file: Option<String> = None, length 1..=4_096;
        /// Certificate (PEM) that this process shows to sources that ask for one; the key goes with it.
        transport_tcp_tls_client_certificate_file: Option<String> = None, length 1..=4_096;
        /// Private key (PEM) of that certificate.
        transport_tcp_tls_client_key_file: Option<String> = None, length 1..=4_096;
        /// Names, DNS names or IP addresses, of which the certificate of every peer has to be for one: of those who
        /// connect, if they are asked for one, and of sources and request ports, in place of the address at which they
        /// are reached. Without names the authority is enough for those who connect.
        transport_tcp_tls_peer_names: Vec<String> = [], length 0..=1_000;
        /// How often the files of keys and certificates are looked at, and read again when they have changed; 0 for
        /// never.
        security_reload_interval_us: u64 = 2_000_000, range 0..=86_400_000_000;
        /// A TCP session to which no connection is made in so long, TLS included, is given up, and tried again
        /// later.
        transport_tcp_connect_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
        /// Networks in which sources may be that this process receives; all if there are none.
        session_allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// Groups that this process may join to receive, with the UDP ports: `NETWORK`, `NETWORK:PORT` or
        /// `NETWORK:PORT-PORT`; all if there are none.
        transport_lbtrm_allowed_groups: Vec<AllowedGroups> = [], length 0..=1_000;
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
        /// Where the files of sessions of shared memory lie: a file system in memory.
        transport_lbtipc_directory: String = "/dev/shm", length 1..=64;
        /// Group whose members may receive sessions of shared memory that this process opens, by name or number; the
        /// process must be a member. Without, only its own user and root may.
        transport_lbtipc_group: Option<String> = None, length 1..=64;
        /// Who waits for whom in sessions of shared memory.
        transport_lbtipc_behavior: IpcBehavior = IpcBehavior::SourcePaced;
        /// Memory of a session of shared memory, rounded up to a power of two. The thread takes all of it when it makes
        /// the first source, and does nothing else meanwhile (about a second for 1 GiB).
        transport_lbtipc_transmission_window_size_bytes: u64 = 16_777_216, range 2_097_152..=1_073_741_824;
        /// Longest LBMC message of a session of shared memory; longer ones travel in fragments.
        transport_lbtipc_datagram_max_size_bytes: u32 = 65_535, range 500..=65_535;
        /// A receiver that a receiver-paced session waits for so long is dropped; 0 for never.
        transport_lbtipc_receiver_stopped_timeout_us: u64 = 10_000_000, range 0..=3_600_000_000;
        /// Lowest UDP port at which a session of reliable unicast takes receivers.
        transport_lbtru_port_low: u16 = 14380, range 1..=65535;
        /// Highest UDP port at which a session of reliable unicast takes receivers.
        transport_lbtru_port_high: u16 = 14389, range 1..=65535;
        /// Lowest UDP port at which reliable unicast is received.
        transport_lbtru_receiver_port_low: u16 = 14360, range 1..=65535;
        /// Highest UDP port at which reliable unicast is received.
        transport_lbtru_receiver_port_high: u16 = 14379, range 1..=65535;
        /// Longest UDP payload of a datagram of reliable unicast.
        transport_lbtru_datagram_max_size_bytes: u32 = 1472, range 500..=65507;
        /// New data and retransmissions of reliable unicast together, all receivers together, UDP payload; 0
        /// for no limit.
        transport_lbtru_data_rate_limit_bits_per_second: u64 = 1_000_000_000, range 0..=1_000_000_000_000;
        /// Retransmissions of reliable unicast, UDP payload; 0 for none at all.
        transport_lbtru_retransmit_rate_limit_bits_per_second: u64 = 200_000_000, range 0..=1_000_000_000_000;
        /// Memory for datagrams of reliable unicast that can still be retransmitted.
        transport_lbtru_transmission_window_size_bytes: u64 = 33_554_432, range 65_536..=2_147_483_648;
        /// Whether the data rate of reliable unicast follows what receivers report; minimum and round trip
        /// are those of `transport_lbtrm_congestion_control`.
        transport_lbtru_congestion_control: CongestionControl = CongestionControl::None;
        /// The same as `transport_lbtrm_authentication_key_file` for reliable unicast.
        transport_lbtru_authentication_key_file: Option<String> = None, length 1..=4_096;
        /// The same as `transport_lbtrm_encryption_key_file` for reliable unicast.
        transport_lbtru_encryption_key_file: Option<String> = None, length 1..=4_096;
        /// Receivers that a session of reliable unicast takes.
        transport_lbtru_maximum_clients: u32 = 256, range 1..=65_536;
        /// Silence of a session of reliable unicast before its first session message, which finds a lost tail.
        transport_lbtru_sm_minimum_interval_us: u64 = 10_000, range 1..=10_000_000;
        /// Longest time between session messages of reliable unicast.
        transport_lbtru_sm_maximum_interval_us: u64 = 1_000_000, range 1..=100_000_000;
        /// Networks from which receivers may connect to sessions of reliable unicast; all if there are none.
        transport_lbtru_allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// A receiver of reliable unicast that gives no sign of life for so long is dropped.
        transport_lbtru_client_activity_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
        /// Silence after which a session of reliable unicast is taken to be over.
        transport_lbtru_activity_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
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
        /// Group of topic resolution.
        resolver_multicast_address: Ipv4Addr = Ipv4Addr::new(224, 9, 10, 11);
        /// UDP port of topic resolution.
        resolver_multicast_port: u16 = 12965, range 1..=65535;
        /// File of the keys with which topic resolution is signed and checked, as those of the transports
        /// (`transport_lbtrm_authentication_key_file`); then only what is signed is believed. All contexts of a network
        /// have it, and its unicast resolvers.
        resolver_authentication_key_file: Option<String> = None, length 1..=4_096;
        /// How far the time at which a datagram of topic resolution was signed may be from now: as far as clocks may
        /// differ, and as long as a datagram can be replayed.
        resolver_authentication_window_us: u64 = 60_000_000, range 1_000_000..=3_600_000_000;
        /// Sources that are known without topic resolution: `TOPIC = SOURCE STRING`, the field's, with the
        /// topic index, and for LBT-RM on two networks `+` and the source's address on network B. Such topics
        /// are not asked for.
        resolver_static_source: Vec<StaticSource> = [], length 0..=1_000;
        /// Where sources of this process are that others know so: the same lines. They are published exactly
        /// there, and not advertised.
        source_static_session: Vec<StaticSource> = [], length 0..=1_000;
        /// Unicast resolvers (`tickcast resolver`), for networks without multicast; with them topic
        /// resolution uses no multicast.
        resolver_unicast_daemon: Vec<SocketAddrV4> = [], length 0..=16;
        /// Lowest UDP port at which a context hears unicast resolvers.
        resolver_unicast_port_low: u16 = 14402, range 1..=65535;
        /// Highest UDP port at which a context hears unicast resolvers.
        resolver_unicast_port_high: u16 = 14406, range 1..=65535;
        /// Time between signs of life to unicast resolvers.
        resolver_unicast_keepalive_interval_us: u64 = 500_000, range 1_000..=60_000_000;
        /// Time between advertisements of a source, after some at its begin and a minute of one a second, for
        /// ever; 0 for none, as the field does it, so that who heard none before must ask.
        resolver_advertisement_quiescent_interval_us: u64 = 10_000_000, range 0..=86_400_000_000;
        /// The same for queries; six times as long for patterns and for topics of which a source is known.
        resolver_query_quiescent_interval_us: u64 = 10_000_000, range 0..=86_400_000_000;
        /// Advertisements that are new, and answers, per second; 0 for no limit.
        resolver_initial_advertisements_per_second: u32 = 25_000;
        /// The same in bits per second; 0 for no limit.
        resolver_initial_advertisement_bits_per_second: u64 = 20_000_000, range 0..=1_000_000_000_000;
        /// Further advertisements, and what others ask everybody to repeat; 0 for no limit.
        resolver_sustain_advertisement_bits_per_second: u64 = 5_000_000, range 0..=1_000_000_000_000;
        /// Queries that are new per second; 0 for no limit.
        resolver_initial_queries_per_second: u32 = 25_000;
        /// The same in bits per second; 0 for no limit.
        resolver_initial_query_bits_per_second: u64 = 10_000_000, range 0..=1_000_000_000_000;
        /// Further queries; 0 for no limit.
        resolver_sustain_query_bits_per_second: u64 = 1_000_000, range 0..=1_000_000_000_000;
        /// Most sources remembered, of all topics heard, some 350 bytes each. Where there is no room, those of
        /// topics that no receiver here wants leave first, and of these what was heard longest ago.
        resolver_cache_maximum: u32 = 1_048_576, range 1..=268_435_456;
        /// Most sources remembered of one topic.
        resolver_cache_topic_maximum: u32 = 1_000, range 1..=1_048_576;
        /// A source that was not heard of for so long is forgotten, and its topic asked for again; 0 for
        /// never. What is received of it goes on.
        resolver_cache_timeout_us: u64 = 600_000_000, range 0..=86_400_000_000;
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
        /// The same as `transport_tcp_activity_timeout` for connections to other processes directly.
        request_tcp_activity_timeout_us: u64 = 60_000_000, range 0..=32_000_000_000;
        /// Whether direct connections, those of requests, answers and late join among them, are encrypted: the
        /// request port shows the certificate of `transport_tcp_tls_certificate_file`, and connections are made to
        /// processes of `transport_tcp_tls_ca_file`. Certificates of clients go by the same keys as those of TCP
        /// sessions.
        request_tcp_tls: bool = false;
        /// A connection opened to answer requests is closed when it was not used for so long.
        response_tcp_deletion_timeout_us: u64 = 20_000_000, range 1_000..=86_400_000_000;
        /// Socket buffers of the multicast sockets. As root the kernel's ceiling is passed over.
        transport_lbtrm_receiver_socket_buffer_bytes: u64 = 8_388_608, range 65_536..=1_073_741_824;
        /// Whether a source of LBT-RM or LBT-RU has the whole memory of its transmission window from its start. If not,
        /// memory is taken as the window fills for the first time, and an idle source has next to none.
        transport_transmission_window_prefault: bool = false;
        /// Longest UDP payload of a datagram. 1472 is what an Ethernet frame carries whole; on loopback 8192
        /// and more are faster.
        transport_lbtrm_datagram_max_size_bytes: u32 = 1472, range 500..=65507;
        /// New data and retransmissions together, UDP payload; 0 for no limit.
        transport_lbtrm_data_rate_limit_bits_per_second: u64 = 1_000_000_000, range 0..=1_000_000_000_000;
        /// Whether the data rate follows what receivers report.
        transport_lbtrm_congestion_control: CongestionControl = CongestionControl::None;
        /// Lowest data rate of congestion control; a receiver that is slower is left to its losses.
        transport_lbtrm_congestion_control_minimum_rate_bits_per_second: u64 = 1_000_000,
            range 10_000..=1_000_000_000_000;
        /// Round trip, queues included, at which congestion control lowers the rate though nothing is lost;
        /// 0 for loss alone. The same for all sources that share a link.
        transport_lbtrm_congestion_control_maximum_round_trip_us: u64 = 30_000, range 0..=10_000_000;
        /// File of the keys with which packets are signed and checked: `NUMBER SECRET` a line, the secret in
        /// hexadecimal digits. The first line's key signs, a second one's is accepted too.
        transport_lbtrm_authentication_key_file: Option<String> = None, length 1..=4_096;
        /// File of the keys with which messages are encrypted and decrypted, as that of the keys that sign. Sources
        /// encrypt with the first line's key, receivers accept both and drop what is not encrypted.
        transport_lbtrm_encryption_key_file: Option<String> = None, length 1..=4_096;
        /// Most of the retransmission rate that one receiver may use while others ask too.
        transport_lbtrm_retransmit_share_maximum_percent: u8 = 50, range 1..=100;
        /// Retransmissions, UDP payload; 0 for none at all: what is lost is then told, not repaired.
        transport_lbtrm_retransmit_rate_limit_bits_per_second: u64 = 200_000_000, range 0..=1_000_000_000_000;
        /// How much of both rates may go out at once.
        transport_lbtrm_rate_interval_us: u64 = 1_000, range 1..=1_000_000;
        /// Memory for datagrams that can still be retransmitted.
        transport_lbtrm_transmission_window_size_bytes: u64 = 33_554_432, range 65_536..=2_147_483_648;
        /// How long after a retransmission NAKs for the same number are ignored; at most half the NAK
        /// back-off.
        transport_lbtrm_ignore_interval_us: u64 = 5_000, range 0..=10_000_000;
        /// Wait before the first NAK for a gap; it is also how much reordering costs no NAK.
        transport_lbtrm_nak_initial_backoff_interval_us: u64 = 1_000, range 1..=10_000_000;
        /// Wait between NAKs for one number.
        transport_lbtrm_nak_backoff_interval_us: u64 = 10_000, range 1..=10_000_000;
        /// A number that has not come so long after it was missed is given up and becomes loss.
        transport_lbtrm_nak_generation_interval_us: u64 = 1_000_000, range 1..=100_000_000;
        /// Whether NAKs are sent at all.
        transport_lbtrm_send_naks: bool = true;
        /// About how many receivers a session has; the NAK back-off is weighted by it so that few of them ask
        /// for the same loss.
        transport_lbtrm_nak_group_size: u16 = 50, range 1..=4096;
        /// Silence before the first session message, which finds a lost tail.
        transport_lbtrm_sm_minimum_interval_us: u64 = 10_000, range 1..=10_000_000;
        /// Longest time between session messages.
        transport_lbtrm_sm_maximum_interval_us: u64 = 1_000_000, range 1..=100_000_000;
        /// Silence after which a session is taken to be over.
        transport_lbtrm_activity_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
        /// In which order a topic's messages are delivered.
        ordered_delivery: OrderedDelivery = OrderedDelivery::Topic;
        /// Loss of so many messages at once is told as a burst.
        delivery_control_maximum_burst_loss: u32 = 1_024, range 2..;
        /// Most messages of a session that wait for missing ones before them, all topics together; beyond it
        /// the oldest missing ones are given up. They take no more memory than the larger of the two
        /// transmission windows, or 32 MiB.
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
        /// Whether sources that do not say otherwise retain what they send, for receivers that join late or
        /// lost more than their transport could repair.
        late_join: bool = false;
        /// Memory of each such source for messages with their headers; the oldest leave first.
        retransmit_retention_size_limit_bytes: u64 = 25_165_824, range 65_536..=68_719_476_736;
        /// Most messages and fragments that each such source retains.
        retransmit_retention_message_maximum: u32 = 65_536, range 1..=268_435_456;
        /// Messages older than this are not retained; 0 for no limit.
        retransmit_retention_age_threshold_us: u64 = 0, range 0..=86_400_000_000;
        /// Retained messages that a context sends again, all receivers together; 0 for no limit.
        retransmit_retention_rate_limit_bits_per_second: u64 = 200_000_000, range 0..=1_000_000_000_000;
        /// Whether receivers ask for what was sent before they joined, where a source retains it.
        use_late_join: bool = true;
        /// Whether receivers ask for what the transport gave up, where a source retains it.
        use_otr: bool = true;
        /// Most messages and fragments of a topic that a late joiner asks for, the newest; 0 for all.
        retransmit_request_maximum: u32 = 0;
        /// Most requests for one session's messages that wait for an answer at once.
        retransmit_request_outstanding_maximum: u32 = 256, range 1..=65_536;
        /// A request that was not answered is sent again after this time, and so is an attempt to connect.
        retransmit_request_interval_us: u64 = 500_000, range 10..=3_600_000_000;
        /// After this time without any answer a topic asks no more, and what it lacks is lost; at least two
        /// request intervals.
        retransmit_request_generation_interval_us: u64 = 10_000_000, range 20..=86_400_000_000;
        /// Live messages of a topic that are held while older ones are asked for.
        retransmit_message_caching_proximity: u32 = 5_000, range 1..=268_435_456;
        /// Wait between a loss that the transport tells and the first request.
        otr_request_initial_delay_us: u64 = 0, range 0..=3_600_000_000;
        /// A datagram goes out once it has this many bytes, though not full; 65507 leaves it to the sender to
        /// flush.
        implicit_batching_minimum_length_bytes: u32 = 65507, range 1..=65507;
        /// Longest wait of a message in an open datagram; 0 for no timer.
        implicit_batching_interval_us: u64 = 0, range 0..=10_000_000;
    }
    check = MessagingConfig::check;
    presets = presets::PRESETS;
}

impl MessagingConfig {
    /// What a sender of a session goes by.
    #[must_use]
    pub fn source(&self) -> SourceConfig {
        let us = Duration::from_micros;
        let window = self.transport_lbtrm_transmission_window_size_bytes;
        let standard = SourceConfig::default();
        SourceConfig {
            transport_lbtrm_datagram_max_size: self.transport_lbtrm_datagram_max_size_bytes,
            implicit_batching_minimum_length: self.implicit_batching_minimum_length_bytes,
            implicit_batching_interval: us(self.implicit_batching_interval_us),
            transport_lbtrm_data_rate_limit: self.transport_lbtrm_data_rate_limit_bits_per_second,
            transport_lbtrm_retransmit_rate_limit: self.transport_lbtrm_retransmit_rate_limit_bits_per_second,
            transport_lbtrm_congestion_control: self
                .congestion_control(self.transport_lbtrm_congestion_control),
            transport_lbtrm_retransmit_share_maximum: self.transport_lbtrm_retransmit_share_maximum_percent,
            transport_lbtrm_rate_interval: us(self.transport_lbtrm_rate_interval_us),
            transport_lbtrm_transmission_window_size: window,
            transport_lbtrm_ignore_interval: us(self.transport_lbtrm_ignore_interval_us),
            transport_lbtrm_sm_minimum_interval: us(self.transport_lbtrm_sm_minimum_interval_us),
            transport_lbtrm_sm_maximum_interval: us(self.transport_lbtrm_sm_maximum_interval_us),
            transport_session_maximum_buffer: standard.transport_session_maximum_buffer.min(window / 2),
            maximum_message_size: self.message_max(standard.maximum_message_size).min((window / 2) as u32),
            ..standard
        }
    }

    fn congestion_control(&self, choice: CongestionControl) -> lbt::config::CongestionControl {
        match choice {
            CongestionControl::None => lbt::config::CongestionControl::None,
            CongestionControl::Adaptive => lbt::config::CongestionControl::Adaptive {
                minimum_rate: self.transport_lbtrm_congestion_control_minimum_rate_bits_per_second,
                maximum_round_trip: Duration::from_micros(
                    self.transport_lbtrm_congestion_control_maximum_round_trip_us,
                ),
            },
        }
    }

    /// What a receiver of a session goes by.
    #[must_use]
    pub fn receiver(&self) -> ReceiverConfig {
        let us = Duration::from_micros;
        let backoff = us(self.transport_lbtrm_nak_backoff_interval_us);
        ReceiverConfig {
            transport_lbtrm_nak_initial_backoff_interval: us(
                self.transport_lbtrm_nak_initial_backoff_interval_us
            ),
            transport_lbtrm_nak_backoff_interval: backoff,
            transport_lbtrm_nak_suppress_interval: backoff * 2,
            transport_lbtrm_nak_generation_interval: us(self.transport_lbtrm_nak_generation_interval_us),
            transport_lbtrm_send_naks: self.transport_lbtrm_send_naks,
            transport_lbtrm_activity_timeout: us(self.transport_lbtrm_activity_timeout_us),
            nak_law: lbt::config::NakLaw::Weighted { group_size: self.transport_lbtrm_nak_group_size },
            delivery: self.delivery(),
            ..ReceiverConfig::default()
        }
    }

    /// What the delivery of topics goes by.
    #[must_use]
    pub fn delivery(&self) -> DeliveryConfig {
        let standard = DeliveryConfig::default();
        let maximum_message_size = self.message_max(standard.maximum_message_size);
        // What is older than a window cannot be retransmitted anyway; a source's is taken to be like ours.
        let window = self
            .transport_lbtrm_transmission_window_size_bytes
            .max(self.transport_lbtru_transmission_window_size_bytes);
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

    /// Lets a connection of a TCP session notice that its peer has vanished.
    pub(crate) fn watch_tcp(&self, stream: &std::net::TcpStream) -> std::io::Result<()> {
        watch(stream, self.transport_tcp_activity_timeout_us)
    }

    /// The same for a connection to another process directly.
    pub(crate) fn watch_direct(&self, stream: &std::net::TcpStream) -> std::io::Result<()> {
        watch(stream, self.request_tcp_activity_timeout_us)
    }

    /// How long a context that is closed goes on.
    #[must_use]
    pub fn linger(&self) -> Duration {
        Duration::from_micros(self.linger_us)
    }

    pub(crate) fn resolver_authentication_window(&self) -> Duration {
        Duration::from_micros(self.resolver_authentication_window_us)
    }

    pub(crate) fn response_deletion_timeout(&self) -> Duration {
        Duration::from_micros(self.response_tcp_deletion_timeout_us)
    }

    fn message_max(&self, standard: u32) -> u32 {
        self.maximum_message_size_bytes.unwrap_or(standard)
    }

    /// What a sender of a session of shared memory goes by.
    #[must_use]
    pub fn ipc_source(&self) -> OrderedConfig {
        OrderedConfig {
            datagram_max_size: self.transport_lbtipc_datagram_max_size_bytes,
            ..self.tcp_source()
        }
    }

    /// What a sender of a session of reliable unicast goes by.
    #[must_use]
    pub fn lbtru_source(&self) -> LbtruSourceConfig {
        let us = Duration::from_micros;
        let window = self.transport_lbtru_transmission_window_size_bytes;
        let standard = LbtruSourceConfig::default();
        LbtruSourceConfig {
            transport_lbtru_datagram_max_size: self.transport_lbtru_datagram_max_size_bytes,
            implicit_batching_minimum_length: self.implicit_batching_minimum_length_bytes,
            implicit_batching_interval: us(self.implicit_batching_interval_us),
            transport_lbtru_congestion_control: self
                .congestion_control(self.transport_lbtru_congestion_control),
            transport_lbtru_data_rate_limit: self.transport_lbtru_data_rate_limit_bits_per_second,
            transport_lbtru_retransmit_rate_limit: self.transport_lbtru_retransmit_rate_limit_bits_per_second,
            transport_lbtru_transmission_window_size: window,
            transport_session_maximum_buffer: standard.transport_session_maximum_buffer.min(window / 2),
            transport_lbtru_sm_minimum_interval: us(self.transport_lbtru_sm_minimum_interval_us),
            transport_lbtru_sm_maximum_interval: us(self.transport_lbtru_sm_maximum_interval_us),
            transport_lbtru_client_activity_timeout: us(self.transport_lbtru_client_activity_timeout_us),
            transport_lbtru_maximum_clients: self.transport_lbtru_maximum_clients,
            maximum_message_size: self.message_max(standard.maximum_message_size).min((window / 2) as u32),
            ..standard
        }
    }

    /// What a receiver of a session of reliable unicast goes by.
    #[must_use]
    pub fn lbtru_receiver(&self) -> LbtruReceiverConfig {
        LbtruReceiverConfig {
            transport_lbtru_activity_timeout: Duration::from_micros(self.transport_lbtru_activity_timeout_us),
            delivery: self.delivery(),
            ..LbtruReceiverConfig::default()
        }
    }

    /// What a sender of a TCP session goes by.
    #[must_use]
    pub fn tcp_source(&self) -> OrderedConfig {
        let standard = OrderedConfig::default();
        OrderedConfig {
            datagram_max_size: self.transport_tcp_datagram_max_size_bytes,
            maximum_message_size: self.message_max(standard.maximum_message_size),
            ..standard
        }
    }

    /// The transport of a topic's source that does not choose one.
    #[must_use]
    pub fn transport_of(&self, topic: &str) -> Transport {
        let rule = self.source_transport.iter().find(|rule| rule.fits(topic));
        rule.map_or(self.transport, |rule| rule.transport)
    }

    /// The multicast group of a topic's source that does not choose one.
    #[must_use]
    pub fn group_of(&self, topic: &str) -> SocketAddrV4 {
        let port = self.transport_lbtrm_destination_port;
        match (self.transport_lbtrm_multicast_address_low, self.transport_lbtrm_multicast_address_high) {
            (Some(low), Some(high)) => spread::spread(topic, low, high, port),
            _ => SocketAddrV4::new(self.transport_lbtrm_multicast_address, port),
        }
    }

    /// What topic resolution goes by.
    #[must_use]
    pub fn resolver(&self) -> ResolverConfig {
        let us = Duration::from_micros;
        ResolverConfig {
            resolver_advertisement_quiescent_interval: us(self.resolver_advertisement_quiescent_interval_us),
            resolver_query_quiescent_interval: us(self.resolver_query_quiescent_interval_us),
            resolver_initial_advertisements_per_second: self.resolver_initial_advertisements_per_second,
            resolver_initial_advertisement_bps: self.resolver_initial_advertisement_bits_per_second,
            resolver_sustain_advertisement_bps: self.resolver_sustain_advertisement_bits_per_second,
            resolver_initial_queries_per_second: self.resolver_initial_queries_per_second,
            resolver_initial_query_bps: self.resolver_initial_query_bits_per_second,
            resolver_sustain_query_bps: self.resolver_sustain_query_bits_per_second,
            resolver_cache_maximum: self.resolver_cache_maximum,
            resolver_cache_topic_maximum: self.resolver_cache_topic_maximum,
            resolver_cache_timeout: us(self.resolver_cache_timeout_us),
            resolver_unicast_daemons: self.resolver_unicast_daemon.clone(),
            resolver_unicast_keepalive_interval: us(self.resolver_unicast_keepalive_interval_us),
            ..ResolverConfig::default()
        }
    }

    fn check(&self) -> Result<(), Vec<config::Complaint>> {
        let mut complaints = Vec::new();
        for (key, address) in [
            ("transport_lbtrm_multicast_address", self.transport_lbtrm_multicast_address),
            ("resolver_multicast_address", self.resolver_multicast_address),
        ] {
            if !address.is_multicast() {
                complaints.push(config::Complaint::new(
                    [key],
                    "must be a multicast group, 224.0.0.0 to 239.255.255.255",
                ));
            }
        }
        complaints.extend(self.check_group_range());
        complaints.extend(self.check_message_size());
        complaints.extend(self.check_networks());
        complaints.extend(self.check_certificates());
        complaints
            .extend(check_peer_names("transport_tcp_tls_peer_names", &self.transport_tcp_tls_peer_names));
        complaints.extend(statics::check(&self.source_static_session));
        for (low_key, low, high_key, high) in [
            (
                "transport_lbtrm_source_port_low",
                self.transport_lbtrm_source_port_low,
                "transport_lbtrm_source_port_high",
                self.transport_lbtrm_source_port_high,
            ),
            (
                "resolver_unicast_port_low",
                self.resolver_unicast_port_low,
                "resolver_unicast_port_high",
                self.resolver_unicast_port_high,
            ),
            (
                "transport_tcp_port_low",
                self.transport_tcp_port_low,
                "transport_tcp_port_high",
                self.transport_tcp_port_high,
            ),
            (
                "transport_lbtru_port_low",
                self.transport_lbtru_port_low,
                "transport_lbtru_port_high",
                self.transport_lbtru_port_high,
            ),
            (
                "transport_lbtru_receiver_port_low",
                self.transport_lbtru_receiver_port_low,
                "transport_lbtru_receiver_port_high",
                self.transport_lbtru_receiver_port_high,
            ),
            (
                "request_tcp_port_low",
                self.request_tcp_port_low,
                "request_tcp_port_high",
                self.request_tcp_port_high,
            ),
        ] {
            if low > high {
                complaints
                    .push(config::Complaint::new([low_key, high_key], format!("{low} is above {high}")));
            }
        }
        let (source, receiver) = (self.source(), self.receiver());
        let checks = [
            source.check(),
            receiver.check(),
            self.resolver().check(),
            self.retention().check(),
            self.recovery().check(),
            self.failover().check(),
            lbt::config::check_session(&source, &receiver),
            lbt::config::check_lbtru_session(&self.lbtru_source(), &self.lbtru_receiver()),
        ];
        for error in checks.into_iter().filter_map(Result::err) {
            let complaint = complaint(&error);
            if !complaints.contains(&complaint) {
                complaints.push(complaint);
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

impl MessagingConfig {
    fn check_group_range(&self) -> Option<config::Complaint> {
        let keys = ["transport_lbtrm_multicast_address_low", "transport_lbtrm_multicast_address_high"];
        let range = (self.transport_lbtrm_multicast_address_low, self.transport_lbtrm_multicast_address_high);
        let fault = match range {
            (None, None) => return None,
            (Some(low), Some(high)) if !low.is_multicast() || !high.is_multicast() => {
                "must be multicast groups, 224.0.0.0 to 239.255.255.255".to_owned()
            }
            (Some(low), Some(high)) if low > high => format!("{low} is above {high}"),
            (Some(low), Some(high)) if high.to_bits() - low.to_bits() >= GROUPS_MAX => {
                format!("{low} to {high} are more than {GROUPS_MAX} groups")
            }
            (Some(_), Some(_)) => return None,
            _ => "go together: set both or neither".to_owned(),
        };
        Some(config::Complaint::new(keys, fault))
    }
}

/// A complaint about the names of peers under a key, if no certificate can be for one of them.
#[must_use]
pub fn check_peer_names(key: &str, names: &[String]) -> Option<config::Complaint> {
    let wrong = names.iter().find(|name| !net::tls::is_peer_name(name))?;
    let text =
        format!("{wrong:?} is no name that a certificate can be for: a DNS name without *, or an IP address");
    Some(config::Complaint::new([key], text))
}

impl MessagingConfig {
    fn check_message_size(&self) -> Option<config::Complaint> {
        let (window, message) =
            (self.transport_lbtrm_transmission_window_size_bytes, self.maximum_message_size_bytes?);
        if u64::from(message) <= window / 2 {
            return None;
        }
        Some(config::Complaint::new(
            ["maximum_message_size_bytes", "transport_lbtrm_transmission_window_size_bytes"],
            format!(
                "messages of {message} bytes need a transmission window of at least {} bytes; it has \
                 {window}: raise transport_lbtrm_transmission_window_size_bytes",
                2 * u64::from(message)
            ),
        ))
    }

    fn check_networks(&self) -> Option<config::Complaint> {
        let keys = ["interface_b", "transport_lbtrm_carrier"];
        let is_bypassed = self.interface_b.is_some() && self.transport_lbtrm_carrier == Carrier::AfXdp;
        is_bypassed.then(|| config::Complaint::new(keys, "two networks go with the carrier `socket` alone"))
    }

    fn check_certificates(&self) -> Vec<config::Complaint> {
        let has = [
            ("transport_tcp_tls_certificate_file", self.transport_tcp_tls_certificate_file.is_some()),
            ("transport_tcp_tls_key_file", self.transport_tcp_tls_key_file.is_some()),
            ("transport_tcp_tls_ca_file", self.transport_tcp_tls_ca_file.is_some()),
            ("transport_tcp_tls_client_ca_file", self.transport_tcp_tls_client_ca_file.is_some()),
            (
                "transport_tcp_tls_client_certificate_file",
                self.transport_tcp_tls_client_certificate_file.is_some(),
            ),
            ("transport_tcp_tls_client_key_file", self.transport_tcp_tls_client_key_file.is_some()),
        ];
        let [certificate, key, ca, client_ca, client_certificate, client_key] = has;
        let complaint = |keys: [&str; 2], text: &str| Some(config::Complaint::new(keys, text));
        let twins = [(certificate, key), (client_certificate, client_key)];
        let alone = twins.into_iter().filter(|(one, other)| one.1 != other.1);
        let alone = alone
            .filter_map(|(one, other)| complaint([one.0, other.0], "a certificate and its key go together"));
        let needs = [
            (client_ca, certificate, "only who shows a certificate can ask for one"),
            (client_certificate, ca, "only to sources of known authorities a certificate is shown"),
        ];
        let missing = needs.into_iter().filter(|(what, needed, _)| what.1 && !needed.1);
        let missing = missing.filter_map(|(what, needed, text)| complaint([what.0, needed.0], text));
        let is_bare = self.request_tcp_tls && !certificate.1 && !ca.1;
        let bare = is_bare.then(|| {
            let keys = ["request_tcp_tls", certificate.0, ca.0];
            config::Complaint::new(
                keys,
                "encrypted direct connections need a certificate, authorities, or both",
            )
        });
        alone.chain(missing).chain(bare).collect()
    }
}

/// Most groups that topics are spread over: each has a transmission window.
const GROUPS_MAX: u32 = 256;

fn watch(stream: &std::net::TcpStream, timeout_us: u64) -> std::io::Result<()> {
    match timeout_us {
        0 => Ok(()),
        us => net::tcp::set_activity_timeout(stream, Duration::from_micros(us)),
    }
}

fn complaint(error: &ConfigError) -> config::Complaint {
    let options = match *error {
        ConfigError::OutOfRange { option, .. } => vec![option],
        ConfigError::Relation { option, other, .. } => vec![option, other],
        _ => Vec::new(),
    };
    let schema = <MessagingConfig as config::Section>::schema();
    let is_key = |name: &String| schema.keys.iter().any(|key| key.name == *name);
    let keys = options.into_iter().map(key_of).filter(is_key);
    config::Complaint::new(keys, format!("{error} (times in nanoseconds)"))
}

/// The key of an option: its name with the unit behind it.
fn key_of(option: &str) -> String {
    if let Some(option) = option.strip_suffix("_bps") {
        return format!("{option}_bits_per_second");
    }
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| option.ends_with(end));
    let unit = if is_one_of(&["_interval", "_timeout", "_threshold", "_delay"]) {
        "_us"
    } else if is_one_of(&["_rate_limit"]) {
        "_bits_per_second"
    } else if is_one_of(&["_size", "_length", "_size_limit"]) {
        "_bytes"
    } else {
        ""
    };
    format!("{option}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_accepted_and_are_those_of_the_protocol() {
        let config = MessagingConfig::default();
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.source(), SourceConfig::default());
        assert_eq!(config.receiver(), ReceiverConfig::default());
    }

    #[test]
    fn by_default_topic_resolution_never_falls_silent_and_its_complaints_name_keys() {
        let resolver = MessagingConfig::default().resolver();
        assert!(!resolver.resolver_advertisement_quiescent_interval.is_zero());
        assert!(!resolver.resolver_query_quiescent_interval.is_zero());
        let schema = <MessagingConfig as config::Section>::schema();
        for option in ["resolver_sustain_query_bps", "resolver_cache_timeout", "resolver_cache_maximum"] {
            let key = key_of(option);
            assert!(schema.keys.iter().any(|k| k.name == key), "{key}");
        }
    }

    #[test]
    fn session_messages_of_reliable_unicast_have_intervals_of_their_own() {
        let text = b"[messaging]\ntransport_lbtru_sm_minimum_interval_us = 7\n\
                     transport_lbtru_sm_maximum_interval_us = 3_000_000\n";
        let config = MessagingConfig::load(Some(("a.toml", text)), [""; 0]).expect("sound");
        let source = config.lbtru_source();
        assert_eq!(source.transport_lbtru_sm_minimum_interval, Duration::from_micros(7));
        assert_eq!(source.transport_lbtru_sm_maximum_interval, Duration::from_secs(3));
        assert_eq!(config.source(), SourceConfig::default(), "LBT-RM has others");
        // Receivers are to hear three of them before they give the session up.
        let slow = ["transport_lbtru_sm_maximum_interval_us=4000000"];
        let text = MessagingConfig::load(None, slow).expect_err("a silence of 10 s").to_string();
        assert!(text.contains("transport_lbtru_sm_maximum_interval"), "{text}");
    }

    #[test]
    fn the_ranges_that_are_documented_are_those_of_the_protocol() {
        let ends = [
            ("retransmit_retention_age_threshold_us", 86_400_000_000),
            ("transport_lbtrm_data_rate_limit_bits_per_second", 1_000_000_000_000),
            ("transport_lbtru_data_rate_limit_bits_per_second", 1_000_000_000_000),
            ("transport_lbtipc_transmission_window_size_bytes", 1 << 30),
        ];
        for (key, max) in ends {
            MessagingConfig::load(None, [format!("{key}={max}")]).expect("the greatest of its range");
            let beyond = MessagingConfig::load(None, [format!("{key}={}", max + 1_u64)]);
            let text = beyond.expect_err("beyond it").to_string();
            assert!(text.contains(key) && text.contains(&max.to_string()), "{text}");
        }
    }

    #[test]
    fn values_that_do_not_go_together_are_refused_with_both() {
        let config = MessagingConfig {
            transport_lbtrm_ignore_interval_us: 9_000,
            request_tcp_port_low: 20_000,
            resolver_multicast_address: Ipv4Addr::LOCALHOST,
            ..MessagingConfig::default()
        };
        let text = format!("{:?}", config.check().expect_err("three faults"));
        for part in ["resolver_multicast_address", "request_tcp_port_low", "ignore_interval"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
