//! What is written after a commit to make the table faster to read: checkpoint, hint at it, checksum.
//!
//! All of it is derived from the log, so nothing here can fail a load; and nothing here may mislead a reader either: a checkpoint
//! appears whole and durable or not at all, the hint never goes back to an older one, and a checksum is written only where it is
//! exact.

use std::sync::Arc;

use delta_kernel::Snapshot;
use delta_kernel::snapshot::CheckpointWriteResult;
use object_store::ObjectStoreExt;
use serde_json::Value;

use crate::seam::fail_point;
use crate::{Error, Result};

use super::held_store::{Held, HeldStore};
use super::table::Place;
use super::{Version, log_name, open};

/// Writes checkpoint, hint and checksum of `version`; returns warnings.
pub(super) async fn write(place: &Place, version: Version) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Err(error) = write_all(place, version, &mut warnings).await {
        warnings.push(warning(place, version, "checkpoint", &error));
    }
    warnings
}

fn warning(place: &Place, version: Version, what: &str, error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {}", first_line(&cause.to_string()))).unwrap_or_default();
    format!("{what} of version {version} of table {} was not written: {}{cause}", place.url(), error.message())
}

async fn write_all(place: &Place, version: Version, warnings: &mut Vec<String>) -> Result<()> {
    point("checkpoint:before")?;
    let (store, url) = place.store.kernel_access(&place.path)?;
    // The client of local disks makes a file visible before it is durable; there a checkpoint gets its name only afterwards.
    let staged = (url.scheme() == "file").then(|| format!(".{version:020}.checkpoint.{}.tmp", place.seam.uuid()));
    let held = Arc::new(HeldStore::new(store, staged.clone()));
    let result = write_checkpoint(place, version, &held, url.as_str()).await;
    if let Some(name) = &staged
        && result.is_err()
    {
        // What is left of a failed attempt; there may be nothing.
        let _ = place.store.delete(&format!("{}{name}", log_name::folder(&place.path))).await;
    }
    let snapshot = result?;
    point("checkpoint:after")?;
    if let Err(error) = write_hint(place, version, held.take_held()).await {
        warnings.push(warning(place, version, "_last_checkpoint", &error));
    }
    if let Err(error) = write_checksum(place, version, &held, snapshot).await {
        warnings.push(warning(place, version, ".crc", &error));
    }
    Ok(())
}

fn point(name: &str) -> Result<()> {
    if fail_point(name) { Err(Error::unavailable(format!("a test asked for a failure at {name}"))) } else { Ok(()) }
}

async fn write_checkpoint(place: &Place, version: Version, held: &Arc<HeldStore>, url: &str) -> Result<Arc<Snapshot>> {
    let (store, url) = (held.clone(), url.to_owned());
    let written = open::blocking(move || {
        let engine = open::engine(store);
        // No checksum of an earlier version is followed: the one that is written below then counts the files of this checkpoint.
        let snapshot = Snapshot::builder_for(&url).at_version(version).build(&*engine)?;
        snapshot.checkpoint(&*engine, None)
    })
    .await?;
    let (result, snapshot) = written.map_err(|error| kernel_error("the checkpoint was refused", &error))?;
    point("checkpoint:before_rename")?;
    if let (CheckpointWriteResult::Written, Some((staged, path))) = (&result, held.staged()) {
        let folder = log_name::folder(&place.path);
        let own = |path: &object_store::path::Path| format!("{folder}{}", path.filename().unwrap_or_default());
        place.store.make_durable(&own(&staged)).await?;
        match held.inner().rename_if_not_exists(&staged, &path).await {
            Ok(()) => {}
            // Another writer's checkpoint of the same version says the same.
            Err(object_store::Error::AlreadyExists { .. }) => place.store.delete(&own(&staged)).await?,
            Err(error) => return Err(Error::unavailable("the checkpoint could not be named").source(error)),
        }
        held.end_staging();
        place.store.make_durable(&own(&path)).await?;
    }
    Ok(snapshot)
}

/// Writes the kernel's hint, unless there is one at the same or a newer version.
async fn write_hint(place: &Place, version: Version, held: Vec<Held>) -> Result<()> {
    let Some(hint) = held.into_iter().find(|held| held.name == "_last_checkpoint") else { return Ok(()) };
    point("hint:before")?;
    let path = log_name::last_checkpoint(&place.path);
    if let Some(existing) = place.store.get(&path).await? {
        let existing: Option<Value> = serde_json::from_slice(&existing).ok();
        if existing.and_then(|hint| hint.get("version")?.as_u64()).is_some_and(|existing| existing >= version) {
            return Ok(());
        }
    }
    if place.store.url().scheme() == "file" {
        // Hadoop keeps a checksum beside each file of a local disk, and refuses a file that does not match it: the one of the hint
        // that is replaced has to go first. Source: org.apache.hadoop.fs.ChecksumFileSystem.
        place.store.delete(&format!("{}._last_checkpoint.crc", log_name::folder(&place.path))).await?;
    }
    place.store.put(&path, hint.bytes).await?;
    point("hint:after")
}

/// Writes the checksum that the kernel counts from the checkpoint of the same version, which is exact whatever the commits were:
/// counted from commits, a path that is added again would count twice.
async fn write_checksum(place: &Place, version: Version, held: &Arc<HeldStore>, snapshot: Arc<Snapshot>) -> Result<()> {
    point("crc:before")?;
    let store = held.clone();
    let counted = open::blocking(move || snapshot.write_checksum(&*open::engine(store)).map(drop)).await?;
    counted.map_err(|error| kernel_error("the checksum was refused", &error))?;
    let name = format!("{version:020}.crc");
    let Some(checksum) = held.take_held().into_iter().find(|held| held.name == name) else { return Ok(()) };
    match place.store.put_once(&log_name::checksum(&place.path, version), checksum.bytes).await {
        crate::store::PutTry::Created | crate::store::PutTry::Exists => point("crc:after"),
        crate::store::PutTry::Refused(error) | crate::store::PutTry::Unclear(error) => Err(error),
    }
}

fn kernel_error(message: &str, error: &delta_kernel::Error) -> Error {
    Error::table(message).source(open::first_line(error))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
