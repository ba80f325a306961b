//! What RWF's containers mean, written down as plainly as it can be.

use std::collections::BTreeMap;

use rwf::{
    Buffer, DataType, ElementList, Encoded, FieldList, FieldListHead, FieldSetDef, FieldSetEntry,
    FilterAction, FilterList, Map, MapAction, MapHead, Series, SeriesHead, SetDefinitions, SetHead, Vector,
    VectorAction, VectorHead, Writer, encode_to_vec,
};
use units::Rng;

/// The kind of a container and of what is in it; all messages of an item have one.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Nothing,
    Fields,
    Elements,
    Map(Box<Shape>),
    /// Whether it supports sorting.
    Vector(Box<Shape>, bool),
    /// By id.
    Filters(Vec<Shape>),
    Series(Box<Shape>),
}

/// A message's payload.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Nothing,
    Fields(Vec<(i16, u8)>),
    Elements(Vec<(u8, u8)>),
    Map {
        holds: DataType,
        summary: Option<Box<Node>>,
        entries: Vec<(MapAction, u8, Node)>,
    },
    Vector {
        holds: DataType,
        sorts: bool,
        summary: Option<Box<Node>>,
        entries: Vec<(VectorAction, u32, Node)>,
    },
    Filters(Vec<(FilterAction, u8, Node)>),
    Series {
        holds: DataType,
        entries: Vec<Node>,
    },
}

/// What is known after some messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tree {
    #[default]
    Nothing,
    Fields(BTreeMap<i16, Vec<u8>>),
    Elements(BTreeMap<Vec<u8>, Vec<u8>>),
    Map(Box<Tree>, BTreeMap<Vec<u8>, Tree>),
    /// By position; none at the end that is not there.
    Vector(Box<Tree>, Vec<Option<Tree>>),
    Filters(BTreeMap<u8, Tree>),
    Series(Vec<Tree>),
}

/// Fields that stand in set data, where there is some.
const IN_SETS: [FieldSetEntry; 2] = [
    FieldSetEntry { id: 0, data_type: DataType::UINT_1 },
    FieldSetEntry { id: 1, data_type: DataType::UINT_1 },
];

impl Shape {
    pub(super) fn any(rng: &mut Rng, depth: u32) -> Shape {
        let leaf =
            |rng: &mut Rng| [Shape::Fields, Shape::Elements, Shape::Nothing][rng.below(3) as usize].clone();
        let inner = |rng: &mut Rng| if depth > 1 { Shape::any(rng, depth - 1) } else { leaf(rng) };
        match rng.below(6) {
            0 => Shape::Fields,
            1 => Shape::Elements,
            2 => Shape::Map(Box::new(inner(rng))),
            3 => Shape::Vector(Box::new(inner(rng)), rng.chance(0.5)),
            4 => Shape::Filters((0..3).map(|_| inner(rng)).collect()),
            // What is in a row is kept as it came, with its actions if it has some.
            _ => Shape::Series(Box::new(leaf(rng))),
        }
    }

