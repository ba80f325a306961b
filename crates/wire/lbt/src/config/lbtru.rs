//! What LBT-RU has beside the options that it shares with LBT-RM.

use super::{ConfigError, NakLaw, ReceiverConfig, SourceConfig, check_session, in_range, ns, span_in_range};
use std::time::Duration;

/// One LBT-RU transport session, sending side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbtruSourceConfig {
    /// What it shares with LBT-RM.
    pub session: SourceConfig,
    /// Silence of a client after which it is dropped; many times the receivers' acknowledgement interval.
    pub client_activity_timeout: Duration,
    /// Most clients at once; further ones are refused. Each takes up to 16 bytes a number of the
    /// retransmission queue's maximum, once it sends NAKs.
    pub maximum_clients: u32,
}

impl Default for LbtruSourceConfig {
    fn default() -> LbtruSourceConfig {
        LbtruSourceConfig {
            session: SourceConfig::default(),
            client_activity_timeout: Duration::from_secs(10),
            maximum_clients: 256,
        }
    }
}

impl LbtruSourceConfig {
    /// Checks ranges and relations within the source.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session.check()?;
        let clients = u64::from(self.maximum_clients);
        in_range("maximum_clients", clients, 1, 1 << 16)?;
        let timeout = self.client_activity_timeout;
        span_in_range("client_activity_timeout", timeout, Duration::from_millis(1))
    }
}

/// One LBT-RU transport session, receiving side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbtruReceiverConfig {
    /// What it shares with LBT-RM. By default the wait before the first NAK is exact and shorter: there is
    /// no group to spread NAKs over.
    pub session: ReceiverConfig,
    /// Time between connect requests.
    pub connect_interval: Duration,
    /// Connect requests before the session is given up.
    pub connect_maximum: u32,
    /// Time between signs of life.
    pub acknowledgement_interval: Duration,
}

impl Default for LbtruReceiverConfig {
    fn default() -> LbtruReceiverConfig {
        LbtruReceiverConfig {
            session: ReceiverConfig {
                nak_initial_backoff_interval: Duration::from_micros(200),
                nak_law: NakLaw::Fixed,
                ..ReceiverConfig::default()
            },
            connect_interval: Duration::from_millis(100),
            connect_maximum: 600,
            acknowledgement_interval: Duration::from_millis(500),
        }
    }
}

impl LbtruReceiverConfig {
    /// Checks ranges and relations within the receiver.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session.check()?;
        let tiny = Duration::from_millis(1);
        span_in_range("connect_interval", self.connect_interval, tiny)?;
        let tries = u64::from(self.connect_maximum);
        in_range("connect_maximum", tries, 1, 1_000_000)?;
        let interval = self.acknowledgement_interval;
        span_in_range("acknowledgement_interval", interval, tiny)
    }
}

/// Checks what an LBT-RU source and its receivers must agree on: what [`check_session`] checks, and that a
/// client is not dropped between two signs of life.
///
/// # Errors
/// The first pair that does not go together.
pub fn check_lbtru_session(
    source: &LbtruSourceConfig,
    receiver: &LbtruReceiverConfig,
) -> Result<(), ConfigError> {
    source.check()?;
    receiver.check()?;
    check_session(&source.session, &receiver.session)?;
    let timeout = source.client_activity_timeout;
    let least = receiver.acknowledgement_interval.saturating_mul(3);
    if timeout < least {
        return Err(ConfigError::Relation {
            option: "client_activity_timeout",
            value: ns(timeout),
            rule: "must be at least",
            other: "3 x acknowledgement_interval",
            other_value: ns(least),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_obey_every_rule() {
        let (source, receiver) = (LbtruSourceConfig::default(), LbtruReceiverConfig::default());
        assert_eq!(check_lbtru_session(&source, &receiver), Ok(()));
    }

    #[test]
    fn errors_name_the_options_that_are_shared_and_those_of_this_transport() {
        type Change = fn(&mut LbtruSourceConfig, &mut LbtruReceiverConfig);
        let table: [(&str, Change); 9] = [
            ("datagram_max_size is 499", |s, _| s.session.datagram_max_size = 499),
            ("maximum_clients is 0", |s, _| s.maximum_clients = 0),
            ("rate_interval is 0", |s, _| s.session.rate_interval = Duration::ZERO),
            ("connect_maximum is 0", |_, r| r.connect_maximum = 0),
            ("must be at most half of nak_backoff_interval", |s, _| {
                s.session.ignore_interval = Duration::from_millis(6);
            }),
            ("3 x sm_maximum_interval", |s, _| {
                s.session.sm_maximum_interval = Duration::from_secs(4);
            }),
            ("+ nak_generation_interval", |s, _| {
                s.session.transport_topic_sequence_number_info_active_threshold = Duration::from_secs(4);
            }),
            ("must be above nak_generation_interval", |_, r| {
                r.session.activity_timeout = Duration::from_secs(1);
            }),
            ("3 x acknowledgement_interval", |_, r| {
                r.acknowledgement_interval = Duration::from_secs(4);
            }),
        ];
        for (text, change) in table {
            let (mut source, mut receiver) = (LbtruSourceConfig::default(), LbtruReceiverConfig::default());
            change(&mut source, &mut receiver);
            let error = check_lbtru_session(&source, &receiver).expect_err(text).to_string();
            assert!(error.contains(text), "{text}: {error}");
        }
    }
}
