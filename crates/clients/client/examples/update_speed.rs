//! Prints what an update costs a consumer, from the bytes of the socket to the application: nanoseconds, the
//! median, the least and the most of several runs.
//!
//! `cargo run --release -p tickcast-client --example update_speed [RUNS]`

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use counters::table::RsslConnections;
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, DirectoryRequest, Info, Service, ServiceState};
use rdm::login::{LoginRefresh, LoginRequest};
use rssl::{Handler, Outbound, ServerConfig, ServerConnection, Session, Stop};
use rwf::dictionary::{Field, FieldType};
use rwf::{
    DataType, Dictionary, Domain, Enum, Msg, Qos, Real, RefreshMsg, Time, UpdateMsg, UpdateType, Value,
};
use tickcast_client::{
    ConsumerConfig, ConsumerCore, ConsumerEvent, Endpoint, FieldId, Identity, ItemEvent, ItemRequestSpec,
};
use units::Nanos;

const ITEMS: usize = 10_000;
const UPDATES: usize = 100_000;
const NOW: Nanos = Nanos(1);
/// Bytes given to the consumer at once, as a socket would.
const READ_BYTES: usize = 256 << 10;

fn main() {
    let runs = std::env::args().nth(1).map_or(25, |runs| runs.parse().expect("a number of runs"));
    println!("{ITEMS} items, updates of 74 bytes and 11 fields");
    println!("{:<64} {:>8} {:>8} {:>8}", "ns per update", "median", "least", "most");
    for (how, packed) in [("a frame each", false), ("packed", true)] {
        let mut kept = Link::new(true, packed);
        let mut link = Link::new(false, packed);
        let measure = |name: &str, link: &mut Link, look: &mut dyn FnMut(&ItemEvent<'_>)| {
            print(&format!("{name}, {how}"), &link.run(runs, look));
        };
        measure("header only", &mut link, &mut |event| {
            black_box((event.tag(), event.update_type(), event.state().data));
        });
        measure("two fields by id", &mut link, &mut |event| {
            black_box((event.field(FieldId(22)), event.field(FieldId(25))).1.is_ok());
        });
        measure("all 11 fields by id", &mut link, &mut |event| {
            IDS.iter().for_each(|id| {
                black_box(event.field(*id).is_ok());
            });
        });
        measure("all fields decoded through the dictionary", &mut link, &mut decode_all);
        measure("the same, images kept", &mut kept, &mut decode_all);
    }
}

const IDS: [i16; 11] = [22, 25, 30, 31, 6, 178, 32, 4, 14, 379, 77];

fn decode_all(event: &ItemEvent<'_>) {
    let (mut sum, mut count) = (0, 0);
    for field in event.fields().expect("a field list") {
        sum ^= match field.expect("legal").value {
            Value::Real(Real::Finite { mantissa, hint }) => mantissa as u64 ^ u64::from(hint.number()),
            Value::Enum(value) => u64::from(value.0),
            Value::Time(time) => u64::from(time.hour) + u64::from(time.second),
            _ => 0,
        };
        count += 1;
    }
    assert_eq!(count, 11);
    black_box(sum);
}

fn print(name: &str, nanos: &[f64]) {
    println!("{name:<64} {:>8.1} {:>8.1} {:>8.1}", nanos[nanos.len() / 2], nanos[0], nanos[nanos.len() - 1]);
}

/// A consumer with its items open, and the bytes of many updates.
struct Link {
    core: ConsumerCore,
    updates: Vec<u8>,
}

