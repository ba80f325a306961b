//! Containers.

use rwf::{
    DataType, FilterAction, FilterListWriter, MapAction, MapHead, MapWriter, SeriesHead, SeriesWriter, Value,
    VectorAction, VectorHead, VectorWriter, Writer,
};

use super::fault::{Fault, What};
use super::field::data_type;
use super::member::Payload;
use super::value::{base64, value};
use super::{Encoded, Encoder, scalar};
use crate::json::{Kind, Node};
use crate::limits::DEPTH_MAX;
use crate::{Services, names};

/// What map, vector and series have alike.
struct Counted<'t> {
    container_type: DataType,
    summary: Option<Payload<'t>>,
    total_count_hint: Option<u32>,
    entries: Option<Node<'t>>,
}

/// The members of map, vector and series.
const COUNTED: &[&[u8]] =
    &[b"Summary", b"CountHint", b"Entries", b"KeyType", b"KeyFieldID", b"SupportSorting"];

/// The members of the entries of each container, besides what they hold.
const MAP_ENTRY: &[&[u8]] = &[b"Action", b"Key", b"PermData"];
const VECTOR_ENTRY: &[&[u8]] = &[b"Action", b"Index", b"PermData"];
const SERIES_ENTRY: &[&[u8]] = &[];
const FILTER_ENTRY: &[&[u8]] = &[b"Action", b"ID", b"PermData"];

