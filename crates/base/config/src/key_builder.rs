//! How a section's declaration makes its keys.

use std::marker::PhantomData;

use crate::key_type::{KeyType, Measured, Ranged};
use crate::kind::{Kind, Length};
use crate::range::KeyRange;
use crate::schema::{Key, paragraphs, plain_name};
use crate::section::Section;

/// A key while [`section!`](crate::section!) declares it: the words after the default are its methods.
#[derive(Debug)]
pub struct KeyBuilder<T> {
    key: Key,
    type_of: PhantomData<fn() -> T>,
}

impl<T: KeyType> KeyBuilder<T> {
    /// A key of type `T`.
    #[must_use]
    pub fn new(name: &'static str, doc: &str, default: &T) -> Self {
        let name = plain_name(name);
        let (doc, kind, default) = (paragraphs(doc), T::kind(), default.to_value());
        KeyBuilder { key: Key { name, doc, kind, default, required: false }, type_of: PhantomData }
    }

    /// Something must set it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.key.required = true;
        self
    }

    /// Numbers outside `range` are refused: each number, if the key is a list.
    #[must_use]
    pub fn range(mut self, range: impl KeyRange<T::Number>) -> Self
    where
        T: Ranged,
    {
        if let Some(kind) = self.key.kind.number_mut() {
            range.narrow(kind);
        }
        self
    }

    /// Keys of the section that its owner decides itself: the file cannot set them, the pages do not show
    /// them.
    ///
    /// # Panics
    /// If the section has no such key.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = &'static str>) -> Self
    where
        T: Section,
    {
        if let Kind::Section { schema, .. } = &mut self.key.kind {
            for name in names {
                let at = schema.keys.iter().position(|key| key.name == name);
                schema.keys.remove(at.expect("a key that is withheld is one of the section's"));
                let is_of = |present: &str| present == name || present.starts_with(&format!("{name}."));
                schema.renamed.retain(|(_, present)| !is_of(present));
            }
        }
        self
    }

    /// Strings of fewer or more bytes, or lists of fewer or more items, are refused.
    #[must_use]
    pub fn length(mut self, range: std::ops::RangeInclusive<usize>) -> Self
    where
        T: Measured,
    {
        if let Some(length) = self.key.kind.length_mut() {
            *length = Length { min: *range.start(), max: *range.end() };
        }
        self
    }
}

impl<T> From<KeyBuilder<T>> for Key {
    fn from(builder: KeyBuilder<T>) -> Key {
        builder.key
    }
}
