use rwf::primitive::rmtes;
use rwf::{Array, DataType, Qos, Rate, State, StateCode, Timeliness, Value};

use super::Written;
use super::text::{Text, member};
use crate::names;

impl Text<'_> {
    /// A value that is no container; without a comma behind it.
    #[inline]
    pub(crate) fn primitive(&mut self, value: &Value<'_>) -> Written {
        match value {
            Value::Real(real) => self.real(*real),
            Value::Int(int) => self.int(*int),
            Value::UInt(uint) => self.uint(*uint),
            Value::Enum(value) => self.uint(value.0.into()),
            Value::Time(time) => self.time(time),
            Value::Date(date) => self.date(*date),
            Value::DateTime(date_time) => self.date_time(date_time),
            Value::Ascii(text) => self.string(text.0),
            Value::Utf8(text) => self.string(text.0),
            Value::Rmtes(text) => self.rmtes(text.0),
            Value::Float(float) => self.float(*float),
            Value::Double(double) => self.float(*double),
            Value::Qos(qos) => self.qos(*qos),
            Value::State(state) => self.state(state),
            Value::Array(array) => return self.array(array),
            Value::Buffer(bytes) => self.base64(bytes.0),
            _ => self.null(),
        }
        Ok(())
    }

    fn array(&mut self, array: &Array<'_>) -> Written {
        self.open_object();
        self.raw(member!("Type"));
        self.name_or_number(names::data_type::name(array.item_type.0), array.item_type.0);
        self.comma();
        self.raw(member!("Data"));
        self.open_array();
        for item in array.items() {
            self.primitive(&fixed_item(array, item?)?)?;
            self.comma();
        }
        self.close_array();
        self.close_object();
        Ok(())
    }

    pub(crate) fn qos(&mut self, qos: Qos) {
        let (timeliness, time_info) = match qos.timeliness {
            Timeliness::RealTime => (1, None),
            Timeliness::DelayedUnknown => (2, None),
            Timeliness::Delayed(info) => (3, Some(info)),
        };
        let (rate, rate_info) = match qos.rate {
            Rate::TickByTick => (1, None),
            Rate::JustInTimeConflated => (2, None),
            Rate::TimeConflated(info) => (3, Some(info)),
        };
        self.open_object();
        self.raw(member!("Timeliness"));
        self.name_or_number(names::timeliness::name(timeliness), timeliness);
        self.comma();
        self.raw(member!("Rate"));
        self.name_or_number(names::rate::name(rate), rate);
        self.comma();
        self.optional(member!("TimeInfo"), time_info.map(u64::from));
        self.optional(member!("RateInfo"), rate_info.map(u64::from));
        self.flag(member!("Dynamic"), qos.dynamic);
        self.close_object();
    }

    pub(crate) fn state(&mut self, state: &State<'_>) {
        let (stream, data) = (state.stream as u8, state.data as u8);
        self.open_object();
        self.raw(member!("Stream"));
        self.name_or_number(names::stream_state::name(stream), stream);
        self.comma();
        self.raw(member!("Data"));
        self.name_or_number(names::data_state::name(data), data);
        self.comma();
        if state.code != StateCode::NONE {
            self.raw(member!("Code"));
            self.name_or_number(names::state_code::name(state.code.0), state.code.0);
            self.comma();
        }
        self.raw(member!("Text"));
        self.string(state.text);
        self.close_object();
    }

    /// A member that is a number, if there is one.
    pub(crate) fn optional(&mut self, member: &[u8], number: Option<u64>) {
        if let Some(number) = number {
            self.raw(member);
            self.uint(number);
            self.comma();
        }
    }

    /// A member that is written only when it is true.
    #[inline]
    pub(crate) fn flag(&mut self, member: &[u8], set: bool) {
        if set {
            self.raw(member);
            self.boolean(true);
            self.comma();
        }
    }

    /// RMTES text as it shows. A partial update keeps its commands: who receives it applies them.
    #[inline]
    pub(crate) fn rmtes(&mut self, bytes: &[u8]) {
        if bytes.is_ascii() && !rmtes::has_escape(bytes) {
            self.string(bytes);
        } else {
            self.shown(bytes);
        }
    }

    #[cold]
    fn shown(&mut self, bytes: &[u8]) {
        self.quote();
        if rmtes::is_partial_update(bytes) {
            self.characters(bytes);
        } else {
            rmtes::each_character(bytes, |character| self.character(character));
        }
        self.quote();
    }
}

/// An item as a value. Text of fixed width is filled up with zeros, which are not part of it.
fn fixed_item<'a>(array: &Array<'a>, item: &'a [u8]) -> Result<Value<'a>, rwf::DecodeError> {
    let text =
        matches!(array.item_type, DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING);
    let item = match item.iter().rposition(|byte| *byte != 0) {
        Some(last) if text && array.item_length != 0 => &item[..=last],
        None if text && array.item_length != 0 => &[],
        _ => item,
    };
    Value::decode(array.item_type, item)
}
