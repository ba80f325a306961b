use std::collections::BTreeSet;
use std::fmt;

/// A set of CPUs, as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<u32>);

/// More CPUs than any kernel of today is built for.
const CPU_MAX: u32 = 8_191;

impl Cpus {
    /// Reads a list. An empty text is an empty set.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Cpus, String> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let wrong = || format!("{:?} is no list of CPUs up to {CPU_MAX}", text.trim());
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse().ok().filter(|cpu: &u32| *cpu <= CPU_MAX);
            let (from, to) = number(from).zip(number(to)).ok_or_else(wrong)?;
            if from > to {
                return Err(wrong());
            }
            cpus.extend(from..=to);
        }
        Ok(Cpus(cpus))
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a CPU is one of them.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Those of `self` that are not among the others.
    #[must_use]
    pub fn without(&self, others: &Cpus) -> Cpus {
        Cpus(self.0.difference(&others.0).copied().collect())
    }

    /// Those in both.
    #[must_use]
    pub fn and(&self, others: &Cpus) -> Cpus {
        Cpus(self.0.intersection(&others.0).copied().collect())
    }

    /// Those in either.
    #[must_use]
    pub fn or(&self, others: &Cpus) -> Cpus {
        Cpus(self.0.union(&others.0).copied().collect())
    }

    /// All but the first so many.
    #[must_use]
    pub fn behind(&self, count: usize) -> Cpus {
        Cpus(self.0.iter().skip(count).copied().collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(from) = rest.next() {
            let mut to = from;
            while let Some(next) = rest.next_if_eq(&(to + 1)) {
                to = next;
            }
            match to - from {
                0 => write!(f, "{comma}{from}")?,
                _ => write!(f, "{comma}{from}-{to}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(Cpus::parse(text).expect("a list").to_string(), text);
        }
        assert_eq!(Cpus::parse("3,1-2,2\n").expect("a list").to_string(), "1-3");
        for text in ["x", "1-", "3-1", "0-99999999", "-1", "1 2"] {
            assert!(Cpus::parse(text).is_err_and(|said| said.contains("is no list of CPUs")), "{text}");
        }
    }

    #[test]
    fn sets_are_cut_and_joined() {
        let [all, some] = ["0-7", "2-3,9"].map(|text| Cpus::parse(text).expect("a list"));
        assert_eq!(all.without(&some).to_string(), "0-1,4-7");
        assert_eq!((all.and(&some).to_string(), all.or(&some).to_string()), ("2-3".into(), "0-7,9".into()));
        assert_eq!((all.behind(6).to_string(), all.behind(9).is_empty()), ("6-7".into(), true));
    }
}
