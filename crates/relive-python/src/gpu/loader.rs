//! Loads one batch after another.

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_gpu::select::{Selection, Selector};
use relive_gpu::{CollectOptions, Collector, ErrorKind, Pinned, Reader};

use super::background::{Background, BatchFailure, PendingBatch};
use super::batch::{self, LentCount, MAX_LENT, Parts, signed};
use super::changes::Follower;
use super::draw::{Drawn, Draws, Steps};
use super::on_device::{DeviceParts, Layout, OnDevice};
use super::raise::{Failed, OrRaise, Result, invalid};
use super::settings::{GivenWindow, selection_of, windows_of};
use super::together::Together;
use crate::arrays::array::{floats, from_elements, keys};
use crate::interpreter::fork::Owned;

/// Makes batches from a store; an iterator of arrays.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct GpuLoader(Owned<Work>);

struct Work {
    draws: Draws,
    /// Set if several ranks draw together; they then fill the queue with [`GpuLoader::share`].
    together: Option<Together>,
    collecting: Collecting,
    /// The drawn batches that have not been returned yet, in order.
    queue: VecDeque<(Drawn, PendingBatch)>,
    batch_size: u64,
    prefetch: usize,
    lent: LentCount,
}

/// Where batches are collected.
enum Collecting {
    Host(Background),
    Device(OnDevice),
}

/// The error message when a drawn batch is lost.
const TAKEN: &str = "trajectories of a batch were replaced while the connection to their rank was lost; the \
                     batch is lost, and the next call returns the next one";

/// How a loader draws and collects.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Settings<'py> {
    windows: Vec<GivenWindow<'py>>,
    batch_size: u64,
    sampling: String,
    beta: f32,
    exponent: f32,
    max_weight: f32,
    /// Whether the current step is the position after the last one.
    is_last: bool,
    seed: u64,
    prefetch: usize,
    threads: usize,
    /// The number of this process's share of the list that all ranks draw, and the number of shares; `None` if one rank
    /// draws alone.
    share: Option<(u64, u64)>,
    /// The number of the GPU that collects batches, and the Python function that returns memory for a batch.
    device: Option<(u32, Py<PyAny>)>,
}

/// The draws that have not been returned yet: indices, generations, steps, probabilities, importance weights.
type Pending<'py> = [Bound<'py, PyAny>; 5];

/// A loader's seed, the selector's state, the drawn batches, and the rows of a batch that could not be completed.
type State<'py> = (u64, Vec<u8>, Vec<Pending<'py>>, Option<Pending<'py>>);

impl GpuLoader {
    pub(super) fn new(
        py: Python<'_>,
        reader: Reader,
        follower: Option<Follower>,
        settings: &Settings<'_>,
    ) -> PyResult<GpuLoader> {
        let windows = windows_of(py, &settings.windows)?;
        let &Settings { batch_size, beta, exponent, max_weight, seed, prefetch, threads, share, .. } =
            settings;
        let selection = checked_selection(py, &settings.sampling, beta)?;
        let steps = if settings.is_last { Steps::Last } else { Steps::Random };
        let options = CollectOptions {
            batches: prefetch.saturating_add(1 + MAX_LENT),
            threads,
            ..CollectOptions::new(batch_size)
        };
        let device = settings.device.as_ref().map(|(number, memory)| (*number, memory.clone_ref(py)));
        let made = py.detach(|| {
            let collecting = match device {
                Some(device) => {
                    Collecting::Device(OnDevice::new(&reader, &windows, batch_size, device, prefetch > 0)?)
                }
                None => {
                    let collector = Collector::new(&reader, &windows, options)?;
                    Collecting::Host(Background::new(collector, prefetch > 0)?)
                }
            };
            let draws = Draws::new(reader, follower, (selection, exponent, max_weight), steps, seed)?;
            let together = share.map(|share| Together::new(batch_size, share)).transpose()?;
            let (queue, lent) = (VecDeque::new(), LentCount::default());
            Ok::<_, Failed>(Work { draws, together, collecting, queue, batch_size, prefetch, lent })
        });
        Ok(GpuLoader(Owned::new("loader", made.or_raise(py)?)))
    }

    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Work) -> PyResult<T>) -> PyResult<T> {
        match self.0.lock(py)?.as_mut() {
            Some(state) => work(state),
            None => Err(crate::error::raise_kind(
                py,
                relive_client::ErrorKind::Closed,
                "this loader was closed".to_owned(),
            )),
        }
    }
}

