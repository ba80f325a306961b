//! What both commands have alike: values of the command line, the stop, what goes wrong.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::item_list::{ITEMS_MAX, NAME_BYTES_MAX};
use crate::xml::FileFault;

/// Longest that anything may be told to take.
const SECONDS_MAX: f64 = 1e7;

/// Why a command ended without success.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestToolError {
    /// Values that do not go together.
    Usage(String),
    /// A file is wrong.
    File(FileFault),
    /// The system refuses something, a port for example.
    Io(io::Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The run has failed: why.
    Failed(String),
}

impl fmt::Display for TestToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestToolError::Usage(text) | TestToolError::Failed(text) => f.write_str(text),
            TestToolError::File(fault) => fault.fmt(f),
            TestToolError::Io(error) => error.fmt(f),
            TestToolError::Output(error) => write!(f, "standard output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for TestToolError {}

impl From<FileFault> for TestToolError {
    fn from(fault: FileFault) -> Self {
        TestToolError::File(fault)
    }
}

impl From<io::Error> for TestToolError {
    fn from(error: io::Error) -> Self {
        TestToolError::Io(error)
    }
}

/// The name of a service.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.len() {
        1..=NAME_BYTES_MAX => Ok(text.to_owned()),
        length => Err(format!("{length} bytes, 1 to {NAME_BYTES_MAX} allowed")),
    }
}

/// A number of items.
pub(crate) fn item_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=ITEMS_MAX).contains(count));
    count.ok_or_else(|| format!("not a number from 1 to {ITEMS_MAX}"))
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.0)
}

/// The time from one report to the next.
pub(crate) fn interval(text: &str) -> Result<f64, String> {
    within(text, 0.1)
}

fn within(text: &str, least: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (least..=SECONDS_MAX).contains(number));
    number.ok_or_else(|| format!("not a number of seconds from {least} to {SECONDS_MAX}"))
}

/// A time that was checked to be in range.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Runs the thread on a CPU, if one is named.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), TestToolError> {
    let Some(cpu) = cpu else { return Ok(()) };
    net::affinity::pin_to_cpu(cpu)
        .map_err(|error| TestToolError::Usage(format!("CPU {cpu} cannot be had: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_within_their_ranges_which_errors_name() {
        assert_eq!((seconds("0"), interval("0.1")), (Ok(0.0), Ok(0.1)));
        for (result, named) in [
            (seconds("-1"), "from 0 to"),
            (seconds("nan"), "from 0 to"),
            (interval("0"), "from 0.1 to"),
            (item_count("0").map(|_| 0.0), "from 1 to 1000000"),
            (name("").map(|_| 0.0), "1 to 255 allowed"),
        ] {
            assert!(result.is_err_and(|error| error.contains(named)), "{named}");
        }
    }
}
