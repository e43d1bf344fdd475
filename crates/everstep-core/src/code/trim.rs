//! Cuts long texts of workers, with a mark.

use crate::failure::Failure;
use crate::ids::StepKey;
use crate::limits;

/// Cuts the log of an attempt.
pub(crate) fn logs(mut lines: Vec<String>) -> Vec<String> {
    let size = |line: &String| line.len() + 1;
    if lines.iter().map(size).sum::<usize>() <= limits::LOG_BYTES {
        return lines;
    }
    let mark = format!("… (the log was cut after {} KiB)", limits::LOG_BYTES / 1024);
    let mut bytes = mark.len() + 1;
    let is_over = |line: &String| {
        bytes += size(line);
        bytes > limits::LOG_BYTES
    };
    let kept = lines.iter().position(is_over).unwrap_or(lines.len());
    lines.truncate(kept);
    lines.push(mark);
    lines
}

/// Cuts the texts of a failure.
pub(crate) fn failure(failure: Failure) -> Failure {
    let Failure { code, message, .. } = failure;
    Failure { code: text(code, 128), message: text(message, limits::FAILURE_MESSAGE_BYTES), ..failure }
}

/// Cuts the stack trace of an error.
pub(crate) fn stack(stack: String) -> Box<str> {
    text(stack, limits::STACK_BYTES).into()
}

/// Cuts a list of steps. Their names are those of a report, which bounds them.
pub(crate) fn steps(mut steps: Vec<StepKey>) -> Vec<StepKey> {
    steps.truncate(limits::UNAWAITED_STEPS);
    steps
}

fn text(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_ends_with_a_mark() {
        let short = vec!["a".to_owned(); 100];
        assert_eq!(logs(short.clone()), short);
        let long = logs(vec!["ä".repeat(500); 100]);
        assert!(long.iter().map(|line| line.len() + 1).sum::<usize>() <= limits::LOG_BYTES);
        assert_eq!((long.len(), long.last().unwrap().as_str()), (66, "… (the log was cut after 64 KiB)"));
        assert_eq!(logs(vec!["x".repeat(100_000)]), ["… (the log was cut after 64 KiB)"]);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let cut = failure(Failure::fatal("C".repeat(200), "ä".repeat(limits::FAILURE_MESSAGE_BYTES)));
        assert!(
            cut.message.len() <= limits::FAILURE_MESSAGE_BYTES && cut.message.ends_with("ä…"),
            "{}",
            cut.message.len()
        );
        assert_eq!(cut.code.len(), 128);
        let short = Failure::transient("A", "b");
        assert_eq!(failure(short.clone()), short);
        let cut = stack("ä".repeat(limits::STACK_BYTES));
        assert!(cut.len() <= limits::STACK_BYTES && cut.ends_with("ä…"), "{}", cut.len());
    }
}
