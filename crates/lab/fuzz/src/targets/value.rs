use rwf::{DataType, Primitive, Value, Writer};

use crate::Outcome;

/// Input: type number, content.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let Some((data_type, content)) = input.split_first() else { return Outcome::refused("empty") };
    let decoded = Value::decode(DataType(*data_type), content);
    if let Ok(value) = decoded {
        assert_reads_again(value);
    }
    Outcome::of(&decoded, |value| (value.data_type(), value.content_len() == content.len()))
}

/// What was read is written to as many bytes as it says, which read the same.
pub(super) fn assert_reads_again(value: Value<'_>) {
    let mut room = [0; 4096];
    let mut w = Writer::new(&mut room);
    let length = value.content_len();
    if length > w.capacity() {
        return;
    }
    value.put_content(&mut w);
    let content = w.finish().unwrap_or_else(|error| panic!("{value:?}: {error}"));
    assert_eq!(content.len(), length, "{value:?}");
    let again = Value::decode(value.data_type(), content);
    // Not a number is not equal to itself, but prints the same.
    assert!(again == Ok(value) || format!("{again:?}") == format!("{:?}", Ok::<_, ()>(value)), "{again:?}");
    if let Value::Array(array) = value {
        array.values().map_while(Result::ok).for_each(assert_reads_again);
    }
}
