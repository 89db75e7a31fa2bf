//! Lists: order, pages, and which state they show.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::context::{Cx, config_map};
use crate::support::Result;
use crate::support::json::{has, names, text, version};

scenarios![
    shape,
    sorted_by_name,
    across_namespaces,
    pages,
    pages_show_one_state,
    last_page,
    pages_with_selectors,
    bad_continue_tokens,
    expired_continue_tokens,
    versions_grow,
    exact_version,
    a_limit_alone_makes_a_version_exact,
    not_older_than,
    any_version,
    version_of_the_future,
    bad_versions,
    get_at_a_version,
    continue_and_version_do_not_mix,
    initial_events_are_for_watches,
];

/// Creates ConfigMaps labelled as ours, since a namespace has one of its own.
async fn some(cx: &Cx, names: &[&str]) -> Result {
    for name in names {
        let mut object = config_map(name, "1");
        object["metadata"]["labels"] = json!({"ours": "yes"});
        cx.create(cx.core("configmaps"), &object).await?;
    }
    Ok(())
}

/// Secrets are listed where exactly ours have to be there.
async fn some_secrets(cx: &Cx, count: usize) -> Result {
    for number in 0..count {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{number:02}")}});
        cx.create(cx.core("secrets"), &object).await?;
    }
    Ok(())
}

async fn shape(cx: Cx) -> Result {
    some(&cx, &["a"]).await?;
    let list = cx.read(cx.core("configmaps?labelSelector=ours")).await?;
    has(
        &list,
        &json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": null,
            "remainingItemCount": null}}),
    );
    // Items of a list do not repeat their type.
    has(
        &list["items"],
        &json!([{"kind": null, "apiVersion": null, "metadata": {"name": "a", "namespace": cx.ns}}]),
    );
    assert!(version(&list) >= version(&list["items"][0]));
    let empty = cx.read(cx.core("configmaps?labelSelector=none")).await?;
    assert_eq!(empty["items"], json!([]));
    Ok(())
}

async fn sorted_by_name(cx: Cx) -> Result {
    some(&cx, &["b", "a-b", "a", "a.b", "ab"]).await?;
    let list = cx.read(cx.core("configmaps?labelSelector=ours")).await?;
    assert_eq!(names(&list), ["a", "a-b", "a.b", "ab", "b"]);
    Ok(())
}

async fn across_namespaces(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"across": cx.unique});
    cx.create(cx.core("configmaps"), &object).await?;
    let other =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("a-{}", cx.unique)}});
    cx.create("/api/v1/namespaces", &other).await?;
    cx.create(format!("/api/v1/namespaces/a-{}/configmaps", cx.unique), &object).await?;
    let list = cx.read(format!("/api/v1/configmaps?labelSelector=across%3D{}", cx.unique)).await?;
    has(
        &list["items"],
        &json!([
            {"metadata": {"namespace": format!("a-{}", cx.unique)}}, {"metadata": {"namespace": cx.ns}},
        ]),
    );
    let list = cx
        .read(format!(
            "/api/v1/configmaps?labelSelector=across%3D{}&fieldSelector=metadata.namespace%3D{}",
            cx.unique, cx.ns
        ))
        .await?;
    has(&list["items"], &json!([{"metadata": {"namespace": cx.ns}}]));
    Ok(())
}

async fn pages(cx: Cx) -> Result {
    some_secrets(&cx, 5).await?;
    let first = cx.read(cx.core("secrets?limit=2")).await?;
    assert_eq!(names(&first), ["s00", "s01"]);
    has(&first, &json!({"metadata": {"remainingItemCount": 3}}));
    let second =
        cx.read(cx.core(&format!("secrets?limit=2&continue={}", text(&first, "/metadata/continue")))).await?;
    assert_eq!(names(&second), ["s02", "s03"]);
    has(
        &second,
        &json!({"metadata": {"remainingItemCount": 1,
            "resourceVersion": first["metadata"]["resourceVersion"]}}),
    );
    let third = cx
        .read(cx.core(&format!("secrets?limit=2&continue={}", text(&second, "/metadata/continue"))))
        .await?;
    assert_eq!(names(&third), ["s04"]);
    has(&third, &json!({"metadata": {"remainingItemCount": null, "continue": null}}));
    Ok(())
}

