//! `trellis explain`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use trellis_dialects::fields::{Field, fields};
use trellis_dialects::read::{KindInfo, kinds};
use trellis_dialects::suggest::closest;
use trellis_model::change::{CLUSTER_FIELDS, Class, FieldClass, POOL_FIELDS, rule_for};

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Document any field of any dialect, with what Trellis does with it.
///
/// Without an argument, lists all kinds. A kind that two dialects have is written with its dialect in
/// front: `kkp/Machine`, `openshift/Machine`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A dialect, a kind, or a field of a kind: `gardener`, `Shoot`, `Shoot.spec.provider.workers.volume`,
    /// `install-config.platform.kubevirt`, `kkp/MachineDeployment.spec.replicas`.
    target: Option<String>,
    /// Show all fields below as well.
    #[arg(long, short)]
    recursive: bool,
}

impl Explain {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { target, recursive } = self;
        let all = kinds();
        let target = target.unwrap_or_default();
        let of_dialect: Vec<&KindInfo> =
            all.iter().filter(|kind| target.is_empty() || kind.dialect.as_str() == target).collect();
        if !of_dialect.is_empty() {
            return print_kinds(&of_dialect, output);
        }
        let (kind, path) = find_kind(&all, &target)?;
        let below = fields((kind.schema)());
        match find_field(&below, &path, kind.label())? {
            None => print_kind(kind, &below, recursive, output),
            Some(field) => print_field(kind, field, recursive, output),
        }
    }
}

fn print_kinds(kinds: &[&KindInfo], output: Output) -> Result<Exit, Failure> {
    if output.format == Format::Json {
        let of = |kind: &&KindInfo| json!({ "dialect": kind.dialect.as_str(), "apiVersion": kind.api_version, "kind": kind.kind });
        print_json(&Value::Array(kinds.iter().map(of).collect()))?;
    } else {
        let mut text = String::new();
        for kind in kinds {
            let _ = writeln!(text, "{:<10} {:<52} {}", kind.dialect.as_str(), kind.api_version, kind.label());
        }
        print(&text)?;
    }
    Ok(Exit::Success)
}

/// Finds the kind a target begins with, and what is left of the target.
fn find_kind<'a>(all: &'a [KindInfo], target: &str) -> Result<(&'a KindInfo, Vec<String>), Failure> {
    let (dialect, rest) =
        target.split_once('/').map_or((None, target), |(dialect, rest)| (Some(dialect), rest));
    let mut segments =
        rest.split('.').map(|segment| segment.split('[').next().unwrap_or_default().to_owned());
    let name = segments.next().unwrap_or_default();
    let path = segments.filter(|segment| !segment.is_empty()).collect();
    let matches =
        |kind: &&KindInfo| kind.label().eq_ignore_ascii_case(&name) || kind.kind.eq_ignore_ascii_case(&name);
    let found: Vec<&KindInfo> = all
        .iter()
        .filter(|kind| dialect.is_none_or(|dialect| kind.dialect.as_str() == dialect))
        .filter(matches)
        .collect();
    match found.as_slice() {
        [kind] => Ok((kind, path)),
        [] => {
            let labels: Vec<&str> = all.iter().map(KindInfo::label).collect();
            let help = match closest(&name, &labels) {
                Some(label) => format!("did you mean {label}?"),
                None => "`trellis explain` lists all kinds".to_owned(),
            };
            Err(Failure::Usage(format!("there is no kind {name}; {help}")))
        }
        several => {
            let choices: Vec<String> =
                several.iter().map(|kind| format!("{}/{}", kind.dialect.as_str(), kind.label())).collect();
            Err(Failure::Usage(format!(
                "{name} is a kind of several dialects; write {}",
                choices.join(" or ")
            )))
        }
    }
}

/// Follows a path through fields. `None` for the kind itself.
fn find_field<'a>(below: &'a [Field], path: &[String], kind: &str) -> Result<Option<&'a Field>, Failure> {
    let mut fields = below;
    let mut found = None;
    let mut so_far = kind.to_owned();
    for segment in path {
        let Some(field) =
            fields.iter().find(|field| field.name == *segment || field.other_spellings.contains(segment))
        else {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let help = match closest(segment, &names) {
                Some(name) => format!("did you mean {name}?"),
                None if names.is_empty() => "it has no fields".to_owned(),
                None => format!("it has {}", names.join(", ")),
            };
            return Err(Failure::Usage(format!("{so_far} has no field {segment}; {help}")));
        };
        so_far = format!("{so_far}.{segment}");
        fields = &field.fields;
        found = Some(field);
    }
    Ok(found)
}

