//! Operations as data, whatever the form of the document they are told in.

/// A path and what can be done with it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathItem {
    /// The path, with the variables in braces.
    pub(super) path: String,
    /// The operations, by method.
    pub(super) operations: Vec<Operation>,
}

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the path.
    Path,
    /// Behind the question mark.
    Query,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    /// The HTTP method in small letters.
    pub(super) method: &'static str,
    /// The name of the operation, unique among all.
    pub(super) id: String,
    /// What it does, such as `list`; none for discovery.
    pub(super) action: Option<&'static str>,
    /// Group, version and kind of what it is about.
    pub(super) kind: Option<[String; 3]>,
    /// What it is filed under.
    pub(super) tag: String,
    /// The parameters, sorted.
    pub(super) parameters: Vec<(&'static str, Place)>,
    /// What is sent with it.
    pub(super) body: Option<Body>,
    /// What is answered, by status code.
    pub(super) responses: Vec<(u16, Content)>,
}

/// What is sent with a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Body {
    /// False when it may be left out.
    pub(super) required: bool,
    /// What it is.
    pub(super) content: Content,
}

/// A type in some media types.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    /// The media types.
    pub(super) media: &'static [&'static str],
    /// The name of the type; none for plain text.
    pub(super) schema: Option<String>,
}

impl Operation {
    /// Adds parameters of the query.
    pub(super) fn query(mut self, names: &[&'static str]) -> Self {
        self.parameters.extend(names.iter().map(|&name| (name, Place::Query)));
        self.parameters.sort_unstable();
        self
    }

    /// Says what is sent with it.
    pub(super) fn takes(mut self, required: bool, media: &'static [&'static str], schema: &str) -> Self {
        self.body = Some(Body { required, content: Content { media, schema: Some(schema.to_owned()) } });
        self
    }

    /// Says what is answered with these codes.
    pub(super) fn answers(mut self, codes: &[u16], media: &'static [&'static str], schema: &str) -> Self {
        let content = Content { media, schema: Some(schema.to_owned()) };
        self.responses = codes.iter().map(|&code| (code, content.clone())).collect();
        self
    }
}

/// The OpenAPI type of a parameter.
pub(super) fn parameter_type(name: &str) -> &'static str {
    match name {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" | "limitBytes" | "sinceSeconds" | "tailLines"
        | "ports" => "integer",
        "allowWatchBookmarks"
        | "follow"
        | "force"
        | "ignoreStoreReadErrorWithClusterBreakingPotential"
        | "insecureSkipTLSVerifyBackend"
        | "orphanDependents"
        | "previous"
        | "sendInitialEvents"
        | "stderr"
        | "stdin"
        | "stdout"
        | "timestamps"
        | "tty"
        | "watch" => "boolean",
        _ => "string",
    }
}
