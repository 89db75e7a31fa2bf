//! How a kubelet was told to start: flags, its configuration, and what kubeadm makes of a join.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Boot;
use crate::object::Object as _;

/// Where kubeadm, distributions and people put more flags.
const ENVIRONMENT_FILES: &[&str] =
    &["/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"];

/// How a kubelet was told to start.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Flags {
    /// The flags by name; the last one wins, as for the real one.
    named: BTreeMap<String, String>,
    /// Labels of the node; they add up.
    pub(super) labels: BTreeMap<String, String>,
    /// Taints the node registers with.
    pub(super) taints: Vec<Value>,
    /// The `KubeletConfiguration`, if there is one.
    pub(super) configuration: Value,
    /// How kubeadm joins, if it does.
    pub(super) join: Option<Join>,
}

/// A `kubeadm join`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Join {
    /// `host:port` of the API server.
    pub(super) endpoint: String,
    /// The bootstrap token.
    pub(super) token: String,
    /// Hashes of the authorities that may be trusted; none means any.
    pub(super) hashes: Vec<String>,
}

impl Flags {
    /// Reads what a guest was told.
    pub(super) fn of(boot: &Boot) -> Self {
        let mut flags = Self::default();
        for path in ENVIRONMENT_FILES {
            if let Some(text) = boot.text(path) {
                flags.take(text);
            }
        }
        if let Some(unit) = boot.units.get("kubelet.service") {
            flags.take(unit);
        }
        for line in
            boot.commands.iter().flat_map(|command| command.lines()).filter(|line| line.contains("kubelet"))
        {
            flags.take(line);
        }
        for line in boot.lines() {
            if let Some((_, arguments)) = line.split_once("kubeadm join") {
                flags.take(arguments);
                flags.join = Some(Join::of(arguments, boot));
            }
        }
        // A file that kubeadm is told of says more about the node.
        if let Some(file) = boot.lines().find_map(join_file)
            && let Some(registration) = documents(boot, &file).find(|one| one["kind"] == "JoinConfiguration")
        {
            flags.register(&registration["nodeRegistration"]);
        }
        let file = flags.get("config").to_owned();
        if let Some(text) = boot.text(&file) {
            flags.configuration = serde_saphyr::from_str(text).unwrap_or_default();
        }
        let taints = flags.configuration.list("/registerWithTaints").to_vec();
        flags.taints.extend(taints);
        flags
    }

    /// A flag, or nothing.
    pub(super) fn get(&self, name: &str) -> &str {
        self.named.get(name).map(String::as_str).unwrap_or_default()
    }

    /// What the node is called.
    pub(super) fn node_name(&self, boot: &Boot) -> String {
        let named = self.get("hostname-override");
        if named.is_empty() { boot.hostname.to_lowercase() } else { named.to_owned() }
    }

    /// The provider's id of the node.
    pub(super) fn provider_id(&self) -> &str {
        let flag = self.get("provider-id");
        if flag.is_empty() { self.configuration.text("/providerID") } else { flag }
    }

    /// Whether it asks the cluster for the certificate it serves with, instead of signing one itself.
    pub(super) fn asks_for_serving(&self) -> bool {
        self.get("rotate-server-certificates") == "true" || self.configuration.flag("/serverTLSBootstrap")
    }

    /// Takes all `--name=value` and `--name value` of a text.
    fn take(&mut self, text: &str) {
        let mut words = text
            .split(|c: char| c.is_whitespace() || c == '"' || c == '\'')
            .filter(|word| *word != "\\")
            .peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else { continue };
            let (name, value) = if let Some((name, value)) = flag.split_once('=') {
                (name, value.to_owned())
            } else {
                let value = words.peek().filter(|next| !next.starts_with('-')).map(|next| (*next).to_owned());
                (flag, value.unwrap_or_else(|| "true".to_owned()))
            };
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match name {
            "node-labels" => {
                let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
                self.labels.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            "register-with-taints" => self.taints.extend(value.split(',').filter_map(taint)),
            // kubeadm's name for the same thing.
            "node-name" => {
                self.named.insert("hostname-override".to_owned(), value);
            }
            _ => {
                self.named.insert(name.to_owned(), value);
            }
        }
    }

    /// Takes kubeadm's `nodeRegistration`.
    fn register(&mut self, registration: &Value) {
        if let Some(name) = registration["name"].as_str() {
            self.named.insert("hostname-override".to_owned(), name.to_owned());
        }
        self.taints.extend(registration.list("/taints").iter().cloned());
        match &registration["kubeletExtraArgs"] {
            // Older versions have a map, newer ones a list.
            Value::Object(map) => {
                for (name, value) in map {
                    self.set(name, value.as_str().unwrap_or_default().to_owned());
                }
            }
            Value::Array(list) => {
                for entry in list {
                    self.set(entry.text("/name"), entry.text("/value").to_owned());
                }
            }
            _ => {}
        }
    }
}

impl Join {
    /// Reads the arguments after `kubeadm join`.
    fn of(arguments: &str, boot: &Boot) -> Self {
        let mut join = Self::default();
        let mut words = arguments.split_whitespace();
        while let Some(word) = words.next() {
            let (name, glued) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let mut value = || glued.or_else(|| words.next()).unwrap_or_default().to_owned();
            match name {
                "--token" | "--tls-bootstrap-token" => join.token = value(),
                "--discovery-token-ca-cert-hash" => join.hashes.push(value()),
                "--config" => join.configure(boot, &value()),
                flag if flag.starts_with("--") => {}
                endpoint if join.endpoint.is_empty() => endpoint.clone_into(&mut join.endpoint),
                _ => {}
            }
        }
        join
    }

