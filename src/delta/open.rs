//! Reading the newest version of a table: protocol and metaData, through the kernel's log replay.

use std::sync::Arc;

use delta_kernel::table_features::TableFeature;
use delta_kernel::{Engine, Snapshot};
use delta_kernel_default_engine::DefaultEngineBuilder;
use delta_kernel_default_engine::executor::tokio::{TokioBackgroundExecutor, TokioMultiThreadExecutor};
use futures::future::join_all;
use object_store::ObjectStore;
use serde_json::{Map, Value};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{Error, Result};

use super::Version;
use super::action::{CommitHead, Metadata, Protocol};
use super::feature;
use super::log_name::{self, LogFile};
use super::row_tracking;
use super::table::{Place, State};

/// Commits that are read at the same time when one of them is looked for.
const READ_AHEAD: u64 = 16;

/// How often an unreadable log is read. A listing is no snapshot: a table that is just being made, or a log that is just being
/// cleaned, may show a gap for a moment.
const TRIES: u32 = 3;

/// Reads the newest version; `None` when there is no table. The write rules of the table are checked.
pub(super) async fn load(place: &Place) -> Result<Option<State>> {
    let mut tries = 0;
    let read = loop {
        tries += 1;
        let (store, url) = place.store.kernel_access(&place.path)?;
        match blocking(move || read_snapshot(store, url.as_str())).await? {
            Ok(read) => break read,
            Err(error) => match explain(place, &error).await? {
                Refusal::NoTable => return Ok(None),
                Refusal::Named(named) => return Err(named),
                Refusal::Unreadable(unreadable) if tries == TRIES => return Err(unreadable),
                Refusal::Unreadable(_) => {}
            },
        }
    };
    let version = read.version;
    let state = parse(read).map_err(|error| error.at_version(version))?;
    feature::check_writable(&state.protocol, &state.metadata).map_err(|error| error.at_version(version))?;
    Ok(Some(state))
}

/// What the kernel knows.
struct Read {
    version: Version,
    protocol: Value,
    metadata: Value,
    checkpoint: Option<Version>,
    commit_bytes: Option<u64>,
    in_commit_timestamp: Option<i64>,
    /// The configuration of the domain `delta.rowTracking`, where the table tracks rows.
    row_tracking: Option<String>,
}

fn read_snapshot(store: Arc<dyn ObjectStore>, url: &str) -> Result<Read, delta_kernel::Error> {
    let engine = engine(store);
    let snapshot = Snapshot::builder_for(url).build(&*engine)?;
    let configuration = snapshot.table_configuration();
    let protocol = serde_json::to_value(configuration.protocol()).map_err(delta_kernel::Error::MalformedJson)?;
    let metadata = serde_json::to_value(configuration.metadata()).map_err(delta_kernel::Error::MalformedJson)?;
    let segment = snapshot.log_segment();
    let version = snapshot.version();
    let newest = segment.listed.latest_commit_file.as_ref().filter(|file| file.version == version);
    let commit_bytes = newest.map(|file| file.location.size);
    let in_commit_timestamp = snapshot.get_in_commit_timestamp(&*engine)?;
    let is_tracked = configuration.is_feature_supported(&TableFeature::RowTracking);
    let row_tracking = match is_tracked {
        true => snapshot.get_domain_metadata_internal(row_tracking::DOMAIN, &*engine)?,
        false => None,
    };
    let checkpoint = segment.checkpoint_version;
    Ok(Read { version, protocol, metadata, checkpoint, commit_bytes, in_commit_timestamp, row_tracking })
}

/// Returns how far the application `app_id` is in `version`, which is known to exist; `None` when it never committed, or when the table
/// has forgotten it.
pub(super) async fn txn_version(place: &Place, version: Version, app_id: &str) -> Result<Option<i64>> {
    let (store, url) = place.store.kernel_access(&place.path)?;
    let app_id = app_id.to_owned();
    let read = move || {
        let engine = engine(store);
        Snapshot::builder_for(url.as_str()).at_version(version).build(&*engine)?.get_app_id_version(&app_id, &*engine)
    };
    blocking(read).await?.map_err(|error| {
        Error::unavailable("the transactions of the table could not be read").source(first_line(&error)).at_version(version)
    })
}

fn parse(read: Read) -> Result<State> {
    let Read { version, protocol, metadata, checkpoint, commit_bytes, in_commit_timestamp, row_tracking } = read;
    let unreadable = |error| Error::internal("the kernel's protocol is not readable").source(error);
    let protocol: Protocol = serde_json::from_value(protocol).map_err(unreadable)?;
    let Value::Object(mut metadata) = metadata else {
        return Err(Error::internal("the kernel's metaData is not an object"));
    };
    metadata.retain(|_, value| !value.is_null());
    sort_keys(&mut metadata);
    let metadata_since = Some(checkpoint.map_or(0, |checkpoint| checkpoint + 1));
    Ok(State {
        version,
        protocol,
        metadata: Metadata::parse(metadata)?,
        metadata_since,
        commit_bytes,
        in_commit_timestamp,
        row_id_high_water_mark: row_tracking.as_deref().map(row_tracking::parse_mark).transpose()?,
    })
}

