use std::fmt;
use std::str::FromStr;

use client::{ProviderConfig, ProviderServiceConfig};
use daemon::ThreadConfig;

config::section! {
    /// The feed: plays a recorded market and publishes it at a source distributor.
    pub struct FeedConfig {
        /// Recordings to play together, in the order of their receive times; plain or compressed with zstd.
        files: Vec<String> = [], length 0..=256;
        /// How fast, a number from 0.001 to 1000000 or "max": 1 keeps the recording's timing, 10 is ten times
        /// as fast, "max" does not wait at all.
        speed: Speed = Speed::RECORDED;
        /// Whether the recording begins again at its end. If not, its final images stay published.
        #[key = "loop"]
        repeat: bool = false;
        /// Wait between the publication of the first, blank images and the start of the replay.
        start_delay_ms: u32 = 0, range 0..=3_600_000;
        /// Name of the service. No longer, because the name of its topic on the backbone, `tickcast.service.NAME`,
        /// has 255 bytes at most.
        service: String = "BINANCE", length 1..=238;
        /// Number of the service in the feed's messages.
        service_id: u16 = 1, range 0..=65_535;
        /// Who the data comes from, as the directory says it.
        vendor: String = "Binance", length 0..=255;
        /// The connection to the source distributor.
        provider: ProviderConfig, without DECIDED_BY_THE_FEED;
        /// The thread. It sleeps until the next message of the recording is due.
        thread: ThreadConfig, without ["wait"];
    }
}

/// The feed publishes one service, which `feed.service` names, and relies on kept images when the source
/// distributor comes back.
const DECIDED_BY_THE_FEED: [&str; 2] = ["service", "keep_images"];

impl FeedConfig {
    /// The provider with the feed's service.
    pub(crate) fn provider(&self) -> ProviderConfig {
        let service = ProviderServiceConfig {
            name: self.service.clone(),
            id: self.service_id,
            vendor: (!self.vendor.is_empty()).then(|| self.vendor.clone()),
            domains: vec![rwf::Domain::MARKET_PRICE.0, rwf::Domain::MARKET_BY_PRICE.0],
            ..ProviderServiceConfig::default()
        };
        ProviderConfig { services: vec![service], keep_images: true, ..self.provider.clone() }
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

config::text_type!(Speed, "a speed", "speed", example "10" or number);

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

    fn load(file: &str) -> Result<config::Loaded<FeedConfig>, config::Faults> {
        config::Loader::new::<FeedConfig>().file("f.toml", file).load()
    }

    #[test]
    fn a_speed_is_a_number_or_a_text_in_the_file() {
        for (text, speed) in [
            ("10", Speed::Times(10.0)),
            ("0.5", Speed::Times(0.5)),
            ("1e2", Speed::Times(100.0)),
            ("\"0.5\"", Speed::Times(0.5)),
            ("\"max\"", Speed::Max),
        ] {
            let loaded = load(&format!("speed = {text}")).unwrap_or_else(|faults| panic!("{faults}"));
            assert_eq!(loaded.value.speed, speed, "{text}");
            let again = load(&loaded.show()).unwrap_or_else(|faults| panic!("{faults}"));
            assert_eq!(again.value, loaded.value, "{text}");
        }
        assert_eq!(load("").expect("the defaults").value.speed, Speed::RECORDED);
    }

    #[test]
    fn another_speed_is_refused_with_the_range_that_is_allowed() {
        for (text, found) in [
            ("0", "the integer 0"),
            ("-1", "the integer -1"),
            ("1000001", "the integer 1000001"),
            ("1e7", "the number 10000000.0"),
            ("inf", "the number inf"),
            ("\"fast\"", "the string \"fast\""),
        ] {
            let message = load(&format!("speed = {text}")).expect_err(text).to_string();
            let expected = format!("is {found}; either max or a factor from 0.001 to 1000000");
            assert!(message.contains(&expected), "{text}: {message}");
        }
        let message = load("speed = true").expect_err("no speed").to_string();
        assert!(message.contains("must be a speed such as 10, is true"), "{message}");
    }

    #[test]
    fn what_the_feed_decides_itself_is_not_in_the_file_and_not_on_the_page() {
        let faults = load("[provider]\nkeep_images = false\n[[provider.service]]\nname = \"X\"\n");
        let text = faults.expect_err("two faults").to_string();
        assert!(text.contains("unknown key `keep_images` in [provider]"), "{text}");
        assert!(text.contains("`service` in [provider]"), "{text}");
        let page = config::reference::<FeedConfig>();
        assert!(page.contains("`reconnect_delay_max_ms`"), "{page}");
        assert!(!page.contains("keep_images") && !page.contains("provider.service"), "{page}");
        let defaults = load("").expect("the defaults");
        for shown in [defaults.show(), defaults.json()] {
            assert!(!shown.contains("keep_images") && shown.contains("backlog_max_bytes"), "{shown}");
        }
        let provider = defaults.value.provider();
        assert!(provider.keep_images && provider.services.len() == 1);
    }
}
