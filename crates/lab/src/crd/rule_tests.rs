//! Expressions as the real server reads them.

use serde_json::Value;

use crate::cel::{CompileError, Env, Expression, Val};

use super::{rule_types, schema::Schema};

#[test]
fn expressions_are_read_like_the_server_does() {
    let fixture: Value = serde_json::from_str(include_str!("testdata/expressions.json")).unwrap();
    let schema = Schema::read(&fixture["schema"]).unwrap();
    let decl = rule_types::declare(&schema, true).unwrap();
    let shape = rule_types::shape(&schema, true);
    let named = decl.named("selfType0");
    let mut env = Env::default();
    env.variables.insert("self".to_owned(), named.clone());
    env.variables.insert("oldSelf".to_owned(), named);
    for case in fixture["cases"].as_array().unwrap() {
        let rule = case["rule"].as_str().unwrap();
        let expression = match Expression::compile(rule, &env) {
            Ok(expression) => expression,
            Err(error) => {
                let shown = match error {
                    CompileError::Issues(issues) => issues,
                    program @ CompileError::Program(_) => program.to_string(),
                };
                let errors: Vec<&str> = shown.lines().filter(|line| !line.starts_with(" | ")).collect();
                let theirs: Vec<&str> = case["errors"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|line| line.as_str().unwrap())
                    .collect();
                // A line break within a message makes two lines of it.
                assert_eq!(errors.join("\n"), theirs.join("\n"), "{rule}");
                continue;
            }
        };
        assert_eq!(
            expression.result_type().to_string(),
            case["type"].as_str().unwrap_or("an error"),
            "{rule}"
        );
        let cost = expression.cost(&decl);
        assert_eq!(
            [cost.min, cost.max].map(Value::from).as_slice(),
            case["cost"].as_array().unwrap(),
            "{rule}"
        );
        let outcome = expression.evaluate(
            &|name| {
                Some(Val::of_json(if name == "self" { &fixture["object"] } else { &fixture["old"] }, &shape))
            },
            1_000_000,
        );
        let shown = match &outcome.result {
            Ok(value) => (format!("{}: {}", value.type_name(), value.literal()), "result"),
            Err(failure) => (failure.message.clone(), "failure"),
        };
        assert_eq!(Value::from(shown.0), case[shown.1], "{rule}");
        assert_eq!(Value::from(outcome.cost), case["actual"], "{rule}");
    }
}
