//! Addresses as types of keys.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

/// Makes a type with a textual form (`FromStr` and `Display`, one the inverse of the other) a type of keys.
///
/// Shape: `text_type!(Type, "an article and a noun", "name for the reference page", example "text")`. The
/// example must parse; it is shown in messages and stands in a required key until something sets it. With `or
/// number` behind the example, a number may stand in the file where the text would be one: `speed = 10` is
/// `speed = "10"`.
///
/// ```
/// # use tickcast_config as config;
/// # #[derive(Clone, Debug, PartialEq)] pub struct Currency(String);
/// # impl std::fmt::Display for Currency {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) }
/// # }
/// impl std::str::FromStr for Currency {
///     type Err = &'static str;
///     fn from_str(text: &str) -> Result<Self, Self::Err> {
///         if text.len() == 3 { Ok(Currency(text.to_owned())) } else { Err("three letters") }
///     }
/// }
/// config::text_type!(Currency, "a currency", "currency", example "EUR");
/// ```
#[macro_export]
macro_rules! text_type {
    (@type $ty:ty, $noun:literal, $type_name:literal, $example:literal, $takes_numbers:literal, $explain:expr) => {
        impl $crate::KeyType for $ty {
            fn kind() -> $crate::Kind {
                $crate::Kind::Text($crate::TextFormat {
                    noun: ::core::concat!($noun, " such as ", $example),
                    type_name: $type_name,
                    check: |text| text.parse::<$ty>().map(|_| ()).map_err($explain),
                    length: $crate::Length::ANY,
                    takes_numbers: $takes_numbers,
                })
            }
            fn vacant() -> Self {
                $example.parse().ok().expect("the example of a text type is one of its texts")
            }
            fn from_value(value: &$crate::Value) -> ::core::option::Option<Self> {
                if let $crate::Value::Text(text) = value { text.parse().ok() } else { ::core::option::Option::None }
            }
            fn to_value(&self) -> $crate::Value {
                $crate::Value::Text(::std::string::ToString::to_string(self))
            }
        }
        impl $crate::FromDefault<$ty> for $ty {
            fn from_default(default: $ty) -> Self {
                default
            }
        }
    };
    ($ty:ty, $noun:literal, $type_name:literal, example $example:literal) => {
        $crate::text_type!(@type $ty, $noun, $type_name, $example, false, |error| ::std::string::ToString::to_string(&error));
    };
    ($ty:ty, $noun:literal, $type_name:literal, example $example:literal or number) => {
        $crate::text_type!(@type $ty, $noun, $type_name, $example, true, |error| ::std::string::ToString::to_string(&error));
    };
    ($ty:ty, $noun:literal, $type_name:literal, example $example:literal, $explain:expr) => {
        $crate::text_type!(@type $ty, $noun, $type_name, $example, false, $explain);
    };
}

// The standard library's errors say no more than the noun does.
text_type!(Ipv4Addr, "an IPv4 address", "IPv4 address", example "239.192.0.1", |_| String::new());
text_type!(IpAddr, "an IP address", "IP address", example "192.168.1.10", |_| String::new());
text_type!(SocketAddrV4, "an IPv4 address and port", "IPv4 address and port", example "192.168.1.10:14002", |_| String::new());
text_type!(SocketAddr, "an IP address and port", "IP address and port", example "192.168.1.10:14002", |_| String::new());
text_type!(Ipv4Cidr, "an IPv4 network", "IPv4 network", example "10.29.0.0/16");

/// An IPv4 network: an address and the length of its prefix, `10.29.0.0/16`. A single address is `/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Cidr {
    network: Ipv4Addr,
    prefix_len: u8,
}

/// Why a text is no [`Ipv4Cidr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CidrError {
    /// The part before `/` is not an IPv4 address.
    BadAddress,
    /// The part after `/` is not a number from 0 to 32.
    BadPrefix,
    /// Bits beyond the prefix are set; the network that was perhaps meant.
    HostBits(Ipv4Cidr),
}

impl Ipv4Cidr {
    /// The network of the first `prefix_len` bits of `network`.
    ///
    /// # Errors
    /// If there are more than 32, or a later bit is set.
    pub fn new(network: Ipv4Addr, prefix_len: u8) -> Result<Ipv4Cidr, CidrError> {
        if prefix_len > 32 {
            return Err(CidrError::BadPrefix);
        }
        let masked =
            Ipv4Cidr { network: Ipv4Addr::from_bits(network.to_bits() & mask(prefix_len)), prefix_len };
        if masked.network == network { Ok(masked) } else { Err(CidrError::HostBits(masked)) }
    }

    /// The lowest address of the network.
    #[must_use]
    pub fn network(&self) -> Ipv4Addr {
        self.network
    }

    /// Length of the prefix, 0 to 32 bits.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// Whether `address` lies in the network.
    #[must_use]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix_len) == self.network.to_bits()
    }
}

/// The first `prefix_len` of 32 bits.
fn mask(prefix_len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0)
}

impl FromStr for Ipv4Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Ipv4Cidr, CidrError> {
        let (address, prefix_len) = text.split_once('/').unwrap_or((text, "32"));
        let address = address.parse().map_err(|_| CidrError::BadAddress)?;
        // `u8::from_str` takes a sign, which has no place here.
        let digits = prefix_len.bytes().all(|b| b.is_ascii_digit());
        let prefix_len = prefix_len.parse().ok().filter(|_| digits).ok_or(CidrError::BadPrefix)?;
        Ipv4Cidr::new(address, prefix_len)
    }
}

impl fmt::Display for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_len)
    }
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CidrError::BadAddress => f.write_str("the part before `/` is not an IPv4 address"),
            CidrError::BadPrefix => f.write_str("the part after `/` must be a number from 0 to 32"),
            CidrError::HostBits(network) => write!(f, "the network of that address is {network}"),
        }
    }
}

impl std::error::Error for CidrError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_of_its_prefix() {
        let network: Ipv4Cidr = "10.29.0.0/16".parse().expect("a network");
        assert!(network.contains(Ipv4Addr::new(10, 29, 255, 255)));
        assert!(!network.contains(Ipv4Addr::new(10, 30, 0, 0)));
        let all: Ipv4Cidr = "0.0.0.0/0".parse().expect("all addresses");
        assert!(all.contains(Ipv4Addr::BROADCAST));
        let one: Ipv4Cidr = "10.0.0.1".parse().expect("one address");
        assert_eq!((one.to_string().as_str(), one.prefix_len()), ("10.0.0.1/32", 32));
        assert!(one.contains(one.network()) && !one.contains(Ipv4Addr::new(10, 0, 0, 2)));
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Ipv4Cidr>().expect_err(text).to_string();
        assert_eq!(refused("10.29.3.7/16"), "the network of that address is 10.29.0.0/16");
        assert_eq!(refused("10.29.0/16"), "the part before `/` is not an IPv4 address");
        for prefix in ["33", "-1", "+8", "", "256", "8/8"] {
            assert_eq!(
                refused(&format!("10.0.0.0/{prefix}")),
                "the part after `/` must be a number from 0 to 32"
            );
        }
    }
}
