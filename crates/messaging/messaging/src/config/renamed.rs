//! Keys that stood in `[messaging]` itself and have moved to its sections: the former names are refused with the new.

/// Former and present names, from `[messaging]` on.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("transport_lbtrm_network_silence_timeout_us", "lbtrm.network_silence_timeout_us"),
    ("transport_lbtrm_multicast_address", "lbtrm.multicast_address"),
    ("transport_lbtrm_multicast_address_low", "lbtrm.multicast_address_low"),
    ("transport_lbtrm_multicast_address_high", "lbtrm.multicast_address_high"),
    ("transport_lbtrm_destination_port", "lbtrm.destination_port"),
    ("transport_lbtrm_carrier", "lbtrm.carrier"),
    ("transport_lbtrm_af_xdp_queue", "lbtrm.af_xdp_queue"),
    ("transport_lbtrm_af_xdp_mode", "lbtrm.af_xdp_mode"),
    ("transport_lbtrm_source_port_low", "lbtrm.source_port_low"),
    ("transport_lbtrm_source_port_high", "lbtrm.source_port_high"),
    ("transport_tcp_port_low", "tcp.port_low"),
    ("transport_tcp_port_high", "tcp.port_high"),
    ("transport_tcp_multiple_receiver_behavior", "tcp.multiple_receiver_behavior"),
    ("transport_tcp_session_maximum_buffer_bytes", "tcp.session_maximum_buffer_bytes"),
    ("transport_tcp_datagram_max_size_bytes", "tcp.datagram_max_size_bytes"),
    ("transport_tcp_maximum_clients", "tcp.maximum_clients"),
    ("transport_tcp_maximum_clients_per_address", "tcp.maximum_clients_per_address"),
    ("transport_tcp_maximum_handshakes", "tcp.maximum_handshakes"),
    ("transport_tcp_handshake_timeout_us", "tcp.handshake_timeout_us"),
    ("transport_tcp_receiver_stopped_timeout_us", "tcp.receiver_stopped_timeout_us"),
    ("transport_tcp_allowed_networks", "tcp.allowed_networks"),
    ("transport_tcp_activity_timeout_us", "tcp.activity_timeout_us"),
    ("transport_tcp_tls_certificate_file", "tcp.tls_certificate_file"),
    ("transport_tcp_tls_key_file", "tcp.tls_key_file"),
    ("transport_tcp_tls_ca_file", "tcp.tls_ca_file"),
    ("transport_tcp_tls_client_ca_file", "tcp.tls_client_ca_file"),
    ("transport_tcp_tls_client_certificate_file", "tcp.tls_client_certificate_file"),
    ("transport_tcp_tls_client_key_file", "tcp.tls_client_key_file"),
    ("transport_tcp_tls_peer_names", "tcp.tls_peer_names"),
    ("transport_tcp_connect_timeout_us", "tcp.connect_timeout_us"),
    ("transport_lbtrm_allowed_groups", "lbtrm.allowed_groups"),
    ("transport_lbtipc_directory", "ipc.directory"),
    ("transport_lbtipc_group", "ipc.group"),
    ("transport_lbtipc_behavior", "ipc.behavior"),
    ("transport_lbtipc_transmission_window_size_bytes", "ipc.transmission_window_size_bytes"),
    ("transport_lbtipc_datagram_max_size_bytes", "ipc.datagram_max_size_bytes"),
    ("transport_lbtipc_receiver_stopped_timeout_us", "ipc.receiver_stopped_timeout_us"),
    ("transport_lbtru_port_low", "lbtru.port_low"),
    ("transport_lbtru_port_high", "lbtru.port_high"),
    ("transport_lbtru_receiver_port_low", "lbtru.receiver_port_low"),
    ("transport_lbtru_receiver_port_high", "lbtru.receiver_port_high"),
    ("transport_lbtru_datagram_max_size_bytes", "lbtru.datagram_max_size_bytes"),
    ("transport_lbtru_data_rate_limit_bits_per_second", "lbtru.data_rate_limit_bits_per_second"),
    ("transport_lbtru_retransmit_rate_limit_bits_per_second", "lbtru.retransmit_rate_limit_bits_per_second"),
    ("transport_lbtru_transmission_window_size_bytes", "lbtru.transmission_window_size_bytes"),
    ("transport_lbtru_congestion_control", "lbtru.congestion_control"),
    ("transport_lbtru_authentication_key_file", "lbtru.authentication_key_file"),
    ("transport_lbtru_encryption_key_file", "lbtru.encryption_key_file"),
    ("transport_lbtru_maximum_clients", "lbtru.maximum_clients"),
    ("transport_lbtru_sm_minimum_interval_us", "lbtru.sm_minimum_interval_us"),
    ("transport_lbtru_sm_maximum_interval_us", "lbtru.sm_maximum_interval_us"),
    ("transport_lbtru_allowed_networks", "lbtru.allowed_networks"),
    ("transport_lbtru_client_activity_timeout_us", "lbtru.client_activity_timeout_us"),
    ("transport_lbtru_activity_timeout_us", "lbtru.activity_timeout_us"),
    ("resolver_multicast_address", "resolver.multicast_address"),
    ("resolver_multicast_port", "resolver.multicast_port"),
    ("resolver_authentication_key_file", "resolver.authentication_key_file"),
    ("resolver_authentication_window_us", "resolver.authentication_window_us"),
    ("resolver_static_source", "resolver.static_source"),
    ("resolver_unicast_daemon", "resolver.unicast_daemon"),
    ("resolver_unicast_port_low", "resolver.unicast_port_low"),
    ("resolver_unicast_port_high", "resolver.unicast_port_high"),
    ("resolver_unicast_keepalive_interval_us", "resolver.unicast_keepalive_interval_us"),
    ("resolver_advertisement_quiescent_interval_us", "resolver.advertisement_quiescent_interval_us"),
    ("resolver_query_quiescent_interval_us", "resolver.query_quiescent_interval_us"),
    ("resolver_initial_advertisements_per_second", "resolver.initial_advertisements_per_second"),
    ("resolver_initial_advertisement_bits_per_second", "resolver.initial_advertisement_bits_per_second"),
    ("resolver_sustain_advertisement_bits_per_second", "resolver.sustain_advertisement_bits_per_second"),
    ("resolver_initial_queries_per_second", "resolver.initial_queries_per_second"),
    ("resolver_initial_query_bits_per_second", "resolver.initial_query_bits_per_second"),
    ("resolver_sustain_query_bits_per_second", "resolver.sustain_query_bits_per_second"),
    ("resolver_cache_maximum", "resolver.cache_maximum"),
    ("resolver_cache_topic_maximum", "resolver.cache_topic_maximum"),
    ("resolver_cache_timeout_us", "resolver.cache_timeout_us"),
    ("transport_lbtrm_receiver_socket_buffer_bytes", "lbtrm.receiver_socket_buffer_bytes"),
    ("transport_lbtrm_datagram_max_size_bytes", "lbtrm.datagram_max_size_bytes"),
    ("transport_lbtrm_data_rate_limit_bits_per_second", "lbtrm.data_rate_limit_bits_per_second"),
    ("transport_lbtrm_congestion_control", "lbtrm.congestion_control"),
    (
        "transport_lbtrm_congestion_control_minimum_rate_bits_per_second",
        "lbtrm.congestion_control_minimum_rate_bits_per_second",
    ),
    (
        "transport_lbtrm_congestion_control_maximum_round_trip_us",
        "lbtrm.congestion_control_maximum_round_trip_us",
    ),
    ("transport_lbtrm_authentication_key_file", "lbtrm.authentication_key_file"),
    ("transport_lbtrm_encryption_key_file", "lbtrm.encryption_key_file"),
    ("transport_lbtrm_retransmit_share_maximum_percent", "lbtrm.retransmit_share_maximum_percent"),
    ("transport_lbtrm_retransmit_rate_limit_bits_per_second", "lbtrm.retransmit_rate_limit_bits_per_second"),
    ("transport_lbtrm_rate_interval_us", "lbtrm.rate_interval_us"),
    ("transport_lbtrm_transmission_window_size_bytes", "lbtrm.transmission_window_size_bytes"),
    ("transport_lbtrm_ignore_interval_us", "lbtrm.ignore_interval_us"),
    ("transport_lbtrm_nak_initial_backoff_interval_us", "lbtrm.nak_initial_backoff_interval_us"),
    ("transport_lbtrm_nak_backoff_interval_us", "lbtrm.nak_backoff_interval_us"),
    ("transport_lbtrm_nak_generation_interval_us", "lbtrm.nak_generation_interval_us"),
    ("transport_lbtrm_send_naks", "lbtrm.send_naks"),
    ("transport_lbtrm_nak_group_size", "lbtrm.nak_group_size"),
    ("transport_lbtrm_sm_minimum_interval_us", "lbtrm.sm_minimum_interval_us"),
    ("transport_lbtrm_sm_maximum_interval_us", "lbtrm.sm_maximum_interval_us"),
    ("transport_lbtrm_activity_timeout_us", "lbtrm.activity_timeout_us"),
    ("late_join", "recovery.late_join"),
    ("retransmit_retention_size_limit_bytes", "recovery.retransmit_retention_size_limit_bytes"),
    ("retransmit_retention_message_maximum", "recovery.retransmit_retention_message_maximum"),
    ("retransmit_retention_age_threshold_us", "recovery.retransmit_retention_age_threshold_us"),
    (
        "retransmit_retention_rate_limit_bits_per_second",
        "recovery.retransmit_retention_rate_limit_bits_per_second",
    ),
    ("use_late_join", "recovery.use_late_join"),
    ("use_otr", "recovery.use_otr"),
    ("retransmit_request_maximum", "recovery.retransmit_request_maximum"),
    ("retransmit_request_outstanding_maximum", "recovery.retransmit_request_outstanding_maximum"),
    ("retransmit_request_interval_us", "recovery.retransmit_request_interval_us"),
    ("retransmit_request_generation_interval_us", "recovery.retransmit_request_generation_interval_us"),
    ("retransmit_message_caching_proximity", "recovery.retransmit_message_caching_proximity"),
    ("otr_request_initial_delay_us", "recovery.otr_request_initial_delay_us"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use config::{FaultKind, Loader, Section as _, Value};

    use super::super::load::ApplicationConfig;
    use super::*;
    use crate::MessagingConfig;

    /// The prefixes of former names, by section.
    const PREFIXES: &[(&str, &str)] = &[
        ("lbtrm", "transport_lbtrm_"),
        ("lbtru", "transport_lbtru_"),
        ("tcp", "transport_tcp_"),
        ("ipc", "transport_lbtipc_"),
        ("resolver", "resolver_"),
        ("recovery", ""),
    ];

    #[test]
    fn each_former_name_is_none_any_more_and_leads_to_a_key_of_the_same_meaning() {
        let schema = MessagingConfig::schema();
        let mut former = BTreeSet::new();
        for (old, new) in RENAMED {
            assert!(schema.key(old).is_none() && former.insert(*old), "{old}");
            assert!(schema.at(new).is_some_and(|key| !key.doc.is_empty()), "{new}");
            let (section, name) = new.split_once('.').expect("in a section");
            let prefix = PREFIXES.iter().find(|(of, _)| *of == section).expect("a section").1;
            assert_eq!(*old, format!("{prefix}{name}"));
        }
        assert_eq!(former.len(), 108, "what stood in [messaging] when it was divided");
    }

    /// Every way in which a key is given.
    #[test]
    fn each_former_name_is_refused_with_the_present_one_however_it_is_given() {
        for (old, new) in RENAMED {
            let said = format!("`{old}` is now `{new}` in [messaging]");
            let file = format!("[messaging]\n{old} = 1\n");
            let faults = Loader::new::<ApplicationConfig>().file("a.toml", file).load().expect_err(old);
            assert_eq!(faults.as_slice()[0].kind(), FaultKind::Renamed);
            assert!(faults.to_string().contains(&said), "{faults}");
            let faults = Loader::new::<ApplicationConfig>().set(format!("messaging.{old}=1")).load();
            assert!(faults.expect_err(old).to_string().contains(&said), "--set {old}");
            let faults = MessagingConfig::load(None, [format!("{old}=1")]).expect_err(old).to_string();
            assert!(faults.contains(&said), "{faults}");
        }
    }

    #[test]
    fn each_former_variable_is_refused_with_the_present_one_unless_it_is_the_same() {
        for (old, new) in RENAMED {
            let variable = |key: &str| format!("TICKCAST_MESSAGING_{}", key.replace('.', "_").to_uppercase());
            let key = MessagingConfig::schema();
            let default = &key.at(new).expect("a key").default;
            let value = match default {
                Value::Unset => String::new(),
                default => default.to_string(),
            };
            let loaded = Loader::new::<ApplicationConfig>().environment([(variable(old), value)]).load();
            if variable(old) == variable(new) {
                assert_eq!(loaded.expect(old).value, ApplicationConfig::default());
                continue;
            }
            let said =
                format!("`messaging.{old}` is now `messaging.{new}`; its variable is {}", variable(new));
            let faults = loaded.expect_err(old).to_string();
            assert!(faults.contains(&said), "{faults}");
        }
    }
}
