//! The keys of signed and of encrypted packets, from a file.

use std::fmt;
use std::io;
use std::path::Path;

use crate::small_file;

/// The keys of a process, each with its number, as what a secret is made into.
pub struct SecretKeys<K> {
    /// What it signs or encrypts with, and accepts.
    pub signing: (u16, K),
    /// What it accepts besides: the one before, or the one to come.
    pub accepted: Option<(u16, K)>,
}

/// The numbers, not the secrets.
impl<K> fmt::Debug for SecretKeys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted = self.accepted.as_ref().map(|key| key.0);
        write!(f, "signing with key {}, accepting {accepted:?} too", self.signing.0)
    }
}

impl<K> SecretKeys<K> {
    /// Reads a file. One key a line, one or two lines: `NUMBER SECRET`, the number 0 to 65535, the secret 32 to
    /// 128 hexadecimal digits. The process signs with the first and accepts both. Empty lines and what follows
    /// `#` are left out. Each secret, 16 to 64 bytes, is given to `make`. A file that is no regular one, or has more
    /// than 64 KiB, or that everybody can write, is refused.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a key; file and line are named, the secret is not.
    pub fn read(path: &str, make: impl Fn(&[u8]) -> K) -> io::Result<SecretKeys<K>> {
        let named = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {what}"));
        let bytes = small_file::read_secret(Path::new(path), BYTES_MAX)
            .map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))?;
        let text = String::from_utf8(bytes).map_err(|_| named("it is no text".to_owned()))?;
        let mut keys: Vec<(u16, K)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let (id, secret) = parse(line).map_err(|what| named(format!("line {number}: {what}")))?;
                keys.push((id, make(&secret)));
            }
        }
        let count = keys.len();
        let mut keys = keys.into_iter();
        match (keys.next(), keys.next()) {
            (Some(signing), accepted) if count <= 2 => {
                if accepted.as_ref().is_some_and(|accepted| accepted.0 == signing.0) {
                    return Err(named(format!("two keys have number {}", signing.0)));
                }
                Ok(SecretKeys { signing, accepted })
            }
            _ => Err(named(format!("{count} keys; one or two are possible"))),
        }
    }
}

/// Of two keys and many comments.
const BYTES_MAX: u64 = 64 << 10;

fn parse(line: &str) -> Result<(u16, Vec<u8>), String> {
    let (number, secret) =
        line.split_once(char::is_whitespace).ok_or("a number and a secret are expected")?;
    let id = number.parse().map_err(|_| format!("{number} is no number from 0 to 65535"))?;
    let secret = secret.trim();
    let digits = secret.len();
    if !(32..=128).contains(&digits) || digits % 2 == 1 {
        return Err(format!("a secret of {digits} digits; an even number of them, 32 to 128, is expected"));
    }
    let bytes: Option<Vec<u8>> = secret.as_bytes().chunks(2).map(byte).collect();
    Ok((id, bytes.ok_or("the secret is not of hexadecimal digits")?))
}

fn byte(pair: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(pair[at]).to_digit(16);
    Some((digit(0)? << 4 | digit(1)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

    fn load_text(name: &str, text: &str) -> Result<SecretKeys<usize>, String> {
        let folder = testkit::Folder::new();
        let path = folder.put(name, text);
        let keys = SecretKeys::read(path.to_str().expect("text"), <[u8]>::len);
        keys.map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_key_signs_and_both_are_accepted() {
        let text = format!("# changed in May\n7 {SECRET}  # from now on\n\n6 {SECRET}ff\n");
        let keys = load_text("two", &text).expect("two keys");
        assert_eq!((keys.signing, keys.accepted), ((7, 16), Some((6, 17))));
        let one = load_text("one", &format!("1 {SECRET}")).expect("one key");
        assert!(one.accepted.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_without_the_secret() {
        let third = format!("1 {SECRET}\n2 {SECRET}\n3 {SECRET}");
        let table = [
            ("none", String::new(), "0 keys"),
            ("three", third, "3 keys"),
            ("same", format!("1 {SECRET}\n1 {SECRET}"), "two keys have number 1"),
            ("number", format!("\n70000 {SECRET}"), "line 2: 70000 is no number"),
            ("short", "1 0011".to_owned(), "line 1: a secret of 4 digits"),
            ("digits", format!("1 {}", "xy".repeat(16)), "line 1: the secret is not of hexadecimal"),
            ("alone", "1".to_owned(), "line 1: a number and a secret"),
            ("long", "#".repeat(65_537), "more than 65536 bytes"),
        ];
        for (name, text, expected) in table {
            let error = load_text(name, &text).expect_err(name);
            assert!(error.contains(expected) && !error.contains(SECRET), "{name}: {error}");
        }
        assert!(
            SecretKeys::read("/no/such/file", <[u8]>::len)
                .is_err_and(|e| e.to_string().contains("/no/such/file"))
        );
    }
}
