//! ETA's codec for Java as a peer: a process that takes turns with this one.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use rwf::Dictionary;
use serde_json::Value;

use super::cases::Case;
use super::work;
use crate::BenchError;
use crate::process::Process;

/// The longest that a round may take.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Rounds before any counts: the machine code of the Java process is then what it stays.
const WARM_ROUNDS: u32 = 20;

/// The peer, past its warm-up.
pub(super) struct Eta(Process);

/// Nanoseconds that a message takes.
pub(super) struct Cost {
    pub(super) decode_ns: f64,
    pub(super) copy_ns: f64,
}

impl Eta {
    /// Starts `java -jar JAR eta-codec`, gives it the messages and warms it up.
    pub(super) fn start(
        jar: &Path,
        cases: &[Case],
        dictionary: &Dictionary,
        count: u32,
    ) -> Result<Eta, BenchError> {
        let args = ["-jar".into(), jar.display().to_string(), "eta-codec".into()];
        let mut process = Process::program("eta-codec", "java", &args)?;
        for field in dictionary.fields() {
            process.tell(&format!("type {} {}", field.id, field.data_type.0))?;
        }
        for case in cases {
            let mut line = format!("case {}", case.name);
            for message in &case.messages {
                line.push(' ');
                message.iter().try_for_each(|byte| write!(line, "{byte:02x}")).expect("writing to a string");
            }
            process.tell(&line)?;
        }
        let mut eta = Eta(process);
        for _ in 0..WARM_ROUNDS {
            cases.iter().try_for_each(|case| eta.round(case, dictionary, count).map(|_| ()))?;
        }
        Ok(eta)
    }

    /// One round: all messages of a case so many times, decoded, and decoded and encoded again.
    ///
    /// Its sums are held against ours, as is the last message it has written.
    pub(super) fn round(
        &mut self,
        case: &Case,
        dictionary: &Dictionary,
        count: u32,
    ) -> Result<Cost, BenchError> {
        self.0.tell(&format!("round {} {count}", case.name))?;
        let answer = self.0.expect("decode_ns", ROUND_LIMIT)?;
        let once = case.messages.iter().try_fold(0u64, |sum, message| {
            work::decode(message, dictionary).map(|more| sum.wrapping_add(more))
        });
        let sum = once.map_err(|error| BenchError::new(error.to_string()))?.wrapping_mul(count.into());
        let last = case.messages.last().map(|message| work::decode(message, dictionary).ok());
        let written = answer["copied"].as_str().and_then(unhex);
        let rewritten = written.map(|message| work::decode(&message, dictionary).ok());
        for told in [&answer["sum"], &answer["copied_sum"]] {
            if told.as_str() != Some(&sum.to_string()) || last != rewritten {
                return Err(BenchError::new(format!("ETA and we read {} differently: {answer}", case.name)));
            }
        }
        let number = |value: &Value| value.as_f64().ok_or_else(|| BenchError::new("no number"));
        Ok(Cost { decode_ns: number(&answer["decode_ns"])?, copy_ns: number(&answer["copy_ns"])? })
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
