// SPDX-License-Identifier: GPL-2.0-or-later
//! Bars and lines as SVG, drawn to stand inside the report's page.

use super::figure::{FigureResult, Kind, X};
use super::text;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 60.0;
/// Colours that stay apart for colour-blind eyes and in grey.
const COLOURS: &[&str] = &[
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#666666",
];

/// An axis: from values to the picture.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that shows all `values`; a linear one begins at zero.
    fn new(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        Self::with_base(values, log, Some(0.0), from, to)
    }

    /// The same; a linear one shows the `base` too. Without one it shows little more than the
    /// values: places can be compared on it, lengths from its beginning cannot.
    fn with_base(
        values: impl Iterator<Item = f64>,
        log: bool,
        base: Option<f64>,
        from: f64,
        to: f64,
    ) -> Self {
        let values: Vec<f64> = values
            .filter(|value| value.is_finite() && (!log || *value > 0.0))
            .collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (values.is_empty(), log) {
            (true, true) => (1.0, 10.0),
            (true, false) => (0.0, 1.0),
            (false, true) => {
                let low = 10f64.powf(low.log10().floor());
                (low, 10f64.powf(high.log10().ceil()).max(low * 10.0))
            }
            (false, false) => {
                let (low, high) = match base {
                    Some(base) => (low.min(base), high.max(base)),
                    None => (low, high),
                };
                let step = step(high - low);
                let high = (high / step).ceil() * step;
                let low = (low / step).floor() * step;
                (low, if high > low { high } else { low + step })
            }
        };
        Axis {
            low,
            high,
            log,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) = (self.low.log10().round(), self.high.log10().round());
            let every = ((high - low) / 8.0).ceil().max(1.0);
            let count = ((high - low) / every).floor() as i32;
            return (0..=count)
                .map(|tick| 10f64.powf(low + f64::from(tick) * every))
                .collect();
        }
        let step = step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as i32;
        (0..=count)
            .map(|tick| self.low + f64::from(tick) * step)
            .collect()
    }
}

/// Powers of a thousand.
const UNITS: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e3, " k")];

/// A tick's number, short enough for the margin.
fn brief(value: f64) -> String {
    let fits = |unit: f64| value.abs() >= 10.0 * unit || value.abs() >= unit && value % unit == 0.0;
    let unit = UNITS.into_iter().find(|(unit, _)| fits(*unit));
    in_unit(value, unit.unwrap_or((1.0, "")))
}

/// The numbers of an axis: on a linear one all in the unit of the largest.
fn labels(axis: &Axis) -> Vec<(f64, String)> {
    let ticks = axis.ticks().into_iter();
    if axis.log {
        return ticks.map(|tick| (tick, brief(tick))).collect();
    }
    let most = axis.low.abs().max(axis.high.abs());
    let unit = UNITS.into_iter().find(|(unit, _)| most >= 2.0 * unit);
    let unit = unit.unwrap_or((1.0, ""));
    ticks.map(|tick| (tick, in_unit(tick, unit))).collect()
}

fn in_unit(value: f64, (unit, sign): (f64, &str)) -> String {
    // What a multiple of a step has behind its last digit is noise.
    let number = (value / unit * 1e9).round() / 1e9;
    match number == 0.0 {
        true => "0".into(),
        false => format!("{number}{sign}"),
    }
}

/// A round step that divides a range into about five.
fn step(range: f64) -> f64 {
    if range <= 0.0 || !range.is_finite() {
        return 1.0;
    }
    let raw = range / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= raw * 0.999)
        .unwrap_or(10.0);
    factor * power
}

/// The figure as an SVG element; a table has none.
pub fn svg(figure: &FigureResult) -> Option<String> {
    let mut body = String::new();
    let values = figure
        .series
        .iter()
        .flat_map(|series| series.values.iter().flatten().copied());
    // The quartiles of a steady measurement would be one line on an axis from zero.
    let base = (figure.kind != Kind::Box).then_some(0.0);
    let y = Axis::with_base(values, figure.log, base, HEIGHT - BOTTOM, TOP);
    for (tick, label) in labels(&y) {
        let at = y.at(tick);
        body.push_str(&format!(
            "<line x1='{LEFT}' x2='{}' y1='{at:.1}' y2='{at:.1}' class='grid'/>\
             <text x='{}' y='{:.1}' text-anchor='end'>{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            label
        ));
    }
    match figure.kind {
        Kind::Table => return None,
        Kind::Bar => bars(figure, &y, &mut body),
        Kind::Line => lines(figure, &y, &mut body),
        Kind::Box => boxes(figure, &y, &mut body),
    }
    if figure.kind != Kind::Box {
        legend(figure, &mut body);
    }
    body.push_str(&format!(
        "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>\
         <text transform='translate(14 {:.1}) rotate(-90)' text-anchor='middle'>{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        escape(&figure.x_label),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(&figure.y_label)
    ));
    Some(format!(
        "<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{}'>{body}</svg>",
        escape(&figure.title)
    ))
}

