use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::Folder;

use super::*;
use crate::tcp::{self, Moved};
use crate::{Interest, Poller, Token, Transport};

/// Within the dates of the certificates of these tests, 2020 to 2120.
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
}

fn server_files() -> ServerFiles {
    ServerFiles {
        certificate: testdata("server.pem"),
        key: testdata("server.key"),
        clients: ClientCertificates::NotAsked,
    }
}

fn identity(name: &str) -> Option<(PathBuf, PathBuf)> {
    Some((testdata(&format!("{name}.pem")), testdata(&format!("{name}.key"))))
}

fn client_of(ca: &str, identity: Option<(PathBuf, PathBuf)>) -> ClientTls {
    ClientTls::load(&ClientFiles { ca: testdata(ca), identity }).expect("the files are good")
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
    let client = tcp::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    (client, accept(&listener))
}

fn accept(listener: &TcpListener) -> TcpStream {
    let mut poller = Poller::new().expect("descriptors are left");
    poller.registrar().add(listener, Token(0), Interest::Read).expect("a socket");
    loop {
        if let Some((stream, _)) = tcp::accept(listener).expect("it listens") {
            return stream;
        }
        poller.wait(None).expect("a socket").for_each(drop);
    }
}

/// A client and a server, both non-blocking, and what each has received.
struct Pair {
    client: Transport,
    server: Transport,
    at_client: Vec<u8>,
    at_server: Vec<u8>,
    read_bytes: usize,
}

impl Pair {
    fn new(server: &ServerTls, client: &ClientTls) -> Pair {
        let (near, far) = sockets();
        Pair::of(client.connect(near, "localhost").expect("a name"), server.accept(far).expect("configured"))
    }

    fn of(client: Transport, server: Transport) -> Pair {
        Pair { client, server, at_client: Vec::new(), at_server: Vec::new(), read_bytes: 64 << 10 }
    }

    /// Reads on both sides until `done`; an error is that of (client, server).
    fn run(&mut self, done: impl Fn(&Pair) -> bool) -> Result<(), (Option<io::Error>, Option<io::Error>)> {
        let give_up = Instant::now() + Duration::from_secs(60);
        while !done(self) {
            assert!(Instant::now() < give_up, "the sides do not get there");
            let client = Self::turn(&mut self.client, &mut self.at_client, self.read_bytes);
            let server = Self::turn(&mut self.server, &mut self.at_server, self.read_bytes);
            if client.is_err() || server.is_err() {
                return Err((client.err(), server.err()));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn turn(side: &mut Transport, received: &mut Vec<u8>, read_bytes: usize) -> io::Result<()> {
        side.flush()?;
        let mut buffer = vec![0; read_bytes];
        loop {
            match side.read(&mut buffer)? {
                Moved::Bytes(count) => received.extend_from_slice(&buffer[..count]),
                Moved::WouldBlock | Moved::End => return Ok(()),
            }
            if !side.may_hold_input() {
                return Ok(());
            }
        }
    }

    fn shake_hands(&mut self) -> Result<(), (Option<io::Error>, Option<io::Error>)> {
        self.run(|pair| !pair.client.is_handshaking() && !pair.server.is_handshaking())
    }

    fn certificate_at_client(&self) -> Vec<u8> {
        let Transport::Tls(stream) = &self.client else { unreachable!("it is encrypted") };
        stream.peer_certificate().expect("the handshake is complete").to_vec()
    }
}

fn end_entity(name: &str) -> Vec<u8> {
    pem::certificates(&testdata(name)).expect("a test certificate")[0].to_vec()
}

#[test]
fn bytes_cross_in_both_directions_and_the_end_is_seen() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let mut pair = Pair::new(&server, &client_of("ca.pem", None));
    assert!(matches!(pair.client.write(b"connect request"), Ok(Moved::Bytes(15))), "kept for later");
    pair.run(|pair| pair.at_server == b"connect request").expect("both accept each other");
    assert!(matches!(pair.server.write(b"ack"), Ok(Moved::Bytes(3))));
    pair.run(|pair| pair.at_client == b"ack").expect("both accept each other");
    assert_eq!((pair.client.tls_version(), pair.server.tls_version()), (Some("TLS 1.3"), Some("TLS 1.3")));
    assert!(!pair.client.is_handshaking() && !pair.client.holds_output());
    let Pair { client, mut server, .. } = pair;
    drop(client);
    let give_up = Instant::now() + Duration::from_secs(60);
    while server.read(&mut [0; 16]).expect("a clean end") != Moved::End {
        assert!(Instant::now() < give_up, "the end is not seen");
    }
}

#[test]
fn a_client_that_knows_only_tls_1_2_is_served() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let config = rustls::ClientConfig::builder_with_provider(pem::provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("the provider has it")
        .with_root_certificates(pem::authorities(&testdata("ca.pem")).expect("the file is good"))
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let tls = rustls::ClientConnection::new(Arc::new(config), name).expect("configured");
    let (near, far) = sockets();
    let client = Transport::Tls(Box::new(TlsStream::new(near, tls.into())));
    let mut pair = Pair::of(client, server.accept(far).expect("configured"));
    pair.client.write(b"x").expect("it is kept");
    pair.run(|pair| pair.at_server == b"x").expect("both accept each other");
    assert_eq!(pair.server.tls_version(), Some("TLS 1.2"));
}

#[test]
fn the_host_name_is_verified() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let client = client_of("ca.pem", None);
    for (host, is_good) in [("feed.example", true), ("127.0.0.1", true), ("other.example", false)] {
        let (near, far) = sockets();
        let (near, far) =
            (client.connect(near, host).expect("a name"), server.accept(far).expect("configured"));
        let result = Pair::of(near, far).shake_hands();
        assert_eq!(result.is_ok(), is_good, "{host}: {result:?}");
        if let Err((Some(error), _)) = result {
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("other.example"), "{error}");
        }
    }
    let (near, _far) = sockets();
    let error = client.connect(near, "no name").expect_err("a blank is in no name");
    assert!(matches!(&error, TlsError::HostName(host) if host == "no name"), "{error}");
}

