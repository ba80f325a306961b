use std::fmt;

/// A data type number as RWF writes it.
///
/// The set of numbers is open (vendors may use 225..=255 for containers of their own), so this is a number
/// with names, not an enumeration: every number from the wire can be held, passed on and printed.
///
/// | range | kind |
/// |---|---|
/// | 3..=19 | primitives, a length in front |
/// | 64..=84 | primitives of fixed size, only inside set definitions |
/// | 128.. | containers |
///
/// Source: RWF 14.1, data type numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataType(pub u8);

macro_rules! data_types {
    ($($number:literal $name:ident;)*) => {
        impl DataType {
            $(
                #[doc = concat!("Type number ", stringify!($number), ".")]
                pub const $name: DataType = DataType($number);
            )*

            /// The field's standard name (`FIELD_LIST`, `INT_2`), `None` for a number without one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The type of a standard name, the inverse of [`DataType::name`].
            #[must_use]
            pub fn from_name(name: &str) -> Option<DataType> {
                match name {
                    $(stringify!($name) => Some(DataType::$name),)*
                    _ => None,
                }
            }
        }
    };
}

data_types! {
    0 UNKNOWN; 3 INT; 4 UINT; 5 FLOAT; 6 DOUBLE; 8 REAL; 9 DATE; 10 TIME; 11 DATETIME; 12 QOS; 13 STATE;
    14 ENUM; 15 ARRAY; 16 BUFFER; 17 ASCII_STRING; 18 UTF8_STRING; 19 RMTES_STRING;
    64 INT_1; 65 UINT_1; 66 INT_2; 67 UINT_2; 68 INT_4; 69 UINT_4; 70 INT_8; 71 UINT_8; 72 FLOAT_4;
    73 DOUBLE_8; 74 REAL_4RB; 75 REAL_8RB; 76 DATE_4; 77 TIME_3; 78 TIME_5; 79 DATETIME_7; 80 DATETIME_9;
    81 DATETIME_11; 82 DATETIME_12; 83 TIME_7; 84 TIME_8;
    128 NO_DATA; 130 OPAQUE; 131 XML; 132 FIELD_LIST; 133 ELEMENT_LIST; 134 ANSI_PAGE; 135 FILTER_LIST;
    136 VECTOR; 137 MAP; 138 SERIES; 141 MSG; 142 JSON;
}

impl DataType {
    /// What a header byte that names a container type holds less than the type number.
    const CONTAINER_BASE: u8 = 128;

    /// The container that a header byte names; `None` if the byte cannot name one (128 and above).
    #[inline]
    #[must_use]
    pub const fn from_container_byte(byte: u8) -> Option<DataType> {
        if byte < Self::CONTAINER_BASE { Some(DataType(byte + Self::CONTAINER_BASE)) } else { None }
    }

    /// The byte that names this container in a header; `None` if it is no container.
    #[inline]
    #[must_use]
    pub const fn container_byte(self) -> Option<u8> {
        self.0.checked_sub(Self::CONTAINER_BASE)
    }

    /// Whether the number is that of a primitive that stands with a length in front.
    #[inline]
    #[must_use]
    pub const fn is_primitive(self) -> bool {
        matches!(self.0, 3..=6 | 8..=19)
    }

    /// Whether the number is that of a fixed-size primitive of set definitions.
    #[inline]
    #[must_use]
    pub const fn is_set_fixed(self) -> bool {
        matches!(self.0, 64..=84)
    }

    /// Whether the number is that of a container.
    #[inline]
    #[must_use]
    pub const fn is_container(self) -> bool {
        self.0 >= Self::CONTAINER_BASE
    }

    /// The type a set-defined one is a fixed form of (`TIME_5` is a `TIME`); others are their own.
    #[must_use]
    pub const fn base(self) -> DataType {
        match self {
            Self::INT_1 | Self::INT_2 | Self::INT_4 | Self::INT_8 => Self::INT,
            Self::UINT_1 | Self::UINT_2 | Self::UINT_4 | Self::UINT_8 => Self::UINT,
            Self::FLOAT_4 => Self::FLOAT,
            Self::DOUBLE_8 => Self::DOUBLE,
            Self::REAL_4RB | Self::REAL_8RB => Self::REAL,
            Self::DATE_4 => Self::DATE,
            Self::TIME_3 | Self::TIME_5 | Self::TIME_7 | Self::TIME_8 => Self::TIME,
            Self::DATETIME_7 | Self::DATETIME_9 | Self::DATETIME_11 | Self::DATETIME_12 => Self::DATETIME,
            other => other,
        }
    }

    /// The bytes a set-defined fixed type takes; `None` for all others and for the two self-sized `REAL_*RB`.
    #[must_use]
    pub const fn fixed_width(self) -> Option<usize> {
        Some(match self {
            Self::INT_1 | Self::UINT_1 => 1,
            Self::INT_2 | Self::UINT_2 => 2,
            Self::TIME_3 => 3,
            Self::INT_4 | Self::UINT_4 | Self::FLOAT_4 | Self::DATE_4 => 4,
            Self::TIME_5 => 5,
            Self::DATETIME_7 | Self::TIME_7 => 7,
            Self::INT_8 | Self::UINT_8 | Self::DOUBLE_8 | Self::TIME_8 => 8,
            Self::DATETIME_9 => 9,
            Self::DATETIME_11 => 11,
            Self::DATETIME_12 => 12,
            _ => return None,
        })
    }
}

impl Default for DataType {
    /// `NO_DATA`: what a message carries unless it says otherwise.
    fn default() -> Self {
        DataType::NO_DATA
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_byte_and_type_are_each_others_inverse() {
        for byte in 0..=u8::MAX {
            match DataType::from_container_byte(byte) {
                Some(container) => assert_eq!(container.container_byte(), Some(byte)),
                None => assert!(byte >= 128),
            }
        }
        assert_eq!(DataType::INT.container_byte(), None);
    }

    #[test]
    fn every_named_type_is_found_by_its_name() {
        let named = (0..=u8::MAX).map(DataType).filter(|t| t.name().is_some());
        assert_eq!(named.clone().count(), 17 + 21 + 12);
        for data_type in named {
            assert_eq!(DataType::from_name(data_type.name().expect("filtered")), Some(data_type));
        }
    }

    #[test]
    fn a_fixed_type_has_a_base_and_a_width_unless_it_carries_its_own_size() {
        for data_type in (0..=u8::MAX).map(DataType) {
            assert_eq!(data_type.is_set_fixed(), data_type.base() != data_type);
            let self_sized = matches!(data_type, DataType::REAL_4RB | DataType::REAL_8RB);
            assert_eq!(data_type.fixed_width().is_some(), data_type.is_set_fixed() && !self_sized);
        }
    }
}
