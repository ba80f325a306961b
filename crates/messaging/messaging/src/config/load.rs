use config::{Faults, Loader};

use crate::MessagingConfig;

config::section! {
    /// The file of an application that is nothing but a user of this library.
    pub(super) struct ApplicationConfig {
        /// The messaging library.
        messaging: MessagingConfig;
    }
}

impl MessagingConfig {
    /// The configuration of an application: the defaults, over them a TOML file with a section `[messaging]`
    /// (its name for error messages, and its bytes), over that settings such as
    /// `interface=10.29.4.0/24` or `lbtrm.destination_port=14401`.
    ///
    /// # Errors
    /// All faults of file and settings, each with its place, what was expected and the nearest known name.
    pub fn load<S: AsRef<str>>(
        file: Option<(&str, &[u8])>,
        settings: impl IntoIterator<Item = S>,
    ) -> Result<MessagingConfig, Faults> {
        let mut loader = Loader::new::<ApplicationConfig>();
        if let Some((name, contents)) = file {
            loader = loader.file(name, contents);
        }
        for setting in settings {
            loader = loader.set(format!("messaging.{}", setting.as_ref()));
        }
        loader.load().map(|loaded| loaded.value.messaging)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_over_the_file_and_the_file_over_the_defaults() {
        let file = b"[messaging]\nttl = 3\nresolver.multicast_port = 13000\n";
        let config = MessagingConfig::load(Some(("a.toml", file)), ["ttl=4"]).expect("both are sound");
        assert_eq!((config.ttl, config.resolver.multicast_port), (4, 13_000));
        let nothing: [&str; 0] = [];
        assert_eq!(MessagingConfig::load(None, nothing), Ok(MessagingConfig::default()));
    }

    #[test]
    fn a_fault_is_told_with_its_place_and_the_nearest_name() {
        let faults = MessagingConfig::load(None, ["tll=4"]).expect_err("there is no such key");
        assert!(faults.to_string().contains("ttl"), "{faults}");
        let file = b"[messaging]\nttl = 300\n";
        let faults = MessagingConfig::load(Some(("a.toml", file)), [""; 0]).expect_err("out of range");
        assert!(faults.to_string().contains("a.toml:2"), "{faults}");
    }
}
