//! Fields, elements, arrays.

use rwf::dictionary::EnumTable;
use rwf::primitive::rmtes;
use rwf::{ArrayWriter, AsciiString, Blank, DataType, ElementListWriter, Enum, FieldListWriter, Writer};

use super::fault::{Fault, What};
use super::{Encoded, Encoder, scalar};
use crate::json::{Kind, Node};
use crate::{Services, names};

impl<S: Services> Encoder<'_, S> {
    pub(super) fn fields<'t>(
        &mut self,
        node: Node<'t>,
        key: &'t [u8],
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        let list = scalar::object(node, key)?;
        let mut result = Ok(());
        w.field_list(|f| {
            f.begin_standard();
            result = list.members().try_for_each(|(name, node)| self.field(f, name, node, depth));
        });
        result
    }

    fn field<'t>(
        &mut self,
        f: &mut FieldListWriter<'_, '_, '_>,
        name: &'t [u8],
        node: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        let dictionary = self.converter.dictionary;
        let Some(id) = self.field_id(name) else {
            return match self.converter.options.catch_unknown_fields {
                true => Err(Fault::at(What::UnexpectedField { received: name }, node)),
                false => Ok(()),
            };
        };
        let data_type = dictionary.data_type(id);
        match (data_type, node.kind()) {
            (_, Kind::Null) => f.put(id, Blank(data_type)),
            (DataType::ENUM, Kind::String) if self.converter.options.allow_enum_display_strings => {
                let table = dictionary.enum_table(id);
                match table.and_then(|table| shown_as(table, node.string().unwrap_or_default())) {
                    Some(value) => f.put(id, value),
                    None => f.put(id, Blank(data_type)),
                }
            }
            (DataType::ARRAY, _) => {
                let array = Items::of(node, name)?;
                let mut result = Ok(());
                f.array(id, array.item_type, array.item_length, |items| result = self.items(&array, items));
                result?;
            }
            _ if data_type.is_container() => {
                let mut result = Ok(());
                f.container(id, |w| result = self.container(data_type, node, name, w, depth + 1));
                result?;
            }
            _ => self.put_value(data_type, node, name, |value| f.put(id, value))?,
        }
        Ok(())
    }

    /// The id of a field of the dictionary, by its name or its id in decimal.
    pub(super) fn field_id(&self, name: &[u8]) -> Option<i16> {
        let name = std::str::from_utf8(name).ok()?;
        let dictionary = self.converter.dictionary;
        let field = dictionary.field_by_name(name).or_else(|| dictionary.field(name.parse().ok()?));
        field.map(|field| field.id)
    }

    pub(super) fn elements<'t>(
        &mut self,
        node: Node<'t>,
        key: &'t [u8],
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        let mut result = Ok(());
        w.element_list(|e| {
            e.begin_standard();
            result = self.element_entries(node, key, e, depth);
        });
        result
    }

    pub(super) fn element_entries<'t>(
        &mut self,
        node: Node<'t>,
        key: &'t [u8],
        e: &mut ElementListWriter<'_, '_, '_>,
        depth: u32,
    ) -> Encoded<'t> {
        let list = scalar::object(node, key)?;
        list.members().try_for_each(|(name, node)| self.element(e, name, node, depth))
    }

    /// A string is text, a number unsigned; all else says its type.
    fn element<'t>(
        &mut self,
        e: &mut ElementListWriter<'_, '_, '_>,
        name: &'t [u8],
        node: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        match node.kind() {
            Kind::String => e.put(name, AsciiString(node.string().unwrap_or_default())),
            Kind::Number => e.put(name, scalar::number::<u64>(node, name)?),
            Kind::Object => {
                let data_type = data_type(node, b"Type")?;
                self.typed_element(e, name, data_type, scalar::required(node, b"Data")?, depth)?;
            }
            _ => return Err(Fault::unexpected_value(node, name)),
        }
        Ok(())
    }

    fn typed_element<'t>(
        &mut self,
        e: &mut ElementListWriter<'_, '_, '_>,
        name: &'t [u8],
        data_type: DataType,
        node: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        match data_type {
            DataType::NO_DATA => e.no_data(name),
            _ if node.kind() == Kind::Null => e.put(name, Blank(data_type)),
            DataType::ARRAY => {
                let array = Items::of(node, b"Data")?;
                let mut result = Ok(());
                e.array(name, array.item_type, array.item_length, |items| result = self.items(&array, items));
                result?;
            }
            _ if data_type.is_container() => {
                let mut result = Ok(());
                e.container(name, data_type, |w| {
                    result = self.container(data_type, node, b"Data", w, depth + 1);
                });
                result?;
            }
            _ => self.put_value(data_type, node, b"Data", |value| e.put(name, value))?,
        }
        Ok(())
    }

    fn items<'t>(&mut self, array: &Items<'t>, items: &mut ArrayWriter<'_, '_>) -> Encoded<'t> {
        let mut first = None;
        for node in array.data.items() {
            array.check_kind(node, &mut first)?;
            self.put_value(array.item_type, node, b"Data", |value| items.put(value))?;
        }
        Ok(())
    }
}

/// An array that was received.
struct Items<'t> {
    item_type: DataType,
    item_length: u16,
    data: Node<'t>,
}

impl<'t> Items<'t> {
    fn of(node: Node<'t>, key: &'t [u8]) -> Result<Items<'t>, Fault<'t>> {
        let array = scalar::object(node, key)?;
        let item_type = data_type(array, b"Type")?;
        if !item_type.is_primitive() || item_type == DataType::ARRAY {
            return Err(Fault::unexpected_value(scalar::required(array, b"Type")?, b"Type"));
        }
        let length = array.member(b"Length").map(|node| scalar::number(node, b"Length")).transpose()?;
        let data = scalar::array(scalar::required(array, b"Data")?, b"Data")?;
        Ok(Items { item_type, item_length: length.unwrap_or(0), data })
    }

    /// Numbers and strings do not stand side by side, unless strings are the numbers that JSON does not have.
    fn check_kind(&self, node: Node<'t>, first: &mut Option<Kind>) -> Result<(), Fault<'t>> {
        let words = [DataType::REAL, DataType::FLOAT, DataType::DOUBLE].contains(&self.item_type);
        if node.kind() == Kind::Null || words {
            return Ok(());
        }
        let (first, second) = (*first.get_or_insert(node.kind()), node.kind());
        if first == second { Ok(()) } else { Err(Fault::at(What::MixedTypes { first, second }, node)) }
    }
}

/// The type that a member names; the fixed forms of set definitions stand for their types.
pub(super) fn data_type<'t>(object: Node<'t>, key: &'t [u8]) -> Result<DataType, Fault<'t>> {
    let node = scalar::required(object, key)?;
    let data_type = DataType(scalar::named(node, key, names::data_type::number)?);
    match names::data_type::name(data_type.0) {
        Some(_) => Ok(data_type.base()),
        None => Err(Fault::unexpected_value(node, key)),
    }
}

/// The first value that is shown as `text`.
fn shown_as(table: &EnumTable, text: &[u8]) -> Option<Enum> {
    let text = std::str::from_utf8(text).ok()?;
    let shown = table.values().iter().find(|value| shows(&value.display, text));
    shown.map(|value| Enum(value.value))
}

fn shows(display: &[u8], text: &str) -> bool {
    if display.is_ascii() && !rmtes::has_escape(display) {
        return display == text.as_bytes();
    }
    let (mut rest, mut same) = (text.chars(), true);
    rmtes::each_character(display, |character| same &= rest.next() == Some(character));
    same && rest.next().is_none()
}
