//! The failure of a step after an error of PostgreSQL.

use std::error::Error as _;
use std::io;

use everstep_core::failure::{Failure, code};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition};

use crate::sources::QUERY_ERROR;
use crate::sources::statement::Statement;

/// Why a connection was not opened.
pub(super) fn refused(error: &Error) -> Failure {
    match error.as_db_error() {
        Some(answer) => from_server(answer, ""),
        None => from_transport(error),
    }
}

/// Why a statement failed, with its position in the saved query.
pub(super) fn failed(error: &Error, statement: &Statement, sql: &str) -> Failure {
    let Some(answer) = error.as_db_error() else { return from_transport(error) };
    let place = match answer.position() {
        Some(ErrorPosition::Original(position)) => {
            let (line, column) = statement.position_in_source(sql, *position as usize);
            format!(" at line {line}, column {column}")
        }
        Some(ErrorPosition::Internal { .. }) | None => String::new(),
    };
    from_server(answer, &place)
}

/// The message of the server. Details are left out: they may contain data.
fn from_server(answer: &DbError, place: &str) -> Failure {
    let state = answer.code().code();
    let hint = answer.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = format!("{}{place} (SQLSTATE {state}){hint}", answer.message());
    match state {
        "57014" => Failure::transient(code::STEP_TIMEOUT, message),
        "25006" => {
            let help = "to write, set `readOnly` to false on the source and on the query";
            Failure::fatal(QUERY_ERROR, format!("{message}; {help}"))
        }
        // A parameter whose type the server cannot infer, or infers in two ways.
        "42P08" | "42P18" => {
            let help = "write the argument with its type, such as :name::text";
            Failure::fatal(QUERY_ERROR, format!("{message}; {help}"))
        }
        // Serialization, deadlock, a lock that was not available.
        "40001" | "40P01" | "55P03" => Failure::transient(QUERY_ERROR, message),
        _ => match &state[..2.min(state.len())] {
            // The connection, resources, or an operator's action.
            "08" | "53" | "57" | "58" => Failure::transient(QUERY_ERROR, message),
            _ => Failure::fatal(QUERY_ERROR, message),
        },
    }
}

fn from_transport(error: &Error) -> Failure {
    let message = describe(error);
    let is_io = error.source().is_some_and(|cause| cause.downcast_ref::<io::Error>().is_some());
    if (error.is_closed() || is_io) && !message.contains("TLS") {
        Failure::transient(QUERY_ERROR, message)
    } else {
        Failure::fatal(QUERY_ERROR, message)
    }
}

/// An error with its causes: the outer ones alone are not informative.
pub(super) fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
