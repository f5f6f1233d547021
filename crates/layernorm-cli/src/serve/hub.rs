//! What all viewers see: a log of finished runs and findings, and the current state. There is no queue per viewer.
//!
//! ```text
//! n       number of the latest change; grows, never repeats
//! log     key → (n, entry): a run of a folder, or a finding of a folder; a newer entry replaces the older one
//! state   (n, text): progress, counts, the running job; always the latest change
//! ```
//!
//! A viewer is a cursor c, the number of the last message it was given. Its next message has the entries with n > c, or,
//! if there are none, the state with n > c. So the memory depends on the number of runs and findings alone, a slow viewer
//! misses intermediate states but no entry, and one that reconnects continues with the cursor it names.

use super::state::State;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Entries in one message at most.
const BATCH: usize = 200;

/// A run or a finding, in the folder with this number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry {
    Run {
        folder: usize,
        study: String,
        run: String,
        /// False if a finished run is no longer there: its study was started with other settings.
        finished: bool,
    },
    Finding {
        folder: usize,
        study: String,
        id: String,
        claim: String,
        /// `None` if the folder no longer has it.
        verdict: Option<layernorm_lab::report::Verdict>,
        result: String,
    },
}

impl Entry {
    fn key(&self) -> Key {
        match self {
            Entry::Run { folder, run, .. } => {
                Key { folder: *folder, finding: false, names: [run.clone(), String::new()] }
            }
            Entry::Finding { folder, study, id, .. } => {
                Key { folder: *folder, finding: true, names: [study.clone(), id.clone()] }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    folder: usize,
    finding: bool,
    names: [String; 2],
}

/// A message to a viewer, as in an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: u64,
    pub event: &'static str,
    /// One line of JSON.
    pub data: Arc<str>,
}

#[derive(Default)]
struct Inner {
    number: u64,
    log: BTreeMap<u64, Entry>,
    numbers: HashMap<Key, u64>,
    state: (u64, Arc<str>),
}

/// What all viewers see.
pub struct Hub {
    inner: Mutex<Inner>,
    newest: watch::Sender<u64>,
}

impl Hub {
    pub fn new() -> Hub {
        Hub { inner: Mutex::new(Inner { state: (0, "{}".into()), ..Inner::default() }), newest: watch::Sender::new(0) }
    }

    /// Adds entries that differ from those with the same key, and replaces the state; tells all viewers if anything changed.
    pub fn publish(&self, entries: impl IntoIterator<Item = Entry>, state: &State) {
        // A state is numbers and strings, so it always has a text.
        let text: Arc<str> = serde_json::to_string(state).unwrap_or_default().into();
        let mut inner = self.lock();
        let before = inner.number;
        entries.into_iter().for_each(|entry| inner.add(entry));
        if inner.number > before || inner.state.1 != text {
            inner.number += 1;
            inner.state = (inner.number, text);
            self.newest.send_replace(inner.number);
        }
    }

    /// The next message after this number; `None` if there is none yet.
    pub fn after(&self, cursor: u64) -> Option<Message> {
        let inner = self.lock();
        let entries: Vec<(&u64, &Entry)> = inner.log.range(cursor + 1..).take(BATCH).collect();
        match entries.last() {
            Some((id, _)) => {
                let list: Vec<&Entry> = entries.iter().map(|(_, entry)| *entry).collect();
                let data = serde_json::to_string(&list).unwrap_or_default().into();
                Some(Message { id: **id, event: "changes", data })
            }
            None => {
                let (id, data) = &inner.state;
                (*id > cursor).then(|| Message { id: *id, event: "state", data: Arc::clone(data) })
            }
        }
    }

    /// Where a viewer continues that names this number as its last: there, or from the start if it was never given out.
    pub fn resume(&self, last: u64) -> u64 {
        if last <= self.lock().number { last } else { 0 }
    }

    /// Tells of every change of the newest number.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Whether anyone is watching.
    pub fn is_watched(&self) -> bool {
        self.newest.receiver_count() > 0
    }

    /// A panic elsewhere leaves the data valid.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, entry: Entry) {
        let key = entry.key();
        if let Some(old) = self.numbers.get(&key) {
            if self.log.get(old) == Some(&entry) {
                return;
            }
            self.log.remove(old);
        }
        self.number += 1;
        self.numbers.insert(key, self.number);
        self.log.insert(self.number, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, finished: bool) -> Entry {
        Entry::Run { folder: 0, study: "s".into(), run: name.into(), finished }
    }

    /// All messages from a cursor on.
    fn all(hub: &Hub, mut cursor: u64) -> Vec<Message> {
        std::iter::from_fn(|| hub.after(cursor).inspect(|message| cursor = message.id)).collect()
    }

    #[test]
    fn every_viewer_gets_every_entry_and_the_latest_state() {
        let hub = Hub::new();
        let state = State::default();
        hub.publish((0..450).map(|n| run(&n.to_string(), true)), &state);
        let messages = all(&hub, 0);
        assert_eq!(
            messages.iter().map(|message| message.event).collect::<Vec<_>>(),
            ["changes", "changes", "changes", "state"]
        );
        assert!(messages.is_sorted_by_key(|message| message.id));
        let entries: usize = messages[..3].iter().map(|m| m.data.matches("\"run\":").count()).sum();
        assert_eq!(entries, 450);
        // From the middle of a batch, as after a lost connection.
        assert_eq!(all(&hub, 449)[0].data.matches("\"run\":").count(), 1);
        assert_eq!(hub.after(messages[3].id), None);
        // Numbers of another server mean the start.
        assert_eq!([hub.resume(451), hub.resume(452)], [451, 0]);
    }

    #[test]
    fn what_is_replaced_takes_no_room_and_what_is_the_same_is_no_change() {
        let hub = Hub::new();
        let state = State::default();
        for n in 0..1000 {
            hub.publish([run("a", n % 2 == 0)], &state);
        }
        assert_eq!(hub.lock().log.len(), 1);
        let number = hub.lock().number;
        hub.publish([run("a", false)], &state);
        assert_eq!(hub.lock().number, number);
        assert_eq!(all(&hub, 0).len(), 2);
    }
}
