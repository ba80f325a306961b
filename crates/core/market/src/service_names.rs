//! Which services something is said of.

use std::collections::BTreeSet;

/// Names of services: some, or all.
#[derive(Clone, Debug, Default)]
pub struct ServiceNames(BTreeSet<String>);

impl ServiceNames {
    /// What stands for all.
    pub const ALL: &str = "*";

    /// Whether a service is one of them.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name) || self.0.contains(ServiceNames::ALL)
    }
}

impl FromIterator<String> for ServiceNames {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> ServiceNames {
        ServiceNames(names.into_iter().collect())
    }
}
