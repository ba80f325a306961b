use std::net::Ipv4Addr;
use std::time::Duration;

use lbt::config::{ConfigError, ReceiverConfig, ResolverConfig, SourceConfig};

config::section! {
    /// Reliable multicast: interface, groups, batching, loss recovery. Names are the field's, with the unit
    /// behind them.
    pub struct MessagingConfig {
        /// Address of the interface that multicast uses; 127.0.0.1 keeps it on this host.
        interface: Ipv4Addr = Ipv4Addr::LOCALHOST;
        /// How many routers a multicast packet may cross.
        ttl: u8 = 16;
        /// Group of the transport sessions that this process opens.
        transport_lbtrm_multicast_address: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 10);
        /// UDP port of those sessions' data.
        transport_lbtrm_destination_port: u16 = 14400, range 1..=65535;
        /// Lowest UDP port at which a session takes NAKs.
        transport_lbtrm_source_port_low: u16 = 14390, range 1..=65535;
        /// Highest UDP port at which a session takes NAKs.
        transport_lbtrm_source_port_high: u16 = 14399, range 1..=65535;
        /// Group of topic resolution.
        resolver_multicast_address: Ipv4Addr = Ipv4Addr::new(224, 9, 10, 11);
        /// UDP port of topic resolution.
        resolver_multicast_port: u16 = 12965, range 1..=65535;
        /// Lowest TCP port at which other processes reach this one directly.
        request_tcp_port_low: u16 = 14391, range 1..=65535;
        /// Highest TCP port at which other processes reach this one directly.
        request_tcp_port_high: u16 = 14395, range 1..=65535;
        /// Socket buffers of the multicast sockets. As root the kernel's ceiling is passed over.
        transport_lbtrm_receiver_socket_buffer_bytes: u64 = 8_388_608, range 65_536..=1_073_741_824;
        /// Longest UDP payload of a datagram. 1472 is what an Ethernet frame carries whole; on loopback 8192
        /// and more are faster.
        transport_lbtrm_datagram_max_size_bytes: u32 = 1472, range 500..=65507;
        /// New data and retransmissions together, UDP payload; 0 for no limit.
        transport_lbtrm_data_rate_limit_bits_per_second: u64 = 1_000_000_000;
        /// Retransmissions, UDP payload; 0 for none at all: what is lost is then told, not repaired.
        transport_lbtrm_retransmit_rate_limit_bits_per_second: u64 = 200_000_000;
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
        /// A datagram goes out once it has this many bytes, though not full; 65507 leaves it to the sender to
        /// flush.
        implicit_batching_minimum_length_bytes: u32 = 65507, range 1..=65507;
        /// Longest wait of a message in an open datagram; 0 for no timer.
        implicit_batching_interval_us: u64 = 0, range 0..=10_000_000;
    }
    check = MessagingConfig::check;
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
            transport_lbtrm_rate_interval: us(self.transport_lbtrm_rate_interval_us),
            transport_lbtrm_transmission_window_size: window,
            transport_lbtrm_ignore_interval: us(self.transport_lbtrm_ignore_interval_us),
            transport_lbtrm_sm_minimum_interval: us(self.transport_lbtrm_sm_minimum_interval_us),
            transport_lbtrm_sm_maximum_interval: us(self.transport_lbtrm_sm_maximum_interval_us),
            transport_session_maximum_buffer: standard.transport_session_maximum_buffer.min(window / 2),
            maximum_message_size: standard.maximum_message_size.min((window / 2) as u32),
            ..standard
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
            ..ReceiverConfig::default()
        }
    }

    /// What topic resolution goes by.
    #[must_use]
    pub fn resolver(&self) -> ResolverConfig {
        // A process that starts late, or was cut off, must not stay deaf: both sides go on for a day, and a
        // query after that is answered at once and wakes the advertisements again.
        ResolverConfig {
            resolver_advertisement_minimum_sustain_duration: A_DAY,
            resolver_query_minimum_sustain_duration: A_DAY,
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
        for (low_key, low, high_key, high) in [
            (
                "transport_lbtrm_source_port_low",
                self.transport_lbtrm_source_port_low,
                "transport_lbtrm_source_port_high",
                self.transport_lbtrm_source_port_high,
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
            lbt::config::check_session(&source, &receiver),
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

const A_DAY: Duration = Duration::from_secs(86_400);

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
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| option.ends_with(end));
    let unit = if is_one_of(&["_interval", "_timeout"]) {
        "_us"
    } else if is_one_of(&["_rate_limit"]) {
        "_bits_per_second"
    } else if is_one_of(&["_size", "_length"]) {
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
