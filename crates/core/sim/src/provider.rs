use std::collections::BTreeMap;

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter, Info, Service, ServiceState};
use rdm::item::{ItemKey, RIC};
use rdm::login::LoginRequest;
use rwf::{DataType, Domain, Key, Real, RefreshMsg, UpdateMsg};

/// The service's id as the provider has it.
pub(crate) const PROVIDER_SERVICE: u16 = 3;
/// Its name.
pub(crate) const SERVICE: &str = "SIM";
/// The field that counts an item's changes.
pub(crate) const COUNT: i16 = 22;
/// A field that only some changes touch.
pub(crate) const OTHER: i16 = 25;

/// The key of an item by its label, which is its name; behind a # stands the name type, where it is not that
/// of a RIC. Every second item shares the name of the one before it.
pub(crate) fn key_of(service: u16, label: &str) -> ItemKey<'_> {
    let (name, name_type) = label.split_once('#').unwrap_or((label, "1"));
    let name_type = name_type.parse().ok().filter(|name_type| *name_type != RIC);
    ItemKey { name_type, ..ItemKey::new(service, name.as_bytes()) }
}

/// The label of the item of a key.
pub(crate) fn label_of(key: &Key<'_>) -> String {
    let name = String::from_utf8_lossy(key.name.expect("an item")).into_owned();
    key.name_type.map_or(name.clone(), |name_type| format!("{name}#{name_type}"))
}

/// A non-interactive provider: publishes items and changes them. What it holds survives its connections and
/// is the truth that consumers are compared with.
pub(crate) struct Provider {
    items: BTreeMap<String, Item>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) seq_num: u32,
    pub(crate) count: i64,
    pub(crate) other: i64,
}

impl Provider {
    pub(crate) fn new(item_count: usize) -> Provider {
        let item = Item { seq_num: 1, count: 0, other: 0 };
        let label = |i| if i % 2 == 0 { format!("ITEM{}", i / 2) } else { format!("ITEM{}#2", i / 2) };
        Provider { items: (0..item_count).map(|i| (label(i), item)).collect() }
    }

    pub(crate) fn items(&self) -> &BTreeMap<String, Item> {
        &self.items
    }

    /// What it sends when it has connected: login, directory, all images.
    pub(crate) fn greeting(&mut self) -> Vec<Vec<u8>> {
        let service = service();
        let directory =
            DirectoryRefresh::publish(-1, Filter::INFO_AND_STATE, [&service]).expect("one service").to_vec();
        let mut all =
            vec![LoginRequest::provider(b"sim").to_vec().expect("short"), directory.expect("short")];
        for (place, (name, item)) in self.items.iter_mut().enumerate() {
            item.seq_num += 1;
            all.push(image(stream_of(place), name, item, false));
        }
        all
    }

    /// What it sends when it has connected to one more source distributor: the same, under the numbers that the items have.
    pub(crate) fn greeting_again(&self) -> Vec<Vec<u8>> {
        let service = service();
        let directory =
            DirectoryRefresh::publish(-1, Filter::INFO_AND_STATE, [&service]).expect("one service").to_vec();
        let head = vec![LoginRequest::provider(b"sim").to_vec().expect("short"), directory.expect("short")];
        let items = self.items.iter().enumerate();
        let images = items.map(|(place, (name, item))| image(stream_of(place), name, item, false));
        head.into_iter().chain(images).collect()
    }

    /// The image of an item.
    pub(crate) fn publish(&mut self, place: usize) -> Vec<u8> {
        let (name, item) = self.items.iter_mut().nth(place).expect("a place below the number of items");
        item.seq_num += 1;
        image(stream_of(place), name, item, false)
    }

    /// Changes an item; the message that says so.
    pub(crate) fn change(&mut self, place: usize, touches_other: bool) -> Vec<u8> {
        let item = self.items.values_mut().nth(place).expect("a place below the number of items");
        item.seq_num += 1;
        item.count += 1;
        if touches_other {
            item.other += 7;
        }
        let payload = rwf::encode_to_vec(|w| {
            w.field_list(|f| {
                f.put(COUNT, Real::decimal(item.count, 0));
                if touches_other {
                    f.put(OTHER, Real::decimal(item.other, 0));
                }
            });
        })
        .expect("two fields");
        let msg = UpdateMsg {
            seq_num: Some(item.seq_num),
            payload: &payload,
            ..UpdateMsg::new(Domain::MARKET_PRICE, stream_of(place), DataType::FIELD_LIST)
        };
        msg.to_vec().expect("short")
    }
}

fn stream_of(place: usize) -> i32 {
    -5 - place as i32
}

/// The service as providers describe it.
pub(crate) fn service() -> Service {
    Service {
        id: PROVIDER_SERVICE,
        info: Info { name: SERVICE.to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() },
        state: ServiceState { up: true, ..ServiceState::default() },
        ..Service::default()
    }
}

/// The image of an item.
pub(crate) fn image(stream_id: i32, label: &str, item: &Item, solicited: bool) -> Vec<u8> {
    let payload = rwf::encode_to_vec(|w| {
        w.field_list(|f| {
            f.put(COUNT, Real::decimal(item.count, 0));
            f.put(OTHER, Real::decimal(item.other, 0));
        });
    })
    .expect("two fields");
    let msg = RefreshMsg {
        solicited,
        complete: true,
        seq_num: Some(item.seq_num),
        key: Some(key_of(PROVIDER_SERVICE, label).into()),
        payload: &payload,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST)
    };
    msg.to_vec().expect("short")
}
