//! What the user of a workload sets of `[messaging]`: a preset, a file, single keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use config::{Faults, Loaded, Loader, Origin};
use messaging::MessagingConfig;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::report::Report;

/// Settings of our library in a workload. What is compared with it takes none of them but the length of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Values of the messaging library for one purpose; --config and --set stand over it.
    #[arg(long, value_name = "NAME", value_parser = ["latency", "throughput"])]
    preset: Option<String>,
    /// A file with a section [messaging], such as `examples/lbm-2009.toml`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A key of [messaging], such as `lbtrm.ignore_interval_us=15000`. May be repeated; stands over the file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

config::section! {
    /// The file of a workload's ends.
    struct EndConfig {
        /// The messaging library.
        messaging: MessagingConfig;
    }
}

/// What each end sets itself: with other values the ends would not find each other, or would not spin.
const OWN_KEYS: [&str; 20] = [
    "interface",
    "interface_b",
    "wait",
    "ttl",
    "counters_directory",
    "request_tcp_port_low",
    "request_tcp_port_high",
    "lbtrm.carrier",
    "lbtrm.af_xdp_mode",
    "lbtrm.multicast_address",
    "lbtrm.multicast_address_low",
    "lbtrm.multicast_address_high",
    "lbtrm.destination_port",
    "lbtrm.source_port_low",
    "lbtrm.source_port_high",
    "source_static_session",
    "lbtru.port_low",
    "lbtru.port_high",
    "lbtru.receiver_port_low",
    "lbtru.receiver_port_high",
];

/// The same of a section: the ends of a run find each other, and nobody else.
const OWN_SECTION: &str = "resolver.";

/// Longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Settings {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Settings::default()
    }

    /// Looks at them before anything is started, and notes what of the file does not count: [`OWN_KEYS`], and those that
    /// this workload sets too.
    ///
    /// # Errors
    /// A key or value is wrong, keys do not go together, or one of the workload's own is set.
    pub(crate) fn check(&self, report: &mut Report, more_own: &[&'static str]) -> Result<(), BenchError> {
        if self.is_empty() {
            return Ok(());
        }
        let loaded = self.load(&[])?;
        let mut unused = Vec::new();
        for (key, origin) in loaded.origins.iter() {
            let Some(key) = key.strip_prefix("messaging.") else { continue };
            if !OWN_KEYS.iter().chain(more_own).any(|own| *own == key) && !key.starts_with(OWN_SECTION) {
                continue;
            }
            match origin {
                Origin::Flag => {
                    return Err(BenchError::new(format!(
                        "--set {key}: the workload sets this key itself, for each end"
                    )));
                }
                Origin::File { .. } => unused.push(key.to_owned()),
                _ => {}
            }
        }
        report.note(format!("Tickcast with {}", self.told()));
        if !unused.is_empty() {
            report.note(format!("The workload sets itself, not by the file: {}", unused.join(", ")));
        }
        loaded.value.messaging.derived().into_iter().for_each(|note| report.note(note));
        Ok(())
    }

    /// As the words of a command.
    pub(crate) fn words(&self) -> Vec<String> {
        let word = |key: &str, value: String| [key.to_owned(), value];
        let preset = self.preset.iter().map(|name| word("--preset", name.clone()));
        let file = self.config.iter().map(|file| word("--config", file.display().to_string()));
        let sets = self.sets.iter().map(|set| word("--set", set.clone()));
        preset.chain(file).chain(sets).flatten().collect()
    }

    fn told(&self) -> String {
        let preset = self.preset.iter().map(|name| format!("preset {name}"));
        let file = self.config.iter().map(|file| file.display().to_string());
        preset.chain(file).chain(self.sets.iter().cloned()).collect::<Vec<_>>().join(", ")
    }

    /// Longest UDP payload of a datagram, if they set it.
    pub(crate) fn datagram(&self) -> Result<Option<u32>, BenchError> {
        let loaded = self.load(&[])?;
        let is_set = *loaded.origins.of("messaging.lbtrm.datagram_max_size_bytes") != Origin::Default;
        Ok(is_set.then_some(loaded.value.messaging.lbtrm.datagram_max_size_bytes))
    }

    /// These over `standard`, each `KEY=VALUE` without `messaging.`, which counts where they do not set its key.
    pub(crate) fn over(&self, standard: &[String]) -> Result<MessagingConfig, BenchError> {
        let origins = self.load(&[])?.origins;
        let is_open = |assignment: &&String| {
            let key = assignment.split_once('=').map_or(assignment.as_str(), |(key, _)| key);
            *origins.of(&format!("messaging.{key}")) == Origin::Default
        };
        let more: Vec<&String> = standard.iter().filter(is_open).collect();
        Ok(self.load(&more)?.value.messaging)
    }

    fn load(&self, more: &[&String]) -> Result<Loaded<EndConfig>, BenchError> {
        let mut loader = Loader::new::<EndConfig>();
        if let Some(file) = &self.config {
            loader = loader.file(file.display().to_string(), read(file)?);
        }
        if let Some(preset) = &self.preset {
            loader = loader.set(format!("messaging.preset={preset}"));
        }
        for assignment in self.sets.iter().chain(more.iter().copied()) {
            let key = assignment.strip_prefix("messaging.").unwrap_or(assignment);
            loader = loader.set(format!("messaging.{key}"));
        }
        loader.load().map_err(|faults: Faults| BenchError::new(faults.to_string()))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, BenchError> {
    net::small_file::read(file, FILE_BYTES_MAX)
        .map_err(|error| BenchError::new(format!("--config {}: {error}", file.display())))
}

/// As one word for the process of an end.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Settings {
    type Err = serde_json::Error;

    fn from_str(word: &str) -> Result<Settings, serde_json::Error> {
        if word.is_empty() { Ok(Settings::default()) } else { serde_json::from_str(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/lbm-2009.toml"))
    }

    fn sets(sets: &[&str]) -> Settings {
        Settings { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Settings::default() }
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_settings_of_2009_count_as_they_stand() {
        let settings = Settings { config: Some(example()), ..Settings::default() };
        let standard = words(&[
            "lbtrm.receiver_socket_buffer_bytes=67108864",
            "lbtrm.data_rate_limit_bits_per_second=0",
        ]);
        let config = settings.over(&standard).expect("they go together");
        assert_eq!((config.lbtrm.ignore_interval_us, config.lbtrm.nak_backoff_us()), (15_000, 30_000));
        assert_eq!(config.lbtrm.receiver_socket_buffer_bytes, 8_388_608);
        assert_eq!(
            (config.lbtrm.data_rate_limit_bits_per_second, config.implicit_batching_minimum_length_bytes),
            (0, 1)
        );
        assert_eq!(settings.datagram().expect("it is there"), Some(1_472));
        let mut report = Report::new("test", false, &["way"]);
        settings.check(&mut report, &[]).expect("nothing of it is the workload's own");
    }

    #[test]
    fn settings_travel_as_one_word() {
        let settings = Settings {
            preset: Some("latency".to_owned()),
            config: Some(PathBuf::from("a b.toml")),
            sets: words(&["lbtrm.ignore_interval_us=1000"]),
        };
        assert_eq!(settings.to_string().parse::<Settings>().expect("its own word"), settings);
        assert_eq!("".parse::<Settings>().expect("none"), Settings::default());
        assert!("{".parse::<Settings>().is_err());
    }

    #[test]
    fn a_preset_stands_over_the_standard_and_single_keys_over_the_preset() {
        let preset = Settings { preset: Some("throughput".to_owned()), ..Settings::default() };
        let standard = words(&["lbtrm.data_rate_limit_bits_per_second=0", "linger_us=7"]);
        let config = preset.over(&standard).expect("sound");
        assert_eq!((config.lbtrm.data_rate_limit_bits_per_second, config.linger_us), (8_000_000_000, 7));
        assert_eq!(preset.datagram().expect("sound"), Some(8_972));
        let both = Settings { sets: words(&["messaging.lbtrm.datagram_max_size_bytes=2000"]), ..preset };
        assert_eq!(both.datagram().expect("sound"), Some(2_000));
        assert_eq!(Settings::default().datagram().expect("sound"), None);
    }

    #[test]
    fn what_is_wrong_or_the_workload_s_own_is_refused_with_its_name() {
        let mut report = Report::new("test", false, &["way"]);
        let mut fault =
            |settings: Settings| settings.check(&mut report, &[]).expect_err("a fault").to_string();
        assert!(fault(sets(&["lbtrm.destination_port=1"])).contains("--set lbtrm.destination_port"));
        assert!(fault(sets(&["resolver.multicast_port=1"])).contains("--set resolver.multicast_port"));
        assert!(fault(sets(&["lbtrm.ignore_interval=1"])).contains("ignore_interval_us"));
        let none = Settings { config: Some(PathBuf::from("/nonexistent/x.toml")), ..Settings::default() };
        assert!(fault(none).contains("--config /nonexistent/x.toml"));
    }

    #[test]
    fn every_key_of_the_workload_is_one_of_the_section() {
        use config::Section as _;
        for key in OWN_KEYS {
            assert!(MessagingConfig::schema().at(key).is_some(), "{key}");
        }
    }
}
