// SPDX-License-Identifier: GPL-2.0-or-later
//! Flame graphs: a box per path of calls, as wide as the instructions under it.

use super::tree::Calls;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The width of a graph, in units of the picture.
const WIDTH: f64 = 1_200.0;
/// The height of a row.
const ROW: f64 = 17.0;
/// Narrower boxes are left out.
const LEAST: f64 = 0.5;
/// The width of a letter.
const LETTER: f64 = 6.6;

#[derive(Default)]
struct Box {
    total: u64,
    below: BTreeMap<String, Box>,
}

/// A picture of the calls, in which the whole width is `scale` instructions. Numbers are divided by
/// `divisor`.
pub fn svg(calls: &Calls, scale: u64, divisor: f64) -> String {
    let mut root = Box::default();
    for (path, (instructions, _)) in &calls.paths {
        let mut at = &mut root;
        at.total += instructions;
        for name in path {
            at = at.below.entry(name.clone()).or_default();
            at.total += instructions;
        }
    }
    let per_unit = WIDTH / scale.max(1) as f64;
    let rows = depth(&root, per_unit);
    let mut boxes = String::new();
    draw(
        &root,
        &mut boxes,
        0.0,
        0,
        &|value| value as f64 * per_unit,
        divisor,
    );
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\">{boxes}</svg>",
        rows as f64 * ROW
    )
}

fn depth(of: &Box, per_unit: f64) -> usize {
    of.below
        .values()
        .filter(|below| below.total as f64 * per_unit >= LEAST)
        .map(|below| 1 + depth(below, per_unit))
        .max()
        .unwrap_or(0)
}

fn draw(
    of: &Box,
    into: &mut String,
    mut x: f64,
    row: usize,
    width: &impl Fn(u64) -> f64,
    divisor: f64,
) {
    // The heaviest first, so that two graphs are easy to compare.
    let mut below: Vec<_> = of.below.iter().collect();
    below.sort_by_key(|(_, child)| std::cmp::Reverse(child.total));
    for (name, child) in below {
        let wide = width(child.total);
        if wide >= LEAST {
            let y = row as f64 * ROW;
            let title = crate::show::number(child.total as f64 / divisor);
            let letters = (wide / LETTER) as usize;
            let text: String = match name.chars().count() {
                count if count <= letters => name.clone(),
                _ if letters >= 4 => name.chars().take(letters - 1).chain(['…']).collect(),
                _ => String::new(),
            };
            // Writing to a string does not fail.
            let _ = write!(
                into,
                "<g><title>{}: {title}</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{wide:.1}\" \
                 height=\"{}\" fill=\"{}\"/>",
                escape(name),
                ROW - 1.0,
                colour(name)
            );
            if !text.is_empty() {
                let _ = write!(
                    into,
                    "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                    x + 2.0,
                    y + 12.0,
                    escape(&text)
                );
            }
            into.push_str("</g>");
            draw(child, into, x, row + 1, width, divisor);
        }
        x += wide;
    }
}

/// A function has one colour in all graphs; ours stand out.
fn colour(name: &str) -> String {
    let hash = name
        .bytes()
        .fold(7u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte));
    let hue = if name.contains("cohort") { 200 } else { 25 };
    format!("hsl({} 70% {}%)", hue + hash % 25, 68 + hash / 25 % 14)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::calls;
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_what_is_under_it_and_below_its_caller() {
        let all = calls(&[("fork", 25, 1), ("fork;copy<>", 75, 1), ("tiny", 0, 1)]);
        let picture = svg(&all, 200, 1.0);
        assert!(
            picture.contains("<title>fork: 100</title><rect x=\"0.0\" y=\"0\" width=\"600.0\"")
        );
        assert!(
            picture
                .contains("<title>copy&lt;>: 75</title><rect x=\"0.0\" y=\"17\" width=\"450.0\"")
        );
        assert!(picture.contains("viewBox=\"0 0 1200 34\"") && !picture.contains("tiny"));
        // Per call of something that was called 10 times.
        assert!(svg(&all, 200, 10.0).contains("<title>fork: 10</title>"));
    }
}
