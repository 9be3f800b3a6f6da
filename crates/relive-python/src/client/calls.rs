//! The calls that a client offers, one method each.

use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relive_client::{
    BatchOptions, ErrorKind, SamplerOptions, StructuredWriterOptions, TrajectoryWriterOptions, Transport,
};

use super::choices::{Choice, codec_named};
use super::connecting::Client;
use super::status;
use crate::arguments::{Priority, Timeout, of_argument};
use crate::arrays::array;
use crate::connection::security::{ClientCertificates, ClientSecurity};
use crate::error::{OrRaise, raise};
use crate::interpreter::wait::{self, seconds};
use crate::nests::{nest, structure};
use crate::read::{BatchIterator, Out, Sampler, to_python};
use crate::tables::changes::{self, Change};
use crate::tables::status::info_dict;
use crate::tables::table::Table;
use crate::write::{StructuredWriter, TrajectoryWriter, to_configs};

#[pymethods]
impl Client {
    /// `transport` is one of `choices::CHOICES`; `timeout`, in seconds, applies to calls without their own timeout.
    #[new]
    #[pyo3(signature = (address, transport = "auto", timeout = None, token = None, tls = None, *, as_reverb = false))]
    fn new(
        address: &str,
        transport: &str,
        timeout: Option<Timeout>,
        token: Option<String>,
        tls: Option<ClientCertificates>,
        as_reverb: bool,
    ) -> PyResult<Client> {
        let (choice, timeout) = (Choice::named(transport)?, seconds(timeout.map(|timeout| timeout.0))?);
        let security = ClientSecurity::new(token, tls)?;
        Ok(Client::over(address, choice, timeout, as_reverb, security))
    }

