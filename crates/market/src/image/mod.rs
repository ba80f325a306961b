//! What is known of an item: its last image, with every update since merged in.
//!
//! Field lists merge field by field, element lists element by element, maps of field lists entry by entry;
//! the values stay the bytes they came as. Other payloads cannot be merged: the last image stays, and once an update has passed over it, it is
//! said to be stale ([`Image::is_current`]).

mod elements;
mod fields;
mod map;
mod rules;

pub use elements::ElementImage;
pub use fields::FieldImage;
pub(crate) use fields::{SetValueRoom, set_value};
pub use map::MapImage;
pub use rules::FieldRules;

use rwf::{DataType, DecodeError, ElementList, FieldList, Map, Writer};

/// The payload of an item, in the form that updates are merged into.
#[derive(Clone, Debug, Default)]
pub enum Image {
    /// Nothing came yet.
    #[default]
    Empty,
    /// A field list.
    Fields(FieldImage),
    /// An element list.
    Elements(ElementImage),
    /// A map of field lists, or of nothing.
    Map(Box<MapImage>),
    /// Anything else: the parts of the last refresh, as they came.
    Opaque {
        /// What the parts are.
        container_type: DataType,
        /// One payload a part.
        parts: Vec<Box<[u8]>>,
        /// No update has come since.
        is_current: bool,
    },
}

impl Image {
    /// Takes one part of a refresh; the first one replaces what was there.
    ///
    /// # Errors
    /// The payload is not what its type says; the image is then as it was, or empty if this was the first
    /// part.
    pub fn refresh(
        &mut self,
        container_type: DataType,
        payload: &[u8],
        is_first: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        if is_first {
            *self = Image::of_type(container_type, payload)?;
        }
        match self {
            Image::Empty => Ok(()),
            Image::Fields(fields) if is_first => fields.replace(&FieldList::parse(payload)?, rules),
            Image::Fields(fields) => fields.merge(&FieldList::parse(payload)?, false, rules),
            Image::Elements(elements) => elements.replace(&ElementList::parse(payload)?),
            Image::Map(map) => map.apply(&Map::parse(payload)?, rules),
            Image::Opaque { parts, .. } => {
                parts.push(payload.into());
                Ok(())
            }
        }
    }

    fn of_type(container_type: DataType, payload: &[u8]) -> Result<Image, DecodeError> {
        let opaque = Image::Opaque { container_type, parts: Vec::new(), is_current: true };
        Ok(match container_type {
            DataType::NO_DATA => Image::Empty,
            DataType::FIELD_LIST => Image::Fields(FieldImage::default()),
            DataType::ELEMENT_LIST => Image::Elements(ElementImage::default()),
            DataType::MAP => match MapImage::for_map(&Map::parse(payload)?) {
                Some(map) => Image::Map(Box::new(map)),
                None => opaque,
            },
            _ => opaque,
        })
    }

    /// Merges the payload of an update.
    ///
    /// # Errors
    /// The payload is not what its type says; what was merged before the fault stays. A payload of another
    /// type than the image is none: it changes nothing.
    pub fn update(
        &mut self,
        container_type: DataType,
        payload: &[u8],
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        match self {
            // The first data an item has may come as an update, such as from a provider that publishes an
            // empty image.
            Image::Empty if container_type != DataType::NO_DATA => {
                *self = Image::of_type(container_type, payload)?;
                self.update(container_type, payload, ripple, rules)
            }
            Image::Fields(fields) if container_type == DataType::FIELD_LIST => {
                fields.merge(&FieldList::parse(payload)?, ripple, rules)
            }
            Image::Elements(elements) if container_type == DataType::ELEMENT_LIST => {
                elements.merge(&ElementList::parse(payload)?)
            }
            Image::Map(map) if container_type == DataType::MAP => map.apply(&Map::parse(payload)?, rules),
            Image::Opaque { is_current, .. } => {
                *is_current = false;
                Ok(())
            }
            Image::Empty | Image::Fields(_) | Image::Elements(_) | Image::Map(_) => Ok(()),
        }
    }

    /// Whether the image has everything that came since: false only after an update that could not be merged.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !matches!(self, Image::Opaque { is_current: false, .. })
    }

    /// The type of the payload.
    #[must_use]
    pub fn container_type(&self) -> DataType {
        match self {
            Image::Empty => DataType::NO_DATA,
            Image::Fields(_) => DataType::FIELD_LIST,
            Image::Elements(_) => DataType::ELEMENT_LIST,
            Image::Map(_) => DataType::MAP,
            Image::Opaque { container_type, .. } => *container_type,
        }
    }

    /// Writes the payload of one part of a refresh, and returns where the next part begins if there is one.
    ///
    /// Only maps are cut, into parts of about `part_bytes`; one part there is always.
    pub fn write_part(&self, at: &PartStart, part_bytes: usize, w: &mut Writer<'_>) -> Option<PartStart> {
        match (self, at) {
            (Image::Empty, _) => None,
            (Image::Fields(fields), _) => {
                fields.write(w);
                None
            }
            (Image::Elements(elements), _) => {
                elements.write(w);
                None
            }
            (Image::Map(map), at) => {
                let from = if let PartStart::Key(key) = at { Some(&**key) } else { None };
                map.write(from, part_bytes, w).map(|key| PartStart::Key(key.into()))
            }
            (Image::Opaque { parts, .. }, at) => {
                let index = if let PartStart::Part(index) = at { *index } else { 0 };
                if let Some(part) = parts.get(index) {
                    w.bytes(part);
                }
                (index + 1 < parts.len()).then_some(PartStart::Part(index + 1))
            }
        }
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Image::Empty => 0,
            Image::Fields(fields) => fields.memory_bytes(),
            Image::Elements(elements) => elements.memory_bytes(),
            Image::Map(map) => map.memory_bytes(),
            Image::Opaque { parts, .. } => parts.iter().map(|p| p.len()).sum(),
        }
    }
}

/// Where a part of a refresh begins, see [`Image::write_part`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartStart {
    /// At the beginning.
    #[default]
    First,
    /// At this entry of a map.
    Key(Box<[u8]>),
    /// At this part of an image that came in parts and is kept so.
    Part(usize),
}
