//! Images with a program installed: made once for each image and installer, kept by the daemon, used by later runs.
//!
//! An image gets its name last, when the program has been installed and has answered its probe, so that whatever bears the
//! name is whole. Two processes that prepare the same image at once do the work twice and come to the same end.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{RemoveImageOptions, RemoveImageOptionsBuilder};
use tokio::sync::OnceCell;

use super::error::failed;
use super::image::{self, Image};
use super::once::{self, Bounds, Ended, Work};
use super::{archive, container, labels, layout};
use crate::clock::Clock;
use crate::redact::last_lines;
use crate::runtime::prepare::{FOLDER, PROGRAM};
use crate::runtime::{Install, InstallFault, PrepareRequest, PreparedImage, Progress, RuntimeError};

/// Where prepared images are kept.
const REPOSITORY: &str = "refrain/prepared";
/// The installer's main process.
const SCRIPT: &str = include_str!("installer.sh");
/// How much longer than its bound an installer lives whose host has died.
const SLACK: Duration = Duration::from_secs(60);
/// Bound of a probe, where the installer's own is longer: a program that is begun for the first time on a busy machine may
/// take a minute.
const PROBE_TIMEOUT: Duration = Duration::from_secs(300);
/// The exit code with which an installer says that another try may work: `EX_TEMPFAIL` of sysexits.
const TEMPORARY: i64 = 75;
/// What installers print where the network failed them.
const NETWORK: &[&str] = &[
    "temporary failure resolving",
    "temporary failure in name resolution",
    "could not resolve host",
    "bad address",
    "network is unreachable",
    "connection timed out",
    "connection refused",
    "eai_again",
    "enotfound",
    "etimedout",
    "econnreset",
    "econnrefused",
];
/// Lines of an installer's output that an error shows.
const LAST_LINES: usize = 12;

/// The images that a runtime has prepared. Cells and runs that need the same one share the work.
#[derive(Debug, Default)]
pub(super) struct Installed {
    images: Mutex<HashMap<String, Arc<OnceCell<PreparedImage>>>>,
}

impl Installed {
    /// Makes an image with what is asked for, or finds it.
    pub(super) async fn prepare(
        &self,
        client: &Docker,
        clock: &dyn Clock,
        request: &PrepareRequest,
        base: &Image,
        progress: &Progress<'_>,
    ) -> Result<PreparedImage, RuntimeError> {
        let Some(install) = &request.install else {
            let image = request.image.clone().unwrap_or_else(|| base.id.clone());
            return Ok(PreparedImage { image, base: base.digest.clone(), prepared: None, version: None, reused: true });
        };
        let name = format!("{REPOSITORY}:{}", key(base, install)?);
        let cell = {
            let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(images.entry(name.clone()).or_default())
        };
        let job = Job { client, clock, request, install, base, progress };
        cell.get_or_try_init(|| job.find_or_make(&name)).await.cloned()
    }
}

/// The name's changing part: everything that decides what comes out.
fn key(base: &Image, install: &Install) -> Result<String, RuntimeError> {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(base.id.as_bytes());
    part(layout::VERSION.as_bytes());
    part(SCRIPT.as_bytes());
    part(install.content.as_bytes());
    part(install.script.as_deref().unwrap_or_default().as_bytes());
    // With their counts, so that no list can be taken for the beginning of the next.
    part(&(install.env.len() as u64).to_le_bytes());
    for (name, value) in &install.env {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    let words = install.probe.as_ref().map_or(0, |probe| probe.len() as u64 + 1);
    part(&words.to_le_bytes());
    for word in install.probe.iter().flatten() {
        part(word.as_bytes());
    }
    if let Some(program) = &install.program {
        part(digest(program)?.as_bytes());
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

fn digest(program: &Path) -> Result<blake3::Hash, RuntimeError> {
    let read = || -> std::io::Result<blake3::Hash> {
        let mut file = std::fs::File::open(program)?;
        let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finalize()),
                count => hasher.update(&buffer[..count]),
            };
        }
    };
    read().map_err(|source| RuntimeError::File { action: "read", path: program.to_owned(), source })
}

/// One image to be made.
struct Job<'a> {
    client: &'a Docker,
    clock: &'a dyn Clock,
    request: &'a PrepareRequest,
    install: &'a Install,
    base: &'a Image,
    progress: &'a Progress<'a>,
}

