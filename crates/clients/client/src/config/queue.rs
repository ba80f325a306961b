config::section! {
    /// The queue between the thread of a consumer and the application that takes its events
    /// ([`Consumer::into_channel_with`](crate::Consumer::into_channel_with)).
    pub struct QueueConfig {
        /// What happens when the application takes less than comes.
        when_full: WhenFull = WhenFull::Block;
        /// Most events that may wait.
        events_max: u32 = 10_000, range 1..=16_777_216;
        /// Most bytes that may wait: an event counts its message and 256 bytes.
        bytes_max: u32 = 67_108_864, range 4_096..=1_073_741_824;
    }
}

config::choice! {
    /// What happens when as many events wait as may wait.
    pub enum WhenFull {
        /// Nothing more is read until half of them are taken: the server sees a slow consumer. Pings go on, and
        /// what comes late for that reason is not late.
        Block = "block",
        /// Updates are merged, so that the application gets the newest value of each field or map entry that has
        /// changed. What must not be merged waits; if twice the bound waits, nothing more is read, as with `block`.
        Conflate = "conflate",
        /// The session ends, and says which bound was reached. Everything up to there is delivered.
        Fail = "fail",
    }
}

impl QueueConfig {
    /// Whether the bounds are in their ranges, which a configuration made in code need not be.
    pub(crate) fn check_ranges(&self) -> Result<(), String> {
        let in_range = |key, value: u32, min: u32, max: u32| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(format!("{key} = {value}, but {min} to {max} are allowed")),
        };
        in_range("events_max", self.events_max, 1, 16_777_216)?;
        in_range("bytes_max", self.bytes_max, 4_096, 1_073_741_824)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<QueueConfig>(), Vec::<String>::new());
    }

    #[test]
    fn a_file_says_what_happens_by_its_name() {
        let load = |file: &str| config::Loader::new::<QueueConfig>().file("c.toml", file).load();
        let loaded = load("when_full = \"conflate\"\nevents_max = 500\n").expect("legal").value;
        assert_eq!((loaded.when_full, loaded.events_max), (WhenFull::Conflate, 500));
        assert!(load("events_max = 0\n").is_err() && load("when_full = \"drop\"\n").is_err());
    }
}