fn bars(figure: &FigureResult, y: &Axis, body: &mut String) {
    let group = (WIDTH - LEFT - RIGHT) / figure.x.len().max(1) as f64;
    let bar = group * 0.8 / figure.series.len().max(1) as f64;
    // The lowest value shown is where a logarithmic bar stands.
    let ground = y.at(if y.log { y.low } else { 0.0 });
    for (at, x) in figure.x.iter().enumerate() {
        let left = LEFT + group * at as f64;
        for (which, series) in figure.series.iter().enumerate() {
            let Some(value) = series.values.get(at).copied().flatten() else {
                continue;
            };
            if y.log && value <= 0.0 {
                continue;
            }
            let top = y.at(value);
            body.push_str(&format!(
                "<rect x='{:.1}' y='{:.1}' width='{:.1}' height='{:.1}' fill='{}'>\
                 <title>{}: {} {}</title></rect>",
                left + group * 0.1 + bar * which as f64,
                top.min(ground),
                bar * 0.94,
                (top - ground).abs().max(0.5),
                colour(which),
                escape(&series.label),
                text::number(value),
                escape(&series.unit)
            ));
        }
        body.push_str(&format!(
            "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            left + group / 2.0,
            HEIGHT - BOTTOM + 18.0,
            escape(&x.text())
        ));
    }
}

fn lines(figure: &FigureResult, y: &Axis, body: &mut String) {
    let number = |x: &X| match x {
        X::Number(number) => *number,
        X::Text(_) => f64::NAN,
    };
    let x = Axis::new(figure.x.iter().map(number), figure.log, LEFT, WIDTH - RIGHT);
    for (tick, label) in labels(&x) {
        body.push_str(&format!(
            "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            x.at(tick),
            HEIGHT - BOTTOM + 18.0,
            label
        ));
    }
    for (which, series) in figure.series.iter().enumerate() {
        let points: Vec<(f64, f64, f64)> = figure
            .x
            .iter()
            .zip(&series.values)
            .filter_map(|(at, value)| Some((number(at), (*value)?)))
            .filter(|(at, value)| !figure.log || (*at > 0.0 && *value > 0.0))
            .map(|(at, value)| (x.at(at), y.at(value), value))
            .collect();
        let path: Vec<String> = points
            .iter()
            .map(|(x, y, _)| format!("{x:.1},{y:.1}"))
            .collect();
        body.push_str(&format!(
            "<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>",
            path.join(" "),
            colour(which)
        ));
        for (x, y, value) in points {
            body.push_str(&format!(
                "<circle cx='{x:.1}' cy='{y:.1}' r='3.5' fill='{}'><title>{}: {} {}</title></circle>",
                colour(which),
                escape(&series.label),
                text::number(value),
                escape(&series.unit)
            ));
        }
    }
}

/// A box from quartile to quartile with the median in it, and whiskers to the least and the most.
fn boxes(figure: &FigureResult, y: &Axis, body: &mut String) {
    let group = (WIDTH - LEFT - RIGHT) / figure.x.len().max(1) as f64;
    for (at, x) in figure.x.iter().enumerate() {
        let middle = LEFT + group * (at as f64 + 0.5);
        body.push_str(&format!(
            "<text x='{middle:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            HEIGHT - BOTTOM + 18.0,
            escape(&x.text())
        ));
        let values: Vec<f64> = figure
            .series
            .iter()
            .filter_map(|series| series.values.get(at).copied().flatten())
            .filter(|value| !y.log || *value > 0.0)
            .collect();
        let [least, lower, median, upper, most] = values[..] else {
            continue;
        };
        let words: Vec<String> = values.iter().map(|value| text::number(*value)).collect();
        let half = group * 0.25;
        let line = |from: f64, to: f64, value: f64| {
            let at = y.at(value);
            format!(
                "<line x1='{from:.1}' x2='{to:.1}' y1='{at:.1}' y2='{at:.1}' stroke='currentColor'/>"
            )
        };
        body.push_str(&format!(
            "<line x1='{middle:.1}' x2='{middle:.1}' y1='{:.1}' y2='{:.1}' stroke='currentColor'/>{}{}\
             <rect x='{:.1}' y='{:.1}' width='{:.1}' height='{:.1}' fill='{}' stroke='currentColor'>\
             <title>{}: {}</title></rect>{}\
             <text x='{middle:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            y.at(least),
            y.at(most),
            line(middle - half / 2.0, middle + half / 2.0, least),
            line(middle - half / 2.0, middle + half / 2.0, most),
            middle - half,
            y.at(upper),
            half * 2.0,
            (y.at(lower) - y.at(upper)).max(0.5),
            colour(at),
            escape(&x.text()),
            words.join(", "),
            line(middle - half, middle + half, median),
            y.at(most) - 6.0,
            words[2],
        ));
    }
}

