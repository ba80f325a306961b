//! All cells of a published matrix of messaging, one after the other: shapes, datagrams, sizes, rates.

use std::path::Path as File;

use clap::Args;

use crate::own::Settings;
use crate::pair::Path;
use crate::steps::{self, Step};
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct MatrixArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Workloads.
    #[arg(long, value_delimiter = ',', default_values = ["messaging-1-1", "messaging-3-3"],
        value_parser = ["messaging-1-1", "messaging-3-3"])]
    shapes: Vec<String>,
    /// By what the messages travel.
    #[arg(long, default_value_t = Path::Multicast)]
    path: Path,
    /// Bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 256, 512, 1024],
        value_parser = crate::options::message_size())]
    sizes: Vec<u32>,
    /// Longest UDP payloads of a datagram.
    #[arg(long, value_delimiter = ',', default_values_t = [1472, 8972], value_parser = crate::options::datagram_size())]
    datagrams: Vec<u32>,
    /// Messages a second of each source.
    #[arg(long, value_delimiter = ',', default_values_t = [25_000, 50_000, 100_000, 125_000],
        value_parser = clap::value_parser!(u64).range(1..=300_000_000))]
    rates: Vec<u64>,
    /// CPUs of the senders and of the receivers; with six, three-to-three has one for each end.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_values_t = [0, 1])]
    cpus: Vec<usize>,
    #[command(flatten)]
    settings: Settings,
}

impl MatrixArgs {
    /// A step for each shape, datagram and size, with all rates.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for shape in &self.shapes {
            for datagram in &self.datagrams {
                let fits = self.sizes.iter().filter(|size| **size <= *datagram);
                steps.extend(fits.map(|size| self.step(shape, *datagram, *size)));
            }
        }
        steps
    }

    fn step(&self, shape: &str, datagram: u32, size: u32) -> Step {
        let is_three = shape == "messaging-3-3";
        // Rates of a workload are of all its sources.
        let rates = self.rates.iter().map(|rate| (if is_three { rate * 3 } else { *rate }).to_string());
        let cpus = match &self.cpus[..] {
            // The first sender, and the first receiver.
            cpus @ [first, ..] if !is_three => vec![*first, cpus[cpus.len() / 2]],
            cpus => cpus.to_vec(),
        };
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        Step::new(1.0, &[shape])
            .named(format!("{shape}-{size:05}-in-{datagram:05}"))
            .with("--path", Some(self.path.to_string()))
            .with("--sizes", Some(size.to_string()))
            .with("--datagram", Some(datagram.to_string()))
            .with("--rates", Some(rates.collect::<Vec<_>>().join(",")))
            .with("--cpus", Some(cpus.join(",")))
            .and(self.settings.words())
    }
}

/// Runs them; with `out` each has a directory in it, and what is whole there is not measured again.
pub(crate) fn run(args: &MatrixArgs, out: Option<&File>) -> Result<(), BenchError> {
    steps::run(&args.steps(), args.options, out)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        matrix: MatrixArgs,
    }

    fn args(words: &[&str]) -> MatrixArgs {
        Program::try_parse_from([&["matrix"], words].concat()).expect("known words").matrix
    }

    #[test]
    fn the_steps_are_all_combinations_that_fit_a_datagram() {
        assert_eq!(args(&[]).steps().len(), 2 * 2 * 5);
        let few = args(&[
            "--sizes",
            "64,1024",
            "--datagrams",
            "1000,1472",
            "--rates",
            "10,20",
            "--cpus",
            "0,1,2,3,4,5",
        ]);
        let steps = few.steps();
        let names: Vec<&str> = steps.iter().map(Step::name).collect();
        let of = ["00064-in-01000", "00064-in-01472", "01024-in-01472"];
        let all =
            ["messaging-1-1", "messaging-3-3"].map(|shape| of.map(|cell| format!("{shape}-{cell}"))).concat();
        assert_eq!(names, all);
        let words = |step: &Step| step.words(few.options, None).join(" ");
        assert!(words(&steps[0]).contains("--rates 10,20 --cpus 0,3"), "{}", words(&steps[0]));
        assert!(words(&steps[5]).contains("--rates 30,60 --cpus 0,1,2,3,4,5"), "{}", words(&steps[5]));
    }
}