    pub(super) fn container_type(&self) -> DataType {
        match self {
            Shape::Nothing => DataType::NO_DATA,
            Shape::Fields => DataType::FIELD_LIST,
            Shape::Elements => DataType::ELEMENT_LIST,
            Shape::Map(_) => DataType::MAP,
            Shape::Vector(..) => DataType::VECTOR,
            Shape::Filters(_) => DataType::FILTER_LIST,
            Shape::Series(_) => DataType::SERIES,
        }
    }
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

impl Node {
    pub(super) fn any(rng: &mut Rng, shape: &Shape) -> Node {
        let count = rng.below(4);
        let value = |rng: &mut Rng| rng.below(200) as u8 + 1;
        let key = |rng: &mut Rng| rng.below(6) as u8;
        let summary = |rng: &mut Rng, inner: &Shape| {
            let has_one = !matches!(inner, Shape::Nothing) && rng.chance(0.3);
            has_one.then(|| Box::new(Node::any(rng, inner)))
        };
        match shape {
            Shape::Nothing => Node::Nothing,
            Shape::Fields => {
                let is_set = rng.chance(0.5);
                let id = |rng: &mut Rng, at: u64| if is_set && at < 2 { at as i16 } else { key(rng).into() };
                Node::Fields((0..count).map(|at| (id(rng, at), value(rng))).collect())
            }
            Shape::Elements => Node::Elements((0..count).map(|_| (key(rng), value(rng))).collect()),
            Shape::Map(inner) => {
                let actions = [MapAction::Add, MapAction::Update, MapAction::Delete];
                let entry = |rng: &mut Rng| (one_of(rng, &actions), key(rng), Node::any(rng, inner));
                let summary = summary(rng, inner);
                let holds = inner.container_type();
                Node::Map { holds, summary, entries: (0..count).map(|_| entry(rng)).collect() }
            }
            Shape::Vector(inner, sorts) => {
                use VectorAction::{Clear, Delete, Insert, Set, Update};
                let actions = [Set, Set, Update, Insert, Insert, Delete, Clear];
                let entry = |rng: &mut Rng| (one_of(rng, &actions), key(rng).into(), Node::any(rng, inner));
                let summary = summary(rng, inner);
                let (holds, sorts) = (inner.container_type(), *sorts);
                Node::Vector { holds, sorts, summary, entries: (0..count).map(|_| entry(rng)).collect() }
            }
            Shape::Filters(inner) => {
                let actions = [FilterAction::Set, FilterAction::Update, FilterAction::Clear];
                let entry = |rng: &mut Rng| {
                    let id = rng.below(inner.len() as u64) as u8;
                    (one_of(rng, &actions), id, Node::any(rng, &inner[usize::from(id)]))
                };
                Node::Filters((0..count).map(|_| entry(rng)).collect())
            }
            Shape::Series(inner) => {
                let holds = inner.container_type();
                Node::Series { holds, entries: (0..count).map(|_| Node::any(rng, inner)).collect() }
            }
        }
    }

