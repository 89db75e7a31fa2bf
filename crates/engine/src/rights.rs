//! What the controllers may do at each site: one table, from which roles are made.
//!
//! A row is a kind of object and the verbs the controllers use on it. Tests run all scenarios with exactly these
//! rights, and hold what was asked for against the table: a request without a row is refused there before it is
//! refused by somebody's cluster. Nothing here is `*`, and Secrets are never listed across namespaces.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trellis_runtime::client::{Request, Verb};

use crate::families::Family;

/// One of the three places a controller talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Where the machine objects live.
    Control,
    /// Where the Nodes live.
    Tenant,
    /// Where the VMs live.
    Infra,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Control, Self::Tenant, Self::Infra];

    /// Its name in roles and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Tenant => "tenant",
            Self::Infra => "infra",
        }
    }
}

/// How far a right reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// One namespace: that of the machine objects, or that of the VMs.
    Namespace,
    /// The whole cluster.
    Cluster,
    /// The whole infra cluster, and only where an admin lets Trellis see its hosts: without, what is known of hosts
    /// is unknown, and nothing else changes.
    Hosts,
    /// The namespace in which Kubermatic's operating-system-manager keeps user data.
    UserData,
}

/// What may be done to one kind of object at one place.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    /// Where.
    pub place: Place,
    /// How far.
    pub reach: Reach,
    /// The group of the kind.
    pub group: &'static str,
    /// The kind, with its subresource behind a slash.
    pub resource: &'static str,
    /// What may be done.
    pub verbs: &'static [Verb],
    /// What for.
    pub why: &'static str,
    /// Verbs that no scenario has to use, and the reason why they are needed all the same.
    pub unseen: &'static [(Verb, &'static str)],
}

use Verb::{Create, Delete, Get, List, Patch, Update, Watch};

const READ: &[Verb] = &[List, Watch];
const KEEP: &[Verb] = &[List, Watch, Create, Patch, Delete];
/// What people write and we write annotations onto.
const PEOPLES: &[Verb] = &[List, Watch, Patch];
const KEEP_PEOPLES: &[Verb] = &[List, Watch, Patch, Delete];
const HINTS: (Verb, &str) = (Patch, "only pools that an autoscaler sizes, and control planes");
/// An apply that makes an object needs the right to create it, too, though it is one request: a patch.
const APPLIED: (Verb, &str) = (Create, "a server asks whoever applies what is not there for it, too");
/// What goes with a cluster.
const ENDS: (Verb, &str) = (Delete, "only when the whole cluster is taken away");
/// What is looked at to find whether anything is left of a cluster.
const REMAINS: &[Verb] = &[List, Watch, Delete];
const ENDING: &[(Verb, &str)] = &[ENDS, (List, "see delete"), (Watch, "see delete")];
const OF_FLAVORS: (Verb, &str) = (Patch, "only pools with flavors of Trellis's have them");
const OF_NETWORKS: (Verb, &str) = (Patch, "only clusters with networks of their own have them");
const BLOCKS: (Verb, &str) = (
    Update,
    "servers that guard owner references, as OpenShift's do, want it for an owner that may not go first",
);

const fn right(
    place: Place,
    reach: Reach,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [Verb],
    why: &'static str,
) -> Right {
    Right { place, reach, group, resource, verbs, why, unseen: &[] }
}

const fn but(right: Right, unseen: &'static [(Verb, &'static str)]) -> Right {
    Right { unseen, ..right }
}

