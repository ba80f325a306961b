//! What the presets set. The settings are those that users of LBM tuned for the same purposes.

use config::{Loader, PresetValues};

use super::load::ApplicationConfig;
use super::{MessagingConfig, Preset};

/// The presets of the section.
pub(super) const PRESETS: &[PresetValues] = &[
    PresetValues { name: Preset::Latency.name(), values: LATENCY },
    PresetValues { name: Preset::Throughput.name(), values: THROUGHPUT },
];

const LATENCY: &[(&str, &str)] = &[
    ("wait", "spin"),
    // What an Ethernet frame carries whole: IP fragments are slow, and not for kernel bypass.
    ("lbtrm.datagram_max_size_bytes", "1472"),
    ("lbtru.datagram_max_size_bytes", "1472"),
    // Each message is a datagram, which does not wait for another.
    ("implicit_batching_minimum_length_bytes", "1"),
    ("implicit_batching_interval_us", "0"),
    ("lbtrm.data_rate_limit_bits_per_second", "0"),
    ("lbtru.data_rate_limit_bits_per_second", "0"),
    ("lbtrm.receiver_socket_buffer_bytes", "8388608"),
    ("transport_transmission_window_prefault", "true"),
    // Repair in half the usual time: for networks with few receivers and little reordering.
    ("lbtrm.nak_initial_backoff_interval_us", "500"),
    ("lbtrm.nak_backoff_interval_us", "5000"),
    ("lbtrm.ignore_interval_us", "2500"),
    ("lbtrm.sm_minimum_interval_us", "5000"),
    ("lbtru.sm_minimum_interval_us", "5000"),
];

const THROUGHPUT: &[(&str, &str)] = &[
    ("wait", "backoff"),
    // An MTU of 9000, less the headers of IP and UDP.
    ("lbtrm.datagram_max_size_bytes", "8972"),
    ("lbtru.datagram_max_size_bytes", "8972"),
    ("implicit_batching_minimum_length_bytes", "8192"),
    ("implicit_batching_interval_us", "1000"),
    // Four fifths of a link of ten gigabits, where a burst finds room; a fifth of it for repair.
    ("lbtrm.data_rate_limit_bits_per_second", "8000000000"),
    ("lbtru.data_rate_limit_bits_per_second", "8000000000"),
    ("lbtrm.retransmit_rate_limit_bits_per_second", "1600000000"),
    ("lbtru.retransmit_rate_limit_bits_per_second", "1600000000"),
    // Some 60 ms of that rate: several rounds of NAKs.
    ("lbtrm.transmission_window_size_bytes", "67108864"),
    ("lbtru.transmission_window_size_bytes", "67108864"),
    ("ipc.transmission_window_size_bytes", "67108864"),
    // What the window holds of short messages: none is given up as long as it can be retransmitted.
    ("delivery_control_maximum_total_map_entries", "2000000"),
    ("lbtrm.receiver_socket_buffer_bytes", "33554432"),
    ("tcp.session_maximum_buffer_bytes", "8388608"),
    ("source_queue_bytes", "16777216"),
    ("event_queue_bytes", "67108864"),
];

impl MessagingConfig {
    /// The defaults with the values of a preset over them: what a file with nothing but `preset` gives.
    ///
    /// ```
    /// use tickcast_messaging::{MessagingConfig, Preset};
    /// let config = MessagingConfig { ttl: 1, ..MessagingConfig::preset(Preset::Latency) };
    /// assert_eq!(config.implicit_batching_minimum_length_bytes, 1);
    /// ```
    #[must_use]
    pub fn preset(preset: Preset) -> MessagingConfig {
        let loader = Loader::new::<ApplicationConfig>().set(format!("messaging.preset={preset}"));
        loader.load().expect("what a preset sets is allowed").value.messaging
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_preset_is_allowed_and_counts() {
        for (preset, values) in [(Preset::Latency, LATENCY), (Preset::Throughput, THROUGHPUT)] {
            let set = MessagingConfig::preset(preset);
            let one_by_one: Vec<String> =
                values.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let by_hand = MessagingConfig::load(None, one_by_one).expect("allowed");
            assert_eq!(set, MessagingConfig { preset: Some(preset), ..by_hand });
        }
    }

    #[test]
    fn what_a_file_or_a_setting_says_stands_over_the_preset_wherever_that_is_chosen() {
        let file = b"[messaging]\nimplicit_batching_interval_us = 7\nwait = \"block\"\n";
        let config = MessagingConfig::load(Some(("a.toml", file)), ["ttl=3", "preset=latency"]);
        let config = config.expect("sound");
        assert_eq!((config.wait, config.implicit_batching_interval_us), (super::super::Wait::Block, 7));
        assert_eq!((config.ttl, config.implicit_batching_minimum_length_bytes), (3, 1));
    }

    #[test]
    fn the_origin_of_a_value_is_the_preset_unless_something_else_has_set_it() {
        let loader = Loader::new::<ApplicationConfig>()
            .file("a.toml", "[messaging]\npreset = \"latency\"\nimplicit_batching_interval_us = 7\n");
        let loaded = loader.load().expect("sound");
        let origin = |key: &str| loaded.origins.of(&format!("messaging.{key}")).to_string();
        assert_eq!(origin("wait"), "preset latency");
        assert_eq!(origin("implicit_batching_interval_us"), "a.toml:3");
        assert_eq!(origin("ttl"), "default");
        let shown = loaded.show();
        assert!(shown.lines().any(|l| l.starts_with("wait ") && l.ends_with("# preset latency")), "{shown}");
    }

    #[test]
    fn what_does_not_go_with_a_preset_is_refused_with_the_preset_s_name() {
        let file = b"[messaging]\npreset = \"latency\"\nlbtrm.ignore_interval_us = 9000\n";
        let faults = MessagingConfig::load(Some(("a.toml", file)), [""; 0]).expect_err("above the back-off");
        assert!(faults.to_string().contains("preset latency"), "{faults}");
    }
}
