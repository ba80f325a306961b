//! Values of fields as an application wants them: prices, numbers, texts.

use std::borrow::Cow;

use rwf::{DataType, DecodeError, Dictionary, FieldName, FieldRef, Hint, Real, Value};

use super::fields::{Fields, text_of};
use super::{FieldId, ItemEvent, OwnedItemEvent};
use crate::{FieldError, FieldProblem};

/// Values as they are wanted.
impl<'a> ItemEvent<'a> {
    /// A price or another exact number, by field id or name: what a REAL, INT or UINT field says. `None` if the
    /// message does not have the field, or it is blank. It shows as `40.07`; [`Real::to_f64`] makes it a
    /// floating point number.
    ///
    /// # Errors
    /// [`FieldError`] says which field and why: a name that the dictionary does not have, another type, a
    /// malformed message.
    pub fn price(&self, field: impl FieldRef) -> Result<Option<Real>, FieldError> {
        read(self.source(), &field, |id| self.field(id), |value, _| exact(value))
    }

    /// A number as floating point, by field id or name. `None` if the message does not have the field, or it is
    /// blank.
    ///
    /// # Errors
    /// As [`ItemEvent::price`].
    pub fn number(&self, field: impl FieldRef) -> Result<Option<f64>, FieldError> {
        read(self.source(), &field, |id| self.field(id), |value, _| float(value))
    }

    /// A field as text, by id or name: the text of a text, what is shown for an enumerated value, digits of a
    /// number. `None` if the message does not have the field, or it is blank.
    ///
    /// # Errors
    /// As [`ItemEvent::price`].
    pub fn text(&self, field: impl FieldRef) -> Result<Option<Cow<'a, str>>, FieldError> {
        let dictionary = self.dictionary().map(|dictionary| &**dictionary);
        let text = |value, id| Ok(text_of(value, id, dictionary));
        read(self.source(), &field, |id| self.field(id), text)
    }

    fn source(&self) -> Source<'_> {
        Source {
            dictionary: self.dictionary().map(|dictionary| &**dictionary),
            is_empty: self.payload().0 == DataType::NO_DATA,
        }
    }
}

/// What is in it.
impl OwnedItemEvent {
    /// See [`ItemEvent::price`].
    ///
    /// # Errors
    /// As [`ItemEvent::price`].
    pub fn price(&self, field: impl FieldRef) -> Result<Option<Real>, FieldError> {
        read(self.source(), &field, |id| self.field(id), |value, _| exact(value))
    }

    /// See [`ItemEvent::number`].
    ///
    /// # Errors
    /// As [`ItemEvent::price`].
    pub fn number(&self, field: impl FieldRef) -> Result<Option<f64>, FieldError> {
        read(self.source(), &field, |id| self.field(id), |value, _| float(value))
    }

    /// See [`ItemEvent::text`].
    ///
    /// # Errors
    /// As [`ItemEvent::price`].
    pub fn text(&self, field: impl FieldRef) -> Result<Option<Cow<'_, str>>, FieldError> {
        let text = |value, id| Ok(text_of(value, id, self.dictionary.as_deref()));
        read(self.source(), &field, |id| self.field(id), text)
    }

    /// See [`ItemEvent::fields`].
    ///
    /// # Errors
    /// [`DecodeError`] if the payload is no field list.
    pub fn fields(&self) -> Result<Fields<'_>, DecodeError> {
        let (container_type, payload) = self.payload();
        let list = super::fields::field_list(container_type, payload)?;
        Ok(Fields::new(list.entries(), self.dictionary.as_deref()))
    }

    /// Type and bytes of the payload.
    ///
    /// # Panics
    /// Never: the message was read before.
    #[must_use]
    pub fn payload(&self) -> (DataType, &[u8]) {
        let msg = rwf::Msg::parse(&self.message).expect("the message was read before");
        (msg.container_type(), msg.payload())
    }

    fn source(&self) -> Source<'_> {
        let is_empty = self.payload().0 == DataType::NO_DATA;
        Source { dictionary: self.dictionary.as_deref(), is_empty }
    }
}

/// Where a field is looked up.
struct Source<'s> {
    dictionary: Option<&'s Dictionary>,
    /// There is no payload, so that no field is missed.
    is_empty: bool,
}

fn read<'v, T>(
    Source { dictionary, is_empty }: Source<'_>,
    field: &impl FieldRef,
    find: impl FnOnce(FieldId) -> Result<Option<Value<'v>>, DecodeError>,
    convert: impl FnOnce(Value<'v>, i16) -> Result<T, FieldProblem>,
) -> Result<Option<T>, FieldError> {
    if is_empty {
        return Ok(None);
    }
    let unknown = if dictionary.is_some() { FieldProblem::NotDefined } else { FieldProblem::NoDictionary };
    let failed = |problem| FieldError { field: FieldName::of(field, dictionary), problem };
    let Some(id) = field.resolve(dictionary) else { return Err(failed(unknown)) };
    match find(FieldId(id)) {
        Ok(None | Some(Value::Blank(_))) => Ok(None),
        Ok(Some(Value::Unknown(_))) => Err(failed(unknown)),
        Ok(Some(value)) => convert(value, id).map(Some).map_err(failed),
        Err(error) => Err(failed(FieldProblem::Malformed(error))),
    }
}

fn exact(value: Value<'_>) -> Result<Real, FieldProblem> {
    let whole = |mantissa| Real::new(mantissa, Hint::from_exponent(0).expect("a hint"));
    match value {
        Value::Real(real) => Ok(real),
        Value::Int(number) => Ok(whole(number)),
        Value::UInt(number) => {
            i64::try_from(number).map(whole).map_err(|_| FieldProblem::NotExact(DataType::UINT))
        }
        other => Err(FieldProblem::NotExact(type_of(&other))),
    }
}

fn float(value: Value<'_>) -> Result<f64, FieldProblem> {
    match value {
        Value::Real(real) => Ok(real.to_f64()),
        Value::Int(number) => Ok(number as f64),
        Value::UInt(number) => Ok(number as f64),
        Value::Float(number) => Ok(number.into()),
        Value::Double(number) => Ok(number),
        other => Err(FieldProblem::NotANumber(type_of(&other))),
    }
}

fn type_of(value: &Value<'_>) -> DataType {
    rwf::Primitive::data_type(value)
}
