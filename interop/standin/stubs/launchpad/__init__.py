"""An empty module: `import acme` requires a module of this name, but does not use it here."""
