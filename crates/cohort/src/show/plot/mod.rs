// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures as SVG, each as narrow as a telephone, so that a page can put several side by side.

mod axis;
mod bars;
mod lines;
#[cfg(test)]
mod tests;

use super::figure::{FigureResult, Kind};
use super::text::number;
use axis::Axis;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Of the picture, in a screen's pixels.
const WIDTH: i32 = 430;
/// The height of a line of text.
const LINE: i32 = 16;
/// Plotters divides this by 1.24: 12 pixels.
const FONT: (&str, i32) = ("sans-serif", 15);
/// The width of a letter of a wide font at that size.
const LETTER: f64 = 7.2;
/// Colours that stay apart for colour-blind eyes and in grey.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x9a, 0x63, 0x24),
];
/// What we compare with is grey in every figure.
const STOCK: RGBColor = RGBColor(0x9a, 0x9a, 0x9a);
const MARK: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// A value to compare with: a line across a bar, or a dash at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Whose it is, for instance `paper`.
    pub label: String,
    /// The series and the x, by their places in the figure.
    pub series: usize,
    pub at: usize,
    pub value: f64,
}

/// A figure with what it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Chart<'a> {
    pub figure: &'a FigureResult,
    pub marks: &'a [Mark],
    /// A bar behind every bar: its name and its value.
    pub behind: Option<(&'a str, f64)>,
}

/// The figure as an SVG element; a table has none.
pub fn svg(figure: &FigureResult) -> Option<String> {
    let (marks, behind) = (&[][..], None);
    Chart {
        figure,
        marks,
        behind,
    }
    .svg()
}

/// A name of the legend, where it stands, and how what it names is drawn.
struct Named {
    name: String,
    colour: RGBColor,
    /// A bar or a line, else a mark.
    series: bool,
    place: (i32, i32),
}