#[pymethods]
impl GpuLoader {
    /// Returns the next batch.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Parts<'py>> {
        self.with(py, |work| work.next(py))
    }

    /// Returns the layout of batches on the device.
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Layout<'py>> {
        self.with(py, |work| work.device(py)?.layout(py))
    }

    /// Returns the next batch on the device, for use by work in the given stream.
    fn next_on_device<'py>(&self, py: Python<'py>, stream: u64) -> PyResult<DeviceParts<'py>> {
        self.with(py, |work| work.next_on_device(py, stream))
    }

    /// Like `collect`, but returns a batch on the device, for use by work in the given stream.
    fn collect_on_device<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        steps: &Bound<'py, PyAny>,
        stream: u64,
    ) -> PyResult<DeviceParts<'py>> {
        let (indices, steps) = (keys(indices)?, crate::arrays::array::integers("steps", steps)?);
        self.with(py, |work| {
            let (drawn, pinned) = work.given(py, indices, &steps, true)?;
            let batch = work.device(py)?.start(py, &Arc::new(pinned), &drawn)?;
            OnDevice::finish(py, &batch, &drawn, stream)
        })
    }

    /// Returns whether fewer batches have been drawn than the next one and those to be drawn ahead. The ranks then draw
    /// together.
    fn is_short(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |work| Ok(work.queue.len() <= work.prefetch))
    }

    /// Returns whether a drawn batch has not been returned yet.
    fn has_batch(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |work| Ok(!work.queue.is_empty()))
    }

    /// Returns the data that this rank sends to all others before they draw.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let summary = self.with(py, |work| work.together(py, Together::summary))?;
        Ok(PyBytes::new(py, &summary))
    }

    /// Returns the draws that selected this rank's trajectories, given the data of all ranks.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn part<'py>(&self, py: Python<'py>, summaries: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
        let part = self.with(py, |work| work.together(py, |ranks, draws| ranks.part(draws, &summaries)))?;
        Ok(PyBytes::new(py, &part))
    }

    /// Merges the draws of all ranks. Returns false if another round is needed.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn share(&self, py: Python<'_>, parts: Vec<Vec<u8>>) -> PyResult<bool> {
        self.with(py, |work| {
            let Some((drawn, pinned)) = work.together(py, |ranks, draws| ranks.share(draws, &parts))? else {
                return Ok(false);
            };
            let batch = work.collecting.begin(pinned, &drawn.steps);
            work.queue.push_back((drawn, batch));
            Ok(true)
        })
    }

    /// Abandons the list that the ranks are drawing. If the ranks that failed only lacked trajectories, keeps a list whose
    /// trajectories already count as sampled.
    fn give_up(&self, py: Python<'_>, is_short: bool) -> PyResult<()> {
        self.with(py, |work| {
            work.together(py, |ranks, draws| {
                ranks.give_up(draws, is_short);
                Ok(())
            })
        })
    }

    /// Returns the batch of the given trajectories at the given steps, independent of the drawn batches; step -1 means
    /// the position after the last step. `is_sample` is whether this counts as sampling the trajectories.
    fn collect<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        steps: &Bound<'py, PyAny>,
        is_sample: bool,
    ) -> PyResult<Parts<'py>> {
        let (indices, steps) = (keys(indices)?, crate::arrays::array::integers("steps", steps)?);
        self.with(py, |work| work.collect(py, indices, &steps, is_sample))
    }

    /// Sets β of prioritized draws, from the next draw on.
    fn set_beta(&self, py: Python<'_>, beta: f32) -> PyResult<()> {
        let selection = checked_selection(py, "prioritized", beta)?;
        self.with(py, |work| {
            work.draws.selection = selection;
            Ok(())
        })
    }

    /// Returns the seed, the selector's state, the draws that have not been returned yet, and the rows of a batch that
    /// could not be completed.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        self.with(py, |work| {
            let pending =
                work.queue.iter().map(|(drawn, _)| pending_of(py, drawn)).collect::<PyResult<_>>()?;
            let unfinished = work.draws.unfinished().map(|drawn| pending_of(py, &drawn)).transpose()?;
            let kept = work.together.as_ref().map_or(0, Together::kept);
            if kept > 0 {
                tracing::warn!(
                    "the loader's state does not include {kept} trajectories that the ranks have drawn for an incomplete \
                     batch, although they count as sampled"
                );
            }
            Ok((work.draws.seed, work.draws.selector.to_bytes(), pending, unfinished))
        })
    }

    /// Resumes from the result of `state`.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn restore(
        &self,
        py: Python<'_>,
        seed: u64,
        selector: &[u8],
        pending: Vec<Pending<'_>>,
        unfinished: Option<Pending<'_>>,
    ) -> PyResult<()> {
        let selector = Selector::from_bytes(selector).or_raise(py)?;
        let drawn = pending.iter().map(drawn_of).collect::<PyResult<Vec<Drawn>>>()?;
        let unfinished = unfinished.as_ref().map(drawn_of).transpose()?;
        self.with(py, |work| py.detach(|| work.restore(seed, selector, drawn, unfinished)).or_raise(py))
    }

    /// Closes the loader; arrays of its batches stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py)
    }
}

