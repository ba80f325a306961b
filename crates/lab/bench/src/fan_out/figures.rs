//! The table of a fan-out: contenders in turns at given rates, or the highest rate of each.

use std::collections::BTreeSet;
use std::time::Duration;

use measure::{Runs, Summaries};
use serde_json::{Value, json};

use super::contender::{Cpus, FanOutContender, LATE, OfServer, Outcome};
use crate::contest;
use crate::report::{self, Report};
use crate::search::{self, Bound, Bounded, Bracket, Found, SearchArgs, Trial};
use crate::{BenchError, RunOptions};

/// What is compared: how each is started.
pub(super) struct Candidate<'a> {
    pub(super) name: String,
    pub(super) start: Box<dyn Fn() -> Result<FanOutContender, BenchError> + 'a>,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        name: &str,
        start: impl Fn() -> Result<FanOutContender, BenchError> + 'a,
    ) -> Candidate<'a> {
        Candidate { name: name.to_owned(), start: Box::new(start) }
    }
}

/// How a fan-out is measured.
pub(super) struct Plan<'a> {
    pub(super) rates: &'a [u64],
    pub(super) bursts: Option<u32>,
    pub(super) options: RunOptions,
    pub(super) search: SearchArgs,
    pub(super) cpus: Cpus,
}

const HEADS: [&str; 9] = [
    "way",
    "updates/s in",
    "updates/s out",
    "server CPU",
    "CPU ns/update out",
    "beside the first",
    "updates/s a CPU",
    "bytes/update",
    "lost",
];

