//! Date, Time, DateTime.

use std::fmt;

use super::{Decode, FixedForm, Packed, Primitive, Sealed, Typed};
use crate::error::clip;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// A calendar date. A zero day, or a zero day and month, is a legal partial date; all zero is the blank.
///
/// Shape: day `u8`, month `u8`, year `u16`. The parts are not checked against a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Date {
    /// 1..=31, 0 if not said.
    pub day: u8,
    /// 1..=12, 0 if not said.
    pub month: u8,
    /// The year, 0 if not said.
    pub year: u16,
}

/// A time of day, as precise as a nanosecond.
///
/// Shape: hour, minute \[, second \[, millisecond `u16` \[, microsecond `u16` \[, nanosecond\]\]\]\], 2, 3,
/// 5, 7 or 8 bytes; encoders use the shortest that holds the parts that are not zero. Every part has a value
/// that says "blank"; a time whose parts are all blank is [`Time::BLANK`], which decodes to `None`. Second 60
/// is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Time {
    /// 0..=23, 255 blank.
    pub hour: u8,
    /// 0..=59, 255 blank.
    pub minute: u8,
    /// 0..=60, 255 blank.
    pub second: u8,
    /// 0..=999, 65535 blank.
    pub millisecond: u16,
    /// 0..=999, 2047 blank.
    pub microsecond: u16,
    /// 0..=999, 2047 blank.
    pub nanosecond: u16,
}

/// A date and a time of day. Either may be blank alone; both blank is the blank.
///
/// Shape: [`Date`], then [`Time`] in one of its lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DateTime {
    /// The date.
    pub date: Date,
    /// The time of day.
    pub time: Time,
}

const ELEVEN_BITS: u16 = 0x7FF;

impl Date {
    /// No date.
    pub const BLANK: Date = Date { day: 0, month: 0, year: 0 };

    fn is_blank(self) -> bool {
        self == Date::BLANK
    }

    #[inline]
    fn to_bytes(self) -> [u8; 4] {
        let [high, low] = self.year.to_be_bytes();
        [self.day, self.month, high, low]
    }

    #[inline]
    fn from_bytes([day, month, high, low]: [u8; 4]) -> Date {
        Date { day, month, year: u16::from_be_bytes([high, low]) }
    }

    /// The date so many days after 1970-01-01; `None` outside the years 1..=65535.
    #[must_use]
    pub fn from_unix_days(days: i64) -> Option<Date> {
        // Days from 0000-03-01, in eras of 400 years; years begin in March, so that leap days come last.
        let days = days.checked_add(719_468)?;
        let era_day = days.rem_euclid(146_097);
        let era_year = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
        let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
        let march_month = (5 * year_day + 2) / 153;
        let day = year_day - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era_year + 400 * days.div_euclid(146_097) + i64::from(month <= 2);
        let year = u16::try_from(year).ok().filter(|year| *year > 0)?;
        Some(Date { day: day as u8, month: month as u8, year })
    }
}

impl Time {
    /// No time: every part blank.
    pub const BLANK: Time =
        Time { hour: 255, minute: 255, second: 255, millisecond: 65535, microsecond: 2047, nanosecond: 2047 };

    /// A time of whole minutes.
    #[must_use]
    pub const fn new(hour: u8, minute: u8, second: u8) -> Time {
        Time { hour, minute, second, millisecond: 0, microsecond: 0, nanosecond: 0 }
    }

    /// The time so many nanoseconds after midnight; whole days are left out.
    #[must_use]
    pub const fn from_nanos_of_day(nanos: u64) -> Time {
        let seconds = nanos / 1_000_000_000 % 86_400;
        Time {
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            millisecond: (nanos / 1_000_000 % 1000) as u16,
            microsecond: (nanos / 1000 % 1000) as u16,
            nanosecond: (nanos % 1000) as u16,
        }
    }

    /// Nanoseconds after midnight; `None` if a part is blank or not one of a time of day.
    #[must_use]
    pub fn nanos_of_day(&self) -> Option<u64> {
        let legal = self.hour < 24
            && self.minute < 60
            && self.second <= 60
            && self.millisecond < 1000
            && self.microsecond < 1000
            && self.nanosecond < 1000;
        let seconds = (u64::from(self.hour) * 60 + u64::from(self.minute)) * 60 + u64::from(self.second);
        let millis = seconds * 1000 + u64::from(self.millisecond);
        legal.then(|| (millis * 1000 + u64::from(self.microsecond)) * 1000 + u64::from(self.nanosecond))
    }