/// The kernel holds properties in hash maps; their order should not differ from run to run.
fn sort_keys(metadata: &mut Map<String, Value>) {
    for value in metadata.values_mut().filter_map(Value::as_object_mut) {
        value.sort_keys();
    }
}

/// Returns the kernel's engine on `store`; it runs on the runtime of the caller.
pub(super) fn engine(store: Arc<dyn ObjectStore>) -> Arc<dyn Engine> {
    let builder = DefaultEngineBuilder::new(store);
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            Arc::new(builder.with_task_executor(Arc::new(TokioMultiThreadExecutor::new(handle))).build())
        }
        _ => Arc::new(builder.with_task_executor(Arc::new(TokioBackgroundExecutor::new())).build()),
    }
}

/// Runs `work`, which blocks, away from the threads of async code.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal("reading the log ended early").source(error))
}

/// Why the kernel did not read a table.
enum Refusal {
    /// There is none.
    NoTable,
    /// It has what is not written, named.
    Named(Error),
    /// Its log is broken, or changed while it was read.
    Unreadable(Error),
}

/// Tells a table that does not exist from one that the kernel refuses, and names what it refuses.
async fn explain(place: &Place, refusal: &delta_kernel::Error) -> Result<Refusal> {
    let listed = place.store.list(&log_name::folder(&place.path), None).await?;
    let files: Vec<LogFile> = listed.iter().map(|entry| log_name::parse(&place.path, &entry.path)).collect();
    if files.iter().all(|file| *file == LogFile::Other) {
        return Ok(Refusal::NoTable);
    }
    let version = |file: &LogFile| if let LogFile::Commit(version) = file { Some(*version) } else { None };
    let mut commits: Vec<Version> = files.iter().filter_map(version).collect();
    commits.sort_unstable();
    let complete = |error: Error| {
        let error = error.source(first_line(refusal));
        match commits.last() {
            Some(version) => error.at_version(*version),
            None => error,
        }
    };
    let (protocol, metadata) = read_commits(place, &commits).await?;
    let metadata = match metadata.map(Metadata::parse).transpose() {
        Ok(metadata) => metadata.unwrap_or_default(),
        Err(error) => return Ok(Refusal::Named(complete(error))),
    };
    let named = protocol.and_then(|protocol| feature::check_writable(&protocol, &metadata).err());
    Ok(match named {
        Some(error) => Refusal::Named(complete(error)),
        None => Refusal::Unreadable(complete(Error::table("the log of the table is not readable"))),
    })
}

/// Returns the newest protocol and metaData of `commits` (ascending), as far as there are any.
async fn read_commits(place: &Place, commits: &[Version]) -> Result<(Option<Protocol>, Option<Map<String, Value>>)> {
    let (mut protocol, mut metadata) = (None, None);
    for version in commits.iter().rev() {
        // A commit that is not readable is the kernel's to complain about.
        let bytes = place.store.get(&log_name::commit(&place.path, *version)).await?.unwrap_or_default();
        let head = CommitHead::parse(&bytes).unwrap_or_default();
        protocol = protocol.or(head.protocol);
        metadata = metadata.or(head.metadata);
        if protocol.is_some() && metadata.is_some() {
            break;
        }
    }
    Ok((protocol, metadata))
}

/// Looks the metaData up in the commits, where it stands word for word: the kernel knows only the keys of its own version. What is
/// in a checkpoint alone has no other keys.
pub(super) async fn complete_metadata(place: &Place, state: &mut State) -> Result<()> {
    let Some(oldest) = state.metadata_since.take() else { return Ok(()) };
    let mut next = Some(state.version);
    while let Some(newest) = next.filter(|newest| *newest >= oldest) {
        let last = newest.saturating_sub(READ_AHEAD - 1).max(oldest);
        let reads = (last..=newest).rev().map(|version| {
            let path = log_name::commit(&place.path, version);
            async move { place.store.get(&path).await }
        });
        for read in join_all(reads).await {
            let Some(bytes) = read? else { return Ok(()) };
            if let Some(raw) = CommitHead::parse(&bytes)?.metadata {
                let metadata = Metadata::parse(raw)?;
                if metadata.id == state.metadata.id && metadata.schema == state.metadata.schema {
                    state.metadata = metadata;
                }
                return Ok(());
            }
        }
        next = last.checked_sub(1);
    }
    Ok(())
}

/// An engine's error text may carry a backtrace after its first line.
pub(super) fn first_line(error: &delta_kernel::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
