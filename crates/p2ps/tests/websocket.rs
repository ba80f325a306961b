//! What WebSocket clients are answered, over real sockets. There is no source distributor: items are for the
//! tests of the whole system (`interop/system`).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use backbone::{Inlet, InletCommand, InletEvents};
use counters::Registry;
use net::agent::Agent;
use net::{Poller, Ready, clock};
use rwf::Dictionary;
use serde_json::{Value, json};
use tickcast_p2ps::{P2psConfig, PointToPointServer};
use units::Nanos;
use websocket::{ClientConfig, ClientConnection, CloseReason, Handler, Message, Outbound, Session, Stop};

/// A backbone on which nothing ever comes.
struct Nowhere;

impl Inlet for Nowhere {
    fn execute(&mut self, _: Nanos, _: InletCommand, _: &mut impl InletEvents) {}
    fn on_ready(&mut self, _: Nanos, _: Ready, _: &mut impl InletEvents) {}
    fn on_wakeup(&mut self, _: Nanos, _: &mut impl InletEvents) {}
    fn next_wakeup(&self) -> Nanos {
        Nanos::NEVER
    }
    fn flush(&mut self, _: Nanos) {}
}

/// A server and what drives it.
struct Rig {
    poller: Poller,
    server: PointToPointServer<Nowhere>,
    registry: Registry,
    port: u16,
}

impl Rig {
    fn new() -> Rig {
        let poller = Poller::new().expect("descriptors are left");
        let registry = Registry::default();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let config = P2psConfig { rssl_port: 0, websocket_port: port, ..P2psConfig::default() };
        let dictionary = Arc::new(Dictionary::new());
        let server =
            PointToPointServer::new(&config, dictionary, Nowhere, poller.registrar(), 1, 7, &registry)
                .expect("the ports are free");
        Rig { poller, server, registry, port }
    }

    /// A client past its upgrade, with further header lines for the request.
    fn client(&mut self, config: ClientConfig, more: &str) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        let config = Arc::new(config);
        let connection = ClientConnection::new(clock::monotonic(), &config, &Arc::default(), 5);
        let mut client = Client { stream, connection, seen: Seen::default() };
        let request = String::from_utf8(client.connection.outbound().pending().to_vec()).expect("HTTP");
        client.connection.outbound().consume(request.len());
        let request = request.replacen("\r\n\r\n", &format!("\r\n{more}\r\n"), 1);
        client.stream.write_all(request.as_bytes()).expect("the socket has room");
        self.drive(&mut client, |seen| seen.is_connected);
        client
    }

    /// Lets both sides work until the client has seen what it should.
    fn drive(&mut self, client: &mut Client, is_enough: impl Fn(&Seen) -> bool) {
        for _ in 0..10_000 {
            let ready: Vec<Ready> =
                self.poller.wait(Some(Duration::from_millis(1))).expect("sockets of this test").collect();
            let now = clock::monotonic();
            ready.iter().for_each(|ready| self.server.on_ready(now, *ready));
            self.server.turn(now);
            client.read();
            if is_enough(&client.seen) {
                return;
            }
        }
        panic!("the client saw no more than {:?}", client.seen);
    }

    /// Sends a text and returns the next frame.
    fn ask(&mut self, client: &mut Client, text: &str) -> Value {
        let count = client.seen.frames.len();
        client.send(Message::Text(text));
        self.drive(client, |seen| seen.frames.len() > count);
        client.seen.frames[count].clone()
    }

    /// What is counted under this name.
    fn count(&self, name: &str) -> u64 {
        let sets = self.registry.snapshot().into_iter();
        let found = sets.flat_map(|set| {
            let mut values = Vec::new();
            set.set.values(&mut values);
            set.set.descriptors().iter().map(|d| d.name).zip(values).collect::<Vec<_>>()
        });
        found.into_iter().find(|(known, _)| *known == name).expect("it is exported").1
    }
}

#[derive(Debug, Default)]
struct Seen {
    is_connected: bool,
    frames: Vec<Value>,
    end: Option<CloseReason>,
}

impl Handler for Seen {
    fn on_connected(&mut self, session: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        assert_eq!(session.protocol, "tr_json2");
        self.is_connected = true;
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        let Message::Text(text) = message else { panic!("JSON goes in text frames") };
        let frame: Value = serde_json::from_str(text).expect("JSON");
        assert!(frame.is_array(), "every frame is an array: {text}");
        self.frames.push(frame);
        ControlFlow::Continue(())
    }
}

