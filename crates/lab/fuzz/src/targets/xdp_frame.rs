use net::xdp::frame::{self, Checksum, Ends, FrameError, HEADERS_LEN, Headers, MacAddress};

use crate::Outcome;

/// Input: an Ethernet frame. What is in it lies within it; put into a frame of ours it reads the same.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let read = frame::parse(input, true);
    let unchecked = frame::parse(input, false);
    let parsed = match read {
        Ok(parsed) => parsed,
        Err(error) => {
            let only_the_sum = error == FrameError::UdpChecksum;
            assert_eq!(only_the_sum, unchecked.is_ok(), "{error} and {unchecked:?}");
            return Outcome::refused(error);
        }
    };
    assert_eq!(unchecked.map(|u| (u.from, u.to, u.payload)), Ok((parsed.from, parsed.to, parsed.payload)));
    assert!(parsed.payload.len() + HEADERS_LEN <= input.len());
    let ends = Ends {
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        destination: MacAddress::of_group(*parsed.to.ip()),
        from: parsed.from,
        to: parsed.to,
        ttl: input[22],
    };
    let mut written = vec![0; HEADERS_LEN];
    written.extend_from_slice(parsed.payload);
    Headers::new(&ends, true).write(&mut written);
    let again = frame::parse(&written, true).expect("what was written is right");
    assert_eq!((again.from, again.to, again.payload), (parsed.from, parsed.to, parsed.payload));
    // A sum of which only the pseudo-header's part is there may happen to be the whole.
    assert!(again.checksum == Checksum::Passed, "{:?}", again.checksum);
    Outcome::accepted((parsed.checksum, parsed.payload.len().min(2)))
}
