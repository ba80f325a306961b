use units::{Nanos, Sqn};

/// Version of both layouts; others are not read.
const VERSION: u8 = 1;
/// Bytes of a [`Pulse`].
pub const PULSE_LEN: usize = 16;
/// Bytes of a [`Report`].
pub const REPORT_LEN: usize = 36;
/// Flag of a pulse: a receiver governs.
const FLAG_GOVERNED: u8 = 1;

/// What a source says with a session message.
///
/// `version u8 = 1, flags u8 (1: a receiver governs), governor's loss u16 in 65,536ths, governor u32,
/// sent_at u64 nanoseconds of the source's clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// The receiver that governs the rate, and its smoothed loss in 65,536ths.
    pub governor: Option<(u32, u16)>,
    /// When the session message was made, by the source's clock.
    pub sent_at: Nanos,
}

impl Pulse {
    /// The bytes on the wire.
    #[must_use]
    pub fn emit(&self) -> [u8; PULSE_LEN] {
        let (id, loss) = self.governor.unwrap_or_default();
        let flags = if self.governor.is_some() { FLAG_GOVERNED } else { 0 };
        let mut out = [0; PULSE_LEN];
        out[..2].copy_from_slice(&[VERSION, flags]);
        out[2..4].copy_from_slice(&loss.to_be_bytes());
        out[4..8].copy_from_slice(&id.to_be_bytes());
        out[8..].copy_from_slice(&self.sent_at.0.to_be_bytes());
        out
    }

    /// Reads a pulse; `None` for another version or length.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Pulse> {
        let bytes: &[u8; PULSE_LEN] = bytes.try_into().ok()?;
        let &[VERSION, flags, l0, l1, i0, i1, i2, i3, ref clock @ ..] = bytes else { return None };
        let governor = (u32::from_be_bytes([i0, i1, i2, i3]), u16::from_be_bytes([l0, l1]));
        let sent_at = Nanos(u64::from_be_bytes(*clock));
        Some(Pulse { governor: (flags & FLAG_GOVERNED != 0).then_some(governor), sent_at })
    }
}

/// What a receiver reports of the numbers `first` to before `end`.
///
/// `version u8 = 1, flags u8 = 0, loss u16 in 65,536ths, receiver u32, pulse u32, held u32, first u32,
/// end u32, lost u32, span u32, delay u32`; times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Smoothed share of datagrams that were missing, in 65,536ths.
    pub loss: u16,
    /// Drawn by the receiver.
    pub receiver: u32,
    /// Number of the session message with the last pulse.
    pub pulse: u32,
    /// Time from that pulse to this report, microseconds.
    pub held_us: u32,
    /// First number that the report speaks of.
    pub first: Sqn,
    /// The number after the last.
    pub end: Sqn,
    /// How many of them were found missing.
    pub lost: u32,
    /// Time in which they came, microseconds.
    pub span_us: u32,
    /// How much longer than the shortest time seen the pulses of the span took, microseconds: the least.
    pub delay_us: u32,
}

impl Report {
    /// The bytes on the wire.
    #[must_use]
    pub fn emit(&self) -> [u8; REPORT_LEN] {
        let mut out = [0; REPORT_LEN];
        out[0] = VERSION;
        out[2..4].copy_from_slice(&self.loss.to_be_bytes());
        let words = [
            self.receiver,
            self.pulse,
            self.held_us,
            self.first.0,
            self.end.0,
            self.lost,
            self.span_us,
            self.delay_us,
        ];
        for (place, word) in out[4..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        out
    }

    /// Reads a report; `None` for another version or length, or more numbers lost than there were.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Report> {
        let bytes: &[u8; REPORT_LEN] = bytes.try_into().ok()?;
        let &[VERSION, _, l0, l1, ref rest @ ..] = bytes else { return None };
        let mut words = rest.as_chunks::<4>().0.iter().map(|b| u32::from_be_bytes(*b));
        let mut word = || words.next().unwrap_or_default();
        let report = Report {
            loss: u16::from_be_bytes([l0, l1]),
            receiver: word(),
            pulse: word(),
            held_us: word(),
            first: Sqn(word()),
            end: Sqn(word()),
            lost: word(),
            span_us: word(),
            delay_us: word(),
        };
        (report.lost <= report.count()).then_some(report)
    }

    /// How many numbers it speaks of.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.end.0.wrapping_sub(self.first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_and_reports_read_back_and_other_versions_and_lengths_do_not() {
        for governor in [None, Some((7, 300))] {
            let pulse = Pulse { governor, sent_at: Nanos(u64::MAX - 1) };
            let bytes = pulse.emit();
            assert_eq!(Pulse::parse(&bytes), Some(pulse));
            assert_eq!(Pulse::parse(&bytes[1..]), None);
            let mut other = bytes;
            other[0] = 2;
            assert_eq!(Pulse::parse(&other), None);
        }
        let report = Report {
            loss: 1,
            receiver: 2,
            pulse: 3,
            held_us: 4,
            first: Sqn(u32::MAX),
            end: Sqn(9),
            lost: 10,
            span_us: 7,
            delay_us: 8,
        };
        let bytes = report.emit();
        assert_eq!(Report::parse(&bytes), Some(report));
        assert_eq!(Report::parse(&bytes[..REPORT_LEN - 1]), None);
        assert_eq!(Report::parse(&Report { lost: 11, ..report }.emit()), None, "more lost than sent");
    }
}
