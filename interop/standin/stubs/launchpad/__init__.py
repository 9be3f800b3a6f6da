"""An empty module: `import acme` requires a module with this name, but does not use it here."""
