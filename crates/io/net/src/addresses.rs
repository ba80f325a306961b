use std::collections::HashMap;
use std::net::IpAddr;

/// How many connections each address has.
#[derive(Debug)]
pub struct Addresses {
    counts: HashMap<IpAddr, usize>,
    limit: usize,
}

impl Addresses {
    /// No connections; at most `limit` of one address.
    #[must_use]
    pub fn new(limit: usize) -> Addresses {
        Addresses { counts: HashMap::new(), limit }
    }

    /// Counts one more, unless that is too many; tells whether it did.
    pub fn admit(&mut self, address: IpAddr) -> bool {
        let count = self.counts.entry(address).or_default();
        let is_within = *count < self.limit;
        *count += usize::from(is_within);
        is_within
    }

    /// Counts one less of an address that was admitted.
    pub fn release(&mut self, address: IpAddr) {
        if let Some(count) = self.counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_address_has_its_own_room_and_leaves_nothing_behind() {
        let mut addresses = Addresses::new(2);
        let [a, b] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        assert!(addresses.admit(a) && addresses.admit(a));
        assert!(!addresses.admit(a) && addresses.admit(b));
        addresses.release(a);
        assert!(addresses.admit(a) && !addresses.admit(a));
        for gone in [a, a, b] {
            addresses.release(gone);
        }
        assert!(addresses.counts.is_empty());
    }
}
