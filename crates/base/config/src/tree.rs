//! What a text says, before and after it is compared with the schema: tables of values that know their
//! places.

use std::collections::BTreeMap;
use std::collections::btree_map;

use crate::source::SourceSpan;

/// A table: keys by name.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) origin: TableOrigin,
}

/// How a table came to be; TOML allows or forbids additions by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableOrigin {
    /// By its own `[header]`.
    Header,
    /// Only as the parent of a `[header]`.
    Parent,
    /// By a dotted key.
    Dotted,
    /// As `{ ... }`: complete, nothing can be added.
    Inline,
}

/// A key and what it is set to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: SourceSpan,
    pub(crate) node: Node,
}

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) place: SourceSpan,
}

/// A value as written.
#[derive(Debug)]
pub(crate) enum Data {
    Bool(bool),
    /// `None` if it does not fit in 64 bits.
    Integer(Option<i64>),
    Float(f64),
    Text(String),
    DateTime,
    List(Vec<Node>),
    /// `[[name]]` headers.
    Tables(Vec<Node>),
    Table(Table),
    /// Back to "not set", by an empty variable or flag.
    Unset,
    /// Could not be read; a syntax fault was recorded.
    Broken,
}

/// A key in a text.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) place: SourceSpan,
}

/// Two statements in one text that cannot both hold.
#[derive(Debug)]
pub(crate) struct Clash {
    pub(crate) name: Name,
    pub(crate) first: SourceSpan,
    pub(crate) what: ClashKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClashKind {
    DuplicateKey,
    DuplicateTable,
    /// Keys are to be added to what is not an open table.
    Closed,
}

impl Data {
    /// The type, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Data::Bool(value) => value.to_string(),
            Data::Integer(Some(value)) => format!("the integer {value}"),
            Data::Integer(None) => "an integer of more than 64 bits".to_owned(),
            Data::Float(value) => format!("the number {value:?}"),
            Data::Text(text) => format!("the string {}", crate::value::quoted_briefly(text)),
            Data::DateTime => "a date or time".to_owned(),
            Data::List(_) => "a list".to_owned(),
            Data::Tables(_) => "a list of tables".to_owned(),
            Data::Table(_) => "a table".to_owned(),
            Data::Unset | Data::Broken => "nothing".to_owned(),
        }
    }
}

impl Table {
    pub(crate) fn new(origin: TableOrigin) -> Table {
        Table { entries: BTreeMap::new(), origin }
    }

    /// The table that a `[header]` speaks of: `path` leads to it through parents and the last of
    /// `[[tables]]`.
    ///
    /// # Errors
    /// The first name on the way that is set to something else.
    pub(crate) fn parent_of_header(&mut self, path: &[Name]) -> Result<&mut Table, Clash> {
        let mut table = self;
        for name in path {
            let entry = table.entry_or(name, || Data::Table(Table::new(TableOrigin::Parent)));
            let first = entry.key;
            table = match &mut entry.node.data {
                Data::Table(below) if below.origin != TableOrigin::Inline => below,
                Data::Tables(items) => match items.last_mut() {
                    Some(Node { data: Data::Table(below), .. }) => below,
                    Some(_) | None => return Err(Clash::new(name, first, ClashKind::Closed)),
                },
                _ => return Err(Clash::new(name, first, ClashKind::Closed)),
            };
        }
        Ok(table)
    }

    /// Opens `[path]`.
    ///
    /// # Errors
    /// If the table was opened before, or the name is set to a value.
    pub(crate) fn open(&mut self, path: &[Name], header: SourceSpan) -> Result<(), Clash> {
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let parent = self.parent_of_header(parents)?;
        match parent.entries.entry(last.text.clone()) {
            btree_map::Entry::Vacant(vacant) => {
                let data = Data::Table(Table::new(TableOrigin::Header));
                vacant.insert(Entry { key: last.place, node: Node { data, place: header } });
                Ok(())
            }
            btree_map::Entry::Occupied(mut occupied) => {
                let entry = occupied.get_mut();
                match &mut entry.node.data {
                    Data::Table(table) if table.origin == TableOrigin::Parent => {
                        table.origin = TableOrigin::Header;
                        (entry.key, entry.node.place) = (last.place, header);
                        Ok(())
                    }
                    Data::Table(_) | Data::Tables(_) => {
                        Err(Clash::new(last, entry.key, ClashKind::DuplicateTable))
                    }
                    _ => Err(Clash::new(last, entry.key, ClashKind::DuplicateKey)),
                }
            }
        }
    }

    /// Adds one table to `[[path]]`.
    ///
    /// # Errors
    /// If the name is set to anything but such tables.
    pub(crate) fn push(&mut self, path: &[Name], header: SourceSpan) -> Result<(), Clash> {
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let parent = self.parent_of_header(parents)?;
        let entry = parent.entry_or(last, || Data::Tables(Vec::new()));
        match &mut entry.node.data {
            Data::Tables(items) => {
                items.push(Node { data: Data::Table(Table::new(TableOrigin::Header)), place: header });
                Ok(())
            }
            Data::Table(_) => Err(Clash::new(last, entry.key, ClashKind::DuplicateTable)),
            _ => Err(Clash::new(last, entry.key, ClashKind::DuplicateKey)),
        }
    }

    /// Sets the key that `path` names from this table on.
    ///
    /// # Errors
    /// If it is set already, or a name on the way is not a table that dotted keys may add to.
    pub(crate) fn set(&mut self, path: &[Name], node: Node) -> Result<(), Clash> {
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let mut table = self;
        for name in parents {
            let entry = table.entry_or(name, || Data::Table(Table::new(TableOrigin::Dotted)));
            let first = entry.key;
            let Data::Table(below) = &mut entry.node.data else {
                return Err(Clash::new(name, first, ClashKind::Closed));
            };
            match below.origin {
                TableOrigin::Parent | TableOrigin::Dotted => below.origin = TableOrigin::Dotted,
                TableOrigin::Header => return Err(Clash::new(name, first, ClashKind::DuplicateTable)),
                TableOrigin::Inline => return Err(Clash::new(name, first, ClashKind::Closed)),
            }
            table = below;
        }
        match table.entries.entry(last.text.clone()) {
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Entry { key: last.place, node });
                Ok(())
            }
            btree_map::Entry::Occupied(entry) => {
                Err(Clash::new(last, entry.get().key, ClashKind::DuplicateKey))
            }
        }
    }

    fn entry_or(&mut self, name: &Name, data: impl FnOnce() -> Data) -> &mut Entry {
        self.entries
            .entry(name.text.clone())
            .or_insert_with(|| Entry { key: name.place, node: Node { data: data(), place: name.place } })
    }
}

impl Clash {
    fn new(name: &Name, first: SourceSpan, what: ClashKind) -> Clash {
        Clash { name: name.clone(), first, what }
    }
}
