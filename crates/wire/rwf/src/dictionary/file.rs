//! Reads `RDMFieldDictionary` and `enumtype.def`.

use std::fmt;

use super::column::{Column, Line, lines};
use super::error::DictionaryError;
use super::model::{Dictionary, EnumField, EnumValue, Field, FieldType};
use crate::DataType;

/// What is wrong with a dictionary file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in bytes.
    pub column: u32,
    /// What stands there; empty at the end of the line.
    pub found: String,
    /// What is wrong with it.
    pub kind: FileErrorKind,
}

/// What is wrong with a place in a dictionary file.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// Something else should stand there.
    Expected(&'static str),
    /// It is well written but contradicts what is known.
    Contradicts(DictionaryError),
}

const NAME: &str = "an acronym";
const DDE_ACRONYM: &str = "a DDE acronym in double quotes";
const FIELD_ID: &str = "a field id, -32768 to 32767";
const RIPPLES_TO: &str = "the acronym that the field ripples to, or NULL";
const FIELD_TYPE: &str =
    "a field type: PRICE, INTEGER, ENUMERATED, ALPHANUMERIC, DATE, TIME, TIME_SECONDS, BINARY or NONE";
const LENGTH: &str = "a length, 0 to 65535";
const ENUM_LENGTH: &str = "the display length of the enumeration, 0 to 255, in parentheses";
const RWF_TYPE: &str = "an RWF type, such as REAL64, UINT64, ENUM or RMTES_STRING";
const END: &str = "the end of the line";
const ENUM_VALUE: &str = "an enumeration value, 0 to 65535";
const ENUM_DISPLAY: &str = "a display text in double quotes, or hexadecimal bytes in #";
const ENUM_FIELDS: &str = "the acronym and id of a field before any value";
const ENUM_VALUES: &str = "at least one value for the fields before";
const FIELD_FILE: &str = "Type 1, a field dictionary";
const ENUM_FILE: &str = "Type 2, an enumeration dictionary";
const DICTIONARY_ID: &str = "a dictionary id, 0 to 65535";

/// The words of dictionary files that are not the type's own name.
const RWF_TYPE_WORDS: &[(&str, DataType)] = &[
    ("INT32", DataType::INT),
    ("INT64", DataType::INT),
    ("UINT32", DataType::UINT),
    ("UINT64", DataType::UINT),
    ("REAL32", DataType::REAL),
    ("REAL64", DataType::REAL),
    ("DATE_TIME", DataType::DATETIME),
    ("STATUS", DataType::STATE),
    ("ELEM_LIST", DataType::ELEMENT_LIST),
];

impl Column<'_> {
    fn error(&self, line: &Line<'_>, kind: FileErrorKind) -> FileError {
        FileError { line: line.number, column: self.at, found: self.lossy().into_owned(), kind }
    }

    fn expected(&self, line: &Line<'_>, what: &'static str) -> FileError {
        self.error(line, FileErrorKind::Expected(what))
    }

    fn contradicts(&self, line: &Line<'_>) -> impl FnOnce(DictionaryError) -> FileError {
        let error = self.expected(line, "");
        move |why| FileError { kind: FileErrorKind::Contradicts(why), ..error }
    }
}

/// A column that must be a number.
fn number<T: std::str::FromStr>(
    column: Column<'_>,
    line: &Line<'_>,
    what: &'static str,
) -> Result<T, FileError> {
    column.number().ok_or_else(|| column.expected(line, what))
}

fn expect_end(line: &mut Line<'_>) -> Result<(), FileError> {
    let rest = line.remainder();
    if rest.text.is_empty() { Ok(()) } else { Err(rest.expected(line, END)) }
}