fn legend(figure: &FigureResult, body: &mut String) {
    if figure.series.len() < 2 {
        return;
    }
    let mut x = LEFT;
    let mut y = 16.0;
    for (which, series) in figure.series.iter().enumerate() {
        // About seven units a letter at the page's font size.
        let width = 30.0 + 7.0 * series.label.chars().count() as f64;
        if x + width > WIDTH && x > LEFT {
            x = LEFT;
            y += 18.0;
        }
        body.push_str(&format!(
            "<rect x='{x:.1}' y='{:.1}' width='12' height='12' fill='{}'/>\
             <text x='{:.1}' y='{:.1}'>{}</text>",
            y - 10.0,
            colour(which),
            x + 17.0,
            y,
            escape(&series.label)
        ));
        x += width;
    }
}

fn colour(which: usize) -> &'static str {
    COLOURS[which % COLOURS.len()]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::SeriesResult;

    fn figure(kind: Kind, log: bool, x: Vec<X>, values: Vec<Option<f64>>) -> FigureResult {
        FigureResult {
            title: "a <b> & 'c'".into(),
            kind,
            x_label: "MB".into(),
            y_label: "instructions".into(),
            log,
            x,
            series: vec![SeriesResult {
                label: "stock".into(),
                unit: "".into(),
                values,
                ranges: Vec::new(),
            }],
        }
    }

    #[test]
    fn an_axis_holds_all_values_between_round_ticks() {
        let axis = Axis::new([3.0, 47.0].into_iter(), false, 0.0, 100.0);
        assert_eq!((axis.low, axis.high), (0.0, 50.0));
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(axis.at(25.0), 50.0);
        let axis = Axis::new([20.0, 3000.0].into_iter(), true, 0.0, 30.0);
        assert_eq!((axis.low, axis.high), (10.0, 10_000.0));
        assert!((axis.at(1000.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_without_a_base_shows_little_more_than_its_values() {
        let values = [7_620.0, 8_832.0].into_iter();
        let axis = Axis::with_base(values, false, None, 0.0, 100.0);
        assert_eq!((axis.low, axis.high), (7_500.0, 9_000.0));
        let same = Axis::with_base([5.0, 5.0].into_iter(), false, None, 0.0, 100.0);
        assert!(same.low <= 5.0 && same.high > same.low, "{}", same.low);
        assert!(same.at(5.0).is_finite());
    }

    #[test]
    fn the_numbers_of_a_linear_axis_are_all_of_one_unit() {
        let of = |values: [f64; 2], log, base| -> Vec<String> {
            let axis = Axis::with_base(values.into_iter(), log, base, 0.0, 100.0);
            labels(&axis).into_iter().map(|(_, label)| label).collect()
        };
        let narrow = of([7.62e6, 8.832e6], false, None);
        assert_eq!(narrow, ["7.5 M", "8 M", "8.5 M", "9 M"]);
        let small = of([0.0, 1_500.0], false, Some(0.0));
        assert_eq!(small, ["0", "500", "1000", "1500"]);
        assert_eq!(of([100.0, 1e4], true, None), ["100", "1 k", "10 k"]);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (20e6, "20 M"),
            (1e9, "1 G"),
            (1500.0, "1500"),
            (15_000.0, "15 k"),
            (0.0, "0"),
            (3.0 * 0.1, "0.3"),
        ] {
            assert_eq!(brief(value), text);
        }
    }

    #[test]
    fn bars_are_drawn_for_the_values_that_there_are() {
        let text = |name: &str| X::Text(name.into());
        let bars = figure(
            Kind::Bar,
            false,
            vec![text("a"), text("b"), text("c")],
            vec![Some(1.0), None, Some(0.0)],
        );
        let svg = svg(&bars).unwrap();
        assert_eq!(svg.matches("<title>").count(), 2);
        assert!(svg.contains("a &lt;b&gt; &amp; &#39;c&#39;"));
    }

    #[test]
    fn a_logarithmic_line_leaves_out_what_has_no_logarithm() {
        let x = [1.0, 10.0, 100.0].map(X::Number).to_vec();
        let line = figure(Kind::Line, true, x, vec![Some(0.0), Some(10.0), Some(1e6)]);
        let svg = svg(&line).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn an_empty_figure_draws_no_nonsense() {
        let empty = figure(Kind::Bar, true, vec![X::Text("a".into())], vec![None]);
        let svg = svg(&empty).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_box_is_drawn_where_all_five_values_are() {
        let text = |name: &str| X::Text(name.into());
        let mut boxes = figure(Kind::Box, false, vec![text("a"), text("b")], vec![]);
        let series = boxes.series.remove(0);
        for (number, missing) in [
            (1.0, true),
            (2.0, true),
            (3.0, false),
            (4.0, true),
            (5.0, true),
        ] {
            let mut next = series.clone();
            next.values = vec![Some(number), missing.then_some(number)];
            boxes.series.push(next);
        }
        let svg = svg(&boxes).unwrap();
        assert_eq!(svg.matches("<title>a: 1, 2, 3, 4, 5</title>").count(), 1);
        assert_eq!(svg.matches("<title>").count(), 1);
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_table_has_no_picture() {
        assert!(svg(&figure(Kind::Table, false, vec![], vec![])).is_none());
    }
}
