//! Single values: text, numbers, truth values and choices of words.

use serde_json::Value;

use super::Checker;
use super::numbers::{Range, float_json, integer_json};
use super::schema::View;
use crate::diagnostic::Diagnostic;
use crate::path::FieldPath;
use crate::scalar::{PlainKind, has_leading_zero, integer_value, plain_kind, yaml_1_1_boolean};
use crate::suggest;
use crate::tree::{Node, NodeValue};

/// The code for words that YAML 1.1 takes for truth values.
const OLD_BOOLEAN: &str = "yaml-1.1-boolean";

impl<'run> Checker<'run> {
    pub(super) fn scalar(&mut self, view: &View<'run>, node: &Node, path: &FieldPath) -> Option<Value> {
        let NodeValue::Scalar { text, plain } = &node.value else {
            return self.wrong_kind(view, node, path);
        };
        if view.flag("x-trellis-text") {
            return self.rules(view, text, node, path);
        }
        if view.flag("x-kubernetes-int-or-string") {
            return self.integer_or_text(view, text, *plain, node, path);
        }
        // A type list such as ["integer", "string"] is tried in the order of how much a type demands.
        let kind = plain_kind(text);
        let is_truth = matches!(kind, PlainKind::Boolean(_)) || yaml_1_1_boolean(text).is_some();
        let is_number = matches!(kind, PlainKind::Integer | PlainKind::Float);
        let takes_text = view.has_type("string") || view.enumeration(self.root).is_some();
        let takes_number = view.has_type("integer") || view.has_type("number");
        if view.has_type("boolean") && ((*plain && is_truth) || !(takes_text || takes_number)) {
            return self.boolean(view, text, *plain, node, path);
        }
        if takes_number && ((*plain && is_number) || !takes_text) {
            return self.number(view, text, *plain, node, path);
        }
        if takes_text {
            return self.text(view, text, *plain, node, path);
        }
        // A constant that is no text.
        let value = super::untyped(node);
        match view.get("const") {
            Some(constant) if *constant != value => {
                let message = format!("must be `{constant}`");
                self.report(Diagnostic::error("invalid-value", message), node.span, path);
                None
            }
            _ => Some(value),
        }
    }

    fn text(
        &mut self,
        view: &View<'run>,
        text: &str,
        plain: bool,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        if plain {
            let listed = view.enumeration(self.root).is_some_and(|texts| texts.contains(&text));
            if !matches!(plain_kind(text), PlainKind::Text) && !listed {
                let message = format!("expected text, found {}", node.kind_name());
                let diagnostic = Diagnostic::error("wrong-type", message)
                    .label(format!("YAML reads this as {}", node.kind_name()));
                let diagnostic = self.unless_sensitive(
                    diagnostic,
                    format!("put it in quotes: \"{text}\""),
                    "put it in quotes",
                );
                self.report(diagnostic, node.span, path);
                return None;
            }
            if let Some(truth) = yaml_1_1_boolean(text).filter(|_| !listed) {
                let message =
                    format!("{} is text here, but many YAML readers take it for `{truth}`", self.quote(text));
                let diagnostic = Diagnostic::warning(OLD_BOOLEAN, message);
                let diagnostic = self.unless_sensitive(
                    diagnostic,
                    format!("put it in quotes: \"{text}\""),
                    "put it in quotes",
                );
                self.report(diagnostic, node.span, path);
            }
        }
        self.rules(view, text, node, path)
    }

    fn unless_sensitive(&self, diagnostic: Diagnostic, help: String, veiled: &str) -> Diagnostic {
        if self.sensitive { diagnostic.help(veiled) } else { diagnostic.help(help) }
    }

    /// Checks what a schema says about a text beyond its being one.
    fn rules(&mut self, view: &View<'run>, text: &str, node: &Node, path: &FieldPath) -> Option<Value> {
        if let Some(texts) = view.enumeration(self.root) {
            return self.one_of(&texts, text, node, path);
        }
        let length = text.chars().count() as u64;
        let mut broken = Vec::new();
        if let Some(least) = view.count("minLength").filter(|least| length < *least) {
            broken.push(if least <= 1 {
                "must not be empty".to_owned()
            } else {
                format!("must have at least {least} characters")
            });
        }
        if let Some(most) = view.count("maxLength").filter(|most| length > *most) {
            broken.push(format!("must have at most {most} characters, but has {length}"));
        }
        if let Some(pattern) = view.text("pattern") {
            match regex_lite::Regex::new(pattern) {
                Ok(regex) if regex.is_match(text) => {}
                Ok(_) => broken.push(match view.text("x-trellis-rule") {
                    Some(rule) => format!("must be {rule}"),
                    None => format!("does not match `{pattern}`"),
                }),
                // A fault of the schema, not of the document; to pass over it would be to check nothing.
                Err(_) => broken
                    .push(format!("cannot be checked: the pattern `{pattern}` of the schema is not valid")),
            }
        }
        let complete = broken.is_empty();
        for rule in broken {
            let message =
                format!("{} {rule}", if text.is_empty() { "this text".to_owned() } else { self.quote(text) });
            self.report(Diagnostic::error("invalid-value", message).label(rule), node.span, path);
        }
        complete.then(|| Value::from(text))
    }

