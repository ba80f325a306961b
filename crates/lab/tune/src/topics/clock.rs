use super::{Topic, of};
use crate::facts::Facts;
use crate::finding::Finding;

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "clock-source",
        why: "each time stamp reads it, some without entering the kernel",
        story: "Reading `tsc` takes some 20 ns, and the clocks of virtual machines (kvm-clock, hyperv) little more. `hpet` \
                and `acpi_pm` take a microsecond. If tsc is available and not used, the kernel has found it unstable: \
                `apply` changes it only if you name it.",
        reports: "LBM used timing cards on the PCI bus, right within 2 us.",
        judge: |facts| {
            of(&facts.clock.source, |source| {
                let has_tsc =
                    facts.clock.sources.as_ref().is_ok_and(|all| all.split(' ').any(|one| one == "tsc"));
                match source.as_str() {
                    "hpet" | "acpi_pm" | "jiffies" if has_tsc => {
                        let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
                        Finding::advice(source, "tsc")
                            .change(crate::change::Setting::file(file), "tsc")
                            .command(format!("echo tsc > {file}"))
                            .permanent("clocksource=tsc on the kernel's command line")
                            .by_name()
                    }
                    source => Finding::fine(source),
                }
            })
        },
    },
    Topic {
        name: "clock-sync",
        why: "times of two hosts compare no better than their clocks",
        story: "One-way latencies between hosts need clocks that agree: PTP with hardware stamps agrees within 1 us, NTP \
                in a LAN within some 100 us. Without either, measure round trips.",
        reports: "LBM: within 2 us between hosts. The RMDS reports had both ends on one host and turned clock discipline \
                  off while they measured.",
        judge: clock_sync,
    },
];

fn clock_sync(facts: &Facts) -> Vec<Finding> {
    let daemons = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "timemaster"];
    let running: Vec<&str> = daemons.into_iter().filter(|name| facts.process.runs(name)).collect();
    let running = if running.is_empty() { "nobody".to_owned() } else { running.join(", ") };
    let ptp = facts.clock.ptp_devices.len();
    of(&facts.clock.discipline, |state| {
        let more = format!("disciplined by {running}; {ptp} PTP clocks");
        match state.is_synchronised {
            true => {
                let (error, estimate) = (state.maximum_error_us, state.estimated_error_us);
                Finding::fine(format!("within {error} us, by estimate {estimate} us; {more}"))
            }
            false => {
                Finding::advice(format!("not synchronised; {more}"), "PTP, or NTP, for times across hosts")
                    .permanent("install and configure chrony, or linuxptp where cards have clocks")
            }
        }
    })
}
