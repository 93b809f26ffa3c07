// SPDX-License-Identifier: GPL-2.0-or-later
//! The small language in which an experiment says what a figure is.
//!
//! Numbers, `+ - * / ( )`, `VARIANT:METRIC` where the metric has one value, a reducer of one
//! `VARIANT:METRIC` where it has many or of several expressions, `nth(N, VARIANT:METRIC)` and
//! `below(LIMIT, VARIANT:METRIC)`, and `paper("ITEM/VALUE")`. Parsing is apart from evaluating, so
//! that a mistake is found when the file is read and not after an hour's run.

use winnow::Parser;
use winnow::ascii::multispace0;
use winnow::combinator::{opt, preceded, separated, separated_foldl1};
use winnow::error::ParserError;
use winnow::token::{one_of, take_while};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// A figure of a paper.
    Paper(String),
    /// A metric of a variant, made one number.
    Metric {
        /// How.
        reduce: Reduce,
        /// The variant.
        variant: String,
        /// The metric.
        metric: String,
    },
    /// Several expressions, made one number.
    Several(Reduce, Vec<Expr>),
    /// One number of a metric's values, by an argument.
    Pick {
        /// How.
        pick: Pick,
        /// The argument.
        by: Box<Expr>,
        /// The variant.
        variant: String,
        /// The metric.
        metric: String,
    },
    /// Two operands.
    Binary(Box<Expr>, char, Box<Expr>),
}

/// How many values become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// There must be one only.
    Only,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The middle one.
    Median,
    /// The lower quartile: a quarter of the way from the smallest to the largest, by rank.
    Lower,
    /// The upper quartile.
    Upper,
    /// The 95th percentile, by rank.
    P95,
    /// The 99th percentile, by rank.
    P99,
    /// The arithmetic mean.
    Mean,
    /// All together.
    Sum,
    /// How many there are.
    Count,
    /// The first printed.
    First,
    /// The last printed.
    Last,
}

impl Reduce {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "min" => Reduce::Min,
            "max" => Reduce::Max,
            "median" => Reduce::Median,
            "lower" => Reduce::Lower,
            "upper" => Reduce::Upper,
            "p95" => Reduce::P95,
            "p99" => Reduce::P99,
            "mean" => Reduce::Mean,
            "sum" => Reduce::Sum,
            "count" => Reduce::Count,
            "first" => Reduce::First,
            "last" => Reduce::Last,
            _ => return None,
        })
    }

    /// The values made one number.
    pub fn apply(self, values: &[f64]) -> Result<f64, String> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let sum: f64 = values.iter().sum();
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
            return if self == Reduce::Count {
                Ok(0.0)
            } else {
                Err("it has no value".into())
            };
        };
        let middle = sorted.len() / 2;
        Ok(match self {
            Reduce::Only if values.len() > 1 => {
                return Err(format!(
                    "it has {} values: say min(), median() or another",
                    values.len()
                ));
            }
            Reduce::Only | Reduce::First => first,
            Reduce::Last => last,
            Reduce::Min => sorted[0],
            Reduce::Max => sorted[sorted.len() - 1],
            Reduce::Median if sorted.len() % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            Reduce::Median => sorted[middle],
            Reduce::Lower => quantile(&sorted, 0.25),
            Reduce::Upper => quantile(&sorted, 0.75),
            Reduce::P95 => quantile(&sorted, 0.95),
            Reduce::P99 => quantile(&sorted, 0.99),
            Reduce::Mean => sum / values.len() as f64,
            Reduce::Sum => sum,
            Reduce::Count => values.len() as f64,
        })
    }
}

/// How an argument makes one number of many values, which stand in the order of their printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The value of this number, from 1 on.
    Nth,
    /// How many values are less than this.
    Below,
}

impl Pick {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "nth" => Pick::Nth,
            "below" => Pick::Below,
            _ => return None,
        })
    }

    fn apply(self, by: f64, values: &[f64]) -> Result<f64, String> {
        match self {
            Pick::Nth if by < 1.0 || by.fract() != 0.0 || by > values.len() as f64 => Err(format!(
                "it has {} values and none number {by}",
                values.len()
            )),
            Pick::Nth => Ok(values[by as usize - 1]),
            Pick::Below if values.is_empty() => Err("it has no value".into()),
            Pick::Below => Ok(values.iter().filter(|value| **value < by).count() as f64),
        }
    }
}

