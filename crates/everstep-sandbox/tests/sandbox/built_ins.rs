//! Built-ins behave as in other engines, within their bounds.

use everstep_sandbox::{Sandbox, Script};

/// Expressions, each with its JSON.
const RESULTS: &[(&str, &str)] = &[
    ("[1, 2, 3].reverse()", "[3,2,1]"),
    ("[3, 20, 1].sort()", "[1,20,3]"),
    ("[3, undefined, 1].sort()", "[1,3,null]"),
    ("[3, 20, 1].sort((a, b) => a - b)", "[1,3,20]"),
    ("[3, 1].toSorted()", "[1,3]"),
    ("[1, [2, [3, [4]]]].flat()", "[1,2,[3,[4]]]"),
    ("[1, [2, [3, [4]]]].flat(Infinity)", "[1,2,3,4]"),
    ("[1, , 3].flat()", "[1,3]"),
    ("[1, 2].flatMap((x) => [x, [x]])", "[1,[1],2,[2]]"),
    ("[1].concat([2, [3]], 4, {a: 5})", "[1,2,[3],4,{\"a\":5}]"),
    ("[].concat({length: 2, 0: 'a', 1: 'b', [Symbol.isConcatSpreadable]: true})", "[\"a\",\"b\"]"),
    ("[1, , 3].concat({}, [, 5]).length", "6"),
    ("[].slice.call('abc', 1)", "[\"b\",\"c\"]"),
    ("(function () { return [].slice.call(arguments, 1) })(1, 2, 3)", "[2,3]"),
    ("[].join.call({length: 2, 0: 'a', 1: 'b'}, '-')", "\"a-b\""),
    ("String([1, [2, 3]])", "\"1,2,3\""),
    ("[1, 2, 3].splice(1, 1)", "[2]"),
    ("[1, 2, 3].with(0, 9)", "[9,2,3]"),
    ("Array(3).fill(0)", "[0,0,0]"),
    ("(class extends Array {}).from([1, 2]).slice(1).constructor === Array", "false"),
    ("'a,b,c'.split(',', 2)", "[\"a\",\"b\"]"),
    ("'a1b2'.split(/\\d/)", "[\"a\",\"b\",\"\"]"),
    ("'abc'.split('')", "[\"a\",\"b\",\"c\"]"),
    ("'abc'.split()", "[\"abc\"]"),
    ("'aXbX'.replace('X', '-')", "\"a-bX\""),
    ("'aXbX'.replaceAll('X', (x) => x + x)", "\"aXXbXX\""),
    ("'a1b2'.replaceAll(/\\d/g, 'x')", "\"axbx\""),
    ("'abcabc'.lastIndexOf('c', 4)", "2"),
    ("'abcabc'.indexOf('c', 3)", "5"),
    ("'abc'.includes('b')", "true"),
    ("new Proxy({a: 1}, {}).a + Proxy.revocable({a: 1}, {}).proxy.a", "2"),
    ("[[].slice.name, [].slice.length, ''.split.name, ''.split.length]", "[\"slice\",2,\"split\",2]"),
    ("Array.from({length: 1e5}, (_, i) => i).concat([1]).reverse().slice(0, 2)", "[1,99999]"),
];

#[tokio::test]
async fn bounded_built_ins_have_the_usual_results() {
    let sandbox = Sandbox::new(1);
    for (expression, expected) in RESULTS {
        let ran = sandbox.run(Script::new(format!("return {expression}"), "{}")).await;
        assert_eq!(ran.map(|ran| ran.json).as_deref(), Ok(*expected), "{expression}");
    }
}