/// The rights that do not depend on the family of the machine objects.
pub const RIGHTS: &[Right] = {
    use Place::{Control, Infra, Tenant};
    use Reach::{Cluster, Hosts, Namespace, UserData};
    &[
        but(
            right(
                Control,
                Namespace,
                "trellis.dev",
                "tenantclusters",
                &[Get, List, Watch, Patch],
                "the clusters machines belong to, and what keeps them until nothing is left of those",
            ),
            &[
                (Get, "they are the process's and not the scenarios', which are given their cluster"),
                (List, "see get"),
                (Watch, "see get"),
                (Patch, "see get"),
            ],
        ),
        but(
            right(
                Control,
                Namespace,
                "trellis.dev",
                "tenantclusters/status",
                &[Patch],
                "whether a tenant is looked after",
            ),
            &[(Patch, "see tenantclusters")],
        ),
        but(
            right(Control, Namespace, "", "configmaps", &[Get, List, Watch], "kubeconfigs of the infra site"),
            &[(Get, "see tenantclusters"), (List, "see get"), (Watch, "see get")],
        ),
        but(
            right(
                Control,
                Namespace,
                "",
                "secrets",
                &[Get, List, Watch, Create, Patch],
                "user data that machines name, kubeconfigs and etcd's certificates, watched one by one by name; keys of \
                 clusters that are grown",
            ),
            &[
                (Get, "a kubeconfig is read before it is watched"),
                (Create, "only clusters that are grown from nothing have their keys made"),
                (Patch, "their certificates are renewed, and it is noted how far they are"),
            ],
        ),
        but(
            right(Control, Namespace, "", "events", &[Create, Patch], "what happens is told"),
            &[(Patch, "a count is written only where the same happens again")],
        ),
        but(
            right(
                Control,
                Namespace,
                "coordination.k8s.io",
                "leases",
                &[Get, List, Watch, Create, Patch, Delete],
                "one of several controllers acts, or they share out the tenants",
            ),
            &[
                (Get, "leases are the process's and not the scenarios', which have one controller"),
                (List, "see get"),
                (Watch, "see get"),
                (Create, "see get"),
                (Patch, "see get"),
                (Delete, "see get"),
            ],
        ),
        right(
            Control,
            UserData,
            "",
            "secrets",
            READ,
            "user data that Kubermatic's operating-system-manager wrote",
        ),
        right(
            Tenant,
            Cluster,
            "",
            "nodes",
            &[List, Watch, Patch, Delete],
            "Nodes are linked to machines, cordoned and removed",
        ),
        but(
            right(Tenant, Cluster, "", "pods", &[List, Watch, Delete], "the pods of Nodes that are drained"),
            &[(Delete, "only at the deadline of a drain")],
        ),
        right(Tenant, Cluster, "", "pods/eviction", &[Create], "pods are moved away before their Node goes"),
        but(
            right(
                Tenant,
                Cluster,
                "",
                "events",
                &[Create, Patch],
                "what happens to Nodes and requests is told",
            ),
            &[(Create, "only leftovers and doubtful requests are told of there"), (Patch, "see create")],
        ),
        right(
            Tenant,
            Cluster,
            "certificates.k8s.io",
            "certificatesigningrequests",
            READ,
            "kubelets ask for serving certificates",
        ),
        but(
            right(
                Tenant,
                Cluster,
                "certificates.k8s.io",
                "certificatesigningrequests/approval",
                &[Update],
                "what a machine's identity proves is approved",
            ),
            &[(Update, "only kubelets that are told to ask for one")],
        ),
        but(
            right(Infra, Namespace, "kubevirt.io", "virtualmachines", KEEP, "the machines themselves"),
            &[(Patch, "only changes in place patch a VM")],
        ),
        but(
            right(
                Infra,
                Namespace,
                "kubevirt.io",
                "virtualmachines/finalizers",
                &[Update],
                "Secrets belong to their VM",
            ),
            &[BLOCKS],
        ),
        but(
            right(
                Infra,
                Namespace,
                "kubevirt.io",
                "virtualmachineinstances",
                &[List, Watch, Delete],
                "how VMs run, and stopping one",
            ),
            &[(Delete, "only a VM that is restarted or hangs is stopped")],
        ),
        but(
            right(
                Infra,
                Namespace,
                "kubevirt.io",
                "virtualmachineinstancemigrations",
                &[List, Watch, Create, Delete],
                "machines move live from hosts that are emptied",
            ),
            &[
                (Create, "only while a host is emptied"),
                (Delete, "only when a host takes work again meanwhile"),
            ],
        ),
        but(
            right(Infra, Namespace, "cdi.kubevirt.io", "datavolumes", KEEP, "images and disks"),
            &[
                (Patch, "an image that is used again loses its mark"),
                (Delete, "only images that nobody has used for a day, and volumes that outlive their VM"),
            ],
        ),
        right(Infra, Namespace, "", "pods", READ, "why a VM does not start"),
        but(
            right(Infra, Namespace, "", "events", &[Create, Patch], "what is left of machines is told"),
            &[(Create, "only where something is left"), (Patch, "see create")],
        ),
        but(
            right(
                Infra,
                Namespace,
                "subresources.kubevirt.io",
                "virtualmachineinstances/portforward",
                &[Get],
                "the members of etcd on control-plane machines are asked",
            ),
            &[(Get, "only control-plane pools, by connections that are no requests")],
        ),
        but(
            right(Infra, Namespace, "", "secrets", KEEP, "user data of the VMs"),
            &[APPLIED, (Delete, "only what an earlier machine of the same name left")],
        ),
        but(
            right(Infra, Namespace, "", "services", KEEP, "the API and the names of machines"),
            &[
                APPLIED,
                (Delete, "only clusters whose machines have names of their own have them"),
                (Patch, "see delete"),
            ],
        ),
        but(
            right(
                Infra,
                Namespace,
                "networking.k8s.io",
                "networkpolicies",
                KEEP,
                "isolation before the first VM",
            ),
            &[APPLIED, ENDS],
        ),
        but(
            right(
                Infra,
                Namespace,
                "k8s.cni.cncf.io",
                "network-attachment-definitions",
                KEEP,
                "networks of the cluster's own",
            ),
            &[APPLIED, ENDS, OF_NETWORKS, (List, "see patch"), (Watch, "see patch")],
        ),
        but(
            right(
                Infra,
                Namespace,
                "instancetype.kubevirt.io",
                "virtualmachineinstancetypes",
                KEEP,
                "flavors",
            ),
            &[APPLIED, ENDS, OF_FLAVORS, (List, "see patch"), (Watch, "see patch")],
        ),
        but(
            right(Infra, Namespace, "instancetype.kubevirt.io", "virtualmachinepreferences", KEEP, "flavors"),
            &[APPLIED, ENDS, OF_FLAVORS, (List, "see patch"), (Watch, "see patch")],
        ),
        but(
            right(
                Infra,
                Namespace,
                "",
                "persistentvolumeclaims",
                REMAINS,
                "storage that outlives its volume",
            ),
            ENDING,
        ),
        but(
            right(Infra, Namespace, "", "serviceaccounts", REMAINS, "accounts of a cluster's components"),
            ENDING,
        ),
        but(right(Infra, Namespace, "rbac.authorization.k8s.io", "roles", REMAINS, "their rights"), ENDING),
        but(
            right(Infra, Namespace, "rbac.authorization.k8s.io", "rolebindings", REMAINS, "their rights"),
            ENDING,
        ),
        but(
            right(Infra, Namespace, "networking.k8s.io", "ingresses", REMAINS, "ways in from outside"),
            ENDING,
        ),
        right(Infra, Hosts, "", "nodes", READ, "whether a host is emptied, and proof that one is gone"),
    ]
};