impl Job<'_> {
    async fn find_or_make(&self, name: &str) -> Result<PreparedImage, RuntimeError> {
        let (image, reused) = match image::inspect(self.client, name).await? {
            Some(image) => (image, true),
            None => (self.make(name).await?, false),
        };
        Ok(PreparedImage {
            image: name.to_owned(),
            base: self.base.digest.clone(),
            version: image.labels.get(labels::VERSION).filter(|version| !version.is_empty()).cloned(),
            prepared: Some(image.id),
            reused,
        })
    }

    async fn make(&self, name: &str) -> Result<Image, RuntimeError> {
        (self.progress)("is installed into the image, once");
        let installed = self.install().await?;
        let named = self.probe_and_name(&installed, name).await;
        if named.is_err() {
            self.forget(&installed).await;
        }
        named?;
        let made = image::inspect(self.client, name).await?;
        made.ok_or_else(|| RuntimeError::Lost(format!("the image `{name}` is gone as soon as it was made")))
    }

    /// Installs, and keeps what came out as an image without a name.
    async fn install(&self) -> Result<String, RuntimeError> {
        let install = self.install;
        let seconds = install.timeout.saturating_add(SLACK).as_secs().to_string();
        let script = install.script.clone().unwrap_or_else(|| ":".to_owned());
        let mut words = vec!["-c".to_owned(), SCRIPT.to_owned(), "refrain-installer".to_owned(), seconds, script];
        words.extend(self.variables().map(|(name, value)| format!("{name}={value}")));
        let body = ContainerCreateBody {
            image: Some(self.base.id.clone()),
            user: Some("0:0".to_owned()),
            entrypoint: Some(vec!["sh".to_owned()]),
            cmd: Some(words),
            working_dir: Some("/".to_owned()),
            host_config: Some(HostConfig { init: Some(true), ..HostConfig::default() }),
            ..ContainerCreateBody::default()
        };
        let work = once::create(self.client, body).await?;
        let kept = self.install_in(&work).await;
        work.remove().await;
        kept
    }

    fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let folder = self.install.folder.as_ref().map(|_| ("REFRAIN_HARNESS_DIR".to_owned(), FOLDER.to_owned()));
        self.install.env.iter().cloned().chain(folder)
    }

    async fn install_in(&self, work: &Work<'_>) -> Result<String, RuntimeError> {
        let install = self.install;
        let sent = async {
            if let Some(program) = &install.program {
                archive::send_file(self.client, &work.id, program, PROGRAM).await?;
            }
            if let Some(folder) = &install.folder {
                archive::send_folder(self.client, &work.id, folder, FOLDER).await?;
            }
            Ok::<_, RuntimeError>(())
        };
        tokio::select! {
            sent = sent => sent?,
            () = self.request.stop.cancelled() => return Err(RuntimeError::Stopped),
        }
        let bounds = Bounds { clock: self.clock, timeout: install.timeout, stop: &self.request.stop };
        let ended = work.run(&bounds, self.progress).await?;
        match ended.code {
            Some(0) => work.commit(None, self.labels("")).await,
            code => Err(self.not_installed(code, &ended)),
        }
    }

    fn not_installed(&self, code: Option<i64>, ended: &Ended) -> RuntimeError {
        let output = String::from_utf8_lossy(&ended.output);
        let network = {
            let lower = output.to_lowercase();
            NETWORK.iter().any(|words| lower.contains(words))
        };
        let name = &self.request.name;
        let (how, fault, hint) = match code {
            None => (
                format!("took longer than {} s", self.install.timeout.as_secs()),
                InstallFault::Machine,
                "raise `limits.setup_timeout` in the run file (and `timeout` of the harness's `[install]`, if it has one)",
            ),
            Some(code) if code == TEMPORARY || network => (
                format!("ended with exit code {code}, for lack of a network as it seems"),
                InstallFault::Machine,
                "see that containers reach the network (a proxy, DNS), or install the harness into an image beforehand",
            ),
            Some(code) => (
                format!("ended with exit code {code}"),
                InstallFault::Installer,
                "see that the image has what the installer needs, or use an image that holds the harness",
            ),
        };
        let image = self.request.image.as_deref().unwrap_or_default();
        let message = format!("installing harness `{name}` into `{image}` {how}{}", last_lines(&output, LAST_LINES));
        RuntimeError::Install { message, hint: hint.to_owned(), fault }
    }

    /// Asks the program for its version, as agents will run it, and names the image if it answers.
    async fn probe_and_name(&self, installed: &str, name: &str) -> Result<(), RuntimeError> {
        let version = match &self.install.probe {
            Some(argv) => self.probe(installed, argv).await?,
            None => String::new(),
        };
        let body = ContainerCreateBody {
            image: Some(installed.to_owned()),
            entrypoint: Some(vec!["sh".to_owned()]),
            ..ContainerCreateBody::default()
        };
        let work = once::create(self.client, body).await?;
        let named = work.commit(Some(name), self.labels(&version)).await;
        work.remove().await;
        named.map(|_| ())
    }

    async fn probe(&self, installed: &str, argv: &[String]) -> Result<String, RuntimeError> {
        let words = ["-c", "exec \"$@\"", "refrain-probe"].map(str::to_owned);
        let home = [format!("HOME={}", layout::HOME), format!("TMPDIR={}", layout::TMP), "LANG=C.UTF-8".to_owned()];
        let body = ContainerCreateBody {
            image: Some(installed.to_owned()),
            user: Some(format!("{0}:{0}", layout::AGENT)),
            env: Some(home.to_vec()),
            entrypoint: Some(vec!["sh".to_owned()]),
            cmd: Some(words.iter().chain(argv).cloned().collect()),
            working_dir: Some(layout::WORKSPACE.to_owned()),
            // A version is told without a network.
            host_config: Some(container::limits(&self.request.container, "none".to_owned())),
            volumes: container::volumes(&self.request.container),
            ..ContainerCreateBody::default()
        };
        let work = once::create(self.client, body).await?;
        let timeout = self.install.timeout.min(PROBE_TIMEOUT);
        let ended = work.run(&Bounds { clock: self.clock, timeout, stop: &self.request.stop }, &|_| {}).await;
        work.remove().await;
        let ended = ended?;
        if ended.code != Some(0) {
            let how = ended.code.map_or_else(
                || format!("took longer than {} s", timeout.as_secs()),
                |code| format!("ended with exit code {code}"),
            );
            let (name, shown) = (&self.request.name, argv.join(" "));
            let output = String::from_utf8_lossy(&ended.output);
            let message = format!(
                "harness `{name}` was installed, but its probe `{shown}` {how}{}",
                last_lines(&output, LAST_LINES)
            );
            let hint =
                "agents run as another user than root: the program must be on their PATH (/usr/local/bin), readable \
                        for all, and fit the image's libc"
                    .to_owned();
            return Err(RuntimeError::Install { message, hint, fault: InstallFault::Installer });
        }
        let text = String::from_utf8_lossy(&ended.stdout);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Ok(crate::redact::printable(line))
    }

    fn labels(&self, version: &str) -> HashMap<String, String> {
        let pairs = [
            (labels::LAYER, layout::VERSION),
            (labels::BASE, self.base.digest.as_str()),
            (labels::VERSION, version),
            ("refrain.harness", self.request.name.as_str()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Removes an image that turned out to be of no use.
    async fn forget(&self, id: &str) {
        let options: RemoveImageOptions = RemoveImageOptionsBuilder::new().force(true).build();
        if let Err(error) = self.client.remove_image(id, Some(options), None).await {
            let error = failed("remove an image", &error);
            tracing::warn!(image = id, %error, "an image was not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_changes_with_everything_that_goes_in() {
        let base = Image { id: "a".to_owned(), digest: "d".to_owned(), path: None, labels: HashMap::new() };
        let install = Install {
            content: "c".to_owned(),
            script: Some("s".to_owned()),
            env: vec![("V".to_owned(), "1".to_owned())],
            folder: None,
            program: None,
            probe: None,
            timeout: Duration::from_secs(1),
        };
        let mut keys = vec![key(&base, &install).expect("a key")];
        let with = |change: fn(&mut Install)| {
            let mut other = install.clone();
            change(&mut other);
            key(&base, &other).expect("a key")
        };
        assert_eq!(with(|install| install.timeout = Duration::from_secs(2)), keys[0]);
        keys.push(with(|install| install.content.push('x')));
        keys.push(with(|install| install.script = None));
        keys.push(with(|install| install.env[0].1.push('x')));
        keys.push(with(|install| install.probe = Some(vec!["p".to_owned()])));
        // The same words, in the one list and in the other.
        keys.push(with(|install| {
            (install.env, install.probe) = (Vec::new(), Some(vec!["V".to_owned(), "1".to_owned()]));
        }));
        keys.push(with(|install| install.program = Some("/proc/self/exe".into())));
        keys.push(key(&Image { id: "b".to_owned(), ..base.clone() }, &install).expect("a key"));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
