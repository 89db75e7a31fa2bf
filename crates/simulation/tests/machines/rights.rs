//! The controllers run with exactly the rights of the table, here and in every other scenario.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trellis_engine::families::{Family, KKP, OPENSHIFT, TRELLIS};
use trellis_engine::rights::{self, Names, Place, Subject};
use trellis_infra::client::Client;
use trellis_infra::kinds::{DEPLOYMENT, NODE};
use trellis_infra::object::{Key, Object as _};
use trellis_lab::User;
use trellis_runtime::Site;
use trellis_runtime::client::{Request, Verb};
use trellis_simulation::{Server, Tenant, World};

use crate::families::pool;
use crate::kkp;
use crate::openshift;
use crate::stage::{CLUSTER, CONTROL, KKP_DEPLOYMENT, MACHINE, OPENSHIFT_SET, POOL, Sites, Stage};

const ACCOUNT: (&str, &str) = ("trellis-system", "trellis");

/// Hands out the roles, and connects as whoever got them.
pub(crate) async fn sites(world: &World, tenant: &Tenant, family: &'static Family) -> Sites {
    let names = |namespace| Names { namespace, subject: Subject::Account(ACCOUNT.0, ACCOUNT.1), hosts: true };
    grant(&world.person, Place::Control, family, &names(CONTROL)).await;
    grant(&world.person, Place::Infra, family, &names(CLUSTER)).await;
    grant(&tenant.person, Place::Tenant, family, &names("")).await;
    Sites {
        control: Site::new("control", connect(&world.server)),
        tenant: Site::new("tenant", connect(&tenant.server)),
        infra: Site::new("infra", connect(&world.server)),
    }
}

async fn grant(person: &Client, place: Place, family: &'static Family, names: &Names<'_>) {
    for object in rights::roles(place, &[family], names) {
        let plural = format!("{}s", object.text("/kind").to_lowercase());
        let namespace = object.text("/metadata/namespace");
        let within = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{within}{plural}");
        person.send(http::Method::POST, &path, Some(("application/json", &object))).await.unwrap();
    }
}

/// A client of whoever has those rights. Beside somebody else's server it has all: that the table suffices is seen on
/// the lab, and here what was asked for is still held against it.
fn connect(server: &Server) -> kube::Client {
    let Some(lab) = server.as_lab() else { return server.client() };
    let (namespace, name) = ACCOUNT;
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec(),
        ..User::default()
    };
    kube::Client::new(lab.service_as(user), "default")
}

fn each(sites: &Sites) -> [(Place, &Site); 3] {
    [(Place::Control, &sites.control), (Place::Tenant, &sites.tenant), (Place::Infra, &sites.infra)]
}

/// Whatever was asked for has a row.
pub(crate) fn check(sites: &Sites, family: &'static Family) {
    for (place, site) in each(sites) {
        let rows = rights::rights(place, &[family]);
        for (request, result, _) in site.traffic().all() {
            assert!(
                rights::is_free(&request) || rows.iter().any(|row| row.allows(&request)),
                "the controllers ask the {} site to {} {} ({result}): add it to the table in engine::rights, or ask for less",
                place.name(),
                request.verb.word(),
                request.resource(),
            );
        }
    }
}

fn asked(sites: &Sites) -> BTreeSet<(Place, Request)> {
    let of = |(place, site): (Place, &Site)| -> Vec<(Place, Request)> {
        site.traffic().all().into_iter().map(|(request, _, _)| (place, request)).collect()
    };
    each(sites).into_iter().flat_map(of).collect()
}

/// A pool of ours with something to drain: it comes, rolls and goes.
pub(crate) async fn life_of_ours(stage: &Stage) {
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    stage.until_nodes(1).await;
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
        }},
    });
    stage.tenant.person.create(&DEPLOYMENT, deployment).await.unwrap();
    let key = Key::new("default", "web");
    let runs = |one: &Value| one.number("/status/availableReplicas") == Some(1);
    stage.tenant.until(&DEPLOYMENT, &key, runs).await.unwrap();
    let image = json!({"spec": {"template": {"image": {"source": {"registry": {"url": "docker://registry.example/ubuntu:26.04"}}}}}});
    stage.world.person.merge(&POOL, &Stage::key("workers"), &image).await.unwrap();
    let settled = |pool: &Value| {
        pool.condition_holds("Ready")
            && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
    };
    stage.world.until(&POOL, &Stage::key("workers"), settled).await.unwrap();
    let nodes = stage.until_nodes(1).await;
    stage.world.person.delete(&POOL, &Stage::key("workers"), "").await.unwrap();
    for node in &nodes {
        stage.world.until_gone(&MACHINE, &Stage::key(node.name())).await.unwrap();
        stage.tenant.until_gone(&NODE, &Key::cluster(node.name())).await.unwrap();
    }
}

