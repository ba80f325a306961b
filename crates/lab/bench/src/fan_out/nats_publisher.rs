//! Publishes at `nats-server` what a client of the point-to-point server gets, over the protocol of NATS:
//! lines of text, `PUB <subject> <bytes>`, each followed by its payload.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};

use clap::Args;
use net::clock;
use rwf::{DataType, Dictionary, Domain, Key, Msg, UpdateMsg, UpdateType};
use rwf_json::{Converter, KeyPart, Options, Services, write_head};
use serde_json::json;
use units::Nanos;

use super::websocket_clients::FIRST_ID;
use crate::BenchError;
use crate::chain::run_number;
use crate::dictionary::dictionary;
use crate::end_to_end::{Items, Pacing, SERVICE, SERVICE_ID, pick};
use crate::options::Cpu;
use crate::process::{self, answer};
use crate::update::{PreparedUpdates, Profile, UPDATE_BYTES};

#[derive(Debug, Args)]
pub(crate) struct NatsPublisherArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    items: u32,
    #[command(flatten)]
    cpu: Cpu,
}

/// A connection, and what is to be written on it.
struct Publisher {
    stream: TcpStream,
    buffer: Vec<u8>,
    items: Vec<u32>,
    json: Json,
    count: u64,
}

impl Publisher {
    fn connect(args: &NatsPublisherArgs) -> Result<Publisher, BenchError> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, args.port))?;
        stream.set_nodelay(true)?;
        stream.write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n")?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let is_up = lines.find_map(|line| line.map(|line| (line == "PONG").then_some(())).transpose());
        is_up.ok_or_else(|| BenchError::new("nats-server has ended the publisher's connection"))??;
        let (items, json) = ((0..args.items).collect(), Json::new()?);
        Ok(Publisher { stream, buffer: Vec::new(), items, json, count: 0 })
    }

    /// Publishes an update for each of these times, in the order in which the publisher of Tickcast does.
    fn publish(&mut self, due: &[Nanos]) -> Result<(), BenchError> {
        for intended in due {
            self.count += 1;
            let item = *pick(&self.items, self.count);
            self.push(item, *intended, 0)?;
        }
        self.write()
    }

    /// Publishes the end of a run, in an item that every client watches.
    fn end_run(&mut self, run: u8, intended: Nanos) -> Result<(), BenchError> {
        let first = *self.items.first().ok_or_else(|| BenchError::new("no items"))?;
        self.push(first, intended, run)?;
        self.write()
    }

    fn push(&mut self, item: u32, intended: Nanos, ends_run: u8) -> Result<(), BenchError> {
        let json = self.json.update(item, self.count, intended, ends_run)?;
        write!(self.buffer, "PUB {} {}\r\n", Items::common_name(item), json.len())?;
        self.buffer.extend_from_slice(json);
        self.buffer.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn write(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Makes updates as the point-to-point server does.
struct Json {
    dictionary: Dictionary,
    updates: PreparedUpdates,
    rwf: Vec<u8>,
    text: Vec<u8>,
}

impl Json {
    fn new() -> Result<Json, BenchError> {
        let (dictionary, updates) = (dictionary()?, PreparedUpdates::new(Profile::short())?);
        Ok(Json { dictionary, updates, rwf: vec![0; 2 * UPDATE_BYTES], text: Vec::new() })
    }

    fn update(&mut self, item: u32, n: u64, intended: Nanos, ends_run: u8) -> Result<&[u8], BenchError> {
        let mut writer = rwf::Writer::new(&mut self.rwf);
        let header = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        UpdateMsg { update_type: UpdateType::QUOTE, ..header }.encode_header(&mut writer);
        self.updates.write(&mut writer, n, (intended, ends_run), clock::monotonic);
        let message = Msg::parse(writer.finish()?)?;
        self.text.clear();
        write_head((FIRST_ID + item).cast_signed(), &mut self.text);
        let converter = Converter::new(&self.dictionary, &TheService, Options::default());
        let name = Items::common_name(item);
        let key = Key::item(SERVICE_ID, name.as_bytes());
        let written = converter.write_body(&message, KeyPart::Given(&key), &mut self.text);
        written.map_err(|error| BenchError::new(error.to_string()))?;
        Ok(&self.text)
    }
}

/// The service of this workload.
struct TheService;

impl Services for TheService {
    fn name(&self, service_id: u16) -> Option<&str> {
        (service_id == SERVICE_ID).then_some(SERVICE)
    }

    fn id(&self, name: &str) -> Option<u16> {
        (name == SERVICE).then_some(SERVICE_ID)
    }
}

pub(crate) fn nats_publisher(args: &NatsPublisherArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut publisher = Publisher::connect(args)?;
    answer(&json!({ "ready": true }));
    for command in process::commands() {
        let sent = Pacing::Sleep.run(&command, |due| publisher.publish(due))?;
        publisher.end_run(run_number(&command), sent.end)?;
        answer(&sent.answer());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_the_object_that_clients_of_the_json_protocol_get() {
        let mut json = Json::new().expect("dictionaries are part of the project");
        let text = json.update(3, 7, Nanos(1 << 50), 9).expect("legal");
        let object: serde_json::Value = serde_json::from_slice(text).expect("JSON");
        assert_eq!((&object["ID"], &object["Type"]), (&json!(FIRST_ID + 3), &json!("Update")));
        assert_eq!(object["Key"], json!({"Service": SERVICE, "Name": "C3"}));
        let fields = &object["Fields"];
        assert_eq!((&fields["TIM_TRK_1"], &fields["TIM_TRK_2"]), (&json!(1u64 << 50), &json!(9)));
        assert_eq!(fields["BID"], json!(200.07));
    }
}
