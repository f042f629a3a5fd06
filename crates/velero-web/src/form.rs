//! What somebody filled in: bounded, and only from a page of the same session.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use axum::{Form as AxumForm, RequestExt};

use crate::problem::Problem;
use crate::server::Shared;

/// The longest value of a field.
const LONGEST: usize = 16 << 10;

/// The fields of a form whose token was right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// The value of a field; empty when it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// Whether a box is ticked.
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        self.get(name) == "on"
    }
}

impl FromIterator<(String, String)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The fields of any form; who signs in has no session yet.
pub(crate) async fn unchecked(request: Request) -> Result<Fields, Problem> {
    let form = request.extract::<AxumForm<Vec<(String, String)>>, _>().await;
    let AxumForm(pairs) = form.map_err(|error| Problem::Bad(format!("the form cannot be read: {error}")))?;
    if pairs.iter().any(|(_, value)| value.len() > LONGEST) {
        return Err(Problem::Bad(format!("a field is longer than {LONGEST} bytes")));
    }
    Ok(pairs.into_iter().collect())
}

impl FromRequest<Shared> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let id = shared.identity(request.extensions(), request.headers())?.form_id();
        let fields = unchecked(request).await?;
        if shared.keys.is_form_token(&id, fields.get("form-token")) { Ok(fields) } else { Err(Problem::OldForm) }
    }
}
