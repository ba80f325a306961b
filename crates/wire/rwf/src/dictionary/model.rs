use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::error::DictionaryError;
use crate::DataType;

/// Fields by id and by name, and the tables of enumerated fields.
///
/// Looking up a field's type is one array access, so it can be done for each field of each update. A
/// dictionary takes some 400 KiB beside its entries, is built once and then shared.
#[derive(Clone)]
pub struct Dictionary {
    info: DictionaryInfo,
    fields: Vec<Field>,
    /// By field id as `u16`: the type number, 0 for none.
    types: Box<[u8; IDS]>,
    /// By field id as `u16`: the position in `fields`, or `NONE`.
    positions: Box<[u16; IDS]>,
    /// Keyed without a random seed: the same dictionary behaves the same in every run.
    names: HashMap<Box<str>, i16, BuildHasherDefault<DefaultHasher>>,
    tables: Vec<EnumTable>,
    /// By field id as `u16`: the position in `tables`, or `NONE`.
    table_positions: Box<[u16; IDS]>,
}

const IDS: usize = 1 << 16;
const NONE: u16 = u16::MAX;
const ID_BLOCK: usize = 64;

/// What a dictionary says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryInfo {
    /// The number by which field lists name it; usually 1, 0 if not said.
    pub dictionary_id: u16,
    /// The version of the field definitions.
    pub field_version: String,
    /// The record template version of the enumerations.
    pub enum_rt_version: String,
    /// The display template version of the enumerations.
    pub enum_dt_version: String,
}

/// One field definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The id, never 0; negative ones are user defined.
    pub id: i16,
    /// The acronym, such as `BID`.
    pub name: Box<str>,
    /// The long name, such as `BID PRICE`.
    pub dde_acronym: Box<str>,
    /// The field that takes the old value when a new one arrives.
    pub ripples_to: Option<i16>,
    /// The type before RWF.
    pub field_type: FieldType,
    /// The length before RWF, in characters.
    pub length: u16,
    /// Characters of an enumerated value's display; 0 for other fields.
    pub enum_length: u8,
    /// The type on the wire.
    pub data_type: DataType,
    /// The longest content, in bytes, that a cache has to hold; 0 if not said.
    pub rwf_length: u16,
}

/// A field's type before RWF, which displays still follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldType(pub i8);

const FIELD_TYPES: &[(FieldType, &str)] = &[
    (FieldType::NONE, "NONE"),
    (FieldType::TIME_SECONDS, "TIME_SECONDS"),
    (FieldType::INTEGER, "INTEGER"),
    (FieldType::DATE, "DATE"),
    (FieldType::PRICE, "PRICE"),
    (FieldType::ALPHANUMERIC, "ALPHANUMERIC"),
    (FieldType::ENUMERATED, "ENUMERATED"),
    (FieldType::TIME, "TIME"),
    (FieldType::BINARY, "BINARY"),
];

impl FieldType {
    /// None.
    pub const NONE: FieldType = FieldType(-1);
    /// A time with seconds.
    pub const TIME_SECONDS: FieldType = FieldType(0);
    /// A whole number.
    pub const INTEGER: FieldType = FieldType(1);
    /// A date.
    pub const DATE: FieldType = FieldType(3);
    /// A price.
    pub const PRICE: FieldType = FieldType(4);
    /// Text.
    pub const ALPHANUMERIC: FieldType = FieldType(5);
    /// A number that a table turns into text.
    pub const ENUMERATED: FieldType = FieldType(6);
    /// A time of hours and minutes.
    pub const TIME: FieldType = FieldType(7);
    /// Bytes.
    pub const BINARY: FieldType = FieldType(8);

    /// The word in dictionary files, `None` for a number without one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        FIELD_TYPES.iter().find(|(field_type, _)| *field_type == self).map(|(_, name)| *name)
    }

    /// The type of a word in dictionary files.
    #[must_use]
    pub fn from_name(name: &str) -> Option<FieldType> {
        FIELD_TYPES.iter().find(|(_, known)| *known == name).map(|(field_type, _)| *field_type)
    }
}

impl fmt::Debug for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "field type {}", self.0),
        }
    }
}

/// The values of one or more enumerated fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumTable {
    fields: Vec<EnumField>,
    values: Vec<EnumValue>,
}

