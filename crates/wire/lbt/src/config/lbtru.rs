use super::{
    ConfigError, CongestionControl, DeliveryConfig, NakLaw, ReceiverConfig, SourceConfig, check_session,
    in_range, ns, span_in_range,
};
use std::time::Duration;

/// One LBT-RU transport session, sending side. What has the name of an option of [`SourceConfig`], but for
/// the transport in it, means the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbtruSourceConfig {
    /// Longest UDP payload, 500..=65,507 bytes.
    pub transport_lbtru_datagram_max_size: u32,
    /// The open datagram goes out once it has this many bytes.
    pub implicit_batching_minimum_length: u32,
    /// Longest wait of a message in the open datagram; zero for no timer.
    pub implicit_batching_interval: Duration,
    /// New data and retransmissions to all clients together, bits of UDP payload per second; 0 for no limit.
    pub transport_lbtru_data_rate_limit: u64,
    /// Whether the data rate to each client follows what clients report.
    pub transport_lbtru_congestion_control: CongestionControl,
    /// Retransmissions to all clients together, bits of UDP payload per second; 0 for none at all.
    pub transport_lbtru_retransmit_rate_limit: u64,
    /// How much of both rates may go out at once, as a span.
    pub transport_lbtru_rate_interval: Duration,
    /// Memory for sent and unsent datagrams, bytes; once, however many clients there are.
    pub transport_lbtru_transmission_window_size: u64,
    /// Unsent bytes at which `send` answers that it would block.
    pub transport_session_maximum_buffer: u64,
    /// How long after a retransmission to a client its NAKs for the same number are ignored; at most half
    /// the receivers' NAK back-off.
    pub transport_lbtru_ignore_interval: Duration,
    /// How many numbers may wait for the retransmission rate limit, each client for itself, before NAKs are
    /// shed.
    pub transport_lbtru_retransmit_queue_maximum: u32,
    /// Silence before the first session message; doubled after each up to the maximum.
    pub transport_lbtru_sm_minimum_interval: Duration,
    /// Longest time between session messages of a silent session.
    pub transport_lbtru_sm_maximum_interval: Duration,
    /// Silence of a client after which it is dropped; many times the receivers' acknowledgement interval.
    pub transport_lbtru_client_activity_timeout: Duration,
    /// Most clients at once; further ones are refused. Each takes up to 16 bytes a number of the
    /// retransmission queue's maximum, once it sends NAKs.
    pub transport_lbtru_maximum_clients: u32,
    /// Silence of a topic before its last number is announced, and between announcements.
    pub transport_topic_sequence_number_info_interval: Duration,
    /// For how long a silent topic is announced; zero for ever.
    pub transport_topic_sequence_number_info_active_threshold: Duration,
    /// Longest message, bytes; longer ones are refused.
    pub maximum_message_size: u32,
    /// Most datagrams of one run that is handed out to be sent with one system call.
    pub transmit_run_maximum_count: u32,
    /// Most bytes of one such run.
    pub transmit_run_maximum_bytes: u32,
}

