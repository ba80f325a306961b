//! The elements that the domain models name, and how they are read and written.

use rwf::{
    AsciiString, DataType, Decode, ElementEntry, ElementList, ElementListWriter, ElementSetDefs, Primitive,
    Qos, State, Typed,
};

use crate::{Part, RdmError};

macro_rules! elements {
    ($($element:ident $name:literal;)*) => {
        /// An element that the domain models give a meaning, by its name on the wire.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Element {
            $(#[doc = concat!("`", $name, "`.")] $element,)*
        }

        impl Element {
            /// All of them.
            pub const ALL: &'static [Element] = &[$(Element::$element,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Element::$element => $name,)* }
            }

            /// The element of a name, which is case sensitive.
            #[must_use]
            pub fn from_name(name: &[u8]) -> Option<Element> {
                match std::str::from_utf8(name).ok()? {
                    $($name => Some(Element::$element),)*
                    _ => None,
                }
            }
        }
    };
}

elements! {
    // login
    ApplicationId "ApplicationId"; ApplicationName "ApplicationName"; Position "Position";
    Password "Password"; Role "Role"; SingleOpen "SingleOpen"; AllowSuspectData "AllowSuspectData";
    ProvidePermissionProfile "ProvidePermissionProfile";
    ProvidePermissionExpressions "ProvidePermissionExpressions"; InstanceId "InstanceId";
    SupportProviderDictionaryDownload "SupportProviderDictionaryDownload";
    DownloadConnectionConfig "DownloadConnectionConfig"; AuthenticationToken "AuthenticationToken";
    AuthenticationExtended "AuthenticationExtended"; RoundTripLatency "RoundTripLatency";
    SupportOmmPost "SupportOMMPost"; SupportBatchRequests "SupportBatchRequests";
    SupportViewRequests "SupportViewRequests"; SupportOptimizedPauseResume "SupportOptimizedPauseResume";
    SupportStandby "SupportStandby"; SupportStandbyMode "SupportStandbyMode";
    WarmStandbyMode "WarmStandbyMode";
    SupportEnhancedSymbolList "SupportEnhancedSymbolList"; AuthenticationTtReissue "AuthenticationTTReissue";
    AuthenticationExtendedResp "AuthenticationExtendedResp";
    AuthenticationErrorCode "AuthenticationErrorCode";
    AuthenticationErrorText "AuthenticationErrorText"; Ticks "Ticks"; TcpRetrans "TcpRetrans";
    // source directory
    Name "Name"; Vendor "Vendor"; IsSource "IsSource"; Capabilities "Capabilities";
    DictionariesProvided "DictionariesProvided"; DictionariesUsed "DictionariesUsed"; Qos "QoS";
    SupportsQosRange "SupportsQoSRange"; ItemList "ItemList";
    SupportsOutOfBandSnapshots "SupportsOutOfBandSnapshots";
    AcceptingConsumerStatus "AcceptingConsumerStatus"; Path "TickcastPath";
    ServiceState "ServiceState"; AcceptingRequests "AcceptingRequests"; Status "Status"; Group "Group";
    MergedToGroup "MergedToGroup"; OpenLimit "OpenLimit"; OpenWindow "OpenWindow"; LoadFactor "LoadFactor";
    Type "Type"; Data "Data"; LinkState "LinkState"; LinkCode "LinkCode"; Text "Text";
    // items
    BatchItemList ":ItemList"; StreamIdList ":StreamIdList"; ViewType ":ViewType"; ViewData ":ViewData";
    SymbolListBehaviors ":SymbolListBehaviors"; DataStreams ":DataStreams";
}

/// The elements of a list that have a meaning, in order; those with other names are passed over.
///
/// A blank reads as if the element were not there. Of an element that is there twice the last counts.
pub(crate) fn known_elements<'a>(
    list: &'a [u8],
    definitions: Option<&ElementSetDefs<'a>>,
) -> Result<impl Iterator<Item = Result<KnownElement<'a>, RdmError>>, RdmError> {
    let entries = ElementList::parse(list)?.all_entries(definitions);
    Ok(entries.filter_map(|entry| match entry {
        Ok(entry) => Element::from_name(entry.name).map(|element| Ok(KnownElement { element, entry })),
        Err(error) => Some(Err(error.into())),
    }))
}

