//! Which providers a gateway without a run is for, and what it works with: shared by `refrain gateway` and `refrain canary`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Failed;
use super::run::{environment, eprint_line};
use crate::config::gateway::{KNOWN_PROVIDERS, ProviderEntry, ProviderProxy, Recording};
use crate::config::{LoadOptions, RunPlan, load};
use crate::domain::Key;
use crate::gateway::Proxies;
use crate::host::StandaloneOptions;

// What both commands are told; a doc comment here would take the place of theirs in the help.
#[derive(Debug, clap::Args)]
#[group(id = "providers")]
pub(super) struct Args {
    /// A run file, complete and valid as for `refrain run`: its providers, prices, `gateway_db` and gateway address are used,
    /// and nothing of it is run
    file: Option<PathBuf>,
    /// The database for what passes (`gateway.db`)
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// A provider, or one's own as NAME=URL, whose key is then in NAME_API_KEY (in capitals, `-` and `.` as `_`); may be given
    /// several times. By default those whose keys are set
    #[arg(long, value_name = "NAME[=URL]", value_parser = asked)]
    provider: Vec<Asked>,
    /// A price file that goes before those that come with Refrain; may be given several times, the last goes first
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
}

/// A provider as the command line names it.
#[derive(Debug, Clone)]
struct Asked {
    name: String,
    url: Option<String>,
}

fn asked(text: &str) -> Result<Asked, String> {
    let (name, url) = text.split_once('=').map_or((text, None), |(name, url)| (name, Some(url)));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(
            "a provider has a name of letters, digits, `-`, `_` and `.`, as in lab=https://models.example.org/v1"
                .to_owned(),
        );
    }
    if url.is_some_and(|url| url.trim().is_empty()) {
        return Err(format!(
            "`{name}` has no address; write {name}=https://…, or the name alone for one that is known"
        ));
    }
    Ok(Asked { name: name.to_owned(), url: url.map(str::to_owned) })
}

/// The providers that were chosen, with the run file that says more of them.
pub(super) struct Choice {
    pub(super) plan: Option<RunPlan>,
    /// Their names.
    pub(super) names: Vec<String>,
    pub(super) options: StandaloneOptions,
}

impl Args {
    /// Reads the run file, finds providers and keys, and says which key is missing.
    pub(super) fn choose(&self, listen: SocketAddr) -> Result<Choice, Failed> {
        let plan = match &self.file {
            Some(file) => Some(load(LoadOptions::new(file))?.0),
            None => None,
        };
        let mut providers = match &plan {
            Some(plan) => plan.providers.clone(),
            None => KNOWN_PROVIDERS.iter().map(ProviderEntry::known).collect(),
        };
        let asked = self.named(&mut providers)?;
        let own = plan.as_ref().map(|plan| &plan.gateway);
        let variables: Vec<String> = providers.iter().filter_map(|entry| entry.api_key_env.clone()).collect();
        let keys = environment().filter(|(name, _)| variables.contains(name));
        let keys: BTreeMap<_, _> = keys.map(|(name, value)| (name, Key::new(value))).collect();
        let names = if asked.is_empty() { with_keys(&providers, &keys)? } else { asked };
        for entry in providers.iter().filter(|entry| names.contains(&entry.name)) {
            if let Some(variable) = entry.api_key_env.as_ref().filter(|name| !keys.contains_key(*name)) {
                let name = &entry.name;
                eprint_line(&format!(
                    "{:>12} {variable} is not set: requests to {name} go there without a key",
                    "Note"
                ));
            }
        }
        let of_plan = plan.as_ref().map(|plan| plan.prices.clone()).unwrap_or_default();
        let options = StandaloneOptions {
            listen,
            db: self.db.clone().or_else(|| own?.db.clone()).unwrap_or_else(|| PathBuf::from("gateway.db")),
            providers,
            proxies: Proxies::from_variables(|name| {
                environment().find(|(known, _)| known == name).map(|(_, value)| value)
            }),
            keys,
            record: own.map_or(Recording::Meta, |own| own.record),
            max_cost: None,
            prices: of_plan.into_iter().chain(self.prices.iter().cloned()).collect(),
            allow_unpriced: plan.as_ref().is_some_and(|plan| plan.allow_unpriced),
        };
        Ok(Choice { plan, names, options })
    }

    /// Returns the names of the providers that were asked for; those with an address of their own are added.
    fn named(&self, providers: &mut Vec<ProviderEntry>) -> Result<Vec<String>, Failed> {
        let mut names: Vec<String> = Vec::new();
        for Asked { name, url } in &self.provider {
            let at = providers.iter().position(|entry| entry.name == *name);
            match (at, url) {
                (Some(at), Some(url)) => url.clone_into(&mut providers[at].base_url),
                (Some(_), None) => {}
                (None, Some(url)) => providers.push(ProviderEntry {
                    name: name.clone(),
                    base_url: url.clone(),
                    concurrency: None,
                    requests_per_minute: None,
                    proxy: ProviderProxy::Surroundings,
                    api_key_env: Some(variable(name, "API_KEY")),
                }),
                (None, None) => {
                    let known = providers.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
                    return Err(Failed::usage(anyhow::anyhow!("there is no provider `{name}`; known: {known}"))
                        .with_hint(format!("one of your own has an address: `--provider {name}=https://…`")));
                }
            }
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Ok(names)
    }
}

/// Returns the name of a variable of a provider, such as `LAB_API_KEY`.
pub(super) fn variable(provider: &str, what: &str) -> String {
    format!("{}_{what}", provider.to_uppercase().replace(['-', '.'], "_"))
}

/// Without a choice those count whose keys are there; of two names for one provider the first.
fn with_keys(providers: &[ProviderEntry], keys: &BTreeMap<String, Key>) -> Result<Vec<String>, Failed> {
    let mut found: Vec<&ProviderEntry> = Vec::new();
    for entry in providers {
        let has_key = entry.api_key_env.as_ref().is_some_and(|name| keys.contains_key(name));
        if has_key && !found.iter().any(|other| other.base_url == entry.base_url) {
            found.push(entry);
        }
    }
    if found.is_empty() {
        let mut variables: Vec<&str> = Vec::new();
        for variable in providers.iter().filter_map(|entry| entry.api_key_env.as_deref()) {
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        }
        let message = format!("no provider's key is set; looked for: {}", variables.join(", "));
        return Err(Failed::usage(anyhow::anyhow!(message))
            .with_hint("set one, or choose a provider that needs none: `--provider NAME=URL`"));
    }
    Ok(found.into_iter().map(|entry| entry.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("anthropic", true; "a known one")]
    #[test_case("my-lab.2=http://127.0.0.1:8000/v1", true; "one's own")]
    #[test_case("=http://127.0.0.1:8000/v1", false; "no name")]
    #[test_case("lab=", false; "no address")]
    #[test_case("my lab=http://x", false; "a blank")]
    fn a_provider_has_a_name_and_where_there_is_a_sign_an_address(text: &str, fits: bool) {
        assert_eq!(asked(text).is_ok(), fits);
    }

    #[test]
    fn a_variable_is_a_variable() {
        assert_eq!(variable("my-lab.2", "API_KEY"), "MY_LAB_2_API_KEY");
    }
}
