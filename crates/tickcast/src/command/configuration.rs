use std::fmt::Display;
use std::io::{self, Write};

use crate::cli::ConfigAction;
use crate::config::{self, RootConfig};
use crate::failure::Failure;

pub(crate) fn run(action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check { file } => {
            config::load(Some(file), &[])?;
            output(format_args!("{}: no fault found\n", file.display()))
        }
        ConfigAction::Show { config, json } => {
            let loaded = config.load()?;
            output(if *json { loaded.json() } else { loaded.show() })
        }
        ConfigAction::Reference => output(::config::reference::<RootConfig>()),
    }
}

fn output(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::Output)
}
