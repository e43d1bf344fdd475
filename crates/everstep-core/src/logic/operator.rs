//! The operators of JSON Logic: their names, their arguments, and a sentence and an example for the reference page.

/// The operation of a rule on its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Var,
    Missing,
    MissingSome,
    If,
    Equal,
    Identical,
    NotEqual,
    NotIdentical,
    Not,
    Truthy,
    Or,
    And,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Max,
    Min,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Map,
    Filter,
    Reduce,
    All,
    None,
    Some,
    Merge,
    In,
    Cat,
    Substr,
    Log,
}

/// The facts about one operator, for the parser and for the reference.
#[derive(Clone, Copy, Debug)]
pub struct OperatorInfo {
    pub operator: Operator,
    pub name: &'static str,
    /// The arguments in words, as the reference shows them.
    pub arguments: &'static str,
    /// The least number of arguments.
    pub arguments_min: usize,
    /// The greatest number of arguments, if there is one.
    pub arguments_max: Option<usize>,
    /// A sentence about the result.
    pub result: &'static str,
    /// A rule, the data that it reads, and its result, each as JSON.
    pub example: [&'static str; 3],
}

impl Operator {
    pub(super) fn find(name: &str) -> Option<&'static OperatorInfo> {
        OPERATORS.iter().find(|info| info.name == name)
    }

    /// Its name in rules. The operator `if` has a second one, `?:`.
    pub(super) fn name(self) -> &'static str {
        OPERATORS.iter().find(|info| info.operator == self).map_or("", |info| info.name)
    }
}