async fn pages_show_one_state(cx: Cx) -> Result {
    some_secrets(&cx, 4).await?;
    let first = cx.read(cx.core("secrets?limit=1")).await?;
    cx.admin.delete(cx.core("secrets/s02")).await?.ok(200);
    let new = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s01a"}});
    cx.create(cx.core("secrets"), &new).await?;
    cx.admin
        .merge_patch(cx.core("secrets/s03"), &json!({"metadata": {"labels": {"changed": "yes"}}}))
        .await?
        .ok(200);
    let rest = cx
        .read(cx.core(&format!("secrets?limit=10&continue={}", text(&first, "/metadata/continue"))))
        .await?;
    assert_eq!(names(&rest), ["s01", "s02", "s03"]);
    has(&rest["items"][2], &json!({"metadata": {"labels": null}}));
    assert_eq!(version(&rest), version(&first));
    Ok(())
}

async fn last_page(cx: Cx) -> Result {
    some_secrets(&cx, 2).await?;
    let page = cx.read(cx.core("secrets?limit=2")).await?;
    has(&page, &json!({"metadata": {"continue": null, "remainingItemCount": null}}));
    let page = cx.read(cx.core("secrets?limit=0")).await?;
    assert_eq!(names(&page), ["s00", "s01"]);
    Ok(())
}

async fn pages_with_selectors(cx: Cx) -> Result {
    for number in 0..6 {
        let label = if number % 2 == 0 { "even" } else { "odd" };
        let object = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("s{number}"), "labels": {"parity": label}}});
        cx.create(cx.core("secrets"), &object).await?;
    }
    let first = cx.read(cx.core("secrets?limit=2&labelSelector=parity%3Deven")).await?;
    assert_eq!(names(&first), ["s0", "s2"]);
    has(&first, &json!({"metadata": {"remainingItemCount": null}}));
    let token = text(&first, "/metadata/continue");
    let second =
        cx.read(cx.core(&format!("secrets?limit=2&labelSelector=parity%3Deven&continue={token}"))).await?;
    assert_eq!(names(&second), ["s4"]);
    Ok(())
}

async fn bad_continue_tokens(cx: Cx) -> Result {
    for token in ["nonsense", "e30", "%20"] {
        let answer = cx.admin.get(cx.core(&format!("secrets?limit=2&continue={token}"))).await?;
        let status = answer.fails(400, "BadRequest");
        assert!(
            text(&status, "/message").starts_with("invalid continue token: continue key is not valid: "),
            "{status}"
        );
    }
    Ok(())
}

