//! From texts in any mixture of dialects to one estate.

use std::collections::BTreeSet;

use serde_json::Value;
use trellis_model::{Estate, validate::validate};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::kinds::Kind;
use crate::parse::parse;
use crate::path::FieldPath;
use crate::reading::{DocumentId, Reading};
use crate::source::SourceMap;
use crate::suggest::closest;
use crate::tree::{Document, Node, NodeValue};
use crate::{gardener, kkp, openshift, trellis};

/// A manifest language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// install-config and the machine API of OpenShift.
    Openshift,
    /// Kubermatic's machine-controller.
    Kkp,
    /// Gardener with its KubeVirt extension.
    Gardener,
    /// Trellis's own kinds.
    Trellis,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Openshift, Self::Kkp, Self::Gardener, Self::Trellis];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openshift => "openshift",
            Self::Kkp => "kkp",
            Self::Gardener => "gardener",
            Self::Trellis => "trellis",
        }
    }
}

/// A kind of document Trellis reads.
#[derive(Debug, Clone, Copy)]
pub struct KindInfo {
    /// The dialect it belongs to.
    pub dialect: Dialect,
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Its `kind`.
    pub kind: &'static str,
    /// Its schema, with documentation.
    pub schema: fn() -> &'static Value,
}

impl KindInfo {
    /// As people call it: an install-config has no kind of its own.
    pub fn label(&self) -> &'static str {
        if self.kind == INSTALL_CONFIG { "install-config" } else { self.kind }
    }
}

/// All kinds Trellis reads, dialect by dialect.
pub fn kinds() -> Vec<KindInfo> {
    fn of<O>(dialect: Dialect, kinds: &[Kind<O>]) -> impl Iterator<Item = KindInfo> {
        kinds.iter().map(move |kind| KindInfo {
            dialect,
            api_version: kind.api_version,
            kind: kind.kind,
            schema: kind.schema,
        })
    }
    of(Dialect::Openshift, openshift::KINDS)
        .chain(of(Dialect::Kkp, kkp::KINDS))
        .chain(of(Dialect::Gardener, gardener::KINDS))
        .chain(of(Dialect::Trellis, trellis::KINDS))
        .collect()
}

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// What the documents describe, as far as it could be read; sorted.
    pub estate: Estate,
    /// What there is to say about them, in the order of the texts.
    pub diagnostics: Diagnostics,
    /// The dialects that were met.
    pub dialects: BTreeSet<Dialect>,
    reading: Reading,
}

impl Read {
    /// Adds problems that were found in the estate later, at the places its values came from.
    pub fn report(&mut self, problems: Vec<trellis_model::Problem>) {
        self.reading.report(problems);
        self.diagnostics.extend(self.reading.finish());
        self.diagnostics.drop_repeated_warnings();
        self.diagnostics.sort();
    }
}

/// The code of the complaint about an input without a document.
pub(crate) const NOTHING_TO_READ: &str = "nothing-to-read";

/// Reads all texts together and finds every problem.
pub fn read(sources: &SourceMap) -> Read {
    let mut diagnostics = Diagnostics::new();
    let mut documents = Vec::new();
    for (file, source) in sources.iter() {
        documents.extend(parse(file, &source.text, &mut diagnostics).into_iter().flat_map(unpack_list));
    }
    if documents.is_empty() && !diagnostics.has_errors() {
        let message = "there is nothing to read: the input holds no document";
        diagnostics
            .push(Diagnostic::error(NOTHING_TO_READ, message).help("give at least one manifest with -f"));
    }
    let mut reading = Reading::new(documents, diagnostics);
    let mut sorted = Sorted::default();
    for number in 0..reading.documents.len() {
        sorted.decode(DocumentId(number), &mut reading);
    }
    let dialects = sorted.dialects.clone();
    // Whole clusters first: machine sets of the other two make up the cluster they belong to if none is there.
    trellis::read(sorted.trellis, &mut reading);
    gardener::read(sorted.gardener, &mut reading);
    openshift::read(sorted.openshift, &mut reading);
    kkp::read(sorted.kkp, &mut reading);
    let estate = std::mem::take(&mut reading.estate).sorted();
    reading.report(validate(&estate));
    let diagnostics = reading.finish();
    Read { estate, diagnostics, dialects, reading }
}

/// `kubectl get -o yaml` prints a list of objects as one document: each item is a document of its own.
fn unpack_list(document: Document) -> Vec<Document> {
    let is_list =
        document.root.get("kind").and_then(Node::as_text).is_some_and(|kind| kind.ends_with("List"));
    let Document { file, mut root } = document;
    if is_list
        && let NodeValue::Mapping(entries) = &mut root.value
        && let Some(items) = entries.iter_mut().find(|entry| entry.key == "items")
        && let NodeValue::Sequence(items) = &mut items.node.value
    {
        return std::mem::take(items).into_iter().map(|root| Document { file, root }).collect();
    }
    vec![Document { file, root }]
}

/// Decoded documents, sorted by dialect.
#[derive(Default)]
struct Sorted {
    openshift: Vec<(DocumentId, openshift::Object)>,
    kkp: Vec<(DocumentId, kkp::Object)>,
    gardener: Vec<(DocumentId, gardener::Object)>,
    trellis: Vec<(DocumentId, trellis::Object)>,
    dialects: BTreeSet<Dialect>,
}

