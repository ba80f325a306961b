use std::fmt;

use net::timekeeping::{
    Discipline, KernelClock, available_clock_sources, clock_source, ptp_clocks, tsc_is_invariant, why_no_tsc,
};
use serde::Serialize;

/// The clocks of this host and how they are kept: what a report says of the times in it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Clocks {
    /// Whether the processor says that its TSC has one rate and never stops.
    pub tsc_is_invariant: bool,
    /// Why it is no clock here all the same; none if it is one.
    pub why_no_tsc: Option<String>,
    /// What the kernel makes its clocks of, and what else it could.
    pub clock_source: String,
    pub available_clock_sources: Vec<String>,
    /// Nanoseconds on each clock, read one after the other.
    pub monotonic_ns: u64,
    pub monotonic_raw_ns: u64,
    pub realtime_ns: u64,
    pub tai_ns: u64,
    /// Of TAI before UTC as the kernel was told, seconds; 0 if it was not.
    pub tai_offset_s: i32,
    /// Whether an NTP or PTP daemon keeps the clock of the system.
    pub is_synchronised: bool,
    /// What that estimates its error to be, and the most that it can be, microseconds.
    pub estimated_error_us: u64,
    pub maximum_error_us: u64,
    /// Correction of the clock's rate, parts per million.
    pub frequency_ppm: f64,
    /// Hardware clocks for PTP: the device, and what its driver calls it.
    pub ptp_clocks: Vec<(String, String)>,
}

impl Clocks {
    /// Of this host, now.
    #[must_use]
    pub fn this() -> Clocks {
        let kept = Discipline::now().unwrap_or_default();
        Clocks {
            tsc_is_invariant: tsc_is_invariant(),
            why_no_tsc: why_no_tsc(),
            clock_source: clock_source(),
            available_clock_sources: available_clock_sources(),
            monotonic_ns: KernelClock::Monotonic.now_ns(),
            monotonic_raw_ns: KernelClock::MonotonicRaw.now_ns(),
            realtime_ns: KernelClock::Realtime.now_ns(),
            tai_ns: KernelClock::Tai.now_ns(),
            tai_offset_s: kept.tai_offset_s,
            is_synchronised: kept.is_synchronised,
            estimated_error_us: kept.estimated_error_us,
            maximum_error_us: kept.maximum_error_us,
            frequency_ppm: kept.frequency as f64 / 65_536.0,
            ptp_clocks: ptp_clocks(),
        }
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clock source {} (of {})", self.clock_source, self.available_clock_sources.join(", "))?;
        match &self.why_no_tsc {
            None => write!(f, ", TSC invariant and used")?,
            Some(why) => write!(f, ", no TSC: {why}")?,
        }
        if self.is_synchronised {
            let (estimated, most) = (self.estimated_error_us, self.maximum_error_us);
            write!(f, "; kept by NTP or PTP, error {estimated} us estimated, {most} us at most")?;
            write!(f, ", rate {:+.3} ppm", self.frequency_ppm)?;
        } else {
            write!(f, "; not kept by NTP or PTP")?;
        }
        if self.tai_offset_s != 0 {
            write!(f, "; TAI {} s before UTC", self.tai_offset_s)?;
        }
        match &self.ptp_clocks[..] {
            [] => write!(f, "; no PTP clock"),
            clocks => {
                let names: Vec<String> =
                    clocks.iter().map(|(device, name)| format!("{device} ({name})")).collect();
                write!(f, "; PTP clocks {}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_the_host_has() {
        let mut clocks = Clocks::this();
        assert!(
            clocks.monotonic_ns > 0
                && clocks.realtime_ns > 0
                && clocks.tai_ns > 0
                && clocks.monotonic_raw_ns > 0
        );
        clocks.clock_source = "tsc".to_owned();
        clocks.why_no_tsc = None;
        clocks.is_synchronised = false;
        clocks.ptp_clocks = vec![("ptp0".to_owned(), "mlx5".to_owned())];
        let text = clocks.to_string();
        assert!(
            text.starts_with("clock source tsc (of ") && text.contains("TSC invariant and used"),
            "{text}"
        );
        assert!(
            text.contains("not kept by NTP or PTP") && text.ends_with("PTP clocks ptp0 (mlx5)"),
            "{text}"
        );
        clocks.why_no_tsc = Some("it stops".to_owned());
        (clocks.is_synchronised, clocks.maximum_error_us, clocks.frequency_ppm) = (true, 1_500, -1.25);
        let text = clocks.to_string();
        assert!(
            text.contains("no TSC: it stops") && text.contains("1500 us at most, rate -1.250 ppm"),
            "{text}"
        );
    }
}