impl<S: Services> Encoder<'_, S> {
    /// The contents of a container of a type.
    pub(super) fn container<'t>(
        &mut self,
        container_type: DataType,
        node: Node<'t>,
        key: &'t [u8],
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        if depth > DEPTH_MAX {
            return Err(Fault::at(What::TooDeep, node));
        }
        match container_type {
            DataType::FIELD_LIST => self.fields(node, key, w, depth),
            DataType::ELEMENT_LIST => self.elements(node, key, w, depth),
            DataType::MAP => self.map(scalar::object(node, key)?, w, depth),
            DataType::VECTOR => self.vector(scalar::object(node, key)?, w, depth),
            DataType::SERIES => self.series(scalar::object(node, key)?, w, depth),
            DataType::FILTER_LIST => self.filter_list(scalar::object(node, key)?, w, depth),
            DataType::MSG => self.message(scalar::object(node, key)?, w, depth),
            DataType::XML => {
                w.bytes(scalar::string(node, key)?);
                Ok(())
            }
            DataType::JSON => {
                w.bytes(node.raw());
                Ok(())
            }
            _ => self.put_value(DataType::BUFFER, node, key, |value| {
                if let Value::Buffer(bytes) = value {
                    w.bytes(bytes.0);
                }
            }),
        }
    }

    fn payload<'t>(&mut self, payload: Option<Payload<'t>>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        match payload {
            Some(Payload { data_type, node, name }) => self.container(data_type, node, name, w, depth + 1),
            None => Ok(()),
        }
    }

    fn map<'t>(&mut self, node: Node<'t>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        let counted = self.counted(node, MAP_ENTRY)?;
        let key_type = data_type(node, b"KeyType")?;
        if !key_type.is_primitive() || key_type == DataType::ARRAY {
            return Err(Fault::unexpected_value(scalar::required(node, b"KeyType")?, b"KeyType"));
        }
        let field_id = node.member(b"KeyFieldID").map(|id| scalar::number(id, b"KeyFieldID")).transpose()?;
        let head = MapHead {
            key_field_id: field_id,
            total_count_hint: counted.total_count_hint,
            ..MapHead::new(key_type, counted.container_type)
        };
        let mut result = Ok(());
        w.map(&head, |m| {
            if let Some(summary) = counted.summary {
                m.summary(|w| result = self.payload(Some(summary), w, depth));
            }
            for entry in counted.entries.iter().flat_map(Node::items) {
                if result.is_ok() {
                    result = self.map_entry(m, &head, entry, depth);
                }
            }
        });
        result
    }

    fn map_entry<'t>(
        &mut self,
        m: &mut MapWriter<'_, '_>,
        head: &MapHead<'_>,
        entry: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        let payload = self.entry_payload(entry, MAP_ENTRY, head.container_type)?;
        let action = match action(entry, names::map_action::number)? {
            1 => MapAction::Update,
            2 => MapAction::Add,
            3 => MapAction::Delete,
            _ => return Err(unknown_action(entry)),
        };
        let key = scalar::required(entry, b"Key")?;
        self.with_permission_data(entry, |this, permission_data| {
            let mut key_bytes = this.take_bytes();
            let mut result = Ok(());
            let key = value(head.key_type, key, b"Key", &mut key_bytes)?;
            m.entry(action, key, permission_data, |w| result = this.payload(payload, w, depth));
            this.give_bytes(key_bytes);
            result
        })
    }

    fn vector<'t>(&mut self, node: Node<'t>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        let counted = self.counted(node, VECTOR_ENTRY)?;
        let sorting = node.member(b"SupportSorting");
        let head = VectorHead {
            total_count_hint: counted.total_count_hint,
            supports_sorting: sorting.map_or(Ok(false), |node| scalar::boolean(node, b"SupportSorting"))?,
            ..VectorHead::new(counted.container_type)
        };
        let mut result = Ok(());
        w.vector(&head, |v| {
            if let Some(summary) = counted.summary {
                v.summary(|w| result = self.payload(Some(summary), w, depth));
            }
            for entry in counted.entries.iter().flat_map(Node::items) {
                if result.is_ok() {
                    result = self.vector_entry(v, counted.container_type, entry, depth);
                }
            }
        });
        result
    }

    fn vector_entry<'t>(
        &mut self,
        v: &mut VectorWriter<'_, '_>,
        container_type: DataType,
        entry: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        let payload = self.entry_payload(entry, VECTOR_ENTRY, container_type)?;
        let action = match action(entry, names::vector_action::number)? {
            1 => VectorAction::Update,
            2 => VectorAction::Set,
            3 => VectorAction::Clear,
            4 => VectorAction::Insert,
            5 => VectorAction::Delete,
            _ => return Err(unknown_action(entry)),
        };
        let index = scalar::number(scalar::required(entry, b"Index")?, b"Index")?;
        self.with_permission_data(entry, |this, permission_data| {
            let mut result = Ok(());
            v.entry(action, index, permission_data, |w| result = this.payload(payload, w, depth));
            result
        })
    }

    fn series<'t>(&mut self, node: Node<'t>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        let counted = self.counted(node, SERIES_ENTRY)?;
        let head = SeriesHead {
            total_count_hint: counted.total_count_hint,
            ..SeriesHead::new(counted.container_type)
        };
        let mut result = Ok(());
        w.series(&head, |s| {
            if let Some(summary) = counted.summary {
                s.summary(|w| result = self.payload(Some(summary), w, depth));
            }
            for entry in counted.entries.iter().flat_map(Node::items) {
                if result.is_ok() {
                    result = self.series_entry(s, counted.container_type, entry, depth);
                }
            }
        });
        result
    }

    fn series_entry<'t>(
        &mut self,
        s: &mut SeriesWriter<'_, '_>,
        container_type: DataType,
        entry: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        let payload = self.entry_payload(entry, SERIES_ENTRY, container_type)?;
        let mut result = Ok(());
        s.entry(|w| result = self.payload(payload, w, depth));
        result
    }

    fn filter_list<'t>(&mut self, node: Node<'t>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        self.check_keys(node, &[b"CountHint", b"Entries"])?;
        let hint = node.member(b"CountHint").map(|hint| scalar::number(hint, b"CountHint")).transpose()?;
        let entries = entries(node)?;
        let container_type = self.container_type(None, entries, FILTER_ENTRY)?;
        let mut result = Ok(());
        w.filter_list(container_type, hint, |f| {
            for entry in entries.iter().flat_map(Node::items) {
                if result.is_ok() {
                    result = self.filter_entry(f, container_type, entry, depth);
                }
            }
        });
        result
    }

    /// An entry names its type where it is not the list's.
    fn filter_entry<'t>(
        &mut self,
        f: &mut FilterListWriter<'_, '_>,
        list_type: DataType,
        entry: Node<'t>,
        depth: u32,
    ) -> Encoded<'t> {
        let strict = self.converter.options.catch_unknown_keys;
        let payload = Payload::in_object(scalar::object(entry, b"Entries")?, FILTER_ENTRY, strict)?;
        let action = match action(entry, names::filter_action::number)? {
            1 => FilterAction::Update,
            2 => FilterAction::Set,
            3 => FilterAction::Clear,
            _ => return Err(unknown_action(entry)),
        };
        let id = scalar::number(scalar::required(entry, b"ID")?, b"ID")?;
        let own_type = payload.map(|payload| payload.data_type).filter(|own| *own != list_type);
        self.with_permission_data(entry, |this, permission_data| {
            let mut result = Ok(());
            f.entry_with(action, id, own_type, permission_data, |w| result = this.payload(payload, w, depth));
            result
        })
    }

    /// What is alike in map, vector and series.
    fn counted<'t>(&self, node: Node<'t>, entry_keys: &[&[u8]]) -> Result<Counted<'t>, Fault<'t>> {
        self.check_keys(node, COUNTED)?;
        let strict = self.converter.options.catch_unknown_keys;
        let summary = match node.member(b"Summary") {
            Some(summary) => Payload::in_object(scalar::object(summary, b"Summary")?, &[], strict)?,
            None => None,
        };
        let hint = node.member(b"CountHint").map(|hint| scalar::number(hint, b"CountHint")).transpose()?;
        let entries = entries(node)?;
        let container_type = self.container_type(summary, entries, entry_keys)?;
        Ok(Counted { container_type, summary, total_count_hint: hint, entries })
    }

    /// The type that a container announces: that of the summary, else of the first entry with a payload.
    fn container_type<'t>(
        &self,
        summary: Option<Payload<'t>>,
        entries: Option<Node<'t>>,
        entry_keys: &[&[u8]],
    ) -> Result<DataType, Fault<'t>> {
        if let Some(summary) = summary {
            return Ok(summary.data_type);
        }
        let strict = self.converter.options.catch_unknown_keys;
        for entry in entries.iter().flat_map(Node::items) {
            if let Some(payload) = Payload::in_object(entry, entry_keys, strict)? {
                return Ok(payload.data_type);
            }
        }
        Ok(DataType::NO_DATA)
    }

    /// What an entry holds, which must be of the type that the container announces.
    fn entry_payload<'t>(
        &self,
        entry: Node<'t>,
        known: &[&[u8]],
        container_type: DataType,
    ) -> Result<Option<Payload<'t>>, Fault<'t>> {
        let strict = self.converter.options.catch_unknown_keys;
        let payload = Payload::in_object(scalar::object(entry, b"Entries")?, known, strict)?;
        match payload {
            Some(payload) if payload.data_type != container_type => {
                Err(Fault::unexpected_key(payload.name, payload.node))
            }
            payload => Ok(payload),
        }
    }

    fn check_keys<'t>(&self, object: Node<'t>, known: &[&[u8]]) -> Encoded<'t> {
        if !self.converter.options.catch_unknown_keys {
            return Ok(());
        }
        match object.members().find(|(name, _)| !known.contains(name)) {
            Some((name, node)) => Err(Fault::unexpected_key(name, node)),
            None => Ok(()),
        }
    }

    fn with_permission_data<'t>(
        &mut self,
        entry: Node<'t>,
        write: impl FnOnce(&mut Self, Option<&[u8]>) -> Encoded<'t>,
    ) -> Encoded<'t> {
        let Some(node) = entry.member(b"PermData") else { return write(self, None) };
        let mut bytes = self.take_bytes();
        base64(node, b"PermData", &mut bytes)?;
        let result = write(self, Some(&bytes));
        self.give_bytes(bytes);
        result
    }
}

fn entries(node: Node<'_>) -> Result<Option<Node<'_>>, Fault<'_>> {
    match node.member(b"Entries") {
        Some(entries) if entries.kind() == Kind::Null => Ok(None),
        Some(entries) => scalar::array(entries, b"Entries").map(Some),
        None => Ok(None),
    }
}

fn action<'t>(entry: Node<'t>, table: fn(&[u8]) -> Option<u8>) -> Result<u8, Fault<'t>> {
    scalar::named(scalar::required(entry, b"Action")?, b"Action", table)
}

fn unknown_action(entry: Node<'_>) -> Fault<'_> {
    Fault::unexpected_value(entry.member(b"Action").unwrap_or(entry), b"Action")
}
