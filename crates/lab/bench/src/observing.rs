//! Who takes down the messages of a run: a folder for the files, and a name for each run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::ends::Observe;
use observation::Reader;

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

    /// How many runs there were, for [`Observing::forget`].
    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }

    /// The runs after so many do not count: their files go.
    pub(crate) fn forget(&self, after: u32) -> Result<(), BenchError> {
        let runs = self.runs();
        self.runs.store(after, Ordering::Relaxed);
        for run in after..runs {
            let begins = format!("{}-", self.next().name);
            for file in std::fs::read_dir(&self.folder)? {
                let file = file?;
                if file.file_name().to_string_lossy().starts_with(&begins) {
                    std::fs::remove_file(file.path())?;
                }
            }
            debug_assert_eq!(self.runs(), run + 1);
        }
        self.runs.store(after, Ordering::Relaxed);
        Ok(())
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
        // A full recorder does less than one that takes a message down.
        let read =
            Reader::open(&file).map_err(|error| BenchError::new(format!("{}: {error}", file.display())))?;
        let without_room = read.head().lost;
        if without_room > 0 {
            let (file, room) = (file.display(), observe.capacity);
            let text = format!(
                "{file}: no room for {without_room} messages of more than {room}: give fewer --seconds"
            );
            return Err(BenchError::new(text));
        }
    }
    Ok(())
}

/// Makes the folder for observations of a command. It may be there, but nothing in it: files of another command would count
/// as runs of this one.
pub(crate) fn make_folder(folder: &Path) -> Result<(), BenchError> {
    let wrong = |what: String| BenchError::new(format!("--observe {}: {what}", folder.display()));
    std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
    let mut inside = std::fs::read_dir(folder).map_err(|error| wrong(error.to_string()))?;
    if inside.next().is_some() { Err(wrong("it is not empty".to_owned())) } else { Ok(()) }
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
        for (name, messages) in [("a-1-sender-0.obs", 1), ("a-1-receiver-0.obs", 1), ("full.obs", 2)] {
            let (point, stream) = ("p".to_owned(), "s".to_owned());
            let settings = observation::Settings { point, stream, capacity: 1, clock: None };
            let mut recorder = observation::Recorder::new(&settings).expect("memory");
            for id in 0..messages {
                recorder.record(id);
            }
            recorder.write(&scratch.path().join(name), |_, _| ()).expect("written");
        }
        check(&observe, 1).expect("both are there");
        assert!(check(&observe, 2).is_err());
        std::fs::rename(scratch.path().join("full.obs"), scratch.path().join("a-1-sender-0.obs"))
            .expect("ours");
        assert!(check(&observe, 1).expect_err("it was full").to_string().contains("no room for 1 messages"));
        assert!(make_folder(scratch.path()).expect_err("files are in it").to_string().contains("not empty"));
    }

    #[test]
    fn runs_that_do_not_count_leave_nothing() {
        let scratch = Scratch::new().expect("a place for temporary files");
        let observing = Observing::new(scratch.path(), "a", 1);
        let files = ["a-1-sender-0.obs", "a-2-sender-0.obs", "a-2-receiver-0.obs", "a-3-sender-0.obs"];
        for file in files {
            scratch.write(file, "").expect("written");
        }
        (0..3).for_each(|_| drop(observing.next()));
        observing.forget(1).expect("files of ours");
        let left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("there")
            .flatten()
            .map(|file| file.file_name())
            .collect();
        assert_eq!(left, ["a-1-sender-0.obs"]);
        assert_eq!(observing.next().name, "a-2");
    }
}
