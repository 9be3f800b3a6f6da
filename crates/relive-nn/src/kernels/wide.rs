use pulp::WithSimd;

/// Runs a loop compiled for the widest vector instructions that the processor has.
#[inline]
pub(crate) fn wide<W: WithSimd>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}