#[test]
fn a_server_of_an_unknown_authority_is_refused() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let mut pair = Pair::new(&server, &client_of("other-ca.pem", None));
    let (client, server) = pair.shake_hands().expect_err("nobody vouches for it");
    assert_eq!(client.or(server).map(|e| e.kind()), Some(ErrorKind::InvalidData));
}

#[test]
fn clients_get_in_with_the_certificates_that_are_asked_for() {
    let ca = || testdata("ca.pem");
    // Who gets in: a client of the authority, one of another, one without a certificate.
    let modes = [
        (ClientCertificates::NotAsked, [true, true, true]),
        (ClientCertificates::Optional(ca()), [true, false, true]),
        (ClientCertificates::Required(ca()), [true, false, false]),
    ];
    for (clients, admitted) in modes {
        let is_asked = clients != ClientCertificates::NotAsked;
        let server = ServerTls::load(ServerFiles { clients, ..server_files() }).expect("the files are good");
        for (who, is_good) in [identity("client"), identity("stranger"), None].into_iter().zip(admitted) {
            let mut pair = Pair::new(&server, &client_of("ca.pem", who.clone()));
            pair.client.write(b"login").expect("it is kept");
            let result = pair.run(|pair| pair.at_server == b"login");
            assert_eq!(result.is_ok(), is_good, "{who:?}: {result:?}");
            assert_eq!(pair.at_server.is_empty(), !is_good, "{who:?}");
            assert_eq!(pair.server.has_peer_certificate(), is_good && is_asked && who.is_some(), "{who:?}");
        }
    }
}

#[test]
fn clients_get_in_by_name_where_names_are_asked_for() {
    let named = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let clients = ClientCertificates::Named(testdata("ca.pem"), names);
        ServerTls::load(ServerFiles { clients, ..server_files() })
    };
    // The certificate is for client.example, of the authority; a stranger's is of another, whatever its name.
    let table: [(&[&str], &str, bool); 5] = [
        (&["client.example"], "client", true),
        (&["127.0.0.1", "CLIENT.example"], "client", true),
        (&["feed.example", "client.example.org"], "client", false),
        (&[], "client", false),
        (&["client.example"], "stranger", false),
    ];
    for (names, who, is_good) in table {
        let server = named(names).expect("the files are good");
        let mut pair = Pair::new(&server, &client_of("ca.pem", identity(who)));
        pair.client.write(b"hello").expect("it is kept");
        let result = pair.run(|pair| pair.at_server == b"hello");
        assert_eq!(result.is_ok(), is_good, "{who} of {names:?}: {result:?}");
        assert_eq!(pair.at_server.is_empty(), !is_good, "{who} of {names:?}");
        if let Err((client, server)) = result {
            let error = server.or(client).expect("one of them says why");
            assert!(is_about_certificates(&error), "{error}");
        }
    }
    let mut pair =
        Pair::new(&named(&["client.example"]).expect("the files are good"), &client_of("ca.pem", None));
    pair.shake_hands().expect_err("no certificate has no name");
    assert!(matches!(named(&["not a name"]), Err(TlsError::HostName(name)) if name == "not a name"));
}

