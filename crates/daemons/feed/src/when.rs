//! Dates and times of day, UTC, from nanoseconds since 1970.

use rwf::{Date, Time};

const DAY_NS: u64 = 86_400_000_000_000;

/// Days since 1970.
pub(crate) fn day(time_ns: u64) -> u64 {
    time_ns / DAY_NS
}

/// The date of a day since 1970; `None` after the year 4095, which RWF cannot say.
pub(crate) fn date(day: u64) -> Option<Date> {
    Date::from_unix_days(day.cast_signed())
}

/// The time of day to the nanosecond.
pub(crate) fn time(time_ns: u64) -> Time {
    Time::from_nanos_of_day(time_ns % DAY_NS)
}

/// The time of day to the second, without anything finer.
pub(crate) fn second(time_ns: u64) -> Time {
    let time = time(time_ns);
    Time::new(time.hour, time.minute, time.second)
}

/// Milliseconds since midnight.
pub(crate) fn millisecond_of_day(time_ns: u64) -> u64 {
    time_ns % DAY_NS / 1_000_000
}
