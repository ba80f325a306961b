use rwf::print::Pretty;
use rwf::{Msg, encode_to_vec, peek, set_stream_id, walk};

use super::DICTIONARY;
use super::container::Seen;
use crate::Outcome;

/// Printing costs more than all the rest; one input of so many is printed.
const PRINTED_OF: usize = 64;

pub(super) fn execute(input: &[u8]) -> Outcome {
    let parsed = Msg::parse(input);
    assert!(peek(input).is_ok() || parsed.is_err(), "it parses without a head");
    let mut seen = Seen { events: 1, kinds: 0 };
    let walked = walk(input, Some(&DICTIONARY), |_, event| seen.take(&event));
    seen.check(input);
    match parsed {
        Err(error) => assert_eq!(walked, Err(error)),
        Ok(msg) => assert_reads_again(&msg, input),
    }
    if input.iter().map(|byte| usize::from(*byte)).sum::<usize>().is_multiple_of(PRINTED_OF) {
        let printed = Pretty(input, Some(&DICTIONARY)).to_string();
        assert_eq!(walked.is_err(), printed.lines().last().is_some_and(|line| line.starts_with("! ")));
    }
    let class = parsed.map(|msg| (msg.class(), msg.key().is_some())).ok();
    match walked {
        Ok(()) => Outcome::accepted((class, seen.events.ilog2(), seen.kinds)),
        Err(error) => Outcome::refused((class, error)),
    }
}

fn assert_reads_again(msg: &Msg<'_>, input: &[u8]) {
    let mut again = encode_to_vec(|w| msg.encode(w)).unwrap_or_else(|error| panic!("{error}: {msg:?}"));
    assert_eq!(Msg::parse(&again).as_ref(), Ok(msg));
    let head = peek(input).expect("it parses");
    assert_eq!((head.class, head.domain, head.stream_id), (msg.class(), msg.domain(), msg.stream_id()));
    let other = !msg.stream_id();
    set_stream_id(&mut again, other).expect("a whole message");
    assert_eq!(peek(&again).map(|head| head.stream_id), Ok(other));
}
