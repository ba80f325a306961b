//! What the machine does to a spinning thread.

use std::time::Duration;

use clap::Args;
use measure::Placement;
use serde_json::json;

use crate::report::Report;
use crate::{BenchError, RunOptions, probe};

#[derive(Debug, Args)]
pub struct JitterArgs {
    #[command(flatten)]
    options: RunOptions,
    /// CPUs to watch, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cpus: Vec<usize>,
}

pub(crate) fn run(args: &JitterArgs) -> Result<(), BenchError> {
    let heads = ["CPU", "gaps/s over 1 us", "10 us", "100 us", "1 ms", "longest us"];
    let mut report = Report::new("jitter", args.options.json, &heads);
    for cpu in &args.cpus {
        report.progress(&format!("CPU {cpu}"));
        let jitter = probe::jitter(*cpu, Duration::from_secs_f64(args.options.seconds))?;
        let rates = [jitter.over_1us, jitter.over_10us, jitter.over_100us, jitter.over_1ms];
        let rates = rates.map(|count| format!("{:.1}", jitter.per_second(count)));
        let longest = crate::report::micros(jitter.longest_ns as f64);
        let cells = [cpu.to_string()].into_iter().chain(rates).chain([longest]);
        report.row(cells, json!({ "cpu": cpu, "jitter": jitter }));
    }
    if let Ok(cpus) = crate::options::two_cpus(&args.cpus) {
        let seen: Result<Vec<Placement>, BenchError> =
            (0..args.options.runs).map(|_| probe::placement(cpus)).collect();
        if let Some(placement) = seen?.into_iter().reduce(Placement::and) {
            let text = format!("CPUs {} and {} are {placement}.", cpus[0], cpus[1]);
            report.note_with(text, json!({ "cpus": cpus, "placement": placement }));
        }
    }
    report.print()
}