struct Client {
    stream: TcpStream,
    connection: ClientConnection,
    seen: Seen,
}

impl Client {
    fn send(&mut self, message: Message<'_>) {
        self.connection.outbound().push(message).expect("it is open");
        let bytes = self.connection.outbound().pending().to_vec();
        self.stream.write_all(&bytes).expect("the socket has room");
        self.connection.outbound().consume(bytes.len());
    }

    fn read(&mut self) {
        let mut bytes = [0; 65_536];
        if let Ok(count) = self.stream.read(&mut bytes)
            && let Err(reason) = self.connection.on_bytes(clock::monotonic(), &bytes[..count], &mut self.seen)
        {
            self.seen.end = Some(reason);
        }
    }
}

const LOGIN: &str =
    r#"{"ID":2,"Domain":"Login","Key":{"Name":"user","Elements":{"Position":"1.2.3.4/net"}}}"#;

fn logged_in(rig: &mut Rig) -> Client {
    let mut client = rig.client(ClientConfig::new("h"), "");
    let answer = rig.ask(&mut client, LOGIN);
    assert_eq!(answer[0]["State"]["Stream"], "Open");
    client
}

#[test]
fn the_answer_to_a_login_is_alone_and_says_what_the_connection_has() {
    let mut rig = Rig::new();
    for compression in [false, true] {
        let mut client = rig.client(ClientConfig { compression, ..ClientConfig::new("h") }, "");
        let both = format!(r#"[{LOGIN},{{"Type":"Ping"}}]"#);
        let answer = rig.ask(&mut client, &both);
        assert_eq!(answer.as_array().expect("an array").len(), 1, "{answer}");
        let login = &answer[0];
        assert_eq!(
            (&login["ID"], &login["Type"], &login["Domain"]),
            (&json!(2), &json!("Refresh"), &json!("Login"))
        );
        assert_eq!(login["Key"]["Name"], "user");
        assert_eq!(login["Key"]["Elements"]["Position"], "1.2.3.4/net");
        assert_eq!(login["Elements"], json!({"PingTimeout": 30, "MaxMsgSize": 61440}));
        rig.drive(&mut client, |seen| seen.frames.len() == 2);
        assert_eq!(client.seen.frames[1], json!([{"Type": "Pong"}]));
    }
    assert_eq!(rig.count("json_pings_in_total"), 2);
    assert_eq!(rig.count("websocket_compressed_connections_total"), 1);
}

#[test]
fn what_cannot_be_used_is_answered_by_an_error_and_the_connection_stays() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    for (text, id, error) in [
        ("{", 0, "JSON Parser error"),
        (r#"{"ID":"5","Key":{}}"#, 0, "Expected 'PRIMITIVE' for key 'ID' Received 'STRING'"),
        (r#"{"ID":5}"#, 5, "JSON Missing required key 'Key'"),
        (r#"{"ID":5,"Type":"What"}"#, 5, "JSON Unexpected Value. Received 'What' for key 'Type'"),
    ] {
        let answer = rig.ask(&mut client, text);
        let said = &answer[0];
        assert_eq!((&said["ID"], &said["Type"]), (&json!(id), &json!("Error")), "{said}");
        assert!(said["Text"].as_str().expect("a text").contains(error), "{said}");
        assert_eq!(said["Debug"]["Message"], text);
    }
    assert_eq!(rig.count("json_messages_refused_total"), 4);
    assert_eq!(rig.ask(&mut client, r#"{"Type":"Ping"}"#), json!([{"Type": "Pong"}]));
}

#[test]
fn messages_before_a_bad_one_of_an_array_take_effect() {
    let mut rig = Rig::new();
    let mut client = rig.client(ClientConfig::new("h"), "");
    let answer = rig.ask(&mut client, &format!(r#"[{LOGIN},{{"ID":3}},{{"Type":"Ping"}}]"#));
    assert_eq!(answer[0]["Domain"], "Login");
    rig.drive(&mut client, |seen| seen.frames.len() == 2);
    assert_eq!(client.seen.frames[1][0]["Type"], "Error");
    assert_eq!(rig.count("json_pings_in_total"), 0, "what is behind it is not looked at");
}

#[test]
fn a_request_for_an_unknown_service_gets_a_status_for_which_clients_wait() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    for request in [
        r#"{"ID":5,"Key":{"Name":"IBM.N","Service":"NOWHERE"}}"#,
        r#"{"ID":5,"Key":{"Name":"IBM.N","Service":77}}"#,
    ] {
        let answer = rig.ask(&mut client, request);
        let (said, state) = (&answer[0], &answer[0]["State"]);
        assert_eq!((&said["ID"], &said["Type"]), (&json!(5), &json!("Status")), "{answer}");
        let told = (&state["Stream"], &state["Data"], &state["Code"]);
        assert_eq!(told, (&json!("Closed"), &json!("Suspect"), &json!("SourceUnknown")), "{answer}");
    }
    assert_eq!(rig.count("json_unknown_services_total"), 1, "an id is for the core to know");
}

#[test]
fn a_request_before_the_login_is_refused() {
    let mut rig = Rig::new();
    let mut client = rig.client(ClientConfig::new("h"), "");
    let answer = rig.ask(&mut client, r#"{"ID":5,"Key":{"Name":"IBM.N","Service":1}}"#);
    assert_eq!((&answer[0]["ID"], &answer[0]["State"]["Code"]), (&json!(5), &json!("UsageError")));
}

#[test]
fn a_close_of_several_streams_is_answered_once() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    let answer = rig.ask(&mut client, r#"{"ID":[5,6,9],"Type":"Close"}"#);
    let text = "Processed 3 total stream ids from Batch Close Request. 3 Ok.";
    let state = json!({"Stream": "Closed", "Data": "Ok", "Text": text});
    assert_eq!(answer, json!([{"ID": 5, "Type": "Status", "State": state}]));
}

#[test]
fn the_directory_is_given_and_its_close_needs_no_domain() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    let answer = rig.ask(&mut client, r#"{"ID":9,"Domain":"Source","Key":{"Filter":63}}"#);
    assert_eq!((&answer[0]["Domain"], &answer[0]["Map"]["KeyType"]), (&json!("Source"), &json!("UInt")));
    client.send(Message::Text(r#"{"ID":9,"Type":"Close"}"#));
    assert_eq!(rig.ask(&mut client, r#"{"Type":"Ping"}"#), json!([{"Type": "Pong"}]));
    assert_eq!(rig.count("p2ps_client_messages_refused_total"), 0);
}

#[test]
fn a_token_that_comes_with_the_upgrade_is_the_login() {
    let mut rig = Rig::new();
    let cookies = "Cookie: AuthToken=abc123; AuthPosition=9.8.7.6/net; applicationId=777\r\n";
    let mut client = rig.client(ClientConfig::new("h"), cookies);
    rig.drive(&mut client, |seen| !seen.frames.is_empty());
    let login = &client.seen.frames[0][0];
    assert_eq!(
        (&login["ID"], &login["Domain"], &login["Type"]),
        (&json!(-1), &json!("Login"), &json!("Refresh"))
    );
    assert_eq!(login["Key"]["Elements"]["ApplicationId"], "777");
    assert_eq!(login["Elements"]["PingTimeout"], 30);
    assert_eq!(rig.count("p2ps_clients"), 1);
}

#[test]
fn a_logout_and_a_binary_frame_end_the_connection() {
    let mut rig = Rig::new();
    let out = r#"{"ID":2,"Type":"Close","Domain":"Login"}"#;
    for message in [Message::Text(out), Message::Binary(&[0, 1, 2])] {
        let mut client = logged_in(&mut rig);
        client.send(message);
        rig.drive(&mut client, |seen| seen.end.is_some());
        assert_eq!(client.seen.end, Some(CloseReason::Closed { code: Some(1001) }));
        assert_eq!(rig.count("p2ps_clients"), 0);
    }
    assert_eq!(rig.count("websocket_closed_application_total"), 2);
}

#[test]
fn the_error_of_a_client_is_counted_and_not_answered() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    let text = r#"[{"ID":2,"Type":"Error","Text":"cannot"},{"Type":"Ping"}]"#;
    assert_eq!(rig.ask(&mut client, text), json!([{"Type": "Pong"}]));
    assert_eq!(rig.count("json_errors_in_total"), 1);
    assert_eq!((rig.count("json_messages_read_total"), rig.count("json_messages_written_total")), (1, 1));
    assert_eq!(rig.count("json_messages_unwritable_total"), 0);
}