impl Sorted {
    fn decode(&mut self, id: DocumentId, reading: &mut Reading) {
        let Some(document) = reading.documents.get(id.0) else { return };
        let Some(identity) = Identity::of(document) else {
            let message = format!(
                "expected an object with `apiVersion` and `kind`, found {}",
                document.root.kind_name()
            );
            reading.within(id).error("not-an-object", &FieldPath::root(), message, "");
            return;
        };
        let known = decode_as(openshift::KINDS, &identity, id, reading, &mut self.openshift)
            .then_some(Dialect::Openshift);
        let known = known
            .or_else(|| decode_as(kkp::KINDS, &identity, id, reading, &mut self.kkp).then_some(Dialect::Kkp));
        let known = known.or_else(|| {
            decode_as(gardener::KINDS, &identity, id, reading, &mut self.gardener)
                .then_some(Dialect::Gardener)
        });
        let known = known.or_else(|| {
            decode_as(trellis::KINDS, &identity, id, reading, &mut self.trellis).then_some(Dialect::Trellis)
        });
        match known {
            Some(dialect) => drop(self.dialects.insert(dialect)),
            None => identity.complain(id, reading),
        }
    }
}

/// Decodes a document if it is of one of these kinds. Says whether it is, not whether that went well.
fn decode_as<O>(
    kinds: &[Kind<O>],
    identity: &Identity,
    id: DocumentId,
    reading: &mut Reading,
    out: &mut Vec<(DocumentId, O)>,
) -> bool {
    let matches = |kind: &&Kind<O>| kind.api_version == identity.api_version && kind.kind == identity.kind;
    let Some(kind) = kinds.iter().find(matches) else { return false };
    let object = reading.decode(id, &FieldPath::root(), (kind.schema)(), kind.decode);
    out.extend(object.map(|object| (id, object)));
    true
}

/// What a document says it is.
#[derive(Debug)]
struct Identity {
    api_version: String,
    kind: String,
}

/// The kind an install-config is known under here; the document itself has none.
const INSTALL_CONFIG: &str = "InstallConfig";

impl Identity {
    fn of(document: &Document) -> Option<Self> {
        let text = |key: &str| document.root.get(key).and_then(Node::as_text).unwrap_or_default().to_owned();
        if !matches!(document.root.value, NodeValue::Mapping(_)) {
            return None;
        }
        let (api_version, mut kind) = (text("apiVersion"), text("kind"));
        let says = |key: &str| document.root.get(key).is_some();
        if kind.is_empty()
            && api_version == "v1"
            && (says("platform") || says("baseDomain") || says("controlPlane"))
        {
            INSTALL_CONFIG.clone_into(&mut kind);
        }
        Some(Self { api_version, kind })
    }

    /// Says why the document cannot be read, and what could be meant.
    fn complain(&self, id: DocumentId, reading: &mut Reading) {
        let Self { api_version, kind } = self;
        let all = kinds();
        let root = FieldPath::root();
        let mut cx = reading.within(id);
        if kind.is_empty() || api_version.is_empty() {
            let missing = match (api_version.is_empty(), kind.is_empty()) {
                (true, true) => "`apiVersion` and `kind` are missing",
                (true, false) => "`apiVersion` is missing",
                _ => "`kind` is missing",
            };
            let help = match all.iter().find(|info| info.kind == kind) {
                Some(info) => format!("add `apiVersion: {}`", info.api_version),
                None => "every document says what it is; an install-config begins with `apiVersion: v1`"
                    .to_owned(),
            };
            cx.error(
                "missing-field",
                &root,
                format!("the document does not say what it is: {missing}"),
                &help,
            );
            return;
        }
        let group = api_version.split('/').next().unwrap_or_default();
        if RENDERED_GROUPS.contains(&group) {
            cx.error(
                "not-read",
                &root.child("kind"),
                format!("{api_version} {kind} is something Trellis makes, not something it reads"),
                "give the manifest of the machines or the cluster instead; `trellis render` shows what becomes of it",
            );
            return;
        }
        let same_kind: Vec<&str> =
            all.iter().filter(|info| info.kind == kind).map(|info| info.api_version).collect();
        if !same_kind.is_empty() {
            let message = format!("{kind} is not read in the version {api_version}");
            cx.error(
                "unknown-version",
                &root.child("apiVersion"),
                message,
                &format!("use {}", same_kind.join(" or ")),
            );
            return;
        }
        let mut names: Vec<&str> = all.iter().map(KindInfo::label).collect();
        names.sort_unstable();
        names.dedup();
        let help = match closest(kind, &names) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("Trellis reads {}", names.join(", ")),
        };
        cx.error("unknown-kind", &root.child("kind"), format!("{api_version} {kind} is not known"), &help);
    }
}

/// Groups of objects that Trellis renders, which people try to feed back.
const RENDERED_GROUPS: &[&str] =
    &["kubevirt.io", "cdi.kubevirt.io", "instancetype.kubevirt.io", "k8s.cni.cncf.io", "networking.k8s.io"];
