//! What is known of an item: its last image, with every update since merged in.
//!
//! Field lists merge field by field, element lists element by element; maps, vectors and filter lists entry
//! by entry, as the actions of the entries say, with what an entry holds merged in its turn; series grow at
//! their end. The values stay the bytes they came as. Other payloads have no parts that could be merged: the
//! last one stays, and once an update has passed over it, the image is not current any more
//! ([`Image::update`]).
//!
//! Whatever came, the image can be written again: what would not fit its place is refused, and dropped.

mod definitions;
mod elements;
mod entry;
mod fields;
mod filters;
mod index;
mod map;
mod rules;
mod series;
mod shape;
mod shapes;
mod vector;

pub use elements::ElementImage;
pub use fields::FieldImage;
pub(crate) use fields::{SetValueRoom, set_value};
pub use filters::FilterImage;
pub use map::MapImage;
pub use rules::FieldRules;
pub use series::SeriesImage;
pub use vector::VectorImage;

use rwf::{DataType, DecodeError, ElementList, FieldList, FilterList, Map, Place, Series, Vector, Writer};

use self::definitions::Definitions;
use self::series::{SERIES_BYTES_MAX, SERIES_GROWN_BYTES_MAX};

/// The payload of an item, in the form that updates are merged into; or what an entry of it holds.
#[derive(Clone, Debug, Default)]
pub enum Image {
    /// Nothing came yet.
    #[default]
    Empty,
    /// A field list.
    Fields(FieldImage),
    /// An element list.
    Elements(Box<ElementImage>),
    /// A map.
    Map(Box<MapImage>),
    /// A vector.
    Vector(Box<VectorImage>),
    /// A filter list.
    Filters(Box<FilterImage>),
    /// A series.
    Series(Box<SeriesImage>),
    /// Anything else: the parts of the last refresh, as they came.
    Opaque {
        /// What the parts are.
        container_type: DataType,
        /// One payload a part.
        parts: Vec<Box<[u8]>>,
    },
}

/// So deep containers are merged inside each other; what is deeper stays as it came. Market data needs less
/// than five.
pub const MERGE_DEPTH_MAX: u8 = 8;

/// What a payload is merged by.
#[derive(Clone, Copy)]
struct Context<'c> {
    rules: &'c FieldRules,
    ripple: bool,
    /// Of the container around it.
    definitions: &'c Definitions<'c>,
    /// Containers around it.
    depth: u8,
    /// So many bytes of a series are kept.
    series_bytes_max: usize,
}

