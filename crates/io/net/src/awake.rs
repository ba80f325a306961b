use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Keeps all CPUs of the machine from sleeping deeply, until it is dropped or the process ends, however it ends.
///
/// A CPU with nothing to do goes to sleep, the deeper the longer it expects to. Whoever waits for it pays for its waking
/// up. The kernel lets a process bound that time; the bound is zero here, so an idle CPU polls. It takes power for it, and a
/// CPU that never rests leaves less of the common clock rate to the others.
#[derive(Debug)]
pub struct CpusAwake {
    /// The bound holds while this is open.
    _device: File,
}

impl CpusAwake {
    /// The kernel's device.
    pub const DEVICE: &str = "/dev/cpu_dma_latency";

    /// Asks for it.
    ///
    /// # Errors
    /// The device is not there or may not be written (by root alone, if nobody has changed that); the error names it.
    pub fn hold() -> io::Result<CpusAwake> {
        CpusAwake::hold_by(Path::new(CpusAwake::DEVICE))
    }

    /// The same by a device of another name.
    ///
    /// # Errors
    /// As [`CpusAwake::hold`].
    pub fn hold_by(device: &Path) -> io::Result<CpusAwake> {
        let named = |error: io::Error| {
            let text = format!("cannot keep the CPUs awake by {}: {error}", device.display());
            io::Error::new(error.kind(), text)
        };
        let mut file = File::options().write(true).open(device).map_err(named)?;
        // The longest time to wake up that is allowed, in microseconds: an int of the machine.
        file.write_all(&0_i32.to_ne_bytes()).map_err(named)?;
        Ok(CpusAwake { _device: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_for_no_time_at_all_and_names_a_device_that_is_not_there() {
        let folder = testkit::Folder::new();
        let device = folder.put("cpu_dma_latency", "");
        let held = CpusAwake::hold_by(&device).expect("it can be written");
        assert_eq!(std::fs::read(&device).expect("it is there"), [0; 4]);
        drop(held);
        let said = CpusAwake::hold_by(&folder.join("none")).expect_err("it is not there").to_string();
        assert!(said.starts_with("cannot keep the CPUs awake by ") && said.contains("none: "), "{said}");
    }
}
