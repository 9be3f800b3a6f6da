//! A batch of samples.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use relive_batch::SampleInfo;
use relive_batch::{Batch, BatchColumn, BatchError, ColumnMemory, Gathered};
use relive_connection::{Error, ErrorKind, Result};
use relive_table::{ItemStructure, Sampled};
use relive_tensor::{ColumnLayout, DType, Nest};

use super::names;
use super::sample::stored_samples;
use crate::samples::Sample;

/// The largest number of rows in a padded sample whose cells have no bytes, such as cells of shape `[0]`. Such rows
/// contain no data, so a server could announce 2^32 of them in a few bytes. Real items have hundreds of steps.
const MAX_EMPTY_ROWS: u32 = 1 << 16;

/// A batch of samples. Each of its columns can be decoded into one array.
///
/// Data is decoded only on request. All methods work without a Tokio runtime and from any thread.
///
/// # Example
///
/// ```
/// use relive_client::{BatchOptions, Client, Nest, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 10)).build()?);
/// for reward in [0.5_f32, 1.5] {
///     client.insert(&Nest::Leaf(Tensor::scalar(reward)), &[("steps", 1.0)]).await?;
/// }
/// let batch = client.batches("steps", BatchOptions::new(2))?.next().await.expect("a batch")?;
/// let layout = &batch.columns()?[0];
/// assert_eq!(layout.sample_shape().dims(), [1]);
///
/// let mut rewards = vec![0; layout.size_bytes(batch.len()).expect("numbers have a size")];
/// batch.gather_into(0, &mut rewards)?; // Shape [2, 1].
/// assert_eq!(rewards, [0.5_f32.to_le_bytes(), 1.5_f32.to_le_bytes()].concat());
/// assert!(batch.infos().all(|info| info.priority == 1.0));
/// # Ok(())
/// # }
/// ```
///
/// # Shapes
///
/// [`gather_into`](Self::gather_into) writes an array `[samples, rows, ..cell]`, or `[samples, ..cell]` for a squeezed
/// column: little-endian and row-major.
///
/// # Samples of different lengths
///
/// If samples differ in their number of rows, [`columns`](Self::columns) and `gather_into` fail with `InvalidArgument`.
/// [`columns_padded`](Self::columns_padded) and [`gather_padded_into`](Self::gather_padded_into) pad with zeros and
/// fill a mask.
///
/// # Errors
///
/// `DataLoss` for data that cannot be decoded. Samples whose columns differ in type, number or cell shape do not form a
/// batch. Every method that needs columns then returns the same error, but [`samples`](Self::samples) still works.
pub struct SampleBatch {
    content: Content,
    /// The samples, created on demand unless the batch was created from samples.
    samples: OnceLock<Vec<Sample>>,
    /// The structure of the table's items.
    structure: Option<Arc<ItemStructure>>,
}

enum Content {
    /// Samples with their data in their chunks.
    Planned { batch: Batch, table: Arc<str> },
    /// Gathered columns in one block of memory.
    Gathered(Arc<Gathered>),
    /// Samples that do not form a batch, and the reason.
    Apart { error: Error, infos: Vec<SampleInfo> },
}

impl SampleBatch {
    /// Creates a batch from samples that were obtained in another way.
    pub fn new(samples: Vec<Sample>) -> SampleBatch {
        let infos = || samples.iter().map(|sample| *sample.info()).collect();
        let content = match stored_samples(&samples) {
            Ok(stored) => {
                let table = samples.first().map_or("", Sample::table);
                match Batch::new(stored) {
                    Ok(batch) => Content::Planned { batch, table: table.into() },
                    Err((error, _)) => Content::Apart { error: failed(table, &error), infos: infos() },
                }
            }
            Err(error) => Content::Apart { error, infos: infos() },
        };
        let structure = names::of_all(&samples);
        SampleBatch { content, samples: OnceLock::from(samples), structure }
    }

    /// Creates a batch of samples from a table in this process.
    pub(crate) fn stored(samples: Vec<Sampled>, table: &Arc<str>) -> SampleBatch {
        match Batch::new(samples) {
            Ok(batch) => {
                let content = Content::Planned { batch, table: Arc::clone(table) };
                SampleBatch { content, samples: OnceLock::new(), structure: None }
            }
            Err((_, samples)) => SampleBatch::new(of_table(samples, table)),
        }
    }

    pub(crate) fn gathered(batch: Gathered) -> SampleBatch {
        let content = Content::Gathered(Arc::new(batch));
        SampleBatch { content, samples: OnceLock::new(), structure: None }
    }

    /// Sets the structure of the table's items.
    pub(crate) fn of_items_like(self, structure: Option<Arc<ItemStructure>>) -> SampleBatch {
        SampleBatch { structure, ..self }
    }

