//! `subresources.kubevirt.io`: what can be done to a machine.
//!
//! The API server passes these requests on with the user it vouches for; virt-api asks it once more whether that user
//! may do this, answers what can be answered from the objects, and reaches into the running machine for the rest.

mod agent;
mod console;
mod discovery;
mod display;
mod evacuate;
mod expand;
mod forward;
mod graph;
mod lifecycle;
mod memory;
mod power;
mod refusal;
mod stream;
mod volumes;

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

pub use refusal::Refusal;

use crate::client::{Client, Identity};
use crate::context::Context;
use crate::kinds::{Kind, SUBJECT_ACCESS_REVIEW, VM, VMI};
use crate::object::{Key, Object as _};
use crate::service::{Body, Call, User, answer, empty, plain};
use crate::world::machine::Machine;

/// What a request comes to.
type Answer = Result<Response<Body>, Refusal>;

/// The largest body that is read.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Answers a request.
pub async fn serve(context: &Context, call: Call) -> Response<Body> {
    let path = call.request.uri().path().to_owned();
    let Some(version) = discovery::version_of(&path) else { return nowhere() };
    if let Some(answer) = discovery::open(version, &path, call.request.method()) {
        return answer;
    }
    let Some(place) = Place::of(&path) else { return nowhere() };
    match allowed(context, &call.user, call.request.method(), version, &place).await {
        Ok(None) => {}
        Ok(Some(reason)) => return plain(StatusCode::UNAUTHORIZED, &reason),
        Err(failure) => return Refusal::of_api(failure).response(),
    }
    let request = Asked { context: context.clone(), client: context.client(Identity::VIRT_API), place };
    request.answer(call).await.unwrap_or_else(|refusal| refusal.response())
}

/// There is nothing at such a path.
fn nowhere() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404: Page Not Found")
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    namespace: String,
    /// `virtualmachines`, `virtualmachineinstances` or, without a name, `expand-vm-spec`.
    resource: String,
    name: String,
    /// The subresource.
    action: String,
    /// What comes after it in the path.
    rest: Vec<String>,
}

impl Place {
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.split('/').skip(4).map(ToOwned::to_owned);
        if parts.next()? != "namespaces" {
            return None;
        }
        let (namespace, resource) = (parts.next()?, parts.next()?);
        let (name, action) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let known = match resource.as_str() {
            "virtualmachines" | "virtualmachineinstances" => !action.is_empty(),
            "expand-vm-spec" => name.is_empty(),
            _ => false,
        };
        known.then(|| Self { namespace, resource, name, action, rest: parts.collect() })
    }

    fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    fn is_vm(&self) -> bool {
        self.resource == "virtualmachines"
    }
}

/// Asks the API server whether a user may do this; why not, where not.
async fn allowed(
    context: &Context,
    user: &User,
    method: &Method,
    version: &str,
    place: &Place,
) -> Result<Option<String>, crate::client::ApiError> {
    if user.name.is_empty() {
        return Ok(Some("request is not authenticated".to_owned()));
    }
    let mut attributes = json!({
        "namespace": place.namespace, "verb": verb(method, &place.name), "group": discovery::GROUP,
        "version": version, "resource": place.resource,
    });
    if !place.name.is_empty() {
        attributes["name"] = place.name.as_str().into();
        attributes["subresource"] = place.action.as_str().into();
    }
    let review = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEW.api_version(), "kind": SUBJECT_ACCESS_REVIEW.kind,
        "spec": {"user": user.name, "groups": user.groups, "resourceAttributes": attributes},
    });
    let client = context.client(Identity::VIRT_API);
    let path = SUBJECT_ACCESS_REVIEW.path("", "");
    let answer = client.send(Method::POST, &path, Some(("application/json", &review))).await?;
    Ok((!answer.flag("/status/allowed")).then(|| answer.text("/status/reason").to_owned()))
}

/// The verb of a method in terms of rights.
fn verb(method: &Method, name: &str) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if name.is_empty() => "list",
        _ => "get",
    }
}

