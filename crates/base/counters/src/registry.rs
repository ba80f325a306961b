use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Kind, Roll};

/// What one counter is called and what it means: the same text in metrics, status pages and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Full name, `<part>_<what>[_<unit>][_total]`.
    pub name: &'static str,
    /// Grows only, or present value.
    pub kind: Kind,
    /// What is counted: `messages`, `bytes`, `ns` ...
    pub unit: &'static str,
    /// One sentence on what makes it move.
    pub meaning: &'static str,
}

/// What makes a set one histogram: its values are a count for each bound, one for what is above all, and the sum in
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Histogram {
    /// Full name, which ends in the unit: seconds.
    pub name: &'static str,
    /// One sentence on what is measured.
    pub meaning: &'static str,
    /// Upper bounds in seconds, each as a text.
    pub bounds: &'static [&'static str],
}

/// A struct of counters that exporters can walk.
pub trait CounterSet: Send + Sync {
    /// The descriptions, in the order of [`CounterSet::values`].
    fn descriptors(&self) -> &'static [Descriptor];
    /// Appends the present values.
    fn values(&self, into: &mut Vec<u64>);
    /// What it is as a histogram, if it is one.
    fn histogram(&self) -> Option<Histogram> {
        None
    }
}

/// Declares a struct of counters together with its part of the table.
///
/// Shape: `counters! { /// doc struct Name("prefix") { field: Kind, "unit", "meaning"; ... } }`. The exported
/// name of a field is `prefix_field`, with `_total` appended for [`Kind::Total`].
///
/// What several parts count alike is declared once, as `struct Name(PART "prefix", OTHER "other_prefix") { ... }`. It
/// has a constant with the table of each part, and belongs to the sets of those parts.
#[macro_export]
macro_rules! counters {
    ($(#[$doc:meta])* struct $name:ident($prefix:literal) $fields:tt) => {
        $crate::counters!(@set [$(#[$doc])*] $name $fields);

        #[allow(unreachable_pub)]
        impl $name {
            /// This set's part of the table.
            pub const TABLE: &'static [$crate::Descriptor] = $crate::counters!(@table $prefix $fields);
        }

        impl $crate::CounterSet for $name {
            fn descriptors(&self) -> &'static [$crate::Descriptor] { Self::TABLE }
            fn values(&self, into: &mut Vec<u64>) { self.append_values(into); }
        }
    };
    ($(#[$doc:meta])* struct $name:ident($($part:ident $prefix:literal),+) $fields:tt) => {
        $crate::counters!(@set [$(#[$doc])*] $name $fields);

        #[allow(unreachable_pub)]
        impl $name {
            $(
                #[doc = concat!("The table with names that begin with `", $prefix, "`.")]
                pub const $part: &'static [$crate::Descriptor] = $crate::counters!(@table $prefix $fields);
            )+
        }
    };
    (@set [$(#[$doc:meta])*] $name:ident
        { $($field:ident: $kind:ident, $unit:literal, $meaning:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[allow(unreachable_pub)]
        pub struct $name { $(#[doc = $meaning] pub $field: $crate::Counter,)+ }

        #[allow(unreachable_pub)]
        impl $name {
            /// Appends the present values, in the order of the table.
            pub fn append_values(&self, into: &mut Vec<u64>) { $(into.push(self.$field.get());)+ }
        }
    };
    (@table $prefix:literal { $($field:ident: $kind:ident, $unit:literal, $meaning:literal;)+ }) => {
        &[$($crate::Descriptor {
            name: $crate::counters!(@name $kind $prefix $field),
            kind: $crate::Kind::$kind,
            unit: $unit,
            meaning: $meaning,
        },)+]
    };
    (@name Total $prefix:literal $field:ident) => { concat!($prefix, "_", stringify!($field), "_total") };
    (@name Gauge $prefix:literal $field:ident) => { concat!($prefix, "_", stringify!($field)) };
}

/// One set under the labels that tell it from its like, such as `service="BINANCE"`.
#[derive(Clone)]
pub struct Registered {
    /// Label names and values.
    pub labels: Vec<(String, String)>,
    /// The set itself.
    pub set: Arc<dyn CounterSet>,
}

/// All sets of a process, for whoever exports them. Sets come and go while it runs; it is never touched on
/// the path of an update.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Sets>>);

#[derive(Default)]
struct Sets {
    all: Vec<Entry>,
    rolls: Vec<(Labels, Roll)>,
    refused: u64,
}

struct Entry {
    registered: Registered,
    /// It is of something that nobody may use, and none of its counters has moved yet.
    is_unused: bool,
}

impl Entry {
    /// Whether one of its counters has moved, now or before.
    fn is_in_use(&mut self, values: &mut Vec<u64>) -> bool {
        if self.is_unused {
            values.clear();
            self.registered.set.values(values);
            self.is_unused = values.iter().all(|value| *value == 0);
        }
        !self.is_unused
    }
}

/// Label names and values.
type Labels = Vec<(String, String)>;

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// How many sets a [`Registry`] takes: those of some thousand transport sessions.
pub const SETS_MAX: usize = 16_384;

impl Registry {
    /// Adds a set until it is removed. Returns whether there was room: it is refused, and counted, when
    /// [`SETS_MAX`] are there; its counters count all the same.
    pub fn register(&self, labels: &[(&str, &str)], set: Arc<dyn CounterSet>) -> bool {
        self.add(Entry { registered: Registered { labels: owned(labels), set }, is_unused: false })
    }

    /// The same, of something that a process may never use, such as one of several transports:
    /// [`Registry::in_use`] has it from the time on when one of its counters has moved.
    pub fn register_optional(&self, labels: &[(&str, &str)], set: Arc<dyn CounterSet>) -> bool {
        self.add(Entry { registered: Registered { labels: owned(labels), set }, is_unused: true })
    }

    fn add(&self, entry: Entry) -> bool {
        let mut sets = self.sets();
        let has_room = sets.all.len() < SETS_MAX;
        if has_room {
            sets.all.push(entry);
        } else {
            sets.refused += 1;
        }
        has_room
    }

    /// Adds a set for as long as the result lives: that of a transport session, for example.
    #[must_use]
    pub fn lend(&self, labels: &[(&str, &str)], set: Arc<dyn CounterSet>) -> Registration {
        self.register(labels, Arc::clone(&set));
        Registration { registry: self.clone(), lent: Lent::Set(set) }
    }

    /// Shows the rows of a roll for as long as the result lives.
    #[must_use]
    pub fn lend_roll(&self, labels: &[(&str, &str)], roll: Roll) -> Registration {
        self.sets().rolls.push((owned(labels), roll.clone()));
        Registration { registry: self.clone(), lent: Lent::Roll(roll) }
    }

    /// Removes a set that was added; nothing happens if it is not there.
    pub fn remove(&self, set: &Arc<dyn CounterSet>) {
        self.sets().all.retain(|entry| !Arc::ptr_eq(&entry.registered.set, set));
    }

    /// The sets at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Registered> {
        self.sets().all.iter().map(|entry| entry.registered.clone()).collect()
    }

    /// The sets at this moment without those of what the process has not used yet. What was there once stays, so
    /// that a counter does not vanish when it is 0 again.
    #[must_use]
    pub fn in_use(&self) -> Vec<Registered> {
        let (mut sets, mut values) = (self.sets(), Vec::new());
        let used = sets.all.iter_mut().filter_map(|entry| entry.is_in_use(&mut values).then_some(&*entry));
        used.map(|entry| entry.registered.clone()).collect()
    }

    /// The rolls at this moment, each with its labels.
    #[must_use]
    pub fn rolls(&self) -> Vec<(Vec<(String, String)>, Roll)> {
        self.sets().rolls.clone()
    }

    /// How often a set was refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.sets().refused
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of a set, or a roll, in a [`Registry`]; dropping it removes what was added.
pub struct Registration {
    registry: Registry,
    lent: Lent,
}

enum Lent {
    Set(Arc<dyn CounterSet>),
    Roll(Roll),
}

impl Drop for Registration {
    fn drop(&mut self) {
        match &self.lent {
            Lent::Set(set) => self.registry.remove(set),
            Lent::Roll(roll) => self.registry.sets().rolls.retain(|(_, all)| !all.is(roll)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// Two of a kind.
        struct Sample("sample") {
            messages: Total, "messages", "Messages seen.";
            depth: Gauge, "messages", "Messages waiting.";
        }
    }

    #[test]
    fn names_units_and_values_line_up() {
        let set = Arc::new(Sample::default());
        set.messages.add(3);
        set.depth.raise(7);
        set.depth.raise(2);
        let registry = Registry::default();
        registry.register(&[("part", "a")], set.clone());
        let all = registry.snapshot();
        let mut values = Vec::new();
        all[0].set.values(&mut values);
        let names: Vec<_> = all[0].set.descriptors().iter().map(|d| d.name).collect();
        assert_eq!(names, ["sample_messages_total", "sample_depth"]);
        assert_eq!(values, [3, 7]);
    }

    #[test]
    fn what_nobody_has_used_is_not_shown_and_what_was_shown_stays() {
        let registry = Registry::default();
        let set = Arc::new(Sample::default());
        registry.register(&[("part", "always")], Arc::new(Sample::default()));
        registry.register_optional(&[("part", "a")], set.clone());
        registry.register_optional(&[("part", "b")], Arc::new(Sample::default()));
        let shown = || registry.in_use().iter().map(|r| r.labels[0].1.clone()).collect::<Vec<_>>();
        assert_eq!(shown(), ["always"]);
        set.depth.set(5);
        assert_eq!(shown(), ["always", "a"]);
        set.depth.set(0);
        assert_eq!((shown(), registry.snapshot().len()), (vec!["always".to_owned(), "a".to_owned()], 3));
    }

    #[test]
    fn a_removed_set_is_gone() {
        let registry = Registry::default();
        let set: Arc<dyn CounterSet> = Arc::new(Sample::default());
        registry.register(&[], set.clone());
        registry.remove(&set);
        assert!(registry.snapshot().is_empty());
    }

    #[test]
    fn a_set_is_there_as_long_as_its_registration() {
        let registry = Registry::default();
        registry.register(&[], Arc::new(Sample::default()));
        let first = registry.lend(&[("session", "1")], Arc::new(Sample::default()));
        let second = registry.lend(&[("session", "2")], Arc::new(Sample::default()));
        assert_eq!(registry.snapshot().len(), 3);
        drop(first);
        let labels: Vec<_> = registry.snapshot().iter().map(|r| r.labels.clone()).collect();
        assert_eq!(labels, [vec![], vec![("session".to_owned(), "2".to_owned())]]);
        drop(second);
        assert_eq!(registry.snapshot().len(), 1);
    }

    #[test]
    fn a_full_registry_refuses_counts_and_takes_again() {
        let registry = Registry::default();
        let set: Arc<dyn CounterSet> = Arc::new(Sample::default());
        let first = registry.lend(&[], Arc::new(Sample::default()));
        assert!((1..SETS_MAX).all(|_| registry.register(&[], set.clone())));
        assert!(!registry.register(&[], set.clone()));
        assert_eq!((registry.refused(), registry.snapshot().len()), (1, SETS_MAX));
        drop(first);
        assert!(registry.register(&[], set));
    }
}