impl Default for LbtruSourceConfig {
    fn default() -> LbtruSourceConfig {
        let shared = SourceConfig::default();
        LbtruSourceConfig {
            transport_lbtru_datagram_max_size: shared.transport_lbtrm_datagram_max_size,
            implicit_batching_minimum_length: shared.implicit_batching_minimum_length,
            implicit_batching_interval: shared.implicit_batching_interval,
            transport_lbtru_data_rate_limit: shared.transport_lbtrm_data_rate_limit,
            transport_lbtru_congestion_control: shared.transport_lbtrm_congestion_control,
            transport_lbtru_retransmit_rate_limit: shared.transport_lbtrm_retransmit_rate_limit,
            transport_lbtru_rate_interval: shared.transport_lbtrm_rate_interval,
            transport_lbtru_transmission_window_size: shared.transport_lbtrm_transmission_window_size,
            transport_session_maximum_buffer: shared.transport_session_maximum_buffer,
            transport_lbtru_ignore_interval: shared.transport_lbtrm_ignore_interval,
            transport_lbtru_retransmit_queue_maximum: shared.transport_lbtrm_retransmit_queue_maximum,
            transport_lbtru_sm_minimum_interval: shared.transport_lbtrm_sm_minimum_interval,
            transport_lbtru_sm_maximum_interval: shared.transport_lbtrm_sm_maximum_interval,
            transport_lbtru_client_activity_timeout: Duration::from_secs(10),
            transport_lbtru_maximum_clients: 256,
            transport_topic_sequence_number_info_interval: shared
                .transport_topic_sequence_number_info_interval,
            transport_topic_sequence_number_info_active_threshold: shared
                .transport_topic_sequence_number_info_active_threshold,
            maximum_message_size: shared.maximum_message_size,
            transmit_run_maximum_count: shared.transmit_run_maximum_count,
            transmit_run_maximum_bytes: shared.transmit_run_maximum_bytes,
        }
    }
}

impl LbtruSourceConfig {
    /// Checks ranges and relations within the source.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session().check().map_err(lbtru_named)?;
        let clients = u64::from(self.transport_lbtru_maximum_clients);
        in_range("transport_lbtru_maximum_clients", clients, 1, 1 << 16)?;
        let timeout = self.transport_lbtru_client_activity_timeout;
        span_in_range("transport_lbtru_client_activity_timeout", timeout, Duration::from_millis(1))
    }

    /// What the session is built from.
    pub(crate) fn session(&self) -> SourceConfig {
        SourceConfig {
            transport_lbtrm_datagram_max_size: self.transport_lbtru_datagram_max_size,
            implicit_batching_minimum_length: self.implicit_batching_minimum_length,
            implicit_batching_interval: self.implicit_batching_interval,
            transport_lbtrm_data_rate_limit: self.transport_lbtru_data_rate_limit,
            transport_lbtrm_congestion_control: self.transport_lbtru_congestion_control,
            transport_lbtrm_retransmit_rate_limit: self.transport_lbtru_retransmit_rate_limit,
            transport_lbtrm_rate_interval: self.transport_lbtru_rate_interval,
            transport_lbtrm_transmission_window_size: self.transport_lbtru_transmission_window_size,
            transport_session_maximum_buffer: self.transport_session_maximum_buffer,
            transport_lbtrm_ignore_interval: self.transport_lbtru_ignore_interval,
            transport_lbtrm_retransmit_queue_maximum: self.transport_lbtru_retransmit_queue_maximum,
            // clients take turns
            transport_lbtrm_retransmit_share_maximum: 100,
            transport_lbtrm_sm_minimum_interval: self.transport_lbtru_sm_minimum_interval,
            transport_lbtrm_sm_maximum_interval: self.transport_lbtru_sm_maximum_interval,
            transport_topic_sequence_number_info_interval: self.transport_topic_sequence_number_info_interval,
            transport_topic_sequence_number_info_active_threshold: self
                .transport_topic_sequence_number_info_active_threshold,
            maximum_message_size: self.maximum_message_size,
            transmit_run_maximum_count: self.transmit_run_maximum_count,
            transmit_run_maximum_bytes: self.transmit_run_maximum_bytes,
        }
    }
}

