use super::{ConfigError, in_range, span_in_range};
use crate::wire::lbtrm::DATA_HEADER_LEN;
use std::time::Duration;

/// Smallest datagram that may be configured, as in the field.
const DATAGRAM_MIN: u64 = 500;
/// Lowest rate that congestion control may go down to, bits per second.
const MINIMUM_RATE_MIN: u64 = 10_000;
/// Longest UDP payload over IPv4.
const DATAGRAM_MAX: u64 = 65_507;

/// Whether a source adapts its data rate to what its receivers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// The data rate is the limit.
    None,
    /// The data rate moves between this floor, in bits of UDP payload per second, and the data rate limit: see
    /// [`crate::congestion`].
    Adaptive {
        /// A receiver that is slower is named and left to its losses.
        minimum_rate: u64,
        /// Round trip, queues included, at which the rate is lowered though nothing is lost; zero for loss
        /// alone. It must be the same for all sources that share a link, else those with the lower value
        /// starve.
        maximum_round_trip: Duration,
    },
}

/// A reliable transport session, LBT-RM or LBT-RU, sending side: what the two share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Longest UDP payload, 500..=65,507 bytes. 1,472 is what an Ethernet frame of 1,500 carries without IP
    /// fragments, of which a single lost one loses the whole datagram.
    pub datagram_max_size: u32,
    /// The open datagram goes out once it has this many bytes. The default is never reached: a datagram
    /// goes out when the next message does not fit or the caller flushes. 1 turns batching off.
    pub implicit_batching_minimum_length: u32,
    /// Longest wait of a message in the open datagram; zero for no timer. Without a timer whoever drives
    /// the source flushes when there is nothing more to send, which costs no latency.
    pub implicit_batching_interval: Duration,
    /// New data and retransmissions together, bits of UDP payload per second; 0 for no limit.
    pub data_rate_limit: u64,
    /// Whether the data rate follows what receivers report.
    pub congestion_control: CongestionControl,
    /// Retransmissions, bits of UDP payload per second; with congestion control no greater a part of the
    /// present data rate than this is of its limit; 0 for no retransmissions at all: NAKs are then
    /// answered "do not retry".
    pub retransmit_rate_limit: u64,
    /// How much of both rates may go out at once, as a span: the depth of the token buckets. Refilled
    /// continuously, not in slots, so that bursts at slot starts do not overflow switch ports.
    pub rate_interval: Duration,
    /// Memory for sent and unsent datagrams, bytes; at least 64 KiB and 8 datagrams. Peak bytes per second x
    /// (initial back-off + 3 x back-off + 2 x round trip) is what recovery needs.
    pub transmission_window_size: u64,
    /// Unsent bytes at which `send` answers that it would block: queued behind the rate limit or a slow
    /// driver.
    pub transport_session_maximum_buffer: u64,
    /// How long after a retransmission NAKs for the same number are ignored; at most half the receivers'
    /// NAK back-off.
    pub ignore_interval: Duration,
    /// How many numbers may wait for the retransmission rate limit before NAKs are shed.
    pub retransmit_queue_maximum: u32,
    /// Most of the retransmission rate that one receiver may use while others ask too and the rate does not
    /// do for all, per cent, 1..=100; 100 for no limit. LBT-RM alone: clients of LBT-RU take turns.
    pub retransmit_share_maximum: u8,
    /// Silence before the first session message; doubled after each up to the maximum. Short, because it is
    /// what finds the loss of the last datagram before a pause.
    pub sm_minimum_interval: Duration,
    /// Longest time between session messages of a silent session. Receivers' activity timeout is many times
    /// this.
    pub sm_maximum_interval: Duration,
    /// Silence of a topic before its last number is announced, and between announcements.
    pub transport_topic_sequence_number_info_interval: Duration,
    /// For how long a silent topic is announced; zero for ever.
    pub transport_topic_sequence_number_info_active_threshold: Duration,
    /// Longest message, bytes; longer ones are refused. At least a datagram and at most half the
    /// transmission window, since the fragments of one message must be in the window together.
    pub maximum_message_size: u32,
    /// Most datagrams of one run that is handed out to be sent with one system call. 64 is what Linux
    /// segments.
    pub transmit_run_maximum_count: u32,
    /// Most bytes of one such run.
    pub transmit_run_maximum_bytes: u32,
}

impl Default for SourceConfig {
    fn default() -> SourceConfig {
        SourceConfig {
            datagram_max_size: 1_472,
            implicit_batching_minimum_length: 65_507,
            implicit_batching_interval: Duration::ZERO,
            data_rate_limit: 1_000_000_000,
            congestion_control: CongestionControl::None,
            retransmit_rate_limit: 200_000_000,
            rate_interval: Duration::from_millis(1),
            transmission_window_size: 32 << 20,
            transport_session_maximum_buffer: 256 << 10,
            ignore_interval: Duration::from_millis(5),
            retransmit_queue_maximum: 4_096,
            retransmit_share_maximum: 50,
            sm_minimum_interval: Duration::from_millis(10),
            sm_maximum_interval: Duration::from_secs(1),
            transport_topic_sequence_number_info_interval: Duration::from_secs(1),
            transport_topic_sequence_number_info_active_threshold: Duration::from_secs(60),
            maximum_message_size: 8 << 20,
            transmit_run_maximum_count: 64,
            transmit_run_maximum_bytes: 65_507,
        }
    }
}

