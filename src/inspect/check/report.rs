//! The rows of a check, as a table for people and as JSON for programs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Error;

/// How one thing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Good,
    /// It works, or may be done without; worth knowing.
    Warning,
    /// It does not work, and a load needs it.
    Failed,
    /// It could not be tried.
    NotTried,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::NotTried => "not tried",
        }
    }

    /// Returns the name that programs read.
    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::NotTried => "not_tried",
        }
    }

    /// Returns the colour code of a terminal.
    fn colour(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warning => "33",
            Self::Failed => "31",
            Self::NotTried => "2",
        }
    }
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub step: &'static str,
    /// How it went.
    pub verdict: Verdict,
    /// How long it took; `None` when it was not tried.
    pub time: Option<Duration>,
    /// What was tried and what came back.
    pub text: String,
    /// The causes of a failure, the nearest first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What came back, short of an error.
#[derive(Debug)]
pub(super) struct Finding {
    verdict: Verdict,
    text: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Finding {
    pub(super) fn good(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, text: text.into(), causes: Vec::new(), hint: None }
    }

    pub(super) fn warning(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, text: text.into(), causes: Vec::new(), hint: Some(hint.into()) }
    }

    pub(super) fn failed(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failed, ..Self::warning(text, hint) }
    }

    pub(super) fn not_tried(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotTried, text: reason.into(), causes: Vec::new(), hint: None }
    }

    /// Returns what an error says, as a warning.
    pub(super) fn warning_of(error: &Error, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, text: text.into(), ..Self::of(error) }
    }

    fn of(error: &Error) -> Self {
        let version = error.version().map(|version| format!("version {version}: ")).unwrap_or_default();
        Self {
            verdict: Verdict::Failed,
            text: format!("{version}{error}"),
            causes: error.causes(),
            hint: error.hint_text().map(str::to_owned),
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.verdict == Verdict::Good
    }
}

impl Row {
    pub(super) fn new(step: &'static str, time: Duration, found: Result<Finding, Error>) -> Self {
        let Finding { verdict, text, causes, hint } = found.unwrap_or_else(|error| Finding::of(&error));
        let time = (verdict != Verdict::NotTried).then_some(time);
        Self { step, verdict, time, text, causes, hint }
    }
}

/// Everything that was tried on a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The root that was checked.
    pub destination: String,
    /// What was tried, in order.
    pub rows: Vec<Row>,
    /// URLs of objects that were written and could not be deleted.
    pub left_behind: Vec<String>,
}

impl Check {
    /// Whether something has to be mended before a load can go well.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Failed)
    }

    /// Returns the table for people.
    pub fn render(&self, is_coloured: bool) -> String {
        let head = ["step", "result", "time", "what was tried, and what came back"];
        let cells: Vec<[String; 3]> = self.rows.iter().map(Row::cells).collect();
        let width = |column: usize| {
            let texts = cells.iter().map(|cells| cells[column].as_str()).chain([head[column]]);
            texts.map(|text| text.chars().count()).max().unwrap_or_default()
        };
        let widths = [width(0), width(1), width(2)];
        let line = |cells: [&str; 3], colour: Option<&str>, text: &str| {
            let padded: Vec<String> = cells
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
                .collect();
            let result = match colour.filter(|_| is_coloured) {
                Some(colour) => format!("\u{1b}[{colour}m{}\u{1b}[0m", padded[1]),
                None => padded[1].clone(),
            };
            format!("{}  {result}  {}  {text}\n", padded[0], padded[2])
        };
        let mut table = format!("{}\n\n", self.destination);
        table += &line([head[0], head[1], head[2]], None, head[3]);
        let indent = " ".repeat(widths.iter().sum::<usize>() + 6);
        for (row, cells) in self.rows.iter().zip(&cells) {
            table += &line([&cells[0], &cells[1], &cells[2]], Some(row.verdict.colour()), &row.text);
            for cause in &row.causes {
                table += &format!("{indent}caused by: {cause}\n");
            }
            if let Some(hint) = &row.hint {
                table += &format!("{indent}hint: {hint}\n");
            }
        }
        format!("{table}\n{}\n", self.conclusion())
    }

    fn conclusion(&self) -> String {
        let count = |verdict: Verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let (failed, warnings, not_tried) = (count(Verdict::Failed), count(Verdict::Warning), count(Verdict::NotTried));
        let mut parts = Vec::new();
        for (count, one, many) in [
            (failed, "thing has to be mended", "things have to be mended"),
            (warnings, "warning", "warnings"),
            (not_tried, "thing was not tried", "things were not tried"),
        ] {
            match count {
                0 => {}
                1 => parts.push(format!("1 {one}")),
                _ => parts.push(format!("{count} {many}")),
            }
        }
        match parts.is_empty() {
            true => "everything that a load needs works".to_owned(),
            false => parts.join(", "),
        }
    }

    /// Returns the same for programs.
    pub fn to_json(&self) -> Value {
        let outcome = match self.has_failed() {
            true => "failed",
            false if self.rows.iter().any(|row| row.verdict == Verdict::Warning) => "warning",
            false => "ok",
        };
        json!({
            "destination": self.destination,
            "outcome": outcome,
            "steps": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "left_behind": self.left_behind,
        })
    }
}

impl Row {
    fn cells(&self) -> [String; 3] {
        let time = self.time.map_or_else(
            || "-".to_owned(),
            |time| match time.as_millis() {
                ms @ 0..1_000 => format!("{ms} ms"),
                _ => format!("{:.1} s", time.as_secs_f64()),
            },
        );
        [self.step.to_owned(), self.verdict.text().to_owned(), time]
    }

    fn to_json(&self) -> Value {
        json!({
            "step": self.step,
            "result": self.verdict.name(),
            "milliseconds": self.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            "detail": self.text,
            "causes": self.causes,
            "hint": self.hint,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        let row = |step, found| Row::new(step, Duration::from_millis(1_250), found);
        let failed = Error::denied("no permission to write").source("403 AccessDenied").hint("get it");
        Check {
            destination: "s3://lake/".to_owned(),
            rows: vec![
                row("list", Ok(Finding::good("listed"))),
                row("put", Err(failed)),
                row("atomic", Ok(Finding::not_tried("nothing was put"))),
            ],
            left_behind: Vec::new(),
        }
    }

    #[test]
    fn the_table_is_aligned_and_tells_causes_and_hints() {
        assert_eq!(
            check().render(false),
            "s3://lake/\n\n\
             step    result     time   what was tried, and what came back\n\
             list    ok         1.2 s  listed\n\
             put     FAILED     1.2 s  no permission to write\n\
             \x20                         caused by: 403 AccessDenied\n\
             \x20                         hint: get it\n\
             atomic  not tried  -      nothing was put\n\n\
             1 thing has to be mended, 1 thing was not tried\n"
        );
        assert!(check().has_failed());
    }

    #[test]
    fn colours_change_nothing_but_the_result() {
        let coloured = check().render(true);
        assert!(coloured.contains("put     \u{1b}[31mFAILED   \u{1b}[0m  1.2 s  no permission"), "{coloured}");
        let plain =
            ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[2m", "\u{1b}[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(plain, check().render(false));
    }

    #[test]
    fn programs_read_the_same() {
        let json = check().to_json();
        assert_eq!(json["outcome"], "failed");
        assert_eq!(
            json["steps"][1],
            json!({"step": "put", "result": "failed", "milliseconds": 1250, "detail": "no permission to write",
                   "causes": ["403 AccessDenied"], "hint": "get it"})
        );
        assert_eq!(json["steps"][2]["milliseconds"], Value::Null);
    }
}
