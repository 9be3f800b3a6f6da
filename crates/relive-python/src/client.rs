//! The client: an address, and a connection that is made when needed.

use std::future::Future;
use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relive_client::{
    BatchOptions, Client as RustClient, ClientOptions, ErrorKind, SamplerOptions, StructuredWriterOptions,
    TrajectoryWriterOptions, Transport, TransportChoice,
};
use relive_engine::Engine;
use relive_tensor::Codec;

use crate::address;
use crate::array;
use crate::batch::BatchIterator;
use crate::checkpoint_status;
use crate::codec;
use crate::error::{OrRaise, raise};
use crate::local::{self, Local};
use crate::lock::Brief;
use crate::names;
use crate::nest;
use crate::operate::{self, Change};
use crate::out::Out;
use crate::rules::Rules;
use crate::sampler::{Sampler, to_python};
use crate::security::{ClientCertificates, ClientSecurity};
use crate::servers;
use crate::structured::{self, StructuredWriter};
use crate::table::{Table, info_dict, set_chunks, status_dict, waiter_dict};
use crate::wait::{self, seconds};
use crate::writer::TrajectoryWriter;

/// A client of one server, or of many.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Client {
    address: String,
    choice: Choice,
    /// The timeout of calls without one of their own.
    timeout: Duration,
    /// Whether it behaves like dm-reverb's client where the two differ.
    as_reverb: bool,
    security: ClientSecurity,
    connected: Brief<Option<Connected>>,
    rules: Rules,
}

/// The transports that the user allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Auto,
    InProcess,
    /// Never in process.
    Server(TransportChoice),
}

/// The transports by name.
const CHOICES: [(&str, Choice); 5] = [
    ("auto", Choice::Auto),
    ("in-process", Choice::InProcess),
    ("shm", Choice::Server(TransportChoice::SharedMemory)),
    ("unix", Choice::Server(TransportChoice::Unix)),
    ("tcp", Choice::Server(TransportChoice::Tcp)),
];

impl Choice {
    fn named(name: &str) -> PyResult<Choice> {
        let found = CHOICES.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice);
        found.ok_or_else(|| {
            let known: Vec<_> = CHOICES.iter().map(|(known, _)| format!("'{known}'")).collect();
            PyValueError::new_err(format!("transport must be one of {}, got {name:?}", known.join(", ")))
        })
    }

    fn may_be_in_process(self) -> bool {
        !matches!(self, Choice::Server(_))
    }
}

struct Connected {
    process: u32,
    client: RustClient,
    /// The engine in this process that the client is connected to.
    engine: Option<Engine>,
}

impl Connected {
    fn is_of(&self, engine: Option<&Engine>) -> bool {
        match (&self.engine, engine) {
            (Some(mine), Some(other)) => local::is_same(mine, other),
            (mine, other) => mine.is_none() && other.is_none(),
        }
    }
}

impl Client {
    /// The connection, renewed after a fork and when a server starts or stops in this process.
    pub(crate) fn connect(&self, py: Python<'_>) -> PyResult<RustClient> {
        let process = std::process::id();
        let place = address::local_place(&self.address).filter(|_| self.choice.may_be_in_process());
        let (local, is_stopped) = match place.map_or(Local::Unknown, local::at) {
            Local::Serves(engine) => (Some(engine), false),
            Local::Stopped => (None, true),
            Local::Unknown => (None, false),
        };
        let known = self.connected.with(|connected| {
            let current = connected.as_ref().filter(|current| current.process == process)?;
            current.is_of(local.as_ref()).then(|| current.client.clone())
        });
        if let Some(client) = known {
            return Ok(client);
        }
        if is_stopped && !self.as_reverb {
            address::check_for_successor(py, &self.address, place)?;
        }
        let engine = local.clone();
        let client = match local {
            Some(engine) => RustClient::in_process_with(engine, self.options()),
            None if self.choice == Choice::InProcess => {
                return Err(PyValueError::new_err(format!("this process has no server at {}", self.address)));
            }
            None => {
                let runtime = wait::runtime()?;
                let _inside = runtime.enter();
                RustClient::connect_with(&self.address, self.options()).or_raise(py)?
            }
        };
        let old = self.connected.replace(Some(Connected { process, client: client.clone(), engine }));
        if let Some(old) = old
            && old.process != process
        {
            // The parent's connection: its tasks do not run here.
            std::mem::forget(old);
        }
        Ok(client)
    }

