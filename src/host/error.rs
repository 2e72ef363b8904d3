//! The error of the embedding API: a kind that decides the exit code, and what lies behind it.

use std::fmt;

use crate::config::ConfigError;
use crate::engine::EngineError;
use crate::runtime::{InstallFault, RuntimeError};
use crate::store::StoreError;

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What the user wrote is wrong.
    Configuration,
    /// The runtime is not there.
    Runtime,
    /// The store cannot be read or written.
    Store,
    /// Cancelled before the first cell.
    Cancelled,
    /// Anything else of the machine.
    Other,
}

/// Why a host cannot do what it was asked.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    pub(super) fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    pub(super) fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(super) fn hinting(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Says what to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::new(ErrorKind::Configuration, error.to_string()).caused_by(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let hint = error.hints().into_iter().next();
        Self::new(ErrorKind::Store, "the store failed").caused_by(error).hinting(hint)
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::Store(_) | EngineError::Unkept { .. } | EngineError::File { .. } => ErrorKind::Store,
            EngineError::Prepare { source: RuntimeError::Stopped, .. } => ErrorKind::Cancelled,
            EngineError::Prepare { source: RuntimeError::Install { fault: InstallFault::Installer, .. }, .. }
            | EngineError::UnknownRuntime { .. }
            | EngineError::Changed { .. }
            | EngineError::Unpriced { .. } => ErrorKind::Configuration,
            EngineError::Runtime { .. } | EngineError::Prepare { .. } | EngineError::Gateway { .. } => {
                ErrorKind::Runtime
            }
        };
        let hint = error.hint();
        let message = error.to_string();
        match error {
            EngineError::Store(source) => Self::new(kind, message).caused_by(source),
            EngineError::Runtime { source, .. } | EngineError::Prepare { source, .. } => {
                Self::new(kind, message).caused_by(source)
            }
            EngineError::Gateway { source } => Self::new(kind, message).caused_by(source),
            EngineError::File { source, .. } => Self::new(kind, message).caused_by(source),
            _ => Self::new(kind, message),
        }
        .hinting(hint)
    }
}
