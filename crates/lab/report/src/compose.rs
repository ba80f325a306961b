//! A report of runs, laid out as the published ones are.

use measure::run::{Disclosure, RecordedRun, RecordedTable, utc};

use crate::page::{Block, Page, Section, Table};
use crate::scale::number;
use crate::{charts, compare, goals, published};

/// Composes the report of some runs, beside others if there are any.
pub(crate) fn page(title: Option<&str>, runs: &[RecordedRun], before: &[RecordedRun]) -> Page {
    let tables: Vec<&RecordedTable> = tables(runs);
    let mut sections = vec![key_results(&tables), stack(runs), method(runs)];
    sections
        .extend(runs.iter().flat_map(|run| &run.tables).filter(|table| !table.rows.is_empty()).map(results));
    if !before.is_empty() {
        sections.insert(1, compare::section(&tables, &self::tables(before)));
    }
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let hardware = published::hardware(&names);
    if !hardware.rows.is_empty() {
        let mut section = Section::new("Published systems");
        section.text("What stands beside our figures was measured by others, on the hardware of its time.");
        section.table(hardware);
        sections.push(section);
    }
    sections.push(limitations(runs));
    Page { title: title.map_or_else(|| default_title(runs), str::to_owned), sections }
}

fn tables(runs: &[RecordedRun]) -> Vec<&RecordedTable> {
    runs.iter().flat_map(|run| &run.tables).collect()
}

fn default_title(runs: &[RecordedRun]) -> String {
    let Some(first) = runs.first() else { return "Tickcast: nothing measured".to_owned() };
    let day = utc(first.about.began_ns);
    let day = day.split(' ').next().unwrap_or_default();
    format!("Tickcast {} on {}, {day}", first.about.version, first.about.machine.kind())
}

fn key_results(tables: &[&RecordedTable]) -> Section {
    let mut section = Section::new("Key results");
    let (table, others) = goals::verdicts(&goals::all(), tables);
    section.table(table);
    if !others.is_empty() {
        section.text(format!("Not measured in these runs: {}.", others.join("; ")));
    }
    section
}

/// What was measured, on what.
fn stack(runs: &[RecordedRun]) -> Section {
    let mut section = Section::new("Stack under test");
    let mut machines: Vec<&Disclosure> = Vec::new();
    for run in runs {
        if !machines.iter().any(|machine| machine.kind() == run.about.machine.kind()) {
            machines.push(&run.about.machine);
        }
    }
    for machine in machines {
        section.table(disclosed(machine));
        section.table(interfaces(machine));
        section.table(settings(machine));
    }
    section
}

fn disclosed(machine: &Disclosure) -> Table {
    let mut table = Table::new(machine.kind(), &["", ""]);
    let unknown = || "unknown".to_owned();
    let mut say = |name: &str, value: String| table.row([name.to_owned(), value]);
    say("CPUs", format!("{} of {} ({})", machine.cpu_count, machine.cpus_online, machine.cpu));
    say("threads a core", machine.threads_per_core.map_or_else(unknown, |count| count.to_string()));
    say("memory nodes", machine.numa_nodes.map_or_else(unknown, |count| count.to_string()));
    say("caches of the first CPU", machine.caches.join(", "));
    say(
        "memory",
        machine
            .memory_bytes
            .map_or_else(unknown, |bytes| format!("{} GiB", number(bytes as f64 / 1073741824.0))),
    );
    say("hypervisor", if machine.is_virtual { "yes" } else { "no" }.to_owned());
    say("kernel", format!("Linux {}", machine.kernel));
    say("told at boot", machine.boot.join(" "));
    say("frequency governor", machine.governor.clone().unwrap_or_else(|| "none".to_owned()));
    say("clock source", machine.clock_source.clone().unwrap_or_else(unknown));
    say("transparent huge pages", machine.huge_pages.clone().unwrap_or_else(unknown));
    table
}

fn interfaces(machine: &Disclosure) -> Table {
    let mut table = Table::new("Interfaces", &["name", "driver", "MTU", "Mbit/s", "transmit queue"]);
    for interface in &machine.interfaces {
        table.row([
            interface.name.clone(),
            interface.driver.clone().unwrap_or_else(|| "software".to_owned()),
            interface.mtu.to_string(),
            interface.megabits_per_second.map_or("-".to_owned(), |speed| speed.to_string()),
            interface.transmit_queue.to_string(),
        ]);
    }
    table
}

fn settings(machine: &Disclosure) -> Table {
    let mut table = Table::new("Settings of the kernel", &["name", "value"]);
    machine.settings.iter().for_each(|(name, value)| table.row([name.clone(), value.clone()]));
    table
}

