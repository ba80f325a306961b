use super::scan::{NotJson, Sink, scan};

/// The index of a JSON text. It keeps its memory from one text to the next.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    tokens: Vec<Token>,
    /// The texts of strings that have escapes.
    unescaped: Vec<u8>,
    /// The objects and arrays that are open while reading.
    open: Vec<u32>,
}

/// What stands at a place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    escaped: bool,
    /// Where it stands in the text, quotes and brackets included.
    start: u32,
    end: u32,
    /// Of an object or array: the token behind it. Of a string with escapes: where its text is.
    first: u32,
    last: u32,
}

impl Tape {
    /// Reads a text.
    ///
    /// # Errors
    /// [`NotJson`] for the first thing that is wrong.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), NotJson> {
        self.tokens.clear();
        self.unescaped.clear();
        self.open.clear();
        scan(text, &mut Indexer { tape: self, text })
    }

    /// The value that the text is, which must be the one read last.
    pub(crate) fn root<'t>(&'t self, text: &'t [u8]) -> Option<Node<'t>> {
        Node { tape: self, text, index: 0 }.checked()
    }
}

struct Indexer<'t> {
    tape: &'t mut Tape,
    text: &'t [u8],
}

impl Indexer<'_> {
    fn push(&mut self, kind: Kind, start: usize, end: usize) -> &mut Token {
        let token = Token { kind, escaped: false, start: start as u32, end: end as u32, first: 0, last: 0 };
        let tokens = &mut self.tape.tokens;
        tokens.push(token);
        tokens.last_mut().expect("just pushed")
    }
}

impl Sink for Indexer<'_> {
    fn open(&mut self, object: bool, at: usize) {
        self.tape.open.push(self.tape.tokens.len() as u32);
        self.push(if object { Kind::Object } else { Kind::Array }, at, at);
    }

    fn close(&mut self, end: usize) {
        let behind = self.tape.tokens.len() as u32;
        let opened = self.tape.open.pop().expect("the scanner closes only what it opened");
        let token = &mut self.tape.tokens[opened as usize];
        token.end = end as u32;
        token.first = behind;
    }

    fn string(&mut self, start: usize, end: usize, escaped: bool) {
        if !escaped {
            self.push(Kind::String, start, end);
            return;
        }
        let first = self.tape.unescaped.len() as u32;
        unescape(&self.text[start + 1..end - 1], &mut self.tape.unescaped);
        let last = self.tape.unescaped.len() as u32;
        let token = self.push(Kind::String, start, end);
        (token.escaped, token.first, token.last) = (true, first, last);
    }

    fn word(&mut self, start: usize, end: usize) {
        let kind = match self.text[start] {
            b't' => Kind::True,
            b'f' => Kind::False,
            b'n' => Kind::Null,
            _ => Kind::Number,
        };
        self.push(kind, start, end);
    }
}

/// Appends the text of a string whose escapes were checked. Half of a surrogate pair becomes U+FFFD.
fn unescape(mut raw: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = raw.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&raw[..at]);
        let (code, rest) = (raw[at + 1], &raw[at + 2..]);
        raw = rest;
        let plain = match code {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, rest) = unicode(raw);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                raw = rest;
                continue;
            }
            itself => itself,
        };
        out.push(plain);
    }
    out.extend_from_slice(raw);
}

