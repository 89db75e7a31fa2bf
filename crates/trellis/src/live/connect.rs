//! Which cluster is spoken with, and what its failures mean.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use trellis_runtime::client::{Error, Manners, Request, Verb};
use trellis_runtime::{Resource, Site};

use crate::exit::Failure;

/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(5);
/// The namespace where nothing names one.
const DEFAULT_NAMESPACE: &str = "default";

/// Which cluster, and which part of it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which cluster")]
pub(crate) struct Where {
    /// The kubeconfig. Without it: the files of the KUBECONFIG variable, else ~/.kube/config, else the service account
    /// of the pod this runs in.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; the current one when left out.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace; that of the context when left out.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

/// A cluster that is spoken with.
#[derive(Debug, Clone)]
pub(crate) struct Connected {
    /// The API server.
    pub(crate) site: Site,
    /// The namespace that is meant where none is named.
    pub(crate) namespace: String,
    /// The server and where it was found, for messages.
    place: String,
}

impl Where {
    /// Connects. Whether the server answers shows with the first request.
    pub(crate) async fn connect(&self) -> Result<Connected, Failure> {
        let files = self.files(std::env::var_os("KUBECONFIG"), home());
        let (mut config, place) = if files.is_empty() {
            let config = kube::Config::incluster().map_err(|_| {
                Failure::Usage(
                    "there is no kubeconfig: name one with --kubeconfig or KUBECONFIG (there is no ~/.kube/config, \
                     and this does not run in a pod)"
                        .to_owned(),
                )
            })?;
            (config, "the pod's service account".to_owned())
        } else {
            let named = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(":");
            (self.config(&files, &named).await?, named)
        };
        // What is refused for now, such as an eviction, is to be seen as such.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECTING);
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let place = format!("{} ({place})", config.cluster_url.to_string().trim_end_matches('/'));
        // What is wrong with credentials is not quoted: it may hold them.
        let client = kube::Client::try_from(config)
            .map_err(|_| Failure::Usage(format!("the credentials for {place} cannot be used")))?;
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace };
        Ok(Connected { site: Site::with("cluster", client, Manners::default()), namespace, place })
    }

    /// The one kubeconfig file that counts, for whoever passes it on.
    pub(crate) fn one_file(&self) -> Result<PathBuf, Failure> {
        let files = self.files(std::env::var_os("KUBECONFIG"), home());
        match files.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::Usage(
                "there is no kubeconfig: name one with --kubeconfig or KUBECONFIG (there is no ~/.kube/config)".to_owned(),
            )),
            _ => Err(Failure::Usage(
                "KUBECONFIG names several files: name the one of the infra cluster with --kubeconfig".to_owned(),
            )),
        }
    }

    /// The kubeconfig files that count, the first before the others.
    fn files(&self, variable: Option<OsString>, home: Option<PathBuf>) -> Vec<PathBuf> {
        if let Some(file) = &self.kubeconfig {
            return vec![file.clone()];
        }
        let variable = variable.unwrap_or_default();
        let mut files: Vec<PathBuf> =
            std::env::split_paths(&variable).filter(|path| !path.as_os_str().is_empty()).collect();
        if files.len() > 1 {
            // Of a list, files that are not there are passed over, as other tools do.
            files.retain(|file| file.exists());
        }
        if files.is_empty() {
            files.extend(home.map(|home| home.join(".kube/config")).filter(|file| file.exists()));
        }
        files
    }

    async fn config(&self, files: &[PathBuf], named: &str) -> Result<kube::Config, Failure> {
        let mut merged = Kubeconfig::default();
        for file in files {
            merged = merged.merge(read(file)?).map_err(|_| malformed(file))?;
        }
        let contexts: Vec<String> = merged.contexts.iter().map(|context| context.name.clone()).collect();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let asked = self.context.clone().or_else(|| merged.current_context.clone());
        kube::Config::from_custom_kubeconfig(merged, &options).await.map_err(|_| {
            Failure::Usage(match asked {
                Some(asked) if contexts.contains(&asked) => {
                    format!("the context {asked} of {named} cannot be used: its cluster or user is missing or wrong")
                }
                Some(asked) => format!(
                    "{named} has no context {asked}; it has {}",
                    if contexts.is_empty() { "none".to_owned() } else { contexts.join(", ") }
                ),
                None => format!("{named} has no current context; name one with --context"),
            })
        })
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

fn read(file: &Path) -> Result<Kubeconfig, Failure> {
    // The reader's own words may quote what it read.
    std::fs::metadata(file)
        .and_then(|_| std::fs::File::open(file).map(drop))
        .map_err(|error| Failure::Read { name: file.display().to_string(), why: error.kind().to_string() })?;
    Kubeconfig::read_from(file).map_err(|_| malformed(file))
}

fn malformed(file: &Path) -> Failure {
    Failure::Read { name: file.display().to_string(), why: "it is no kubeconfig".to_owned() }
}

/// What was asked for when a request failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a Resource,
    pub(crate) subresource: &'static str,
    /// Empty for all namespaces and for kinds without.
    pub(crate) namespace: &'a str,
    /// Empty where no single object was meant.
    pub(crate) name: &'a str,
}

