//! Charts as SVG. Colours are those of the page, so that they follow its light and dark; a series has a dash and a mark of
//! its own besides, for paper and for eyes that see colours alike.

use std::fmt::Write;

use crate::html::{CHART_STYLE, DARK, LIGHT, escape};
use crate::page::Table;
use crate::scale::{Scale, Span, number};

/// Series in one chart; more cannot be told apart.
pub(crate) const SERIES_MAX: usize = 8;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Where a logarithmic axis of columns begins, so that a column of 1 is seen.
const COLUMNS_FROM: f64 = 0.5;
/// Room for names: left of the plot, right, above and below.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 14.0;
const BELOW: f64 = 46.0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) drawn: Drawn,
    pub(crate) series: Vec<Series>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) scale: Scale,
}

/// How points become marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// Marks, joined by lines.
    Lines,
    /// Lines without marks: points lie close together.
    Curve,
    /// A column from 0 to each point, which is its left upper corner; the last point, of 0, is where the last column ends.
    Columns,
    /// A bar for each series, from 0, to its first point, with its range.
    Bars,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Lowest and highest of several runs.
    pub(crate) range: Option<(f64, f64)>,
}

impl Axis {
    pub(crate) fn new(name: impl Into<String>, scale: Scale) -> Axis {
        Axis { name: name.into(), scale }
    }
}

impl Point {
    pub(crate) fn new(x: f64, y: f64) -> Point {
        Point { x, y, range: None }
    }
}

impl Chart {
    /// The figures of the chart, for who cannot see it.
    pub(crate) fn table(&self) -> Table {
        if self.drawn == Drawn::Bars {
            let mut table = Table::new(self.title.clone(), &["", &self.x.name, "lowest", "highest"]);
            for series in &self.series {
                let point = series.points.first().copied().unwrap_or_default();
                let (low, high) = point.range.unwrap_or((point.y, point.y));
                table.row([series.name.clone(), number(point.y), number(low), number(high)]);
            }
            return table;
        }
        let mut heads = vec![self.x.name.as_str()];
        let named: Vec<String> = self.series.iter().map(|s| self.head(s)).collect();
        heads.extend(named.iter().map(String::as_str));
        let mut table = Table::new(self.title.clone(), &heads);
        let mut xs: Vec<f64> = self.points().map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for x in xs {
            let at = |series: &Series| series.points.iter().find(|point| point.x == x).map(|point| point.y);
            let cells = self.series.iter().map(|series| at(series).map_or("-".to_owned(), number));
            table.row([number(x)].into_iter().chain(cells));
        }
        table
    }

    fn head(&self, series: &Series) -> String {
        if series.name.is_empty() { self.y.name.clone() } else { format!("{}: {}", series.name, self.y.name) }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// As an element of a page, whose style it takes its colours from.
    pub(crate) fn svg(&self) -> String {
        self.written("")
    }

    /// As a file of its own.
    pub(crate) fn svg_file(&self) -> String {
        let style = [
            "<style>svg{",
            LIGHT,
            "background:var(--paper)}@media(prefers-color-scheme:dark){svg{",
            DARK,
            "}}",
            CHART_STYLE,
            "</style>",
        ];
        self.written(&style.concat())
    }

    fn written(&self, style: &str) -> String {
        let height = if self.drawn == Drawn::Bars { self.bars_height() } else { HEIGHT };
        let names = if self.drawn != Drawn::Bars && self.series.len() > 1 { self.series.len() } else { 0 };
        let whole = height + 20.0 * names.div_ceil(2) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {whole}\" role=\"img\" \
             aria-label=\"{}\" class=\"chart\">{style}",
            escape(&self.title)
        );
        match self.drawn {
            Drawn::Bars => self.bars(&mut svg),
            _ => self.plot(&mut svg),
        }
        if names > 0 {
            self.legend(&mut svg);
        }
        svg.push_str("</svg>");
        svg
    }

    fn plot(&self, svg: &mut String) {
        let plot = Plot {
            x: Span::of(self.x.scale, self.points().map(|point| point.x)),
            y: Span::of(
                self.y.scale,
                self.points()
                    .flat_map(|point| {
                        let (low, high) = point.range.unwrap_or((point.y, point.y));
                        [low, point.y, high]
                    })
                    .chain((self.drawn == Drawn::Columns).then_some(COLUMNS_FROM)),
            ),
        };
        plot.grid(svg, &self.x.name, &self.y.name);
        for (at, series) in self.series.iter().enumerate() {
            let class = at % SERIES_MAX;
            match self.drawn {
                Drawn::Columns => plot.columns(svg, series, class),
                _ => plot.line(svg, series, class, self.drawn == Drawn::Lines),
            }
        }
    }

