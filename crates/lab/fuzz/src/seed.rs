/// An input that is kept: something to begin with, or a finding that must stay mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// What it is.
    pub name: String,
    /// Whether the target takes it.
    pub accepted: bool,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Reads a file of seeds. Shape: a line each, `+` (taken) or `-` (refused), the bytes as hexadecimal digits
/// (`.` for none), the name; `#` begins a comment.
pub(crate) fn read(target: &str, text: &str) -> Vec<Seed> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| seed(line).unwrap_or_else(|| panic!("seeds of {target}: {line}"))).collect()
}

fn seed(line: &str) -> Option<Seed> {
    let (sign, rest) = line.split_once(' ')?;
    let (digits, name) = rest.split_once(' ')?;
    let accepted = match sign {
        "+" => true,
        "-" => false,
        _ => return None,
    };
    Some(Seed { name: name.to_owned(), accepted, bytes: unhex(digits.trim_start_matches('.'))? })
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: &u8| char::from(*digit).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((nibble(high)? << 4 | nibble(low)?) as u8),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_verdict_bytes_and_a_name() {
        let read = read("some", "# a comment\n+ 00ff a good one\n\n- . nothing at all\n");
        let seed =
            |name: &str, accepted, bytes: &[u8]| Seed { name: name.into(), accepted, bytes: bytes.into() };
        assert_eq!(read, [seed("a good one", true, &[0, 255]), seed("nothing at all", false, &[])]);
    }

    #[test]
    fn a_line_of_another_shape_is_told() {
        for line in ["00ff name", "+ 00f name", "+ 00fg name", "+ 00ff"] {
            assert_eq!(seed(line), None, "{line}");
        }
    }
}