const fn info(
    operator: Operator,
    name: &'static str,
    (arguments, arguments_min, arguments_max): (&'static str, usize, Option<usize>),
    result: &'static str,
    example: [&'static str; 3],
) -> OperatorInfo {
    OperatorInfo { operator, name, arguments, arguments_min, arguments_max, result, example }
}

const TWO: (&str, usize, Option<usize>) = ("a, b", 2, Some(2));
const ANY: (&str, usize, Option<usize>) = ("any number", 0, None);
const SOME: (&str, usize, Option<usize>) = ("one or more", 1, None);
const LIST_AND_RULE: (&str, usize, Option<usize>) = ("list, rule", 2, Some(2));

/// All operators, in the order of the reference.
pub const OPERATORS: &[OperatorInfo] = &[
    info(
        Operator::Var,
        "var",
        ("path, default", 0, Some(2)),
        "The value at a path such as `order.lines.0.price`, or the default if there is none. `length` is the number of items of a list and of characters of a text. An empty path is all data.",
        [r#"{"var": ["order.total", 0]}"#, r#"{"order": {"total": 120}}"#, "120"],
    ),
    info(
        Operator::Missing,
        "missing",
        ("paths, or one list of paths", 0, None),
        "The paths whose value is null, the empty text or not present.",
        [r#"{"missing": ["amount", "reason"]}"#, r#"{"amount": 5}"#, r#"["reason"]"#],
    ),
    info(
        Operator::MissingSome,
        "missing_some",
        ("number, list of paths", 2, Some(2)),
        "The empty list if at least that many paths have a value, else the paths that have none.",
        [r#"{"missing_some": [1, ["email", "phone"]]}"#, r#"{"phone": "555"}"#, "[]"],
    ),
    info(
        Operator::If,
        "if",
        ("test, value, test, value, …, else", 0, None),
        "The value after the first test that is true, else the last argument if their number is odd, else null.",
        [r#"{"if": [{"<": [{"var": "amount"}, 100]}, "small", "large"]}"#, r#"{"amount": 7}"#, r#""small""#],
    ),
    info(
        Operator::If,
        "?:",
        ("test, value, else", 0, None),
        "As `if`.",
        [r#"{"?:": [{"var": "urgent"}, 1, 2]}"#, r#"{"urgent": false}"#, "2"],
    ),
    info(
        Operator::Equal,
        "==",
        TWO,
        "Whether both are equal as in JavaScript: `1` equals `\"1\"`. Two lists or two objects are never equal, unless they are the same value of the data.",
        [r#"{"==": [{"var": "count"}, "1"]}"#, r#"{"count": 1}"#, "true"],
    ),
    info(
        Operator::Identical,
        "===",
        TWO,
        "Whether both have the same type and value. `1` and `1.0` are the same number.",
        [r#"{"===": [{"var": "count"}, "1"]}"#, r#"{"count": 1}"#, "false"],
    ),
    info(Operator::NotEqual, "!=", TWO, "The opposite of `==`.", [r#"{"!=": [1, "1"]}"#, "{}", "false"]),
    info(Operator::NotIdentical, "!==", TWO, "The opposite of `===`.", [r#"{"!==": [1, "1"]}"#, "{}", "true"]),
    info(
        Operator::Not,
        "!",
        ("a", 1, Some(1)),
        "True if the argument is false, null, 0, the empty text or the empty list.",
        [r#"{"!": {"var": "comments"}}"#, r#"{"comments": []}"#, "true"],
    ),
    info(
        Operator::Truthy,
        "!!",
        ("a", 1, Some(1)),
        "The opposite of `!`.",
        [r#"{"!!": {"var": "comments"}}"#, r#"{"comments": ["ok"]}"#, "true"],
    ),
    info(
        Operator::Or,
        "or",
        SOME,
        "The first argument that is true, else the last. Later arguments are not evaluated.",
        [r#"{"or": [{"var": "nickname"}, {"var": "name"}]}"#, r#"{"name": "Ada"}"#, r#""Ada""#],
    ),
    info(
        Operator::And,
        "and",
        SOME,
        "The first argument that is false, else the last. Later arguments are not evaluated.",
        [r#"{"and": [{">": [{"var": "amount"}, 0]}, {"var": "signed"}]}"#, r#"{"amount": 5, "signed": true}"#, "true"],
    ),
    info(
        Operator::Greater,
        ">",
        TWO,
        "Whether a is greater than b. Two texts are compared as texts, everything else as numbers.",
        [r#"{">": [{"var": "amount"}, 100]}"#, r#"{"amount": 120}"#, "true"],
    ),
    info(
        Operator::GreaterOrEqual,
        ">=",
        TWO,
        "Whether a is greater than b or equal to it.",
        [r#"{">=": [{"var": "$now"}, "2026-01-01T00:00:00Z"]}"#, r#"{"$now": "2026-06-01T00:00:00Z"}"#, "true"],
    ),
    info(
        Operator::Less,
        "<",
        ("a, b, or a, b, c", 2, Some(3)),
        "Whether a is less than b; with three arguments, whether b is between a and c.",
        [r#"{"<": [0, {"var": "amount"}, 100]}"#, r#"{"amount": 100}"#, "false"],
    ),
    info(
        Operator::LessOrEqual,
        "<=",
        ("a, b, or a, b, c", 2, Some(3)),
        "Whether a is less than b or equal to it; with three arguments, whether b is between a and c or equals one of them.",
        [r#"{"<=": [0, {"var": "amount"}, 100]}"#, r#"{"amount": 100}"#, "true"],
    ),
    info(Operator::Max, "max", SOME, "The greatest number.", [r#"{"max": [1, 3, 2]}"#, "{}", "3"]),
    info(Operator::Min, "min", SOME, "The least number.", [r#"{"min": [1, 3, 2]}"#, "{}", "1"]),
    info(
        Operator::Add,
        "+",
        ANY,
        "The sum. With one argument, the number that a text begins with.",
        [r#"{"+": [{"var": "net"}, {"var": "tax"}]}"#, r#"{"net": 100, "tax": 19.5}"#, "119.5"],
    ),
    info(
        Operator::Subtract,
        "-",
        ("a, b, or a", 1, Some(2)),
        "The difference; with one argument, its negative.",
        [r#"{"-": [{"var": "amount"}, 20]}"#, r#"{"amount": 120}"#, "100"],
    ),
    info(Operator::Multiply, "*", SOME, "The product.", [r#"{"*": [2, 3, 4]}"#, "{}", "24"]),
    info(
        Operator::Divide,
        "/",
        TWO,
        "The quotient; null if b is 0.",
        [r#"{"/": [{"var": "total"}, {"var": "count"}]}"#, r#"{"total": 10, "count": 4}"#, "2.5"],
    ),
    info(
        Operator::Remainder,
        "%",
        TWO,
        "The remainder of the division, with the sign of a.",
        [r#"{"%": [7, 3]}"#, "{}", "1"],
    ),
    info(
        Operator::Map,
        "map",
        LIST_AND_RULE,
        "The results of the rule for each item. `var` reads the item inside the rule.",
        [
            r#"{"map": [{"var": "lines"}, {"*": [{"var": "price"}, {"var": "count"}]}]}"#,
            r#"{"lines": [{"price": 5, "count": 2}, {"price": 3, "count": 1}]}"#,
            "[10,3]",
        ],
    ),
    info(
        Operator::Filter,
        "filter",
        LIST_AND_RULE,
        "The items for which the rule is true.",
        [r#"{"filter": [{"var": "scores"}, {">": [{"var": ""}, 2]}]}"#, r#"{"scores": [1, 2, 3, 4]}"#, "[3,4]"],
    ),
    info(
        Operator::Reduce,
        "reduce",
        ("list, rule, initial value", 2, Some(3)),
        "The last result of the rule, which is evaluated once per item. In it, `var` reads `current`, the item, and `accumulator`, the result so far.",
        [
            r#"{"reduce": [{"var": "scores"}, {"+": [{"var": "current"}, {"var": "accumulator"}]}, 0]}"#,
            r#"{"scores": [1, 2, 3]}"#,
            "6",
        ],
    ),
    info(
        Operator::All,
        "all",
        LIST_AND_RULE,
        "Whether the rule is true for every item. False for the empty list.",
        [r#"{"all": [{"var": "scores"}, {">": [{"var": ""}, 0]}]}"#, r#"{"scores": [1, 2]}"#, "true"],
    ),
    info(
        Operator::None,
        "none",
        LIST_AND_RULE,
        "Whether the rule is true for no item. True for the empty list.",
        [r#"{"none": [{"var": "scores"}, {"<": [{"var": ""}, 0]}]}"#, r#"{"scores": [1, 2]}"#, "true"],
    ),
    info(
        Operator::Some,
        "some",
        LIST_AND_RULE,
        "Whether the rule is true for at least one item. False for the empty list.",
        [
            r#"{"some": [{"var": "approvers"}, {"==": [{"var": "id"}, {"var": "$user.id"}]}]}"#,
            r#"{"approvers": [{"id": "ada"}], "$user": {"id": "ada"}}"#,
            "true",
        ],
    ),
    info(
        Operator::Merge,
        "merge",
        ANY,
        "One list with the items of all arguments; an argument that is not a list is one item.",
        [r#"{"merge": [[1, 2], 3, [4]]}"#, "{}", "[1,2,3,4]"],
    ),
    info(
        Operator::In,
        "in",
        ("a, b", 2, Some(2)),
        "Whether the list b contains a, compared with `===`, or the text b contains the text a.",
        [r#"{"in": [{"var": "country"}, ["DE", "FR"]]}"#, r#"{"country": "FR"}"#, "true"],
    ),
    info(
        Operator::Cat,
        "cat",
        ANY,
        "One text of all arguments. Null is the empty text.",
        [
            r#"{"cat": [{"var": "first"}, " ", {"var": "last"}]}"#,
            r#"{"first": "Ada", "last": "Lovelace"}"#,
            r#""Ada Lovelace""#,
        ],
    ),
    info(
        Operator::Substr,
        "substr",
        ("text, start, length", 2, Some(3)),
        "A part of a text. A negative start counts from the end; a negative length stops that many characters before the end.",
        [r#"{"substr": ["jsonlogic", 4]}"#, "{}", r#""logic""#],
    ),
    info(
        Operator::Log,
        "log",
        ("a", 1, Some(1)),
        "Its argument. Nothing is written: the operator exists so that rules of other systems can be used unchanged.",
        [r#"{"log": {"var": "amount"}}"#, r#"{"amount": 5}"#, "5"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_has_one_name_and_the_choice_has_two() {
        for (index, info) in OPERATORS.iter().enumerate() {
            assert!(OPERATORS[..index].iter().all(|other| other.name != info.name), "{} twice", info.name);
            assert_eq!(Operator::find(info.name).unwrap().name, info.name);
            assert_eq!(info.operator.name() == info.name, info.name != "?:");
        }
        assert_eq!(OPERATORS.len(), 35);
    }
}
