use std::fmt;
use std::io;
use std::str::FromStr;

use net::card::Coalescing;

use crate::facts::chosen;
use crate::tree::Tree;

/// Something that can be read, written, and written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A file of the kernel.
    File(String),
    /// The lengths of a card's rings: `rx=512 tx=512`.
    Rings(String),
    /// How long a card holds interrupts back: `adaptive-rx=off rx-usecs=0 adaptive-tx=off tx-usecs=0`.
    Coalescing(String),
}

/// Where settings are: a state file that somebody has forged writes nowhere else.
const PLACES: [&str; 5] =
    ["/proc/sys/", "/proc/irq/", "/sys/devices/system/", "/sys/class/net/", "/sys/kernel/mm/"];
/// Longest path, and longest value.
const PATH_BYTES_MAX: usize = 256;
pub(crate) const VALUE_BYTES_MAX: usize = 4_096;

impl Setting {
    /// A file of the kernel's.
    pub(crate) fn file(path: impl Into<String>) -> Setting {
        Setting::File(path.into())
    }

    /// A setting of the kernel by the name that `sysctl` knows, with slashes.
    pub(crate) fn sysctl(name: &str) -> Setting {
        Setting::File(format!("/proc/sys/{name}"))
    }

    /// Whether it belongs to a network namespace: each has its own.
    #[must_use]
    pub fn is_of_network(&self) -> bool {
        match self {
            Setting::File(path) => path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/"),
            Setting::Rings(_) | Setting::Coalescing(_) => true,
        }
    }

    /// Whether the caller may change it, as far as that can be seen before.
    #[must_use]
    pub fn may_be_written(&self, tree: &Tree) -> bool {
        match self {
            Setting::File(path) => tree.may_write(path),
            // The kernel asks for the rights of root.
            _ => rustix::process::geteuid().is_root(),
        }
    }

    /// The present value, in the form in which it is written.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, tree: &Tree) -> io::Result<String> {
        match self {
            Setting::File(path) => Ok(plain(&tree.read(path)?)),
            Setting::Rings(name) => {
                let rings = tree.cards().rings(name)?;
                Ok(format!("rx={} tx={}", rings.rx, rings.tx))
            }
            Setting::Coalescing(name) => Ok(coalescing_text(&tree.cards().coalescing(name)?)),
        }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// The caller may not, the kernel or the card refuses it, or it is no value of such a setting.
    pub fn write(&self, tree: &Tree, value: &str) -> io::Result<()> {
        let odd = || io::Error::new(io::ErrorKind::InvalidInput, format!("{value:?} is no value of {self}"));
        match self {
            Setting::File(path) => tree.write(path, value),
            Setting::Rings(name) => {
                let number = |key: &str| field(value, key).and_then(|text| text.parse().ok()).ok_or_else(odd);
                tree.cards().set_rings(name, number("rx")?, number("tx")?)
            }
            Setting::Coalescing(name) => {
                tree.cards().set_coalescing(name, parse_coalescing(value).ok_or_else(odd)?)
            }
        }
    }
}

fn field<'a>(value: &'a str, key: &str) -> Option<&'a str> {
    value.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// What a card is set to, as it is written and recorded.
pub(crate) fn coalescing_text(coalescing: &Coalescing) -> String {
    let Coalescing { rx_us, is_rx_adaptive, tx_us, is_tx_adaptive } = coalescing;
    let word = |is_on: &bool| if *is_on { "on" } else { "off" };
    let (rx, tx) = (word(is_rx_adaptive), word(is_tx_adaptive));
    format!("adaptive-rx={rx} rx-usecs={rx_us} adaptive-tx={tx} tx-usecs={tx_us}")
}

fn parse_coalescing(value: &str) -> Option<Coalescing> {
    let is_on = |key: &str| match field(value, key)? {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    Some(Coalescing {
        rx_us: field(value, "rx-usecs")?.parse().ok()?,
        is_rx_adaptive: is_on("adaptive-rx")?,
        tx_us: field(value, "tx-usecs")?.parse().ok()?,
        is_tx_adaptive: is_on("adaptive-tx")?,
    })
}

/// A value as it is written: of a list of words the one that is chosen, with single spaces.
fn plain(text: &str) -> String {
    chosen(text).split_whitespace().collect::<Vec<&str>>().join(" ")
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::File(path) => f.write_str(path),
            Setting::Rings(name) => write!(f, "rings:{name}"),
            Setting::Coalescing(name) => write!(f, "coalescing:{name}"),
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let wrong = || format!("{:?} is no setting that this program changes", crate::tree::shorten(text));
        if text.len() > PATH_BYTES_MAX {
            return Err(wrong());
        }
        let interface = |name: &str| {
            let is_name =
                (1..16).contains(&name.len()) && !name.contains('/') && !name.contains(char::is_whitespace);
            is_name.then(|| name.to_owned()).ok_or_else(wrong)
        };
        if let Some(name) = text.strip_prefix("rings:") {
            return Ok(Setting::Rings(interface(name)?));
        }
        if let Some(name) = text.strip_prefix("coalescing:") {
            return Ok(Setting::Coalescing(interface(name)?));
        }
        let is_in_place = PLACES.iter().any(|place| text.starts_with(place));
        let is_direct = text.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
        if is_in_place && is_direct { Ok(Setting::File(text.to_owned())) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_they_are_read() {
        for text in [
            "/proc/sys/net/core/rmem_max",
            "rings:eth0",
            "coalescing:enp3s0f1",
            "/sys/class/net/e/tx_queue_len",
        ] {
            assert_eq!(text.parse::<Setting>().expect("one of ours").to_string(), text);
        }
        let long = format!("/proc/sys/{}", "a".repeat(PATH_BYTES_MAX));
        for text in [
            "",
            "/etc/passwd",
            "/proc/sys/../../etc/shadow",
            "/proc/sys//x",
            "rings:",
            "rings:a/b",
            "rings:a b",
            &long,
        ] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }

    #[test]
    fn coalescing_is_a_text_and_back() {
        let coalescing = Coalescing { rx_us: 0, is_rx_adaptive: false, tx_us: 25, is_tx_adaptive: true };
        let text = coalescing_text(&coalescing);
        assert_eq!(text, "adaptive-rx=off rx-usecs=0 adaptive-tx=on tx-usecs=25");
        assert_eq!(parse_coalescing(&text), Some(coalescing));
        for odd in ["", "rx-usecs=0", &text.replace("=on", "=perhaps"), &text.replace("25", "-1")] {
            assert_eq!(parse_coalescing(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_value_is_the_chosen_word_with_single_spaces() {
        assert_eq!(
            (plain("always [madvise] never"), plain("4096\t131072\t6291456\n")),
            ("madvise".to_owned(), "4096 131072 6291456".to_owned())
        );
    }
}
