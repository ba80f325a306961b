//! What LBT-RM and LBT-RU share: their sections are declared with the same options, each once.

/// Declares the section of a reliable transport: its own options, and behind them those that both have. What differs
/// between them stands first.
macro_rules! reliable_section {
    (
        nak_initial_backoff_interval_us = $nak_initial_backoff_interval_us:expr;
        $(#[doc = $doc:expr])*
        pub struct $name:ident { $($own:tt)* }
    ) => {
        config::section! {
            $(#[doc = $doc])*
            pub struct $name {
                $($own)*
                /// Longest UDP payload of a datagram. 1472 is what an Ethernet frame carries whole; on loopback 8192
                /// and more are faster.
                datagram_max_size_bytes: u32 = 1472, range 500..=65507;
                /// New data and retransmissions together, UDP payload, for all receivers; 0 for no limit.
                data_rate_limit_bits_per_second: u64 = 1_000_000_000, range 0..=1_000_000_000_000;
                /// Whether the data rate follows what receivers report. Minimum and round trip are those of `lbtrm`, for
                /// LBT-RU too.
                congestion_control: CongestionControl = CongestionControl::None;
                /// Retransmissions, UDP payload; 0 for none at all: what is lost is then told, not repaired.
                retransmit_rate_limit_bits_per_second: u64 = 200_000_000, range 0..=1_000_000_000_000;
                /// How much of both rates may go out at once.
                rate_interval_us: u64 = 1_000, range 1..=1_000_000;
                /// Memory for datagrams that can still be retransmitted.
                transmission_window_size_bytes: u64 = 33_554_432, range 65_536..=2_147_483_648;
                /// How long after a retransmission NAKs for the same number are ignored; at most half the NAK
                /// back-off.
                ignore_interval_us: u64 = 5_000, range 0..=10_000_000;
                /// Wait before the first NAK for a gap; it is also how much reordering costs no NAK.
                nak_initial_backoff_interval_us: u64 = $nak_initial_backoff_interval_us, range 1..=10_000_000;
                /// Wait between NAKs for one number; 0 for twice `ignore_interval_us`, and 10,000 at least.
                nak_backoff_interval_us: u64 = 0, range 0..=10_000_000;
                /// A number that has not come so long after it was missed is given up and becomes loss. While the
                /// source is silent, as one that is stopped, it has up to four times as long.
                nak_generation_interval_us: u64 = 1_000_000, range 1..=100_000_000;
                /// Whether NAKs are sent at all.
                send_naks: bool = true;
                /// Silence before the first session message, which finds a lost tail.
                sm_minimum_interval_us: u64 = 10_000, range 1..=10_000_000;
                /// Longest time between session messages.
                sm_maximum_interval_us: u64 = 1_000_000, range 1..=100_000_000;
                /// Silence after which a session is taken to be over.
                activity_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
                /// File of the keys with which packets are signed and checked: `NUMBER SECRET` a line, the secret in
                /// hexadecimal digits. The first line's key signs, a second one's is accepted too.
                authentication_key_file: Option<String> = None, length 1..=4_096;
                /// File of the keys with which messages are encrypted and decrypted, as that of the keys that sign. Sources
                /// encrypt with the first line's key, receivers accept both and drop what is not encrypted.
                encryption_key_file: Option<String> = None, length 1..=4_096;
            }
        }

        impl $name {
            /// Wait between NAKs for one number, microseconds: as it is set, or such that the NAK for a retransmission
            /// that was lost too does not fall into the ignore interval.
            #[must_use]
            pub fn nak_backoff_us(&self) -> u64 {
                if self.nak_backoff_interval_us > 0 {
                    return self.nak_backoff_interval_us;
                }
                self.ignore_interval_us.saturating_mul(2).max($crate::config::reliable::NAK_BACKOFF_US)
            }

            /// What follows from `ignore_interval_us` beyond the defaults, told for the section of that name.
            pub(super) fn derived(&self, section: &str) -> Option<String> {
                let (ignore, backoff) = (self.ignore_interval_us, self.nak_backoff_us());
                let is_derived = self.nak_backoff_interval_us == 0
                    && backoff > $crate::config::reliable::NAK_BACKOFF_US;
                is_derived.then(|| {
                    format!(
                        "messaging.{section}.nak_backoff_interval_us is 0: {backoff}, twice ignore_interval_us, which \
                         is {ignore}. Receivers of these sources need it too"
                    )
                })
            }

            /// What a source goes by.
            pub(super) fn session_source(&self, all: &crate::MessagingConfig) -> lbt::config::SourceConfig {
                let us = std::time::Duration::from_micros;
                let window = self.transmission_window_size_bytes;
                let standard = lbt::config::SourceConfig::default();
                lbt::config::SourceConfig {
                    datagram_max_size: self.datagram_max_size_bytes,
                    implicit_batching_minimum_length: all.implicit_batching_minimum_length_bytes,
                    implicit_batching_interval: us(all.implicit_batching_interval_us),
                    data_rate_limit: self.data_rate_limit_bits_per_second,
                    congestion_control: all.lbtrm.congestion_control_by(self.congestion_control),
                    retransmit_rate_limit: self.retransmit_rate_limit_bits_per_second,
                    rate_interval: us(self.rate_interval_us),
                    transmission_window_size: window,
                    transport_session_maximum_buffer: standard.transport_session_maximum_buffer.min(window / 2),
                    ignore_interval: us(self.ignore_interval_us),
                    sm_minimum_interval: us(self.sm_minimum_interval_us),
                    sm_maximum_interval: us(self.sm_maximum_interval_us),
                    maximum_message_size: all.message_max(standard.maximum_message_size).min((window / 2) as u32),
                    ..standard
                }
            }

            /// What a receiver goes by, which draws its first wait as `nak_law` says.
            pub(super) fn session_receiver(
                &self,
                all: &crate::MessagingConfig,
                nak_law: lbt::config::NakLaw,
            ) -> lbt::config::ReceiverConfig {
                let us = std::time::Duration::from_micros;
                let backoff = us(self.nak_backoff_us());
                lbt::config::ReceiverConfig {
                    nak_initial_backoff_interval: us(self.nak_initial_backoff_interval_us),
                    nak_backoff_interval: backoff,
                    nak_suppress_interval: backoff * 2,
                    nak_generation_interval: us(self.nak_generation_interval_us),
                    send_naks: self.send_naks,
                    activity_timeout: us(self.activity_timeout_us),
                    nak_law,
                    delivery: all.delivery(),
                    ..lbt::config::ReceiverConfig::default()
                }
            }
        }
    };
}

pub(super) use reliable_section;

/// Least wait between NAKs for one number that is not set: ten times a long round trip of a local network.
pub(super) const NAK_BACKOFF_US: u64 = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lbt::config::{LbtruReceiverConfig, LbtruSourceConfig, ReceiverConfig, SourceConfig};

    use crate::MessagingConfig;

    #[test]
    fn the_defaults_are_those_of_the_protocol() {
        let config = MessagingConfig::default();
        assert_eq!(config.source(), SourceConfig::default());
        assert_eq!(config.receiver(), ReceiverConfig::default());
        assert_eq!(config.lbtru_source(), LbtruSourceConfig::default());
        assert_eq!(config.lbtru_receiver(), LbtruReceiverConfig::default());
    }

    #[test]
    fn a_backoff_of_0_leaves_room_for_the_ignore_interval() {
        for (settings, backoff_ms, is_told) in [
            (&[][..], 10, false),
            (&["lbtrm.ignore_interval_us=1000"], 10, false),
            (&["lbtrm.ignore_interval_us=15000"], 30, true),
            (&["lbtrm.ignore_interval_us=15000", "lbtrm.nak_backoff_interval_us=40000"], 40, false),
            // As a file takes back what a preset has set.
            (
                &["preset=latency", "lbtrm.nak_backoff_interval_us=0", "lbtrm.ignore_interval_us=15000"],
                30,
                true,
            ),
        ] {
            let config = MessagingConfig::load(None, settings).expect("they go together");
            assert_eq!(
                config.receiver().nak_backoff_interval,
                Duration::from_millis(backoff_ms),
                "{settings:?}"
            );
            assert_eq!(config.lbtru_receiver(), LbtruReceiverConfig::default(), "it has its own");
            let told = config.derived();
            assert_eq!(told.len(), usize::from(is_told), "{told:?}");
            assert!(
                told.iter()
                    .all(|text| text.contains("lbtrm.nak_backoff_interval_us") && text.contains("30000"))
            );
        }
        let close = ["lbtrm.ignore_interval_us=15000", "lbtrm.nak_backoff_interval_us=20000"];
        let faults =
            MessagingConfig::load(None, close).expect_err("more than half of what is set").to_string();
        assert!(faults.contains("lbtrm.nak_backoff_interval_us = 20000"), "{faults}");
        let long =
            MessagingConfig::load(None, ["lbtrm.ignore_interval_us=500000"]).expect_err("LBM's default");
        assert!(long.to_string().contains("nak_generation_interval_us"), "{long}");
    }

    #[test]
    fn each_shared_option_is_of_its_own_transport_alone() {
        let names = [
            "datagram_max_size_bytes=600",
            "data_rate_limit_bits_per_second=900000000",
            "retransmit_rate_limit_bits_per_second=7000000",
            "rate_interval_us=2000",
            "transmission_window_size_bytes=1048576",
            "ignore_interval_us=900",
            "nak_initial_backoff_interval_us=300",
            "nak_backoff_interval_us=3000",
            "nak_generation_interval_us=500000",
            "send_naks=false",
            "sm_minimum_interval_us=7",
            "sm_maximum_interval_us=3000000",
            "activity_timeout_us=9000000",
        ];
        let set = |section: &str| {
            let settings = names.map(|name| format!("{section}.{name}"));
            MessagingConfig::load(None, settings).expect("sound")
        };
        let (rm, ru, standard) = (set("lbtrm"), set("lbtru"), MessagingConfig::default());
        let session = ru.lbtru_source().session;
        assert_eq!((ru.source(), rm.lbtru_source()), (standard.source(), standard.lbtru_source()));
        assert_eq!(ru.receiver().nak_backoff_interval, standard.receiver().nak_backoff_interval);
        assert_eq!(session, SourceConfig { retransmit_share_maximum: 50, ..rm.source() });
        assert_eq!((session.datagram_max_size, session.transmission_window_size), (600, 1 << 20));
        assert_eq!((session.data_rate_limit, session.retransmit_rate_limit), (900_000_000, 7_000_000));
        let us = Duration::from_micros;
        assert_eq!((session.rate_interval, session.ignore_interval), (us(2_000), us(900)));
        assert_eq!((session.sm_minimum_interval, session.sm_maximum_interval), (us(7), us(3_000_000)));
        let receiver = ru.lbtru_receiver().session;
        let waits = (receiver.nak_initial_backoff_interval, receiver.nak_backoff_interval);
        assert_eq!(waits, (us(300), us(3_000)));
        assert_eq!((receiver.nak_suppress_interval, receiver.send_naks), (us(6_000), false));
        let ends = (receiver.nak_generation_interval, receiver.activity_timeout);
        assert_eq!(ends, (us(500_000), us(9_000_000)));
        // Receivers are to hear three session messages before they give the session up.
        for section in ["lbtrm", "lbtru"] {
            let slow = [format!("{section}.sm_maximum_interval_us=4000000")];
            let text = MessagingConfig::load(None, slow).expect_err("a silence of 10 s").to_string();
            assert!(text.contains(&format!("messaging.{section}.activity_timeout_us")), "{text}");
        }
    }
}
