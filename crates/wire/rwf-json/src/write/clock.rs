//! Dates and times, parts of which may be missing.

use rwf::{Date, DateTime, Time};

use super::text::Text;

/// An hour, minute or second that is not said.
const BLANK: u8 = 255;
/// A millisecond that is not said.
const BLANK_MILLISECOND: u16 = 65535;
/// A microsecond or nanosecond that is not said.
const BLANK_FRACTION: u16 = 2047;

impl Text<'_> {
    /// `2018-04-06`; missing parts as in `2020-02`, `2020`, `--02-29`, `----09`.
    pub(crate) fn date(&mut self, date: Date) {
        self.quote();
        self.date_characters(date);
        self.quote();
    }

    /// `15:37:31.005`, without what is blank at the end.
    pub(crate) fn time(&mut self, time: &Time) {
        self.quote();
        self.time_characters(time);
        self.quote();
    }

    /// Date and time with a `T` between, without the blank one of the two.
    pub(crate) fn date_time(&mut self, value: &DateTime) {
        self.quote();
        if value.date != Date::BLANK {
            self.date_characters(value.date);
        }
        if value.time != Time::BLANK {
            self.raw(b"T");
            self.time_characters(&value.time);
        }
        self.quote();
    }

    fn date_characters(&mut self, Date { day, month, year }: Date) {
        match year {
            0 => self.raw(b"--"),
            _ => self.padded(year, 4),
        }
        match (month, day) {
            (0, 0) => {}
            (0, day) => {
                self.raw(b"--");
                self.padded(day.into(), 2);
            }
            (month, day) => {
                if year != 0 {
                    self.raw(b"-");
                }
                self.padded(month.into(), 2);
                if day != 0 {
                    self.raw(b"-");
                    self.padded(day.into(), 2);
                }
            }
        }
    }

    fn time_characters(&mut self, time: &Time) {
        // An hour that is blank beside a minute that is not has no form of its own.
        self.padded(if time.hour == BLANK { 0 } else { time.hour.into() }, 2);
        for part in [time.minute, time.second] {
            if part == BLANK {
                return;
            }
            self.raw(b":");
            self.padded(part.into(), 2);
        }
        self.fraction_of_second(time);
    }

    /// Up to nine decimals, without zeros at the end.
    fn fraction_of_second(&mut self, time: &Time) {
        let said = |part: u16, blank: u16| if part == blank { 0 } else { u32::from(part) };
        let millis = said(time.millisecond, BLANK_MILLISECOND) % 1000;
        let micros = said(time.microsecond, BLANK_FRACTION) % 1000;
        let nanos = said(time.nanosecond, BLANK_FRACTION) % 1000;
        let mut fraction = (millis * 1000 + micros) * 1000 + nanos;
        if fraction == 0 {
            return;
        }
        let mut decimals = [0; 10];
        decimals[0] = b'.';
        for decimal in decimals[1..].iter_mut().rev() {
            *decimal = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        let length = decimals.iter().rposition(|decimal| *decimal != b'0').map_or(0, |last| last + 1);
        self.raw(&decimals[..length]);
    }
}
