//! A batch of samples.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use relive_engine::batch::{Target, Uniform, UniformColumn};
use relive_tensor::DType;

use super::ColumnLayout;
use super::gather::gather;
use super::plan::{Plan, PlannedColumn};
use super::planner::Planner;
use super::stored::StoredSamples;
use crate::bulk::{Arrived, ColumnMemory};
use crate::{Error, ErrorKind, Result, Sample, SampleInfo};

/// Samples whose columns can be decoded into one array each.
///
/// Nothing is decoded before it is asked for. All calls work without a Tokio runtime and from any thread.
pub struct SampleBatch {
    source: Source,
    /// What the samples are like, if they are simple; worked out with the first question about columns.
    uniform: OnceLock<Option<Uniform>>,
    /// What they consist of otherwise, or if strings are asked for.
    plan: OnceLock<Result<Plan>>,
}

enum Source {
    Samples(Vec<Sample>),
    Stored(StoredSamples),
    Arrived(ArrivedSamples),
}

/// A batch that the server has put together.
struct ArrivedSamples {
    batch: Arc<Arrived>,
    /// Made when they are asked for.
    samples: OnceLock<Vec<Sample>>,
}

impl ArrivedSamples {
    fn samples(&self) -> &[Sample] {
        self.samples.get_or_init(|| samples_of(&self.batch))
    }
}

impl SampleBatch {
    /// A batch of samples that were taken by other means.
    pub fn new(samples: Vec<Sample>) -> SampleBatch {
        SampleBatch::over(Source::Samples(samples))
    }

    pub(super) fn stored(samples: StoredSamples) -> SampleBatch {
        SampleBatch::over(Source::Stored(samples))
    }

    pub(crate) fn arrived(batch: Arrived) -> SampleBatch {
        SampleBatch::over(Source::Arrived(ArrivedSamples {
            batch: Arc::new(batch),
            samples: OnceLock::new(),
        }))
    }

