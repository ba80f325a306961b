use rwf::{DataType, DecodeError, ElementSetDefs, FieldSetDefs};

/// The set definitions of a container, by which set data in its lists is read.
pub(super) enum Definitions<'a> {
    None,
    Fields(FieldSetDefs<'a>),
    Elements(ElementSetDefs<'a>),
}

impl<'a> Definitions<'a> {
    /// Those in the head of a container of containers of a type. Only lists have set data.
    ///
    /// # Errors
    /// They are malformed.
    pub(super) fn read(container_type: DataType, bytes: Option<&'a [u8]>) -> Result<Self, DecodeError> {
        Ok(match (container_type, bytes) {
            (DataType::FIELD_LIST, Some(bytes)) => Definitions::Fields(FieldSetDefs::parse(bytes)?),
            (DataType::ELEMENT_LIST, Some(bytes)) => Definitions::Elements(ElementSetDefs::parse(bytes)?),
            _ => Definitions::None,
        })
    }

    #[inline]
    pub(super) fn of_fields(&self) -> Option<&FieldSetDefs<'a>> {
        if let Definitions::Fields(definitions) = self { Some(definitions) } else { None }
    }

    pub(super) fn of_elements(&self) -> Option<&ElementSetDefs<'a>> {
        if let Definitions::Elements(definitions) = self { Some(definitions) } else { None }
    }
}
