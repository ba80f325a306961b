//! `tickcast testclient` and `tickcast testserver`.

use testtools::TestToolError;
use testtools::testclient::{self, TestClientArgs};
use testtools::testserver::{self, TestServerArgs};

use crate::failure::Failure;
use crate::host::Stop;

pub(super) fn client(args: &TestClientArgs) -> Result<(), Failure> {
    let stop = Stop::default();
    stop.end_on_signals()?;
    testclient::run(args, stop.flag(), &mut std::io::stdout().lock()).map(|_| ()).map_err(failure)
}

pub(super) fn server(args: &TestServerArgs) -> Result<(), Failure> {
    let stop = Stop::default();
    stop.end_on_signals()?;
    testserver::run(args, stop.flag(), &mut std::io::stdout().lock()).map(|_| ()).map_err(failure)
}

fn failure(error: TestToolError) -> Failure {
    match error {
        TestToolError::Usage(text) => Failure::Config(text),
        TestToolError::File(fault) => Failure::Config(fault.to_string()),
        TestToolError::Io(error) => Failure::Io(error),
        TestToolError::Output(error) => Failure::Output(error),
        other => Failure::Run(other.to_string()),
    }
}