    /// Returns the structure that the table's items had when the batch was taken. Its leaves are the columns in order.
    /// Returns `None` if no writer has named the columns, or if the server is dm-reverb. In that case, only the order
    /// of the columns is known.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no valid names, because writers that do not check names
    /// (`TrajectoryWriterOptions::check_names`) have written items with other names or another number of columns.
    pub fn names(&self) -> Result<Option<&Arc<Nest<()>>>> {
        let Some(structure) = &self.structure else { return Ok(None) };
        names::check(structure, self.table(), self.described()?.len())?;
        Ok(Some(&structure.names))
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Planned { batch, .. } => batch.samples().len(),
            Content::Gathered(batch) => batch.infos().len(),
            Content::Apart { infos, .. } => infos.len(),
        }
    }

    /// Returns the decoded size of all data in bytes. For samples that do not form a batch, returns their stored size.
    pub fn size_bytes(&self) -> usize {
        let of =
            |sizes: &mut dyn Iterator<Item = Option<usize>>| sizes.flatten().fold(0, usize::saturating_add);
        match &self.content {
            Content::Planned { batch, .. } => {
                of(&mut batch.columns().iter().map(|column| column.size_bytes(self.len())))
            }
            Content::Gathered(batch) => {
                of(&mut batch.columns().iter().map(|column| column.column.size_bytes(self.len())))
            }
            Content::Apart { .. } => {
                of(&mut self.samples().iter().map(|sample| Some(sample.encoded_size_bytes())))
            }
        }
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the samples. The samples of a gathered batch have their own chunks instead of their writers' chunks.
    pub fn samples(&self) -> &[Sample] {
        self.samples.get_or_init(|| match &self.content {
            Content::Planned { batch, table } => of_table(batch.samples().to_vec(), table),
            Content::Gathered(batch) => of_gathered(batch),
            // Such batches are created from samples.
            Content::Apart { .. } => Vec::new(),
        })
    }

    /// Converts the batch into its samples.
    pub fn into_samples(self) -> Vec<Sample> {
        match (self.samples.into_inner(), self.content) {
            (Some(samples), _) => samples,
            (None, Content::Planned { batch, table }) => of_table(batch.into_samples(), &table),
            (None, Content::Gathered(batch)) => of_gathered(&batch),
            (None, Content::Apart { .. }) => Vec::new(),
        }
    }

    /// Returns the memory of a column, if the batch has been gathered and all samples have the same number of rows:
    /// `[samples, rows, ..cell]`, as [`columns`](Self::columns) describes it. No other code writes to this memory.
    pub fn column_memory(&self, column: usize) -> Option<ColumnMemory> {
        let Content::Gathered(batch) = &self.content else { return None };
        batch.columns().get(column).filter(|column| column.column.lengths.is_none())?;
        batch.column_memory(column)
    }

    /// Iterates over the sampling information of each sample: key, probability and further details.
    pub fn infos(&self) -> impl ExactSizeIterator<Item = SampleInfo> {
        let info = |index: usize| match &self.content {
            Content::Planned { batch, .. } => batch.samples().get(index).map(SampleInfo::from),
            Content::Gathered(batch) => batch.infos().get(index).copied(),
            Content::Apart { infos, .. } => infos.get(index).copied(),
        };
        (0..self.len())
            .map(move |index| info(index).unwrap_or_else(|| unreachable!("there are {index} samples")))
    }

    /// Returns the type and shape of each column, which are the same in every sample. A batch without samples has no
    /// columns.
    ///
    /// # Errors
    /// `InvalidArgument` if the samples differ, even if only in their number of rows (see
    /// [`columns_padded`](Self::columns_padded)). The error names the first sample that differs. `DataLoss` for samples
    /// that cannot be read.
    pub fn columns(&self) -> Result<Vec<ColumnLayout>> {
        let even = |(number, column): (usize, &BatchColumn)| match &column.lengths {
            Some(lengths) => Err(self.ragged(number, lengths)),
            None => Ok(column.layout.clone()),
        };
        self.described()?.into_iter().enumerate().map(even).collect()
    }

    /// Like [`columns`](Self::columns), but samples may differ in their number of rows: each column has the number of
    /// rows of its longest sample.
    ///
    /// # Errors
    /// The errors of [`columns`](Self::columns), except for different numbers of rows. `ResourceExhausted` if cells
    /// have no bytes and a sample has more than 65,536 rows of them: such rows contain no data, so a server could make
    /// a reader allocate any amount of memory for them.
    pub fn columns_padded(&self) -> Result<Vec<ColumnLayout>> {
        let described = self.described()?;
        for (number, column) in described.iter().enumerate() {
            let rows = column.layout.rows.filter(|_| column.layout.cell_bytes() == Some(0)).unwrap_or(0);
            if rows > MAX_EMPTY_ROWS {
                return Err(Error::new(
                    ErrorKind::ResourceExhausted,
                    format!(
                        "gather: column {number} has {rows} rows of empty cells; at most {MAX_EMPTY_ROWS} can be padded"
                    ),
                ));
            }
        }
        Ok(described.into_iter().map(|column| column.layout.clone()).collect())
    }

    /// Returns the number of rows of a column in each sample, which is 1 if the column is squeezed.
    ///
    /// # Errors
    /// The errors of [`columns_padded`](Self::columns_padded), or `InvalidArgument` if there is no such column.
    pub fn rows_per_sample(&self, column: usize) -> Result<Vec<u32>> {
        Ok(self.column(column)?.rows(self.len()))
    }

    /// Decodes a column of all samples into `out`, as an array `[samples, rows, ..cell]`, or `[samples, ..cell]` if it
    /// is squeezed: little-endian and row-major. This fills all of `out`.
    ///
    /// # Errors
    /// The errors of [`columns`](Self::columns). `InvalidArgument` if there is no such column, if it has strings, or if
    /// `out` has the wrong size; the error states the right size. `DataLoss` for data that cannot be decoded; the
    /// content of `out` is then unspecified.
    pub fn gather_into(&self, column: usize, out: &mut [u8]) -> Result<()> {
        self.gather_columns_into([(column, out)])
    }

    /// Like [`gather_into`](Self::gather_into), but for several columns at once. Chunks that they share are decoded
    /// once.
    ///
    /// # Errors
    /// The errors of [`gather_into`](Self::gather_into).
    pub fn gather_columns_into<'o>(
        &self,
        targets: impl IntoIterator<Item = (usize, &'o mut [u8])>,
    ) -> Result<()> {
        let columns = self.columns()?;
        let check = |(column, out): (usize, &'o mut [u8])| {
            let layout = columns.get(column).ok_or_else(|| no_such_column(column, columns.len()))?;
            self.check_place(column, layout, out)?;
            Ok((column, out))
        };
        let targets = targets.into_iter().map(check).collect::<Result<Vec<_>>>()?;
        match &self.content {
            Content::Planned { batch, table } => {
                batch.gather_into(targets).map_err(|error| failed(table, &error))
            }
            Content::Gathered(batch) => {
                targets.into_iter().for_each(|(column, out)| out.copy_from_slice(batch.column(column)));
                Ok(())
            }
            Content::Apart { error, .. } => Err(error.clone()),
        }
    }

    /// Decodes a column of samples with different numbers of rows into `out`, as an array `[samples, max_rows,
    /// ..cell]`. Missing rows are zeros. `mask`, if given, has the shape `[samples, max_rows]`: 1 for existing rows and
    /// 0 for missing ones.
    ///
    /// # Errors
    /// The errors of [`columns_padded`](Self::columns_padded). `InvalidArgument` if there is no such column, if it has
    /// strings, if a sample has more than `max_rows` rows, or if `out` or `mask` has the wrong size. `DataLoss` for
    /// data that cannot be decoded.
    pub fn gather_padded_into(
        &self,
        column: usize,
        max_rows: u32,
        out: &mut [u8],
        mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let described = self.column(column)?;
        let rows_of_each = described.rows(self.len());
        if let Some((sample, rows)) = rows_of_each.iter().enumerate().find(|(_, rows)| **rows > max_rows) {
            let key = self.key_of(sample);
            return Err(Error::invalid(format!(
                "gather: column {column} of item {key} has {rows} rows, but there is room for {max_rows}"
            )));
        }
        let room = usize::try_from(max_rows).unwrap_or(usize::MAX);
        if let Some(mask) = &mask {
            check_size("the mask", column, self.len().checked_mul(room), mask.len())?;
        }
        let layout = ColumnLayout { rows: Some(max_rows), ..described.layout.clone() };
        self.check_place(column, &layout, out)?;
        out.fill(0);
        let rows_of_mask = mask.unwrap_or_default().chunks_mut(room.max(1));
        for (rows, row_mask) in rows_of_each.iter().zip(rows_of_mask) {
            let there = usize::try_from(*rows).unwrap_or(usize::MAX);
            row_mask.iter_mut().enumerate().for_each(|(row, flag)| *flag = u8::from(row < there));
        }
        let padded = match &self.content {
            Content::Planned { batch, .. } => batch.gather_padded_into(column, max_rows, out),
            Content::Gathered(batch) => batch.pad_into(column, max_rows, out),
            Content::Apart { error, .. } => return Err(error.clone()),
        };
        padded.map_err(|error| failed(self.table(), &error))
    }

    /// Returns the strings of a column, sample by sample, in row-major order. Samples may differ in their number of
    /// rows.
    ///
    /// # Errors
    /// The errors of [`columns_padded`](Self::columns_padded). `InvalidArgument` if there is no such column or it has
    /// no strings; `DataLoss` for data that cannot be decoded.
    pub fn strings(&self, column: usize) -> Result<Vec<Bytes>> {
        let dtype = self.column(column)?.layout.dtype;
        match &self.content {
            Content::Planned { batch, table } if dtype == DType::String => {
                batch.strings(column).map_err(|error| failed(table, &error))
            }
            _ => Err(Error::invalid(format!("gather: column {column} has dtype {dtype}, not string"))),
        }
    }

    fn described(&self) -> Result<Vec<&BatchColumn>> {
        match &self.content {
            Content::Planned { batch, .. } => Ok(batch.columns().iter().collect()),
            Content::Gathered(batch) => Ok(batch.columns().iter().map(|column| &column.column).collect()),
            Content::Apart { error, .. } => Err(error.clone()),
        }
    }

    fn column(&self, column: usize) -> Result<&BatchColumn> {
        let (found, columns) = match &self.content {
            Content::Planned { batch, .. } => (batch.columns().get(column), batch.columns().len()),
            Content::Gathered(batch) => {
                (batch.columns().get(column).map(|column| &column.column), batch.columns().len())
            }
            Content::Apart { error, .. } => return Err(error.clone()),
        };
        found.ok_or_else(|| no_such_column(column, columns))
    }

    fn check_place(&self, column: usize, layout: &ColumnLayout, out: &[u8]) -> Result<()> {
        if layout.cell_bytes().is_none() {
            let dtype = layout.dtype;
            return Err(Error::invalid(format!(
                "gather: column {column} has dtype {dtype}, whose elements have no fixed size"
            )));
        }
        check_size("the destination", column, layout.size_bytes(self.len()), out.len())
    }

    fn ragged(&self, column: usize, rows: &[u32]) -> Error {
        let expected = rows.first().copied().unwrap_or(0);
        let sample = rows.iter().position(|&rows| rows != expected).unwrap_or(0);
        let (got, key, table) = (rows.get(sample).copied().unwrap_or(0), self.key_of(sample), self.table());
        Error::invalid(format!(
            "the samples of a batch differ in column {column}: item {key} of table {table:?} has {got} rows, \
             but those before it have {expected}; batch items of different lengths with padding: in Python with \
             batches(…, pad=True), in Rust with columns_padded() or gather_padded_into()"
        ))
    }

    fn table(&self) -> &str {
        match &self.content {
            Content::Planned { table, .. } => table,
            Content::Gathered(batch) => batch.table(),
            Content::Apart { .. } => self.samples().first().map_or("", Sample::table),
        }
    }

    fn key_of(&self, sample: usize) -> u64 {
        self.infos().nth(sample).map_or(0, |info| info.key)
    }
}