impl Dictionary {
    /// Adds the fields of an `RDMFieldDictionary` file.
    ///
    /// A line is: acronym, "DDE acronym", field id, acronym it ripples to or `NULL`, field type, length, for
    /// enumerations `( display length )`, RWF type, RWF length. Lines that begin with `!` are comments;
    /// `!tag` comments give version and id. A field that ripples to one that is not defined anywhere does not
    /// ripple.
    ///
    /// # Errors
    /// A [`FileError`] for the first line that is wrong; the fields before it are then in the dictionary.
    pub fn load_fields(&mut self, file: &[u8]) -> Result<(), FileError> {
        let mut ripples: Vec<(i16, String)> = Vec::new();
        for line in lines(file) {
            if let Some((name, value)) = line.tag() {
                self.field_tag(name, value, &line)?;
            } else if !line.is_empty() && !line.is_comment() {
                let (field, ripples_to) = field_line(line)?;
                ripples.extend(ripples_to.map(|name| (field.id, name)));
                let name = line.clone().word();
                self.add_field(field).map_err(name.contradicts(&line))?;
            }
        }
        for (id, name) in ripples {
            if let Some(to) = self.field_by_name(&name).map(|field| field.id) {
                self.set_ripples_to(id, to);
            }
        }
        Ok(())
    }

    fn field_tag(&mut self, name: &[u8], value: Column<'_>, line: &Line<'_>) -> Result<(), FileError> {
        match name {
            b"Type" if value.text != b"1" => return Err(value.expected(line, FIELD_FILE)),
            b"Version" => self.info_mut().field_version = value.lossy().into_owned(),
            b"DictionaryId" => self.id_tag(value, line)?,
            _ => {}
        }
        Ok(())
    }

    fn id_tag(&mut self, value: Column<'_>, line: &Line<'_>) -> Result<(), FileError> {
        let id = number(value, line, DICTIONARY_ID)?;
        self.agree_on_id(id).map_err(value.contradicts(line))
    }

    /// Adds the tables of an `enumtype.def` file.
    ///
    /// A table is one or more lines of acronym and field id, then lines of value, display and meaning. The
    /// display is in double quotes, or hexadecimal bytes in `#`. Comments are as in
    /// [`Dictionary::load_fields`].
    ///
    /// # Errors
    /// A [`FileError`] for the first line that is wrong; the tables before it are then in the dictionary.
    pub fn load_enums(&mut self, file: &[u8]) -> Result<(), FileError> {
        let mut table = PendingTable::default();
        for line in lines(file) {
            if let Some((name, value)) = line.tag() {
                self.enum_tag(name, value, &line)?;
            } else if !line.is_empty() && !line.is_comment() {
                let first = line.clone().word();
                if first.number::<i64>().is_some() {
                    table.value_line(line)?;
                } else {
                    if !table.values.is_empty() {
                        std::mem::take(&mut table).add_to(self)?;
                    }
                    table.field_line(line)?;
                }
            }
        }
        if table.is_empty() { Ok(()) } else { table.add_to(self) }
    }

    fn enum_tag(&mut self, name: &[u8], value: Column<'_>, line: &Line<'_>) -> Result<(), FileError> {
        match name {
            b"Type" if value.text != b"2" => return Err(value.expected(line, ENUM_FILE)),
            b"RT_Version" => self.info_mut().enum_rt_version = value.lossy().into_owned(),
            b"DT_Version" => self.info_mut().enum_dt_version = value.lossy().into_owned(),
            b"DictionaryId" => self.id_tag(value, line)?,
            _ => {}
        }
        Ok(())
    }
}