/// An element whose name has a meaning; its type is checked when it is read.
#[derive(Clone, Copy)]
pub(crate) struct KnownElement<'a> {
    pub(crate) element: Element,
    entry: ElementEntry<'a>,
}

impl<'a> KnownElement<'a> {
    pub(crate) fn part(&self) -> Part {
        Part::Element(self.element)
    }

    fn decode<T: Decode<'a>>(&self) -> Result<Option<T>, RdmError> {
        self.require(T::TYPE)?;
        Ok(T::decode(self.entry.content)?)
    }

    fn require(&self, wanted: DataType) -> Result<(), RdmError> {
        let found = self.entry.data_type.base();
        if found == wanted { Ok(()) } else { Err(RdmError::WrongType { part: self.part(), found, wanted }) }
    }

    /// An ASCII string, as its bytes.
    pub(crate) fn ascii(&self) -> Result<Option<&'a [u8]>, RdmError> {
        Ok(self.decode::<AsciiString<'a>>()?.map(|text| text.0))
    }

    /// An ASCII string that names something.
    pub(crate) fn name(&self) -> Result<Option<String>, RdmError> {
        self.ascii()?.map(|text| self.owned_name(text)).transpose()
    }

    fn owned_name(&self, text: &[u8]) -> Result<String, RdmError> {
        String::from_utf8(text.to_vec()).map_err(|_| RdmError::NotText { part: self.part() })
    }

    /// An ASCII string that is only shown.
    pub(crate) fn text(&self) -> Result<Option<String>, RdmError> {
        Ok(self.ascii()?.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    pub(crate) fn buffer(&self) -> Result<Option<&'a [u8]>, RdmError> {
        Ok(self.decode::<rwf::Buffer<'a>>()?.map(|buffer| buffer.0))
    }

    pub(crate) fn uint(&self) -> Result<Option<u64>, RdmError> {
        self.decode()
    }

    /// An unsigned integer that means no when it is 0.
    pub(crate) fn flag(&self) -> Result<Option<bool>, RdmError> {
        Ok(self.uint()?.map(|number| number != 0))
    }

    pub(crate) fn state(&self) -> Result<Option<State<'a>>, RdmError> {
        self.decode()
    }

    /// A container of the type wanted.
    pub(crate) fn container(&self, wanted: DataType) -> Result<&'a [u8], RdmError> {
        self.require(wanted)?;
        Ok(self.entry.content)
    }

    /// Whatever it is: type and content.
    pub(crate) fn any(&self) -> (DataType, &'a [u8]) {
        (self.entry.data_type, self.entry.content)
    }

    /// The contents of an array's items and the type of the items.
    pub(crate) fn items(&self) -> Result<Option<(DataType, rwf::ArrayItems<'a>)>, RdmError> {
        Ok(self.decode::<rwf::Array<'a>>()?.map(|array| (array.item_type, array.items())))
    }

    /// An array of at most `count_max` values of one type, without its blanks.
    fn values<T: Decode<'a>>(&self, count_max: u16) -> Result<Option<Vec<T>>, RdmError> {
        let Some(array) = self.decode::<rwf::Array<'a>>()? else { return Ok(None) };
        let (found, items) = (array.item_type, array.items());
        if found != T::TYPE {
            return Err(RdmError::WrongType { part: self.part(), found, wanted: T::TYPE });
        }
        if array.count() > count_max {
            return Err(RdmError::TooMany { part: self.part(), max: count_max.into() });
        }
        let values = items.filter_map(|item| match item.and_then(T::decode) {
            Ok(value) => value.map(Ok),
            Err(error) => Some(Err(error.into())),
        });
        values.collect::<Result<Vec<T>, RdmError>>().map(Some)
    }

    pub(crate) fn uints(&self) -> Result<Option<Vec<u64>>, RdmError> {
        self.values(SERVICE_LIST_MAX)
    }

    pub(crate) fn ints(&self) -> Result<Option<Vec<i64>>, RdmError> {
        self.values(u16::MAX)
    }

    pub(crate) fn qualities(&self) -> Result<Option<Vec<Qos>>, RdmError> {
        self.values(SERVICE_LIST_MAX)
    }

    pub(crate) fn names(&self) -> Result<Option<Vec<String>>, RdmError> {
        let Some(texts) = self.values::<AsciiString<'a>>(SERVICE_LIST_MAX)? else { return Ok(None) };
        texts.iter().map(|text| self.owned_name(text.0)).collect::<Result<_, _>>().map(Some)
    }

    /// A number in a narrower type.
    pub(crate) fn narrow<T: TryFrom<i64>>(&self, value: i64, max: u64) -> Result<T, RdmError> {
        T::try_from(value).map_err(|_| RdmError::OutOfRange { part: self.part(), value: value as u64, max })
    }
}