/// A field that a table belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumField {
    /// The field id.
    pub id: i16,
    /// The acronym; empty in tables from the wire, which does not carry it.
    pub name: Box<str>,
}

/// One value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumValue {
    /// The number on the wire.
    pub value: u16,
    /// What is shown: text, or glyph numbers of the vendor's character set.
    pub display: Box<[u8]>,
    /// What it means; empty in tables from the wire, unless they were asked for in full.
    pub meaning: Box<str>,
}

impl EnumTable {
    /// The fields it belongs to.
    #[must_use]
    pub fn fields(&self) -> &[EnumField] {
        &self.fields
    }

    /// All values, in ascending order.
    #[must_use]
    pub fn values(&self) -> &[EnumValue] {
        &self.values
    }

    /// What a number stands for.
    #[must_use]
    pub fn get(&self, value: u16) -> Option<&EnumValue> {
        let at = self.values.binary_search_by_key(&value, |known| known.value).ok()?;
        self.values.get(at)
    }
}

impl Dictionary {
    /// A dictionary without any definition.
    #[must_use]
    pub fn new() -> Dictionary {
        Dictionary {
            info: DictionaryInfo::default(),
            fields: Vec::new(),
            types: filled(0),
            positions: filled(NONE),
            names: HashMap::default(),
            tables: Vec::new(),
            table_positions: filled(NONE),
        }
    }

    /// What it says about itself.
    #[must_use]
    pub fn info(&self) -> &DictionaryInfo {
        &self.info
    }

    /// The same, to change.
    pub fn info_mut(&mut self) -> &mut DictionaryInfo {
        &mut self.info
    }

    /// The type of a field, [`DataType::UNKNOWN`] if it is not defined.
    #[inline]
    #[must_use]
    pub fn data_type(&self, id: i16) -> DataType {
        DataType(self.types[index(id)])
    }

    /// The definition of a field.
    #[must_use]
    pub fn field(&self, id: i16) -> Option<&Field> {
        self.fields.get(usize::from(self.positions[index(id)]))
    }

    /// The definition of a field by its acronym.
    #[must_use]
    pub fn field_by_name(&self, name: &str) -> Option<&Field> {
        self.field(*self.names.get(name)?)
    }

