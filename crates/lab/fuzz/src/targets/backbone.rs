use market::backbone::{HopTimes, LinkDown, LinkUp, StreamMsg};

use crate::Outcome;

/// Input: 0 a stream message, 1 one to an instance, else one from an instance; the message.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let Some((which, message)) = input.split_first() else { return Outcome::refused("empty") };
    match which {
        0 => stream(message),
        1 => {
            let parsed = LinkUp::parse(message);
            if let Ok(up) = parsed {
                let mut again = Vec::new();
                up.encode(&mut again);
                assert_eq!(LinkUp::parse(&again), Ok(up));
            }
            Outcome::of(&parsed, std::mem::discriminant)
        }
        _ => {
            let parsed = LinkDown::parse(message);
            if let Ok(down) = parsed {
                let mut again = Vec::new();
                down.encode(&mut again);
                assert_eq!(LinkDown::parse(&again), Ok(down));
            }
            if let Ok(LinkDown::GapAnswer { ids, .. }) = parsed {
                assert_eq!(LinkDown::gap_items(ids).count(), ids.len() / 4);
            }
            Outcome::of(&parsed, std::mem::discriminant)
        }
    }
}

fn stream(message: &[u8]) -> Outcome {
    let parsed = StreamMsg::parse(message);
    if let Ok(msg) = parsed {
        let again = [&msg.header()[..], msg.parts, msg.body].concat();
        assert_eq!(StreamMsg::parse(&again), Ok(msg));
        if let Ok(Some(hops)) = HopTimes::of(msg.parts) {
            assert_eq!(HopTimes::of(hops.part().bytes()), Ok(Some(hops)));
        }
        assert!(msg.opened(1).is_ok_and(|key| key.name.len() < msg.body.len()) || msg.opened(1).is_err());
    }
    Outcome::of(&parsed, |msg| {
        (msg.kind, msg.opened(1).is_ok(), HopTimes::of(msg.parts).map(|hops| hops.is_some()))
    })
}