/// The rights for the machine objects of a family, in the namespace they live in.
fn family_rights(family: &Family) -> Vec<Right> {
    let group = family.machine.requested().group;
    let of = |resource: &'static str, verbs: &'static [Verb], why: &'static str| {
        right(Place::Control, Reach::Namespace, group, resource, verbs, why)
    };
    let mut rights = vec![but(
        of("machines", &[Get, List, Watch, Create, Patch, Delete], "machines are made and removed"),
        &[(Get, "a machine is asked for once more before what it left is removed")],
    )];
    if family.machine.status_apart {
        rights.push(of("machines/status", &[Patch], "what is said of machines"));
    }
    if family.set.is_some() {
        // Sets are people's where the family has no pools above them.
        rights.push(if family.pool.is_some() {
            but(
                of("machinesets", KEEP, "sets of the revisions of a pool"),
                &[(Delete, "only when the history is longer than it may be")],
            )
        } else {
            but(of("machinesets", PEOPLES, "sets that people keep, with what autoscalers read"), &[HINTS])
        });
        rights.push(of("machinesets/status", &[Patch], "what is said of sets"));
        rights.push(but(of("machinesets/finalizers", &[Update], "machines belong to their set"), &[BLOCKS]));
    }
    match family.pool.map(|pool| pool.plural) {
        Some("machinedeployments") => {
            let why = "pools that people keep, with what autoscalers read";
            rights.push(but(of("machinedeployments", PEOPLES, why), &[HINTS]));
            rights.push(of("machinedeployments/status", &[Patch], "what is said of pools"));
            rights.push(but(
                of("machinedeployments/finalizers", &[Update], "sets belong to their pool"),
                &[BLOCKS],
            ));
        }
        Some("machinepools") => {
            let why = "pools that people keep, with what autoscalers read and how etcd began";
            rights.push(but(of("machinepools", KEEP_PEOPLES, why), &[HINTS, ENDS]));
            rights.push(of("machinepools/status", &[Patch], "what is said of pools"));
            rights.push(but(
                of("machinepools/finalizers", &[Update], "machines belong to their pool"),
                &[BLOCKS],
            ));
            rights.push(but(
                Right { group: "apps", ..of("controllerrevisions", KEEP, "old revisions of pools") },
                &[
                    (Patch, "only a revision that is gone back to is moved up"),
                    (Delete, "only when the history is longer than it may be"),
                ],
            ));
        }
        _ => {}
    }
    if family.health_check.is_some() {
        rights.push(of("machinehealthchecks", READ, "when machines count as unhealthy"));
        rights.push(but(
            of("machinehealthchecks/status", &[Patch], "what is said of health checks"),
            &[(Patch, "only where there is one")],
        ));
    }
    rights
}

