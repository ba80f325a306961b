//! `[messaging.resolver]`: topic resolution.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::config::ResolverConfig;

use super::StaticSource;
use crate::MessagingConfig;

config::section! {
    /// Topic resolution: how sources and receivers find each other.
    pub struct TopicResolutionConfig {
        /// Group of topic resolution.
        multicast_address: Ipv4Addr = Ipv4Addr::new(224, 9, 10, 11);
        /// UDP port of topic resolution.
        multicast_port: u16 = 12965, range 1..=65535;
        /// File of the keys with which topic resolution is signed and checked, as those of the transports
        /// (`messaging.lbtrm.authentication_key_file`); then only what is signed is believed. All contexts of a network
        /// have it, and its unicast resolvers.
        authentication_key_file: Option<String> = None, length 1..=4_096;
        /// How far the time at which a datagram of topic resolution was signed may be from now: as far as clocks may
        /// differ, and as long as a datagram can be replayed.
        authentication_window_us: u64 = 60_000_000, range 1_000_000..=3_600_000_000;
        /// Sources that are known without topic resolution: `TOPIC = SOURCE STRING`, the field's, with the
        /// topic index, and for LBT-RM on two networks `+` and the source's address on network B. Such topics
        /// are not asked for.
        static_source: Vec<StaticSource> = [], length 0..=1_000;
        /// Unicast resolvers (`tickcast resolver`), for networks without multicast; with them topic
        /// resolution uses no multicast.
        unicast_daemon: Vec<SocketAddrV4> = [], length 0..=16;
        /// Lowest UDP port at which a context hears unicast resolvers.
        unicast_port_low: u16 = 14402, range 1..=65535;
        /// Highest UDP port at which a context hears unicast resolvers.
        unicast_port_high: u16 = 14406, range 1..=65535;
        /// Time between signs of life to unicast resolvers.
        unicast_keepalive_interval_us: u64 = 500_000, range 1_000..=60_000_000;
        /// Time between advertisements of a source, after some at its begin and a minute of one a second, for
        /// ever; 0 for none, as the field does it, so that who heard none before must ask.
        advertisement_quiescent_interval_us: u64 = 10_000_000, range 0..=86_400_000_000;
        /// The same for queries; six times as long for patterns and for topics of which a source is known.
        query_quiescent_interval_us: u64 = 10_000_000, range 0..=86_400_000_000;
        /// Advertisements that are new, and answers, per second; 0 for no limit.
        initial_advertisements_per_second: u32 = 25_000;
        /// The same in bits per second; 0 for no limit.
        initial_advertisement_bits_per_second: u64 = 20_000_000, range 0..=1_000_000_000_000;
        /// Further advertisements, and what others ask everybody to repeat; 0 for no limit.
        sustain_advertisement_bits_per_second: u64 = 5_000_000, range 0..=1_000_000_000_000;
        /// Queries that are new per second; 0 for no limit.
        initial_queries_per_second: u32 = 25_000;
        /// The same in bits per second; 0 for no limit.
        initial_query_bits_per_second: u64 = 10_000_000, range 0..=1_000_000_000_000;
        /// Further queries; 0 for no limit.
        sustain_query_bits_per_second: u64 = 1_000_000, range 0..=1_000_000_000_000;
        /// Most sources remembered, of all topics heard, some 350 bytes each. Where there is no room, those of
        /// topics that no receiver here wants leave first, and of these what was heard longest ago.
        cache_maximum: u32 = 1_048_576, range 1..=268_435_456;
        /// Most sources remembered of one topic.
        cache_topic_maximum: u32 = 1_000, range 1..=1_048_576;
        /// A source that was not heard of for so long is forgotten, and its topic asked for again; 0 for
        /// never. What is received of it goes on.
        cache_timeout_us: u64 = 600_000_000, range 0..=86_400_000_000;
    }
}

impl TopicResolutionConfig {
    pub(crate) fn authentication_window(&self) -> Duration {
        Duration::from_micros(self.authentication_window_us)
    }
}

impl MessagingConfig {
    /// What topic resolution goes by.
    #[must_use]
    pub fn resolver(&self) -> ResolverConfig {
        let us = Duration::from_micros;
        let own = &self.resolver;
        ResolverConfig {
            resolver_advertisement_quiescent_interval: us(own.advertisement_quiescent_interval_us),
            resolver_query_quiescent_interval: us(own.query_quiescent_interval_us),
            resolver_initial_advertisements_per_second: own.initial_advertisements_per_second,
            resolver_initial_advertisement_bps: own.initial_advertisement_bits_per_second,
            resolver_sustain_advertisement_bps: own.sustain_advertisement_bits_per_second,
            resolver_initial_queries_per_second: own.initial_queries_per_second,
            resolver_initial_query_bps: own.initial_query_bits_per_second,
            resolver_sustain_query_bps: own.sustain_query_bits_per_second,
            resolver_cache_maximum: own.cache_maximum,
            resolver_cache_topic_maximum: own.cache_topic_maximum,
            resolver_cache_timeout: us(own.cache_timeout_us),
            resolver_unicast_daemons: own.unicast_daemon.clone(),
            resolver_unicast_keepalive_interval: us(own.unicast_keepalive_interval_us),
            ..ResolverConfig::default()
        }
    }
}