/// Reads a field definition; returns also the acronym of the field it ripples to.
fn field_line(mut line: Line<'_>) -> Result<(Field, Option<String>), FileError> {
    let name = name_column(&mut line)?;
    let Some((_, dde_acronym)) = line.enclosed(b"\"") else {
        return Err(line.word().expected(&line, DDE_ACRONYM));
    };
    let id = number(line.word(), &line, FIELD_ID)?;
    let ripples_to = line.word();
    if ripples_to.text.is_empty() {
        return Err(ripples_to.expected(&line, RIPPLES_TO));
    }
    let field_type = line.word();
    let field_type =
        FieldType::from_name(&field_type.lossy()).ok_or_else(|| field_type.expected(&line, FIELD_TYPE))?;
    let length = number(line.digits(), &line, LENGTH)?;
    let enum_length = enum_length(&mut line)?;
    let rwf_type = line.word();
    let data_type = rwf_type_of(&rwf_type.lossy()).ok_or_else(|| rwf_type.expected(&line, RWF_TYPE))?;
    let rwf_length = number(line.word(), &line, LENGTH)?;
    expect_end(&mut line)?;
    let field = Field {
        id,
        name,
        dde_acronym: dde_acronym.lossy().into(),
        ripples_to: None,
        field_type,
        length,
        enum_length,
        data_type,
        rwf_length,
    };
    Ok((field, (ripples_to.text != b"NULL").then(|| ripples_to.lossy().into_owned())))
}

fn name_column(line: &mut Line<'_>) -> Result<Box<str>, FileError> {
    let name = line.word();
    match std::str::from_utf8(name.text) {
        Ok(text) if !text.is_empty() && !text.starts_with('"') => Ok(text.into()),
        _ => Err(name.expected(line, NAME)),
    }
}

/// `( n )`, with or without blanks; 0 if it is not there.
fn enum_length(line: &mut Line<'_>) -> Result<u8, FileError> {
    if !line.character(b'(') {
        return Ok(0);
    }
    let length = line.digits();
    let value = number(length, line, ENUM_LENGTH)?;
    if line.character(b')') { Ok(value) } else { Err(line.word().expected(line, ENUM_LENGTH)) }
}

fn rwf_type_of(word: &str) -> Option<DataType> {
    let alias = RWF_TYPE_WORDS.iter().find(|(known, _)| *known == word).map(|(_, data_type)| *data_type);
    alias.or_else(|| DataType::from_name(word).filter(|known| known.is_primitive() || known.is_container()))
}

/// A table of an `enumtype.def` file whose lines are being read.
#[derive(Default)]
struct PendingTable<'a> {
    fields: Vec<EnumField>,
    values: Vec<EnumValue>,
    /// The line and column that an error about the whole table names.
    last: Option<(Line<'a>, Column<'a>)>,
}

impl<'a> PendingTable<'a> {
    fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.values.is_empty()
    }

    fn field_line(&mut self, mut line: Line<'a>) -> Result<(), FileError> {
        let first = line.clone().word();
        let name = name_column(&mut line)?;
        let id = number(line.word(), &line, FIELD_ID)?;
        expect_end(&mut line)?;
        self.fields.push(EnumField { id, name });
        self.last = Some((line, first));
        Ok(())
    }

    fn value_line(&mut self, mut line: Line<'a>) -> Result<(), FileError> {
        let first = line.word();
        let value = number(first, &line, ENUM_VALUE)?;
        if self.fields.is_empty() {
            return Err(first.expected(&line, ENUM_FIELDS));
        }
        let Some((mark, display)) = line.enclosed(b"\"#") else {
            return Err(line.word().expected(&line, ENUM_DISPLAY));
        };
        let display = match mark {
            b'#' => hex_bytes(display.text).ok_or_else(|| display.expected(&line, ENUM_DISPLAY))?,
            _ => Box::from(display.text),
        };
        let meaning = line.remainder().lossy().into();
        self.values.push(EnumValue { value, display, meaning });
        self.last = Some((line, first));
        Ok(())
    }

    fn add_to(self, dictionary: &mut Dictionary) -> Result<(), FileError> {
        let (line, column) = self.last.expect("a table has at least one line");
        if self.values.is_empty() {
            return Err(column.expected(&line, ENUM_VALUES));
        }
        dictionary.add_enum_table(self.fields, self.values).map_err(column.contradicts(&line))
    }
}