impl SourceConfig {
    /// Checks ranges and relations within the source.
    ///
    /// # Errors
    /// The first value out of range, or the first pair that does not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_sizes()?;
        self.check_spans()?;
        self.check_rates()
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        let datagram = u64::from(self.datagram_max_size);
        in_range("datagram_max_size", datagram, DATAGRAM_MIN, DATAGRAM_MAX)?;
        let batch = u64::from(self.implicit_batching_minimum_length);
        in_range("implicit_batching_minimum_length", batch, 1, DATAGRAM_MAX)?;
        let window = self.transmission_window_size;
        in_range("transmission_window_size", window, (64 << 10).max(8 * datagram), 1 << 31)?;
        let buffer = self.transport_session_maximum_buffer;
        in_range("transport_session_maximum_buffer", buffer, 1, window / 2)?;
        let message = u64::from(self.maximum_message_size);
        in_range("maximum_message_size", message, datagram, window / 2)?;
        let queue = u64::from(self.retransmit_queue_maximum);
        in_range("retransmit_queue_maximum", queue, 1, 1 << 20)?;
        let share = u64::from(self.retransmit_share_maximum);
        in_range("retransmit_share_maximum", share, 1, 100)?;
        let count = u64::from(self.transmit_run_maximum_count);
        in_range("transmit_run_maximum_count", count, 1, 1 << 16)?;
        let bytes = u64::from(self.transmit_run_maximum_bytes);
        in_range("transmit_run_maximum_bytes", bytes, DATA_HEADER_LEN as u64, window)
    }

    fn check_spans(&self) -> Result<(), ConfigError> {
        let (zero, tiny) = (Duration::ZERO, Duration::from_micros(1));
        span_in_range("implicit_batching_interval", self.implicit_batching_interval, zero)?;
        span_in_range("rate_interval", self.rate_interval, tiny)?;
        span_in_range("ignore_interval", self.ignore_interval, zero)?;
        let least = self.sm_minimum_interval;
        span_in_range("sm_minimum_interval", least, tiny)?;
        let most = self.sm_maximum_interval;
        span_in_range("sm_maximum_interval", most, least)?;
        let interval = self.transport_topic_sequence_number_info_interval;
        span_in_range("transport_topic_sequence_number_info_interval", interval, Duration::from_millis(1))?;
        let threshold = self.transport_topic_sequence_number_info_active_threshold;
        span_in_range("transport_topic_sequence_number_info_active_threshold", threshold, zero)
    }

    fn check_rates(&self) -> Result<(), ConfigError> {
        let (data, again) = (self.data_rate_limit, self.retransmit_rate_limit);
        in_range("data_rate_limit", data, 0, 1_000_000_000_000)?;
        in_range("retransmit_rate_limit", again, 0, 1_000_000_000_000)?;
        if let CongestionControl::Adaptive { minimum_rate, maximum_round_trip } = self.congestion_control {
            let (option, least) = ("data_rate_limit", MINIMUM_RATE_MIN);
            in_range(option, data, least, 1_000_000_000_000)?;
            let option = "congestion_control_minimum_rate";
            in_range(option, minimum_rate, least, data)?;
            let option = "congestion_control_maximum_round_trip";
            span_in_range(option, maximum_round_trip, Duration::ZERO)?;
        }
        if data != 0 && again >= data {
            return Err(ConfigError::Relation {
                option: "retransmit_rate_limit",
                value: again,
                rule: "must be below",
                other: "data_rate_limit",
                other_value: data,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut SourceConfig);

    #[test]
    fn each_value_out_of_its_range_is_named() {
        let table: &[(&str, Change)] = &[
            ("datagram_max_size", |c| c.datagram_max_size = 499),
            ("datagram_max_size", |c| c.datagram_max_size = 65_508),
            ("implicit_batching_minimum_length", |c| c.implicit_batching_minimum_length = 0),
            ("transmission_window_size", |c| {
                c.transmission_window_size = 65_535;
            }),
            ("transport_session_maximum_buffer", |c| c.transport_session_maximum_buffer = 17 << 20),
            ("maximum_message_size", |c| c.maximum_message_size = 17 << 20),
            ("transmit_run_maximum_count", |c| c.transmit_run_maximum_count = 0),
            ("retransmit_queue_maximum", |c| c.retransmit_queue_maximum = 0),
            ("sm_maximum_interval", |c| {
                c.sm_maximum_interval = Duration::from_millis(9);
            }),
            ("rate_interval", |c| c.rate_interval = Duration::ZERO),
            ("data_rate_limit", |c| c.data_rate_limit = u64::MAX),
        ];
        for (name, change) in table {
            let mut config = SourceConfig::default();
            change(&mut config);
            match config.check() {
                Err(ConfigError::OutOfRange { option, .. }) => assert_eq!(option, *name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn congestion_control_needs_a_limit_and_a_floor_below_it() {
        let maximum_round_trip = Duration::from_millis(30);
        let floor = |minimum_rate| CongestionControl::Adaptive { minimum_rate, maximum_round_trip };
        let mut config = SourceConfig { congestion_control: floor(2_000_000_000), ..SourceConfig::default() };
        let error = config.check().expect_err("a floor above the limit");
        assert!(error.to_string().contains("minimum_rate is 2000000000"), "{error}");
        config.congestion_control = floor(1_000_000);
        assert_eq!(config.check(), Ok(()));
        config.data_rate_limit = 0;
        let error = config.check().expect_err("without a limit there is nothing to move below");
        assert!(error.to_string().contains("data_rate_limit is 0"), "{error}");
    }

    #[test]
    fn retransmissions_may_not_take_the_whole_rate() {
        let mut config = SourceConfig { data_rate_limit: 200_000_000, ..Default::default() };
        let refused = ConfigError::Relation {
            option: "retransmit_rate_limit",
            value: 200_000_000,
            rule: "must be below",
            other: "data_rate_limit",
            other_value: 200_000_000,
        };
        assert_eq!(config.check(), Err(refused));
        config.data_rate_limit = 0;
        assert_eq!(config.check(), Ok(()), "no limit on the sum");
    }
}
