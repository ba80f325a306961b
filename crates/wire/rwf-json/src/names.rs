//! The names that stand for numbers in JSON. Source: the public specification of the WebSocket API.

/// A module with the two directions of a table of names.
macro_rules! names {
    ($(#[$doc:meta])* $table:ident; $($number:literal $name:literal;)*) => {
        $(#[$doc])*
        #[allow(dead_code, reason = "not every table is used in both directions")]
        pub(crate) mod $table {
            /// The name of a number, `None` for one without a name.
            #[inline]
            pub(crate) fn name(number: u8) -> Option<&'static str> {
                match number {
                    $($number => Some($name),)*
                    _ => None,
                }
            }

            /// The number of a name. Names are case sensitive.
            pub(crate) fn number(name: &[u8]) -> Option<u8> {
                $(if name == $name.as_bytes() { return Some($number); })*
                None
            }

            /// Every number that has a name.
            #[cfg(test)]
            pub(crate) const NUMBERS: &[u8] = &[$($number),*];
        }
    };
}

names! {
    /// Message classes.
    class;
    1 "Request"; 2 "Refresh"; 3 "Status"; 4 "Update"; 5 "Close"; 6 "Ack"; 7 "Generic"; 8 "Post";
}

names! {
    /// Domains.
    domain;
    1 "Login"; 4 "Source"; 5 "Dictionary"; 6 "MarketPrice"; 7 "MarketByOrder"; 8 "MarketByPrice";
    9 "MarketMaker"; 10 "SymbolList"; 11 "ServiceProviderStatus"; 12 "History"; 13 "Headline"; 14 "Story";
    15 "ReplayHeadline"; 16 "ReplayStory"; 17 "Transaction"; 22 "YieldCurve"; 27 "Contribution";
    29 "ProviderAdmin"; 30 "Analytics"; 31 "Reference"; 33 "NewsTextAnalytics"; 34 "EconomicIndicator";
    35 "Poll"; 36 "Forecast"; 37 "MarketByTime"; 127 "System";
}

names! {
    /// Types of the name in the key of a login.
    login_name_type;
    1 "Name"; 2 "EmailAddress"; 3 "Token"; 4 "Cookie"; 5 "AuthnToken";
}

names! {
    /// Types of the name in other keys.
    name_type;
    0 "Unspecified"; 1 "Ric"; 2 "Contributor";
}

names! {
    /// Update types.
    update_type;
    0 "Unspecified"; 1 "Quote"; 2 "Trade"; 3 "NewsAlert"; 4 "VolumeAlert"; 5 "OrderIndication";
    6 "ClosingRun"; 7 "Correction"; 8 "MarketDigest"; 9 "QuotesTrade"; 10 "Multiple"; 11 "Verify";
}

names! {
    /// Stream states.
    stream_state;
    0 "Unspecified"; 1 "Open"; 2 "NonStreaming"; 3 "ClosedRecover"; 4 "Closed"; 5 "Redirected";
}

names! {
    /// Data states.
    data_state;
    0 "NoChange"; 1 "Ok"; 2 "Suspect";
}

names! {
    /// State codes.
    state_code;
    0 "None"; 1 "NotFound"; 2 "Timeout"; 3 "NotEntitled"; 4 "InvalidArgument"; 5 "UsageError";
    6 "Preempted"; 7 "JitConflationStarted"; 8 "RealtimeResumed"; 9 "FailoverStarted";
    10 "FailoverCompleted"; 11 "GapDetected"; 12 "NoResources"; 13 "TooManyItems"; 14 "AlreadyOpen";
    15 "SourceUnknown"; 16 "NotOpen"; 19 "NonUpdatingItem"; 20 "UnsupportedViewType"; 21 "InvalidView";
    22 "FullViewProvided"; 23 "UnableToRequestAsBatch"; 26 "NoBatchViewSupportInReq";
    27 "ExceededMaxMountsPerUser"; 28 "Error"; 29 "DacsDown"; 30 "UserUnknownToPermSys";
    31 "MaxLoginsReached"; 32 "UserAccessToAppDenied"; 34 "GapFill"; 35 "AppAuthorizationFailed";
}

names! {
    /// Why a post was refused.
    nak_code;
    0 "None"; 1 "AccessDenied"; 2 "DeniedBySrc"; 3 "SourceDown"; 4 "SourceUnknown"; 5 "NoResources";
    6 "NoResponse"; 7 "GatewayDown"; 10 "SymbolUnknown"; 11 "NotOpen"; 12 "InvalidContent";
}

names! {
    /// How old data is.
    timeliness;
    0 "Unspecified"; 1 "Realtime"; 2 "DelayedUnknown"; 3 "Delayed";
}

names! {
    /// Which changes are sent.
    rate;
    0 "Unspecified"; 1 "TickByTick"; 2 "JitConflated"; 3 "TimeConflated";
}

names! {
    /// What a view is made of.
    view_type;
    1 "FidList"; 2 "NameList";
}

names! {
    /// Actions of map entries.
    map_action;
    1 "Update"; 2 "Add"; 3 "Delete";
}

names! {
    /// Actions of vector entries.
    vector_action;
    1 "Update"; 2 "Set"; 3 "Clear"; 4 "Insert"; 5 "Delete";
}

names! {
    /// Actions of filter list entries.
    filter_action;
    1 "Update"; 2 "Set"; 3 "Clear";
}

names! {
    /// Data types.
    data_type;
    3 "Int"; 4 "UInt"; 5 "Float"; 6 "Double"; 8 "Real"; 9 "Date"; 10 "Time"; 11 "DateTime"; 12 "Qos";
    13 "State"; 14 "Enum"; 15 "Array"; 16 "Buffer"; 17 "AsciiString"; 18 "Utf8String"; 19 "RmtesString";
    64 "Int1"; 65 "UInt1"; 66 "Int2"; 67 "UInt2"; 68 "Int4"; 69 "UInt4"; 70 "Int8"; 71 "UInt8"; 72 "Float4";
    73 "Double8"; 74 "Real4RB"; 75 "Real8RB"; 76 "Date4"; 77 "Time3"; 78 "Time5"; 79 "DateTime7";
    80 "DateTime9"; 81 "DateTime11"; 82 "DateTime12"; 83 "Time7"; 84 "Time8";
    128 "NoData"; 130 "Opaque"; 131 "Xml"; 132 "FieldList"; 133 "ElementList"; 134 "AnsiPage";
    135 "FilterList"; 136 "Vector"; 137 "Map"; 138 "Series"; 141 "Msg"; 142 "Json";
}

names! {
    /// Payloads, by the member that holds them.
    payload;
    130 "Opaque"; 131 "Xml"; 132 "Fields"; 133 "Elements"; 134 "AnsiPage"; 135 "FilterList"; 136 "Vector";
    137 "Map"; 138 "Series"; 141 "Message"; 142 "Json";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_its_number_are_each_others_inverse() {
        macro_rules! check {
            ($($table:ident)*) => {
                $(for number in $table::NUMBERS {
                    let name = $table::name(*number).expect("it has a name");
                    assert_eq!($table::number(name.as_bytes()), Some(*number), "{name}");
                })*
            };
        }
        check!(class domain login_name_type name_type update_type stream_state data_state state_code);
        check!(nak_code timeliness rate view_type map_action vector_action filter_action data_type payload);
    }

    #[test]
    fn names_are_case_sensitive_and_numbers_without_one_have_none() {
        assert_eq!(class::number(b"request"), None);
        assert_eq!(state_code::name(33), None);
    }

    #[test]
    fn every_data_type_of_the_format_has_a_name() {
        for number in 1..=u8::MAX {
            let named = rwf::DataType(number).name().is_some();
            assert_eq!(named, data_type::name(number).is_some(), "{number}");
        }
    }
}