impl Drop for GpuLoader {
    /// The thread of a loader may still be reading over the network, so waiting for its end must not hold the
    /// interpreter.
    fn drop(&mut self) {
        // Without an interpreter, the fields are dropped.
        let _ = Python::try_attach(|py| self.0.end(py));
    }
}

impl Collecting {
    /// Starts the collection, if this needs no memory from Python.
    fn begin(&self, pinned: Pinned, steps: &[u64]) -> PendingBatch {
        let pinned = Arc::new(pinned);
        match self {
            Collecting::Host(background) => background.begin(pinned, steps),
            Collecting::Device(_) => PendingBatch::Pinned(pinned),
        }
    }
}

impl Work {
    /// Releases the interpreter and runs `work` on a list that all ranks draw.
    fn together<T: Send>(
        &mut self,
        py: Python<'_>,
        act: impl FnOnce(&mut Together, &mut Draws) -> Result<T> + Send,
    ) -> PyResult<T> {
        let Work { together: Some(together), draws, .. } = self else {
            return Err(invalid(py, "this loader draws alone".to_owned()));
        };
        py.detach(|| act(together, draws)).or_raise(py)
    }

    /// Draws batches ahead. If no more can be drawn at the moment, earlier draws can still be returned.
    fn draw_ahead(&mut self, py: Python<'_>) -> PyResult<()> {
        match py.detach(|| self.fill()) {
            Err(failed) if failed.kind() == ErrorKind::Unavailable && !self.queue.is_empty() => Ok(()),
            filled => filled.or_raise(py),
        }
    }

    fn device(&self, py: Python<'_>) -> PyResult<&OnDevice> {
        match &self.collecting {
            Collecting::Device(device) => Ok(device),
            Collecting::Host(_) => Err(invalid(py, "this loader collects on the host".to_owned())),
        }
    }

    fn host(&self, py: Python<'_>) -> PyResult<&Background> {
        match &self.collecting {
            Collecting::Host(background) => Ok(background),
            Collecting::Device(_) => Err(invalid(py, "this loader collects on a device".to_owned())),
        }
    }

