//! How a daemon proves to servers of NATS who it is, each way against a real one: who has the secret is let in, who has
//! another one is told what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use net::{Poller, Token, clock};
use nkeys::KeyPair;
use testkit::Folder;
use tickcast_backbone::nats::{NatsConfig, NatsCounters, NatsInlet, NatsOutlet};

mod servers;
mod sides;

use servers::NatsServer;
use sides::{Carrier, Distributor, Server, next};

struct Known(NatsConfig, NatsCounters);

impl Carrier for Known {
    type Outlet = NatsOutlet;
    type Inlet = NatsInlet;
    fn outlet(&self, poller: &Poller) -> std::io::Result<NatsOutlet> {
        let at = (poller.registrar(), Token(1));
        NatsOutlet::new(&self.0, at, false, clock::seed(), self.1.clone())
    }
    fn inlet(&self, poller: &Poller) -> std::io::Result<NatsInlet> {
        let at = (poller.registrar(), Token(1));
        NatsInlet::new(&self.0, at, false, clock::seed(), NatsCounters::default())
    }
}

/// A server with a configuration, and the files of it and its clients.
struct World {
    folder: Folder,
    server: NatsServer,
}

impl World {
    fn new(configuration: &str) -> World {
        let folder = Folder::new();
        let file = folder.put("nats.conf", configuration);
        let server = NatsServer::new(&["-c", &file.display().to_string()]);
        World { folder, server }
    }

    fn config(&self) -> NatsConfig {
        NatsConfig { servers: vec![self.server.url()], timeout_ms: 60_000, ..NatsConfig::default() }
    }

    /// A file that its owner alone can read.
    fn secret(&self, name: &str, text: &str) -> Option<String> {
        let file = self.folder.put(name, text);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("it is ours");
        Some(file.display().to_string())
    }
}

/// Both sides are let in, and hear each other.
fn assert_let_in(config: NatsConfig) {
    let carrier = Known(config, NatsCounters::default());
    let (mut d, mut s) = (Distributor::new(&carrier), Server::new(&carrier));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    assert_eq!(carrier.1.connection.connected.get(), 1);
}

/// It is not let in; returns what operators are told.
fn refusal(config: NatsConfig) -> String {
    let carrier = Known(config, NatsCounters::default());
    let mut d = Distributor::new(&carrier);
    while d.heard.notices.is_empty() {
        d.turn();
    }
    assert_eq!((carrier.1.connection.connected.get(), carrier.1.connection.errors.get() > 0), (0, true));
    let said = d.heard.notices.remove(0);
    assert!(said.starts_with("cannot connect to NATS at nats://127.0.0.1:"), "{said}");
    said
}

fn assert_told_of_keys(said: &str) {
    let keys = "Look at backbone.nats.user, password_file, token_file, nkey_file and credentials_file";
    assert!(said.contains(keys), "{said}");
}

#[test]
fn a_password() {
    let world = World::new("authorization { user: tickcast, password: secret }");
    let user = Some("tickcast".to_owned());
    let with = |password_file| NatsConfig { user: user.clone(), password_file, ..world.config() };
    assert_told_of_keys(&refusal(world.config()));
    assert_told_of_keys(&refusal(with(world.secret("wrong", "other"))));
    assert_let_in(with(world.secret("right", "secret\n")));
}

#[test]
fn a_token() {
    let world = World::new("authorization { token: secret }");
    let with = |token_file| NatsConfig { token_file, ..world.config() };
    assert_told_of_keys(&refusal(with(world.secret("wrong", "other"))));
    assert_let_in(with(world.secret("right", "secret\n")));
}

#[test]
fn an_nkey() {
    let (ours, others) = (KeyPair::new_user(), KeyPair::new_user());
    let world = World::new(&format!("authorization {{ users: [ {{ nkey: {} }} ] }}", ours.public_key()));
    let with = |name: &str, pair: &KeyPair| {
        let nkey_file = world.secret(name, &pair.seed().expect("it has one"));
        NatsConfig { nkey_file, ..world.config() }
    };
    assert_told_of_keys(&refusal(with("wrong", &others)));
    assert_let_in(with("right", &ours));
    refusal(NatsConfig { nkey_file: world.secret("none", "no seed"), ..world.config() });
}

/// Claims, signed by who issues them.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, nats: &str) -> String {
    let (by, of) = (issuer.public_key(), subject.public_key());
    let claims = format!(
        "{{\"jti\":\"{name}\",\"iat\":1,\"iss\":\"{by}\",\"name\":\"{name}\",\"sub\":\"{of}\",\"nats\":{nats}}}"
    );
    let head = URL_SAFE_NO_PAD.encode("{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}");
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = issuer.sign(signed.as_bytes()).expect("it has its seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A file of credentials, as `nsc` writes it.
fn credentials(account: &KeyPair, user: &KeyPair) -> String {
    let claims =
        "{\"pub\":{},\"sub\":{},\"subs\":-1,\"data\":-1,\"payload\":-1,\"type\":\"user\",\"version\":2}";
    format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(account, user, "user", claims),
        user.seed().expect("it has one"),
    )
}

#[test]
fn a_file_of_credentials() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let of_operator = jwt(&operator, &operator, "operator", "{\"type\":\"operator\",\"version\":2}");
    let limits = "{\"subs\":-1,\"data\":-1,\"payload\":-1,\"imports\":-1,\"exports\":-1,\"wildcards\":true,\"conn\":-1,\"leaf\":-1}";
    let claims = format!(
        "{{\"limits\":{limits},\"default_permissions\":{{\"pub\":{{}},\"sub\":{{}}}},\"type\":\"account\",\"version\":2}}"
    );
    let of_account = jwt(&operator, &account, "account", &claims);
    let world = World::new(&format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {}: {of_account} }}\n",
        account.public_key()
    ));
    let with = |credentials_file| NatsConfig { credentials_file, ..world.config() };
    assert_told_of_keys(&refusal(with(world.secret("wrong", &credentials(&KeyPair::new_account(), &user)))));
    assert_let_in(with(world.secret("right", &credentials(&account, &user))));
}

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../io/net/testdata/tls").join(name)
}

#[test]
fn a_certificate() {
    let path = |name: &str| Some(tls(name).display().to_string());
    let world = World::new(&format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        tls("server.pem"),
        tls("server.key"),
        tls("ca.pem")
    ));
    let encrypted = NatsConfig { ca_file: path("ca.pem"), ..world.config() };
    let with = |name: &str| NatsConfig {
        certificate_file: path(&format!("{name}.pem")),
        key_file: world.secret(name, &std::fs::read_to_string(tls(&format!("{name}.key"))).expect("a key")),
        ..encrypted.clone()
    };
    // None, and one of another authority.
    refusal(encrypted.clone());
    refusal(with("stranger"));
    assert_let_in(with("client"));
    // A server that another authority vouches for is not trusted.
    let said = refusal(NatsConfig { ca_file: path("other-ca.pem"), ..with("client") });
    assert!(said.contains("certificate"), "{said}");
}