impl Plan<'_> {
    /// The table that [`Plan::compare`] fills.
    pub(super) fn report(&self, title: &'static str) -> Report {
        let searched = if self.search.is_on() { &search::SEARCH_HEADS[..] } else { &[] };
        let heads = [&HEADS[..], &report::LATENCY_HEADS, &["sustained"], searched].concat();
        Report::new(title, self.options.json, &heads)
    }

    /// Measures, and prints what it came to.
    ///
    /// # Errors
    /// A contender could not be started, or has failed, which the table says as well; or two contenders were to deliver
    /// the same and did not.
    pub(super) fn run(
        &self,
        candidates: &[Candidate<'_>],
        notes: Vec<String>,
        mut report: Report,
    ) -> Result<(), BenchError> {
        let failed = if self.search.is_on() {
            self.search_all(candidates, &mut report)?;
            None
        } else {
            self.compare(candidates, &mut report)?
        };
        notes.into_iter().for_each(|note| report.note(note));
        report.note(report::LATENCY_NOTE.to_owned());
        report.note(format!(
            "A rate is sustained if in each run all updates were sent, all have come, and the last one at most {} ms after its \
             time. Else the row says how many were not sent, since a sender two seconds behind gives up, how many were lost, \
             and how late the last one was.",
            LATE.as_millis()
        ));
        if self.search.is_on() {
            report.note(self.search.describe(self.options.runs));
            let cpus: BTreeSet<usize> = self.cpus.servers.iter().chain(&self.cpus.others).copied().collect();
            contest::note_jitter(&mut report, &cpus, self.options)?;
        }
        report.print()?;
        failed.map_or(Ok(()), |name| Err(BenchError::new(format!("{name} has failed: the notes say how"))))
    }

    /// Raises the rate; at each, the contenders take turns. One that does not sustain a rate in any run is left out of
    /// the next ones, as is one that breaks. Returns one that has broken before it has sustained any rate.
    fn compare(
        &self,
        candidates: &[Candidate<'_>],
        report: &mut Report,
    ) -> Result<Option<String>, BenchError> {
        let mut contenders = Vec::new();
        for candidate in candidates {
            report.progress(&format!("{} starts", candidate.name));
            contenders.push(((candidate.start)()?, Figures::default()));
        }
        let (mut failed, mut is_first_rate) = (None, true);
        for rate in self.rates {
            self.round(&mut contenders, *rate, is_first_rate, &mut failed, report)?;
            note_paired(&contenders, *rate, report);
            let first = candidates.first().map_or("", |first| &first.name);
            let of_first = contenders.iter().find(|(contender, _)| contender.name == first);
            let first_ns = of_first.map(|(_, figures)| figures.ns_per_update.median());
            for (contender, figures) in &contenders {
                figures.report(report, &contender.name, *rate as f64, first_ns, None);
            }
            contenders.retain(|(_, figures)| figures.broken.is_none() && figures.sustained > 0);
            contenders.iter_mut().for_each(|(_, figures)| *figures = Figures::default());
            is_first_rate = false;
        }
        Ok(failed)
    }

    /// The runs at one rate.
    fn round(
        &self,
        contenders: &mut [(FanOutContender, Figures)],
        rate: u64,
        is_first_rate: bool,
        failed: &mut Option<String>,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        for run in 0..self.options.runs {
            report.progress(&format!("{rate}/s in, run {} of {}", run + 1, self.options.runs));
            let mut examples: Vec<(String, String)> = Vec::new();
            let taking_part = contenders.iter_mut().filter(|(_, figures)| figures.broken.is_none());
            for (contender, figures) in taking_part {
                match contender.run(self.options.seconds, run, (rate as f64, self.bursts)) {
                    Ok(outcome) => {
                        figures.add(&outcome);
                        examples.extend(outcome.example.map(|example| (contender.name.clone(), example)));
                    }
                    Err(error) => {
                        if is_first_rate {
                            failed.get_or_insert(contender.name.clone());
                        }
                        figures.add(&Outcome::broken(&error));
                        report.note(format!("{} breaks at {rate} updates/s in: {error}", contender.name));
                    }
                }
            }
            check_alike(&examples)?;
        }
        Ok(())
    }

    /// The highest rate of each, one after the other.
    fn search_all(&self, candidates: &[Candidate<'_>], report: &mut Report) -> Result<(), BenchError> {
        let bound = self.search.bound();
        for candidate in candidates {
            let found = self.search_one(candidate, report)?;
            let bracket = found.bracket();
            for (rate, runs) in found.rates() {
                let mut figures = Figures::default();
                runs.iter().for_each(|run| figures.add(&run.trial));
                figures.is_above = runs.iter().any(|run| !run.is_under());
                figures.report(report, &candidate.name, rate, None, Some((bracket, bound)));
            }
        }
        Ok(())
    }

    /// One that fails is not sustained; the next run has new processes.
    fn search_one(
        &self,
        candidate: &Candidate<'_>,
        report: &Report,
    ) -> Result<Found<Bounded<Outcome>>, BenchError> {
        let (bound, seconds) = (self.search.bound(), self.options.seconds);
        report.progress(&format!("{} starts", candidate.name));
        let mut first = (candidate.start)()?;
        // Caches, buffers and routes are warm when it counts.
        first.run(seconds.min(1.0), 0, (self.search.from(), self.bursts))?;
        let (search, mut runs) = (self.search.search(self.options.runs), 0);
        search::highest_of_processes(
            search,
            first,
            || (candidate.start)(),
            |mut present, rate| {
                report.progress(&format!("{}, {rate:.0}/s in", candidate.name));
                runs += 1;
                match present.run(seconds, runs, (rate, self.bursts)) {
                    Ok(trial) => (Bounded { trial, bound }, Some(present)),
                    Err(error) => (Bounded { trial: Outcome::broken(&error), bound }, None),
                }
            },
        )
    }
}

/// What slow readers do to the others, run by run.
fn note_paired(contenders: &[(FanOutContender, Figures)], rate: u64, report: &mut Report) {
    for (beside, of_beside) in contenders.iter().filter(|(contender, _)| contender.slow.is_some()) {
        let Some((alone, of_alone)) =
            contenders.iter().find(|(c, _)| beside.name.starts_with(&c.name) && c.slow.is_none())
        else {
            continue;
        };
        let p99 = |figures: &Figures| figures.latencies.runs(|summary| summary.p99_ns as f64);
        let ratios = p99(of_beside).ratios_to(&p99(of_alone));
        let interval = ratios.interval95();
        let shown = interval.map_or_else(
            || "six runs or more give an interval".to_owned(),
            |(low, high)| format!("{low:.2} to {high:.2} with 95 % confidence"),
        );
        let text = format!(
            "{rate}/s: p99 of {:?} is {:.2} of that of {:?} in the same round (median of paired runs; {shown}).",
            beside.name,
            ratios.median(),
            alone.name
        );
        let object = json!({
            "rate": rate, "way": beside.name, "beside": alone.name, "p99_ratio": ratios.median(),
            "interval95": interval.map(|(low, high)| [low, high]),
        });
        report.note_with(text, object);
    }
}

/// What clients get is the same, whoever sends it.
fn check_alike(examples: &[(String, String)]) -> Result<(), BenchError> {
    let differs = examples.windows(2).find(|pair| pair[0].1 != pair[1].1);
    differs.map_or(Ok(()), |pair| {
        let [(one, update), (other, another)] = [&pair[0], &pair[1]];
        Err(BenchError::new(format!("{one} sends {update}, {other} {another}")))
    })
}

/// Several runs of a contender at one rate.
#[derive(Default)]
struct Figures {
    updates_per_s: Runs,
    load: Runs,
    feeding_load: Runs,
    ns_per_update: Runs,
    bytes_per_update: Runs,
    latencies: Summaries,
    runs: u32,
    sustained: u32,
    /// Of all runs.
    unsent: u64,
    lost: u64,
    /// The latest of all runs.
    late: Duration,
    /// Of each server, by run.
    servers: Vec<Vec<OfServer>>,
    /// A latency is not under the bound of a search.
    is_above: bool,
    /// How a run has failed.
    broken: Option<String>,
}

impl Figures {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        if outcome.broken.is_some() {
            self.broken.clone_from(&outcome.broken);
            return;
        }
        self.updates_per_s.add(outcome.updates_per_s);
        self.load.add(outcome.load);
        self.feeding_load.add(outcome.feeding_load);
        self.ns_per_update.add(outcome.ns_per_update);
        self.bytes_per_update.add(outcome.bytes_per_update);
        self.latencies.add(outcome.latencies.clone());
        self.sustained += u32::from(outcome.is_sustained());
        self.unsent += outcome.count.unsent;
        self.lost += outcome.count.lost;
        self.late = self.late.max(outcome.late);
        self.servers.resize_with(outcome.servers.len(), Vec::new);
        self.servers.iter_mut().zip(&outcome.servers).for_each(|(all, one)| all.push(one.clone()));
    }

    /// Why the rate is not sustained in all runs; none if it is.
    fn fault(&self) -> Option<String> {
        let late = (self.late >= LATE).then(|| format!("{} ms late", self.late.as_millis()));
        let counted = [(self.unsent, "not sent"), (self.lost, "lost")];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let counted = counted.map(|(count, what)| format!("{count} {what}"));
        let above = self.is_above.then(|| "not under the bound".to_owned());
        let faults: Vec<String> =
            self.broken.clone().into_iter().chain(counted).chain(late).chain(above).collect();
        (!faults.is_empty()).then(|| faults.join(", "))
    }

    fn report(
        &self,
        report: &mut Report,
        contender: &str,
        rate: f64,
        first_ns: Option<f64>,
        searched: Option<(Bracket, Option<Bound>)>,
    ) {
        let some = |runs: &Runs, show: &dyn Fn(&Runs) -> String| {
            if runs.median().is_finite() { show(runs) } else { "-".to_owned() }
        };
        let ratio = first_ns.map(|ns| self.ns_per_update.median() / ns).filter(|ratio| ratio.is_finite());
        let a_cpu = 1e9 / self.ns_per_update.median();
        let fault = self.fault();
        let cells = [
            contender.to_owned(),
            format!("{rate:.0}"),
            some(&self.updates_per_s, &|runs| report::spread(runs, report::millions)),
            some(&self.load, &|runs| format!("{:.0} %", runs.median() * 100.0)),
            some(&self.ns_per_update, &|runs| report::spread(runs, report::one_decimal)),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            some(&self.ns_per_update, &|_| report::millions(a_cpu)),
            some(&self.bytes_per_update, &|runs| report::one_decimal(runs.median())),
            self.lost.to_string(),
        ];
        let of = format!("{} of {}", self.sustained, self.runs);
        let sustained = fault.as_ref().map_or_else(|| of.clone(), |fault| format!("{of}: {fault}"));
        let spread =
            |runs: &Runs| some(runs, &|_| String::new()).is_empty().then(|| report::spread_json(runs));
        let mut object = json!({
            "way": contender, "rate": if rate.fract() == 0.0 { json!(rate as u64) } else { json!(rate) },
            "out_per_s": spread(&self.updates_per_s), "server_load": spread(&self.load),
            "feeding_load": spread(&self.feeding_load),
            "ns_per_update": spread(&self.ns_per_update), "ns_to_first": ratio,
            "per_cpu": a_cpu, "bytes_per_update": spread(&self.bytes_per_update),
            "sustained": self.sustained, "runs": self.runs, "is_sustained": fault.is_none(), "fault": fault,
            "lost": self.lost, "unsent": self.unsent, "late_ns": self.late.as_nanos() as u64,
            "servers": self.servers.iter().map(|runs| of_server(runs)).collect::<Vec<Value>>(),
        });
        let mut behind = vec![sustained];
        if let Some((bracket, bound)) = searched {
            behind.extend(bracket.cells());
            bracket.put(&mut object, bound);
        }
        let object = report::latency_json(&self.latencies, object);
        let of_latency = report::latency_cells(&self.latencies, report::micros);
        report.row(cells.into_iter().chain(of_latency).chain(behind), object);
    }
}

/// One server, for programs.
fn of_server(runs: &[OfServer]) -> Value {
    let of = |figure: fn(&OfServer) -> f64| report::spread_json(&runs.iter().map(figure).collect());
    let latencies = runs.iter().map(|run| run.latencies.clone()).collect();
    let object = json!({ "out_per_s": of(|run| run.out_per_s), "load": of(|run| run.load) });
    report::latency_json(&latencies, object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_out::contender::Count;

    #[test]
    fn ways_that_deliver_different_updates_are_no_comparison() {
        let same = |text: &str| {
            [("one", "{}"), ("other", text)].map(|(way, text)| (way.to_owned(), text.to_owned()))
        };
        assert!(check_alike(&same("{}")).is_ok() && check_alike(&[]).is_ok());
        let error = check_alike(&same("[]")).expect_err("they differ").to_string();
        assert_eq!(error, "one sends {}, other []");
    }

    #[test]
    fn a_row_says_why_a_rate_is_not_sustained() {
        let fault = |outcomes: &[Outcome]| {
            let mut figures = Figures::default();
            outcomes.iter().for_each(|outcome| figures.add(outcome));
            (figures.sustained, figures.fault())
        };
        let good = Outcome::default();
        assert_eq!(fault(&[good.clone(), good.clone()]), (2, None));
        let bad = Outcome {
            count: Count { unsent: 5, lost: 7 },
            late: Duration::from_millis(61),
            ..Outcome::default()
        };
        let said = "5 not sent, 7 lost, 61 ms late".to_owned();
        assert_eq!(fault(&[good.clone(), bad]), (1, Some(said)));
        let broken = Outcome::broken(&BenchError::new("a mount was lost"));
        assert_eq!(fault(&[good, broken]), (1, Some("a mount was lost".to_owned())));
    }
}
