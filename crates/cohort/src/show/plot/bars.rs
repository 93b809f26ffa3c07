// SPDX-License-Identifier: GPL-2.0-or-later
//! Bars and boxes. They lie below their labels: a label of any length finds room, and none is
//! turned on its side.

use super::axis::Axis;
use super::{Area, Chart, Drawn, FONT, LETTER, LINE, MARK, STOCK, WIDTH, colour, text_width};
use crate::show::figure::Kind;
use crate::show::text::{number, wrap};
use plotters::coord::types::RangedCoordi32;
use plotters::prelude::*;

/// Values from left to right, pixels from the top down.
type Plot<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<Axis, RangedCoordi32>>;

/// The heights of a bar, of the space below a row, and of the axis.
const BAR: i32 = 15;
const GAP: i32 = 9;
const AXIS: i32 = 40;

impl Chart<'_> {
    /// The label of an x, as the lines above its bars.
    fn label(&self, at: usize) -> Vec<String> {
        wrap(
            &self.figure.x[at].text(),
            (f64::from(WIDTH) / LETTER) as usize,
        )
    }

    /// The series that have a bar; those of a box are drawn as one, beside which its median stands.
    fn drawn(&self) -> std::ops::Range<usize> {
        match self.figure.kind {
            Kind::Box => 2..3.min(self.figure.series.len()),
            _ => 0..self.figure.series.len(),
        }
    }

    fn rows_height(&self) -> i32 {
        let bars = BAR * self.drawn().len() as i32;
        let row = |at| LINE * self.label(at).len() as i32 + bars + GAP;
        (0..self.figure.x.len()).map(row).sum()
    }

    pub(super) fn bars_height(&self) -> i32 {
        self.rows_height() + AXIS
    }

    /// What stands behind a bar: its value, and what it is compared with where the legend does not
    /// say that.
    fn words(&self, series: usize, at: usize) -> String {
        let of = &self.figure.series[series];
        let Some(value) = of.values.get(at).copied().flatten() else {
            return "not measured".into();
        };
        let unit = match of.unit.as_str() {
            unit @ ("%" | "x" | "ms" | "MB" | "KB") => format!(" {unit}"),
            _ => String::new(),
        };
        let bounds = match self.figure.kind {
            Kind::Box => of.spread(at),
            _ => None,
        };
        let bounds = bounds.map_or(String::new(), |[least, most]| {
            format!(" ({} to {})", short(least), short(most))
        });
        let marks = self.marks(series, at);
        let marks = marks.filter(|(mark, _)| self.common(&mark.label).is_none());
        let marks = marks.map(|(mark, _)| format!("; {} {}", mark.label, short(mark.value)));
        let marks = marks.collect::<String>();
        format!("{}{unit}{bounds}{marks}", short(value))
    }

    pub(super) fn draw_bars(&self, area: &Area) -> Drawn {
        let places =
            || (0..self.figure.x.len()).flat_map(|at| self.drawn().map(move |of| (of, at)));
        let words = places().map(|(of, at)| text_width(&self.words(of, at)));
        let axis = self.values();
        let mut chart = ChartBuilder::on(area)
            .margin_left(16)
            .margin_right(words.max().unwrap_or(0) + 10)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(axis.clone(), self.rows_height()..0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(BLACK.mix(0.15))
            .label_style(FONT)
            .x_desc(self.figure.y_label.as_str())
            .draw()?;
        let plot = chart.plotting_area();
        let ground = if self.figure.log { axis.from } else { 0.0 };
        let mut top = 0;
        for at in 0..self.figure.x.len() {
            for line in self.label(at) {
                plot.draw(&Text::new(line, (axis.from, top), FONT))?;
                top += LINE;
            }
            for of in self.drawn() {
                let band = (top + 1, top + BAR - 2);
                let end = match self.figure.kind {
                    Kind::Box => self.draw_box(at, band, plot)?,
                    _ => self.draw_bar((of, at), ground, band, plot)?,
                };
                let text = Text::new(self.words(of, at), (6, 0), FONT);
                plot.draw(&(EmptyElement::at((end.unwrap_or(ground), top)) + text))?;
                top += BAR;
            }
            top += GAP;
        }
        Ok(())
    }

    /// Draws a bar with its spread and its marks. Returns where all of them end.
    fn draw_bar(
        &self,
        (of, at): (usize, usize),
        ground: f64,
        band: (i32, i32),
        plot: &Plot,
    ) -> Result<Option<f64>, Box<dyn std::error::Error>> {
        let mut ends = Vec::new();
        let behind = self.behind.and_then(|(_, value)| self.scale(value));
        if let Some(behind) = behind {
            let corners = [(ground, band.0), (behind, band.1)];
            plot.draw(&Rectangle::new(corners, STOCK.mix(0.5).filled()))?;
            ends.push(behind);
        }
        if let Some(value) = self.value(of, at) {
            let series = &self.figure.series[of].label;
            let colour = match self.figure.series.len() {
                1 if behind.is_none() => colour(&self.figure.x[at].text(), 0),
                _ => colour(series, of),
            };
            let inset = if behind.is_some() { 3 } else { 0 };
            let (from, to) = ((ground, band.0 + inset), (value, band.1 - inset));
            plot.draw(&Rectangle::new([from, to], colour.filled()))?;
            // A value that is next to nothing is seen by the edge of its bar.
            plot.draw(&PathElement::new(
                [(value, from.1), to],
                colour.stroke_width(2),
            ))?;
            ends.push(value);
        }
        if let Some((least, most)) = self.range(of, at) {
            let middle = (band.0 + band.1) / 2;
            let line = [(least, middle), (most, middle)];
            plot.draw(&PathElement::new(line, BLACK))?;
            for end in [least, most] {
                let line = [(end, middle - 3), (end, middle + 3)];
                plot.draw(&PathElement::new(line, BLACK))?;
            }
            ends.push(most);
        }
        for (_, value) in self.marks(of, at) {
            let line = [(value, band.0 - 1), (value, band.1 + 1)];
            plot.draw(&PathElement::new(line, MARK.stroke_width(3)))?;
            ends.push(value);
        }
        Ok(ends.into_iter().reduce(f64::max).map(|end| end.max(ground)))
    }

    /// Draws a box from quartile to quartile with the median in it, and whiskers to the least and
    /// the most. Returns where it ends; none if not all five values are there.
    fn draw_box(
        &self,
        at: usize,
        band: (i32, i32),
        plot: &Plot,
    ) -> Result<Option<f64>, Box<dyn std::error::Error>> {
        let of = 0..self.figure.series.len();
        let values: Vec<f64> = of.filter_map(|of| self.value(of, at)).collect();
        let [least, lower, median, upper, most] = values[..] else {
            return Ok(None);
        };
        let middle = (band.0 + band.1) / 2;
        let style = colour(&self.figure.x[at].text(), 0).mix(0.7).filled();
        plot.draw(&PathElement::new([(least, middle), (most, middle)], BLACK))?;
        plot.draw(&Rectangle::new([(lower, band.0), (upper, band.1)], style))?;
        for (value, half) in [(least, 3), (median, 7), (most, 3)] {
            let line = [(value, middle - half), (value, middle + half)];
            plot.draw(&PathElement::new(line, BLACK))?;
        }
        Ok(Some(most))
    }
}

/// A number with the digits that a plot shows.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => number(value.round()),
        size if size >= 10.0 && size != size.trunc() => format!("{value:.1}"),
        _ => number(value),
    }
}
