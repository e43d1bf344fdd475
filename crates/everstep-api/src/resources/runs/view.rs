//! `/v1/runs/{id}/view`: a run with selected fields of its output.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value};

use super::show;
use super::wire::{View, Viewed};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::server::AppState;

const FIELDS_MAX: usize = 100;

pub(crate) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<{ 64 * 1024 }>,
) -> Result<Json<Viewed>, Problem> {
    let View { widget_config } = body.json_or_default()?;
    let fields = widget_config.map(|config| config.fields);
    if let Some(count) = fields.as_ref().map(Vec::len).filter(|count| *count > FIELDS_MAX) {
        return Err(Problem::invalid(format!("widgetConfig.fields has at most {FIELDS_MAX} fields, not {count}")));
    }
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    // Only a run that has completed has an output.
    let data = fields.zip(row.output.as_ref()).map(|(fields, output)| select(&fields, output.value()));
    Ok(Json(Viewed { run: show::show(&app, row).await?, data }))
}

/// The values at paths, by path. A missing value is null.
fn select(fields: &[String], output: &Value) -> Value {
    let find = |path: &str| {
        path.split('.').try_fold(output, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    };
    let data = fields.iter().map(|path| (path.clone(), find(path).cloned().unwrap_or_default()));
    Value::Object(data.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_their_paths() {
        let output = json!({"total": 5, "order": {"items": [{"name": "a"}, {"name": "b"}]}});
        let fields = ["total", "order.items.1.name", "order.missing.x", "order.items.x"].map(str::to_owned);
        let data = json!({"total": 5, "order.items.1.name": "b", "order.missing.x": null, "order.items.x": null});
        assert_eq!(select(&fields, &output), data);
    }
}