    #[inline]
    fn is_blank(&self) -> bool {
        self.hour == 255 && *self == Time::BLANK
    }

    /// Bytes of the shortest form that holds the parts that are not zero.
    #[inline]
    fn width(&self) -> usize {
        let width = match self {
            Time { nanosecond: 1.., .. } => 8,
            Time { microsecond: 1.., .. } => 7,
            Time { millisecond: 1.., .. } => 5,
            Time { second: 1.., .. } => 3,
            _ => 2,
        };
        if self.hour == 255 && self.minute == 255 { width.max(self.width_not_blank()) } else { width }
    }

    /// Bytes of the shortest form that is not taken for a blank: it has a part that is not blank.
    #[cold]
    fn width_not_blank(&self) -> usize {
        match (self.second, self.millisecond, self.microsecond) {
            (255, 65535, 2047) => 8,
            (255, 65535, _) => 7,
            (255, _, _) => 5,
            _ => 3,
        }
    }

    /// The bytes of the form of `width` bytes; in the longest one microseconds and nanoseconds share three
    /// bytes.
    #[inline]
    fn to_bytes(self, width: usize) -> [u8; 8] {
        let [c, d] = self.millisecond.to_be_bytes();
        let shared = if width == 8 { (self.nanosecond >> 8) << 11 } else { 0 };
        let [e, f] = (self.microsecond | shared).to_be_bytes();
        [self.hour, self.minute, self.second, c, d, e, f, self.nanosecond as u8]
    }

    /// Reads a form by its length; parts it does not have are zero, or blank if all that it has are.
    #[inline]
    fn from_bytes(content: &[u8]) -> Option<Time> {
        let mut time = match *content {
            [hour, minute] => Time::new(hour, minute, 0),
            [hour, minute, second, ..] => Time::new(hour, minute, second),
            _ => return None,
        };
        let blank = [255, 65535, 2047, 2047];
        let mut tail = [time.second.into(), 0, 0, 0];
        let parts = match *content {
            [_, _] => 0,
            [_, _, _] => 1,
            [_, _, _, c, d] => {
                tail[1] = u16::from_be_bytes([c, d]);
                2
            }
            [_, _, _, c, d, e, f] => {
                tail[1] = u16::from_be_bytes([c, d]);
                tail[2] = u16::from_be_bytes([e, f]);
                3
            }
            [_, _, _, c, d, e, f, g] => {
                let shared = u16::from_be_bytes([e, f]);
                tail[1] = u16::from_be_bytes([c, d]);
                tail[2] = shared & ELEVEN_BITS;
                tail[3] = (shared >> 11 & 7) << 8 | u16::from(g);
                4
            }
            _ => return None,
        };
        if time.hour == 255 && time.minute == 255 && tail[..parts] == blank[..parts] {
            return Some(Time::BLANK);
        }
        [time.millisecond, time.microsecond, time.nanosecond] = [tail[1], tail[2], tail[3]];
        Some(time)
    }

    /// Writes the form of `width` bytes (2, 3, 5, 7 or 8), which must hold all parts unless the time is
    /// blank.
    fn put_width(&self, width: usize, w: &mut Writer<'_>) {
        let packed = width == 8 && !self.is_blank();
        if packed && (self.microsecond > ELEVEN_BITS || self.nanosecond > ELEVEN_BITS) {
            let value = self.microsecond.max(self.nanosecond).into();
            w.fail(EncodeError::BadValue { place: Place::Time, value, max: ELEVEN_BITS.into() });
        }
        w.chunk(self.to_bytes(width), width);
    }

    fn fits(&self, width: usize) -> bool {
        matches!(width, 2 | 3 | 5 | 7 | 8) && (self.is_blank() || self.width() <= width)
    }
}

impl Sealed for Date {}
impl Typed for Date {
    const TYPE: DataType = DataType::DATE;
}

