//! What the two directions of the dictionary domain's payload have in common: a series of element lists, one
//! a field or an enumeration table.

/// How much of a dictionary is wanted: the filter of a dictionary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verbosity {
    /// The summary alone: which dictionary, which version.
    Info = 0,
    /// What is needed to decode.
    Minimal = 3,
    /// Also what is needed to display.
    Normal = 7,
    /// Also what enumerated values mean.
    Verbose = 15,
}

impl Verbosity {
    /// The verbosity of a filter; one between two levels is the lower.
    #[must_use]
    pub const fn from_filter(filter: u32) -> Verbosity {
        match filter {
            0..3 => Verbosity::Info,
            3..7 => Verbosity::Minimal,
            7..15 => Verbosity::Normal,
            _ => Verbosity::Verbose,
        }
    }
}

/// Which of the two dictionaries a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DictionaryKind {
    /// Field definitions.
    Fields = 1,
    /// Enumeration tables.
    Enums = 2,
}

pub(super) const NAME: &str = "NAME";
pub(super) const FID: &str = "FID";
pub(super) const RIPPLE_TO: &str = "RIPPLETO";
pub(super) const TYPE: &str = "TYPE";
pub(super) const LENGTH: &str = "LENGTH";
pub(super) const RWF_TYPE: &str = "RWFTYPE";
pub(super) const RWF_LENGTH: &str = "RWFLEN";
pub(super) const ENUM_LENGTH: &str = "ENUMLENGTH";
pub(super) const LONG_NAME: &str = "LONGNAME";
pub(super) const FIDS: &str = "FIDS";
pub(super) const VALUE: &str = "VALUE";
pub(super) const DISPLAY: &str = "DISPLAY";
pub(super) const MEANING: &str = "MEANING";

pub(super) const SUMMARY_TYPE: &str = "Type";
pub(super) const SUMMARY_ID: &str = "DictionaryId";
pub(super) const SUMMARY_VERSION: &str = "Version";
pub(super) const SUMMARY_RT_VERSION: &str = "RT_Version";
pub(super) const SUMMARY_DT_VERSION: &str = "DT_Version";
