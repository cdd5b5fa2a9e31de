//! When a cut is made, and what a cut is: one input position for all streams.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Router;
use crate::error::{Error, Result};
use crate::load::ack::State;
use crate::load::batch_file::BatchFile;
use crate::load::committer::{Cut, ToCommitter};
use crate::load::encoder::{StateCount, ToEncoder, Write};
use crate::load::stream::Stream;
use crate::singer::StateMessage;

/// How long a due cut waits for the next STATE before it goes back to the newest one, which may mean to rewrite a file.
const STATE_GRACE: Duration = Duration::from_secs(10);

/// How often a cut that waits for the one before looks whether a stage failed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Router {
    pub(super) fn state(&mut self, message: &StateMessage<'_>) -> Result<()> {
        self.states += 1;
        for stream in &mut self.streams {
            stream.is_unended = false;
        }
        self.newest_state_line = self.line.0;
        let state = State::new(self.line.0, message.value);
        let Some(dirty_since) = self.dirty_since else {
            self.cut_line = self.line.0;
            if self.plan.cuts.at_end || self.is_state_held() {
                self.newest_state = Some(state.after(self.newest_state.take()));
            } else {
                self.tell_state(state);
            }
            return Ok(());
        };
        self.newest_state = Some(state.after(self.newest_state.take()));
        self.is_dirty_before_state = true;
        self.dirty_after_state_since = None;
        if self.plan.cuts.at_end {
            return Ok(());
        }
        let is_long_enough = self.stages.seam.elapsed() >= dirty_since + self.plan.cuts.batch_wait;
        let has_enough_rows = |stream: &Stream| stream.plan.batch_size_rows.is_some_and(|rows| stream.rows_since_cut >= rows);
        if is_long_enough || self.streams.iter().any(has_enough_rows) {
            self.cut(None, false)?;
            self.follow_tables()?;
        }
        Ok(())
    }

    /// Whether a STATE waits for the end of the load: rows of an overwritten stream came before it, and are committed no sooner.
    fn is_state_held(&self) -> bool {
        self.streams.iter().any(Stream::is_overwrite)
    }

    /// Tells a STATE before which everything is in a cut already. While the committer has not come to the one told before, the newer
    /// one takes its place, so that a tap of nothing but STATE messages fills no queue.
    fn tell_state(&mut self, state: State) {
        if let Some(told) = &self.told_state {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_some() {
                *told = Some(state.after(told.take()));
                return;
            }
        }
        let told = Arc::new(Mutex::new(Some(state)));
        self.told_state = Some(told.clone());
        self.tell(ToCommitter::State(told));
    }

    /// Looks after what time alone brings: a cut that is due, metrics.
    pub(in crate::load) fn tick(&mut self) -> Result<()> {
        self.report_rows();
        self.stages.report.tick();
        if self.plan.cuts.at_end {
            return Ok(());
        }
        let now = self.stages.seam.elapsed();
        let cuts = &self.plan.cuts;
        let wait = cuts.batch_wait + STATE_GRACE.min(cuts.batch_wait / 10);
        if self.is_dirty_before_state && self.dirty_since.is_some_and(|since| now >= since + wait) {
            self.cut(Some(self.states), false)?;
            return self.follow_tables();
        }
        if let (Some(limit), Some(since)) = (cuts.without_state, self.dirty_after_state_since)
            && now >= since + limit
        {
            self.cut(None, true)?;
            return self.follow_tables();
        }
        Ok(())
    }

    /// Ends a good input: all is committed.
    ///
    /// **Errors**: `Input` when an overwritten stream is not whole; what lies before the newest STATE is then committed to the others.
    pub(in crate::load) fn finish(&mut self) -> Result<()> {
        self.report_rows();
        let is_cut_off = |stream: &&Stream| stream.is_overwrite() && stream.is_unended && !stream.plan.overwrite_at_end;
        if self.states > 0
            && let Some(stream) = self.streams.iter().find(is_cut_off)
        {
            let error = Error::input("no STATE or ACTIVATE_VERSION followed the last record, so the stream may be incomplete")
                .in_stream(stream.name.clone())
                .hint("run the tap again; or set `overwrite_at_end = true` for a tap that ends a stream without either");
            self.finish_badly()?;
            return Err(error);
        }
        if self.dirty_since.is_some() || self.is_state_held() {
            self.make_cut(None, false, true)?;
        } else if let Some(state) = self.newest_state.take() {
            self.tell_state(state);
        }
        for stream in &self.streams {
            if stream.builder.rows() > 0 {
                let what = format!("{} records without any field: there is no column to store them in", stream.builder.rows());
                self.stages.report.warn(Some(&stream.name), &what);
            }
        }
        let names: Vec<&str> = self.streams.iter().map(|stream| stream.name.as_str()).collect();
        for pattern in self.plan.streams.unmatched(&names) {
            self.stages.report.warn(None, &format!("the entry `{pattern}` of `streams` matched no stream of the input"));
        }
        Ok(())
    }

    /// Ends a bad input: all up to the newest STATE is committed, later rows are left out.
    pub(in crate::load) fn finish_badly(&mut self) -> Result<()> {
        self.report_rows();
        if self.is_dirty_before_state && !self.plan.cuts.at_end {
            self.cut(Some(self.states), false)?;
        }
        Ok(())
    }

    /// Commits all rows before STATE number `before` (`None`: all rows), and then lets the newest STATE out. Overwritten streams go on.
    pub(super) fn cut(&mut self, before: Option<StateCount>, is_without_state: bool) -> Result<()> {
        self.make_cut(before, is_without_state, false)
    }

    fn make_cut(&mut self, before: Option<StateCount>, is_without_state: bool, is_end: bool) -> Result<()> {
        let is_state_held = !is_end && self.is_state_held();
        for index in 0..self.streams.len() {
            self.flush(index)?;
        }
        for encoder in &self.stages.encoders {
            drop(encoder.send(ToEncoder::Barrier));
        }
        let mut streams = Vec::new();
        for stream in self.streams.iter_mut().filter(|stream| is_end || !stream.is_overwrite()) {
            streams.extend(stream.cut(before, &self.stages.run_id)?);
            stream.rows_since_cut = 0;
        }
        let line = match before {
            Some(_) => self.newest_state_line,
            None => self.line.0,
        };
        let is_covered = |states: StateCount| before.is_none_or(|before| states < before);
        let streams_of_cut = &self.streams;
        let is_in_cut = |(states, stream, _): &(StateCount, usize, BatchFile)| {
            is_covered(*states) && (is_end || !streams_of_cut[*stream].is_overwrite())
        };
        let (covered, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.batch_files).into_iter().partition(is_in_cut);
        self.batch_files = kept;
        let cut = Cut {
            before,
            streams,
            state: if is_state_held { None } else { self.newest_state.take() },
            lines: (self.cut_line + 1, line),
            is_without_state: is_without_state || is_state_held,
            batch_files: covered.into_iter().map(|(_, _, file)| file).collect(),
        };
        self.cut_line = line;
        self.is_dirty_before_state = false;
        if before.is_some() {
            self.dirty_since = self.dirty_after_state_since;
        } else {
            self.dirty_since = None;
            self.dirty_after_state_since = None;
        }
        self.told_state = None;
        self.tell(ToCommitter::Cut(cut));
        // One cut may be committed while the next stretch is read; a second one waits here.
        loop {
            let acquired = self.stages.runtime.block_on(async {
                tokio::select! {
                    permit = self.stages.cuts_allowed.acquire() => Some(permit),
                    () = self.stages.seam.sleep(LOOK_AGAIN) => None,
                }
            });
            match acquired {
                Some(Ok(permit)) => {
                    permit.forget();
                    return Ok(());
                }
                Some(Err(error)) => return Err(Error::internal("the committer is gone").source(error)),
                // An encoder that is gone passes no barrier.
                None if self.stages.gauge.has_failed() => return Err(Error::internal("a stage failed")),
                None => {}
            }
        }
    }

    /// Follows what other writers did to the tables, as far as the committer met it. Not after the last cut: what is committed is.
    fn follow_tables(&mut self) -> Result<()> {
        for index in 0..self.streams.len() {
            let states = self.states;
            let followed = self.streams[index].follow_table(states).map_err(|error| self.name_stream(index, error))?;
            if let Some(write) = followed {
                self.send(index, write)?;
            }
        }
        Ok(())
    }

    /// Passes the open batch of a stream on.
    pub(super) fn flush(&mut self, index: usize) -> Result<()> {
        // A failure here is one of a stage: the rows are out of the batch, and no STATE may leave as if they were stored.
        match self.streams[index].take_batch().map_err(|error| self.stages.gauge.broken(error))? {
            Some(write) => self.send(index, write),
            None => Ok(()),
        }
    }

    pub(super) fn send(&mut self, index: usize, write: Write) -> Result<()> {
        let limit = usize::try_from(self.plan.memory_limit_bytes / 8).unwrap_or(usize::MAX).min(3 * super::BATCH_BYTES);
        self.stages.gauge.enqueue(write.bytes, limit);
        let encoder = &self.stages.encoders[index % self.stages.encoders.len()];
        encoder.send(ToEncoder::Write(write)).map_err(|_| Error::internal("an encoder is gone"))
    }

    /// Flushes the largest streams until all of them together are well below the limit.
    pub(super) fn relieve_memory(&mut self) -> Result<()> {
        let limit = usize::try_from(self.plan.memory_limit_bytes / 2).unwrap_or(usize::MAX);
        let held = |streams: &[Stream]| streams.iter().map(|stream| stream.builder.bytes()).sum::<usize>();
        let elsewhere = self.stages.gauge.queued() + self.stages.gauge.encoding();
        if held(&self.streams) + elsewhere <= limit {
            return Ok(());
        }
        // Streams that are done, or wait, keep room for rows: that goes first, and costs nothing.
        for stream in &mut self.streams {
            stream.release_idle();
        }
        if held(&self.streams) + elsewhere <= limit {
            return Ok(());
        }
        let mut largest: Vec<(usize, usize)> = self.streams.iter().map(|stream| (stream.held_bytes(), stream.index)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let mut freed = 0;
        for (bytes, index) in largest {
            if bytes == 0 || freed >= limit / 2 {
                break;
            }
            freed += bytes;
            self.flush(index)?;
            let encoder = &self.stages.encoders[index % self.stages.encoders.len()];
            drop(encoder.send(ToEncoder::Close(index)));
        }
        Ok(())
    }
}