fn hex_bytes(digits: &[u8]) -> Option<Box<[u8]>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(nibble(*high)? << 4 | nibble(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileError { line, column, found, kind } = self;
        match kind {
            FileErrorKind::Expected(what) => {
                write!(f, "line {line}, column {column}: found {found:?}, expected {what}")
            }
            FileErrorKind::Contradicts(why) => write!(f, "line {line}, column {column}: {found:?}: {why}"),
        }
    }
}

impl std::error::Error for FileError {}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "\
!tag Version  4.20.59\r
!tag DictionaryId 1
!ACRONYM   DDE ACRONYM  FID  RIPPLES TO FIELD TYPE  LENGTH  RWF TYPE  RWF LEN

RDN_EXCHID \"EXCHANGE 'ID'\"  4  NULL      ENUMERATED 3 ( 3 )  ENUM         1
TRDPRC_1   \"LAST\"           6  TRDPRC_2  PRICE      17       REAL64       7
TRDPRC_2   \"LAST 1\"         7  NOWHERE   PRICE      17       REAL64       7\r
X_ENUM     \"\"              -9  NULL      ENUMERATED 5(12)    ENUM         2
";

    fn fields(text: &str) -> Result<Dictionary, FileError> {
        let mut dictionary = Dictionary::new();
        dictionary.load_fields(text.as_bytes()).map(|()| dictionary)
    }

    fn enums(text: &[u8]) -> Result<Dictionary, FileError> {
        let mut dictionary = Dictionary::new();
        dictionary.load_enums(text).map(|()| dictionary)
    }

    #[test]
    fn every_column_of_a_field_is_read() {
        let dictionary = fields(FIELDS).expect("well written");
        assert_eq!(dictionary.info().field_version, "4.20.59");
        assert_eq!((dictionary.info().dictionary_id, dictionary.field_count()), (1, 4));
        let field = dictionary.field(4).expect("defined");
        assert_eq!((&*field.name, &*field.dde_acronym), ("RDN_EXCHID", "EXCHANGE 'ID'"));
        assert_eq!((field.field_type, field.length, field.enum_length), (FieldType::ENUMERATED, 3, 3));
        assert_eq!((field.data_type, field.rwf_length), (DataType::ENUM, 1));
        assert_eq!(dictionary.field(6).and_then(|f| f.ripples_to), Some(7));
        assert_eq!(dictionary.field(7).and_then(|f| f.ripples_to), None);
        assert_eq!(dictionary.field(-9).map(|f| f.enum_length), Some(12));
    }

    #[test]
    fn each_wrong_column_is_named_with_its_place_and_what_belongs_there() {
        for (column, wrong, what) in [
            (5, "BID BID 22 NULL PRICE 17 REAL64 7", DDE_ACRONYM),
            (11, "BID \"BID\" 99999 NULL PRICE 17 REAL64 7", FIELD_ID),
            (13, "BID \"BID\" 22", RIPPLES_TO),
            (19, "BID \"BID\" 22 NULL PRICEY 17 REAL64 7", FIELD_TYPE),
            (25, "BID \"BID\" 22 NULL PRICE x REAL64 7", LENGTH),
            (30, "BID \"BID\" 22 NULL PRICE 17 ( x ) ENUM 7", ENUM_LENGTH),
            (32, "BID \"BID\" 22 NULL PRICE 17 ( 3 ENUM 7", ENUM_LENGTH),
            (28, "BID \"BID\" 22 NULL PRICE 17 REAL_4RB 7", RWF_TYPE),
            (35, "BID \"BID\" 22 NULL PRICE 17 REAL64 70000", LENGTH),
            (37, "BID \"BID\" 22 NULL PRICE 17 REAL64 7 8", END),
            (1, "\"BID\" 22 NULL PRICE 17 REAL64 7", NAME),
            (11, "!tag Type 2", FIELD_FILE),
        ] {
            let error = fields(&format!("\n{wrong}\n")).expect_err("wrong");
            assert_eq!((error.line, error.kind), (2, FileErrorKind::Expected(what)), "{error}");
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(what));
        }
    }

    #[test]
    fn definitions_that_contradict_each_other_are_refused_at_their_line() {
        let twice = format!("{FIELDS}{FIELDS}");
        let error = fields(&twice).expect_err("defined twice");
        let kind = FileErrorKind::Contradicts(DictionaryError::DuplicateFieldId { id: 4 });
        assert_eq!(error, FileError { line: 13, column: 1, found: "RDN_EXCHID".into(), kind });
        assert_eq!(error.to_string(), "line 13, column 1: \"RDN_EXCHID\": field id 4 is defined twice");
        let renamed = FIELDS.replace("TRDPRC_2   \"", "TRDPRC_1   \"");
        let kind = FileErrorKind::Contradicts(DictionaryError::DuplicateFieldName { id: 7, first: 6 });
        assert_eq!(fields(&renamed).expect_err("named twice").kind, kind);
        let mut dictionary = fields(FIELDS).expect("well written");
        let error = dictionary.load_enums(b"!tag DictionaryId 2\n").expect_err("another dictionary");
        let mismatch = DictionaryError::DictionaryIdMismatch { id: 2, known: 1 };
        assert_eq!(error.kind, FileErrorKind::Contradicts(mismatch));
    }

    const ENUMS: &[u8] = b"\
!tag RT_Version  1.0.1
!tag DT_Version  15.41
RDN_EXCHID   4
52_EXCHD2    1709
      0        \"   \"     undefined
   1500        \"X1K\"     two byte value
