"""The official Python client against a server: python client.py KUBECONFIG NAMESPACE GROUP SCENARIO

Each scenario has a namespace and an API group of its own, and ends with an assertion that fails or with nothing.
Without a scenario the names of all are printed.
"""

import datetime
import json
import sys
import time

SCENARIOS = {}


def scenario(run):
    SCENARIOS[run.__name__] = run
    return run


class World:
    def __init__(self, client, config, namespace, group):
        self.api_client = config.new_client_from_config(config_file=sys.argv[1])
        self.core = client.CoreV1Api(self.api_client)
        self.apps = client.AppsV1Api(self.api_client)
        self.custom = client.CustomObjectsApi(self.api_client)
        self.namespace = namespace
        self.group = group

    def map(self, name, value="1", **metadata):
        body = {"metadata": {"name": name, **metadata}, "data": {"key": value}}
        return self.core.create_namespaced_config_map(self.namespace, body)


def refused(status, call, *arguments, **options):
    """What the server said when it refused."""
    from kubernetes.client.exceptions import ApiException

    try:
        answer = call(*arguments, **options)
    except ApiException as failure:
        body = json.loads(failure.body)
        assert failure.status == status, failure
        assert body["kind"] == "Status" and body["code"] == status and body["status"] == "Failure", body
        return body
    raise AssertionError(f"this should have been refused with {status}: {answer}")


def until(what, holds, patience=60):
    end = time.monotonic() + patience
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < end, f"still not so: {what}"
        time.sleep(0.1)


def deployment(client, name):
    labels = {"app": name}
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1DeploymentSpec(
            replicas=2,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="example.com/image:1")]),
            ),
        ),
    )


@scenario
def writes(client, world):
    created = world.map("a")
    assert created.metadata.uid and created.metadata.creation_timestamp.tzinfo
    assert created.metadata.managed_fields[0].manager == "OpenAPI-Generator"
    read = world.core.read_namespaced_config_map("a", world.namespace)
    assert read.data == {"key": "1"}
    read.data["more"] = "2"
    replaced = world.core.replace_namespaced_config_map("a", world.namespace, read)
    assert replaced.metadata.resource_version != created.metadata.resource_version
    stale = refused(409, world.core.replace_namespaced_config_map, "a", world.namespace, read)
    assert stale["reason"] == "Conflict"
    assert "the object has been modified; please apply your changes to the latest version" in stale["message"]
    world.core.delete_namespaced_config_map("a", world.namespace)
    refused(404, world.core.read_namespaced_config_map, "a", world.namespace)
    world.core.create_namespaced_config_map(world.namespace, {"metadata": {"generateName": "gen-"}}, dry_run="All")
    assert not world.core.list_namespaced_config_map(world.namespace, field_selector="metadata.name=gen-").items


@scenario
def refusals(client, world):
    missing = refused(404, world.core.read_namespaced_config_map, "ghost", world.namespace)
    assert missing["reason"] == "NotFound" and missing["message"] == 'configmaps "ghost" not found'
    assert missing["details"] == {"name": "ghost", "kind": "configmaps"}
    world.map("a")
    twice = refused(409, world.map, "a")
    assert twice["reason"] == "AlreadyExists", twice
    invalid = refused(422, world.map, "Not_Valid")
    assert invalid["reason"] == "Invalid"
    cause = invalid["details"]["causes"][0]
    assert cause["field"] == "metadata.name" and cause["reason"] == "FieldValueInvalid", cause
    body = deployment(client, "d")
    body.spec.selector.match_labels = {"app": "other"}
    wrong = refused(422, world.apps.create_namespaced_deployment, world.namespace, body)
    assert [cause["field"] for cause in wrong["details"]["causes"]] == ["spec.template.metadata.labels"], wrong
    bad = refused(400, world.core.list_namespaced_config_map, world.namespace, label_selector="a=b=c")
    assert bad["reason"] == "BadRequest"
    nowhere = refused(404, world.core.create_namespaced_config_map, "no-such-namespace", {"metadata": {"name": "a"}})
    assert nowhere["message"] == 'namespaces "no-such-namespace" not found'


