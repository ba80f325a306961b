//! The text of a value in a message file, as it stands on the wire.

use rwf::{DataType, Date, DateTime, Enum, Primitive, Real, Time, encode_to_vec};

/// The types that a file may name.
const TYPES: [(&str, DataType); 13] = [
    ("RSSL_DT_INT", DataType::INT),
    ("RSSL_DT_UINT", DataType::UINT),
    ("RSSL_DT_FLOAT", DataType::FLOAT),
    ("RSSL_DT_DOUBLE", DataType::DOUBLE),
    ("RSSL_DT_REAL", DataType::REAL),
    ("RSSL_DT_DATE", DataType::DATE),
    ("RSSL_DT_TIME", DataType::TIME),
    ("RSSL_DT_DATETIME", DataType::DATETIME),
    ("RSSL_DT_ENUM", DataType::ENUM),
    ("RSSL_DT_BUFFER", DataType::BUFFER),
    ("RSSL_DT_ASCII_STRING", DataType::ASCII_STRING),
    ("RSSL_DT_UTF8_STRING", DataType::UTF8_STRING),
    ("RSSL_DT_RMTES_STRING", DataType::RMTES_STRING),
];

/// The type of a name.
pub(super) fn data_type(name: &str) -> Result<DataType, String> {
    let found = TYPES.iter().find(|(known, _)| *known == name);
    found.map(|(_, data_type)| *data_type).ok_or_else(|| {
        let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
        format!("dataType {name:?} is not one of {}", known.join(", "))
    })
}

/// The content of a value. Empty text is the blank of every type.
pub(super) fn content(data_type: DataType, text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let trimmed = text.trim();
    let number = |what: &str| format!("data {text:?} is no {what}");
    match data_type {
        DataType::INT => encoded(trimmed.parse::<i64>().map_err(|_| number("number from -2^63 to 2^63-1"))?),
        DataType::UINT => encoded(trimmed.parse::<u64>().map_err(|_| number("number from 0 to 2^64-1"))?),
        DataType::FLOAT => encoded(trimmed.parse::<f32>().map_err(|_| number("number"))?),
        DataType::DOUBLE => encoded(trimmed.parse::<f64>().map_err(|_| number("number"))?),
        DataType::REAL => {
            let real = Real::from_decimal_text(trimmed);
            encoded(real.map_err(|error| format!("data {text:?} is no decimal number: {error}"))?)
        }
        DataType::DATE => encoded(date(trimmed)?),
        DataType::TIME => encoded(time(trimmed)?),
        DataType::DATETIME => encoded(date_time(trimmed)?),
        DataType::ENUM => encoded(Enum(trimmed.parse().map_err(|_| number("number from 0 to 65535"))?)),
        // Texts and buffers are their bytes.
        _ => Ok(text.as_bytes().to_vec()),
    }
}

fn encoded(value: impl Primitive) -> Result<Vec<u8>, String> {
    encode_to_vec(|w| value.put_content(w)).map_err(|error| error.to_string())
}

/// `MM/DD/YYYY`.
fn date(text: &str) -> Result<Date, String> {
    let wrong = || format!("data {text:?} is no date MM/DD/YYYY");
    let mut parts = text.split('/');
    let month = part(parts.next(), 1, 12).ok_or_else(wrong)?;
    let day = part(parts.next(), 1, 31).ok_or_else(wrong)?;
    let year = part(parts.next(), 0, 9999).ok_or_else(wrong)?;
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(Date { day: day as u8, month: month as u8, year })
}

/// `HH:MM`, and as much of `:SS:mmm:uuu:nnn` as there is.
fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("data {text:?} is no time HH:MM:SS:mmm:uuu:nnn");
    let parts: Vec<&str> = text.split(':').collect();
    if !(2..=6).contains(&parts.len()) {
        return Err(wrong());
    }
    let mut numbers = [0; 6];
    for ((number, most), text) in numbers.iter_mut().zip([23, 59, 60, 999, 999, 999]).zip(parts) {
        *number = part(Some(text), 0, most).ok_or_else(wrong)?;
    }
    let [hour, minute, second, millisecond, microsecond, nanosecond] = numbers;
    let (hour, minute, second) = (hour as u8, minute as u8, second as u8);
    Ok(Time { hour, minute, second, millisecond, microsecond, nanosecond })
}

/// A date, a space, a time.
fn date_time(text: &str) -> Result<DateTime, String> {
    let (day, clock) =
        text.split_once(' ').ok_or_else(|| format!("data {text:?} is no MM/DD/YYYY HH:MM:SS:mmm:uuu:nnn"))?;
    Ok(DateTime { date: date(day)?, time: time(clock.trim_start())? })
}

fn part(text: Option<&str>, least: u16, most: u16) -> Option<u16> {
    text?.parse().ok().filter(|number| (least..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(data_type: DataType, text: &str) -> String {
        let content = content(data_type, text).expect("good");
        content.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn values_of_every_type_are_as_they_stand_on_the_wire() {
        for (data_type, text, wire) in [
            (DataType::INT, "-129", "ff7f"),
            (DataType::UINT, "255", "ff"),
            (DataType::FLOAT, "1.5", "3fc00000"),
            (DataType::DOUBLE, "1.5", "3ff8000000000000"),
            (DataType::REAL, "39.90", "0c0f96"),
            (DataType::REAL, "1", "0e01"),
            (DataType::DATE, "11/15/2005", "0f0b07d5"),
            (DataType::TIME, " 21:00:01:000", "150001"),
            (DataType::TIME, "23:59:59:999:999:999", "173b3b03e71be7e7"),
            (DataType::DATETIME, "11/15/2005 01:02", "0f0b07d50102"),
            (DataType::ENUM, "840", "0348"),
            (DataType::RMTES_STRING, " ", "20"),
            (DataType::REAL, "", ""),
        ] {
            assert_eq!(hex(data_type, text), wire, "{data_type} {text:?}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused_and_named() {
        for (data_type, text) in [
            (DataType::INT, "9223372036854775808"),
            (DataType::UINT, "-1"),
            (DataType::REAL, "1.2.3"),
            (DataType::REAL, " "),
            (DataType::DATE, "2005-11-15"),
            (DataType::DATE, "13/01/2005"),
            (DataType::DATE, "01/01/2005/1"),
            (DataType::TIME, "24:00"),
            (DataType::TIME, "1"),
            (DataType::TIME, "1:2:3:4:5:6:7"),
            (DataType::DATETIME, "11/15/2005"),
            (DataType::ENUM, "65536"),
        ] {
            let fault = content(data_type, text).expect_err("no value");
            assert!(fault.contains("data "), "{fault}");
        }
        assert!(data_type("RSSL_DT_MAP").is_err_and(|e| e.contains("RSSL_DT_INT")));
        assert_eq!(data_type("RSSL_DT_ENUM"), Ok(DataType::ENUM));
    }
}