impl Primitive for Date {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        if self.is_blank() { 0 } else { 4 }
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        if !self.is_blank() {
            w.chunk(self.to_bytes(), 4);
        }
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(4) => w.chunk(self.to_bytes(), 4),
            _ => w.fail(form.misfit(Place::Date, self.year.into())),
        }
    }
}

impl Decode<'_> for Date {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<Date>, DecodeError> {
        let Some(bytes) = content.first_chunk::<4>().filter(|_| content.len() == 4) else {
            return if content.is_empty() { Ok(None) } else { Err(bad_length(content, Place::Date, 4)) };
        };
        let date = Date::from_bytes(*bytes);
        Ok(if date.is_blank() { None } else { Some(date) })
    }
}

impl Sealed for Time {}
impl Typed for Time {
    const TYPE: DataType = DataType::TIME;
}

impl Primitive for Time {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        if self.is_blank() { 0 } else { self.width() }
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        if !self.is_blank() {
            self.put_width(self.width(), w);
        }
    }

    /// Whole seconds and milliseconds; the longer forms are checked where they are written.
    #[inline]
    fn packed(&self) -> Option<Packed> {
        let width = self.width();
        let short = width <= 5 && self.hour != 255;
        let content = u128::from(u64::from_be_bytes(self.to_bytes(width))) << 64;
        short.then_some(Packed { content, length: width })
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width) if self.fits(width) => self.put_width(width, w),
            _ => w.fail(form.misfit(Place::Time, clip(self.width()))),
        }
    }
}

impl Decode<'_> for Time {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<Time>, DecodeError> {
        if content.is_empty() {
            return Ok(None);
        }
        let time = Time::from_bytes(content).ok_or_else(|| bad_length(content, Place::Time, 8))?;
        Ok(if time.is_blank() { None } else { Some(time) })
    }
}

impl DateTime {
    /// Neither date nor time.
    pub const BLANK: DateTime = DateTime { date: Date::BLANK, time: Time::BLANK };

    #[inline]
    fn is_blank(&self) -> bool {
        self.date.is_blank() && self.time.is_blank()
    }

    /// Bytes of the time's form: a blank time beside a date takes the one with milliseconds, as the libraries
    /// write.
    #[inline]
    fn time_width(&self) -> usize {
        if self.time.is_blank() { 5 } else { self.time.width() }
    }
}

impl Sealed for DateTime {}
impl Typed for DateTime {
    const TYPE: DataType = DataType::DATETIME;
}

impl Primitive for DateTime {
    #[inline]
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    #[inline]
    fn content_len(&self) -> usize {
        if self.is_blank() { 0 } else { 4 + self.time_width() }
    }

    #[inline]
    fn put_content(&self, w: &mut Writer<'_>) {
        if !self.is_blank() {
            w.chunk(self.date.to_bytes(), 4);
            self.time.put_width(self.time_width(), w);
        }
    }

    fn put_fixed(&self, form: FixedForm, w: &mut Writer<'_>) {
        match form {
            FixedForm::Width(width @ 4..) if self.time.fits(width - 4) => {
                w.chunk(self.date.to_bytes(), 4);
                self.time.put_width(width - 4, w);
            }
            _ => w.fail(form.misfit(Place::DateTime, clip(4 + self.time_width()))),
        }
    }
}

impl Decode<'_> for DateTime {
    #[inline]
    fn decode(content: &[u8]) -> Result<Option<DateTime>, DecodeError> {
        if content.is_empty() {
            return Ok(None);
        }
        let parts = content.split_first_chunk::<4>();
        let Some((date, time)) = parts.and_then(|(date, time)| Some((*date, Time::from_bytes(time)?))) else {
            return Err(bad_length(content, Place::DateTime, 12));
        };
        let value = DateTime { date: Date::from_bytes(date), time };
        Ok(if value.is_blank() { None } else { Some(value) })
    }
}

#[cold]
fn bad_length(content: &[u8], place: Place, max: u32) -> DecodeError {
    DecodeError::BadLength { place, length: clip(content.len()), max }
}