/// The value at a share of the way through values in order, between two of them in proportion.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Where an expression's figures come from.
pub trait Figures {
    /// The values of a metric of a variant, or why there are none.
    fn values(&self, variant: &str, metric: &str) -> Result<Vec<f64>, String>;
    /// A paper's figure, or why there is none.
    fn paper(&self, id: &str) -> Result<f64, String>;
}

impl Expr {
    /// Reads an expression; the error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text;
        let read = sum(&mut rest).and_then(|expr| match rest.trim_start() {
            "" => Ok(expr),
            rest => unexpected(rest),
        });
        read.map_err(|Why(why)| format!("{} (`{text}`)", why.unwrap_or_default()))
    }

    /// The expression's value, or in words why it has none.
    pub fn evaluate(&self, figures: &dyn Figures) -> Result<f64, String> {
        let value = match self {
            Expr::Number(number) => *number,
            Expr::Paper(id) => figures.paper(id)?,
            Expr::Metric {
                reduce,
                variant,
                metric,
            } => {
                let values = figures.values(variant, metric)?;
                reduce
                    .apply(&values)
                    .map_err(|why| format!("{variant}:{metric}: {why}"))?
            }
            Expr::Several(reduce, parts) => {
                let values: Result<Vec<_>, _> =
                    parts.iter().map(|part| part.evaluate(figures)).collect();
                reduce.apply(&values?)?
            }
            Expr::Pick {
                pick,
                by,
                variant,
                metric,
            } => pick
                .apply(by.evaluate(figures)?, &figures.values(variant, metric)?)
                .map_err(|why| format!("{variant}:{metric}: {why}"))?,
            Expr::Binary(left, operator, right) => {
                let (left, right) = (left.evaluate(figures)?, right.evaluate(figures)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ if right == 0.0 => return Err("a division by zero".into()),
                    _ => left / right,
                }
            }
        };
        Ok(value)
    }

    /// Calls `each` for every variant and every paper figure that is named.
    pub fn names(&self, variant: &mut dyn FnMut(&str), paper: &mut dyn FnMut(&str)) {
        match self {
            Expr::Number(_) => {}
            Expr::Paper(id) => paper(id),
            Expr::Metric { variant: name, .. } => variant(name),
            Expr::Several(_, parts) => parts.iter().for_each(|part| part.names(variant, paper)),
            Expr::Pick {
                by, variant: name, ..
            } => {
                variant(name);
                by.names(variant, paper);
            }
            Expr::Binary(left, _, right) => {
                left.names(variant, paper);
                right.names(variant, paper);
            }
        }
    }
}

/// Why a text is not an expression; nothing where another reading may still be tried.
struct Why(Option<String>);

type Read<T> = Result<T, Why>;

impl ParserError<&str> for Why {
    type Inner = Self;

    fn from_input(_: &&str) -> Self {
        Why(None)
    }

    fn is_backtrack(&self) -> bool {
        self.0.is_none()
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

fn wrong<T>(why: impl Into<String>) -> Read<T> {
    Err(Why(Some(why.into())))
}

/// Names what is at the beginning of the rest, where it cannot be.
fn unexpected<T>(mut rest: &str) -> Read<T> {
    if let Ok(word) = word(&mut rest) {
        return wrong(format!("unexpected {word}"));
    }
    match rest.trim_start().chars().next() {
        Some(sign) => wrong(format!("unexpected `{sign}`")),
        None => wrong("the expression ends too early"),
    }
}

fn sign<'a>(signs: &'static str) -> impl Parser<&'a str, char, Why> {
    preceded(multispace0, one_of(move |c| signs.contains(c)))
}

/// A number or a name, which may begin with a digit and hold hyphens: a minus stands apart.
fn word<'a>(rest: &mut &'a str) -> Read<&'a str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    let word = (
        one_of(|c: char| c.is_ascii_alphanumeric()),
        take_while(0.., inner),
    );
    preceded(multispace0, word.take()).parse_next(rest)
}

fn binary(left: Expr, operator: char, right: Expr) -> Expr {
    Expr::Binary(Box::new(left), operator, Box::new(right))
}

fn sum(rest: &mut &str) -> Read<Expr> {
    separated_foldl1(product, sign("+-"), binary).parse_next(rest)
}

fn product(rest: &mut &str) -> Read<Expr> {
    separated_foldl1(operand, sign("*/"), binary).parse_next(rest)
}

