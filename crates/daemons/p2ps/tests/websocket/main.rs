//! What WebSocket clients are answered, over real sockets. The backbone is one of these tests' own
//! (crate `scripted`); real ones are for the tests of the whole system (`interop/system`).

mod ahead;
mod conflation;
mod ids;
mod overload;
mod pace;
mod rig;
mod unwritable;

use rig::{LOGIN, Rig, logged_in};
use serde_json::json;
use websocket::{ClientConfig, CloseReason, Message};

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
fn a_request_of_the_directory_that_says_nothing_means_all_of_it() {
    let mut rig = Rig::new();
    let mut client = logged_in(&mut rig);
    let answer = rig.ask(&mut client, r#"{"ID":9,"Domain":"Source","Key":{}}"#);
    assert_eq!((&answer[0]["Type"], &answer[0]["Map"]["KeyType"]), (&json!("Refresh"), &json!("UInt")));
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
fn a_token_that_a_page_of_another_origin_brings_is_refused() {
    let mut rig =
        Rig::with(|config| config.websocket.allowed_origins = vec!["https://app.example".to_owned()]);
    let cookie = "Cookie: AuthToken=abc123\r\n";
    let foreign = format!("{cookie}Origin: https://evil.example\r\n");
    let answer = rig.refused(&ClientConfig::new("h"), &foreign);
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert_eq!((rig.count("p2ps_clients"), rig.count("websocket_origins_refused_total")), (0, 1));
    for origin in ["http://h", "https://app.example"] {
        let mut client = rig.client(ClientConfig::new("h"), &format!("{cookie}Origin: {origin}\r\n"));
        rig.drive(&mut client, |seen| !seen.frames.is_empty());
        assert_eq!(client.seen.frames[0][0]["State"]["Stream"], "Open", "{origin}");
    }
    let mut client = rig.client(ClientConfig::new("h"), "Origin: https://evil.example\r\n");
    assert_eq!(rig.ask(&mut client, LOGIN)[0]["State"]["Stream"], "Open", "it brings no cookie");
    assert_eq!(rig.count("websocket_origins_refused_total"), 1);
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
