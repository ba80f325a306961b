//! What is in the messages: an image, updates that take turns, posts and generic messages.

mod file;
mod values;

use std::path::Path;

use rwf::{DataType, Dictionary, EncodeError, FieldList, Value, Writer};

use crate::xml::FileFault;

/// Set by who publishes an update: when its encoding began.
pub const TIM_TRK_1: i16 = 3902;
/// Set by who posts.
pub const TIM_TRK_2: i16 = 3903;
/// Set by who sends a generic message.
pub const TIM_TRK_3: i16 = 3904;
/// The three, which images have as blanks.
pub const STAMPS: [i16; 3] = [TIM_TRK_1, TIM_TRK_2, TIM_TRK_3];

/// Most messages of a kind in a file.
pub const MESSAGES_MAX: usize = 1_000;
/// Most fields in a message.
pub const FIELDS_MAX: usize = 1_000;
/// Longest payload of a message, in bytes; one with its header goes unfragmented where 64 KiB do.
pub const PAYLOAD_BYTES_MAX: usize = 60_000;

/// The messages that are used if no file is given.
const STANDARD: &str = include_str!("standard.xml");
/// What the standard messages are called in errors.
const STANDARD_NAME: &str = "the built-in messages";

/// A field with its content as it stands on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldContent {
    /// The id.
    pub id: i16,
    /// Its type, which must be the dictionary's.
    pub data_type: DataType,
    /// The encoded value; empty for a blank.
    pub content: Box<[u8]>,
    /// Where it stands in its file.
    line: u32,
}

/// The fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<FieldContent>);

/// A time stamp: its field, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which of [`STAMPS`].
    pub id: i16,
    /// The time in the unit that both ends agree on.
    pub time: u64,
}

impl Fields {
    /// Writes them as a field list, with a time stamp behind them.
    #[inline]
    pub fn write(&self, w: &mut Writer<'_>, stamp: Option<Stamp>) {
        w.field_list(|list| {
            for field in &self.0 {
                list.encoded(client::FieldId(field.id), &field.content);
            }
            if let Some(stamp) = stamp {
                list.put(client::FieldId(stamp.id), stamp.time);
            }
        });
    }

    /// The field list by itself.
    ///
    /// # Errors
    /// None for fields that were read from a file: their number and lengths are bounded.
    pub fn payload(&self) -> Result<Vec<u8>, EncodeError> {
        rwf::encode_to_vec(|w| self.write(w, None))
    }

    /// Those that a view has.
    #[must_use]
    pub fn seen_by(&self, view: &[i16]) -> Fields {
        Fields(self.0.iter().filter(|field| view.contains(&field.id)).cloned().collect())
    }
}

/// All messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSet {
    file: String,
    /// The image of each item, with the three blank time stamps.
    pub image: Fields,
    /// Updates, which each item has in turn; at least one.
    pub updates: Vec<Fields>,
    /// Posts, in turn; there may be none.
    pub posts: Vec<Fields>,
    /// Generic messages, in turn; there may be none.
    pub generics: Vec<Fields>,
}

impl MessageSet {
    /// The built-in messages. Their fields are in the built-in dictionary of Tickcast.
    ///
    /// # Errors
    /// None: a test reads them.
    pub fn standard() -> Result<MessageSet, FileFault> {
        MessageSet::parse(STANDARD_NAME, STANDARD)
    }

    /// Those of a file in the XML of the SDK's tools, or the built-in ones without a file.
    ///
    /// # Errors
    /// [`FileFault`] names the line, what was found and what is allowed.
    pub fn read(path: Option<&Path>) -> Result<MessageSet, FileFault> {
        match path {
            None => MessageSet::standard(),
            Some(path) => MessageSet::parse(&path.display().to_string(), &crate::xml::read(path)?),
        }
    }

    /// Those of the text of a file.
    ///
    /// # Errors
    /// As [`MessageSet::read`].
    pub fn parse(name: &str, text: &str) -> Result<MessageSet, FileFault> {
        file::parse(name, text)
    }

