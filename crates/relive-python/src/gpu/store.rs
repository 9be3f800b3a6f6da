//! The store, in the process that creates it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_gpu::{Changed, Checkpoint, Inserted, Reader, Reweigh, State, Store, StoreOptions, Tier};

use super::changes::Hub;
use super::given::{checked_weight, insert};
use super::loader::{GpuLoader, Settings};
use super::network::{self, ServedStore};
use super::owned::Shared;
use super::raise::{OrRaise, invalid};
use super::reader::{GpuReader, metrics_of, weights_of};
use super::removal::{self, callback, removal_of};
use super::serve;
use super::settings::{GivenColumn, SchemaFields, columns_of, schema_of};
use crate::arrays::array::{floats, keys};

/// A store of trajectories.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct GpuStore(Shared<Arc<Hub>>);

/// State, generation, length, weight, insertion number, number of samples, number of pins.
type Status = (&'static str, u64, u64, f32, u64, u64, u64);

impl GpuStore {
    fn of(store: Store) -> GpuStore {
        GpuStore(Shared::new("store", Hub::new(store)))
    }

    /// Returns the store.
    pub(super) fn store(&self, py: Python<'_>) -> PyResult<Store> {
        Ok(self.0.get(py)?.store().clone())
    }
}

fn in_files(files: BTreeMap<String, PathBuf>) -> BTreeMap<String, Tier> {
    files.into_iter().map(|(column, path)| (column, Tier::File(path))).collect()
}

#[pymethods]
impl GpuStore {
    #[new]
    #[pyo3(signature = (columns, max_steps, capacity, removal, *, name, max_selectable, seed, readers, writers, shard, huge_pages, files))]
    #[expect(clippy::needless_pass_by_value, reason = "converted from Python objects")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python, where they have defaults")]
    fn new(
        py: Python<'_>,
        columns: Vec<GivenColumn<'_>>,
        max_steps: u64,
        capacity: u64,
        removal: (String, Bound<'_, PyAny>),
        name: Option<&str>,
        max_selectable: Option<u64>,
        seed: u64,
        readers: u32,
        writers: u32,
        shard: (u64, u64),
        huge_pages: bool,
        files: BTreeMap<String, PathBuf>,
    ) -> PyResult<GpuStore> {
        let schema = schema_of(py, &columns, max_steps)?;
        let Some(removal) = removal_of(&removal.0, &removal.1)? else {
            return Err(invalid(py, format!("unknown removal {:?}", removal.0)));
        };
        let options = StoreOptions {
            removal,
            max_selectable,
            seed,
            readers,
            writers,
            huge_pages,
            rank: shard.0,
            ranks: shard.1,
            tiers: in_files(files),
            ..StoreOptions::new(capacity)
        };
        let store = py.detach(|| match name {
            Some(name) => Store::create_named(name, schema, options),
            // No other process can attach to a store without a name, and private memory can have huge pages, unlike
            // shared memory.
            None => Store::create_private(schema, options),
        });
        Ok(GpuStore::of(store.or_raise(py)?))
    }

    /// Loads a store from a folder. If the saved store's removal was a function, the caller passes a function, together
    /// with the capacity and the maximum number of selectable trajectories.
    #[staticmethod]
    #[pyo3(signature = (folder, removal, *, name, readers, writers, shard, huge_pages, files))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python, where they have defaults")]
    fn load(
        py: Python<'_>,
        folder: PathBuf,
        removal: Option<(Bound<'_, PyAny>, u64, Option<u64>)>,
        name: Option<&str>,
        readers: u32,
        writers: u32,
        shard: (u64, u64),
        huge_pages: bool,
        files: BTreeMap<String, PathBuf>,
    ) -> PyResult<GpuStore> {
        let given = removal.map(|(function, capacity, max_selectable)| {
            let removal = callback(function.unbind());
            StoreOptions { removal, max_selectable, ..StoreOptions::new(capacity) }
        });
        let store = py.detach(|| {
            let checkpoint = Checkpoint::open(folder)?;
            let options = match given {
                Some(options) => options,
                None => checkpoint.options()?,
            };
            let (rank, ranks) = shard;
            let tiers = in_files(files);
            checkpoint
                .load(name, StoreOptions { readers, writers, rank, ranks, huge_pages, tiers, ..options })
        });
        Ok(GpuStore::of(store.or_raise(py)?))
    }

    /// Saves the store into a folder. Returns the checkpoint's number, the number of its trajectories, the number of
    /// trajectories that were newly written, the number of bytes written, and the number of removed files.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<(u64, u64, u64, u64, u64)> {
        let hub = self.0.get(py)?;
        let saved = py.detach(|| hub.store().save(folder)).or_raise(py)?;
        Ok((saved.number, saved.rows, saved.written_rows, saved.written_bytes, saved.removed_files))
    }

    /// Returns the name, dtype and shape of each column; the maximum number of steps; the capacity.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<SchemaFields<'py>> {
        let hub = self.0.get(py)?;
        let schema = hub.store().schema();
        Ok((columns_of(py, schema)?, schema.max_steps(), hub.store().capacity()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let hub = self.0.get(py)?;
        Ok(usize::try_from(py.detach(|| hub.store().len())).unwrap_or(usize::MAX))
    }

    /// Returns the number of trajectories that can be inserted before another one is evicted.
    fn room(&self, py: Python<'_>) -> PyResult<u64> {
        let hub = self.0.get(py)?;
        Ok(py.detach(|| hub.store().room()))
    }

    /// Inserts a trajectory: one array per column. Waits up to `timeout` seconds for a row.
    #[expect(clippy::needless_pass_by_value, reason = "converted from Python objects")]
    fn insert(
        &self,
        py: Python<'_>,
        arrays: Vec<Bound<'_, PyAny>>,
        weight: f64,
        timeout: f64,
    ) -> PyResult<(u64, u64)> {
        let patience = Duration::try_from_secs_f64(timeout)
            .map_err(|error| invalid(py, format!("timeout is {timeout}: {error}")))?;
        let (inserted, raised) = removal::watch(|| insert(py, &self.0, &arrays, weight, patience));
        // An exception from the caller's removal function takes precedence, because it may be the reason why no row was
        // free.
        match raised {
            Some(error) => Err(error),
            None => inserted.map(|Inserted { index, generation }| (index, generation)),
        }
    }

    /// Sets new weights of trajectories; returns how many were changed, and how many no longer exist.
    fn update_weights(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
        generations: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64)> {
        let hub = self.0.get(py)?;
        let places = places(py, hub.store(), indices, generations)?;
        let weights = floats(weights)?;
        if weights.len() != places.len() {
            let text =
                format!("got {} weights for {} indices; pass one for each", weights.len(), places.len());
            return Err(invalid(py, text));
        }
        let reweigh = |(place, weight): (&Inserted, f64)| {
            let weight = checked_weight(py, weight)?;
            Ok(Reweigh { index: place.index, generation: place.generation, weight })
        };
        let updates: Vec<Reweigh> = places.iter().zip(weights).map(reweigh).collect::<PyResult<_>>()?;
        let changed = py.detach(|| hub.store().update_weights(&updates)).or_raise(py)?;
        Ok(counts(changed))
    }

    /// Removes trajectories; returns how many were removed, and how many are pinned or no longer exist.
    fn remove(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        generations: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64)> {
        let hub = self.0.get(py)?;
        let places = places(py, hub.store(), indices, generations)?;
        Ok(counts(py.detach(|| hub.store().remove(&places)).or_raise(py)?))
    }

    fn status(&self, py: Python<'_>, index: u64) -> PyResult<Status> {
        let hub = self.0.get(py)?;
        let status = py.detach(|| hub.store().status(index)).or_raise(py)?;
        let state = match status.state {
            State::Free => "free",
            State::Writing => "writing",
            State::Selectable => "selectable",
            State::Pinned => "pinned",
            State::Evicting => "evicting",
        };
        let relive_gpu::Status { generation, length, weight, inserted, sampled, pins, .. } = status;
        Ok((state, generation, length, weight, inserted, sampled, pins))
    }

    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        weights_of(py, self.0.get(py)?.store().reader())
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        metrics_of(py, &self.0.get(py)?.store().metrics())
    }

    /// Handles requests from writers; waits up to `timeout` seconds for one.
    fn scan(&self, py: Python<'_>, timeout: f64) -> PyResult<serve::Scanned> {
        let (found, raised) = removal::watch(|| serve::scan(py, &self.0, timeout));
        let Some(error) = raised else { return found.map(serve::scanned) };
        if let Ok(found) = found {
            self.store(py)?.put_back(found);
        }
        Err(error)
    }

    /// Returns a column of the writers' current steps.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<serve::PyRequest>,
        column: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        serve::observe(py, self.0.get(py)?.store(), &serve::requests_of(&requests), column)
    }

    /// Writes a column of the writers' current steps.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn answer(
        &self,
        py: Python<'_>,
        requests: Vec<serve::PyRequest>,
        column: usize,
        array: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        serve::answer(py, self.0.get(py)?.store(), &serve::requests_of(&requests), column, array)
    }

    /// Gives the turn back to the writers.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn give_back(&self, py: Python<'_>, requests: Vec<serve::PyRequest>) -> PyResult<()> {
        let hub = self.0.get(py)?;
        py.detach(|| hub.store().give_back(&serve::requests_of(&requests))).or_raise(py)
    }

    /// Releases the pins held by processes that have ended; returns the number of those processes.
    fn sweep(&self, py: Python<'_>) -> PyResult<u64> {
        let hub = self.0.get(py)?;
        py.detach(|| hub.store().sweep()).or_raise(py)
    }

    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python dictionary")]
    fn loader(&self, py: Python<'_>, settings: Settings<'_>) -> PyResult<GpuLoader> {
        let hub = self.0.get(py)?;
        GpuLoader::new(py, hub.reader(), Some(hub.follow()), &settings)
    }

    /// Serves the store's rows to ranks on other machines; returns the port.
    fn serve(&self, py: Python<'_>, settings: network::Settings) -> PyResult<u16> {
        let hub = self.0.get(py)?;
        let serving = ServedStore::new(py, hub.store().reader(), settings)?;
        let port = serving.port();
        hub.serve(serving);
        Ok(port)
    }

    /// Connects this store to the stores of the other ranks. From then on, this store also reads the other stores, and
    /// all of them share one index space.
    /// Stores on other machines are given by address.
    #[expect(clippy::needless_pass_by_value, reason = "converted from Python lists")]
    fn join(
        &self,
        py: Python<'_>,
        others: Vec<PyRef<'_, GpuReader>>,
        addresses: Vec<String>,
    ) -> PyResult<()> {
        let readers = others.iter().map(|other| other.reader(py)).collect::<PyResult<Vec<Reader>>>()?;
        let hub = self.0.get(py)?;
        py.detach(|| hub.join(readers, &addresses)).or_raise(py)
    }

    /// Returns this store's rank and the number of ranks.
    fn shard(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let shard = self.0.get(py)?.store().shard();
        Ok((shard.rank(), shard.ranks()))
    }

    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

/// Returns trajectories by index and generation. Without generations, these are the current trajectories at the
/// indices.
fn places(
    py: Python<'_>,
    store: &Store,
    indices: &Bound<'_, PyAny>,
    generations: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Inserted>> {
    let indices = keys(indices)?;
    let Some(generations) = generations else {
        let now = |&index| Ok(Inserted { index, generation: store.status(index)?.generation });
        return py.detach(|| indices.iter().map(now).collect::<relive_gpu::Result<_>>()).or_raise(py);
    };
    let generations = keys(generations)?;
    if generations.len() != indices.len() {
        let (given, wanted) = (generations.len(), indices.len());
        return Err(invalid(py, format!("got {given} generations for {wanted} indices; pass one for each")));
    }
    let place = |(index, generation)| Inserted { index, generation };
    Ok(indices.into_iter().zip(generations).map(place).collect())
}

fn counts(changed: Changed) -> (u64, u64) {
    (changed.applied, changed.skipped)
}