/// A request of somebody who may make it.
#[derive(Debug, Clone)]
struct Asked {
    context: Context,
    client: Client,
    place: Place,
}

impl Asked {
    async fn answer(&self, call: Call) -> Answer {
        let method = call.request.method().clone();
        let put = method == Method::PUT;
        let get = method == Method::GET;
        if self.place.resource == "expand-vm-spec" {
            return if put { self.expand_given(&body(call).await?).await } else { Ok(not_allowed()) };
        }
        let action: Vec<&str> =
            std::iter::once(&self.place.action).chain(&self.place.rest).map(String::as_str).collect();
        let (is_put, answer) = match (self.place.is_vm(), action.as_slice()) {
            (true, ["start"]) => (true, put.then_some(Do::Start)),
            (true, ["stop"]) => (true, put.then_some(Do::Stop)),
            (true, ["restart"]) => (true, put.then_some(Do::Restart)),
            (true, ["migrate"]) => (true, put.then_some(Do::Migrate)),
            (_, ["addvolume"]) => (true, put.then_some(Do::AddVolume)),
            (_, ["removevolume"]) => (true, put.then_some(Do::RemoveVolume)),
            (true, ["memorydump"]) => (true, put.then_some(Do::MemoryDump)),
            (true, ["removememorydump"]) => (true, put.then_some(Do::RemoveMemoryDump)),
            (_, ["evacuate", "cancel"]) => (true, put.then_some(Do::CancelEvacuation)),
            (false, ["pause"]) => (true, put.then_some(Do::Pause)),
            (false, ["unpause"]) => (true, put.then_some(Do::Unpause)),
            (false, ["freeze"]) => (true, put.then_some(Do::Freeze)),
            (false, ["unfreeze"]) => (true, put.then_some(Do::Unfreeze)),
            (false, ["softreboot"]) => (true, put.then_some(Do::SoftReboot)),
            (false, ["reset"]) => (true, put.then_some(Do::Reset)),
            (true, ["expand-spec"]) => (false, get.then_some(Do::ExpandSpec)),
            (_, ["objectgraph"]) => (false, get.then_some(Do::ObjectGraph)),
            (false, ["guestosinfo"]) => (false, get.then_some(Do::GuestInfo)),
            (false, ["userlist"]) => (false, get.then_some(Do::Users)),
            (false, ["filesystemlist"]) => (false, get.then_some(Do::Filesystems)),
            (false, ["console"]) => (false, get.then_some(Do::Console)),
            (false, ["vnc"]) => (false, get.then_some(Do::Vnc)),
            (false, ["vnc", "screenshot"]) => (false, get.then_some(Do::Screenshot)),
            (_, ["portforward", _] | ["portforward", _, _]) => (false, get.then_some(Do::PortForward)),
            (false, ["vsock"]) => return Err(Refusal::bad("VSOCK feature gate is not enabled")),
            (false, ["usbredir"]) => (false, get.then_some(Do::UsbRedirect)),
            _ => return Ok(nowhere()),
        };
        let Some(what) = answer else { return Ok(not_allowed()) };
        if is_put { self.put(what, call).await } else { self.get(what, call).await }
    }

    async fn put(&self, what: Do, call: Call) -> Answer {
        let body = body(call).await?;
        match what {
            Do::Start => self.start(&body).await,
            Do::Stop => self.stop(&body).await,
            Do::Restart => self.restart(&body).await,
            Do::Migrate => self.migrate(&body).await,
            Do::AddVolume => self.add_volume(body).await,
            Do::RemoveVolume => self.remove_volume(&body).await,
            Do::MemoryDump => self.memory_dump(&body).await,
            Do::RemoveMemoryDump => self.remove_memory_dump().await,
            Do::CancelEvacuation => self.cancel_evacuation(&body).await,
            Do::Pause => self.pause(&body).await,
            Do::Unpause => self.unpause(&body).await,
            Do::Freeze => self.freeze(&body).await,
            Do::Unfreeze => self.unfreeze().await,
            Do::SoftReboot => self.soft_reboot().await,
            Do::Reset => self.reset().await,
            _ => Ok(nowhere()),
        }
    }