fn method(runs: &[RecordedRun]) -> Section {
    let mut section = Section::new("Method");
    section.blocks.push(Block::List(
        [
            "Latency counts from the time a message was meant to be sent: a sender that falls behind shows.",
            "Each end is a process of its own, started anew for each run; what is compared runs in turns.",
            "A figure is the median over the runs. Mean, deviation, shortest and longest are of all messages of all runs.",
            "A rate is sustained if everything came, in time, in every run. One that is not stands in the table, marked so.",
            "Below each table stands what its workload says of itself.",
        ]
        .map(str::to_owned)
        .to_vec(),
    ));
    let heads = ["began", "version", "took s", "ended"];
    let mut table = Table::new("The runs", &[&["workload"][..], &heads].concat());
    for run in runs {
        let about = &run.about;
        let commit = about.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
        let ended = match (&about.error, about.finished) {
            (Some(error), _) => format!("with an error: {error}"),
            (None, true) => "well".to_owned(),
            (None, false) => "interrupted".to_owned(),
        };
        table.row([
            workload(&about.command),
            utc(about.began_ns),
            format!("{}{commit}", about.version),
            about.seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.0}")),
            ended,
        ]);
    }
    section.table(table);
    section.text("The same again:");
    section.blocks.push(Block::Commands(runs.iter().map(|run| command(&run.about.command)).collect()));
    section
}

/// The command as a user would type it: the program by its name, without the directory of the run.
fn command(words: &[String]) -> String {
    let mut shown = Vec::new();
    let mut words = words.iter();
    if let Some(program) = words.next() {
        shown.push(program.rsplit('/').next().unwrap_or(program).to_owned());
    }
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with("--out=") {
            let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=.,:/+%@".contains(c));
            shown.push(if is_plain && !word.is_empty() {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            });
        }
    }
    shown.join(" ")
}

fn workload(words: &[String]) -> String {
    let mut words = words.iter().skip_while(|word| *word != "bench").skip(1);
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with('-') {
            return word.clone();
        }
    }
    "unknown".to_owned()
}

/// A workload: its table, its charts, published figures, what it says of itself.
fn results(table: &RecordedTable) -> Section {
    let mut section = Section::new(table.name.clone());
    let rows = table.rows.iter().map(|row| row.cells.clone()).collect();
    section.table(Table { caption: String::new(), heads: table.heads.clone(), rows });
    if !table.notes.is_empty() {
        section.blocks.push(Block::List(table.notes.clone()));
    }
    section.blocks.extend(charts::of(table).into_iter().map(Block::Chart));
    published::beside(table).into_iter().for_each(|table| section.table(table));
    section
}

fn limitations(runs: &[RecordedRun]) -> Section {
    let mut section = Section::new("Limitations");
    let mut said = Vec::new();
    let kinds = |run: &RecordedRun| run.about.machine.kind();
    if let Some(first) = runs.first()
        && runs.iter().any(|run| kinds(run) != kinds(first))
    {
        said.push("The runs are of different machines. Compare figures only within a table.".to_owned());
    }
    if runs.iter().any(|run| run.about.machine.is_virtual) {
        said.push(
            "A hypervisor lies below the kernel and may take a CPU away at any time. The longest times are then the machine's: \
             compare them with the gaps that the notes name."
                .to_owned(),
        );
    }
    for run in runs {
        let of = workload(&run.about.command);
        let counted = |name: &str| run.about.counted.get(name).copied().unwrap_or(0);
        let steal = counted("cpu.steal_ticks");
        if steal > 0 {
            said.push(format!(
                "{of}: the hypervisor took {:.2} s of CPU time while it ran.",
                steal as f64 / 100.0
            ));
        }
        for (name, what) in [
            (
                "udp.RcvbufErrors",
                "datagrams were dropped by full socket buffers, by all programs of the machine",
            ),
            ("softnet.dropped", "packets were dropped by the kernel before any socket"),
        ] {
            if counted(name) > 0 {
                said.push(format!("{of}: {} {what}.", number(counted(name) as f64)));
            }
        }
        if !run.about.finished {
            said.push(format!("{of}: it was interrupted; its table has what it came to."));
        }
    }
    said.push("All ends ran on one host, unless a note says otherwise: no network card and no switch is in these figures.".to_owned());
    section.blocks.push(Block::List(said));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        let long =
            words("/home/user/tickcast bench --out /tmp/x pingpong --sizes 64,128 --set a.b=c --out=/y");
        assert_eq!(command(&long), "tickcast bench pingpong --sizes 64,128 --set a.b=c");
        assert_eq!(workload(&long), "pingpong");
        assert_eq!((command(&[]), workload(&[])), (String::new(), "unknown".to_owned()));
        assert_eq!(command(&["t".to_owned(), "it's; rm".to_owned()]), "t 'it'\\''s; rm'");
    }

    #[test]
    fn a_report_says_what_is_missing_from_it() {
        let mut run = RecordedRun::default();
        run.about.machine.is_virtual = true;
        run.about.counted.insert("udp.RcvbufErrors".to_owned(), 7);
        let page = page(None, &[run], &[]);
        let limits = page.sections.last().expect("the last section");
        let Block::List(said) = &limits.blocks[0] else { panic!("{limits:?}") };
        for what in ["hypervisor", "7 datagrams were dropped", "interrupted", "one host"] {
            assert!(said.iter().any(|line| line.contains(what)), "{what}: {said:?}");
        }
    }
}
