//! Programs in C, compiled and linked with this library.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo puts this library: with the tests, or above them.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let found = test.ancestors().skip(1).map(|dir| dir.join("libtickcast.so")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no libtickcast.so above {}", test.display()))
}

/// Compiles `<directory>/<name>.c` without a warning; where the program is.
pub(crate) fn compile(directory: &str, name: &str) -> PathBuf {
    let (library, program) = (library(), Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    let place = library.parent().expect("it is in a directory").display().to_string();
    let result = Command::new("cc")
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
        .args(["-I", &format!("{DIRECTORY}/include"), &format!("{DIRECTORY}/{directory}/{name}.c")])
        .args(["-o", &program.display().to_string()])
        .args(["-L", &place, "-ltickcast", &format!("-Wl,-rpath,{place}")])
        .output()
        .expect("a C compiler");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    program
}