/// One LBT-RU transport session, receiving side. What has the name of an option of [`ReceiverConfig`], but
/// for the transport in it, means the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbtruReceiverConfig {
    /// Time between connect requests.
    pub transport_lbtru_connect_interval: Duration,
    /// Connect requests before the session is given up.
    pub transport_lbtru_connect_maximum: u32,
    /// Time between signs of life.
    pub transport_lbtru_acknowledgement_interval: Duration,
    /// Wait before the first NAK. It is also how much reordering costs no NAK; there is no group to spread
    /// NAKs over, so it is exact.
    pub transport_lbtru_nak_initial_backoff_interval: Duration,
    /// Wait between NAKs for one number.
    pub transport_lbtru_nak_backoff_interval: Duration,
    /// Added to the wait of a number when the source says that its retransmission is under way or delayed.
    pub transport_lbtru_nak_suppress_interval: Duration,
    /// How long after its detection a number is given up and becomes loss.
    pub transport_lbtru_nak_generation_interval: Duration,
    /// Whether NAKs are sent at all.
    pub transport_lbtru_send_naks: bool,
    /// Silence after which the session is taken to be over.
    pub transport_lbtru_activity_timeout: Duration,
    /// Begin with the oldest number that the source can still retransmit instead of with the first after the
    /// connection.
    pub late_start: bool,
    /// Most numbers missing at once; beyond it the oldest are given up.
    pub maximum_missing: u32,
    /// Most separate gaps at once; beyond it the oldest are given up.
    pub maximum_gaps: u32,
    /// The layer above.
    pub delivery: DeliveryConfig,
}

impl Default for LbtruReceiverConfig {
    fn default() -> LbtruReceiverConfig {
        let shared = ReceiverConfig::default();
        LbtruReceiverConfig {
            transport_lbtru_connect_interval: Duration::from_millis(100),
            transport_lbtru_connect_maximum: 600,
            transport_lbtru_acknowledgement_interval: Duration::from_millis(500),
            transport_lbtru_nak_initial_backoff_interval: Duration::from_micros(200),
            transport_lbtru_nak_backoff_interval: shared.transport_lbtrm_nak_backoff_interval,
            transport_lbtru_nak_suppress_interval: shared.transport_lbtrm_nak_suppress_interval,
            transport_lbtru_nak_generation_interval: shared.transport_lbtrm_nak_generation_interval,
            transport_lbtru_send_naks: shared.transport_lbtrm_send_naks,
            transport_lbtru_activity_timeout: shared.transport_lbtrm_activity_timeout,
            late_start: shared.late_start,
            maximum_missing: shared.maximum_missing,
            maximum_gaps: shared.maximum_gaps,
            delivery: shared.delivery,
        }
    }
}

impl LbtruReceiverConfig {
    /// Checks ranges and relations within the receiver.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session().check().map_err(lbtru_named)?;
        let tiny = Duration::from_millis(1);
        span_in_range("transport_lbtru_connect_interval", self.transport_lbtru_connect_interval, tiny)?;
        let tries = u64::from(self.transport_lbtru_connect_maximum);
        in_range("transport_lbtru_connect_maximum", tries, 1, 1_000_000)?;
        let interval = self.transport_lbtru_acknowledgement_interval;
        span_in_range("transport_lbtru_acknowledgement_interval", interval, tiny)
    }

    /// What the session is built from.
    pub(crate) fn session(&self) -> ReceiverConfig {
        ReceiverConfig {
            transport_lbtrm_nak_initial_backoff_interval: self.transport_lbtru_nak_initial_backoff_interval,
            transport_lbtrm_nak_backoff_interval: self.transport_lbtru_nak_backoff_interval,
            transport_lbtrm_nak_suppress_interval: self.transport_lbtru_nak_suppress_interval,
            transport_lbtrm_nak_generation_interval: self.transport_lbtru_nak_generation_interval,
            transport_lbtrm_send_naks: self.transport_lbtru_send_naks,
            transport_lbtrm_activity_timeout: self.transport_lbtru_activity_timeout,
            transport_lbtrm_preactivity_timeout: Duration::ZERO,
            nak_law: NakLaw::Fixed,
            late_start: self.late_start,
            maximum_missing: self.maximum_missing,
            maximum_gaps: self.maximum_gaps,
            delivery: self.delivery.clone(),
        }
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
    check_session(&source.session(), &receiver.session()).map_err(lbtru_named)?;
    let timeout = source.transport_lbtru_client_activity_timeout;
    let least = receiver.transport_lbtru_acknowledgement_interval.saturating_mul(3);
    if timeout < least {
        return Err(ConfigError::Relation {
            option: "transport_lbtru_client_activity_timeout",
            value: ns(timeout),
            rule: "must be at least",
            other: "3 x transport_lbtru_acknowledgement_interval",
            other_value: ns(least),
        });
    }
    Ok(())
}