impl Chart<'_> {
    /// An element inside a page, in the page's colours; a table has none.
    pub fn svg(&self) -> Option<String> {
        let (tag, body) = self.draw()?;
        // What is black has the colour of the page's text, dark or light.
        Some(format!(
            "<svg {tag}{}",
            body.replace("#000000", "currentColor")
        ))
    }

    /// A file of its own, on white; a table has none.
    pub fn file(&self) -> Option<String> {
        let (tag, body) = self.draw()?;
        Some(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" {tag}\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>{body}"
        ))
    }

    /// The attributes of the SVG and all that is behind its first tag.
    fn draw(&self) -> Option<(String, String)> {
        let below = match self.figure.kind {
            Kind::Table => return None,
            Kind::Line => lines::HEIGHT,
            Kind::Bar | Kind::Box => self.bars_height(),
        };
        let legend = self.legend();
        let above = legend.last().map_or(0, |last| last.place.1 + LINE + 4) + 6;
        let mut text = String::new();
        {
            let size = (WIDTH as u32, (above + below) as u32);
            let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
            let (top, bottom) = root.split_vertically(above);
            let drawn = draw_legend(&top, &legend).and_then(|()| match self.figure.kind {
                Kind::Line => self.draw_lines(&bottom),
                _ => self.draw_bars(&bottom),
            });
            // A backend fails only where it writes to a file.
            drawn.and_then(|()| Ok(root.present()?)).ok()?;
        }
        let (_, body) = text.split_once('>')?;
        let label = self.figure.title.replace('&', "&amp;").replace('<', "&lt;");
        let tag = format!(
            "viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
            above + below,
            label.replace('"', "&quot;")
        );
        Some((tag, body.to_string()))
    }

    /// Where a value is on an axis; none where a logarithm does not exist.
    fn scale(&self, value: f64) -> Option<f64> {
        match self.figure.log {
            true => (value > 0.0).then(|| value.log10()),
            false => Some(value),
        }
        .filter(|value| value.is_finite())
    }

    /// The value of a series at an x, as the axis has it.
    fn value(&self, series: usize, at: usize) -> Option<f64> {
        let values = &self.figure.series[series].values;
        values
            .get(at)
            .copied()
            .flatten()
            .and_then(|value| self.scale(value))
    }

    /// The least and the most of a value, as the axis has them.
    fn range(&self, series: usize, at: usize) -> Option<(f64, f64)> {
        let [least, most] = self.figure.series[series].spread(at)?;
        Some((self.scale(least)?, self.scale(most)?))
    }

    fn marks(&self, series: usize, at: usize) -> impl Iterator<Item = (&Mark, f64)> {
        let here = move |mark: &&Mark| mark.series == series && mark.at == at;
        let marks = self.marks.iter().filter(here);
        marks.filter_map(|mark| Some((mark, self.scale(mark.value)?)))
    }

    /// The value of a label's marks if all have the same.
    fn common(&self, label: &str) -> Option<f64> {
        let values = || self.marks.iter().filter(|mark| mark.label == label);
        let first = values().next()?.value;
        (values().count() > 1 && values().all(|mark| mark.value == first)).then_some(first)
    }

    /// The axis of all values. Lengths can be compared on it, but those of boxes, which would be
    /// one line on an axis from zero.
    fn values(&self) -> Axis {
        let marks = self.marks.iter().map(|mark| mark.value);
        let mut all: Vec<f64> = marks.chain(self.behind.map(|(_, value)| value)).collect();
        for series in &self.figure.series {
            all.extend(series.values.iter().flatten());
            match self.figure.kind {
                // Bounds stand in words beside a box: its whiskers are of what was measured.
                Kind::Box => all.extend(series.ranges.iter().flatten().flatten()),
                _ => {
                    let spreads = (0..series.values.len()).filter_map(|at| series.spread(at));
                    all.extend(spreads.flatten());
                }
            }
        }
        if self.figure.kind != Kind::Box && !self.figure.log {
            all.push(0.0);
        }
        self.axis(&all)
    }

    fn axis(&self, values: &[f64]) -> Axis {
        let places = values.iter().filter_map(|value| self.scale(*value));
        Axis::new(places, self.figure.log)
    }

    fn legend(&self) -> Vec<Named> {
        let mut names: Vec<(String, RGBColor, bool)> = Vec::new();
        names.extend(self.behind.map(|(name, _)| (name.into(), STOCK, true)));
        let several = self.figure.series.len() > 1 || self.behind.is_some();
        if several && self.figure.kind != Kind::Box {
            let series = self.figure.series.iter().enumerate();
            names.extend(series.map(|(of, it)| (it.label.clone(), colour(&it.label, of), true)));
        }
        for mark in self.marks {
            let name = match self.common(&mark.label) {
                Some(value) => format!("{}: {}", mark.label, number(value)),
                None => mark.label.clone(),
            };
            if !names.iter().any(|(other, ..)| *other == name) {
                names.push((name, MARK, false));
            }
        }
        let (mut x, mut y) = (2, 2);
        let place = |(name, colour, series): (String, RGBColor, bool)| {
            let width = 34 + text_width(&name);
            if x > 2 && x + width > WIDTH {
                (x, y) = (2, y + LINE);
            }
            let place = (x, y);
            x += width;
            Named {
                name,
                colour,
                series,
                place,
            }
        };
        names.into_iter().map(place).collect()
    }
}

fn draw_legend(area: &Area, legend: &[Named]) -> Drawn {
    for named in legend {
        let (x, y) = named.place;
        match named.series {
            true => {
                let corners = [(x, y + 2), (x + 12, y + 13)];
                area.draw(&Rectangle::new(corners, named.colour.filled()))?;
            }
            false => {
                let line = [(x + 6, y + 1), (x + 6, y + 14)];
                area.draw(&PathElement::new(line, named.colour.stroke_width(3)))?;
            }
        }
        area.draw(&Text::new(named.name.clone(), (x + 18, y + 2), FONT))?;
    }
    Ok(())
}

fn text_width(text: &str) -> i32 {
    (LETTER * text.chars().count() as f64) as i32
}

/// The colour of a bar or a line: grey for what is not ours.
fn colour(label: &str, place: usize) -> RGBColor {
    let first = label.split(['-', ' ', ',']).next().unwrap_or_default();
    match first {
        "stock" | "pristine" | "none" => STOCK,
        "cohort" | "shared" | "ours" => COLOURS[0],
        _ => COLOURS[place % COLOURS.len()],
    }
}