#[test]
fn a_session_is_not_resumed_where_certificates_are_asked_for() {
    let ca = || testdata("ca.pem");
    let named = ClientCertificates::Named(ca(), vec!["client.example".to_owned()]);
    let modes =
        [(ClientCertificates::NotAsked, true), (ClientCertificates::Required(ca()), false), (named, false)];
    for (clients, resumes) in modes {
        let what = format!("{clients:?}");
        let server = ServerTls::load(ServerFiles { clients, ..server_files() }).expect("the files are good");
        let client = client_of("ca.pem", identity("client"));
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut pair = Pair::new(&server, &client);
            pair.server.write(b"hello").expect("it is kept");
            // A ticket comes before what the server says.
            pair.run(|pair| pair.at_client == b"hello").expect("both accept each other");
            let Transport::Tls(stream) = &pair.client else { unreachable!("it is encrypted") };
            kinds.push(stream.handshake_kind());
        }
        let is_resumed = kinds[1] == Some(rustls::HandshakeKind::Resumed);
        assert_eq!((kinds[0], is_resumed), (Some(rustls::HandshakeKind::Full), resumes), "{what}");
    }
}

#[test]
fn servers_are_known_by_name_in_place_of_where_they_are_reached() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let client = |ca: &str, name: &str| {
        let files = ClientFiles { ca: testdata(ca), identity: None };
        ClientTls::load_named(&files, &["other.example".to_owned(), name.to_owned()]).expect("names")
    };
    // The certificate is for localhost, feed.example and 127.0.0.1.
    let table = [
        ("ca.pem", "feed.example", "10.9.9.9", true),
        ("ca.pem", "127.0.0.1", "elsewhere.example", true),
        ("ca.pem", "p2ps.example", "localhost", false),
        ("other-ca.pem", "feed.example", "localhost", false),
    ];
    for (ca, name, host, is_good) in table {
        let (near, far) = sockets();
        let near = client(ca, name).connect(near, host).expect("a name");
        let mut pair = Pair::of(near, server.accept(far).expect("configured"));
        let result = pair.shake_hands();
        assert_eq!(result.is_ok(), is_good, "{name} at {host} by {ca}: {result:?}");
    }
}

#[test]
fn bytes_that_are_no_tls_end_the_session_with_an_error() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let (near, far) = sockets();
    let mut pair = Pair::of(Transport::Plain(near), server.accept(far).expect("configured"));
    pair.client.write(b"\0\x4b\0\0\0\0\x17 a connect request in clear").expect("the socket has room");
    let (_, error) = pair.run(|_| false).expect_err("that is no TLS");
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::InvalidData));
}

#[test]
fn output_for_a_peer_that_does_not_read_is_bounded_and_complete_when_it_does() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let mut pair = Pair::new(&server, &client_of("ca.pem", None));
    pair.shake_hands().expect("both accept each other");
    let sent: Vec<u8> = (0..32 << 20).map(|at| (at % 251) as u8).collect();
    let mut at = 0;
    while let Moved::Bytes(count) = pair.server.write(&sent[at..]).expect("it stands") {
        at += count;
    }
    assert!(at < sent.len(), "loopback does not hold that much");
    assert!(pair.server.holds_output() && pair.server.waits_for_room(false));
    assert!(matches!(pair.server.write(&sent[at..]), Ok(Moved::WouldBlock)));
    pair.read_bytes = 1000;
    while at < sent.len() {
        if let Moved::Bytes(count) = pair.server.write(&sent[at..]).expect("it stands") {
            at += count;
        }
        Pair::turn(&mut pair.client, &mut pair.at_client, 1000).expect("it stands");
    }
    pair.run(|pair| pair.at_client.len() == sent.len()).expect("it stands");
    assert!(pair.at_client == sent, "what arrived is not what was sent");
    assert!(!pair.server.waits_for_room(false) && pair.server.waits_for_room(true));
}

