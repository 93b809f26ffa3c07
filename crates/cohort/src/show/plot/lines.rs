// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines over an axis of numbers.

use super::{Area, Chart, Drawn, FONT, MARK, colour};
use crate::show::figure::X;
use plotters::prelude::*;

/// With both axes.
pub(super) const HEIGHT: i32 = 270;

impl Chart<'_> {
    pub(super) fn draw_lines(&self, area: &Area) -> Drawn {
        let number = |x: &X| match x {
            X::Number(number) => self.scale(*number),
            X::Text(_) => None,
        };
        let numbers = self.figure.x.iter().filter_map(|x| match x {
            X::Number(number) => Some(*number),
            X::Text(_) => None,
        });
        let mut numbers: Vec<f64> = numbers.collect();
        if !self.figure.log {
            numbers.push(0.0);
        }
        let mut chart = ChartBuilder::on(area)
            .margin_left(4)
            .margin_right(22)
            .margin_top(8)
            .x_label_area_size(40)
            .y_label_area_size(66)
            .build_cartesian_2d(self.axis(&numbers), self.values())?;
        chart
            .configure_mesh()
            .bold_line_style(BLACK.mix(0.15))
            .label_style(FONT)
            .x_desc(self.figure.x_label.as_str())
            .y_desc(self.figure.y_label.as_str())
            .draw()?;
        for (of, series) in self.figure.series.iter().enumerate() {
            let colour = colour(&series.label, of);
            let xs = || self.figure.x.iter().map(number).enumerate();
            let points = xs().filter_map(|(at, x)| Some((x?, self.value(of, at)?)));
            let points: Vec<(f64, f64)> = points.collect();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            let dot = |point| Circle::new(point, 3, colour.filled());
            chart.draw_series(points.into_iter().map(dot))?;
            for (at, x) in xs().filter_map(|(at, x)| Some((at, x?))) {
                let spread = self
                    .range(of, at)
                    .map(|(least, most)| [(x, least), (x, most)]);
                let spread = spread.map(|line| PathElement::new(line, colour.stroke_width(1)));
                chart.draw_series(spread)?;
                let dash = |(_, value)| {
                    let line = PathElement::new([(-8, 0), (8, 0)], MARK.stroke_width(3));
                    EmptyElement::at((x, value)) + line
                };
                chart.draw_series(self.marks(of, at).map(dash))?;
            }
        }
        Ok(())
    }
}