impl<'a> Asked<'a> {
    /// A request for an object, or for all of a kind.
    pub(crate) fn new(verb: Verb, resource: &'a Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { verb, resource, subresource: "", namespace, name }
    }

    /// The resource as rights name it.
    fn right(&self) -> String {
        let Resource { plural, group, .. } = self.resource;
        let sub = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        if group.is_empty() { format!("{plural}{sub}") } else { format!("{plural}{sub}.{group}") }
    }

    fn scope(&self) -> String {
        match self.namespace {
            "" => "in all namespaces".to_owned(),
            namespace => format!("in namespace {namespace}"),
        }
    }
}

impl Connected {
    /// A connection that came about in another way; `place` is for messages.
    pub(crate) fn over(site: Site, place: String) -> Self {
        Self { site, namespace: DEFAULT_NAMESPACE.to_owned(), place }
    }

    /// What a failed request means to whoever asked.
    pub(crate) fn explain(&self, error: Error, asked: Asked<'_>) -> Failure {
        let verb = asked.verb.word();
        let what = asked.right();
        match error {
            Error::NotFound(_) if asked.name.is_empty() => Failure::NotFound(missing_kind(&what)),
            Error::NotFound(_) => Failure::NotFound(format!(
                "there is no {} {} {}",
                asked.resource.kind,
                asked.name,
                asked.scope()
            )),
            // Admission rules answer with the same code as missing rights.
            Error::Forbidden(message) if message.contains(" cannot ") || message.is_empty() => {
                let scope =
                    if asked.resource.namespaced { format!(" {}", asked.scope()) } else { String::new() };
                let sort = if asked.namespace.is_empty() { "ClusterRole" } else { "Role" };
                Failure::Forbidden(format!(
                    "you may not {verb} {what}{scope}: a {sort} with the verb `{verb}` on `{what}` is needed"
                ))
            }
            Error::Forbidden(message) | Error::Invalid(message) | Error::Quota(message) => {
                Failure::Rejected(format!("the server refuses to {verb} {what}: {message}"))
            }
            Error::Conflict(message) | Error::AlreadyExists(message) | Error::Expired(message) => {
                Failure::Rejected(format!("{message}; look again and repeat the command"))
            }
            Error::Unauthorized => {
                Failure::Unreachable(format!("{} does not accept the credentials; log in again", self.place))
            }
            Error::Unavailable(_) | Error::ServerFailed(_) | Error::Timeout => {
                Failure::Unreachable(format!("{} does not answer: {}", self.place, reason(&error)))
            }
            Error::TooManyRequests { .. } | Error::Malformed(_) | Error::Other { .. } => {
                Failure::Refused(format!("{} could not {verb} {what}: {error}", self.place))
            }
        }
    }