fn of_table(samples: Vec<Sampled>, table: &Arc<str>) -> Vec<Sample> {
    samples.into_iter().map(|sampled| Sample::stored(sampled, table)).collect()
}

fn of_gathered(batch: &Arc<Gathered>) -> Vec<Sample> {
    batch.infos().iter().enumerate().map(|(at, info)| Sample::gathered(batch, at, *info)).collect()
}

/// Returns the error for samples of `table`.
fn failed(table: &str, error: &BatchError) -> Error {
    match error {
        BatchError::Differ { key, column, expected, got } => {
            let of = column.map_or_else(String::new, |column| format!(" in column {column}"));
            Error::invalid(format!(
                "the samples of a batch differ{of}: item {key} of table {table:?} has {got}, but those before it have {expected}"
            ))
        }
        BatchError::Damaged(fault) => {
            let text = format!("cannot decode a sample of table {table:?}: {fault}");
            Error::with_source(ErrorKind::DataLoss, text, fault.clone())
        }
        BatchError::OutOfMemory { .. } | BatchError::TooLarge { .. } => {
            Error::new(ErrorKind::ResourceExhausted, format!("gather: {error}"))
        }
        other => Error::new(ErrorKind::DataLoss, format!("a sample of table {table:?}: {other}")),
    }
}

fn no_such_column(column: usize, columns: usize) -> Error {
    Error::invalid(format!("gather: there is no column {column}; the samples have {columns}"))
}

fn check_size(what: &str, column: usize, expected: Option<usize>, got: usize) -> Result<()> {
    match expected {
        Some(expected) if expected == got => Ok(()),
        Some(expected) => Err(Error::invalid(format!(
            "gather: {what} of column {column} must have {expected} bytes, got {got}"
        ))),
        None => {
            let text = format!("gather: column {column} exceeds the address space");
            Err(Error::new(ErrorKind::ResourceExhausted, text))
        }
    }
}

impl fmt::Debug for SampleBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}