/// All rights at a place for machine objects of these families.
pub fn rights(place: Place, families: &[&'static Family]) -> Vec<Right> {
    let common = RIGHTS.iter().copied().filter(|right| {
        right.reach != Reach::UserData
            || families.iter().any(|family| family.foreign_controller == "machine-controller")
    });
    let of_families = families.iter().flat_map(|family| family_rights(family));
    common.chain(of_families).filter(|right| right.place == place).collect()
}

impl Right {
    /// Whether it allows a request.
    pub fn allows(&self, request: &Request) -> bool {
        self.is_about(request) && self.verbs.contains(&request.verb)
    }

    /// The requests it allows.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        let (plural, subresource) = self.split();
        let group = self.group;
        self.verbs.iter().map(move |verb| Request { verb: *verb, group, plural, subresource })
    }

    /// Whether no cluster can be made and taken away without a verb of it. Some are asked for only where a manifest wishes
    /// for something, some only to see whether anything is left, and some only by servers that are stricter than others.
    pub fn is_vital(&self, verb: Verb) -> bool {
        let reasons = |wanted: &(Verb, &str)| self.unseen.contains(wanted);
        let some_do_without = [BLOCKS, OF_FLAVORS, OF_NETWORKS].iter().any(reasons);
        self.verbs.contains(&verb) && self.unseen != ENDING && !some_do_without
    }

    fn is_about(&self, request: &Request) -> bool {
        let (plural, subresource) = self.split();
        (self.group, plural, subresource) == (request.group, request.plural, request.subresource)
    }

    /// The kind, and its subresource.
    fn split(&self) -> (&'static str, &'static str) {
        self.resource.split_once('/').unwrap_or((self.resource, ""))
    }
}

/// Whether everybody who is known to a server may ask for it: whether they may do something.
pub fn is_free(request: &Request) -> bool {
    request.group == "authorization.k8s.io" && request.plural == "selfsubjectaccessreviews"
}

/// Where roles are made.
#[derive(Debug, Clone)]
pub struct Names<'a> {
    /// The namespace of the machine objects at the control site, of the VMs at the infra site; not used at the
    /// tenant's.
    pub namespace: &'a str,
    /// Who gets the roles.
    pub subject: Subject<'a>,
    /// Whether the hosts of the infra cluster may be looked at.
    pub hosts: bool,
}