    async fn get(&self, what: Do, call: Call) -> Answer {
        match what {
            Do::ExpandSpec => self.expand_spec().await,
            Do::ObjectGraph => self.object_graph().await,
            Do::GuestInfo | Do::Users | Do::Filesystems => Ok(self.tell_of_guest(what).await),
            Do::Console => self.console(call).await,
            Do::Vnc => self.vnc(call).await,
            Do::Screenshot => self.screenshot().await,
            Do::PortForward => self.port_forward(call).await,
            Do::UsbRedirect => self.usb_redirect().await,
            _ => Ok(nowhere()),
        }
    }

    /// The machine, as the server has it now.
    async fn vm(&self) -> Result<Value, Refusal> {
        self.fetch(&VM, "virtualmachine").await
    }

    /// The instance, as the server has it now.
    async fn vmi(&self) -> Result<Value, Refusal> {
        self.fetch(&VMI, "virtualmachineinstance").await
    }

    async fn fetch(&self, kind: &'static Kind, word: &'static str) -> Result<Value, Refusal> {
        let found = self.client.get(kind, &self.place.key()).await.map_err(Refusal::of_api)?;
        found.ok_or_else(|| Refusal::not_found(word, &self.place.name))
    }

    /// The instance of a machine that may have none.
    async fn vmi_if_any(&self) -> Result<Option<Value>, Refusal> {
        self.client.get(&VMI, &self.place.key()).await.map_err(Refusal::of_api)
    }

    /// The running machine behind an instance.
    fn machine(&self, vmi: &Value) -> Result<Arc<Machine>, Refusal> {
        if vmi.text("/status/phase") != "Running" {
            return Err(Refusal::bad(&unreachable(vmi)));
        }
        let machine = self.context.world.machines.get(vmi.uid());
        machine.ok_or_else(|| Refusal::internal("the launcher of the VMI does not answer"))
    }

    /// Something stands in the way of what is asked of the machine.
    fn vm_conflict(&self, why: &str) -> Refusal {
        Refusal::conflict("virtualmachine", &self.place.name, why)
    }

    /// Something stands in the way of what is asked of the instance.
    fn vmi_conflict(&self, why: &str) -> Refusal {
        Refusal::conflict("virtualmachineinstance", &self.place.name, why)
    }

    /// Applies the operations of a JSON patch, or only tries to. A test that does not hold is a conflict.
    async fn patch(
        &self,
        kind: &'static Kind,
        subresource: &str,
        operations: Value,
        dry_run: bool,
    ) -> Result<Value, Refusal> {
        let key = self.place.key();
        let patched = match (dry_run, subresource) {
            (true, _) => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let path = format!("{}{slash}{subresource}?dryRun=All", kind.path(&key.namespace, &key.name));
                let body = Some(("application/json-patch+json", &operations));
                self.client.send(Method::PATCH, &path, body).await
            }
            (false, "status") => self.client.json_patch_status(kind, &key, &operations).await,
            (false, _) => self.client.json_patch(kind, &key, &operations).await,
        };
        patched.map_err(|failure| {
            if is_failed_test(&failure.message) {
                let word = if *kind == VM { "virtualmachine" } else { "virtualmachineinstance" };
                Refusal::conflict(word, &self.place.name, &failure.message)
            } else if failure.code == 422 {
                Refusal::passed_on(&failure)
            } else {
                Refusal::of_api(failure)
            }
        })
    }
}

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Do {
    Start,
    Stop,
    Restart,
    Migrate,
    AddVolume,
    RemoveVolume,
    MemoryDump,
    RemoveMemoryDump,
    CancelEvacuation,
    Pause,
    Unpause,
    Freeze,
    Unfreeze,
    SoftReboot,
    Reset,
    ExpandSpec,
    ObjectGraph,
    GuestInfo,
    Users,
    Filesystems,
    Console,
    Vnc,
    Screenshot,
    PortForward,
    UsbRedirect,
}

