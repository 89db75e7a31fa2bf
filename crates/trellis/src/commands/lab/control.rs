//! Commands for a lab that runs: they go through its own API, `lab.trellis.dev`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// The folder of a lab, where none is named.
pub(super) const FOLDER: &str = ".trellis/lab";
/// Where the lab's own API is.
const API: &str = "/apis/lab.trellis.dev/v1";

/// A command for a lab that runs.
#[derive(Debug, Subcommand)]
pub(super) enum Control {
    /// List the hosts with their power and cables.
    Hosts(Where),
    /// Take away a host's power: everything on it is gone at once.
    Fail(Host),
    /// Pull a host's cable: everything on it goes on, and nobody hears of it.
    Unplug(Host),
    /// Give a host its power and its cable back.
    Return(Host),
    /// List the rules that were added.
    Rules(Where),
    /// Add a rule that makes a stage slow, fail or hang.
    Rule(Rule),
    /// Take a rule away again.
    Unrule(Named),
    /// Make the guest of a machine panic.
    Panic(Machine),
    /// Ask whether one machine, pod or host reaches another on a port.
    Reach(Reach),
    /// Set how much fits into a class of storage.
    Capacity(Capacity),
    /// Cut the link between two parties of the network.
    Cut(Link),
    /// Mend a link that was cut.
    Mend(Link),
    /// List the links that are cut.
    Cuts(Where),
}

/// Which lab.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// The folder of the lab.
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    dir: PathBuf,
}

/// A host of a lab.
#[derive(Debug, Args)]
pub(super) struct Host {
    /// The name of the host, such as host-0001.
    #[arg(value_name = "HOST")]
    name: String,
    #[command(flatten)]
    place: Where,
}

/// A rule of a lab by name.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The name of the rule.
    name: String,
    #[command(flatten)]
    place: Where,
}

/// A machine of a lab.
#[derive(Debug, Args)]
pub(super) struct Machine {
    /// The machine as NAMESPACE/NAME.
    #[arg(value_name = "MACHINE")]
    key: String,
    /// What the panic says.
    #[arg(long)]
    message: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// A question about the network.
#[derive(Debug, Args)]
pub(super) struct Reach {
    /// Who connects: NAMESPACE/MACHINE, pod/NAMESPACE/NAME, host/NAME or outside.
    from: String,
    /// To whom: a machine, pod or host as above, NAME.NAMESPACE.svc of a Service, or an address.
    to: String,
    /// On which port.
    port: u16,
    #[command(flatten)]
    place: Where,
}

/// How much fits into a class of storage.
#[derive(Debug, Args)]
pub(super) struct Capacity {
    /// The storage class.
    class: String,
    /// How much, such as 100Gi; without it there is no end.
    amount: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// A link between two parties.
#[derive(Debug, Args)]
pub(super) struct Link {
    /// One end: namespace/NAME, host/NAME, label/KEY=VALUE, api, outside or everybody.
    one: String,
    /// The other end.
    other: String,
    #[command(flatten)]
    place: Where,
}

/// A rule to add.
#[derive(Debug, Args)]
pub(super) struct Rule {
    /// The name of the rule, for taking it away again.
    name: String,
    /// The stage it is about, such as guest.boot; a wrong one is answered with the list.
    stage: String,
    /// What the object must have: a JSON pointer and its text, such as /metadata/name=w1. May be repeated.
    #[arg(long = "match", value_name = "POINTER=TEXT")]
    matches: Vec<String>,
    /// How long the stage takes, in seconds: 5, or 5..20.
    #[arg(long, value_name = "SECONDS")]
    delay: Option<String>,
    /// The stage fails with these words.
    #[arg(long, value_name = "WORDS", conflicts_with = "hang")]
    fail: Option<String>,
    /// The stage is never passed until the rule is gone.
    #[arg(long)]
    hang: bool,
    /// How often the rule applies. [default: always]
    #[arg(long, value_name = "N")]
    times: Option<u32>,
    #[command(flatten)]
    place: Where,
}

impl Control {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (place, method, path, body) = self.request()?;
        let answer = place.ask(method, &path, body.as_ref()).await?;
        match output.format {
            Format::Json => print_json(&answer)?,
            Format::Human => print(&format!("{}\n", said(&answer)))?,
        }
        Ok(Exit::Success)
    }

