//! Which items: a list in the XML of the SDK's tools, or names by a pattern.

use std::path::Path;

use crate::xml::{FileFault, XmlFile, read};

/// Most items of a list.
pub const ITEMS_MAX: usize = 1_000_000;
/// Longest name of an item, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedItem {
    /// Its name, 1 to 255 bytes.
    pub name: Box<str>,
    /// Posts may go on its stream.
    pub post: bool,
    /// Generic messages may go on its stream.
    pub generic: bool,
    /// It is asked for once, without updates.
    pub snapshot: bool,
}

/// Reads an item list: `itemList` > `item` with `domain`, `name` and, optionally, `post`, `generic`, `snapshot`. The
/// first `count` items are taken, all of them without a count.
///
/// # Errors
/// [`FileFault`] names the line and what is allowed; fewer items than `count` are a fault as well.
pub fn read_items(path: &Path, count: Option<usize>) -> Result<Vec<ListedItem>, FileFault> {
    let (name, text) = (path.display().to_string(), read(path)?);
    parse_items(&name, &text, count)
}

/// The same for the text of a file.
///
/// # Errors
/// As [`read_items`].
pub fn parse_items(name: &str, text: &str, count: Option<usize>) -> Result<Vec<ListedItem>, FileFault> {
    let file = XmlFile::parse(name, text)?;
    let root = file.root("itemList")?;
    let wanted = count.unwrap_or(ITEMS_MAX);
    let mut items = Vec::new();
    for node in file.children(root, &["item"]) {
        let node = node?;
        if items.len() == wanted {
            if count.is_some() {
                break;
            }
            return Err(file.fault(node, format!("more than the {ITEMS_MAX} items allowed")));
        }
        let domain = file.attribute(node, "domain")?;
        if domain != "MarketPrice" {
            return Err(file.fault(node, format!("domain {domain:?} is not served; allowed: MarketPrice")));
        }
        let item_name = file.attribute(node, "name")?;
        if !(1..=NAME_BYTES_MAX).contains(&item_name.len()) {
            let what = format!("a name of {} bytes, 1 to {NAME_BYTES_MAX} allowed", item_name.len());
            return Err(file.fault(node, what));
        }
        items.push(ListedItem {
            name: item_name.into(),
            post: file.flag(node, "post")?,
            generic: file.flag(node, "generic")?,
            snapshot: file.flag(node, "snapshot")?,
        });
    }
    match count {
        Some(count) if items.len() < count => {
            Err(file.fault(root, format!("{} items, {count} are wanted", items.len())))
        }
        _ => Ok(items),
    }
}

/// A pattern of names: `{}` stands for the number of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    before: String,
    after: String,
}

impl std::str::FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<NamePattern, String> {
        /// Digits of the greatest number of an item.
        const DIGITS: usize = 7;
        let (before, after) =
            text.split_once("{}").ok_or("{} must stand in it for the number, as in TEST.{}")?;
        if text.len() - 2 + DIGITS > NAME_BYTES_MAX {
            return Err(format!("names of more than {NAME_BYTES_MAX} bytes would come of it"));
        }
        if after.contains("{}") {
            return Err("{} stands in it twice".to_owned());
        }
        Ok(NamePattern { before: before.to_owned(), after: after.to_owned() })
    }
}

impl NamePattern {
    /// So many items with numbers from `first` on; any may be posted to and sent generic messages.
    #[must_use]
    pub fn items(&self, first: usize, count: usize) -> Vec<ListedItem> {
        (first..first.saturating_add(count))
            .map(|number| ListedItem {
                name: format!("{}{number}{}", self.before, self.after).into(),
                post: true,
                generic: true,
                snapshot: false,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, count: Option<usize>) -> Result<Vec<ListedItem>, String> {
        parse_items("i.xml", text, count).map_err(|fault| fault.to_string())
    }

    const THREE: &str = "<itemList>\n<item domain=\"MarketPrice\" name=\"A\" post=\"true\"/>\n\
        <item domain=\"MarketPrice\" name=\"B\" generic=\"true\" snapshot=\"false\"/>\n\
        <item domain=\"MarketPrice\" name=\"C\" snapshot=\"true\"/>\n</itemList>";

    #[test]
    fn a_list_has_names_and_what_may_be_done_with_each() {
        let items = parse(THREE, None).expect("good");
        let short: Vec<_> =
            items.iter().map(|item| (&*item.name, item.post, item.generic, item.snapshot)).collect();
        assert_eq!(short, [("A", true, false, false), ("B", false, true, false), ("C", false, false, true)]);
        assert_eq!(parse(THREE, Some(2)).expect("the first two").len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_is_allowed() {
        assert_eq!(parse(THREE, Some(4)), Err("i.xml:1: 3 items, 4 are wanted".to_owned()));
        for (from, to, fault) in [
            (
                "MarketPrice",
                "MarketByOrder",
                "i.xml:2: domain \"MarketByOrder\" is not served; allowed: MarketPrice",
            ),
            ("name=\"A\"", "", "i.xml:2: <item> has no attribute name"),
            ("name=\"A\"", "name=\"\"", "i.xml:2: a name of 0 bytes, 1 to 255 allowed"),
            ("post=\"true\"", "post=\"yes\"", "i.xml:2: post \"yes\" is neither true nor false"),
            (
                "<item domain=\"MarketPrice\" name=\"B\"",
                "<thing",
                "i.xml:3: <thing> is not allowed here; allowed: <item>",
            ),
        ] {
            assert_eq!(parse(&THREE.replacen(from, to, 1), None), Err(fault.to_owned()));
        }
    }

    #[test]
    fn a_pattern_makes_names_with_numbers() {
        let pattern: NamePattern = "RDT{}.N".parse().expect("good");
        let names: Vec<_> = pattern.items(9, 3).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["RDT9.N".into(), "RDT10.N".into(), "RDT11.N".into()]);
        assert!("RDT".parse::<NamePattern>().is_err_and(|e| e.contains("TEST.{}")));
        assert!("{}{}".parse::<NamePattern>().is_err());
        assert!(format!("{{}}{}", "x".repeat(250)).parse::<NamePattern>().is_err());
    }
}
