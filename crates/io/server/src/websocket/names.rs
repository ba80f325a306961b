use std::collections::BTreeMap;

use rwf_json::Services;

/// The services by id and name. One that is gone keeps its name, for what is said of it last.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_id: BTreeMap<u16, String>,
    by_name: BTreeMap<String, u16>,
    /// The only service that there is now.
    only: Option<u16>,
}

impl Names {
    /// Takes over which services there are now.
    pub(crate) fn update<'n>(&mut self, services: impl Iterator<Item = (u16, &'n str)>) {
        let (mut count, mut last) = (0, None);
        for (id, name) in services {
            count += 1;
            last = Some(id);
            if self.by_id.get(&id).is_none_or(|known| known != name) {
                if let Some(former) = self.by_name.insert(name.to_owned(), id) {
                    self.by_id.remove(&former);
                }
                if let Some(former) = self.by_id.insert(id, name.to_owned()) {
                    self.by_name.remove(&former);
                }
            }
        }
        self.only = last.filter(|_| count == 1);
    }

    /// The service of requests that name none: the one configured, else the only one.
    #[inline]
    pub(crate) fn default_id(&self, configured: Option<&str>) -> Option<u16> {
        match configured {
            Some(name) => self.id(name),
            None => self.only,
        }
    }
}

impl Services for Names {
    fn name(&self, service_id: u16) -> Option<&str> {
        self.by_id.get(&service_id).map(String::as_str)
    }

    fn id(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_either_and_keeps_its_name_when_it_is_gone() {
        let mut names = Names::default();
        names.update([(7, "A"), (9, "B")].into_iter());
        assert_eq!((names.name(7), names.id("B"), names.id("C")), (Some("A"), Some(9), None));
        names.update([(9, "B")].into_iter());
        assert_eq!(names.name(7), Some("A"));
        names.update([(9, "A")].into_iter());
        assert_eq!((names.name(7), names.id("A"), names.id("B")), (None, Some(9), None));
        names.update([(7, "A"), (9, "B")].into_iter());
        names.update([(7, "B"), (9, "A")].into_iter());
        assert_eq!((names.name(7), names.name(9)), (Some("B"), Some("A")));
        assert_eq!((names.id("A"), names.id("B")), (Some(9), Some(7)));
    }

    #[test]
    fn the_default_is_what_is_configured_or_the_only_one() {
        let mut names = Names::default();
        assert_eq!((names.default_id(None), names.default_id(Some("A"))), (None, None));
        names.update([(7, "A")].into_iter());
        assert_eq!((names.default_id(None), names.default_id(Some("B"))), (Some(7), None));
        names.update([(7, "A"), (9, "B")].into_iter());
        assert_eq!((names.default_id(None), names.default_id(Some("B"))), (None, Some(9)));
    }
}
