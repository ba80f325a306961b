use std::path::PathBuf;
use std::time::Duration;

use config::Complaint;
config::choice! {
    /// The form of the lines of a log.
    pub enum LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object a line, for programs.
        Json = "json",
    }
}

config::section! {
    /// The log of a daemon: what is logged, in which form, and where it goes. SIGHUP reopens the file and puts
    /// `level` and `file` in force (docs/operating.md).
    pub struct LogConfig {
        /// What is logged: error, warn, info, debug, trace or off, in all or for parts of the program:
        /// "warn,tickcast_p2ps=debug". Of parts that are not named only what is said in all is logged. The variable
        /// TICKCAST_LOG counts more. Without either it is info, for the demo warn.
        level: Option<String> = None, length 1..=4096;
        /// The form of the lines.
        format: LogFormat = LogFormat::Text;
        /// The file that lines are appended to; standard error if it is not set.
        file: Option<String> = None, length 1..=4096;
        /// Most memory for lines that are not written yet; further lines are lost and counted.
        queue_bytes: u32 = 4_194_304, range 65_536..=1_073_741_824;
        /// Most lines of one place in the program in each interval; further ones are left out, counted, and
        /// reported when the interval is over.
        repeats_max: u32 = 100, range 1..=1_000_000;
        /// That interval.
        repeats_interval_ms: u32 = 10_000, range 100..=3_600_000;
    }
    check = LogConfig::check;
}

impl LogConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        match self.level.as_deref().map(check_level) {
            Some(Err(fault)) => Err(vec![Complaint::new(["level"], fault)]),
            _ => Ok(()),
        }
    }

    pub(super) fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(PathBuf::from)
    }

    pub(super) fn repeats_interval(&self) -> Duration {
        Duration::from_millis(self.repeats_interval_ms.into())
    }
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Whether a text says what is logged; if not, what is wrong and what is allowed. The filter itself takes any word for
/// a part of the program of which everything is logged, and then logs nothing of the others.
pub(super) fn check_level(text: &str) -> Result<(), String> {
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_part = |word: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        !word.is_empty() && word.bytes().all(legal)
    };
    let is_legal = |one: &str| match one.split_once('=') {
        None => is_level(one),
        Some((part, level)) => is_part(part) && is_level(level),
    };
    match text.split(',').map(str::trim).find(|one| !is_legal(one)) {
        None => Ok(()),
        Some(wrong) => Err(format!(
            "`{wrong}` is not understood: a level is one of {}; or say PART=LEVEL, several with commas between them",
            LEVELS.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_not_understood_is_a_fault_of_the_configuration() {
        let load = |text: &str| {
            let text = format!("level = \"{text}\"\n");
            config::Loader::new::<LogConfig>().file("log.toml", text).load().map_err(|e| e.to_string())
        };
        for level in ["info", "OFF", "warn,tickcast_p2ps=debug", "tickcast::log=trace, error"] {
            assert!(load(level).is_ok(), "{level}");
        }
        for (level, wrong) in [
            ("loud", "`loud`"),
            ("p2ps=loud", "`p2ps=loud`"),
            ("info,tickcast_p2ps", "`tickcast_p2ps`"),
            ("info,", "``"),
            (" ", "``"),
            ("7", "`7`"),
            ("[span]=info", "`[span]=info`"),
            ("=info", "`=info`"),
        ] {
            let faults = load(level).expect_err("there is no such level");
            assert!(faults.contains("level") && faults.contains(wrong), "{faults}");
            assert!(faults.contains("one of error, warn, info, debug, trace, off"), "{faults}");
        }
    }

    /// Whatever is let through means to the filter what it says.
    #[test]
    fn the_filter_understands_each_level() {
        for level in LEVELS {
            let filter = tracing_subscriber::EnvFilter::try_new(format!("{level},a::b_1={level}"));
            let said = filter.expect("legal").to_string();
            assert!(said.contains(&format!("a::b_1={level}")), "{said}");
        }
    }
}