async fn expired_continue_tokens(cx: Cx) -> Result {
    some_secrets(&cx, 3).await?;
    let first = cx.read(cx.core("secrets?limit=1")).await?;
    let path = cx.core(&format!("secrets?limit=1&continue={}", text(&first, "/metadata/continue")));
    let start = Instant::now();
    let status = loop {
        // The past ends with time, also where nothing happens.
        let answer = cx.admin.get(path.as_str()).await?;
        if answer.status != 200 {
            break answer.fails(410, "Expired");
        }
        if start.elapsed() > Duration::from_mins(3) {
            return Err("the token never expires".into());
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    assert!(
        text(&status, "/message")
            .starts_with("The provided continue parameter is too old to display a consistent list result."),
        "{status}"
    );
    // The failure has a token to go on with, at another state.
    let token = text(&status, "/metadata/continue");
    let rest = cx.read(cx.core(&format!("secrets?limit=5&continue={token}"))).await?;
    assert_eq!(names(&rest), ["s01", "s02"]);
    Ok(())
}

async fn versions_grow(cx: Cx) -> Result {
    let one = cx.config_map("a", "1").await?;
    let two = cx.create(cx.core("secrets"), &json!({"metadata": {"name": "a"}})).await?;
    let list = cx.read(cx.core("configmaps")).await?;
    assert!(version(&one) < version(&two) && version(&two) <= version(&list));
    for object in [&one, &two, &list] {
        let text = text(object, "/metadata/resourceVersion");
        assert_eq!(text, version(object).to_string());
    }
    Ok(())
}

async fn exact_version(cx: Cx) -> Result {
    some_secrets(&cx, 2).await?;
    let before = cx.read(cx.core("secrets")).await?;
    cx.admin.delete(cx.core("secrets/s00")).await?.ok(200);
    let path = cx.core(&format!("secrets?resourceVersionMatch=Exact&resourceVersion={}", version(&before)));
    let list = cx.read(path.as_str()).await?;
    assert_eq!((names(&list), version(&list)), (vec!["s00", "s01"], version(&before)));
    let list = cx.read(format!("{path}&limit=1")).await?;
    assert_eq!((names(&list), version(&list)), (vec!["s00"], version(&before)));
    assert_eq!(names(&cx.read(cx.core("secrets")).await?), ["s01"]);
    Ok(())
}

async fn a_limit_alone_makes_a_version_exact(cx: Cx) -> Result {
    some_secrets(&cx, 2).await?;
    let before = cx.read(cx.core("secrets")).await?;
    cx.admin.delete(cx.core("secrets/s00")).await?.ok(200);
    let path = cx.core(&format!("secrets?resourceVersion={}", version(&before)));
    let list = cx.read(format!("{path}&limit=1")).await?;
    assert_eq!((names(&list), version(&list)), (vec!["s00"], version(&before)));
    // Without a limit, or when newer versions are as good, the present is shown.
    for query in ["", "&limit=1&resourceVersionMatch=NotOlderThan"] {
        let list = cx.read(format!("{path}{query}")).await?;
        assert_eq!(names(&list), ["s01"], "{query}");
        assert!(version(&list) > version(&before), "{query}");
    }
    Ok(())
}

async fn not_older_than(cx: Cx) -> Result {
    some_secrets(&cx, 1).await?;
    let now = cx.read(cx.core("secrets")).await?;
    let path =
        cx.core(&format!("secrets?resourceVersionMatch=NotOlderThan&resourceVersion={}", version(&now)));
    let list = cx.read(path).await?;
    assert_eq!(names(&list), ["s00"]);
    assert!(version(&list) >= version(&now));
    Ok(())
}

async fn any_version(cx: Cx) -> Result {
    some_secrets(&cx, 3).await?;
    let now = cx.read(cx.core("secrets")).await?;
    cx.read(cx.core(&format!("secrets?resourceVersion={}", version(&now)))).await?;
    let list = cx.read(cx.core("secrets?resourceVersion=0")).await?;
    assert_eq!(names(&list), ["s00", "s01", "s02"]);
    Ok(())
}

async fn version_of_the_future(cx: Cx) -> Result {
    let now = version(&cx.read(cx.core("secrets")).await?);
    let answer = cx.admin.get(cx.core(&format!("secrets?resourceVersion={}", now + 100_000_000))).await?;
    let status = answer.fails(504, "Timeout");
    has(
        &status,
        &json!({"details": {"retryAfterSeconds": 1, "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        ]}}),
    );
    assert!(
        text(&status, "/message")
            .starts_with(&format!("Timeout: Too large resource version: {}, current: ", now + 100_000_000)),
        "{status}"
    );
    assert_eq!(answer.header("retry-after"), "1");
    Ok(())
}

async fn bad_versions(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("secrets?resourceVersion=x")).await?;
    let status = answer.fails(400, "BadRequest");
    assert!(text(&status, "/message").contains("invalid"), "{status}");
    let answer = cx.admin.get(cx.core("secrets?resourceVersionMatch=Exact")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [{
        "field": "resourceVersionMatch",
        "message": "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"}]}}),
    );
    let answer = cx.admin.get(cx.core("secrets?resourceVersionMatch=Exact&resourceVersion=0")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [{"field": "resourceVersionMatch", "message":
        "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""}]}}),
    );
    let answer = cx.admin.get(cx.core("secrets?resourceVersionMatch=Near&resourceVersion=5")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [{"field": "resourceVersionMatch", "message":
        "Unsupported value: \"Near\": supported values: \"Exact\", \"NotOlderThan\", \"\""}]}}),
    );
    Ok(())
}

async fn get_at_a_version(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    for at in ["0".to_owned(), version(&created).to_string()] {
        let read = cx.read(cx.core(&format!("configmaps/a?resourceVersion={at}"))).await?;
        assert_eq!(read, created);
    }
    let answer = cx
        .admin
        .get(cx.core(&format!("configmaps/a?resourceVersion={}", version(&created) + 100_000_000)))
        .await?;
    answer.fails(504, "Timeout");
    Ok(())
}

async fn continue_and_version_do_not_mix(cx: Cx) -> Result {
    some_secrets(&cx, 2).await?;
    let first = cx.read(cx.core("secrets?limit=1")).await?;
    let token = text(&first, "/metadata/continue");
    let answer = cx
        .admin
        .get(cx.core(&format!("secrets?limit=1&continue={token}&resourceVersion={}", version(&first))))
        .await?;
    answer.fails_with(400, "BadRequest", "specifying resource version is not allowed when using continue");
    let answer =
        cx.admin
            .get(cx.core(&format!(
                "secrets?limit=1&continue={token}&resourceVersion=5&resourceVersionMatch=Exact"
            )))
            .await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [{"field": "resourceVersionMatch", "message":
        "Forbidden: resourceVersionMatch is forbidden when continue is provided"}]}}),
    );
    Ok(())
}

async fn initial_events_are_for_watches(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("secrets?sendInitialEvents=true")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [{"field": "sendInitialEvents",
        "message": "Forbidden: sendInitialEvents is forbidden for list"}]}}),
    );
    Ok(())
}
