//! What options must go together, and which keys a fault of `lbt` is about.

use config::{Complaint, Section as _};
use lbt::config::ConfigError;

use super::{Carrier, MessagingConfig, check_peer_names, statics};

impl MessagingConfig {
    pub(super) fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut complaints = Vec::new();
        complaints.extend(self.check_groups());
        complaints.extend(self.lbtrm.check_group_range());
        complaints.extend(self.check_message_size());
        complaints.extend(self.check_networks());
        complaints.extend(self.tcp.check_certificates(self.request_tcp_tls));
        complaints.extend(check_peer_names("tcp.tls_peer_names", &self.tcp.tls_peer_names));
        complaints.extend(statics::check(&self.source_static_session));
        complaints.extend(self.check_ports());
        for complaint in self.check_protocols() {
            if !complaints.contains(&complaint) {
                complaints.push(complaint);
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What follows from keys that are set beyond the defaults of others that are not, a sentence each.
    #[must_use]
    pub fn derived(&self) -> Vec<String> {
        [self.lbtrm.derived("lbtrm"), self.lbtru.derived("lbtru")].into_iter().flatten().collect()
    }

    fn check_groups(&self) -> impl Iterator<Item = Complaint> {
        let groups = [
            ("lbtrm.multicast_address", self.lbtrm.multicast_address),
            ("resolver.multicast_address", self.resolver.multicast_address),
        ];
        let wrong = groups.into_iter().filter(|(_, address)| !address.is_multicast());
        wrong.map(|(key, _)| Complaint::new([key], "must be a multicast group, 224.0.0.0 to 239.255.255.255"))
    }

    fn check_ports(&self) -> impl Iterator<Item = Complaint> {
        let ranges = [
            ("lbtrm.source_port", self.lbtrm.source_port_low, self.lbtrm.source_port_high),
            ("resolver.unicast_port", self.resolver.unicast_port_low, self.resolver.unicast_port_high),
            ("tcp.port", self.tcp.port_low, self.tcp.port_high),
            ("lbtru.port", self.lbtru.port_low, self.lbtru.port_high),
            ("lbtru.receiver_port", self.lbtru.receiver_port_low, self.lbtru.receiver_port_high),
            ("request_tcp_port", self.request_tcp_port_low, self.request_tcp_port_high),
        ];
        let wrong = ranges.into_iter().filter(|(_, low, high)| low > high);
        wrong.map(|(key, low, high)| {
            Complaint::new([format!("{key}_low"), format!("{key}_high")], format!("{low} is above {high}"))
        })
    }

    fn check_message_size(&self) -> Option<Complaint> {
        let (window, message) = (self.lbtrm.transmission_window_size_bytes, self.maximum_message_size_bytes?);
        if u64::from(message) <= window / 2 {
            return None;
        }
        Some(Complaint::new(
            ["maximum_message_size_bytes", "lbtrm.transmission_window_size_bytes"],
            format!(
                "messages of {message} bytes need a transmission window of at least {} bytes; it has \
                 {window}: raise lbtrm.transmission_window_size_bytes",
                2 * u64::from(message)
            ),
        ))
    }

    fn check_networks(&self) -> Option<Complaint> {
        let is_bypassed = self.interface_b.is_some() && self.lbtrm.carrier == Carrier::AfXdp;
        let keys = ["interface_b", "lbtrm.carrier"];
        is_bypassed.then(|| Complaint::new(keys, "two networks go with the carrier `socket` alone"))
    }

    /// What the protocols refuse of each section.
    fn check_protocols(&self) -> impl Iterator<Item = Complaint> {
        let (source, receiver) = (self.source(), self.receiver());
        let checks = [
            ("lbtrm", source.check()),
            ("lbtrm", receiver.check()),
            ("resolver", self.resolver().check()),
            ("recovery", self.retention().check()),
            ("recovery", self.recovery().check()),
            ("", self.failover().check()),
            ("lbtrm", lbt::config::check_session(&source, &receiver)),
            ("lbtru", lbt::config::check_lbtru_session(&self.lbtru_source(), &self.lbtru_receiver())),
        ];
        checks.into_iter().filter_map(|(section, check)| Some(complaint(section, &check.err()?)))
    }
}

/// What a protocol refuses, told with the keys that are about it.
fn complaint(section: &str, error: &ConfigError) -> Complaint {
    let options = match *error {
        ConfigError::OutOfRange { option, .. } => vec![option],
        ConfigError::Relation { option, other, .. } => vec![option, other],
        _ => Vec::new(),
    };
    let keys = options.into_iter().filter_map(|option| key_of(section, option));
    let of = if section.is_empty() { String::new() } else { format!("{section}: ") };
    Complaint::new(keys, format!("{of}{error} (times in nanoseconds)"))
}

/// The key of an option that the protocol of `section` has: the option's name with the unit behind it, in that section,
/// in `[messaging]` itself, or, for what LBT-RU takes from it, in that of LBT-RM. None if there is no such key.
fn key_of(section: &str, option: &str) -> Option<String> {
    let option = option.strip_prefix("resolver_").unwrap_or(option);
    let name = with_unit(option);
    let places = [format!("{section}.{name}"), name.clone(), format!("lbtrm.{name}")];
    let schema = MessagingConfig::schema();
    places.into_iter().find(|key| schema.at(key).is_some())
}

/// An option's name with the unit behind it.
fn with_unit(option: &str) -> String {
    if let Some(option) = option.strip_suffix("_bps") {
        return format!("{option}_bits_per_second");
    }
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| option.ends_with(end));
    let unit = if is_one_of(&["_interval", "_timeout", "_threshold", "_delay", "_round_trip"]) {
        "_us"
    } else if is_one_of(&["_rate_limit", "_minimum_rate"]) {
        "_bits_per_second"
    } else if is_one_of(&["_size", "_length", "_size_limit"]) {
        "_bytes"
    } else if is_one_of(&["_share_maximum"]) {
        "_percent"
    } else {
        ""
    };
    format!("{option}{unit}")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::{LbtrmConfig, TopicResolutionConfig};
    use super::*;

    #[test]
    fn the_defaults_are_accepted() {
        assert_eq!(MessagingConfig::default().check(), Ok(()));
    }

    #[test]
    fn by_default_topic_resolution_never_falls_silent_and_its_complaints_name_keys() {
        let resolver = MessagingConfig::default().resolver();
        assert!(!resolver.resolver_advertisement_quiescent_interval.is_zero());
        assert!(!resolver.resolver_query_quiescent_interval.is_zero());
        for (option, key) in [
            ("resolver_sustain_query_bps", "resolver.sustain_query_bits_per_second"),
            ("resolver_cache_timeout", "resolver.cache_timeout_us"),
            ("resolver_cache_maximum", "resolver.cache_maximum"),
        ] {
            assert_eq!(key_of("resolver", option).as_deref(), Some(key));
        }
    }

    #[test]
    fn options_of_the_reliable_transports_lead_to_the_keys_of_the_right_section() {
        for (section, option, key) in [
            ("lbtru", "nak_backoff_interval", Some("lbtru.nak_backoff_interval_us")),
            ("lbtrm", "nak_backoff_interval", Some("lbtrm.nak_backoff_interval_us")),
            ("lbtrm", "retransmit_share_maximum", Some("lbtrm.retransmit_share_maximum_percent")),
            ("lbtru", "maximum_message_size", Some("maximum_message_size_bytes")),
            (
                "lbtru",
                "congestion_control_minimum_rate",
                Some("lbtrm.congestion_control_minimum_rate_bits_per_second"),
            ),
            ("lbtru", "3 x sm_maximum_interval", None),
        ] {
            assert_eq!(key_of(section, option).as_deref(), key);
        }
    }

    #[test]
    fn the_ranges_that_are_documented_are_those_of_the_protocol() {
        let ends = [
            ("recovery.retransmit_retention_age_threshold_us", 86_400_000_000),
            ("lbtrm.data_rate_limit_bits_per_second", 1_000_000_000_000),
            ("lbtru.data_rate_limit_bits_per_second", 1_000_000_000_000),
            ("ipc.transmission_window_size_bytes", 1 << 30),
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
            lbtrm: LbtrmConfig {
                ignore_interval_us: 9_000,
                nak_backoff_interval_us: 10_000,
                ..LbtrmConfig::default()
            },
            request_tcp_port_low: 20_000,
            resolver: TopicResolutionConfig {
                multicast_address: Ipv4Addr::LOCALHOST,
                ..TopicResolutionConfig::default()
            },
            ..MessagingConfig::default()
        };
        let text = format!("{:?}", config.check().expect_err("three faults"));
        let keys = ["resolver.multicast_address", "request_tcp_port_low", "lbtrm.nak_backoff_interval_us"];
        for part in keys.into_iter().chain(["lbtrm: ignore_interval"]) {
            assert!(text.contains(part), "{text}");
        }
    }
}
