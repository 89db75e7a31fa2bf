//! Static pods on the disk of a guest: the command lines in them, and the files those name.

use std::collections::BTreeMap;

use serde_json::Value;
use trellis_infra::guests::boot::Boot;

/// Where a kubelet looks for static pods.
const FOLDER: &str = "/etc/kubernetes/manifests";

/// The command line of a static pod, on the disk it was read from.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    path: String,
    flags: BTreeMap<String, String>,
}

/// Whether a guest has a static pod of this name.
pub(crate) fn exists(boot: &Boot, name: &str) -> bool {
    boot.files.contains_key(&path(name))
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}.yaml")
}

/// The words of the command line of a static pod, the program first.
pub(crate) fn words(boot: &Boot, name: &str) -> Result<Vec<String>, String> {
    let path = path(name);
    let text = boot.text(&path).ok_or_else(|| format!("{path}: there is no such file, or it is no text"))?;
    let pod: Value = serde_saphyr::from_str(text).map_err(|error| format!("{path}: {error}"))?;
    if pod["kind"] != "Pod" {
        return Err(format!("{path}: it holds no Pod"));
    }
    let words = |field: &str| {
        let words = pod["spec"]["containers"][0][field].as_array().cloned().unwrap_or_default();
        words.into_iter().filter_map(|word| word.as_str().map(str::to_owned))
    };
    let words: Vec<String> = words("command").chain(words("args")).collect();
    if words.first().is_none_or(|program| program.rsplit('/').next() != Some(name)) {
        return Err(format!("{path}: its first container does not start {name}"));
    }
    Ok(words)
}

impl CommandLine {
    /// Reads the command line of a static pod.
    pub(crate) fn read(boot: &Boot, name: &str) -> Result<Self, String> {
        let path = path(name);
        let mut words = words(boot, name)?;
        words.remove(0);
        let flag = |word: &String| {
            let flag = word.strip_prefix("--")?;
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            Some((name.to_owned(), value.to_owned()))
        };
        Ok(Self { path, flags: words.iter().filter_map(flag).collect() })
    }

    /// A flag, or nothing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.flags.get(name).map(String::as_str).unwrap_or_default()
    }

    /// A flag that has to be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, String> {
        let value = self.get(name);
        if value.is_empty() { Err(format!("{}: --{name} is missing", self.path)) } else { Ok(value) }
    }

    /// The text of the file a flag names.
    pub(crate) fn file(&self, boot: &Boot, name: &str) -> Result<String, String> {
        let path = self.required(name)?;
        text(boot, path).map_err(|why| format!("--{name}={path}: {why}"))
    }
}

/// The text of a file of the disk.
pub(crate) fn text(boot: &Boot, path: &str) -> Result<String, String> {
    boot.text(path).map(str::to_owned).ok_or_else(|| "there is no such file, or it is no text".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

    use super::*;

    fn disk(path: &str, text: &str) -> Boot {
        Boot { files: [(path.to_owned(), text.as_bytes().to_vec())].into(), ..Boot::default() }
    }

    #[test]
    fn flags_are_read_from_the_command_of_the_pod() {
        let pod = "kind: Pod\nspec:\n  containers:\n  - command:\n    - etcd\n    - --name=a\n    - --client-cert-auth\n";
        let boot = disk("/etc/kubernetes/manifests/etcd.yaml", pod);
        let line = CommandLine::read(&boot, "etcd").unwrap();
        assert_eq!((line.get("name"), line.get("client-cert-auth")), ("a", "true"));
        assert!(line.required("data-dir").unwrap_err().contains("--data-dir is missing"));
        assert!(line.file(&boot, "name").unwrap_err().contains("no such file"));
    }

    #[test]
    fn what_is_no_such_pod_is_told_with_its_place() {
        for text in ["kind: Pod\nspec: {containers: [{command: [sleep]}]}", "kind: Service", "a: [", ""] {
            let boot = disk("/etc/kubernetes/manifests/etcd.yaml", text);
            let why = CommandLine::read(&boot, "etcd").unwrap_err();
            assert!(why.starts_with("/etc/kubernetes/manifests/etcd.yaml: "), "{why}");
        }
        assert!(CommandLine::read(&Boot::default(), "etcd").is_err());
    }
}
