//! For tests: the tables of states, as the documents print them.

/// Each line of `table` is a row of the page, where names stand as code.
pub(crate) fn assert_printed(table: &str) {
    let page = include_str!("../../../../docs/item-states.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for line in table.trim().lines() {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        let cells = cells.map(|cell| cell.split(", ").map(|name| format!("`{name}`")).collect::<Vec<_>>());
        let row: Vec<String> = cells.map(|names| names.join(", ")).collect();
        let row = format!("| {} |", row.join(" | "));
        assert!(rows.contains(&&*row), "docs/item-states.md lacks {row}");
    }
}