/// The longest list of domains, dictionaries or qualities of a service: as many as there are domains. It
/// bounds what names of one byte each, which take many times that in memory, can cost.
const SERVICE_LIST_MAX: u16 = 256;

/// Writing elements by their names; what is `None` is not written.
pub(crate) trait PutElement {
    /// Writes an element.
    fn element(&mut self, element: Element, value: impl Primitive);
    /// Writes an element if there is a value.
    fn some<T: Typed>(&mut self, element: Element, value: Option<T>);
    /// Writes an array whose items have a length each.
    fn list<T: Typed>(&mut self, element: Element, values: impl IntoIterator<Item = T>);

    /// Writes an unsigned integer of 0 or 1.
    fn flag(&mut self, element: Element, value: Option<bool>) {
        self.some(element, value.map(u64::from));
    }

    /// Writes an ASCII string.
    fn ascii(&mut self, element: Element, value: Option<&(impl AsRef<[u8]> + ?Sized)>) {
        self.some(element, value.map(|text| AsciiString(text.as_ref())));
    }
}

impl PutElement for ElementListWriter<'_, '_, '_> {
    fn element(&mut self, element: Element, value: impl Primitive) {
        self.put(element.name(), value);
    }

    fn some<T: Typed>(&mut self, element: Element, value: Option<T>) {
        if let Some(value) = value {
            self.put(element.name(), value);
        }
    }

    fn list<T: Typed>(&mut self, element: Element, values: impl IntoIterator<Item = T>) {
        self.array(element.name(), T::TYPE, 0, |items| values.into_iter().for_each(|value| items.put(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::encode_to_vec;

    #[test]
    fn every_element_is_found_by_its_name_and_by_no_other() {
        for element in Element::ALL {
            assert_eq!(Element::from_name(element.name().as_bytes()), Some(*element));
            let other_case = element.name().to_ascii_uppercase();
            assert_eq!(Element::from_name(other_case.as_bytes()), None, "{other_case}");
        }
    }

    #[test]
    fn unknown_names_are_passed_over_and_blanks_are_as_if_absent() {
        let list = encode_to_vec(|w| {
            w.element_list(|e| {
                e.put("Colour", 7u64);
                e.put("Role", None::<u64>);
                e.put("Position", AsciiString(b"here"));
            });
        })
        .expect("legal");
        let known: Vec<_> =
            known_elements(&list, None).expect("whole").collect::<Result<_, _>>().expect("whole");
        assert_eq!(known.len(), 2);
        assert_eq!(known[0].uint(), Ok(None));
        assert_eq!(known[1].ascii(), Ok(Some(&b"here"[..])));
    }

    #[test]
    fn a_known_element_of_another_type_is_named_in_the_error() {
        let list = encode_to_vec(|w| w.element_list(|e| e.put("Role", AsciiString(b"1")))).expect("legal");
        let role = known_elements(&list, None).expect("whole").next().expect("one").expect("whole");
        let (part, found) = (Part::Element(Element::Role), DataType::ASCII_STRING);
        assert_eq!(role.flag(), Err(RdmError::WrongType { part, found, wanted: DataType::UINT }));
    }
}