pub(crate) async fn life_of_kkp(stage: &Stage) {
    stage.store_user_data(kkp::BOOTSTRAP.0, kkp::BOOTSTRAP.1, "cloud-config").await;
    stage.create(&KKP_DEPLOYMENT, kkp::deployment(1)).await;
    stage.world.until(&KKP_DEPLOYMENT, &Stage::key("workers"), kkp::settled(1)).await.unwrap();
    let nodes = stage.until_nodes(1).await;
    let none = json!({"spec": {"replicas": 0}});
    stage.world.person.merge(&KKP_DEPLOYMENT, &Stage::key("workers"), &none).await.unwrap();
    stage.tenant.until_gone(&NODE, &Key::cluster(nodes[0].name())).await.unwrap();
}

pub(crate) async fn life_of_openshift(stage: &Stage) {
    openshift::install(stage).await;
    stage.create(&OPENSHIFT_SET, openshift::set(1)).await;
    let gone = stage.until_nodes(1).await;
    let none = json!({"spec": {"replicas": 0}});
    let name = openshift::set(1).text("/metadata/name").to_owned();
    stage.world.person.merge(&OPENSHIFT_SET, &Stage::key(&name), &none).await.unwrap();
    stage.tenant.until_gone(&NODE, &Key::cluster(gone[0].name())).await.unwrap();
}

/// Each row is used in the plainest lives, or says itself when it is.
fn check_use(asked: &BTreeSet<(Place, Request)>, families: &[&'static Family]) {
    let mut idle = Vec::new();
    for place in Place::ALL {
        for row in rights::rights(place, families) {
            for verb in row.verbs {
                // Lists are streamed by watches; servers that cannot are listed.
                let verb = if *verb == Verb::List { Verb::Watch } else { *verb };
                let used = asked
                    .iter()
                    .any(|(at, request)| *at == place && request.verb == verb && row.allows(request));
                let excused = row.unseen.iter().any(|(unseen, _)| *unseen == verb);
                if !used && !excused {
                    idle.push(format!("{} {} {}/{}", place.name(), verb.word(), row.group, row.resource));
                }
            }
        }
    }
    assert!(idle.is_empty(), "rights that nobody uses: {idle:#?}");
}

#[tokio::test(start_paused = true)]
async fn rights_on_our_own_kinds_are_used() {
    let stage = Stage::start(&TRELLIS).await;
    life_of_ours(&stage).await;
    check_use(&asked(&stage.sites), &[&TRELLIS]);
}

/// What the other families have in common with ours need not be used again.
fn check_use_of_kinds(sites: &Sites, family: &'static Family) {
    let mut all = asked(sites);
    let shared = rights::RIGHTS.iter().filter(|row| row.reach != rights::Reach::UserData);
    for row in shared {
        for verb in row.verbs {
            let (plural, subresource) = row.resource.split_once('/').unwrap_or((row.resource, ""));
            all.insert((row.place, Request { verb: *verb, group: row.group, plural, subresource }));
        }
    }
    check_use(&all, &[family]);
}

#[tokio::test(start_paused = true)]
async fn rights_on_kubermatics_kinds_are_used() {
    let stage = Stage::start(&KKP).await;
    life_of_kkp(&stage).await;
    check_use_of_kinds(&stage.sites, &KKP);
}

#[tokio::test(start_paused = true)]
async fn rights_on_openshifts_kinds_are_used() {
    let stage = Stage::start(&OPENSHIFT).await;
    life_of_openshift(&stage).await;
    check_use_of_kinds(&stage.sites, &OPENSHIFT);
}

#[tokio::test(start_paused = true)]
async fn without_a_role_nothing_is_done() {
    let stage = Stage::prepare(&TRELLIS).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/roles/trellis-infra";
    stage.world.person.send(http::Method::DELETE, role, None).await.unwrap();
    let stage = stage.go();
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    assert_eq!(stage.vms().await, Vec::<String>::new(), "the table is what lets the others pass");
}