    /// Holds all fields against a dictionary.
    ///
    /// # Errors
    /// The first field that the dictionary does not have, or of another type.
    pub fn check(&self, dictionary: &Dictionary) -> Result<(), FileFault> {
        let lists = [&self.updates, &self.posts, &self.generics].into_iter().flatten();
        for field in lists.chain([&self.image]).flat_map(|fields| &fields.0) {
            let known = dictionary.data_type(field.id);
            let what = if dictionary.field(field.id).is_none() {
                format!("field {} is not in the dictionary", field.id)
            } else if known != field.data_type {
                format!("field {} is of type {}, the dictionary says {known}", field.id, field.data_type)
            } else {
                continue;
            };
            return Err(FileFault { file: self.file.clone(), line: Some(field.line), what });
        }
        Ok(())
    }
}

/// The time stamp of a field in a payload, if it has one.
pub(crate) fn stamp_in(container_type: DataType, payload: &[u8], id: i16) -> Option<u64> {
    if container_type != DataType::FIELD_LIST {
        return None;
    }
    let list = FieldList::parse(payload).ok()?;
    let field = list.entries().map_while(Result::ok).find(|entry| entry.id == id)?;
    match Value::decode(DataType::UINT, field.content) {
        Ok(Value::UInt(stamp)) => Some(stamp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rwf::{Domain, UpdateMsg, encode_to_vec};

    use super::*;
    use crate::dictionary;

    /// Bytes of an update message.
    fn update_bytes(fields: &Fields, stamp: Option<Stamp>) -> usize {
        let header = UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST);
        let bytes = encode_to_vec(|w| {
            header.encode_header(w);
            fields.write(w, stamp);
        });
        bytes.expect("short").len()
    }

    #[test]
    fn the_built_in_messages_are_of_the_built_in_dictionary_and_of_the_usual_size() {
        let set = MessageSet::standard().expect("good");
        set.check(&dictionary::load(None).expect("good")).expect("all fields are known");
        let sizes: Vec<_> = set.updates.iter().map(|update| update_bytes(update, None)).collect();
        assert_eq!(sizes, [140, 153]);
        let counts: Vec<_> = set.updates.iter().map(|update| update.0.len()).collect();
        assert_eq!(counts, [23, 23]);
        assert_eq!(set.image.0.len(), 35);
        assert_eq!((set.posts.len(), set.generics.len()), (2, 2));
    }

    #[test]
    fn a_stamp_is_the_last_field_and_costs_its_bytes() {
        let set = MessageSet::standard().expect("good");
        let stamp = Stamp { id: TIM_TRK_1, time: 1 << 32 };
        assert_eq!(update_bytes(&set.updates[0], Some(stamp)), 140 + 3 + 5);
        let payload = encode_to_vec(|w| set.updates[0].write(w, Some(stamp))).expect("short");
        let list = rwf::FieldList::parse(&payload).expect("good");
        let last = list.entries().last().expect("some").expect("good");
        assert_eq!((last.id, last.content), (TIM_TRK_1, &[1, 0, 0, 0, 0][..]));
    }

    #[test]
    fn a_view_has_its_fields_and_no_other() {
        let set = MessageSet::standard().expect("good");
        let ids: Vec<i16> = set.image.seen_by(&[25, 22, 9999]).0.iter().map(|field| field.id).collect();
        assert_eq!(ids, [22, 25]);
    }

    #[test]
    fn the_file_of_the_sdk_has_the_known_sizes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../../shared/data/open/rdm/MsgData.xml");
        if !Path::new(path).exists() {
            return;
        }
        let set = MessageSet::read(Some(Path::new(path))).expect("good");
        let sizes: Vec<_> = set.updates.iter().map(|update| update_bytes(update, None)).collect();
        // The C tools make 140 and 153 bytes of these two.
        assert!(sizes[0].abs_diff(140) <= 1 && sizes[1].abs_diff(153) <= 1, "{sizes:?}");
        assert_eq!((set.image.0.len(), set.posts.len(), set.generics.len()), (86, 2, 2));
    }
}
