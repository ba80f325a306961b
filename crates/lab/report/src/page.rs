//! What a report says, before it is HTML or Markdown.

use crate::chart::Chart;

/// A report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub(crate) enum Block {
    Text(String),
    List(Vec<String>),
    /// Commands, one a line.
    Commands(Vec<String>),
    Table(Table),
    Chart(Chart),
}

/// A table; cells of a column that are numbers stand to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), blocks: Vec::new() }
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, heads: &[&str]) -> Table {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Table { caption: caption.into(), heads, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether a column has numbers: each of its cells begins with a digit or says that there is none.
    pub(crate) fn is_numeric(&self, column: usize) -> bool {
        let numeric = |cell: &String| {
            let cell = cell.trim_start_matches('-');
            cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit())
        };
        self.rows.iter().all(|row| row.get(column).is_none_or(numeric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_numbers_is_one() {
        let mut table = Table::new("", &["way", "p50", "mean"]);
        table.row(["raw".to_owned(), "4.1 (3.9 to 4.2)".to_owned(), "-".to_owned()]);
        table.row(["ours".to_owned(), "2.66 M".to_owned(), "-1".to_owned()]);
        assert_eq!([0, 1, 2, 3].map(|column| table.is_numeric(column)), [false, true, true, true]);
    }
}
