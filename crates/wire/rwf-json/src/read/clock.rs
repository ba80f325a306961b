//! Dates and times as text, parts of which may be missing.

use rwf::{Date, DateTime, Time};

const MONTHS: [&[u8; 3]; 12] =
    [b"JAN", b"FEB", b"MAR", b"APR", b"MAY", b"JUN", b"JUL", b"AUG", b"SEP", b"OCT", b"NOV", b"DEC"];

/// `2018-04-06`, `2018-04`, `2018`, `2018--06`, `--04-06`, `--04`, `----06`, `06 APR 2018`.
pub(super) fn date(text: &[u8]) -> Option<Date> {
    if text.contains(&b' ') {
        return date_of_words(text);
    }
    let (year, rest) = match text.strip_prefix(b"--") {
        Some(rest) => (0, rest),
        None => {
            let length = text.iter().position(|byte| *byte == b'-').unwrap_or(text.len());
            let year = digits(&text[..length], 4..=5, 65535)?;
            match &text[length..] {
                [] => return Some(Date { day: 0, month: 0, year }),
                [_, rest @ ..] => (year, rest),
            }
        }
    };
    let (month, day) = match rest {
        [b'-', b'-', day @ ..] if year == 0 => (0, day_of_month(day)?),
        [b'-', day @ ..] if year != 0 => (0, day_of_month(day)?),
        [month @ .., b'-', tens, ones] => (month_of_year(month)?, day_of_month(&[*tens, *ones])?),
        month => (month_of_year(month)?, 0),
    };
    Some(Date { day, month, year })
}

fn date_of_words(text: &[u8]) -> Option<Date> {
    let mut words = text.split(|byte| *byte == b' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(&name[..]))? as u8 + 1;
    let date = Date { day: digits(day, 1..=2, 31)? as u8, month, year: digits(year, 4..=5, 65535)? };
    (date.day > 0 && words.next().is_none()).then_some(date)
}

fn month_of_year(text: &[u8]) -> Option<u8> {
    digits(text, 2..=2, 12).filter(|month| *month > 0).map(|month| month as u8)
}

fn day_of_month(text: &[u8]) -> Option<u8> {
    digits(text, 2..=2, 31).filter(|day| *day > 0).map(|day| day as u8)
}

/// `15:37:31.123456789`, `15:37`, `15`, `15:37:31:123:456:789`, each with a `Z` behind it or not. As in RWF,
/// an hour with a minute has no seconds rather than unknown ones.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    let mut parts = text.split(|byte| *byte == b':');
    let hour = digits(parts.next()?, 1..=2, 23)? as u8;
    let Some(minute) = parts.next() else { return Some(Time { hour, ..Time::BLANK }) };
    let minute = digits(minute, 2..=2, 59)? as u8;
    let Some(second) = parts.next() else { return Some(Time::new(hour, minute, 0)) };
    let whole = second.iter().position(|byte| *byte == b'.').unwrap_or(second.len());
    let time = Time::new(hour, minute, digits(&second[..whole], 2..=2, 60)? as u8);
    match second.get(whole + 1..) {
        Some(decimals) if parts.next().is_none() => fraction(decimals, time),
        Some(_) => None,
        None => thousandths(parts, time),
    }
}

/// One to nine decimals of a second.
fn fraction(decimals: &[u8], time: Time) -> Option<Time> {
    if !(1..=9).contains(&decimals.len()) || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = decimals.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanos = places.fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    Some(Time {
        millisecond: (nanos / 1_000_000) as u16,
        microsecond: (nanos / 1000 % 1000) as u16,
        nanosecond: (nanos % 1000) as u16,
        ..time
    })
}

/// Milli-, micro- and nanoseconds between colons.
fn thousandths<'t>(mut parts: impl Iterator<Item = &'t [u8]>, mut time: Time) -> Option<Time> {
    let mut read = || parts.next().map_or(Some(0), |text| digits(text, 1..=3, 999));
    (time.millisecond, time.microsecond, time.nanosecond) = (read()?, read()?, read()?);
    parts.next().is_none().then_some(time)
}

/// A date, a time behind a `T`, or both.
pub(super) fn date_time(text: &[u8]) -> Option<DateTime> {
    // The T of a month's name has no digit in front of it.
    let divides = |at: &usize| text[*at] == b'T' && (*at == 0 || text[at - 1].is_ascii_digit());
    let Some(divide) = (0..text.len()).find(divides) else {
        return Some(DateTime { date: date(text)?, time: Time::BLANK });
    };
    let date = if divide == 0 { Date::BLANK } else { date(&text[..divide])? };
    Some(DateTime { date, time: time(&text[divide + 1..])? })
}