    /// All field definitions, by ascending id.
    pub fn fields(&self) -> impl Iterator<Item = &Field> + '_ {
        // Ids are few among all there could be: whole blocks without any are passed over at once.
        let (positive, negative) = self.positions.split_at(IDS / 2);
        let blocks = negative.chunks(ID_BLOCK).chain(positive.chunks(ID_BLOCK));
        let used = blocks.filter(|block| block.iter().any(|position| *position != NONE));
        used.flatten().filter_map(|position| self.fields.get(usize::from(*position)))
    }

    /// The number of field definitions.
    #[must_use]
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// The values of an enumerated field.
    #[must_use]
    pub fn enum_table(&self, id: i16) -> Option<&EnumTable> {
        self.tables.get(usize::from(self.table_positions[index(id)]))
    }

    /// All tables, in the order they were added.
    #[must_use]
    pub fn enum_tables(&self) -> &[EnumTable] {
        &self.tables
    }

    /// What is shown for a value of an enumerated field.
    #[must_use]
    pub fn enum_display(&self, id: i16, value: u16) -> Option<&[u8]> {
        Some(&self.enum_table(id)?.get(value)?.display)
    }

    /// Adds a field definition.
    ///
    /// # Errors
    /// A [`DictionaryError`]; the dictionary is then as it was.
    pub fn add_field(&mut self, field: Field) -> Result<(), DictionaryError> {
        let id = field.id;
        self.check_field(&field)?;
        let position = u16::try_from(self.fields.len()).ok().filter(|position| *position != NONE);
        let position = position.ok_or(DictionaryError::TooManyFields { max: NONE.into() })?;
        self.names.insert(field.name.clone(), id);
        self.types[index(id)] = field.data_type.0;
        self.positions[index(id)] = position;
        self.fields.push(field);
        Ok(())
    }

    fn check_field(&self, field: &Field) -> Result<(), DictionaryError> {
        let (id, data_type) = (field.id, field.data_type);
        if id == 0 {
            return Err(DictionaryError::ReservedFieldId);
        }
        if self.positions[index(id)] != NONE {
            return Err(DictionaryError::DuplicateFieldId { id });
        }
        if let Some(first) = self.names.get(&field.name) {
            return Err(DictionaryError::DuplicateFieldName { id, first: *first });
        }
        let container = data_type.is_container() && data_type != DataType::NO_DATA;
        if !(data_type.is_primitive() || container) {
            return Err(DictionaryError::BadFieldType { id, data_type });
        }
        let known = self.enum_table(id).and_then(|table| table.fields.iter().find(|field| field.id == id));
        match known {
            Some(known) if !known.name.is_empty() && known.name != field.name => {
                Err(DictionaryError::FieldNameMismatch { id })
            }
            _ => Ok(()),
        }
    }

    /// Says to which field a field's old value moves. Nothing happens if the field is not defined.
    pub(super) fn set_ripples_to(&mut self, id: i16, to: i16) {
        if let Some(field) = self.fields.get_mut(usize::from(self.positions[index(id)])) {
            field.ripples_to = Some(to);
        }
    }

    /// Adds a table of values. The fields need not be defined yet.
    ///
    /// # Errors
    /// A [`DictionaryError`]; the dictionary is then as it was.
    pub fn add_enum_table(
        &mut self,
        fields: Vec<EnumField>,
        mut values: Vec<EnumValue>,
    ) -> Result<(), DictionaryError> {
        if fields.is_empty() {
            return Err(DictionaryError::EnumTableWithoutFields);
        }
        for EnumField { id, name } in &fields {
            let id = *id;
            if self.table_positions[index(id)] != NONE {
                return Err(DictionaryError::DuplicateEnumField { id });
            }
            if self.field(id).is_some_and(|field| !name.is_empty() && field.name != *name) {
                return Err(DictionaryError::FieldNameMismatch { id });
            }
        }
        let mut ids: Vec<i16> = fields.iter().map(|field| field.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DictionaryError::DuplicateEnumField { id: pair[0] });
        }
        values.sort_by_key(|value| value.value);
        if let Some(pair) = values.windows(2).find(|pair| pair[0].value == pair[1].value) {
            return Err(DictionaryError::DuplicateEnumValue { value: pair[0].value });
        }
        // Each table takes at least one of the 65536 ids, so `NONE` is reached only by the very last one.
        let position = u16::try_from(self.tables.len()).ok().filter(|position| *position != NONE);
        let position = position.ok_or(DictionaryError::TooManyFields { max: NONE.into() })?;
        for field in &fields {
            self.table_positions[index(field.id)] = position;
        }
        self.tables.push(EnumTable { fields, values });
        Ok(())
    }

    /// Takes over a dictionary id unless it is 0; it must be the one known before, if there is one.
    pub(super) fn agree_on_id(&mut self, id: u16) -> Result<(), DictionaryError> {
        let known = self.info.dictionary_id;
        if id != 0 && known != 0 && id != known {
            return Err(DictionaryError::DictionaryIdMismatch { id, known });
        }
        if id != 0 {
            self.info.dictionary_id = id;
        }
        Ok(())
    }
}

#[inline]
fn index(id: i16) -> usize {
    usize::from(id as u16)
}

/// Made on the heap; an array of this size does not belong on a stack.
fn filled<T: Copy + fmt::Debug>(value: T) -> Box<[T; IDS]> {
    vec![value; IDS].into_boxed_slice().try_into().expect("it has that length")
}

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary::new()
    }
}

