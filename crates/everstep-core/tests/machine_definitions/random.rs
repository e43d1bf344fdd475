//! Random definitions: most parts are as they should be, some are not.

use serde_json::{Map, Value, json};

use crate::support::Random;

/// Values that are wrong in most places.
pub(super) fn pool() -> Vec<Value> {
    vec![
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(3),
        json!(1_001),
        json!(-1),
        json!(1.5),
        json!(""),
        json!(" "),
        json!("x"),
        json!("a b"),
        json!("__x"),
        json!("1st"),
        json!("ALL"),
        json!("60%"),
        json!("0%"),
        json!("4h"),
        json!("{{ctx.x}}"),
        json!("x".repeat(300)),
        json!([]),
        json!([1]),
        json!(["x"]),
        json!({}),
        json!({"a": 1}),
        json!({"$expr": "ctx.x"}),
        json!({"type": "assign", "target": "ann"}),
        json!([{"type": "auto_action", "target": "GO"}]),
        json!({"type": "json-logic", "rule": {"var": "x"}}),
        json!({"role": ["Clerk"]}),
    ]
}

/// Makes definitions. `faults` is the likelihood of a wrong part, in percent.
pub(super) struct Maker<'r> {
    pub(super) random: &'r mut Random,
    pub(super) faults: usize,
    pub(super) states: usize,
}