@scenario
def patches(client, world):
    world.apps.create_namespaced_deployment(world.namespace, deployment(client, "d"))
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side"}]}}}}
    # The client sends a dictionary as a strategic merge, and a list as a JSON patch.
    merged = world.apps.patch_namespaced_deployment("d", world.namespace, sidecar)
    assert sorted(container.name for container in merged.spec.template.spec.containers) == ["main", "side"]
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    assert world.apps.patch_namespaced_deployment("d", world.namespace, operations).spec.replicas == 5
    world.map("a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"applied": "yes"}}
    applied = apply(world, body, "one")
    assert applied.data == {"applied": "yes", "key": "1"}
    body["data"]["applied"] = "no"
    conflict = refused(409, apply, world, body, "two")
    assert 'conflict with "one": .data.applied' in conflict["message"], conflict
    assert apply(world, body, "two", force=True).data["applied"] == "no"


def apply(world, body, manager, force=None):
    """Server-side apply: a patch of a type the client does not choose by itself."""
    return world.core.patch_namespaced_config_map(
        body["metadata"]["name"], world.namespace, body, field_manager=manager, force=force,
        _content_type="application/apply-patch+yaml")


@scenario
def status_and_scale(client, world):
    world.apps.create_namespaced_deployment(world.namespace, deployment(client, "d"))
    scale = world.apps.read_namespaced_deployment_scale("d", world.namespace)
    assert scale.spec.replicas == 2 and scale.status.selector == "app=d"
    scale.spec.replicas = 4
    assert world.apps.replace_namespaced_deployment_scale("d", world.namespace, scale).spec.replicas == 4
    world.apps.patch_namespaced_deployment_status("d", world.namespace, {"status": {"replicas": 3}, "spec": {"replicas": 9}})
    read = world.apps.read_namespaced_deployment("d", world.namespace)
    assert (read.spec.replicas, read.status.replicas, read.metadata.generation) == (4, 3, 2), read


@scenario
def pages(client, world):
    for number in range(7):
        world.map(f"m{number}", labels={"page": "me"})
    names, token, versions = [], None, set()
    while True:
        page = world.core.list_namespaced_config_map(world.namespace, label_selector="page=me", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
        assert page.metadata.remaining_item_count is None
    assert names == [f"m{number}" for number in range(7)] and len(versions) == 1, (names, versions)
    whole = world.core.list_namespaced_config_map(world.namespace, limit=2)
    assert whole.metadata.remaining_item_count >= 5
    refused(400, world.core.list_namespaced_config_map, world.namespace, limit=2, _continue="nonsense")


@scenario
def watches(client, world):
    from kubernetes import watch

    start = world.core.list_namespaced_config_map(world.namespace).metadata.resource_version
    world.map("a", labels={"see": "me"})
    world.core.patch_namespaced_config_map("a", world.namespace, {"data": {"key": "2"}})
    world.map("b", labels={"see": "me"})
    watcher = watch.Watch()
    seen = []
    options = {"label_selector": "see=me", "resource_version": start, "timeout_seconds": 20}
    for event in watcher.stream(world.core.list_namespaced_config_map, world.namespace, **options):
        seen.append((event["type"], event["object"].metadata.name, (event["object"].data or {}).get("key")))
        if len(seen) == 3:
            watcher.stop()
    assert seen == [("ADDED", "a", "1"), ("MODIFIED", "a", "2"), ("ADDED", "b", "1")], seen
    # Resumed from the last version it has seen, the watch misses nothing.
    world.core.delete_namespaced_config_map("a", world.namespace)
    world.core.patch_namespaced_config_map("b", world.namespace, {"metadata": {"labels": {"see": "not"}}})
    seen, options["resource_version"] = [], watcher.resource_version
    for event in watcher.stream(world.core.list_namespaced_config_map, world.namespace, **options):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watcher.stop()
    assert seen == [("DELETED", "a"), ("DELETED", "b")], seen


@scenario
def watch_ends(client, world):
    from kubernetes import watch

    start = time.monotonic()
    options = {"timeout_seconds": 1, "field_selector": "metadata.name=nobody"}
    assert not list(watch.Watch().stream(world.core.list_namespaced_secret, world.namespace, **options))
    assert time.monotonic() - start < 30


@scenario
def bookmarks(client, world):
    from kubernetes import watch

    world.map("a")
    options = {"allow_watch_bookmarks": True, "timeout_seconds": 20, "send_initial_events": True,
               "resource_version_match": "NotOlderThan", "resource_version": "", "field_selector": "metadata.name=a"}
    seen = []
    watcher = watch.Watch()
    for event in watcher.stream(world.core.list_namespaced_config_map, world.namespace, **options):
        seen.append(event["type"])
        if event["type"] == "BOOKMARK":
            annotations = event["raw_object"]["metadata"]["annotations"]
            assert annotations["k8s.io/initial-events-end"] == "true"
            watcher.stop()
    assert seen == ["ADDED", "BOOKMARK"], seen


def define(world, plural, kind):
    """A definition of custom resources, served once this returns."""
    from kubernetes import client

    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"}}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }}
    definitions = client.ApiextensionsV1Api(world.api_client)
    name = f"{plural}.{world.group}"
    definitions.create_custom_resource_definition({
        "metadata": {"name": name},
        "spec": {"group": world.group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                 "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                               "schema": {"openAPIV3Schema": schema}}]},
    })

    def established():
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        return any(one.type == "Established" and one.status == "True" for one in conditions)

    until("the definition is established", established)
    return definitions, name


@scenario
def custom_objects(client, world):
    definitions, definition = define(world, "shelves", "Shelf")
    where = (world.group, "v1", world.namespace, "shelves")
    body = {"apiVersion": f"{world.group}/v1", "kind": "Shelf", "metadata": {"name": "a"}, "spec": {"size": 2}}
    created = until("it is served", lambda: created_once(world, where, body))
    assert created["spec"] == {"size": 2, "colour": "red"}, created
    invalid = refused(422, world.custom.create_namespaced_custom_object, *where,
                      {**body, "metadata": {"name": "b"}, "spec": {"size": 0}})
    assert invalid["message"] == (
        f'Shelf.{world.group} "b" is invalid: spec.size: Invalid value: 0: '
        "spec.size in body should be greater than or equal to 1"), invalid
    changed = world.custom.patch_namespaced_custom_object(*where, "a", {"spec": {"colour": "blue"}})
    assert changed["spec"]["colour"] == "blue" and changed["metadata"]["generation"] == 2
    world.custom.patch_namespaced_custom_object_status(*where, "a", {"status": {"ready": True}, "spec": {"size": 9}})
    read = world.custom.get_namespaced_custom_object(*where, "a")
    assert read["status"] == {"ready": True} and read["spec"]["size"] == 2 and read["metadata"]["generation"] == 2
    listed = world.custom.list_namespaced_custom_object(*where)
    assert listed["kind"] == "ShelfList" and len(listed["items"]) == 1
    replaced = world.custom.replace_namespaced_custom_object(*where, "a", {**read, "spec": {"size": 7}})
    assert replaced["spec"] == {"size": 7, "colour": "red"}
    world.custom.delete_namespaced_custom_object(*where, "a")
    refused(404, world.custom.get_namespaced_custom_object, *where, "a")
    definitions.delete_custom_resource_definition(definition)


def created_once(world, where, body):
    from kubernetes.client.exceptions import ApiException

    try:
        return world.custom.create_namespaced_custom_object(*where, body)
    except ApiException as failure:
        # A definition is established a moment before its objects are served.
        assert failure.status == 404, failure
        return None


@scenario
def dynamic(client, world):
    from kubernetes.dynamic import DynamicClient
    from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

    definitions, definition = define(world, "lamps", "Lamp")
    dynamic_client = DynamicClient(world.api_client)
    lamps = until("the kind is discovered", lambda: found(world, "Lamp"))
    body = {"apiVersion": f"{world.group}/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"size": 2}}
    lamps.create(body=body, namespace=world.namespace)
    assert lamps.get(name="a", namespace=world.namespace).spec.colour == "red"
    patch = {"metadata": {"name": "a"}, "spec": {"size": 3}}
    merged = lamps.patch(body=patch, namespace=world.namespace, content_type="application/merge-patch+json")
    assert merged.spec.size == 3
    applied = lamps.server_side_apply(body={**body, "spec": {"size": 4}}, namespace=world.namespace,
                                      field_manager="python", force_conflicts=True)
    assert applied.spec.size == 4
    try:
        lamps.create(body=body, namespace=world.namespace)
        raise AssertionError("it was created twice")
    except ConflictError as failure:
        assert failure.status == 409
    assert [item.metadata.name for item in lamps.get(namespace=world.namespace).items] == ["a"]
    for event in lamps.watch(namespace=world.namespace, timeout=5):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
        break
    lamps.delete(name="a", namespace=world.namespace)
    try:
        lamps.get(name="a", namespace=world.namespace)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass
    for version, kind in [("v1", "Pod"), ("apps/v1", "Deployment"), ("rbac.authorization.k8s.io/v1", "ClusterRole")]:
        assert dynamic_client.resources.get(api_version=version, kind=kind).kind == kind
    definitions.delete_custom_resource_definition(definition)


def found(world, kind):
    """The resource of a kind, discovered anew."""
    from kubernetes.dynamic import DynamicClient
    from kubernetes.dynamic.exceptions import ResourceNotFoundError

    try:
        return DynamicClient(world.api_client, cache_file=f"/dev/null/{time.monotonic()}").resources.get(
            api_version=f"{world.group}/v1", kind=kind)
    except (ResourceNotFoundError, NotADirectoryError):
        return None


@scenario
def leases(client, world):
    api = client.CoordinationV1Api(world.api_client)
    now = datetime.datetime.now(datetime.timezone.utc)
    spec = client.V1LeaseSpec(holder_identity="one", lease_duration_seconds=15, acquire_time=now, renew_time=now)
    created = api.create_namespaced_lease(world.namespace, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec))
    assert created.spec.renew_time == now, (created.spec.renew_time, now)
    created.spec.holder_identity = "two"
    taken = api.replace_namespaced_lease("l", world.namespace, created)
    assert taken.spec.holder_identity == "two"
    refused(409, api.replace_namespaced_lease, "l", world.namespace, created)


@scenario
def leader_election(client, world):
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

    import threading

    led, enough, stopped = threading.Event(), threading.Event(), threading.Event()

    def lead():
        led.set()
        enough.wait(60)
        # The one way out that this client offers.
        raise RuntimeError("enough")

    # The lock reads its configuration by itself.
    from kubernetes import config

    config.load_kube_config(config_file=sys.argv[1])
    lock = LeaseLock("leader", world.namespace, "one")
    settings = electionconfig.Config(lock, lease_duration=4, renew_deadline=3, retry_period=1,
                                     onstarted_leading=lead, onstopped_leading=stopped.set)
    candidate = threading.Thread(target=leaderelection.LeaderElection(settings).run)
    candidate.start()
    leases = client.CoordinationV1Api(world.api_client)
    try:
        assert led.wait(60), "nobody leads"
        lease = leases.read_namespaced_lease("leader", world.namespace)
        assert lease.spec.holder_identity == "one"
        until("the lease is renewed", lambda: leases.read_namespaced_lease(
            "leader", world.namespace).spec.renew_time > lease.spec.renew_time)
    finally:
        enough.set()
    candidate.join(60)
    assert stopped.is_set(), "the leader does not step down"


@scenario
def tokens(client, world):
    world.core.create_namespaced_service_account(world.namespace, {"metadata": {"name": "robot"}})
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = world.core.create_namespaced_service_account_token("robot", world.namespace, request).status.token
    assert token.count(".") == 2
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    status = client.AuthenticationV1Api(world.api_client).create_token_review(review).status
    assert status.authenticated and status.user.username == f"system:serviceaccount:{world.namespace}:robot"
    configuration = client.Configuration()
    own = world.api_client.configuration
    configuration.host, configuration.ssl_ca_cert = own.host, own.ssl_ca_cert
    configuration.api_key = {"authorization": f"Bearer {token}"}
    robot = client.ApiClient(configuration)
    forbidden = refused(403, client.CoreV1Api(robot).list_namespaced_secret, world.namespace)
    assert forbidden["message"] == (
        f'secrets is forbidden: User "system:serviceaccount:{world.namespace}:robot" cannot list resource "secrets" '
        f'in API group "" in the namespace "{world.namespace}"'), forbidden
    who = client.AuthorizationV1Api(robot).create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": world.namespace}}})
    assert who.status.allowed is False
    configuration.api_key = {"authorization": "Bearer nonsense"}
    unknown = refused(401, client.CoreV1Api(client.ApiClient(configuration)).list_namespaced_secret, world.namespace)
    assert unknown["reason"] == "Unauthorized"


@scenario
def deletions(client, world):
    owner = world.map("owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
                 "controller": True, "blockOwnerDeletion": True}
    world.map("owned", ownerReferences=[reference])
    world.core.delete_namespaced_config_map("owner", world.namespace, propagation_policy="Foreground")

    def all_gone():
        return not world.core.list_namespaced_config_map(world.namespace, field_selector="metadata.name=owned").items

    until("what is owned is gone", all_gone)
    for name in ["a", "b"]:
        world.map(name, labels={"go": "away"})
    gone = world.core.delete_collection_namespaced_config_map(world.namespace, label_selector="go=away")
    assert gone.kind in ("ConfigMapList", "Status"), gone
    assert not world.core.list_namespaced_config_map(world.namespace, label_selector="go=away").items


@scenario
def from_files(client, world):
    from kubernetes import utils

    objects = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {
            "schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/image"}]}}}}}},
    ]
    for body in objects:
        utils.create_from_dict(world.api_client, body, namespace=world.namespace)
    assert world.core.read_namespaced_secret("s", world.namespace).data == {"a": "Yg=="}
    job = client.BatchV1Api(world.api_client).read_namespaced_cron_job("c", world.namespace)
    assert job.spec.concurrency_policy == "Allow" and job.spec.suspend is False


def main():
    if len(sys.argv) < 5:
        print("\n".join(SCENARIOS))
        return
    from kubernetes import client, config

    SCENARIOS[sys.argv[4]](client, World(client, config, sys.argv[2], sys.argv[3]))


if __name__ == "__main__":
    main()
