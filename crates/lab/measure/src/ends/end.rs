use std::fmt::Display;

use super::{Failure, Observe};

/// An end of one run.
#[derive(Clone, Debug)]
pub struct End {
    /// `pingpong`, `reflector`, `stream` or `receiver`.
    pub role: String,
    /// `shm`, `udp`, `multicast`, `tcp` or `veth`.
    pub path: String,
    /// Bytes of a message.
    pub size: usize,
    /// Longest UDP payload of a datagram that is asked for, bytes.
    pub datagram: usize,
    /// One of several ways to do it.
    pub mode: String,
    /// Of both ends of one run and of no others.
    pub port: u16,
    /// How many links at once.
    pub pairs: usize,
    /// The CPU of this end.
    pub cpu: usize,
    /// Number of its first link among those of all ends of the run.
    pub first_pair: usize,
    /// Whether others have the same CPU, so that it leaves that to them whenever it has nothing to do.
    pub yields: bool,
    /// Percent of the messages of a stream that the receiver sends back.
    pub reflect: u8,
    /// Settings of our own library, as [`End::parse`] got them; empty if there are none.
    pub settings: String,
    /// Where each message is taken down, if it is.
    pub observe: Option<Observe>,
}

impl End {
    /// From the words that a program was started with.
    ///
    /// # Errors
    /// A word is missing or not what it should be; the error names it.
    pub fn parse(words: &[String]) -> Result<End, Failure> {
        let value = |key: &str| {
            let at = words.iter().position(|word| word == key);
            let value = at.and_then(|at| words.get(at + 1));
            value.map(String::as_str).ok_or_else(|| format!("{key} VALUE is missing"))
        };
        let optional = |key: &str, standard: &str| value(key).unwrap_or(standard).to_owned();
        let number = |key: &str| Ok::<usize, Failure>(value(key)?.parse().map_err(|e| wrong(key, &e))?);
        Ok(End {
            role: words.first().ok_or("the first word is the role")?.clone(),
            path: value("--path")?.to_owned(),
            size: number("--size")?,
            datagram: number("--datagram")?,
            mode: value("--mode")?.to_owned(),
            port: value("--port")?.parse().map_err(|e| wrong("--port", &e))?,
            pairs: number("--pairs")?,
            cpu: number("--cpu")?,
            first_pair: optional("--first-pair", "0").parse().map_err(|e| wrong("--first-pair", &e))?,
            yields: optional("--yields", "false").parse().map_err(|e| wrong("--yields", &e))?,
            reflect: optional("--reflect", "0").parse().map_err(|e| wrong("--reflect", &e))?,
            settings: optional("--settings", ""),
            observe: Observe::parse(words)?,
        })
    }

    /// From the arguments of the process, whose thread is kept on the CPU that they name.
    ///
    /// # Errors
    /// As [`End::parse`]; the CPU is not there.
    pub fn enter() -> Result<End, Failure> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let end = End::parse(&words)?;
        net::affinity::pin_to_cpu(end.cpu)?;
        Ok(end)
    }

    /// Whether this is the end that waits for the other.
    #[must_use]
    pub fn is_far(&self) -> bool {
        matches!(self.role.as_str(), "reflector" | "receiver")
    }
}

fn wrong(key: &str, error: &dyn Display) -> String {
    format!("{key}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn an_end_is_what_its_words_say() {
        let text = "receiver --path udp --size 64 --datagram 1472 --mode x --port 4000 --pairs 3 --cpu 1";
        let end = End::parse(&words(text)).expect("all words are there");
        assert_eq!((end.role.as_str(), end.path.as_str(), end.mode.as_str()), ("receiver", "udp", "x"));
        assert_eq!((end.size, end.datagram, end.port, end.pairs, end.cpu), (64, 1472, 4000, 3, 1));
        assert!(end.is_far());
        assert_eq!((end.first_pair, end.yields, end.settings.as_str()), (0, false, ""));
        let more = End::parse(&words(&format!("{text} --first-pair 2 --yields true --settings {{}}")));
        let more = more.expect("all are words of an end");
        assert_eq!((more.first_pair, more.yields, more.settings.as_str()), (2, true, "{}"));
        assert!(end.is_far() && end.observe.is_none());
        let observe = Observe { folder: "/x".into(), name: "a-1".to_owned(), capacity: 70 };
        let more = [&words(text)[..], &observe.words()].concat();
        assert_eq!(End::parse(&more).expect("all words are there").observe, Some(observe));
    }

    #[test]
    fn a_word_that_is_missing_or_wrong_is_named() {
        let fault = |text: &str| End::parse(&words(text)).expect_err("a fault").to_string();
        assert_eq!(fault("stream --path udp"), "--size VALUE is missing");
        assert!(fault("stream --path udp --size many").starts_with("--size: "));
        let whole = "stream --path udp --size 64 --datagram 1472 --mode x --port 4000 --pairs 3 --cpu 1";
        assert!(fault(&format!("{whole} --yields perhaps")).starts_with("--yields: "));
        let text = "stream --path udp --size 64 --datagram 1472 --mode x --port 4000 --pairs 3 --cpu 1 --observe /x --observe-as y";
        let fault = End::parse(&words(text)).expect_err("a fault").to_string();
        assert_eq!(fault, "--observe-capacity VALUE is missing");
    }
}
