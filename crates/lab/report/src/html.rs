//! A report as one page of HTML: nothing is loaded from elsewhere, and nothing runs in it.

use std::fmt::Write;

use crate::page::{Block, Page, Section, Table};

/// Colours by day.
pub(crate) const LIGHT: &str = "--ink:#1a1a1a;--soft:#5a5a5a;--paper:#ffffff;--line:#d8d8d8;--shade:#f4f4f2;\
    --good:#1b6e3c;--bad:#a3281f;--c0:#0062a3;--c1:#b84a00;--c2:#00735a;--c3:#9b3d7d;--c4:#55606b;--c5:#8a6d00;\
    --c6:#3f4fb5;--c7:#7a2e2e;";
pub(crate) const DARK: &str = "--ink:#e8e8e6;--soft:#a8a8a6;--paper:#161718;--line:#3c3e40;--shade:#1f2122;\
    --good:#6fcf97;--bad:#ff8a7d;--c0:#62b5f0;--c1:#ff9d57;--c2:#4fd0ad;--c3:#e794cb;--c4:#b6c0c9;--c5:#e6c84f;\
    --c6:#a3aefc;--c7:#e09a9a;";

pub(crate) const CHART_STYLE: &str = "\
    .chart text{fill:var(--ink);font:12px system-ui,sans-serif}.chart .mid{text-anchor:middle}\
    .chart .end{text-anchor:end}.chart .grid{stroke:var(--line);fill:none}\
    .chart .axis{stroke:var(--soft);fill:none}.chart .range{stroke:var(--ink);stroke-width:1.5;fill:none}\
    .chart .line{fill:none;stroke-width:2}.chart .fill{stroke:none}\
    .chart .s0{stroke:var(--c0)}.chart .s1{stroke:var(--c1);stroke-dasharray:7 3}\
    .chart .s2{stroke:var(--c2);stroke-dasharray:2 3}.chart .s3{stroke:var(--c3);stroke-dasharray:9 3 2 3}\
    .chart .s4{stroke:var(--c4);stroke-dasharray:12 4}.chart .s5{stroke:var(--c5);stroke-dasharray:4 2}\
    .chart .s6{stroke:var(--c6);stroke-dasharray:1 4}.chart .s7{stroke:var(--c7);stroke-dasharray:6 2 1 2}\
    .chart .fill.s0{fill:var(--c0)}.chart .fill.s1{fill:var(--c1)}.chart .fill.s2{fill:var(--c2)}\
    .chart .fill.s3{fill:var(--c3)}.chart .fill.s4{fill:var(--c4)}.chart .fill.s5{fill:var(--c5)}\
    .chart .fill.s6{fill:var(--c6)}.chart .fill.s7{fill:var(--c7)}.chart .fill{stroke:none}";

const STYLE: &str = "\
    body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
    main{max-width:68rem;margin:0 auto;padding:1rem}h1{font-size:1.6rem;line-height:1.25}\
    h2{font-size:1.25rem;margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}\
    p,li{max-width:46rem}nav ul{columns:2;padding-left:1.2rem}a{color:var(--c0)}\
    .wide{overflow-x:auto;margin:1rem 0}.wide:focus{outline:2px solid var(--c0)}\
    table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}\
    caption{text-align:left;color:var(--soft);padding:.25rem 0}\
    th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap;\
    vertical-align:top}thead th{background:var(--shade);white-space:normal;vertical-align:bottom}\
    .n{text-align:right}td.met{color:var(--good);font-weight:600}td.missed{color:var(--bad);font-weight:600}\
    figure{margin:1.5rem 0}figcaption{font-weight:600;margin-bottom:.25rem}.chart{width:100%;max-width:46rem;height:auto;\
    display:block}details{color:var(--soft);font-size:.875rem}\
    pre{background:var(--shade);padding:.75rem;overflow-x:auto;font-size:.8125rem}\
    @media(max-width:40rem){nav ul{columns:1}}\
    @media print{nav,details{display:none}.wide{overflow:visible}table{font-size:.6rem}th,td{padding:.1rem .25rem;\
    white-space:normal}figure,tr{break-inside:avoid}}";

/// The whole page.
pub(crate) fn page(page: &Page) -> String {
    let title = escape(&page.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\
         :root{{{LIGHT}}}@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}{STYLE}{CHART_STYLE}</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n<nav aria-label=\"Contents\"><ul>\n"
    );
    for (at, section) in page.sections.iter().enumerate() {
        let _ = writeln!(html, "<li><a href=\"#s{at}\">{}</a></li>", escape(&section.title));
    }
    html.push_str("</ul></nav>\n");
    for (at, section) in page.sections.iter().enumerate() {
        write_section(&mut html, at, section);
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn write_section(html: &mut String, at: usize, section: &Section) {
    let _ = writeln!(
        html,
        "<section aria-labelledby=\"s{at}\">\n<h2 id=\"s{at}\">{}</h2>",
        escape(&section.title)
    );
    for block in &section.blocks {
        write_block(html, block);
    }
    html.push_str("</section>\n");
}

fn write_block(html: &mut String, block: &Block) {
    match block {
        Block::Text(text) => html.push_str(&format!("<p>{}</p>\n", escape(text))),
        Block::List(items) => {
            let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
            let _ = write!(html, "<ul>\n{items}</ul>\n");
        }
        Block::Commands(lines) => {
            let _ = writeln!(html, "<pre tabindex=\"0\">{}</pre>", escape(&lines.join("\n")));
        }
        Block::Table(table) => write_table(html, table),
        Block::Chart(chart) => {
            let _ = writeln!(
                html,
                "<figure>\n<figcaption>{}</figcaption>\n{}",
                escape(&chart.title),
                chart.svg()
            );
            html.push_str("<details><summary>The figures of this chart</summary>\n");
            write_table(html, &chart.table());
            html.push_str("</details>\n</figure>\n");
        }
    }
}

fn write_table(html: &mut String, table: &Table) {
    let numeric: Vec<bool> = (0..table.heads.len()).map(|column| table.is_numeric(column)).collect();
    let side = |column: usize| if numeric.get(column) == Some(&true) { " class=\"n\"" } else { "" };
    let caption = escape(&table.caption);
    let _ = write!(
        html,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n<table>\n\
         <caption>{caption}</caption>\n<thead><tr>"
    );
    for (column, head) in table.heads.iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", side(column), escape(head));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = match cell.as_str() {
                "met" | "better" => " class=\"met\"",
                "missed" | "worse" => " class=\"missed\"",
                _ => side(column),
            };
            let _ = write!(html, "<td{class}>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

/// Text that is text in an element and in an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not in XML, and of no use to anybody.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_run_becomes_markup() {
        let bad = "<script>alert('1')</script>\" & \u{7}";
        let mut section = Section::new(bad);
        section.text(bad);
        section.blocks.push(Block::List(vec![bad.to_owned()]));
        section.blocks.push(Block::Commands(vec![bad.to_owned()]));
        let mut table = Table::new(bad, &[bad]);
        table.row([bad.to_owned()]);
        section.table(table);
        let html = page(&Page { title: bad.to_owned(), sections: vec![section] });
        assert!(!html.contains("<script") && !html.contains('\u{7}'), "{html}");
        assert_eq!(html.matches("alert").count(), 11);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let html = page(&Page { title: "t".to_owned(), sections: vec![Section::new("s")] });
        for word in ["src=", "http:", "https:", "@import", "url("] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
