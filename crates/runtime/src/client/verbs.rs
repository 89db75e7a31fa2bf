//! What can be asked of a site.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Error, FIELD_MANAGER, Request, Result, Site, Verb};
use crate::resource::escape_into;
use crate::{Key, Resource};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// How many objects a page of a list has.
const PAGE: usize = 500;

const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// Which objects of a kind are meant: by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those of this namespace; of all, where it is empty.
    pub namespace: String,
    /// Only those whose labels fit this selector.
    pub labels: String,
    /// Only those whose fields fit this selector.
    pub fields: String,
}

impl Selection {
    /// The objects of one namespace.
    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// Only those of them whose labels fit.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        Self { labels: selector.to_owned(), ..self }
    }

    /// Only those of them whose fields fit.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        Self { fields: selector.to_owned(), ..self }
    }

    /// The path of these objects, with these parameters.
    pub(crate) fn path(&self, resource: &Resource, parameters: &[(&str, &str)]) -> String {
        let mut path = resource.collection(&self.namespace);
        let mut separator = '?';
        let selectors = [("labelSelector", self.labels.as_str()), ("fieldSelector", self.fields.as_str())];
        for (name, value) in selectors.iter().chain(parameters).filter(|(_, value)| !value.is_empty()) {
            path.push(separator);
            path.push_str(name);
            path.push('=');
            escape_into(&mut path, value);
            separator = '&';
        }
        path
    }
}

/// A page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    #[serde(default)]
    pub(crate) metadata: PageMeta,
    // A list of nothing may be null.
    #[serde(default = "Option::default")]
    pub(crate) items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMeta {
    #[serde(default)]
    pub(crate) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(crate) next: String,
}

/// What happens to the dependants of what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How something is deleted. What is deleted is named by its uid: another object that has got its name meanwhile is left
/// alone.
#[derive(Debug, Clone)]
pub struct Delete<'a> {
    /// The uid it must have.
    pub uid: &'a str,
    /// The version it must have, where that matters.
    pub resource_version: Option<u64>,
    /// What happens to its dependants.
    pub propagation: Propagation,
    /// How long it has to end, where that is not its own choice.
    pub grace: Option<u32>,
}

impl<'a> Delete<'a> {
    /// Deletes the object of this uid.
    pub fn uid(uid: &'a str) -> Self {
        Self { uid, resource_version: None, propagation: Propagation::default(), grace: None }
    }

    fn options(&self) -> Value {
        let mut preconditions = json!({"uid": self.uid});
        if let Some(version) = self.resource_version {
            preconditions["resourceVersion"] = version.to_string().into();
        }
        let policy = match self.propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions, "propagationPolicy": policy,
        });
        if let Some(grace) = self.grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        options
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone, or was before.
    Gone,
    /// It will go when those who have finalizers on it let it; this is how it is now.
    Going(Value),
    /// Another object has its name now, so the one meant is gone.
    Replaced,
}

/// What became of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicted {
    /// The pod will go.
    Accepted,
    /// The pod is gone, or another has its name.
    Gone,
    /// A disruption budget is against it for now.
    Refused {
        /// What the server said.
        reason: String,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
}

impl Site {
    /// An object as it is on the server.
    pub async fn get<T: DeserializeOwned>(&self, resource: &Resource, key: &Key) -> Result<T> {
        self.ask(Request::new(Verb::Get, resource, ""), resource, &resource.object(key), None).await
    }

