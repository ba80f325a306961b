use rwf::{DataType, DecodeError, Place, Series, SeriesHead, Writer, encode_to_vec};

use super::definitions::Definitions;
use super::entry::{CONTAINER_HEAD_BYTES_MAX, ENTRY_BYTES_MAX, PartRoom, Summary, hint};
use super::{Context, Image};

/// A series: containers one after the other.
///
/// Its entries have neither names nor actions: those of an update come behind those that are there. They are
/// kept as they came, but for set data, which becomes ordinary data.
#[derive(Clone, Debug)]
pub struct SeriesImage {
    container_type: DataType,
    /// The provider says how many entries there are.
    is_hinted: bool,
    summary: Summary,
    /// How many entries there are.
    count: usize,
    /// One behind the other; nothing where the entries hold nothing.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

/// The most that the entries of a series take.
pub(super) const SERIES_BYTES_MAX: usize = 16 << 20;
/// Updates add to a series until it takes so much: one whose updates go on and on has to end somewhere.
pub(super) const SERIES_GROWN_BYTES_MAX: usize = 1 << 20;
/// The most entries that are kept: those that hold nothing take nothing.
pub(super) const SERIES_ENTRIES_MAX: usize = 1 << 20;
/// An entry takes so many bytes besides its content.
const ENTRY_HEAD_BYTES_MAX: usize = 3;

impl SeriesImage {
    pub(super) fn begin(series: &Series<'_>) -> SeriesImage {
        SeriesImage {
            container_type: series.container_type,
            is_hinted: false,
            summary: Summary::default(),
            count: 0,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends the entries of a part of a refresh, or of an update. Returns whether there was room for all,
    /// and they are of the type of those that are there.
    pub(super) fn apply(&mut self, series: &Series<'_>, context: &Context<'_>) -> Result<bool, DecodeError> {
        if self.count == 0 && self.summary.get().is_none() {
            self.container_type = series.container_type;
        }
        if series.container_type != self.container_type {
            return Ok(series.count() == 0 && series.summary.is_none());
        }
        self.is_hinted |= series.total_count_hint.is_some();
        let definitions = Definitions::read(series.container_type, series.set_definitions)?;
        let inner = context.inside(&definitions);
        let mut is_merged = self.summary.apply(series.container_type, series.summary, &inner)?;
        for entry in series.entries() {
            is_merged &= match &definitions {
                Definitions::None => self.append(entry?, context),
                _ => self.append(&self.without_sets(entry?, &inner)?, context),
            };
        }
        Ok(is_merged)
    }

    /// An entry whose set data is ordinary data.
    fn without_sets(&self, entry: &[u8], context: &Context<'_>) -> Result<Vec<u8>, DecodeError> {
        let mut list = Image::Empty;
        list.merge(self.container_type, entry, context)?;
        list.keep_within(ENTRY_BYTES_MAX, Place::SeriesEntry)?;
        let bytes = encode_to_vec(|w| list.write_inside(self.container_type, w));
        Ok(bytes.expect("a list that fits its place can be written"))
    }

    /// Returns whether there was room.
    fn append(&mut self, entry: &[u8], context: &Context<'_>) -> bool {
        let taken = self.bytes.len() + self.ends.len() * size_of::<u32>();
        if taken + entry.len() > context.series_bytes_max || self.count == SERIES_ENTRIES_MAX {
            return false;
        }
        self.count += 1;
        if self.container_type != DataType::NO_DATA {
            self.bytes.extend_from_slice(entry);
            self.ends.push(self.bytes.len() as u32);
        }
        true
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of an entry.
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<&[u8]> {
        if self.container_type == DataType::NO_DATA {
            return (at < self.count).then_some(&[]);
        }
        let end = *self.ends.get(at)? as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[begin..end])
    }

    /// Writes a series from an entry on (`None`: the beginning, with the summary) until about `part_bytes`
    /// are written. Returns the place of the entry that did not fit, if there is one.
    pub(super) fn write(&self, from: Option<usize>, part_bytes: usize, w: &mut Writer<'_>) -> Option<usize> {
        let head = SeriesHead {
            total_count_hint: (from.is_none() && self.is_hinted).then(|| hint(self.count)),
            ..SeriesHead::new(self.container_type)
        };
        let (mut room, mut next) = (PartRoom::new(part_bytes), None);
        w.series(&head, |s| {
            if let (None, Some(summary)) = (from, self.summary.get()) {
                s.summary(|w| summary.write_inside(self.container_type, w));
            }
            for at in from.unwrap_or(0)..self.count {
                let entry = self.entry(at).unwrap_or_default();
                if !room.takes(entry.len() + ENTRY_HEAD_BYTES_MAX) {
                    next = Some(at);
                    break;
                }
                s.entry(|w| w.bytes(entry));
            }
        });
        next
    }

    /// It takes at most so many bytes on the wire.
    pub(super) fn wire_bytes(&self) -> usize {
        let entries = self.bytes.len() + self.count * ENTRY_HEAD_BYTES_MAX;
        CONTAINER_HEAD_BYTES_MAX + self.summary.wire_bytes() + entries
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries = self.bytes.capacity() + self.ends.capacity() * size_of::<u32>();
        size_of::<SeriesImage>() + self.summary.memory_bytes() + entries
    }
}
