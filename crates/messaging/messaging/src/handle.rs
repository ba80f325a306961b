//! Small values that name what a context holds. Each is valid in the context that gave it; one that was
//! deleted is never taken for a later one.

macro_rules! handle {
    ($(#[doc = $doc:literal])* $name:ident) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            pub(crate) slot: u32,
            /// Given once.
            pub(crate) number: u32,
        }

        impl $name {
            /// The handle as a number, for other languages.
            #[must_use]
            pub fn to_bits(self) -> u64 {
                u64::from(self.number) << 32 | u64::from(self.slot)
            }

            /// The handle that a number stands for. A number that no handle gave names nothing.
            #[must_use]
            pub fn from_bits(bits: u64) -> $name {
                $name { slot: bits as u32, number: (bits >> 32) as u32 }
            }
        }
    };
}

handle! {
    /// A topic that a context publishes; see [`Context::create_source`](crate::Context::create_source).
    Source
}

handle! {
    /// A topic, or a set of topics, that a context receives; see
    /// [`Context::create_receiver`](crate::Context::create_receiver).
    Receiver
}

impl Source {
    pub(crate) fn in_slot(slot: usize, number: u32) -> Source {
        Source { slot: slot as u32, number }
    }
}

/// One source as receivers hear it: a topic of a transport session. Numbers are given once in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A direct connection between two processes. Numbers are given once in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A request that was sent and may be answered. Open ones of a context have different numbers; its first number is
/// drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

impl RequestId {
    /// The one after it.
    pub(crate) fn next(self) -> RequestId {
        RequestId(self.0.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_its_way_through_another_language() {
        let source = Source { slot: 7, number: u32::MAX };
        assert_eq!(Source::from_bits(source.to_bits()), source);
    }
}
