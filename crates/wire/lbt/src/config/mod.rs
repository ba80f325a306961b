//! What can be set, under the field's option names: plain structs, a `Default` with reasons, one `check`.
//!
//! [`SourceConfig`] and [`ReceiverConfig`] are what LBT-RM and LBT-RU share, without `transport_lbtrm_` before
//! the names; [`LbtruSourceConfig`] and [`LbtruReceiverConfig`] have LBT-RU's own beside them.
//!
//! Spans are [`Duration`]s, sizes bytes, rates bits per second. The table of defaults beside the field's
//! stands in the documentation of the crate.

mod failover;
mod lbtru;
mod receiver;
mod recovery;
mod relay;
mod resolver;
mod source;

pub use failover::FailoverConfig;
pub use lbtru::{LbtruReceiverConfig, LbtruSourceConfig, check_lbtru_session};
pub use receiver::{DeliveryConfig, NakLaw, Order, ReceiverConfig};
pub use recovery::{RecoveryConfig, RetentionConfig};
pub use relay::RelayConfig;
pub use resolver::ResolverConfig;
pub use source::{CongestionControl, SourceConfig};

use std::fmt;
use std::time::Duration;

/// A value that is out of its range, or two that do not go together. Spans are given in nanoseconds.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The option must lie in `min..=max`.
    OutOfRange {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// Lowest allowed value.
        min: u64,
        /// Highest allowed value.
        max: u64,
    },
    /// The option does not go together with another.
    Relation {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it must be with respect to the other, as in "must be at most half of".
        rule: &'static str,
        /// The other option, or the sum that it is compared with.
        other: &'static str,
        /// The other's value.
        other_value: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ConfigError::OutOfRange { option, value, min, max } => {
                write!(f, "{option} is {value}, allowed is {min} to {max}")
            }
            ConfigError::Relation { option, value, rule, other, other_value } => {
                write!(f, "{option} is {value}: it {rule} {other}, which is {other_value}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Checks what a source and the receivers of its sessions must agree on.
///
/// # Errors
/// The ignore interval is more than half of the NAK back-off: the NAK for a retransmission that was itself
/// lost then always falls into the ignore interval. Or a silent session would be taken for a dead one
/// between two of its session messages. Or topics are announced for too short a time for a receiver to find
/// and repair the loss of a tail.
pub fn check_session(source: &SourceConfig, receiver: &ReceiverConfig) -> Result<(), ConfigError> {
    source.check()?;
    receiver.check()?;
    let ignore = source.ignore_interval;
    let backoff = receiver.nak_backoff_interval;
    if ignore > backoff / 2 {
        return Err(ConfigError::Relation {
            option: "ignore_interval",
            value: ns(ignore),
            rule: "must be at most half of",
            other: "nak_backoff_interval",
            other_value: ns(backoff),
        });
    }
    let activity = receiver.activity_timeout;
    let silence = source.sm_maximum_interval.saturating_mul(3);
    if activity < silence {
        return Err(ConfigError::Relation {
            option: "activity_timeout",
            value: ns(activity),
            rule: "must be at least",
            other: "3 x sm_maximum_interval",
            other_value: ns(silence),
        });
    }
    let threshold = source.transport_topic_sequence_number_info_active_threshold;
    let least = source
        .transport_topic_sequence_number_info_interval
        .saturating_mul(4)
        .saturating_add(receiver.nak_generation_interval);
    if !threshold.is_zero() && threshold < least {
        return Err(ConfigError::Relation {
            option: "transport_topic_sequence_number_info_active_threshold",
            value: ns(threshold),
            rule: "must be 0 or at least",
            other: "4 x transport_topic_sequence_number_info_interval + \
                    nak_generation_interval",
            other_value: ns(least),
        });
    }
    Ok(())
}

/// A span in nanoseconds; the longest that fits for longer ones.
pub(crate) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn in_range(option: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { option, value, min, max })
}

/// Longest span that is accepted anywhere: a day. Sums of spans then stay far from the end of the clock.
const SPAN_MAX: Duration = Duration::from_secs(86_400);

fn span_in_range(option: &'static str, value: Duration, min: Duration) -> Result<(), ConfigError> {
    in_range(option, ns(value), ns(min), ns(SPAN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_obey_every_rule() {
        assert_eq!(check_session(&SourceConfig::default(), &ReceiverConfig::default()), Ok(()));
        assert_eq!(ResolverConfig::default().check(), Ok(()));
    }

    #[test]
    fn an_ignore_interval_above_half_the_backoff_is_refused_with_both_values() {
        let source = SourceConfig { ignore_interval: Duration::from_millis(6), ..SourceConfig::default() };
        let error = check_session(&source, &ReceiverConfig::default()).expect_err("6 ms against 10 ms");
        assert_eq!(
            error.to_string(),
            "ignore_interval is 6000000: it must be at most half of \
             nak_backoff_interval, which is 10000000"
        );
    }

    #[test]
    fn an_activity_timeout_that_a_silent_session_would_run_into_is_refused() {
        let source = SourceConfig { sm_maximum_interval: Duration::from_secs(4), ..SourceConfig::default() };
        let error = check_session(&source, &ReceiverConfig::default()).expect_err("10 s against 4 s");
        assert!(matches!(error, ConfigError::Relation { other_value: 12_000_000_000, .. }), "{error}");
    }

    #[test]
    fn announcing_for_too_short_a_time_is_refused_and_for_ever_is_allowed() {
        let mut source = SourceConfig {
            transport_topic_sequence_number_info_active_threshold: Duration::from_secs(4),
            ..SourceConfig::default()
        };
        let receiver = ReceiverConfig::default();
        assert!(matches!(check_session(&source, &receiver), Err(ConfigError::Relation { .. })));
        source.transport_topic_sequence_number_info_active_threshold = Duration::ZERO;
        assert_eq!(check_session(&source, &receiver), Ok(()));
    }
}
