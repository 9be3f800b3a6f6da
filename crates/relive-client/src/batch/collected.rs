//! A batch of samples.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use relive_tensor::DType;

use super::ColumnLayout;
use super::gather::{Target, gather};
use super::plan::{Plan, PlannedColumn};
use super::planner::Planner;
use super::stored::StoredSamples;
use super::uniform::Uniform;
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
}

impl SampleBatch {
    /// A batch of samples that were taken by other means.
    pub fn new(samples: Vec<Sample>) -> SampleBatch {
        SampleBatch::over(Source::Samples(samples))
    }

    pub(super) fn stored(samples: StoredSamples) -> SampleBatch {
        SampleBatch::over(Source::Stored(samples))
    }

    fn over(source: Source) -> SampleBatch {
        SampleBatch { source, uniform: OnceLock::new(), plan: OnceLock::new() }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Samples(samples) => samples.len(),
            Source::Stored(stored) => stored.sampled().len(),
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
        }
    }

    /// The samples, without the batch.
    pub fn into_samples(self) -> Vec<Sample> {
        match self.source {
            Source::Samples(samples) => samples,
            Source::Stored(stored) => stored.into_samples(),
        }
    }

    /// Key, probability and so on of each sample.
    pub fn infos(&self) -> impl ExactSizeIterator<Item = SampleInfo> {
        let info = |index: usize| match &self.source {
            Source::Samples(samples) => samples.get(index).map(|sample| *sample.info()),
            Source::Stored(stored) => stored.sampled().get(index).map(SampleInfo::from),
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
            return Ok(uniform.layouts());
        }
        let plan = self.plan()?;
        let check = |(column, planned): (usize, &PlannedColumn)| {
            let rows = plan.rows(column).next().unwrap_or(1);
            match plan.rows(column).position(|other| other != rows) {
                Some(sample) => Err(self.ragged(plan, column, sample)),
                None => Ok(planned.with_rows(rows)),
            }
        };
        plan.columns.iter().enumerate().map(check).collect()
    }

    /// As [`columns`](Self::columns), but samples may differ in their number of rows: each column has as many as the sample
    /// with the most.
    ///
    /// # Errors
    /// As [`columns`](Self::columns), but for the rows.
    pub fn columns_padded(&self) -> Result<Vec<ColumnLayout>> {
        if let Some((_, uniform)) = self.uniform() {
            return Ok(uniform.layouts());
        }
        let plan = self.plan()?;
        let longest = |column| plan.rows(column).max().unwrap_or(1);
        Ok(plan
            .columns
            .iter()
            .enumerate()
            .map(|(column, planned)| planned.with_rows(longest(column)))
            .collect())
    }

    /// Rows of a column in each sample, 1 if it is squeezed.
    ///
    /// # Errors
    /// As [`columns_padded`](Self::columns_padded), and `InvalidArgument` if there is no such column.
    pub fn rows_per_sample(&self, column: usize) -> Result<Vec<u32>> {
        let plan = self.plan()?;
        self.column(plan, column)?;
        Ok(plan.rows(column).collect())
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
        match self.uniform() {
            Some((stored, uniform)) => uniform.gather(stored.sampled(), stored.table(), targets),
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
        let plan = self.plan()?;
        let planned = self.column(plan, column)?;
        if let Some((sample, rows)) = plan.rows(column).enumerate().find(|(_, rows)| *rows > max_rows) {
            let key = self.key_of(sample);
            return Err(Error::invalid(format!(
                "gather: column {column} of item {key} has {rows} rows, there is room for {max_rows}"
            )));
        }
        let layout = ColumnLayout { rows: Some(max_rows), ..planned.with_rows(max_rows) };
        let room = usize::try_from(max_rows).unwrap_or(usize::MAX);
        check_size("the mask", column, self.len().checked_mul(room), mask.len())?;
        let target = self.target(column, &layout, out)?;
        target.out.fill(0);
        for (rows, row_mask) in plan.rows(column).zip(mask.chunks_mut(room.max(1))) {
            let there = usize::try_from(rows).unwrap_or(usize::MAX);
            row_mask.iter_mut().enumerate().for_each(|(row, flag)| *flag = u8::from(row < there));
        }
        self.gather(vec![target])
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

    fn ragged(&self, plan: &Plan, column: usize, sample: usize) -> Error {
        let mut rows = plan.rows(column);
        let (expected, got) = (rows.next().unwrap_or(0), plan.rows(column).nth(sample).unwrap_or(0));
        let (key, table) = (self.key_of(sample), self.samples().first().map_or("", Sample::table));
        Error::invalid(format!(
            "the samples of a batch differ in column {column}: item {key} of table {table:?} has {got} rows, those before \
             have {expected}"
        ))
    }

    fn key_of(&self, sample: usize) -> u64 {
        self.samples().get(sample).map_or(0, |sample| sample.info().key)
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
