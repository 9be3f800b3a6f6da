//! Reference models, conformance suites and other tools for tests of Relive. For development only.
