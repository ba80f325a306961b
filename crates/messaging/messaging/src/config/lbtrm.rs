//! `[messaging.lbtrm]`: reliable multicast.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::config::{NakLaw, ReceiverConfig, SourceConfig};

use super::reliable::reliable_section;
use super::{AfXdpMode, AllowedGroups, Carrier, CongestionControl, spread};
use crate::MessagingConfig;

reliable_section! {
    nak_initial_backoff_interval_us = 1_000;
    /// LBT-RM: reliable multicast.
    pub struct LbtrmConfig {
        /// Silence of one of the two networks, while the other brings something of the same session, after
        /// which that network is counted as silent and no NAK goes out on it. Silent sources say something
        /// each `sm_maximum_interval_us`.
        network_silence_timeout_us: u64 = 3_000_000, range 1_000..=600_000_000;
        /// Group of the transport sessions that this process opens.
        multicast_address: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 10);
        /// First group of a range over which topics are spread, each with a session of its own; with it goes
        /// `multicast_address_high`, and `multicast_address` does not count.
        multicast_address_low: Option<Ipv4Addr> = None;
        /// Last group of that range.
        multicast_address_high: Option<Ipv4Addr> = None;
        /// UDP port of those sessions' data.
        destination_port: u16 = 14400, range 1..=65535;
        /// By which way the packets of those sessions, and of sessions that are received, reach the network.
        carrier: Carrier = Carrier::Socket;
        /// Queue of the interface that AF_XDP uses.
        af_xdp_queue: u32 = 0, range 0..=1023;
        /// Where in the kernel AF_XDP takes frames.
        af_xdp_mode: AfXdpMode = AfXdpMode::Auto;
        /// Lowest UDP port at which a session takes NAKs.
        source_port_low: u16 = 14390, range 1..=65535;
        /// Highest UDP port at which a session takes NAKs.
        source_port_high: u16 = 14399, range 1..=65535;
        /// Groups that this process may join to receive, with the UDP ports: `NETWORK`, `NETWORK:PORT` or
        /// `NETWORK:PORT-PORT`; all if there are none.
        allowed_groups: Vec<AllowedGroups> = [], length 0..=1_000;
        /// Socket buffers of the multicast sockets. As root the kernel's ceiling is passed over.
        receiver_socket_buffer_bytes: u64 = 8_388_608, range 65_536..=1_073_741_824;
        /// Lowest data rate of congestion control; a receiver that is slower is left to its losses.
        congestion_control_minimum_rate_bits_per_second: u64 = 1_000_000,
            range 10_000..=1_000_000_000_000;
        /// Round trip, queues included, at which congestion control lowers the rate though nothing is lost;
        /// 0 for loss alone. The same for all sources that share a link.
        congestion_control_maximum_round_trip_us: u64 = 30_000, range 0..=10_000_000;
        /// Most of the retransmission rate that one receiver may use while others ask too.
        retransmit_share_maximum_percent: u8 = 50, range 1..=100;
        /// About how many receivers a session has; the NAK back-off is weighted by it so that few of them ask
        /// for the same loss.
        nak_group_size: u16 = 50, range 1..=4096;
    }
}

impl LbtrmConfig {
    /// What congestion control of a transport goes by.
    pub(super) fn congestion_control_by(&self, choice: CongestionControl) -> lbt::config::CongestionControl {
        match choice {
            CongestionControl::None => lbt::config::CongestionControl::None,
            CongestionControl::Adaptive => lbt::config::CongestionControl::Adaptive {
                minimum_rate: self.congestion_control_minimum_rate_bits_per_second,
                maximum_round_trip: Duration::from_micros(self.congestion_control_maximum_round_trip_us),
            },
        }
    }

    /// A complaint about the range of groups; its keys are the section's.
    pub(super) fn check_group_range(&self) -> Option<config::Complaint> {
        let keys = ["lbtrm.multicast_address_low", "lbtrm.multicast_address_high"];
        let fault = match (self.multicast_address_low, self.multicast_address_high) {
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

/// Most groups that topics are spread over: each has a transmission window.
const GROUPS_MAX: u32 = 256;

impl MessagingConfig {
    /// What a source of an LBT-RM session goes by.
    #[must_use]
    pub fn source(&self) -> SourceConfig {
        SourceConfig {
            retransmit_share_maximum: self.lbtrm.retransmit_share_maximum_percent,
            ..self.lbtrm.session_source(self)
        }
    }

    /// What a receiver of an LBT-RM session goes by.
    #[must_use]
    pub fn receiver(&self) -> ReceiverConfig {
        let nak_law = NakLaw::Weighted { group_size: self.lbtrm.nak_group_size };
        self.lbtrm.session_receiver(self, nak_law)
    }

    /// The multicast group of a topic's source that does not choose one.
    #[must_use]
    pub fn group_of(&self, topic: &str) -> SocketAddrV4 {
        let port = self.lbtrm.destination_port;
        match (self.lbtrm.multicast_address_low, self.lbtrm.multicast_address_high) {
            (Some(low), Some(high)) => spread::spread(topic, low, high, port),
            _ => SocketAddrV4::new(self.lbtrm.multicast_address, port),
        }
    }
}
