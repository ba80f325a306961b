//! Who takes down the messages of a run: a folder for the files, and a name for each run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::ends::Observe;

use crate::BenchError;

/// What a contender's runs are observed for. Its clones count their runs together.
#[derive(Clone, Debug)]
pub(crate) struct Observing {
    folder: PathBuf,
    /// Of the files' names.
    label: String,
    capacity: u64,
    runs: Arc<AtomicU32>,
}

impl Observing {
    pub(crate) fn new(folder: &Path, label: impl Into<String>, capacity: u64) -> Observing {
        Observing { folder: folder.to_owned(), label: label.into(), capacity, runs: Arc::default() }
    }

    /// What both ends of the next run are told.
    pub(crate) fn next(&self) -> Observe {
        let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let words = self.label.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let label: String = words.collect::<Vec<_>>().join("-").chars().take(50).collect();
        Observe { folder: self.folder.clone(), name: format!("{label}-{run}"), capacity: self.capacity }
    }
}

/// Whether both ends of a run have written what they observed.
pub(crate) fn check(observe: &Observe, pairs: usize) -> Result<(), BenchError> {
    for (is_far, pair) in (0..pairs).flat_map(|pair| [(false, pair), (true, pair)]) {
        let file = observe.file(is_far, pair);
        if !file.is_file() {
            let file = file.display();
            return Err(BenchError::new(format!("{file} was not written, as its process says above")));
        }
    }
    Ok(())
}

/// Makes the folder for observations of a command; it may be there.
pub(crate) fn make_folder(folder: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(folder)
        .map_err(|error| BenchError::new(format!("--observe {}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Scratch;

    #[test]
    fn each_run_has_a_name_of_its_own_which_a_file_can_have() {
        let observing = Observing::new(Path::new("/x"), "64 B, 25000/s LBT-RM", 70);
        let clone = observing.clone();
        let names = [observing.next().name, clone.next().name];
        assert_eq!(names, ["64-B-25000-s-LBT-RM-1", "64-B-25000-s-LBT-RM-2"]);
        let long = Observing::new(Path::new("/x"), "y".repeat(200), 70).next();
        assert_eq!((long.name.len(), long.capacity), (52, 70));
    }

    #[test]
    fn files_that_are_missing_are_named() {
        let scratch = Scratch::new().expect("a place for temporary files");
        let observe = Observing::new(scratch.path(), "a", 1).next();
        assert!(
            check(&observe, 1).expect_err("none").to_string().contains("a-1-sender-0.obs was not written")
        );
        scratch.write("a-1-sender-0.obs", "").and(scratch.write("a-1-receiver-0.obs", "")).expect("written");
        check(&observe, 1).expect("both are there");
        assert!(check(&observe, 2).is_err());
    }
}