    /// Returns the transport in use; the first call determines it. Until a server has answered, the transport is
    /// unknown, and this returns `tcp`, which the first request will use.
    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.connect(py)?;
        match self.ask(py, "transport", client.negotiate())? {
            Err(error) if error.kind() == ErrorKind::FailedPrecondition => Err(raise(py, &error)),
            found => Ok(found.unwrap_or_else(|_| client.transport()).to_string()),
        }
    }

    /// Returns the state of each server if there are many; empty for a single server.
    fn servers(&self, py: Python<'_>) -> PyResult<Vec<status::ServerState>> {
        Ok(status::servers(&self.connect(py)?))
    }

    /// Returns the log of the servers that were excluded or added again.
    fn server_changes(&self, py: Python<'_>) -> PyResult<Vec<status::ServerChange>> {
        Ok(status::server_changes(&self.connect(py)?))
    }

    /// Returns the tables, each as the fields of `TableInfo`.
    fn server_info<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Timeout>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let client = self.within(py, timeout)?;
        let info = self.ask(py, "server_info", client.server_info())?.or_raise(py)?;
        info.tables.iter().map(|table| info_dict(py, table)).collect()
    }

    /// Returns the tables with the numbers of their waiters and bytes, and the server's totals. Supported only by
    /// Relive's servers.
    fn status<'py>(&self, py: Python<'py>, timeout: Option<Timeout>) -> PyResult<Bound<'py, PyDict>> {
        let client = self.within(py, timeout)?;
        let status = self.ask(py, "status", client.status())?.or_raise(py)?;
        status::server(py, &status)
    }

    /// Updates priorities and deletes items.
    fn mutate_priorities(
        &self,
        py: Python<'_>,
        table: &str,
        keys: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
        deletes: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<()> {
        let keys = array::keys(keys).map_err(of_argument("keys", py))?;
        let priorities = array::floats(priorities).map_err(of_argument("priorities", py))?;
        let deletes = array::keys(deletes).map_err(of_argument("deletes", py))?;
        if keys.len() != priorities.len() {
            let message = format!(
                "got {} keys, but {} priorities; give one priority for each key",
                keys.len(),
                priorities.len()
            );
            return Err(PyValueError::new_err(message));
        }
        let updates: Vec<(u64, f64)> = keys.into_iter().zip(priorities).collect();
        let client = self.within(py, timeout)?;
        let call = client.mutate_priorities_call(table, &updates, &deletes);
        let answer = client.mutate_priorities(table, &updates, &deletes);
        self.finish(py, "mutate_priorities", call, answer)?.or_raise(py)
    }

    fn reset(&self, py: Python<'_>, table: &str, timeout: Option<Timeout>) -> PyResult<()> {
        let client = self.within(py, timeout)?;
        self.ask(py, "reset", client.reset(table))?.or_raise(py)
    }

    /// Changes the rules of a table in use, and returns the changes and the number of evicted items.
    fn change_table<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        change: Change,
        timeout: Option<Timeout>,
    ) -> PyResult<(Vec<Bound<'py, PyDict>>, u64)> {
        let client = self.within(py, timeout)?;
        let call = client.change_table(table, change.into());
        let changed = self.rules.invalidate_after(self.ask(py, "change_table", call))?.or_raise(py)?;
        changes::changed(py, &changed)
    }

    fn add_table(&self, py: Python<'_>, table: &Table, timeout: Option<Timeout>) -> PyResult<()> {
        if table.has_extensions() {
            return Err(PyValueError::new_err(
                "a table that is added to a running server cannot have extensions",
            ));
        }
        let client = self.within(py, timeout)?;
        let call = client.add_table(table.config().clone());
        self.rules.invalidate_after(self.ask(py, "add_table", call))?.or_raise(py)
    }

    fn drop_table(&self, py: Python<'_>, table: &str, timeout: Option<Timeout>) -> PyResult<()> {
        let client = self.within(py, timeout)?;
        self.rules.invalidate_after(self.ask(py, "drop_table", client.drop_table(table)))?.or_raise(py)
    }

    fn checkpoint(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<String> {
        let client = self.within(py, timeout)?;
        self.ask(py, "checkpoint", client.checkpoint())?.or_raise(py)
    }

    /// Returns the status of checkpoints. Supported only by Relive's servers.
    fn checkpoint_status<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Timeout>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let client = self.within(py, timeout)?;
        let call = client.checkpoint_status();
        status::checkpoints(py, &self.ask(py, "checkpoint_status", call)?.or_raise(py)?)
    }

    /// Writes one step as an item into each table in `priorities`. Without `check_names`, columns are matched by order.
    #[pyo3(signature = (data, priorities, timeout, *, check_names = true))]
    fn insert(
        &self,
        data: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyDict>,
        timeout: Option<Timeout>,
        check_names: bool,
    ) -> PyResult<()> {
        let py = data.py();
        let step = if self.as_reverb { data.clone() } else { nest::with_lists_joined(data)? };
        let step = structure::step_of(&step)?;
        let priorities: Vec<(String, f64)> = priorities
            .iter()
            .map(|(table, priority)| Ok((table.extract()?, priority.extract::<Priority>()?.0)))
            .collect::<PyResult<_>>()?;
        let priorities: Vec<(&str, f64)> =
            priorities.iter().map(|(table, priority)| (table.as_str(), *priority)).collect();
        let client = self.within(py, timeout)?;
        let first = priorities.first().map(|(table, _)| *table).unwrap_or_default();
        let why = || wait::reason_of(&client, first, wait::Operation::Insert);
        let insert = async {
            if self.as_reverb || !check_names {
                client.insert_unnamed(&step, &priorities).await
            } else {
                client.insert(&step, &priorities).await
            }
        };
        wait::now_or_wait(py, "insert", insert, why)?.or_raise(py)
    }

    #[pyo3(signature = (num_keep_alive_refs, *, validate_items = true, chunk_length = None, max_pending_items = None,
                        max_pending_bytes = None, delta_encoded = false, signature_per_step = false, codec = "auto"))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a writer, which are keyword arguments in Python"
    )]
    fn trajectory_writer(
        &self,
        py: Python<'_>,
        num_keep_alive_refs: u32,
        validate_items: bool,
        chunk_length: Option<u32>,
        max_pending_items: Option<usize>,
        max_pending_bytes: Option<usize>,
        delta_encoded: bool,
        signature_per_step: bool,
        codec: &str,
    ) -> PyResult<TrajectoryWriter> {
        let mut options = TrajectoryWriterOptions::new(num_keep_alive_refs)
            .validate_items(validate_items)
            .check_names(!self.as_reverb)
            .delta_encoded(delta_encoded)
            .signature_per_step(signature_per_step);
        if let Some(steps) = chunk_length {
            options = options.chunk_length(steps);
        }
        if let Some(items) = max_pending_items {
            options = options.max_pending_items(items);
        }
        if let Some(bytes) = max_pending_bytes {
            options = options.max_pending_bytes(bytes);
        }
        if let Some(codec) = codec_named(codec)? {
            options = options.codec(codec);
        }
        let (client, runtime) = (self.connect(py)?, wait::runtime()?);
        let _inside = runtime.enter();
        let writer = client.trajectory_writer(options).or_raise(py)?;
        Ok(TrajectoryWriter::over(client, writer, self.timeout, self.as_reverb))
    }

    /// Returns a writer that creates items automatically; `write::to_configs` defines the format of a configuration.
    #[pyo3(signature = (configs, *, codec = "auto"))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes lists by value")]
    fn structured_writer(
        &self,
        py: Python<'_>,
        configs: Vec<Bound<'_, PyDict>>,
        codec: &str,
    ) -> PyResult<StructuredWriter> {
        let configs = to_configs(&configs)?;
        let mut options = StructuredWriterOptions::default().validate_items(!self.as_reverb);
        if self.as_reverb {
            // dm-reverb's writer does not wait for the server.
            options = options.max_pending_items(usize::MAX).max_pending_bytes(usize::MAX);
        }
        let options = codec_named(codec)?.map_or(options, |codec| options.codec(codec));
        let (client, runtime) = (self.connect(py)?, wait::runtime()?);
        let _inside = runtime.enter();
        Ok(StructuredWriter::over(
            client.structured_writer_with(configs, options).or_raise(py)?,
            self.timeout,
            self.as_reverb,
        ))
    }

    /// Returns a sampler. A `rate_limiter_timeout_ms` below 0 means no timeout; a `max_samples` or
    /// `max_samples_per_stream` below 1 means no bound. With `keep_rows`, no column is squeezed.
    #[pyo3(signature = (table, *, max_in_flight_samples_per_worker = 100, num_workers = -1,
                        max_samples_per_stream = -1, rate_limiter_timeout_ms = -1, max_samples = -1, keep_rows = false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a sampler, which are keyword arguments in Python"
    )]
    fn sampler(
        &self,
        py: Python<'_>,
        table: &str,
        max_in_flight_samples_per_worker: usize,
        num_workers: i64,
        max_samples_per_stream: i64,
        rate_limiter_timeout_ms: i64,
        max_samples: i64,
        keep_rows: bool,
    ) -> PyResult<Sampler> {
        let mut options =
            SamplerOptions::default().max_in_flight_samples_per_worker(max_in_flight_samples_per_worker);
        if let Some(workers) = positive(num_workers) {
            options = options.num_workers(workers);
        }
        if let Some(samples) = positive(max_samples_per_stream) {
            options = options.max_samples_per_stream(samples);
        }
        if let Some(samples) = positive(max_samples) {
            options = options.max_samples(samples);
        }
        if let Ok(ms) = u64::try_from(rate_limiter_timeout_ms) {
            options = options.rate_limiter_timeout(Duration::from_millis(ms));
        }
        let (client, runtime) = (self.connect(py)?, wait::runtime()?);
        let _inside = runtime.enter();
        let sampler = client.sampler(table, options.unavailable_timeout(self.timeout)).or_raise(py)?;
        Ok(Sampler::streaming(client, sampler, self.timeout).keeping_rows(keep_rows))
    }

    /// Returns an iterator of `num_samples` samples, each of which may take `timeout` seconds. At most `ahead` samples
    /// are prefetched, and none are prefetched from a table that deletes items when they are sampled.
    #[pyo3(signature = (table, num_samples, ahead, timeout = None))]
    fn samples(
        &self,
        py: Python<'_>,
        table: &str,
        num_samples: usize,
        ahead: usize,
        timeout: Option<Timeout>,
    ) -> PyResult<Sampler> {
        let client = self.connect(py)?;
        let timeout = self.limit(timeout)?;
        let reads_ahead = num_samples > 1
            && client.transport() != Transport::InProcess
            && self.rules.keep_sampled_items(py, &client, table, timeout)?;
        if !reads_ahead {
            return Ok(Sampler::on_demand(client, table, num_samples, timeout));
        }
        let options = SamplerOptions::default()
            .max_samples(num_samples)
            .max_in_flight_samples_per_worker(ahead.min(num_samples))
            .unavailable_timeout(self.timeout);
        let runtime = wait::runtime()?;
        let _inside = runtime.enter();
        let sampler = client.sampler(table, options).or_raise(py)?;
        Ok(Sampler::streaming(client, sampler, timeout))
    }

    /// Returns up to `limit` items, starting at position `cursor`, and the position at which the next page starts. Each
    /// item is `(key, priority, times_sampled, inserted_at)`.
    #[expect(clippy::type_complexity, reason = "one tuple per item")]
    fn items(
        &self,
        py: Python<'_>,
        table: &str,
        cursor: Option<u64>,
        limit: usize,
        timeout: Option<Timeout>,
    ) -> PyResult<(Vec<(u64, f64, i32, f64)>, Option<u64>)> {
        let client = self.within(py, timeout)?;
        let call = client.items(table, cursor.unwrap_or(0), limit);
        let page = self.ask(py, "items", call)?.or_raise(py)?;
        let items = page.items.iter().map(|item| {
            let inserted = item.inserted_at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
            (item.key, item.priority, item.times_sampled, inserted.map_or(0.0, |since| since.as_secs_f64()))
        });
        Ok((items.collect(), page.next))
    }

    /// Returns the items with the given keys as samples, with `None` for each key that has no item.
    fn get_items<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        keys: &Bound<'py, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
        let keys = array::keys(keys)?;
        let client = self.within(py, timeout)?;
        let found = self.ask(py, "get_items", client.get_items(table, &keys))?.or_raise(py)?;
        found.into_iter().map(|item| item.map(|item| to_python(py, item)).transpose()).collect()
    }

    /// Returns the structure of `table`'s items, or `None` if no writer has declared it.
    fn structure<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        timeout: Option<Timeout>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let client = self.within(py, timeout)?;
        let known = self.ask(py, "structure", client.column_names(table))?.or_raise(py)?;
        Ok(known.and_then(|structure| structure::to_python(py, &structure)))
    }

    /// Returns an iterator of batches; see `read::BatchIterator`.
    #[pyo3(signature = (table, batch_size, *, timeout = None, prefetch = None, num_workers = 1, max_batches = None,
                        pad = false, out = None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of batches, which are keyword arguments in Python"
    )]
    fn batches(
        &self,
        py: Python<'_>,
        table: &str,
        batch_size: usize,
        timeout: Option<Timeout>,
        prefetch: Option<usize>,
        num_workers: usize,
        max_batches: Option<usize>,
        pad: bool,
        out: Option<Vec<(String, Bound<'_, PyAny>)>>,
    ) -> PyResult<BatchIterator> {
        let out = out.map(|leaves| Out::new(py, leaves, batch_size)).transpose()?;
        let mut options = BatchOptions::new(batch_size).num_workers(num_workers);
        let limit = self.limit(timeout)?;
        if limit != wait::FOREVER {
            options = options.timeout(limit);
        }
        let client = self.connect(py)?;
        if let Some(batches) = prefetch {
            options = options.prefetch(batches);
        }
        if let Some(batches) = max_batches {
            options = options.max_batches(batches);
        }
        let runtime = wait::runtime()?;
        let _inside = runtime.enter();
        let sampler = client.batches(table, options).or_raise(py)?;
        Ok(BatchIterator::new(client, sampler, pad, limit != wait::FOREVER).into_out(out))
    }
}

fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value > 0)
}
