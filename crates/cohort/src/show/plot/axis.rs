// SPDX-License-Identifier: GPL-2.0-or-later
//! An axis, linear or logarithmic, with short numbers at its lines.

use plotters::coord::ranged1d::{
    BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter,
};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// So many letters have room below an axis.
const LINE: usize = 34;

/// Places on it are values, or on a logarithmic one their decimal logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    log: bool,
}

impl Axis {
    /// An axis that shows all of `places`; whole decades where it is logarithmic.
    pub fn new(places: impl Iterator<Item = f64> + Clone, log: bool) -> Self {
        let least = places.clone().fold(f64::INFINITY, f64::min);
        let most = places.fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match (least <= most, log) {
            (false, _) => (0.0, 1.0),
            (true, true) => (least.floor(), most.ceil().max(least.floor() + 1.0)),
            // Equal values get an axis of some length.
            (true, false) if least == most => (least, least + least.abs().max(1.0)),
            (true, false) => (least, most),
        };
        Axis { from, to, log }
    }

    /// Whether the numbers of these places have room side by side.
    fn fits(&self, points: &[f64]) -> bool {
        let longest = points.iter().map(|at| self.format_ext(at).len()).max();
        points.len() * (longest.unwrap_or(0) + 2) <= LINE
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        if !self.log {
            let range = RangedCoordf64::from(self.range());
            let points = [6, 4, 3].map(|most| range.key_points(BoldPoints(most)));
            let [.., fewest] = &points;
            return points
                .iter()
                .find(|it| self.fits(it))
                .unwrap_or(fewest)
                .clone();
        }
        let every = ((self.to - self.from) / 8.0).ceil() as usize;
        let decades = self.from as i32..=self.to as i32;
        decades.step_by(every.max(1)).map(f64::from).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    /// The numbers of a linear axis are all of one unit.
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        let (value, most) = match self.log {
            true => (10f64.powf(*place), 10f64.powf(*place)),
            false => (*place, self.from.abs().max(self.to.abs()) / 2.0),
        };
        let mut units = [(1e9, " G"), (1e6, " M"), (1e3, " k")].into_iter();
        let (unit, sign) = units.find(|(unit, _)| most >= *unit).unwrap_or((1.0, ""));
        // What a multiple of a step has behind its last digit is noise.
        match (value / unit * 1e6).round() / 1e6 {
            0.0 => "0".into(),
            number => format!("{number}{sign}"),
        }
    }
}