impl Link {
    fn new(keep_images: bool, packed: bool) -> Link {
        let config = ConsumerConfig { keep_images, ..ConsumerConfig::default() };
        let mut core = ConsumerCore::new(&config, &Identity::default(), 1).expect("a good configuration");
        core.set_dictionary(Arc::new(dictionary()));
        for at in 0..ITEMS {
            let name = format!("ITEM.{at}");
            core.subscribe(&ItemRequestSpec { tag: at as u64, ..ItemRequestSpec::new("S", &name) })
                .expect("new");
        }
        let params = Arc::new(ServerConfig::default().check().expect("the defaults are good"));
        let mut server = ServerConnection::new(NOW, &params, &Arc::new(RsslConnections::default()), 1);
        core.socket(NOW);
        core.on_established(NOW);
        let mut answers = Answers::default();
        while answers.streams.len() < ITEMS {
            core.on_wakeup(NOW, &mut |_| ());
            let bytes = core.pending().to_vec();
            core.consume(NOW, bytes.len());
            server.on_bytes(NOW, &bytes, &mut answers).expect("a good client");
            let bytes = take(server.outbound());
            core.on_bytes(NOW, &bytes, &mut |_: ConsumerEvent<'_>| ());
        }
        let mut updates = Vec::new();
        for at in 0..UPDATES {
            let stream_id = answers.streams[at * 7919 % ITEMS];
            server.outbound().push(&quote_74(stream_id, at as i64)).expect("room");
            if !packed || at % 64 == 63 {
                updates.extend(take(server.outbound()));
            }
        }
        updates.extend(take(server.outbound()));
        Link { core, updates }
    }

    fn run(&mut self, runs: usize, look: &mut dyn FnMut(&ItemEvent<'_>)) -> Vec<f64> {
        let mut nanos: Vec<f64> = (0..runs)
            .map(|_| {
                let (mut count, start) = (0, Instant::now());
                for bytes in self.updates.chunks(READ_BYTES) {
                    self.core.on_bytes(NOW, bytes, &mut |event: ConsumerEvent<'_>| {
                        if let ConsumerEvent::Item(event) = event {
                            look(&event);
                            count += 1;
                        }
                    });
                }
                assert_eq!(count, UPDATES);
                start.elapsed().as_nanos() as f64 / UPDATES as f64
            })
            .collect();
        nanos.sort_by(f64::total_cmp);
        nanos
    }
}

/// A server that accepts everything.
#[derive(Default)]
struct Answers {
    streams: Vec<i32>,
}

impl Handler for Answers {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        let Ok(Msg::Request(request)) = Msg::parse(message) else { return ControlFlow::Continue(()) };
        let answer = match request.domain {
            Domain::LOGIN => LoginRefresh::accept(&LoginRequest::parse(&request).expect("legal")).to_vec(),
            Domain::SOURCE => {
                let request = DirectoryRequest::parse(&request).expect("legal");
                DirectoryRefresh::answer(&request, [&service()]).expect("legal").to_vec()
            }
            domain => {
                self.streams.push(request.stream_id);
                let msg = RefreshMsg::new(domain, request.stream_id, DataType::FIELD_LIST);
                let quote = quote_74(request.stream_id, 0);
                let payload = UpdateMsg::parse(&quote).expect("legal").payload;
                RefreshMsg { solicited: true, complete: true, qos: Some(Qos::REAL_TIME), payload, ..msg }
                    .to_vec()
            }
        };
        out.push(&answer.expect("legal")).expect("room");
        ControlFlow::Continue(())
    }
}

fn take(out: &mut Outbound) -> Vec<u8> {
    let bytes = out.flush().to_vec();
    out.consume(bytes.len());
    bytes
}

fn service() -> Service {
    Service {
        id: 1,
        info: Info { name: "S".into(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() },
        state: ServiceState { up: true, ..ServiceState::default() },
        ..Service::default()
    }
}

/// 11 fields in 74 bytes: the size of update that published end-to-end measurements use.
fn quote_74(stream_id: i32, n: i64) -> Vec<u8> {
    let update = UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST);
    let bytes = rwf::encode_to_vec(|w| {
        UpdateMsg { update_type: UpdateType::QUOTE, ..update }.encode_header(w);
        w.field_list(|f| {
            f.put(22, Real::decimal(3_000 + n % 1_000, 2));
            f.put(25, Real::decimal(3_004 + n % 1_000, 2));
            f.put(30, Real::decimal(9, 0));
            f.put(31, Real::decimal(36, 0));
            f.put(6, Real::decimal(3_992, 2));
            f.put(178, Real::decimal(1_000, 0));
            f.put(32, Real::decimal(1_234_567, 0));
            f.put(4, Enum(43));
            f.put(14, Enum(1));
            f.put(379, Time::new(15, 52, 12));
            f.put(77, Real::decimal(101, 0));
        });
    })
    .expect("legal");
    assert_eq!(bytes.len(), 74);
    bytes
}

fn dictionary() -> Dictionary {
    let mut dictionary = Dictionary::new();
    for id in IDS {
        let data_type = match id {
            4 | 14 => DataType::ENUM,
            379 => DataType::TIME,
            _ => DataType::REAL,
        };
        let field = Field {
            id,
            name: format!("FIELD_{id}").into(),
            dde_acronym: Box::default(),
            ripples_to: None,
            field_type: FieldType::NONE,
            length: 0,
            enum_length: 0,
            data_type,
            rwf_length: 0,
        };
        dictionary.add_field(field).expect("each id once");
    }
    dictionary
}