    fn over(source: Source) -> SampleBatch {
        SampleBatch { source, uniform: OnceLock::new(), plan: OnceLock::new() }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Samples(samples) => samples.len(),
            Source::Stored(stored) => stored.sampled().len(),
            Source::Arrived(arrived) => arrived.batch.infos().len(),
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples.
    pub fn samples(&self) -> &[Sample] {
        match &self.source {
            Source::Samples(samples) => samples,
            Source::Stored(stored) => stored.samples(),
            Source::Arrived(arrived) => arrived.samples(),
        }
    }

    /// The samples, without the batch.
    pub fn into_samples(self) -> Vec<Sample> {
        match self.source {
            Source::Samples(samples) => samples,
            Source::Stored(stored) => stored.into_samples(),
            Source::Arrived(ArrivedSamples { batch, samples }) => {
                samples.into_inner().unwrap_or_else(|| samples_of(&batch))
            }
        }
    }

    /// Where the data of a column lies already, if the server has put the batch together and all samples have as many rows:
    /// `[samples, rows, ..cell]`, as [`columns`](Self::columns) describes it. Nobody else writes to it.
    pub fn column_memory(&self, column: usize) -> Option<ColumnMemory> {
        let batch = self.in_one_piece()?;
        batch.uniform_rows(column).and_then(|_| batch.column_memory(column))
    }

    fn in_one_piece(&self) -> Option<&Arc<Arrived>> {
        match &self.source {
            Source::Arrived(arrived) => Some(&arrived.batch),
            Source::Samples(_) | Source::Stored(_) => None,
        }
    }

    /// Key, probability and so on of each sample.
    pub fn infos(&self) -> impl ExactSizeIterator<Item = SampleInfo> {
        let info = |index: usize| match &self.source {
            Source::Samples(samples) => samples.get(index).map(|sample| *sample.info()),
            Source::Stored(stored) => stored.sampled().get(index).map(SampleInfo::from),
            Source::Arrived(arrived) => arrived.batch.infos().get(index).copied(),
        };
        (0..self.len())
            .map(move |index| info(index).unwrap_or_else(|| unreachable!("there are {index} samples")))
    }

    /// Type and shape of each column, the same in every sample; no columns for a batch without samples.
    ///
    /// # Errors
    /// `InvalidArgument` if the samples differ, also if only in their number of rows (see
    /// [`columns_padded`](Self::columns_padded)): the error names the first that differs. `DataLoss` for samples that
    /// cannot be read.
    pub fn columns(&self) -> Result<Vec<ColumnLayout>> {
        if let Some((_, uniform)) = self.uniform() {
            return Ok(uniform.columns().iter().map(ColumnLayout::from).collect());
        }
        let check = |column| {
            let rows = self.rows_per_sample(column)?;
            let first = rows.first().copied().unwrap_or(1);
            match rows.iter().position(|&other| other != first) {
                Some(sample) => Err(self.ragged(&rows, column, sample)),
                None => self.layout(column, first),
            }
        };
        (0..self.num_columns()?).map(check).collect()
    }

    /// As [`columns`](Self::columns), but samples may differ in their number of rows: each column has as many as the sample
    /// with the most.
    ///
    /// # Errors
    /// As [`columns`](Self::columns), but for the rows.
    pub fn columns_padded(&self) -> Result<Vec<ColumnLayout>> {
        if let Some((_, uniform)) = self.uniform() {
            return Ok(uniform.columns().iter().map(ColumnLayout::from).collect());
        }
        let padded = |column| {
            let rows = self.rows_per_sample(column)?;
            self.layout(column, rows.into_iter().max().unwrap_or(1))
        };
        (0..self.num_columns()?).map(padded).collect()
    }

    /// Rows of a column in each sample, 1 if it is squeezed.
    ///
    /// # Errors
    /// As [`columns_padded`](Self::columns_padded), and `InvalidArgument` if there is no such column.
    pub fn rows_per_sample(&self, column: usize) -> Result<Vec<u32>> {
        self.check_column(column)?;
        match self.in_one_piece() {
            Some(batch) => Ok(batch.rows(column)),
            None => Ok(self.plan()?.rows(column).collect()),
        }
    }

    /// Decodes a column of all samples into `out`, as an array `[samples, rows, ..cell]` (`[samples, ..cell]` if it is
    /// squeezed): little endian, row-major, all of `out`.
    ///
    /// # Errors
    /// As [`columns`](Self::columns). `InvalidArgument` if there is no such column, if it is of strings, or if `out` has
    /// another size; the error gives the right one. `DataLoss` for data that cannot be decoded; what `out` then holds is
    /// unspecified.
    pub fn gather_into(&self, column: usize, out: &mut [u8]) -> Result<()> {
        self.gather_columns_into([(column, out)])
    }

    /// [`gather_into`](Self::gather_into) for several columns at once: chunks that they share are decoded once.
    ///
    /// # Errors
    /// As [`gather_into`](Self::gather_into).
    pub fn gather_columns_into<'o>(
        &self,
        targets: impl IntoIterator<Item = (usize, &'o mut [u8])>,
    ) -> Result<()> {
        let columns = self.columns()?;
        let target = |(column, out): (usize, &'o mut [u8])| {
            let layout = columns.get(column).ok_or_else(|| no_such_column(column, columns.len()))?;
            self.target(column, layout, out)
        };
        self.gather(targets.into_iter().map(target).collect::<Result<Vec<_>>>()?)
    }

    fn gather(&self, targets: Vec<Target<'_>>) -> Result<()> {
        if let Some(batch) = self.in_one_piece() {
            targets.into_iter().for_each(|target| target.out.copy_from_slice(batch.column(target.column)));
            return Ok(());
        }
        match self.uniform() {
            Some((stored, uniform)) => uniform.gather(stored.sampled(), targets).map_err(|fault| {
                let text = format!("a sample of table {:?} cannot be decoded: {fault}", stored.table());
                Error::with_source(ErrorKind::DataLoss, text, fault)
            }),
            None => gather(self.plan()?, self.samples(), targets),
        }
    }

    /// Decodes a column of samples that differ in their number of rows into `out`, as an array `[samples, max_rows, ..cell]`.
    /// Rows that a sample does not have are zeros. `mask`, `[samples, max_rows]`, is 1 for rows that are there and 0 for the
    /// others.
    ///
    /// # Errors
    /// As [`columns_padded`](Self::columns_padded). `InvalidArgument` if there is no such column, if it is of strings, if a
    /// sample has more than `max_rows` rows, or if `out` or `mask` have another size. `DataLoss` for data that cannot be
    /// decoded.
    pub fn gather_padded_into(
        &self,
        column: usize,
        max_rows: u32,
        out: &mut [u8],
        mask: &mut [u8],
    ) -> Result<()> {
        let rows_of_each = self.rows_per_sample(column)?;
        if let Some((sample, rows)) = rows_of_each.iter().enumerate().find(|(_, rows)| **rows > max_rows) {
            let key = self.key_of(sample);
            return Err(Error::invalid(format!(
                "gather: column {column} of item {key} has {rows} rows, there is room for {max_rows}"
            )));
        }
        let layout = ColumnLayout { rows: Some(max_rows), ..self.layout(column, max_rows)? };
        let room = usize::try_from(max_rows).unwrap_or(usize::MAX);
        check_size("the mask", column, self.len().checked_mul(room), mask.len())?;
        let target = self.target(column, &layout, out)?;
        target.out.fill(0);
        for (rows, row_mask) in rows_of_each.iter().zip(mask.chunks_mut(room.max(1))) {
            let there = usize::try_from(*rows).unwrap_or(usize::MAX);
            row_mask.iter_mut().enumerate().for_each(|(row, flag)| *flag = u8::from(row < there));
        }
        match self.in_one_piece() {
            Some(batch) => {
                spread(batch.column(column), &rows_of_each, target);
                Ok(())
            }
            None => gather(self.plan()?, self.samples(), vec![target]),
        }
    }

    /// The strings of a column, sample by sample, each sample's in row-major order. Samples may differ in their number of
    /// rows.
    ///
    /// # Errors
    /// As [`columns_padded`](Self::columns_padded). `InvalidArgument` if there is no such column or it is not of strings,
    /// `DataLoss` for data that cannot be decoded.
    pub fn strings(&self, column: usize) -> Result<Vec<Bytes>> {
        let plan = self.plan()?;
        let planned = self.column(plan, column)?;
        if planned.dtype != DType::String {
            return Err(Error::invalid(format!(
                "gather: column {column} is of {}, not of strings",
                planned.dtype
            )));
        }
        let mut strings = Vec::new();
        let samples = self.samples();
        for (number, sample) in samples.iter().enumerate() {
            let of_row =
                planned.cell_shape.num_elements().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            for slice in plan.part(number, column).0 {
                let Some(tensor) = plan.tensor(samples, slice.block) else { continue };
                let all = tensor.decode_strings().map_err(|fault| sample.damaged(fault))?;
                let at = |row: u32| usize::try_from(row).unwrap_or(usize::MAX).saturating_mul(of_row);
                let rows = all.get(at(slice.offset)..at(slice.offset) + at(slice.length));
                strings.extend_from_slice(rows.unwrap_or_default());
            }
        }
        Ok(strings)
    }

    fn plan(&self) -> Result<&Plan> {
        self.plan.get_or_init(|| Planner::plan(self.samples())).as_ref().map_err(Error::clone)
    }

    fn column<'a>(&self, plan: &'a Plan, column: usize) -> Result<&'a PlannedColumn> {
        plan.columns.get(column).ok_or_else(|| no_such_column(column, plan.columns.len()))
    }

    /// What the samples are like, if they are of this process, and simple.
    fn uniform(&self) -> Option<(&StoredSamples, &Uniform)> {
        let Source::Stored(stored) = &self.source else { return None };
        let uniform = self.uniform.get_or_init(|| Uniform::of(stored.sampled()));
        uniform.as_ref().map(|uniform| (stored, uniform))
    }

    fn target<'o>(&self, column: usize, layout: &ColumnLayout, out: &'o mut [u8]) -> Result<Target<'o>> {
        let row_bytes = layout.cell_bytes().ok_or_else(|| {
            let dtype = layout.dtype;
            Error::invalid(format!(
                "gather: column {column} is of {dtype}, whose elements have no fixed size"
            ))
        })?;
        check_size("the destination", column, layout.size_bytes(self.len()), out.len())?;
        let rows = usize::try_from(layout.rows.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(Target { column, row_bytes, rows, out })
    }

    fn ragged(&self, rows: &[u32], column: usize, sample: usize) -> Error {
        let at = |sample: usize| rows.get(sample).copied().unwrap_or(0);
        let (expected, got, key) = (at(0), at(sample), self.key_of(sample));
        let table = self.samples().first().map_or("", Sample::table);
        Error::invalid(format!(
            "the samples of a batch differ in column {column}: item {key} of table {table:?} has {got} rows, those before \
             have {expected}"
        ))
    }

    fn key_of(&self, sample: usize) -> u64 {
        self.infos().nth(sample).map_or(0, |info| info.key)
    }

    fn num_columns(&self) -> Result<usize> {
        match self.in_one_piece() {
            Some(batch) => Ok(batch.num_columns()),
            None => Ok(self.plan()?.columns.len()),
        }
    }

    /// A column with so many rows.
    fn layout(&self, column: usize, rows: u32) -> Result<ColumnLayout> {
        let columns = self.num_columns()?;
        let layout = match self.in_one_piece() {
            Some(batch) => batch.layout(column, rows),
            None => self.plan()?.columns.get(column).map(|planned| planned.with_rows(rows)),
        };
        layout.ok_or_else(|| no_such_column(column, columns))
    }

    fn check_column(&self, column: usize) -> Result<()> {
        let columns = self.num_columns()?;
        if column < columns { Ok(()) } else { Err(no_such_column(column, columns)) }
    }
}

