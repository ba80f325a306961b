//! Images and updates of any number of fields, in the mix of types that a vendor's record of a stock has: prices,
//! sizes, codes, times, short texts.
//!
//! Fields of one type stand together, as the last five prices do, and prices may ripple along them.

use market::image::FieldRules;
use rwf::{DataType, Enum, FieldListWriter, Real, RmtesString, Time, Writer};

/// So many fields of one type stand together.
const GROUP: u16 = 5;
/// Ids are spread over so many, a prime number.
const IDS: u32 = 14_983;

/// How many fields an image has, and an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    pub(crate) image_fields: u16,
    pub(crate) update_fields: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Price,
    Size,
    Code,
    Time,
    Text,
}

fn kind(place: u16) -> Kind {
    use Kind::{Code, Price, Size, Text, Time};
    [Price, Code, Price, Size, Text, Price, Code, Time][usize::from(place / GROUP % 8)]
}

fn id(place: u16) -> i16 {
    (1 + u32::from(place) * 2_503 % IDS) as i16
}

impl Template {
    /// Writes an image.
    pub(crate) fn write_image(self, w: &mut Writer<'_>) {
        w.field_list(|f| self.put_image(f));
    }

    /// Writes an update; `n` makes its values.
    pub(crate) fn write_update(self, w: &mut Writer<'_>, n: u64) {
        w.field_list(|f| self.put_update(f, n));
    }

    /// The fields of an image.
    pub(crate) fn put_image(self, f: &mut FieldListWriter<'_, '_, '_>) {
        put(f, 0..self.image_fields, 0);
    }

    /// The fields of an update.
    pub(crate) fn put_update(self, f: &mut FieldListWriter<'_, '_, '_>, n: u64) {
        let places = u32::from(self.update_fields);
        let place = move |at: u32| (at * u32::from(self.image_fields) / places.max(1)) as u16;
        put(f, (0..places).map(place), n);
    }

    /// Each field of an image, and its type.
    pub(crate) fn types(self) -> impl Iterator<Item = (i16, DataType)> {
        (0..self.image_fields).map(|place| {
            let data_type = match kind(place) {
                Kind::Price | Kind::Size => DataType::REAL,
                Kind::Code => DataType::ENUM,
                Kind::Time => DataType::TIME,
                Kind::Text => DataType::RMTES_STRING,
            };
            (id(place), data_type)
        })
    }

    /// The rules of these fields: texts can be changed in part, and prices ripple along their group or not.
    pub(crate) fn rules(self, ripples: bool) -> FieldRules {
        let mut rules = FieldRules::default();
        for place in 0..self.image_fields {
            if kind(place) == Kind::Text {
                rules.set_rmtes(id(place));
            }
            if ripples && kind(place) == Kind::Price && place % GROUP + 1 < GROUP {
                rules.set_ripple(id(place), id(place + 1));
            }
        }
        rules
    }
}

fn put(f: &mut FieldListWriter<'_, '_, '_>, places: impl Iterator<Item = u16>, n: u64) {
    for place in places {
        let (id, value) = (id(place), n as i64 % 10_000 + i64::from(place));
        match kind(place) {
            Kind::Price => f.put(id, Real::decimal(284_000 + value, 2)),
            Kind::Size => f.put(id, Real::decimal(1 + value % 100, 0)),
            Kind::Code => f.put(id, Enum((value % 8) as u16)),
            Kind::Time => {
                f.put(id, Time { hour: 15, minute: 52, second: (value % 60) as u8, ..Time::default() })
            }
            Kind::Text => f.put(id, RmtesString(&b"NYS"[..1 + value as usize % 3])),
        }
    }
}
