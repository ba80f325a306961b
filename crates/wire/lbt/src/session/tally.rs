//! Which counters of a receiver move, where that takes more than one line.

use crate::config::ns;
use crate::error::{Part, WireError};
use counters::Counter;
use counters::table::ReliableReceiver;
use std::time::Duration;

/// A missing datagram arrived: `took` after it was found missing and was NAKed `naks` times.
pub(super) fn repaired(c: &ReliableReceiver, took: Duration, naks: u16, recovered: bool) {
    if !recovered {
        return c.out_of_order.inc();
    }
    let first = c.recovered.get() == 0;
    c.recovered.inc();
    let (took, naks) = (ns(took), u64::from(naks));
    lower(&c.nak_stm_min, took, first);
    blend(&c.nak_stm_mean, took, first);
    c.nak_stm_max.raise(took);
    lower(&c.nak_tx_min, naks, first);
    blend(&c.nak_tx_mean_thousandths, naks * 1_000, first);
    c.nak_tx_max.raise(naks);
}

/// A datagram arrived whose number is not missing.
pub(super) fn unwanted(c: &ReliableReceiver, before_start: bool) {
    if before_start { c.before_start.inc() } else { c.duplicate_data.inc() }
}

/// A datagram was dropped.
#[cold]
pub(crate) fn dropped(c: &ReliableReceiver, error: &WireError) {
    let counter = match error {
        WireError::Unsupported { part: Part::LbtrmVersion | Part::LbtruVersion, .. } => {
            &c.dgrams_dropped_version
        }
        WireError::Unsupported { part: Part::LbtrmType | Part::LbtruType, .. } => &c.dgrams_dropped_type,
        WireError::Unauthentic { .. } | WireError::Truncated { part: Part::Authentication, .. } => {
            &c.dgrams_unauthentic
        }
        WireError::NotEncrypted => &c.dgrams_not_encrypted,
        WireError::NoPayloadKeys => &c.dgrams_no_payload_key,
        WireError::Undeciphered { .. } => &c.dgrams_undeciphered,
        WireError::Inconsistent { .. } => &c.dgrams_dropped_other,
        WireError::Truncated { part, .. } if !is_lbmc(*part) => &c.dgrams_dropped_size,
        _ => &c.dgrams_dropped_hdr,
    };
    counter.inc();
}

fn is_lbmc(part: Part) -> bool {
    matches!(part, Part::LbmcMessage | Part::LbmcHeader | Part::Fragment)
}

fn lower(gauge: &Counter, value: u64, first: bool) {
    if first || value < gauge.get() {
        gauge.set(value);
    }
}

/// Moves a mean an eighth of the way to the value.
fn blend(gauge: &Counter, value: u64, first: bool) {
    let mean = gauge.get();
    gauge.set(if first { value } else { mean - mean / 8 + value / 8 });
}
