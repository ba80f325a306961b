use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rwf::{DataType, Dictionary};

use super::shapes::Shapes;

/// What merging has to know of fields: which are RMTES strings (they can be changed in part), and which
/// ripple; and the shapes of the images that were made by these rules.
#[derive(Debug, Default)]
pub struct FieldRules {
    /// Each shape has the rules that it was made by. They never change.
    fields: Arc<RuleTable>,
    shapes: Shapes,
}

/// The rules themselves.
#[derive(Clone)]
pub(super) struct RuleTable {
    /// A bit a field id, taken as u16.
    rmtes: Box<[u64; 1024]>,
    ripples_to: HashMap<i16, i16>,
}

impl Default for RuleTable {
    fn default() -> Self {
        RuleTable { rmtes: Box::new([0; 1024]), ripples_to: HashMap::new() }
    }
}

/// How many there are: the table is long, and each image has one.
impl fmt::Debug for RuleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rmtes: u32 = self.rmtes.iter().map(|bits| bits.count_ones()).sum();
        f.debug_struct("RuleTable").field("rmtes", &rmtes).field("ripples", &self.ripples_to.len()).finish()
    }
}

impl Clone for FieldRules {
    /// The same rules, with shapes of their own.
    fn clone(&self) -> Self {
        FieldRules { fields: Arc::clone(&self.fields), shapes: Shapes::default() }
    }
}

impl FieldRules {
    /// The rules that a data dictionary has.
    #[must_use]
    pub fn of(dictionary: &Dictionary) -> FieldRules {
        let mut rules = FieldRules::default();
        for field in dictionary.fields() {
            if field.data_type == DataType::RMTES_STRING {
                rules.set_rmtes(field.id);
            }
            if let Some(to) = field.ripples_to {
                rules.set_ripple(field.id, to);
            }
        }
        rules
    }

    /// Says that a field is an RMTES string.
    pub fn set_rmtes(&mut self, id: i16) {
        let id = id as u16;
        // Shapes that are there keep the rules that they were made by.
        Arc::make_mut(&mut self.fields).rmtes[usize::from(id / 64)] |= 1 << (id % 64);
    }

    /// Says that a field's old value moves to another field when it gets a new one.
    pub fn set_ripple(&mut self, from: i16, to: i16) {
        Arc::make_mut(&mut self.fields).ripples_to.insert(from, to);
    }

    /// Whether both treat every field alike.
    #[must_use]
    pub fn are_those_of(&self, other: &FieldRules) -> bool {
        let (ours, theirs) = (&self.fields, &other.fields);
        Arc::ptr_eq(ours, theirs) || ours.rmtes == theirs.rmtes && ours.ripples_to == theirs.ripples_to
    }

    #[inline]
    pub(super) fn fields(&self) -> &Arc<RuleTable> {
        &self.fields
    }

    pub(super) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// How many shapes images share at present. Rises with each record template, and with what its values
    /// need of room.
    #[must_use]
    pub fn shape_count(&self) -> usize {
        self.shapes.count()
    }
}

impl RuleTable {
    pub(super) fn is_rmtes(&self, id: i16) -> bool {
        let id = id as u16;
        self.rmtes[usize::from(id / 64)] >> (id % 64) & 1 != 0
    }

    pub(super) fn ripples(&self) -> bool {
        !self.ripples_to.is_empty()
    }

    pub(super) fn ripples_to(&self, id: i16) -> Option<i16> {
        self.ripples_to.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_same_if_they_treat_every_field_alike() {
        let rules = |rmtes: i16, to: i16| {
            let mut rules = FieldRules::default();
            rules.set_rmtes(rmtes);
            rules.set_ripple(5, to);
            rules
        };
        assert!(rules(3, 6).are_those_of(&rules(3, 6)) && rules(3, 6).are_those_of(&rules(3, 6).clone()));
        assert!(!rules(3, 6).are_those_of(&rules(4, 6)) && !rules(3, 6).are_those_of(&rules(3, 7)));
        assert!(!rules(3, 6).are_those_of(&FieldRules::default()));
    }
}
