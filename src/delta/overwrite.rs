//! Overwriting: all files of the version that is followed go, and new ones come, in one commit.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::action::Remove;
use super::live_files::live_files;
use super::plan::{Base, Operation, Planned, Planner, Verdict, Winner};
use super::table::Place;
use super::{AddFile, Version};
use crate::Result;

/// New files in the place of all that the table holds. Whatever others committed goes too: the removes are those of the version that
/// the commit follows.
#[derive(Debug)]
pub(super) struct OverwritePlanner {
    place: Place,
    files: Arc<Vec<AddFile>>,
}

impl OverwritePlanner {
    pub(super) fn new(place: Place, files: Vec<AddFile>) -> Self {
        Self { place, files: Arc::new(files) }
    }
}

#[async_trait]
impl Planner for OverwritePlanner {
    async fn winner(&mut self, _winner: &Winner<'_>) -> Result<Verdict> {
        Ok(Verdict::PlanAgain)
    }

    async fn restart(&mut self, _version: Version) -> Result<()> {
        Ok(())
    }

    async fn plan(&mut self, base: &Base<'_>) -> Result<Planned> {
        let live = match base.version {
            Some(version) => live_files(&self.place, version).await?,
            None => Vec::new(),
        };
        let sum = |of: fn(&AddFile) -> u64| self.files.iter().map(of).sum::<u64>().to_string();
        let metrics = Map::from_iter([
            ("numFiles".to_owned(), Value::String(self.files.len().to_string())),
            ("numOutputRows".to_owned(), Value::String(sum(|file| file.rows))),
            ("numOutputBytes".to_owned(), Value::String(sum(|file| file.size))),
            ("numRemovedFiles".to_owned(), Value::String(live.len().to_string())),
            ("numRemovedBytes".to_owned(), Value::String(live.iter().map(|add| add.size).sum::<u64>().to_string())),
        ]);
        let parameters = Map::from_iter([("mode".to_owned(), json!("Overwrite"))]);
        Ok(Planned {
            operation: Operation { name: "WRITE", parameters, metrics: Some(metrics) },
            files: Arc::clone(&self.files),
            removes: live.iter().map(Remove::of).collect(),
            ..Planned::default()
        })
    }
}
