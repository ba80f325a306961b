use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

use config::Ipv4Cidr;

/// Which interface: its address, a network (the first interface in it), or its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The interface that has the address.
    Address(Ipv4Addr),
    /// The first interface with an address in the network.
    Network(Ipv4Cidr),
    /// The interface of that name.
    Name(String),
}

/// Longest name that Linux gives an interface.
const NAME_MAX: usize = 15;

impl Interface {
    /// The address of the interface on this host, as of now.
    ///
    /// # Errors
    /// No interface is up that it names; the error lists those that are.
    pub fn address(&self) -> io::Result<Ipv4Addr> {
        match self {
            Interface::Address(address) => Ok(*address),
            Interface::Network(_) | Interface::Name(_) => self.find(),
        }
    }

    /// The same, but an address is looked for too.
    ///
    /// # Errors
    /// As [`Interface::address`].
    pub fn find(&self) -> io::Result<Ipv4Addr> {
        let all = net::interface::addresses()?;
        let found = all.iter().find(|one| match self {
            Interface::Address(address) => one.address == *address,
            Interface::Network(network) => network.contains(one.address),
            Interface::Name(name) => one.name == *name,
        });
        found.map(|one| one.address).ok_or_else(|| {
            let list: Vec<String> = all.iter().map(|a| format!("{} {}", a.name, a.address)).collect();
            let message = format!("no interface is `{self}`; up are {}", list.join(", "));
            io::Error::new(io::ErrorKind::AddrNotAvailable, message)
        })
    }
}

impl From<Ipv4Addr> for Interface {
    fn from(address: Ipv4Addr) -> Interface {
        Interface::Address(address)
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Interface, String> {
        if let Ok(address) = text.parse() {
            return Ok(Interface::Address(address));
        }
        if text.contains('/') {
            return text.parse().map(Interface::Network).map_err(|e: config::CidrError| e.to_string());
        }
        let is_name = !text.is_empty() && text.len() <= NAME_MAX && !text.contains(char::is_whitespace);
        let looks_like_address = text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.');
        if !is_name || looks_like_address {
            return Err("neither an address, a network nor a name of at most 15 characters".to_owned());
        }
        Ok(Interface::Name(text.to_owned()))
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::Address(address) => address.fmt(f),
            Interface::Network(network) => network.fmt(f),
            Interface::Name(name) => f.write_str(name),
        }
    }
}

config::text_type!(Interface, "an interface", "interface: address, network or name", example "10.29.4.0/24");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_address_network_and_name() {
        for text in ["127.0.0.1", "127.0.0.0/8", "lo"] {
            let interface: Interface = text.parse().expect(text);
            assert_eq!(interface.to_string(), text);
            assert_eq!(interface.address().expect("every host has it"), Ipv4Addr::LOCALHOST);
        }
    }

    #[test]
    fn what_names_no_interface_is_refused_with_those_there_are() {
        let error = Interface::Name("nosuch0".to_owned()).address().expect_err("there is none");
        assert!(
            error.to_string().contains("nosuch0") && error.to_string().contains("lo 127.0.0.1"),
            "{error}"
        );
        for text in ["", "a name", "10.29.4", "10.29.4.0/99", "abcdefghijklmnop"] {
            assert!(text.parse::<Interface>().is_err(), "{text}");
        }
    }
}