impl<'c> Context<'c> {
    fn of_refresh(rules: &'c FieldRules) -> Context<'c> {
        let series_bytes_max = SERIES_BYTES_MAX;
        Context { rules, ripple: false, definitions: &Definitions::None, depth: 0, series_bytes_max }
    }

    fn of_update(rules: &'c FieldRules, ripple: bool) -> Context<'c> {
        Context { ripple, series_bytes_max: SERIES_GROWN_BYTES_MAX, ..Context::of_refresh(rules) }
    }

    /// For what lies within a container that has these definitions.
    fn inside<'i>(&self, definitions: &'i Definitions<'i>) -> Context<'i>
    where
        'c: 'i,
    {
        Context { ripple: false, definitions, depth: self.depth + 1, ..*self }
    }
}

impl Image {
    /// Takes one part of a refresh; the first one replaces what was there. Returns whether all of it is in
    /// the image: not if there was no room, or a later part is of another type.
    ///
    /// # Errors
    /// The payload is not what its type says; what stood before the fault is taken.
    pub fn refresh(
        &mut self,
        container_type: DataType,
        payload: &[u8],
        is_first: bool,
        rules: &FieldRules,
    ) -> Result<bool, DecodeError> {
        if is_first {
            *self = Image::Empty;
        }
        if let Image::Opaque { container_type: ours, parts } = self
            && *ours == container_type
        {
            parts.push(payload.into());
            return Ok(true);
        }
        self.merge(container_type, payload, &Context::of_refresh(rules))
    }

    /// Merges the payload of an update. Returns whether the image has all of it: not if it, or a part of it,
    /// is of a type that cannot be merged, or of another type than what it would change, or there was no
    /// room.
    ///
    /// # Errors
    /// The payload is not what its type says; what was merged before the fault stays.
    #[inline]
    pub fn update(
        &mut self,
        container_type: DataType,
        payload: &[u8],
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<bool, DecodeError> {
        self.merge(container_type, payload, &Context::of_update(rules, ripple))
    }

    #[inline]
    fn merge(
        &mut self,
        container_type: DataType,
        payload: &[u8],
        context: &Context<'_>,
    ) -> Result<bool, DecodeError> {
        let is_blank = payload.is_empty() && context.depth > 0;
        if container_type == DataType::NO_DATA || is_blank {
            return Ok(true);
        }
        // The first data an item has may come as an update, such as from a provider that publishes an empty
        // image.
        if let Image::Empty = self {
            *self = Image::begin(container_type, payload, context.depth)?;
        }
        match self {
            Image::Fields(fields) if container_type == DataType::FIELD_LIST => {
                let (list, definitions) = (FieldList::parse(payload)?, context.definitions.of_fields());
                fields.merge_with(&list, definitions, context.ripple, context.rules).map(|()| true)
            }
            Image::Elements(elements) if container_type == DataType::ELEMENT_LIST => {
                let definitions = context.definitions.of_elements();
                elements.merge_with(&ElementList::parse(payload)?, definitions).map(|()| true)
            }
            Image::Map(map) if container_type == DataType::MAP => map.apply(&Map::parse(payload)?, context),
            Image::Vector(vector) if container_type == DataType::VECTOR => {
                vector.apply(&Vector::parse(payload)?, context)
            }
            Image::Filters(filters) if container_type == DataType::FILTER_LIST => {
                filters.apply(&FilterList::parse(payload)?, context)
            }
            Image::Series(series) if container_type == DataType::SERIES => {
                series.apply(&Series::parse(payload)?, context)
            }
            Image::Opaque { parts, .. } if parts.is_empty() => {
                parts.push(payload.into());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// An image without content, with what the head of a payload says.
    fn begin(container_type: DataType, payload: &[u8], depth: u8) -> Result<Image, DecodeError> {
        let is_list = [DataType::FIELD_LIST, DataType::ELEMENT_LIST].contains(&container_type);
        let is_too_deep = depth >= MERGE_DEPTH_MAX && !is_list;
        Ok(match container_type {
            DataType::FIELD_LIST => Image::Fields(FieldImage::begin(&FieldList::parse(payload)?)),
            DataType::ELEMENT_LIST => {
                Image::Elements(Box::new(ElementImage::begin(&ElementList::parse(payload)?)))
            }
            DataType::MAP if !is_too_deep => Image::Map(Box::new(MapImage::begin(&Map::parse(payload)?))),
            DataType::VECTOR if !is_too_deep => {
                Image::Vector(Box::new(VectorImage::begin(&Vector::parse(payload)?)))
            }
            DataType::FILTER_LIST if !is_too_deep => {
                Image::Filters(Box::new(FilterImage::begin(&FilterList::parse(payload)?)))
            }
            DataType::SERIES if !is_too_deep => {
                Image::Series(Box::new(SeriesImage::begin(&Series::parse(payload)?)))
            }
            _ => Image::Opaque { container_type, parts: Vec::new() },
        })
    }

    /// The type of the payload.
    #[must_use]
    pub fn container_type(&self) -> DataType {
        match self {
            Image::Empty => DataType::NO_DATA,
            Image::Fields(_) => DataType::FIELD_LIST,
            Image::Elements(_) => DataType::ELEMENT_LIST,
            Image::Map(_) => DataType::MAP,
            Image::Vector(_) => DataType::VECTOR,
            Image::Filters(_) => DataType::FILTER_LIST,
            Image::Series(_) => DataType::SERIES,
            Image::Opaque { container_type, .. } => *container_type,
        }
    }

    /// The fields, if it is a field list.
    #[must_use]
    pub fn fields(&self) -> Option<&FieldImage> {
        if let Image::Fields(fields) = self { Some(fields) } else { None }
    }

    /// Writes the payload of one part of a refresh, and returns where the next part begins if there is one.
    ///
    /// What has entries is cut between them, into parts of about `part_bytes`; one part there is always.
    pub fn write_part(&self, at: &PartStart, part_bytes: usize, w: &mut Writer<'_>) -> Option<PartStart> {
        let entry = if let PartStart::Entry(entry) = at { Some(*entry) } else { None };
        match self {
            Image::Empty => None,
            Image::Fields(fields) => {
                fields.write(w);
                None
            }
            Image::Elements(elements) => {
                elements.write(w);
                None
            }
            Image::Map(map) => {
                let from = if let PartStart::Key(key) = at { Some(&**key) } else { None };
                map.write(from, part_bytes, w).map(|key| PartStart::Key(key.into()))
            }
            Image::Vector(vector) => vector.write(entry, part_bytes, w).map(PartStart::Entry),
            Image::Filters(filters) => filters.write(entry, part_bytes, w).map(PartStart::Entry),
            Image::Series(series) => series.write(entry, part_bytes, w).map(PartStart::Entry),
            Image::Opaque { parts, .. } => {
                let index = entry.unwrap_or(0);
                if let Some(part) = parts.get(index) {
                    w.bytes(part);
                }
                (index + 1 < parts.len()).then_some(PartStart::Entry(index + 1))
            }
        }
    }

    /// Writes what an entry or a summary of containers of this type holds.
    fn write_inside(&self, container_type: DataType, w: &mut Writer<'_>) {
        match (self, container_type) {
            (Image::Empty, DataType::FIELD_LIST) => FieldImage::default().write(w),
            (Image::Empty, DataType::ELEMENT_LIST) => ElementImage::default().write(w),
            _ => {
                let rest = self.write_part(&PartStart::First, usize::MAX, w);
                debug_assert_eq!(rest, None, "what fits an entry has fewer entries than a message can count");
            }
        }
    }

    /// It takes at most so many bytes on the wire; quickly said, and often too many.
    fn bound_bytes(&self) -> usize {
        match self {
            Image::Empty => EMPTY_LIST_BYTES,
            Image::Fields(fields) => fields.bound_bytes(),
            Image::Elements(elements) => elements.wire_bytes(),
            Image::Map(map) => map.bound_bytes(),
            Image::Vector(vector) => vector.bound_bytes(),
            Image::Filters(filters) => filters.bound_bytes(),
            Image::Series(series) => series.wire_bytes(),
            Image::Opaque { parts, .. } => parts.iter().map(|part| part.len()).sum(),
        }
    }

    /// The same, with every field looked at: it takes hardly less.
    fn wire_bytes(&self) -> usize {
        match self {
            Image::Fields(fields) => fields.wire_bytes(),
            Image::Map(map) => map.wire_bytes(),
            Image::Vector(vector) => vector.wire_bytes(),
            Image::Filters(filters) => filters.wire_bytes(),
            Image::Empty | Image::Elements(_) | Image::Series(_) | Image::Opaque { .. } => self.bound_bytes(),
        }
    }

    /// Empties what has grown too large for a place of `bytes_max` bytes.
    fn keep_within(&mut self, bytes_max: usize, place: Place) -> Result<(), DecodeError> {
        if self.bound_bytes() <= bytes_max {
            return Ok(());
        }
        let length = self.wire_bytes();
        if length <= bytes_max {
            return Ok(());
        }
        *self = Image::Empty;
        Err(DecodeError::BadLength { place, length: length as u32, max: bytes_max as u32 })
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Image::Empty => 0,
            Image::Fields(fields) => fields.memory_bytes(),
            Image::Elements(elements) => elements.memory_bytes(),
            Image::Map(map) => map.memory_bytes(),
            Image::Vector(vector) => vector.memory_bytes(),
            Image::Filters(filters) => filters.memory_bytes(),
            Image::Series(series) => series.memory_bytes(),
            Image::Opaque { parts, .. } => parts.iter().map(|p| p.len()).sum(),
        }
    }
}

/// Where there is nothing, an empty list may have to stand; it counts as one.
const EMPTY_LIST_BYTES: usize = fields::LIST_HEAD_MAX;

/// Where a part of a refresh begins, see [`Image::write_part`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartStart {
    /// At the beginning.
    #[default]
    First,
    /// At this entry of a map.
    Key(Box<[u8]>),
    /// At this entry: index of a vector, id of a filter list, place in a series; or at this part of an image
    /// that came in parts and is kept so.
    Entry(usize),
}

#[cfg(test)]
mod tests;
