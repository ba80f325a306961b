use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use counters::Registry;
use daemon::UserList;
use net::small_file;

use crate::cli::ConfigAction;
use crate::config::RootConfig;
use crate::dictionary;
use crate::failure::Failure;

pub(crate) fn run(action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check(file) => {
            let config = file.load()?.value;
            let lacks = lacks(&config);
            if !lacks.is_empty() {
                return Err(Failure::Run(format!("this host does not fit: {}", lacks.join("; "))));
            }
            let name = file.path().unwrap_or(Path::new("the defaults"));
            let derived = config.messaging.derived();
            let notes: String = derived.iter().map(|note| format!("note: {note}\n")).collect();
            output(format_args!("{}: no fault found\n{notes}", name.display()))
        }
        ConfigAction::Show { file, json } => {
            let loaded = file.load()?;
            output(if *json { loaded.json() } else { loaded.show() })
        }
        ConfigAction::Reference => output(::config::reference::<RootConfig>()),
    }
}

/// What a configuration names and this host does not have, each with its key.
fn lacks(config: &RootConfig) -> Vec<String> {
    let mut lacks = Vec::new();
    let messaging = &config.messaging;
    let interfaces = [
        ("messaging.interface", Some(&messaging.interface)),
        ("messaging.interface_b", messaging.interface_b.as_ref()),
    ];
    for (key, interface) in interfaces {
        lacks.extend(interface.and_then(|one| one.find().err()).map(|why| format!("{key}: {why}")));
    }
    let lists = [
        ("p2ps.users_file", "p2ps", &config.p2ps.users_file),
        ("source_distributor.users_file", "source_distributor", &config.source_distributor.users_file),
    ];
    for (key, role, file) in lists {
        let loaded = UserList::load(file.as_deref(), &Registry::default(), role);
        lacks.extend(loaded.err().map(|error| format!("{key}: {error}")));
    }
    lacks.extend(dictionary::load(&config.dictionary).err().map(|error| format!("dictionary: {error}")));
    let backbone = &config.backbone;
    let files = [
        ("certificate_file", &backbone.certificate_file),
        ("key_file", &backbone.key_file),
        ("ca_file", &backbone.ca_file),
        ("encryption_key_file", &backbone.encryption_key_file),
        ("authentication_key_file", &backbone.authentication_key_file),
    ];
    for (key, file) in files {
        let read = file.as_ref().map(|path| (path, small_file::read(Path::new(path), SECRETS_BYTES_MAX)));
        if let Some((path, Err(error))) = read {
            lacks.push(format!("backbone.{key}: cannot read {path}: {error}"));
        }
    }
    lacks
}

/// Longest file of keys or certificates that is looked at.
const SECRETS_BYTES_MAX: u64 = 16 << 20;

fn output(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use messaging::Interface;

    use super::*;

    #[test]
    fn what_this_host_lacks_is_named_with_its_key() {
        let mut config = RootConfig::default();
        assert_eq!(lacks(&config), [""; 0], "the defaults fit any host");
        config.messaging.interface = Interface::Address(Ipv4Addr::new(192, 0, 2, 77));
        config.messaging.interface_b = Some("nosuch7".parse().expect("a legal name"));
        config.p2ps.users_file = Some("/nonexistent/users".to_owned());
        config.dictionary.fields_file = Some("/nonexistent/fields".to_owned());
        config.backbone.key_file = Some("/nonexistent/key".to_owned());
        let lacks = lacks(&config);
        let named = [
            "messaging.interface: no interface is `192.0.2.77`; up are ",
            "messaging.interface_b: no interface is `nosuch7`",
            "p2ps.users_file: ",
            "dictionary: ",
            "backbone.key_file: cannot read /nonexistent/key: ",
        ];
        assert_eq!(lacks.len(), named.len(), "{lacks:?}");
        named.iter().zip(&lacks).for_each(|(begin, lack)| assert!(lack.starts_with(begin), "{lack}"));
    }
}
