use rwf::{DataType, DecodeError, ElementList, ElementListHead, ElementSetDefs, Encoded, Place, Writer};

use super::fields::{LIST_HEAD_MAX, SetValueRoom, as_content};

/// The elements of an item: names, types and contents, in the order in which they first came.
///
/// An element of a name that is there already replaces it, type and content: a container in it has no other
/// meaning than any value. Set data is kept as ordinary elements.
#[derive(Clone, Debug, Default)]
pub struct ElementImage {
    elements: Vec<Element>,
    /// The places of the elements in the order of their names.
    by_name: Vec<u32>,
    list_number: Option<u16>,
    /// Of names and contents together.
    texts_bytes: usize,
}

#[derive(Clone, Debug)]
struct Element {
    name: Box<[u8]>,
    data_type: DataType,
    content: Vec<u8>,
}

/// An element takes so many bytes besides name and content.
const ENTRY_HEAD_MAX: usize = 6;
/// An element list has a 16-bit count of entries.
const ELEMENTS_MAX: usize = u16::MAX as usize;

impl ElementImage {
    /// An image without elements, with what the head of a list says.
    pub(super) fn begin(list: &ElementList<'_>) -> ElementImage {
        ElementImage { list_number: list.list_number, ..ElementImage::default() }
    }

    /// Merges elements, some of which may stand in set data.
    ///
    /// # Errors
    /// The list is malformed, or there would be more elements than a list can have; the elements before the
    /// fault are merged.
    pub fn merge_with(
        &mut self,
        list: &ElementList<'_>,
        defs: Option<&ElementSetDefs<'_>>,
    ) -> Result<(), DecodeError> {
        let (mut hint, mut room) = (0, SetValueRoom::default());
        for entry in list.all_entries(defs) {
            let entry = entry?;
            let content = as_content(entry.data_type, entry.content, &mut room)?;
            hint = self.put(entry.name, entry.data_type.base(), content, hint)? + 1;
        }
        Ok(())
    }

    /// Stores an element and returns where it is. `hint` is where it probably is: updates of an item tend to
    /// keep the order of its elements.
    fn put(
        &mut self,
        name: &[u8],
        data_type: DataType,
        content: &[u8],
        hint: usize,
    ) -> Result<usize, DecodeError> {
        let is_hint = self.elements.get(hint).is_some_and(|element| *element.name == *name);
        let found = if is_hint { Ok(hint) } else { self.position(name) };
        let place = match found {
            Ok(at) => {
                let element = &mut self.elements[at];
                self.texts_bytes = self.texts_bytes - element.content.len() + content.len();
                element.data_type = data_type;
                element.content.clear();
                element.content.extend_from_slice(content);
                return Ok(at);
            }
            Err(place) => place,
        };
        if self.elements.len() == ELEMENTS_MAX {
            let (value, max) = (ELEMENTS_MAX as u32 + 1, ELEMENTS_MAX as u32);
            return Err(DecodeError::BadValue { place: Place::EntryCount, value, max });
        }
        self.texts_bytes += name.len() + content.len();
        self.by_name.insert(place, self.elements.len() as u32);
        self.elements.push(Element { name: name.into(), data_type, content: content.to_vec() });
        Ok(self.elements.len() - 1)
    }

    /// Where the element of a name is; or its place among the names.
    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        let found = self.by_name.binary_search_by(|&at| (*self.elements[at as usize].name).cmp(name));
        found.map(|place| self.by_name[place] as usize)
    }

    /// Name, type and content of each element, in the order in which they first came.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], DataType, &[u8])> + '_ {
        self.elements.iter().map(|element| (&*element.name, element.data_type, &*element.content))
    }

    /// Writes the elements as an element list of standard data.
    pub fn write(&self, w: &mut Writer<'_>) {
        let head = ElementListHead { list_number: self.list_number, set: None };
        w.element_list_with(&head, |e| {
            for (name, data_type, content) in self.entries() {
                match data_type {
                    DataType::NO_DATA => e.no_data(name),
                    _ => e.put(name, Encoded { data_type, content }),
                }
            }
        });
    }

    /// The element list takes at most so many bytes.
    pub(super) fn wire_bytes(&self) -> usize {
        self.texts_bytes + self.elements.len() * ENTRY_HEAD_MAX + LIST_HEAD_MAX
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let texts = self.elements.iter().map(|e| e.name.len() + e.content.capacity());
        let tables = self.by_name.capacity() * 4 + self.elements.capacity() * size_of::<Element>();
        size_of::<ElementImage>() + texts.sum::<usize>() + tables
    }
}

#[cfg(test)]
mod tests {
    use rwf::{AsciiString, encode_to_vec};

    use super::*;

    fn merged(image: &mut ElementImage, bytes: &[u8]) {
        image.merge_with(&ElementList::parse(bytes).expect("legal"), None).expect("legal");
    }

    #[test]
    fn elements_are_replaced_by_name_and_new_ones_added() {
        let first = encode_to_vec(|w| {
            w.element_list_with(&ElementListHead { list_number: Some(3), set: None }, |e| {
                e.put("A", 1u64);
                e.put("B", AsciiString(b"x"));
                e.no_data("C");
            });
        })
        .expect("legal");
        let mut image = ElementImage::begin(&ElementList::parse(&first).expect("legal"));
        merged(&mut image, &first);
        assert_eq!(encode_to_vec(|w| image.write(w)), Ok(first.clone()));
        let change = encode_to_vec(|w| {
            w.element_list(|e| {
                e.put("B", 2u64);
                e.put("D", AsciiString(b"longer than before"));
            });
        })
        .expect("legal");
        merged(&mut image, &change);
        let names: Vec<_> = image.entries().map(|(name, data_type, _)| (name, data_type)).collect();
        let expected: [(&[u8], _); 4] = [
            (b"A", DataType::UINT),
            (b"B", DataType::UINT),
            (b"C", DataType::NO_DATA),
            (b"D", DataType::ASCII_STRING),
        ];
        assert_eq!(names, expected);
        let bytes = encode_to_vec(|w| image.write(w)).expect("legal");
        assert!(bytes.len() <= image.wire_bytes());
    }

    #[test]
    fn more_elements_than_a_list_can_have_are_refused() {
        let mut image = ElementImage::default();
        for id in 0..ELEMENTS_MAX {
            image.put(&id.to_be_bytes(), DataType::UINT, &[1], id).expect("room");
        }
        let refused = image.put(b"one more", DataType::UINT, &[1], 0);
        let (value, max) = (65_536, 65_535);
        assert_eq!(refused, Err(DecodeError::BadValue { place: Place::EntryCount, value, max }));
        assert!(encode_to_vec(|w| image.write(w)).is_ok());
    }
}