    /// Waits for the server's answer; logs a long wait with the address.
    fn ask<F>(&self, py: Python<'_>, call: &str, answer: F) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        wait::wait_because(py, call, answer, || self.no_answer())
    }

    fn no_answer(&self) -> wait::Reason<'static> {
        let text = format!("the server at {} has not answered: it is unreachable or busy", self.address);
        Box::pin(std::future::ready(text))
    }

    fn options(&self) -> ClientOptions {
        let options = self.security.apply(ClientOptions::default().timeout(self.timeout));
        match self.choice {
            Choice::Server(choice) => options.transport(choice),
            Choice::Auto | Choice::InProcess => options,
        }
    }

    /// A client whose calls may take `timeout` seconds, or as long as the client's own limit.
    fn within(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<RustClient> {
        Ok(self.connect(py)?.with_timeout(self.limit(timeout)?))
    }

    /// `timeout` in seconds, or the client's own limit.
    fn limit(&self, timeout: Option<f64>) -> PyResult<Duration> {
        if timeout.is_some() { seconds(timeout) } else { Ok(self.timeout) }
    }
}

#[pymethods]
impl Client {
    /// `transport` is one of [`CHOICES`]; `timeout` applies to calls without one of their own, in seconds.
    #[new]
    #[pyo3(signature = (address, transport = "auto", timeout = None, token = None, tls = None, *, as_reverb = false))]
    fn new(
        address: &str,
        transport: &str,
        timeout: Option<f64>,
        token: Option<String>,
        tls: Option<ClientCertificates>,
        as_reverb: bool,
    ) -> PyResult<Client> {
        Ok(Client {
            address: address::of_one_server(address).to_owned(),
            choice: Choice::named(transport)?,
            timeout: seconds(timeout)?,
            as_reverb,
            security: ClientSecurity::new(token, tls)?,
            connected: Brief::default(),
            rules: Rules::default(),
        })
    }

