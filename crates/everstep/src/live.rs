//! Shows a run in progress: a list that is redrawn on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use everstep_core::story::{StepStory, Story, Update};
use everstep_core::time::Timestamp;

use crate::steps::{self, Stage};
use crate::text;

/// The live view of one run, on standard error.
pub(crate) struct Live {
    how: How,
    /// Lines that have not been shown yet.
    pending: String,
}

enum How {
    Silent,
    /// A line for every update.
    Lines,
    /// A list of this many lines is on the screen.
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
        Self { how, pending: String::new() }
    }

    /// Records an update. It is shown with the next [`Live::show`].
    pub(crate) fn note(&mut self, story: &Story, update: &Update<'_>, at: Timestamp) {
        for line in steps::lines(story, update) {
            match self.how {
                How::Silent => {}
                How::Lines => _ = writeln!(self.pending, "{} {line}", stamp(at)),
                // The list shows the rest.
                How::List { .. } if !line.starts_with("log") => {}
                How::List { .. } => _ = writeln!(self.pending, "{line}"),
            }
        }
    }

    /// Shows the recorded updates.
    pub(crate) fn show(&mut self, story: &Story, now: Timestamp) {
        let above = std::mem::take(&mut self.pending);
        if matches!(self.how, How::List { .. }) {
            self.draw(story, &above, now);
        } else {
            say(&above);
        }
    }

    /// Updates the durations.
    pub(crate) fn tick(&mut self, story: &Story, now: Timestamp) {
        if matches!(self.how, How::List { .. }) && story.steps().any(StepStory::is_open) {
            self.draw(story, "", now);
        }
    }

    /// Draws the list again, with permanent lines above it.
    fn draw(&mut self, story: &Story, above: &str, now: Timestamp) {
        let How::List { drawn, has_colour } = &mut self.how else { return };
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let steps: Vec<_> = story.steps().collect();
        let lines = list(&steps, now, height.saturating_sub(2).max(1));
        let mut screen = String::new();
        if *drawn > 0 {
            // To the first line of the list, and clear the screen below.
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

/// At most this many lines: the steps that were settled first are left out first.
fn list(steps: &[&StepStory], now: Timestamp, lines_max: usize) -> Vec<(Option<Stage>, String)> {
    let excess = if steps.len() > lines_max { steps.len() - lines_max + 1 } else { 0 };
    let mut hidden = 0;
    let mut lines = Vec::new();
    for step in steps {
        let stage = Stage::from_story(step);
        if hidden < excess && stage.is_settled() {
            hidden += 1;
        } else {
            lines.push((Some(stage), draw_step(step, stage, now)));
        }
    }
    // More steps may be open than fit on the screen.
    let cut = lines.len().saturating_sub(lines_max - usize::from(excess > 0));
    lines.truncate(lines.len() - cut);
    if hidden + cut > 0 {
        let open = if cut > 0 { format!(", {cut} more in progress") } else { String::new() };
        lines.insert(0, (None, format!("  … {}{open}", text::count(hidden, "settled step"))));
    }
    lines
}

fn draw_step(step: &StepStory, stage: Stage, now: Timestamp) -> String {
    let mark = match stage {
        Stage::Running => '●',
        Stage::Waiting => '○',
        Stage::Retrying => '↻',
        Stage::Completed => '✓',
        Stage::Failed => '✗',
        Stage::Skipped | Stage::Cancelled => '–',
    };
    let attempt = if step.attempt() > 1 { format!("#{}", step.attempt()) } else { String::new() };
    let duration = if stage == Stage::Skipped { String::new() } else { text::span(steps::duration(step, now)) };
    let (key, word, note) = (step.key.as_str(), stage.word(), steps::note(step));
    let line = format!("{mark} {key:<24} {word:<9} {attempt:<4} {duration:>10}  {note}");
    line.trim_end().to_owned()
}

fn colour(stage: Stage) -> u8 {
    match stage {
        Stage::Running => 36,
        Stage::Waiting | Stage::Retrying => 33,
        Stage::Completed => 32,
        Stage::Failed => 31,
        Stage::Skipped | Stage::Cancelled => 90,
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

/// Writes to standard error. A closed pipe does not stop the run.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::StepKey;
    use everstep_core::journal::{Dispatch, Entry, Event, Outcome};

    use super::*;

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(stamp(Timestamp::from_micros(1_500_000)), "1970-01-01T00:00:01.500Z");
        assert_eq!(stamp(Timestamp::from_micros(1_000_999)), "1970-01-01T00:00:01.000Z");
    }

    #[test]
    fn the_list_fits_on_the_screen() {
        let mut story = Story::new(None);
        for n in 0..50_u64 {
            let step = StepKey::from(format!("step-{n}"));
            let dispatched = Event::StepDispatched { step: step.clone(), attempt: 1, dispatch: Dispatch::Task };
            let completed = Event::StepCompleted { step, attempt: 1, outcome: Outcome::default() };
            story.apply(&Entry::new(2 * n + 1, Timestamp::EPOCH, dispatched));
            if n % 10 != 0 {
                story.apply(&Entry::new(2 * n + 2, Timestamp::from_millis(1_500), completed));
            }
        }
        let steps: Vec<_> = story.steps().collect();
        for most in [1, 3, 5, 6, 7, 20, 50, 60] {
            let lines = list(&steps, Timestamp::EPOCH, most);
            assert!(lines.len() <= most, "{} lines of {most}", lines.len());
        }
        let lines: Vec<_> = list(&steps, Timestamp::EPOCH, 7).into_iter().map(|(_, line)| line).collect();
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
