//! Where orchestrators and harnesses are found: built in, on a search path, or in a folder that a run names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::{ConfigError, Diagnostic};
use super::harness_manifest::HarnessManifest;
use super::nearest;
use super::orchestrator_manifest::{self, OrchestratorManifest};
use super::source::shown_path;

/// Everything that a run may name. Folders on the search path go before what is built in, in their order.
///
/// A folder is either an orchestrator itself or holds orchestrators as sub-folders.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    orchestrators: Vec<Arc<OrchestratorManifest>>,
    harnesses: Vec<Arc<HarnessManifest>>,
}

impl Catalog {
    /// Loads what is built in and what lies on the search path.
    ///
    /// # Errors
    ///
    /// All that is wrong with any manifest on the search path, and folders that do not exist.
    pub fn load(orchestrator_dirs: &[PathBuf]) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut orchestrators: Vec<Arc<OrchestratorManifest>> = Vec::new();
        for dir in orchestrator_dirs {
            match below(dir, orchestrator_manifest::MANIFEST) {
                Ok(found) => {
                    for dir in found {
                        match OrchestratorManifest::from_dir(&dir) {
                            Ok(manifest) => orchestrators.push(Arc::new(manifest)),
                            Err(error) => problems.extend_from_slice(error.diagnostics()),
                        }
                    }
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        orchestrators.extend(OrchestratorManifest::builtins()?.into_iter().map(Arc::new));
        let harnesses = HarnessManifest::builtins()?.into_iter().map(Arc::new).collect();
        Ok(Self { orchestrators, harnesses })
    }

    /// Adds harnesses that the host brings; one with the name of a built-in changes nothing here.
    pub(crate) fn add_host_harnesses(&mut self, names: &[String]) {
        for name in names {
            if self.find_harness(name).is_none() {
                self.harnesses.push(Arc::new(HarnessManifest::of_host(name)));
            }
        }
    }

    /// Returns all orchestrators; of two with one slug the first is the one that runs.
    #[must_use]
    pub fn orchestrators(&self) -> &[Arc<OrchestratorManifest>] {
        &self.orchestrators
    }

    /// Returns the harnesses that come with the program, and those that the host brings.
    #[must_use]
    pub fn harnesses(&self) -> &[Arc<HarnessManifest>] {
        &self.harnesses
    }

    /// Finds an orchestrator by its slug.
    ///
    /// # Errors
    ///
    /// An error with the nearest slug.
    pub fn orchestrator(&self, slug: &str) -> Result<Arc<OrchestratorManifest>, ConfigError> {
        self.find_orchestrator(slug).ok_or_else(|| self.no_orchestrator(slug).into())
    }

    /// Finds a harness by its name; `claude_code` finds `claude-code`.
    ///
    /// # Errors
    ///
    /// An error with the nearest name.
    pub fn harness(&self, name: &str) -> Result<Arc<HarnessManifest>, ConfigError> {
        self.find_harness(name).ok_or_else(|| self.no_harness(name).into())
    }

    pub(crate) fn find_orchestrator(&self, slug: &str) -> Option<Arc<OrchestratorManifest>> {
        self.orchestrators.iter().find(|manifest| manifest.slug == slug).cloned()
    }

    pub(crate) fn find_harness(&self, name: &str) -> Option<Arc<HarnessManifest>> {
        let spelled = name.replace('_', "-");
        self.harnesses.iter().find(|manifest| manifest.name == name || manifest.name == spelled).cloned()
    }

    pub(crate) fn no_orchestrator(&self, slug: &str) -> Diagnostic {
        let known = self.orchestrators.iter().map(|manifest| manifest.slug.as_str());
        Diagnostic::error(format!("there is no orchestrator `{slug}`")).hint(nearest::hint(slug, known))
    }

    pub(crate) fn no_harness(&self, name: &str) -> Diagnostic {
        let known = self.harnesses.iter().map(|manifest| manifest.name.as_str());
        let hint = format!("{}; a folder of your own is named by its path, `./{name}`", nearest::hint(name, known));
        Diagnostic::error(format!("there is no harness `{name}`")).hint(hint)
    }
}

/// Returns the folder itself if it holds the manifest, else its sub-folders that do, sorted.
fn below(dir: &Path, manifest: &str) -> Result<Vec<PathBuf>, Diagnostic> {
    if dir.join(manifest).is_file() {
        return Ok(vec![dir.to_path_buf()]);
    }
    let shown = shown_path(dir);
    let entries = std::fs::read_dir(dir)
        .map_err(|error| Diagnostic::error(format!("cannot read the folder `{shown}`: {error}")).in_file(&shown))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.join(manifest).is_file()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn built_ins_are_in_order_and_named_as_their_folders() {
        let catalog = Catalog::load(&[]).expect("the embedded manifests are right");
        let one_shot = catalog.orchestrator("one-shot").expect("is there");
        assert_eq!(one_shot.origin, orchestrator_manifest::Origin::Builtin);
        assert!(!one_shot.read_file("runner.lua").expect("is there").is_empty());
        for manifest in catalog.orchestrators() {
            assert!(
                manifest.read_file(orchestrator_manifest::MANIFEST).is_ok(),
                "{} lies in its folder",
                manifest.slug
            );
        }
    }

    #[test]
    fn the_search_path_goes_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let mine = dir.path().join("mine");
        fs::create_dir(&mine).expect("a folder");
        fs::write(mine.join("orchestrator.toml"), "slug = \"one-shot\"\napi = 1\n").expect("written");
        fs::write(mine.join("runner.lua"), "return {}").expect("written");
        for path in [dir.path().to_path_buf(), mine.clone()] {
            let catalog = Catalog::load(&[path]).expect("loads");
            let found = catalog.orchestrator("one-shot").expect("is there");
            assert_eq!(found.origin, orchestrator_manifest::Origin::Directory(mine.canonicalize().expect("exists")));
            assert_eq!(found.read_file("runner.lua").expect("is there"), b"return {}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_read_inside_the_folder_only() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("secret"), "x").expect("written");
        let mine = dir.path().join("mine");
        fs::create_dir(&mine).expect("a folder");
        fs::write(mine.join("orchestrator.toml"), "slug = \"mine\"\napi = 1\n").expect("written");
        fs::write(mine.join("runner.lua"), "return {}").expect("written");
        std::os::unix::fs::symlink("../secret", mine.join("link.lua")).expect("linked");
        let manifest = OrchestratorManifest::from_dir(&mine).expect("loads");
        for path in ["../secret", "link.lua", "/etc/hostname"] {
            let error = manifest.read_file(path).expect_err(path);
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{path}");
        }
        assert_eq!(manifest.read_file("absent.lua").expect_err("absent").kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn unknown_names_show_the_nearest() {
        let catalog = Catalog::load(&[]).expect("loads");
        let error = catalog.orchestrator("one-shott").expect_err("is unknown").to_string();
        assert!(error.contains("did you mean `one-shot`?"), "{error}");
        let error = catalog.harness("comand").expect_err("is unknown").to_string();
        assert!(error.contains("did you mean `command`?"), "{error}");
    }
}