    /// The transport in use; the first call determines it. While no server answers, it is not known yet, and this
    /// returns `tcp`, which the first request will use.
    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.connect(py)?;
        match self.ask(py, "transport", client.negotiate())? {
            Err(error) if error.kind() == ErrorKind::FailedPrecondition => Err(raise(py, &error)),
            found => Ok(found.unwrap_or_else(|_| client.transport()).to_string()),
        }
    }

    /// The state of each of many servers; empty for a single one.
    fn servers(&self, py: Python<'_>) -> PyResult<Vec<servers::State>> {
        Ok(servers::states(&self.connect(py)?))
    }

    /// The servers that were excluded or added again.
    fn server_changes(&self, py: Python<'_>) -> PyResult<Vec<servers::Change>> {
        Ok(servers::changes(&self.connect(py)?))
    }

    /// The tables, each as the fields of `TableInfo`.
    fn server_info<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let client = self.within(py, timeout)?;
        let info = self.ask(py, "server_info", client.server_info())?.or_raise(py)?;
        info.tables.iter().map(|table| info_dict(py, table)).collect()
    }

    /// The tables with their waiters and bytes, and the server's totals; only for Relive's servers.
    fn status<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let client = self.within(py, timeout)?;
        let status = self.ask(py, "status", client.status())?.or_raise(py)?;
        let dict = PyDict::new(py);
        dict.set_item("version", &status.version)?;
        dict.set_item("uptime_s", status.uptime.as_secs_f64())?;
        dict.set_item("codecs", status.codecs.iter().map(Codec::name).collect::<Vec<_>>())?;
        dict.set_item("connections", status.connections)?;
        dict.set_item("changes", operate::logged(py, &status.changes)?)?;
        set_chunks(&dict, &status.chunks)?;
        dict.set_item("max_bytes", status.memory.max_bytes)?;
        dict.set_item("process_bytes", status.memory.process_bytes)?;
        dict.set_item("spill_error", status.memory.spill_error)?;
        let waiters = status.memory.waiters.iter().map(|waiter| waiter_dict(py, waiter));
        dict.set_item("waiters", waiters.collect::<PyResult<Vec<_>>>()?)?;
        let mut tables = Vec::with_capacity(status.tables.len());
        for table in &status.tables {
            tables.push(status_dict(py, table)?);
        }
        dict.set_item("tables", tables)?;
        Ok(dict)
    }

    /// Updates priorities and deletes items.
    fn mutate_priorities(
        &self,
        py: Python<'_>,
        table: &str,
        keys: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
        deletes: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let (keys, priorities, deletes) =
            (array::keys(keys)?, array::floats(priorities)?, array::keys(deletes)?);
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
        let call = client.mutate_priorities(table, &updates, &deletes);
        wait::now_or_wait(py, "mutate_priorities", call, || self.no_answer())?.or_raise(py)
    }

    fn reset(&self, py: Python<'_>, table: &str, timeout: Option<f64>) -> PyResult<()> {
        let client = self.within(py, timeout)?;
        self.ask(py, "reset", client.reset(table))?.or_raise(py)
    }

    /// Changes rules of a table in use; returns the changes and the number of evicted items.
    fn change_table<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        change: Change,
        timeout: Option<f64>,
    ) -> PyResult<(Vec<Bound<'py, PyDict>>, u64)> {
        let client = self.within(py, timeout)?;
        let call = client.change_table(table, change.into());
        let changed = self.rules.forgotten_after(self.ask(py, "change_table", call))?.or_raise(py)?;
        operate::changed(py, &changed)
    }

    fn add_table(&self, py: Python<'_>, table: &Table, timeout: Option<f64>) -> PyResult<()> {
        if table.has_extensions() {
            return Err(PyValueError::new_err(
                "a table that is added to a running server cannot have extensions",
            ));
        }
        let client = self.within(py, timeout)?;
        let call = client.add_table(table.config().clone());
        self.rules.forgotten_after(self.ask(py, "add_table", call))?.or_raise(py)
    }

    fn drop_table(&self, py: Python<'_>, table: &str, timeout: Option<f64>) -> PyResult<()> {
        let client = self.within(py, timeout)?;
        self.rules.forgotten_after(self.ask(py, "drop_table", client.drop_table(table)))?.or_raise(py)
    }

    fn checkpoint(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<String> {
        let client = self.within(py, timeout)?;
        self.ask(py, "checkpoint", client.checkpoint())?.or_raise(py)
    }

    /// The status of checkpoints; only for Relive's servers.
    fn checkpoint_status<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let client = self.within(py, timeout)?;
        let call = client.checkpoint_status();
        checkpoint_status::dict(py, &self.ask(py, "checkpoint_status", call)?.or_raise(py)?)
    }

    /// Writes one step as an item of each table in `priorities`. Without `check_names`, columns are matched by order.
    #[pyo3(signature = (data, priorities, timeout, *, check_names = true))]
    fn insert(
        &self,
        data: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyDict>,
        timeout: Option<f64>,
        check_names: bool,
    ) -> PyResult<()> {
        let py = data.py();
        let step = if self.as_reverb { data.clone() } else { nest::with_lists_joined(data)? };
        let step = names::step_of(&step)?;
        let priorities: Vec<(String, f64)> = priorities
            .iter()
            .map(|(table, priority)| Ok((table.extract()?, priority.extract()?)))
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
    #[expect(clippy::too_many_arguments, reason = "the options of a writer, named in Python")]
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
        if let Some(codec) = codec::chosen(codec)? {
            options = options.codec(codec);
        }
        let (client, runtime) = (self.connect(py)?, wait::runtime()?);
        let _inside = runtime.enter();
        let writer = client.trajectory_writer(options).or_raise(py)?;
        Ok(TrajectoryWriter::over(client, writer, self.timeout, self.as_reverb))
    }

    /// A writer that creates items by itself; `structured::to_config` defines the format of a configuration.
    #[pyo3(signature = (configs, *, codec = "auto"))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands lists over by value")]
    fn structured_writer(
        &self,
        py: Python<'_>,
        configs: Vec<Bound<'_, PyDict>>,
        codec: &str,
    ) -> PyResult<StructuredWriter> {
        let configs = structured::to_configs(&configs)?;
        let options = StructuredWriterOptions::default().check_names(!self.as_reverb);
        let options = codec::chosen(codec)?.map_or(options, |codec| options.codec(codec));
        let (client, runtime) = (self.connect(py)?, wait::runtime()?);
        let _inside = runtime.enter();
        Ok(StructuredWriter::over(
            client.structured_writer_with(configs, options).or_raise(py)?,
            self.timeout,
            self.as_reverb,
        ))
    }

    /// A sampler. A `rate_limiter_timeout_ms` below 0 means no timeout; a `max_samples` or `max_samples_per_stream`
    /// below 1 means no bound. With `keep_rows`, no column is squeezed.
    #[pyo3(signature = (table, *, max_in_flight_samples_per_worker = 100, num_workers = -1,
                        max_samples_per_stream = -1, rate_limiter_timeout_ms = -1, max_samples = -1, keep_rows = false))]
    #[expect(clippy::too_many_arguments, reason = "the options of a sampler, named in Python")]
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

    /// An iterator of `num_samples` samples, each of which may take `timeout` seconds. At most `ahead` are prefetched,
    /// and none from a table that deletes items when they are sampled.
    #[pyo3(signature = (table, num_samples, ahead, timeout = None))]
    fn samples(
        &self,
        py: Python<'_>,
        table: &str,
        num_samples: usize,
        ahead: usize,
        timeout: Option<f64>,
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

    /// Up to `limit` items from position `cursor` on, each as `(key, priority, times_sampled, inserted_at)`, and the
    /// position of the next page.
    #[expect(clippy::type_complexity, reason = "one tuple per item")]
    fn items(
        &self,
        py: Python<'_>,
        table: &str,
        cursor: Option<u64>,
        limit: usize,
        timeout: Option<f64>,
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

    /// The items of these keys as samples, `None` for each key without an item.
    fn get_items<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        keys: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
        let keys = array::keys(keys)?;
        let client = self.within(py, timeout)?;
        let found = self.ask(py, "get_items", client.get_items(table, &keys))?.or_raise(py)?;
        found.into_iter().map(|item| item.map(|item| to_python(py, item)).transpose()).collect()
    }

    /// The structure of `table`'s items, as far as the writers have declared it; `None` if it is not known.
    fn structure<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let client = self.within(py, timeout)?;
        let known = self.ask(py, "structure", client.column_names(table))?.or_raise(py)?;
        Ok(known.and_then(|structure| names::to_python(py, &structure)))
    }

    /// An iterator of batches; see `batch::BatchIterator`.
    #[pyo3(signature = (table, batch_size, *, timeout = None, prefetch = None, num_workers = 1, max_batches = None,
                        pad = false, out = None))]
    #[expect(clippy::too_many_arguments, reason = "the options of batches, named in Python")]
    fn batches(
        &self,
        py: Python<'_>,
        table: &str,
        batch_size: usize,
        timeout: Option<f64>,
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
