use super::{ConfigError, in_range, span_in_range};
use std::net::SocketAddrV4;
use std::time::Duration;

/// Topic resolution of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Longest UDP payload of topic resolution.
    pub resolver_datagram_max_size: u32,
    /// Wait after a source's first advertisement; doubled after each.
    pub resolver_advertisement_minimum_initial_interval: Duration,
    /// Longest wait of the initial phase.
    pub resolver_advertisement_maximum_initial_interval: Duration,
    /// How long the initial phase lasts; zero skips it.
    pub resolver_advertisement_minimum_initial_duration: Duration,
    /// Time between advertisements of the sustaining phase.
    pub resolver_advertisement_sustain_interval: Duration,
    /// How long the sustaining phase lasts; zero skips it. A query begins it anew.
    pub resolver_advertisement_minimum_sustain_duration: Duration,
    /// Time between advertisements after that; zero for none, as the field does it.
    pub resolver_advertisement_quiescent_interval: Duration,
    /// Whether a query is answered at once.
    pub resolver_advertisement_send_immediate_response: bool,
    /// Wait after a receiver's first query; doubled after each.
    pub resolver_query_minimum_initial_interval: Duration,
    /// Longest wait of the initial phase.
    pub resolver_query_maximum_initial_interval: Duration,
    /// How long the initial phase lasts; zero skips it.
    pub resolver_query_minimum_initial_duration: Duration,
    /// Time between queries of the sustaining phase.
    pub resolver_query_sustain_interval: Duration,
    /// How long the sustaining phase lasts; zero skips it.
    pub resolver_query_minimum_sustain_duration: Duration,
    /// Time between queries after that, six times as long for patterns and for topics of which a source is
    /// known; zero for none, as the field does it.
    pub resolver_query_quiescent_interval: Duration,
    /// Queries for a topic end when this many sources of it are known.
    pub resolution_number_of_sources_query_threshold: u32,
    /// Wait after a wildcard receiver's first query; doubled after each.
    pub resolver_wildcard_query_minimum_interval: Duration,
    /// Longest wait between wildcard queries.
    pub resolver_wildcard_query_maximum_interval: Duration,
    /// How long wildcard queries are sent.
    pub resolver_wildcard_query_minimum_duration: Duration,
    /// Advertisements of the initial phase and answers per second; 0 for no limit.
    pub resolver_initial_advertisements_per_second: u32,
    /// Bits per second of advertisements in the initial phase and answers; 0 for no limit.
    pub resolver_initial_advertisement_bps: u64,
    /// Bits per second of advertisements in the sustaining phase; 0 for no limit.
    pub resolver_sustain_advertisement_bps: u64,
    /// Queries of the initial phase per second; 0 for no limit.
    pub resolver_initial_queries_per_second: u32,
    /// Bits per second of queries in the initial phase; 0 for no limit.
    pub resolver_initial_query_bps: u64,
    /// Bits per second of queries in the sustaining phase; 0 for no limit.
    pub resolver_sustain_query_bps: u64,
    /// Most sources remembered, of all topics heard. Those of topics that nobody here asks for leave first.
    pub resolver_cache_maximum: u32,
    /// Most sources remembered of one topic.
    pub resolver_cache_topic_maximum: u32,
    /// A source that was not heard of for so long is forgotten, and its topic asked for again; zero for never.
    pub resolver_cache_timeout: Duration,
    /// Unicast resolvers, for networks without multicast; everything goes to each of them, and nothing to a
    /// group. Empty for multicast.
    pub resolver_unicast_daemons: Vec<SocketAddrV4>,
    /// Time between keep-alives to unicast resolvers.
    pub resolver_unicast_keepalive_interval: Duration,
    /// The packet options that UM 6 sends, identifying this context by eight bytes; `None` for plain packets.
    pub packet_options: Option<[u8; 8]>,
}

impl Default for ResolverConfig {
    fn default() -> ResolverConfig {
        let ms = Duration::from_millis;
        ResolverConfig {
            resolver_datagram_max_size: 1_472,
            resolver_advertisement_minimum_initial_interval: ms(10),
            resolver_advertisement_maximum_initial_interval: ms(500),
            resolver_advertisement_minimum_initial_duration: ms(5_000),
            resolver_advertisement_sustain_interval: ms(1_000),
            resolver_advertisement_minimum_sustain_duration: ms(60_000),
            resolver_advertisement_quiescent_interval: Duration::ZERO,
            resolver_advertisement_send_immediate_response: true,
            resolver_query_minimum_initial_interval: ms(20),
            resolver_query_maximum_initial_interval: ms(200),
            resolver_query_minimum_initial_duration: ms(5_000),
            resolver_query_sustain_interval: ms(1_000),
            resolver_query_minimum_sustain_duration: ms(60_000),
            resolver_query_quiescent_interval: Duration::ZERO,
            resolution_number_of_sources_query_threshold: 10_000_000,
            resolver_wildcard_query_minimum_interval: ms(50),
            resolver_wildcard_query_maximum_interval: ms(1_000),
            resolver_wildcard_query_minimum_duration: ms(60_000),
            resolver_initial_advertisements_per_second: 1_000,
            resolver_initial_advertisement_bps: 1_000_000,
            resolver_sustain_advertisement_bps: 1_000_000,
            resolver_initial_queries_per_second: 1_000,
            resolver_initial_query_bps: 1_000_000,
            resolver_sustain_query_bps: 1_000_000,
            resolver_cache_maximum: 1 << 20,
            resolver_cache_topic_maximum: 1_000,
            resolver_cache_timeout: ms(600_000),
            resolver_unicast_daemons: Vec::new(),
            resolver_unicast_keepalive_interval: ms(500),
            packet_options: None,
        }
    }
}