    /// Checks a text against the words there are to choose from.
    pub(super) fn one_of(
        &mut self,
        texts: &[&str],
        text: &str,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        if texts.contains(&text) {
            return Some(Value::from(text));
        }
        let allowed = suggest::listed(texts);
        let help = match suggest::closest(text, texts) {
            Some(meant) => format!("did you mean `{meant}`? Allowed are {allowed}"),
            None => format!("allowed are {allowed}"),
        };
        let message = format!("{} is not allowed here", self.quote(text));
        self.report(
            Diagnostic::error("invalid-value", message).label("not one of the allowed values").help(help),
            node.span,
            path,
        );
        None
    }

    fn boolean(
        &mut self,
        view: &View<'run>,
        text: &str,
        plain: bool,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        let truth = match plain_kind(text) {
            PlainKind::Boolean(truth) => Some(truth),
            _ => None,
        };
        match (plain, truth, yaml_1_1_boolean(text)) {
            (true, Some(truth), _) => Some(Value::Bool(truth)),
            (true, None, Some(truth)) => {
                let message = format!("`{text}` is read as `{truth}`, but not every YAML reader does so");
                self.report(
                    Diagnostic::warning(OLD_BOOLEAN, message).help(format!("write `{truth}`")),
                    node.span,
                    path,
                );
                Some(Value::Bool(truth))
            }
            (false, Some(truth), _) => {
                let diagnostic = Diagnostic::error("wrong-type", "expected true or false, found text")
                    .label("the quotes make this text")
                    .help(format!("remove the quotes: {truth}"));
                self.report(diagnostic, node.span, path);
                None
            }
            _ => self.wrong_kind(view, node, path),
        }
    }

    fn number(
        &mut self,
        view: &View<'run>,
        text: &str,
        plain: bool,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        let kind = plain_kind(text);
        let looks_like_one = matches!(kind, PlainKind::Integer | PlainKind::Float);
        if !plain && looks_like_one {
            let expected = self.expected(view);
            let diagnostic = Diagnostic::error("wrong-type", format!("expected {expected}, found text"))
                .label("the quotes make this text")
                .help("remove the quotes");
            self.report(diagnostic, node.span, path);
            return None;
        }
        if self.ambiguous(text, node, path) {
            return None;
        }
        let whole_only = view.has_type("integer") && !view.has_type("number");
        match kind {
            PlainKind::Integer => self.in_range(view, text, integer_value(text), node, path),
            PlainKind::Float if !whole_only => self.in_range(view, text, None, node, path),
            PlainKind::Float => {
                let message = format!("expected a whole number, found {}", self.quote(text));
                self.report(Diagnostic::error("wrong-type", message), node.span, path);
                None
            }
            _ => {
                let digits: String = text.chars().filter(|character| *character != '_').collect();
                if digits != text && plain_kind(&digits) == PlainKind::Integer {
                    let diagnostic =
                        Diagnostic::error("wrong-type", "underscores are not allowed in numbers")
                            .help(format!("write {digits}"));
                    self.report(diagnostic, node.span, path);
                    return None;
                }
                self.wrong_kind(view, node, path)
            }
        }
    }

    fn in_range(
        &mut self,
        view: &View<'run>,
        text: &str,
        exact: Option<i128>,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        // A whole number that no integer type holds may still be a number with a fraction, if that is allowed.
        let float = || float_json(text).filter(|_| view.has_type("number"));
        let value = exact.and_then(integer_json).or_else(float);
        let range = Range::of(view);
        if let Some(found) = value.filter(|value| range.holds(value.as_f64().unwrap_or_default(), exact)) {
            return Some(found);
        }
        let message = format!("{} is out of range: it must be {}", self.quote(text), range.rule());
        self.report(Diagnostic::error("invalid-value", message).label("out of range"), node.span, path);
        None
    }

    /// Reports a number whose leading zeros make it two different numbers to different readers.
    fn ambiguous(&mut self, text: &str, node: &Node, path: &FieldPath) -> bool {
        if !has_leading_zero(text) {
            return false;
        }
        let digits = text.trim_start_matches(['-', '+']).trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        let sign = if text.starts_with('-') { "-" } else { "" };
        let message = format!("{} is octal in YAML 1.1 and decimal in YAML 1.2", self.quote(text));
        let octal = i128::from_str_radix(digits, 8).ok().filter(|_| digits != "0");
        let help = match octal {
            Some(octal) => {
                format!("write {sign}{digits} if decimal is meant, or {sign}{octal} for octal {digits}")
            }
            None => format!("write {sign}{digits}, without the leading zeros"),
        };
        let diagnostic = Diagnostic::error("ambiguous-number", message);
        let diagnostic = self.unless_sensitive(diagnostic, help, "write it without leading zeros");
        self.report(diagnostic, node.span, path);
        true
    }

    fn integer_or_text(
        &mut self,
        view: &View<'run>,
        text: &str,
        plain: bool,
        node: &Node,
        path: &FieldPath,
    ) -> Option<Value> {
        if plain && plain_kind(text) == PlainKind::Integer {
            if self.ambiguous(text, node, path) {
                return None;
            }
            return self.in_range(view, text, integer_value(text), node, path);
        }
        if plain && plain_kind(text) == PlainKind::Float {
            let number = float_json(text);
            return number.or_else(|| Some(Value::from(text)));
        }
        self.rules(view, text, node, path)
    }
}