/// Who gets a role.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// An account of a namespace.
    Account(&'a str, &'a str),
    /// A user by name.
    User(&'a str),
}

impl Subject<'_> {
    /// As bindings name it.
    pub fn to_json(self) -> Value {
        match self {
            Self::Account(namespace, name) => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
            Self::User(name) => json!({"apiGroup": API_GROUP, "kind": "User", "name": name}),
        }
    }
}

const API_GROUP: &str = "rbac.authorization.k8s.io";
/// The namespace in which the operating-system-manager keeps user data.
pub const USER_DATA_NAMESPACE: &str = "cloud-init-settings";

/// The roles of a place and their bindings, as objects.
pub fn roles(place: Place, families: &[&'static Family], names: &Names<'_>) -> Vec<Value> {
    let mut by_reach = BTreeMap::<Reach, Vec<Right>>::new();
    for right in rights(place, families) {
        by_reach.entry(right.reach).or_default().push(right);
    }
    let mut objects = Vec::new();
    for (reach, rights) in by_reach {
        let (suffix, namespace) = match reach {
            // Tenants of all namespaces: nobody knows them before.
            Reach::Namespace if names.namespace.is_empty() => ("-tenants", None),
            Reach::Namespace => ("", Some(names.namespace)),
            Reach::UserData => ("-user-data", Some(USER_DATA_NAMESPACE)),
            Reach::Hosts if !names.hosts => continue,
            Reach::Hosts => ("-hosts", None),
            Reach::Cluster => ("", None),
        };
        let name = format!("trellis-{}{suffix}", place.name());
        let mut rules = rules(&rights);
        if rights.iter().any(|right| right.resource == "certificatesigningrequests/approval") {
            rules.push(signer());
        }
        objects.extend(role(&name, namespace, &rules, names.subject));
    }
    objects
}

/// The role, and its binding, of a person who makes tenant clusters in one namespace of the infra cluster and has no other
/// rights there: what the controllers need for the machines, and what `trellis doctor` looks for.
pub fn install_role(names: &Names<'_>) -> [Value; 2] {
    let controllers = rights(Place::Infra, &[&crate::families::TRELLIS]);
    let mut verbs = BTreeMap::<(&str, String), std::collections::BTreeSet<Verb>>::new();
    for right in controllers.iter().filter(|right| right.reach == Reach::Namespace) {
        verbs.entry((right.group, right.resource.to_owned())).or_default().extend(right.verbs);
    }
    for needed in crate::preflight::needed() {
        let request = needed.request;
        verbs.entry((request.group, as_rule(&request))).or_default().insert(request.verb);
    }
    let mut shared = BTreeMap::<(&str, Vec<&str>), Vec<String>>::new();
    for ((group, resource), verbs) in verbs {
        let words = verbs.into_iter().map(Verb::word).collect();
        shared.entry((group, words)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources): ((&str, Vec<&str>), Vec<String>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules: Vec<Value> = shared.into_iter().map(rule).collect();
    role("trellis-install", Some(names.namespace), &rules, names.subject)
}

/// What a request is about, as rules name it.
fn as_rule(request: &Request) -> String {
    match request.subresource {
        "" => request.plural.to_owned(),
        subresource => format!("{}/{subresource}", request.plural),
    }
}

/// Who approves a request for a certificate must be allowed to for the one who signs it, too. Servers ask for a verb
/// that no request has.
fn signer() -> Value {
    json!({
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["kubernetes.io/kubelet-serving"], "verbs": ["approve"],
    })
}

/// A role and its binding; of the whole cluster where there is no namespace.
pub fn role(name: &str, namespace: Option<&str>, rules: &[Value], subject: Subject<'_>) -> [Value; 2] {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    let api_version = format!("{API_GROUP}/v1");
    let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": api_version,
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": API_GROUP, "kind": kind, "name": name},
        "subjects": [subject.to_json()],
    });
    [role, binding]
}

/// Rights as rules: kinds of one group with the same verbs share one.
fn rules(rights: &[Right]) -> Vec<Value> {
    let mut shared = BTreeMap::<(&str, Vec<Verb>), Vec<&str>>::new();
    for right in rights {
        let mut verbs = right.verbs.to_vec();
        verbs.sort_unstable();
        shared.entry((right.group, verbs)).or_default().push(right.resource);
    }
    let rule = |((group, verbs), mut resources): ((&str, Vec<Verb>), Vec<&str>)| {
        resources.sort_unstable();
        resources.dedup();
        let verbs: Vec<_> = verbs.into_iter().map(Verb::word).collect();
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    };
    shared.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{KKP, OPENSHIFT, TRELLIS};

    const ACCOUNT: Subject<'_> = Subject::Account("trellis-system", "trellis");

    #[test]
    fn nothing_is_a_star_and_secrets_stay_in_their_namespace() {
        let names = Names { namespace: "blue", subject: ACCOUNT, hosts: true };
        for place in Place::ALL {
            for object in roles(place, &Family::all(), &names) {
                let text = object.to_string();
                assert!(!text.contains("\"*\""), "{text}");
                let wide = object["kind"] == "ClusterRole";
                assert!(!wide || !text.contains("secrets"), "{text}");
            }
        }
    }

    #[test]
    fn hosts_are_seen_only_where_an_admin_says_so() {
        let names = |hosts| Names { namespace: "blue", subject: ACCOUNT, hosts };
        let wide = |hosts: bool| {
            let objects = roles(Place::Infra, &[&TRELLIS], &names(hosts));
            objects.iter().filter(|object| object["kind"] == "ClusterRole").count()
        };
        assert_eq!((wide(false), wide(true)), (0, 1));
    }

    #[test]
    fn who_makes_clusters_has_rights_in_one_namespace_and_all_that_are_looked_for() {
        let names = Names { namespace: "blue", subject: Subject::User("ann"), hosts: false };
        let [role, binding] = install_role(&names);
        assert_eq!((&role["kind"], &binding["metadata"]["namespace"]), (&json!("Role"), &json!("blue")));
        let has = |group: &str, resource: &str, verb: &str| {
            role["rules"].as_array().unwrap().iter().any(|rule| {
                let lists = |key: &str, word: &str| rule[key].as_array().unwrap().contains(&json!(word));
                lists("apiGroups", group) && lists("resources", resource) && lists("verbs", verb)
            })
        };
        for needed in crate::preflight::needed() {
            let request = needed.request;
            let sub = if request.subresource.is_empty() { "" } else { "/" };
            let resource = format!("{}{sub}{}", request.plural, request.subresource);
            assert!(has(request.group, &resource, request.verb.word()), "{request:?}");
        }
        assert!(
            has("", "persistentvolumeclaims", "delete")
                && has("networking.k8s.io", "networkpolicies", "delete")
        );
        assert!(!role.to_string().contains("\"*\""));
    }

    #[test]
    fn a_family_gets_its_own_kinds_only() {
        let groups = |family: &'static Family| -> Vec<&str> {
            rights(Place::Control, &[family]).iter().map(|right| right.group).collect()
        };
        assert!(groups(&KKP).contains(&"cluster.k8s.io") && !groups(&KKP).contains(&"machine.openshift.io"));
        assert!(!groups(&OPENSHIFT).contains(&"apps") && groups(&TRELLIS).contains(&"apps"));
        let user_data = |family: &'static Family| {
            rights(Place::Control, &[family]).iter().any(|right| right.reach == Reach::UserData)
        };
        assert!(user_data(&KKP) && !user_data(&TRELLIS));
    }

    #[test]
    fn what_is_said_to_be_unseen_is_a_verb_of_the_row() {
        for place in Place::ALL {
            for right in rights(place, &Family::all()) {
                for (verb, why) in right.unseen {
                    assert!(right.verbs.contains(verb) && !why.is_empty(), "{right:?}");
                }
            }
        }
    }
}