/// The character of four hexadecimal digits, and of the second half of a pair behind them.
fn unicode(raw: &[u8]) -> (char, &[u8]) {
    let (first, rest) = four_digits(raw);
    if let 0xD800..=0xDBFF = first
        && let Some(second) = rest.strip_prefix(b"\\u")
        && let (second @ 0xDC00..=0xDFFF, rest) = four_digits(second)
    {
        let pair = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

fn four_digits(raw: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = raw.split_at(4.min(raw.len()));
    let value = digits.iter().fold(0, |value, byte| value << 4 | char::from(*byte).to_digit(16).unwrap_or(0));
    (value, rest)
}

/// A value in a text that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'t> {
    tape: &'t Tape,
    text: &'t [u8],
    index: u32,
}

impl<'t> Node<'t> {
    fn checked(self) -> Option<Node<'t>> {
        ((self.index as usize) < self.tape.tokens.len()).then_some(self)
    }

    fn token(&self) -> &'t Token {
        &self.tape.tokens[self.index as usize]
    }

    pub(crate) fn kind(&self) -> Kind {
        self.token().kind
    }

    /// The text as it was received.
    pub(crate) fn raw(&self) -> &'t [u8] {
        let token = self.token();
        &self.text[token.start as usize..token.end as usize]
    }

    /// Where it begins in the text.
    pub(crate) fn offset(&self) -> u32 {
        self.token().start
    }

    /// What a string says, `None` of other values. It is UTF-8.
    pub(crate) fn string(&self) -> Option<&'t [u8]> {
        let token = self.token();
        match token {
            Token { kind: Kind::String, escaped: true, first, last, .. } => {
                Some(&self.tape.unescaped[*first as usize..*last as usize])
            }
            Token { kind: Kind::String, start, end, .. } => {
                Some(&self.text[*start as usize + 1..*end as usize - 1])
            }
            _ => None,
        }
    }

    /// The members of an object, in order; of other values none.
    pub(crate) fn members(&self) -> Members<'t> {
        Members { parts: self.parts(Kind::Object) }
    }

    /// The items of an array, in order; of other values none.
    pub(crate) fn items(&self) -> Parts<'t> {
        self.parts(Kind::Array)
    }

    /// The value of a member of an object. The last one counts where a name is there twice.
    pub(crate) fn member(&self, name: &[u8]) -> Option<Node<'t>> {
        self.members().filter(|(known, _)| *known == name).last().map(|(_, value)| value)
    }

    fn parts(&self, of: Kind) -> Parts<'t> {
        let token = self.token();
        let end = if token.kind == of { token.first } else { 0 };
        Parts { next: Node { index: self.index + 1, ..*self }, end }
    }

    fn behind(&self) -> u32 {
        match self.kind() {
            Kind::Object | Kind::Array => self.token().first,
            _ => self.index + 1,
        }
    }
}

/// The items of an array, or names and values of an object one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'t> {
    next: Node<'t>,
    end: u32,
}

impl<'t> Iterator for Parts<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        if self.next.index >= self.end {
            return None;
        }
        let part = self.next;
        self.next.index = part.behind();
        Some(part)
    }
}

/// The members of an object.
#[derive(Clone, Debug)]
pub(crate) struct Members<'t> {
    parts: Parts<'t>,
}

impl<'t> Iterator for Members<'t> {
    type Item = (&'t [u8], Node<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.parts.next()?;
        let value = self.parts.next()?;
        Some((name.string().unwrap_or_default(), value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;

    /// The value of a node as another reader has it.
    fn value(node: Node<'_>) -> Json {
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("strings are UTF-8");
        match node.kind() {
            Kind::Object => node.members().map(|(name, node)| (utf8(name), value(node))).collect(),
            Kind::Array => node.items().map(value).collect(),
            Kind::String => utf8(node.string().expect("a string")).into(),
            _ => serde_json::from_slice(node.raw()).expect("a word of JSON"),
        }
    }

    fn read(text: &str) -> Json {
        let mut tape = Tape::default();
        tape.read(text.as_bytes()).expect("JSON");
        value(tape.root(text.as_bytes()).expect("a value"))
    }

    #[test]
    fn a_text_is_read_as_others_read_it() {
        let text =
            r#" {"a":[1,-2.5e3,"x\n\u00e9\ud83d\ude00\/"],"b":{},"c":[],"d":{"e":null,"f":[true,[false]]}} "#;
        assert_eq!(read(text), serde_json::from_str::<Json>(text).expect("JSON"));
    }

    #[test]
    fn half_of_a_surrogate_pair_becomes_the_replacement() {
        assert_eq!(
            read(r#"["\ud83d","\ude00x","\ud83d\u0041"]"#),
            serde_json::json!(["\u{fffd}", "\u{fffd}x", "\u{fffd}A"])
        );
    }

    #[test]
    fn the_last_member_of_a_name_counts() {
        let text = br#"{"a":1,"b":[{"a":3}],"\u0061":2}"#;
        let mut tape = Tape::default();
        tape.read(text).expect("JSON");
        let root = tape.root(text).expect("a value");
        assert_eq!(root.member(b"a").map(|node| node.raw()), Some(&b"2"[..]));
        assert!(root.member(b"c").is_none());
        assert_eq!(
            root.member(b"b").map(|node| (node.offset(), node.raw())),
            Some((11, &br#"[{"a":3}]"#[..]))
        );
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            "\\PC{0,8}|[\"\\\\\u{0}-\u{20}]{0,4}".prop_map(Json::from),
        ];
        leaf.prop_recursive(6, 48, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::hash_map("[a-c\"\u{e9}]{0,3}", inner, 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    testkit::properties! {
        #[test]
        fn any_value_is_read_as_it_was_written(json in any_json()) {
            prop_assert_eq!(read(&json.to_string()), json.clone());
            prop_assert_eq!(read(&serde_json::to_string_pretty(&json).expect("JSON")), json);
        }
    }
}
