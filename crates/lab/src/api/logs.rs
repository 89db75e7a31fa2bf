//! How a kubelet is asked for the log of a container.

use serde_json::Value;

use super::Call;
use crate::status::Status;

/// The path of a kubelet for the log a request wants.
pub(super) fn path(call: &Call, pod: &Value) -> Result<String, Status> {
    let attributes = &call.attributes;
    let container = match call.parameters.text("container") {
        "" => only_container(pod, &attributes.name)?,
        named => named.to_owned(),
    };
    let mut query = Vec::new();
    for name in ["follow", "previous", "timestamps"] {
        if call.parameters.flag(name) {
            query.push(format!("{name}=true"));
        }
    }
    for (name, least) in [("tailLines", 0_i64), ("sinceSeconds", 1), ("limitBytes", 1)] {
        let Some(text) = call.parameters.get(name).filter(|text| !text.is_empty()) else { continue };
        let number = text.parse::<i64>().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?;
        if number < least {
            let message = format!(
                "PodLogOptions {:?} is invalid: {name}: Invalid value: {number}: must be greater than {}",
                attributes.name,
                if least == 0 { "or equal to 0" } else { "0" }
            );
            return Err(Status::new(422, "Invalid", message));
        }
        query.push(format!("{name}={number}"));
    }
    let since = call.parameters.text("sinceTime");
    if !since.is_empty() {
        if since.parse::<jiff::Timestamp>().is_err() {
            return Err(Status::bad_request(format!("parsing time {since:?}: it is none")));
        }
        query.push(format!("sinceTime={}", since.replace('+', "%2B")));
    }
    Ok(format!("/containerLogs/{}/{}/{container}?{}", attributes.namespace, attributes.name, query.join("&")))
}

/// The container that is meant where none is named.
fn only_container(pod: &Value, name: &str) -> Result<String, Status> {
    let names = |list: &str| {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|container| container["name"].as_str()).collect::<Vec<_>>()
    };
    let (containers, first) = (names("containers"), names("initContainers"));
    match containers.as_slice() {
        [only] => Ok((*only).to_owned()),
        many => {
            let first = if first.is_empty() {
                String::new()
            } else {
                format!(" or one of the init containers: [{}]", first.join(" "))
            };
            let message = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]{first}",
                many.join(" ")
            );
            Err(Status::bad_request(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_has_one_container_need_not_name_it() {
        let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(only_container(&pod, "p").unwrap(), "a");
        pod["spec"] =
            json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "c"}]});
        assert_eq!(
            only_container(&pod, "p").unwrap_err().message,
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [c]"
        );
    }
}
