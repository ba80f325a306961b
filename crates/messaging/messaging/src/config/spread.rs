//! Which group of a range a topic has.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The multicast group of a topic among those from `low` to `high`: always the same for one name.
pub(super) fn spread(topic: &str, low: Ipv4Addr, high: Ipv4Addr, port: u16) -> SocketAddrV4 {
    let count = u64::from(high.to_bits().saturating_sub(low.to_bits())) + 1;
    let hash = topic
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    // The low bits of this hash are its weakest.
    let offset = (hash ^ (hash >> 32)) % count;
    SocketAddrV4::new(Ipv4Addr::from_bits(low.to_bits() + offset as u32), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_spread_over_the_groups_of_a_range_and_stay_where_they_are() {
        let (low, high) = (Ipv4Addr::new(224, 10, 10, 10), Ipv4Addr::new(224, 10, 10, 14));
        let mut counts = [0; 5];
        for i in 0..1_000 {
            let topic = format!("px.{i}");
            let group = spread(&topic, low, high, 14_400);
            assert_eq!(group, spread(&topic, low, high, 14_400));
            counts[(group.ip().to_bits() - low.to_bits()) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > 120), "{counts:?}");
        assert_eq!(*spread("px", low, low, 1).ip(), low);
    }
}
