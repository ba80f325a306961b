//! The update that workloads send: 74 bytes of RWF with the time it was meant to be sent.

use client::ItemEvent;
use rwf::{DataType, Domain, Enum, FieldList, Msg, MsgClass, Real, Writer};
use units::Nanos;

/// Bytes of an update message without its key: header and 10 fields.
pub(crate) const UPDATE_BYTES: usize = 74;

/// Nanoseconds on the monotonic clock at which the update was meant to be sent.
const TIM_TRK_1: i16 = 3902;
/// Number of the run that ends with this update; 0 in all others.
const TIM_TRK_2: i16 = 3903;

/// Writes the fields of an update. `n` makes its prices.
#[inline]
pub(crate) fn write(w: &mut Writer<'_>, n: u64, intended: Nanos, ends_run: u8) {
    let price = 20_000 + (n % 10_000) as i64;
    w.field_list(|f| {
        f.encoded(TIM_TRK_1, &intended.0.to_be_bytes());
        f.encoded(TIM_TRK_2, &[ends_run]);
        f.put(22, Real::decimal(price, 2));
        f.put(25, Real::decimal(price + 4, 2));
        f.put(30, Real::decimal(9, 0));
        f.put(31, Real::decimal(36, 0));
        f.put(6, Real::decimal(price + 2, 2));
        f.put(178, Real::decimal(100, 0));
        f.put(32, Real::decimal(36_000_000 + price, 0));
        f.put(14, Enum(1));
    });
}

/// The image that updates of this kind belong to.
pub(crate) fn write_image(w: &mut Writer<'_>) {
    write(w, 0, Nanos::ZERO, 0);
}

/// When an update was meant to be sent, and the run that ends with it, if one does.
#[inline]
pub(crate) fn stamps(payload: &[u8]) -> Option<(Nanos, u8)> {
    let mut entries = FieldList::parse(payload).ok()?.entries();
    let first = entries.next()?.ok()?;
    let second = entries.next()?.ok()?;
    let nanos = u64::from_be_bytes(first.content.try_into().ok().filter(|_| first.id == TIM_TRK_1)?);
    Some((Nanos(nanos), *second.content.first().filter(|_| second.id == TIM_TRK_2)?))
}

/// The same of an event of the client.
#[inline]
pub(crate) fn event_stamps(event: &ItemEvent<'_>) -> Option<(Nanos, u8)> {
    stamps(event.payload().1)
}

/// The whole message as a server sends it.
pub(crate) fn message(stream_id: i32, n: u64) -> Vec<u8> {
    message_of_run(stream_id, n, 0)
}

fn message_of_run(stream_id: i32, n: u64, ends_run: u8) -> Vec<u8> {
    let header = rwf::UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST);
    rwf::encode_to_vec(|w| {
        rwf::UpdateMsg { update_type: rwf::UpdateType::QUOTE, ..header }.encode_header(w);
        write(w, n, Nanos(1 << 50), ends_run);
    })
    .expect("a message of this size can be encoded")
}

/// Whether a message is an update. Shape of every message: header length `u16`, then the class in the low
/// five bits.
#[inline]
pub(crate) fn is_update(message: &[u8]) -> bool {
    message.get(2).is_some_and(|byte| byte & 0x1F == MsgClass::Update as u8)
}

/// Where the content of `TIM_TRK_2` stands in the payload: behind flags, count and the first field.
const ENDS_RUN_AT: usize = 3 + 11 + 3;

/// Whether an update ends a run, told without decoding it.
#[inline]
pub(crate) fn ends_run(message: &[u8]) -> bool {
    let header = message.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
    message.get(2 + usize::from(header) + ENDS_RUN_AT).is_some_and(|byte| *byte != 0)
}

/// The payload of a message that is an update.
#[inline]
pub(crate) fn payload(message: &[u8]) -> Option<&[u8]> {
    match Msg::parse(message).ok()? {
        Msg::Update(update) => Some(update.payload),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_its_size_and_its_stamps() {
        let bytes = message(5, 7);
        assert_eq!(bytes.len(), UPDATE_BYTES);
        assert_eq!(stamps(payload(&bytes).expect("an update")), Some((Nanos(1 << 50), 0)));
        assert!(is_update(&bytes) && !ends_run(&bytes));
        let last = message_of_run(5, 7, 9);
        assert!(ends_run(&last) && stamps(payload(&last).expect("an update")) == Some((Nanos(1 << 50), 9)));
    }
}