/// A number of so many digits that is not above `max`.
fn digits(text: &[u8], width: std::ops::RangeInclusive<usize>, max: u32) -> Option<u16> {
    if !width.contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    u16::try_from(value).ok().filter(|_| value <= max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::write::text::Text;

    fn part(day: u8, month: u8, year: u16) -> Option<Date> {
        Some(Date { day, month, year })
    }

    #[test]
    fn dates_of_every_form_are_read() {
        assert_eq!(date(b"2018-04-06"), part(6, 4, 2018));
        assert_eq!(date(b"2018-04"), part(0, 4, 2018));
        assert_eq!(date(b"2018"), part(0, 0, 2018));
        assert_eq!(date(b"--04-06"), part(6, 4, 0));
        assert_eq!(date(b"--04"), part(0, 4, 0));
        assert_eq!(date(b"----06"), part(6, 0, 0));
        assert_eq!(date(b"06 APR 2018"), part(6, 4, 2018));
        assert_eq!(date(b"6 Oct 2018"), part(6, 10, 2018));
        let wrong: [&[u8]; 12] = [
            b"",
            b"tomorrow",
            b"2018-13-01",
            b"2018-04-32",
            b"2018-4-6",
            b"2018-00",
            b"18-04-06",
            b"--",
            b"----",
            b"2018-04-06-",
            b"31 FOO 2018",
            b"00 APR 2018",
        ];
        for text in wrong {
            assert_eq!(date(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn times_of_every_form_are_read() {
        let seconds = Time::new(14, 40, 32);
        assert_eq!(time(b"14:40:32"), Some(seconds));
        assert_eq!(time(b"14:40:32Z"), Some(seconds));
        assert_eq!(time(b"14:40:32:000:000:000"), Some(seconds));
        assert_eq!(time(b"14:40:32:7"), Some(Time { millisecond: 7, ..seconds }));
        assert_eq!(time(b"14:40:32.12"), Some(Time { millisecond: 120, ..seconds }));
        assert_eq!(time(b"14:40"), Some(Time::new(14, 40, 0)));
        assert_eq!(time(b"14"), Some(Time { hour: 14, ..Time::BLANK }));
        let wrong: [&[u8]; 11] = [
            b"",
            b"24:00",
            b"1:60",
            b"1:00:61",
            b"1:00:00.",
            b"1:00:00.1234567890",
            b"1:00:00.x",
            b"1:2:3:",
            b"01:02:03:1:2:3:4",
            b"01:02:03.1:2",
            b"-1",
        ];
        for text in wrong {
            assert_eq!(time(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_date_or_a_time_may_stand_alone() {
        let date = Date { day: 6, month: 10, year: 2018 };
        let time = Time::new(15, 37, 31);
        assert_eq!(date_time(b"2018-10-06T15:37:31Z"), Some(DateTime { date, time }));
        assert_eq!(date_time(b"06 OCT 2018T15:37:31"), Some(DateTime { date, time }));
        assert_eq!(date_time(b"T15:37:31"), Some(DateTime { date: Date::BLANK, time }));
        assert_eq!(date_time(b"2018-10-06"), Some(DateTime { date, time: Time::BLANK }));
        assert_eq!(date_time(b"T"), None);
    }

    testkit::properties! {
        #[test]
        fn what_is_written_is_read_again(
            (day, month, year) in (0..=31u8, 0..=12u8, prop_oneof![Just(0), 1..=u16::MAX]),
            (hour, minute, second) in (0..24u8, 0..60u8, 0..=60u8),
            (millisecond, microsecond, nanosecond) in (0..1000u16, 0..1000u16, 0..1000u16),
            said in 0..4u8,
        ) {
            let time = match said {
                0 => Time { hour, ..Time::BLANK },
                1 => Time { hour, minute, ..Time::BLANK },
                2 => Time::new(hour, minute, second),
                _ => Time { hour, minute, second, millisecond, microsecond, nanosecond },
            };
            let date = Date { day, month, year };
            let mut out = Vec::new();
            Text::new(&mut out).date_time(&DateTime { date, time });
            let time = if said == 1 { Time::new(hour, minute, 0) } else { time };
            prop_assert_eq!(date_time(&out[1..out.len() - 1]), Some(DateTime { date, time }));
        }
    }
}