impl ResolverConfig {
    /// Checks ranges and relations.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let datagram = u64::from(self.resolver_datagram_max_size);
        in_range("resolver_datagram_max_size", datagram, 500, 65_507)?;
        self.check_advertisements()?;
        self.check_queries()?;
        self.check_limits()
    }

    fn check_advertisements(&self) -> Result<(), ConfigError> {
        let least = self.resolver_advertisement_minimum_initial_interval;
        span_in_range("resolver_advertisement_minimum_initial_interval", least, Duration::from_millis(1))?;
        let most = self.resolver_advertisement_maximum_initial_interval;
        span_in_range("resolver_advertisement_maximum_initial_interval", most, least)?;
        let initial = self.resolver_advertisement_minimum_initial_duration;
        span_in_range("resolver_advertisement_minimum_initial_duration", initial, Duration::ZERO)?;
        let sustain = self.resolver_advertisement_sustain_interval;
        span_in_range("resolver_advertisement_sustain_interval", sustain, Duration::from_millis(1))?;
        let duration = self.resolver_advertisement_minimum_sustain_duration;
        span_in_range("resolver_advertisement_minimum_sustain_duration", duration, Duration::ZERO)?;
        let quiescent = self.resolver_advertisement_quiescent_interval;
        span_in_range("resolver_advertisement_quiescent_interval", quiescent, Duration::ZERO)
    }

    fn check_queries(&self) -> Result<(), ConfigError> {
        let floor = Duration::from_millis(1);
        let least = self.resolver_query_minimum_initial_interval;
        span_in_range("resolver_query_minimum_initial_interval", least, floor)?;
        let most = self.resolver_query_maximum_initial_interval;
        span_in_range("resolver_query_maximum_initial_interval", most, least)?;
        let initial = self.resolver_query_minimum_initial_duration;
        span_in_range("resolver_query_minimum_initial_duration", initial, Duration::ZERO)?;
        span_in_range("resolver_query_sustain_interval", self.resolver_query_sustain_interval, floor)?;
        let duration = self.resolver_query_minimum_sustain_duration;
        span_in_range("resolver_query_minimum_sustain_duration", duration, Duration::ZERO)?;
        let quiescent = self.resolver_query_quiescent_interval;
        span_in_range("resolver_query_quiescent_interval", quiescent, Duration::ZERO)?;
        let least = self.resolver_wildcard_query_minimum_interval;
        span_in_range("resolver_wildcard_query_minimum_interval", least, floor)?;
        let most = self.resolver_wildcard_query_maximum_interval;
        span_in_range("resolver_wildcard_query_maximum_interval", most, least)?;
        let duration = self.resolver_wildcard_query_minimum_duration;
        span_in_range("resolver_wildcard_query_minimum_duration", duration, Duration::ZERO)
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let max = 1_000_000_000_000;
        in_range("resolver_initial_advertisement_bps", self.resolver_initial_advertisement_bps, 0, max)?;
        in_range("resolver_sustain_advertisement_bps", self.resolver_sustain_advertisement_bps, 0, max)?;
        in_range("resolver_initial_query_bps", self.resolver_initial_query_bps, 0, max)?;
        in_range("resolver_sustain_query_bps", self.resolver_sustain_query_bps, 0, max)?;
        in_range("resolver_cache_maximum", u64::from(self.resolver_cache_maximum), 1, 1 << 28)?;
        in_range("resolver_cache_topic_maximum", self.resolver_cache_topic_maximum.into(), 1, 1 << 20)?;
        span_in_range("resolver_cache_timeout", self.resolver_cache_timeout, Duration::ZERO)?;
        let keepalive = self.resolver_unicast_keepalive_interval;
        span_in_range("resolver_unicast_keepalive_interval", keepalive, Duration::from_millis(1))?;
        in_range("resolver_unicast_daemons", self.resolver_unicast_daemons.len() as u64, 0, 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longest_wait_below_the_shortest_is_refused() {
        let config = ResolverConfig {
            resolver_query_maximum_initial_interval: Duration::from_millis(19),
            ..ResolverConfig::default()
        };
        let refused = ConfigError::OutOfRange {
            option: "resolver_query_maximum_initial_interval",
            value: 19_000_000,
            min: 20_000_000,
            max: 86_400_000_000_000,
        };
        assert_eq!(config.check(), Err(refused));
    }
}
