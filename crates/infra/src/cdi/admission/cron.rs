//! DataImportCrons.

use serde_json::Value;

use super::spec;
use crate::cdi::cron::Schedule;
use crate::object::Object as _;
use crate::service::admission::{Cause, Review, Verdict};

/// The longest name of an import cron, which becomes part of others.
const LONGEST_NAME: usize = 253;

/// Refuses import crons that cannot come to anything.
pub(super) fn validate(review: &Review) -> Verdict {
    let cron = &review.object;
    if review.operation == "UPDATE" {
        if cron["spec"] != review.old["spec"] && !cron.is_deleting() {
            let cause = Cause::duplicate("DataImportCron.Spec", "Cannot update DataImportCron Spec");
            return Verdict::of_causes(vec![cause]);
        }
        return Verdict::fine();
    }
    if cron.name().len() > LONGEST_NAME {
        let message = format!("Name of data import cron cannot be more than {LONGEST_NAME} characters");
        return Verdict::of_causes(vec![Cause::invalid("", message)]);
    }
    Verdict::of_causes(check(&cron["spec"]).into_iter().collect())
}

fn check(cron: &Value) -> Option<Cause> {
    let template = cron.at("/template/spec");
    let wrong = |field: &str, message: String| Some(Cause::invalid(format!("spec.{field}"), message));
    if cron.text("/managedDataSource").is_empty() {
        return wrong("ManagedDataSource", "Missing managed DataSource name".to_owned());
    }
    let schedule = cron.text("/schedule");
    if !schedule.is_empty()
        && let Err(error) = Schedule::parse(schedule)
    {
        return wrong("Schedule", format!("Illegal cron schedule {schedule}: {error}"));
    }
    if cron.number("/importsToKeep").is_some_and(|keep| keep < 0) {
        return wrong("ImportsToKeep", "Illegal ImportsToKeep value".to_owned());
    }
    let choices = [
        ("garbageCollect", "GarbageCollect", &["", "Outdated", "Never"]),
        ("retentionPolicy", "RetentionPolicy", &["", "None", "All"]),
    ];
    for (field, name, allowed) in choices {
        if !allowed.contains(&cron[field].as_str().unwrap_or_default()) {
            return wrong(name, format!("Illegal {name} value"));
        }
    }
    let misfits =
        [("sourceRef", "SourceRef"), ("contentType", "ContentType"), ("checkpoints", "Checkpoints")];
    for (field, name) in misfits {
        if template.get(field).is_some_and(|value| !value.is_null() && value != "") {
            return wrong(&format!("Template.{name}"), format!("{name} is not supported in DataImportCron"));
        }
    }
    let source = &template["source"];
    if !source["registry"].is_object() && !source["pvc"].is_object() {
        return wrong("Template.Source", "Missing Registry or PVC source".to_owned());
    }
    spec::check("spec.Template.Spec", template).into_iter().next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_imported_again_is_refused() {
        let cron = |change: &dyn Fn(&mut Value)| {
            let mut cron = json!({"managedDataSource": "a", "schedule": "0 */2 * * *", "template": {"spec": {
                "source": {"registry": {"url": "docker://a"}},
                "storage": {"resources": {"requests": {"storage": "1Gi"}}}}}});
            change(&mut cron);
            check(&cron).map(|cause| cause.message).unwrap_or_default()
        };
        assert_eq!(cron(&|_| {}), "");
        assert!(cron(&|cron| cron["schedule"] = "x".into()).starts_with("Illegal cron schedule x"));
        assert_eq!(cron(&|cron| cron["importsToKeep"] = (-1).into()), "Illegal ImportsToKeep value");
        assert_eq!(cron(&|cron| cron["garbageCollect"] = "x".into()), "Illegal GarbageCollect value");
        let source =
            |cron: &mut Value| cron["template"]["spec"]["source"] = json!({"http": {"url": "http://a"}});
        assert_eq!(cron(&source), "Missing Registry or PVC source");
    }
}
