//! Models, their roles, and who pays for them.

use serde::{Deserialize, Serialize};

use super::failure::names;

/// What a model is used for in a task with phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Writes the code.
    #[default]
    Implementation,
    /// Reviews it.
    Review,
}

names!(ModelRole { Implementation => "implementation", Review => "review" });

/// How a model is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostMode {
    /// By token, through an API key.
    #[default]
    Platform,
    /// By a flat subscription: shown, but not charged to the budget.
    Subscription,
}

names!(CostMode { Platform => "platform", Subscription => "subscription" });

/// How a harness proves to the provider who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// A key in an environment variable.
    #[default]
    ApiKey,
    /// Credential files of a subscription.
    Subscription,
}

names!(AuthMode { ApiKey => "api_key", Subscription => "subscription" });

/// A model as a run declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The provider's model id.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The variable of the host's environment that holds the key. The key itself is never part of a run.
    pub api_key_env: Option<String>,
    /// What it is for.
    pub role: ModelRole,
    /// Who pays.
    pub cost_mode: CostMode,
    /// How the harness authenticates.
    pub auth_mode: AuthMode,
    /// Where the subscription's credential files are.
    pub credentials_path: Option<String>,
    /// Free settings for the harness's argv template and environment (`{model.config.KEY}`).
    pub config: serde_json::Map<String, serde_json::Value>,
}