fn samples_of(batch: &Arc<Arrived>) -> Vec<Sample> {
    batch.infos().iter().enumerate().map(|(at, info)| Sample::arrived(batch, at, *info)).collect()
}

/// Puts rows that lie one behind the other where each sample has room for as many as the others.
fn spread(mut data: &[u8], rows_of_each: &[u32], Target { rows: most, row_bytes, out, .. }: Target<'_>) {
    let room = (most * row_bytes).max(1);
    for (rows, out) in rows_of_each.iter().zip(out.chunks_mut(room)) {
        let bytes = *rows as usize * row_bytes;
        let (mine, rest) = data.split_at_checked(bytes).unwrap_or_default();
        if let Some(out) = out.get_mut(..mine.len()) {
            out.copy_from_slice(mine);
        }
        data = rest;
    }
}

impl From<&UniformColumn> for ColumnLayout {
    fn from(column: &UniformColumn) -> ColumnLayout {
        let UniformColumn { dtype, squeeze, cell_shape, rows } = column;
        let rows = (!squeeze).then_some(*rows);
        ColumnLayout { dtype: *dtype, rows, cell_shape: cell_shape.clone() }
    }
}

impl PlannedColumn {
    pub(super) fn with_rows(&self, rows: u32) -> ColumnLayout {
        ColumnLayout {
            dtype: self.dtype,
            rows: (!self.squeeze).then_some(rows),
            cell_shape: self.cell_shape.clone(),
        }
    }
}

fn no_such_column(column: usize, columns: usize) -> Error {
    Error::invalid(format!("gather: there is no column {column}, the samples have {columns}"))
}

fn check_size(what: &str, column: usize, expected: Option<usize>, got: usize) -> Result<()> {
    match expected {
        Some(expected) if expected == got => Ok(()),
        Some(expected) => Err(Error::invalid(format!(
            "gather: {what} of column {column} must have {expected} bytes, it has {got}"
        ))),
        None => {
            let text = format!("gather: column {column} does not fit the address space");
            Err(Error::new(ErrorKind::ResourceExhausted, text))
        }
    }
}

impl fmt::Debug for SampleBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}