    /// The request a command stands for.
    fn request(self) -> Result<(Where, Method, String, Option<Value>), Failure> {
        let power = |host: Host, state: Value| {
            (host.place, Method::PUT, format!("/hosts/{}", host.name), Some(state))
        };
        Ok(match self {
            Self::Hosts(place) => (place, Method::GET, "/hosts".to_owned(), None),
            Self::Fail(host) => power(host, json!({"powered": false})),
            Self::Unplug(host) => power(host, json!({"connected": false})),
            Self::Return(host) => power(host, json!({"powered": true, "connected": true})),
            Self::Rules(place) => (place, Method::GET, "/rules".to_owned(), None),
            Self::Rule(rule) => {
                let body = rule.body()?;
                (rule.place, Method::POST, "/rules".to_owned(), Some(body))
            }
            Self::Unrule(named) => (named.place, Method::DELETE, format!("/rules/{}", named.name), None),
            Self::Panic(machine) => {
                if machine.key.split('/').count() != 2 {
                    return Err(Failure::Usage(format!("{:?}: write it like default/web", machine.key)));
                }
                let body = json!({"message": machine.message.unwrap_or_default()});
                (machine.place, Method::POST, format!("/machines/{}/panic", machine.key), Some(body))
            }
            Self::Reach(reach) => {
                let body = json!({"from": reach.from, "to": reach.to, "port": reach.port});
                (reach.place, Method::POST, "/reach".to_owned(), Some(body))
            }
            Self::Capacity(capacity) => {
                let body = json!({"capacity": capacity.amount});
                (capacity.place, Method::PUT, format!("/storageclasses/{}", capacity.class), Some(body))
            }
            Self::Cut(link) => {
                let body = link.body()?;
                (link.place, Method::POST, "/cuts".to_owned(), Some(body))
            }
            Self::Cuts(place) => (place, Method::GET, "/cuts".to_owned(), None),
            Self::Mend(link) => {
                let body = link.body()?;
                (link.place, Method::DELETE, "/cuts".to_owned(), Some(body))
            }
        })
    }
}

impl Rule {
    fn body(&self) -> Result<Value, Failure> {
        let wrong = |what: &str, text: &str, form: &str| {
            Failure::Usage(format!("{what} {text:?}: write it like {form}"))
        };
        let mut matches = Vec::new();
        for text in &self.matches {
            let (pointer, value) = text
                .rsplit_once('=')
                .filter(|(pointer, _)| pointer.starts_with('/'))
                .ok_or_else(|| wrong("--match", text, "/metadata/name=w1"))?;
            matches.push(json!([pointer, value]));
        }
        let mut body = json!({"name": self.name, "stage": self.stage, "match": matches});
        if let Some(text) = &self.delay {
            let (least, most) = text.split_once("..").unwrap_or((text, text));
            let seconds = |part: &str| part.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0);
            let (Some(least), Some(most)) = (seconds(least), seconds(most)) else {
                return Err(wrong("--delay", text, "5 or 5..20"));
            };
            if most < least {
                return Err(wrong("--delay", text, "5..20, the least first"));
            }
            body["delay"] = json!({"min": least, "max": most});
        }
        if let Some(words) = &self.fail {
            body["effect"] = json!({"fail": words});
        } else if self.hang {
            body["effect"] = "hang".into();
        } else if self.delay.is_none() {
            return Err(Failure::Usage(
                "a rule changes nothing without one of --delay, --fail and --hang".to_owned(),
            ));
        }
        if let Some(times) = self.times {
            body["times"] = times.into();
        }
        Ok(body)
    }
}

impl Link {
    fn body(&self) -> Result<Value, Failure> {
        Ok(json!({"one": party(&self.one)?, "other": party(&self.other)?}))
    }
}

/// A party of the network as the API writes it.
fn party(text: &str) -> Result<Value, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "{text:?} is none of namespace/NAME, host/NAME, label/KEY=VALUE, api, outside, everybody"
        ))
    };
    match text.split_once('/') {
        None if matches!(text, "api" | "outside" | "everybody") => Ok(text.into()),
        Some(("namespace", name)) => Ok(json!({"namespace": name})),
        Some(("host", name)) => Ok(json!({"host": name})),
        Some(("label", pair)) => {
            let (name, value) = pair.rsplit_once('=').ok_or_else(wrong)?;
            Ok(json!({"labelled": [name, value]}))
        }
        _ => Err(wrong()),
    }
}

impl Where {
    /// Asks the lab.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let file = self.dir.join("kubeconfig");
        if !file.exists() {
            return Err(self.no_lab());
        }
        let unreadable = |why: String| Failure::Read { name: file.display().to_string(), why };
        let config = Kubeconfig::read_from(&file).map_err(|error| unreadable(error.to_string()))?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
            .await
            .map_err(|error| unreadable(error.to_string()))?;
        let failed = |error: kube::Error| match error {
            kube::Error::Api(status) => Failure::Refused(status.message),
            refused if is_refused(&refused) => self.no_lab(),
            other => Failure::Refused(format!("the lab does not answer: {other}")),
        };
        let client = kube::Client::try_from(config).map_err(failed)?;
        let request = Request::builder().method(method).uri(format!("{API}{path}"));
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = request
            .header("content-type", "application/json")
            .body(bytes)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        client.request(request).await.map_err(failed)
    }

    /// That there is no lab to be asked, and what to do about it.
    fn no_lab(&self) -> Failure {
        let dir = self.dir.display();
        Failure::Refused(format!("no lab runs in {dir}; start it with: trellis lab --dir {dir}"))
    }
}

