//! `docs/hostile.md`: sections with tables of name, input and reaction.

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::{Case, Layer};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/hostile.md")).expect("docs/hostile.md is there")
}

/// The row that a case has.
pub(crate) fn row(layer: &Layer, case: &Case) -> [String; 3] {
    let reaction = (layer.reaction)(&case.bytes);
    assert!(!reaction.contains(['|', '\n']), "{}: {reaction}", case.name);
    [format!("`{}`", case.name), case.comes.to_owned(), reaction]
}

/// The rows of a section's table.
pub(crate) fn rows(title: &str) -> Vec<[String; 3]> {
    section(&page(), title).lines().filter_map(cells).collect()
}

/// The cells of a line that is a row, head and rule aside.
fn cells(line: &str) -> Option<[String; 3]> {
    let cells: Vec<_> =
        line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(|c| c.trim().to_owned()).collect();
    let cells: [String; 3] = cells.try_into().unwrap_or_else(|_| panic!("not three cells: {line}"));
    cells[0].starts_with('`').then_some(cells)
}

/// The text under a heading.
fn section<'p>(page: &'p str, title: &str) -> &'p str {
    let heading = format!("\n## {title}\n");
    let begin = page.find(&heading).unwrap_or_else(|| panic!("no section {title}")) + heading.len();
    let rest = &page[begin..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// Writes the sections of these layers between the two marks of the page.
pub(crate) fn write(layers: &[Layer]) {
    const BEGIN: &str = "<!-- written by crates/lab/fuzz/tests/hostile -->\n";
    const END: &str = "<!-- end -->\n";
    let page = page();
    let (before, rest) = page.split_once(BEGIN).expect("the mark of the begin");
    let (_, after) = rest.split_once(END).expect("the mark of the end");
    let sections: String = layers.iter().map(written).collect();
    let page = [before, BEGIN, &sections, "\n", END, after].concat();
    fs::write(root().join("docs/hostile.md"), page).expect("docs/hostile.md can be written");
}

fn written(layer: &Layer) -> String {
    let rows: String = layer
        .cases
        .iter()
        .map(|case| {
            let [name, comes, reaction] = row(layer, case);
            format!("| {name} | {comes} | {reaction} |\n")
        })
        .collect();
    let about = if layer.about.is_empty() { String::new() } else { format!("{}\n\n", layer.about) };
    format!(
        "\n## {}\n\n{about}| case | what comes | what becomes of it |\n|---|---|---|\n{rows}",
        layer.title
    )
}

/// Crate and name of each test that a row names as `crate: name_of_the_test`.
pub(crate) fn named_tests() -> Vec<(String, String)> {
    let page = page();
    let names = page.lines().filter_map(cells).filter_map(|[name, ..]| {
        let (krate, test) = name.trim_matches('`').split_once(": ")?;
        Some((krate.to_owned(), test.to_owned()))
    });
    names.collect()
}

/// Whether a crate has a test of that name, or the folder of the judges that is given in its place.
pub(crate) fn has_test(krate: &str, name: &str) -> bool {
    if krate.starts_with("interop/") {
        return any_file(&root().join(krate), "py", &format!("    def {name}(self)"));
    }
    let wanted = format!("fn {name}()");
    let groups = fs::read_dir(root().join("crates")).into_iter().flatten().flatten();
    let own_folder = root().join("crates").join(krate);
    groups
        .map(|group| group.path().join(krate))
        .chain([own_folder])
        .any(|folder| ["src", "tests"].iter().any(|part| any_file(&folder.join(part), "rs", &wanted)))
}

fn any_file(folder: &Path, ending: &str, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.path() {
        path if path.is_dir() => any_file(&path, ending, wanted),
        path => {
            path.extension().is_some_and(|e| e == ending)
                && fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
        }
    })
}