    /// Takes a `JoinConfiguration`.
    fn configure(&mut self, boot: &Boot, file: &str) {
        let Some(config) = documents(boot, file).find(|one| one["kind"] == "JoinConfiguration") else {
            return;
        };
        let discovery = &config["discovery"]["bootstrapToken"];
        discovery.text("/apiServerEndpoint").clone_into(&mut self.endpoint);
        let token = [discovery.text("/token"), config.text("/discovery/tlsBootstrapToken")];
        token.iter().find(|token| !token.is_empty()).copied().unwrap_or_default().clone_into(&mut self.token);
        let hashes = discovery.list("/caCertHashes").iter().filter_map(Value::as_str);
        self.hashes = hashes.map(ToOwned::to_owned).collect();
    }
}

/// The file a line tells `kubeadm join` of.
fn join_file(line: &str) -> Option<String> {
    let (_, arguments) = line.split_once("kubeadm join")?;
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        match word.strip_prefix("--config") {
            Some("") => return words.next().map(ToOwned::to_owned),
            Some(rest) => return rest.strip_prefix('=').map(ToOwned::to_owned),
            None => {}
        }
    }
    None
}

/// The YAML documents of a file.
fn documents<'b>(boot: &'b Boot, file: &str) -> impl Iterator<Item = Value> + use<'b> {
    let text = boot.text(file).unwrap_or_default();
    text.split("\n---").filter_map(|document| serde_saphyr::from_str(document).ok())
}

/// A taint in the form `key=value:Effect`.
fn taint(text: &str) -> Option<Value> {
    let (what, effect) = text.rsplit_once(':')?;
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    let mut taint = serde_json::json!({"key": key, "effect": effect});
    if !value.is_empty() {
        taint["value"] = value.into();
    }
    Some(taint)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_of_units_files_and_joins_add_up() {
        let mut boot = Boot { hostname: "W1".to_owned(), ..Boot::default() };
        boot.units.insert(
            "kubelet.service".to_owned(),
            "ExecStart=/usr/bin/kubelet --node-labels=a=1,b=2 \\\n  --register-with-taints=k=v:NoSchedule --config /etc/kubelet.yaml".to_owned(),
        );
        boot.files.insert(
            "/etc/kubelet.yaml".to_owned(),
            b"kind: KubeletConfiguration\nproviderID: kubevirt://w1\n".to_vec(),
        );
        boot.commands.push(
            "kubeadm join api:6443 --token a.b --discovery-token-ca-cert-hash sha256:00 --node-name w2"
                .to_owned(),
        );
        let flags = Flags::of(&boot);
        assert_eq!(flags.labels.len(), 2);
        assert_eq!(flags.taints, [json!({"key": "k", "value": "v", "effect": "NoSchedule"})]);
        assert_eq!(flags.provider_id(), "kubevirt://w1");
        assert_eq!(flags.node_name(&boot), "w2");
        let join = flags.join.unwrap();
        assert_eq!((join.endpoint.as_str(), join.token.as_str(), join.hashes.len()), ("api:6443", "a.b", 1));
    }

    #[test]
    fn a_join_by_file_is_read() {
        let mut boot = Boot::default();
        boot.commands.push("kubeadm join --config /k.yaml".to_owned());
        boot.files.insert(
            "/k.yaml".to_owned(),
            b"kind: JoinConfiguration\ndiscovery: {bootstrapToken: {apiServerEndpoint: 'h:1', token: t.u, caCertHashes: ['sha256:1']}}\nnodeRegistration: {name: node-1, kubeletExtraArgs: [{name: provider-id, value: 'p://x'}]}\n".to_vec(),
        );
        let flags = Flags::of(&boot);
        assert_eq!(flags.join.as_ref().unwrap().endpoint, "h:1");
        assert_eq!(flags.node_name(&boot), "node-1");
        assert_eq!(flags.provider_id(), "p://x");
    }

    #[test]
    fn a_serving_certificate_is_asked_for_when_the_flag_or_the_configuration_says_so() {
        let mut boot = Boot::default();
        assert!(!Flags::of(&boot).asks_for_serving());
        boot.files.insert(
            "/etc/default/kubelet".to_owned(),
            b"KUBELET_EXTRA_ARGS='--rotate-server-certificates=true'\n".to_vec(),
        );
        assert!(Flags::of(&boot).asks_for_serving());
        boot.files
            .insert("/etc/default/kubelet".to_owned(), b"KUBELET_EXTRA_ARGS='--config=/k.yaml'\n".to_vec());
        boot.files.insert("/k.yaml".to_owned(), b"serverTLSBootstrap: true\n".to_vec());
        assert!(Flags::of(&boot).asks_for_serving());
    }
}
