//! From when until when certificates are valid.
//!
//! rustls looks at the dates of what peers show, and not at those of what a side itself is to show: every peer would
//! refuse it. The dates are read from the certificate's DER here, since neither rustls nor webpki give them out.
//! `certificate_dates` of the fuzz targets and the tests below hold this against any bytes.

use std::fmt;
use std::path::Path;

use rustls_pki_types::CertificateDer;

use super::TlsError;
use crate::clock;

/// A time of the wall clock, in seconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// The present time.
    #[must_use]
    pub fn now() -> UnixSeconds {
        UnixSeconds((clock::wall_ns() / 1_000_000_000) as i64)
    }
}

impl fmt::Display for UnixSeconds {
    /// As `2026-12-31 23:59:59 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Seconds of a day.
const DAY: i64 = 86_400;

/// When a certificate, or each of a chain, is valid: from the one time to the other, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: UnixSeconds,
    /// Not after.
    pub until: UnixSeconds,
}

impl Validity {
    /// What a certificate in DER says; `None` if it is none.
    #[must_use]
    pub fn of_certificate(der: &[u8]) -> Option<Validity> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (signed, _) = element(certificate, SEQUENCE)?;
        // The version may be left out.
        let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
        let (_, rest) = element(rest, INTEGER)?;
        let (_, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (from, rest) = time(validity)?;
        let (until, _) = time(rest)?;
        Some(Validity { from, until })
    }

    /// When all of a chain are valid at once; `None` if none of them says when it is.
    pub(super) fn of_chain(chain: &[CertificateDer<'_>]) -> Option<Validity> {
        let each = chain.iter().filter_map(|certificate| Validity::of_certificate(certificate));
        each.reduce(|a, b| Validity { from: a.from.max(b.from), until: a.until.min(b.until) })
    }

    /// Whether it holds at a time.
    #[must_use]
    pub fn holds(&self, now: UnixSeconds) -> bool {
        (self.from..=self.until).contains(&now)
    }
}

/// Whether what a file holds is valid at a time. What does not say when it is counts as valid.
pub(super) fn check_dates(file: &Path, validity: Option<Validity>, now: UnixSeconds) -> Result<(), TlsError> {
    match validity.filter(|validity| !validity.holds(now)) {
        None => Ok(()),
        Some(validity) => Err(TlsError::Dates { file: file.to_owned(), validity, now }),
    }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The content of an element with this tag at the beginning of `bytes`, and what is behind it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first().filter(|_| *found == tag)?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A time at the beginning of `bytes`, and what is behind it. Both forms end with seconds and a Z in certificates.
fn time(bytes: &[u8]) -> Option<(UnixSeconds, &[u8])> {
    let ((digits, rest), year_digits) = match element(bytes, UTC_TIME) {
        Some(found) => (found, 2),
        None => (element(bytes, GENERALIZED_TIME)?, 4),
    };
    let digits = digits.strip_suffix(b"Z").filter(|digits| digits.len() == year_digits + 10)?;
    let (year, fields) = digits.split_at(year_digits);
    let year = match (number(year)?, year_digits) {
        (year, 4) => year,
        (year @ 0..50, _) => year + 2000,
        (year, _) => year + 1900,
    };
    let mut fields = fields.chunks(2).map(number);
    let mut field = |allowed: std::ops::RangeInclusive<i64>| fields.next()?.filter(|n| allowed.contains(n));
    let (month, day) = (field(1..=12)?, field(1..=31)?);
    let (hour, minute, second) = (field(0..=23)?, field(0..=59)?, field(0..=59)?);
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some((UnixSeconds(seconds), rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Days from the beginning of 1970 to a date: years begin in March, so that leap days are at their ends.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date so many days after the beginning of 1970: year, month, day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::super::pem::certificates;
    use super::*;

    fn fixture() -> Vec<u8> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls/server.pem");
        certificates(&file).expect("it is there")[0].to_vec()
    }

    /// A certificate that holds nothing but what comes before its dates, and these.
    fn dated(from: &[u8], until: &[u8], has_version: bool) -> Vec<u8> {
        let wrapped = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).expect("short").to_be_bytes();
            [&[tag, 0x82], &length[..], content].concat()
        };
        let version = if has_version { wrapped(VERSION, &wrapped(INTEGER, &[2])) } else { Vec::new() };
        let validity = wrapped(SEQUENCE, &[from, until].concat());
        let (serial, empty) = (wrapped(INTEGER, &[1]), wrapped(SEQUENCE, &[]));
        wrapped(SEQUENCE, &wrapped(SEQUENCE, &[version, serial, empty.clone(), empty, validity].concat()))
    }

    fn text(tag: u8, text: &str) -> Vec<u8> {
        [&[tag, text.len() as u8], text.as_bytes()].concat()
    }

    #[test]
    fn the_dates_of_a_certificate_are_read() {
        let validity = Validity::of_certificate(&fixture()).expect("a certificate");
        let said = format!("{} {}", validity.from, validity.until);
        assert_eq!(said, "2020-01-01 00:00:00 UTC 2120-01-01 00:00:00 UTC");
        for has_version in [false, true] {
            let (from, until) = (text(UTC_TIME, "500101000000Z"), text(GENERALIZED_TIME, "20491231235959Z"));
            let validity = Validity::of_certificate(&dated(&from, &until, has_version)).expect("whole");
            assert_eq!(validity.from, UnixSeconds(-631_152_000), "1950");
            assert_eq!(validity.until.to_string(), "2049-12-31 23:59:59 UTC");
            assert!(validity.holds(validity.from) && validity.holds(validity.until));
            assert!(!validity.holds(UnixSeconds(validity.until.0 + 1)));
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        let good = text(UTC_TIME, "260101000000Z");
        for wrong in [
            "",
            "Z",
            "260101000000",
            "26010100000Z",
            "260101000000+",
            "261301000000Z",
            "260100000000Z",
            "260101240000Z",
            "260101006000Z",
            "260101000060Z",
            "2601010000aaZ",
            "20260101000000Z",
        ] {
            let wrong = text(UTC_TIME, wrong);
            assert_eq!(Validity::of_certificate(&dated(&wrong, &good, true)), None, "{wrong:?}");
            assert_eq!(Validity::of_certificate(&dated(&good, &wrong, true)), None, "{wrong:?}");
        }
        assert_eq!(Validity::of_certificate(&dated(&good, &[], true)), None);
    }

    #[test]
    fn any_part_of_a_certificate_and_any_flip_in_it_is_read_to_its_end_or_is_none() {
        let whole = fixture();
        for length in 0..whole.len() {
            assert_eq!(Validity::of_certificate(&whole[..length]), None, "{length}");
        }
        let mut flipped = whole.clone();
        for at in 0..whole.len() {
            for bit in 0..8 {
                flipped[at] ^= 1 << bit;
                // Dates are printed whatever they are.
                Validity::of_certificate(&flipped).map(|v| format!("{}{}", v.from, v.until));
                flipped[at] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn days_and_dates_are_the_same_over_eight_hundred_years() {
        let mut expected = (1600, 1, 1);
        for day in days(1600, 1, 1)..days(2400, 1, 1) {
            assert_eq!((civil(day), days(expected.0, expected.1, expected.2)), (expected, day));
            let is_leap = expected.0 % 4 == 0 && (expected.0 % 100 != 0 || expected.0 % 400 == 0);
            let length = match expected.1 {
                2 => 28 + i64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected.2 += 1;
            if expected.2 > length {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
        assert_eq!(days(1970, 1, 1), 0);
    }
}