impl fmt::Display for Date {
    /// ISO 8601.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for Time {
    /// ISO 8601, with as many decimals as the form has that holds the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second)?;
        match self.width() {
            5 => write!(f, ".{:03}", self.millisecond),
            7 => write!(f, ".{:03}{:03}", self.millisecond, self.microsecond),
            8 => write!(f, ".{:03}{:03}{:03}", self.millisecond, self.microsecond, self.nanosecond),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.date.is_blank(), self.time.is_blank()) {
            (false, true) => self.date.fmt(f),
            (true, false) => self.time.fmt(f),
            _ => write!(f, "{}T{}", self.date, self.time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    #[test]
    fn days_since_1970_are_civil_dates() {
        for (days, (day, month, year)) in [
            (0, (1, 1, 1970)),
            (-1, (31, 12, 1969)),
            (11_016, (29, 2, 2000)),
            (19_782, (29, 2, 2024)),
            (-719_162, (1, 1, 1)),
            (23_217_003, (31, 12, 65535)),
        ] {
            assert_eq!(Date::from_unix_days(days), Some(Date { day, month, year }), "{days}");
        }
        for outside in [-719_163, 23_217_004, i64::MIN, i64::MAX] {
            assert_eq!(Date::from_unix_days(outside), None);
        }
    }

    #[test]
    fn nanoseconds_of_a_day_come_back() {
        for nanos in [0, 1, 999, 1000, 34_200_000_000_000, 86_399_999_999_999] {
            assert_eq!(Time::from_nanos_of_day(nanos).nanos_of_day(), Some(nanos));
        }
        assert_eq!(Time::BLANK.nanos_of_day(), None);
        assert_eq!(Time::new(23, 59, 60).nanos_of_day(), Some(86_400_000_000_000));
    }

    #[test]
    fn a_date_alone_is_a_value_with_a_blank_time() {
        let date = Date { day: 29, month: 2, year: 2024 };
        let value = DateTime { date, time: Time::BLANK };
        let content = encode_to_vec(|w| value.put_content(w)).expect("9 bytes");
        assert_eq!(content, [29, 2, 7, 0xE8, 255, 255, 255, 255, 255]);
        assert_eq!(DateTime::decode(&content), Ok(Some(value)));
        assert_eq!(DateTime::decode(&content[..6]), Ok(Some(value)));
        assert_eq!(value.to_string(), "2024-02-29");
    }

    #[test]
    fn a_time_whose_first_parts_alone_are_blank_is_written_long_enough_not_to_be_taken_for_a_blank() {
        let blank = Time::BLANK;
        for (time, length) in [
            (Time { minute: 59, ..Time::new(255, 0, 0) }, 2),
            (Time::new(255, 255, 0), 3),
            (Time::new(255, 255, 255), 5),
            (Time { microsecond: 0, nanosecond: 0, ..blank }, 7),
            (Time { microsecond: 2046, nanosecond: 0, ..blank }, 7),
            (Time { nanosecond: 0, ..blank }, 8),
        ] {
            let content = encode_to_vec(|w| time.put_content(w)).expect("at most 8 bytes");
            assert_eq!((content.len(), Time::decode(&content)), (length, Ok(Some(time))));
        }
    }

    #[test]
    fn a_time_that_its_width_would_truncate_is_refused() {
        let time = Time { millisecond: 1, ..Time::new(1, 2, 3) };
        let fixed = |width| encode_to_vec(|w| time.put_fixed(FixedForm::Width(width), w));
        assert_eq!(fixed(5), Ok(vec![1, 2, 3, 0, 1]));
        assert_eq!(fixed(3), Err(EncodeError::BadValue { place: Place::Time, value: 5, max: 3 }));
        assert!(fixed(4).is_err() && fixed(9).is_err());
    }

    #[test]
    fn parts_too_large_for_eleven_bits_are_refused_where_they_share_bytes() {
        let time = Time { nanosecond: 2048, ..Time::new(1, 2, 3) };
        let refused = EncodeError::BadValue { place: Place::Time, value: 2048, max: 2047 };
        assert_eq!(encode_to_vec(|w| time.put_content(w)), Err(refused));
    }

    #[test]
    fn lengths_that_no_form_has_are_errors() {
        for length in [1, 4, 6, 9] {
            assert!(Time::decode(&vec![1; length]).is_err());
        }
        for length in [1, 4, 5, 8, 10, 13] {
            assert!(DateTime::decode(&vec![1; length]).is_err());
        }
        assert!(Date::decode(&[1; 3]).is_err() && Date::decode(&[1; 5]).is_err());
    }
}