#[test]
fn a_read_that_fills_its_buffer_says_that_there_may_be_more() {
    let server = ServerTls::load(server_files()).expect("the files are good");
    let mut pair = Pair::new(&server, &client_of("ca.pem", None));
    pair.shake_hands().expect("both accept each other");
    pair.client.write(&[7; 1000]).expect("it stands");
    let mut buffer = [0; 300];
    let mut next = |pair: &mut Pair| loop {
        match pair.server.read(&mut buffer).expect("it stands") {
            Moved::WouldBlock => {}
            moved => return (moved, pair.server.may_hold_input()),
        }
    };
    for _ in 0..3 {
        assert_eq!(next(&mut pair), (Moved::Bytes(300), true));
    }
    assert_eq!(next(&mut pair), (Moved::Bytes(100), false));
}

#[test]
fn before_the_handshake_a_client_with_something_to_write_does_not_wait_for_room() {
    let (near, _far) = sockets();
    let mut client = client_of("ca.pem", None).connect(near, "localhost").expect("a name");
    assert!(client.waits_for_room(true), "its first flight is still inside");
    while !client.flush().is_ok_and(|is_all| is_all) {}
    assert!(!client.waits_for_room(true), "the server's answer comes first");
}

/// Puts a file of the tests into a folder under another name.
fn put(folder: &Folder, name: &str, from: &str) -> PathBuf {
    folder.put(name, fs::read(testdata(from)).expect("a file of the tests"))
}

#[test]
fn changed_files_are_for_new_sessions_and_those_that_stand_stay() {
    let scratch = Folder::new();
    let files = ServerFiles {
        certificate: put(&scratch, "cert.pem", "server.pem"),
        key: put(&scratch, "key.pem", "server.key"),
        clients: ClientCertificates::NotAsked,
    };
    let mut server = ServerTls::load(files).expect("the files are good");
    let client = client_of("ca.pem", None);
    let mut old = Pair::new(&server, &client);
    old.shake_hands().expect("both accept each other");
    assert!(matches!(server.refresh(NOW), Ok(false)), "nothing has changed");

    put(&scratch, "cert.pem", "renewed.pem");
    let error = server.refresh(NOW).expect_err("the key is still the old one's");
    assert!(error.to_string().contains("key.pem"), "{error}");
    assert!(matches!(server.refresh(NOW), Ok(false)), "told once");
    let mut between = Pair::new(&server, &client);
    between.shake_hands().expect("what was good before is kept");
    assert_eq!(between.certificate_at_client(), end_entity("server.pem"));

    put(&scratch, "key.pem", "renewed.key");
    assert!(matches!(server.refresh(NOW), Ok(true)));
    let mut new = Pair::new(&server, &client);
    new.shake_hands().expect("both accept each other");
    assert_eq!(new.certificate_at_client(), end_entity("renewed.pem"));
    old.server.write(b"still here").expect("it stands");
    old.run(|pair| pair.at_client == b"still here").expect("it stands");
}

#[test]
fn what_is_not_valid_is_not_put_in_force_and_said_with_its_dates() {
    let (before, after) = (UnixSeconds(1_500_000_000), UnixSeconds(5_000_000_000));
    let client = client_of("ca.pem", None);
    let at_client = |server: &ServerTls| {
        let mut pair = Pair::new(server, &client);
        pair.shake_hands().expect("both accept each other");
        pair.certificate_at_client()
    };
    let dates = "valid from 2020-01-01 00:00:00 UTC until 2120-01-01 00:00:00 UTC, now it is";
    let cases = [
        (before, format!("it is not valid yet: {dates} 2017-07-14 02:40:00 UTC"), true),
        (after, format!("it has expired: {dates} 2128-06-11 08:53:20 UTC"), false),
    ];
    for (now, fault, becomes_valid) in cases {
        let scratch = Folder::new();
        let files = ServerFiles {
            certificate: put(&scratch, "cert.pem", "server.pem"),
            key: put(&scratch, "key.pem", "server.key"),
            clients: ClientCertificates::NotAsked,
        };
        let mut server = ServerTls::load(files).expect("the files are good");
        assert!(server.check_dates(NOW).is_ok());
        let said = server.check_dates(now).expect_err("they are not valid then").to_string();
        assert!(said.ends_with(&format!("cert.pem: {fault}")), "{said}");

        put(&scratch, "key.pem", "renewed.key");
        put(&scratch, "cert.pem", "renewed.pem");
        let said = server.refresh(now).expect_err("they are not valid then").to_string();
        assert!(said.contains(&fault), "{said}");
        assert!(matches!(server.refresh(now), Ok(false)), "told once");
        assert_eq!(at_client(&server), end_entity("server.pem"));
        assert_eq!(server.refresh(NOW).expect("nothing is wrong"), becomes_valid);
        let last = if becomes_valid { "renewed.pem" } else { "server.pem" };
        assert_eq!(at_client(&server), end_entity(last));
    }
    let own = client_of("ca.pem", identity("client"));
    assert!(own.check_dates(NOW).is_ok() && client.check_dates(after).is_ok());
    assert!(own.check_dates(after).expect_err("it is no more").to_string().contains("client.pem"));
}