    /// An object as it is on the server, if there is one.
    pub async fn find<T: DeserializeOwned>(&self, resource: &Resource, key: &Key) -> Result<Option<T>> {
        match self.get(resource, key).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a kind as they are on the server, fetched in pages.
    pub async fn list<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut next = String::new();
        loop {
            let page: Page<T> = self.page(resource, selection, &next).await?;
            all.extend(page.items.into_iter().flatten());
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        selection: &Selection,
        next: &str,
    ) -> Result<Page<T>> {
        let path = selection.path(resource, &[("limit", &PAGE.to_string()), ("continue", next)]);
        self.ask(Request::new(Verb::List, resource, ""), resource, &path, None).await
    }

    /// Makes an object. Its kind is filled in.
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &impl Serialize,
    ) -> Result<T> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", resource.collection(namespace));
        let body = Some((JSON, typed(resource, object)?));
        self.ask(Request::new(Verb::Create, resource, ""), resource, &path, body).await
    }

    /// Makes sure that an object has the fields that are sent, and no longer those that were sent before. With `force`
    /// fields are taken from other managers.
    pub async fn apply<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        object: &impl Serialize,
        force: bool,
    ) -> Result<T> {
        self.apply_at(resource, key, "", object, force).await
    }

    /// The same for the status.
    pub async fn apply_status<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        object: &impl Serialize,
        force: bool,
    ) -> Result<T> {
        self.apply_at(resource, key, "status", object, force).await
    }

    async fn apply_at<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &'static str,
        object: &impl Serialize,
        force: bool,
    ) -> Result<T> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}&force={force}", at(resource, key, subresource));
        let body = Some((APPLY, typed(resource, object)?));
        self.ask(Request::new(Verb::Patch, resource, subresource), resource, &path, body).await
    }

    /// Merges a patch into an object.
    pub async fn merge_patch<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        patch: &impl Serialize,
    ) -> Result<T> {
        self.patch(resource, key, "", MERGE, patch).await
    }

    /// Merges a patch, which begins at the root of the object, into its status.
    pub async fn merge_patch_status<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        patch: &impl Serialize,
    ) -> Result<T> {
        self.patch(resource, key, "status", MERGE, patch).await
    }

    /// Applies the operations of a JSON patch to an object.
    pub async fn json_patch<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        operations: &impl Serialize,
    ) -> Result<T> {
        self.patch(resource, key, "", JSON_PATCH, operations).await
    }

    /// Applies the operations of a JSON patch to its status.
    pub async fn json_patch_status<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        operations: &impl Serialize,
    ) -> Result<T> {
        self.patch(resource, key, "status", JSON_PATCH, operations).await
    }

    async fn patch<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &'static str,
        form: &'static str,
        patch: &impl Serialize,
    ) -> Result<T> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", at(resource, key, subresource));
        let body = Some((form, encoded(patch)?));
        self.ask(Request::new(Verb::Patch, resource, subresource), resource, &path, body).await
    }

    /// Replaces an object, in the version that it carries.
    pub async fn replace<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        object: &impl Serialize,
    ) -> Result<T> {
        self.put(resource, key, "", object).await
    }

    /// Puts to a subresource, or to the object itself where that is empty.
    pub async fn put<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &'static str,
        body: &impl Serialize,
    ) -> Result<T> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", at(resource, key, subresource));
        let body = Some((JSON, encoded(body)?));
        self.ask(Request::new(Verb::Update, resource, subresource), resource, &path, body).await
    }

    /// Posts to a subresource, such as `token`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &'static str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = Some((JSON, encoded(body)?));
        let path = at(resource, key, subresource);
        self.ask(Request::new(Verb::Create, resource, subresource), resource, &path, body).await
    }

    /// Deletes the object with this uid. That it is gone already is no failure; a conflict over the version alone is.
    pub async fn delete(&self, resource: &Resource, key: &Key, how: &Delete<'_>) -> Result<Deleted> {
        let body = Some((JSON, encoded(&how.options())?));
        let request = Request::new(Verb::Delete, resource, "");
        match self.ask::<Value>(request, resource, &resource.object(key), body).await {
            Ok(left)
                if left["metadata"]["uid"] == how.uid
                    && left["metadata"].get("deletionTimestamp").is_some() =>
            {
                let held = left["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
                let ends = left["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
                Ok(if held || ends { Deleted::Going(left) } else { Deleted::Gone })
            }
            Ok(_) | Err(Error::NotFound(_)) => Ok(Deleted::Gone),
            Err(Error::Conflict(message)) if is_other(&message) => Ok(Deleted::Replaced),
            Err(error) => Err(error),
        }
    }

    /// Asks for a pod to be moved away, which its disruption budgets may refuse.
    pub async fn evict(&self, key: &Key, uid: &str, grace: Option<u32>) -> Result<Evicted> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "deleteOptions": Delete { grace, ..Delete::uid(uid) }.options(),
        });
        match self.post::<Value>(&POD, key, "eviction", &eviction).await {
            Ok(_) => Ok(Evicted::Accepted),
            Err(Error::NotFound(_)) => Ok(Evicted::Gone),
            Err(Error::Conflict(message)) if is_other(&message) => Ok(Evicted::Gone),
            Err(Error::TooManyRequests { retry_after, message }) => {
                Ok(Evicted::Refused { reason: message, retry_after })
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a review, such as a `SelfSubjectAccessReview`, and returns its answer. Reviews are not stored.
    pub async fn review(&self, review: &Resource, namespace: &str, spec: &Value) -> Result<Value> {
        let body = Some((JSON, typed(review, &json!({"spec": spec}))?));
        let request = Request::new(Verb::Create, review, "");
        let mut answer: Value = self.ask(request, review, &review.collection(namespace), body).await?;
        Ok(answer["status"].take())
    }

    /// Whether this user may make such requests in a namespace; in all, where it is empty.
    pub async fn may(&self, wish: &Request, namespace: &str) -> Result<bool> {
        const REVIEW: Resource = Resource::cluster(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
        );
        let spec = json!({"resourceAttributes": {
            "verb": wish.verb.word(), "group": wish.group, "resource": wish.plural,
            "subresource": wish.subresource, "namespace": namespace,
        }});
        let status = self.review(&REVIEW, "", &spec).await?;
        Ok(status["allowed"].as_bool().unwrap_or(false))
    }
}

impl Site {
    /// The version the server says it has.
    pub async fn version(&self) -> Result<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        Ok(self.told::<Version>("/version").await?.git_version)
    }

    /// The groups of kinds the server knows, without the one that has no name.
    pub async fn groups(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        #[derive(Deserialize)]
        struct Group {
            name: String,
        }
        let known: Groups = self.told("/apis").await?;
        Ok(known.groups.into_iter().map(|group| group.name).collect())
    }
}

