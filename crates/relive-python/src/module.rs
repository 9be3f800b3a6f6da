//! The contents of `relive._native`.

use pyo3::prelude::pymodule;

#[pymodule]
pub(crate) mod _native {
    use pyo3::prelude::*;
    use pyo3::types::PyBytes;

    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::nests::column::{CellRef, TrajectoryColumn};
    #[pymodule_export]
    use crate::nests::signature::TableSignature;
    #[pymodule_export]
    use crate::read::BatchIterator;

    #[pymodule_export]
    use crate::flow::{NotYet, PyPort, PyReader, PyWriter, Shards, Stream, Turns};
    #[pymodule_export]
    use crate::gpu::{GpuLoader, GpuReader, GpuStore, GpuWriter, gpu_unavailable};
    #[pymodule_export]
    use crate::interpreter::fork::{after_fork, before_fork};
    #[pymodule_export]
    use crate::interpreter::logs::{flush_logs, install_logging};
    #[pymodule_export]
    use crate::read::Sampler;
    #[pymodule_export]
    use crate::rl::{
        NativeEnvironment, Policy, Ring, agent_for_environment, agent_settings, check_agent,
        check_environment, end_runs, expect_environment, host_for_run, learn_for_run, load_costs,
        measure_costs, predict_costs, reference_scores, save_costs, train_agent, work_for_run,
    };
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::tables::extension::TableExtension;
    #[pymodule_export]
    use crate::tables::table::Table;
    #[pymodule_export]
    use crate::write::StructuredWriter;
    #[pymodule_export]
    use crate::write::{TrajectoryWriter, end_writers};

    /// Returns the message types of dm-reverb's protocol, as an encoded `FileDescriptorSet`.
    #[pyfunction]
    fn file_descriptor_set(py: Python<'_>) -> Bound<'_, PyBytes> {
        PyBytes::new(py, include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")))
    }

    /// Returns the step with lists of numbers replaced by arrays, as writers interpret it.
    #[pyfunction]
    fn with_lists_joined<'py>(step: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        crate::nests::nest::with_lists_joined(step)
    }

    /// Returns a value of a step as an array.
    #[pyfunction]
    fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        crate::arrays::conversion::as_array(value).map(Bound::into_any)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Loads numpy's interface, which cannot be imported any more when an object's `__del__` runs at the end.
        numpy::npyffi::is_numpy_2(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