#[test]
fn a_file_that_is_missing_or_no_pem_is_named() {
    let missing = ServerFiles { certificate: testdata("nothing.pem"), ..server_files() };
    let error = ServerTls::load(missing).expect_err("it is not there");
    assert!(matches!(&error, TlsError::Read { file, .. } if file.ends_with("nothing.pem")), "{error}");
    let swapped = ServerFiles { certificate: testdata("server.key"), ..server_files() };
    let error = ServerTls::load(swapped).expect_err("a key is no certificate");
    assert!(matches!(&error, TlsError::Pem { wanted: "certificate", .. }), "{error}");
    let swapped = ServerFiles { key: testdata("server.pem"), ..server_files() };
    let error = ServerTls::load(swapped).expect_err("a certificate is no key");
    assert!(matches!(&error, TlsError::Pem { wanted: "private key", .. }), "{error}");
    let directory = Folder::new();
    let garbage = directory.join("garbage.pem");
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(&garbage, pem).expect("it can be written");
    let error = ServerTls::load(ServerFiles { certificate: garbage.clone(), ..server_files() });
    let error = error.expect_err("PEM of something else");
    assert!(matches!(&error, TlsError::Unusable { file, .. } if *file == garbage), "{error}");
    let foreign = ServerFiles { key: testdata("client.key"), ..server_files() };
    let error = ServerTls::load(foreign).expect_err("another's key");
    assert!(matches!(&error, TlsError::Unusable { file, .. } if file.ends_with("client.key")), "{error}");
}

/// Whether `write` has this thread get SIGPIPE. A signal that is blocked stays pending, also where the process
/// ignores it, as Rust's programs do.
fn raises_sigpipe(write: impl FnOnce()) -> bool {
    let mut pipe = std::mem::MaybeUninit::uninit();
    let mut pending = std::mem::MaybeUninit::uninit();
    // SAFETY: sets of signals of this thread's stack, which the calls fill before they are read.
    let is_set = |set: *const libc::sigset_t| unsafe { libc::sigismember(set, libc::SIGPIPE) } == 1;
    // SAFETY: as above; only this thread's signals are blocked, and it ends with the test.
    unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), std::ptr::null_mut()), 0);
        libc::sigpending(pending.as_mut_ptr());
    }
    assert!(!is_set(pending.as_ptr()));
    write();
    // SAFETY: as above.
    unsafe { libc::sigpending(pending.as_mut_ptr()) };
    is_set(pending.as_ptr())
}

/// Writes until the connection is known to be broken.
fn write_until_broken(writer: &mut Transport) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while writer.write(&[7; 1_000]).is_ok() {
        assert!(Instant::now() < give_up, "the peer is gone");
        std::thread::yield_now();
    }
    assert!(writer.write(&[7; 1_000]).is_err(), "the second error is that of a closed pipe");
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_no_signal_plain_or_encrypted() {
    let (near, far) = sockets();
    drop(far);
    let mut plain = Transport::Plain(near);
    assert!(!raises_sigpipe(|| write_until_broken(&mut plain)));
    let server = ServerTls::load(server_files()).expect("the files are good");
    let mut pair = Pair::new(&server, &client_of("ca.pem", None));
    pair.shake_hands().expect("both sides agree");
    let Pair { client, mut server, .. } = pair;
    tcp::reset_on_close(client.socket()).expect("a socket");
    drop(client);
    assert!(!raises_sigpipe(|| {
        write_until_broken(&mut server);
        drop(server);
    }));
}