impl Maker<'_> {
    pub(super) fn definition(&mut self) -> Value {
        let states: Vec<_> = (0..self.states).map(|number| self.state(number)).collect();
        let mut fields = vec![("states", states.into(), 100)];
        fields.push(("workflow", json!("Some"), 20));
        fields.push(("version", json!(2), 20));
        fields.push(("description", json!("Some text"), 20));
        fields.push(("contextSchema", json!({"type": "object", "properties": {"x": {}}}), 30));
        fields.push(("start", json!({"require": self.require(false)}), 20));
        fields.push(("options", json!({"retentionDays": 5}), 20));
        self.object(fields)
    }

    /// An object with some of these fields, each with its likelihood in percent.
    fn object(&mut self, fields: Vec<(&str, Value, usize)>) -> Value {
        let mut object = Map::new();
        for (name, value, likelihood) in fields {
            // An object has dozens of parts, so that one fault in each of them would leave no valid definition.
            let is_wrong = self.random.below(1_000) < self.faults;
            if is_wrong && self.random.chance(40) {
                continue;
            }
            if self.random.chance(likelihood) || is_wrong {
                let value = if is_wrong { self.random.pick(&pool()).clone() } else { value };
                object.insert(name.to_owned(), value);
            }
        }
        if self.random.below(2_000) < self.faults {
            object.insert("unheardOf".to_owned(), json!(1));
        }
        object.into()
    }

    fn any_state(&mut self) -> Value {
        let number = self.random.below(self.states);
        format!("s{number}").into()
    }

    fn state(&mut self, number: usize) -> Value {
        let is_terminal = number + 1 == self.states;
        let name = json!(format!("s{number}"));
        if is_terminal {
            let is_error = self.random.chance(30);
            let output = if is_error { 0 } else { 50 };
            let error = json!(is_error);
            let fields = vec![
                ("name", name, 100),
                ("terminal", json!(true), 100),
                ("error", error, 100),
                ("output", json!({"x": "{{ctx.x}}"}), output),
                ("title", json!("End"), 30),
            ];
            return self.object(fields);
        }
        let mut on = Map::new();
        // The first action leads on, so that every state is reached and left.
        let mut next = self.action();
        if let Some(action) = next.as_object_mut()
            && action.contains_key("to")
        {
            action.insert("to".to_owned(), format!("s{}", number + 1).into());
        }
        on.insert("GO".to_owned(), next);
        for name in ["BACK", "STOP"] {
            if self.random.chance(40) {
                let action = self.action();
                on.insert(name.to_owned(), action);
            }
        }
        let initial = if number == 0 { 100 } else { 0 };
        let (timer, run) = (self.timer(), self.run());
        let event = self.event();
        let fields = vec![
            ("name", name, 100),
            ("initial", json!(true), initial),
            ("title", json!("State"), 20),
            ("show", json!(["x", "x.y"]), 20),
            ("assign", json!(["ann", "{{ctx.x}}"]), 30),
            ("on", on.into(), 100),
            ("after", json!([timer]), 40),
            ("run", run, 15),
            ("entry", json!([event.clone()]), 15),
            ("exit", json!([event]), 15),
        ];
        self.object(fields)
    }

    fn action(&mut self) -> Value {
        let to = self.any_state();
        let (require, quorum, needs) = (self.require(true), self.quorum(), self.needs());
        let (has_quorum, has_choice) = (self.random.chance(20), self.random.chance(20));
        let (condition, event) = (self.condition(), self.event());
        let has_condition = self.random.chance(40);
        let choose = json!([{"condition": condition, "to": to, "set": {"x": 1}}, {"to": self.any_state()}]);
        let percent = |is_there: bool| if is_there { 100 } else { 0 };
        let fields = vec![
            ("title", json!("Go"), 20),
            ("require", require, 40),
            ("quorum", quorum, percent(has_quorum)),
            ("needs", needs, if has_quorum { 0 } else { 30 }),
            ("condition", condition, percent(has_condition)),
            ("message", json!("No"), if has_condition { 50 } else { 0 }),
            ("to", to, percent(!has_choice)),
            ("choose", choose, percent(has_choice)),
            ("set", json!({"x": "{{ctx.x}}"}), 30),
            ("events", json!([event]), 20),
        ];
        self.object(fields)
    }

    fn require(&mut self, has_run: bool) -> Value {
        let of_run = if has_run { 30 } else { 0 };
        let users = [json!("ann"), json!(["ann", "{{ctx.x}}"]), json!({"$expr": "ctx.x"})];
        let user = self.random.pick(&users).clone();
        let fields = vec![
            ("role", json!(["Clerk", "__assigned__"]), 100),
            ("user", user, 40),
            ("assigned", json!(true), of_run),
            ("notBy", json!(["@start", "GO"]), of_run),
        ];
        self.object(fields)
    }

    fn quorum(&mut self) -> Value {
        let has_voters = self.random.chance(60);
        let needs = [json!("ANY"), json!(2), json!("ALL"), json!("MAJORITY"), json!("60%"), json!("100%")];
        let need = self.random.pick(&needs[..if has_voters { 6 } else { 2 }]).clone();
        let of = if has_voters { 100 } else { 0 };
        let fields = vec![("of", json!(["ann", "bob", "{{ctx.x}}"]), of), ("need", need, 100)];
        self.object(fields)
    }

    fn needs(&mut self) -> Value {
        let fields = vec![
            ("comment", json!(true), 50),
            ("data", json!(["x.y"]), 50),
            ("shown", json!(true), 30),
            ("files", json!(2), 30),
        ];
        self.object(fields)
    }

    fn condition(&mut self) -> Value {
        let rules = [json!({">": [{"var": "x"}, 5]}), json!(true), json!({"!": {"var": "$user.id"}})];
        let rule = self.random.pick(&rules).clone();
        self.object(vec![("type", json!("json-logic"), 100), ("rule", rule, 100)])
    }

    fn timer(&mut self) -> Value {
        let to = self.any_state();
        let has_delay = self.random.chance(60);
        let effect = self.random.below(3);
        let event = self.event();
        let percent = |is_there: bool| if is_there { 100 } else { 0 };
        let fields = vec![
            ("in", json!("4h"), percent(has_delay)),
            ("at", json!("{{ctx.x}}"), percent(!has_delay)),
            ("to", to, percent(effect == 0)),
            ("do", json!("GO"), percent(effect == 1)),
            ("events", json!([event]), percent(effect == 2)),
        ];
        self.object(fields)
    }

    fn run(&mut self) -> Value {
        let (done, error) = (self.any_state(), self.any_state());
        let fields = vec![
            ("workflow", json!("other"), 100),
            ("version", json!(2), 30),
            ("input", json!({"x": "{{ctx.x}}"}), 50),
            ("saveAs", json!("x"), 50),
            ("done", done, 100),
            ("error", error, 50),
        ];
        self.object(fields)
    }

    fn event(&mut self) -> Value {
        let targets = [json!("ann"), json!(["ann"]), json!("{{ctx.x}}"), json!({"$expr": "ctx.x"})];
        let target = self.random.pick(&targets).clone();
        self.object(vec![("id", json!("e1"), 30), ("type", json!("assign"), 100), ("target", target, 100)])
    }
}