fn operand(rest: &mut &str) -> Read<Expr> {
    match opt(sign("-(")).parse_next(rest)? {
        Some('-') => return Ok(binary(Expr::Number(0.0), '-', operand(rest)?)),
        Some(_) => {
            let expr = sum(rest)?;
            return close(rest).map(|()| expr);
        }
        None => {}
    }
    let Some(word) = opt(word).parse_next(rest)? else {
        return unexpected(rest);
    };
    match word.parse() {
        Ok(number) if word.starts_with(|c: char| c.is_ascii_digit()) => Ok(Expr::Number(number)),
        _ if word.contains(':') => metric(word, Reduce::Only),
        _ => call(word, rest),
    }
}

fn close(rest: &mut &str) -> Read<()> {
    match opt(sign(")")).parse_next(rest)? {
        Some(_) => Ok(()),
        None => wrong("a `)` is missing"),
    }
}

fn call(name: &str, rest: &mut &str) -> Read<Expr> {
    let reduce = Reduce::named(name);
    let pick = Pick::named(name);
    if reduce.is_none() && pick.is_none() && name != "paper" {
        return wrong(format!(
            "`{name}` is neither VARIANT:METRIC nor one of min, max, median, lower, upper, p95, p99, mean, sum, \
             count, first, last, nth, below, paper"
        ));
    }
    if opt(sign("(")).parse_next(rest)?.is_none() {
        return wrong(format!("{name} needs its argument in parentheses"));
    }
    let expr = match (pick, reduce) {
        (Some(pick), _) => {
            let by = Box::new(sum(rest)?);
            let word = opt(preceded(sign(","), word)).parse_next(rest)?;
            let Some(word) = word.filter(|word| word.contains(':')) else {
                return wrong(format!("{name}() takes a number and one VARIANT:METRIC"));
            };
            let (variant, metric) = names(word)?;
            Expr::Pick {
                pick,
                by,
                variant,
                metric,
            }
        }
        (None, Some(reduce)) => reduced(name, reduce, rest)?,
        (None, None) => Expr::Paper(quoted(rest)?),
    };
    close(rest).map(|()| expr)
}

/// A text in quotes.
fn quoted(rest: &mut &str) -> Read<String> {
    if opt(sign("\"")).parse_next(rest)?.is_none() {
        return wrong("paper() takes one text, \"ITEM/VALUE\"");
    }
    match rest.split_once('"') {
        Some((text, behind)) => {
            *rest = behind;
            Ok(text.into())
        }
        None => wrong("a text without its closing quote"),
    }
}

/// The values of one metric, or expressions with commas between them.
fn reduced(name: &str, reduce: Reduce, rest: &mut &str) -> Read<Expr> {
    let mut parts: Vec<Expr> = separated(1.., sum, sign(",")).parse_next(rest)?;
    match (parts.len(), parts.pop()) {
        (
            1,
            Some(Expr::Metric {
                reduce: Reduce::Only,
                variant,
                metric,
            }),
        ) => Ok(Expr::Metric {
            reduce,
            variant,
            metric,
        }),
        (2.., Some(last)) => {
            parts.push(last);
            Ok(Expr::Several(reduce, parts))
        }
        _ => wrong(format!(
            "{name}() takes one VARIANT:METRIC or several expressions"
        )),
    }
}

fn metric(word: &str, reduce: Reduce) -> Read<Expr> {
    let (variant, metric) = names(word)?;
    Ok(Expr::Metric {
        reduce,
        variant,
        metric,
    })
}

