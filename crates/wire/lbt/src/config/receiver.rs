use super::{ConfigError, in_range, ns, span_in_range};
use std::time::Duration;

/// How the wait before the first NAK is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakLaw {
    /// Exactly the interval. For sessions with one receiver.
    Fixed,
    /// Evenly between a half and one and a half times the interval, as the field does it.
    Uniform,
    /// Between an eighth of the interval and the interval, late moments likelier. The first few receivers
    /// to ask are then far apart, and the retransmission silences the others: for 50 receivers that all
    /// lost the same datagram it takes about a third of the NAKs of an even draw.
    Weighted {
        /// About how many receivers the session has, at most 4,096.
        group_size: u16,
    },
}

/// In which order a topic's messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By topic number; what comes after a gap waits until the gap is closed or final.
    Topic,
    /// As they arrive; loss is still reported, once it is final.
    Arrival,
}

/// A reliable transport session, LBT-RM or LBT-RU, receiving side: what the two share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Longest or mean wait before the first NAK, by `nak_law`. It is also how much reordering costs no NAK.
    pub nak_initial_backoff_interval: Duration,
    /// Mean wait between NAKs for one number (drawn from a half to one and a half times, except by
    /// [`NakLaw::Fixed`]).
    pub nak_backoff_interval: Duration,
    /// Added to the wait of a number when the source says that its retransmission is under way or delayed.
    pub nak_suppress_interval: Duration,
    /// How long after its detection a number is given up and becomes loss.
    pub nak_generation_interval: Duration,
    /// Whether NAKs are sent at all; a receiver that sends none profits from others' NAKs.
    pub send_naks: bool,
    /// Silence after which the session is taken to be over.
    pub activity_timeout: Duration,
    /// The same before the first datagram, on LBT-RM; zero for the same value.
    pub preactivity_timeout: Duration,
    /// How the wait before the first NAK is drawn.
    pub nak_law: NakLaw,
    /// Begin with the oldest number that the source can still retransmit instead of with the first datagram
    /// heard. The first message of each topic then waits until what came before it is recovered or final,
    /// and the source sends its whole window once more: for sessions of low rate whose history matters.
    pub late_start: bool,
    /// Most numbers missing at once; beyond it the oldest are given up.
    pub maximum_missing: u32,
    /// Most separate gaps at once; beyond it the oldest are given up.
    pub maximum_gaps: u32,
    /// The layer above.
    pub delivery: DeliveryConfig,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            nak_initial_backoff_interval: Duration::from_millis(1),
            nak_backoff_interval: Duration::from_millis(10),
            nak_suppress_interval: Duration::from_millis(20),
            nak_generation_interval: Duration::from_secs(1),
            send_naks: true,
            activity_timeout: Duration::from_secs(10),
            preactivity_timeout: Duration::ZERO,
            nak_law: NakLaw::Weighted { group_size: 50 },
            late_start: false,
            maximum_missing: 65_536,
            maximum_gaps: 8_192,
            delivery: DeliveryConfig::default(),
        }
    }
}

/// Delivery of the topics of one transport session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// Order of topics that are subscribed without saying which.
    pub ordered_delivery: Order,
    /// Most messages held after gaps, all topics together; beyond it the oldest gaps are declared final.
    pub delivery_control_maximum_total_map_entries: u32,
    /// Bytes of datagrams held after gaps, all topics together; beyond it the same. The default is
    /// the default transmission window: what is older the source cannot retransmit anyway.
    pub hold_maximum_bytes: u32,
    /// Longest message that is put together from fragments, bytes; a longer one is loss.
    pub maximum_message_size: u32,
    /// Bytes of all messages being put together at once; beyond it the one that would grow becomes loss.
    pub reassembly_maximum_bytes: u64,
    /// Most topics subscribed on the session.
    pub maximum_topics: u32,
}

impl Default for DeliveryConfig {
    fn default() -> DeliveryConfig {
        DeliveryConfig {
            ordered_delivery: Order::Topic,
            delivery_control_maximum_total_map_entries: 200_000,
            hold_maximum_bytes: 32 << 20,
            maximum_message_size: 8 << 20,
            reassembly_maximum_bytes: 64 << 20,
            maximum_topics: 1 << 20,
        }
    }
}