    fn next_on_device<'py>(&mut self, py: Python<'py>, stream: u64) -> PyResult<DeviceParts<'py>> {
        self.draw_ahead(py)?;
        let Work { collecting: Collecting::Device(device), queue, .. } = self else {
            return Err(invalid(py, "this loader collects on the host".to_owned()));
        };
        for (ahead, (drawn, batch)) in queue.iter_mut().enumerate() {
            let PendingBatch::Pinned(pinned) = batch else { continue };
            match device.start(py, pinned, drawn) {
                Ok(started) => *batch = PendingBatch::OnDevice(started),
                // A later call tries again. Until then, the first batch can be returned.
                Err(error) if ahead > 0 && error.is_instance_of::<PyException>(py) => break,
                Err(error) => return Err(error),
            }
        }
        let Some((drawn, PendingBatch::OnDevice(batch))) = queue.front() else {
            return Err(invalid(py, "no batch was drawn".to_owned()));
        };
        let parts = OnDevice::finish(py, batch, drawn, stream)?;
        queue.pop_front();
        Ok(parts)
    }

    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Parts<'py>> {
        self.host(py)?;
        self.draw_ahead(py)?;
        let Some((drawn, batch)) = self.queue.pop_front() else {
            return Err(invalid(py, "no batch was drawn".to_owned()));
        };
        let unmade = match self.host(py)?.finish(py, batch, &drawn.steps) {
            Ok(batch) => return batch::to_python(py, batch, &drawn, &self.lent),
            Err(unmade) => *unmade,
        };
        match unmade {
            BatchFailure::Interrupted(batch, error) => {
                self.queue.push_front((drawn, batch));
                Err(error)
            }
            BatchFailure::Failed(pinned, failed) if failed.kind() == ErrorKind::Unavailable => {
                self.retry(py, drawn, pinned)
            }
            BatchFailure::Failed(pinned, failed) => Err(self.keep(py, drawn, pinned, failed)),
        }
    }

    /// Collects a batch over new connections after the loss of the connections that pinned its trajectories. If that
    /// fails too, the batch is lost, so that all continuing ranks have returned the same number of batches.
    fn retry<'py>(&mut self, py: Python<'py>, drawn: Drawn, lost: Arc<Pinned>) -> PyResult<Parts<'py>> {
        let pinned = match py.detach(|| self.draws.try_pin_again(&drawn)) {
            Ok(Some(pinned)) => pinned,
            Ok(None) => return Err(Failed::new(ErrorKind::Unavailable, TAKEN.to_owned()).raise(py)),
            Err(failed) if failed.kind() == ErrorKind::Unavailable => return Err(failed.raise(py)),
            Err(failed) => return Err(self.keep(py, drawn, lost, failed)),
        };
        // The earlier pins of trajectories on this machine are kept until here, so that these trajectories cannot be
        // replaced in between.
        drop(lost);
        match self.host(py)?.finish(py, PendingBatch::Pinned(Arc::new(pinned)), &drawn.steps) {
            Ok(batch) => batch::to_python(py, batch, &drawn, &self.lent),
            Err(unmade) => match *unmade {
                BatchFailure::Failed(pinned, failed) if failed.kind() != ErrorKind::Unavailable => {
                    Err(self.keep(py, drawn, pinned, failed))
                }
                unmade => Err(unmade.raise(py)),
            },
        }
    }

    /// Leaves an unfinished batch for the next call.
    fn keep(&mut self, py: Python<'_>, drawn: Drawn, pinned: Arc<Pinned>, failed: Failed) -> PyErr {
        self.queue.push_front((drawn, PendingBatch::Pinned(pinned)));
        failed.raise(py)
    }

    /// Draws the configured number of batches ahead. The draws reflect all earlier changes.
    fn fill(&mut self) -> Result<()> {
        while self.together.is_none() && self.queue.len() <= self.prefetch {
            let (drawn, pinned) = self.draws.draw(self.batch_size)?;
            let batch = self.collecting.begin(pinned, &drawn.steps);
            self.queue.push_back((drawn, batch));
        }
        Ok(())
    }

    fn collect<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<u64>,
        steps: &[i64],
        is_sample: bool,
    ) -> PyResult<Parts<'py>> {
        let (drawn, pinned) = self.given(py, indices, steps, is_sample)?;
        let batch = self.host(py)?.finish(py, PendingBatch::Pinned(Arc::new(pinned)), &drawn.steps);
        batch::to_python(py, batch.map_err(|unmade| unmade.raise(py))?, &drawn, &self.lent)
    }

    /// Pins given trajectories, at given steps.
    fn given(
        &self,
        py: Python<'_>,
        indices: Vec<u64>,
        steps: &[i64],
        is_sample: bool,
    ) -> PyResult<(Drawn, Pinned)> {
        if steps.len() != indices.len() {
            let text =
                format!("got {} steps for {} trajectories; pass one for each", steps.len(), indices.len());
            return Err(invalid(py, text));
        }
        let reader = &self.draws.reader;
        let pin = || if is_sample { reader.pin(&indices) } else { reader.hold_each(&indices) };
        let pinned = py.detach(pin).or_raise(py)?;
        let ones = vec![1.0; indices.len()];
        let at = |(&step, row): (&i64, &relive_gpu::Trajectory)| u64::try_from(step).unwrap_or(row.length);
        let steps = steps.iter().zip(pinned.rows()).map(at).collect();
        let generations = pinned.rows().iter().map(|row| row.generation).collect();
        let drawn = Drawn { indices, generations, steps, probabilities: ones.clone(), importance: ones };
        Ok((drawn, pinned))
    }

    fn restore(
        &mut self,
        seed: u64,
        selector: Selector,
        all: Vec<Drawn>,
        unfinished: Option<Drawn>,
    ) -> Result<()> {
        let mut queue = VecDeque::with_capacity(all.len());
        for drawn in all {
            drawn.check(self.batch_size)?;
            let pinned = self.draws.pin_again(&drawn)?;
            let batch = self.collecting.begin(pinned, &drawn.steps);
            queue.push_back((drawn, batch));
        }
        let unfinished =
            unfinished.map(|drawn| self.draws.begin_again(drawn, self.batch_size)).transpose()?;
        self.draws.unfinished = unfinished;
        self.together.iter_mut().for_each(Together::forget);
        (self.queue, self.draws.seed, self.draws.selector) = (queue, seed, selector);
        Ok(())
    }
}

fn checked_selection(py: Python<'_>, sampling: &str, beta: f32) -> PyResult<Selection> {
    let Some(selection) = selection_of(sampling, beta) else {
        return Err(invalid(py, format!("unknown sampling {sampling:?}")));
    };
    selection.check().or_raise(py)?;
    Ok(selection)
}

fn pending_of<'py>(py: Python<'py>, drawn: &Drawn) -> PyResult<Pending<'py>> {
    Ok([
        signed(py, drawn.indices.iter().copied())?,
        signed(py, drawn.generations.iter().copied())?,
        signed(py, drawn.steps.iter().copied())?,
        from_elements(py, &drawn.probabilities)?,
        from_elements(py, &drawn.importance)?,
    ])
}

fn drawn_of(pending: &Pending<'_>) -> PyResult<Drawn> {
    #[expect(clippy::cast_possible_truncation, reason = "they were f32")]
    let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
    let [indices, generations, steps, probabilities, importance] = pending;
    Ok(Drawn {
        indices: keys(indices)?,
        generations: keys(generations)?,
        steps: keys(steps)?,
        probabilities: narrow(floats(probabilities)?),
        importance: narrow(floats(importance)?),
    })
}