/// Why an instance cannot be reached.
fn unreachable(vmi: &Value) -> String {
    let phase = vmi.text("/status/phase");
    format!("Unable to connect to VirtualMachineInstance because phase is {phase} instead of Running")
}

/// Whether a patch failed because what it tested has changed.
fn is_failed_test(message: &str) -> bool {
    message.contains("test") && (message.contains("testing value") || message.contains("test operation"))
        || message.contains("test failed")
}

fn not_allowed() -> Response<Body> {
    plain(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
}

/// Done, or going to be.
fn accepted() -> Response<Body> {
    empty(StatusCode::ACCEPTED)
}

/// Done.
fn done() -> Response<Body> {
    empty(StatusCode::OK)
}

/// The body of a request: JSON or YAML; null where there is none.
async fn body(call: Call) -> Result<Value, Refusal> {
    let body: Limited<Incoming> = Limited::new(call.request.into_body(), LARGEST_BODY);
    let bytes = body.collect().await.map_err(|error| unreadable(&error))?.to_bytes();
    let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(&error))?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str(text).map_err(|error| unreadable(&error))?,
    };
    match mistyped(&value) {
        Some(problem) => Err(unreadable(&problem)),
        None => Ok(value),
    }
}

/// What keeps a body from being the options of anything: it is no object, or a field all know is of another type.
fn mistyped(body: &Value) -> Option<String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !body.is_object() && !body.is_null() {
        return Some(format!("json: cannot unmarshal {} into the options of the request", kind(body)));
    }
    let is_texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let known = [
        ("paused", body["paused"].is_boolean(), "bool"),
        ("dryRun", is_texts(&body["dryRun"]), "[]string"),
        ("gracePeriod", body["gracePeriod"].is_i64(), "int64"),
        ("gracePeriodSeconds", body["gracePeriodSeconds"].is_i64(), "int64"),
    ];
    known.into_iter().find_map(|(name, fits, wanted)| {
        let given = &body[name];
        let wrong = !given.is_null() && !fits;
        wrong.then(|| format!("json: cannot unmarshal {} into field {name} of type {wanted}", kind(given)))
    })
}

fn unreadable(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::bad(&format!("Can not unmarshal Request body to struct, error: {error}"))
}

/// Whether nothing is to come of a request.
fn dry_run(body: &Value) -> bool {
    body.list("/dryRun").first().is_some_and(|mode| mode == "All")
}

/// An answer in JSON.
fn told(value: &Value) -> Response<Body> {
    answer(StatusCode::OK, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_asked() {
        let base = "/apis/subresources.kubevirt.io/v1/namespaces/a";
        let place = Place::of(&format!("{base}/virtualmachines/m/portforward/22/tcp")).unwrap();
        assert!(place.is_vm());
        assert_eq!(
            (place.action.as_str(), place.rest.as_slice()),
            ("portforward", &["22".into(), "tcp".into()][..])
        );
        assert!(Place::of(&format!("{base}/expand-vm-spec")).is_some());
        assert!(Place::of(&format!("{base}/virtualmachines/m")).is_none());
        assert!(Place::of(&format!("{base}/pods/m/log")).is_none());
    }

    #[test]
    fn options_are_objects_with_fields_of_their_types() {
        for fine in [json!(null), json!({}), json!({"paused": true, "dryRun": ["All"], "gracePeriod": 0})] {
            assert_eq!(mistyped(&fine), None, "{fine}");
        }
        for wrong in [
            json!([]),
            json!("a"),
            json!(1),
            json!({"paused": "yes"}),
            json!({"dryRun": "All"}),
            json!({"gracePeriod": 1.5}),
        ] {
            assert!(mistyped(&wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn failed_tests_of_patches_are_told_from_other_failures() {
        assert!(is_failed_test("testing value /spec/running failed: test failed"));
        assert!(is_failed_test("jsonpatch test operation does not apply"));
        assert!(!is_failed_test("the server could not be reached"));
    }
}