    /// Refuses what the user may not do, before it is tried.
    pub(crate) async fn require(&self, asked: Asked<'_>) -> Result<(), Failure> {
        let request = Request::new(asked.verb, asked.resource, asked.subresource);
        match self.site.may(&request, asked.namespace).await {
            Ok(false) => Err(self.explain(Error::Forbidden(String::new()), asked)),
            // Whoever may not even ask finds out by trying.
            Ok(true) | Err(Error::Forbidden(_) | Error::NotFound(_)) => Ok(()),
            Err(error) => Err(self.explain(error, asked)),
        }
    }
}

/// What is said of a kind that a server does not have.
pub(crate) fn missing_kind(what: &str) -> String {
    format!("the server has no {what}: install the kinds with `kubectl apply -f docs/reference/crds`")
}

fn reason(error: &Error) -> String {
    match error {
        Error::Unavailable(message) | Error::ServerFailed(message) => message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kubeconfig: Option<&str>) -> Where {
        Where { kubeconfig: kubeconfig.map(PathBuf::from), context: None, namespace: None }
    }

    #[test]
    fn the_flag_goes_before_the_variable_and_that_before_the_home() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".kube")).unwrap();
        let home = folder.path().join(".kube/config");
        std::fs::write(&home, "").unwrap();
        let there = Some(folder.path().to_owned());
        let files = |flag, variable: &str| place(flag).files(Some(variable.into()), there.clone());
        assert_eq!(files(Some("a"), "b"), [PathBuf::from("a")]);
        assert_eq!(files(None, "b"), [PathBuf::from("b")]);
        assert_eq!(files(None, ""), std::slice::from_ref(&home));
        let list = format!("{}:/nowhere:{}", home.display(), home.display());
        assert_eq!(files(None, &list), [home.clone(), home]);
        assert!(place(None).files(None, None).is_empty());
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_kubeconfig_is_said_without_quoting_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let connect = async |text: &str, context: Option<&str>| {
            std::fs::write(&file, text).unwrap();
            let place = Where { context: context.map(str::to_owned), ..place(file.to_str()) };
            place.connect().await.unwrap_err().to_string()
        };
        let said = connect("token: [hunter2", None).await;
        assert!(said.contains("no kubeconfig") && !said.contains("hunter2"), "{said}");
        let good = "apiVersion: v1\nkind: Config\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
                    clusters:\n- name: k\n  cluster: {server: 'http://127.0.0.1:1'}\nusers:\n- name: u\n  user: {token: hunter2}\n";
        assert!(connect(good, Some("other")).await.ends_with("has no context other; it has c"));
        assert!(connect(good, None).await.contains("no current context"));
        let missing = place(Some("/nowhere/config")).connect().await.unwrap_err().to_string();
        assert_eq!(missing, "cannot read /nowhere/config: entity not found");
    }

    #[tokio::test]
    async fn failures_say_what_to_do() {
        const POOLS: Resource =
            Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(
            &file,
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
             clusters:\n- name: k\n  cluster: {server: 'http://127.0.0.1:1'}\nusers:\n- name: u\n  user: {}\n",
        )
        .unwrap();
        let connected = place(file.to_str()).connect().await.unwrap();
        let explain = |error, name| connected.explain(error, Asked::new(Verb::List, &POOLS, "blue", name));
        let cases = [
            (
                Error::NotFound(String::new()),
                "",
                "install the kinds with `kubectl apply -f docs/reference/crds`",
            ),
            (Error::NotFound(String::new()), "x", "there is no MachinePool x in namespace blue"),
            (
                Error::Forbidden("user u cannot list resource".to_owned()),
                "",
                "you may not list machinepools.trellis.dev in namespace blue: a Role with the verb `list` on \
                 `machinepools.trellis.dev` is needed",
            ),
            (Error::Forbidden("admission says no".to_owned()), "", "admission says no"),
            (Error::Timeout, "", "http://127.0.0.1:1"),
        ];
        for (error, name, part) in cases {
            let said = explain(error, name).to_string();
            assert!(said.contains(part), "{part} is not in {said}");
        }
    }
}
