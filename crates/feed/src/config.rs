use std::fmt;
use std::str::FromStr;

use client::{ProviderConfig, ProviderServiceConfig};
use config::Complaint;

config::section! {
    /// The feed: plays a recorded market and publishes it at a source distributor.
    pub struct FeedConfig {
        /// Recordings to play together, in the order of their receive times; plain or compressed with zstd.
        files: Vec<String> = [], length 0..=256;
        /// How fast: 1 keeps the recording's timing, 10 is ten times as fast, max does not wait at all.
        speed: Speed = Speed::RECORDED;
        /// Whether the recording begins again at its end. If not, its final images stay published.
        #[key = "loop"]
        repeat: bool = false;
        /// Wait between the publication of the first, blank images and the start of the replay.
        start_delay_ms: u32 = 0, range 0..=3_600_000;
        /// Name of the service.
        service: String = "BINANCE", length 1..=255;
        /// Number of the service in the feed's messages.
        service_id: u16 = 1, range 0..=65_535;
        /// Who the data comes from, as the directory says it.
        vendor: String = "Binance", length 0..=255;
        /// The connection to the source distributor.
        provider: ProviderConfig;
    }
    check = FeedConfig::check;
}

impl FeedConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut complaints = Vec::new();
        if !self.provider.services.is_empty() {
            let text = "the feed publishes one service, which feed.service names";
            complaints.push(Complaint::new(["provider.service"], text));
        }
        if !self.provider.keep_images {
            let text = "the feed relies on kept images when the source distributor comes back";
            complaints.push(Complaint::new(["provider.keep_images"], text));
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// The provider with the feed's service.
    pub(crate) fn provider(&self) -> ProviderConfig {
        let service = ProviderServiceConfig {
            name: self.service.clone(),
            id: self.service_id,
            vendor: (!self.vendor.is_empty()).then(|| self.vendor.clone()),
            domains: vec![rwf::Domain::MARKET_PRICE.0, rwf::Domain::MARKET_BY_PRICE.0],
            ..ProviderServiceConfig::default()
        };
        ProviderConfig { services: vec![service], ..self.provider.clone() }
    }
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the source distributor takes it.
    Max,
    /// So many times as fast as it was recorded; more than zero, at most [`Speed::FACTOR_MAX`].
    Times(f64),
}

impl Speed {
    /// As it was recorded.
    pub const RECORDED: Speed = Speed::Times(1.0);
    /// The greatest factor.
    pub const FACTOR_MAX: f64 = 1_000_000.0;
    /// The least factor.
    pub const FACTOR_MIN: f64 = 0.001;
}

/// A text that is no [`Speed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedError;

impl fmt::Display for SpeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "either max or a factor from {} to {}", Speed::FACTOR_MIN, Speed::FACTOR_MAX)
    }
}

impl std::error::Error for SpeedError {}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Speed, SpeedError> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let factor = text.parse::<f64>().map_err(|_| SpeedError)?;
        let is_allowed = (Speed::FACTOR_MIN..=Speed::FACTOR_MAX).contains(&factor);
        if is_allowed { Ok(Speed::Times(factor)) } else { Err(SpeedError) }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Max => f.write_str("max"),
            Speed::Times(factor) => factor.fmt(f),
        }
    }
}

config::text_type!(Speed, "a speed", "speed", example "10");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<FeedConfig>(), Vec::<String>::new());
    }

    #[test]
    fn speeds_are_read_and_shown_alike_and_others_refused() {
        for text in ["max", "1", "10", "0.5", "1000000"] {
            assert_eq!(text.parse::<Speed>().expect("a speed").to_string(), text);
        }
        for text in ["", "0", "-1", "NaN", "inf", "1e7", "fast"] {
            assert_eq!(text.parse::<Speed>(), Err(SpeedError), "{text}");
        }
    }

    #[test]
    fn what_the_feed_decides_itself_is_refused_in_the_file() {
        let file = "[provider]\nkeep_images = false\n[[provider.service]]\nname = \"X\"\n";
        let faults = config::Loader::new::<FeedConfig>().file("f.toml", file).load().expect_err("two faults");
        let text = faults.to_string();
        assert!(text.contains("feed.service names") && text.contains("relies on kept images"), "{text}");
    }
}
