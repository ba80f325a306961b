use std::path::PathBuf;
use std::time::Duration;

use config::Complaint;
use tracing_subscriber::EnvFilter;

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
        /// "warn,tickcast_p2ps=debug". The variable TICKCAST_LOG counts more. Without either it is info, for the demo
        /// warn.
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
        match self.level.as_ref().map(EnvFilter::try_new) {
            Some(Err(error)) => Err(vec![Complaint::new(["level"], error.to_string())]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_not_understood_is_a_fault_of_the_configuration() {
        let load = |text: &str| config::Loader::new::<LogConfig>().file("log.toml", text).load();
        assert!(load("level = \"warn,tickcast_p2ps=debug\"\n").is_ok());
        let faults = load("level = \"p2ps=loud\"\n").expect_err("there is no such level").to_string();
        assert!(faults.contains("level"), "{faults}");
    }
}
