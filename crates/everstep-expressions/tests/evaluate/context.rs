//! A context to evaluate against.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everstep_core::evaluate::{Evaluate, Lookup};
use everstep_core::failure::Failure;
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

pub(crate) struct Context {
    pub(crate) variables: BTreeMap<String, Value>,
    pub(crate) locals: BTreeMap<String, Value>,
    pub(crate) input: Value,
}

impl Context {
    pub(crate) fn from_variables(variables: Value) -> Self {
        let Value::Object(variables) = variables else { panic!("variables are an object") };
        let variables = variables.into_iter().collect();
        Self { variables, locals: BTreeMap::new(), input: Value::Null }
    }

    pub(crate) fn sample() -> Self {
        let mut context = Self::from_variables(json!({
            "order": {"id": "A-7", "total": 12.5, "count": 3, "lines": [{"name": "pen", "price": 2}, {"name": "ink", "price": 5}]},
            "tags": ["a", "b"],
            "name": "Ada",
            "empty": null,
            "big": 9_007_199_254_740_993_i64,
            "huge": u64::MAX,
            "one": 1.0,
            "yes": true,
            "a b": "spaced",
            "keys": {"z": 1, "a": 2},
        }));
        context.input = json!({"user": {"id": 7}});
        context.locals = BTreeMap::from([("item".into(), json!({"sku": "X"})), ("index".into(), json!(4))]);
        context
    }
}

impl Lookup for Context {
    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "input" => Some(Cow::Borrowed(&self.input)),
            "__node_fetch" => Some(Cow::Owned(json!({"output": {"ok": true}, "status": "completed"}))),
            name => self.variables.get(name).map(Cow::Borrowed),
        }
    }

    fn names(&self) -> Vec<String> {
        self.variables.keys().cloned().collect()
    }

    fn payload(&self) -> &Value {
        &self.input
    }

    fn local(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.locals.get(name).map(Cow::Borrowed)
    }

    fn meta(&self) -> Value {
        json!({"runId": "r1", "workflow": "w", "version": 2})
    }
}

pub(crate) fn resolve(template: &str) -> Result<Value, Failure> {
    Expressions::new().resolve(&Value::from(template), &Context::sample(), &Meter::new())
}

pub(crate) fn lenient(source: &str) -> Result<Value, Failure> {
    Expressions::new().expression(source, &Context::sample(), &Meter::new())
}

pub(crate) fn message(template: &str) -> String {
    resolve(template).expect_err(template).message
}