    fn legend(&self, svg: &mut String) {
        for (at, series) in self.series.iter().enumerate() {
            let (x, y) = (LEFT + (at % 2) as f64 * 320.0, HEIGHT + 8.0 + (at / 2) as f64 * 20.0);
            let class = at % SERIES_MAX;
            let (end, middle, text) = (x + 28.0, x + 14.0, x + 36.0);
            put(svg, format_args!("<path d=\"M{x:.1} {y:.1}H{end:.1}\" class=\"line s{class}\"/>"));
            mark(svg, class, middle, y);
            let (name, down) = (escape(&series.name), y + 4.0);
            put(svg, format_args!("<text x=\"{text:.1}\" y=\"{down:.1}\">{name}</text>"));
        }
    }

    fn bars_height(&self) -> f64 {
        TOP + BELOW + 34.0 * self.series.len() as f64
    }

    fn bars(&self, svg: &mut String) {
        let ends = self.points().flat_map(|point| [point.y, point.range.map_or(point.y, |(_, high)| high)]);
        let span = Span::of(Scale::Linear, ends);
        let (left, right) = (230.0, WIDTH - 90.0);
        let at = |value: f64| left + span.place(value) * (right - left);
        let bottom = TOP + 34.0 * self.series.len() as f64;
        for tick in span.ticks(6) {
            let (x, down) = (at(tick), bottom + 16.0);
            put(svg, format_args!("<path d=\"M{x:.1} {TOP}V{bottom:.1}\" class=\"grid\"/>"));
            put(
                svg,
                format_args!("<text x=\"{x:.1}\" y=\"{down:.1}\" class=\"mid\">{}</text>", number(tick)),
            );
        }
        for (row, series) in self.series.iter().enumerate() {
            let point = series.points.first().copied().unwrap_or_default();
            let (y, wide) = (TOP + 34.0 * row as f64 + 6.0, at(point.y) - left);
            let (middle, text) = (y + 11.0, y + 15.0);
            let (name, class) = (escape(&series.name), row % SERIES_MAX);
            put(
                svg,
                format_args!("<text x=\"{:.1}\" y=\"{text:.1}\" class=\"end\">{name}</text>", left - 8.0),
            );
            put(
                svg,
                format_args!(
                    "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"22\" class=\"fill s{class}\"/>"
                ),
            );
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            put(
                svg,
                format_args!("<path d=\"M{:.1} {middle:.1}H{:.1}\" class=\"range\"/>", at(low), at(high)),
            );
            let beside = at(high) + 8.0;
            put(svg, format_args!("<text x=\"{beside:.1}\" y=\"{text:.1}\">{}</text>", number(point.y)));
        }
        let (x, y) = (f64::midpoint(left, right), bottom + 38.0);
        put(
            svg,
            format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"mid\">{}</text>", escape(&self.x.name)),
        );
    }
}

/// The area of a chart between its axes.
struct Plot {
    x: Span,
    y: Span,
}

