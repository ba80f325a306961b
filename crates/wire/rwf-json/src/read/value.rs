//! Values by their type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rwf::primitive::rmtes;
use rwf::{AsciiString, Buffer, DataType, Enum, Real, RmtesString, Utf8String, Value};

use super::fault::Fault;
use super::{clock, scalar};
use crate::json::{Kind, Node};
use crate::write::text::{INFINITY, NAN, NEGATIVE_INFINITY};

/// Makes the text behind it UTF-8.
const RMTES_UTF8: &[u8] = b"\x1b%0";

/// A value of a type that is neither an array nor a container. `null` is the blank, and so is the empty text of
/// a date or time. Bytes that are not in the text as they are go into `bytes`.
pub(super) fn value<'v, 't: 'v>(
    data_type: DataType,
    node: Node<'t>,
    key: &'t [u8],
    bytes: &'v mut Vec<u8>,
) -> Result<Value<'v>, Fault<'t>> {
    let is_clock = matches!(data_type, DataType::DATE | DataType::TIME | DataType::DATETIME);
    if node.kind() == Kind::Null || is_clock && node.string() == Some(b"") {
        return Ok(Value::Blank(data_type));
    }
    let unexpected = || Fault::unexpected_value(node, key);
    Ok(match data_type {
        DataType::REAL => Value::Real(real(node, key)?),
        DataType::INT => Value::Int(scalar::number(node, key)?),
        DataType::UINT => Value::UInt(scalar::number(node, key)?),
        DataType::ENUM => Value::Enum(Enum(scalar::number(node, key)?)),
        DataType::FLOAT => Value::Float(float(node, key, f32::INFINITY, f32::NEG_INFINITY, f32::NAN)?),
        DataType::DOUBLE => Value::Double(float(node, key, f64::INFINITY, f64::NEG_INFINITY, f64::NAN)?),
        DataType::DATE => Value::Date(clock::date(scalar::string(node, key)?).ok_or_else(unexpected)?),
        DataType::TIME => Value::Time(clock::time(scalar::string(node, key)?).ok_or_else(unexpected)?),
        DataType::DATETIME => {
            Value::DateTime(clock::date_time(scalar::string(node, key)?).ok_or_else(unexpected)?)
        }
        DataType::QOS => match scalar::qos(node, key)? {
            Some(qos) => Value::Qos(qos),
            None => return Err(unexpected()),
        },
        DataType::STATE => Value::State(scalar::state(node, key)?),
        DataType::BUFFER => {
            base64(node, key, bytes)?;
            Value::Buffer(Buffer(bytes))
        }
        DataType::ASCII_STRING => Value::Ascii(AsciiString(scalar::string(node, key)?)),
        DataType::UTF8_STRING => Value::Utf8(Utf8String(scalar::string(node, key)?)),
        DataType::RMTES_STRING => Value::Rmtes(RmtesString(as_rmtes(scalar::string(node, key)?, bytes))),
        _ => return Err(unexpected()),
    })
}

/// Any decimal number that has an exact mantissa and hint.
fn real<'t>(node: Node<'t>, key: &'t [u8]) -> Result<Real, Fault<'t>> {
    let unexpected = || Fault::unexpected_value(node, key);
    match node.string() {
        None => Real::from_decimal_text(scalar::digits(node, key)?).map_err(|_| unexpected()),
        Some(word) if word == INFINITY.as_bytes() => Ok(Real::Infinity),
        Some(word) if word == NEGATIVE_INFINITY.as_bytes() => Ok(Real::NegativeInfinity),
        Some(word) if word == NAN.as_bytes() => Ok(Real::NotANumber),
        Some(_) => Err(unexpected()),
    }
}

/// A number in range, or one of the words for those that are not.
fn float<'t, F: std::str::FromStr + PartialEq>(
    node: Node<'t>,
    key: &'t [u8],
    infinity: F,
    negative_infinity: F,
    nan: F,
) -> Result<F, Fault<'t>> {
    let unexpected = || Fault::unexpected_value(node, key);
    match node.string() {
        None => {
            let value: F = scalar::number(node, key)?;
            if value == infinity || value == negative_infinity { Err(unexpected()) } else { Ok(value) }
        }
        Some(word) if word == INFINITY.as_bytes() => Ok(infinity),
        Some(word) if word == NEGATIVE_INFINITY.as_bytes() => Ok(negative_infinity),
        Some(word) if word == NAN.as_bytes() => Ok(nan),
        Some(_) => Err(unexpected()),
    }
}

/// Replaces `bytes` by what a base64 string says.
pub(super) fn base64<'t>(node: Node<'t>, key: &'t [u8], bytes: &mut Vec<u8>) -> Result<(), Fault<'t>> {
    let text = scalar::string(node, key)?;
    bytes.clear();
    bytes.resize(text.len().div_ceil(4) * 3, 0);
    let length = STANDARD.decode_slice(text, bytes).map_err(|_| Fault::unexpected_value(node, key))?;
    bytes.truncate(length);
    Ok(())
}

/// Text as RMTES: told to be UTF-8 where it is more than ASCII. Text with an escape at its beginning, such as
/// a partial update, says itself what it is.
fn as_rmtes<'v>(text: &'v [u8], bytes: &'v mut Vec<u8>) -> &'v [u8] {
    if text.is_ascii() || rmtes::has_escape(&text[..1]) {
        return text;
    }
    bytes.clear();
    bytes.extend_from_slice(RMTES_UTF8);
    bytes.extend_from_slice(text);
    bytes
}