    fn container_type(&self) -> DataType {
        match self {
            Node::Nothing => DataType::NO_DATA,
            Node::Fields(_) => DataType::FIELD_LIST,
            Node::Elements(_) => DataType::ELEMENT_LIST,
            Node::Map { .. } => DataType::MAP,
            Node::Vector { .. } => DataType::VECTOR,
            Node::Filters(_) => DataType::FILTER_LIST,
            Node::Series { .. } => DataType::SERIES,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        encode_to_vec(|w| self.write(false, w)).expect("legal")
    }

    /// `has_sets`: the container around it has the definitions of [`IN_SETS`].
    fn write(&self, has_sets: bool, w: &mut Writer<'_>) {
        match self {
            Node::Nothing => {}
            Node::Fields(fields) => write_fields(fields, has_sets, w),
            Node::Elements(elements) => w.element_list(|e| {
                for (name, value) in elements {
                    e.put([*name], Encoded { data_type: DataType::UINT, content: &[*value] });
                }
            }),
            Node::Map { holds, summary, entries } => {
                let defs = [FieldSetDef { id: 0, entries: &IN_SETS }];
                let set_definitions = definitions(*holds, entries.len(), &defs);
                let has_sets = set_definitions.is_some();
                w.map(&MapHead { set_definitions, ..MapHead::new(DataType::BUFFER, *holds) }, |m| {
                    if let Some(summary) = summary {
                        m.summary(|w| summary.write(has_sets, w));
                    }
                    for (action, key, node) in entries {
                        m.entry(*action, Buffer(&[*key]), None, |w| node.write(has_sets, w));
                    }
                });
            }
            Node::Vector { holds, sorts, summary, entries } => {
                let defs = [FieldSetDef { id: 0, entries: &IN_SETS }];
                let set_definitions = definitions(*holds, entries.len(), &defs);
                let has_sets = set_definitions.is_some();
                let head =
                    VectorHead { set_definitions, supports_sorting: *sorts, ..VectorHead::new(*holds) };
                w.vector(&head, |v| {
                    if let Some(summary) = summary {
                        v.summary(|w| summary.write(has_sets, w));
                    }
                    for (action, index, node) in entries {
                        v.entry(*action, *index, None, |w| node.write(has_sets, w));
                    }
                });
            }
            Node::Filters(entries) => w.filter_list(DataType::FIELD_LIST, None, |f| {
                for (action, id, node) in entries {
                    f.entry_with(*action, *id, Some(node.container_type()), None, |w| node.write(false, w));
                }
            }),
            Node::Series { holds, entries } => {
                let defs = [FieldSetDef { id: 0, entries: &IN_SETS }];
                let set_definitions = definitions(*holds, entries.len(), &defs);
                let has_sets = set_definitions.is_some();
                w.series(&SeriesHead { set_definitions, ..SeriesHead::new(*holds) }, |s| {
                    entries.iter().for_each(|node| s.entry(|w| node.write(has_sets, w)));
                });
            }
        }
    }
}

/// Lists of fields stand in set data where there is an odd number of them.
fn definitions<'d>(holds: DataType, count: usize, defs: &'d [FieldSetDef<'d>]) -> Option<SetDefinitions<'d>> {
    (holds == DataType::FIELD_LIST && count % 2 == 1).then_some(SetDefinitions::Fields(defs))
}

fn write_fields(fields: &[(i16, u8)], has_sets: bool, w: &mut Writer<'_>) {
    // Set data has all the values of its definition, in their order, before all others.
    let is_set = has_sets && matches!(fields, [(0, _), (1, _), ..]);
    let set = is_set.then_some(SetHead { explicit_id: None, entries: &IN_SETS[..] });
    w.field_list_with(&FieldListHead { info: None, set }, |f| {
        for (at, (id, value)) in fields.iter().enumerate() {
            if is_set && at < IN_SETS.len() {
                f.put_set(u64::from(*value));
            } else {
                f.encoded(*id, &[*value]);
            }
        }
    });
}

impl Tree {
    pub(super) fn apply(&mut self, node: &Node) {
        if let Tree::Nothing = self {
            *self = Tree::empty(node);
        }
        match (self, node) {
            (Tree::Nothing, Node::Nothing) => {}
            (Tree::Fields(ours), Node::Fields(fields)) => {
                ours.extend(fields.iter().map(|(id, value)| (*id, vec![*value])));
            }
            (Tree::Elements(ours), Node::Elements(elements)) => {
                ours.extend(elements.iter().map(|(name, value)| (vec![*name], vec![*value])));
            }
            (Tree::Map(ours, kept), Node::Map { summary, entries, .. }) => {
                summary.iter().for_each(|summary| ours.apply(summary));
                for (action, key, node) in entries {
                    match action {
                        MapAction::Add => drop(kept.insert(vec![*key], Tree::of(node))),
                        MapAction::Update => kept.entry(vec![*key]).or_default().apply(node),
                        MapAction::Delete => drop(kept.remove(&vec![*key])),
                    }
                }
            }
            (Tree::Vector(ours, kept), Node::Vector { sorts, summary, entries, .. }) => {
                summary.iter().for_each(|summary| ours.apply(summary));
                for (action, index, node) in entries {
                    apply_position(kept, *sorts, *action, *index as usize, node);
                }
                while kept.last().is_some_and(Option::is_none) {
                    kept.pop();
                }
            }
            (Tree::Filters(kept), Node::Filters(entries)) => {
                for (action, id, node) in entries {
                    match action {
                        FilterAction::Set => drop(kept.insert(*id, Tree::of(node))),
                        FilterAction::Update => kept.entry(*id).or_default().apply(node),
                        FilterAction::Clear => drop(kept.remove(id)),
                    }
                }
            }
            (Tree::Series(ours), Node::Series { entries, .. }) => ours.extend(entries.iter().map(Tree::of)),
            (tree, node) => panic!("{node:?} for {tree:?}"),
        }
    }

    fn of(node: &Node) -> Tree {
        let mut tree = Tree::default();
        tree.apply(node);
        tree
    }

    fn empty(node: &Node) -> Tree {
        match node {
            Node::Nothing => Tree::Nothing,
            Node::Fields(_) => Tree::Fields(BTreeMap::new()),
            Node::Elements(_) => Tree::Elements(BTreeMap::new()),
            Node::Map { .. } => Tree::Map(Box::default(), BTreeMap::new()),
            Node::Vector { .. } => Tree::Vector(Box::default(), Vec::new()),
            Node::Filters(_) => Tree::Filters(BTreeMap::new()),
            Node::Series { .. } => Tree::Series(Vec::new()),
        }
    }

    /// Takes a refresh apart, in which nothing is but what is there.
    pub(super) fn read(container_type: DataType, bytes: &[u8]) -> Tree {
        let summary = |holds, bytes: Option<&[u8]>| Box::new(Tree::of_entry(holds, bytes));
        match container_type {
            DataType::NO_DATA => Tree::Nothing,
            DataType::FIELD_LIST => {
                let list = FieldList::parse(bytes).expect("whole");
                assert!(list.set_data.is_none(), "set data has become ordinary data");
                let entries = list.entries().map(|entry| entry.expect("whole"));
                Tree::Fields(entries.map(|entry| (entry.id, entry.content.to_vec())).collect())
            }
            DataType::ELEMENT_LIST => {
                let list = ElementList::parse(bytes).expect("whole");
                let entries = list.entries().map(|entry| entry.expect("whole"));
                Tree::Elements(entries.map(|entry| (entry.name.to_vec(), entry.content.to_vec())).collect())
            }
            DataType::MAP => {
                let map = Map::parse(bytes).expect("whole");
                let entries = map.entries().map(|entry| entry.expect("whole"));
                let entry =
                    |e: rwf::MapEntry<'_>| (e.key.to_vec(), Tree::of_entry(map.container_type, e.data));
                Tree::Map(summary(map.container_type, map.summary), entries.map(entry).collect())
            }
            DataType::VECTOR => {
                let vector = Vector::parse(bytes).expect("whole");
                let mut all = Vec::new();
                for entry in vector.entries().map(|entry| entry.expect("whole")) {
                    all.resize(entry.index as usize, None);
                    all.push(Some(Tree::of_entry(vector.container_type, entry.data)));
                }
                Tree::Vector(summary(vector.container_type, vector.summary), all)
            }
            DataType::FILTER_LIST => {
                let filters = FilterList::parse(bytes).expect("whole");
                let entries = filters.entries().map(|entry| entry.expect("whole"));
                Tree::Filters(entries.map(|e| (e.id, Tree::of_entry(e.container_type, e.data))).collect())
            }
            DataType::SERIES => {
                let series = Series::parse(bytes).expect("whole");
                let entries = series.entries().map(|entry| entry.expect("whole"));
                Tree::Series(entries.map(|e| Tree::of_entry(series.container_type, Some(e))).collect())
            }
            other => panic!("{other} is not made here"),
        }
    }

    fn of_entry(container_type: DataType, data: Option<&[u8]>) -> Tree {
        data.map_or(Tree::Nothing, |data| Tree::read(container_type, data))
    }
}

fn apply_position(
    kept: &mut Vec<Option<Tree>>,
    sorts: bool,
    action: VectorAction,
    index: usize,
    node: &Node,
) {
    let len = kept.len().max(index + 1);
    kept.resize(len, None);
    match action {
        VectorAction::Update => kept[index].get_or_insert_default().apply(node),
        VectorAction::Set => kept[index] = Some(Tree::of(node)),
        VectorAction::Clear => kept[index] = None,
        VectorAction::Insert if sorts => kept.insert(index, Some(Tree::of(node))),
        VectorAction::Insert => kept[index] = Some(Tree::of(node)),
        VectorAction::Delete if sorts => drop(kept.remove(index)),
        VectorAction::Delete => kept[index] = None,
    }
}
