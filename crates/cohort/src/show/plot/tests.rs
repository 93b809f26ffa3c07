// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::show::{SeriesResult, X};
use plotters::coord::ranged1d::{BoldPoints, Ranged, ValueFormatter};

fn series(label: &str, values: Vec<Option<f64>>) -> SeriesResult {
    SeriesResult {
        label: label.into(),
        unit: "%".into(),
        values,
        ranges: Vec::new(),
        bounds: Vec::new(),
    }
}

fn figure(kind: Kind, log: bool, x: Vec<X>, values: Vec<Option<f64>>) -> FigureResult {
    FigureResult {
        title: "a <b> & \"c\"".into(),
        kind,
        x_label: "MB".into(),
        y_label: "instructions".into(),
        log,
        x,
        series: vec![series("stock", values)],
    }
}

fn names(names: &[&str]) -> Vec<X> {
    names.iter().map(|name| X::Text(name.to_string())).collect()
}

fn chart(figure: &FigureResult) -> Chart<'_> {
    Chart {
        figure,
        marks: &[],
        behind: None,
    }
}

/// How many shapes of the colour there are.
fn count(svg: &str, colour: RGBColor) -> usize {
    svg.matches(&format!(
        "#{:02X}{:02X}{:02X}",
        colour.0, colour.1, colour.2
    ))
    .count()
}

#[test]
fn an_axis_shows_all_values_and_zero_unless_it_is_of_boxes() {
    let values = vec![Some(3.0), Some(47.0)];
    let mut bars = figure(Kind::Bar, false, names(&["a", "b"]), values);
    assert_eq!(chart(&bars).values().range(), 0.0..47.0);
    bars.series[0].ranges = vec![None, Some([40.0, 60.0])];
    assert_eq!(chart(&bars).values().range(), 0.0..60.0);
    let marks = [Mark {
        label: "paper".into(),
        series: 0,
        at: 0,
        value: 70.0,
    }];
    let compared = Chart {
        marks: &marks,
        behind: Some(("stock", 100.0)),
        ..chart(&bars)
    };
    assert_eq!(compared.values().range(), 0.0..100.0);
    bars.kind = Kind::Box;
    assert_eq!(chart(&bars).values().range(), 3.0..60.0);
    // Bounds, which hold the range, take its place on bars; boxes have theirs in words.
    bars.series[0].bounds = vec![None, Some([30.0, 80.0])];
    assert_eq!(chart(&bars).values().range(), 3.0..60.0);
    bars.kind = Kind::Bar;
    assert_eq!(chart(&bars).values().range(), 0.0..80.0);
    assert_eq!(chart(&bars).range(0, 1), Some((30.0, 80.0)));
    let log = figure(
        Kind::Bar,
        true,
        names(&["a", "b"]),
        vec![Some(20.0), Some(3000.0)],
    );
    assert_eq!(chart(&log).values().range(), 1.0..4.0);
}

#[test]
fn the_numbers_of_a_linear_axis_are_all_of_one_unit() {
    let of = |values: [f64; 2], log| -> Vec<String> {
        let bars = figure(Kind::Box, log, Vec::new(), values.map(Some).to_vec());
        let axis = chart(&bars).values();
        let ticks = axis.key_points(BoldPoints(6)).into_iter();
        ticks.map(|at| axis.format_ext(&at)).collect()
    };
    assert_eq!(of([7.5e6, 9e6], false), ["7.5 M", "8 M", "8.5 M", "9 M"]);
    // Fewer where they would cover each other.
    assert_eq!(of([6.73e6, 7.92e6], false), ["7 M", "7.5 M"]);
    assert_eq!(of([0.0, 1_500.0], false), ["0", "500", "1000", "1500"]);
    assert_eq!(of([100.0, 1e4], true), ["100", "1 k", "10 k"]);
    assert_eq!(of([0.0, 0.3], false), ["0", "0.1", "0.2", "0.3"]);
}

#[test]
fn every_bar_has_its_value_and_what_it_is_compared_with() {
    let values = vec![Some(58.0), None, Some(0.0)];
    let mut bars = figure(Kind::Bar, false, names(&["a", "b", "c"]), values);
    bars.series[0].label = "ours".into();
    let marks = [Mark {
        label: "paper".into(),
        series: 0,
        at: 0,
        value: 62.0,
    }];
    let chart = Chart {
        marks: &marks,
        behind: Some(("stock", 100.0)),
        ..chart(&bars)
    };
    let svg = chart.svg().unwrap();
    for text in ["58 %; paper 62", "not measured", "\n0 %\n"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    // In the legend and at the first bar.
    assert_eq!(count(&svg, MARK), 2);
    // In the legend, and the two bars that there are with an edge each.
    assert_eq!(count(&svg, COLOURS[0]), 5);
    assert!(svg.contains("aria-label=\"a &lt;b> &amp; &quot;c&quot;\""));
}

#[test]
fn what_has_no_logarithm_is_left_out() {
    let x = [1.0, 10.0, 100.0].map(X::Number).to_vec();
    let line = figure(Kind::Line, true, x, vec![Some(0.0), Some(10.0), Some(1e6)]);
    let svg = svg(&line).unwrap();
    assert_eq!(svg.matches("<circle").count(), 2);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_figure_without_values_draws_no_nonsense() {
    for kind in [Kind::Bar, Kind::Line, Kind::Box] {
        for log in [true, false] {
            let svg = svg(&figure(kind, log, names(&["a"]), vec![None])).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn a_box_is_drawn_where_all_five_values_are() {
    let mut boxes = figure(Kind::Box, false, names(&["a", "b"]), vec![]);
    boxes.series = [1.0, 2.0, 3.0, 4.0, 5.0]
        .map(|value| series("", vec![Some(value), (value != 3.0).then_some(value)]))
        .to_vec();
    let drawn = svg(&boxes).unwrap();
    assert_eq!(count(&drawn, COLOURS[0]), 1);
    assert!(
        drawn.contains("\n3 %\n") && drawn.contains("not measured"),
        "{drawn}"
    );
    boxes.series[2].bounds = vec![Some([2.5, 40.0]), None];
    let drawn = svg(&boxes).unwrap();
    assert!(drawn.contains("\n3 % (2.50 to 40)\n"), "{drawn}");
}

#[test]
fn a_file_stands_alone_and_a_table_has_no_picture() {
    let mut bars = figure(Kind::Bar, false, names(&["a"]), vec![Some(1.0)]);
    let file = chart(&bars).file().unwrap();
    assert!(file.starts_with("<svg xmlns=") && file.contains("#000000"));
    let inside = chart(&bars).svg().unwrap();
    assert!(!inside.contains("xmlns") && inside.contains("currentColor"));
    bars.kind = Kind::Table;
    assert_eq!(chart(&bars).svg(), None);
}
