//! Shows a run while it goes: a list that is drawn again and again on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use everstep_core::journal::Entry;
use everstep_core::time::Timestamp;

use crate::steps::{Row, Stage, Steps};
use crate::text;

/// The live view of one run, on standard error.
pub(crate) struct Live {
    steps: Steps,
    how: How,
}

enum How {
    Silent,
    /// A line for everything that happens.
    Lines,
    /// A list of so many lines stands on the screen.
    List {
        drawn: usize,
        has_colour: bool,
    },
}

impl Live {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_terminal = io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
        let has_colour = std::env::var_os("NO_COLOR").is_none();
        let how = match (is_quiet, is_terminal) {
            (true, _) => How::Silent,
            (false, true) => How::List { drawn: 0, has_colour },
            (false, false) => How::Lines,
        };
        Self { steps: Steps::default(), how }
    }

    /// Shows what happened.
    pub(crate) fn show(&mut self, entries: &[Entry], now: Timestamp) {
        let mut above = String::new();
        for entry in entries {
            for line in self.steps.apply(entry) {
                match self.how {
                    How::Silent => {}
                    How::Lines => _ = writeln!(above, "{} {line}", stamp(entry.at)),
                    // The list tells the rest.
                    How::List { .. } if !line.starts_with("log") => {}
                    How::List { .. } => _ = writeln!(above, "{line}"),
                }
            }
        }
        if matches!(self.how, How::List { .. }) {
            self.draw(&above, now);
        } else {
            say(&above);
        }
    }

    /// Brings the durations up to date.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        if matches!(self.how, How::List { .. }) && self.steps.rows().iter().any(|row| !row.stage.is_settled()) {
            self.draw("", now);
        }
    }

    /// Draws the list again, with lines above it that stay.
    fn draw(&mut self, above: &str, now: Timestamp) {
        let How::List { drawn, has_colour } = &mut self.how else { return };
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let lines = list(self.steps.rows(), now, height.saturating_sub(2).max(1));
        let mut screen = String::new();
        if *drawn > 0 {
            // To the first line of the list, and clear what is below.
            let _ = write!(screen, "\x1b[{drawn}A\x1b[J");
        }
        screen.push_str(above);
        for (stage, line) in &lines {
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            match stage.filter(|_| *has_colour) {
                Some(stage) => _ = writeln!(screen, "\x1b[{}m{line}\x1b[0m", colour(stage)),
                None => _ = writeln!(screen, "{line}"),
            }
        }
        *drawn = lines.len();
        say(&screen);
    }
}

/// At most `most` lines: what has been settled for longest is left out first.
fn list(rows: &[Row], now: Timestamp, most: usize) -> Vec<(Option<Stage>, String)> {
    let excess = if rows.len() > most { rows.len() - most + 1 } else { 0 };
    let mut hidden = 0;
    let mut lines = Vec::new();
    for row in rows {
        if hidden < excess && row.stage.is_settled() {
            hidden += 1;
        } else {
            lines.push((Some(row.stage), draw_row(row, now)));
        }
    }
    // More steps may be open than fit on the screen.
    let cut = lines.len().saturating_sub(most - usize::from(excess > 0));
    lines.truncate(lines.len() - cut);
    if hidden + cut > 0 {
        let open = if cut > 0 { format!(", {cut} more under way") } else { String::new() };
        lines.insert(0, (None, format!("  … {}{open}", text::count(hidden, "settled step"))));
    }
    lines
}

fn draw_row(row: &Row, now: Timestamp) -> String {
    let mark = match row.stage {
        Stage::Running => '●',
        Stage::Waiting => '○',
        Stage::Retrying => '↻',
        Stage::Completed => '✓',
        Stage::Failed => '✗',
        Stage::Skipped => '–',
    };
    let attempt = if row.attempt > 1 { format!("#{}", row.attempt) } else { String::new() };
    let duration = if row.stage == Stage::Skipped { String::new() } else { text::span(row.duration(now)) };
    let line =
        format!("{mark} {:<24} {:<9} {attempt:<4} {duration:>10}  {}", row.step.as_str(), row.stage.word(), row.note);
    line.trim_end().to_owned()
}

fn colour(stage: Stage) -> u8 {
    match stage {
        Stage::Running => 36,
        Stage::Waiting | Stage::Retrying => 33,
        Stage::Completed => 32,
        Stage::Failed => 31,
        Stage::Skipped => 90,
    }
}

/// A time to the millisecond.
fn stamp(at: Timestamp) -> String {
    let time = Timestamp::from_millis(at.millis()).to_string();
    match time.trim_end_matches('Z').split_once('.') {
        Some((seconds, fraction)) => format!("{seconds}.{fraction:0<3}Z"),
        None => format!("{}.000Z", time.trim_end_matches('Z')),
    }
}

/// Nobody may be reading; that does not stop the run.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::StepKey;
    use everstep_core::journal::{Dispatch, Event, Outcome};

    use super::*;

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(stamp(Timestamp::from_micros(1_500_000)), "1970-01-01T00:00:01.500Z");
        assert_eq!(stamp(Timestamp::from_micros(1_000_999)), "1970-01-01T00:00:01.000Z");
    }

    #[test]
    fn the_list_fits_on_the_screen() {
        let mut steps = Steps::default();
        for n in 0..50_u64 {
            let step = StepKey::from(format!("step-{n}"));
            let dispatched = Event::StepDispatched { step: step.clone(), attempt: 1, dispatch: Dispatch::Task };
            let completed = Event::StepCompleted { step, attempt: 1, outcome: Outcome::default() };
            steps.apply(&Entry::new(1, Timestamp::EPOCH, dispatched));
            if n % 10 != 0 {
                steps.apply(&Entry::new(2, Timestamp::from_millis(1_500), completed));
            }
        }
        for most in [1, 3, 5, 6, 7, 20, 50, 60] {
            let lines = list(steps.rows(), Timestamp::EPOCH, most);
            assert!(lines.len() <= most, "{} lines of {most}", lines.len());
        }
        let lines: Vec<_> = list(steps.rows(), Timestamp::EPOCH, 7).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "  … 44 settled steps",
                "● step-0                   running              0 ms",
                "● step-10                  running              0 ms",
                "● step-20                  running              0 ms",
                "● step-30                  running              0 ms",
                "● step-40                  running              0 ms",
                "✓ step-49                  completed           1.5 s",
            ]
        );
    }
}
