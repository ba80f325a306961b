//! `[messaging.lbtru]`: reliable unicast.

use std::time::Duration;

use config::Ipv4Cidr;
use lbt::config::{LbtruReceiverConfig, LbtruSourceConfig, NakLaw};

use super::CongestionControl;
use super::reliable::reliable_section;
use crate::MessagingConfig;

reliable_section! {
    nak_initial_backoff_interval_us = 200;
    /// LBT-RU: reliable unicast.
    pub struct LbtruConfig {
        /// Lowest UDP port at which a session takes receivers.
        port_low: u16 = 14380, range 1..=65535;
        /// Highest UDP port at which a session takes receivers.
        port_high: u16 = 14389, range 1..=65535;
        /// Lowest UDP port at which sessions are received.
        receiver_port_low: u16 = 14360, range 1..=65535;
        /// Highest UDP port at which sessions are received.
        receiver_port_high: u16 = 14379, range 1..=65535;
        /// Receivers that a session takes.
        maximum_clients: u32 = 256, range 1..=65_536;
        /// Networks from which receivers may connect to sessions; all if there are none.
        allowed_networks: Vec<Ipv4Cidr> = [], length 0..=1_000;
        /// A receiver that gives no sign of life for so long is dropped.
        client_activity_timeout_us: u64 = 10_000_000, range 1_000..=600_000_000;
    }
}

impl MessagingConfig {
    /// What a source of an LBT-RU session goes by.
    #[must_use]
    pub fn lbtru_source(&self) -> LbtruSourceConfig {
        LbtruSourceConfig {
            session: self.lbtru.session_source(self),
            client_activity_timeout: Duration::from_micros(self.lbtru.client_activity_timeout_us),
            maximum_clients: self.lbtru.maximum_clients,
        }
    }

    /// What a receiver of an LBT-RU session goes by.
    #[must_use]
    pub fn lbtru_receiver(&self) -> LbtruReceiverConfig {
        LbtruReceiverConfig {
            session: self.lbtru.session_receiver(self, NakLaw::Fixed),
            ..LbtruReceiverConfig::default()
        }
    }
}
