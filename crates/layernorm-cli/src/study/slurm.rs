//! `layernorm study --engine slurm`: an array job with one shard per task, and a job that merges them.
//!
//! ```text
//! OUT/shards/<index>/   the folder of a shard
//! OUT/slurm/            the scripts and the output of the jobs
//! OUT/runs, report.html what the merge job leaves
//! ```
//!
//! The same command again submits the shards that are not complete. Nothing here schedules: Slurm does.

use super::{Args, again, finished_of};
use crate::failure::Failure;
use crate::show;
use layernorm_lab::data::Dataset;
use layernorm_lab::session::{Options, Outcome, Wanted};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The indices of an array job, such as `0-63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    first: usize,
    last: usize,
}

/// Slurm's own limit is lower (`MaxArraySize`).
const MAX_INDEX: usize = 4_000_000;

impl Default for Array {
    fn default() -> Array {
        Array { first: 0, last: 7 }
    }
}

impl FromStr for Array {
    type Err = String;

    fn from_str(text: &str) -> Result<Array, String> {
        let bounds = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match bounds {
            Some((first, last)) if first <= last && last <= MAX_INDEX => Ok(Array { first, last }),
            _ => Err(format!("expected FIRST-LAST with FIRST ≤ LAST ≤ {MAX_INDEX}, such as 0-63")),
        }
    }
}

impl Array {
    fn indices(self) -> impl Iterator<Item = usize> {
        self.first..=self.last
    }

    /// Number of shards.
    fn count(self) -> NonZeroUsize {
        NonZeroUsize::MIN.saturating_add(self.last - self.first)
    }
}

/// How often the jobs are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a finished merge job may take to appear on a network file system.
const PATIENCE: Duration = Duration::from_secs(30);

/// Submits the jobs, waits for them and shows their progress.
pub fn run(args: &Args, options: &Options, data: &Dataset) -> Result<Outcome, Failure> {
    let out = absolute(&args.out)?;
    let array = args.array.unwrap_or_default();
    let jobs = Jobs { array, out: &out, extra: extra(args.sbatch_args.as_deref()) };
    let mut shards = jobs.shards(options, data);
    look(&mut shards)?;
    let open = open(&shards);
    // The merge job takes the folders of all shards, also of those without runs and of tasks that never began.
    let runs = array.indices().map(|index| jobs.folder(index).join("runs"));
    for folder in runs.chain([out.join("slurm")]) {
        fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    }
    let mut ids = Vec::new();
    if !open.is_empty() {
        let id = jobs.submit_array(&open, &args.study_words())?;
        show::say(&format!(
            "submitted array job {id}: {} of {}",
            open.len(),
            show::count(array.count().get(), "shard")
        ));
        ids.push(id);
    }
    let id = jobs.submit_merge(ids.first().map(String::as_str))?;
    show::say(&format!(
        "submitted merge job {id}; Ctrl-C stops waiting, not the jobs (scancel {})",
        id_list(&ids, &id)
    ));
    ids.push(id);
    jobs.wait(&ids, &mut shards)?;
    jobs.outcome(&Wanted::all(options, data), &mut shards)
}

/// A shard and what its folder was last seen to hold.
struct ShardState {
    index: usize,
    folder: PathBuf,
    wanted: Wanted,
    finished: usize,
}

/// Counts the finished runs of the shards that were not complete before.
fn look(shards: &mut [ShardState]) -> Result<(), Failure> {
    for shard in shards.iter_mut().filter(|shard| shard.finished < shard.wanted.len()) {
        shard.finished = shard.wanted.finished(&shard.folder)?;
    }
    Ok(())
}

/// The indices of the shards with runs that are not finished.
fn open(shards: &[ShardState]) -> Vec<usize> {
    shards.iter().filter(|shard| shard.finished < shard.wanted.len()).map(|shard| shard.index).collect()
}

/// All jobs, separated by blanks.
fn id_list(ids: &[String], last: &str) -> String {
    ids.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join(" ")
}

/// The user's arguments for sbatch.
fn extra(text: Option<&str>) -> Vec<String> {
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("{}: {error}", path.display()))
}

struct Jobs<'a> {
    array: Array,
    out: &'a Path,
    extra: Vec<String>,
}

impl Jobs<'_> {
    fn folder(&self, index: usize) -> PathBuf {
        self.out.join("shards").join(index.to_string())
    }

    /// The shards with their runs, planned once.
    fn shards(&self, options: &Options, data: &Dataset) -> Vec<ShardState> {
        let wanted = Wanted::of_shards(options, data, self.array.count());
        let state = |(index, wanted)| ShardState { index, folder: self.folder(index), wanted, finished: 0 };
        self.array.indices().zip(wanted).map(state).collect()
    }

    /// Writes a script and submits it; returns the job's id.
    fn submit(&self, name: &str, arguments: &[String], body: &str) -> Result<String, Failure> {
        let path = self.out.join("slurm").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).map_err(|error| cannot(&path, &error))?;
        let mut command = Command::new("sbatch");
        command.arg("--parsable").args(arguments).args(&self.extra).arg(&path);
        let output = command.output().map_err(|error| {
            Failure::bad_input(format!("sbatch: {error}; --engine slurm must run where Slurm's commands are installed"))
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::bad_input(format!("sbatch refused {}: {}", path.display(), said.trim())));
        }
        // `id`, or `id;cluster`.
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.trim().split(';').next().unwrap_or_default().to_owned())
    }

    fn submit_array(&self, open: &[usize], study: &[String]) -> Result<String, Failure> {
        let Array { first, last } = self.array;
        let list = open.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let log = self.out.join("slurm").join("shard-%a.log");
        let arguments =
            [format!("--array={list}"), "--job-name=layernorm-study".to_owned(), format!("--output={}", log.display())];
        let shards = again::join(&[self.out.join("shards").display().to_string()]);
        let body = format!(
            "exec {} --resume --jobs \"${{SLURM_CPUS_PER_TASK:-1}}\" \\\n  --shard \"$((SLURM_ARRAY_TASK_ID - {first} + 1))/{}\" \
             --out {shards}/\"$SLURM_ARRAY_TASK_ID\"",
            again::join(study),
            last - first + 1
        );
        self.submit("array.sh", &arguments, &body)
    }

    /// The merge job, after the array job: also if tasks failed, so that what is there can be seen.
    fn submit_merge(&self, after: Option<&str>) -> Result<String, Failure> {
        let log = self.out.join("slurm").join("merge.log");
        let mut arguments = vec!["--job-name=layernorm-merge".to_owned(), format!("--output={}", log.display())];
        arguments.extend(after.map(|id| format!("--dependency=afterany:{id}")));
        let folders: Vec<String> = self.array.indices().map(|index| self.folder(index).display().to_string()).collect();
        let mut words = vec![program()?, "study".to_owned(), "merge".to_owned(), self.out.display().to_string()];
        words.extend(folders);
        self.submit("merge.sh", &arguments, &format!("exec {}", again::join(&words)))
    }

    /// Waits until no job is left in the queue.
    fn wait(&self, ids: &[String], shards: &mut [ShardState]) -> Result<(), Failure> {
        let list = ids.join(",");
        let mut shown = None;
        loop {
            let output = Command::new("squeue").args(["--noheader", "--format=%T", "--jobs", &list]).output();
            let output = output.map_err(|error| Failure::bad_input(format!("squeue: {error}")))?;
            // Slurm forgets finished jobs after a while, and then calls their ids invalid.
            let waiting = output.status.success() && !output.stdout.trim_ascii().is_empty();
            look(shards)?;
            let finished: usize = shards.iter().map(|shard| shard.finished).sum();
            if shown != Some(finished) {
                let total = shards.iter().map(|shard| shard.wanted.len()).sum();
                show::say(&finished_of(finished, total));
                shown = Some(finished);
            }
            if !waiting {
                return Ok(());
            }
            sleep(PAUSE);
        }
    }

    /// What the jobs left.
    fn outcome(&self, all: &Wanted, shards: &mut [ShardState]) -> Result<Outcome, Failure> {
        let (start, total) = (Instant::now(), all.len());
        loop {
            let finished = all.finished(self.out)?;
            if finished == total {
                return Ok(Outcome { finished, total, failures: Vec::new(), stopped: false });
            }
            look(shards)?;
            if start.elapsed() > PATIENCE || !open(shards).is_empty() {
                return Err(Failure::failed(format!(
                    "{}; {} has the output of the jobs. To submit the rest:\n  {}",
                    finished_of(finished, total),
                    self.out.join("slurm").display(),
                    again::command()
                )));
            }
            sleep(PAUSE);
        }
    }
}

/// The path of this program.
fn program() -> Result<String, Failure> {
    let path =
        std::env::current_exe().map_err(|error| Failure::bad_input(format!("cannot find this program: {error}")))?;
    Ok(path.display().to_string())
}

impl Args {
    /// The command of a shard, without what differs from shard to shard.
    fn study_words(&self) -> Vec<String> {
        let mut words = vec![program().unwrap_or_else(|_| "layernorm".to_owned()), "study".to_owned()];
        words.extend(self.names.iter().cloned());
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| [name.to_owned(), value]).into_iter().flatten());
        };
        option(
            "--data",
            self.data.as_ref().map(|data| absolute(data).unwrap_or_else(|_| data.clone()).display().to_string()),
        );
        option(
            "--tensorboard",
            self.tensorboard.as_ref().map(|path| absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()),
        );
        option("--seeds", self.seeds.map(|seeds| seeds.to_string()));
        option("--epochs", self.epochs.map(|epochs| epochs.to_string()));
        option("--batch-size", self.batch_size.map(|size| size.to_string()));
        option("--lr", self.lr.map(|rate| rate.to_string()));
        words.extend(self.full.then(|| "--full".to_owned()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_ranges() {
        let array: Array = "3-10".parse().unwrap();
        assert_eq!((array.indices().count(), array.count().get()), (8, 8));
        assert_eq!("0-7".parse(), Ok(Array::default()));
        for text in ["", "5", "7-3", "a-b", "1-2,4", "0-4000001", "-1-3"] {
            assert!(text.parse::<Array>().unwrap_err().contains("expected FIRST-LAST"), "{text}");
        }
    }
}
