use std::fmt;
use std::ops::BitOr;

/// The aspects of a service: each is a filter entry of its own, which can be asked for, sent and changed
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aspect {
    /// What it is and what it offers.
    Info = 1,
    /// Whether it can be used.
    State = 2,
    /// What happened to groups of its items.
    Group = 3,
    /// How much it can bear.
    Load = 4,
    /// Data about the service itself.
    Data = 5,
    /// The connections behind it.
    Link = 6,
}

impl Aspect {
    /// All of them.
    pub const ALL: [Aspect; 6] =
        [Aspect::Info, Aspect::State, Aspect::Group, Aspect::Load, Aspect::Data, Aspect::Link];

    /// The aspect of a filter entry's id; `None` for others, such as sequenced multicast (7).
    #[must_use]
    pub fn from_id(id: u8) -> Option<Aspect> {
        Aspect::ALL.into_iter().find(|aspect| *aspect as u8 == id)
    }

    /// The filter that wants this alone.
    #[must_use]
    pub const fn filter(self) -> Filter {
        Filter(1 << (self as u32 - 1))
    }
}

/// Which aspects of services are wanted, or delivered: the filter of a directory key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Filter(pub u32);

impl Filter {
    /// Info.
    pub const INFO: Filter = Aspect::Info.filter();
    /// State.
    pub const STATE: Filter = Aspect::State.filter();
    /// Groups.
    pub const GROUP: Filter = Aspect::Group.filter();
    /// Load.
    pub const LOAD: Filter = Aspect::Load.filter();
    /// Data.
    pub const DATA: Filter = Aspect::Data.filter();
    /// Links.
    pub const LINK: Filter = Aspect::Link.filter();
    /// All six: what stock consumers ask for.
    pub const ALL: Filter = Filter(0x3F);
    /// Info and state: the least that stock providers answer, and what they send.
    pub const INFO_AND_STATE: Filter = Filter(0x03);

    /// Whether the aspect is among them.
    #[must_use]
    pub const fn wants(self, aspect: Aspect) -> bool {
        self.0 & aspect.filter().0 != 0
    }

    /// What both have.
    #[must_use]
    pub const fn and(self, other: Filter) -> Filter {
        Filter(self.0 & other.0)
    }
}

impl BitOr for Filter {
    type Output = Filter;

    fn bitor(self, other: Filter) -> Filter {
        Filter(self.0 | other.0)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({:#04x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_bits_and_entry_ids_are_those_of_the_domain_model() {
        let bits: Vec<u32> = Aspect::ALL.iter().map(|aspect| aspect.filter().0).collect();
        assert_eq!(bits, [0x01, 0x02, 0x04, 0x08, 0x10, 0x20]);
        let ids: Vec<_> = (0..=8).map(Aspect::from_id).collect();
        let mut wanted = vec![None];
        wanted.extend(Aspect::ALL.map(Some));
        wanted.extend([None, None]);
        assert_eq!(ids, wanted);
        assert_eq!(Aspect::ALL.into_iter().fold(Filter(0), |all, a| all | a.filter()), Filter::ALL);
    }
}