impl ReceiverConfig {
    /// Checks ranges and relations within the receiver.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_spans()?;
        self.check_relations()?;
        if let NakLaw::Weighted { group_size } = self.nak_law {
            in_range("nak_law group size", u64::from(group_size), 1, 4_096)?;
        }
        in_range("maximum_missing", u64::from(self.maximum_missing), 1, 1 << 30)?;
        in_range("maximum_gaps", u64::from(self.maximum_gaps), 1, 1 << 20)?;
        self.delivery.check()
    }

    fn check_spans(&self) -> Result<(), ConfigError> {
        let (zero, tiny) = (Duration::ZERO, Duration::from_micros(1));
        let initial = self.nak_initial_backoff_interval;
        span_in_range("nak_initial_backoff_interval", initial, zero)?;
        let backoff = self.nak_backoff_interval;
        span_in_range("nak_backoff_interval", backoff, tiny)?;
        let suppress = self.nak_suppress_interval;
        span_in_range("nak_suppress_interval", suppress, zero)?;
        let generation = self.nak_generation_interval;
        span_in_range("nak_generation_interval", generation, Duration::from_millis(5))?;
        let activity = self.activity_timeout;
        span_in_range("activity_timeout", activity, tiny)?;
        let before = self.preactivity_timeout;
        span_in_range("preactivity_timeout", before, zero)
    }

    fn check_relations(&self) -> Result<(), ConfigError> {
        let generation = self.nak_generation_interval;
        let backoff = self.nak_backoff_interval;
        if generation < backoff * 2 {
            return Err(ConfigError::Relation {
                option: "nak_generation_interval",
                value: ns(generation),
                rule: "must be at least twice",
                other: "nak_backoff_interval",
                other_value: ns(backoff),
            });
        }
        let activity = self.activity_timeout;
        if activity <= generation {
            return Err(ConfigError::Relation {
                option: "activity_timeout",
                value: ns(activity),
                rule: "must be above",
                other: "nak_generation_interval",
                other_value: ns(generation),
            });
        }
        Ok(())
    }
}

impl DeliveryConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let entries = u64::from(self.delivery_control_maximum_total_map_entries);
        // a datagram of the largest size holds fewer than 5,461 messages, and one datagram must fit
        in_range("delivery_control_maximum_total_map_entries", entries, 8_192, 1 << 26)?;
        in_range("hold_maximum_bytes", u64::from(self.hold_maximum_bytes), 256 << 10, 1 << 31)?;
        let message = u64::from(self.maximum_message_size);
        in_range("maximum_message_size", message, 1, 1 << 30)?;
        in_range("reassembly_maximum_bytes", self.reassembly_maximum_bytes, message, 1 << 40)?;
        in_range("maximum_topics", u64::from(self.maximum_topics), 1, 1 << 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_interval_shorter_than_two_backoffs_is_refused_with_both_values() {
        let config = ReceiverConfig {
            nak_generation_interval: Duration::from_millis(19),
            ..ReceiverConfig::default()
        };
        let refused = ConfigError::Relation {
            option: "nak_generation_interval",
            value: 19_000_000,
            rule: "must be at least twice",
            other: "nak_backoff_interval",
            other_value: 10_000_000,
        };
        assert_eq!(config.check(), Err(refused));
    }

    #[test]
    fn an_activity_timeout_within_the_generation_interval_is_refused() {
        let config = ReceiverConfig { activity_timeout: Duration::from_secs(1), ..ReceiverConfig::default() };
        let error = config.check().expect_err("1 s against 1 s");
        assert!(matches!(error, ConfigError::Relation { value: 1_000_000_000, .. }), "{error}");
    }

    #[test]
    fn bounds_that_cannot_hold_one_datagram_are_refused() {
        let mut config = ReceiverConfig::default();
        config.delivery.hold_maximum_bytes = 1_000;
        assert!(matches!(config.check(), Err(ConfigError::OutOfRange { value: 1_000, .. })));
    }
}
