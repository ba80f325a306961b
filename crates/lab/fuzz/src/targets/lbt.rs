use lbt::stream::StreamDecoder;
use lbt::wire::lbmc::{self, Messages};
use lbt::wire::lbmr;
use lbt::wire::lbtrm::Packet;
use lbt::wire::lbtru;

use crate::Outcome;

/// The longest message of a stream here.
const MESSAGE_BYTES_MAX: u32 = 4096;

/// Input: a datagram, which is looked at as every kind there is, and as the bytes of a direct connection.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let rm = Packet::parse(input);
    if let Ok(Packet::Data(data)) = &rm {
        walk(data.messages);
    }
    let ru = unicast(input);
    let resolution = lbmr::Packet::parse(input);
    if let Ok(lbmr) = &resolution {
        assert_eq!(lbmr.queries.iter().count(), lbmr.queries.len());
        assert_eq!(lbmr.records.iter().count(), lbmr.records.len());
        let options = lbmr.records.iter().filter_map(|record| record.options);
        assert!(options.map(|options| options.iter().count()).sum::<usize>() < input.len());
    }
    let streamed = streamed(input);
    match (&rm, &resolution) {
        (Ok(packet), _) => Outcome::accepted((std::mem::discriminant(packet), ru, streamed)),
        (_, Ok(lbmr)) => {
            Outcome::accepted((lbmr.queries.len().min(3), lbmr.records.len().min(3), ru, streamed))
        }
        (Err(error), Err(other)) => match ru {
            Some(shape) => Outcome::accepted((shape, streamed)),
            None => Outcome::refused((error, other, streamed)),
        },
    }
}

/// Messages walk to their end.
fn walk(messages: &[u8]) {
    let checked = lbmc::check(messages);
    let read = Messages::new(messages).map_while(Result::ok).inspect(|message| {
        assert!(message.data().len() <= messages.len());
        assert!(message.headers.iter().count() <= messages.len());
    });
    let count = read.count() as u32;
    assert!(checked.is_err() || checked == Ok(count), "{checked:?} of {count}");
}

/// What parses as LBT-RU is the same when it is written and parsed again; returns its shape.
fn unicast(input: &[u8]) -> Option<(u8, bool, bool)> {
    let packet = lbtru::Packet::parse(input).ok()?;
    if matches!(packet.body, lbtru::Body::Data { .. }) {
        walk(packet.rest);
    }
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(lbtru::Packet::parse(&again), Ok(packet));
    Some((input[0], packet.options.session_id.is_some(), packet.options.client_id.is_some()))
}

/// Whole and byte by byte, a stream gives the same messages and the same end.
fn streamed(input: &[u8]) -> (usize, bool) {
    let read = |piece_bytes: usize| {
        let mut decoder = StreamDecoder::new(MESSAGE_BYTES_MAX);
        let mut messages = Vec::new();
        let mut ended = Ok(());
        for piece in input.chunks(piece_bytes) {
            let take = |message: lbt::stream::StreamMessage<'_>| messages.push(message.payload.to_vec());
            ended = decoder.push(piece, take);
            let bound = 2 * input.len() + 2 * MESSAGE_BYTES_MAX as usize;
            assert!(decoder.memory_bytes() <= bound, "{} bytes", decoder.memory_bytes());
        }
        (messages, ended)
    };
    let whole = read(usize::MAX);
    assert_eq!(whole, read(1), "whole and byte by byte");
    (whole.0.len().min(3), whole.1.is_ok())
}