/// Whether a conflict means that the object has another uid.
fn is_other(message: &str) -> bool {
    // Two layers of a server check it, each with its own words.
    message.contains("UID in the precondition") || message.contains("UID in precondition")
}

fn at(resource: &Resource, key: &Key, subresource: &str) -> String {
    let mut path = resource.object(key);
    if !subresource.is_empty() {
        path.push('/');
        path.push_str(subresource);
    }
    path
}

fn encoded(body: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|_| Error::Invalid("what is to be sent is no JSON".to_owned()))
}

/// An object with its kind filled in.
fn typed(resource: &Resource, object: &impl Serialize) -> Result<Vec<u8>> {
    let mut value = serde_json::to_value(object)
        .map_err(|_| Error::Invalid("what is to be sent is no JSON".to_owned()))?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.kind.into());
    }
    encoded(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_parameters() {
        let selection = Selection::namespace("a").labels("x in (y,z)").fields("spec.nodeName=n");
        assert_eq!(
            selection.path(&POD, &[("limit", "5"), ("continue", "")]),
            "/api/v1/namespaces/a/pods?labelSelector=x%20in%20%28y%2Cz%29&fieldSelector=spec.nodeName%3Dn&limit=5"
        );
        assert_eq!(Selection::default().path(&POD, &[]), "/api/v1/pods");
    }

    #[test]
    fn what_is_deleted_is_named_by_its_uid() {
        let how = Delete { resource_version: Some(5), grace: Some(0), ..Delete::uid("u") };
        let options = how.options();
        assert_eq!(options["preconditions"], json!({"uid": "u", "resourceVersion": "5"}));
        assert_eq!(options["propagationPolicy"], "Background");
        assert_eq!(options["gracePeriodSeconds"], 0);
    }
}