impl Default for DictionaryInfo {
    fn default() -> Self {
        let unsaid = || String::from("0.0.0");
        DictionaryInfo {
            dictionary_id: 0,
            field_version: unsaid(),
            enum_rt_version: unsaid(),
            enum_dt_version: unsaid(),
        }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("info", &self.info)
            .field("fields", &self.fields.len())
            .field("tables", &self.tables.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(id: i16, name: &str, data_type: DataType) -> Field {
        Field {
            id,
            name: name.into(),
            dde_acronym: "".into(),
            ripples_to: None,
            field_type: FieldType::NONE,
            length: 0,
            enum_length: 0,
            data_type,
            rwf_length: 0,
        }
    }

    fn enum_field(id: i16, name: &str) -> EnumField {
        EnumField { id, name: name.into() }
    }

    fn value(value: u16) -> EnumValue {
        EnumValue { value, display: Box::from(*b"X"), meaning: "".into() }
    }

    #[test]
    fn fields_are_found_by_id_and_by_name_and_listed_in_order() {
        let mut dictionary = Dictionary::new();
        for (id, name) in [(22, "BID"), (-1, "OWN"), (i16::MAX, "LAST"), (i16::MIN, "FIRST")] {
            dictionary.add_field(field(id, name, DataType::REAL)).expect("new");
            assert_eq!(dictionary.data_type(id), DataType::REAL);
            assert_eq!(dictionary.field_by_name(name).map(|f| f.id), Some(id));
        }
        assert_eq!(dictionary.fields().map(|f| f.id).collect::<Vec<_>>(), [i16::MIN, -1, 22, i16::MAX]);
        assert_eq!(dictionary.data_type(25), DataType::UNKNOWN);
        assert!(dictionary.field(25).is_none() && dictionary.field_by_name("ASK").is_none());
    }

    #[test]
    fn a_definition_that_contradicts_another_is_refused_and_changes_nothing() {
        let mut dictionary = Dictionary::new();
        dictionary.add_field(field(22, "BID", DataType::REAL)).expect("new");
        let mut refused = |field| dictionary.add_field(field).expect_err("contradicts");
        assert_eq!(refused(field(0, "ZERO", DataType::INT)), DictionaryError::ReservedFieldId);
        assert_eq!(refused(field(22, "ASK", DataType::REAL)), DictionaryError::DuplicateFieldId { id: 22 });
        assert_eq!(
            refused(field(25, "BID", DataType::REAL)),
            DictionaryError::DuplicateFieldName { id: 25, first: 22 }
        );
        for data_type in [DataType::UNKNOWN, DataType::INT_1, DataType::NO_DATA] {
            assert_eq!(
                refused(field(25, "ASK", data_type)),
                DictionaryError::BadFieldType { id: 25, data_type }
            );
        }
        assert_eq!(dictionary.field_count(), 1);
    }

    #[test]
    fn an_enumeration_is_shared_by_its_fields_and_searched_by_value() {
        let mut dictionary = Dictionary::new();
        let fields = vec![enum_field(4, "EXCH"), enum_field(1709, "EXCH2")];
        dictionary.add_enum_table(fields, vec![value(43), value(0), value(1500)]).expect("new");
        for id in [4, 1709] {
            assert_eq!(dictionary.enum_display(id, 1500), Some(&b"X"[..]));
            assert_eq!(dictionary.enum_display(id, 1), None);
        }
        assert_eq!(dictionary.enum_display(5, 0), None);
        let values: Vec<_> = dictionary.enum_tables()[0].values().iter().map(|v| v.value).collect();
        assert_eq!(values, [0, 43, 1500]);
    }

    #[test]
    fn an_enumeration_that_contradicts_another_or_the_fields_is_refused() {
        let mut dictionary = Dictionary::new();
        dictionary.add_enum_table(vec![enum_field(4, "EXCH")], vec![value(0)]).expect("new");
        let mismatch = dictionary.add_field(field(4, "TICK", DataType::ENUM));
        assert_eq!(mismatch, Err(DictionaryError::FieldNameMismatch { id: 4 }));
        dictionary.add_field(field(15, "CURRENCY", DataType::ENUM)).expect("new");
        let mut refused =
            |fields, values| dictionary.add_enum_table(fields, values).expect_err("contradicts");
        assert_eq!(refused(vec![], vec![]), DictionaryError::EnumTableWithoutFields);
        let twice = vec![enum_field(7, "A"), enum_field(7, "A")];
        assert_eq!(refused(twice, vec![]), DictionaryError::DuplicateEnumField { id: 7 });
        assert_eq!(refused(vec![enum_field(4, "")], vec![]), DictionaryError::DuplicateEnumField { id: 4 });
        assert_eq!(
            refused(vec![enum_field(15, "CCY")], vec![]),
            DictionaryError::FieldNameMismatch { id: 15 }
        );
        assert_eq!(
            refused(vec![enum_field(7, "A")], vec![value(1), value(2), value(1)]),
            DictionaryError::DuplicateEnumValue { value: 1 }
        );
        assert_eq!(dictionary.enum_tables().len(), 1);
    }
}
