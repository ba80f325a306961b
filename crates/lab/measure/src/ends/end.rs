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
        assert!(end.is_far() && end.observe.is_none());
        let observe = Observe { folder: "/x".into(), name: "a-1".to_owned(), capacity: 70 };
        let more = [&words(text)[..], &observe.words()].concat();
        assert_eq!(End::parse(&more).expect("all words are there").observe, Some(observe));
    }

    #[test]
    fn a_word_that_is_missing_or_wrong_is_named() {
        let fault = |text| End::parse(&words(text)).expect_err("a fault").to_string();
        assert_eq!(fault("stream --path udp"), "--size VALUE is missing");
        assert!(fault("stream --path udp --size many").starts_with("--size: "));
        let text = "stream --path udp --size 64 --datagram 1472 --mode x --port 4000 --pairs 3 --cpu 1 --observe /x --observe-as y";
        let fault = End::parse(&words(text)).expect_err("a fault").to_string();
        assert_eq!(fault, "--observe-capacity VALUE is missing");
    }
}