fn field_json(field: &Field, recursive: bool) -> Value {
    let mut value =
        json!({ "path": field.path, "kind": field.kind, "required": field.required, "about": field.about });
    if let Some((treatment, text)) = &field.treatment {
        value["treatment"] = json!({ "how": treatment.as_str(), "what": text });
    }
    if !field.allowed.is_empty() {
        value["allowed"] = json!(field.allowed);
    }
    if recursive && !field.fields.is_empty() {
        value["fields"] = field.fields.iter().map(|field| field_json(field, true)).collect();
    }
    value
}

fn print_kind(kind: &KindInfo, below: &[Field], recursive: bool, output: Output) -> Result<Exit, Failure> {
    if output.format == Format::Json {
        let fields: Vec<Value> = below.iter().map(|field| field_json(field, recursive)).collect();
        print_json(
            &json!({ "dialect": kind.dialect.as_str(), "apiVersion": kind.api_version, "kind": kind.kind, "fields": fields }),
        )?;
    } else {
        let mut text =
            format!("{} ({}, {})\n\nFields:\n", kind.label(), kind.dialect.as_str(), kind.api_version);
        list_fields(below, recursive, 1, &mut text);
        print(&text)?;
    }
    Ok(Exit::Success)
}

fn print_field(kind: &KindInfo, field: &Field, recursive: bool, output: Output) -> Result<Exit, Failure> {
    if output.format == Format::Json {
        let mut value = field_json(field, true);
        if !recursive {
            value["fields"] = field.fields.iter().map(|field| field_json(field, false)).collect();
        }
        print_json(&value)?;
        return Ok(Exit::Success);
    }
    let required = if field.required { ", required" } else { "" };
    let mut text = format!("{} {} <{}{required}>\n\n", kind.label(), field.path, field.kind);
    if !field.about.is_empty() {
        let _ = writeln!(text, "{}\n", field.about);
    }
    if let Some((treatment, what)) = &field.treatment {
        let _ = writeln!(
            text,
            "Trellis: {}{}\n",
            treatment.as_str(),
            if what.is_empty() { String::new() } else { format!(": {what}") }
        );
    }
    if let Some(change) = change_of(kind, field) {
        let _ = writeln!(text, "Trellis: honoured. {change}\n");
    }
    if !field.allowed.is_empty() {
        let _ = writeln!(
            text,
            "Allowed: {}\n",
            field.allowed.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ")
        );
    }
    if !field.fields.is_empty() {
        text.push_str("Fields:\n");
        list_fields(&field.fields, recursive, 1, &mut text);
    }
    print(text.trim_end())?;
    Ok(Exit::Success)
}

/// What changing a field of one of our own kinds does.
fn change_of(kind: &KindInfo, field: &Field) -> Option<String> {
    let rules = match kind.kind {
        "TenantCluster" => CLUSTER_FIELDS,
        "MachinePool" => POOL_FIELDS,
        _ => return None,
    };
    let path = field.path.strip_prefix("spec.")?.replace("[]", "").replace(".*", "");
    let rule = rule_for(&[rules], &path)?;
    let does = match rule.class {
        FieldClass::Always(Class::InPlace) => "is applied in place",
        FieldClass::Always(Class::ThroughPools) => "acts through the pools",
        FieldClass::Always(Class::Roll) => "replaces machines",
        FieldClass::Always(Class::Reject) => "is refused",
        FieldClass::GrowsInPlace => {
            "is applied in place, or replaces pinned machines and those with huge pages"
        }
    };
    Some(format!("A change of it {does}: {}.", rule.why))
}

fn list_fields(fields: &[Field], recursive: bool, depth: usize, out: &mut String) {
    for field in fields {
        let about = field.about.split("\n\n").next().unwrap_or_default();
        let indent = "  ".repeat(depth);
        let required = if field.required { " (required)" } else { "" };
        let treatment = field
            .treatment
            .as_ref()
            .map_or_else(String::new, |(treatment, _)| format!(" [{}]", treatment.as_str()));
        let allowed =
            if field.allowed.is_empty() { String::new() } else { format!(": {}", field.allowed.join(", ")) };
        let _ = writeln!(out, "{indent}{} <{}{allowed}>{required}{treatment}", field.name, field.kind);
        if !about.is_empty() {
            let _ = writeln!(out, "{indent}    {about}");
        }
        if recursive {
            list_fields(&field.fields, true, depth + 1, out);
        }
    }
}