impl Plot {
    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        HEIGHT - BELOW - self.y.place(value) * (HEIGHT - TOP - BELOW)
    }

    fn grid(&self, svg: &mut String, x_name: &str, y_name: &str) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BELOW);
        for tick in self.x.ticks(9) {
            let (x, down) = (self.at_x(tick), bottom + 16.0);
            put(svg, format_args!("<path d=\"M{x:.1} {TOP}V{bottom}\" class=\"grid\"/>"));
            put(svg, format_args!("<text x=\"{x:.1}\" y=\"{down}\" class=\"mid\">{}</text>", number(tick)));
        }
        for tick in self.y.ticks(7) {
            let (y, text) = (self.at_y(tick), self.at_y(tick) + 4.0);
            put(svg, format_args!("<path d=\"M{LEFT} {y:.1}H{right}\" class=\"grid\"/>"));
            let x = LEFT - 6.0;
            put(svg, format_args!("<text x=\"{x}\" y=\"{text:.1}\" class=\"end\">{}</text>", number(tick)));
        }
        put(svg, format_args!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" class=\"axis\"/>"));
        let (x, y) = (f64::midpoint(LEFT, right), HEIGHT - 10.0);
        put(svg, format_args!("<text x=\"{x}\" y=\"{y}\" class=\"mid\">{}</text>", escape(x_name)));
        let (x, y) = (14.0, f64::midpoint(TOP, bottom));
        put(
            svg,
            format_args!(
                "<text x=\"{x}\" y=\"{y}\" class=\"mid\" transform=\"rotate(-90 {x} {y})\">{}</text>",
                escape(y_name)
            ),
        );
    }

    fn line(&self, svg: &mut String, series: &Series, class: usize, has_marks: bool) {
        let mut path = String::new();
        for (at, point) in series.points.iter().enumerate() {
            let to = if at == 0 { 'M' } else { 'L' };
            put(&mut path, format_args!("{to}{:.1} {:.1}", self.at_x(point.x), self.at_y(point.y)));
        }
        put(svg, format_args!("<path d=\"{path}\" class=\"line s{class}\"/>"));
        for point in series.points.iter().filter(|_| has_marks) {
            let (x, y) = (self.at_x(point.x), self.at_y(point.y));
            if let Some((low, high)) = point.range {
                let (low, high) = (self.at_y(low), self.at_y(high));
                put(svg, format_args!("<path d=\"M{x:.1} {low:.1}V{high:.1}\" class=\"range\"/>"));
            }
            mark(svg, class, x, y);
        }
    }

    fn columns(&self, svg: &mut String, series: &Series, class: usize) {
        let bottom = HEIGHT - BELOW;
        for pair in series.points.windows(2).filter(|pair| pair[0].y > 0.0) {
            let (x, y) = (self.at_x(pair[0].x), self.at_y(pair[0].y));
            let (wide, tall) = ((self.at_x(pair[1].x) - x).max(0.5), bottom - y);
            put(
                svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" class=\"fill s{class}\"/>"
                ),
            );
        }
    }
}

/// A mark of the series' own shape.
fn mark(svg: &mut String, class: usize, x: f64, y: f64) {
    let shape = match class % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"fill s{class}\"/>"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" class=\"fill s{class}\"/>",
            x - 4.0,
            y - 4.0
        ),
        2 => format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\" class=\"fill s{class}\"/>", y - 5.0),
        _ => format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\" class=\"fill s{class}\"/>", y - 5.0),
    };
    svg.push_str(&shape);
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(drawn: Drawn) -> Chart {
        let axis = |name: &str| Axis::new(name, Scale::Logarithmic);
        let of = |name: &str, ys: [f64; 2]| Series {
            name: name.to_owned(),
            points: ys.iter().zip([1_000.0, 10_000.0]).map(|(y, x)| Point::new(x, *y)).collect(),
        };
        let series = vec![of("raw <&>", [10.0, 20.0]), of("ours", [15.0, f64::NAN])];
        Chart { title: "A \"chart\"".to_owned(), x: axis("updates/s"), y: axis("mean us"), drawn, series }
    }

    #[test]
    fn a_chart_is_legal_whatever_its_values_are() {
        for drawn in [Drawn::Lines, Drawn::Curve, Drawn::Columns, Drawn::Bars] {
            let svg = chart(drawn).svg();
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"));
            assert!(svg.contains("aria-label=\"A &quot;chart&quot;\""), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches('<').count(), svg.matches('>').count());
        }
        let none = Chart { series: Vec::new(), ..chart(Drawn::Lines) };
        assert!(!none.svg().contains("NaN"));
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let svg = chart(Drawn::Lines).svg();
        // The lowest is at the bottom left, the highest at the top right.
        assert!(svg.contains("<circle cx=\"70.0\" cy=\"314.0\""), "{svg}");
        assert!(svg.contains("<circle cx=\"680.0\" cy=\"14.0\""), "{svg}");
    }

    #[test]
    fn its_table_says_the_same() {
        let table = chart(Drawn::Lines).table();
        assert_eq!(table.heads, ["updates/s", "raw <&>: mean us", "ours: mean us"]);
        assert_eq!(table.rows, [["1,000", "10", "15"], ["10,000", "20", "-"]]);
        let bars = chart(Drawn::Bars).table();
        assert_eq!(bars.rows[0], ["raw <&>", "10", "10", "10"]);
    }
}