! comment
PRCTCK_1     14
      1        #DEfe#    up, byte from the glyph set
      2        \"\xff\"
";

    #[test]
    fn tables_are_shared_by_the_fields_before_them() {
        let dictionary = enums(ENUMS).expect("well written");
        let info = dictionary.info();
        assert_eq!((&*info.enum_rt_version, &*info.enum_dt_version), ("1.0.1", "15.41"));
        assert_eq!(dictionary.enum_tables().len(), 2);
        assert_eq!(dictionary.enum_display(1709, 1500), Some(&b"X1K"[..]));
        assert_eq!(dictionary.enum_display(4, 0), Some(&b"   "[..]));
        assert_eq!(dictionary.enum_display(14, 1), Some(&[0xDE, 0xFE][..]));
        assert_eq!(dictionary.enum_display(14, 2), Some(&[0xFF][..]));
        let up = dictionary.enum_table(14).and_then(|table| table.get(1)).expect("defined");
        assert_eq!(&*up.meaning, "up, byte from the glyph set");
    }

    #[test]
    fn a_wrong_line_of_an_enumeration_is_named() {
        for (line, column, text, what) in [
            (1, 1, "0 \"A\" x", ENUM_FIELDS),
            (1, 3, "A x", FIELD_ID),
            (1, 5, "A 4 5", END),
            (2, 1, "A 4\n-1 \"A\"", ENUM_VALUE),
            (2, 1, "A 4\n65536 \"A\"", ENUM_VALUE),
            (2, 3, "A 4\n1 A", ENUM_DISPLAY),
            (2, 3, "A 4\n1 \"A", ENUM_DISPLAY),
            (2, 4, "A 4\n1 #DEF#", ENUM_DISPLAY),
            (2, 4, "A 4\n1 #DG#", ENUM_DISPLAY),
            (1, 1, "A 4\n", ENUM_VALUES),
            (1, 11, "!tag Type 1", ENUM_FILE),
        ] {
            let error = enums(text.as_bytes()).expect_err(text);
            assert_eq!((error.line, error.column), (line, column), "{error}");
            assert_eq!(error.kind, FileErrorKind::Expected(what), "{error}");
        }
        let twice = enums(b"A 4\n0 \"\"\nB 4\n1 \"\"").expect_err("two tables");
        assert_eq!(twice.kind, FileErrorKind::Contradicts(DictionaryError::DuplicateEnumField { id: 4 }));
    }
}