/// The variant and the metric.
fn names(word: &str) -> Read<(String, String)> {
    match word.split_once(':') {
        Some((variant, metric)) if !variant.is_empty() && !metric.is_empty() => {
            Ok((variant.to_string(), metric.to_string()))
        }
        _ => wrong(format!("`{word}` is not VARIANT:METRIC")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Figures for Fixed {
        fn values(&self, variant: &str, metric: &str) -> Result<Vec<f64>, String> {
            match (variant, metric) {
                ("stock", "fork-1mb") => Ok(vec![30.0, 10.0, 20.0, 60.0]),
                ("shared", "fork-1mb") => Ok(vec![5.0]),
                ("shared", "none") => Ok(vec![0.0]),
                _ => Err(format!("{variant} printed no {metric}")),
            }
        }
        fn paper(&self, id: &str) -> Result<f64, String> {
            match id {
                "p.t4/speed-up" => Ok(2.1),
                _ => Err(format!("no {id}")),
            }
        }
    }

    fn value(text: &str) -> Result<f64, String> {
        Expr::parse(text)?.evaluate(&Fixed)
    }

    #[test]
    fn arithmetic_follows_the_usual_precedence() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 4 - 3", 3.0),
            ("100 * (1 - 1 / 4)", 75.0),
            ("-2 + 5", 3.0),
            ("2.5", 2.5),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn reducers_make_one_number_of_many() {
        for (text, expected) in [
            ("min(stock:fork-1mb)", 10.0),
            ("max(stock:fork-1mb)", 60.0),
            ("median(stock:fork-1mb)", 25.0),
            ("mean(stock:fork-1mb)", 30.0),
            ("sum(stock:fork-1mb)", 120.0),
            ("count(stock:fork-1mb)", 4.0),
            ("first(stock:fork-1mb)", 30.0),
            ("last(stock:fork-1mb)", 60.0),
            ("min(stock:fork-1mb) / shared:fork-1mb", 2.0),
            ("max(shared:fork-1mb, 2 * 4, 1)", 8.0),
            ("mean(min(stock:fork-1mb), max(stock:fork-1mb))", 35.0),
            ("nth(3, stock:fork-1mb)", 20.0),
            ("nth(8 / 2, stock:fork-1mb)", 60.0),
            ("below(20, stock:fork-1mb)", 1.0),
            ("below(3 * min(stock:fork-1mb), stock:fork-1mb)", 2.0),
            ("below(1, stock:fork-1mb)", 0.0),
            ("paper(\"p.t4/speed-up\") * 2", 4.2),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn percentiles_lie_between_the_values_of_their_ranks() {
        // 10, 20, 30 and 60: 2.85 and 2.97 steps from the first.
        for (text, expected) in [("p95(stock:fork-1mb)", 55.5), ("p99(stock:fork-1mb)", 59.1)] {
            let found = value(text).unwrap();
            assert!((found - expected).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn what_has_no_value_says_why() {
        for (text, word) in [
            ("stock:fork-1mb", "4 values"),
            ("other:fork-1mb", "printed no"),
            ("min(stock:fork-1mb, 1)", "4 values"),
            ("nth(5, stock:fork-1mb)", "none number 5"),
            ("nth(0, stock:fork-1mb)", "none number 0"),
            ("nth(3 / 2, stock:fork-1mb)", "none number 1.5"),
            ("below(5, other:fork-1mb)", "printed no"),
            ("1 / shared:none", "division by zero"),
            ("paper(\"p.t5/x\")", "no p.t5/x"),
        ] {
            let why = value(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn a_mistake_is_found_when_reading() {
        for (text, word) in [
            ("", "ends too early"),
            ("1 +", "ends too early"),
            ("(1", "`)` is missing"),
            ("1 2", "unexpected 2"),
            ("fork", "neither"),
            ("least(stock:x)", "least"),
            ("min stock:x", "parentheses"),
            ("min(3)", "VARIANT:METRIC"),
            ("nth(stock:x)", "a number and one"),
            ("nth(1, 2)", "a number and one"),
            ("below(1, x)", "VARIANT:METRIC"),
            ("min(stock:x, )", "unexpected `)`"),
            ("min(stock:x + 1)", "several expressions"),
            ("paper(x)", "one text"),
            ("stock:", "VARIANT:METRIC"),
            ("a:b ^ 2", "unexpected `^`"),
            ("paper(\"x)", "without its closing quote"),
        ] {
            let error = Expr::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_names_in_an_expression_are_found() {
        let expr =
            Expr::parse("min(a:x) / max(1, b:y) + below(c:z, d:x) - paper(\"p/q\")").unwrap();
        let (mut variants, mut papers) = (Vec::new(), Vec::new());
        expr.names(&mut |name| variants.push(name.to_string()), &mut |id| {
            papers.push(id.to_string())
        });
        variants.sort();
        assert_eq!(variants, ["a", "b", "c", "d"]);
        assert_eq!(papers, ["p/q"]);
    }

    #[test]
    fn quartiles_lie_between_values() {
        let apply = |reduce: Reduce, values: &[f64]| reduce.apply(values).unwrap();
        assert_eq!(apply(Reduce::Lower, &[5.0, 1.0, 2.0, 4.0, 3.0]), 2.0);
        assert_eq!(apply(Reduce::Upper, &[5.0, 1.0, 2.0, 4.0, 3.0]), 4.0);
        assert_eq!(apply(Reduce::Lower, &[1.0, 2.0]), 1.25);
        assert_eq!(apply(Reduce::Upper, &[7.0]), 7.0);
        assert!(Reduce::Lower.apply(&[]).is_err());
    }
}