/// Every name in an error of the checks that LBT-RM shares.
const NAMES: [&str; 19] = [
    "transport_lbtru_datagram_max_size",
    "transport_lbtru_data_rate_limit",
    "transport_lbtru_congestion_control_minimum_rate",
    "transport_lbtru_congestion_control_maximum_round_trip",
    "transport_lbtru_retransmit_rate_limit",
    "transport_lbtru_rate_interval",
    "transport_lbtru_transmission_window_size",
    "transport_lbtru_ignore_interval",
    "transport_lbtru_retransmit_queue_maximum",
    "transport_lbtru_sm_minimum_interval",
    "transport_lbtru_sm_maximum_interval",
    "3 x transport_lbtru_sm_maximum_interval",
    "transport_lbtru_nak_initial_backoff_interval",
    "transport_lbtru_nak_backoff_interval",
    "transport_lbtru_nak_suppress_interval",
    "transport_lbtru_nak_generation_interval",
    "4 x transport_topic_sequence_number_info_interval + transport_lbtru_nak_generation_interval",
    "transport_lbtru_send_naks",
    "transport_lbtru_activity_timeout",
];

/// The error with the options' names of this transport.
fn lbtru_named(error: ConfigError) -> ConfigError {
    let renamed = |name: &'static str| {
        let wanted = name.replace("_lbtrm_", "_lbtru_");
        NAMES.into_iter().find(|n| *n == wanted).unwrap_or(name)
    };
    match error {
        ConfigError::OutOfRange { option, value, min, max } => {
            ConfigError::OutOfRange { option: renamed(option), value, min, max }
        }
        ConfigError::Relation { option, value, rule, other, other_value } => {
            let (option, other) = (renamed(option), renamed(other));
            ConfigError::Relation { option, value, rule, other, other_value }
        }
    }
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
    fn errors_name_the_options_of_this_transport() {
        type Change = fn(&mut LbtruSourceConfig, &mut LbtruReceiverConfig);
        let table: [(&str, Change); 9] = [
            ("transport_lbtru_datagram_max_size is 499", |s, _| s.transport_lbtru_datagram_max_size = 499),
            ("transport_lbtru_maximum_clients is 0", |s, _| s.transport_lbtru_maximum_clients = 0),
            ("transport_lbtru_rate_interval is 0", |s, _| s.transport_lbtru_rate_interval = Duration::ZERO),
            ("transport_lbtru_connect_maximum is 0", |_, r| r.transport_lbtru_connect_maximum = 0),
            ("must be at most half of transport_lbtru_nak_backoff_interval", |s, _| {
                s.transport_lbtru_ignore_interval = Duration::from_millis(6);
            }),
            ("3 x transport_lbtru_sm_maximum_interval", |s, _| {
                s.transport_lbtru_sm_maximum_interval = Duration::from_secs(4);
            }),
            ("+ transport_lbtru_nak_generation_interval", |s, _| {
                s.transport_topic_sequence_number_info_active_threshold = Duration::from_secs(4);
            }),
            ("must be above transport_lbtru_nak_generation_interval", |_, r| {
                r.transport_lbtru_activity_timeout = Duration::from_secs(1);
            }),
            ("3 x transport_lbtru_acknowledgement_interval", |_, r| {
                r.transport_lbtru_acknowledgement_interval = Duration::from_secs(4);
            }),
        ];
        for (text, change) in table {
            let (mut source, mut receiver) = (LbtruSourceConfig::default(), LbtruReceiverConfig::default());
            change(&mut source, &mut receiver);
            let error = check_lbtru_session(&source, &receiver).expect_err(text).to_string();
            assert!(error.contains(text) && !error.contains("lbtrm"), "{text}: {error}");
        }
    }
}
