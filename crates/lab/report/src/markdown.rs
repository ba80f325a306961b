//! A report as Markdown, with its charts as files beside it.

use std::fmt::Write;

use crate::page::{Block, Page, Table};

/// A file that the Markdown shows.
pub(crate) struct ChartFile {
    pub(crate) name: String,
    pub(crate) svg: String,
}

/// The text, and its charts; `folder` is where it finds them.
pub(crate) fn page(page: &Page, folder: &str) -> (String, Vec<ChartFile>) {
    let mut text = format!("# {}\n", line(&page.title));
    let mut charts = Vec::new();
    for section in &page.sections {
        let _ = write!(text, "\n## {}\n", line(&section.title));
        for block in &section.blocks {
            text.push('\n');
            write_block(&mut text, block, folder, &mut charts);
        }
    }
    (text, charts)
}

fn write_block(text: &mut String, block: &Block, folder: &str, charts: &mut Vec<ChartFile>) {
    match block {
        Block::Text(paragraph) => {
            let _ = writeln!(text, "{}", wrapped(&line(paragraph), ""));
        }
        Block::List(items) => {
            for item in items {
                let _ = writeln!(text, "- {}", wrapped(&line(item), "  "));
            }
        }
        Block::Commands(lines) => {
            let plain = |text: &String| text.replace(char::is_control, " ").replace("```", "'''");
            let lines: Vec<String> = lines.iter().map(plain).collect();
            let _ = writeln!(text, "```\n{}\n```", lines.join("\n"));
        }
        Block::Table(table) => write_table(text, table),
        Block::Chart(chart) => {
            let name = format!("chart-{:02}.svg", charts.len() + 1);
            let _ = writeln!(
                text,
                "![{}]({folder}/{name})",
                line(&chart.title).replace("\\[", "").replace("\\]", "")
            );
            charts.push(ChartFile { name, svg: chart.svg_file() });
        }
    }
}

fn write_table(text: &mut String, table: &Table) {
    let cells = |row: &[String]| {
        let cells: Vec<String> = row.iter().map(|cell| line(cell).replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    if !table.caption.is_empty() {
        let _ = write!(text, "{}\n\n", wrapped(&line(&table.caption), ""));
    }
    text.push_str(&cells(&table.heads));
    let side = |column| if table.is_numeric(column) { "---:" } else { "---" };
    let sides: Vec<&str> = (0..table.heads.len()).map(side).collect();
    let _ = writeln!(text, "| {} |", sides.join(" | "));
    table.rows.iter().for_each(|row| text.push_str(&cells(row)));
}

/// Without what would begin an element, a link or a new line.
fn line(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    text.replace('<', "&lt;").replace('[', "\\[").replace(']', "\\]")
}

/// In lines of at most 100 characters, as far as words let it.
fn wrapped(text: &str, begin: &str) -> String {
    let mut lines = String::new();
    let mut width = begin.len();
    for word in text.split_whitespace() {
        if width > begin.len() && width + 1 + word.chars().count() > 100 {
            lines.push('\n');
            lines.push_str(begin);
            width = begin.len();
        } else if width > begin.len() {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += word.chars().count();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Section;

    #[test]
    fn nothing_in_a_run_becomes_markup() {
        let bad = "a\n<script>[x](javascript:y)\u{7}";
        let mut section = Section::new(bad);
        section.text(bad);
        section.blocks.push(Block::Commands(vec![bad.to_owned()]));
        let mut table = Table::new(bad, &[bad]);
        table.row([bad.to_owned()]);
        section.table(table);
        let (text, _) = page(&Page { title: bad.to_owned(), sections: vec![section] }, "charts");
        let shown: Vec<&str> = text.split("```").step_by(2).collect();
        assert!(!shown.concat().contains("<script") && !shown.concat().contains("[x]("), "{text}");
        assert!(!text.contains('\u{7}') && !text.contains("\n<script"), "{text}");
    }

    #[test]
    fn text_is_wrapped_and_tables_hold_together() {
        let mut section = Section::new("Ping-pong");
        section.text("word ".repeat(40));
        let mut table = Table::new("", &["way", "us"]);
        table.row(["a|b".to_owned(), "1.5".to_owned()]);
        section.table(table);
        let (text, charts) = page(&Page { title: "T".to_owned(), sections: vec![section] }, "charts");
        assert!(charts.is_empty() && text.starts_with("# T\n\n## Ping-pong\n\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert!(text.ends_with("| way | us |\n| --- | ---: |\n| a\\|b | 1.5 |\n"), "{text}");
    }
}
