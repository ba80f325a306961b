use std::fmt;
use std::process::ExitCode;

/// Why a command did not succeed. The exit codes are part of the interface.
#[derive(Debug)]
pub(crate) enum Failure {
    /// 1: something went wrong while it ran.
    Run(String),
    /// 1: the system refused something, a port for example.
    Io(std::io::Error),
    /// 2: the configuration or the command line is wrong.
    Config(String),
    /// 3: it ran, and has found what is not as it should be.
    Found(String),
    /// 1: standard output cannot be written. If its reader is gone, the command ends with 0 and says nothing.
    Output(std::io::Error),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Run(_) | Failure::Io(_) | Failure::Output(_) => ExitCode::from(1),
            Failure::Config(_) => ExitCode::from(2),
            Failure::Found(_) => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Run(text) | Failure::Config(text) | Failure::Found(text) => {
                write!(f, "tickcast: {text}")
            }
            Failure::Io(error) => write!(f, "tickcast: {error}"),
            Failure::Output(error) => write!(f, "tickcast: cannot write to standard output: {error}"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Failure::Io(e)
    }
}
