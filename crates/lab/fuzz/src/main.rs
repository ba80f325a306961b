//! Runs fuzz targets on the stable tool chain, and carries inputs to and from other fuzzers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io};

use tickcast_fuzz::{Finding, Run, TARGETS, Target, find};

const USAGE: &str = "usage:
  tickcast-fuzz list                         targets, their longest inputs, what each promises
  tickcast-fuzz run TARGET|all [RUNS [SEED]] so many random executions of each (1000000) from a seed (1)
  tickcast-fuzz unpack TARGET DIRECTORY      seeds as files, for libFuzzer
  tickcast-fuzz line TARGET FILE NAME        an input as a line for the target's file of seeds";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["list"] => {
            TARGETS.iter().for_each(|target| {
                println!("{:20} {:5}  {}", target.name, target.longest_bytes, target.about)
            });
            Ok(())
        }
        ["run", name] => run(name, "1000000", "1"),
        ["run", name, runs] => run(name, runs, "1"),
        ["run", name, runs, seed] => run(name, runs, seed),
        ["unpack", name, directory] => unpack(name, Path::new(directory)),
        ["line", name, file, title] => line(name, Path::new(file), title),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, runs: &str, seed: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let (runs, seed) = (number(runs)?, number(seed)?);
    let targets: Vec<&Target> = match name {
        "all" => TARGETS.iter().collect(),
        name => vec![target(name)?],
    };
    targets.into_iter().try_for_each(|target| {
        let repeat = format!("cargo run --profile ci -p tickcast-fuzz -- run {} {runs} {seed}", target.name);
        run_target(target, runs, seed).map_err(|found| format!("{}\nrepeat with: {repeat}", told(&found)))
    })
}

fn run_target(target: &Target, runs: u64, seed: u64) -> Result<(), Finding> {
    let start = Instant::now();
    let mut run = Run::new(target, seed)?;
    // Memory is compared from where buffers and kept inputs have their size.
    let warm = runs / 10;
    let mut warm_bytes = 0;
    for done in 0..runs {
        run.step()?;
        if done == warm {
            warm_bytes = resident_bytes();
        }
    }
    let (accepted, refused) = run.counts();
    let grown_kib = resident_bytes().saturating_sub(warm_bytes) >> 10;
    println!(
        "{:20} seed {seed}: {runs} executions, {:.0}/s, {accepted} accepted, {refused} refused, {} kinds of \
         outcome, memory {grown_kib} KiB more after the first tenth",
        target.name,
        runs as f64 / start.elapsed().as_secs_f64(),
        run.feature_count(),
    );
    Ok(())
}

fn told(found: &Finding) -> String {
    let mut text =
        format!("FOUND in {}: {}\ninput of {} bytes: ", found.target, found.said, found.input.len());
    text.push_str(&hex(&found.input));
    text
}

fn unpack(name: &str, directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| at(directory, &error))?;
    for (number, seed) in target(name)?.seeds().iter().enumerate() {
        let file = directory.join(format!("seed-{number:03}"));
        fs::write(&file, &seed.bytes).map_err(|error| at(&file, &error))?;
    }
    Ok(())
}

fn line(name: &str, file: &Path, title: &str) -> Result<(), String> {
    let input = fs::read(file).map_err(|error| at(file, &error))?;
    let sign = if target(name)?.execute(&input).accepted { '+' } else { '-' };
    let digits = if input.is_empty() { ".".to_owned() } else { hex(&input) };
    println!("{sign} {digits} {title}");
    Ok(())
}

fn target(name: &str) -> Result<&'static Target, String> {
    find(name).ok_or_else(|| format!("no target {name}; `tickcast-fuzz list` names them"))
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// Bytes of memory this process has, 0 where the system does not say.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * PAGE_BYTES
}