/// Whether nobody listens where a lab did.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_io = |error: &(dyn std::error::Error + 'static)| {
        let io = error.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    std::iter::successors(Some(error), |error| error.source()).any(is_io)
}

/// An answer for people.
fn said(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let host = |host: &Value| {
        let state = match (host["powered"] == true, host["connected"] == true) {
            (true, true) => "up",
            (true, false) => "unplugged",
            (false, _) => "off",
        };
        format!("{:<16} {state}", text(&host["metadata"]["name"]))
    };
    let lines = |each: &dyn Fn(&Value) -> String| -> String {
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            "there are none".to_owned()
        } else {
            items.iter().map(each).collect::<Vec<_>>().join("\n")
        }
    };
    match answer["kind"].as_str() {
        Some("HostList") => lines(&host),
        Some("Host") => host(answer),
        Some("RuleList") => lines(&rule_line),
        Some("CutList") => lines(&|cut| format!("{:<28} {}", side(&cut["one"]), side(&cut["other"]))),
        Some("StorageClassCapacity") => match answer["free"].as_str() {
            Some(free) => format!("{free} still fit"),
            None => "it has no end".to_owned(),
        },
        Some("Verdict") if answer["allowed"] == true => format!("yes: {}", text(&answer["why"])),
        Some("Verdict") => format!("no: {}", text(&answer["why"])),
        _ => "done".to_owned(),
    }
}

/// A rule in a line: its name, its stage, for what, and what it does.
fn rule_line(rule: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut words = vec![format!("{:<16} {:<20}", text(&rule["name"]), text(&rule["stage"]))];
    let pairs = rule["match"].as_array().into_iter().flatten();
    words.extend(pairs.map(|pair| format!("{}={}", text(&pair[0]), text(&pair[1]))));
    let seconds = |end: &str| rule["delay"][end].as_f64().unwrap_or_default();
    let (least, most) = (seconds("min"), seconds("max"));
    if most > least {
        words.push(format!("takes {least}..{most} s"));
    } else if least > 0.0 {
        words.push(format!("takes {least} s"));
    }
    match &rule["effect"] {
        Value::String(word) if word == "hang" => words.push("hangs".to_owned()),
        Value::Object(effect) => {
            words.push(format!("fails: {}", effect.get("fail").map(text).unwrap_or_default()));
        }
        _ => {}
    }
    if let Some(times) = rule["times"].as_u64() {
        words.push(format!("({times} more times)"));
    }
    words.join(" ")
}

/// A party of the network as people write it.
fn side(party: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match party {
        Value::Object(named) => named
            .iter()
            .map(|(kind, value)| match (kind.as_str(), value) {
                ("labelled", pair) => format!("label/{}={}", text(&pair[0]), text(&pair[1])),
                (kind, name) => format!("{kind}/{}", text(name)),
            })
            .collect(),
        word => text(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_are_read() {
        assert_eq!(party("api").unwrap(), "api");
        assert_eq!(party("label/a/b=c").unwrap(), json!({"labelled": ["a/b", "c"]}));
        assert!(party("nobody").is_err() && party("label/x").is_err());
    }

    #[test]
    fn rules_and_cuts_tell_all_there_is() {
        let rule = json!({"name": "r", "stage": "guest.boot", "match": [["/metadata/name", "web"]],
            "delay": {"min": 1.0, "max": 5.0}, "effect": {"fail": "no root"}, "times": 2});
        let line = said(&json!({"kind": "RuleList", "items": [rule]}));
        assert!(line.ends_with("/metadata/name=web takes 1..5 s fails: no root (2 more times)"), "{line}");
        let cut = json!({"one": {"labelled": ["a", "b"]}, "other": "outside"});
        let line = said(&json!({"kind": "CutList", "items": [cut]}));
        assert!(line.starts_with("label/a=b ") && line.ends_with(" outside"), "{line}");
    }

    #[test]
    fn answers_are_told_in_a_line() {
        let host = json!({"kind": "Host", "metadata": {"name": "h"}, "powered": false, "connected": true});
        assert!(said(&host).ends_with("off"));
        assert_eq!(
            said(&json!({"kind": "Verdict", "allowed": false, "why": "policy deny"})),
            "no: policy deny"
        );
    }
}
